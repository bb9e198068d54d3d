"""The evaluation: three DiffTS and the baselines, on test tasks that nobody has looked at.

Everything that is played was chosen on development tasks. *Ours* has our network, our learning, our
rule and, where rewards are 0 or 1, our noise; *ours as in the paper* draws once (Thompson
sampling); *the paper's* has the network, the units and the training of the paper's appendix.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from diffts.experiments.compare import standard_error
from diffts.reproduction import regret
from diffts.reproduction.profile import Profile
from diffts.reproduction.regret import Line, Panel, curve, summary_of
from diffts.reproduction.specs import APPENDIX, ARMS, Run
from diffts.reproduction.store import Told
from diffts.reproduction.work import TEST_SEED, Reproduction

OURS, OURS_AS_IN_THE_PAPER, THE_PAPERS = "diffts", "diffts (Thompson)", "diffts (paper)"
PROBLEMS = ("popular-niche", "labeled-arms", "bidding", "maze")
TITLES = regret.TITLES | {"labeled-arms": "Labeled Arms"}
NOISE_LEVELS = {
    problem: regret.NOISE_LEVELS[problem.replace("labeled-arms", "labeled-arms-common")]
    for problem in PROBLEMS
}
#: Where rewards are 0 or 1, our noise says so.
OUR_NOISE = {"bidding": "bernoulli"}
BASELINES = ("gts-diag", "gts-full", *regret.MIXTURES)
BOTH = ("perfect", "imperfect")


def contender(
    label: str, problem: str, data: str, noise: float, seeds: Sequence[int], tasks: str
) -> Line:
    """One of the three DiffTS."""
    how: dict[str, Any] = {"learner": ARMS, "sampler": "merged", "tasks": tasks}
    if label == THE_PAPERS:
        how |= {"learner": APPENDIX, "sampler": "paper"}
    elif label == OURS:
        how |= {"rule": "default"}
        if problem in OUR_NOISE:
            how, noise = how | {"noise": OUR_NOISE[problem]}, 0.0
    runs = (Run(problem, data, "diffts", noise, seed=seed, **how) for seed in seeds)
    return Line(label, tuple(runs))


def baseline(
    policy: str,
    problem: str,
    data: str,
    noise: float,
    seeds: Sequence[int],
    tasks: str,
    rule: str = "thompson",
    reference: bool = False,
) -> Line:
    """A baseline, by the paper's rule or by ours; mixtures are fitted anew for each seed."""
    label = policy if rule == "thompson" else f"{policy}:{rule}"
    runs = (Run(problem, data, policy, noise, seed=s, tasks=tasks, rule=rule) for s in seeds)
    return Line(f"{label} (perfect data)" if reference else label, tuple(runs), reference)


def race(problem: str, data: str, noise: float, profile: Profile, tasks: str = "fresh") -> Panel:
    """Three DiffTS against baselines as in the paper."""
    of = (problem, data, noise, profile.seeds, tasks)
    lines = [contender(label, *of) for label in (OURS, OURS_AS_IN_THE_PAPER, THE_PAPERS)]
    # UCB learns nothing from past tasks: one run serves all data.
    lines.append(baseline("ucb1", problem, "perfect", noise, profile.seeds, tasks))
    lines += [baseline(policy, *of) for policy in BASELINES]
    if data != "perfect":
        exact = (problem, "perfect", *of[2:])
        lines += [baseline(policy, *exact, reference=True) for policy in regret.MIXTURES]
    return Panel(_title(problem, data, noise), problem, data, noise, tuple(lines))


def same_rule(problem: str, data: str, noise: float, profile: Profile) -> Panel:
    """Our prior against the baselines', by our rule and with the same noise."""
    of = (problem, data, noise, profile.seeds, "fresh")
    how: dict[str, Any] = {"learner": ARMS, "sampler": "merged", "tasks": "fresh"}
    how |= {"rule": "default"}
    runs = tuple(Run(problem, data, "diffts", noise, seed=s, **how) for s in profile.seeds)
    lines = [Line(OURS, runs), *(baseline(one, *of, rule="default") for one in BASELINES)]
    return Panel(_title(problem, data, noise), problem, data, noise, tuple(lines))


