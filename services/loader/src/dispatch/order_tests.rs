//! The order of release: what it costs against the bounds for the same work, whose turn it is, and what stays together.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};

use proptest::prelude::*;
use tidemill_domain::{BlockRef, Prefixes, class_length};

use super::tests::manifest_of;
use super::*;

fn id(name: &str) -> EvaluationId {
    EvaluationId::from_digest(&Digest::of(name.as_bytes()))
}

fn team(name: &str) -> TeamId {
    TeamId::try_new(name).unwrap()
}

fn add(dispatcher: &mut Dispatcher, name: &str, manifest: Manifest) {
    dispatcher.add(id(name), Digest::of(name.as_bytes()), Arc::new(manifest), &[], false);
}

/// Expectations of one benchmark's items in tokens, with the groups of their prompts.
fn expectation(tokens: &[u32], groups: &[u8]) -> Expectation {
    let classes: Vec<u8> = tokens.iter().map(|tokens| length_class(u64::from(*tokens))).collect();
    Expectation {
        known: classes.len() as u32,
        classes,
        prefixes: Prefixes {
            groups: groups.to_vec(),
            table: (1..=u64::from(groups.iter().copied().max().unwrap_or(0))).collect(),
        },
    }
}

fn length(tokens: u32) -> Option<AnswerLength> {
    Some(AnswerLength { tokens, is_cut: false })
}

/// A number from 0 to 1 that is the same for the same words.
fn unit(seed: u64, index: u64) -> f64 {
    let hash = blake3::hash(&[seed.to_le_bytes(), index.to_le_bytes()].concat());
    let mut leading = [0; 8];
    leading.copy_from_slice(&hash.as_bytes()[..8]);
    (u64::from_le_bytes(leading) >> 11) as f64 / (1_u64 << 53) as f64
}

fn normal(seed: u64, index: u64) -> f64 {
    let (first, second) = (unit(seed, 2 * index), unit(seed, 2 * index + 1));
    (-2.0 * first.max(1e-12).ln()).sqrt() * (std::f64::consts::TAU * second).cos()
}

/// Lengths with a heavy tail, as answers of reasoning models have them.
fn heavy_tailed(seed: u64, items: u32) -> Vec<u32> {
    let length = |item| (200.0 * (1.3 * normal(seed, u64::from(item))).exp()).clamp(1.0, 16_000.0) as u32;
    (0..items).map(length).collect()
}

/// How long the work takes when it is given to whatever slot is free in this order.
fn makespan(order: impl IntoIterator<Item = u32>, slots: usize) -> u64 {
    let mut free: BinaryHeap<Reverse<u64>> = (0..slots).map(|_| Reverse(0)).collect();
    let mut last = 0;
    for length in order {
        let Reverse(start) = free.pop().unwrap();
        let end = start + u64::from(length);
        last = last.max(end);
        free.push(Reverse(end));
    }
    last
}

/// The same, with the dispatcher's releases in the order in which they come, and completions told as they happen.
fn served(dispatcher: &mut Dispatcher, slots: usize, length_of: impl Fn(&ItemKey) -> u32) -> u64 {
    let instant = Instant::now();
    dispatcher.set_slots(slots);
    let (mut ready, mut running) = (VecDeque::new(), BinaryHeap::new());
    let (mut now, mut keys) = (0_u64, Vec::new());
    loop {
        ready.extend(dispatcher.release(instant).into_iter().map(|release| release.key));
        while running.len() < slots
            && let Some(key) = ready.pop_front()
        {
            running.push(Reverse((now + u64::from(length_of(&key)), keys.len())));
            keys.push(key);
        }
        let Some(Reverse((end, index))) = running.pop() else {
            assert_eq!(dispatcher.left(), 0);
            return now;
        };
        now = end;
        dispatcher.complete_with(&keys[index], length(length_of(&keys[index])));
    }
}

