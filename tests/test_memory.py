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
from diffts import DiffusionPrior, Evidence, build_denoiser

denoiser = build_denoiser("{network}", 500)
prior = DiffusionPrior(denoiser, np.full((100, 500), 0.3))
evidence = Evidence(np.zeros(500), 0.1, np.arange(500) < 50)
draws = prior.posterior_sample(evidence, n=5000, sampler="{sampler}", steps={steps})
assert draws.shape == (5000, 500)
status = open("/proc/self/status").read()
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1]) / 1e6)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "sampler"),
    [("residual-conv", "paper"), ("residual-mlp", "paper"), ("residual-mlp", "moment")],
)
def test_5000_draws_of_500_arms_stay_under_1500_megabytes(network, sampler):
    """The memory is that of one step: a chain of 20 needs what one of 100 needs."""
    steps = 100 if sampler == "paper" and network == "residual-mlp" else 20
    script = SCRIPT.format(network=network, sampler=sampler, steps=steps)
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert float(result.stdout) < 1.5, f"peak of {float(result.stdout):.2f} GB"
