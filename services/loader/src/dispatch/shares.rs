//! Which team's item is released next: deficit round robin in expected tokens. A pure rule.
//!
//! Source: Shreedhar and Varghese, "Efficient Fair Queuing Using Deficit Round-Robin", 1995.

/// Tokens that a team may spend each time that its turn comes: a few ordinary answers, so that teams alternate often.
pub const QUANTUM: u64 = 4_096;

/// What the teams that have items waiting were given and did not spend yet.
#[derive(Debug)]
pub(super) struct Shares<T> {
    /// In the order of their turns.
    teams: Vec<Account<T>>,
    /// Whose turn it is.
    turn: usize,
    /// Accounts that were opened so far.
    opened: u64,
}

/// What a team was given and did not spend yet.
#[derive(Debug)]
struct Account<T> {
    team: T,
    epoch: Epoch,
    deficit: i64,
}

/// A time in which a team has something waiting beside others. What was charged in one is settled in no other: its account ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Epoch(u64);

impl<T> Default for Shares<T> {
    fn default() -> Self {
        Self {
            teams: Vec::new(),
            turn: 0,
            opened: 0,
        }
    }
}

impl<T: Clone + PartialEq> Shares<T> {
    /// Says which of the teams that have something waiting is next, as an index into `waiting`, which holds each team once with
    /// the cost of its next item. A team that has nothing waiting loses what it was given.
    pub(super) fn next(&mut self, waiting: &[(&T, u64)]) -> usize {
        if waiting.len() < 2 {
            self.teams.clear();
            return 0;
        }
        self.attend(waiting);
        loop {
            let account = &self.teams[self.turn];
            let place = waiting.iter().position(|(name, _)| **name == account.team);
            let place = place.unwrap_or(0);
            if account.deficit >= signed(waiting[place].1) {
                return place;
            }
            self.turn = (self.turn + 1) % self.teams.len();
            self.teams[self.turn].deficit += signed(QUANTUM);
        }
    }

    /// Lets teams that wait in, at the end of the round, and those that do not out.
    fn attend(&mut self, waiting: &[(&T, u64)]) {
        let is_waiting = |team: &T| waiting.iter().any(|(name, _)| *name == team);
        let gone = self.teams[..self.turn.min(self.teams.len())].iter();
        let gone = gone.filter(|account| !is_waiting(&account.team)).count();
        self.turn -= gone;
        self.teams.retain(|account| is_waiting(&account.team));
        for (team, _) in waiting {
            if self.teams.iter().all(|account| account.team != **team) {
                self.opened += 1;
                self.teams.push(Account {
                    team: (*team).clone(),
                    epoch: Epoch(self.opened),
                    deficit: 0,
                });
            }
        }
        self.turn %= self.teams.len().max(1);
    }

    /// Whether it is still a team's turn when its next item costs so much; of one that is alone it always is.
    pub(super) fn affords(&self, team: &T, cost: u64) -> bool {
        let known = self.teams.get(self.turn).filter(|_| self.teams.len() > 1);
        known.is_none_or(|account| account.team == *team && account.deficit >= signed(cost))
    }

    /// Takes what a release is expected to cost from its team's share. Returns when that was; `None` where nothing was taken, as
    /// from a team that is alone.
    pub(super) fn charge(&mut self, team: &T, tokens: u64) -> Option<Epoch> {
        let account = self.teams.iter_mut().find(|account| account.team == *team)?;
        account.deficit -= signed(tokens);
        Some(account.epoch)
    }

    /// Corrects what was charged in that epoch by what it cost beyond that; what it did not cost is given back. Once the epoch is
    /// over nothing is: the team would live on what it never paid.
    pub(super) fn settle(&mut self, team: &T, epoch: Epoch, beyond: i64) {
        let mut accounts = self.teams.iter_mut();
        if let Some(account) = accounts.find(|account| account.team == *team && account.epoch == epoch) {
            account.deficit -= beyond;
        }
    }
}

fn signed(tokens: u64) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tidemill_domain::TeamId;

    fn teams(count: usize) -> Vec<TeamId> {
        (0..count)
            .map(|index| TeamId::try_new(format!("team {index}")).unwrap())
            .collect()
    }

    proptest! {
        /// Of teams that always have something waiting none is ahead of another by more than a quantum and the longest answers.
        #[test]
        fn each_team_gets_its_share_within_a_quantum_and_the_largest_item(
            costs in proptest::collection::vec(proptest::collection::vec(1_u64..20_000, 1..20), 2..5),
            releases in 1_usize..600,
        ) {
            let teams = teams(costs.len());
            let (mut shares, mut spent) = (Shares::default(), vec![0_u64; costs.len()]);
            let mut made = vec![0_usize; costs.len()];
            let cost = |team: usize, made: usize| costs[team][made % costs[team].len()];
            let largest = costs.iter().flatten().copied().max().unwrap();
            for _ in 0..releases {
                let waiting: Vec<(&TeamId, u64)> =
                    teams.iter().enumerate().map(|(index, team)| (team, cost(index, made[index]))).collect();
                let team = shares.next(&waiting);
                shares.charge(&teams[team], waiting[team].1);
                spent[team] += waiting[team].1;
                made[team] += 1;
                let (least, most) = (spent.iter().min().unwrap(), spent.iter().max().unwrap());
                prop_assert!(most - least <= 2 * QUANTUM + 2 * largest, "{spent:?}");
            }
        }
    }

    #[test]
    fn a_team_that_had_nothing_to_do_saved_nothing_up() {
        let (teams, mut shares) = (teams(2), Shares::default());
        let (a, b) = (&teams[0], &teams[1]);
        let mut spend = |waiting: &[(&TeamId, u64)]| {
            let place = shares.next(waiting);
            shares.charge(waiting[place].0, waiting[place].1);
            waiting[place].0.clone()
        };
        (0..100).for_each(|_| assert_eq!(spend(&[(a, 4_096)]), *a));
        let alternating: Vec<TeamId> = (0..4).map(|_| spend(&[(a, 4_096), (b, 4_096)])).collect();
        let of_b = alternating.iter().filter(|team| *team == b).count();
        assert_eq!(of_b, 2, "{alternating:?}");
    }

    #[test]
    fn what_an_answer_did_not_take_is_given_back() {
        let (teams, mut shares) = (teams(2), Shares::default());
        let waiting = [(&teams[0], 4_096), (&teams[1], 4_096)];
        let mut of_first = 0;
        for _ in 0..100 {
            let place = shares.next(&waiting);
            let charged = shares.charge(&teams[place], 4_096).unwrap();
            // The first team's answers take half of what was expected of them.
            shares.settle(&teams[place], charged, if place == 0 { -2_048 } else { 0 });
            of_first += usize::from(place == 0);
        }
        assert!((64..=68).contains(&of_first), "two of three: {of_first}");
    }

    #[test]
    fn what_was_charged_before_a_team_was_alone_is_not_given_back_after() {
        let (teams, mut shares) = (teams(2), Shares::default());
        let waiting = [(&teams[0], 4_096), (&teams[1], 4_096)];
        assert_eq!(shares.charge(&teams[0], 4_096), None, "nobody else waits");
        shares.next(&waiting);
        let charged = shares.charge(&teams[0], 4_096).unwrap();
        shares.next(&waiting[..1]);
        shares.next(&waiting);
        shares.settle(&teams[0], charged, -1_000_000);
        let mut of_first = 0;
        for _ in 0..10 {
            let place = shares.next(&waiting);
            shares.charge(&teams[place], 4_096);
            of_first += usize::from(place == 0);
        }
        assert_eq!(of_first, 5);
    }
}