const SLOTS: usize = 64;
const ITEMS: u32 = 3_000;

#[test]
fn with_the_lengths_of_an_earlier_checkpoint_the_work_takes_what_longest_first_takes() {
    let (mut worst, mut gained) = (0.0_f64, f64::INFINITY);
    for seed in 0..8 {
        let lengths = heavy_tailed(seed, ITEMS);
        // The checkpoint before answered the same at a length a fifth off, up or down.
        let before: Vec<u32> = (0_u64..)
            .zip(&lengths)
            .map(|(item, length)| (f64::from(*length) * (0.2 * normal(seed + 100, item)).exp()) as u32)
            .collect();
        let mut dispatcher = Dispatcher::default();
        add(&mut dispatcher, "a", manifest_of(&[("b", ITEMS, 1, 16_000)]));
        dispatcher.expect(&id("a"), vec![expectation(&before, &[])]);
        let took = served(&mut dispatcher, SLOTS, |key| lengths[key.item as usize]) as f64;
        let mut sorted = lengths.clone();
        sorted.sort_by_key(|length| Reverse(*length));
        let longest_first = makespan(sorted, SLOTS) as f64;
        worst = worst.max(took / longest_first);
        gained = gained.min(makespan(lengths, SLOTS) as f64 / took);
    }
    assert!(worst <= 1.02, "{worst:.4} of longest first");
    assert!(gained > 1.02, "first come takes {gained:.4} times as long");
}

#[test]
fn without_history_the_work_takes_no_longer_than_first_come_first_served() {
    let mut total = (0.0, 0.0);
    for seed in 0..8 {
        let benchmarks = [
            ("short", ITEMS / 2, 1, 512),
            ("long", ITEMS / 4, 1, 16_000),
            ("drawn", ITEMS / 16, 4, 16_000),
        ];
        let manifest = manifest_of(&benchmarks);
        let (short, long) = (heavy_tailed(seed, ITEMS), heavy_tailed(seed + 50, ITEMS));
        let length_of = |key: &ItemKey| match key.benchmark {
            0 => short[key.item as usize].min(512),
            // The samples of an item are about as long as each other.
            benchmark => {
                let factor = if benchmark == 1 {
                    1.0
                } else {
                    0.8 + 0.1 * f64::from(key.sample)
                };
                ((f64::from(long[key.item as usize]) * factor) as u32).clamp(1, 16_000)
            }
        };
        let mut dispatcher = Dispatcher::default();
        let first_come = makespan(manifest.keys(&id("a")).map(|key| length_of(&key)), SLOTS);
        add(&mut dispatcher, "a", manifest);
        let took = served(&mut dispatcher, SLOTS, length_of);
        total = (total.0 + took as f64, total.1 + first_come as f64);
    }
    let ratio = total.0 / total.1;
    assert!(ratio <= 1.0, "{ratio:.4} of first come");
}

#[test]
fn while_stragglers_run_the_next_evaluations_items_use_the_free_slots() {
    let now = Instant::now();
    let mut dispatcher = Dispatcher::default();
    dispatcher.set_slots(8);
    add(&mut dispatcher, "a", manifest_of(&[("b", 40, 1, 4_000)]));
    let mut lengths = vec![50; 40];
    (lengths[13], lengths[29]) = (4_000, 3_000);
    dispatcher.expect(&id("a"), vec![expectation(&lengths, &[])]);
    add(&mut dispatcher, "b", manifest_of(&[("b", 40, 1, 40)]));
    let mut out: Vec<Release> = dispatcher.release(now);
    assert_eq!([out[0].key.item, out[1].key.item], [13, 29], "stragglers first");
    assert!(out.iter().all(|release| release.key.evaluation == id("a")));
    let is_straggler = |release: &Release| release.expected_tokens > 1_000;
    // Everything but the stragglers ends, again and again.
    while dispatcher.left_of(&id("a")) > Some(2) {
        let (stay, end): (Vec<_>, Vec<_>) = out.into_iter().partition(is_straggler);
        assert!(!end.is_empty());
        end.iter().for_each(|release| dispatcher.complete(&release.key));
        out = stay;
        out.extend(dispatcher.release(now));
    }
    let of_b = out.iter().filter(|release| release.key.evaluation == id("b")).count();
    assert_eq!((of_b, out.len()), (14, 16), "no slot is idle");
}

