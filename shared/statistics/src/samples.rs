//! Measures over the samples of one item: the chance that one of k is right, and that most of k are.

/// The chance that at least one of `k` samples is right, estimated without bias from `right` of `drawn`; `None` unless
/// `1 <= k <= drawn` and `right <= drawn`.
///
/// It is 1 - C(n-c, k) / C(n, k), as a product that does not overflow. Unbiased only where `drawn` was fixed in advance:
/// drawing on until something is right is another thing.
///
/// Source: Chen et al., "Evaluating Large Language Models Trained on Code", arXiv 2107.03374.
#[must_use]
pub fn pass_at(k: u32, drawn: u32, right: u32) -> Option<f64> {
    if k == 0 || k > drawn || right > drawn {
        return None;
    }
    let wrong = drawn - right;
    if wrong < k {
        return Some(1.0);
    }
    let none_right: f64 = (wrong + 1..=drawn).map(|n| 1.0 - f64::from(k) / f64::from(n)).product();
    Some(1.0 - none_right)
}

/// The samples of an item that gave the same answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Vote {
    /// How many they are.
    pub count: u32,
    /// The mean of their scores, 0 to 1.
    pub score: f64,
}

/// Samples of an item that are considered at most, unless all of them vote together: what the estimate costs grows with
/// their third power, and its error hardly falls beyond.
pub const MAX_VOTERS: u32 = 128;

/// How many of the first of `drawn` samples [`majority_at`] is to be given for votes of `k`.
#[must_use]
pub fn voters(k: u32, drawn: u32) -> u32 {
    drawn.min(MAX_VOTERS.max(k))
}

/// The expected score of the answer that most of `k` samples give, over all choices of `k` of the samples; `None` unless
/// `1 <= k <=` the samples.
///
/// `abstained` are samples without an answer: they take places among the `k` and vote for nothing; where nobody votes the
/// score is 0. Of answers with equally many votes the one that was given first counts. As samples of an item are
/// exchangeable, that is each of them equally often, so the result depends on counts alone, not on the order of samples, and
/// it is an estimate without bias, with less variance than the first `k` samples alone have.
///
/// Source: Wang et al., "Self-Consistency Improves Chain of Thought Reasoning", arXiv 2203.11171, for the vote; the
/// expectation over subsets is that of pass@k.
#[must_use]
pub fn majority_at(k: u32, votes: &[Vote], abstained: u32) -> Option<f64> {
    let voted: u32 = votes.iter().map(|vote| vote.count).sum();
    let drawn = voted + abstained;
    if k == 0 || k > drawn {
        return None;
    }
    if k == drawn {
        return Some(winners_score(votes));
    }
    let most = votes.iter().map(|vote| vote.count).max().unwrap_or(0).min(k);
    let table = Binomials::up_to(drawn);
    let won: f64 = (1..=most)
        .map(|winning| won_with(winning, k, votes, abstained, &table))
        .sum();
    Some((won / table.choose(drawn, k)).clamp(0.0, 1.0))
}

/// The mean score of the answers with the most votes.
fn winners_score(votes: &[Vote]) -> f64 {
    let most = votes.iter().map(|vote| vote.count).max().unwrap_or(0);
    let winners = votes.iter().filter(|vote| vote.count == most && most > 0);
    let (count, sum) = winners.fold((0_u32, 0.0), |(count, sum), vote| (count + 1, sum + vote.score));
    if count == 0 { 0.0 } else { sum / f64::from(count) }
}

