"""Logs that can be used: what is counted, what is left out and said, what the noise is."""

import gzip
import json

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffts import Evidence
from diffts.errors import InvalidInputError
from diffts.logs import Columns, Log, read_log

TEXT = "task,arm,reward\nann,x,1\nann,x,3\nann,y,0.5\nbob,y,-2\n"


def check(log):
    """That a log is the one of TEXT."""
    assert log.tasks == ("ann", "bob")
    assert log.arms == ("x", "y")
    assert log.counts.tolist() == [[2, 1], [0, 1]]
    assert log.means.tolist() == [[2, 0.5], [0, -2]]
    assert log.squares.tolist() == [[2, 0], [0, 0]]
    assert log.facts.rows_used == 4
    assert (log.facts.least_reward, log.facts.largest_reward) == (-2, 3)


def write(folder, name, text=TEXT):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    return path


class TestSources:
    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("log.csv", TEXT),
            ("log.csv.gz", TEXT),
            ("LOG.CSV", TEXT),
            ("a [strange] name*.csv", TEXT),
            ("semicolons.csv", TEXT.replace(",", ";")),
            ("tabs.tsv", TEXT.replace(",", "\t")),
            ("windows.csv", TEXT.replace("\n", "\r\n")),
            ("bom.csv", "\ufeff" + TEXT),
            ("blanks.csv", TEXT.replace(",", " , ")),
            ("quoted.csv", TEXT.replace("ann", '"ann"').replace("0.5", '"0.5"')),
            ("blank lines.csv", TEXT.replace("ann,y", "\nann,y") + "\n\n"),
            ("more.csv", "id,task,id,arm,reward\n1,ann,,x,1\n2,ann,,x,3\n3,ann,,y,.5\n4,bob,,y,-2"),
        ],
    )
    def test_csv(self, tmp_path, name, text):
        check(read_log(write(tmp_path, name, text)))

    def test_a_folder_and_a_pattern(self, tmp_path):
        lines = TEXT.splitlines()
        write(tmp_path, "logs/2024/a.csv", "\n".join(lines[:3]))
        write(tmp_path, "logs/b.csv", "reward;arm;task\n0.5;y;ann\n-2;y;bob\n")  # another layout
        write(tmp_path, "logs/.hidden.csv", "not a log")
        write(tmp_path, "logs/_SUCCESS", "")
        check(read_log(tmp_path / "logs"))
        check(read_log(str(tmp_path / "logs" / "**" / "?.csv")))

    def test_parquet(self, tmp_path):
        frame = pd.read_csv(write(tmp_path, "log.csv"))
        frame.iloc[:2].to_parquet(tmp_path / "1.parquet")
        other = frame.iloc[2:].astype({"reward": "float32"})  # another type of the same thing
        other.to_parquet(tmp_path / "2.parquet")
        check(read_log(tmp_path / "*.parquet"))

    def test_tables(self, tmp_path):
        frame = pd.read_csv(write(tmp_path, "log.csv"))
        check(read_log(frame))
        check(read_log(pa.Table.from_pandas(frame)))
        check(read_log(frame.astype({"task": "category", "arm": "string", "reward": object})))
        connection = ibis.duckdb.connect(tmp_path / "logs.duckdb")
        connection.raw_sql(f"CREATE TABLE log AS FROM '{tmp_path}/log.csv'")
        table = connection.table("log")
        check(read_log(table))
        check(read_log(table.filter(table.reward > -9)))
        check(read_log("main.log", connection=connection))
        connection.disconnect()
        check(read_log(f"duckdb://{tmp_path}/logs.duckdb#log"))

    def test_a_connection_is_for_names(self, tmp_path):
        with pytest.raises(InvalidInputError, match="connection: for the name of a table"):
            read_log(tmp_path, connection=ibis.duckdb.connect())


