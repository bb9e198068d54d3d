"""From a log to a belief: what wins, what is told, what is kept."""

import json

import numpy as np
import pytest

from diffts import DiffusionPrior, InvalidInputError, ThompsonSampling
from diffts.bandits.noise import BernoulliNoise, FixedNoise, PooledNoise, noise_to_json
from diffts.diffusion.exact import Gaussian, GaussianMixture
from diffts.evidence import Evidence
from diffts.fitting import Fitted, NewArms, candidates, fit
from diffts.fitting.fitted import KINDS
from diffts.fitting.from_log import explains_well, simplest_of_the_best
from diffts.fitting.judging import Prediction, predict
from diffts.fitting.race import always, complete
from diffts.fitting.support import Doubt
from diffts.fitting.verdict import Gain, tasks_wanted, verdict
from diffts.learning.held_out import hide
from diffts.logs import Facts, Log

ARMS, FACTORS = 6, 2


def log_of(tasks, noise=0.5, share=0.7, pulls=2.0, seed=0, binary=False):
    """A log of these tasks: some arms of each, a few noisy pulls."""
    rng = np.random.default_rng(seed)
    counts = (1 + rng.poisson(pulls, tasks.shape)) * (rng.random(tasks.shape) < share)
    sums, squares = np.zeros(tasks.shape), np.zeros(tasks.shape)
    for cell in zip(*np.nonzero(counts), strict=True):
        if binary:
            rewards = (rng.random(counts[cell]) < tasks[cell]).astype(float)
        else:
            rewards = tasks[cell] + noise * rng.standard_normal(counts[cell])
        sums[cell], squares[cell] = rewards.sum(), ((rewards - rewards.mean()) ** 2).sum()
    means = sums / np.maximum(counts, 1)
    n, k = tasks.shape
    names = [f"user {i}" for i in range(n)], [f"item {a}" for a in range(k)]
    return Log(*names, counts, means, squares, Facts(binary=binary))


def gaussian_tasks(n, seed=0):
    rng = np.random.default_rng(seed)
    loadings = 2 * np.random.default_rng(9).standard_normal((ARMS, FACTORS))
    return rng.standard_normal((n, FACTORS)) @ loadings.T + 0.3 * rng.standard_normal((n, ARMS))


@pytest.fixture(scope="module")
def fitted():
    said = []
    result = fit(log_of(gaussian_tasks(160)), minutes=0.0, on_progress=said.append)
    return result, said


@pytest.mark.slow
def test_a_gaussian_law_is_explained_by_a_gaussian(fitted):
    result, said = fitted
    assert result.kind == "gaussian"
    assert [row["kind"] for row in result.facts["judged"]] == [
        "independent", "gaussian", "mixture", "diffusion"
    ]  # fmt: skip
    assert "too few" in result.facts["judged"][-1]["note"]
    assert said.index("fitting: independent") < said.index("fitting: gaussian")
    independent, gaussian = result.facts["judged"][:2]
    # Arms of two factors: what is known of some tells of the others.
    assert gaussian["log_score"] - independent["log_score"] > 2 * independent["log_score_se"]
    assert independent["gap"] > 2 * independent["gap_se"]


@pytest.mark.slow
def test_the_folder_keeps_all_that_was_told(fitted, tmp_path):
    result, _ = fitted
    result.save(tmp_path / "fit")
    again = Fitted.load(tmp_path / "fit")
    assert again.arms == result.arms
    assert again.facts == json.loads(json.dumps(result.facts))
    assert noise_to_json(again.noise) == noise_to_json(result.noise)
    np.testing.assert_array_equal(again.law.covariance, result.law.covariance)
    agent = again.agent(seed=0)
    arm = agent.choose()
    assert arm in result.arms
    agent.update(arm, 1.0)


@pytest.mark.slow
def test_rewards_0_and_1_are_recognised():
    chances = 1 / (1 + np.exp(-gaussian_tasks(80)))
    result = fit(log_of(chances, binary=True), minutes=0.0, kinds=["independent", "gaussian"])
    assert isinstance(result.noise, BernoulliNoise)
    with pytest.raises(InvalidInputError, match="from 0 to 1"):
        result.agent().update("item 0", 3.0)


