"""The store of decisions: each reward once, whoever dies, whoever else writes. Without JAX."""

import json
import random
import sqlite3
import subprocess
import sys
import threading

import pytest

from diffts.decisions import FILE, SQLiteStore, sqlite
from diffts.decisions.store import Elsewhere, Made, Totals, as_name
from diffts.errors import ArtifactError, InvalidInputError

WHEN = "2030-01-01T00:00:00.000Z"


def made(id, task="t", arm="a", chance=0.5, offered=None, new=()):
    return Made(id, task, arm, chance, offered, WHEN, new)


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite, "SYNCHRONOUS", "OFF")  # about meaning, not about power cuts
    return SQLiteStore(tmp_path / FILE)


def test_a_reward_told_again_counts_once(store):
    store.record([made("1"), made("2")])
    assert store.reward([("1", 0.25)]) == 1
    assert store.reward([("1", 0.25), ("2", 1.0), ("2", 1.0)]) == 1
    assert store.past(["t"])["t"].totals == {"a": Totals(2, 1.25, 0.28125)}


@pytest.mark.parametrize(
    ("rewards", "message"),
    [
        ([("2", 1.0), ("1", 0.5)], r"^reward: decision 1 has 0.25 already, got 0.5$"),
        ([("2", 1.0), ("3", 0.5)], r"^decision: unknown id '3'$"),
        ([("2", 1.0), ("1", float("nan"))], r"^reward: must be a finite number, got nan$"),
        ([("2", 1.5)], r"^reward: must be from 0 to 1, got 1.5$"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_of_it_kept(store, rewards, message):
    store.claim(["a"], (0.0, 1.0))
    store.record([made("1"), made("2")])
    store.reward([("1", 0.25)])
    with pytest.raises(InvalidInputError, match=message):
        store.reward(rewards)
    assert store.past(["t"])["t"].totals == {"a": Totals(1, 0.25, 0.0)}
    assert store.waiting() == 1


def test_rewards_may_come_late_and_in_any_order(store):
    numbers = list(range(40))
    store.record([made(str(n), task=f"t{n % 3}", arm="ab"[n % 2]) for n in numbers])
    random.Random(0).shuffle(numbers)
    for n in numbers[:30]:
        store.reward([(str(n), float(n))])
    past = store.past(["t0", "t1", "t2", "never"])
    assert past["never"] == (0, {})
    for task in range(3):
        assert past[f"t{task}"].rounds == len(range(task, 40, 3))
        for arm in range(2):
            seen = [n for n in numbers[:30] if (n % 3, n % 2) == (task, arm)]
            totals = past[f"t{task}"].totals["ab"[arm]]
            centre = sum(seen) / len(seen)
            assert (totals.pulls, totals.sum) == (len(seen), sum(seen))
            assert totals.squares == pytest.approx(sum((n - centre) ** 2 for n in seen), rel=1e-12)
    assert [row.reward for row in store.log()] == sorted(numbers[:30])
    assert store.waiting() == 10


def test_many_tasks_in_one_question(store):
    store.record([made(str(n), task=f"t{n}") for n in range(1200)])
    store.reward([(str(n), 1.0) for n in range(0, 1200, 2)])
    past = store.past([f"t{n}" for n in range(1200)])
    assert sum(one.rounds for one in past.values()) == 1200
    assert sum(len(one.totals) for one in past.values()) == 600


def test_what_tasks_have_seen_of_an_arm(store):
    pulls = {"t1": [1.0], "t2": [2.0], "t3": [0.0, 3.0]}
    for task, rewards in pulls.items():
        for n, reward in enumerate(rewards):
            store.record([made(f"{task}-{n}", task)])
            store.reward([(f"{task}-{n}", reward)])
    assert store.elsewhere(["a", "b"]) == {
        "a": [Elsewhere(1, 2, 3.0), Elsewhere(2, 1, 1.5)],
        "b": [],
    }


def test_arms_that_were_added_are_known_by_name(store):
    store.record([made("1", offered=("a", "z"), new=("z",)), made("2", new=("z", "y"))])
    assert store.added_arms() == ["z", "y"]


def test_decisions_are_kept_all_or_none(store):
    store.record([made("1")])
    with pytest.raises(InvalidInputError, match="cannot be kept"):
        store.record([made("2"), made("1")])
    assert store.past(["t"])["t"].rounds == 1


def test_the_log_can_be_read_while_others_write(store):
    store.record([made(str(n)) for n in range(3)])
    store.reward([(str(n), float(n)) for n in range(3)])
    rows = []
    for row in store.log():
        rows.append(row)
        store.record([made(f"later-{len(rows)}")])
    assert [row[:3] for row in rows] == [("t", "a", 0.0), ("t", "a", 1.0), ("t", "a", 2.0)]
    assert rows[0][3:] == (WHEN, 0.5)


def test_several_threads_share_one_store(store):
    def work(name):
        for n in range(50):
            store.record([made(f"{name}-{n}")])
            store.reward([(f"{name}-{n}", 1.0)])

    threads = [threading.Thread(target=work, args=[name]) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.past(["t"])["t"] == (200, {"a": Totals(200, 200.0, 0.0)})


# --- files that are something else --------------------------------------------------------


def foreign(path):
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE decisions (mine)")
    connection.close()


def newer(path):
    SQLiteStore(path)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()


def cut(path):
    store = SQLiteStore(path)
    store.record([made(str(n), task=str(n)) for n in range(2000)])
    store._connection.close()  # which moves all into the file itself
    data = path.read_bytes()
    path.write_bytes(data[:20_000] + b"\0" * 40_000)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: path.write_bytes(b"task,arm,reward\n" * 500), "damaged or foreign"),
        (foreign, "a database of something else"),
        (newer, "written in format 99; this diffts reads up to 1"),
        (cut, "damaged or foreign"),
        (lambda path: path.mkdir(), "cannot be used"),
    ],
    ids=["text", "foreign", "newer", "cut", "folder"],
)
def test_a_file_that_is_damaged_or_foreign_is_refused_in_one_line(tmp_path, spoil, message):
    path = tmp_path / FILE
    spoil(path)
    with pytest.raises(ArtifactError, match=message) as refused:
        SQLiteStore(path).past([str(n) for n in range(2000)])
    assert str(refused.value).startswith(f"{path}: ")
    assert "\n" not in str(refused.value)


def test_an_empty_file_of_somebody_who_was_killed_is_made_use_of(tmp_path):
    (tmp_path / FILE).touch()
    SQLiteStore(tmp_path / FILE).record([made("1")])


def test_what_must_be_there_is_not_made(tmp_path):
    with pytest.raises(ArtifactError, match="nothing was decided yet"):
        SQLiteStore(tmp_path / FILE, must_exist=True)
    assert list(tmp_path.iterdir()) == []


def test_a_fit_must_know_the_arms_of_the_one_before(store):
    store.claim(["a", "b"], None)
    store.claim(["b", "a"], None)
    store.claim(["c", "a", "b"], None)
    with pytest.raises(ArtifactError, match=r"of another fit, which had other arms \('c', say\)"):
        store.claim(["a", "b"], None)


def test_a_fit_must_explain_the_rewards_of_the_one_before(store):
    store.claim(["a"], None)
    store.record([made("1")])
    store.reward([("1", 7.0)])
    with pytest.raises(ArtifactError, match=r"whose rewards were not from 0 to 1 \(7, say\)"):
        store.claim(["a"], (0.0, 1.0))
    store.claim(["a"], (0.0, 7.0))


@pytest.mark.parametrize(
    "name", ["", "  ", None, 1.5, True, "a\0b", "half \udc80", b"bytes", ["a"]]
)
def test_names_that_are_none(name):
    with pytest.raises(InvalidInputError, match=r"^task: "):
        as_name("task", name)


# --- eight processes, and kill -9 ---------------------------------------------------------

WORKERS, DECISIONS, KILLS = 8, 500, 3

WORKER = """
import json, sys
from diffts.decisions import FILE, SQLiteStore, sqlite
from diffts.decisions.store import Made
assert "jax" not in sys.modules
sqlite.SYNCHRONOUS = "OFF"  # a killed process loses nothing by it, a power cut would
path, name, life = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
acknowledged = json.loads(sys.argv[4])
store = SQLiteStore(path)
for id, reward in acknowledged[-3:]:
    assert store.reward([(id, reward)]) == 0  # told again
for n in range(len(acknowledged), int(sys.argv[5])):
    id, reward = f"{name}-{life}-{n}", 1000.0 * name + n
    store.record([Made(id, f"task-{n % 5}", f"arm-{name % 3}", 1.0, None, "now")])
    store.reward([(id, reward)])
    print(json.dumps([id, reward]), flush=True)
"""


def work(path, name, acknowledged, failures):
    """A process that is killed again and again, at moments of chance, and then left alone."""
    chance = random.Random(name)
    for life in range(KILLS + 1):
        process = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(path), str(name), str(life),
             json.dumps(acknowledged), str(DECISIONS)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        left = chance.randrange(1, DECISIONS // (KILLS + 1)) if life < KILLS else DECISIONS
        for line in process.stdout:  # what it said before it died counts, too
            acknowledged.append(json.loads(line))
            left -= 1
            if not left:
                process.kill()
        said = process.communicate()[1]
        if process.returncode not in (0, -9):
            failures.append(said)


@pytest.mark.slow
def test_every_acknowledged_reward_is_there_once_whoever_is_killed(tmp_path):
    """Eight processes with 500 decisions each, on a file that none of them has made yet."""
    told, failures = [[] for _ in range(WORKERS)], []
    threads = [
        threading.Thread(target=work, args=(tmp_path / FILE, name, told[name], failures))
        for name in range(WORKERS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    acknowledged = [tuple(one) for by_worker in told for one in by_worker]
    assert len(acknowledged) == len(set(acknowledged)) == WORKERS * DECISIONS

    with sqlite3.connect(tmp_path / FILE) as connection:
        query = "SELECT id, reward, task, arm FROM decisions WHERE reward IS NOT NULL"
        kept = connection.execute(query).fetchall()
    connection.close()
    assert {row[:2] for row in kept} >= set(acknowledged)
    assert len(kept) == len({row[0] for row in kept})
    # What was kept and not acknowledged: at most one for each that was killed.
    assert len(kept) - len(acknowledged) <= WORKERS * KILLS
    past = SQLiteStore(tmp_path / FILE).past([f"task-{n}" for n in range(5)])
    for task, one in past.items():
        for arm, totals in one.totals.items():
            rewards = [row[1] for row in kept if row[2:] == (task, arm)]
            assert (totals.pulls, totals.sum) == (len(rewards), sum(rewards))
    assert sum(t.pulls for one in past.values() for t in one.totals.values()) == len(kept)


def test_what_is_acknowledged_is_on_the_disk(tmp_path):
    """A power cut cannot be tried here: SQLite is told to wait for the disk."""
    connection = SQLiteStore(tmp_path / FILE)._connection
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


OPENER = """
import sys
from diffts.decisions import SQLiteStore, sqlite
from diffts.decisions.store import Made
sqlite.SYNCHRONOUS = "OFF"
print("ready", flush=True)
for path in map(str.strip, sys.stdin):
    try:
        SQLiteStore(path).record([Made(sys.argv[1], "t", "a", 1.0, None, "now")])
        print("kept", flush=True)
    except Exception as error:
        print(error, flush=True)
"""


@pytest.mark.slow
def test_processes_that_make_the_file_at_once_make_one(tmp_path):
    openers = [
        subprocess.Popen(
            [sys.executable, "-c", OPENER, str(name)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in range(6)
    ]
    assert [opener.stdout.readline() for opener in openers] == ["ready\n"] * 6
    for number in range(30):
        path = tmp_path / f"{number}.sqlite"
        for opener in openers:
            opener.stdin.write(f"{path}\n")
            opener.stdin.flush()
        assert [opener.stdout.readline() for opener in openers] == ["kept\n"] * 6
        assert SQLiteStore(path).past(["t"])["t"].rounds == 6
    for opener in openers:
        opener.communicate()
        assert opener.returncode == 0
