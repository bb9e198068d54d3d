"""MNIST and Fashion-MNIST: priors of images from half-missing, noisy ones.

Three models at most: one of clean images, one of corrupted ones, and, for MNIST, the second with
one more repeat at λ = 1.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffts.diffusion.prior import DiffusionPrior
from diffts.evidence import Evidence
from diffts.figures.images import draw_images
from diffts.learning import PROCEDURES, Lesson, Procedure, TrainingConfig, learn_priors
from diffts.problems import Corruption
from diffts.problems.images import Images, read_images, stand_in_digits
from diffts.reproduction.digests import KNOWN, digest, fingerprint, sampler_versions
from diffts.reproduction.image_scores import diversity, frechet_distance, masked_rmse
from diffts.reproduction.pictures import Piece, Told
from diffts.reproduction.profile import Profile
from diffts.reproduction.specs import DATA
from diffts.reproduction.store import Arrays, Made, Part
from diffts.reproduction.work import SEED, Reproduction

SHOWN = 40
#: λ of each data set, and whether a last repeat with λ = 1 makes a third model.
SETS = {"mnist": (0.2, True), "fashion_mnist": (0.1, False)}
TITLES = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST"}
MODELS = {
    "clean": "trained on clean images",
    "corrupted": "trained on corrupted images",
    "corrupted-more": "one more repeat, at λ=1",
}


class ImageSet:
    """A set of images, its models, and their draws and scores."""

    def __init__(self, work: Reproduction, name: str) -> None:
        self.work, self.name = work, name
        self.third = SETS[name][1]
        folder = None if work.data_dir is None else work.data_dir / name
        self.folder = folder if folder is not None and folder.is_dir() else None
        #: Small digits in the place of images that are not at hand, in a tiny profile.
        self.is_stand_in = self.folder is None and work.profile.tiny
        self._key = f"{name}-stand-in" if self.is_stand_in else name

    def pieces(self) -> list[Piece]:
        """Draws and reconstructions of all models; none where there are neither images nor draws.

        The digest is for 28 by 28 pixels, whatever the images are: to draw results again needs no
        images. Where they are not at hand, those of the published results are meant.
        """
        side = 8 if self.is_stand_in else 28
        procedure = _procedure(self.name, self.work.profile)
        made_from = digest(
            _network(side, side, self.work.profile),
            _training(self.work.profile),
            procedure.settings(),
            self.work.profile.images,
            self._fingerprint,
            Corruption.version,
            # The paper's rebuilds images from what is seen of them.
            sampler_versions({"paper", *procedure.samplers}),
        )
        part = Part(f"images/{self._key}", made_from)
        notes = [part.key, self._note_key("clean"), self._note_key(*self._from_corrupted)]
        piece = Piece("", part, self._draw, notes, needs_data=not self.is_stand_in)
        has_images = self.is_stand_in or self.folder is not None
        return [piece] if has_images or piece.finished(self.work) else []

    @property
    def _fingerprint(self) -> str:
        if self.folder is None and not self.is_stand_in:
            return KNOWN[self.name]
        return _fingerprint_of(self.folder)

    @property
    def _from_corrupted(self) -> tuple[str, ...]:
        return ("corrupted", "corrupted-more") if self.third else ("corrupted",)

    def _note_key(self, *models: str) -> str:
        return f"images/times/{self._key}-{'-'.join(models)}"

    def _draw(self) -> Made:
        """Originals, draws and reconstructions ``(SHOWN, P)``, and their scores."""
        images = _read(self.folder)
        profile = self.work.profile
        pixels = images.pixels[np.random.default_rng(SEED).permutation(len(images.pixels))]
        calibration = min(profile.images[1], len(pixels) // 5)
        count = min(profile.images[0], len(pixels) - calibration)
        train, other = pixels[:count], pixels[count : count + calibration]
        corruption = DATA["imperfect"]
        assert corruption is not None
        seen = corruption.observe(train, SEED + 1), corruption.observe(other, SEED + 2)
        mask = np.asarray(seen[1].mask)
        arrays: Arrays = {"original": other, "corrupted": np.where(mask, seen[1].mean, np.nan)}
        drawn = min(profile.drawn_images, len(other))
        filled = np.where(mask, np.asarray(seen[1].mean), train.mean(0))
        # Nothing can be nearer than other images of the same number are to the training images.
        scores = {
            "other images": _quality(train, other[:drawn]),
            "corrupted images": {"hidden-pixel RMSE": masked_rmse(other, filled, mask)}
            | _quality(train, filled[:drawn]),
        }
        for model, prior in self._models(images, train, other, seen).items():
            generated = prior.sample(drawn, seed=SEED, steps=profile.chain)
            rebuilt = prior.posterior_sample(seen[1], steps=profile.chain, seed=SEED)
            rmse = {"hidden-pixel RMSE": masked_rmse(other, rebuilt, mask)}
            scores[model] = rmse | _quality(train, generated)
            arrays |= {f"{model}-generated": generated, f"{model}-reconstructed": rebuilt}
        shape = {"source": images.name, "height": images.height, "width": images.width}
        shown = {key: np.asarray(value[:SHOWN], np.float16) for key, value in arrays.items()}
        return Made(shown, shape | {"scores": scores})

    def _models(
        self,
        images: Images,
        train: NDArray[Any],
        other: NDArray[Any],
        seen: tuple[Evidence, Evidence],
    ) -> dict[str, DiffusionPrior]:
        profile = self.work.profile
        network = _network(images.height, images.width, profile)
        config, procedure = _training(profile), _procedure(self.name, profile)
        data = [profile.images, self._fingerprint]
        samplers = sampler_versions(procedure.samplers)
        tell = functools.partial(self.work.tell, self.name)

        def from_clean() -> list[DiffusionPrior]:
            lesson = Lesson(train, other, config=config, seed=SEED)
            return learn_priors([lesson], on_progress=tell, **network)

        def from_corrupted() -> list[DiffusionPrior]:
            # The second model is what there is before a last repeat makes the third of it.
            second = procedure.phases()[-2].name if self.third else None
            before: list[DiffusionPrior] = []

            def keep(lesson: int, phase: str, prior: DiffusionPrior) -> None:
                del lesson
                if phase == second:
                    before.append(prior)

            lesson = Lesson(*seen, procedure=procedure, seed=SEED)
            return before + learn_priors([lesson], on_progress=tell, on_phase=keep, **network)

        corrupted = digest(network, procedure.settings(), *data, Corruption.version, samplers)
        return self._learned(("clean",), digest(network, config, *data), from_clean) | (
            self._learned(self._from_corrupted, corrupted, from_corrupted)
        )

    def _learned(
        self, models: Sequence[str], made_from: str, learn: Callable[[], list[DiffusionPrior]]
    ) -> dict[str, DiffusionPrior]:
        """Models that are learned together, if they are missing: a killed run keeps them."""
        places = [f"images/priors/{self._key}-{model}" for model in models]
        part = Part(self._note_key(*models), made_from, tuple(places))
        self.work.store.ensure([part], lambda: [Made({}, {}, learn())])
        return {
            model: self.work.store.prior(place) for model, place in zip(models, places, strict=True)
        }


def tell_images(work: Reproduction, pieces: Sequence[Piece], path: Path) -> Told:
    """A picture of all that was drawn, and the scores."""
    arrays, note = work.store.arrays(pieces[0].part.key), work.store.note(pieces[0].part.key)
    panels = {"original": arrays["original"], "corrupted": arrays["corrupted"]}
    for model, title in MODELS.items():
        for kind in ("generated", "reconstructed"):
            if f"{model}-{kind}" in arrays:
                panels[f"{kind}, {title}"] = arrays[f"{model}-{kind}"]
    source, size = note["source"], (note["height"], note["width"])
    draw_images(panels, path.with_suffix(".png"), *size, title=TITLES.get(source, source))
    rows = [
        {"source": source, "images": which, "score": score, "value": round(value, 5)}
        for which, scores in note["scores"].items()
        for score, value in scores.items()
    ]
    return rows, {"source": source, "scores": note["scores"]}


def _read(folder: Path | None) -> Images:
    return stand_in_digits() if folder is None else read_images(folder)


@functools.cache
def _fingerprint_of(folder: Path | None) -> str:
    return fingerprint(_read(folder).pixels)


def _quality(train: NDArray[Any], images: NDArray[Any]) -> dict[str, float]:
    """Fréchet distance to training images, and diversity beside theirs."""
    some = train[: min(len(train), 10_000)]
    components = min(32, len(some), some.shape[1], len(images) - 1)
    return {
        "Fréchet distance": frechet_distance(some, images, components),
        "diversity": diversity(some, images),
    }


def _procedure(name: str, profile: Profile) -> Procedure:
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


def _training(profile: Profile) -> TrainingConfig:
    """Of the model of clean images."""
    return dataclasses.replace(PROCEDURES["images"].training, steps=profile.steps(10_000))


def _network(height: int, width: int, profile: Profile) -> dict[str, Any]:
    options: dict[str, Any] = {"height": height, "width": width}
    options |= (
        {"channels": (4,), "folds": 1, "embedding_size": 8}
        if profile.tiny
        else {"channels": (64, 128), "folds": 1, "compute": "bfloat16"}
    )
    return {"network": "unet-2d", "predicts": "clean", "options": options}
