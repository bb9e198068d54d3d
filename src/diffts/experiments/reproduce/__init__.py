"""Every experiment of the paper, by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from diffts.errors import InvalidInputError
from diffts.experiments.reproduce import images, pictures, regret
from diffts.experiments.reproduce.claims import Verdict, judge_claims, tally
from diffts.experiments.reproduce.profile import PROFILES, Profile, get_profile
from diffts.experiments.reproduce.regret import Panel
from diffts.experiments.reproduce.runs import Learned
from diffts.experiments.reproduce.store import Store
from diffts.experiments.reproduce.tables import provenance, write_rows, write_summary
from diffts.experiments.reproduce.workshop import Report, Workshop, times_of, times_of_prior
from diffts.figures.bars import draw_bars
from diffts.figures.images import draw_images
from diffts.figures.regret_grid import GridCurve, GridPanel, draw_regret_grid
from diffts.figures.tasks import draw_tasks
from diffts.problems.maze import IMAGE_SIDE

NOTHING = "nothing of it is finished"


@dataclasses.dataclass(frozen=True)
class Experiment:
    """One of the paper's experiments.

    Attributes:
        about: what it shows, in a line.
        panels: the regret plots it consists of; None for an experiment of another kind.
        columns: plots in a row of its picture; None for a row for each problem.
        write: how such another experiment works and writes its files, for some problems; returns
            'done', or how much of it is.
        is_possible: whether it can be had; by default it can.
        caveat: what to know before one believes its figures; in its summary, too.
        is_finished: whether it is in the store, where it is one part; one of several parts writes
            those that are.
    """

    about: str
    panels: Callable[[Profile], list[Panel]] | None = None
    columns: int | None = 4
    write: Callable[[Workshop, Path, Sequence[str]], str] | None = None
    is_possible: Callable[[Workshop], bool] = lambda _: True
    is_finished: Callable[[Workshop], bool] = lambda _: True
    caveat: str = ""


def _tasks(shop: Workshop, folder: Path, problems: Sequence[str]) -> str:
    """Task vectors, one picture for each problem; those of other problems if they are there."""
    shown = [p for p in regret.TITLES if p in problems or pictures.has_task_panels(shop, p)]
    if not shown:
        return NOTHING
    for problem in shown:
        title = regret.TITLES[problem]
        panels, _ = pictures.task_panels(shop, problem)
        file = folder / f"tasks-{problem}.png"
        if problem == "maze":
            mazes = {name: pictures.maze_images(edges) for name, edges in panels.items()}
            draw_images(mazes, file, IMAGE_SIDE, IMAGE_SIDE, columns=4, title=title)
        else:
            draw_tasks(panels, file, order=pictures.task_order(problem), title=title)
    write_rows(folder / "tasks.csv", pictures.task_rows(shop, shown))
    parts = [f"{problem}/task-vectors" for problem in shown]
    write_summary(folder / "tasks.json", provenance(shop.store, "tasks", shop.profile, parts))
    return _share(len(shown), len(regret.TITLES), "problems")


def _share(finished: int, wanted: int, what: str) -> str:
    return "done" if finished == wanted else f"{finished} of {wanted} {what}"


def _groups(shop: Workshop, folder: Path, problems: Sequence[str]) -> str:
    del problems
    panels, note = pictures.groups(shop)
    title = "20 Groups: rows are tasks, columns are arms"
    draw_tasks(panels, folder / "groups.png", title=title)
    scores = note["scores"]
    write_rows(
        folder / "groups.csv", [{"score": name, "value": value} for name, value in scores.items()]
    )
    made = provenance(shop.store, "groups", shop.profile, ["groups/completions"])
    write_summary(folder / "groups.json", made | {"scores": scores})
    return "done"


def _calibration(shop: Workshop, folder: Path, problems: Sequence[str]) -> str:
    known = [p for p in regret.TITLES if p in problems or pictures.has_calibration_rows(shop, p)]
    if not known:
        return NOTHING
    rows = pictures.calibration_rows(shop, known)
    write_rows(folder / "calibration.csv", rows)
    draw_bars(
        {
            f"{regret.TITLES[row['problem']]}, {row['learner']}": (
                row["error"],
                row["error_first_ten"],
            )
            for row in rows
        },
        ("all steps", "first ten steps"),
        folder / "calibration.png",
        label="relative error of τ from imperfect data",
    )
    priors = [Learned(row["problem"], "imperfect", row["learner"]) for row in rows]
    parts = [key for prior in priors for key in times_of_prior(prior)]
    made = provenance(shop.store, "calibration", shop.profile, parts)
    write_summary(folder / "calibration.json", made | {"relative error of τ": rows})
    return _share(len(known), len(regret.TITLES), "problems")


def _claims(shop: Workshop, folder: Path, problems: Sequence[str]) -> str:
    """Comes last: it reads what the others wrote."""
    del problems
    verdicts = judge_claims(folder)
    write_rows(folder / "claims.csv", [verdict._asdict() for verdict in verdicts])
    made = provenance(shop.store, "claims", shop.profile, [])
    counts: dict[str, Any] = {"tally": tally(verdicts)._asdict() | {"claims": len(verdicts)}}
    told = counts | {"claims": [verdict._asdict() for verdict in verdicts]}
    write_summary(folder / "claims.json", made | told)
    return "done"


def _images(name: str) -> Callable[[Workshop, Path, Sequence[str]], str]:
    def write(shop: Workshop, folder: Path, problems: Sequence[str]) -> str:
        del problems
        file = name.replace("_", "-")
        arrays, note = images.image_experiment(shop, name)
        panels = {
            "original": arrays["original"],
            "corrupted": arrays["corrupted"],
        }
        for model, title in images.MODELS.items():
            for kind in ("generated", "reconstructed"):
                if f"{model}-{kind}" in arrays:
                    panels[f"{kind}, {title}"] = arrays[f"{model}-{kind}"]
        title = images.TITLES.get(note["source"], note["source"])
        draw_images(panels, folder / f"{file}.png", note["height"], note["width"], title=title)
        rows = [
            {"source": note["source"], "images": which, "score": score, "value": round(value, 5)}
            for which, scores in note["scores"].items()
            for score, value in scores.items()
        ]
        write_rows(folder / f"{file}.csv", rows)
        made = provenance(
            shop.store,
            file,
            shop.profile,
            images.times_of(shop, name),
            needs_data=note["source"] in images.TITLES,
        )
        told = {"source": note["source"], "scores": note["scores"]}
        write_summary(folder / f"{file}.json", made | told)
        return "done"

    return write


EXPERIMENTS: dict[str, Experiment] = {
    "main": Experiment(
        "regret on three problems, priors from perfect and imperfect data",
        regret.main_panels,
        columns=3,
    ),
    "noise-levels": Experiment(
        "all 18 plots: four problems, both kinds of data, all assumed noise levels",
        regret.noise_level_panels,
        columns=None,
    ),
    "real-slots": Experiment(
        "bidding priors learned on simulated slots, on real ones, to whose quantiles the simulator "
        "was fitted (needs --data-dir)",
        regret.real_slot_panels,
        columns=3,
        is_possible=lambda shop: shop.real_slots is not None or shop.has_real_runs,
        caveat="The simulator that the priors learned from was fitted to quantiles of the mean "
        "prices and of the standard deviations of these same real slots: no independent test.",
    ),
    "sampled-noise": Experiment(
        "predicted or sampled noise in the diffused observation", regret.sampled_noise_panels
    ),
    "variance": Experiment("three reverse variances", regret.variance_panels),
    "noisy-data": Experiment("λ of the SURE term on noisy data", regret.noisy_panels),
    "incomplete-data": Experiment("EM on incomplete data", regret.incomplete_panels),
    "noisy-incomplete-data": Experiment(
        "EM and SURE on noisy, incomplete data", regret.noisy_incomplete_panels
    ),
    "calibration": Experiment(
        "errors calibrated from imperfect data beside those from exact data", write=_calibration
    ),
    "groups": Experiment(
        "20 Groups: completions of half-hidden tasks",
        write=_groups,
        is_finished=pictures.has_groups,
    ),
    "tasks": Experiment("task vectors and draws of every problem", write=_tasks),
    "mnist": Experiment(
        "images of digits from corrupted ones (needs --data-dir)",
        write=_images("mnist"),
        is_possible=lambda shop: images.is_possible(shop, "mnist"),
        is_finished=lambda shop: images.is_finished(shop, "mnist"),
    ),
    "fashion-mnist": Experiment(
        "images of clothes from corrupted ones (needs --data-dir)",
        write=_images("fashion_mnist"),
        is_possible=lambda shop: images.is_possible(shop, "fashion_mnist"),
        is_finished=lambda shop: images.is_finished(shop, "fashion_mnist"),
    ),
    "claims": Experiment(
        "what the paper says, beside what the summaries in the folder say", write=_claims
    ),
}


def reproduce(
    names: Sequence[str],
    profile: str,
    folder: Path,
    data_dir: Path | None = None,
    problems: Sequence[str] = (),
    report: Report = lambda *_: None,
    *,
    finished_only: bool = False,
    seeds: int | None = None,
) -> dict[str, str]:
    """Run experiments and write their rows, summaries and pictures.

    Args:
        names: experiments; all of them if none is named.
        profile: 'smoke' or 'paper'.
        folder: where results go; finished parts are in its subfolder ``parts``.
        data_dir: folder with real data, or None.
        problems: only learn and play for these problems, to divide the work; what others have
            finished before is written all the same.
        report: called with a line for each piece of work, the parts done and their number.
        finished_only: learn and play nothing; write again what is finished.
        seeds: how many of the profile's seeds to take, for a first look; all by default. A folder
            holds results of one number of seeds.

    Returns:
        For each experiment 'done', how much of it is, or why it was left out.
    """
    sizes = get_profile(profile).with_seeds(seeds)
    for name in names:
        if name not in EXPERIMENTS:
            raise InvalidInputError(f"name: unknown {name!r}; choose from {', '.join(EXPERIMENTS)}")
    for problem in problems:
        if problem not in regret.TITLES:
            raise InvalidInputError(
                f"--problem: unknown {problem!r}; choose from {', '.join(regret.TITLES)}"
            )
    if finished_only and problems:
        raise InvalidInputError("--problem: has no meaning with --finished, which runs nothing")
    if finished_only and not (folder / "parts").is_dir():
        raise InvalidInputError(f"--out: nothing is finished in {folder}")
    problems = [] if finished_only else list(problems) or list(regret.TITLES)
    if data_dir is not None and not data_dir.is_dir():
        raise InvalidInputError(f"--data-dir: no folder {data_dir}")
    folder.mkdir(parents=True, exist_ok=True)
    store = Store(folder / "parts", sizes.as_json())
    shop = Workshop(sizes, store, data_dir, report)
    # In the order of the registry: the claims come last.
    chosen = {name: one for name, one in EXPERIMENTS.items() if not names or name in names}
    outcome: dict[str, str] = {}
    panels: dict[str, list[Panel]] = {}
    for name, experiment in chosen.items():
        if not experiment.is_possible(shop):
            outcome[name] = "left out: its data are not in the data folder"
        elif finished_only and not experiment.is_finished(shop):
            outcome[name] = NOTHING
        elif experiment.panels is not None:
            panels[name] = experiment.panels(sizes)
    # All runs of all experiments at once: many share runs, and more go side by side.
    runs = [
        run
        for of_one in panels.values()
        for panel in of_one
        if panel.problem in problems
        for line in panel.lines
        for run in line.runs
    ]
    shop.expect(runs, len(chosen) - len(outcome))
    shop.play(runs)
    for name, experiment in chosen.items():
        if name in outcome:
            continue
        shop.report(f"{name}: writing")
        if experiment.write is not None:
            outcome[name] = experiment.write(shop, folder, problems)
        else:
            outcome[name] = _write_regrets(shop, folder, name, experiment, panels[name])
        shop.finished()
    return outcome


def _write_regrets(
    shop: Workshop, folder: Path, name: str, experiment: Experiment, wanted: list[Panel]
) -> str:
    """Rows, summary and picture of an experiment about regret: of what is finished of it."""
    panels = [got for panel in wanted if (got := regret.finished(panel, shop.is_played))]
    if not panels:
        return NOTHING
    write_rows(folder / f"{name}.csv", regret.rows(shop.store, panels))
    runs = [run for panel in panels for line in panel.lines for run in line.runs]
    parts = [key for run in runs for key in times_of(run)]
    needs_data = any(run.tasks == "real" for run in runs)
    made: dict[str, Any] = provenance(shop.store, name, shop.profile, parts, needs_data)
    made["plots"] = f"{len(panels)} of {len(wanted)}"
    made["complete"] = panels == wanted
    if experiment.caveat:
        made["caveat"] = experiment.caveat
    write_summary(folder / f"{name}.json", made | regret.summarise(shop.store, panels))
    grid = []
    for panel in panels:
        curves = []
        for line in panel.lines:
            one = regret.curve(shop.store, line.runs)
            curves.append(
                GridCurve(line.label, one.rounds, one.mean, one.stderr, dashed=line.reference)
            )
        grid.append(GridPanel(panel.title, curves))
    draw_regret_grid(_in_rows(panels, grid, experiment.columns), folder / f"{name}.png")
    if fewer := sum(panel not in wanted for panel in panels):
        return f"{len(panels)} of {len(wanted)} plots, {fewer} without all seeds yet"
    return _share(len(panels), len(wanted), "plots")


def _in_rows(
    panels: list[Panel], grid: list[GridPanel], columns: int | None
) -> list[list[GridPanel]]:
    if columns is not None:
        return [grid[i : i + columns] for i in range(0, len(grid), columns)]
    problems = list(dict.fromkeys(panel.problem for panel in panels))
    return [
        [plot for panel, plot in zip(panels, grid, strict=True) if panel.problem == problem]
        for problem in problems
    ]


__all__ = ["EXPERIMENTS", "PROFILES", "Experiment", "Verdict", "judge_claims", "reproduce", "tally"]
