use super::*;

fn limits() -> Limits {
    Limits {
        max_num_seqs: 4,
        max_batched_tokens: 64,
        block_size: 4,
        kv_blocks: 64,
        max_model_len: 128,
        step: Duration::from_millis(10),
        step_per_sequence: Duration::from_millis(1),
        first_token: Duration::ZERO,
        ..Limits::default()
    }
}

fn arrival(ids: &[u32], output: u32) -> Arrival {
    Arrival {
        chain: chain(ids, 4),
        prompt: ids.len() as u32,
        output,
        reads_cache: true,
        stalls_after: None,
    }
}

fn prompt(seed: u32, tokens: u32) -> Vec<u32> {
    (0..tokens).map(|index| seed * 1000 + index).collect()
}

/// Steps until nothing is left; each finished sequence with the millisecond of its end.
fn run(engine: &mut Engine) -> Vec<(u64, u128)> {
    let mut ends = Vec::new();
    while let Some(step) = engine.step() {
        ends.extend(
            step.finished
                .iter()
                .map(|finished| (finished.id.0, step.ended_at.as_millis())),
        );
        assert!(engine.kv_use() <= 1.0);
    }
    assert_eq!((engine.running(), engine.waiting(), engine.kv_use()), (0, 0, 0.0));
    ends
}

#[test]
fn a_step_costs_a_constant_and_a_part_for_each_sequence() {
    let mut engine = Engine::new(limits());
    engine.submit(arrival(&prompt(1, 4), 3)).unwrap();
    engine.submit(arrival(&prompt(2, 4), 2)).unwrap();
    // Prefill gives both the first token (10), the next step two more (12), the last one (11).
    assert_eq!(run(&mut engine), [(1, 22), (0, 33)]);
    assert_eq!(engine.totals().generated_tokens, 5);
}

#[test]
fn the_first_token_takes_its_time_and_holds_nobody_up() {
    let limits = Limits {
        first_token: Duration::from_millis(150),
        ..limits()
    };
    let mut engine = Engine::new(limits);
    engine.submit(arrival(&prompt(1, 4), 1)).unwrap();
    let step = engine.step().unwrap();
    assert_eq!((step.ended_at.as_millis(), step.decoded), (10, 0));
    let step = engine.step().unwrap();
    assert_eq!(step.finished[0].first_token_at.as_millis(), 161);
}

#[test]
fn more_than_the_batch_waits_in_order_of_arrival() {
    let mut engine = Engine::new(limits());
    for seed in 0..6 {
        engine.submit(arrival(&prompt(seed, 4), 2)).unwrap();
    }
    engine.step().unwrap();
    assert_eq!((engine.running(), engine.waiting()), (4, 2));
    let ends = run(&mut engine);
    assert_eq!(ends.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn a_long_prefill_is_cut_into_chunks_and_decoding_goes_on() {
    let limits = Limits {
        max_batched_tokens: 8,
        prefill_per_token: Duration::from_millis(1),
        ..limits()
    };
    let mut engine = Engine::new(limits);
    engine.submit(arrival(&prompt(1, 2), 9)).unwrap();
    engine.step().unwrap();
    let long = engine.submit(arrival(&prompt(2, 20), 1)).unwrap();
    for _ in 0..2 {
        let step = engine.step().unwrap();
        assert_eq!((step.decoded, step.finished.len()), (1, 0));
    }
    assert_eq!(engine.step().unwrap().finished[0].id, long);
    assert_eq!(engine.totals().prefill_tokens, 22);
}

#[test]
fn prompts_that_begin_alike_share_their_full_blocks() {
    let mut engine = Engine::new(limits());
    let common = prompt(7, 12);
    let with_end = |end: u32| [&common[..], &prompt(end, 3)].concat();
    engine.submit(arrival(&with_end(1), 1)).unwrap();
    run(&mut engine);
    engine.submit(arrival(&with_end(2), 1)).unwrap();
    let step = engine.step().unwrap();
    assert_eq!(step.finished[0].cached, 12);
    let totals = engine.totals();
    assert_eq!((totals.prefix_queries, totals.prefix_hits), (30, 12));
    assert_eq!(totals.prefill_tokens, 15 + 3);
}

#[test]
fn a_whole_prompt_in_the_cache_computes_its_last_block_and_scoring_reads_none() {
    let mut engine = Engine::new(limits());
    engine.submit(arrival(&prompt(1, 8), 1)).unwrap();
    run(&mut engine);
    engine.submit(arrival(&prompt(1, 8), 1)).unwrap();
    assert_eq!(engine.step().unwrap().finished[0].cached, 4);
    let scoring = Arrival {
        reads_cache: false,
        ..arrival(&prompt(1, 8), 1)
    };
    engine.submit(scoring).unwrap();
    assert_eq!(engine.step().unwrap().finished[0].cached, 0);
    assert_eq!(engine.totals().prefix_queries, 16, "not counted where not read");
}

#[test]
fn without_room_the_newest_starts_again_and_all_end() {
    let limits = Limits {
        kv_blocks: 8,
        max_model_len: 32,
        ..limits()
    };
    let mut engine = Engine::new(limits);
    for seed in 0..3 {
        engine.submit(arrival(&prompt(seed, 4), 16)).unwrap();
    }
    let ends = run(&mut engine);
    assert_eq!(ends[0].0, 0, "the oldest keeps its place");
    assert_eq!(ends.len(), 3);
    let totals = engine.totals();
    assert!(totals.preemptions > 0, "{totals:?}");
    assert_eq!(
        totals.generated_tokens, 48,
        "what was generated is computed again, not drawn again"
    );
    assert!(totals.prefill_tokens > 12);
}

#[test]
fn a_full_queue_and_a_long_request_are_refused() {
    let limits = Limits {
        max_waiting: Some(1),
        max_num_seqs: 1,
        ..limits()
    };
    let mut engine = Engine::new(limits);
    engine.submit(arrival(&prompt(1, 4), 9)).unwrap();
    engine.step().unwrap();
    engine.submit(arrival(&prompt(2, 4), 9)).unwrap();
    assert_eq!(
        engine.submit(arrival(&prompt(3, 4), 9)),
        Err(Refusal::Full { waiting: 1 })
    );
    let too_long = engine.submit(arrival(&prompt(3, 120), 9));
    assert_eq!(
        too_long,
        Err(Refusal::TooLong {
            wanted: 129,
            max_model_len: 128
        })
    );
}

#[test]
fn an_aborted_sequence_gives_its_room_back_and_a_stalled_one_keeps_it() {
    let mut engine = Engine::new(limits());
    let stalled = Arrival {
        stalls_after: Some(2),
        ..arrival(&prompt(1, 4), 9)
    };
    let stalled = engine.submit(stalled).unwrap();
    let other = engine.submit(arrival(&prompt(2, 4), 4)).unwrap();
    let mut ended = Vec::new();
    while let Some(step) = engine.step() {
        ended.extend(step.finished.iter().map(|finished| finished.id));
    }
    assert_eq!(ended, [other]);
    assert_eq!(engine.progress().collect::<Vec<_>>(), [(stalled, 2)]);
    assert!(engine.abort(stalled) && !engine.abort(stalled));
    assert_eq!((engine.running(), engine.kv_use()), (0, 0.0));
}
