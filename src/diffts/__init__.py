"""Thompson sampling with a learned diffusion prior.

>>> import diffts
>>> prior = diffts.DiffusionPrior.gaussian(mean=[0.5, 0.5], covariance=[[0.04, 0.03], [0.03, 0.04]])
>>> evidence = diffts.Evidence.from_history([0, 0], [0.9, 0.8], n_arms=2, noise_std=0.1)
>>> draws = prior.posterior_sample(evidence, n=1000, sampler="moment", seed=0)
>>> draws.shape
(1000, 2)

What people extend is a floor below: samplers and networks in :mod:`diffts.diffusion`, policies in
:mod:`diffts.bandits`, procedures in :mod:`diffts.learning`, problems in :mod:`diffts.problems`.
"""

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from diffts._version import __version__ as __version__

if TYPE_CHECKING:
    from diffts.bandits.agent import Agent as Agent
    from diffts.bandits.agent import ThompsonSampling as ThompsonSampling
    from diffts.bandits.simulate import simulate as simulate
    from diffts.diffusion.prior import DiffusionPrior as DiffusionPrior
    from diffts.errors import ArtifactError as ArtifactError
    from diffts.errors import DifftsError as DifftsError
    from diffts.errors import InvalidInputError as InvalidInputError
    from diffts.evidence import Evidence as Evidence
    from diffts.fitting import fit as fit
    from diffts.learning import Procedure as Procedure
    from diffts.learning import TrainingConfig as TrainingConfig
    from diffts.learning import learn_prior as learn_prior
    from diffts.priors import builtin_prior as builtin_prior

#: The same for Python itself, by module. Imported when first used: a program that needs one part
#: does not wait for all, and the command line can take a Ctrl-C before JAX is loaded.
_NAMES = {
    "bandits.agent": "Agent ThompsonSampling",
    "bandits.simulate": "simulate",
    "diffusion.prior": "DiffusionPrior",
    "errors": "ArtifactError DifftsError InvalidInputError",
    "evidence": "Evidence",
    "fitting": "fit",
    "learning": "Procedure TrainingConfig learn_prior",
    "priors": "builtin_prior",
}
_DIFFUSION = (
    "NETWORKS SAMPLERS Denoiser Gaussian GaussianMixture MomentSampler PaperSampler "
    "PosteriorSampler Schedule build_denoiser"
)
_MOVED = {
    **{name: f"diffts.diffusion.{name}" for name in _DIFFUSION.split()},
    **{name: f"diffts.learning.{name}"
       for name in ("PROCEDURES", "calibrate", "calibrate_imperfect", "choose_sure")},
    "learn_prior_imperfect": "diffts.learn_prior, which takes Evidence, too",
    "train_clean": "diffts.learn_prior",
}  # fmt: skip

_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = ["__version__", *_MODULE_OF]

if not TYPE_CHECKING:  # there a name that is not among the imports above is a mistake

    def __getattr__(name: str) -> Any:
        if name in _MODULE_OF:
            globals()[name] = getattr(import_module(f"diffts.{_MODULE_OF[name]}"), name)
            return globals()[name]
        if name in _MOVED:
            where = f"diffts.{name} is now {_MOVED[name]}"
            module, _, same = _MOVED[name].rpartition(".")
            if same != name:
                raise AttributeError(where)
            warnings.warn(where, DeprecationWarning, stacklevel=2)
            return getattr(import_module(module), name)
        if not name.startswith("_"):
            try:
                return import_module(f"diffts.{name}")
            except ModuleNotFoundError as error:
                if error.name != f"diffts.{name}":
                    raise
        raise AttributeError(f"module 'diffts' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *_MODULE_OF})