#[test]
fn urgent_tiers_go_first_and_within_one_what_a_decision_waits_for() {
    let now = Instant::now();
    let mut dispatcher = Dispatcher::default();
    let tiers = [
        ("low", Tier::Ablation),
        ("train", Tier::InTraining),
        ("urgent", Tier::InTraining),
        ("canary", Tier::Canary),
    ];
    for (name, tier) in tiers.into_iter().chain([("promotion", Tier::Promotion)]) {
        let mut manifest = manifest_of(&[("b", 2, 1, 100)]);
        manifest.suite.tier = tier;
        add(&mut dispatcher, name, manifest);
    }
    dispatcher.bill(&id("urgent"), team("t"), Some(7));
    dispatcher.set_slots(100);
    let released = dispatcher.release(now);
    let order: Vec<&EvaluationId> = released
        .iter()
        .step_by(2)
        .map(|release| &release.key.evaluation)
        .collect();
    let expected = ["canary", "promotion", "urgent", "train", "low"].map(id);
    assert!(order.into_iter().eq(&expected));
}

#[test]
fn teams_take_turns_by_tokens_and_each_has_its_longest_first() {
    let now = Instant::now();
    let mut dispatcher = Dispatcher::default();
    for (name, of, cap) in [("a1", "a", 1_000), ("a2", "a", 4_000), ("b1", "b", 500)] {
        add(&mut dispatcher, name, manifest_of(&[("b", 500, 1, cap)]));
        dispatcher.bill(&id(name), team(of), None);
        dispatcher.expect(&id(name), vec![expectation(&[cap; 500], &[])]);
    }
    dispatcher.set_slots(100);
    let releases = dispatcher.release(now);
    let tokens = |name: &str| -> u64 {
        let of = releases.iter().filter(|release| release.key.evaluation == id(name));
        of.map(|release| u64::from(release.expected_tokens)).sum()
    };
    assert_eq!(tokens("a1"), 0, "the team's longer ones wait");
    let (a, b) = (tokens("a2"), tokens("b1"));
    assert!(a > 0 && b > 0 && a.abs_diff(b) <= QUANTUM + 4_100, "{a} {b}");
}

#[test]
fn a_team_does_not_pay_for_a_cap_that_its_answers_stay_far_below() {
    let now = Instant::now();
    let mut dispatcher = Dispatcher::default();
    for (name, cap) in [("known", 200), ("new", 16_000)] {
        add(&mut dispatcher, name, manifest_of(&[("b", 2_000, 1, cap)]));
        dispatcher.bill(&id(name), team(name), None);
    }
    dispatcher.expect(&id("known"), vec![expectation(&[200; 2_000], &[])]);
    dispatcher.set_slots(64);
    let mut released = (0, 0);
    let mut out = dispatcher.release(now);
    // Answers of 200 tokens to all, of which the oldest end: 40 times as many as there are slots.
    for _ in 0..320 {
        for release in out.drain(..8) {
            if release.key.evaluation == id("known") {
                released.0 += 1;
            } else {
                released.1 += 1;
            }
            dispatcher.complete_with(&release.key, length(200));
        }
        out.extend(dispatcher.release(now));
    }
    let share = f64::from(released.1) / f64::from(released.0 + released.1);
    assert!((0.4..=0.6).contains(&share), "{released:?}");
}

