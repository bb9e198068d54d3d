"""What a policy would have earned, from a log of another one, and how sure that is.

``backtest(fitted, rounds)`` judges; :class:`LoggedRounds` is the log.
"""

from diffts.backtest.estimators import ESTIMATORS, Estimate, effective_size
from diffts.backtest.judge import backtest
from diffts.backtest.result import BacktestResult, Row
from diffts.backtest.rounds import LoggedRounds
from diffts.backtest.support import NoOverlapError, Support
from diffts.backtest.tables import COLUMNS, OPEN_BANDIT, from_obp, from_table, read_rounds
from diffts.backtest.targets import (
    FixedArm,
    GivenChances,
    Logged,
    MostPopular,
    Played,
    Target,
    Uniform,
)

__all__ = [
    "COLUMNS",
    "ESTIMATORS",
    "OPEN_BANDIT",
    "BacktestResult",
    "Estimate",
    "FixedArm",
    "GivenChances",
    "Logged",
    "LoggedRounds",
    "MostPopular",
    "NoOverlapError",
    "Played",
    "Row",
    "Support",
    "Target",
    "Uniform",
    "backtest",
    "effective_size",
    "from_obp",
    "from_table",
    "read_rounds",
]
