//! The processes of one run: started, disturbed, replaced.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tidemill_service::fault::{Point, VARIABLE};
use tidemill_testkit::process::Launch;
use tidemill_testkit::{Broker, FakeEngine, Proxy, Service};

use super::evidence;
use super::scenario::{Action, Fault, Network, Role, Scenario};
use super::surroundings;
use super::work::Work;
use crate::{GENERATED, Workbench, tidemill, workspace};

/// Longest wait for anything, on a machine that is busy with other runs.
const PATIENCE: Duration = Duration::from_secs(240);

/// How often processes and progress are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Items in flight over all generators: few, so that a run lasts long enough to be disturbed.
pub(super) const IN_FLIGHT: u64 = 12;

/// How long a process that was suspended is watched after it goes on.
const AFTERMATH: Duration = Duration::from_secs(4);

/// How long an engine that ended stays away.
const ENGINE_AWAY: Duration = Duration::from_millis(500);

/// Lines of each process's log in an error.
const SHOWN_LINES: usize = 25;

/// The file that moves the services' clocks.
const CLOCK: &str = "clock";

/// A disturbance as it happened.
#[derive(Debug, Clone)]
pub(super) struct Hit {
    /// What was done.
    pub(super) what: String,
    /// When it began: what was in flight then may be asked again.
    pub(super) from: SystemTime,
    /// When everything ran again.
    pub(super) to: SystemTime,
    /// Processes that ended.
    pub(super) kills: u64,
    /// It can cost a request that was in flight, or the knowledge of its answer: none of the others excuses a second one.
    pub(super) loses_requests: bool,
    /// The broker ended, and may have forgotten what it had delivered to generators that live on.
    pub(super) forgets: bool,
}

/// A process of a role.
struct Slot {
    role: Role,
    service: Service,
    fault: Option<Fault>,
    /// Suspended since, and until.
    suspended: Option<(SystemTime, Instant)>,
}

/// The processes of one run.
pub(super) struct Pipeline {
    work: Work,
    broker: Broker,
    bench: Workbench,
    engine: Option<FakeEngine>,
    slots: Vec<Slot>,
    /// What stands between a role's processes and the broker, where that fails in the scenario.
    proxies: HashMap<Role, Proxy>,
    faults: HashMap<Role, VecDeque<Fault>>,
    pub(super) passed: Vec<Point>,
    pub(super) hits: Vec<Hit>,
    /// When the last suspended process went on.
    resumed: Option<Instant>,
}

impl Pipeline {
    /// Starts broker, engine and every role, armed as the scenario says.
    pub(super) fn start(scenario: &Scenario) -> Result<Self> {
        let bench = Workbench::new(scenario.work.items())?;
        let engine = match scenario.work {
            Work::Scripted(_) => Some(Work::engine()?),
            Work::Embedded(_) => {
                bench.write("suite.toml", GENERATED)?;
                None
            }
        };
        let mut faults: HashMap<Role, VecDeque<Fault>> = HashMap::new();
        for fault in &scenario.faults {
            faults.entry(fault.role).or_default().push_back(*fault);
        }
        let broker = surroundings::broker(scenario)?;
        let failing = scenario.steps.iter().filter_map(|step| match step.action {
            Action::Network(role, ..) => Some(role),
            _ => None,
        });
        let mut proxies = HashMap::new();
        for role in failing {
            proxies.insert(role, Proxy::start(broker.port())?);
        }
        bench.write(CLOCK, "0")?;
        let mut pipeline = Self {
            work: scenario.work,
            broker,
            proxies,
            bench,
            engine,
            slots: Vec::new(),
            faults,
            passed: Vec::new(),
            hits: Vec::new(),
            resumed: None,
        };
        let applied = tidemill(&["streams", "apply", "--nats", &pipeline.broker.url()])?;
        ensure!(applied.code == Some(0), "streams apply: {}", applied.log);
        pipeline.start_services()?;
        Ok(pipeline)
    }

