"""MNIST and Fashion-MNIST: priors of images from half-missing, noisy ones.

Three models at most: one of clean images, one of corrupted ones, and, for MNIST, the second with
one more repeat at λ = 1.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffts.diffusion.prior import DiffusionPrior
from diffts.experiments.image_scores import diversity, frechet_distance, masked_rmse
from diffts.experiments.reproduce.fingerprints import KNOWN, digest, fingerprint
from diffts.experiments.reproduce.profile import Profile
from diffts.experiments.reproduce.recipes import sampler_versions, samplers_of
from diffts.experiments.reproduce.runs import DATA
from diffts.experiments.reproduce.store import Arrays
from diffts.experiments.reproduce.workshop import SEED, Workshop
from diffts.learning import (
    PROCEDURES,
    Lesson,
    Procedure,
    TrainingConfig,
    learn_priors,
    learn_priors_imperfect,
)
from diffts.problems import Corruption
from diffts.problems.images import Images, read_images, stand_in_digits

SHOWN = 40
#: λ of each data set, and whether a last repeat with λ = 1 makes a third model.
SETS = {"mnist": (0.2, True), "fashion_mnist": (0.1, False)}
TITLES = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST"}
MODELS = {
    "clean": "trained on clean images",
    "corrupted": "trained on corrupted images",
    "corrupted-more": "one more repeat, at λ=1",
}


def source_of(shop: Workshop, name: str) -> str | None:
    """Where a set's images come from: the user's folder, or small digits in a tiny profile.

    None where neither serves; the experiment is then left out, unless it is finished already.
    """
    if shop.data_dir is not None and (shop.data_dir / name).is_dir():
        return name
    return "stand-in digits" if shop.profile.tiny else None


def key_of(shop: Workshop, name: str) -> str:
    """The place of a set's results in the store; stand-ins have one of their own."""
    return (
        f"images/{name}-stand-in"
        if source_of(shop, name) == "stand-in digits"
        else f"images/{name}"
    )


def times_of(shop: Workshop, name: str) -> list[str]:
    """Where the store has how long the models and the pictures of a set took."""
    key = key_of(shop, name)
    return [key, _time_key(key, ("clean",)), _time_key(key, _from_corrupted(name))]


def _time_key(key: str, models: tuple[str, ...]) -> str:
    return f"images/times/{key.removeprefix('images/')}-{'-'.join(models)}"


def _from_corrupted(name: str) -> tuple[str, ...]:
    """The models that are learned from corrupted images of a set."""
    return tuple(MODELS)[1:] if SETS[name][1] else ("corrupted",)


def is_possible(shop: Workshop, name: str) -> bool:
    """Whether there are images, or results of them."""
    return source_of(shop, name) is not None or is_finished(shop, name)


def is_finished(shop: Workshop, name: str) -> bool:
    """Whether there are results, of today's recipe."""
    return shop.has(key_of(shop, name), _recipe_of(shop, name))


def _recipe_of(shop: Workshop, name: str) -> str:
    """For 28 by 28 pixels, whatever the images are: to draw results again needs no images."""
    side = 8 if source_of(shop, name) == "stand-in digits" else 28
    procedure = procedure_for(name, shop.profile)
    return digest(
        [
            network_for(side, side, shop.profile),
            _training(shop.profile),
            procedure,
            shop.profile.images,
            _fingerprint(shop, name),
            Corruption.version,
            # The paper's rebuilds images from what is seen of them.
            sampler_versions({"paper", *samplers_of(procedure)}),
        ]
    )


def _fingerprint(shop: Workshop, name: str) -> str:
    """Of the images; where they are not at hand, of those of the published results."""
    source = source_of(shop, name)
    if source is None:
        return KNOWN[name]
    is_real = source == name and shop.data_dir is not None
    return _fingerprint_of(shop.data_dir / name if is_real else None)  # type: ignore[operator]


@functools.cache
def _fingerprint_of(folder: Path | None) -> str:
    """Of the images of a folder; of the stand-ins without one."""
    return fingerprint((stand_in_digits() if folder is None else read_images(folder)).pixels)


def _images(shop: Workshop, name: str) -> Images:
    if source_of(shop, name) == name and shop.data_dir is not None:
        return read_images(shop.data_dir / name)
    return stand_in_digits()


def procedure_for(name: str, profile: Profile) -> Procedure:
    """The paper's for images; of 59,000 images a repeat draws as many as its steps can read."""
    sure, third = SETS[name]
    base = PROCEDURES["images"]
    steps = int(base.inner_steps)  # type: ignore[arg-type]
    procedure = dataclasses.replace(
        base,
        sure=(sure,) * 4 + ((1.0,) if third else ()),
        rounds=4 if third else 3,
        inner_steps=(steps,) * 3 + ((2000,) if third else ()),
        tasks_per_round=None if profile.tiny else 12_000,
        score_every=14_000,
    )
    return profile.fitted(procedure)


def network_for(height: int, width: int, profile: Profile) -> dict[str, Any]:
    """The U-Net for images of this size."""
    options: dict[str, Any] = {"height": height, "width": width}
    options |= (
        {"channels": (4,), "folds": 1, "embedding_size": 8}
        if profile.tiny
        else {"channels": (64, 128), "folds": 1, "compute": "bfloat16"}
    )
    return {"network": "unet-2d", "predicts": "clean", "options": options}