#[test]
fn what_a_team_did_alone_earns_it_nothing_once_another_one_comes() {
    let now = Instant::now();
    let mut dispatcher = Dispatcher::default();
    let begin = |dispatcher: &mut Dispatcher, name: &str| {
        add(dispatcher, name, manifest_of(&[("b", 8_000, 1, 512)]));
        dispatcher.bill(&id(name), team(name), None);
    };
    dispatcher.set_slots(1_000);
    begin(&mut dispatcher, "a");
    let alone = dispatcher.release(now);
    assert_eq!(alone.len(), 1_250);
    begin(&mut dispatcher, "b");
    // A few of them make room for both teams; the others end after both were charged.
    let (few, others) = alone.split_at(50);
    let mut end = |releases: &[Release]| -> Vec<Release> {
        let keys = releases.iter().map(|release| &release.key);
        keys.for_each(|key| dispatcher.complete_with(key, length(16)));
        dispatcher.release(now)
    };
    let together = [end(few), end(others)].concat();
    assert_eq!(together.len(), 1_250);
    let tokens = |name: &str| -> u64 {
        let of = together.iter().filter(|release| release.key.evaluation == id(name));
        of.map(|release| u64::from(release.expected_tokens)).sum()
    };
    let (a, b) = (tokens("a"), tokens("b"));
    assert!(b > 0 && a.abs_diff(b) <= QUANTUM + 560, "{a} {b}");
}

#[test]
fn spare_samples_go_when_nothing_else_waits_and_all_of_them_end() {
    let now = Instant::now();
    let mut manifest = manifest_of(&[("b", 10, 4, 1_000), ("c", 10, 1, 10)]);
    manifest.benchmarks[0].spare_samples = 3;
    let mut dispatcher = Dispatcher::default();
    add(&mut dispatcher, "a", manifest.clone());
    add(&mut dispatcher, "late", {
        let mut manifest = manifest_of(&[("b", 5, 1, 1)]);
        manifest.suite.tier = Tier::Ablation;
        manifest
    });
    dispatcher.set_slots(4);
    let mut order = Vec::new();
    while dispatcher.left() > 0 {
        let releases = dispatcher.release(now);
        releases.iter().for_each(|release| dispatcher.complete(&release.key));
        order.extend(releases.into_iter().map(|release| release.key));
    }
    let is_spare = |key: &ItemKey| key.evaluation == id("a") && key.benchmark == 0 && key.sample > 0;
    assert!(order.is_sorted_by_key(is_spare));
    assert_eq!(order.iter().filter(|key| is_spare(key)).count(), 30);
    assert_eq!(order.iter().collect::<HashSet<_>>().len(), 55);
}

#[test]
fn spare_samples_are_not_released_while_others_wait_for_a_slot() {
    let now = Instant::now();
    let mut manifest = manifest_of(&[("b", 100, 3, 1_000)]);
    manifest.benchmarks[0].spare_samples = 2;
    let mut dispatcher = Dispatcher::default();
    add(&mut dispatcher, "a", manifest);
    let spare = |releases: &[Release]| releases.iter().filter(|release| release.key.sample > 0).count();
    // Slots are expected, and none is there yet.
    dispatcher.set_slots(1_024);
    dispatcher.set_sure(0);
    let first = dispatcher.release(now);
    assert_eq!((first.len(), spare(&first)), (100, 0));
    dispatcher.set_sure(64);
    assert!(dispatcher.release(now).is_empty(), "36 wait for a slot");
    first[..35].iter().for_each(|release| dispatcher.complete(&release.key));
    assert!(dispatcher.release(now).is_empty(), "one waits for a slot");
    dispatcher.hold(&HashSet::from([first[35].key.clone()]), now);
    let then = dispatcher.release(now);
    assert_eq!((then.len(), spare(&then)), (200, 200));
    // One that comes back is no spare one, and nothing of them is counted twice.
    dispatcher.hold(&HashSet::new(), now);
    then.iter()
        .chain(&first)
        .for_each(|release| dispatcher.complete(&release.key));
    assert_eq!((dispatcher.out(), dispatcher.left()), (0, 0));
}