    fn start_services(&mut self) -> Result<()> {
        for role in Role::ALL {
            // A second holder of a lease would pass the points in the place of the armed one.
            let is_armed = self.faults.get(&role).is_some_and(|faults| !faults.is_empty());
            let processes = if is_armed && role == Role::Aggregator {
                1
            } else {
                role.processes()
            };
            for _ in 0..processes {
                self.spawn(role)?;
            }
        }
        Ok(())
    }

    /// Starts one process, with the role's next fault if there is one.
    fn spawn(&mut self, role: Role) -> Result<()> {
        let is_armed = self.slots.iter().any(|slot| slot.role == role && slot.fault.is_some());
        let queue = self.faults.get_mut(&role).filter(|_| !is_armed);
        let fault = queue.and_then(VecDeque::pop_front);
        let mut launch = logged(Service::tidemill()?, role)
            .args([
                role.name(),
                "--nats",
                &self.broker_of(role),
                "--data-dir",
                &self.bench.text("data"),
            ])
            .env_remove("NATS_URL")
            .env("TIDEMILL_CLOCK_OFFSET_FILE", self.bench.path(CLOCK))
            .env("TIDEMILL_LOADER__MAX_IN_FLIGHT", IN_FLIGHT.to_string())
            .env("TIDEMILL_AGGREGATOR__PUBLISH_INTERVAL", "200ms");
        if matches!(self.work, Work::Embedded(_)) {
            // Every answer streams and is saved at each token, so that kills meet what is saved.
            launch = launch
                .env("TIDEMILL_GENERATOR__MAX_IN_FLIGHT", "2")
                .env("TIDEMILL_GENERATOR__STREAM_ABOVE", "0")
                .env("TIDEMILL_GENERATOR__PARK_EVERY_TOKENS", "1");
        }
        if let Some(Fault {
            point,
            passing,
            is_stop,
            ..
        }) = fault
        {
            let stop = if is_stop { ":stop" } else { "" };
            launch = launch.env(VARIABLE, format!("{}:{passing}{stop}", point.name()));
        }
        self.slots.push(Slot {
            role,
            service: launch.spawn()?,
            fault,
            suspended: None,
        });
        if fault.is_some_and(|fault| fault.point == Point::DeadLetterStored) {
            // What no loader can read.
            evidence::publish(
                &self.broker.url(),
                "tm.checkpoint.chaos.written",
                b"not a checkpoint event",
            )?;
        }
        Ok(())
    }

    fn broker_of(&self, role: Role) -> String {
        let port = self.proxies.get(&role).map_or(self.broker.port(), Proxy::port);
        format!("nats://127.0.0.1:{port}")
    }

    /// Announces the work.
    pub(super) fn announce(&self) -> Result<()> {
        let source = match &self.engine {
            Some(engine) => vec![
                "--endpoint".to_owned(),
                engine.url(),
                "--model".to_owned(),
                engine.model().to_owned(),
            ],
            None => vec![
                workspace()
                    .join("services/engine/tests/data/hf-single")
                    .display()
                    .to_string(),
            ],
        };
        let (suite, data) = (self.bench.text("suite.toml"), self.bench.text("data"));
        let url = self.broker.url();
        let mut arguments = vec!["announce", "--run", "chaos", "--step", "1", "--suite", &suite];
        arguments.extend(source.iter().map(String::as_str));
        arguments.extend(["--nats", &url, "--data-dir", &data]);
        let ran = tidemill(&arguments)?;
        ensure!(ran.code == Some(0), "announce: {}", ran.log);
        Ok(())
    }

    /// Waits until so large a share of the requests of an undisturbed run was made.
    pub(super) fn wait_for_share(&mut self, share: f64) -> Result<()> {
        let wanted = share * self.work.requests() as f64;
        self.wait("progress", |pipeline| {
            Ok(match &pipeline.engine {
                Some(engine) => engine.stats().requests as f64 > wanted,
                None => evidence::messages(&pipeline.broker.url(), "DONE")? as f64 > wanted,
            })
        })
    }

    /// Waits for the end of the evaluation, for every fault to happen, and for those suspended to go on. Returns the
    /// evaluation's id.
    pub(super) fn wait_for_end(&mut self) -> Result<String> {
        let mut ended = None;
        self.wait("the end", |pipeline| {
            ended = evidence::ended(&pipeline.broker.url())?;
            Ok(ended.is_some())
        })?;
        self.wait("every fault and every suspended process", |pipeline| {
            Ok(pipeline.is_quiet())
        })?;
        ended.context("an end was seen")
    }

