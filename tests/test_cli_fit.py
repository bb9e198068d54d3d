"""The road of a practitioner on the command line: fit, inspect, decide, reward."""

import json

import numpy as np
import pandas as pd
import pytest

from test_cli import diffts


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Clicks of 40 users on four items, of which the first two go together."""
    rng = np.random.default_rng(0)
    taste = rng.random(40)
    chances = np.stack([taste, taste, 1 - taste, np.full(40, 0.3)], axis=1)
    user, item = rng.integers(0, 40, 800), rng.integers(0, 4, 800)
    clicked = (rng.random(800) < chances[user, item]).astype(int)
    names = np.array(["tea", "green tea", "coffee", "<b>milk</b>"])
    file = tmp_path_factory.mktemp("log") / "log.csv"
    table = pd.DataFrame({"user": user, "item": names[item], "click": clicked})
    table.to_csv(file, index=False)
    return file


@pytest.mark.slow(seconds=20)
def test_from_a_csv_to_a_decision(log, tmp_path):
    folder = tmp_path / "fitted"
    named = ("--task", "user", "--arm", "item", "--reward", "click")
    result = diffts("fit", log, "--out", folder, *named, "--minutes", 0)
    assert result.returncode == 0, result.stderr
    verdict = json.loads((folder / "report.json").read_text())["verdict"]
    assert verdict["headline"] in result.stdout
    page = (folder / "report.html").read_text()
    assert verdict["headline"] in page
    assert "<b>milk</b>" not in page  # it is a name, and shown as one

    shown = diffts("inspect", folder)
    assert shown.returncode == 0, shown.stderr
    assert "green tea" in shown.stdout
    assert "bernoulli" in shown.stdout

    chosen = diffts("decide", folder, "choose", "--task", "carl", "--among", "tea,coffee", "--json")
    assert chosen.returncode == 0, chosen.stderr
    decision = json.loads(chosen.stdout)
    assert decision["arm"] in ("tea", "coffee")
    told = diffts("decide", folder, "reward", "--decision", decision["decision"], "--reward", 1)
    assert told.returncode == 0, told.stderr
    outside = diffts("decide", folder, "reward", "--decision", decision["decision"], "--reward", 7)
    assert outside.returncode == 2
    assert len(outside.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("task,arm,reward\na,x,lots\n", "'reward'"),
        ("task,arm\na,x\n", "reward"),
        ("", "log.csv"),
        ("task,arm,reward\na,x,1\na,y,0\n", "at least 8"),
    ],
)
def test_a_bad_log_is_one_line_and_no_folder(text, message, tmp_path):
    (tmp_path / "log.csv").write_text(text)
    result = diffts("fit", tmp_path / "log.csv", "--out", tmp_path / "fitted")
    assert result.returncode == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "fitted").exists()


@pytest.mark.parametrize("command", ["choose --task x", "reward --decision 1 --reward 1", "log"])
def test_a_folder_that_was_left_out_is_named_in_one_line(command):
    result = diffts("decide", *command.split())
    assert result.returncode == 2
    assert result.stderr.strip() == (
        f"error: DIR is missing, the folder of a fit: diffts decide DIR {command.split()[0]} …"
    )


def test_a_folder_may_be_called_like_a_command():
    result = diffts("decide", "log", "choose", "--task", "x")
    assert result.returncode == 1
    assert "DIR is missing" not in result.stderr


def test_every_column_is_named_in_the_help():
    shown = " ".join(diffts("fit", "--help").stdout.replace("│", " ").split())
    assert "how many pulls a row stands for" in shown
    assert "chance with which the arm was chosen" in shown


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [("--decisions", "9", "from 10 to 100000"), ("--minutes", "-1", "minutes")],
)
def test_impossible_lengths_are_one_line_before_the_log_is_read(option, value, message, tmp_path):
    result = diffts("fit", tmp_path / "absent.csv", "--out", tmp_path / "fitted", option, value)
    assert result.returncode == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