#[test]
fn prompts_that_begin_alike_stay_together_where_no_answer_is_a_straggler() {
    let items = 4_000_u32;
    // Two hundred documents with twenty questions each, in any order; lengths that have nothing to do with them.
    let groups: Vec<u8> = (0..items)
        .map(|item| (unit(7, u64::from(item)) * 200.0) as u8 + 1)
        .collect();
    let lengths: Vec<u32> = heavy_tailed(3, items)
        .into_iter()
        .map(|length| length.min(600))
        .collect();
    let mut dispatcher = Dispatcher::default();
    add(&mut dispatcher, "a", manifest_of(&[("b", items, 1, 600)]));
    dispatcher.expect(&id("a"), vec![expectation(&lengths, &groups)]);
    dispatcher.set_slots(8);
    let (mut switches, mut before, mut expected) = (0, 0, Vec::new());
    while dispatcher.left() > 0 {
        for release in dispatcher.release(Instant::now()) {
            assert_eq!(release.prefix, u64::from(groups[release.key.item as usize]));
            switches += u32::from(release.prefix != before);
            before = release.prefix;
            expected.push(release.expected_tokens);
            dispatcher.complete(&release.key);
        }
    }
    assert!(switches < 2 * 200, "{switches} switches between 200 beginnings");
    assert_eq!(expected.len(), items as usize);
}

#[test]
fn within_one_length_prompts_that_begin_alike_stay_together() {
    let groups: Vec<u8> = (0..60).map(|item| item % 3 + 1).collect();
    let lengths: Vec<u32> = (0..60).map(|item| if item % 2 == 0 { 1_000 } else { 500 }).collect();
    let mut dispatcher = Dispatcher::default();
    add(&mut dispatcher, "a", manifest_of(&[("b", 60, 1, 1_000)]));
    dispatcher.expect(&id("a"), vec![expectation(&lengths, &groups)]);
    dispatcher.set_slots(60);
    let released = dispatcher.release(Instant::now());
    let order: Vec<(Reverse<u32>, u64)> = released
        .iter()
        .map(|release| (Reverse(release.expected_tokens), release.prefix))
        .collect();
    assert!(order.is_sorted(), "{order:?}");
}

#[test]
fn a_first_sample_tells_how_long_the_others_will_be() {
    let now = Instant::now();
    let mut dispatcher = Dispatcher::default();
    add(&mut dispatcher, "a", manifest_of(&[("b", 50, 3, 4_000)]));
    dispatcher.set_slots(40);
    let firsts = dispatcher.release(now);
    assert!(firsts.iter().all(|release| release.key.sample == 0) && firsts.len() == 50);
    let tokens = |item: u32| if item % 10 == 3 { 3_000 + item } else { 20 + item };
    for release in &firsts {
        dispatcher.complete_with(&release.key, length(tokens(release.key.item)));
    }
    let later = dispatcher.release(now);
    let items: Vec<u32> = later[..10].iter().map(|release| release.key.item).collect();
    let mut long = items.clone();
    long.dedup();
    long.sort_unstable();
    assert_eq!(
        long,
        [3, 13, 23, 33, 43],
        "the longest items' other samples, an item's together: {items:?}"
    );
    assert!(later[10..].iter().all(|release| release.expected_tokens < 100));
}

