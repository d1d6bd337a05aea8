//! The mean over items of which only clusters are independent, in one pass that holds two numbers a cluster.

use crate::effective_count;

/// Collects the scores of items that belong to clusters.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Clusters {
    items: u64,
    weight: f64,
    sum: f64,
    clusters: Vec<Cluster>,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Cluster {
    weight: f64,
    sum: f64,
}

impl Clusters {
    /// Makes room for clusters numbered from 0 to `clusters - 1`.
    #[must_use]
    pub fn new(clusters: usize) -> Self {
        Self {
            clusters: vec![Cluster::default(); clusters],
            ..Self::default()
        }
    }

    /// Adds the score of one item of a cluster. A number that was not announced gets room.
    pub fn push(&mut self, cluster: usize, score: f64) {
        self.push_weighted(cluster, score, 1.0);
    }

    /// Adds the score of one item that counts by a weight. A weight that is not positive or not finite adds nothing.
    pub fn push_weighted(&mut self, cluster: usize, score: f64, weight: f64) {
        if !weight.is_finite() || weight <= 0.0 {
            return;
        }
        if cluster >= self.clusters.len() {
            self.clusters.resize(cluster + 1, Cluster::default());
        }
        if let Some(cluster) = self.clusters.get_mut(cluster) {
            cluster.weight += weight;
            cluster.sum += weight * score;
            self.items += 1;
            self.weight += weight;
            self.sum += weight * score;
        }
    }

    /// How many items were added.
    #[must_use]
    pub const fn items(&self) -> u64 {
        self.items
    }

    /// How many clusters have items.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.filled().count() as u64
    }

    /// Of the error, for an interval by Student's distribution: one less than the clusters that have items.
    #[must_use]
    pub fn degrees_of_freedom(&self) -> f64 {
        self.count().saturating_sub(1) as f64
    }

    /// How many clusters of equal weight tell as much as these.
    #[must_use]
    pub fn effective_count(&self) -> f64 {
        effective_count(self.filled().map(|cluster| cluster.weight))
    }

    /// The (weighted) mean score over items; `None` without items.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.items > 0).then(|| self.sum / self.weight)
    }

    /// The standard error of the mean over items when only clusters are independent; `None` below two clusters with items.
    ///
    /// The square root of `C/(C-1) * Σ_c (Σ_{i in c} w_i (s_i - mean))²`, divided by the sum of the weights. The factor
    /// C/(C-1) over C clusters corrects the bias of few clusters; with one item a cluster it gives exactly
    /// [`crate::Items::standard_error`].
    ///
    /// Source: Miller, "Adding Error Bars to Evals", arXiv 2411.00640; the factor as in Inspect.
    #[must_use]
    pub fn standard_error(&self) -> Option<f64> {
        let mean = self.mean()?;
        let (count, squares) = self.filled().fold((0_u64, 0.0), |(count, squares), cluster| {
            let deviation = cluster.sum - cluster.weight * mean;
            (count + 1, deviation.mul_add(deviation, squares))
        });
        if count < 2 {
            return None;
        }
        let correction = count as f64 / (count - 1) as f64;
        Some((correction * squares).sqrt() / self.weight)
    }

    fn filled(&self) -> impl Iterator<Item = &Cluster> {
        self.clusters.iter().filter(|cluster| cluster.weight > 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Items;

    fn assert_close(actual: f64, expected: f64) {
        assert!((actual - expected).abs() < 1e-12, "{actual} is not {expected}");
    }

    /// By hand: the mean is 4/7, the clusters' sums of deviations are 2/7, -1/7 and -1/7, their squares add up to 6/49, so
    /// the uncorrected error is √6/49 and the corrected one √9/49.
    #[test]
    fn clusters_widen_the_error_as_computed_by_hand() {
        let mut clusters = Clusters::new(3);
        for (cluster, score) in [(0, 1.0), (0, 1.0), (0, 0.0), (1, 0.0), (1, 1.0), (2, 0.0), (2, 1.0)] {
            clusters.push(cluster, score);
        }
        assert_close(clusters.mean().unwrap(), 4.0 / 7.0);
        assert_close(clusters.standard_error().unwrap(), 3.0 / 49.0);
        assert_eq!(clusters.degrees_of_freedom(), 2.0);
        assert_close(clusters.effective_count(), 49.0 / 17.0);
    }

    #[test]
    fn clusters_of_one_item_are_plain_items() {
        let (mut clusters, mut items) = (Clusters::default(), Items::default());
        for (cluster, score) in [0.0, 1.0, 0.5, 0.25, 1.0, 0.75].into_iter().enumerate() {
            clusters.push(cluster, score);
            items.push(score);
        }
        assert_close(clusters.standard_error().unwrap(), items.standard_error().unwrap());
    }

    #[test]
    fn one_cluster_alone_tells_no_error_and_empty_ones_are_none() {
        let mut clusters = Clusters::new(5);
        clusters.push(3, 1.0);
        clusters.push(3, 0.0);
        clusters.push_weighted(4, 1.0, 0.0);
        assert_eq!((clusters.mean(), clusters.count(), clusters.items()), (Some(0.5), 1, 2));
        assert_eq!((clusters.standard_error(), clusters.degrees_of_freedom()), (None, 0.0));
    }
}
