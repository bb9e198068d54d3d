"""Figures in the README and in the docs are those of the committed result files.

Each text below is filled in from the result files and must stand in its page, word for word (line
breaks aside). After a new run this test fails with the text that the page should have. No other
figure may stand there, but settings and what is named at the end.
"""

import collections
import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from benchmarks import evaluation_tables as tables
from benchmarks.decision_tables import chains
from benchmarks.decision_tables import regret as by_default_rule

from diffts.reproduction import judge_claims, tally

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
PN, LABELED, BIDDING, MAZE = "popular-niche", "labeled-arms", "bidding", "maze"
COMMON = "labeled-arms-common"
EXACT, IMPERFECT = "exact", "imperfect"  # as the titles in the result files say it
LEVEL = {BIDDING: 0.2}  # the noise level of the main results, where it is not 0.1
OURS, PAPERS = "diffts:default", "diffts (paper)"
GIVEN = "diffts:default (given noise)"


# What the result files say


def read(file):
    return json.loads((RESULTS / file).read_text())


PAPER = {path.stem: read(path) for path in (RESULTS / "paper").glob("*.json")}
FIRST_RUN = {path.stem: read(path) for path in (RESULTS / "first-run").glob("*.json")}
FIRST_RUN["one-seed"] = read("one-seed/main.json")
ACCURACY = {steps: read(f"accuracy-{steps}.json") for steps in (100, 20)}
WITH_COVARIANCE = read("accuracy-covariance-20.json")
AFTER_PLAY = {steps: read(f"accuracy-popular-niche-{steps}.json") for steps in (100, 20, 12)}
BY_SAMPLER = read("h200-regret.json")["rows"]
#: The last row of a name counts: procedures were run again when they changed.
BY_PROCEDURE = {
    (row["problem"], row["prior"]): row
    for run in read("h200-imperfect.json")["runs"]
    for row in run["rows"]
}


def plot(panels, problem, data, level):
    ending = f"σ̂ = {level or LEVEL.get(problem, 0.1):g}"
    ending = ending if data is None else f", {data} data, {ending}"
    (found,) = [p for p in panels if p["problem"] == problem and p["title"].endswith(ending)]
    return found


def ablation(experiment, problem, *labels, level=None):
    """Regrets of some lines of a plot of the evaluation's ablations."""
    lines = plot(PAPER[experiment]["panels"], problem, None, level)["lines"]
    return [lines[label]["regret"] for label in labels]


def race(experiment, problem, data=EXACT, whose=OURS):
    """A plot of the evaluation, with one of the three DiffTS in it."""
    told = PAPER[experiment]
    return plot({OURS: told["panels"], **told["panels_of"]}[whose], problem, data, None)


def regret(experiment, problem, *policies, data=EXACT):
    """Of some policies, DiffTS among them."""
    for policy in policies:
        whose = policy if policy.startswith("diffts") else OURS
        label = "own" if policy.startswith("diffts") else policy
        yield race(experiment, problem, data, whose)["lines"][label]["regret"]


def best_other(experiment, problem, data=EXACT, whose=OURS):
    """The regret of the first one but DiffTS."""
    found = race(experiment, problem, data, whose)
    other = next(name for name in found["ranking"] if name != "own")
    return found["lines"][other]["regret"]


def from_both(problem, policy):
    """From exact and from imperfect data."""
    return [next(regret("noise-levels", problem, policy, data=d)) for d in (EXACT, IMPERFECT)]


def of_papers_trainings(problem):
    """Regrets of the three trainings of the paper's DiffTS from imperfect data, and from exact."""
    for data in (IMPERFECT, EXACT):
        yield from race("main", problem, data, PAPERS)["lines"]["own"]["regret_of_seeds"]


def latest_behind(problem, whose=OURS):
    """Up to which round another policy is ahead of DiffTS, in all plots of a problem."""
    told = PAPER["noise-levels"]
    plots = ({OURS: told["panels"]} | told["panels_of"])[whose]
    return max(one["behind_until"] for one in plots if one["problem"] == problem)


