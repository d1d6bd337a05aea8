//! Three brokers that share their streams: what each evaluation needs outlives the death of any one of them, all of them
//! restarted in turn, and a time without a majority.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may fail this way, and says what it measured"
)]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use async_nats::jetstream;
use serde_json::Value;
use tidemill_testkit::{Broker, Cluster, FakeEngine, Service};
use tidemill_tests::{Ran, Workbench, tidemill};

const ITEMS: usize = 120;
const IN_FLIGHT: u64 = 16;
const ROLES: [&str; 4] = ["loader", "generator", "grader", "aggregator"];
/// Nothing here takes nearly as long: it ends a test that hangs.
const PATIENCE: Duration = Duration::from_secs(150);
const POLL: Duration = Duration::from_millis(10);

/// One cluster at a time: three servers and four services are enough for two cores.
static ALONE: Mutex<()> = Mutex::new(());

struct Pipeline {
    cluster: Cluster,
    bench: Workbench,
    services: Vec<Service>,
    _alone: MutexGuard<'static, ()>,
}

/// An engine that answers fast or slowly, as told, and what it was asked. While it is slow it answers no more than three quarters
/// of what an evaluation asks, so that no disturbance comes too late however long it takes.
struct Engine {
    engine: FakeEngine,
    is_slow: Arc<AtomicBool>,
}

impl Engine {
    fn start(is_slow: bool) -> Self {
        let is_slow = Arc::new(AtomicBool::new(is_slow));
        let (slow, asked) = (Arc::clone(&is_slow), AtomicU64::new(0));
        let respond = move |request: &_| {
            let answer = Workbench::answer(request);
            let asked = asked.fetch_add(1, Ordering::Relaxed);
            if !slow.load(Ordering::Relaxed) {
                return answer.after(Duration::from_millis(2));
            }
            let answer = answer.after(Duration::from_millis(400));
            if asked < Workbench::requests(ITEMS) / 4 * 3 {
                return answer;
            }
            answer.held_while(&slow)
        };
        let engine = FakeEngine::builder().respond(respond).start().unwrap();
        Self { engine, is_slow }
    }

    fn requests(&self) -> u64 {
        self.engine.stats().requests
    }

    /// Waits for more requests, and returns how long none came at the longest.
    fn wait_for_more(&self, more: u64) -> Duration {
        let (begun, before) = (Instant::now(), self.requests());
        let (mut known, mut at, mut longest) = (before, begun, Duration::ZERO);
        while known < before + more {
            assert!(begun.elapsed() < PATIENCE, "no progress: {known} requests");
            sleep(POLL);
            let now = self.requests();
            longest = longest.max(at.elapsed());
            if now > known {
                (known, at) = (now, Instant::now());
            }
        }
        longest
    }
}

