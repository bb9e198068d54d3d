"""Learning from incomplete and noisy data."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffts import (
    ArtifactError,
    Evidence,
    InvalidInputError,
    Procedure,
    TrainingConfig,
    learn_prior,
)
from diffts.diffusion import Gaussian, Schedule, build_denoiser
from diffts.learning import PROCEDURES, OurProcedure, choose_sure
from diffts.learning.held_out import Score
from diffts.learning.objectives import (
    ExactTasks,
    Observations,
    Reconstructed,
    denoising_loss,
    imperfect_loss,
)
from diffts.learning.phases import Learning
from diffts.problems import Corruption, PopularNiche, corrupt
from diffts.storage import named_arrays
from gaussian_world import COVARIANCE, MEAN, gaussian_tasks, observed

SMALL = {"width": 48, "n_blocks": 1}

# Wherever the number of tasks does not matter there are 60: one set of compiled programs.


def tiny(name, **changes):
    settings = {"warmup_steps": 20, "rounds": 2, "inner_steps": 20, "score_every": 20}
    if name != "default":
        settings["impute_with"] = 2.5
    training = dataclasses.replace(PROCEDURES[name].training, batch_size=16, block=10)
    return dataclasses.replace(PROCEDURES[name], **{"training": training, **settings, **changes})


def equal_weights(a, b, **tolerance):
    a, b = named_arrays(a), named_arrays(b)
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_allclose(a[name], b[name], err_msg=name, **tolerance)


# --- the loss ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def network():
    return build_denoiser("residual-mlp", 6, seed=1, **SMALL)


def level(step):
    return jax.tree.map(jnp.asarray, Schedule.linear().level(step))


@pytest.mark.parametrize("predicts", ["clean", "noise", "velocity", "residual"])
def test_on_exact_data_the_loss_is_the_plain_one(predicts):
    base = Gaussian(np.zeros(6), np.diag(np.arange(1.0, 7.0))) if predicts == "residual" else None
    denoiser = build_denoiser("residual-mlp", 6, predicts=predicts, base=base, seed=1, **SMALL)
    x_0, noise = jax.random.normal(jax.random.key(0), (2, 6))
    for step in (5, 60):
        x = level(step).signal * x_0 + level(step).noise * noise
        ours = imperfect_loss(denoiser, x_0, jnp.ones(6), x, level(step))
        plain = denoising_loss(denoiser, x_0, noise, level(step))
        np.testing.assert_allclose(ours, plain, rtol=2e-4)


@pytest.mark.slow
def test_the_divergence_term_is_the_jacobian_seen_by_the_probe(network):
    x, y, probe = jax.random.normal(jax.random.key(0), (3, 6))
    weight, d = jnp.array([1.0, 0, 1, 1, 0, 1]), jnp.array([0.1, 0.2, 0.0, 0.3, 0.1, 0.5])
    jacobian = jax.jacfwd(lambda z: network(z, level(30)))(x)
    error = weight * (y - network(x, level(30)))
    expected = jnp.mean(error**2) + 2 * level(30).signal * jnp.mean(d * probe * (jacobian @ probe))
    got = imperfect_loss(network, y, weight, x, level(30), d, probe)
    np.testing.assert_allclose(got, expected, rtol=1e-4)


@pytest.mark.slow
def test_with_full_weight_it_estimates_the_error_without_bias(network):
    """Stein: at λ = 1 and ``x = √ᾱ y`` the loss is the clean error plus σ² in expectation."""
    n, sigma, at = 40_000, 0.5, level(20)
    x_0 = jnp.asarray(gaussian_tasks(1)[0] - 2.5, jnp.float32)
    y = x_0 + sigma * jax.random.normal(jax.random.key(1), (n, 6))
    probes = jax.random.normal(jax.random.key(2), (n, 6))

    def difference(y, probe):
        d = jnp.full(6, sigma**2)
        stein = imperfect_loss(network, y, jnp.ones(6), at.signal * y, at, d, probe)
        return stein - sigma**2 - jnp.mean((x_0 - network(at.signal * y, at)) ** 2)

    gaps = np.asarray(jax.vmap(difference)(y, probes), np.float64)
    assert abs(gaps.mean()) < 4.5 * gaps.std() / np.sqrt(n)


# --- exact data ---------- ------------------------------------------------------------------


@pytest.mark.slow
def test_on_exact_data_every_objective_is_plain_training(network):
    x_0 = jnp.asarray(gaussian_tasks(50) - 2.5, jnp.float32)
    levels = jax.tree.map(jnp.asarray, Schedule.linear().level(np.arange(1, 101)))
    exact = Observations(x_0, jnp.ones_like(x_0), None)
    plain = ExactTasks(x_0)
    for anchor in (1.0, 0.5, 0.0):
        objective = Reconstructed(exact, x_0[None], anchor)
        for seed in range(3):
            key = jax.random.key(seed)
            np.testing.assert_allclose(
                objective(network, levels, key, 32), plain(network, levels, key, 32), rtol=1e-5
            )


# One run of Adam through all phases; ours starts anew in each, so that one phase has to do.
@pytest.mark.slow
@pytest.mark.parametrize(("name", "rounds", "steps"), [("default", 0, 20), ("paper", 2, 60)])
def test_on_exact_data_the_procedure_reduces_to_plain_training(name, rounds, steps):
    tasks, calibration = gaussian_tasks(60), gaussian_tasks(30, seed=5)
    procedure = tiny(name, rounds=rounds, sure=0.1)
    learned = learn_prior(
        Evidence.exact(tasks), Evidence.exact(calibration), procedure=procedure, options=SMALL
    )
    config = dataclasses.replace(procedure.training, steps=steps)
    plain = learn_prior(tasks, calibration, config=config, options=SMALL)
    equal_weights(learned.denoiser, plain.denoiser, rtol=2e-3, atol=2e-5)
    # With the draws on the data, both calibrations see the same errors; 30 tasks, fresh noise.
    ratio = np.asarray(learned.tau).mean(1) / np.asarray(plain.tau).mean(1)
    assert np.abs(ratio - 1).max() < 0.25


# --- the linear-Gaussian check --------------------------------------------------------------


def errors_against_the_known_gaussian(name, rounds, warmup_steps, inner_steps, rate, seed=0):
    """Errors of the prior's draws against the true mean and covariance; half missing, noisy."""
    evidence = observed(gaussian_tasks(3000), seed=2)
    imputed = {} if name == "default" else {"impute_with": 2.5}
    procedure = dataclasses.replace(
        PROCEDURES[name], warmup_steps=warmup_steps, inner_steps=inner_steps, rounds=rounds,
        score_every=warmup_steps, **imputed,
    )  # fmt: skip
    training = dataclasses.replace(procedure.training, learning_rate=rate, batch_size=64)
    procedure = dataclasses.replace(procedure, training=training)
    prior = learn_prior(evidence, procedure=procedure, options=SMALL, seed=seed)
    draws = prior.sample(3000, seed=3)
    covariance = np.linalg.norm(np.cov(draws.T) - COVARIANCE) / np.linalg.norm(COVARIANCE)
    return np.abs(draws.mean(0) - MEAN).max(), covariance


