"""Memory: measured as the peak of a process of its own, so that nothing else counts.

The peak is the kernel's VmHWM, which starts anew with the program. (``ru_maxrss`` does not: a child
inherits the size that its parent had when it was forked.)
"""

import subprocess
import sys

import pytest

SCRIPT = """
import re
import numpy as np
from diffts import DiffusionPrior, Evidence
from diffts.diffusion import build_denoiser

denoiser = build_denoiser("{network}", 500)
prior = DiffusionPrior(denoiser, np.full((100, 500), 0.3))
evidence = Evidence(np.zeros(500), 0.1, np.arange(500) < 50)
draws = prior.posterior_sample(evidence, n=5000, sampler="{sampler}", steps={steps})
assert draws.shape == (5000, 500)
status = open("/proc/self/status").read()
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1]) / 1e6)
"""


IMAGES = """
import dataclasses, re
import numpy as np
from diffts import Evidence, learn_prior
from diffts.diffusion import Schedule
from diffts.learning import PROCEDURES

rng = np.random.default_rng(0)
shapes = rng.random((10, 784), dtype=np.float32)
tasks = shapes[rng.integers(10, size={n})] + 0.1 * rng.standard_normal(({n}, 784), np.float32)
evidence = Evidence(tasks, 0.1, rng.random(tasks.shape, np.float32) < 0.5)
train = Evidence(evidence.mean[{other}:], 0.1, evidence.mask[{other}:])
other = Evidence(evidence.mean[:{other}], 0.1, evidence.mask[:{other}])
del tasks, evidence
procedure = dataclasses.replace(
    PROCEDURES["images"], warmup_steps=20, rounds=1, inner_steps={steps}, score_every={steps}
)
learn_prior(
    train, other, procedure=procedure, options={{"width": 16, "n_blocks": 1}},
    schedule=Schedule.linear(4),
)
status = open("/proc/self/status").read()
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1]) / 1e6)
"""


def peak_gigabytes(script):
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return float(result.stdout)


def peak_of_learning(tasks):
    """MNIST's shape, the paper's chains; enough inner steps to look at all L × tasks latents."""
    return peak_gigabytes(IMAGES.format(n=tasks, other=tasks // 60, steps=tasks // 20))


@pytest.mark.slow
def test_learning_from_a_twentieth_of_the_images_needs_a_twentieth():
    """Of the 8 gigabytes of the test below, 0.9 are the program; the rest grows with the tasks."""
    assert peak_of_learning(3_000) < 0.9 + 7.1 / 20


@pytest.mark.long(reason="60,000 images of 784 pixels: two minutes")
def test_learning_from_imperfect_images_stays_under_8_gigabytes():
    assert peak_of_learning(60_000) < 8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "sampler"),
    [("residual-conv", "paper"), ("residual-mlp", "moment")],
)
def test_5000_draws_of_500_arms_stay_under_1500_megabytes(network, sampler):
    """The memory is that of one step: a chain of 2 needs what one of 100 needs."""
    script = SCRIPT.format(network=network, sampler=sampler, steps=2)
    assert peak_gigabytes(script) < 1.5


@pytest.mark.long(reason="100 steps of 5000 chains: a minute")
def test_a_chain_of_100_steps_needs_what_one_of_2_needs():
    peaks = [
        peak_gigabytes(SCRIPT.format(network="residual-mlp", sampler="paper", steps=steps))
        for steps in (2, 100)
    ]
    assert peaks[1] < 1.1 * peaks[0]
