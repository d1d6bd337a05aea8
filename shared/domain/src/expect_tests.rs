use super::*;
use crate::{
    BenchmarkName, BlockRef, Continuation, Digest, GraderSpec, Normalise, Penalties, Reasoning, Settings, class_length,
};

fn benchmark(items: u32, cap: u32) -> Benchmark {
    let ends = (2..items).step_by(2).chain([items]);
    Benchmark {
        name: BenchmarkName::try_new("b").unwrap(),
        settings: Settings {
            max_tokens: cap,
            temperature: 0.0,
            top_p: 1.0,
            stop: Vec::new(),
            seed: 0,
            samples: 1,
        },
        grader: GraderSpec::Exact {
            ignore_case: false,
            ignore_punctuation: false,
        },
        items,
        blocks: ends
            .map(|end| BlockRef {
                digest: Digest::of(&end.to_le_bytes()),
                end,
            })
            .collect(),
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

/// Lengths in tokens; 0 for unknown, and negative for one that was cut.
fn lengths(tokens: &[i64]) -> Option<Lengths> {
    let mut lengths = Lengths::unknown(tokens.len());
    for (item, tokens) in tokens.iter().enumerate() {
        lengths.set(item, length_class(tokens.unsigned_abs()), *tokens < 0);
    }
    Some(lengths)
}

fn known(own: &[i64], others: &[i64], prompts: &[u64]) -> Known {
    Known {
        own: lengths(own),
        others: lengths(others),
        outline: Some(Outline {
            prompts: prompts.iter().map(|bytes| length_class(*bytes)).collect(),
            prefixes: vec![0; prompts.len()],
        }),
    }
}

fn spread(tokens: impl Iterator<Item = u64>) -> Spread {
    let mut counts = vec![0; 256];
    tokens.for_each(|tokens| counts[usize::from(length_class(tokens))] += 1);
    Spread::of(&counts).unwrap()
}

#[test]
fn the_best_knowledge_of_each_item_counts() {
    let benchmark = benchmark(8, 1_000);
    let cap = length_class(1_000);
    let blocks = [
        known(&[100, 0], &[10, 700], &[50, 50]),
        known(&[-300, 0], &[20, 30], &[50, 50]),
        known(&[0, 5_000], &[0, 0], &[800, 50]),
        Known::default(),
    ];
    let spread = spread((1..=100).map(|rank| rank * 4));
    let expected = expectation(&benchmark, &blocks, Some(&spread));
    assert_eq!(expected.known, 3);
    let class = |tokens| length_class(tokens);
    assert_eq!(expected.classes[0], class(100), "what it took in this run");
    let by_rank = class_length(expected.classes[1]);
    assert!(
        (320..=400).contains(&by_rank),
        "the longest of four elsewhere: {by_rank}"
    );
    assert_eq!(expected.classes[2], cap, "it was cut, so it may take all");
    let middle = class_length(expected.classes[3]);
    assert!((200..=290).contains(&middle), "third of four: {middle}");
    let nine_tenths = class_length(expected.classes[4]);
    assert!((330..=390).contains(&nine_tenths), "nothing known of it: {nine_tenths}");
    assert_eq!(expected.classes[5], cap, "never above the cap");
    assert_eq!(expected.classes[6..], [expected.classes[4]; 2]);
}

#[test]
fn without_a_distribution_another_runs_lengths_stand_and_else_the_prompts() {
    let benchmark = benchmark(4, 1_000);
    let cap = length_class(1_000);
    let blocks = [
        known(&[0, 0], &[700, -20], &[10, 10]),
        known(&[0, 0], &[0, 0], &[8_000, 10]),
    ];
    let expected = expectation(&benchmark, &blocks, None);
    assert_eq!(expected.classes, [length_class(700), cap, cap, cap - PROMPT_SAYS]);
    assert_eq!(
        expectation(&benchmark, &[Known::default(), Known::default()], None),
        Expectation::default()
    );
}

#[test]
fn a_likelihood_generates_nothing_whatever_is_known() {
    let mut benchmark = benchmark(2, 100);
    benchmark.grader = GraderSpec::Likelihood {
        normalise: Normalise::None,
    };
    let mut block = known(&[9, 9], &[9, 9], &[9, 9]);
    assert!(expectation(&benchmark, &[block.clone()], None).classes.is_empty());
    block.outline.as_mut().unwrap().prefixes = vec![7, 7];
    let expected = expectation(&benchmark, &[block], None);
    assert_eq!((expected.classes, expected.prefixes.of(1)), (vec![0, 0], 7));
}

#[test]
fn a_later_checkpoint_counts_where_it_knows_something() {
    let before = lengths(&[10, 20, -30, 0]).unwrap();
    let merged = before.with_newer(&lengths(&[0, -25, 40, 0]).unwrap());
    assert_eq!(merged, lengths(&[10, -25, 40, 0]).unwrap());
    // A block of another size is another block: what is there is damage.
    assert_eq!(lengths(&[1]).unwrap().with_newer(&merged), merged);
}

#[test]
fn a_distribution_is_read_at_its_quantiles_and_few_answers_make_none() {
    let spread = spread((1..=1_000).map(|rank| rank * 2));
    for (share, tokens) in [(0.0, 2.0), (0.5, 1_000.0), (0.9, 1_800.0), (1.0, 2_000.0)] {
        let told = class_length(spread.at(share).unwrap()) as f64;
        assert!((told - tokens).abs() <= tokens * 0.08 + 1.0, "{share}: {told}");
    }
    let mut counts = vec![0; 256];
    counts[9] = ANSWERS_OF_A_SPREAD as u32 - 1;
    assert_eq!(Spread::of(&counts), None);
    counts[9] += 1;
    assert_eq!(Spread::of(&counts).unwrap().at(0.3), Some(9));
}

#[test]
fn beyond_so_many_beginnings_several_share_a_group() {
    let mut prefixes = Prefixes::default();
    (0..1_000_u64).for_each(|prefix| prefixes.push(prefix));
    assert_eq!((prefixes.of(0), prefixes.of(255)), (0, 255));
    assert!((256..1_000).all(|item| (1..=255).contains(&prefixes.of(item))));
    assert_eq!(prefixes.groups.len(), 1_000);
}