#[test]
fn benchmarks_without_history_are_reordered_by_their_own_completions() {
    let now = Instant::now();
    let mut dispatcher = Dispatcher::default();
    // The one with the larger cap turns out to have the shorter answers.
    add(
        &mut dispatcher,
        "a",
        manifest_of(&[("boastful", 4_000, 1, 8_000), ("modest", 400, 1, 2_000)]),
    );
    dispatcher.set_slots(16);
    let mut of_modest = Vec::new();
    for turn in 0..60 {
        for release in dispatcher.release(now) {
            if release.key.benchmark == 1 {
                of_modest.push(turn);
            }
            let tokens = if release.key.benchmark == 0 { 30 } else { 1_500 };
            dispatcher.complete_with(&release.key, length(tokens));
        }
    }
    let first = of_modest.first().copied().unwrap_or(u32::MAX);
    assert!((2..5).contains(&first), "{first}");
    assert_eq!(of_modest.len(), 400, "all of them before the rest of the others");
}

#[test]
fn an_evaluation_whose_history_is_being_read_waits_for_it_alone_and_not_for_long() {
    let now = Instant::now();
    let of = |releases: &[Release], name: &str| releases.iter().filter(|r| r.key.evaluation == id(name)).count();
    let mut dispatcher = Dispatcher::default();
    for name in ["read", "lost", "other"] {
        add(&mut dispatcher, name, manifest_of(&[("b", 10, 1, 1_000)]));
    }
    let until = now + Duration::from_secs(2);
    dispatcher.hold_back(&id("read"), until);
    dispatcher.hold_back(&id("lost"), until);
    dispatcher.set_slots(1_000);
    let first = dispatcher.release(now);
    assert_eq!(
        (first.len(), of(&first, "other")),
        (10, 10),
        "nothing waits for another's"
    );
    dispatcher.expect(
        &id("read"),
        vec![expectation(&[10, 20, 30, 40, 50, 60, 70, 80, 90, 100], &[])],
    );
    let second = dispatcher.release(now);
    let items: Vec<u32> = second.iter().map(|release| release.key.item).collect();
    assert_eq!(
        (items, of(&second, "read")),
        ((0..10).rev().collect(), 10),
        "longest first"
    );
    let last = dispatcher.release(until);
    assert_eq!((last.len(), of(&last, "lost")), (10, 10), "it begins without");
}

#[test]
fn history_that_comes_late_orders_what_is_left_and_unlearns_nothing() {
    let now = Instant::now();
    let mut manifest = manifest_of(&[("b", 40, 1, 4_000)]);
    let digest = Digest::of(b"block");
    manifest.benchmarks[0].blocks = vec![BlockRef {
        digest: digest.clone(),
        end: 40,
    }];
    let mut dispatcher = Dispatcher::default();
    add(&mut dispatcher, "a", manifest);
    dispatcher.set_slots(10);
    let early = dispatcher.release(now);
    let places = early.len();
    let (ended, out) = early.split_at(places / 2);
    ended
        .iter()
        .for_each(|release| dispatcher.complete_with(&release.key, length(77)));
    let lengths: Vec<u32> = (0..40).map(|item| 100 + item * 50).collect();
    dispatcher.expect(&id("a"), vec![expectation(&lengths, &[])]);
    let mut items: Vec<u32> = Vec::new();
    out.iter().for_each(|release| dispatcher.complete(&release.key));
    while dispatcher.left() > 0 {
        for release in dispatcher.release(now) {
            items.push(release.key.item);
            dispatcher.complete(&release.key);
        }
    }
    let classes: Vec<u8> = items
        .iter()
        .map(|item| length_class(u64::from(lengths[*item as usize])))
        .collect();
    assert!(classes.is_sorted_by_key(|class| Reverse(*class)), "{items:?}");
    assert_eq!(
        items.iter().collect::<HashSet<_>>().len(),
        40 - places,
        "each of the rest once"
    );
    let learnt = dispatcher.learnt(&id("a"));
    let told = |item: &Release| learnt.blocks[0].lengths.get(item.key.item as usize);
    assert!(ended.iter().all(|item| told(item) == Some((length_class(77), false))));
    assert!(out.iter().all(|item| told(item).is_none()));
}