def by_one_rule():
    """Plots that DiffTS wins, all, and plots that it loses, by two standard errors of the gap.

    Of all plots where everybody plays by our rule.
    """
    gaps = [
        [
            one["above_first_line"] / one["stderr_of_that"]
            for label, one in panel["lines"].items()
            if label != "own"
        ]
        for panel in PAPER["same-rule"]["panels"]
    ]
    return [sum(min(of) > 2 for of in gaps), len(gaps), sum(min(of) < -2 for of in gaps)]


def tails(problem):
    """What 95% of all tasks stay below: of ours, and of the best baseline by any rule."""
    rows = [
        row
        for row in PAPER["comparison"]["rows"]
        if (row["problem"], row["data"]) == (problem, "perfect") and not row["reference"]
    ]
    (ours,) = (row for row in rows if row["policy"] == OURS)
    others = [row for row in rows if not row["policy"].startswith("diffts")]
    return [ours["p95"], min(others, key=lambda row: row["regret"])["p95"]]


def firsts(experiment, whose=OURS):
    """In how many plots one of the three DiffTS is first, of how many, and clearly."""
    counts = PAPER[experiment]["first"][whose]
    return [counts[name] for name in ("first", "plots", "first_by_two_standard_errors")]


def ahead_until(problem):
    """Where all play by our rule, from exact data: DiffTS is first up to a round, then GTS-full."""
    with (RESULTS / "paper/same-rule.csv").open() as file:
        rows = [
            row
            for row in csv.DictReader(file)
            if (row["problem"], row["data"], row["noise_std"]) == (problem, "perfect", "0.1")
        ]
    at = collections.defaultdict(dict)
    for row in rows:
        at[int(row["round"])][row["policy"]] = float(row["regret"])
    leaders = [min(at[done], key=at[done].get) for done in sorted(at)]
    count = leaders.count(OURS)
    assert leaders == [OURS] * count + ["gts-full:default"] * (len(leaders) - count)
    return sorted(at)[count - 1]


def distances(images, *models):
    return [PAPER[images]["scores"][model]["Fréchet distance"] for model in models]


def by_sampler(problem, sampler="paper", steps=100, recipe="residual-mlp 512"):
    """A row of results/h200-regret.json; None where there is none."""
    wanted = {"problem": problem, "sampler": sampler, "steps": steps, "recipe": recipe}
    return next((row for row in BY_SAMPLER if wanted.items() <= row.items()), None)


def by_procedure(what, *priors, problems=(PN, COMMON)):
    return [BY_PROCEDURE[problem, prior][what] for prior in priors for problem in problems]


def above_ours(prior):
    """How far a prior's regret is above that of ours: mean and error, task by task."""
    for problem in (PN, COMMON):
        tasks = [BY_PROCEDURE[problem, p]["regret_of_tasks"] for p in (prior, "ours")]
        gap = np.subtract(*tasks)
        yield from (gap.mean(), gap.std(ddof=1) / np.sqrt(len(gap)))


def accuracy(prior, sampler, steps):
    """The largest error of a moment, in exact standard deviations."""
    rows = [r for r in ACCURACY[steps] if (r["prior"], r["sampler"]) == (prior, sampler)]
    return largest_error(rows)


def largest_error(rows):
    return max(
        abs(row[f"{arm}_{moment}"] - row[f"exact_{arm}_{moment}"]) / row[f"exact_{arm}_sd"]
        for row in rows
        for arm in ("observed", "unobserved")
        for moment in ("mean", "sd")
        if row[f"{arm}_{moment}"] is not None
    )


def timing(file, case, program):
    """Median of a row of benchmarks/results, and how many times longer PyTorch took."""
    text = (ROOT / "benchmarks/results" / file).read_text()
    rows = [[cell.strip() for cell in row.split("|")] for row in text.splitlines() if "|" in row]
    (row,) = [row for row in rows if row[1:3] == [case, program]]
    return row[3], row[5]