def _title(problem: str, data: str, noise: float) -> str:
    return f"{TITLES[problem]}\n{data} data, σ̂ = {noise:g}"


def _all_levels() -> list[tuple[str, str, float]]:
    """All 18 in one order: problem by problem, both kinds of data, noise levels from the least."""
    return [
        (problem, data, noise)
        for problem in PROBLEMS
        for data in BOTH
        for noise in sorted(NOISE_LEVELS[problem])
    ]


def all_panels(profile: Profile) -> list[Panel]:
    """The 18 plots."""
    return [race(*one, profile) for one in _all_levels()]


def same_rule_panels(profile: Profile) -> list[Panel]:
    """The 18 plots with our rule for everybody."""
    return [same_rule(*one, profile) for one in _all_levels()]


def comparison_panels(profile: Profile) -> list[Panel]:
    """400 tasks at the paper's noise level, everybody by both rules."""
    panels = []
    for problem in PROBLEMS:
        for data in BOTH:
            noise = NOISE_LEVELS[problem][0]
            panel = race(problem, data, noise, profile, "many")
            of = (problem, data, noise, profile.seeds, "many")
            lines = [baseline(policy, *of, rule="default") for policy in BASELINES]
            panels.append(dataclasses.replace(panel, lines=(*panel.lines, *lines)))
    return panels


def seen_by(panel: Panel, label: str) -> Panel:
    """The panel with one of the three DiffTS alone, in the first place, under the name DiffTS."""
    others = tuple(line for line in panel.lines if not line.label.startswith("diffts"))
    (own,) = (line for line in panel.lines if line.label == label)
    return dataclasses.replace(panel, lines=(dataclasses.replace(own, label="diffts"), *others))


def tell(
    work: Reproduction, panels: Sequence[Panel], path: Path, columns: int | None = None
) -> Told:
    """Rows, summaries and pictures; how often each of the three is first, and by how much."""
    rows, told = regret.tell(work, panels, path, columns)
    counts: dict[str, Any] = {}
    of_papers = []
    for label in (OURS, OURS_AS_IN_THE_PAPER, THE_PAPERS):
        count: Counter[str] = Counter()
        for panel in panels:
            if label not in {line.label for line in panel.lines}:
                continue
            own = seen_by(panel, label)
            of = {line.label: curve(work.store, line.runs) for line in own.lines}
            summary = summary_of(own, of)
            if label == THE_PAPERS:
                of_papers.append(summary)
            lead = min(
                one["above_first_line"] / one["stderr_of_that"] if one["stderr_of_that"] else 0.0
                for name, one in summary["lines"].items()
                if name != "diffts" and not one["reference"]
            )
            count["plots"] += 1
            count["first"] += summary["best"] == "diffts"
            count["first by two standard errors"] += lead > 2.0
        if count:
            counts[label] = dict(count)
    told |= {"test_seed": TEST_SEED, "first": counts}
    if of_papers:
        told |= {"panels_of_the_papers": of_papers}
    return rows, told


def tell_comparison(work: Reproduction, panels: Sequence[Panel], path: Path) -> Told:
    """A row for each policy: regret on the way and at the end, tails, and the gap to ours."""
    del path
    rows = []
    for panel in panels:
        of = {line.label: curve(work.store, line.runs) for line in panel.lines}
        ours = of[OURS]
        for line in panel.lines:
            one = of[line.label]
            gap = one.final - ours.final
            rows.append(
                {"problem": panel.problem, "data": panel.data, "noise_std": panel.noise_std}
                | {"policy": line.label, "tasks": one.final.shape[1], "seeds": len(one.final)}
                | {
                    f"regret_{done}": round(float(value), 3)
                    for done, value in zip(one.rounds, one.mean, strict=True)
                }
                | {
                    "stderr": round(float(one.stderr[-1]), 3),
                    "p95": round(float(np.quantile(one.final, 0.95)), 3),
                    "above_ours": round(float(gap.mean()), 3),
                    "stderr_of_that": round(float(standard_error(gap)), 3),
                    "reference": line.reference,
                }
            )
    widest = max(rows, key=len)
    rows = [{name: row.get(name, "") for name in widest} for row in rows]
    return rows, {"test_seed": TEST_SEED, "rows": rows}
