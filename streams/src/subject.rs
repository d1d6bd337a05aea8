//! Subjects: built and read here alone.

use tidemill_domain::{EvaluationId, EvaluationState, GenerationKey, GroupId, ItemKey, RunId, SuiteName, TeamId};

/// Where processes are asked about themselves; no stream keeps it.
pub const STATUS: &str = "tm.status";

/// Makes a subject token of any name: `.`, `*`, `>`, `%`, white space and control characters are percent-encoded.
#[must_use]
pub fn token(name: &str) -> String {
    let mut token = String::with_capacity(name.len());
    for character in name.chars() {
        if matches!(character, '.' | '*' | '>' | '%') || character.is_whitespace() || character.is_control() {
            let mut bytes = [0; 4];
            for byte in character.encode_utf8(&mut bytes).bytes() {
                token.push_str(&format!("%{byte:02X}"));
            }
        } else {
            token.push(character);
        }
    }
    token
}

/// Reads a token back; `None` where a percent sign is not followed by two hexadecimal digits or the bytes are not UTF-8.
#[must_use]
pub fn name_of_token(token: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(token.len());
    let mut rest = token.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(byte);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

/// `tm.checkpoint.<run>.written`
#[must_use]
pub fn checkpoint_written(run: &RunId) -> String {
    format!("tm.checkpoint.{}.written", token(run.as_str()))
}

/// `tm.checkpoint.<run>.rolled_back`
#[must_use]
pub fn checkpoint_rolled_back(run: &RunId) -> String {
    format!("tm.checkpoint.{}.rolled_back", token(run.as_str()))
}

/// `tm.evaluation.<evaluation>.<state>`
#[must_use]
pub fn evaluation(id: &EvaluationId, state: EvaluationState) -> String {
    format!("tm.evaluation.{id}.{}", state.label())
}

/// All events of one evaluation.
#[must_use]
pub fn evaluation_events(id: &EvaluationId) -> String {
    format!("tm.evaluation.{id}.*")
}

/// `tm.ready.<group>.<evaluation>.<benchmark>.<item>.<sample>`
#[must_use]
pub fn ready(group: &GroupId, key: &ItemKey) -> String {
    format!(
        "tm.ready.{group}.{}.{}.{}.{}",
        key.evaluation, key.benchmark, key.item, key.sample
    )
}

/// All releases to one group.
#[must_use]
pub fn ready_of_group(group: &GroupId) -> String {
    format!("tm.ready.{group}.>")
}

/// All releases of one evaluation to one group.
#[must_use]
pub fn ready_of_evaluation(group: &GroupId, id: &EvaluationId) -> String {
    format!("tm.ready.{group}.{id}.>")
}

/// All releases of one evaluation, to whichever group.
#[must_use]
pub fn ready_of_evaluation_to_any(id: &EvaluationId) -> String {
    format!("tm.ready.*.{id}.>")
}

/// `tm.done.<evaluation>.<benchmark>.<item>.<sample>`
#[must_use]
pub fn done(key: &ItemKey) -> String {
    format!(
        "tm.done.{}.{}.{}.{}",
        key.evaluation, key.benchmark, key.item, key.sample
    )
}

/// The key of an interrupted answer in its bucket: `<evaluation>.<benchmark>.<item>.<sample>`
#[must_use]
pub fn parked(key: &ItemKey) -> String {
    format!("{}.{}.{}.{}", key.evaluation, key.benchmark, key.item, key.sample)
}

/// All completions of one evaluation.
#[must_use]
pub fn done_of_evaluation(id: &EvaluationId) -> String {
    format!("tm.done.{id}.>")
}

/// `tm.grade.<evaluation>.<benchmark>.<item>.<sample>`
#[must_use]
pub fn grade(key: &ItemKey) -> String {
    format!(
        "tm.grade.{}.{}.{}.{}",
        key.evaluation, key.benchmark, key.item, key.sample
    )
}

/// All grades of one evaluation.
#[must_use]
pub fn grade_of_evaluation(id: &EvaluationId) -> String {
    format!("tm.grade.{id}.>")
}

/// `tm.result.<team>.<run>.<suite>.<benchmark>`
#[must_use]
pub fn result(team: &TeamId, run: &RunId, suite: &SuiteName, benchmark: &str) -> String {
    format!(
        "tm.result.{}.{}.{}.{}",
        token(team.as_str()),
        token(run.as_str()),
        token(suite.as_str()),
        token(benchmark)
    )
}

/// `tm.cache.<group>.<generation>`
#[must_use]
pub fn cache(group: &GroupId, key: &GenerationKey) -> String {
    format!("tm.cache.{group}.{key}")
}

/// All generations of one group's weights.
#[must_use]
pub fn cache_of_group(group: &GroupId) -> String {
    format!("tm.cache.{group}.*")
}

/// The group and the generation in a CACHE subject; `None` for any other subject.
#[must_use]
pub fn generation_of(subject: &str) -> Option<(GroupId, GenerationKey)> {
    let (group, key) = subject.strip_prefix("tm.cache.")?.split_once('.')?;
    Some((group.parse().ok()?, key.parse().ok()?))
}

/// `tm.dead.<stage>`
#[must_use]
pub fn dead(stage: &str) -> String {
    format!("tm.dead.{}", token(stage))
}

/// The subjects of all dead letters.
pub const DEAD_LETTERS: &str = "tm.dead.*";

/// The broker's advisories of messages that were delivered as often as is allowed.
pub const MAX_DELIVERIES: &str = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.>";

/// The key in a READY, DONE or GRADE subject; `None` for any other subject.
#[must_use]
pub fn key_of(subject: &str) -> Option<ItemKey> {
    let mut tokens = subject.split('.');
    if tokens.next()? != "tm" {
        return None;
    }
    match tokens.next()? {
        "ready" => {
            tokens.next()?;
        }
        "done" | "grade" => {}
        _ => return None,
    }
    let key = ItemKey {
        evaluation: tokens.next()?.parse().ok()?,
        benchmark: tokens.next()?.parse().ok()?,
        item: tokens.next()?.parse().ok()?,
        sample: tokens.next()?.parse().ok()?,
    };
    tokens.next().is_none().then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_domain::Digest;

    #[test]
    fn names_survive_as_tokens() {
        for name in ["llama.3*1>x y", "100%", "%2E", "лед\t", "a\u{2003}b", "plain"] {
            let token = token(name);
            assert!(!token.contains(['.', '*', '>', ' ', '\t']), "{token}");
            assert_eq!(name_of_token(&token).unwrap(), name);
        }
        assert_eq!(name_of_token("50%"), None);
        assert_eq!(name_of_token("%zz"), None);
    }

    #[test]
    fn keys_are_read_back_from_their_subjects() {
        let evaluation = EvaluationId::from_digest(&Digest::of(b"e"));
        let group = GroupId::from_digest(&Digest::of(b"g"));
        let key = ItemKey {
            evaluation,
            benchmark: 0,
            item: 12,
            sample: 3,
        };
        for subject in [ready(&group, &key), done(&key), grade(&key)] {
            assert_eq!(key_of(&subject), Some(key.clone()));
        }
        let generation = "00112233445566778899aabbccddeeff".parse().unwrap();
        let subject = cache(&group, &generation);
        assert_eq!(generation_of(&subject), Some((group, generation)));
        assert_eq!((generation_of("tm.cache.zz.00"), key_of(&subject)), (None, None));
        assert_eq!(key_of("tm.done.zz.0.0.0"), None);
        assert_eq!(key_of(&format!("{}.9", done(&key))), None);
    }
}