def faster(file, case, program="PyTorch, eager"):
    """Ours, theirs, and how many times faster: of eager PyTorch the table has it, unrounded."""
    (ours, ratio), (theirs, _) = timing(file, case, "diffts"), timing(file, case, program)
    if program != "PyTorch, eager":
        ratio = f"{float(theirs.split()[0]) / float(ours.split()[0]):.1f}"
    return ours, theirs, ratio


# What the pages must say: texts, and what fills them in


def row(*cells):
    return f"| {' | '.join(cells)} |"


def with_error(one):
    return f"{one['regret']:.1f} ± {one['stderr']:.1f}"


def accuracy_table():
    """In the README and in docs/samplers.md."""
    for prior in dict.fromkeys(one["prior"] for one in ACCURACY[100]):
        samplers = [(s, n) for s in ("paper", "moment-diagonal", "moment") for n in (100, 20)]
        yield row(f"`{prior}`", *(f"{accuracy(prior, *which):.1%}" for which in samplers)), []


def with_covariance_table():
    for prior in dict.fromkeys(one["prior"] for one in WITH_COVARIANCE):
        cells = [
            largest_error(r for r in WITH_COVARIANCE if (r["prior"], r["sampler"]) == (prior, name))
            for name in ("merged", "covariance")
        ]
        yield row(f"`{prior}`", *(f"{cell:.1%}" for cell in cells)), []


def after_play_tables():
    for steps, rows in AFTER_PLAY.items():
        for one in rows:
            if one.get("rounds") == 50:
                moments = [f"{one[of]:.1%}" for of in ("mean_error", "sd_error")]
                chances = [f"{one[of]:.3f}" for of in ("group_error", "best_error")]
                yield row(f"`{one['sampler']}`", str(steps), *moments, *chances), []
    for one in AFTER_PLAY[20]:
        if "excess" in one:
            errors = [f"{one[of]:.4f}" for of in ("exact_tau", "learned_tau")]
            yield row(str(one["step"]), *errors, f"{1 + one['excess']:.1f}"), []


def readme():
    yield from accuracy_table()
    ours, plots, clearly = firsts("noise-levels")
    yield "is first in {} of {}**, in {} by more than two standard errors", [ours, plots, clearly]
    yield "with theirs it is first in {}", firsts("noise-levels", GIVEN)[:1]
    yield (
        "is first in {} of the {} that it has played**, in {} by more than two standard errors",
        firsts("noise-levels", PAPERS),
    )
    yield "DiffTS wins {} of the {} finished so far, and loses {}**, by two", by_one_rule()
    for problem, text in (
        (PN, "by far ({:.1f} against {:.1f})"),
        (MAZE, "on Maze from exact data ({:.1f} against {:.1f}, GTS-full's)"),
        (LABELED, "On Labeled Arms ({:.1f} against {:.1f})"),
    ):
        (own,) = regret("same-rule", problem, OURS)
        yield text, [own, best_other("same-rule", problem)]
    yield (
        "ahead until round {} at most on Popular and Niche, and {} on Bidding, of 1000; on Maze "
        "until round {} of 300",
        [latest_behind(problem) for problem in (PN, BIDDING, MAZE)],
    )
    yield (
        "95% of the tasks stay below a regret of {:.0f}; by the best baseline below {:.0f}",
        tails(PN),
    )
    by_arms = [
        by_default_rule(f"{one}{data}") for one in (PN, COMMON) for data in ("-imperfect", "")
    ]
    yield "a longer training has {:.1f} on development tasks", [by_default_rule(PN)]
    yield (
        "such a prior has a regret of {:.1f} instead of {:.1f}, on Labeled Arms (common scale) "
        "{:.1f} instead of {:.1f}",
        by_arms,
    )
    cases = ("one decision", "100 tasks", "training step")
    for file, chip in (("cpu.md", "two CPU cores"), ("h200.md", "one H200")):
        for case in cases:
            yield f"| {case}, {chip} | {{}} | {{}} | {{}}× |", faster(file, case)
    saved = [
        one["ratio"]
        for file in (RESULTS / "rules").glob("diffts-20-*.json")
        for one in read(file)["rows"]
        if (one["rule"], one["horizon"]) == ("bayes-ucb", 1000)
    ]
    assert len(saved) == 5
    yield "was {:.2f} to {:.2f} of Thompson sampling's on five laws", [min(saved), max(saved)]
    for case in cases[:2]:
        told = faster("h200.md", case, "PyTorch, CUDA graph")
        yield "| … PyTorch with a CUDA graph | {} | {} | {}× |", told