class TestNames:
    def test_numbers_have_one_name_however_they_are_kept(self):
        for arms in ([1, 2, 10], [1.0, 2.0, 10.0], ["1", 2, 10.0], ["1 ", " 2", "10"]):
            frame = pd.DataFrame({"task": list("aab"), "arm": arms, "reward": [1, 0, 0.5]})
            assert read_log(frame).arms == ("1", "2", "10")

    def test_text_stays_what_it_is(self, tmp_path):
        text = "task,arm,reward\na,007,1\na,NA,0\na,None,1\na,1e3,0\n"
        assert read_log(write(tmp_path, "log.csv", text)).arms == ("007", "1e3", "NA", "None")

    def test_other_values(self):
        frame = pd.DataFrame(
            {
                "task": pd.to_datetime(["2024-02-01", "2024-01-31", "2024-02-01"]).date,
                "arm": [0.25, 1e-7, 0.25],
                "reward": [True, False, True],
            }
        )
        log = read_log(frame)
        assert log.tasks == ("2024-01-31", "2024-02-01")
        assert log.arms == ("0.25", "1e-07")
        assert log.is_binary

    def test_blanks_around_a_name_are_no_part_of_it(self):
        rewards = [1e6 + 0.1, 1e6 + 0.3, 1e6 + 0.8, 7]
        arms = ["x", "x ", "\u00a0x", "y"]  # the third has a blank that databases do not know
        log = read_log(pd.DataFrame({"task": "a", "arm": arms, "reward": rewards}))
        assert log.counts.tolist() == [[3, 1]]
        assert log.means[0, 0] == pytest.approx(1e6 + 0.4, rel=0, abs=1e-9)
        assert log.squares[0, 0] == pytest.approx(0.26, rel=1e-6)


class TestRewards:
    def test_words(self, tmp_path):
        text = "task,arm,reward\na,x,TRUE\na,y,false\na,x,+1.\na,y,1e-005\na,x, .5\n"
        log = read_log(write(tmp_path, "log.csv", text))
        np.testing.assert_allclose(log.means, [[2.5 / 3, 5e-6]], rtol=1e-14)

    def test_nothing_is_lost_beside_a_large_offset(self):
        rng = np.random.default_rng(0)
        offsets = np.repeat([1e6 + 0.1, 1e12, 0.0], 1000)
        rewards = offsets + rng.integers(0, 1000, 3000) / 1024  # exact beside any of them
        frame = pd.DataFrame({"task": offsets.astype(str), "arm": "x", "reward": rewards})
        log = read_log(frame, to_learn=False)
        for task, name in enumerate(log.tasks):
            own = rewards[offsets == float(name)] - float(name)
            exact = float(np.sum((own - own.mean()) ** 2))
            assert log.squares[task, 0] == pytest.approx(exact, rel=1e-9)

    @pytest.mark.slow
    @settings(max_examples=15)
    @given(
        st.lists(
            st.tuples(
                st.sampled_from("abc"),
                st.sampled_from("xyz"),
                st.floats(-1e9, 1e9),
                st.integers(1, 1000),
            ),
            min_size=1,
            max_size=30,
        )
    )
    def test_counts_stand_for_pulls(self, rows):
        frame = pd.DataFrame(rows, columns=["task", "arm", "reward", "n"])
        log = read_log(frame, Columns(count="n"), to_learn=False)
        for (task, arm), group in frame.groupby(["task", "arm"]):
            cell = log.tasks.index(task), log.arms.index(arm)
            mean = np.average(group.reward, weights=group.n)
            largest = group.reward.abs().max()
            assert log.counts[cell] == group.n.sum()
            assert log.rows[cell] == len(group)
            assert log.means[cell] == pytest.approx(mean, rel=1e-12, abs=1e-13 * largest)
            if not log.is_binary:
                squares = np.sum(group.n * (group.reward - mean) ** 2)
                rounding = 1e-15 * group.n.sum() * largest**2
                assert log.squares[cell] == pytest.approx(squares, rel=1e-9, abs=rounding)

    def test_rates_of_clicks_are_clicks(self):
        """Rows of 20 and 5 pulls, with 3 and 1 clicks: as if each pull had been logged."""
        rates = pd.DataFrame({"task": "a", "arm": ["x", "x", "y"], "reward": [0.15, 0.2, 0.0]})
        log = read_log(rates.assign(n=[20, 5, 4]), Columns(count="n"))
        clicks = [1] * 3 + [0] * 17 + [1] + [0] * 8
        arms = ["x"] * 25 + ["y"] * 4
        single = read_log(pd.DataFrame({"task": "a", "arm": arms, "reward": clicks}))
        assert log.is_binary
        np.testing.assert_allclose(log.squares, single.squares, rtol=1e-12)
        np.testing.assert_allclose(log.evidence().std, single.evidence().std)

    def test_nan_in_parquet_is_missing(self, tmp_path):
        """Statistics of such a file show no NaN; DuckDB believes them (its issue 25521)."""
        rng = np.random.default_rng(0)
        values = {"reward": rng.random(1000), "arm": rng.integers(3, size=1000) * 1.0}
        values = {name: np.where(rng.random(1000) < 0.2, np.nan, v) for name, v in values.items()}
        pq.write_table(pa.table({"task": ["a"] * 1000, **values}), tmp_path / "log.parquet")
        log = read_log(tmp_path / "log.parquet")
        left = ~np.isnan(values["reward"]) & ~np.isnan(values["arm"])
        assert log.arms == ("0", "1", "2")
        assert log.facts.rows_used == log.counts.sum() == left.sum()
        assert np.isfinite(log.means).all()


