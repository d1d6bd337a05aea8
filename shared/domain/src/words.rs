//! Counts with the words that they are of.

/// `1 item`, `2 items`: of words that take an s.
#[must_use]
pub fn counted(count: u64, one: &str) -> String {
    counted_as(count, one, &format!("{one}s"))
}

/// As [`counted`], of words whose plural is another.
#[must_use]
pub fn counted_as(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_one_and_none_are_many() {
        assert_eq!(
            [0, 1, 2].map(|count| counted(count, "item")),
            ["0 items", "1 item", "2 items"]
        );
        assert_eq!(counted_as(1, "reply", "replies"), "1 reply");
        assert_eq!(counted_as(3, "reply", "replies"), "3 replies");
    }
}