def reproduction():
    ours, plots, clearly = firsts("noise-levels")
    yield (
        "rule is first in {} of {}, by more than two standard errors in {}",
        [ours, plots, clearly],
    )
    yield "with the noise that baselines have it is first in {}", firsts("noise-levels", GIVEN)[:1]
    papers = firsts("noise-levels", PAPERS)
    yield "first in {} of the {} that it has played, by more than two standard errors in {}", papers
    papers_claims, our_claims = tally(judge_claims(RESULTS / "paper")).values()
    judged = our_claims.agree + our_claims.disagree
    yield (
        "Of the {} claims {} hold for the paper's DiffTS, and {} of the {} that have been judged",
        [sum(papers_claims), papers_claims.agree, our_claims.agree, judged],
    )
    assert not papers_claims.undecided
    sizes = {(p["problem"], p["rounds"], p["tasks"], p["seeds"]) for p in PAPER["main"]["panels"]}
    assert sizes == {(PN, 1000, 100, 3), (BIDDING, 1000, 52, 3), (MAZE, 300, 100, 3)}
    yield "1000 rounds, on Maze 300; 100 test tasks, of Bidding 52; three seeds.", []
    yield (
        "until round {} at most on Popular and Niche, and {} on Bidding, of 1000; on Maze until "
        "round {} of 300",
        [latest_behind(problem) for problem in (PN, BIDDING, MAZE)],
    )
    yield "ahead of the paper's until round {}", [latest_behind(PN, PAPERS)]
    (slots,) = {p["tasks"] for p in FIRST_RUN["real-slots"]["panels"]}
    yield "fitted to quantiles of the {} real slots", [slots]
    for line in (*tables.races(), *tables.claims()):
        yield line, []


def evaluation():
    yield "DiffTS wins {} of the {} plots and loses {}", by_one_rule()
    for line in (*tables.firsts(), *tables.same_rule(), *tables.comparison(), *tables.closest()):
        yield line, []


