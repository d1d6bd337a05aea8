use super::*;
use tidemill_domain::{
    Benchmark, BenchmarkName, Continuation, GraderSpec, Normalise, Penalties, Reasoning, Settings, SuiteName, SuiteRef,
    Tier,
};

fn benchmark(name: &str, items: u32, samples: u32, max_tokens: u32) -> Benchmark {
    let grader = if max_tokens == 0 {
        GraderSpec::Likelihood {
            normalise: Normalise::None,
        }
    } else {
        GraderSpec::Exact {
            ignore_case: false,
            ignore_punctuation: false,
        }
    };
    let settings = Settings {
        max_tokens,
        temperature: 0.0,
        top_p: 1.0,
        stop: Vec::new(),
        seed: 0,
        samples,
    };
    Benchmark {
        name: BenchmarkName::try_new(name).unwrap(),
        settings,
        grader,
        items,
        // Which items these are does not matter to the rule, and no service ever reads them for it.
        blocks: Vec::new(),
        clusters: None,
        penalties: Penalties::default(),
        continuation: Continuation::default(),
        spare_samples: 0,
        outlines: Vec::new(),
        reasoning: Reasoning::default(),
        metrics: Vec::new(),
        subsets: None,
        weights: None,
    }
}

fn manifest() -> Arc<Manifest> {
    let benchmarks = [("likelihood", 5, 1, 0), ("short", 6, 2, 16), ("long", 4, 1, 512)];
    Arc::new(manifest_of(&benchmarks))
}

/// Benchmarks by name, items, samples and cap; without a cap by likelihood.
pub(crate) fn manifest_of(benchmarks: &[(&str, u32, u32, u32)]) -> Manifest {
    let suite = SuiteRef {
        name: SuiteName::try_new("s").unwrap(),
        version: "1".to_owned(),
        tier: Tier::Canary,
    };
    let benchmarks = benchmarks
        .iter()
        .map(|(name, items, samples, max_tokens)| benchmark(name, *items, *samples, *max_tokens));
    Manifest {
        suite,
        max_failure_rate: 0.0,
        benchmarks: benchmarks.collect(),
        groups: Vec::new(),
    }
}

fn id() -> EvaluationId {
    EvaluationId::from_digest(&Digest::of(b"e"))
}

fn dispatcher(done: &[ItemKey]) -> Dispatcher {
    let mut dispatcher = Dispatcher::default();
    dispatcher.add(id(), Digest::of(b"m"), manifest(), done, false);
    dispatcher
}

#[test]
fn releases_every_declared_sample_once_longest_first() {
    let (mut dispatcher, now) = (dispatcher(&[]), Instant::now());
    dispatcher.set_slots(3);
    let mut released = Vec::new();
    while dispatcher.left() > 0 {
        let batch = dispatcher.release(now);
        assert!(!batch.is_empty() && batch.len() <= 6);
        batch.iter().for_each(|release| dispatcher.complete(&release.key));
        released.extend(batch.into_iter().map(|release| release.key));
    }
    let distinct: HashSet<_> = released.iter().cloned().collect();
    let (manifest, id) = (manifest(), id());
    assert_eq!(distinct, manifest.keys(&id).collect());
    assert_eq!(released.len() as u64, manifest.samples());
    let order: Vec<u32> = released.iter().map(|key| key.benchmark).collect();
    assert!(
        order.is_sorted_by_key(|benchmark| [2, 1, 0][*benchmark as usize]),
        "{order:?}"
    );
}

#[test]
fn a_new_dispatcher_releases_only_what_has_no_completion() {
    let (manifest, id) = (manifest(), id());
    let done: Vec<ItemKey> = manifest.keys(&id).step_by(2).collect();
    let mut dispatcher = dispatcher(&done);
    dispatcher.set_slots(100);
    let released: HashSet<_> = dispatcher
        .release(Instant::now())
        .into_iter()
        .map(|release| release.key)
        .collect();
    let missing: HashSet<_> = manifest.keys(&id).filter(|key| !done.contains(key)).collect();
    assert_eq!(released, missing);
}

#[test]
fn without_slots_nothing_is_released_and_what_is_out_counts() {
    let (mut dispatcher, now) = (dispatcher(&[]), Instant::now());
    assert!(dispatcher.release(now).is_empty());
    dispatcher.set_slots(2);
    assert_eq!(dispatcher.release(now).len(), 4);
    assert!(dispatcher.release(now).is_empty());
    dispatcher.set_slots(3);
    assert_eq!(dispatcher.release(now).len(), 2);
}

