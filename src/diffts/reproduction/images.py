"""MNIST and Fashion-MNIST: priors of images from half-missing, noisy ones.

Three models at most: one of clean images, one of corrupted ones, and, for MNIST, the second with
one more repeat at λ = 1.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffts.diffusion.prior import DiffusionPrior
from diffts.figures.images import draw_image_table
from diffts.learning import PROCEDURES, Lesson, learn_priors
from diffts.problems import Corruption
from diffts.problems.images import Images, read_images, stand_in_digits
from diffts.reproduction.digests import KNOWN, digest, fingerprint, sampler_versions
from diffts.reproduction.image_scores import diversity, frechet_distance, masked_rmse
from diffts.reproduction.pictures import Piece
from diffts.reproduction.problem_data import SEED
from diffts.reproduction.specs import IMPERFECT
from diffts.reproduction.store import Arrays, Made, Part, Told
from diffts.reproduction.work import Reproduction

SHOWN = 40
DRAWN = 16  # of those, in the picture
#: The columns of the picture.
REBUILT, GENERATED = "test images and their reconstructions", "generated images"
#: λ of each data set, and whether a last repeat with λ = 1 makes a third model.
SETS = {"mnist": (0.2, True), "fashion_mnist": (0.1, False)}
TITLES = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST"}
MODELS = {
    "clean": "trained on clean images",
    "corrupted": "trained on corrupted images",
    "corrupted-more": "the same, with one more repeat at λ = 1",
}


class ImageSet:
    """A set of images, its models, and their draws and scores.

    Where its images are not at hand, those of the published results are meant: to draw results
    again needs no images. A tiny profile has small digits in their place.
    """

    def __init__(self, work: Reproduction, name: str) -> None:
        self.work, self.name = work, name
        profile, folder = work.profile, None if work.data_dir is None else work.data_dir / name
        self.folder = folder if folder is not None and folder.is_dir() else None
        self.is_stand_in = self.folder is None and profile.tiny
        self.is_at_hand = self.is_stand_in or self.folder is not None
        seen = _fingerprint_of(self.folder) if self.is_at_hand else KNOWN[name]
        self.data = [profile.images, seen]
        sure, self.third = SETS[name]
        base, last = PROCEDURES["images"], self.third
        self.config = replace(base.training, steps=profile.steps(10_000))
        procedure = replace(
            base,
            sure=(sure,) * 4 + (1.0,) * last,
            rounds=3 + last,
            inner_steps=(base.phases()[1].steps,) * 3 + (2000,) * last,
            # Of 59,000 images a repeat draws as many as its steps can read.
            tasks_per_round=None if profile.tiny else 12_000,
            score_every=14_000,
        )
        self.procedure = profile.fitted(procedure)
        side = 8 if self.is_stand_in else 28
        small = {"channels": (4,), "folds": 1, "embedding_size": 8}
        large = {"channels": (64, 128), "folds": 1, "compute": "bfloat16"}
        options = {"height": side, "width": side} | (small if profile.tiny else large)
        self.network: Any = {"network": "unet-2d", "options": options, "predicts": "clean"}

    def pieces(self) -> list[Piece]:
        """Draws and reconstructions of all models; none without images and without draws."""
        made_from = digest(
            self.network,
            self.config,
            self.procedure.settings(),
            *self.data,
            Corruption.version,
            # The paper's rebuilds images from what is seen of them.
            sampler_versions({"paper", *self.procedure.samplers}),
        )
        part = Part(f"images/{self._name()}", made_from)
        notes = [part.key, *(model.key for model in self._models())]
        piece = Piece("", part, self._draw, notes, needs_data=not self.is_stand_in)
        return [piece] if self.is_at_hand or piece.finished(self.work) else []

    def _name(self, *models: str) -> str:
        return "-".join([self.name, *(["stand-in"] if self.is_stand_in else []), *models])

    def _models(self) -> list[Part]:
        """Of clean images; of corrupted ones: the third is learned on from the second."""
        samplers = sampler_versions(self.procedure.samplers)
        how = (self.procedure.settings(), *self.data, Corruption.version, samplers)
        corrupted = tuple(MODELS)[1 : 2 + self.third]
        return [
            Part(
                f"images/times/{self._name(*models)}",
                digest(self.network, *made_from),
                tuple(f"images/priors/{self._name(model)}" for model in models),
            )
            for models, made_from in ((("clean",), (self.config, *self.data)), (corrupted, how))
        ]

    def _learn(self, lesson: Lesson) -> list[Made]:
        # The second model is what there is before a last repeat makes the third of it.
        second = self.procedure.phases()[-2].name if self.third else None
        before: list[DiffusionPrior] = []

        def keep(_: int, phase: str, prior: DiffusionPrior) -> None:
            if phase == second:
                before.append(prior)

        tell = functools.partial(self.work.tell, self.name)
        learned = learn_priors([lesson], on_progress=tell, on_phase=keep, **self.network)
        return [Made({}, {}, before + learned)]

    def _draw(self) -> Made:
        """Originals, draws and reconstructions ``(SHOWN, P)``, and their scores."""
        images, profile, store = _read(self.folder), self.work.profile, self.work.store
        pixels = images.pixels[np.random.default_rng(SEED).permutation(len(images.pixels))]
        calibration = min(profile.images[1], len(pixels) // 5)
        count = min(profile.images[0], len(pixels) - calibration)
        train, other = pixels[:count], pixels[count : count + calibration]
        known, seen = IMPERFECT.observe(train, SEED + 1), IMPERFECT.observe(other, SEED + 2)
        lessons = (
            Lesson(train, other, config=self.config, seed=SEED),
            Lesson(known, seen, procedure=self.procedure, seed=SEED),
        )
        priors = []
        for part, lesson in zip(self._models(), lessons, strict=True):
            store.ensure([part], functools.partial(self._learn, lesson))
            priors += [store.prior(place) for place in part.apart]
        mask, drawn = np.asarray(seen.mask), min(profile.drawn_images, len(other))
        filled = np.where(mask, np.asarray(seen.mean), train.mean(0))
        arrays = {"original": other, "corrupted": np.where(mask, seen.mean, np.nan)}
        # Nothing can be nearer than other images of the same number are to the training images.
        scores = {
            "other images": _quality(train, other[:drawn]),
            "corrupted images": {"hidden-pixel RMSE": masked_rmse(other, filled, mask)}
            | _quality(train, filled[:drawn]),
        }
        for model, prior in zip(MODELS, priors, strict=False):  # there may be no third
            generated = prior.sample(drawn, seed=SEED, steps=profile.chain)
            rebuilt = prior.posterior_sample(seen, steps=profile.chain, seed=SEED)
            rmse = {"hidden-pixel RMSE": masked_rmse(other, rebuilt, mask)}
            scores[model] = rmse | _quality(train, generated)
            arrays |= {f"{model}-generated": generated, f"{model}-reconstructed": rebuilt}
        shape = {"source": images.name, "height": images.height, "width": images.width}
        shown = {key: np.asarray(value[:SHOWN], np.float16) for key, value in arrays.items()}
        return Made(shown, shape | {"scores": scores})


def tell_images(work: Reproduction, pieces: Sequence[Piece], path: Path) -> Told:
    """A picture of all that was drawn, and the scores."""
    arrays, note = work.store.arrays(pieces[0].part.key), work.store.note(pieces[0].part.key)
    source, size = note["source"], (note["height"], note["width"])
    draw_image_table(
        _table(arrays), path.with_suffix(".png"), *size, title=TITLES.get(source, source)
    )
    rows = [
        {"source": source, "images": which, "score": score, "value": round(value, 5)}
        for which, scores in note["scores"].items()
        for score, value in scores.items()
    ]
    return rows, {"source": source, "scores": note["scores"]}


def _table(arrays: Arrays) -> dict[str, Arrays]:
    """A row for the originals, one for what is seen of them, and one for each model there is."""
    seen = [name for name in ("original", "corrupted") if name in arrays]
    rows: dict[str, Arrays] = {name: {REBUILT: arrays[name]} for name in seen}
    for model, title in MODELS.items():
        kinds = {REBUILT: f"{model}-reconstructed", GENERATED: f"{model}-generated"}
        if row := {kind: arrays[key] for kind, key in kinds.items() if key in arrays}:
            rows[title] = row
    return {name: {kind: of[:DRAWN] for kind, of in row.items()} for name, row in rows.items()}


def _read(folder: Path | None) -> Images:
    return stand_in_digits() if folder is None else read_images(folder)


@functools.cache
def _fingerprint_of(folder: Path | None) -> str:
    return fingerprint(_read(folder).pixels)


def _quality(train: NDArray[Any], images: NDArray[Any]) -> dict[str, float]:
    """Fréchet distance to training images, and diversity beside theirs."""
    some = train[: min(len(train), 10_000)]
    components = min(32, len(some), some.shape[1], len(images) - 1)
    distance = frechet_distance(some, images, components)
    return {"Fréchet distance": distance, "diversity": diversity(some, images)}