def findings():
    by_one_draw = [
        next(regret("noise-levels", problem, whose))
        for whose in ("diffts", PAPERS)
        for problem in (BIDDING, MAZE)
    ]
    yield "It has {:.1f} and {:.1f}, the paper's {:.1f} and {:.1f}", by_one_draw
    yield (
        "below a regret of {0:.0f} on Popular and Niche and of {2:.0f} on Bidding; by the best "
        "baseline below {1:.0f} and {3:.0f}",
        [*tails(PN), *tails(BIDDING)],
    )
    papers, draws, ours = regret("noise-levels", PN, PAPERS, "diffts", OURS)
    yield "under the true prior has 38.0, DiffTS {:.1f}", [draws]
    yield (
        "the paper's DiffTS has {:.1f}, with our network and learning {:.1f}, and by the default "
        "rule {:.1f}. The best baseline has {:.1f}",
        [papers, draws, ours, best_other("noise-levels", PN)],
    )
    full = [
        next(regret(*of))
        for problem in (PN, LABELED)
        for of in (
            ("noise-levels", problem, "gts-full"),
            ("same-rule", problem, "gts-full:default"),
        )
    ]
    yield (
        "takes GTS-full from {:.1f} to {:.1f} on Popular and Niche, and from {:.1f} to {:.1f} on "
        "Labeled Arms",
        full,
    )
    by_one_rule = [
        of
        for problem in (PN, BIDDING, LABELED)
        for of in (*regret("same-rule", problem, OURS), best_other("same-rule", problem))
    ]
    yield (
        "Popular and Niche: {:.1f}, the next one {:.1f}. Bidding: {:.1f}, the first one {:.1f}. "
        "Labeled Arms: {:.1f} and {:.1f}, DiffTS being ahead until round {}. Maze: {:.1f}, "
        "GTS-full {:.1f}",
        [
            *by_one_rule,
            ahead_until(LABELED),
            *regret("same-rule", MAZE, OURS, "gts-full:default"),
        ],
    )
    yield (
        "It has {:.1f}, GMMTS-25 {:.1f}. From imperfect data it is: {:.1f}, the best baseline "
        "{:.1f}",
        [
            *regret("noise-levels", LABELED, PAPERS, "gmmts-25"),
            *regret("noise-levels", LABELED, PAPERS, data=IMPERFECT),
            best_other("noise-levels", LABELED, IMPERFECT),
        ],
    )
    rules = [("noise-levels", "gts-full"), ("same-rule", "gts-full:default")]
    yield (
        "By one draw a round GTS-full has {:.1f}, by the default rule {:.1f}",
        [next(regret(experiment, MAZE, policy)) for experiment, policy in rules],
    )
    order = [one for one in race("main", MAZE)["ranking"] if one != "ucb1-three-paths"]
    assert order[:3] == ["own", "ucb1", "gts-diag"]
    yield (
        "UCB1 has {:.1f}, the next one, GTS-diag, {:.1f}, and DiffTS by the default rule {:.1f}",
        regret("main", MAZE, "ucb1", "gts-diag", OURS),
    )
    yield (
        "Its three trainings have {:.1f}, {:.1f} and {:.1f}; from exact data {:.1f}, {:.1f} and "
        "{:.1f}. UCB1, which learns nothing, has {:.1f}",
        [*of_papers_trainings(MAZE), *regret("main", MAZE, "ucb1", data=IMPERFECT)],
    )
    yield (
        "Its three trainings from imperfect data have {:.1f}, {:.1f} and {:.1f}, from exact data "
        "{:.1f}, {:.1f} and {:.1f}. GTS-full has {:.1f}, a tie; our mixtures from the same data "
        "have {:.1f} and {:.1f}",
        [
            *of_papers_trainings(BIDDING),
            *regret("main", BIDDING, "gts-full", "gmmts-25", "gmmts-10", data=IMPERFECT),
        ],
    )
    yield "It has {:.1f}, from exact data {:.1f}", reversed(from_both(BIDDING, PAPERS))
    gap = race("main", BIDDING, IMPERFECT, PAPERS)["lines"]["gts-full"]
    assert abs(gap["above_first_line"]) < 2 * gap["stderr_of_that"]  # a tie
    slots = FIRST_RUN["real-slots"]["panels"]
    wins = sum(panel["best"] == "diffts" for panel in slots)
    yield "In the first run DiffTS is first in {} of {} plots", [wins, len(slots)]
    wrong = plot(FIRST_RUN["one-seed"]["panels"], MAZE, "perfect", None)["lines"]["gts-full"]
    yield "On Maze GTS-full then had {:.1f}", [wrong["regret"]]
    yield "in full precision it has {:.1f}", regret("main", MAZE, "gts-full")
    yield "MNIST {:.2f} and {:.2f}", distances("mnist", "corrupted", "clean")
    yield "Fashion-MNIST {:.2f} and {:.2f}", distances("fashion-mnist", "corrupted", "clean")
    yield "takes MNIST's distance to {:.2f}", distances("mnist", "corrupted-more")
    yield "One decision is {} times faster", faster("cpu.md", "one decision")[2:]
    graph = faster("h200.md", "one decision", "PyTorch, CUDA graph")
    eager = faster("h200.md", "one decision")
    yield "it is {} times, and {} times against a CUDA graph", [eager[2], graph[2]]
    yield from findings_about_sampling()
    yield from findings_about_imperfect_data()


