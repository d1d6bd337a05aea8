//! Which examples stand before a row.

use crate::random::Random;
use crate::rows::Row;
use crate::task::Sampler;

/// Chooses examples, row after row: the generator goes on from one row to the next, so rows must be taken in their order.
#[derive(Debug, Clone)]
pub struct Drawer {
    sampler: Sampler,
    random: Random,
}

impl Drawer {
    /// Starts before the first row.
    #[must_use]
    pub fn new(sampler: Sampler, seed: u64) -> Self {
        Self {
            sampler,
            random: Random::new(seed),
        }
    }

    /// The places of `count` examples in `pool`, in their order. `own` is the row itself, where it may be among them.
    ///
    /// # Errors
    /// There are not enough.
    pub fn draw(&mut self, pool: &[Row], count: usize, own: Option<&Row>) -> Result<Vec<usize>, String> {
        let own = own.filter(|row| !row.is_empty());
        let is_other = |at: &usize| own.is_none_or(|own| pool.get(*at) != Some(own));
        let chosen: Vec<usize> = match self.sampler {
            Sampler::FirstN => (0..pool.len()).filter(is_other).take(count).collect(),
            Sampler::Seeded => {
                let drawn = self.random.sample(pool.len(), count + usize::from(own.is_some()));
                let drawn = drawn.ok_or_else(|| too_few(count, pool.len()))?;
                let kept: Vec<usize> = drawn.into_iter().filter(is_other).take(count).collect();
                if kept.len() < count {
                    self.draw_without(pool, count, own)?
                } else {
                    kept
                }
            }
        };
        if chosen.len() < count {
            return Err(too_few(count, pool.len()));
        }
        Ok(chosen)
    }

    /// Draws once more where equal rows took too many out.
    fn draw_without(&mut self, pool: &[Row], count: usize, own: Option<&Row>) -> Result<Vec<usize>, String> {
        let others: Vec<usize> = (0..pool.len()).filter(|at| pool.get(*at) != own).collect();
        let drawn = self.random.sample(others.len(), count);
        let drawn = drawn.ok_or_else(|| too_few(count, others.len()))?;
        Ok(drawn.into_iter().filter_map(|at| others.get(at).copied()).collect())
    }
}

fn too_few(count: usize, there: usize) -> String {
    format!("{count} examples are wanted, and {there} rows are there to choose from")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pool(values: &[i64]) -> Vec<Row> {
        let row = |value: &i64| json!({"v": value}).as_object().unwrap().clone();
        values.iter().map(row).collect()
    }

    #[test]
    fn draws_go_on_from_row_to_row() {
        let pool = pool(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        let mut drawer = Drawer::new(Sampler::Seeded, 1234);
        assert_eq!(drawer.draw(&pool, 3, None).unwrap(), [7, 1, 0]);
        assert_eq!(drawer.draw(&pool, 3, None).unwrap(), [1, 0, 9]);
        // The third draw is [1, 5, 3, ..] of four, without the row itself.
        let own = pool[5].clone();
        let drawn = drawer.draw(&pool, 3, Some(&own)).unwrap();
        assert_eq!(drawn.len(), 3);
        assert!(!drawn.contains(&5));
    }

    #[test]
    fn the_first_are_taken_without_the_row_itself() {
        let pool = pool(&[0, 1, 1, 2]);
        let mut drawer = Drawer::new(Sampler::FirstN, 1234);
        assert_eq!(drawer.draw(&pool, 2, Some(&pool[1])).unwrap(), [0, 3]);
        assert_eq!(
            drawer.draw(&pool, 3, Some(&pool[1])).unwrap_err(),
            "3 examples are wanted, and 4 rows are there to choose from"
        );
    }

    #[test]
    fn equal_rows_do_not_leave_too_few() {
        let pool = pool(&[1, 1, 1, 2, 3]);
        let mut drawer = Drawer::new(Sampler::Seeded, 1234);
        for _ in 0..20 {
            let mut drawn = drawer.draw(&pool, 2, Some(&pool[0])).unwrap();
            drawn.sort_unstable();
            assert_eq!(drawn, [3, 4]);
        }
    }
}