@pytest.mark.slow
def test_the_prior_approaches_a_known_gaussian():
    mean, covariance = errors_against_the_known_gaussian("default", 1, 1000, 200, rate=3e-3)
    # 2500 tasks, half seen, unit variance and noise 0.4: means are uncertain by 0.03, entries of
    # the covariance by 0.05 or so, a tenth of its norm.
    assert mean < 0.15
    assert covariance < 0.15


@pytest.mark.long(reason="six trainings of thousands of steps, which the paper's EM needs to help")
def test_em_helps_the_papers_procedure():
    """On average over seeds: without EM one of them can be lucky."""

    def mean_errors(rounds, warmup_steps):
        errors = [
            errors_against_the_known_gaussian("paper", rounds, warmup_steps, 300, 2e-3, seed)
            for seed in range(3)
        ]
        return np.mean(errors, axis=0)

    without, repeated = mean_errors(0, 2400), mean_errors(3, 1500)
    assert repeated[0] < without[0]
    assert repeated[1] < 0.5 * without[1]


# --- the whole, and what can go wrong ----------------------------------------------------------


class KilledError(Exception):
    pass


@pytest.mark.slow
@pytest.mark.parametrize("name", ["default", "paper"])
def test_a_killed_learning_resumes_to_the_same_weights(name, tmp_path):
    evidence = observed(gaussian_tasks(60))
    # Scored in the middle of each phase, too: that must not change what its E-step draws.
    procedure = tiny(name, sure=0.1, score_every=10)

    def learn(checkpoint=None, stop_at=None):
        seen = []

        def watch(progress):
            seen.append(progress)
            if stop_at is not None and len(seen) == stop_at:
                raise KilledError

        prior = learn_prior(
            evidence, procedure=procedure, options=SMALL, checkpoint=checkpoint,
            checkpoint_every=10, on_progress=watch,
        )  # fmt: skip
        return prior, seen

    whole, seen = learn()
    # After a first block in the middle of the warm-up, and of the first repeat.
    for stop_at in (2, 4):
        folder = tmp_path / f"stop-{stop_at}"
        with pytest.raises(KilledError):
            learn(folder, stop_at)
        resumed, rest = learn(folder)
        equal_weights(resumed.denoiser, whole.denoiser, rtol=0, atol=0)
        np.testing.assert_array_equal(resumed.tau, whole.tau)
        assert len(rest) < len(seen)
    with pytest.raises(ArtifactError, match="other data, settings or seed"):
        learn_prior(evidence, procedure=tiny(name, sure=0.2), options=SMALL,
                              checkpoint=folder)  # fmt: skip