def findings_about_sampling():
    variances = ("not calibrated", "calibrated", "partly calibrated")
    yield (
        "has {:.1f} without calibration, {:.1f} with it, and {:.1f} where the last step alone",
        ablation("variance", LABELED, *variances),
    )
    calibrated = plot(PAPER["variance"]["panels"], LABELED, None, None)
    yield "Up to round {} the uncalibrated", [calibrated["behind_until"]]
    yield (
        "On Popular and Niche it is {:.1f}, {:.1f} and {:.1f}",
        ablation("variance", PN, *variances),
    )
    kinds = ("predicted noise", "sampled noise")
    yield (
        "Popular and Niche: {:.1f} against {:.1f}; Labeled Arms: {:.1f} against {:.1f}",
        [one for of in (PN, LABELED) for one in ablation("sampled-noise", of, *kinds)],
    )
    yield (
        "sampled noise finds {:.1%} of the groups, predicted noise {:.1%}",
        [PAPER["groups"]["scores"][f"recall with {kind}"] for kind in reversed(kinds)],
    )
    yield (
        "up to {:.1%} of a standard deviation, `moment` by {:.1%}",
        [accuracy("gaussian-1d", sampler, 100) for sampler in ("paper", "moment")],
    )
    yield (
        "`moment` has {:.1f}, the paper's sampler {:.1f}",
        [by_sampler(PN, sampler)["regret"] for sampler in ("moment", "paper")],
    )
    yield (
        "Popular and Niche from {:.1f} to {:.1f} and Maze from {:.1f} to {:.1f}",
        [
            by_sampler(problem, steps=steps, recipe=recipe)["regret"]
            for problem, recipe in ((PN, "residual-mlp 512"), (MAZE, "unet-2d, 5000 steps"))
            for steps in (100, 20)
        ],
    )
    recipes = ("residual-mlp 1024", "residual-mlp 512", "residual-conv, paper's recipe")
    yield (
        "Width 1024 has {:.1f}, width 512 {:.1f}, and the paper's network and training {:.1f}",
        [by_sampler(PN, recipe=recipe)["regret"] for recipe in recipes],
    )


