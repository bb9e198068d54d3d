"""Finished parts on disk: whole or not at all, and of one kind of settings."""

import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffts.errors import ArtifactError, InvalidInputError
from diffts.reproduction.store import Made, Part, Store


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "parts", {"profile": "test"})


def test_parts_are_kept_whole_or_not_at_all(store, monkeypatch):
    part = Part("a/b", "digest")
    store.ensure([part], lambda: [Made({"x": np.arange(3)}, {"more": 1.5})])
    assert store.arrays("a/b")["x"].tolist() == [0, 1, 2]
    note = store.note("a/b")
    assert note["more"] == 1.5
    assert note["jax"]
    assert store.has(part)
    assert not store.has(part._replace(digest="another"))
    monkeypatch.setattr("os.replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        store.save(Part("a/c", "digest"), Made({"x": np.arange(3)}, {}))
    assert not store.has(Part("a/c", "digest"))


def test_what_is_there_is_not_made_again(store, monkeypatch):
    def never():
        raise AssertionError("done twice")

    part = Part("a", "digest", ("b",))
    made = Made({}, {}, [{"x": np.arange(3)}])
    store.ensure([part], lambda: [made])
    store.ensure([part], never)
    # Other content, killed before its note: it must not pass for what the old note says.
    monkeypatch.setattr("diffts.reproduction.store.circumstances", interrupt)
    with pytest.raises(KeyboardInterrupt):
        store.ensure([part._replace(digest="new")], lambda: [made])
    with pytest.raises(AssertionError, match="done twice"):
        store.ensure([part], never)


def interrupt(*_):
    raise KeyboardInterrupt


def test_seconds_are_told_of_the_part_that_took_them(store):
    """Parts made together share their time; one made on the way has its own."""

    def outer():
        store.ensure([Part("inner", "digest")], inner)
        return [Made({}, {}), Made({}, {})]

    def inner():
        time.sleep(0.2)
        return [Made({}, {})]

    store.ensure([Part("a", "digest"), Part("b", "digest")], outer)
    first, second, on_the_way = (store.note(key)["seconds"] for key in ("a", "b", "inner"))
    assert first == second < 0.1
    assert on_the_way >= 0.2


def test_seconds_of_an_experiment_are_told_by_what_they_went_into(store):
    told = {
        "p/times/a": {"seconds": 5.0, "compiling": 2.0},
        "p/runs/a": {"seconds": 7.0, "compiling": 1.0},
        "p/runs/b": {"seconds": 10.0},  # made before parts told it
        "p/pictures": {"seconds": 1.0, "compiling": 0.5},
    }
    for key, note in told.items():
        store.save(Part(key, ""), Made({}, note))
    (made,) = store.provenance([*told, "p/runs/a", "p/runs/missing"])
    assert {name: made[name] for name in ("parts", "seconds")} == {"parts": 4, "seconds": 23.0}
    shares = {"compiling": 3.5, "learning": 3.0, "playing": 6.0, "drawing": 0.5}
    assert {name: made[name] for name in shares} == shares


def test_parts_are_told_what_of_their_time_went_into_compiling(store):
    def compiled():
        jax.jit(lambda x: jnp.sin(x) @ x + 1811.0)(jnp.ones((7, 7))).block_until_ready()
        return [Made({}, {})]

    store.ensure([Part("a", "digest")], compiled)
    store.ensure([Part("b", "digest")], lambda: [Made({}, {})])
    first, second = (store.note(key) for key in ("a", "b"))
    assert 0 < first["compiling"] < first["seconds"]
    assert second["compiling"] == 0


def test_a_note_is_read_without_the_arrays_beside_it(store, monkeypatch):
    store.save(Part("a", "digest"), Made({"x": np.arange(3)}, {"seconds": 1.0}))
    read = np.lib.npyio.NpzFile.__getitem__
    asked = []
    monkeypatch.setattr(
        np.lib.npyio.NpzFile, "__getitem__", lambda f, name: asked.append(name) or read(f, name)
    )
    assert store.note("a")["seconds"] == 1.0
    assert asked == ["note"]


@pytest.mark.parametrize("kept", [0, 40, -30])
def test_a_damaged_part_is_named(store, kept):
    store.save(Part("a", "digest"), Made({"x": np.arange(3)}, {}))
    path = store.folder / "a.npz"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ArtifactError, match=r"a\.npz: damaged; remove it$"):
        store.note("a")


def test_parts_of_other_settings_are_refused(tmp_path):
    Store(tmp_path, {"horizon": 10})
    Store(tmp_path, {"horizon": 10})
    with pytest.raises(InvalidInputError, match="other settings"):
        Store(tmp_path, {"horizon": 20})


@pytest.mark.slow
def test_two_processes_may_write_one_file(tmp_path):
    code = (
        "import sys, pathlib\n"
        "from diffts.reproduction.store import write_json\n"
        "for _ in range(2000): write_json(pathlib.Path(sys.argv[1]), {})\n"
    )
    file = tmp_path / "main.csv"
    command = [sys.executable, "-c", code, str(file)]
    writers = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(2)]
    told = [one.communicate()[1].decode() for one in writers]
    assert [one.returncode for one in writers] == [0, 0], told
    assert [path.name for path in tmp_path.iterdir()] == ["main.csv"]
