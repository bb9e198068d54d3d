"""The evaluation: three DiffTS and the baselines, on test tasks that nobody has looked at.

Everything that is played was chosen on development tasks. *Ours* has our network, our learning, our
rule and, on Bidding, our noise; *ours as in the paper* draws once (Thompson sampling); *the
paper's* has the network, the units and the training of the paper's appendix.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from diffts.experiments.compare import standard_error
from diffts.figures.regret_grid import GridPanel, draw_regret_grid
from diffts.reproduction import regret
from diffts.reproduction.problem_data import TEST_SEED
from diffts.reproduction.profile import Profile
from diffts.reproduction.regret import Curve, Line, Panel, summary_of
from diffts.reproduction.specs import APPENDIX, ARMS, FRESH, MANY, REAL, Run
from diffts.reproduction.store import Store, Told
from diffts.reproduction.work import UCBS, Reproduction, late_records

#: By the names that `compare` has for them; the last has another prior.
OURS, OURS_AS_IN_THE_PAPER, THE_PAPERS = "diffts:default", "diffts", "diffts (paper)"
OURS_WITH_GIVEN_NOISE = "diffts:default (given noise)"
OWN = "own"  # in a summary: that of the three DiffTS which it is about
CONTENDERS = (OURS, OURS_AS_IN_THE_PAPER, THE_PAPERS)
#: Of these, and of ours where the noise is given, a plot of ours can be told without.
SPARE = (*CONTENDERS[1:], OURS_WITH_GIVEN_NOISE)
PROBLEMS = ("popular-niche", "labeled-arms", "bidding", "maze")
MAIN_PROBLEMS = ("popular-niche", "bidding", "maze")  # as in the paper
#: Noise levels σ̂ that are assumed in each problem, from the least; and that of the main results.
NOISE_LEVELS = {
    "popular-niche": (0.05, 0.1),
    "labeled-arms": (0.05, 0.1),
    "bidding": (0.1, 0.2, 0.3),
    "maze": (0.05, 0.1),
}
MAIN_NOISE = {"popular-niche": 0.1, "labeled-arms": 0.1, "bidding": 0.2, "maze": 0.1}
#: Where rewards are of a few outcomes between 0 and 1, our noise says so.
OUR_NOISE = {"bidding": "bernoulli"}
BASELINES = ("gts-diag", "gts-full", *regret.MIXTURES)
BOTH = ("perfect", "imperfect")
DEFAULT_RULE = "default"
ACROSS = 3  # plots beside each other: nine fill a picture without a gap
REAL_SLOTS = "Bidding (real slots; simulator fitted to them)"


_OURS: dict[str, Any] = {"learner": ARMS, "sampler": "merged"}


# --- what is asked for ---------------------------------------------------------------------------


def tasks_of(problem: str, noise: float, policy: str = "") -> str:
    """All tasks at the noise level of the main results; else as many as the paper has.

    Mixtures are slow: in races they play as many as the paper has, and all in the table alone (on
    mazes, where every round solves all components anew, not even there).
    """
    in_main = noise == MAIN_NOISE[problem] and policy not in regret.MIXTURES
    return MANY if in_main else FRESH


def contender(label: str, problem: str, data: str, noise: float, seeds: Sequence[int]) -> Line:
    """One of the three DiffTS; the other two can be missing where ours is told."""
    how: dict[str, Any] = _OURS | {"tasks": tasks_of(problem, noise)}
    if label == THE_PAPERS:  # its chains are long: it plays as many tasks as the paper has
        how |= {"learner": APPENDIX, "sampler": "paper", "tasks": FRESH}
    elif label == OURS:
        how |= {"rule": DEFAULT_RULE}
        if problem in OUR_NOISE:
            how |= {"noise": OUR_NOISE[problem], "tasks": MANY}
            noise = 0.0
    runs = (Run(problem, data, "diffts", noise, seed=seed, **how) for seed in seeds)
    return Line(label, tuple(runs), spare=label in SPARE)


def baseline(
    policy: str,
    problem: str,
    data: str,
    noise: float,
    seeds: Sequence[int],
    rule: str = "thompson",
    reference: bool = False,
) -> Line:
    """A baseline, by the paper's rule or by ours."""
    label = policy if rule == "thompson" else f"{policy}:{rule}"
    how: dict[str, Any] = {"rule": rule, "tasks": tasks_of(problem, noise, policy)}
    runs = (Run(problem, data, policy, noise, seed=seed, **how) for seed in seeds)
    return Line(f"{label} (perfect data)" if reference else label, tuple(runs), reference)


