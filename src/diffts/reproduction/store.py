"""What is finished, on disk: so that a second start of a reproduction goes on where it stopped."""

from __future__ import annotations

import csv
import io
import json
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from diffts.circumstances import circumstances, seconds_of_compilation
from diffts.diffusion.prior import DiffusionPrior
from diffts.errors import ArtifactError, InvalidInputError
from diffts.files import write_file

Arrays = dict[str, NDArray[Any]]
#: Of what summaries say, to be raised when claims could no longer be judged by older ones.
SUMMARIES_VERSION = 4
#: Rows of a table, and what a summary says beside how it was made.
Told = tuple[list[dict[str, Any]], dict[str, Any]]


#: What is done for a part, by its place.
_KINDS = {"/times/": "learning", "/runs/": "playing"}


def _now() -> NDArray[np.float64]:
    """Seconds on the clock, and seconds that JAX has spent on compiling so far."""
    return np.array([time.perf_counter(), seconds_of_compilation()])


class Part(NamedTuple):
    """A piece of work, made once."""

    key: str  # place of its note and of its arrays
    digest: str  # of all that it follows from; what is there with another one is made anew
    apart: tuple[str, ...] = ()  # places of what is too large for that: priors, or a fit's arrays


class Made(NamedTuple):
    """What a part consists of."""

    arrays: Arrays
    note: dict[str, Any]
    apart: Sequence[DiffusionPrior | Arrays] = ()  # in the order of the part's


class Store:
    """A folder of finished parts: arrays with a note in JSON, and priors.

    Every file is there in full or not at all, and the note comes last: a part that was killed half
    way is made again.
    """

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.folder, self._spent = folder, np.zeros(2)  # seconds; those of compilation
        marker = folder / "settings.json"
        if not marker.exists():
            folder.mkdir(parents=True, exist_ok=True)
            write_json(marker, settings)
        elif (there := read_json(marker)) != settings:
            known = there if isinstance(there, dict) else {}
            other = [name for name in settings if known.get(name) != settings[name]]
            raise InvalidInputError(
                f"--out: {folder} holds parts of other settings ({', '.join(other)}); choose "
                "another folder or remove it"
            )

    def has(self, part: Part) -> bool:
        """Whether a part is finished, and made as it would be made today."""
        if not all(map(self._is_there, (part.key, *part.apart))):
            return False
        return bool(self.note(part.key).get("recipe") == part.digest)

    def ensure(self, parts: Sequence[Part], make: Callable[[], Iterable[Made]]) -> None:
        """Get or make: parts that are made together, unless all of them are there.

        Each is told an equal share of the seconds, and of those of them that went into compiling.
        What was spent meanwhile on other parts (a fit that training starts from) is told of those.
        """
        if all(self.has(part) for part in parts):
            return
        before, others = _now(), self._spent
        made = list(make())
        spent = _now() - before - (self._spent - others)
        self._spent = self._spent + spent
        seconds, compiling = (float(share) for share in spent / len(parts))
        for part, (arrays, note, apart) in zip(parts, made, strict=True):
            told = {"seconds": seconds, "compiling": compiling, "recipe": part.digest}
            self.save(part, Made(arrays, note | told, apart))

    def save(self, part: Part, made: Made) -> None:
        """Keep a part, and with what it was made."""
        if part.apart:  # the note of what was there before must not stand beside the new
            self._file(part.key).unlink(missing_ok=True)
        for key, value in zip(part.apart, made.apart, strict=True):
            if isinstance(value, DiffusionPrior):
                value.save(self.folder / key)
            else:
                self._write(key, value)
        note = json.dumps(made.note | circumstances()).encode()
        self._write(part.key, made.arrays | {"note": np.frombuffer(note, np.uint8)})

    def note(self, key: str) -> dict[str, Any]:
        """What to know about a part, without its arrays."""
        note: dict[str, Any] = json.loads(self._read(key, ["note"])["note"].tobytes().decode())
        return note

    def arrays(self, key: str) -> Arrays:
        """The arrays of a part."""
        return {name: value for name, value in self._read(key).items() if name != "note"}

    def prior(self, key: str) -> DiffusionPrior:
        """A prior that was kept."""
        return DiffusionPrior.load(self.folder / key)

    def provenance(self, keys: Iterable[str]) -> list[dict[str, Any]]:
        """What parts were made with: hardware, versions, seconds of work, and what they went into.

        Seconds are those of the parts an experiment rests on, wherever they were made; experiments
        that share parts each count them. Their shares are of those parts that tell how much of
        their time was compilation.
        """
        made: dict[tuple[str, ...], dict[str, Any]] = {}
        for key in sorted({key for key in keys if self._file(key).exists()}):
            note = self.note(key)
            where = {name: note[name] for name in ("device", "jax", "python", "diffts", "commit")}
            entry = made.setdefault(tuple(where.values()), where | {"parts": 0, "seconds": 0.0})
            entry["parts"] += 1
            seconds = float(note.get("seconds", 0.0))
            spent = {"seconds": seconds}
            if "compiling" in note:
                compiling = float(note["compiling"])
                kind = next((name for place, name in _KINDS.items() if place in key), "drawing")
                spent |= {"compiling": compiling, kind: seconds - compiling}
            for what, value in spent.items():
                entry[what] = round(entry.get(what, 0.0) + value, 2)
        return list(made.values())

    def _file(self, key: str) -> Path:
        return self.folder / f"{key}.npz"

    def _is_there(self, key: str) -> bool:
        return self._file(key).exists() or (self.folder / key / "config.json").exists()

    def _write(self, key: str, arrays: Arrays) -> None:
        path, buffer = self._file(key), io.BytesIO()
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
        write_file(path, buffer.getvalue())

    def _read(self, key: str, names: Sequence[str] = ()) -> Arrays:
        """Some of a file's arrays; all of them if none is named."""
        try:
            with np.load(self._file(key), allow_pickle=False) as content:
                return {name: content[name] for name in names or content.files}
        except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error):
            # NumPy's own words would advise to unpickle what is no archive.
            raise ArtifactError(f"{self._file(key)}: damaged; remove it") from None


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """A CSV file with the keys of the first row as its header."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]) if rows else [])
    writer.writeheader()
    writer.writerows(rows)
    write_file(path, text.getvalue().encode())


def write_json(path: Path, content: dict[str, Any]) -> None:
    """A JSON file."""
    write_file(path, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """A JSON file, or a clear word about a damaged one."""
    try:
        return json.loads(path.read_bytes())
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ArtifactError(f"{path}: damaged, not JSON ({error}); remove it") from None