@pytest.mark.slow
def test_the_race_is_as_long_as_a_task_is(tmp_path):
    kinds = ["independent", "gaussian"]
    result = fit(log_of(gaussian_tasks(40)), minutes=0.0, kinds=kinds, decisions=45)
    facts = result.facts
    assert facts["decisions"] == 45
    for row in (*facts["judged"], *facts["baselines"]):
        assert list(row["reward"]) == list(row["regret"]) == ["10", "30", "45"]
    assert "45 decisions" in facts["why"]
    assert all("first 45 decisions" in why for why in facts["verdict"]["reasons"][:3])
    assert {"fitting: gaussian", "judging", "race"} <= set(facts["time"]["parts"])
    assert sum(facts["time"]["parts"].values()) <= facts["time"]["used"]
    result.report(tmp_path)
    page = (tmp_path / "report.html").read_text()
    for said in ("its first 10, 30 and 45 decisions", "summed over 45 decisions", "first 45"):
        assert said in page
    assert "100 decisions" not in page


@pytest.mark.slow
def test_a_training_that_diverges_leaves_out_its_candidate_alone(monkeypatch):
    def diverging(*_, **__):
        raise InvalidInputError("training diverged: the loss is nan at step 7")

    monkeypatch.setattr(candidates, "learn_prior_within", diverging)
    monkeypatch.setattr(candidates, "LEAST_TASKS_OF_A_NETWORK", 10)
    result = fit(log_of(gaussian_tasks(40)), minutes=1.0, kinds=["independent", "diffusion"])
    assert result.kind == "independent"
    (left_out,) = [row for row in result.facts["judged"] if row["kind"] == "diffusion"]
    assert left_out["note"] == "left out: training diverged: the loss is nan at step 7"
    with pytest.raises(InvalidInputError, match=r"none could be fitted .*diverged"):
        fit(log_of(gaussian_tasks(40)), minutes=1.0, kinds=["diffusion"])


def test_a_report_needs_the_rewards_of_the_log(tmp_path):
    law = Gaussian(np.zeros(2), np.eye(2))
    fitted = Fitted("independent", law, ("a", "b"), FixedNoise(1.0), NewArms(0.0, 1.0, 0.5))
    with pytest.raises(InvalidInputError, match="right after fit"):
        fitted.report(tmp_path / "folder")
    assert not (tmp_path / "folder").exists()


def test_the_noise_is_the_logs_where_it_shows():
    tasks = gaussian_tasks(100)
    noise = fit_noise(log_of(tasks, noise=0.5))
    assert isinstance(noise, FixedNoise)
    # Pooled over some 100 × 6 × 0.7 cells with two degrees of freedom each: a standard error of 2%.
    assert float(noise.level) == pytest.approx(0.5, rel=0.1)
    assert isinstance(fit_noise(log_of(tasks[:9], pulls=0.1)), PooledNoise)


def fit_noise(log):
    from diffts.fitting.from_log import noise_of

    return noise_of(log)