impl Pipeline {
    fn start() -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let bench = Workbench::new(ITEMS).unwrap();
        let mut pipeline = Self {
            cluster: Cluster::start().unwrap(),
            bench,
            services: Vec::new(),
            _alone: alone,
        };
        let applied = pipeline.run(3, &["streams", "apply"]);
        assert_eq!(applied.code, Some(0), "{}", applied.log);
        pipeline.services = ROLES.map(|role| pipeline.spawn(role)).into();
        pipeline
    }

    /// The command at this cluster, with so many copies.
    fn run(&self, replicas: usize, arguments: &[&str]) -> Ran {
        run(&self.cluster.url(), &self.bench, replicas, arguments)
    }

    fn spawn(&self, role: &str) -> Service {
        let launch = Service::tidemill().unwrap().args([role, "--nats", &self.cluster.url()]);
        let service = launch
            .args(["--data-dir", &self.bench.text("data")])
            .env("TIDEMILL_BROKER__REPLICAS", "3")
            .env("TIDEMILL_LOADER__MAX_IN_FLIGHT", IN_FLIGHT.to_string())
            .spawn()
            .unwrap();
        service.wait_for_line("ready", PATIENCE).unwrap();
        service
    }

    fn announce(&self, run: &str, engine: &Engine) {
        let (suite, url) = (self.bench.text("suite.toml"), engine.engine.url());
        let arguments = ["announce", "--run", run, "--step", "1", "--suite", &suite];
        let source = ["--endpoint", &url, "--model", engine.engine.model()];
        let ran = self.run(3, &[&arguments[..], &source[..]].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.log);
    }

    fn final_result(&self, run: &str) -> Value {
        let begun = Instant::now();
        loop {
            let ran = self.run(3, &["results", "--json", "--run", run]);
            assert_eq!(ran.code, Some(0), "{}", ran.log);
            let results = ran.json().unwrap();
            if let Some(result) = results.get(0).filter(|result| result["state"] != "serving") {
                return result.clone();
            }
            let logs = || self.services.iter().map(Service::log).collect::<Vec<_>>();
            assert!(begun.elapsed() < PATIENCE, "not final: {results} {:?}", logs());
            sleep(Duration::from_millis(200));
        }
    }

    /// Evaluates without a disturbance: the report, and how often each prompt was asked.
    fn undisturbed(&self) -> (Value, HashMap<u64, u64>) {
        let engine = Engine::start(false);
        self.announce("undisturbed", &engine);
        let result = self.final_result("undisturbed");
        assert_eq!(result["state"], "final", "{result}");
        (result, engine.engine.requests_by_prompt())
    }

    /// The report of a disturbed evaluation is that of the undisturbed one, every service lives, each key has one message,
    /// and of what was asked only what was in flight was asked again.
    fn compare(&mut self, run: &str, engine: &Engine, undisturbed: &(Value, HashMap<u64, u64>), disturbances: u64) {
        let (expected, asked) = undisturbed;
        let result = self.final_result(run);
        assert_eq!(Workbench::comparable(&result), Workbench::comparable(expected));
        for service in &mut self.services {
            assert!(
                service.poll().unwrap().is_none(),
                "a service ended: {:?}",
                service.log()
            );
        }
        let again = engine.engine.requests_by_prompt();
        let again: u64 = again
            .iter()
            .map(|(prompt, times)| times - asked.get(prompt).unwrap_or(times))
            .sum();
        eprintln!("{run}: {} requests, {again} of them asked again", engine.requests());
        assert!(again <= disturbances * IN_FLIGHT, "{again} requests were asked again");
        assert_eq!(self.messages_and_keys("DONE"), [2 * Workbench::samples(ITEMS); 2]);
        assert_eq!(self.messages_and_keys("GRADE"), [2 * Workbench::samples(ITEMS); 2]);
    }

    fn messages_and_keys(&self, stream: &str) -> [u64; 2] {
        let state = inspect(&self.cluster.url(), async |js| {
            let stream = js.get_stream(stream).await?;
            Ok(stream.cached_info().state.clone())
        });
        [state.messages, state.subjects_count]
    }
}

fn run(nats: &str, bench: &Workbench, replicas: usize, arguments: &[&str]) -> Ran {
    let data = bench.text("data");
    let settings = format!("[broker]\nreplicas = {replicas}\n");
    let config = bench.write(&format!("{replicas}.toml"), &settings).unwrap();
    let config = config.display().to_string();
    let place = ["--nats", nats, "--data-dir", &data, "--config", &config];
    tidemill(&[arguments, &place].concat()).unwrap()
}

/// Asks the broker something until it answers: a cluster may have no leader for a moment.
fn inspect<T>(nats: &str, ask: impl AsyncFn(&jetstream::Context) -> Result<T, async_nats::Error>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let client = async_nats::connect(nats.split(',').collect::<Vec<_>>()).await.unwrap();
        let js = jetstream::new(client);
        let begun = Instant::now();
        loop {
            match ask(&js).await {
                Ok(answer) => return answer,
                Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
            }
            tokio::time::sleep(POLL).await;
        }
    })
}

#[test]
fn the_death_of_a_leader_and_a_rolling_restart_change_no_result() {
    let mut pipeline = Pipeline::start();
    let undisturbed = pipeline.undisturbed();

    let engine = Engine::start(true);
    pipeline.announce("disturbed", &engine);
    engine.wait_for_more(2 * IN_FLIGHT);
    let leader = pipeline.cluster.leader_of("DONE").unwrap();
    pipeline.cluster.kill(leader).unwrap();
    let gap = engine.wait_for_more(3 * IN_FLIGHT);
    eprintln!("no request for {gap:?} around the death of DONE's leader");
    pipeline.cluster.restart(leader).unwrap();
    pipeline.cluster.wait_until_in_sync().unwrap();
    pipeline.cluster.roll().unwrap();
    assert!(
        engine.requests() < Workbench::requests(ITEMS),
        "it was over before the disturbance"
    );
    engine.is_slow.store(false, Ordering::Relaxed);
    pipeline.compare("disturbed", &engine, &undisturbed, 4);
}

#[test]
fn without_a_majority_everything_waits_and_goes_on_after() {
    let mut pipeline = Pipeline::start();
    let undisturbed = pipeline.undisturbed();

    let engine = Engine::start(true);
    pipeline.announce("halted", &engine);
    engine.wait_for_more(2 * IN_FLIGHT);
    pipeline.cluster.kill(0).unwrap();
    pipeline.cluster.kill(1).unwrap();
    // What is in flight ends, and nothing can be recorded: nothing new is asked.
    let mut asked = engine.requests();
    loop {
        sleep(Duration::from_secs(4));
        let now = engine.requests();
        if now == asked {
            break;
        }
        asked = now;
    }
    assert!(asked < Workbench::requests(ITEMS), "it was over before the disturbance");
    pipeline.cluster.restart(0).unwrap();
    pipeline.cluster.restart(1).unwrap();
    let begun = Instant::now();
    engine.wait_for_more(1);
    eprintln!("the first request came {:?} after the majority", begun.elapsed());
    engine.is_slow.store(false, Ordering::Relaxed);
    pipeline.compare("halted", &engine, &undisturbed, 1);
}

