"""Bidding: simulated slots, logs in every layout, real slots.

Tests that need the real iPinYou data read it from ``DIFFTS_DATA_DIR``.
"""

import bz2
import csv
import json
import os
import random
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffts.errors import InvalidInputError
from diffts.problems import Bidding, get_problem
from diffts.problems.bidding import WinLoseRewards, mean_rewards, payoffs, win_rates_from_counts
from diffts.problems.ipinyou_logs import COLUMNS, EXTRA_LEADING_COLUMNS, read_slot_prices
from diffts.problems.simulated_slots import FLOORS, simulate_price_cdfs

STANDARD_ERRORS = 5.0  # of a normal statistic, passed by chance once in 1.7 million checks


class TestSimulatedBidding:
    problem = get_problem("bidding")
    tasks = problem.sample(1000, seed=0)
    wins = tasks / payoffs()

    def test_says_that_it_is_simulated(self):
        assert "simulated" in self.problem.source

    def test_means_are_payoff_times_a_distribution_function(self):
        assert self.tasks.shape == (1000, 300)
        assert (np.diff(self.wins, axis=1) > -1e-6).all()
        assert self.wins.min() >= 0
        assert self.wins.max() <= 1 + 1e-6

    def test_prices_start_at_the_floor(self):
        cdfs = simulate_price_cdfs(500, np.random.default_rng(0))
        first = (cdfs > 0).argmax(axis=1)
        assert set(first.tolist()) <= {5, *FLOORS.tolist()}
        # The floor with its highest mark-up: in some slots nobody bids more, in others everybody.
        at_floor = cdfs[np.arange(500), first * 110 // 100]
        assert at_floor.min() < 0.02
        assert at_floor.max() > 0.98

    def test_slots_differ_as_the_real_ones_do(self):
        # E[price] = Σ_b P(price > b); the real slots' 5%, 50% and 95% quantiles, roughly.
        mean_price = (1 - np.clip(self.wins, 0, 1)).sum(axis=1)
        low, middle, high = np.quantile(mean_price, [0.05, 0.5, 0.95])
        assert abs(low - 20) < 10
        assert abs(middle - 68) < 15
        assert abs(high - 178) < 30

    def test_rewards_are_nothing_or_the_payoff(self):
        arms = jnp.arange(300)
        rewards = np.asarray(WinLoseRewards()(jax.random.key(0), jnp.asarray(self.tasks[0]), arms))
        won = rewards > 0
        np.testing.assert_allclose(rewards[won], payoffs()[won], rtol=1e-6)
        assert not won[self.tasks[0] == 0].any()

    def test_certain_wins_and_losses(self):
        arms = jnp.tile(jnp.arange(300), (200, 1))
        always = WinLoseRewards()(jax.random.key(0), jnp.asarray(payoffs()), arms)
        np.testing.assert_allclose(always.mean(axis=0), payoffs(), rtol=1e-5)
        assert not WinLoseRewards()(jax.random.key(0), jnp.zeros(300), arms).any()


# Two slots with known prices; a third is unknown, a fourth too rare.
PRICES = {"slot_a": [20] * 6 + [70] * 2, "slot_b": [0, 299, 300, 5], "null": [1] * 9, "rare": [9]}


def log_rows(extra=False):
    rows = []
    for slot, prices in PRICES.items():
        for number, price in enumerate(prices):
            row = dict.fromkeys(COLUMNS, "x")
            row |= {"bidid": f"{slot}{number}", "slotid": slot, "payprice": str(price)}
            leading = ["0", "2", "13"] if extra else []
            rows.append([*leading, *(row[name] for name in COLUMNS)])
    random.Random(0).shuffle(rows)
    return rows


def as_text(rows):
    return "".join("\t".join(row) + "\n" for row in rows)


def write_original(folder):
    (folder / "imp.20130606.txt").write_text(as_text(log_rows()))


def write_original_bz2(folder):
    rows = log_rows()
    (folder / "imp.20130606.txt.bz2").write_bytes(bz2.compress(as_text(rows[:7]).encode()))
    (folder / "deeper").mkdir()
    rest = bz2.compress(as_text(rows[7:]).encode())
    (folder / "deeper" / "imp.20130607.txt.bz2").write_bytes(rest)


def write_with_leading_columns(folder):
    (folder / "train.log.txt").write_text(as_text(log_rows(extra=True)))


def write_with_header(folder):
    header = [EXTRA_LEADING_COLUMNS + COLUMNS]
    (folder / "train.log.txt").write_text(as_text(header + log_rows(extra=True)))


def write_windows_line_ends(folder):
    (folder / "imp.txt").write_bytes(as_text(log_rows()).replace("\n", "\r\n").encode())


def write_csv(folder):
    with open(folder / "prices.csv", "w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["payprice", "note", "slotid"])
        writer.writerows([price, 'a, "b"', slot] for slot in PRICES for price in PRICES[slot])


WRITERS = [
    write_original,
    write_original_bz2,
    write_with_leading_columns,
    write_with_header,
    write_windows_line_ends,
    write_csv,
]


class TestRealLogs:
    @pytest.mark.parametrize("write", WRITERS)
    def test_every_layout_gives_the_same_slots(self, tmp_path, write):
        write(tmp_path)
        found = read_slot_prices(tmp_path, min_prices=4)
        assert found.slots == ("slot_a", "slot_b")
        assert found.counts.shape == (2, 301)
        expected = [np.bincount(PRICES[slot], minlength=301) for slot in found.slots]
        np.testing.assert_array_equal(found.counts, expected)
        assert read_slot_prices(tmp_path, min_prices=1).slots == ("rare", "slot_a", "slot_b")

    def test_a_single_file_can_be_named(self, tmp_path):
        write_original(tmp_path)
        assert Bidding.from_logs(str(tmp_path / "imp.20130606.txt"), 8).win_rates.shape == (1, 300)

    def test_other_files_in_the_folder_are_left_alone(self, tmp_path):
        write_original(tmp_path)
        write_csv(tmp_path)  # would count the same auctions again
        (tmp_path / "NOTES.txt").write_text("Logs of won auctions.\nSee\tthere.\n")
        (tmp_path / "clk.20130606.txt").write_text(as_text(log_rows()))
        (tmp_path / "bid.20130606.txt").write_text("21\tcolumns\tand\tno\tprice\n")
        assert read_slot_prices(tmp_path, min_prices=1).counts.sum() == 8 + 4 + 1

    def test_means_of_a_known_slot(self, tmp_path):
        write_original(tmp_path)
        problem = Bidding.from_logs(tmp_path, min_prices=8)
        assert problem.source == f"1 real ad slots from {tmp_path.name}"
        means = problem.sample(1, seed=0)[0]
        bids = np.arange(300)
        wins = np.where(bids >= 70, 1.0, np.where(bids >= 20, 6 / 8, 0.0))
        np.testing.assert_allclose(means, wins * (300 - bids) / 300, rtol=1e-6)

    def test_a_price_of_300_or_more_is_never_won(self):
        counts = np.zeros((1, 301))
        counts[0, [0, 300]] = 1, 3
        assert (win_rates_from_counts(counts) == 1 / 4).all()

    def test_prices_above_300_count_as_300(self, tmp_path):
        rows = [row for row in log_rows() if "slot_a" in row]
        rows[0][COLUMNS.index("payprice")] = "1234"
        (tmp_path / "imp.txt").write_text(as_text(rows))
        assert read_slot_prices(tmp_path, min_prices=1).counts[0, 300] == 1

    def test_a_folder_without_logs(self, tmp_path):
        with pytest.raises(InvalidInputError, match="has no iPinYou logs"):
            Bidding.from_logs(tmp_path)
        (tmp_path / "NOTES.txt").write_text("nothing here\n")
        with pytest.raises(InvalidInputError, match="has no iPinYou logs"):
            Bidding.from_logs(tmp_path)
        with pytest.raises(InvalidInputError, match="no file or folder"):
            Bidding.from_logs(tmp_path / "absent")
        (tmp_path / "prices.parquet").write_bytes(b"PAR1")
        with pytest.raises(InvalidInputError, match=r"not a \.txt, \.txt\.bz2 or \.csv file"):
            Bidding.from_logs(tmp_path / "prices.parquet")

    def test_a_missing_column(self, tmp_path):
        (tmp_path / "imp.txt").write_text(as_text([row[:-1] for row in log_rows()]))
        with pytest.raises(InvalidInputError, match=r"has 23 columns, expected 24 or 27"):
            Bidding.from_logs(tmp_path)

    @pytest.mark.parametrize("name", ["slotid", "payprice"])
    def test_a_missing_named_column(self, tmp_path, name):
        header = [column for column in EXTRA_LEADING_COLUMNS + COLUMNS if column != name]
        (tmp_path / "a.log.txt").write_text("\t".join(header) + "\n")
        with pytest.raises(InvalidInputError, match=f"has no column {name}"):
            Bidding.from_logs(tmp_path)
        other = "payprice" if name == "slotid" else "slotid"
        (tmp_path / "a.csv").write_text(f"{other},bidid\n1,2\n")
        with pytest.raises(InvalidInputError, match=f"has no column {name}"):
            Bidding.from_logs(tmp_path / "a.csv")

    def test_a_short_row_is_named(self, tmp_path):
        rows = log_rows()
        rows[3] = rows[3][:20]
        (tmp_path / "imp.txt").write_text(as_text(rows))
        with pytest.raises(InvalidInputError, match="line 4: 20 columns, expected 24"):
            Bidding.from_logs(tmp_path)

    @pytest.mark.parametrize("price", ["-1", "free", "", "1.5", "1_0"])
    def test_a_price_that_is_no_number_is_named(self, tmp_path, price):
        rows = [row for row in log_rows() if "null" not in row]
        rows[2][COLUMNS.index("payprice")] = price
        (tmp_path / "imp.txt").write_text(as_text(rows))
        with pytest.raises(InvalidInputError, match=r"line 3: payprice .* is not a whole number"):
            Bidding.from_logs(tmp_path)

    def test_a_damaged_archive(self, tmp_path):
        packed = bz2.compress(as_text(log_rows() * 50).encode())
        (tmp_path / "imp.txt.bz2").write_bytes(packed[: len(packed) // 2])
        with pytest.raises(InvalidInputError, match="cannot read"):
            Bidding.from_logs(tmp_path, min_prices=1)
        (tmp_path / "imp.txt.bz2").write_text("not packed at all")
        with pytest.raises(InvalidInputError, match="cannot read"):
            Bidding.from_logs(tmp_path, min_prices=1)

    def test_too_few_prices(self, tmp_path):
        write_original(tmp_path)
        with pytest.raises(InvalidInputError, match=r"none of 3 slot\(s\).* the most is 8"):
            Bidding.from_logs(tmp_path)
        with pytest.raises(InvalidInputError, match=r"^min_prices: "):
            Bidding.from_logs(tmp_path, min_prices=0)


class TestRealSlots:
    """A set of real slots is finite: tasks are dealt out without replacement."""

    rates = np.cumsum(np.random.default_rng(0).dirichlet(np.ones(301), size=30), axis=1)[:, :300]
    problem = Bidding(rates.clip(0, 1), source="30 made-up slots")

    def test_no_slot_is_in_two_sets(self):
        sets = self.problem.split(train=15, calibration=10, test=5, seed=1)
        assert [len(tasks) for tasks in sets] == [15, 10, 5]
        dealt = np.concatenate(sets)
        assert len(np.unique(dealt, axis=0)) == 30
        everything = mean_rewards(self.problem.win_rates)
        np.testing.assert_array_equal(np.unique(dealt, axis=0), np.unique(everything, axis=0))

    def test_the_test_set_does_not_depend_on_the_rest(self):
        small = self.problem.split(train=2, calibration=2, test=5, seed=1)
        large = self.problem.split(train=15, calibration=10, test=5, seed=1)
        np.testing.assert_array_equal(small.test, large.test)

    def test_development_slots_are_in_no_other_set(self):
        for seed in (1, 2):  # the split's own seed, and another
            sets = self.problem.split(train=10, calibration=5, test=5, seed=1)
            tasks = self.problem.development(10, seed=seed, beside=sets)
            assert len(np.unique(np.concatenate([*sets, tasks]), axis=0)) == 30
        np.testing.assert_array_equal(tasks, self.problem.development(10, seed=2, beside=sets))
        with pytest.raises(InvalidInputError, match=r"11 development tasks.* only 10 of 30"):
            self.problem.development(11, beside=sets)
        with pytest.raises(InvalidInputError, match=r"^beside: tasks are dealt"):
            self.problem.development(1)

    def test_too_few_slots(self):
        with pytest.raises(InvalidInputError, match="1352 tasks asked for, but there are only 30"):
            self.problem.split()
        with pytest.raises(InvalidInputError, match="31 tasks asked for, but there are only 30"):
            self.problem.sample(31, seed=0)

    def test_win_rates_are_checked(self):
        with pytest.raises(InvalidInputError, match="never fall"):
            Bidding(self.rates[:, ::-1])
        with pytest.raises(InvalidInputError, match="expected shape"):
            Bidding(self.rates[:, :299])


DATA = os.environ.get("DIFFTS_DATA_DIR")


@pytest.mark.skipif(not DATA, reason="DIFFTS_DATA_DIR (folder of the real data) is not set")
class TestRealData:
    folder = Path(DATA or ".")

    def test_merged_csv_has_ninety_slots_with_fifty_prices(self):
        problem = Bidding.from_logs(self.folder / "ipinyou_slots" / "merged_slot_prices.csv", 50)
        assert problem.win_rates.shape == (90, 300)
        mean_prices = (1 - problem.win_rates).sum(axis=1)
        assert mean_prices.min() == pytest.approx(7.5, abs=0.1)
        assert mean_prices.max() == pytest.approx(214.6, abs=0.1)

    def test_log_in_the_original_columns(self):
        found = read_slot_prices(self.folder / "ipinyou_slots", min_prices=1)
        assert found.counts.sum() == 8355

    def test_simulated_prices_resemble_the_campaigns(self):
        counts = np.zeros(301)
        for campaign in (1458, 3358, 3386, 3427, 3476):
            info = self.folder / "ipinyou_campaigns" / f"{campaign}.info.json"
            counts += json.loads(info.read_text())["price_counter_train"]
        cdf = simulate_price_cdfs(4000, np.random.default_rng(0)).mean(axis=0)
        real_cdf = np.cumsum(counts / counts.sum())
        assert np.abs(cdf - real_cdf).sum() < 4.0  # Wasserstein-1, in units of price
        assert 0.5 * np.abs(np.diff(cdf - real_cdf, prepend=0)).sum() < 0.16