#[test]
fn with_history_items_take_less_than_three_bytes_each() {
    let items = 200_000_u32;
    let mut dispatcher = Dispatcher::default();
    add(&mut dispatcher, "a", manifest_of(&[("b", items, 1, 4_000)]));
    let lengths: Vec<u32> = (0..items)
        .map(|item| (item.wrapping_mul(2_654_435_761) >> 20) % 4_000 + 1)
        .collect();
    let groups: Vec<u8> = (0..items).map(|item| (item / 1_000) as u8 + 1).collect();
    dispatcher.expect(&id("a"), vec![expectation(&lengths, &groups)]);
    dispatcher.set_slots(1_000);
    let mut released = 0;
    while dispatcher.left() > 0 {
        assert!(
            dispatcher.state_bytes() < 3 * items as usize,
            "{}",
            dispatcher.state_bytes()
        );
        for release in dispatcher.release(Instant::now()) {
            released += 1;
            dispatcher.complete_with(&release.key, length(lengths[release.key.item as usize]));
        }
    }
    assert_eq!(released, items);
}

#[test]
fn what_was_learnt_is_told_in_blocks_once() {
    let now = Instant::now();
    let mut manifest = manifest_of(&[("b", 40, 1, 1_000)]);
    let block = |end: u32| BlockRef {
        digest: Digest::of(&end.to_le_bytes()),
        end,
    };
    manifest.benchmarks[0].blocks = vec![block(10), block(40)];
    let mut dispatcher = Dispatcher::default();
    add(&mut dispatcher, "a", manifest);
    dispatcher.set_slots(100);
    for release in dispatcher.release(now) {
        let item = release.key.item;
        let told = match item {
            3 => None,
            7 => Some(AnswerLength {
                tokens: 1_000,
                is_cut: true,
            }),
            item => length(item * 10),
        };
        if item != 39 {
            dispatcher.complete_with(&release.key, told);
        }
    }
    let learnt = dispatcher.learnt(&id("a"));
    let digests: Vec<&Digest> = learnt.blocks.iter().map(|block| &block.digest).collect();
    assert_eq!(digests, [&block(10).digest, &block(40).digest]);
    let [first, second] = &learnt.blocks[..] else { panic!() };
    assert_eq!((first.lengths.classes.len(), second.lengths.classes.len()), (10, 30));
    assert_eq!(first.lengths.get(3), None);
    assert_eq!(first.lengths.get(7), Some((length_class(1_000), true)));
    assert_eq!(second.lengths.get(5), Some((length_class(150), false)));
    assert_eq!(second.lengths.get(29), None);
    assert_eq!(learnt.spreads.len(), 1);
    let longest = class_length(learnt.spreads[0].1.at(1.0).unwrap());
    assert!((900..=1_100).contains(&longest), "{longest}");
    assert!(dispatcher.learnt(&id("a")).blocks.is_empty());
}

/// Something that happens to a dispatcher.
#[derive(Debug, Clone)]
enum Happening {
    Release,
    /// One that is out ends, with this length or without.
    End(usize, Option<u32>),
    /// Whatever is out or not, by its number.
    EndAny(usize, u32),
    /// One that is out is a dead letter, and all letters are gone.
    Hold(usize),
    LetGo,
    Slots(usize),
    /// What is known of an evaluation's lengths comes late.
    Expect(usize),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => Just(Happening::Release),
        6 => (any::<usize>(), proptest::option::weighted(0.8, 0_u32..5_000)).prop_map(|(at, tokens)| Happening::End(at, tokens)),
        1 => (any::<usize>(), 0_u32..5_000).prop_map(|(at, tokens)| Happening::EndAny(at, tokens)),
        1 => any::<usize>().prop_map(Happening::Hold),
        1 => Just(Happening::LetGo),
        1 => (1_usize..40).prop_map(Happening::Slots),
        1 => (0_usize..3).prop_map(Happening::Expect),
    ]
}