/// The scores of all choices of `k` samples in which the most votes for one answer are exactly `winning`.
///
/// Goes through the answers and keeps, for each number of samples chosen and each number of answers that have `winning`
/// votes, how many choices there are and the sum of the winners' scores over them.
fn won_with(winning: u32, k: u32, votes: &[Vote], abstained: u32, table: &Binomials) -> f64 {
    let (chosen, ties) = (k as usize + 1, (k / winning) as usize + 1);
    let start = Ways { count: 1.0, score: 0.0 };
    let mut ways = vec![Ways::default(); chosen * ties];
    ways[0] = start;
    for vote in votes {
        let mut next = vec![Ways::default(); chosen * ties];
        for (index, before) in ways.iter().enumerate().filter(|(_, ways)| ways.count > 0.0) {
            let (used, tied) = (index / ties, index % ties);
            let free = (k as usize - used) as u32;
            for taken in 0..=vote.count.min(winning).min(free) {
                let choices = table.choose(vote.count, taken);
                let wins = taken == winning;
                let place = (used + taken as usize) * ties + tied + usize::from(wins);
                let gained = if wins { vote.score * before.count } else { 0.0 };
                next[place].count += choices * before.count;
                next[place].score += choices * (before.score + gained);
            }
        }
        ways = next;
    }
    let mut won = 0.0;
    for silent in 0..=abstained.min(k) {
        let row = (k - silent) as usize * ties;
        let scores = (1..ties).map(|tied| ways[row + tied].score / tied as f64);
        won += table.choose(abstained, silent) * scores.sum::<f64>();
    }
    won
}

#[derive(Debug, Clone, Copy, Default)]
struct Ways {
    count: f64,
    score: f64,
}

/// Pascal's triangle.
struct Binomials {
    rows: Vec<Vec<f64>>,
}

impl Binomials {
    fn up_to(n: u32) -> Self {
        let mut rows: Vec<Vec<f64>> = vec![vec![1.0]];
        for n in 1..=n as usize {
            let above = &rows[n - 1];
            let inner = above.windows(2).map(|pair| pair[0] + pair[1]);
            rows.push(std::iter::once(1.0).chain(inner).chain([1.0]).collect());
        }
        Self { rows }
    }

    fn choose(&self, n: u32, k: u32) -> f64 {
        self.rows
            .get(n as usize)
            .and_then(|row| row.get(k as usize))
            .copied()
            .unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pass_at_needs_as_many_samples_as_it_speaks_of() {
        assert_eq!(pass_at(0, 5, 1), None);
        assert_eq!(pass_at(6, 5, 1), None);
        assert_eq!(pass_at(1, 5, 6), None);
        assert_eq!(pass_at(5, 5, 1), Some(1.0));
        assert_eq!(pass_at(5, 5, 0), Some(0.0));
        assert!((pass_at(1, 5, 2).unwrap() - 0.4).abs() < 1e-15);
    }

    #[test]
    fn a_vote_of_one_is_the_mean_and_a_vote_of_all_its_winner() {
        let votes = [Vote { count: 3, score: 1.0 }, Vote { count: 5, score: 0.0 }];
        assert!((majority_at(1, &votes, 2).unwrap() - 0.3).abs() < 1e-15);
        assert_eq!(majority_at(10, &votes, 2), Some(0.0));
        assert_eq!(majority_at(11, &votes, 2), None);
        assert_eq!(majority_at(0, &votes, 2), None);
    }

    #[test]
    fn equal_votes_share_the_win_and_silence_wins_nothing() {
        let tie = [Vote { count: 2, score: 1.0 }, Vote { count: 2, score: 0.0 }];
        assert_eq!(majority_at(4, &tie, 0), Some(0.5));
        assert_eq!(majority_at(3, &[], 5), Some(0.0));
        assert_eq!(majority_at(5, &[], 5), Some(0.0));
    }

    #[test]
    fn the_order_of_answers_changes_nothing() {
        let votes = [
            Vote { count: 3, score: 1.0 },
            Vote { count: 5, score: 0.0 },
            Vote { count: 1, score: 0.5 },
        ];
        let turned = [votes[2], votes[0], votes[1]];
        for k in 1..=9 {
            let (one, other) = (majority_at(k, &votes, 1).unwrap(), majority_at(k, &turned, 1).unwrap());
            assert!((one - other).abs() < 1e-14, "k = {k}");
        }
    }

    #[test]
    fn only_the_first_samples_vote_where_there_are_very_many() {
        assert_eq!((voters(8, 64), voters(8, 1_000), voters(500, 1_000)), (64, 128, 500));
    }
}
