"""Thompson sampling with the exact posterior under the true prior of Popular and Niche.

Test-only: no learned prior can do better on average than the truth itself, so its regret is a
lower reference. The posterior is enumerable. Given which groups are chosen, arms are independent;
and which groups are chosen has 1350 possibilities for the niche and 21489 for the popular ones.

``python tests/popular_niche_oracle.py`` plays 100 tasks for 1000 rounds.
"""

from __future__ import annotations

import itertools

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtri
from scipy.stats import truncnorm

N_GROUPS_OF_A_KIND = 20


def log_normal(x, mean, variance):
    return -0.5 * ((x - mean) ** 2 / variance + np.log(2 * np.pi * variance))


def log_interval(low, high):
    """``log(Φ(high) - Φ(low))`` for low < high, stable in both tails."""
    flip = low > 0
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    top, bottom = log_ndtr(b), log_ndtr(a)
    return top + np.log1p(-np.exp(np.minimum(bottom - top, -1e-12)))


def subsets(sizes):
    """All subsets of 20 groups of the given sizes, and their log prior (size uniform)."""
    rows, log_prior = [], []
    for size in sizes:
        chosen = list(itertools.combinations(range(N_GROUPS_OF_A_KIND), size))
        block = np.zeros((len(chosen), N_GROUPS_OF_A_KIND))
        block[np.repeat(np.arange(len(chosen)), size), np.ravel(chosen)] = 1.0
        rows.append(block)
        log_prior.append(np.full(len(chosen), -np.log(len(sizes) * len(chosen))))
    return np.concatenate(rows), np.concatenate(log_prior)


class ExactThompson:
    """Exact posterior draws for a batch of tasks, and the play with them."""

    def __init__(self, problem, noise_std, clipping=True):
        """``clipping=False`` forgets that means are clipped.

        Half of the good niche arms lie at exactly 1: who does not know that keeps looking for a
        better one.
        """
        self.group, self.niche = problem.group_of_arm, problem.is_niche
        self.floor = 0.0 if clipping else -50.0
        self.cap = (
            np.where(self.niche, 1.0, problem.popular_cap) if clipping else np.full(200, 50.0)
        )
        self.high = np.where(self.niche, problem.niche_value, problem.popular_value)
        self.share = np.where(self.niche, problem.niche_probability, 1.0)
        self.value_std, self.noise_std = problem.value_std, noise_std
        self.niche_subsets = subsets(range(1, 4))
        self.popular_subsets = subsets(range(15, 18))

    def play(self, tasks, horizon, seed):
        """Cumulative regret ``(tasks, horizon)``."""
        rng = np.random.default_rng(seed)
        n, k = tasks.shape
        counts, sums, regret = np.zeros((n, k)), np.zeros((n, k)), np.zeros((n, horizon))
        rows = np.arange(n)
        for t in range(horizon):
            arm = self.draw(counts, sums, rng).argmax(1)
            counts[rows, arm] += 1
            sums[rows, arm] += tasks[rows, arm] + self.noise_std * rng.standard_normal(n)
            regret[:, t] = tasks.max(1) - tasks[rows, arm]
        return regret.cumsum(1)

    def draw(self, counts, sums, rng):
        """One posterior draw of the mean rewards of each task, ``(n, K)``."""
        parts = [self.parts(counts, sums, base) for base in (np.zeros_like(self.high), self.high)]
        log_low, log_high = (part[0] for part in parts)
        with np.errstate(divide="ignore"):
            log_on = np.logaddexp(np.log(self.share) + log_high, np.log1p(-self.share) + log_low)
        ratio = np.zeros((len(counts), 2 * N_GROUPS_OF_A_KIND))
        np.add.at(ratio.T, self.group, (log_on - log_low).T)
        groups = np.concatenate(
            [
                self.draw_subset(self.niche_subsets, ratio[:, :N_GROUPS_OF_A_KIND], rng),
                self.draw_subset(self.popular_subsets, ratio[:, N_GROUPS_OF_A_KIND:], rng),
            ],
            axis=1,
        )
        on = groups[:, self.group] > 0
        is_high = on & (np.log(rng.random(on.shape)) < np.log(self.share) + log_high - log_on)
        values = [self.draw_value(part, rng) for part in parts]
        return np.where(is_high, values[1], values[0])

    def draw_subset(self, enumerated, ratio, rng):
        table, log_prior = enumerated
        logits = ratio @ table.T + log_prior
        chosen = (logits + rng.gumbel(size=logits.shape)).argmax(1)
        return table[chosen]

    def parts(self, counts, sums, base):
        """Log likelihood of an arm's rewards given its value before noise, in three parts.

        The mean ``μ = clip(base + N(0, s²), floor, cap)`` is an atom at the floor, an atom at the
        cap, or in between; ``ȳ ~ N(μ, σ²/n)``. An arm without pulls has likelihood 1.
        """
        pulled = counts > 0
        n = np.maximum(counts, 1)
        mean, spread, s2 = sums / n, self.noise_std**2 / n, self.value_std**2
        at_zero = log_ndtr((self.floor - base) / self.value_std)
        at_cap = log_ndtr((base - self.cap) / self.value_std)
        variance = s2 * spread / (s2 + spread)
        centre = (base * spread + mean * s2) / (s2 + spread)
        centre = np.where(pulled, centre, base)
        width = np.sqrt(np.where(pulled, variance, s2))
        low, high = (self.floor - centre) / width, (self.cap - centre) / width
        logs = np.stack(
            [
                at_zero + np.where(pulled, log_normal(mean, self.floor, spread), 0.0),
                at_cap + np.where(pulled, log_normal(mean, self.cap, spread), 0.0),
                log_interval(low, high)
                + np.where(pulled, log_normal(mean, base, s2 + spread), 0.0),
            ]
        )
        return logsumexp(logs, axis=0), logs, centre, width, low, high

    def draw_value(self, part, rng):
        _, logs, centre, width, low, high = part
        which = (logs + rng.gumbel(size=logs.shape)).argmax(0)
        # A truncated normal by its inverse distribution function, from the lighter side.
        flip = low > 0
        a, b = np.where(flip, -high, low), np.where(flip, -low, high)
        below, above = np.exp(log_ndtr(a)), np.exp(log_ndtr(b))
        inside = ndtri(np.clip(below + rng.random(a.shape) * (above - below), 1e-300, 1 - 1e-16))
        inside = np.clip(centre + width * np.where(flip, -inside, inside), self.floor, self.cap)
        return np.select(
            [which == 0, which == 1], [self.floor, np.broadcast_to(self.cap, a.shape)], inside
        )