def findings_about_imperfect_data():
    goes = (
        "goes from {:.1f} to {:.1f} on Popular and Niche, from {:.1f} to {:.1f} on Labeled Arms, "
        "from {:.1f} to {:.1f} on Bidding and from {:.1f} to {:.1f} on Maze"
    )
    yield goes, [x for problem in (PN, LABELED, BIDDING, MAZE) for x in from_both(problem, OURS)]
    learned = [
        x
        for problem in (LABELED, BIDDING, PN)
        for x in regret("noise-levels", problem, "diffts", PAPERS, data=IMPERFECT)
    ]
    yield (
        "{:.1f} against {:.1f}, and {:.1f} against {:.1f}. On Popular and Niche they hardly "
        "differ: {:.1f} and {:.1f}",
        learned,
    )
    yield (
        "it goes from {:.1f} to {:.1f} on Bidding and from {:.1f} to {:.1f} on Maze",
        [x for problem in (BIDDING, MAZE) for x in from_both(problem, PAPERS)],
    )
    yield "they cost there, too: {:.1f} and {:.1f}", from_both(LABELED, "diffts")
    start, whole = by_procedure("regret", "ours, no EM"), by_procedure("regret", "ours")
    yield "alone has {:.1f} on Popular and Niche and {:.1f} on Labeled Arms", start
    yield "with EM it is {:.1f} and {:.1f}", whole
    yield (
        "has {:.1f} with EM and {:.1f} without on Popular and Niche. On Labeled Arms it has {:.1f} "
        "with EM and {:.1f} without",
        [
            x
            for of in (PN, LABELED)
            for x in ablation("incomplete-data", of, "with EM", "without EM")
        ],
    )
    gaps = ablation("noisy-incomplete-data", PN, "EM and SURE", "SURE, no EM")
    yield "{:.1f} with it, {:.1f} without", gaps
    weights = [f"λ = {weight}" for weight in (0, 0.1, 0.3, 1)]
    yield (
        "λ = 0, 0.1, 0.3 and 1 have {:.1f}, {:.1f}, {:.1f} and {:.1f} on Labeled Arms, and {:.1f}, "
        "{:.1f}, {:.1f} and {:.1f} on Popular and Niche",
        [one for of in (LABELED, PN) for one in ablation("noisy-data", of, *weights)],
    )
    gaps = ablation("noisy-incomplete-data", PN, "EM and SURE", "EM, λ = 0")
    yield "EM has {:.1f} with λ = 0.1 and {:.1f} with λ = 0", gaps
    tau = {
        one["problem"]: [one["error"], one["error_first_ten"]]
        for one in PAPER["calibration"]["relative error of τ"]
        if one["learner"] == "appendix"
    }
    yield (
        "its error is {:.1%} on Labeled Arms, {:.1%} on Popular and Niche, {:.1%} on Maze and "
        "{:.1%} on Bidding. Over the first ten steps, the last ones of a draw, it is {:.1%}, "
        "{:.1%}, {:.1%} and {:.1%}",
        [tau[problem][i] for i in (0, 1) for problem in (LABELED, PN, MAZE, BIDDING)],
    )
    procedures = ("ours", "paper's, λ = 0.1", "paper's, no EM")
    yield (
        "it is {:.3f} for ours, {:.3f} for the paper's and {:.3f} for the paper's without EM",
        by_procedure("held_out_crps", *procedures, problems=[COMMON]),
    )
    both = ("ours", "ours (warm-up 15000, 3 × 3000 steps)")
    scores = by_procedure("held_out_crps", *both, problems=[COMMON])
    regrets = by_procedure("regret", *both, problems=[COMMON])
    yield "from {:.4f} to {:.4f}, but the regret rises from {:.1f} to {:.1f}", scores + regrets


def imperfect_data():
    procedures = ("ours", "ours, λ = 0.1", "ours, no EM",
                  "paper's, λ = 0.1", "paper's, λ = 0", "paper's, no EM")  # fmt: skip
    names = {f"DiffTS, {name}": name for name in procedures} | {
        "GTS-full": "gts-full",
        "GTS-diag": "gts-diag",
        "UCB1": "ucb1",
        "*DiffTS, exact data*": "clean data",
    }
    for name, prior in names.items():
        text = f"| {name} |"
        for found in (BY_PROCEDURE[problem, prior] for problem in (PN, COMMON)):
            text += f" {with_error(found)} |"
            if "tau_error" in found:
                text += f" {found['tau_error']:.1%} ({found['tau_error_first_ten']:.1%})"
            text += " |"
        yield text, []
    gaps = "{:.1f} ± {:.1f} and {:.1f} ± {:.1f}"
    yield f"The gap to exact data is {gaps}, in favour of imperfect data", above_ours("clean data")
    yield "{:.1f} from exact data and {:.1f} from imperfect", from_both(LABELED, "diffts")
    yield f"on the same data: by {gaps}", above_ours("gts-full")
    yield f"Without it the regret is higher by {gaps}", above_ours("ours, no EM")
    (a, c), (b, d) = (by_procedure("held_out_crps", name) for name in ("ours, no EM", "ours"))
    yield "from {:.4f} to {:.4f} and from {:.4f} to {:.4f}", [a, b, c, d]
    yield f"It adds {gaps}", above_ours("ours, λ = 0.1")
    yield f"add {gaps}", above_ours("ours (warm-up 15000, 3 × 3000 steps)")
    yield f"have {gaps}", [x for both in by_procedure("moment_learned_20", "ours") for x in both]


