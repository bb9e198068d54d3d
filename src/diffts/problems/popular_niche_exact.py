"""The exact posterior of Popular and Niche under its true law: what no learned prior can beat.

Given which groups are chosen, arms are independent. An arm has a value ``x`` before noise (0, or
1 for niche and 0.8 for popular arms), and its mean ``μ = clip(x + N(0, s²), 0, c)`` given its
pulls is one of three things: the atom at 0, the atom at the cap ``c``, or a Gaussian in between.

Which groups are chosen has 1350 possibilities for the niche and 21,489 for the popular ones. They
need not be gone through one by one. The weight of a subset is that of its size times the odds
``o_g`` of its members, so that sums over subsets are elementary symmetric polynomials: with ``E_g``
those of the first g odds, ``E_{g+1}[k] = E_g[k] + o_g E_g[k-1]``. For a history this is
one small table (20 groups, sizes up to 17), and a draw walks through it, group by group.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr
from jaxtyping import Array, Bool, Float, Int

from diffts.bandits.beliefs.belief import HistoryBelief, HistoryState, quantile_of
from diffts.bandits.noise import Noise, NoiseLike, as_noise
from diffts.problems.popular_niche import GROUP_SIZE, N_GROUPS, PopularNiche
from diffts.problems.truncated_gaussian import Truncated
from diffts.seeding import KeyArray

#: Groups of a kind, niche or popular.
OF_A_KIND = N_GROUPS // 2
#: The log of a weight of 0: finite, since differences of it are taken.
NEVER = -1e30


class ArmLaws(NamedTuple):
    """The posterior of each arm, in row 0 if its value before noise is 0, in row 1 if it is high.

    Attributes:
        log_evidence: log density of the arm's rewards, but for a term that both rows share.
        chances: of the atom at 0, of the atom at the cap, and of what lies between.
        centre, width: the Gaussian of what lies between, before truncation.
        between: that Gaussian truncated, in widths from the centre.
    """

    log_evidence: Float[Array, "2 K"]
    chances: Float[Array, "3 2 K"]
    centre: Float[Array, "2 K"]
    width: Float[Array, "2 K"]
    between: Truncated


class GroupLaw(NamedTuple):
    """Which groups are chosen, niche ones in column 0 and popular ones in column 1.

    Attributes:
        sizes: chance of each number of chosen groups.
        chosen: chance that group g is chosen, if k of the groups up to g are.
    """

    sizes: Float[Array, "2 k"]
    chosen: Float[Array, "g 2 k"]


class Posterior(NamedTuple):
    """All that a history alone decides; every draw of one state shares it.

    Attributes:
        arms: the law of each arm, given its value before noise.
        high_if_chosen: chance that an arm's value is the high one, if its group is chosen.
        groups: the law of the chosen groups.
    """

    arms: ArmLaws
    high_if_chosen: Float[Array, " K"]
    groups: GroupLaw


@final
class ExactPopularNicheBelief(HistoryBelief):
    """The posterior of :class:`PopularNiche` under the law that its tasks are drawn from.

    Draws, means and standard deviations are exact; quantiles are those of draws.
    """

    n_arms: int = eqx.field(static=True)
    single_arm: bool = eqx.field(static=True)
    noise: Noise
    values: Float[Array, "2 K"]  # before noise: 0, and the high one
    share_high: Float[Array, " K"]  # of the arms of a chosen group
    caps: Float[Array, " K"]
    value_std: Float[Array, ""]
    log_atoms: Float[Array, "2 2 K"]  # prior: at 0 and at the cap, for each value
    log_sizes: Float[Array, "2 k"]  # prior of one subset of each size
    group_of_arm: Int[Array, " K"]
    arms_of_group: Int[Array, "g a"]

    def __init__(self, noise: NoiseLike = PopularNiche.noise_std) -> None:
        law = PopularNiche
        high = np.where(law.is_niche, law.niche_value, law.popular_value)
        caps = np.where(law.is_niche, 1.0, law.popular_cap)
        self.n_arms, self.single_arm = law.n_arms, False
        self.noise = as_noise(noise)
        self.values = jnp.asarray([np.zeros_like(high), high], jnp.float32)
        share = np.where(law.is_niche, law.niche_probability, 1.0)
        self.share_high = jnp.asarray(share, jnp.float32)
        self.caps = jnp.asarray(caps, jnp.float32)
        self.value_std = jnp.float32(law.value_std)
        beyond = np.stack([-np.asarray(self.values), np.asarray(self.values) - caps])
        self.log_atoms = log_ndtr(jnp.asarray(beyond / law.value_std, jnp.float32))
        self.log_sizes = _log_prior_of_sizes([law.niche_groups_chosen, law.popular_groups_chosen])
        self.group_of_arm = jnp.asarray(law.group_of_arm)
        arms = np.argsort(law.group_of_arm, kind="stable").reshape(N_GROUPS, GROUP_SIZE)
        self.arms_of_group = jnp.asarray(arms)

    def posterior(self, state: HistoryState) -> Posterior:
        """What the pulls say of arms and groups."""
        history = state.history
        return self.given(history.means, history.counts / self.noise_std(state) ** 2)

    def given(self, seen: Float[Array, " K"], precision: Float[Array, " K"]) -> Posterior:
        """What one Gaussian observation of each arm says; of precision 0, nothing was seen."""
        arms = self._arm_laws(seen, precision)
        if_low, if_high = arms.log_evidence
        high = jnp.log(self.share_high) + if_high
        if_chosen = jnp.logaddexp(high, jnp.log1p(-self.share_high) + if_low)
        log_odds = jnp.sum((if_chosen - if_low)[self.arms_of_group], axis=1)
        groups = group_law(log_odds.reshape(2, OF_A_KIND), self.log_sizes)
        return Posterior(arms, jnp.exp(high - if_chosen), groups)

    def draw_one(self, key: KeyArray, state: HistoryState) -> Float[Array, " K"]:
        """The groups, then which of their arms are high, then the arms' means."""
        # The key is used nowhere above this line: many draws, mapped over keys, share it.
        posterior = self.posterior(state)
        group_key, arm_key = jax.random.split(key)
        chosen = draw_groups(group_key, posterior.groups)[self.group_of_arm]
        # One number for each arm decides all, as where in [0, 1) it lies within its case is
        # uniform again. Random numbers are most of the cost of a draw.
        uniform = jax.random.uniform(arm_key, (self.n_arms,))
        chance_high = jnp.where(chosen, posterior.high_if_chosen, 0.0)
        high = uniform < chance_high
        uniform = _within(
            uniform, jnp.where(high, 0.0, chance_high), jnp.where(high, chance_high, 1.0)
        )
        laws = jax.tree.map(
            lambda leaf: jnp.where(high, leaf[..., 1, :], leaf[..., 0, :]), posterior.arms
        )
        to_zero, to_cap = laws.chances[0], laws.chances[0] + laws.chances[1]
        inside = laws.centre + laws.width * laws.between.at(_within(uniform, to_cap, 1.0))
        return jnp.select(
            [uniform < to_zero, uniform < to_cap],
            [jnp.zeros(self.n_arms), self.caps],
            jnp.clip(inside, 0.0, self.caps),
        )

    def moments(
        self, state: HistoryState, draws: Float[Array, "n K"]
    ) -> tuple[Float[Array, " K"], Float[Array, " K"]]:
        """In closed form."""
        del draws
        return self.moments_of(self.posterior(state))

    def moments_of(self, posterior: Posterior) -> tuple[Float[Array, " K"], Float[Array, " K"]]:
        """``m = Σ w_i m_i`` and the root of ``Σ w_i (v_i + (m_i - m)²)``.

        Over six cases of an arm: low or high, and at 0, at the cap or between.
        """
        arms, high_if_chosen, groups = posterior
        high = group_chances(groups)[self.group_of_arm] * high_if_chosen
        weights = arms.chances * jnp.stack([1.0 - high, high])
        mean_inside, variance_inside = arms.between.moments()
        inside = jnp.clip(arms.centre + arms.width * mean_inside, 0.0, self.caps)
        atom = jnp.zeros_like(inside)
        means = jnp.stack([atom, atom + self.caps, inside])
        variances = jnp.stack([atom, atom, arms.width**2 * variance_inside])
        mean = jnp.sum(weights * means, axis=(0, 1))
        variance = jnp.sum(weights * (variances + (means - mean) ** 2), axis=(0, 1))
        return mean, jnp.sqrt(variance)

    def quantile(
        self, state: HistoryState, level: Float[Array, ""], draws: Float[Array, "n K"]
    ) -> Float[Array, " K"]:
        """That of the draws."""
        del state
        return quantile_of(draws, level)

    def estimate(self, state: HistoryState, draws: Float[Array, "n K"]) -> Float[Array, " K"]:
        """Posterior means."""
        return self.moments(state, draws)[0]

    @property
    def resolution(self) -> Float[Array, ""]:
        """Any difference tells."""
        return jnp.float32(0.0)

    def _arm_laws(self, seen: Float[Array, " K"], precision: Float[Array, " K"]) -> ArmLaws:
        """Bayes' rule, arm by arm: n rewards of mean ȳ have the precision ``p = n/σ̂²``.

        With ``g = s²p``, an atom at c is worth ``-p(ȳ - c)²/2`` and the Gaussian of value x
        ``-p(ȳ - x)²/(2(1 + g)) - log(1 + g)/2``. Left out is the log density of ȳ at its own peak:
        it is the same for all, infinite without pulls, and large with many.
        """
        gain = self.value_std**2 * precision
        centre = (self.values + gain * seen) / (1.0 + gain)
        width = jnp.broadcast_to(self.value_std / jnp.sqrt(1.0 + gain), centre.shape)
        between = Truncated.between(-centre / width, (self.caps - centre) / width)
        spread = 0.5 * precision * (seen - self.values) ** 2 / (1.0 + gain)
        logs = jnp.stack(
            [
                self.log_atoms[0] - 0.5 * precision * seen**2,
                self.log_atoms[1] - 0.5 * precision * (seen - self.caps) ** 2,
                between.log_mass - spread - 0.5 * jnp.log1p(gain),
            ]
        )
        log_evidence = jax.nn.logsumexp(logs, axis=0)
        chances = jnp.exp(logs - log_evidence)
        return ArmLaws(log_evidence, chances, centre, width, between)


