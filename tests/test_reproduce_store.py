"""Finished parts on disk: whole or not at all, and of one kind of settings."""

import subprocess
import sys

import numpy as np
import pytest

from diffts.errors import ArtifactError, InvalidInputError
from diffts.experiments.reproduce.store import Store


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "parts", {"profile": "test"})


def test_parts_are_kept_whole_or_not_at_all(store, monkeypatch):
    store.save("a/b", {"x": np.arange(3)}, {"seconds": 1.5})
    arrays, note = store.load("a/b")
    assert arrays["x"].tolist() == [0, 1, 2]
    assert note["seconds"] == 1.5
    assert note["jax"]
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        store.save("a/c", {"x": np.arange(3)}, {})
    assert not store.has("a/c")


@pytest.mark.parametrize("kept", [0, 40, -30])
def test_a_damaged_part_is_named(store, kept):
    store.save("a", {"x": np.arange(3)}, {})
    path = store.folder / "a.npz"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ArtifactError, match=r"a\.npz: damaged; remove it$"):
        store.load("a")


def test_parts_of_other_settings_are_refused(tmp_path):
    Store(tmp_path, {"horizon": 10})
    Store(tmp_path, {"horizon": 10})
    with pytest.raises(InvalidInputError, match="other settings"):
        Store(tmp_path, {"horizon": 20})


def test_two_processes_may_write_one_file(tmp_path):
    code = (
        "import sys, pathlib\n"
        "from diffts.experiments.reproduce.store import write_whole\n"
        "for _ in range(2000): write_whole(pathlib.Path(sys.argv[1]), b'whole')\n"
    )
    file = tmp_path / "main.csv"
    command = [sys.executable, "-c", code, str(file)]
    writers = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(2)]
    told = [one.communicate()[1].decode() for one in writers]
    assert [one.returncode for one in writers] == [0, 0], told
    assert [path.name for path in tmp_path.iterdir()] == ["main.csv"]
