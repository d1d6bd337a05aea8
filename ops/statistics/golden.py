#!/usr/bin/env python3
"""Compute the figures that the tests of shared/statistics compare with.

    python3 -m venv /tmp/golden && /tmp/golden/bin/pip install -r ops/statistics/requirements.txt
    /tmp/golden/bin/python ops/statistics/golden.py > shared/statistics/tests/golden.json

Everything is drawn from fixed seeds, so that the same versions write the same file. Figures come from the libraries, or,
where no library has them, from their definitions: by counting all cases, or with exact fractions.
"""

import itertools
import json
import math
import sys
from fractions import Fraction

try:
    import numpy
    import scipy
    import sklearn
    import sklearn.metrics
    import statsmodels
    import statsmodels.api
    from scipy import stats
    from statsmodels.stats import contingency_tables, multitest, power, proportion
except ImportError as error:
    sys.exit(f"golden: {error}: python3 -m pip install --requirement ops/statistics/requirements.txt")


def distributions():
    degrees = [1, 2, 3, 4, 9, 30, 199, 5_000, 100_000, 10_000_000]
    return {
        "normal_quantile": [[p, stats.norm.ppf(p)] for p in (1e-9, 0.001, 0.025, 0.2, 0.5, 0.8, 0.975, 0.99999)],
        "normal_p": [[z, 2 * stats.norm.sf(abs(z))] for z in (-2.5, 0.0, 0.5, 1.96, 6.0)],
        "student_quantile": [[p, df, stats.t.ppf(p, df)] for df in degrees for p in (0.005, 0.3, 0.95, 0.975)],
        "student_p": [[t, df, 2 * stats.t.sf(t, df)] for df in degrees for t in (0.0, 0.1, 1.96, 3.5, 12.0, 80.0)],
    }


def regression(values, weights, **covariance):
    """A mean as a weighted regression on a constant, whose robust errors are those of the mean."""
    model = statsmodels.api.WLS(values, numpy.ones(len(values)), weights=weights)
    fit = model.fit(**covariance)
    return float(fit.params[0]), float(fit.bse[0])