class TestFacts:
    def test_rows_left_out_are_counted_once_each(self, tmp_path):
        text = TEXT + ",x,1\n  ,x,1\nann,,1\nann,y,\nann,y,nan\n,,\n,x,\n"
        facts = read_log(write(tmp_path, "log.csv", text)).facts
        assert facts.rows_read == 11
        assert facts.rows_used == 4
        assert facts.dropped == {"blank row": 1, "no task": 3, "no arm": 1, "no reward": 2}
        assert "3 of 11 rows left out: no task" in facts.sentences()
        json.dumps(facts.to_json())

    def test_arms_too_rare(self):
        frame = pd.DataFrame(
            {"task": [*"abcab", "c"], "arm": [*"xyxyx", "typo"], "reward": [1, 2, 3, 4, 5, 6]}
        )
        log = read_log(frame, min_pulls_of_an_arm=2)
        assert log.arms == ("x", "y")
        assert log.facts.rare_arms == {"typo": 1}
        assert log.facts.dropped == {"rare arm": 1}
        assert log.facts.rows_used == 5
        assert log.facts.largest_reward == 5
        assert log.facts.seldom_arms == ("x", "y")  # less than ten pulls
        assert log.facts.one_arm_tasks == 1
        assert read_log(frame).facts.rare_arms == {}

    def test_a_task_of_rare_arms_alone_is_gone(self):
        frame = pd.DataFrame({"task": list("aaab"), "arm": list("xxyz"), "reward": [1, 2, 3, 4]})
        frame = pd.concat([frame, frame.iloc[2:3]])
        assert read_log(frame, min_pulls_of_an_arm=2).tasks == ("a",)

    def test_times(self, tmp_path):
        times = ["2024-01-31T23:30:00-05:00", "2024-02-01 04:29Z", "1706700000", "2024-02-01", ""]
        rows = "".join(f"a,{arm},{arm},{time}\n" for arm, time in enumerate(times))
        path = write(tmp_path, "log.csv", "task,arm,reward,at\n" + rows)
        facts = read_log(path, Columns(time="at")).facts
        assert facts.first_time == "2024-01-31T11:20:00Z"
        assert facts.last_time == "2024-02-01T04:30:00Z"
        assert facts.zone_assumed
        assert "times without a zone were taken as UTC" in facts.sentences()

    @pytest.mark.parametrize("scale", [1, 10**3, 10**6, 10**9])
    def test_times_as_numbers(self, scale):
        frame = pd.DataFrame({"task": "a", "arm": [1, 2], "reward": [1, 0]})
        frame["at"] = np.array([1_706_700_000, 1_706_700_060]) * scale
        facts = read_log(frame, Columns(time="at")).facts
        assert (facts.first_time, facts.last_time) == (
            "2024-01-31T11:20:00Z",
            "2024-01-31T11:21:00Z",
        )
        assert not facts.zone_assumed

    def test_repeated_rows_are_kept_and_told_where_there_is_a_time(self):
        frame = pd.DataFrame({"task": "a", "arm": list("xxyy"), "reward": [1, 1, 0, 0]})
        assert read_log(frame).facts.duplicates is None
        timed = frame.assign(at="2024-01-31", session=[1, 1, 2, 3])
        log = read_log(timed, Columns(time="at"))
        assert log.facts.duplicates == 1
        assert log.counts.tolist() == [[2, 2]]

    def test_the_least_chance(self):
        frame = pd.DataFrame({"task": "a", "arm": list("xy"), "reward": [1, 0], "p": [0.25, 1.0]})
        assert read_log(frame, Columns(propensity="p")).facts.least_propensity == 0.25