#[test]
fn copies_are_changed_by_apply_seen_by_check_and_told_by_doctor() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let bench = Workbench::new(1).unwrap();
    let mut cluster = Cluster::start().unwrap();
    let ran = |cluster: &Cluster, replicas, arguments: &[&str]| run(&cluster.url(), &bench, replicas, arguments);

    for replicas in [3, 1, 3] {
        let applied = ran(&cluster, replicas, &["streams", "apply"]);
        assert_eq!(applied.code, Some(0), "{}", applied.log);
        let checked = ran(&cluster, replicas, &["streams", "check"]);
        assert_eq!(checked.code, Some(0), "{}{}", checked.output, checked.log);
        let differing = ran(&cluster, 4 - replicas, &["streams", "check"]);
        assert_eq!(differing.code, Some(1));
        for name in ["DONE", "READY", "tm_leases", "tm_groups"] {
            let said = format!("{name}: num_replicas is {replicas}");
            assert!(differing.output.contains(&said), "{}", differing.output);
        }
        cluster.wait_until_in_sync().unwrap();
        wait_for_copies(&cluster.url(), replicas);
    }

    let refused = ran(&cluster, 1, &["grader"]);
    assert_eq!(refused.code, Some(69));
    assert!(refused.log.contains("num_replicas is 3, declared 1"), "{}", refused.log);

    let well = ran(&cluster, 3, &["doctor"]);
    assert_eq!(well.code, Some(0), "{}", well.output);
    let done = well.output.lines().find(|line| line.contains("DONE")).unwrap();
    assert!(done.contains("3 copies, leader node-"), "{done}");
    let follower = (cluster.leader_of("DONE").unwrap() + 1) % 3;
    cluster.kill(follower).unwrap();
    let begun = Instant::now();
    loop {
        // It is known to be away only once it has been silent for some seconds.
        let ill = ran(&cluster, 3, &["doctor"]);
        let said = format!("node-{follower} is not in step");
        if ill
            .output
            .lines()
            .any(|line| line.contains("FAIL DONE") && line.contains(&said))
        {
            assert_eq!(ill.code, Some(1));
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{}", ill.output);
    }

    cluster.restart(follower).unwrap();
    cluster.wait_until_in_sync().unwrap();
    let too_many = ran(&cluster, 5, &["streams", "apply"]);
    assert_eq!(too_many.code, Some(2));
    assert!(too_many.log.contains("5 copies need 5 servers"), "{}", too_many.log);
}

#[test]
fn more_copies_than_servers_are_refused_with_what_to_do() {
    let bench = Workbench::new(1).unwrap();
    let broker = Broker::start().unwrap();
    let refused = run(&broker.url(), &bench, 3, &["streams", "apply"]);
    assert_eq!(refused.code, Some(2));
    for part in ["3 copies need 3 servers", "`replicas` of [broker]"] {
        assert!(refused.log.contains(part), "{}", refused.log);
    }
    let config = bench
        .write("3.toml", "[broker]\nreplicas = 3\n")
        .unwrap()
        .display()
        .to_string();
    let data = bench.text("data");
    let own = tidemill(&["streams", "apply", "--data-dir", &data, "--config", &config]).unwrap();
    assert_eq!(own.code, Some(2));
    assert!(own.log.contains("name 3 servers of one cluster"), "{}", own.log);
}

/// Waits until the stream of completions and the graders' place in it have so many copies.
fn wait_for_copies(nats: &str, replicas: usize) {
    let begun = Instant::now();
    loop {
        let copies = inspect(nats, async |js| {
            let stream = js.get_stream("DONE").await?;
            let grader: jetstream::consumer::PullConsumer = stream.get_consumer("grader").await?;
            let others =
                |cluster: Option<&jetstream::stream::ClusterInfo>| cluster.map_or(0, |cluster| cluster.replicas.len());
            let infos = (stream.cached_info(), grader.cached_info());
            Ok([others(infos.0.cluster.as_ref()), others(infos.1.cluster.as_ref())])
        });
        if copies == [replicas - 1; 2] {
            return;
        }
        assert!(
            begun.elapsed() < PATIENCE,
            "{copies:?} beside the leader, not {}",
            replicas - 1
        );
        sleep(POLL);
    }
}