def _training(profile: Profile) -> TrainingConfig:
    """Of the model of clean images."""
    steps = max(1, round(10_000 * profile.length))
    return dataclasses.replace(PROCEDURES["images"].training, steps=steps)


def image_experiment(shop: Workshop, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Learn the models of a set; originals, draws and reconstructions, and their scores.

    Returns:
        Panels of images ``(SHOWN, P)`` by their titles, and a note with sizes and scores.
    """

    def make() -> tuple[Arrays, dict[str, Any]]:
        images = _images(shop, name)
        rng = np.random.default_rng(SEED)
        pixels = images.pixels[rng.permutation(len(images.pixels))]
        wanted, calibration = shop.profile.images
        calibration = min(calibration, len(pixels) // 5)
        count = min(wanted, len(pixels) - calibration)
        train, other = pixels[:count], pixels[count : count + calibration]
        corruption = DATA["imperfect"]
        assert corruption is not None
        seen = corruption.observe(train, SEED + 1), corruption.observe(other, SEED + 2)
        models = _learn(shop, name, images, train, other, seen)
        learned = time.perf_counter()
        arrays: Arrays = {
            "original": other[:SHOWN],
            "corrupted": np.where(seen[1].mask, seen[1].mean, np.nan)[:SHOWN],
        }
        drawn = min(shop.profile.drawn_images, len(other))
        chain = shop.profile.chain
        mask = np.asarray(seen[1].mask)
        filled = np.where(mask, np.asarray(seen[1].mean), train.mean(0))
        # Nothing can be nearer than other images of the same number are to the training images.
        scores = {
            "other images": _quality(train, other[:drawn]),
            "corrupted images": {"hidden-pixel RMSE": masked_rmse(other, filled, mask)}
            | _quality(train, filled[:drawn]),
        }
        for model, prior in models.items():
            generated = prior.sample(drawn, seed=SEED, steps=chain)
            rebuilt = prior.posterior_sample(seen[1], steps=chain, seed=SEED)
            scores[model] = {"hidden-pixel RMSE": masked_rmse(other, rebuilt, mask)} | _quality(
                train, generated
            )
            arrays[f"{model}-generated"] = generated[:SHOWN]
            arrays[f"{model}-reconstructed"] = rebuilt[:SHOWN]
        shape = {"source": images.name, "height": images.height, "width": images.width}
        kept = {key: np.asarray(value, np.float16) for key, value in arrays.items()}
        return kept, shape | {"scores": scores, "seconds": time.perf_counter() - learned}

    return shop.cached(key_of(shop, name), _recipe_of(shop, name), make)


def _quality(train: NDArray[Any], images: NDArray[Any]) -> dict[str, float]:
    """Fréchet distance to training images, and diversity beside theirs."""
    some = train[: min(len(train), 10_000)]
    components = min(32, len(some), some.shape[1], len(images) - 1)
    return {
        "Fréchet distance": frechet_distance(some, images, components),
        "diversity": diversity(some, images),
    }


def _learn(
    shop: Workshop,
    name: str,
    images: Images,
    train: NDArray[Any],
    other: NDArray[Any],
    seen: tuple[Any, Any],
) -> dict[str, DiffusionPrior]:
    """The models of a set."""
    profile = shop.profile
    network = network_for(images.height, images.width, profile)
    config, procedure = _training(profile), procedure_for(name, profile)
    third = SETS[name][1]

    def from_clean() -> list[DiffusionPrior]:
        steps = config.steps
        return learn_priors(
            train,
            other,
            seeds=[SEED],
            config=config,
            on_block=lambda done: shop.report(f"{name}: clean images, {done}/{steps} steps"),
            **network,
        )

    def from_corrupted() -> list[DiffusionPrior]:
        # The second model is what there is before a last repeat makes the third of it.
        second = procedure.phases()[-2 if third else -1].name
        before: list[DiffusionPrior] = []

        def keep(lesson: int, phase: str, prior: DiffusionPrior) -> None:
            del lesson
            if third and phase == second:
                before.append(prior)

        return before + learn_priors_imperfect(
            [Lesson(*seen, procedure, SEED)],
            on_progress=lambda now: shop.report(f"{name}: {now.phase} {now.done}/{now.steps}"),
            on_phase=keep,
            **network,
        )

    key, data = key_of(shop, name), [profile.images, _fingerprint(shop, name)]
    samplers = sampler_versions(samplers_of(procedure))
    corrupted = digest([network, procedure, *data, Corruption.version, samplers])
    return _kept(shop, key, ("clean",), digest([network, config, *data]), from_clean) | _kept(
        shop, key, _from_corrupted(name), corrupted, from_corrupted
    )


def _kept(
    shop: Workshop,
    key: str,
    models: tuple[str, ...],
    recipe: str,
    learn: Callable[[], list[DiffusionPrior]],
) -> dict[str, DiffusionPrior]:
    """Models from the store, learned if they are missing: a killed run keeps them."""
    store, time_key = shop.store, _time_key(key, models)
    places = {model: f"images/priors/{key.removeprefix('images/')}-{model}" for model in models}
    are_there = all(store.has_prior(place) for place in places.values())
    if not (are_there and shop.has(time_key, recipe)):
        shop.report(f"{key}: learning {', '.join(models)}")
        started = time.perf_counter()
        for place, prior in zip(places.values(), learn(), strict=True):
            store.save_prior(place, prior)
        store.save(time_key, {}, {"seconds": time.perf_counter() - started, "recipe": recipe})
    return {model: store.load_prior(place) for model, place in places.items()}
