//! The `tidemill` command: every role of the pipeline in one binary, and the tools of the people who use it.

mod announce;
mod archive;
mod arguments;
mod broker;
mod cache;
mod compare;
mod csv;
mod data_dir;
mod dead;
mod demo;
mod doctor;
mod evaluate;
mod exit;
mod held;
mod items;
mod live;
mod output;
mod regrade;
mod replicas;
mod results;
mod roles;
mod session;
mod sheet;
mod stops;
mod streams;
mod suite;
mod table;
mod up;
mod view;
mod watch;

use std::process::ExitCode;

use arguments::{Arguments, Command};
use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _};

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return exit::usage(&error),
    };
    match arguments.command {
        Command::Loader(args) => tidemill_service::run("loader", &args, |context| {
            tidemill_loader::run(context, tidemill_loader::Scope::All)
        }),
        Command::Generator(args) => tidemill_service::run("generator", &args, tidemill_generator::run),
        Command::Grader(args) => tidemill_service::run("grader", &args, tidemill_grader::run),
        Command::Aggregator(args) => tidemill_service::run("aggregator", &args, tidemill_aggregator::run),
        Command::Engine(args) => engine(*args),
        Command::ExecWithParent(args) => broker::exec_with_parent(&args),
        Command::Evaluate(args) => exit::of(evaluate::run(args)),
        Command::Demo(args) => exit::of(demo::run(args)),
        Command::Up(args) => exit::of(up::run(args)),
        Command::Announce(args) => exit::of(announce::run(args)),
        Command::Results(args) => exit::of(results::run(args)),
        Command::Items(args) => exit::of(items::run(args)),
        Command::Compare(args) => exit::of(compare::run(args)),
        Command::Regrade(args) => exit::of(regrade::run(args)),
        Command::Suite(args) => exit::of(suite::run(args)),
        Command::Archive(args) => exit::of(archive::run(args)),
        Command::Watch(args) => exit::of(watch::run(args)),
        Command::Dead(args) => exit::of(dead::run(args)),
        Command::Doctor(args) => exit::of(doctor::run(args)),
        Command::Streams(args) => exit::of(streams::run(args)),
        Command::Cache(args) => exit::of(cache::run(args)),
    }
}

/// Serves what the arguments name.
fn engine(args: arguments::Engine) -> ExitCode {
    match (args.simulate, args.embedded) {
        (Some(file), _) => tidemill_simulated::run(&file),
        (None, Some(embedded)) => tidemill_engine::run(embedded),
        (None, None) => {
            let message = "either --checkpoint DIR or --simulate FILE says what to serve";
            exit::usage(&Arguments::command().error(ErrorKind::MissingRequiredArgument, message))
        }
    }
}
