"""How large a reproduction is: the paper's sizes, or everything tiny."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from diffts.learning import ArmProcedure, Procedure
from diffts.validation import whole_number


@dataclasses.dataclass(frozen=True)
class Profile:
    """Sizes of all experiments."""

    name: str
    sizes: tuple[int, int, int] | None  # training, calibration, test tasks; None: a problem's own
    horizons: dict[str, int]  # rounds of each problem
    records: int  # rounds at which regret is recorded, about
    seeds: tuple[int, ...]  # of training and rewards; pictures and images have the first one
    length: float  # factor of all training steps
    chain: int | None  # steps of DiffTS's chain; None: as many as its sampler takes by itself
    tiny: bool  # whether networks are tiny, too
    images: tuple[int, int]  # images to train on; to calibrate on and to judge draws by
    drawn_images: int  # images generated and reconstructed for the scores

    def steps(self, full: int) -> int:
        """Training steps of this size, of so many in full."""
        return max(1, round(self.length * full))

    def fitted(self, procedure: Procedure) -> Procedure:
        """A procedure of this size; a tiny one has a warm-up and one repeat of two steps each."""
        if not self.tiny:
            return procedure.scaled(self.length)
        if isinstance(procedure, ArmProcedure):
            procedure = dataclasses.replace(
                procedure,
                most_factors=2,
                play_tasks=4,
                play_rounds=4,
                judged_tasks=4,
            )
        rounds = min(1, procedure.rounds)
        sure = procedure.sure
        return dataclasses.replace(
            procedure,
            rounds=rounds,
            sure=sure[: 1 + rounds] if isinstance(sure, tuple) else sure,
            warmup_steps=2,
            inner_steps=2,
            final_steps=0,
            score_every=2,
        )

    def with_seeds(self, number: int | None) -> Profile:
        """With only the first so many seeds; None for all of them."""
        if number is None:
            return self
        number = whole_number("--seeds", number, 1, len(self.seeds))
        return dataclasses.replace(self, seeds=self.seeds[:number])

    @property
    def command_options(self) -> str:
        """What to say on the command line to get these sizes."""
        fewer = len(self.seeds) < len(PROFILES[self.name].seeds)
        return f"--profile {self.name}" + (f" --seeds {len(self.seeds)}" if fewer else "")

    def as_json(self) -> Any:
        """Plain JSON, to be compared with that of another run."""
        return json.loads(json.dumps(dataclasses.asdict(self)))


PROFILES = {
    "paper": Profile(
        name="paper",
        sizes=None,
        horizons={
            "popular-niche": 1000,
            "labeled-arms-common": 1000,
            "labeled-arms": 1000,
            "bidding": 1000,
            "maze": 300,
        },
        records=50,
        seeds=(0, 1, 2),
        length=1.0,
        chain=None,
        tiny=False,
        images=(59_000, 1000),
        drawn_images=1000,
    ),
    "smoke": Profile(
        name="smoke",
        sizes=(60, 30, 3),
        horizons={
            "popular-niche": 10,
            "labeled-arms-common": 10,
            "labeled-arms": 10,
            "bidding": 10,
            "maze": 4,
        },
        records=5,
        seeds=(0, 1),
        length=0.0002,
        chain=3,
        tiny=True,
        images=(100, 40),
        drawn_images=40,
    ),
}
