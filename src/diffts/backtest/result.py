"""What a backtest has found: rows of estimates, what the log supports, and what to beware of."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

from diffts.backtest.estimators import Estimate
from diffts.backtest.support import Support

#: Columns of a row as text.
HEADINGS = ("policy", "estimator", "reward a round", "s.e.", "interval", "gain", "s.e.", "ESS")


@dataclass(frozen=True)
class Row:
    """One estimate of one policy."""

    policy: str
    estimator: str
    estimate: Estimate

    def cells(self) -> tuple[str, ...]:
        """As text, one for each of ``HEADINGS``."""
        one = self.estimate
        return (
            self.policy,
            self.estimator,
            _shown("{:.5g}", one.value),
            _shown("{:.2g}", one.stderr),
            _shown("{:.4g} to {:.4g}", one.low, one.high),
            _shown("{:+.3g}", one.gain),
            _shown("{:.2g}", one.gain_stderr),
            f"{one.ess:.0f}",
        )


@dataclass(frozen=True)
class BacktestResult:
    """Estimates of each policy by each estimator.

    Attributes:
        rows: the estimates.
        support: of each policy, what the log has of its choices.
        refused: policies that the log cannot judge, and why.
        warnings: what to beware of.
        facts: the log and the settings.
    """

    rows: tuple[Row, ...]
    support: dict[str, Support]
    refused: dict[str, str]
    warnings: tuple[str, ...]
    facts: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, which: tuple[str, str]) -> Estimate:
        """The estimate of a policy by an estimator: ``result["uniform", "snips"]``."""
        for row in self.rows:
            if (row.policy, row.estimator) == which:
                return row.estimate
        raise KeyError(which)

    def table(self) -> str:
        """The rows as plain text."""
        lines = [HEADINGS, *(row.cells() for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if place < 2 else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        )

    def to_json(self) -> dict[str, Any]:
        """All of it as plain JSON; what is not known is null."""
        rows = [
            {"policy": row.policy, "estimator": row.estimator, **row.estimate._asdict()}
            for row in self.rows
        ]
        return _without_nan(
            {
                "rows": rows,
                "support": {name: dataclasses.asdict(one) for name, one in self.support.items()},
                "refused": self.refused,
                "warnings": list(self.warnings),
                "facts": self.facts,
            }
        )


def _shown(form: str, *values: float) -> str:
    return form.format(*values) if all(map(math.isfinite, values)) else "unknown"


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nan(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
