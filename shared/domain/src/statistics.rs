//! Error bars of a mean over items.
//!
//! The unit of every error bar is the item: samples of one item are averaged before they come here, because drawing the
//! same item again tells nothing about other items. Where items share a passage or are translations of each other, the
//! unit is their cluster. Everything is one pass over the items and holds a few numbers, or one pair a cluster.
//!
//! Source: Miller, "Adding Error Bars to Evals", arXiv 2411.00640.

/// The quantile of the normal distribution that leaves 2.5 % above it: the half-width of a 95 % interval in standard errors.
pub const Z_95: f64 = 1.959_963_984_540_054;

/// Collects the scores of independent items.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Items {
    count: u64,
    /// Kept beside the running mean because it is exact for scores of 0 and 1.
    sum: f64,
    running_mean: f64,
    squares: f64,
}

impl Items {
    /// Adds the score of one item.
    pub fn push(&mut self, score: f64) {
        self.count += 1;
        self.sum += score;
        let from_old_mean = score - self.running_mean;
        self.running_mean += from_old_mean / self.count as f64;
        self.squares += from_old_mean * (score - self.running_mean);
    }

    /// How many items were added.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The sum of the scores.
    #[must_use]
    pub const fn sum(&self) -> f64 {
        self.sum
    }

    /// The mean score; `None` without items.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }

    /// The standard error of the mean, sd/√n with n - 1 degrees of freedom; `None` below two items.
    ///
    /// Source of the running sum of squares: Welford, "Note on a Method for Calculating Corrected Sums", 1962.
    #[must_use]
    pub fn standard_error(&self) -> Option<f64> {
        let count = self.count as f64;
        (self.count > 1).then(|| (self.squares.max(0.0) / (count - 1.0) / count).sqrt())
    }
}

/// Collects the scores of items that belong to clusters.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Clusters {
    items: u64,
    sum: f64,
    clusters: Vec<Cluster>,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Cluster {
    items: u64,
    sum: f64,
}

impl Clusters {
    /// Makes room for clusters numbered from 0 to `clusters - 1`.
    #[must_use]
    pub fn new(clusters: usize) -> Self {
        Self {
            items: 0,
            sum: 0.0,
            clusters: vec![Cluster::default(); clusters],
        }
    }

    /// Adds the score of one item of a cluster. A number that was not announced gets room.
    pub fn push(&mut self, cluster: usize, score: f64) {
        if cluster >= self.clusters.len() {
            self.clusters.resize(cluster + 1, Cluster::default());
        }
        if let Some(cluster) = self.clusters.get_mut(cluster) {
            cluster.items += 1;
            cluster.sum += score;
            self.items += 1;
            self.sum += score;
        }
    }

    /// The mean score over items; `None` without items.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.items > 0).then(|| self.sum / self.items as f64)
    }

    /// The standard error of the mean over items when only clusters are independent; `None` below two clusters with items.
    ///
    /// The square root of `C/(C-1) * Σ_c (Σ_{i in c} (s_i - mean))²`, divided by the number of items. The factor C/(C-1)
    /// over C clusters corrects the bias of few clusters; with one item a cluster it gives exactly [`Items::standard_error`].
    #[must_use]
    pub fn standard_error(&self) -> Option<f64> {
        let mean = self.mean()?;
        let filled = self.clusters.iter().filter(|cluster| cluster.items > 0);
        let (count, squares) = filled.fold((0_u64, 0.0), |(count, squares), cluster| {
            let deviation = cluster.sum - cluster.items as f64 * mean;
            (count + 1, deviation.mul_add(deviation, squares))
        });
        if count < 2 {
            return None;
        }
        let correction = count as f64 / (count - 1) as f64;
        Some((correction * squares).sqrt() / self.items as f64)
    }
}

