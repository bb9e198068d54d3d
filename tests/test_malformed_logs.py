"""Logs that cannot be used: each is refused in one line that says where and what is wrong."""

import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from diffts.errors import InvalidInputError
from diffts.logs import Columns, read_log

GOOD = "task,arm,reward\nann,x,1\nann,y,0\nbob,x,0.5\n"
TIMED = Columns(time="time")
COUNTED = Columns(count="count")
CHANCED = Columns(propensity="propensity")


def rows(*lines, header="task,arm,reward"):
    """A good log with some lines more."""
    return "\n".join([header, "ann,x,1", "ann,y,0", *lines, ""])


def more(name, *lines):
    """A good log with one column more, and some lines more."""
    value = {"time": "2024-01-31", "count": "3", "propensity": "0.5"}[name]
    return "\n".join(
        [f"task,arm,reward,{name}", f"ann,x,1,{value}", f"ann,y,0,{value}", *lines, ""]
    )


# Each: what is in log.csv, which columns, and what the line must say.
TEXTS = {
    "an empty file": ("", None, "log.csv: empty"),
    "blank lines only": ("\n\n  \n", None, "log.csv: empty"),
    "only a header": ("task,arm,reward\n", None, "no rows"),
    "no header": ("ann,x,1\nann,y,0\n", None, "no column 'task'"),
    "a column missing": (
        "task,arm\nann,x\n",
        None,
        "no column 'reward'; columns are 'task', 'arm'",
    ),
    "a name nearly right": (
        "task,arm,rewards\nann,x,1\n",
        None,
        "no column 'reward'; did you mean 'rewards'?",
    ),
    "capitals": ("Task,Arm,Reward\nann,x,1\n", None, "did you mean 'Task'?"),
    "the user's name wrong": (
        GOOD,
        Columns(task="user"),
        "no column 'user' (the task); columns are 'task', 'arm', 'reward'",
    ),
    "two columns of one name": (
        "task,arm,reward,reward\nann,x,1,2\n",
        None,
        "2 columns named 'reward'",
    ),
    "an unknown delimiter": ("task:arm:reward\nann:x:1\n", None, "columns are 'task:arm:reward'"),
    "a row too short": (rows("bob,x"), None, "line 4: expected 3 columns, got 2"),
    "a row too long": (rows("bob,x,1,2,3"), None, "line 4: expected 3 columns, got more"),
    "a quote left open": (rows('bob,"x,1', "bob,y,2"), None, "line 4: a quote is not closed"),
    "words for rewards": (
        rows("bob,x,good"),
        None,
        "column 'reward', row 3: not a number: 'good' (1 such)",
    ),
    "a percent sign": (rows("bob,x,5%"), None, "not a number: '5%'; write percents as shares"),
    "a decimal comma": (
        "task;arm;reward\nann;x;1\nann;y;0\nbob;x;0,5\n",
        None,
        "'0,5'; write decimals with a point",
    ),
    "thousands": (rows('bob,x,"1,000.5"'), None, "not a number: '1,000.5'"),
    "a currency": (rows("bob,x,$3"), None, "row 3: not a number: '$3'"),
    "an infinite reward": (rows("bob,x,inf"), None, "row 3: not a number: 'inf'"),
    "a reward beyond all bounds": (rows("bob,x,1e30"), None, "row 3: not a number: '1e30'"),
    "a date for a reward": (rows("bob,x,2024-01-31"), None, "not a number: '2024-01-31'"),
    "no reward at all": (
        "task,arm,reward\nann,x,\nann,y,\n",
        None,
        "none of 2 rows can be used: 2 no reward",
    ),
    "no arm at all": ("task,arm,reward\nann,,1\nbob,,0\n", None, "2 no arm"),
    "names of blanks": ("task,arm,reward\nann,  ,1\nbob, ,0\n", None, "names are blank"),
    "a single arm": ("task,arm,reward\nann,x,1\nbob,x,0\n", None, "a single arm, 'x'"),
    "all rewards the same": (
        "task,arm,reward\nann,x,1\nann,y,1\nbob,x,1\n",
        None,
        "all rewards are 1: nothing can be learned",
    ),
    "one number in two spellings": (
        "task,arm,reward\nann,1,1\nann,1.0,0\nann,2,0\n",
        None,
        "arm: both '1' and '1.0' occur",
    ),
    "a negative count": (
        more("count", "bob,x,1,-2"),
        COUNTED,
        "column 'count', row 3: not a whole number of at least 0: '-2'",
    ),
    "a fractional count": (more("count", "bob,x,1,2.5"), COUNTED, "row 3: not a whole number"),
    "counts of 0 alone": (
        "task,arm,reward,count\nann,x,1,0\nann,y,0,0\n",
        COUNTED,
        "none of 2 rows can be used: 2 count of 0",
    ),
    "a chance above 1": (
        more("propensity", "bob,x,1,1.5"),
        CHANCED,
        "column 'propensity', row 3: not a number above 0 and at most 1: '1.5'",
    ),
    "a chance of 0": (more("propensity", "bob,x,1,0"), CHANCED, "row 3: not a number above 0"),
    "no time": (
        more("time", "bob,x,1,yesterday"),
        TIMED,
        "column 'time', row 3: not a time (ISO 8601, or seconds since 1970): 'yesterday'",
    ),
    "a day that is none": (more("time", "bob,x,1,2024-02-30"), TIMED, "not a time"),
    "a day the other way round": (more("time", "bob,x,1,31.01.2024"), TIMED, "'31.01.2024'"),
}