def means(random):
    cases = []
    for count in (2, 6, 50, 400):
        scores = numpy.round(random.beta(0.5, 0.3, count), 3)
        weights = numpy.round(random.uniform(0.2, 5.0, count), 3)
        clusters = random.integers(0, max(2, count // 4), count)
        clusters[:2] = [0, 1]
        case = {"scores": scores, "weights": weights, "clusters": clusters}
        case["mean"], case["standard_error"] = float(numpy.mean(scores)), float(stats.sem(scores))
        case["weighted"] = regression(scores, weights, cov_type="HC1")
        grouped = {"cov_type": "cluster", "cov_kwds": {"groups": clusters}}
        case["clustered"] = regression(scores, numpy.ones(count), **grouped)
        case["clustered_weighted"] = regression(scores, weights, **grouped)
        free = len(set(clusters.tolist())) - 1
        mean, error = case["clustered"]
        case["clustered_interval"] = stats.t.interval(0.95, free, mean, error)
        cases.append(case)
    return cases


def shares():
    counts = [(81, 100), (7, 20), (0, 10), (10, 10), (1, 1), (1, 3), (8_123, 10_000)]
    return [[right, items, *proportion.proportion_confint(right, items, method="wilson")] for right, items in counts]


def labels(random):
    cases = []
    for classes, count in ((2, 40), (4, 200), (7, 15)):
        truth = random.integers(0, classes, count)
        noise = random.integers(0, classes, count)
        predicted = numpy.where(random.uniform(size=count) < 0.6, truth, noise)
        score = lambda **how: sklearn.metrics.f1_score(truth, predicted, zero_division=0, **how)
        cases.append({
            "truth": truth,
            "predicted": predicted,
            "macro": score(average="macro"),
            "micro": score(average="micro"),
            "weighted": score(average="weighted"),
            "binary": score(labels=[1], average="macro"),
            "matthews": sklearn.metrics.matthews_corrcoef(truth, predicted),
        })
    return cases


def corpora(random):
    tokens = random.integers(5, 200, 30)
    likelihoods = numpy.round(-random.uniform(1.5, 3.0, 30) * tokens, 4)
    return {
        "log_likelihoods": likelihoods,
        "weights": tokens,
        "perplexity": math.exp(-likelihoods.sum() / tokens.sum()),
        "bits_per_weight": float(-likelihoods.sum() / tokens.sum() / math.log(2)),
    }


def leave_one_out(values, figure):
    """SciPy's own acceleration and the textbook's error, from the definition."""
    rest = numpy.array([figure(numpy.delete(values, unit, axis=0)) for unit in range(len(values))])
    influence = rest.mean() - rest
    count = len(values)
    return {
        "standard_error": float(numpy.sqrt((count - 1) / count * numpy.sum(influence**2))),
        "acceleration": float(numpy.sum(influence**3) / (6 * numpy.sum(influence**2) ** 1.5)),
    }


def resampled(random):
    """Rows of two columns, of which the figure is the ratio of the sums, by half a million draws."""
    cases = []
    for name, count in (("even", 60), ("skewed", 25), ("heavy", 150)):
        weights = numpy.ones(count) if name == "even" else numpy.round(random.gamma(0.8, 2.0, count) + 0.05, 3)
        values = numpy.round(random.exponential(1.0, count), 3) * weights
        rows = numpy.round(numpy.stack([values, weights], axis=1), 6)
        figure = lambda first, second, axis=-1: first.sum(axis=axis) / second.sum(axis=axis)
        case = {"rows": rows, "value": float(rows[:, 0].sum() / rows[:, 1].sum())}
        case["jackknife"] = leave_one_out(rows, lambda part: part[:, 0].sum() / part[:, 1].sum())
        for method in ("percentile", "BCa"):
            drawn = stats.bootstrap((rows[:, 0], rows[:, 1]), figure, paired=True, vectorized=True, n_resamples=500_000,
                                    batch=10_000, method=method, rng=numpy.random.default_rng(5))
            case[method.lower()] = [drawn.confidence_interval.low, drawn.confidence_interval.high]
            case["standard_error"] = drawn.standard_error
        cases.append(case)
    return cases


def passes():
    """By counting the subsets that hold nothing right."""
    cases = [(1, 5, 2), (5, 10, 3), (10, 10, 1), (8, 64, 1), (100, 200, 2), (100, 200, 101), (1_000, 20_000, 13), (3, 7, 0)]
    share = lambda k, n, c: 1 - Fraction(math.comb(n - c, k), math.comb(n, k))
    return [[k, n, c, float(share(k, n, c))] for k, n, c in cases]


def majorities():
    """By going through all subsets, ties shared."""
    def expected(k, votes, abstained):
        samples = [answer for answer, (count, _) in enumerate(votes) for _ in range(count)] + [None] * abstained
        total, subsets = Fraction(0), 0
        for chosen in itertools.combinations(samples, k):
            subsets += 1
            counted = {answer: chosen.count(answer) for answer in set(chosen) if answer is not None}
            winners = [answer for answer, count in counted.items() if count == max(counted.values())]
            if winners:
                total += sum(Fraction(votes[winner][1]) for winner in winners) / len(winners)
        return float(total / subsets)

    cases = [
        ([(3, 1), (2, 0)], 0),
        ([(4, 1), (4, 0), (2, 0)], 0),
        ([(5, 1), (3, 0), (2, 0), (1, 0), (1, 0)], 3),
        ([(2, 1), (3, 0.5), (1, 0), (6, 0)], 2),
        ([(1, 1), (1, 0), (1, 0), (1, 1), (1, 0), (1, 0), (1, 0)], 1),
    ]
    found = []
    for votes, abstained in cases:
        drawn = sum(count for count, _ in votes) + abstained
        for k in range(1, drawn + 1):
            found.append({"k": k, "votes": votes, "abstained": abstained, "expected": expected(k, votes, abstained)})
    return found


def groups(random):
    """The pooled error is that of all items around their benchmarks' means."""
    benchmarks = [numpy.round(random.beta(a, b, count), 3) for a, b, count in ((1, 1, 40), (5, 1, 120), (0.4, 0.9, 15))]
    weights = [1.0, 2.0, 0.5]
    parts = [[float(scores.mean()), float(stats.sem(scores)), len(scores), weight]
             for scores, weight in zip(benchmarks, weights)]
    errors = numpy.array([part[1] for part in parts])
    shares = numpy.array(weights) / sum(weights)
    sizes = numpy.array([part[2] for part in parts])
    of_items = sizes * numpy.array(weights)
    around = numpy.concatenate([scores - scores.mean() for scores in benchmarks])
    return {
        "parts": parts,
        "macro": [float(numpy.average([part[0] for part in parts], weights=weights)),
                  float(numpy.sqrt(numpy.sum((shares * errors) ** 2)))],
        "micro": [float(numpy.average(numpy.concatenate(benchmarks), weights=numpy.repeat(weights, sizes))),
                  float(numpy.sqrt(numpy.sum((of_items / of_items.sum() * errors) ** 2)))],
        "pooled": float(numpy.sqrt(numpy.sum(around**2) / (sizes.sum() - len(sizes)) / sizes.sum())),
    }


def mcnemar():
    cases = []
    for first, second in ((0, 1), (1, 5), (3, 3), (0, 12), (9, 15), (10, 20), (40, 61), (500, 600), (9_800, 10_200)):
        table = [[3, first], [second, 4]]
        exact = contingency_tables.mcnemar(table, exact=True).pvalue
        at_most = stats.binom.cdf(min(first, second), first + second, 0.5)
        middle = 2 * at_most - stats.binom.pmf(min(first, second), first + second, 0.5)
        cases.append([first, second, float(exact), min(1.0, float(middle))])
    return cases


def pairs(random):
    cases = []
    for count in (2, 12, 300):
        first = numpy.round(random.beta(1, 1, count), 3)
        second = numpy.round(numpy.clip(first + random.normal(0.05, 0.2, count), 0, 1), 3)
        test = stats.ttest_rel(second, first)
        clusters = random.integers(0, max(2, count // 3), count)
        clusters[:2] = [0, 1]
        weights = numpy.round(random.uniform(0.2, 5.0, count), 3)
        grouped = {"cov_type": "cluster", "cov_kwds": {"groups": clusters}}
        cases.append({
            "first": first,
            "second": second,
            "clusters": clusters,
            "weights": weights,
            "mean": float((second - first).mean()),
            "standard_error": float(stats.sem(second - first)),
            "p": float(test.pvalue),
            "interval": list(test.confidence_interval(0.95)),
            "clustered": regression(second - first, numpy.ones(count), **grouped),
            "weighted": regression(second - first, weights, cov_type="HC1"),
        })
    return cases


def many():
    tests = [[0.01, 0.04, 0.03, 0.005], [0.5, 0.5, 0.5], [1e-8, 0.2, 0.049, 0.05, 0.051, 0.9], [0.02]]
    return [[test, multitest.multipletests(test, method="holm")[1]] for test in tests]


def designs():
    """statsmodels neglects the far tail of a two-sided test only in its one-tailed formula, which is the one in use."""
    cases = []
    for difference, variance in ((0.03, 1 / 9), (0.01, 0.3), (0.2, 0.5)):
        deviation = math.sqrt(variance)
        items = power.normal_sample_size_one_tail(difference, 0.8, 0.025, deviation, deviation)
        cases.append([difference, variance, float(items)])
    return cases


def plain(value):
    if isinstance(value, numpy.ndarray):
        return value.tolist()
    if isinstance(value, numpy.generic):
        return value.item()
    raise TypeError(type(value))


def main():
    seeds = iter(range(1, 100))
    random = lambda: numpy.random.default_rng(next(seeds))
    golden = {
        "made_by": "ops/statistics/golden.py",
        "versions": {library.__name__: library.__version__ for library in (numpy, scipy, statsmodels, sklearn)},
        "distributions": distributions(),
        "means": means(random()),
        "shares": shares(),
        "labels": labels(random()),
        "corpus": corpora(random()),
        "resampled": resampled(random()),
        "pass_at": passes(),
        "majority_at": majorities(),
        "groups": groups(random()),
        "mcnemar": mcnemar(),
        "pairs": pairs(random()),
        "holm": many(),
        "designs": designs(),
    }
    lines = (f"{json.dumps(name)}: {json.dumps(value, default=plain)}" for name, value in golden.items())
    sys.stdout.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