def race(problem: str, data: str, noise: float, profile: Profile) -> Panel:
    """Three DiffTS against baselines as in the paper."""
    of = (problem, data, noise, profile.seeds)
    lines = [contender(label, *of) for label in CONTENDERS]
    if problem in OUR_NOISE:  # with the noise that the others have: told in words, not drawn
        lines.append(
            dataclasses.replace(_by_our_rule(*of), label=OURS_WITH_GIVEN_NOISE, spare=True)
        )
    # UCB learns nothing from past tasks: one run serves all data.
    for ucb in UCBS if problem == "maze" else UCBS[:1]:
        lines.append(baseline(ucb, problem, "perfect", noise, profile.seeds))
    lines += [baseline(policy, *of) for policy in _baselines(profile)]
    if data != "perfect":
        exact = (problem, "perfect", noise, profile.seeds)
        mixtures = (one for one in _baselines(profile) if one in regret.MIXTURES)
        lines += [baseline(policy, *exact, reference=True) for policy in mixtures]
    return Panel(_title(problem, data, noise), problem, data, noise, tuple(lines))


def same_rule(problem: str, data: str, noise: float, profile: Profile) -> Panel:
    """Our prior against the baselines', by our rule and with the same noise."""
    of = (problem, data, noise, profile.seeds)
    others = (baseline(one, *of, rule=DEFAULT_RULE) for one in _baselines(profile))
    lines = (_by_our_rule(*of), *others)
    return Panel(_title(problem, data, noise), problem, data, noise, lines)


def _by_our_rule(problem: str, data: str, noise: float, seeds: Sequence[int]) -> Line:
    """Ours, with the noise that it is given."""
    how: dict[str, Any] = _OURS | {"rule": DEFAULT_RULE, "tasks": tasks_of(problem, noise)}
    runs = (Run(problem, data, "diffts", noise, seed=seed, **how) for seed in seeds)
    return Line(OURS, tuple(runs))


def _baselines(profile: Profile) -> Sequence[str]:
    # Where all is tiny, fitting mixtures by EM would take minutes of compilation.
    return BASELINES[:2] if profile.tiny else BASELINES


def _title(problem: str, data: str, noise: float) -> str:
    return f"{regret.TITLES[problem]}\n{regret.KINDS[data]} data, σ̂ = {noise:g}"


def _levels(profile: Profile) -> Iterable[tuple[str, str, float]]:
    """All in one order: problem by problem, both kinds of data, noise levels from the least.

    Where all is tiny, one level: each takes as long to compile.
    """
    for problem in PROBLEMS:
        main = (MAIN_NOISE[problem],)
        for data in BOTH:
            for noise in main if profile.tiny else NOISE_LEVELS[problem]:
                yield problem, data, noise


def race_panels(profile: Profile) -> list[Panel]:
    """The 18 plots."""
    return [race(*one, profile) for one in _levels(profile)]


def main_panels(profile: Profile) -> list[Panel]:
    """Of these the paper's three problems at its noise level."""
    return [
        panel
        for panel in race_panels(profile)
        if panel.problem in MAIN_PROBLEMS and panel.noise_std == MAIN_NOISE[panel.problem]
    ]


def real_slot_panels(profile: Profile) -> list[Panel]:
    """The races on Bidding again, on real ad slots: priors are those of the simulated ones."""
    panels = []
    for panel in race_panels(profile):
        if panel.problem == "bidding":
            title = panel.title.replace(regret.TITLES["bidding"], REAL_SLOTS)
            lines = tuple(_played_on(REAL, line) for line in panel.lines)
            panels.append(dataclasses.replace(panel, title=title, lines=lines))
    return panels


def same_rule_panels(profile: Profile) -> list[Panel]:
    """The 18 plots with our rule for everybody."""
    return [same_rule(*one, profile) for one in _levels(profile)]


def comparison_panels(profile: Profile) -> list[Panel]:
    """All tasks at the noise level of the main results, everybody by both rules."""
    panels = []
    for problem, data, noise in _levels(profile):
        if noise != MAIN_NOISE[problem]:
            continue
        panel, of = race(problem, data, noise, profile), (problem, data, noise, profile.seeds)
        lines = [line for line in panel.lines if line.label != THE_PAPERS]
        lines += [baseline(policy, *of, rule=DEFAULT_RULE) for policy in _baselines(profile)]
        everybody = (line if _is_slow(line.runs[0]) else _played_on(MANY, line) for line in lines)
        panels.append(dataclasses.replace(panel, lines=tuple(everybody)))
    return panels


def _is_slow(run: Run) -> bool:
    return run.problem == "maze" and run.policy in regret.MIXTURES


def _played_on(tasks: str, line: Line) -> Line:
    runs = (dataclasses.replace(run, tasks=tasks) for run in line.runs)
    return dataclasses.replace(line, runs=tuple(runs))


# --- what is told --------------------------------------------------------------------------------


