//! Defaults, a file and the environment, the later over the earlier; every wrong section is reported at once.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use crate::Config;

/// What is wrong with the configuration; every problem is listed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("read configuration {path}: {source}; `tidemill up --dump-config` prints one")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file or the environment does not fit.
    #[error("configuration{}: {}", .path.as_ref().map(|path| format!(" {}", path.display())).unwrap_or_default(), .problems.join("; "))]
    Invalid {
        /// The file, where there was one.
        path: Option<PathBuf>,
        /// Each problem.
        problems: Vec<String>,
    },
}

const PREFIX: &str = "TIDEMILL_";

/// What is wrong with a section, and with which of its keys.
fn told(error: &toml::de::Error, section: &str) -> String {
    let whole = error.to_string();
    let place = |line: &str| Some(line.strip_prefix("in `")?.strip_suffix('`')?.to_owned());
    let place = whole.lines().filter_map(place).next_back();
    let key = place.and_then(|place| Some(place.strip_prefix(section)?.strip_prefix('.')?.to_owned()));
    match key {
        Some(key) => format!("{key}: {}", error.message()),
        None => error.message().to_owned(),
    }
}

/// Loads the configuration: defaults, then `file`, then variables such as `TIDEMILL_GENERATOR__MAX_IN_FLIGHT`.
///
/// `environment` is passed in, so that tests need not change the process's own. Variables without a double underscore are
/// not configuration and are left alone.
///
/// # Errors
/// [`Error`], with every problem that was found.
pub fn load(file: Option<&Path>, environment: impl IntoIterator<Item = (String, String)>) -> Result<Config, Error> {
    let invalid = |problems| Error::Invalid {
        path: file.map(Path::to_owned),
        problems,
    };
    let mut problems = Vec::new();
    let mut table = Table::new();
    if let Some(path) = file {
        let text = std::fs::read_to_string(path).map_err(|source| Error::Read {
            path: path.to_owned(),
            source,
        })?;
        table = text
            .parse::<Table>()
            .map_err(|error| invalid(vec![error.to_string()]))?;
    }
    let mut variables = Vec::new();
    for (name, value) in environment {
        if let Some((section, field)) = name.strip_prefix(PREFIX).and_then(|name| name.split_once("__")) {
            set(&mut table, &section.to_lowercase(), &field.to_lowercase(), &value);
            variables.push(name);
        }
    }
    let mut config = Table::new();
    for (section, value) in table {
        // Each section alone, so that one error does not hide the next.
        let single = Table::from_iter([(section.clone(), value.clone())]);
        match single.try_into::<Config>() {
            Ok(_) => drop(config.insert(section, value)),
            Err(error) => {
                let said = told(&error, &section);
                problems.push(format!(
                    "[{section}] {said}{}",
                    from_environment(&section, &said, &variables)
                ));
            }
        }
    }
    if !problems.is_empty() {
        return Err(invalid(problems));
    }
    config
        .try_into()
        .map_err(|error: toml::de::Error| invalid(vec![error.message().to_owned()]))
}

/// Which variable of the environment a problem is of, where it names the field that one sets or the section that only they have.
fn from_environment(section: &str, said: &str, variables: &[String]) -> String {
    let is_it = |name: &&String| {
        let key = name.strip_prefix(PREFIX).unwrap_or(name).to_lowercase();
        let field = key.split_once("__").filter(|(known, _)| *known == section);
        field.is_some_and(|(_, field)| said.contains(field))
    };
    let found = variables.iter().find(is_it);
    found.map_or_else(String::new, |name| format!(" (from {name} of the environment)"))
}

fn set(table: &mut Table, section: &str, field: &str, text: &str) {
    let value = text
        .parse::<i64>()
        .map(Value::Integer)
        .or_else(|_| text.parse::<bool>().map(Value::Boolean))
        .unwrap_or_else(|_| Value::String(text.to_owned()));
    let section = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
    if let Value::Table(section) = section {
        section.insert(field.to_owned(), value);
    }
}