def one_line(source, columns=None, **options):
    """The line that a log is refused with."""
    with pytest.raises(InvalidInputError) as caught:
        read_log(source, columns, **options)
    line = str(caught.value)
    assert "\n" not in line
    assert len(line) < 400
    return line


@pytest.mark.parametrize("name", TEXTS)
def test_text(tmp_path, name):
    text, columns, expected = TEXTS[name]
    path = tmp_path / "log.csv"
    path.write_text(text)
    line = one_line(path, columns)
    assert expected in line
    assert "log.csv" in line or line.startswith("arm:")


def latin_1(folder):
    (folder / "log.csv").write_bytes("task,arm,reward\nann,x,1\nrené,y,0\n".encode("latin-1"))
    return folder / "log.csv"


def utf_16(folder):
    (folder / "log.csv").write_bytes(GOOD.encode("utf-16"))
    return folder / "log.csv"


def no_parquet(folder):
    (folder / "log.parquet").write_text(GOOD)
    return folder / "log.parquet"


def half_a_parquet(folder):
    pq.write_table(
        pa.table({"task": ["a"], "arm": ["x"], "reward": [1.0]}), folder / "whole.parquet"
    )
    (folder / "log.parquet").write_bytes((folder / "whole.parquet").read_bytes()[:-20])
    return folder / "log.parquet"


def no_gzip(folder):
    (folder / "log.csv.gz").write_text(GOOD)
    return folder / "log.csv.gz"


def half_a_gzip(folder):
    (folder / "log.csv.gz").write_bytes(gzip.compress(GOOD.encode())[:-12])
    return folder / "log.csv.gz"


def a_spreadsheet(folder):
    (folder / "log.xlsx").write_bytes(b"PK\x03\x04")
    return folder / "log.xlsx"


def an_empty_folder(folder):
    (folder / "readme.md").write_text("no log")
    return folder


def two_kinds_of_files(folder):
    (folder / "a.csv").write_text(GOOD)
    pq.write_table(pa.table({"task": ["a"], "arm": ["x"], "reward": [1.0]}), folder / "b.parquet")
    return folder


def a_file_with_other_columns(folder):
    (folder / "a.csv").write_text(GOOD)
    (folder / "b.csv").write_text("user,item,reward\nann,x,1\n")
    return folder


def a_bad_row_in_the_second_file(folder):
    (folder / "a.csv").write_text(GOOD)
    (folder / "b.csv").write_text(rows("bob,x,bad"))
    return folder


def a_short_row_in_the_second_file(folder):
    (folder / "a.csv").write_text(GOOD)
    (folder / "b.csv").write_text(rows("bob,x"))
    return folder


def arms_of_two_types(folder):
    pq.write_table(pa.table({"task": ["a"], "arm": ["x"], "reward": [1.0]}), folder / "a.parquet")
    pq.write_table(pa.table({"task": ["a"], "arm": [1], "reward": [0.0]}), folder / "b.parquet")
    return folder


