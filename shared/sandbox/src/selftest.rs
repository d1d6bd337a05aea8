//! Programs of which it is known what they are, run in the sandbox before any other, at the concurrency of later.

use std::sync::Arc;

use tokio::task::JoinSet;

use crate::host::Host;
use crate::{Check, Fault, Limits, Unavailable, Verdict, check};

const RIGHT: &str = "def double(values):\n    return [2 * value for value in values]\n";
const WRONG: &str = "def double(values):\n    return values + values\n";
const TESTS: &str = "assert double([1, 2.5]) == [2, 5.0]\nassert double([]) == []\n";

const REMEDY: &str = "give the grader fewer concurrent runs (sandbox.concurrency) or more generous limits";

/// Runs a right and a wrong program on each place at the same time.
pub(crate) async fn self_test(host: &Arc<Host>, limits: &Limits, places: usize) -> Result<(), Unavailable> {
    let mut runs = JoinSet::new();
    for (program, is_right) in [(RIGHT, true), (WRONG, false)] {
        for _ in 0..places.div_ceil(2) {
            let (host, limits) = (Arc::clone(host), *limits);
            runs.spawn(async move { (is_right, check::check(&host, &of(program), &limits).await) });
        }
    }
    while let Some(ran) = runs.join_next().await {
        let (is_right, verdict) = ran.map_err(|error| failed(is_wrong(&error.to_string())))?;
        judged(is_right, verdict).map_err(failed)?;
    }
    Ok(())
}

fn of(program: &str) -> Check {
    Check {
        program: program.to_owned(),
        prelude: String::new(),
        tests: TESTS.to_owned(),
        entry_points: vec!["double".to_owned()],
    }
}

fn judged(is_right: bool, verdict: Result<Verdict, Fault>) -> Result<(), String> {
    match verdict {
        Ok(verdict) if verdict.is_right == is_right && verdict.limit.is_none() => Ok(()),
        Ok(verdict) => Err(is_wrong(&verdict.reason)),
        Err(fault) => Err(is_wrong(&fault.to_string())),
    }
}

fn is_wrong(why: &str) -> String {
    format!("the self-test of a right and a wrong program fails: {why}")
}

fn failed(why: String) -> Unavailable {
    Unavailable::new(why, REMEDY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_self_test_fails_on_any_other_verdict_than_the_known_one() {
        let right = || Verdict {
            is_right: true,
            reason: "passed".to_owned(),
            limit: None,
        };
        assert!(judged(true, Ok(right())).is_ok());
        assert!(judged(false, Ok(Verdict::wrong("wrong"))).is_ok());
        assert!(judged(false, Ok(right())).is_err());
        assert!(judged(true, Ok(Verdict::wrong("wrong"))).is_err());
        assert!(judged(false, Ok(Verdict::over(crate::Limit::Cpu, "it"))).is_err());
        assert!(judged(false, Err(Fault::SetUp("no".to_owned()))).is_err());
    }
}