def test_too_few_tasks_are_refused():
    with pytest.raises(InvalidInputError, match="at least 8"):
        fit(log_of(gaussian_tasks(4)))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"kinds": ["magic"]}, "kinds"),
        ({"kinds": []}, "kinds: none given"),
        ({"rule": "magic"}, "rule"),
        ({"minutes": float("nan")}, "minutes"),
        ({"decisions": 9}, "decisions: must be a whole number from 10 to 100000, got 9"),
        ({"decisions": 20.5}, "decisions"),
        ({"kinds": ["mixture"]}, "too few for it"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_takes_time(asked, message):
    with pytest.raises(InvalidInputError, match=message):
        fit(log_of(gaussian_tasks(12)), **asked)


def test_the_simplest_within_one_standard_error_wins():
    rng = np.random.default_rng(0)
    base = rng.normal(10.0, 3.0, 100)
    same, worse = base + rng.normal(0.0, 1.0, 100), base + 5.0
    assert simplest_of_the_best({"independent": worse, "gaussian": same, "mixture": base}) == (
        "gaussian" if same.mean() - base.mean() <= (same - base).std(ddof=1) / 10 else "mixture"
    )
    assert simplest_of_the_best({"independent": base, "gaussian": worse}) == "independent"
    assert simplest_of_the_best({"independent": worse, "diffusion": base}) == "diffusion"


def test_only_laws_that_explain_the_data_complete_tasks():
    good = Prediction(np.zeros(50), np.linspace(-1.0, 1.0, 50), {})
    bad = Prediction(np.zeros(50), np.linspace(-1.0, 1.0, 50) - 3.0, {})
    assert explains_well({"independent": bad, "gaussian": good}) == ["gaussian"]


def test_a_true_law_predicts_with_the_coverage_it_says():
    law = Gaussian(np.zeros(ARMS), np.eye(ARMS) + 0.5)
    rng = np.random.default_rng(1)
    tasks = rng.multivariate_normal(law.mean, law.covariance, 400)
    noisy = Evidence(tasks + 0.3 * rng.standard_normal(tasks.shape), std=0.3)
    found = predict(law, hide(noisy, 0.3, 0))
    for level, share in found.coverage.items():
        # Some 720 entries, in tasks of about two: their standard error is below 2.7%.
        assert share == pytest.approx(float(level), abs=3 * 0.027)
    wrong = predict(Gaussian(np.ones(ARMS), law.covariance), hide(noisy, 0.3, 0))
    assert wrong.crps.mean() > found.crps.mean()
    assert wrong.log_score.mean() < found.log_score.mean()


def test_what_is_known_of_a_task_is_kept_when_it_is_completed():
    law = Gaussian(np.zeros(ARMS), np.eye(ARMS))
    mixture = GaussianMixture.of(law)
    values = np.arange(4 * ARMS, dtype=float).reshape(4, ARMS) / 10
    mask = np.arange(4 * ARMS).reshape(4, ARMS) % 2 == 0
    tasks = complete(Evidence(values, std=0.0, mask=mask), [law, mixture], seed=0)
    # An exact observation counts as one within a thousandth (of a standard deviation).
    np.testing.assert_allclose(tasks[mask], values[mask], atol=5e-3)
    assert np.abs(tasks[~mask] - values[~mask]).max() > 0.1


def test_fixed_chances_are_known_without_playing():
    tasks = np.array([[1.0, 0.0], [0.0, 2.0]])
    outcome = always(np.array([0.5, 0.5]), tasks)
    np.testing.assert_allclose(outcome.reward["10"], [0.5, 1.0])
    np.testing.assert_allclose(outcome.regret["10"], [5.0, 10.0])


@pytest.mark.parametrize(
    ("kind", "gains", "advice"),
    [
        ("diffusion", [Gain("ucb1", 1.0, 0.1)], "use it"),
        ("gaussian", [Gain("ucb1", 1.0, 0.1)], "use the simple one"),
        ("gaussian", [Gain("ucb1", 1.0, 0.1), Gain("as logged", 0.1, 0.1)], "collect more data"),
        (
            "gaussian",
            [Gain("ucb1", 1.0, 0.1), Gain("as logged", 1e-6, 1e-9, 0.01)],
            "nothing to gain",
        ),
        ("gaussian", [Gain("as logged", 1e-6, 0.1, 0.01)], "collect more data"),
        ("gaussian", [Gain("as logged", -0.1, 0.001, 0.01)], "collect more data"),
    ],
)
def test_the_verdict_follows_from_the_gains(kind, gains, advice):
    assert verdict(kind, 500, gains, [])["advice"] == advice


def test_reasons_speak_as_the_report_does():
    """Its names of the ways to play, and ± for 95% intervals."""
    said = verdict("gaussian", 500, [Gain("as logged", 1.0, 0.1)], [])["reasons"]
    assert said == [
        "Over the first 100 decisions of a task it earns +1 (± 0.2) a decision against 'Today'."
    ]


def test_a_gain_too_small_to_matter_is_named():
    told = verdict("gaussian", 500, [Gain("as logged", 1.35e-6, 2.6e-9, 1e-4)], [])
    assert told["headline"] == "Nothing to gain: 'Today' does as well."
    assert told["reasons"][0].endswith("against 'Today': too little to matter.")


def test_a_doubt_goes_before_all_gains():
    told = verdict("gaussian", 500, [Gain("ucb1", 1.0, 0.1)], [], doubt=Doubt("Too few.", 6.0))
    assert told["advice"] == "collect more data"
    assert told["reasons"][0] == "Too few."
    assert told["tasks_wanted"] == 3000


def test_few_tasks_are_never_enough():
    told = verdict("gaussian", 20, [Gain("ucb1", 1.0, 0.1)], [])
    assert told["advice"] == "collect more data"
    assert told["tasks_wanted"] >= 80


def test_tasks_wanted_follow_the_learning_curve():
    curve = [{"tasks": n, "regret": 10 + 500 / n, "regret_se": 0.01} for n in (50, 100, 200)]
    # R = 10 + 500/N: 500/N is a twentieth of 10 at 1000.
    assert tasks_wanted(curve) == pytest.approx(1000, abs=1)
    flat = [{"tasks": n, "regret": 10.0, "regret_se": 0.5} for n in (50, 200)]
    assert tasks_wanted(flat) is None


def test_a_prior_that_was_told_the_noise_and_the_names_needs_no_more():
    prior = DiffusionPrior.gaussian([0.5, 0.5], [[0.04, 0.0], [0.0, 0.04]])
    with pytest.raises(InvalidInputError, match="noise_std: none given"):
        ThompsonSampling(prior)
    told = prior.with_errors(prior.tau, noise=noise_to_json(FixedNoise(0.2)), arms=["red", "blue"])
    agent = ThompsonSampling(told, seed=0)
    assert agent.arms == ["red", "blue"]
    assert agent.policy.belief.noise_std(agent.policy.init()).tolist() == pytest.approx([0.2, 0.2])


@pytest.mark.parametrize("noise", [FixedNoise(0.5), PooledNoise(), BernoulliNoise(0.3, 2.0)])
def test_laws_and_noises_of_all_kinds_come_back(noise, tmp_path):
    law = Gaussian(np.zeros(2), np.eye(2))
    mixture = GaussianMixture([0.5, 0.5], np.zeros((2, 2)), np.stack([np.eye(2)] * 2))
    prior = DiffusionPrior.gaussian(law.mean, law.covariance)
    for kind, kept in [("independent", law), ("mixture", mixture), ("diffusion", prior)]:
        saved = Fitted(kind, kept, ("a", "b"), noise, NewArms(0.0, 1.0, 0.5), {"x": [1, None]})
        saved.save(tmp_path / kind)
        again = Fitted.load(tmp_path / kind)
        assert (again.kind, again.arms, again.new_arms) == (kind, ("a", "b"), saved.new_arms)
        assert noise_to_json(again.noise) == noise_to_json(noise)
        assert type(again.belief()) is type(saved.belief())


@pytest.mark.slow
def test_fits_and_races_side_by_side_are_those_one_by_one(monkeypatch):
    """As beside an accelerator: in threads, and without timing the race first."""
    log, kinds = log_of(gaussian_tasks(160)), KINDS[:3]
    one_by_one = fit(log, minutes=0.5, kinds=kinds)
    monkeypatch.setattr("diffts.fitting.side_by_side.has_accelerator", lambda: True)
    monkeypatch.setattr("diffts.fitting.from_log.has_accelerator", lambda: True)
    at_once = fit(log, minutes=0.5, kinds=kinds)
    assert at_once.kind == one_by_one.kind
    for key in ("kind", "log_score", "crps", "gap", "note"):
        told, expected = (
            [row.get(key) for row in fitted.facts["judged"]] for fitted in (at_once, one_by_one)
        )
        assert told == expected
    assert at_once.facts["learning_curve"] == one_by_one.facts["learning_curve"]
    assert len(at_once.facts["learning_curve"]) == 3