#[test]
fn no_more_is_released_than_is_allowed_until_more_is() {
    let (mut dispatcher, now) = (dispatcher(&[]), Instant::now());
    dispatcher.set_slots(4);
    dispatcher.set_allowance(5);
    let first = dispatcher.release(now);
    assert_eq!(first.len(), 5);
    first.iter().for_each(|release| dispatcher.complete(&release.key));
    assert!(dispatcher.release(now).is_empty());
    dispatcher.set_allowance(3);
    assert_eq!(dispatcher.release(now).len(), 3);
    assert_eq!(dispatcher.out(), 3);
}

#[test]
fn what_stays_out_is_released_again_as_such() {
    let (mut dispatcher, now) = (dispatcher(&[]), Instant::now());
    dispatcher.set_slots(1);
    let first = dispatcher.release(now);
    assert!(dispatcher.overdue(now + RELEASE_AGAIN_AFTER / 2).is_empty());
    dispatcher.complete(&first[0].key);
    let overdue = dispatcher.overdue(now + RELEASE_AGAIN_AFTER);
    assert_eq!(overdue.len(), 1);
    assert!(overdue[0].again && overdue[0].key == first[1].key);
    assert!(dispatcher.overdue(now + RELEASE_AGAIN_AFTER).is_empty());
}

#[test]
fn a_million_items_take_less_than_a_byte_each() {
    let (manifest, id) = (Arc::new(manifest_of(&[("big", 500_000, 2, 16)])), id());
    let mut dispatcher = Dispatcher::default();
    dispatcher.add(id.clone(), Digest::of(b"m"), Arc::clone(&manifest), &[], true);
    // A new dispatcher is told of what is done after it knows the evaluation: nothing lists a million keys.
    manifest
        .keys(&id)
        .filter(|key| key.item % 3 != 0)
        .for_each(|key| dispatcher.complete(&key));
    dispatcher.set_slots(1_000);
    let mut released = 0;
    while dispatcher.left() > 0 {
        assert!(dispatcher.state_bytes() < 250_000, "{}", dispatcher.state_bytes());
        for release in dispatcher.release(Instant::now()) {
            assert_eq!(release.key.item % 3, 0);
            released += 1;
            dispatcher.complete(&release.key);
        }
    }
    assert_eq!(released, 2 * 166_667);
}

#[test]
fn what_is_held_is_not_released_and_takes_no_place_until_its_letter_is_gone() {
    let (mut dispatcher, now) = (dispatcher(&[]), Instant::now());
    dispatcher.set_slots(1);
    let first = dispatcher.release(now);
    let never_released = manifest().keys(&id()).last().unwrap();
    let held: HashSet<ItemKey> = [first[0].key.clone(), never_released.clone()].into();
    let later = now + RELEASE_AGAIN_AFTER;
    dispatcher.hold(&held, later);
    let overdue: Vec<ItemKey> = dispatcher
        .overdue(later)
        .into_iter()
        .map(|release| release.key)
        .collect();
    assert_eq!(overdue, [first[1].key.clone()]);
    assert_eq!(dispatcher.release(later).len(), 1, "the held one's place is free");
    dispatcher.set_slots(100);
    let rest = dispatcher.release(later);
    assert!(rest.iter().all(|release| !held.contains(&release.key)));
    assert!(rest.len() > 5);
    rest.iter().for_each(|release| dispatcher.complete(&release.key));

    let last = later + RELEASE_AGAIN_AFTER;
    dispatcher.hold(&[never_released].into(), last);
    let overdue = dispatcher.overdue(last);
    assert!(
        overdue
            .iter()
            .any(|release| release.key == first[0].key && release.again)
    );
    dispatcher.complete(&first[0].key);
    dispatcher.hold(&HashSet::new(), last);
    assert!(
        dispatcher
            .overdue(last)
            .iter()
            .all(|release| release.key != first[0].key)
    );
}

#[test]
fn completions_of_strangers_and_repeats_change_nothing() {
    let mut dispatcher = dispatcher(&[]);
    let left = dispatcher.left();
    let key = ItemKey {
        evaluation: id(),
        benchmark: 0,
        item: 0,
        sample: 0,
    };
    dispatcher.complete(&ItemKey {
        item: 99,
        ..key.clone()
    });
    dispatcher.complete(&ItemKey {
        evaluation: EvaluationId::from_digest(&Digest::of(b"other")),
        ..key.clone()
    });
    dispatcher.complete(&key);
    dispatcher.complete(&key);
    assert_eq!(dispatcher.left(), left - 1);
}
