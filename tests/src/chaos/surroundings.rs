//! A broker whose disk can be filled.

use anyhow::{Result, ensure};
use tidemill_testkit::{Broker, SmallDisk};

use super::scenario::{Action, Scenario};

/// Enough for a run, and soon filled.
const DISK_BYTES: u64 = 64 << 20;

/// What a server may promise its streams; it would promise them no more than its disk has.
const ROOM: &str = "jetstream { max_file_store: 32GB }";

/// What stands for a full disk where there can be none.
const NO_ROOM: &str = "jetstream { max_file_store: 1KB }";

/// A broker for the scenario: on a small disk where that is filled.
pub(super) fn broker(scenario: &Scenario) -> Result<Broker> {
    let is_filled = scenario
        .steps
        .iter()
        .any(|step| matches!(step.action, Action::FullDisk(_)));
    if !is_filled {
        return Broker::start();
    }
    match SmallDisk::new(DISK_BYTES) {
        Ok(disk) => Broker::start_on(disk, ROOM),
        Err(error) => {
            warn(&format!("NOT A REAL FULL DISK, but the broker's own limit: {error:#}"));
            Broker::start()
        }
    }
}

#[expect(clippy::print_stderr, reason = "whoever runs this must see it")]
fn warn(line: &str) {
    eprintln!("{line}");
}

/// Takes the broker's room away.
pub(super) fn fill(broker: &mut Broker) -> Result<()> {
    let Some(disk) = broker.disk() else {
        return broker.restart_with(NO_ROOM);
    };
    let ballast = format!("of={}", disk.path().join("ballast").display());
    let filled = disk
        .command("dd")
        .args(["if=/dev/zero", "bs=4096", &ballast])
        .output()?;
    ensure!(
        !filled.status.success() && disk.free()? == 0,
        "the disk is not full: {filled:?}"
    );
    Ok(())
}

/// Gives it back. A server that met a full disk may have switched its streams off: it is started again, as people are told.
pub(super) fn empty(broker: &mut Broker) -> Result<()> {
    let Some(disk) = broker.disk() else {
        return broker.restart_with("");
    };
    let emptied = disk.command("rm").arg(disk.path().join("ballast")).status()?;
    ensure!(emptied.success(), "the disk was not emptied");
    broker.restart()
}