def samplers():
    yield from accuracy_table()
    yield from with_covariance_table()
    yield from after_play_tables()
    for sampler in ("paper", "moment-diagonal", "moment"):
        for steps in (100, 20):
            found = [by_sampler(problem, sampler, steps) for problem in (PN, COMMON)]
            cells = ["–" if one is None else with_error(one) for one in found]
            yield row(f"`{sampler}`", str(steps), *cells), []
    (one,) = [
        one
        for one in ACCURACY[100]
        if (one["prior"], one["sampler"], one["noise_std"]) == ("gaussian-1d", "paper", 1.0)
    ]
    means = [one["observed_mean"], one["exact_observed_mean"]]
    yield "its mean is {:.2f}. Right is {:.2f}", means
    for line in list(chains())[2:]:
        yield line, []


PAGES = {
    "README.md": readme,
    "docs/reproduction.md": reproduction,
    "docs/evaluation.md": evaluation,
    "docs/findings.md": findings,
    "docs/imperfect-data.md": imperfect_data,
    "docs/samplers.md": samplers,
}
TEXTS = [(page, text.format(*values)) for page in PAGES for text, values in PAGES[page]()]


@pytest.mark.parametrize(("page", "text"), TEXTS, ids=lambda text: text[:40])
def test_a_page_says_what_the_result_files_say(page, text):
    words = " ".join((ROOT / page).read_text().split())
    assert text in words, f"{page} should say: {text}"


# No other figures

#: Settings and definitions, which no result file can contradict.
SETTINGS = {"95%", "0.001", "0.1", "0.05", "0.2", "0.3", "0.03", "0.5", "0.9", "1.0"}
#: In no result file: the oracle's, what tests/test_docs.py holds, and the error by chance alone.
OTHERWISE_KNOWN = {
    "README.md": ["3.11 or newer", "38.0 ± 1.8", "0.79 ± 0.09", "about 0.4%", "Apache-2.0"],
    "docs/findings.md": ["under the true prior has 38.0", "means are clipped it has 97.9"],
    "docs/samplers.md": ["about 0.4%"],
}


@pytest.mark.parametrize("page", PAGES)
def test_no_other_figure_stands_in_a_page(page):
    """None with decimals or in percent."""
    text = (ROOT / page).read_text()
    if page == "README.md":  # the demo's table is what `make demo` prints on some machine
        text = re.sub(r"\| policy \| regret.*?\n\n", "", text, flags=re.S)
    text = " ".join(re.sub(r"```.*?```", "", text, flags=re.S).split())
    known = [text for where, text in TEXTS if where == page] + OTHERWISE_KNOWN.get(page, [])
    for one in sorted(known, key=len, reverse=True):  # no short one out of the middle of a long one
        text = text.replace(one, "…")
    text = re.sub(r"`[^`]*`|\]\([^)]*\)", "", text)
    left = {*re.findall(r"\d+(?:\.\d+)?%|\d+\.\d+", text)} - SETTINGS
    assert not left, f"{page}: no result file has these figures"


def test_how_much_faster_the_baselines_are_is_rounded_from_the_table():
    table = (ROOT / "benchmarks/results/baselines.md").read_text()
    ratios = [int(value) for value in re.findall(r"\| (\d+) \(50: ", table)]
    (told,) = re.findall(r"(\d+) to (\d+) times faster", (ROOT / "README.md").read_text())
    assert [int(value) for value in told] == pytest.approx([min(ratios), max(ratios)], rel=0.02)


def test_claims_in_the_folder_are_judged_by_its_summaries():
    verdicts = judge_claims(RESULTS / "paper")
    claims = json.loads(json.dumps([verdict.as_row() for verdict in verdicts]))
    assert PAPER["claims"]["claims"] == claims
    tallies = {whose: count._asdict() for whose, count in tally(verdicts).items()}
    assert PAPER["claims"]["tally"] == tallies