/// The 95 % interval of a share when each of `items` independent items is either right or wrong; `None` without items.
///
/// It keeps its coverage for few items and for shares near 0 and 1, where mean ± 1.96 standard errors does not.
///
/// Source: Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", 1927.
#[must_use]
pub fn wilson_interval(right: u64, items: u64) -> Option<[f64; 2]> {
    if items == 0 {
        return None;
    }
    let (share, count) = (right as f64 / items as f64, items as f64);
    let z2 = Z_95 * Z_95;
    let scale = 1.0 + z2 / count;
    let centre = (share + z2 / (2.0 * count)) / scale;
    let half = Z_95 / scale * (share * (1.0 - share) / count + z2 / (4.0 * count * count)).sqrt();
    let low = if right == 0 { 0.0 } else { (centre - half).max(0.0) };
    let high = if right == items { 1.0 } else { (centre + half).min(1.0) };
    Some([low, high])
}

/// The 95 % interval of a mean of scores from 0 to 1 by its standard error, clipped to that range.
#[must_use]
pub fn normal_interval(mean: f64, standard_error: f64) -> [f64; 2] {
    let half = Z_95 * standard_error;
    [(mean - half).clamp(0.0, 1.0), (mean + half).clamp(0.0, 1.0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(scores: &[f64]) -> Items {
        scores.iter().fold(Items::default(), |mut items, &score| {
            items.push(score);
            items
        })
    }

    fn assert_close(actual: f64, expected: f64) {
        assert!((actual - expected).abs() < 1e-12, "{actual} is not {expected}");
    }

    /// Expected: `numpy.mean` and `scipy.stats.sem` of SciPy 1.17.
    #[test]
    fn mean_and_standard_error_agree_with_scipy() {
        let items = items(&[0.0, 1.0, 0.5, 0.25, 1.0, 0.75]);
        assert_close(items.mean().unwrap(), 0.583_333_333_333_333_4);
        assert_close(items.standard_error().unwrap(), 1.0 / 6.0);
    }

    #[test]
    fn one_item_has_a_mean_and_no_standard_error() {
        assert_eq!(items(&[]).mean(), None);
        assert_eq!(items(&[0.3]).mean(), Some(0.3));
        assert_eq!(items(&[0.3]).standard_error(), None);
    }

    #[test]
    fn equal_scores_have_no_spread_and_binary_means_are_exact() {
        assert_eq!(items(&[0.3; 1000]).standard_error(), Some(0.0));
        let binary: Vec<f64> = (0..100).map(|item| f64::from(u8::from(item < 81))).collect();
        assert_eq!(items(&binary).mean(), Some(0.81));
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
    }

    #[test]
    fn clusters_of_one_item_are_plain_items() {
        let scores = [0.0, 1.0, 0.5, 0.25, 1.0, 0.75];
        let mut clusters = Clusters::default();
        for (cluster, &score) in scores.iter().enumerate() {
            clusters.push(cluster, score);
        }
        assert_close(
            clusters.standard_error().unwrap(),
            items(&scores).standard_error().unwrap(),
        );
    }

    #[test]
    fn one_cluster_alone_tells_no_error() {
        let mut clusters = Clusters::new(5);
        clusters.push(3, 1.0);
        clusters.push(3, 0.0);
        assert_eq!(clusters.mean(), Some(0.5));
        assert_eq!(clusters.standard_error(), None);
    }

    /// Expected: `scipy.stats.binomtest(right, items).proportion_ci(method="wilson")` of SciPy 1.17.
    #[test]
    fn wilson_agrees_with_scipy() {
        for (right, items, low, high) in [
            (81, 100, 0.722_211_546_209_356_2, 0.874_852_484_902_312_6),
            (7, 20, 0.181_191_824_101_082_1, 0.567_145_723_314_763_7),
            (0, 10, 0.0, 0.277_532_799_862_889_26),
            (10, 10, 0.722_467_200_137_110_9, 1.0),
            (1, 1, 0.206_549_314_377_237_45, 1.0),
        ] {
            let interval = wilson_interval(right, items).unwrap();
            assert_close(interval[0], low);
            assert_close(interval[1], high);
        }
        assert_eq!(wilson_interval(0, 0), None);
    }

    #[test]
    fn the_normal_interval_stays_between_zero_and_one() {
        assert_eq!(normal_interval(0.99, 0.1)[1], 1.0);
        assert_eq!(normal_interval(0.01, 0.1)[0], 0.0);
        let [low, high] = normal_interval(0.5, 0.1);
        assert_close(low, 0.304_003_601_545_994_6);
        assert_close(high, 0.695_996_398_454_005_4);
    }
}
