"""One folder, several processes: writers and readers at once, and writers that are killed."""

import json
import subprocess
import sys

import numpy as np
import pytest

from diffts import storage
from diffts.errors import ArtifactError
from diffts.storage import load_folder, save_folder

SAVES = 1000  # of each of two writers

WRITER = """
import sys
import numpy as np
from diffts import storage
storage.os.fsync = lambda handle: None  # about turns, not about power cuts: and much faster
folder, name, saves = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
for number in range(saves):
    # Every other state is the same in both writers: the same file, saved by one and the other.
    state = [name, number] if number % 2 else [0, 0]
    content = {"state": state}
    storage.save_folder(folder, "toy", 1, content, {"x": np.tile(state, 500)})
    if saves > 10_000:
        print(number, flush=True)
storage.save_folder(folder, "toy", 1, {"state": [name, saves]}, {"x": np.tile([name, saves], 500)})
"""


def start_writer(folder, name, saves):
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), str(name), str(saves)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def read_state(folder):
    """The saved state, in config and arrays alike."""
    content, arrays = load_folder(folder, "toy", 1)
    np.testing.assert_array_equal(arrays["x"], np.tile(content["state"], 500))
    return tuple(content["state"])


@pytest.mark.slow
def test_two_writers_and_a_reader_never_meet_half_a_state(tmp_path):
    save_folder(tmp_path, "toy", 1, {"state": [0, 0]}, {"x": np.tile([0, 0], 500)})
    writers = [start_writer(tmp_path, name, SAVES) for name in (1, 2)]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    seen = []
    while any(writer.poll() is None for writer in writers) or len(seen) < 2 * SAVES:
        seen.append(read_state(tmp_path))
    told = [writer.communicate()[1] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0], told
    for name in (1, 2):  # no state comes back once a later one was read
        numbers = [number for who, number in seen if who == name]
        assert numbers == sorted(numbers)
    assert read_state(tmp_path) in {(1, SAVES), (2, SAVES)}  # the last one saved
    assert len(list(tmp_path.iterdir())) == 2  # and nothing is left of the others


@pytest.mark.parametrize("saves_before_the_kill", [1, 7, 20])
def test_a_killed_writer_stops_nobody(tmp_path, saves_before_the_kill):
    save_folder(tmp_path, "toy", 1, {"state": [0, 0]}, {"x": np.tile([0, 0], 500)})
    writer = start_writer(tmp_path, 1, 1_000_000)
    writer.stdin.write("go\n")
    writer.stdin.flush()
    for _ in range(1 + saves_before_the_kill):
        writer.stdout.readline()
    writer.kill()
    writer.communicate()
    assert read_state(tmp_path)[1] >= saves_before_the_kill - 1 or read_state(tmp_path) == (0, 0)
    save_folder(tmp_path, "toy", 1, {"state": [3, 3]}, {"x": np.tile([3, 3], 500)})
    assert read_state(tmp_path) == (3, 3)
    assert len(list(tmp_path.iterdir())) == 2


def test_unfinished_files_of_killed_writers_go_with_the_next_save(tmp_path):
    save_folder(tmp_path, "toy", 1, {"n": 1}, {"x": np.zeros(2)})
    (tmp_path / f"{storage.UNFINISHED}abc").write_bytes(b"half")
    (tmp_path / "arrays-0123456789abcdef.safetensors").write_bytes(b"never named")
    save_folder(tmp_path, "toy", 1, {"n": 2}, {"x": np.ones(2)})
    assert len(list(tmp_path.iterdir())) == 2


def test_without_a_lock_only_old_arrays_are_removed(tmp_path, monkeypatch):
    """On a network folder without locks another writer may be about to name its arrays."""
    monkeypatch.setattr(storage, "fcntl", None)
    save_folder(tmp_path, "toy", 1, {"n": 1}, {"x": np.zeros(2)})
    old = tmp_path / "arrays-0123456789abcdef.safetensors"
    old.write_bytes(b"named by nobody")
    storage.os.utime(old, (0, 0))
    save_folder(tmp_path, "toy", 1, {"n": 2}, {"x": np.ones(2)})
    assert not old.exists()
    assert len(list(tmp_path.glob("*.safetensors"))) == 2  # the last one is too young to go
    assert load_folder(tmp_path, "toy", 1)[0] == {"n": 2}
    monkeypatch.setattr(storage, "_READS_WITHOUT_LOCK", 2)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / config["arrays"]["file"]).unlink()
    with pytest.raises(ArtifactError, match="cannot be read"):
        load_folder(tmp_path, "toy", 1)


def test_a_failed_write_names_the_file(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("diffts.files.os.fsync", full)
    with pytest.raises(ArtifactError, match=r"arrays-.*cannot be written \(No space left"):
        save_folder(tmp_path, "toy", 1, {"n": 1}, {"x": np.zeros(2)})
    assert list(tmp_path.iterdir()) == []