/// The effective configuration as TOML.
#[must_use]
pub fn dump(config: &Config) -> String {
    toml::to_string_pretty(config).unwrap_or_else(|error| format!("# cannot be shown: {error}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn variables(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn environment_overrides_file_overrides_defaults() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tidemill.toml");
        std::fs::write(
            &file,
            "[generator]\nmax_in_flight = 7\nattempts = 9\n[loader]\nengine_patience = \"3s\"\n",
        )
        .unwrap();
        let environment = variables(&[
            ("TIDEMILL_GENERATOR__MAX_IN_FLIGHT", "8"),
            ("TIDEMILL_NATS", "x"),
            ("HOME", "/"),
        ]);
        let config = load(Some(&file), environment).unwrap();
        assert_eq!(config.generator.max_in_flight, 8);
        assert_eq!(config.generator.attempts, 9);
        assert_eq!(config.loader.engine_patience, Duration::from_secs(3));
        assert_eq!(config.grader, crate::Grader::default());
    }

    #[test]
    fn every_problem_is_reported_at_once() {
        let environment = variables(&[
            ("TIDEMILL_GENERATOR__MAX_IN_FLIHGT", "8"),
            ("TIDEMILL_LOADER__ENGINE_PATIENCE", "soon"),
            ("TIDEMILL_LAODER__X", "1"),
        ]);
        let text = load(None, environment).unwrap_err().to_string();
        for part in [
            "max_in_flihgt",
            "from TIDEMILL_GENERATOR__MAX_IN_FLIHGT of the environment",
            "soon",
            "from TIDEMILL_LOADER__ENGINE_PATIENCE of the environment",
            "laoder",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn copies_and_sync_are_read_or_refused_with_what_is_possible() {
        let broker = |replicas, sync| {
            load(
                None,
                variables(&[
                    ("TIDEMILL_BROKER__REPLICAS", replicas),
                    ("TIDEMILL_BROKER__SYNC_INTERVAL", sync),
                ]),
            )
        };
        let read = broker("3", "always").unwrap().broker;
        assert_eq!((read.replicas, read.sync_interval), (3, crate::SyncInterval::Always));
        let sync = broker("1", "1500ms").unwrap().broker.sync_interval;
        assert_eq!(sync.to_string(), "1500ms");
        let refused = broker("2", "30s").unwrap_err().to_string();
        assert!(refused.contains("1, 3 or 5"), "{refused}");
        let refused = broker("1", "0s").unwrap_err().to_string();
        assert!(refused.contains("always"), "{refused}");
    }

    #[test]
    fn what_nothing_could_be_done_with_is_refused_with_its_key() {
        for (variable, value, key) in [
            ("TIDEMILL_GENERATOR__MAX_IN_FLIGHT", "0", "max_in_flight"),
            ("TIDEMILL_GENERATOR__ATTEMPTS", "0", "attempts"),
            ("TIDEMILL_GENERATOR__REQUEST_TIMEOUT", "0s", "request_timeout"),
            ("TIDEMILL_GENERATOR__STALL_TIMEOUT", "0ms", "stall_timeout"),
            ("TIDEMILL_LOADER__MAX_IN_FLIGHT", "0", "max_in_flight"),
            ("TIDEMILL_LOADER__MAX_UNGRADED", "0", "max_ungraded"),
            ("TIDEMILL_GRADER__MAX_IN_FLIGHT", "0", "max_in_flight"),
            ("TIDEMILL_AGGREGATOR__PUBLISH_INTERVAL", "0s", "publish_interval"),
        ] {
            let refused = load(None, variables(&[(variable, value)])).unwrap_err().to_string();
            assert!(refused.contains(key), "{variable}: {refused}");
        }
    }

    #[test]
    fn a_judge_needs_an_address_and_a_model_and_its_key_is_no_field() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tidemill.toml");
        let read = |fields: &str| {
            std::fs::write(&file, format!("[grader.judge.main]\n{fields}")).unwrap();
            load(Some(&file), [])
        };
        let config = read("url = \"http://host\"\nmodel = \"m\"\npatience = \"1h\"\nkey_variable = \"KEY\"\n").unwrap();
        let judge = &config.grader.judge["main"];
        assert_eq!((judge.attempts, judge.patience), (3, Duration::from_secs(3_600)));
        std::fs::write(&file, dump(&config)).unwrap();
        assert_eq!(load(Some(&file), []).unwrap(), config);
        for (fields, missing) in [
            ("url = \"http://host\"\n", "model"),
            ("model = \"m\"\n", "url"),
            (
                "url = \"http://host\"\nmodel = \"m\"\napi_key = \"secret\"\n",
                "api_key",
            ),
        ] {
            let said = read(fields).unwrap_err().to_string();
            assert!(said.contains(missing), "{said}");
        }
    }

    #[test]
    fn the_dump_loads_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("dump.toml");
        std::fs::write(&file, dump(&Config::default())).unwrap();
        assert_eq!(load(Some(&file), []).unwrap(), Config::default());
    }
}