def seen_by(panel: Panel, label: str) -> Panel:
    """The panel with one of the three DiffTS alone, in the first place, under the name ``OWN``."""
    others = tuple(line for line in panel.lines if line.label not in (OURS, *SPARE))
    (own,) = (line for line in panel.lines if line.label == label)
    return dataclasses.replace(panel, lines=(dataclasses.replace(own, label=OWN), *others))


def tell(
    work: Reproduction, panels: Sequence[Panel], path: Path, one_picture: bool = False
) -> Told:
    """Rows, summaries and a picture for each kind of data; how often each DiffTS is first.

    Summaries are those of *ours*; ``panels_of`` has those of the other two, each in the place of
    ours and without the other two, where they were played. Few panels are in one picture, a row
    for each kind of data.
    """
    of = [regret.curves(work.store, panel) for panel in panels]
    rows: dict[str, list[GridPanel]] = {data: [] for data in BOTH}
    for panel, known in zip(panels, of, strict=True):
        lines = tuple(line for line in panel.lines if line.label != OURS_WITH_GIVEN_NOISE)
        drawn = dataclasses.replace(panel, lines=lines)
        rows[panel.data].append(regret.grid_panel(drawn, known))
    if one_picture:
        draw_regret_grid([row for row in rows.values() if row], path.with_suffix(".png"))
    else:
        for data, row in rows.items():
            if row:
                full = [row[start : start + ACROSS] for start in range(0, len(row), ACROSS)]
                draw_regret_grid(full, path.with_name(f"{path.name}-{data}.png"))
    labels = [label for label in (OURS, *SPARE) if any(label in one for one in of)]
    seen = {label: _summaries(panels, of, label) for label in labels}
    firsts = {label: _firsts(found) for label, found in seen.items()}
    if given := seen.get(OURS_WITH_GIVEN_NOISE):  # where there is no other noise, ours has it
        same = [one for one in seen[OURS] if one["problem"] not in OUR_NOISE]
        firsts[OURS_WITH_GIVEN_NOISE] = _firsts([*same, *given])
    told = {
        "test_seed": TEST_SEED,
        "first": firsts,
        "panels": seen[OURS],
        "panels_of": {label: found for label, found in seen.items() if label != OURS},
    }
    return regret.rows(panels, of), told


def _summaries(
    panels: Sequence[Panel], of: Sequence[dict[str, Curve]], label: str
) -> list[dict[str, Any]]:
    found = []
    for panel, known in zip(panels, of, strict=True):
        if label in known:
            own = seen_by(panel, label)
            found.append(summary_of(own, known | {OWN: known[label]}))
    return found


def _firsts(summaries: Sequence[dict[str, Any]]) -> dict[str, int]:
    """In how many plots DiffTS is first, and in how many by more than two standard errors."""
    count = Counter(plots=len(summaries))
    for summary in summaries:
        leads = [
            one["above_first_line"] - 2.0 * (one["stderr_of_that"] or 0.0)
            for name, one in summary["lines"].items()
            if name != OWN and not one["reference"]
        ]
        count["first"] += summary["best"] == OWN
        count["first_by_two_standard_errors"] += min(leads) > 0.0
    return dict(count)


def late_curve(store: Store, line: Line) -> Curve:
    """Regret of all tasks that were played, at the few rounds that are kept of all."""
    loaded = [late_records(store.arrays(run.key)) for run in line.runs]
    found = np.stack([regrets for _, regrets in loaded])
    stderr = standard_error(found.swapaxes(1, 2))
    return Curve(loaded[0][0], found.mean((0, 2)), stderr, found[:, -1])


def tell_comparison(work: Reproduction, panels: Sequence[Panel], path: Path) -> Told:
    """A row for each policy: regret on the way and at the end, tails, and the gap to ours."""
    del path
    rows = []
    for panel in panels:
        of = {line.label: late_curve(work.store, line) for line in panel.lines}
        for line in panel.lines:
            one = of[line.label]
            # The tasks of those that play fewer are the first ones.
            gap = one.final - of[OURS].final[:, : one.final.shape[1]]
            way = zip(one.rounds[:-1], one.mean[:-1], strict=True)
            rows.append(
                {"problem": panel.problem, "data": panel.data, "noise_std": panel.noise_std}
                | {"policy": line.label, "tasks": one.final.shape[1], "seeds": len(one.final)}
                | {f"regret_{int(done)}": round(float(mean), 3) for done, mean in way}
                | {
                    "regret": round(float(one.mean[-1]), 3),
                    "stderr": round(float(one.stderr[-1]), 3),
                    "p95": round(float(np.quantile(one.final, 0.95)), 3),
                    "above_ours": round(float(gap.mean()), 3),
                    "stderr_of_that": round(float(standard_error(gap)), 3),
                    "reference": line.reference,
                }
            )
    told = {"test_seed": TEST_SEED, "rows": rows}
    columns = dict.fromkeys(name for row in rows for name in row)
    return [{name: row.get(name, "") for name in columns} for row in rows], told