    fn is_quiet(&self) -> bool {
        let waits = |slot: &Slot| slot.fault.is_some() || slot.suspended.is_some();
        let is_over = self.resumed.is_none_or(|at| at.elapsed() >= AFTERMATH);
        is_over && !self.slots.iter().any(waits) && self.faults.values().all(VecDeque::is_empty)
    }

    fn wait(&mut self, what: &str, mut reached: impl FnMut(&Self) -> Result<bool>) -> Result<()> {
        let begun = Instant::now();
        loop {
            self.attend()?;
            // A broker that is away tells nothing.
            if reached(self).unwrap_or(false) {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                bail!("no sign of {what} within {PATIENCE:?}\n{}", self.logs());
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn pass(&mut self, time: Duration) -> Result<()> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.attend()?;
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Replaces processes that reached their faults, and lets those go on that were suspended for long enough.
    fn attend(&mut self) -> Result<()> {
        let mut index = 0;
        while index < self.slots.len() {
            self.resume(index)?;
            let slot = &mut self.slots[index];
            let ended = slot.service.poll()?;
            let is_reached = slot.fault.is_some_and(|fault| says(&slot.service, fault.point));
            match (ended, slot.fault) {
                (None, Some(fault)) if fault.is_stop && is_reached => {
                    slot.suspended = Some((SystemTime::now(), Instant::now() + fault.role.suspension()));
                    slot.fault = None;
                    self.passed.push(fault.point);
                    self.spawn(fault.role)?;
                }
                (Some(_), Some(fault)) if !fault.is_stop && is_reached => {
                    let from = SystemTime::now();
                    self.passed.push(fault.point);
                    self.slots.remove(index);
                    self.spawn(fault.role)?;
                    self.note_of(fault.role, format!("killed at {}", fault.point.name()), from, 1);
                    continue;
                }
                (Some(status), _) => {
                    let role = slot.role.name();
                    bail!("a {role} ended by itself: {status}\n{}", self.logs());
                }
                (None, _) => {}
            }
            index += 1;
        }
        Ok(())
    }

    fn resume(&mut self, index: usize) -> Result<()> {
        let slot = &mut self.slots[index];
        let Some((from, _)) = slot.suspended.filter(|(_, until)| Instant::now() >= *until) else {
            return Ok(());
        };
        slot.suspended = None;
        slot.service.signal(Signal::CONT)?;
        let role = slot.role;
        self.resumed = Some(Instant::now());
        self.note_of(role, format!("suspended a {}", role.name()), from, 0);
        Ok(())
    }

    /// Notes a disturbance that began at `from` and is over.
    fn note(&mut self, what: String, from: SystemTime, kills: u64) {
        let to = SystemTime::now();
        self.hits.push(Hit {
            what,
            from,
            to,
            kills,
            loses_requests: true,
            forgets: false,
        });
    }

    /// As [`note`](Self::note), of the broker alone.
    fn note_of_broker(&mut self, what: String, from: SystemTime, kills: u64) {
        self.note(what, from, kills);
        if let Some(hit) = self.hits.last_mut() {
            hit.forgets = true;
        }
    }

    /// As [`note`](Self::note), of processes of a role. Requests are the generators' alone.
    fn note_of(&mut self, role: Role, what: String, from: SystemTime, kills: u64) {
        self.note(what, from, kills);
        if let Some(hit) = self.hits.last_mut() {
            hit.loses_requests = role == Role::Generator;
        }
    }

    /// Does what a step says.
    pub(super) fn disturb(&mut self, action: Action) -> Result<()> {
        let from = SystemTime::now();
        match action {
            Action::Kill(role) => self.replace(role, usize::MAX)?,
            Action::KillOne(role) => self.replace(role, 1)?,
            Action::Suspend(role, time) => return self.suspend(role, time),
            Action::Engine => self.kill_engine(from)?,
            Action::Broker(away) => {
                self.broker.kill()?;
                self.pass(away)?;
                self.broker.restart()?;
                self.note_of_broker("killed the broker".to_owned(), from, 1);
            }
            Action::BrokerAfterAcks(count) => self.kill_broker_after(count)?,
            Action::Everything => {
                self.broker.kill()?;
                let kills = self.kill(|_| true)? + 2;
                if let Some(engine) = &self.engine {
                    engine.set_down(true)?;
                    engine.set_down(false)?;
                }
                self.broker.restart()?;
                self.start_services()?;
                self.note("killed everything".to_owned(), from, kills);
            }
            Action::Network(role, network, time) => {
                let proxy = self.proxies.get(&role).context("its network has a proxy")?;
                match network {
                    Network::Cut => proxy.cut()?,
                    Network::Silent => proxy.silence()?,
                }
                self.pass(time)?;
                self.proxies.get(&role).context("its network has a proxy")?.heal()?;
                self.note_of(role, format!("the network of the {} failed", role.name()), from, 0);
            }
            Action::FullDisk(time) => {
                surroundings::fill(&mut self.broker)?;
                self.pass(time)?;
                surroundings::empty(&mut self.broker)?;
                self.note("filled the broker's disk".to_owned(), from, 1);
            }
            Action::Clock(offset) => {
                self.bench.write(CLOCK, &offset.to_string())?;
                self.note(format!("moved the clocks by {offset} s"), from, 0);
            }
        }
        Ok(())
    }

    /// Kills the first processes of a role, at most so many, and starts others.
    fn replace(&mut self, role: Role, most: usize) -> Result<()> {
        let from = SystemTime::now();
        let of_role = self.slots.iter().filter(|slot| slot.role == role);
        let meant: Vec<u32> = of_role.take(most).map(|slot| slot.service.id()).collect();
        let kills = self.kill(|slot| meant.contains(&slot.service.id()))?;
        for _ in 0..kills {
            self.spawn(role)?;
        }
        self.note_of(role, format!("killed {kills} {}", role.name()), from, kills);
        Ok(())
    }

    /// Kills processes and forgets them; says how many.
    fn kill(&mut self, is_meant: impl Fn(&Slot) -> bool) -> Result<u64> {
        let (mut meant, others): (Vec<Slot>, Vec<Slot>) =
            std::mem::take(&mut self.slots).into_iter().partition(is_meant);
        self.slots = others;
        for slot in &mut meant {
            slot.service.signal(Signal::KILL)?;
        }
        for slot in &mut meant {
            slot.service.kill9()?;
        }
        Ok(meant.len() as u64)
    }

    /// Suspends one process of a role, of the aggregators the one that works, and starts a replacement.
    fn suspend(&mut self, role: Role, time: Duration) -> Result<()> {
        let works = |slot: &Slot| slot.service.log().iter().any(|line| line.contains("aggregating"));
        let mut of_role: Vec<&mut Slot> = self.slots.iter_mut().filter(|slot| slot.role == role).collect();
        let working = of_role.iter().position(|slot| works(slot)).unwrap_or(0);
        let slot = of_role.get_mut(working).context("a role has a process")?;
        slot.suspended = Some((SystemTime::now(), Instant::now() + time));
        slot.service.signal(Signal::STOP)?;
        self.spawn(role)
    }

    fn kill_engine(&mut self, from: SystemTime) -> Result<()> {
        match &self.engine {
            Some(engine) => {
                engine.set_down(true)?;
                std::thread::sleep(ENGINE_AWAY);
                engine.set_down(false)?;
            }
            None => {
                let engines = self.child_engines();
                let [engine] = engines[..] else {
                    bail!("one checkpoint has one engine: {engines:?}\n{}", self.logs());
                };
                kill_process(engine, Signal::KILL).context("kill the engine")?;
                self.wait("another engine", |pipeline| {
                    Ok(pipeline.child_engines().iter().any(|id| *id != engine))
                })?;
            }
        }
        self.note("killed the engine".to_owned(), from, 1);
        Ok(())
    }

    /// The broker forgets acknowledgements that it had just received; generators that are new know nothing of them.
    fn kill_broker_after(&mut self, acks: u64) -> Result<()> {
        evidence::await_acks(&self.broker.url(), acks, PATIENCE)?;
        let from = SystemTime::now();
        self.broker.kill()?;
        let generators = self.kill(|slot| slot.role == Role::Generator)?;
        self.broker.restart()?;
        for _ in 0..generators {
            self.spawn(Role::Generator)?;
        }
        self.note(
            "killed the broker after acknowledgements".to_owned(),
            from,
            1 + generators,
        );
        Ok(())
    }

    /// The engines that loaders run.
    fn child_engines(&self) -> Vec<Pid> {
        let loaders = self.slots.iter().filter(|slot| slot.role == Role::Loader);
        loaders.flat_map(|slot| engines_of(slot.service.id())).collect()
    }

    /// The journal of the scripted engine.
    pub(super) fn engine(&self) -> Option<&FakeEngine> {
        self.engine.as_ref()
    }

    /// The address of the broker.
    pub(super) fn url(&self) -> String {
        self.broker.url()
    }

    /// The report, as the command gives it.
    pub(super) fn report(&self) -> Result<Value> {
        let ran = self.command(&["results", "--json"])?;
        let results = ran.json()?;
        let count = results.as_array().map_or(0, Vec::len);
        ensure!(count == 1, "one announcement is one evaluation: {results}");
        Ok(results[0].clone())
    }

    /// What was asked, answered and judged, item by item.
    pub(super) fn items(&self, evaluation: &str) -> Result<Vec<Value>> {
        let ran = self.command(&["items", evaluation, "--json"])?;
        let told = |line: &str| -> Result<Value> {
            let row: Value = serde_json::from_str(line)?;
            let fields = [
                "benchmark",
                "item",
                "sample",
                "completion",
                "choice_log_probabilities",
                "finish_reason",
                "outcome",
                "score",
            ];
            Ok(Value::from(fields.map(|field| row[field].clone()).to_vec()))
        };
        ran.output.lines().map(told).collect()
    }

    fn command(&self, arguments: &[&str]) -> Result<crate::Ran> {
        let (url, data) = (self.broker.url(), self.bench.text("data"));
        let ran = tidemill(&[arguments, &["--nats", &url, "--data-dir", &data]].concat())?;
        ensure!(ran.code == Some(0), "{arguments:?}: {}", ran.log);
        Ok(ran)
    }

    /// What happened, and the end of each process's log.
    pub(super) fn logs(&self) -> String {
        let mut told: Vec<String> = self.hits.iter().map(|hit| hit.what.clone()).collect();
        for slot in &self.slots {
            let lines = slot.service.log();
            let fault = slot.fault.map_or("", |fault| fault.point.name());
            told.push(format!("--- {} {fault} {:?}", slot.role.name(), slot.suspended));
            told.extend(lines[lines.len().saturating_sub(SHOWN_LINES)..].iter().cloned());
        }
        told.join("\n")
    }
}

/// Names a folder that keeps the log of every process; none is kept unless it is set.
const LOGS: &str = "TIDEMILL_CHAOS_LOGS";

fn logged(launch: Launch, role: Role) -> Launch {
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    let Some(folder) = std::env::var_os(LOGS) else {
        return launch;
    };
    let number = STARTED.fetch_add(1, Ordering::SeqCst);
    launch.log_to(std::path::Path::new(&folder).join(format!("{number:03}-{}.log", role.name())))
}

/// The process has said that it reached this point.
fn says(service: &Service, point: Point) -> bool {
    let line = format!("fault point {} reached", point.name());
    service.log().iter().any(|said| said.contains(&line))
}

fn engines_of(loader: u32) -> Vec<Pid> {
    let threads = std::fs::read_dir(format!("/proc/{loader}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let children = threads.map(|thread| std::fs::read_to_string(thread.path().join("children")));
    let children = children.map(Result::unwrap_or_default).collect::<Vec<_>>().join(" ");
    let is_engine = |id: &i32| {
        let command = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        command.split(|byte| *byte == 0).any(|argument| argument == b"engine")
    };
    let ids = children.split_whitespace().filter_map(|id| id.parse().ok());
    ids.filter(is_engine).filter_map(Pid::from_raw).collect()
}