def lists_for_arms(folder):
    table = pa.table({"task": ["a", "b"], "arm": [["x"], ["y"]], "reward": [1.0, 0.0]})
    pq.write_table(table, folder / "log.parquet")
    return folder / "log.parquet"


FILES = {
    latin_1: "log.csv: line 3: not UTF-8",
    utf_16: "log.csv: encoded as UTF-16",
    no_parquet: "log.parquet: ",
    half_a_parquet: "log.parquet: ",
    no_gzip: "log.csv.gz: cannot be read",
    half_a_gzip: "log.csv.gz: cannot be read",
    a_spreadsheet: "log.xlsx: unknown kind of file",
    an_empty_folder: "no CSV or Parquet file in this folder",
    two_kinds_of_files: "side by side",
    a_file_with_other_columns: "b.csv: no column 'task'; columns are 'user', 'item', 'reward'",
    a_bad_row_in_the_second_file: "b.csv: column 'reward', row 3: not a number: 'bad'",
    a_short_row_in_the_second_file: "b.csv, line 4: expected 3 columns, got 2",
    arms_of_two_types: "arm: string in a.parquet, int64 in b.parquet",
    lists_for_arms: "arm: expected names or numbers, got a column of type array<string>",
}


@pytest.mark.parametrize("make", FILES, ids=lambda make: make.__name__)
def test_files(tmp_path, make):
    assert FILES[make] in one_line(make(tmp_path))


def test_nothing_there(tmp_path):
    assert "no such file" in one_line(tmp_path / "none.csv")
    assert "no file matches" in one_line(tmp_path / "*.csv")


FRAME = {"task": ["a", "a", "b"], "arm": ["x", "y", "x"], "reward": [1.0, 0.0, 0.5]}
FRAMES = {
    "a number for a log": (3, {}, "log: expected a CSV or Parquet file"),
    "an empty frame": (pd.DataFrame(FRAME).iloc[:0], {}, "table: no rows"),
    "an infinite reward": (
        pd.DataFrame({**FRAME, "reward": [1.0, np.inf, 0.0]}),
        {},
        "table: column 'reward', row 2: not a number: 'inf'",
    ),
    "rewards of all kinds": (
        pd.DataFrame({**FRAME, "reward": [1, "two", None]}),
        {},
        "column 'reward', row 2: not a number: 'two'",
    ),
    "times for rewards": (
        pd.DataFrame({**FRAME, "reward": pd.to_datetime(["2024-01-01"] * 3)}),
        {},
        "reward: expected numbers, got a column of type timestamp",
    ),
    "too many cells": (
        pd.DataFrame(FRAME),
        {"most_cells": 3},
        "2 tasks with 2 arms make 4 cells, more than 3",
    ),
    "arms all too rare": (
        pd.DataFrame(FRAME),
        {"min_pulls_of_an_arm": 9},
        "min_pulls_of_an_arm: no arm has 9 pulls; the most is 2",
    ),
    "arms asked for without a number": (
        pd.DataFrame(FRAME),
        {"min_pulls_of_an_arm": 0},
        "min_pulls_of_an_arm: must be a whole number",
    ),
    "a table of an unknown database": ("nosuch://host/db#log", {}, "nosuch://host/db"),
    "a database without a table": ("duckdb://", {}, "no table named; write URL#TABLE"),
    "a table that is not there": ("duckdb://#log", {}, "no such table"),
}


@pytest.mark.parametrize("name", FRAMES)
def test_tables(name):
    source, options, expected = FRAMES[name]
    assert expected in one_line(source, **options)


def test_columns_that_cannot_be():
    with pytest.raises(InvalidInputError, match="columns: 'x' is named for two things"):
        Columns(task="x", arm="x")
    with pytest.raises(InvalidInputError, match="arm: expected the name of a column, got ''"):
        Columns(arm="")


def test_there_are_forty():
    assert len(TEXTS) + len(FILES) >= 40


def test_a_password_is_never_shown():
    line = one_line("postgresql://me:secret@127.0.0.1:1/db#log")
    assert "secret" not in line
    assert "postgresql://me@127.0.0.1:1/db" in line