class Enumerated:
    """What the oracle knows of one history, in float64."""

    def __init__(self, oracle, counts, sums):
        self.oracle = oracle
        values = (np.zeros(200), oracle.high)
        self.parts = [oracle.parts(counts[None], sums[None], value) for value in values]
        self.log_low, self.log_high = (part[0][0] for part in self.parts)
        with np.errstate(divide="ignore"):
            high = np.log(oracle.share) + self.log_high
            log_on = np.logaddexp(high, np.log1p(-oracle.share) + self.log_low)
        self.high_if_chosen = np.exp(high - log_on)
        ratio = np.zeros(40)
        np.add.at(ratio, oracle.group, log_on - self.log_low)
        self.groups = np.concatenate(
            [
                chances_by_enumeration(table, ratio[kind * 20 : kind * 20 + 20])[0]
                for kind, table in enumerate([oracle.niche_subsets, oracle.popular_subsets])
            ]
        )

    def moments(self):
        """Mean, standard deviation and chance of the cap of each arm."""
        high = self.groups[self.oracle.group] * self.high_if_chosen
        mean, square, at_cap = np.zeros(200), np.zeros(200), np.zeros(200)
        for weight, part in zip((1 - high, high), self.parts, strict=True):
            total, logs, centre, width, low, high_end = (np.squeeze(leaf) for leaf in part)
            zero, cap, inside = np.exp(logs - total)
            assert np.allclose(zero + cap + inside, 1.0)
            m, v = truncnorm.stats(low, high_end, loc=centre, scale=width)
            mean += weight * (cap * self.oracle.cap + inside * m)
            square += weight * (cap * self.oracle.cap**2 + inside * (v + m**2))
            at_cap += weight * cap
        return mean, np.sqrt(square - mean**2), at_cap


def chances_by_enumeration(table, log_odds):
    """Chance of each group, and of each pair of groups, over all subsets."""
    rows, log_prior = table
    logs = log_prior + rows @ log_odds
    weights = np.exp(logs - logsumexp(logs))
    return weights @ rows, rows.T @ (weights[:, None] * rows)


if __name__ == "__main__":
    from diffts.problems import PopularNiche

    problem = PopularNiche()
    test = problem.split(train=0, calibration=0, seed=0).test
    for clipping in (True, False):
        regret = ExactThompson(problem, 0.1, clipping).play(test, horizon=1000, seed=0)
        for rounds in (400, 1000):
            final = regret[:, rounds - 1]
            print(
                f"exact Thompson sampling, clipping {'known' if clipping else 'ignored'}, "
                f"{len(final)} tasks, {rounds} rounds: "
                f"{final.mean():.1f} ± {final.std(ddof=1) / np.sqrt(len(final)):.1f}",
                flush=True,
            )
