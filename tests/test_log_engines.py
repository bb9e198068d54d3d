"""One log in DuckDB, PostgreSQL and Spark: the same numbers from all three, to 1e-9.

Rewards have large offsets, and offsets that differ from task to task; there are NULLs and NaNs,
Decimals, numbers written as text, time zones, blanks around names, and rows of many pulls.
"""

import datetime
import os
import shutil
from decimal import Decimal

import ibis
import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import postgres_server
from diffts.errors import InvalidInputError
from diffts.logs import Columns, read_log

WAYS = {
    "floats": Columns(time="moment"),
    "decimals": Columns(reward="price", time="plain"),
    "text": Columns(reward="words", time="said"),
    "many pulls a row": Columns(count="pulls", time="day"),
    "truth values": Columns(arm="level", reward="won"),
}
SCHEMA = pa.schema(
    {
        "task": pa.string(),
        "arm": pa.int64(),
        "level": pa.float64(),
        "reward": pa.float64(),
        "price": pa.decimal128(20, 6),
        "words": pa.string(),
        "won": pa.bool_(),
        "pulls": pa.int32(),
        "moment": pa.timestamp("us", tz="UTC"),
        "plain": pa.timestamp("us"),
        "day": pa.date32(),
        "said": pa.string(),
    }
)
START = datetime.datetime(2024, 1, 31, 22, 30, tzinfo=datetime.UTC)


def some_rows(n=1500):
    """Rows of a log, in no order."""
    rng = np.random.default_rng(16)
    made = []
    for i in range(n):
        task = int(rng.integers(9))
        reward = round(float((1e6 + 0.1) * (task % 3) + rng.normal()), 6)
        moment = START + datetime.timedelta(minutes=int(rng.integers(100_000)))
        there = moment.astimezone(datetime.timezone(datetime.timedelta(hours=2 if i % 2 else -5)))
        made.append(
            {
                "task": [f"task-{task}", f" task-{task}\t", None][0 if i % 7 else 1 + i % 2],
                "arm": int(rng.integers(6)) if i % 31 else None,
                "level": [0.25, 3.0, 1e-7, float("nan")][rng.integers(4)],
                "reward": [float("nan"), None][i % 2] if i % 23 == 0 else reward,
                "price": None if i % 29 == 0 else Decimal(f"{reward:.6f}"),
                "words": ["NaN", "", None, "null"][i % 4] if i % 19 == 0 else f" {reward:.6f} ",
                "won": None if i % 17 == 0 else bool(rng.integers(2)),
                "pulls": int(rng.integers(5)) if i % 37 else None,
                "moment": moment,
                "plain": moment.replace(tzinfo=None),
                "day": moment.date(),
                "said": there.isoformat() if i % 13 else moment.strftime("%Y-%m-%d %H:%M"),
            }
        )
    return [*made, made[-1]]  # one row twice


@pytest.fixture(scope="module")
def rows():
    return some_rows()


@pytest.fixture(scope="module")
def parquet(rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path)
    return path


