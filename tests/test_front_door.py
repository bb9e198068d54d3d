"""The package's front door: a dozen names, nothing loaded before it is used, optional packages."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import diffts
import diffts.diffusion
from diffts.errors import DifftsError, MissingPackageError
from diffts.extras import optional, require

OPTIONAL = ("matplotlib", "rich", "sklearn", "typer")


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("package", [diffts, diffts.diffusion], ids=lambda p: p.__name__)
def test_every_public_name_is_there(package):
    for name in package.__all__:
        assert getattr(package, name) is not None
        assert name in dir(package)


def test_type_checkers_see_the_same_names():
    """What is imported for them is what Python itself finds, in the same place."""
    tree = ast.parse(Path(diffts.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {name.name: line.module for line in block.body for name in line.names}
    assert seen == {name: f"diffts.{module}" for name, module in diffts._MODULE_OF.items()}


def test_the_front_door_is_small():
    assert len(diffts.__all__) <= 14


def test_names_that_moved_say_where_to():
    assert diffts.storage.CONFIG == "config.json"
    for name, place in diffts._MOVED.items():
        module, _, attribute = place.split(",")[0].rpartition(".")
        found = getattr(sys.modules[module], attribute)
        if attribute == name:
            with pytest.warns(DeprecationWarning, match=rf"diffts\.{name} is now diffts\."):
                assert getattr(diffts, name) is found
        else:
            with pytest.raises(AttributeError, match=rf"diffts\.{name} is now diffts\."):
                getattr(diffts, name)
    with pytest.raises(AttributeError, match="no attribute 'oracle'"):
        _ = diffts.oracle
    with pytest.raises(ImportError):
        from diffts import oracle  # noqa: F401


LIGHT = """
import sys
import diffts, diffts.cli
print(sorted({"jax", "numpy"} & set(sys.modules)))
for name in diffts.__all__:
    getattr(diffts, name)
print(sorted({"matplotlib", "sklearn", "typer", "rich"} & set(sys.modules)))
"""


@pytest.mark.slow
def test_nothing_is_loaded_before_it_is_used():
    """Not even by all public names: none of the optional packages."""
    assert run(LIGHT) == "[]\n[]\n"


WITHOUT = f"""
import sys
for name in {OPTIONAL}:
    sys.modules[name] = None  # what cannot be imported
import numpy as np
import diffts
from diffts.experiments.compare import Comparison
from diffts.problems import get_problem
prior = diffts.DiffusionPrior.gaussian([0.5, 0.5], [[0.04, 0.03], [0.03, 0.04]])
evidence = diffts.Evidence([0.9, np.nan], std=0.1)
assert prior.posterior_sample(evidence, n=3, steps=4, sampler="moment").shape == (3, 2)
agent = diffts.ThompsonSampling(prior, noise_std=0.1, steps=4)
agent.update(agent.choose(), 0.5)
problem = get_problem("groups")
tasks = problem.split(20, 4, 2, seed=0)
config = diffts.TrainingConfig(steps=3)
learned = diffts.learn_prior(*tasks[:2], options={{"width": 8}}, config=config)
comparison = Comparison(problem, tasks.train, tasks.test, horizon=3)
run = diffts.simulate(comparison.policy("gts-full"), tasks.test, problem.rewards, horizon=3)
print(learned.n_arms, run.regret.shape)

from diffts.figures import draw_prior
for attempt in (
    lambda: draw_prior(prior, "prior.png"),
    lambda: comparison.mixture(2),
):
    try:
        attempt()
    except diffts.DifftsError as error:
        print(error)
sys.argv = ["diffts", "--version"]
from diffts.cli import main
try:
    main()
except SystemExit as stop:
    print(stop.code)
"""


@pytest.mark.slow
def test_the_library_works_without_the_optional_packages():
    assert run(WITHOUT).splitlines() == [
        "200 (3, 2)",
        "drawing needs matplotlib: pip install 'diffts[figures]'",
        "fitting a mixture needs scikit-learn: pip install 'diffts[mixtures]'",
        "error: the command line needs typer: pip install 'diffts[cli]'",
    ]


@pytest.mark.parametrize("package", OPTIONAL)
def test_a_missing_package_is_named_before_the_work(monkeypatch, package):
    require(package, "this")
    assert optional(package, "this").__name__ == package
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackageError, match=r"this needs \S+: pip install 'diffts\[\w+\]'"):
        require(package, "this")
    with pytest.raises(DifftsError):
        optional(f"{package}.part", "this")