@pytest.mark.slow
def test_progress_names_the_phases():
    seen = []
    prior = learn_prior(
        observed(gaussian_tasks(60)), options=SMALL, on_progress=seen.append,
        procedure=tiny("ipinyou", rounds=3, final_steps=10),
    )  # fmt: skip
    names = list(dict.fromkeys(p.phase for p in seen))
    assert names == ["warm-up", "round 1", "round 2", "round 3", "final"]
    assert [p.done for p in seen if p.phase == "round 1"] == [10, 20]
    assert all(p.steps == 20 for p in seen if p.phase == "round 1")
    assert np.isnan(seen[0].score)
    assert np.isfinite(seen[-1].score)
    told = prior.metadata["learning"]
    assert [row["step"] for row in told["scores"]] == [20, 40, 60, 80, 90]
    assert told["kept_step"] == 90


def plan_scores(monkeypatch, plan):
    """Let the held-out scores be those of ``plan(learning)``, in their order."""

    def planned(self, *_):
        if not hasattr(self, "planned"):
            self.planned = iter(plan(self))
        return Score(next(self.planned), 1.0, 0.02)

    monkeypatch.setattr(Learning, "score", planned)


@pytest.mark.slow
def test_the_best_score_is_kept_and_stops_the_training(monkeypatch):
    plan_scores(monkeypatch, lambda _: [0.5, 0.4, 0.6, 0.7, 0.1])
    evidence = observed(gaussian_tasks(60))
    procedure = tiny("default", warmup_steps=40, rounds=3, patience=2)
    told = learn_prior(evidence, procedure=procedure, options=SMALL).metadata["learning"]
    # Scored at 20, 40 | 60 | 80 | 100: two repeats without a gain end it before the last.
    assert [row["step"] for row in told["scores"]] == [20, 40, 60, 80]
    assert told["kept_step"] == 40


