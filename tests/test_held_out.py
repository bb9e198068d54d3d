"""The held-out score."""

import numpy as np
import pytest

from diffts import DiffusionPrior, Evidence, InvalidInputError
from diffts.learning.held_out import HeldOut, hide, score
from gaussian_world import COVARIANCE, MEAN, gaussian_tasks, observed


def test_the_score_is_the_crps_of_the_draws():
    prior = DiffusionPrior.gaussian(MEAN, COVARIANCE)
    held_out = hide(observed(gaussian_tasks(40)), seed=0)
    assert not (np.asarray(held_out.shown.mask) & held_out.hidden).any()
    got = score(prior, held_out, draws=5, seed=3)

    class Fixed:
        schedule = prior.schedule

        def posterior_sample(self, evidence, **settings):
            self.draws = prior.posterior_sample(evidence, **settings)
            return self.draws

    fixed = Fixed()
    again = score(fixed, held_out, draws=5, seed=3)
    assert again == got
    y = np.asarray(held_out.evidence.mean)[held_out.hidden]
    exact = Evidence(held_out.evidence.mean, 0.0, held_out.evidence.mask)
    noiseless = score(fixed, HeldOut(exact, held_out.hidden), draws=5, seed=3)
    x = fixed.draws[:, held_out.hidden].astype(float)
    pairs = [np.abs(x[i] - x[j]).mean() for i in range(5) for j in range(5) if i != j]
    expected = np.abs(x - y).mean() - 0.5 * np.mean(pairs)
    assert noiseless.crps == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
def test_the_true_prior_has_the_best_score():
    held_out = hide(observed(gaussian_tasks(600), noise=0.2), seed=0)
    shrunk, wide, no_correlation = 0.5 * COVARIANCE, 2 * COVARIANCE, np.diag(np.diag(COVARIANCE))
    scores = {
        name: score(DiffusionPrior.gaussian(mean, c), held_out, sampler="moment", draws=16).crps
        for name, mean, c in (("true", MEAN, COVARIANCE), ("shrunk", MEAN, shrunk),
                              ("shifted", MEAN + 1, COVARIANCE), ("wide", MEAN, wide),
                              ("diagonal", MEAN, no_correlation))
    }  # fmt: skip
    assert min(scores, key=scores.get) == "true"


def test_too_little_to_hide_is_refused():
    with pytest.raises(InvalidInputError, match="too few"):
        hide(Evidence([[1.0, np.nan]], 0.1), share=1e-9)