class TestNoise:
    def test_it_is_that_within_tasks_and_arms(self):
        """Of 2,400 repeats: the standard error of σ is σ/√(2·2400); 4 of them are allowed."""
        rng = np.random.default_rng(1)
        task, arm = rng.integers(20, size=3000), rng.integers(30, size=3000)
        means = 10 * rng.normal(size=(20, 30))
        reward = means[task, arm] + 0.3 * rng.normal(size=3000)
        log = read_log(pd.DataFrame({"task": task, "arm": arm, "reward": reward}))
        assert log.noise_std == pytest.approx(0.3, rel=4 / np.sqrt(2 * 2400))
        assert not log.noise_is_assumed
        seen = np.asarray(log.evidence().mask)
        expected = (log.noise_std / np.sqrt(np.maximum(log.counts, 1)))[seen]
        np.testing.assert_allclose(np.asarray(log.evidence().std)[seen], expected, rtol=1e-6)

    def test_rows_of_many_pulls_tell_the_same_noise(self):
        """A row is the mean of 16 rewards of noise 2: the rows vary by 0.5, the noise is 2."""
        rng = np.random.default_rng(2)
        reward = 5 + rng.normal(size=1000) * 2 / 4
        frame = pd.DataFrame({"task": np.arange(1000) % 10, "arm": 1, "reward": reward, "n": 16})
        log = read_log(frame, Columns(count="n"), to_learn=False)
        assert log.noise_std == pytest.approx(2.0, rel=4 / np.sqrt(2 * 990))

    def test_clicks_are_never_certain(self):
        frame = pd.DataFrame({"task": "a", "arm": ["x"] * 10 + ["y"] * 4, "reward": [1] * 13 + [0]})
        log = read_log(frame)
        assert log.is_binary
        assert (np.asarray(log.evidence().std) > 0.01).all()

    def test_where_nothing_repeats_half_of_the_spread_is_noise(self):
        rng = np.random.default_rng(3)
        frame = pd.DataFrame({"task": np.arange(4000) // 2, "arm": np.arange(4000) % 2})
        log = read_log(frame.assign(reward=3.0 * rng.normal(size=4000) + 50 * frame.arm))
        assert log.noise_is_assumed
        assert log.noise_std == pytest.approx(3 / np.sqrt(2), rel=4 / np.sqrt(2 * 4000))

    def test_rewards_without_noise_leave_some(self):
        frame = pd.DataFrame({"task": "a", "arm": list("xxyy"), "reward": [0.2, 0.2, 7, 7]})
        log = read_log(frame)
        assert 0 < log.noise_std < 0.1 * 7


class TestLog:
    def log(self, n=10):
        counts = np.arange(n)[:, None] + np.ones((n, 2))
        return Log([f"t{i}" for i in range(n)], ["x", "y"], counts, counts, counts)

    def test_split_is_by_task(self):
        rest, held = self.log().split(0.3, seed=1)
        assert (len(rest.tasks), len(held.tasks)) == (7, 3)
        assert not set(rest.tasks) & set(held.tasks)
        for part in (rest, held):
            assert [f"t{int(n) - 1}" for n in part.counts[:, 0]] == list(part.tasks)
        assert self.log().split(0.3, seed=1)[1].tasks == held.tasks
        assert self.log().split(0.3, seed=2)[1].tasks != held.tasks
        assert len(self.log().split(0.0)[1].tasks) == len(self.log().split(1.0)[0].tasks) == 1
        with pytest.raises(InvalidInputError, match="1 task cannot be split"):
            self.log(1).split(0.5)

    def test_shapes_are_checked(self):
        with pytest.raises(InvalidInputError, match=r"means: expected shape \(1, 2\), got \(2,\)"):
            Log(["a"], ["x", "y"], [[1, 1]], [1, 1], [[0, 0]])

    def test_evidence_from_a_table(self, tmp_path):
        path = write(tmp_path, "log.csv", TEXT.replace("task,arm,reward", "user,item,stars"))
        evidence = Evidence.from_table(path, task="user", arm="item", reward="stars", noise_std=2.0)
        assert evidence.mean.tolist() == [[2, 0.5], [0, -2]]
        np.testing.assert_allclose(evidence.std, [[2 / np.sqrt(2), 2], [0, 2]])
        assert evidence.mask.tolist() == [[True, True], [False, True]]
        one_pull = pd.DataFrame({"task": ["a"], "arm": ["x"], "reward": [1]})
        assert Evidence.from_table(one_pull).mean.tolist() == [[1]]