@pytest.mark.slow
def test_the_weights_of_the_best_score_are_the_prior(monkeypatch):
    evidence = observed(gaussian_tasks(60))
    plan_scores(monkeypatch, lambda _: [0.4, 0.5, 0.6])
    kept = learn_prior(evidence, procedure=tiny("default"), options=SMALL)
    plan_scores(monkeypatch, lambda _: [0.4])
    first = learn_prior(evidence, procedure=tiny("default", rounds=0), options=SMALL)
    equal_weights(kept.denoiser, first.denoiser, rtol=0, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scores", "chosen"),
    [([0.5, 0.4, 0.3], 1.0), ([0.41, 0.4, 0.5], 0.0), ([0.5, 0.41, 0.40], 0.1)],
)
def test_the_choice_of_lambda_is_the_smallest_good_one(monkeypatch, scores, chosen):
    """Good: within one standard error, here 0.02 in standardised units, of the best."""
    by_sure = dict(zip((0.0, 0.1, 1.0), scores, strict=True))
    plan_scores(monkeypatch, lambda learning: [by_sure[learning.how.sure]])
    best, told = choose_sure(
        observed(gaussian_tasks(60)), procedure=tiny("paper", rounds=0),
        candidates=(1.0, 0.0, 0.1), options=SMALL,
    )  # fmt: skip
    assert list(told) == [0.0, 0.1, 1.0]
    assert best.metadata["procedure"]["sure"] == chosen


@pytest.mark.slow
def test_a_training_that_blows_up_says_so():
    wild = TrainingConfig(batch_size=16, block=10, learning_rate=1e30)
    with pytest.raises(InvalidInputError, match="learning rate"):
        learn_prior(
            observed(gaussian_tasks(60)), procedure=tiny("default", training=wild), options=SMALL
        )


@pytest.mark.slow
def test_arms_never_observed_and_empty_tasks_are_handled_and_named():
    tasks = gaussian_tasks(65)
    mask = np.random.default_rng(0).random(tasks.shape) < 0.5
    mask[:, 3] = False
    mask[:5] = False

    def learn(tasks, mask):
        return learn_prior(Evidence(tasks, 0.1, mask), procedure=tiny("default"), options=SMALL)

    prior = learn(tasks, mask)
    told = prior.metadata["learning"]
    assert told["arms_never_observed"] == [3]
    assert 3 in told["arms_seldom_calibrated"]
    assert sum(prior.metadata["data"][key] for key in ("tasks", "calibration")) == mask.any(1).sum()
    # What was not observed is not read, and tasks without any observation change nothing.
    other = learn(np.where(mask, tasks, 1e6)[5:], mask[5:])
    equal_weights(prior, other, rtol=0, atol=0)
    # The arm that nobody saw is not known for sure: of 10 calibration tasks no arm is seen often
    # enough for an error of its own, and all six share one.
    assert told["arms_seldom_calibrated"] == list(range(6))
    assert float(prior.tau.min()) > 0.01  # the floor is 0.001
    np.testing.assert_allclose(prior.tau, np.tile(prior.tau[:, :1], 6), rtol=1e-6)


@pytest.mark.slow
def test_without_noise_the_divergence_term_is_gone():
    """λ > 0 with noise 0 is no error: Stein's correction for no noise is 0."""
    evidence = observed(gaussian_tasks(60), noise=0.0)
    with_term, without = (
        learn_prior(evidence, procedure=tiny("paper", sure=sure), options=SMALL)
        for sure in (0.3, 0.0)
    )
    equal_weights(with_term.denoiser, without.denoiser, rtol=0, atol=0)


