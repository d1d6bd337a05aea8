//! The length of the longest common subsequence.

use std::collections::HashMap;

/// Machine words touched before the comparison is given up: about a second. Two texts of 100,000 words each take half of it.
const MAX_STEPS: u64 = 1 << 28;

/// The length of the longest common subsequence; `None` when finding it takes too long.
///
/// Rows of the dynamic programme are bits, 64 to a word, and only words with a match or a carry are touched. Memory is linear
/// in `reference`.
///
/// Source: Hyyrö, "Bit-parallel LCS-length computation revisited", 2004.
pub(crate) fn length(reference: &[u32], other: &[u32]) -> Option<usize> {
    let (prefix, reference, other) = without_common_ends(reference, other);
    let mut places: HashMap<u32, Vec<(usize, u64)>> = HashMap::new();
    for (index, &token) in reference.iter().enumerate() {
        let (word, bit) = (index / 64, 1_u64 << (index % 64));
        let of_token = places.entry(token).or_default();
        match of_token.last_mut() {
            Some((last, mask)) if *last == word => *mask |= bit,
            _ => of_token.push((word, bit)),
        }
    }
    let mut row = vec![u64::MAX; reference.len().div_ceil(64)];
    let mut steps = 0;
    for matches in other.iter().filter_map(|token| places.get(token)) {
        steps += advance(&mut row, matches);
        if steps > MAX_STEPS {
            return None;
        }
    }
    let matched: u32 = row.iter().map(|word| word.count_zeros()).sum();
    Some(prefix + matched as usize)
}

/// What both begin and end with is in some longest common subsequence.
fn without_common_ends<'a>(one: &'a [u32], other: &'a [u32]) -> (usize, &'a [u32], &'a [u32]) {
    let prefix = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let (one, other) = (&one[prefix..], &other[prefix..]);
    let suffix = one
        .iter()
        .rev()
        .zip(other.iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    (
        prefix + suffix,
        &one[..one.len() - suffix],
        &other[..other.len() - suffix],
    )
}

/// One token's row: `V = (V + (V & M)) | (V & !M)`, where M is mostly zero. Returns the words touched.
fn advance(row: &mut [u64], matches: &[(usize, u64)]) -> u64 {
    let mut steps = 0;
    let mut carry = false;
    let mut next = 0;
    for &(word, mask) in matches {
        while carry && next < word {
            carry = add_carry(&mut row[next]);
            next += 1;
            steps += 1;
        }
        let before = row[word];
        let (sum, over) = before.overflowing_add(before & mask);
        let (sum, over_again) = sum.overflowing_add(u64::from(carry));
        row[word] = sum | (before & !mask);
        carry = over || over_again;
        next = word + 1;
        steps += 1;
    }
    while carry && next < row.len() {
        carry = add_carry(&mut row[next]);
        next += 1;
        steps += 1;
    }
    steps
}

/// Adds a carry to a word without a match; whether it goes on.
fn add_carry(word: &mut u64) -> bool {
    let (sum, over) = word.overflowing_add(1);
    *word |= sum;
    over
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn by_table(one: &[u32], other: &[u32]) -> usize {
        let mut row = vec![0; other.len() + 1];
        for a in one {
            let mut diagonal = 0;
            for (index, b) in other.iter().enumerate() {
                let above = row[index + 1];
                row[index + 1] = if a == b { diagonal + 1 } else { above.max(row[index]) };
                diagonal = above;
            }
        }
        row[other.len()]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn bits_say_what_the_table_says(
            one in prop::collection::vec(0_u32..6, 0..300),
            other in prop::collection::vec(0_u32..6, 0..300),
        ) {
            prop_assert_eq!(length(&one, &other), Some(by_table(&one, &other)));
        }
    }

    #[test]
    fn what_takes_too_long_is_given_up() {
        let one: Vec<u32> = (0..200_000).map(|index| index % 2).collect();
        let other: Vec<u32> = (0..200_000).map(|index| index % 3).collect();
        assert_eq!(length(&one, &other), None);
        let short = &other[1..200];
        assert!(length(short, &one).is_some());
    }
}