/// What is expected of three benchmarks of 30, 20 and 10 items; nothing of the last.
fn expectations(seed: u64) -> Vec<Expectation> {
    let groups: Vec<u8> = (0..30).map(|item| (unit(seed, item) * 5.0) as u8).collect();
    let mut first = expectation(&heavy_tailed(seed, 30), &groups);
    first.known = if seed.is_multiple_of(2) { 30 } else { 0 };
    let second = expectation(&heavy_tailed(seed + 1, 20), &[]);
    vec![first, second, Expectation::default()]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]
    /// Whatever is expected and learnt and in whatever order it comes, each sample goes out once and all of them do.
    #[test]
    fn order_loses_no_item_and_releases_none_twice(
        happenings in proptest::collection::vec(happening(), 0..120),
        seed in 0_u64..1_000,
        expects in any::<[bool; 3]>(),
    ) {
        let now = Instant::now();
        let mut dispatcher = Dispatcher::default();
        let mut left: HashMap<ItemKey, bool> = HashMap::new();
        for (index, name) in ["a", "b", "c"].into_iter().enumerate() {
            let mut manifest = manifest_of(&[("x", 30, 3, 4_000), ("y", 20, 1, 16), ("z", 10, 2, 0)]);
            manifest.benchmarks[0].spare_samples = index as u32;
            manifest.suite.tier = [Tier::InTraining, Tier::InTraining, Tier::Canary][index];
            left.extend(manifest.keys(&id(name)).map(|key| (key, false)));
            add(&mut dispatcher, name, manifest);
            dispatcher.bill(&id(name), team(name), None);
            if expects[index] {
                dispatcher.expect(&id(name), expectations(seed));
            }
        }
        dispatcher.set_slots(10);
        let (mut out, mut held) = (Vec::<ItemKey>::new(), HashSet::new());
        let settle = |key: &ItemKey, tokens: Option<u32>, left: &mut HashMap<ItemKey, bool>, dispatcher: &mut Dispatcher| {
            dispatcher.complete_with(key, tokens.and_then(length));
            left.remove(key);
        };
        let rest = [Happening::LetGo, Happening::Slots(1_000), Happening::Release];
        for happening in happenings.into_iter().chain(rest) {
            match happening {
                Happening::Release => for release in dispatcher.release(now) {
                    let was_out = left.insert(release.key.clone(), true);
                    prop_assert_eq!(was_out, Some(false), "done, or released before: {}", release.key);
                    out.push(release.key);
                },
                Happening::End(at, tokens) if !out.is_empty() => {
                    let key = out.swap_remove(at % out.len());
                    settle(&key, tokens, &mut left, &mut dispatcher);
                }
                Happening::EndAny(at, tokens) if !left.is_empty() => {
                    let mut keys: Vec<&ItemKey> = left.keys().collect();
                    keys.sort();
                    let key = keys[at % keys.len()].clone();
                    out.retain(|other| *other != key);
                    held.remove(&key);
                    settle(&key, Some(tokens), &mut left, &mut dispatcher);
                }
                Happening::Hold(at) if !out.is_empty() => {
                    held.insert(out.swap_remove(at % out.len()));
                    dispatcher.hold(&held, now);
                }
                Happening::LetGo => {
                    out.extend(held.drain());
                    dispatcher.hold(&held, now);
                }
                Happening::Slots(slots) => dispatcher.set_slots(slots),
                Happening::Expect(index) => dispatcher.expect(&id(["a", "b", "c"][index]), expectations(seed)),
                _ => {}
            }
        }
        prop_assert!(left.values().all(|is_out| *is_out), "everything is out at last");
        prop_assert_eq!(dispatcher.left(), left.len() as u64);
        for key in out {
            settle(&key, None, &mut left, &mut dispatcher);
        }
        prop_assert_eq!((dispatcher.left(), left.len(), dispatcher.release(now).len()), (0, 0, 0));
    }
}
