//! Stop strings in text that arrives in pieces.

/// Finds the first of several stop strings, holding back text that may be the beginning of one; or, where the stop string is
/// wanted too, nothing.
#[derive(Debug, Default)]
pub(crate) struct StopMatcher {
    stops: Vec<String>,
    /// The stop string is part of the text.
    includes: bool,
    /// Text that may be the beginning of a stop string: held back, or given out already.
    held: String,
}

/// What a piece of text led to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StopMatch {
    /// Text that is now certain to come before any stop string.
    pub(crate) text: String,
    /// The stop string that ended the text.
    pub(crate) stop: Option<String>,
}

impl StopMatcher {
    /// Looks for `stops`, none of which is empty.
    pub(crate) fn new(stops: Vec<String>, includes: bool) -> Self {
        Self {
            stops,
            includes,
            held: String::new(),
        }
    }

    /// Takes the next piece. After a stop was found nothing more may be pushed.
    pub(crate) fn push(&mut self, piece: &str) -> StopMatch {
        if self.stops.is_empty() {
            return StopMatch {
                text: piece.to_owned(),
                stop: None,
            };
        }
        let given = if self.includes { self.held.len() } else { 0 };
        self.held.push_str(piece);
        let first = self
            .stops
            .iter()
            .filter_map(|stop| self.held.find(stop.as_str()).map(|at| (at, stop)));
        // Of stops that begin at the same place, the one given first counts.
        if let Some((at, stop)) = first.min_by_key(|(at, _)| *at) {
            let end = if self.includes { at + stop.len() } else { at };
            let stop = Some(stop.clone());
            self.held.truncate(end);
            let text = self.held.split_off(given);
            self.held.clear();
            return StopMatch { text, stop };
        }
        let kept = self
            .stops
            .iter()
            .map(|stop| overlap(&self.held, stop))
            .max()
            .unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - kept);
        let text = std::mem::replace(&mut self.held, rest);
        StopMatch {
            text: if self.includes { piece.to_owned() } else { text },
            stop: None,
        }
    }

    /// Gives out what was held back, when the text ends without a stop.
    pub(crate) fn finish(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        if self.includes { String::new() } else { held }
    }
}

/// Length of the longest end of `text` that begins `stop`.
fn overlap(text: &str, stop: &str) -> usize {
    let starts = stop
        .char_indices()
        .map(|(at, _)| at)
        .skip(1)
        .filter(|&length| length <= text.len());
    starts
        .filter(|&length| text.ends_with(&stop[..length]))
        .max()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(stops: &[&str], pieces: &[&str]) -> (Vec<String>, Option<String>) {
        matched(stops, pieces, false)
    }

    fn matched(stops: &[&str], pieces: &[&str], includes: bool) -> (Vec<String>, Option<String>) {
        let mut matcher = StopMatcher::new(stops.iter().map(|stop| (*stop).to_owned()).collect(), includes);
        let mut texts = Vec::new();
        for piece in pieces {
            let found = matcher.push(piece);
            texts.push(found.text);
            if found.stop.is_some() {
                return (texts, found.stop);
            }
        }
        texts.push(matcher.finish());
        (texts, None)
    }

    #[test]
    fn a_stop_is_found_across_pieces_and_cut_off() {
        let (texts, stop) = run(&["\n\nQ:"], &["one\n", "\nQ", ": two"]);
        assert_eq!((texts.concat().as_str(), stop.as_deref()), ("one", Some("\n\nQ:")));
    }

    #[test]
    fn with_the_stop_wanted_nothing_is_held_back_and_it_ends_the_text() {
        let (texts, stop) = matched(&["\n\nQ:", "abc"], &["one\n", "\nQ", ": two"], true);
        assert_eq!(texts, ["one\n", "\nQ", ":"]);
        assert_eq!(stop.as_deref(), Some("\n\nQ:"));
        let (texts, stop) = matched(&["abc"], &["xab", "abd", "a"], true);
        assert_eq!((texts.concat().as_str(), stop), ("xababda", None));
    }

    #[test]
    fn only_what_may_begin_a_stop_is_held_back() {
        let (texts, stop) = run(&["abc"], &["xab", "abd", "a"]);
        assert_eq!(texts, ["x", "ababd", "", "a"]);
        assert_eq!(stop, None);
    }

    #[test]
    fn the_earliest_stop_wins() {
        let (texts, stop) = run(&["two", "one"], &["zero one two"]);
        assert_eq!((texts.concat().as_str(), stop.as_deref()), ("zero ", Some("one")));
    }

    #[test]
    fn stops_of_several_bytes_per_character_are_handled() {
        let (texts, stop) = run(&["。終"], &["はい。", "終わり"]);
        assert_eq!((texts.concat().as_str(), stop.as_deref()), ("はい", Some("。終")));
        assert_eq!(run(&["é"], &["e", "è"]).0.concat(), "eè");
    }
}