@pytest.fixture(scope="module")
def postgres(rows):
    """The URL of a server that has the log as a table."""
    if why := postgres_server.why_not():
        if os.environ.get("DIFFTS_POSTGRES") == "required":
            pytest.fail(why)
        pytest.skip(why)
    types = {
        pa.string(): "text",
        pa.int64(): "bigint",
        pa.int32(): "integer",
        pa.float64(): "double precision",
        pa.bool_(): "boolean",
        pa.date32(): "date",
        pa.timestamp("us"): "timestamp",
        pa.timestamp("us", tz="UTC"): "timestamptz",
        pa.decimal128(20, 6): "numeric(20, 6)",
    }
    columns = ", ".join(f"{field.name} {types[field.type]}" for field in SCHEMA)
    with postgres_server.running() as url:
        with psycopg.connect(url) as connection, connection.cursor() as cursor:
            cursor.execute("ALTER DATABASE postgres SET timezone = 'America/New_York'")
            cursor.execute("SET timezone = 'America/New_York'")
            cursor.execute(f"CREATE SCHEMA logged; CREATE TABLE logged.log ({columns})")
            with cursor.copy("COPY logged.log FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(list(row.values()))
        yield url


def same(left, right):
    """Two logs with the same cells, to 1e-9, and the same facts."""
    assert left.tasks == right.tasks
    assert left.arms == right.arms
    for name in ("counts", "means", "squares", "rows"):
        np.testing.assert_allclose(
            getattr(left, name), getattr(right, name), rtol=1e-12, atol=1e-9, err_msg=name
        )
    np.testing.assert_allclose(left.noise_std, right.noise_std, rtol=1e-9)
    for ours, theirs in zip(*(vars(log.evidence()).values() for log in (left, right)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)  # float32: the same bits, nearly always
    ignored = ("source", "zone_assumed")  # Ibis has one type for Spark's two kinds of timestamps
    facts = [
        {k: v for k, v in vars(log.facts).items() if k not in ignored} for log in (left, right)
    ]
    assert facts[0] == facts[1]


def test_duckdb_counts_what_plain_python_counts(rows, parquet):
    """With exact fractions for sums: the two steps lose nothing of offsets of a million."""
    from fractions import Fraction

    log = read_log(parquet, WAYS["decimals"])
    found = {}
    for row in rows:
        if None not in (row["task"], row["arm"], row["price"]):
            found.setdefault((row["task"].strip(), str(row["arm"])), []).append(row["price"])
    for (task, arm), prices in found.items():
        cell = log.tasks.index(task), log.arms.index(arm)
        values = [Fraction(float(price)) for price in prices]
        mean = sum(values) / len(values)
        assert log.counts[cell] == len(values)
        assert log.means[cell] == pytest.approx(float(mean), rel=0, abs=1e-9)
        exact = float(sum((value - mean) ** 2 for value in values))
        assert log.squares[cell] == pytest.approx(exact, rel=1e-9, abs=1e-9)
    assert log.counts.sum() == sum(map(len, found.values()))
    assert log.facts.duplicates == 1
    assert log.facts.dropped.keys() == {"no task", "no arm", "no reward"}


def test_times_are_those_of_the_rows_used(rows, parquet):
    log = read_log(parquet, WAYS["text"])
    moments = [
        row["moment"]
        for row in rows
        if row["task"] and row["arm"] is not None and (row["words"] or "").strip()[-1:].isdigit()
    ]
    assert log.facts.first_time == min(moments).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert log.facts.last_time == max(moments).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert log.facts.zone_assumed


@pytest.mark.slow
def test_postgresql_gives_the_same(parquet, postgres):
    for columns in WAYS.values():
        there = read_log(f"{postgres}#logged.log", columns)
        same(there, read_log(parquet, columns))


@pytest.mark.slow
def test_postgresql_refuses_in_one_line(postgres):
    with psycopg.connect(postgres) as connection:
        connection.execute("CREATE TABLE bad (task text, arm text, reward text, rate float8)")
        connection.execute("INSERT INTO bad VALUES ('ann', 'x', '1', 1), ('bob', 'y', '2%', 'inf')")
    for name in ("reward", "rate"):
        with pytest.raises(
            InvalidInputError, match=f"#bad: column '{name}', task 'bob': not a num"
        ):
            read_log("bad", Columns(reward=name), connection=postgres)
    with pytest.raises(InvalidInputError, match="#none: no such table"):
        read_log("none", connection=postgres)


@pytest.mark.long(reason="needs 400 MB of PySpark, and takes half a minute to start it")
def test_spark_gives_the_same(parquet):
    if shutil.which("java") is None:
        pytest.skip("no Java here: scripts/debian-for-tests java installs one")
    sql = pytest.importorskip("pyspark.sql", reason="no PySpark here: pip install 'diffts[spark]'")
    session = (
        sql.SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "3")
        .config("spark.sql.session.timeZone", "America/New_York")
        .getOrCreate()
    )
    try:
        connection = ibis.pyspark.connect(session)
        session.read.parquet(str(parquet)).createOrReplaceTempView("log")
        for columns in WAYS.values():
            same(read_log("log", columns, connection=connection), read_log(parquet, columns))
        odd = connection.table("log").mutate(reward=ibis.literal("5%"))
        with pytest.raises(InvalidInputError, match=r"column 'reward', task .*not a number: '5%'"):
            read_log(odd)
    finally:
        session.stop()