def _within(
    uniform: Float[Array, " K"], low: Float[Array, " K"], high: Float[Array, " K"] | float
) -> Float[Array, " K"]:
    """Where in an interval a number lies, from 0 to 1."""
    return jnp.clip((uniform - low) / jnp.maximum(high - low, 1e-30), 0.0, 1.0)


# --- which groups ----------------------------------------------------------------------------


def group_law(log_odds: Float[Array, "2 g"], log_sizes: Float[Array, "2 k"]) -> GroupLaw:
    """The law of a subset S whose weight is ``w_|S| Π_{g ∈ S} o_g``, for both kinds of groups."""

    def take(log_E: Float[Array, "2 k"], log_o: Float[Array, " 2"]) -> tuple[Array, Array]:
        with_this = log_o[:, None] + _up(log_E, NEVER)
        return jnp.logaddexp(log_E, with_this), jax.nn.sigmoid(with_this - log_E)

    none = jnp.where(jnp.arange(log_sizes.shape[1]) == 0, 0.0, NEVER)
    log_E, chosen = jax.lax.scan(take, jnp.broadcast_to(none, log_sizes.shape), log_odds.T)
    return GroupLaw(jax.nn.softmax(log_sizes + log_E, axis=1), chosen)


def group_chances(law: GroupLaw) -> Float[Array, " G"]:
    """The chance that each of the 40 groups is chosen.

    From the last group to the first, with the chance of each k that is left to choose.
    """

    def step(left: Float[Array, "2 k"], chosen: Float[Array, "2 k"]) -> tuple[Array, Array]:
        taken = left * chosen
        # What is taken moves from k to k - 1; of 0, nothing is.
        down = jnp.concatenate([taken[:, 1:], jnp.zeros((len(taken), 1))], axis=1)
        return left - taken + down, jnp.sum(taken, axis=1)

    _, chances = jax.lax.scan(step, law.sizes, law.chosen, reverse=True)
    return chances.T.reshape(-1)