@pytest.mark.slow
def test_without_held_out_scores_the_papers_prior_is_the_same():
    evidence = observed(gaussian_tasks(60))
    scored, unscored = (
        learn_prior(evidence, procedure=tiny("paper", unscored=unscored), options=SMALL)
        for unscored in (False, True)
    )
    equal_weights(scored, unscored, rtol=0, atol=0)  # τ, too
    first, second = (prior.metadata for prior in (scored, unscored))
    assert first["procedure"] == second["procedure"]
    assert first["learning"]["held_out_crps"] > 0
    assert second["learning"]["held_out_crps"] is None
    assert second["learning"]["scores"] == []
    blind = Procedure.named("paper", unscored=True)
    with pytest.raises(InvalidInputError, match="unscored: patience looks at held-out scores"):
        dataclasses.replace(blind, patience=1)
    with pytest.raises(InvalidInputError, match="takes no held-out scores to choose by"):
        choose_sure(evidence, procedure=blind)


def test_procedures_are_had_by_name_with_changes():
    assert Procedure.named("paper", rounds=1).rounds == 1
    with pytest.raises(InvalidInputError, match="procedure: unknown 'paprika'"):
        Procedure.named("paprika")
    with pytest.raises(InvalidInputError, match=r"procedure default: .*impute_with"):
        Procedure.named("default", impute_with=1.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tasks": gaussian_tasks(60)}, "procedure: for evidence"),
        ({"calibration": gaussian_tasks(20)}, "calibration: must be of the same kind"),
        ({"config": TrainingConfig()}, "config: for exact means"),
        ({"tasks": Evidence.none(6)}, "shape"),
        ({"tasks": Evidence.none(6, (10,))}, "no task has any observation"),
        ({"tasks": Evidence(np.ones((10, 6)), 0.1)}, "all observations are equal"),
        ({"tasks": observed(gaussian_tasks(4))}, "at least 6"),
        ({"calibration": Evidence(np.zeros((9, 5)), 0.1)}, "calibration: has 5 arms"),
        ({"procedure": "paprika"}, "procedure: unknown"),
    ],
)
def test_bad_data_are_refused(arguments, message):
    given = {"tasks": observed(gaussian_tasks(60)), "procedure": tiny("default"), **arguments}
    with pytest.raises(InvalidInputError, match=message):
        learn_prior(given.pop("tasks"), given.pop("calibration", None), **given)


def test_a_mask_that_contradicts_nan_is_refused():
    with pytest.raises(InvalidInputError, match="mask is True"):
        Evidence([[1.0, np.nan]], 0.1, [[True, True]])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rounds": -1}, "rounds"),
        ({"sure": -0.1}, "sure"),
        ({"sure": (0.1, 0.2)}, "sure: 2 values"),
        ({"sure": float("nan")}, "sure"),
        ({"anchor": 2.0}, "anchor"),
        ({"sampler": "gibbs"}, "sampler"),
        ({"draws": 0}, "draws"),
    ],
)
def test_bad_procedures_are_refused(changes, message):
    with pytest.raises(InvalidInputError, match=message):
        dataclasses.replace(OurProcedure(), **changes)


@pytest.mark.parametrize("settings", [(1.0, 0.1), (-0.1, 0.1), (0.5, -1.0), (0.5, np.nan)])
def test_bad_corruption_is_refused(settings):
    with pytest.raises(InvalidInputError):
        Corruption(*settings)


def test_corruption_has_the_rates_it_says():
    sets = PopularNiche().split(train=400, calibration=50, test=1, seed=0)
    known = corrupt(sets, Corruption(0.3, 0.2), seed=0)
    mask = np.asarray(known.train.mask)
    n = mask.size
    assert abs(mask.mean() - 0.7) < 4.5 * np.sqrt(0.21 / n)
    errors = (np.asarray(known.train.mean) - sets.train)[mask]
    assert abs(errors.std() - 0.2) < 4.5 * 0.2 / np.sqrt(2 * len(errors))
    assert float(known.train.std[mask].min()) == pytest.approx(0.2)
