"""Rules: what each one chooses, against closed forms and laws. Chances are in test_chances.py."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.stats import chisquare, norm

from diffts import DiffusionPrior, InvalidInputError
from diffts.bandits import RULES, Agent, BestArm, History, Policy, TopK, make_rule
from diffts.bandits.actions import BestOffered
from diffts.bandits.beliefs import DiffusionBelief, IndependentBelief, MixtureBelief
from diffts.bandits.beliefs.new_arms import NewArmsBelief
from diffts.bandits.identity import identity
from diffts.bandits.rules import (
    BayesUCBRule,
    FewDrawsRule,
    InformationDirectedRule,
    KnowledgeGradientRule,
    SatisficingRule,
    ThompsonRule,
    TopTwoRule,
    TSUCBRule,
)
from diffts.bandits.rules.information_directed import information, least_ratio
from diffts.bandits.rules.knowledge_gradient import expected_excess
from diffts.diffusion import Gaussian
from diffts.problems import Maze
from four_arms import COVARIANCE, MEAN, MIXTURE, NOISE, K, Values, after

KEY = jax.random.key(0)


def believing(mean, std, counts=None, rounds=0, noise=NOISE):
    """A belief in independent Gaussian arms, and a state in which it has these moments.

    Pulls that change nothing but their own number: rewards of the mean, and a prior so much wider.
    """
    mean, std = np.asarray(mean, float), np.asarray(std, float)
    counts = np.zeros(len(mean)) if counts is None else np.asarray(counts, float)
    prior = 1 / (1 / np.maximum(std, 1e-9) ** 2 - counts / noise**2) * (std > 0)
    assert (prior >= 0).all(), "so many pulls leave less uncertainty than that"
    belief = IndependentBelief(Gaussian(mean, np.diag(prior)), noise)
    history = History(*(jnp.asarray(a, jnp.float32) for a in (counts, counts * mean, 0 * counts)),
                      jnp.int32(rounds))  # fmt: skip
    return belief, belief.resume(history)


def shares(rule, belief, state, actions, n=4000):
    """How often each arm is played, ``(K,)`` numbers of n choices."""
    keys = jax.random.split(jax.random.key(1), n)
    chosen = jax.jit(jax.vmap(lambda key: rule.select(key, belief, state, actions)))(keys)
    return np.asarray(chosen).sum(0)


def choice(rule, belief, state, actions):
    return np.flatnonzero(rule.select(KEY, belief, state, actions)).tolist()


# --- Thompson sampling, ties and near-ties -------------------------------------------------


def test_of_exactly_equal_arms_the_one_played_most_is_played():
    belief, state = believing([1.0, 1.0, 1.0, 0.9], [0.0] * 4, counts=[1, 3, 2, 9])
    for rule in (ThompsonRule(), FewDrawsRule(), SatisficingRule(0.0)):
        assert choice(rule, belief, state, BestArm(4)) == [1]
        assert choice(rule, belief, state, BestOffered([1, 0, 1, 1])) == [2]
        assert choice(rule, belief, state, TopK(4, 2)) == [1, 2]


def test_without_ties_thompson_sampling_is_the_best_of_one_draw():
    """The draw that the key gives, as ever: published figures rest on it."""
    belief, state = believing([0.1, 0.3, 0.2, 0.0], [0.5, 0.5, 0.5, 0.2], counts=[0, 0, 0, 3])
    for actions in (BestArm(4), BestOffered([1, 1, 0, 1]), TopK(4, 2)):
        for key in jax.random.split(KEY, 20):
            best = actions.best(belief.draw_one(key, state))
            for rule in (ThompsonRule(), ThompsonRule(near_ties=True), SatisficingRule(0.0)):
                assert rule.select(key, belief, state, actions).tolist() == best.tolist()


@pytest.mark.slow
def test_near_ties_are_those_within_the_beliefs_resolution():
    prior = DiffusionPrior.gaussian(MEAN, 1e-4 * COVARIANCE)
    belief = DiffusionBelief(prior, NOISE, steps=3)
    resolution = float(belief.resolution)
    assert resolution == pytest.approx(float(prior.scale * jnp.sqrt(jnp.mean(prior.tau[0] ** 2))))
    assert resolution > 0
    # Two arms whose distance is about the resolution, the worse one pulled more often.
    mean = np.array([0.5 + resolution, 0.5, 0.0, 0.0])
    prior = DiffusionPrior.gaussian(mean, 1e-4 * COVARIANCE)
    belief = DiffusionBelief(prior, NOISE, steps=3)
    favour = jnp.array([0.0, 1e-6, 0.0, 0.0])  # pulls that say nothing, but count as more
    state = belief.resume(History(favour, favour * 0.5, 0 * favour, jnp.int32(0)))

    @jax.jit
    def of_key(key):
        rules = ThompsonRule(near_ties=True), ThompsonRule()
        near, exact = (rule.select(key, belief, state, BestArm(K)) for rule in rules)
        return belief.draw_one(key, state), jnp.argmax(near), jnp.argmax(exact)

    drawn, near, exact = jax.vmap(of_key)(jax.random.split(KEY, 300))
    within = np.asarray(drawn[:, 1] >= drawn.max(1) - belief.resolution)
    np.testing.assert_array_equal(near, np.where(within, 1, exact))
    assert 10 < (np.asarray(near) != np.asarray(exact)).sum() < 290


# --- satisficing ---------------------------------------------------------------------------


@pytest.mark.parametrize("rounded", [False, True], ids=["values", "ties"])
@pytest.mark.parametrize("kind", ["arm", "among"])
def test_what_is_chosen_is_good_enough_and_of_that_played_most(kind, rounded):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(500, 6)).round(1 if rounded else 9).astype(np.float32)
    counts = rng.integers(0, 4, (500, 6)).astype(np.float32)
    tolerance = (rng.random(500) * (rng.random(500) < 0.8)).astype(np.float32)
    offered = np.array([1, 0, 1, 1, 0, 1], bool) if kind == "among" else np.ones(6, bool)
    actions = BestOffered(offered) if kind == "among" else BestArm(6)
    chosen = np.asarray(jax.vmap(actions.nearly_best)(values, tolerance, counts))
    assert (chosen.sum(1) == 1).all()
    arm = chosen.argmax(1)
    assert offered[arm].all()
    rows = np.arange(500)
    best = values[:, offered].max(1, keepdims=True)
    close = offered & (values >= best - tolerance[:, None])
    assert close[rows, arm].all()
    rivals = close & (counts == np.where(close, counts, -1).max(1, keepdims=True))
    assert rivals[rows, arm].all()
    assert (values[rows, arm] == np.where(rivals, values, -9).max(1)).all()


def test_of_the_best_k_the_last_places_are_open_within_the_tolerance():
    """No arm is further below the k-th best than that; those clearly above it always are in."""
    rng = np.random.default_rng(1)
    values = rng.normal(size=(500, 6)).astype(np.float32)
    counts = rng.integers(0, 4, (500, 6)).astype(np.float32)
    chosen = np.asarray(jax.vmap(TopK(6, 3).nearly_best, (0, None, 0))(values, 0.3, counts))
    assert (chosen.sum(1) == 3).all()
    last = np.sort(values, axis=1)[:, [3]]
    close = np.abs(values - last) <= np.float32(0.3)
    assert (chosen[~close] == (values > last)[~close]).all()
    inside = np.where(chosen & close, counts, np.inf).min(1)
    outside = np.where(~chosen & close, counts, -np.inf).max(1)
    assert (inside >= outside).all()


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_values_that_are_none_do_not_let_an_arm_win_that_is_not_on_offer(bad):
    actions = BestOffered([False, True, False])
    chosen = actions.nearly_best(jnp.full(3, bad), jnp.float32(0.0), jnp.array([9.0, 0.0, 9.0]))
    assert chosen.tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("actions", "rule", "tolerance"),
    [
        (BestArm(4), SatisficingRule(0.2), 0.2),
        (BestArm(4), SatisficingRule(horizon=50), NOISE * np.sqrt(4 / 50)),
        (BestOffered([1, 1, 1, 0]), SatisficingRule(horizon=50), NOISE * np.sqrt(3 / 50)),
        (BestArm(4), SatisficingRule(), NOISE * np.sqrt(4 / (4 + 12))),
        (BestOffered([1, 1, 1, 0]), SatisficingRule(), NOISE * np.sqrt(3 / (3 + 12))),
    ],
    ids=["given", "horizon", "horizon, among", "no horizon", "no horizon, among"],
)
def test_the_tolerance_is_the_one_that_is_documented(actions, rule, tolerance):
    for gap, expected in [(0.999 * tolerance, [1]), (1.001 * tolerance, [0])]:
        belief, state = believing([0.5, 0.5 - gap, -9, -9], [0.0] * 4, [1, 2, 0, 9], rounds=12)
        assert choice(rule, belief, state, actions) == expected


@pytest.mark.slow
def test_satisficing_paths_are_good_enough_but_for_detours():
    rng = np.random.default_rng(0)
    actions, tolerance = Maze().actions, 4.0
    values = -rng.random((100, 180)).astype(np.float32)
    counts = rng.integers(0, 5, (100, 180)).astype(np.float32)
    chosen = np.asarray(jax.vmap(actions.nearly_best, (0, None, 0))(values, tolerance, counts))
    best = np.asarray(jax.vmap(actions.best)(values))
    lost = (values * best).sum(1) - (values * chosen).sum(1)
    edges = chosen.sum(1)
    assert (lost <= tolerance * edges / 18 + 1e-5).all()
    assert (edges == 18).sum() > 20  # on these the whole tolerance, and no more
    assert (lost > 0.01).sum() > 20  # some are not the best ones
    # Where all shortest paths are equal, the one played most: along the top, then down.
    walked = np.zeros(180, np.float32)
    walked[[*range(9), *(90 + 10 * row + 9 for row in range(9))]] = 3
    again = actions.nearly_best(jnp.full(180, -1.0), jnp.float32(0.5), jnp.asarray(walked))
    np.testing.assert_array_equal(again, walked > 0)


# --- information-directed sampling ---------------------------------------------------------

#: A safe arm, and a worse one of which little is known.
TWO_MEANS, TWO_STDS = np.array([0.0, 0.5]), np.array([1.0, 0.3])


def two_armed():
    """Regret and what is told of two independent Gaussian arms, by quadrature: ``(2,)`` each."""
    arms = [norm(m, s) for m, s in zip(TWO_MEANS, TWO_STDS, strict=True)]
    low, high = -8.0, 8.0
    # chance[b]: that b is the best; part[a, b]: E θ_a 1[b is the best].
    chance, part = np.empty(2), np.empty((2, 2))
    for b in range(2):
        other, mine = arms[1 - b], arms[b]
        chance[b] = quad(lambda x: mine.pdf(x) * other.cdf(x), low, high)[0]  # noqa: B023
        part[b, b] = quad(lambda x: x * mine.pdf(x) * other.cdf(x), low, high)[0]  # noqa: B023
    for a in range(2):
        part[a, 1 - a] = TWO_MEANS[a] - part[a, a]
    regret = np.trace(part) - TWO_MEANS
    told = ((part / chance - TWO_MEANS[:, None]) ** 2) @ chance
    return regret, told


@functools.cache
def of_draws(batches=64, n=1000):
    """The same from draws, batch by batch: ``(batches, 2)`` each."""
    belief, state = believing(TWO_MEANS, TWO_STDS)

    @jax.jit
    def of_batch(key):
        draws = belief.draw(key, state, n)
        best = jax.vmap(BestArm(2).best)(draws)
        return jnp.mean(jnp.max(draws, axis=1)) - jnp.mean(draws, axis=0), information(draws, best)

    got = [of_batch(key) for key in jax.random.split(KEY, batches)]
    return tuple(np.asarray(part, np.float64) for part in zip(*got, strict=True))


@pytest.mark.slow
def test_regret_and_information_are_the_closed_form_of_two_gaussian_arms():
    n = 1000
    for exact, batches in zip(two_armed(), of_draws(), strict=True):
        error = batches.std(0, ddof=1) / np.sqrt(len(batches))
        assert (np.abs(batches.mean(0) - exact) < 4.5 * error + TWO_STDS**2 / n).all()


def test_the_lottery_is_that_of_two_gaussian_arms():
    """The chance of an arm, through regrets and information of draws, to Monte-Carlo error."""

    def least(x):
        regret, told = x[:2], x[2:]
        ratio = lambda q: (regret @ [q, 1 - q]) ** 2 / (told @ [q, 1 - q])  # noqa: E731
        return minimize_scalar(ratio, bounds=(0, 1), method="bounded", options={"xatol": 1e-9}).x

    exact = np.concatenate(two_armed())
    expected = least(exact)
    assert 0.2 < expected < 0.8  # a lottery, not a sure choice
    batches = np.concatenate(of_draws(), axis=1)
    one, other, chance = least_ratio(
        *(jnp.asarray(part, jnp.float32) for part in np.split(batches.mean(0), 2))
    )
    chance = float(chance) if int(one) == 0 else 1 - float(chance)
    assert {int(one), int(other)} == {0, 1}
    # What the batches' spread does to the optimum, to first order; half as much for the second.
    slope = np.array([(least(exact + h) - least(exact - h)) / 2e-4 for h in 1e-4 * np.eye(4)])
    error = (batches @ slope).std(ddof=1) / np.sqrt(len(batches))
    assert 4.5 * error < 0.1
    assert abs(chance - expected) < 1.5 * 4.5 * error


def ratios(regret, told):
    """``(EΔ)²/Eg`` of every pair and 2001 chances, ``(m, m, 2001)``, in float64."""
    q = np.linspace(0, 1, 2001)
    mixed = [v[:, None, None] * q + v[None, :, None] * (1 - q) for v in (regret, told)]
    return mixed[0] ** 2 / np.maximum(mixed[1], 1e-30)


@pytest.mark.parametrize("kind", ["any", "equal gains", "no regret", "unplayable", "no gain"])
def test_the_least_ratio_is_that_of_a_fine_grid(kind):
    rng = np.random.default_rng(0)
    for _ in range(25):
        regret, told = (rng.random(5).astype(np.float32) for _ in range(2))
        regret += 0.05
        if kind == "equal gains":
            told[:] = 0.3
        elif kind == "no regret":
            regret[rng.integers(5)] = 0.0
        elif kind == "unplayable":
            regret[rng.integers(5)] = np.inf
            told[~np.isfinite(regret)] = 9.0  # it would be the best of all
        elif kind == "no gain":
            told[:] = 0.0
        one, other, chance = (x.item() for x in least_ratio(jnp.asarray(regret), jnp.asarray(told)))
        able = np.isfinite(regret)
        assert able[one] and able[other]  # noqa: PT018 (both are of one pair)
        assert 0 <= chance <= 1
        regret, told = (v.astype(float) for v in (np.where(able, regret, 1e9), told))
        mixed = [chance * v[one] + (1 - chance) * v[other] for v in (regret, told)]
        got = mixed[0] ** 2 / max(mixed[1], 1e-30)
        grid = ratios(regret[able], told[able])
        assert got <= grid.min() * (1 + 1e-5) + 1e-12
        # No lottery of more than two is better (Russo and Van Roy 2018, Proposition 6).
        weights = rng.dirichlet(np.full(able.sum(), 0.3), 4000)
        more = (weights @ regret[able]) ** 2 / np.maximum(weights @ told[able], 1e-30)
        assert got <= more.min() * (1 + 1e-5) + 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("actions", [BestArm(4), BestOffered([1, 1, 0, 1]), TopK(4, 2)])
def test_information_directed_choices_are_the_coin_of_the_states_draws(actions):
    belief, state = believing([-0.3, 0.2, 0.3, -0.2], [0.8, 0.3, 0.4, 0.4])
    rule, n = InformationDirectedRule(draws=64), 4000
    draws = belief.sample(state, 64)
    best = np.asarray(jax.vmap(actions.best)(draws))
    sets = np.eye(4, dtype=bool)[np.asarray(actions.offered)] if actions.single_arm else best
    values = np.asarray(draws, np.float64)
    expected_best = (values * best).sum(1).mean()
    told = np.asarray(information(draws, jnp.asarray(best)), np.float64)
    one, other, chance = least_ratio(
        jnp.asarray(expected_best - sets @ values.mean(0), jnp.float32),
        jnp.asarray(sets @ told, jnp.float32),
    )
    expected = n * (float(chance) * sets[one] + (1 - float(chance)) * sets[other])
    counts = shares(rule, belief, state, actions, n)
    # Set by set it is one coin: count an arm that is in one of the two alone.
    arm = np.flatnonzero(sets[one] & ~sets[other])[0]
    assert 0.05 < float(chance) < 0.95
    assert (
        chisquare([counts[arm], n - counts[arm]], [expected[arm], n - expected[arm]]).pvalue > 1e-4
    )
    assert (counts[expected == 0] == 0).all()


# --- the knowledge gradient ----------------------------------------------------------------


def test_expected_excess_is_the_integral():
    gaps = np.array([0.0, 0.1, 0.5, 1.0, 2.0, 4.0, 0.3, 30.0])
    stds = np.array([1.0, 1.0, 0.5, 2.0, 1.0, 1.0, 0.01, 1.0])
    exact = [
        quad(lambda z, g=g, s=s: (s * z - g) * norm.pdf(z), g / s, g / s + 12)[0]
        for g, s in zip(gaps, stds, strict=True)
    ]
    got = expected_excess(jnp.asarray(gaps, jnp.float32), jnp.asarray(stds, jnp.float32))
    np.testing.assert_allclose(got, exact, rtol=2e-4, atol=1e-7)


def lookahead(mean, std, k=1, noise=NOISE):
    """What a pull of each arm adds to the best k means in expectation, in float64."""
    total = np.sort(mean)[-k:].sum()
    added = []
    for arm, (m, s) in enumerate(zip(mean, std, strict=True)):
        moves = s**2 / np.sqrt(s**2 + noise**2)
        others = np.delete(mean, arm)

        def best(z, m=m, moves=moves, others=others):
            return np.sort(np.append(others, m + moves * z))[-k:].sum() - total

        # Split where the arm enters or leaves the best k: there the integrand has its corner.
        corner = np.clip((np.sort(others)[-k] - m) / moves, -9, 9)
        added.append(
            sum(quad(lambda z, best=best: best(z) * norm.pdf(z), *ends, epsabs=1e-12)[0]
                for ends in [(-10, corner), (corner, 10)])
        )  # fmt: skip
    return np.array(added)


GAPS = np.array([0.3, 0.5, 0.1, 0.4]), np.array([0.5, 0.1, 0.8, 0.3])


class TwoBest(Values):
    """As ``Values``, for sets of two."""

    def rivals(self, values):
        return TopK(self.n_arms, 2).rivals(values)


@pytest.mark.parametrize(("shown", "k"), [(Values(), 1), (TwoBest(), 2)], ids=["arm", "top two"])
def test_the_knowledge_gradient_is_one_step_of_lookahead(shown, k):
    mean, std = GAPS
    worth = lookahead(mean, std, k)
    assert (worth > 1e-4).any()
    for horizon, rounds, left in [(50, 0, 49), (50, 30, 19), (50, 49, 0), (50, 70, 0)]:
        belief, state = believing(mean, std, rounds=rounds)
        got = KnowledgeGradientRule(horizon).select(KEY, belief, state, shown)
        np.testing.assert_allclose(got, mean + left * worth, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("rounds", "left"), [(0, 4), (3, 4), (30, 30)])
def test_without_a_horizon_as_many_rounds_are_expected_as_were_played(rounds, left):
    mean, std = GAPS
    belief, state = believing(mean, std, rounds=rounds)
    got = KnowledgeGradientRule().select(KEY, belief, state, Values())
    np.testing.assert_allclose(got, mean + left * lookahead(mean, std), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_the_knowledge_gradient_chooses_by_the_lookahead():
    rng = np.random.default_rng(0)
    rule, greedy_before, chosen = KnowledgeGradientRule(horizon=100), 0, []
    for _ in range(20):
        mean, std = rng.normal(size=4), rng.uniform(0.05, 1.5, 4)
        offered = np.array([1, 1, 1, rng.integers(2)], bool)
        belief, state = believing(mean, std, rounds=60)
        index = np.full(4, -np.inf)
        index[offered] = mean[offered] + 39 * lookahead(mean[offered], std[offered])
        assert choice(rule, belief, state, BestOffered(offered)) == [index.argmax()]
        greedy_before += index.argmax() == np.where(offered, mean, -9).argmax()
        last = belief, believing(mean, std, rounds=99)[1]
        chosen.append(choice(rule, *last, BestOffered(offered)))
        assert chosen[-1] == [np.where(offered, mean, -9).argmax()]  # the last round is greedy
    assert 0 < greedy_before < 20


def test_a_single_arm_on_offer_has_no_rival():
    belief, state = believing(*GAPS)
    assert choice(KnowledgeGradientRule(50), belief, state, BestOffered([0, 0, 1, 0])) == [2]
    assert choice(KnowledgeGradientRule(50), belief, state, TopK(4, 4)) == [0, 1, 2, 3]


# --- quantiles, and draws taken together ---------------------------------------------------


def test_bayes_ucb_of_gaussian_arms_is_in_closed_form():
    mean, std = GAPS
    for level, rounds, expected in [
        (0.8, 7, 0.8),
        ("standard", 7, 1 - 1 / 9),
        ("standard", 0, 0.5),
        ("slow", 0, 0.95),
        ("slow", 1000, 0.95),
        ("slow", 5000, 0.99),
    ]:
        belief, state = believing(mean, std, rounds=rounds)
        got = BayesUCBRule(level).select(KEY, belief, state, Values())
        np.testing.assert_allclose(got, mean + norm.ppf(expected) * std, atol=1e-5)


class ValuesInSets(Values):
    """The same where an action is a set of arms."""

    single_arm = False


def test_bayes_ucb_of_sets_is_less_optimistic_at_first():
    mean, std = GAPS
    for rounds, expected in [
        (0, 0.8),
        (10, 0.8),
        (20, 0.9),
        (40, 0.95),
        (1000, 0.95),
        (5000, 0.99),
    ]:
        belief, state = believing(mean, std, rounds=rounds)
        got = BayesUCBRule().select(KEY, belief, state, ValuesInSets())
        np.testing.assert_allclose(got, mean + norm.ppf(expected) * std, atol=1e-5)


@pytest.mark.parametrize("kind", ["mixture", "diffusion", "a new arm"])
def test_in_a_set_an_arm_counts_by_its_moments(kind):
    """Not by its own quantile: a sum of many arms does not know of the law of one."""
    belief = MixtureBelief(MIXTURE, NOISE, single_arm=False)
    if kind == "diffusion":
        prior = DiffusionPrior.gaussian(MEAN, COVARIANCE)
        belief = DiffusionBelief(prior, NOISE, steps=3, single_arm=False)
    if kind == "a new arm":
        belief = NewArmsBelief(belief, [0.3], [0.2])
    n_arms = belief.n_arms
    state = belief.resume(History.empty(n_arms))
    values = ValuesInSets(n_arms)
    mean, std = belief.moments(state, belief.sample(state, 64))
    got = BayesUCBRule(0.8, draws=64).select(KEY, belief, state, values)
    np.testing.assert_allclose(got, mean + norm.ppf(0.8) * std, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mixture", "diffusion"])
def test_bayes_ucb_of_other_beliefs_is_a_quantile_of_draws(kind):
    prior = DiffusionPrior.gaussian(MEAN, COVARIANCE)
    belief = MixtureBelief(MIXTURE, NOISE) if kind == "mixture" else None
    belief = belief or DiffusionBelief(prior, NOISE, steps=3)
    state = after(Policy(belief, ThompsonRule()))
    got = BayesUCBRule(0.8, draws=50).select(KEY, belief, state, Values())
    expected = np.quantile(np.asarray(belief.sample(state, 50)), 0.8, axis=0)
    np.testing.assert_allclose(got, expected, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("actions", [BestArm(4), BestOffered([1, 0, 1, 1]), TopK(4, 2)])
def test_ts_ucb_reaches_for_the_mean_best_value_of_its_draws(actions):
    rng = np.random.default_rng(0)
    chosen = set()
    for trial in range(12):
        mean, std = rng.normal(scale=0.3, size=4), rng.uniform(0.1, 1.0, 4)
        belief, state = believing(mean, std, rounds=trial)
        draws = np.asarray(belief.sample(state, 8), np.float64)
        best = np.asarray(jax.vmap(actions.best)(jnp.asarray(draws, jnp.float32)))
        sets = np.eye(4, dtype=bool)[np.asarray(actions.offered)] if actions.single_arm else best
        reached = (draws * best).sum(1).mean()
        ratio = (reached - sets @ mean) / np.sqrt(sets @ std**2)
        expected = np.flatnonzero(sets[ratio.argmin()]).tolist()
        assert choice(TSUCBRule(draws=8), belief, state, actions) == expected
        chosen.add(tuple(expected))
    assert len(chosen) > 1


def test_few_draws_are_averaged():
    belief, state = believing(*GAPS)
    for n in (1, 2, 5):
        got = FewDrawsRule(n).select(KEY, belief, state, Values())
        np.testing.assert_allclose(got, belief.draw(KEY, state, n).mean(0), rtol=1e-6)
    # The mean of n draws has the law of one draw of a standard deviation √n times less.
    counts = shares(FewDrawsRule(4), *believing([0.0, 0.2], [0.5, 0.3]), BestArm(2))
    chance = norm.cdf(0.2 / (np.hypot(0.5, 0.3) / 2))
    assert chisquare(counts, 4000 * np.array([1 - chance, chance])).pvalue > 1e-4


@pytest.mark.parametrize("beta", [0.0, 0.5, 0.8, 1.0])
def test_top_two_plays_its_leader_with_probability_beta(beta):
    """Of two arms, p the chance that a draw has the first on top: all is known in closed form."""
    redraws, n = 3, 4000
    p = norm.cdf(0.3 / np.hypot(0.5, 0.3))
    lead = p * (beta + (1 - beta) * p**redraws)  # no challenger was found: the leader, too
    challenge = (1 - p) * (1 - beta) * (1 - (1 - p) ** redraws)
    counts = shares(TopTwoRule(beta, redraws), *believing([0.5, 0.2], [0.5, 0.3]), BestArm(2), n)
    expected = n * (lead + challenge)
    assert chisquare(counts, [expected, n - expected]).pvalue > 1e-4


# --- by name -------------------------------------------------------------------------------


def test_rules_are_made_by_name_and_told_the_horizon():
    for name in RULES:
        rule = make_rule(name, horizon=30)
        assert make_rule(rule) is rule
        if hasattr(rule, "horizon"):
            assert float(rule.horizon) == 30
            assert make_rule(name).horizon is None
    assert {name for name in RULES if hasattr(make_rule(name), "horizon")} == {
        "knowledge-gradient",
        "satisficing",
    }
    belief = IndependentBelief(Gaussian([0.0, 1.0], np.eye(2)), 0.1)
    default, chosen = (identity(Policy(belief, make_rule(n))) for n in ("default", "bayes-ucb"))
    assert default == chosen


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: make_rule("softmax"), "rule.*'softmax'.*knowledge-gradient"),
        (lambda: make_rule(3), "rule.*int"),
        (lambda: make_rule("knowledge-gradient", horizon=0), "horizon"),
        (lambda: Agent(Policy(believing([0.0], [1.0])[0], ThompsonRule()), rule="best"), "rule"),
        (lambda: SatisficingRule(-0.1), "tolerance"),
        (lambda: SatisficingRule(np.nan), "tolerance"),
        (lambda: BayesUCBRule(1.5), "level"),
        (lambda: BayesUCBRule("fast"), "level.*'fast'"),
        (lambda: TopTwoRule(beta=2), "beta"),
        (lambda: InformationDirectedRule(draws=1), "draws"),
        (lambda: FewDrawsRule(0), "draws"),
    ],
)
def test_bad_rules_are_named(make, named):
    with pytest.raises(InvalidInputError, match=named):
        make()
