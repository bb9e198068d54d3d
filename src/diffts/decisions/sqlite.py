"""Decisions in one SQLite file: no server, safe under many processes and ``kill -9``.

By the ``sqlite3`` module of Python itself. A dozen statements of standard SQL need no layer above
them, and ``import sqlalchemy`` would take longer than to tell a reward. A store on PostgreSQL can
use the same statements: only PRAGMAs, ``BEGIN IMMEDIATE`` and ``?`` are SQLite's own.

The file is in WAL mode: readers do not wait for writers. Writers take turns from the start of a
transaction (``BEGIN IMMEDIATE``), so that what one has read stays true until it writes. A
transaction is on the disk before its caller goes on (``synchronous=FULL``).
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from diffts.decisions.store import DecisionStore, Elsewhere, Logged, Made, Past, Totals, now
from diffts.errors import ArtifactError, InvalidInputError

#: The name of the file, in the folder of the fit.
FILE = "decisions.sqlite"
#: Seconds to wait for others who write.
PATIENCE = 60.0
#: What SQLite waits for at the end of a transaction: the disk.
SYNCHRONOUS = "FULL"
_APPLICATION, _VERSION = 0x64667473, 1  # "dfts", in the header of the file
_AT_ONCE = 500  # names in one statement

_SCHEMA = """
CREATE TABLE fit (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE arms (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, time TEXT NOT NULL);
CREATE TABLE offers (number INTEGER PRIMARY KEY, arms TEXT NOT NULL UNIQUE);
CREATE TABLE decisions (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, task TEXT NOT NULL, arm TEXT NOT NULL,
    chance REAL, offer INTEGER REFERENCES offers (number), time TEXT NOT NULL,
    reward REAL, rewarded TEXT
);
CREATE INDEX decisions_of_task ON decisions (task);
CREATE TABLE totals (
    task TEXT NOT NULL, arm TEXT NOT NULL,
    pulls INTEGER NOT NULL, sum REAL NOT NULL, squares REAL NOT NULL,
    PRIMARY KEY (task, arm)
);
CREATE INDEX totals_of_arm ON totals (arm, pulls);
"""


class SQLiteStore(DecisionStore):
    """A store in one file.

    Args:
        path: the file; made if it is not there.
        must_exist: refuse if it is not there.
    """

    def __init__(self, path: str | os.PathLike[str], *, must_exist: bool = False) -> None:
        self.path = Path(path)
        if must_exist and not self.path.is_file():
            raise ArtifactError(f"{self.path}: not there; nothing was decided yet")
        self._own = threading.local()
        with self._explained():
            _ = self._connection

    def claim(self, arms: Sequence[str], bounds: tuple[float, float] | None) -> None:
        """See :meth:`DecisionStore.claim`. Only a change is written."""
        wanted = {"arms": json.dumps(sorted(arms)), "bounds": json.dumps(bounds)}
        with self._explained():
            if self._fit(self._connection) == wanted:
                return
        with self._turn() as connection:
            before = self._fit(connection)
            if gone := set(json.loads(before.get("arms", "[]"))) - set(arms):
                raise ArtifactError(
                    f"{self.path}: of another fit, which had other arms ({min(gone)!r}, say); "
                    "move it away to begin anew"
                )
            if bounds is not None:
                low, high = bounds
                query = "SELECT reward FROM decisions WHERE reward < ? OR reward > ? LIMIT 1"
                for (reward,) in connection.execute(query, (low, high)):
                    raise ArtifactError(
                        f"{self.path}: of another fit, whose rewards were not from {low:g} to "
                        f"{high:g} ({reward:g}, say); move it away to begin anew"
                    )
            connection.executemany(
                "INSERT INTO fit (name, value) VALUES (?, ?) "
                "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                wanted.items(),
            )

    def record(self, decisions: Sequence[Made]) -> None:
        """See :meth:`DecisionStore.record`."""
        with self._turn() as connection:
            for made in decisions:
                connection.executemany(
                    "INSERT INTO arms (name, time) VALUES (?, ?) ON CONFLICT DO NOTHING",
                    [(arm, made.time) for arm in made.new],
                )
                offer = None if made.offered is None else _offer(connection, made.offered)
                connection.execute(
                    "INSERT INTO decisions (id, task, arm, chance, offer, time) "
                    "VALUES (?, ?, ?, ?, ?, ?)",
                    (made.id, made.task, made.arm, made.chance, offer, made.time),
                )

    def reward(self, rewards: Sequence[tuple[str, float]]) -> int:
        """See :meth:`DecisionStore.reward`."""
        told = 0
        with self._turn() as connection:
            bounds = json.loads(self._fit(connection).get("bounds", "null"))
            for decision, reward in rewards:
                _check(reward, bounds)
                told += _reward(connection, decision, float(reward))
        return told

    def past(self, tasks: Sequence[str]) -> dict[str, Past]:
        """See :meth:`DecisionStore.past`."""
        rounds = dict.fromkeys(tasks, 0)
        totals: dict[str, dict[str, Totals]] = {task: {} for task in tasks}
        with self._reading() as connection:
            for names, places in _in_parts(tasks):
                counted = f"SELECT task, COUNT(*) FROM decisions WHERE task IN ({places})"
                rounds |= connection.execute(f"{counted} GROUP BY task", names)
                summed = "SELECT task, arm, pulls, sum, squares FROM totals"
                summed += f" WHERE task IN ({places}) ORDER BY arm"
                for task, arm, *numbers in connection.execute(summed, names):
                    totals[task][arm] = Totals(*numbers)
        return {task: Past(rounds[task], totals[task]) for task in rounds}

    def elsewhere(self, arms: Sequence[str]) -> dict[str, list[Elsewhere]]:
        """See :meth:`DecisionStore.elsewhere`."""
        found: dict[str, list[Elsewhere]] = {arm: [] for arm in arms}
        with self._reading() as connection:
            for names, places in _in_parts(arms):
                for arm, *numbers in connection.execute(
                    f"SELECT arm, pulls, COUNT(*), SUM(sum / pulls) FROM totals "
                    f"WHERE arm IN ({places}) GROUP BY arm, pulls",
                    names,
                ):
                    found[arm].append(Elsewhere(*numbers))
        return found

    def added_arms(self) -> list[str]:
        """See :meth:`DecisionStore.added_arms`."""
        with self._reading() as connection:
            return [name for (name,) in connection.execute("SELECT name FROM arms ORDER BY number")]

    def log(self) -> Iterator[Logged]:
        """See :meth:`DecisionStore.log`. In parts: whoever reads it may do other things between."""
        last: int | None = -1
        while last is not None:
            with self._reading() as connection:
                part = connection.execute(
                    "SELECT number, task, arm, reward, time, chance FROM decisions "
                    "WHERE reward IS NOT NULL AND number > ? ORDER BY number LIMIT 10000",
                    (last,),
                ).fetchall()
            last = part[-1][0] if part else None
            for _, *row in part:
                yield Logged(*row)

    def waiting(self) -> int:
        """See :meth:`DecisionStore.waiting`."""
        with self._reading() as connection:
            query = "SELECT COUNT(*) FROM decisions WHERE reward IS NULL"
            (number,) = connection.execute(query).fetchone()
            return int(number)

    def _fit(self, connection: sqlite3.Connection) -> dict[str, str]:
        return dict(connection.execute("SELECT name, value FROM fit"))

    @property
    def _connection(self) -> sqlite3.Connection:
        """One for each thread; and none that was opened before a fork, which SQLite forbids."""
        if getattr(self._own, "process", None) != os.getpid():
            self._own.connection, self._own.process = _opened(self.path), os.getpid()
        connection: sqlite3.Connection = self._own.connection
        return connection

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """All that is read within is of one moment."""
        with self._explained(), _transaction(self._connection, "BEGIN") as connection:
            yield connection

    @contextlib.contextmanager
    def _turn(self) -> Iterator[sqlite3.Connection]:
        """The turn to write: all of what is written within, or nothing."""
        with self._explained(), _transaction(self._connection, "BEGIN IMMEDIATE") as connection:
            yield connection

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """What SQLite complains of, in one line that names the file."""
        try:
            yield
        except sqlite3.IntegrityError as error:
            raise InvalidInputError(f"decision: cannot be kept ({error})") from None
        except sqlite3.OperationalError as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            busy = code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
            said = f"others have been writing for {PATIENCE:g} seconds" if busy else str(error)
            raise ArtifactError(f"{self.path}: cannot be used ({said})") from None
        except sqlite3.DatabaseError as error:
            raise ArtifactError(f"{self.path}: damaged or foreign ({error})") from None


def _opened(path: Path) -> sqlite3.Connection:
    """The file, made if need be; what others made for something else is refused."""
    connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)
    try:
        with _transaction(connection, "BEGIN"):  # of one moment: others may be making it
            ours = _is_ours(connection, path)
        if not ours:
            _use_log(connection)
            with _transaction(connection, "BEGIN IMMEDIATE"):
                if not _is_ours(connection, path):  # again: somebody may have been faster
                    for statement in _SCHEMA.split(";"):
                        connection.execute(statement)
                    connection.execute(f"PRAGMA user_version = {_VERSION}")
                    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS}")
    except BaseException:
        connection.close()
        raise
    return connection


def _is_ours(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether a file holds decisions; False if it holds nothing yet."""
    if _pragma(connection, "application_id") == _APPLICATION:
        version = _pragma(connection, "user_version")
        if version > _VERSION:
            raise ArtifactError(
                f"{path}: written in format {version}; this diffts reads up to {_VERSION}. "
                "Install a newer diffts."
            )
        return True
    if connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
        raise ArtifactError(f"{path}: a database of something else, not of diffts")
    return False


def _use_log(connection: sqlite3.Connection) -> None:
    """Turn the write-ahead log on; SQLite does not wait for others who do the same."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.01)


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection, begin: str) -> Iterator[sqlite3.Connection]:
    connection.execute(begin)
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _in_parts(names: Sequence[str]) -> Iterator[tuple[list[str], str]]:
    """Names, some at a time, and as many question marks: SQLite takes so many in one statement."""
    different = list(dict.fromkeys(names))
    for start in range(0, len(different), _AT_ONCE):
        part = different[start : start + _AT_ONCE]
        yield part, ", ".join("?" * len(part))


def _offer(connection: sqlite3.Connection, arms: Sequence[str]) -> int:
    """The number of a set of arms; the same sets are on offer again and again."""
    text = json.dumps(sorted(arms), ensure_ascii=False)
    connection.execute("INSERT INTO offers (arms) VALUES (?) ON CONFLICT DO NOTHING", (text,))
    query = "SELECT number FROM offers WHERE arms = ?"
    (number,) = connection.execute(query, (text,)).fetchone()
    return int(number)


def _check(reward: Any, bounds: Sequence[float] | None) -> None:
    if not -3e38 <= reward <= 3e38:  # NaN is in no range; beyond it float32 ends
        raise InvalidInputError(f"reward: must be a finite number, got {reward}")
    if bounds is not None and not bounds[0] <= reward <= bounds[1]:
        low, high = bounds
        raise InvalidInputError(f"reward: must be from {low:g} to {high:g}, got {reward:g}")


def _reward(connection: sqlite3.Connection, decision: str, reward: float) -> bool:
    """Keep a reward; whether it was new."""
    query = "SELECT task, arm, reward FROM decisions WHERE id = ?"
    row = connection.execute(query, (decision,)).fetchone()
    if row is None:
        raise InvalidInputError(f"decision: unknown id {decision!r}")
    task, arm, known = row
    if known is not None:
        if known != reward:
            raise InvalidInputError(
                f"reward: decision {decision} has {known!r} already, got {reward!r}"
            )
        return False
    query = "UPDATE decisions SET reward = ?, rewarded = ? WHERE id = ?"
    connection.execute(query, (reward, now(), decision))
    query = "SELECT pulls, sum, squares FROM totals WHERE task = ? AND arm = ?"
    before = connection.execute(query, (task, arm)).fetchone() or (0, 0.0, 0.0)
    connection.execute(
        "INSERT INTO totals (task, arm, pulls, sum, squares) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (task, arm) DO UPDATE SET "
        "pulls = excluded.pulls, sum = excluded.sum, squares = excluded.squares",
        (task, arm, *Totals(*before).and_then(reward)),
    )
    return True