def draw_groups(key: KeyArray, law: GroupLaw) -> Bool[Array, " G"]:
    """A draw of the chosen ones of the 40 groups: how many, then from the last to the first."""
    size_key, group_key = jax.random.split(key)
    steps = jnp.cumsum(law.sizes, axis=1)
    # Of the total, which rounding may leave below 1: no size without weight is ever drawn.
    level = jax.random.uniform(size_key, (2, 1)) * steps[:, -1:]
    sizes = jnp.argmax(steps > level, axis=1)

    def step(left: Int[Array, " 2"], given: Any) -> tuple[Array, Array]:
        chosen, uniform = given
        taken = uniform < jnp.take_along_axis(chosen, left[:, None], axis=1)[:, 0]
        return left - taken, taken

    uniforms = jax.random.uniform(group_key, law.chosen.shape[:2])
    _, chosen = jax.lax.scan(step, sizes, (law.chosen, uniforms), reverse=True)
    return chosen.T.reshape(-1)


def _up(row: Float[Array, "2 k"], first: float) -> Float[Array, "2 k"]:
    """``row[:, k - 1]`` in place k, and ``first`` in place 0."""
    return jnp.concatenate([jnp.full((len(row), 1), first), row[:, :-1]], axis=1)


def _log_prior_of_sizes(ranges: list[tuple[int, int]]) -> Float[Array, "2 k"]:
    """Log prior of one subset of each size: the size uniform in a range, then the subset."""
    logs = np.full((len(ranges), 1 + max(most for _, most in ranges)), NEVER)
    for row, (least, most) in zip(logs, ranges, strict=True):
        for size in range(least, most + 1):
            row[size] = -math.log((most - least + 1) * math.comb(OF_A_KIND, size))
    return jnp.asarray(logs, jnp.float32)
