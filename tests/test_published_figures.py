"""Figures in README.md and in the docs about results are those of the result files.

Each sentence below is written from the result files and must be in the page, word for word (line
breaks aside). So after a new run this test fails with the sentences that the page should have. In
the sections that discuss results no other figure with decimals may stand, but those that are listed
as not in the result files.
"""

import csv
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results" / "paper"
PN, LABELED, BIDDING, MAZE = "popular-niche", "labeled-arms-common", "bidding", "maze"
LEVELS = {"0.1", "0.05", "0.2", "0.3"}  # noise levels and λ: settings, no results


# What the result files say


def summary(name):
    return json.loads((RESULTS / f"{name}.json").read_text())


SUMMARIES = {path.stem: summary(path.stem) for path in RESULTS.glob("*.json")}
CLAIMS = SUMMARIES["claims"]["claims"]


def panel(experiment, problem, level, data=None):
    """A plot; ``data`` where there are two kinds."""
    ending = f"σ̂ = {level:g}" if data is None else f", {data} data, σ̂ = {level:g}"
    (found,) = [
        one
        for one in SUMMARIES[experiment]["panels"]
        if one["problem"] == problem and one["title"].endswith(ending)
    ]
    return found


def line(policy, problem, data="perfect", level=None, experiment="noise-levels"):
    level = level or {BIDDING: 0.2}.get(problem, 0.1)
    return panel(experiment, problem, level, data)["lines"][policy]


def regret(*which, **more):
    return f"{line(*which, **more)['regret']:.1f}"


def gap(*which, **more):
    """Baseline minus DiffTS."""
    one = line(*which, **more)
    return f"{one['above_first_line']:.1f} ± {one['stderr_of_that']:.1f}"


def ours(problem, data="perfect", level=None):
    return regret("diffts", problem, data, level)


def ablation(experiment, problem, level, label):
    return f"{panel(experiment, problem, level)['lines'][label]['regret']:.1f}"


def change(experiment, problem, level, label):
    """Of a line against the first one of its plot."""
    one = panel(experiment, problem, level)["lines"][label]
    return f"{one['above_first_line']:.1f} ± {one['stderr_of_that']:.1f}"


def times(policy, problem, data):
    """How many times a policy's regret is that of DiffTS, in the main results."""
    return line(policy, problem, data)["regret"] / line("diffts", problem, data)["regret"]


def behind(problem, data):
    level = {BIDDING: 0.2}.get(problem, 0.1)
    return panel("main", problem, level, data)["behind_until"]


def firsts(experiment):
    panels = SUMMARIES[experiment]["panels"]
    return f"{sum(one['best'] == 'diffts' for one in panels)} of {len(panels)}"


def name_of(label):
    """'gmmts-25 (perfect data)' as 'GMMTS-25'."""
    policy = label.removesuffix(" (perfect data)")
    return policy.upper().replace("FULL", "full").replace("DIAG", "diag")


def best(problem, data, suits, level=None, racing=True):
    """The label with the lowest regret among those that suit."""
    one = panel("noise-levels", problem, level or {BIDDING: 0.2}.get(problem, 0.1), data)
    labels = [label for label in (one["ranking"] if racing else one["lines"]) if suits(label)]
    return min(labels, key=lambda label: one["lines"][label]["regret"])


def mixture(problem, data="perfect", level=None):
    return best(problem, data, lambda label: label.startswith("gmmts"), level)


def beside_mixture(problem, data="perfect", level=None, brackets=True):
    """'13.1, GMMTS-25 15.6 (gap 2.5 ± 0.9)': DiffTS and the better mixture."""
    label = mixture(problem, data, level)
    told = f"gap {gap(label, problem, data, level)}"
    told = f" ({told})" if brackets else f", {told}"
    other = regret(label, problem, data, level)
    return f"{ours(problem, data, level)}, {name_of(label)} {other}{told}"


def beside_perfect_mixture(problem, words=""):
    """DiffTS from imperfect data, and the better mixture from perfect data."""
    label = best(problem, "imperfect", lambda text: text.endswith("(perfect data)"), racing=False)
    which = (label, problem, "imperfect")
    return (
        f"{ours(problem, 'imperfect')}, {name_of(label)}{words} {regret(*which)} "
        f"(gap {gap(*which)})"
    )


def two(experiment, problem, label, of):
    """'115.8 against 95.9, 115.4 against 70.0': at both noise levels."""
    return ", ".join(
        f"{ablation(experiment, problem, level, label)} against "
        f"{ablation(experiment, problem, level, of)}"
        for level in (0.1, 0.05)
    )


def pairs(experiment, problem, without, with_it):
    """Both noise levels without EM and with it."""
    return [
        ", ".join(ablation(experiment, problem, level, label) for label in (without, with_it))
        for level in (0.1, 0.05)
    ]


def weights(problem, level):
    labels = ("λ = 0", "λ = 0.1", "λ = 0.3", "λ = 1")
    return ", ".join(ablation("noisy-data", problem, level, label) for label in labels)


def tau(problem, learner):
    (row,) = [
        one
        for one in SUMMARIES["calibration"]["relative error of τ"]
        if (one["problem"], one["learner"]) == (problem, learner)
    ]
    return row["error"], row["error_first_ten"]


def tau_in_words(problem, learner, words=""):
    error, first_ten = tau(problem, learner)
    return f"{error:.1%} ({words}{first_ten:.1%})"


def rise(problem, level, variance):
    """Regret a hundred rounds from round 800 to 1000."""
    with (RESULTS / "variance.csv").open() as file:
        rows = {
            int(row["round"]): float(row["regret"])
            for row in csv.DictReader(file)
            if (row["problem"], float(row["noise_std"]), row["variance"])
            == (problem, level, variance)
        }
    return f"{(rows[1000] - rows[800]) / 2:.1f}"


def last_row(**wanted):
    """The last recorded round of one run of the main results."""
    with (RESULTS / "main.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if wanted.items() <= row.items()]
    return max(rows, key=lambda row: int(row["round"]))


def real(policy, data, level):
    (one,) = [
        one
        for one in SUMMARIES["real-slots"]["panels"]
        if one["title"].endswith(f", {data} data, σ̂ = {level:g}")
    ]
    return f"{one['lines'][policy]['regret']:.1f} ± {one['lines'][policy]['stderr']:.1f}"


def clear_firsts():
    """Of the plots in which DiffTS is first, those by more than two standard errors of the gap."""
    clear = []
    for one in SUMMARIES["noise-levels"]["panels"]:
        if one["best"] == "diffts":
            second = one["lines"][one["ranking"][1]]
            clear.append(second["above_first_line"] > 2 * second["stderr_of_that"])
    return f"Of the {len(clear)}, {sum(clear)} by more than two standard errors"


def tally():
    verdicts = [claim["agrees"] for claim in CLAIMS]
    return verdicts.count(True), verdicts.count(False), len(verdicts)


def seconds(file, case, program="diffts"):
    """Median and ratio of a row of benchmarks/results."""
    text = (ROOT / "benchmarks" / "results" / file).read_text()
    rows = [[cell.strip() for cell in row.split("|")] for row in text.splitlines() if "|" in row]
    (row,) = [row for row in rows if row[1:3] == [case, program]]
    return row[3], row[5]


def speed(file, case, where, program="PyTorch, eager"):
    ours, _ = seconds(file, case)
    theirs, _ = seconds(file, case, program)
    ratio = float(theirs.split()[0]) / float(ours.split()[0])
    if program == "PyTorch, eager":  # the table has it, from unrounded times
        ratio = float(seconds(file, case)[1])
    return f"| {where} | {ours} | {theirs} | {ratio:.1f}× |"


# What the pages must say


def readme():
    agree, disagree, claims = tally()
    cpu, gpu = "two CPU cores", "one H200"
    yield "DiffTS is first in these six plots" if firsts("main") == "6 of 6" else firsts("main")
    yield f"in {firsts('noise-levels').replace('of', 'of the')} with other noise levels"
    yield (
        f"on Popular and Niche it is behind until round {behind(PN, 'perfect')} of 1000 "
        f"({behind(PN, 'imperfect')} from imperfect data)"
    )
    yield (
        f"Of the {claims} claims of the paper that we check, {agree} agree with our results and "
        f"{disagree} do not"
    )
    higher = [
        line("diffts", LABELED, "imperfect", level)["regret"]
        / line("diffts", LABELED, "perfect", level)["regret"]
        - 1
        for level in (0.1, 0.05)
    ]
    yield (
        f"on Labeled Arms (common scale) its regret was {higher[0]:.0%} (σ̂ = 0.1) and "
        f"{higher[1]:.0%} (0.05) higher"
    )
    for case in ("one decision", "100 tasks", "training step"):
        yield speed("cpu.md", case, f"{case}, {cpu}")
        yield speed("h200.md", case, f"{case}, {gpu}")
        if case != "training step":
            yield speed("h200.md", case, "… PyTorch with a CUDA graph", "PyTorch, CUDA graph")


def claims_of_the_races():
    agree, disagree, claims = tally()
    yield f"**{agree} of {claims} claims agree, {disagree} do not.**"
    yield f"perfect and imperfect data | first in {firsts('main')} |"
    next_best = {
        data: best(MAZE, data, lambda label: label != "diffts") for data in ("perfect", "imperfect")
    }
    learned = {
        data: best(MAZE, data, lambda label: label not in ("diffts", "ucb1"))
        for data in ("perfect", "imperfect")
    }
    yield (
        f"Popular and Niche {times(mixture(PN), PN, 'perfect'):.2f} times (perfect data), "
        f"{times(mixture(PN, 'imperfect'), PN, 'imperfect'):.2f} times (imperfect); Maze "
        + ", ".join(f"{times(next_best[data], MAZE, data):.2f} times" for data in next_best)
    )
    third = " and ".join(dict.fromkeys(name_of(label) for label in learned.values()))
    second = " and ".join(dict.fromkeys(name_of(label) for label in next_best.values()))
    ratios = [times(label, MAZE, data) for data, label in learned.items()]
    yield (
        f"(next is {second}; the next one that learns from data, {third}, is "
        f"{ratios[0]:.1f} and {ratios[1]:.1f} times above DiffTS)"
    )
    yield (
        f"Popular and Niche: {name_of(mixture(PN))} {regret(mixture(PN), PN)}, GTS-full "
        f"{regret('gts-full', PN)}; Maze: {name_of(mixture(MAZE))} "
        f"{regret(mixture(MAZE), MAZE)}, GTS-full {regret('gts-full', MAZE)}"
    )
    yield (
        f"perfect data: {beside_mixture(BIDDING)}; imperfect: "
        f"{beside_mixture(BIDDING, 'imperfect')}. Simulated slots"
    )
    yield (
        f"Popular and Niche {beside_perfect_mixture(PN, ' from perfect data')}; Maze "
        f"{beside_perfect_mixture(MAZE)}; Bidding {beside_perfect_mixture(BIDDING)}. Beside the "
        f"three: Labeled Arms {beside_perfect_mixture(LABELED)}"
    )
    yield (
        f"first in {firsts('noise-levels')}; not on Bidding at σ̂ = 0.1 (perfect data: "
        f"{beside_mixture(BIDDING, 'perfect', 0.1, brackets=False)}; imperfect: "
        f"{beside_mixture(BIDDING, 'imperfect', 0.1, brackets=False)}), and, within its error, on "
        f"Labeled Arms from perfect data at 0.1 ({beside_mixture(LABELED, brackets=False)}). "
        f"{clear_firsts()}; the other two: Labeled Arms, perfect data, 0.05 (gap "
        f"{gap(mixture(LABELED, level=0.05), LABELED, level=0.05)}) and Bidding, imperfect data, "
        f"0.2 ({gap(mixture(BIDDING, 'imperfect'), BIDDING, 'imperfect')})"
    )
    (levels,) = [one["measured"] for one in CLAIMS if one["claim"].startswith("over all")]
    at = {
        policy: min(
            (line(policy(level), BIDDING, "imperfect", level)["regret"], level, policy(level))
            for level in (0.1, 0.2, 0.3)
        )
        for policy in (lambda _: "diffts", lambda level: mixture(BIDDING, "imperfect", level))
    }
    (a, a_level, _), (b, b_level, other) = at.values()
    yield (
        f"| {levels.split('.')[0]}; not on Bidding from imperfect data: {a:.1f} (σ̂ = {a_level}), "
        f"{name_of(other)} {b:.1f} (σ̂ = {b_level}) |"
    )


def claims_of_the_ablations():
    uncalibrated = [
        f"{ablation('variance', p, level, 'not calibrated')} against "
        f"{ablation('variance', p, level, 'calibrated')}"
        for p in (LABELED, PN)
        for level in (0.1, 0.05)
    ]
    yield (
        f"Labeled Arms {uncalibrated[0]} (σ̂ = 0.1), {uncalibrated[1]} (0.05); Popular and Niche "
        f"{uncalibrated[2]}, {uncalibrated[3]}"
    )
    partly = [two("variance", p, "partly calibrated", "calibrated") for p in (LABELED, PN)]
    yield f"Labeled Arms {partly[0]}; Popular and Niche {partly[1]}"
    sampled = [two("sampled-noise", p, "sampled noise", "predicted noise") for p in (LABELED, PN)]
    yield f"| {sampled[0]}; on Popular and Niche, too: {sampled[1]} |"
    em = [pairs("incomplete-data", p, "without EM", "with EM") for p in (LABELED, PN)]
    sure = [pairs("noisy-incomplete-data", p, "SURE, no EM", "EM and SURE") for p in (LABELED, PN)]
    first, then = em[0][0].split(", ")
    helped = [
        float(pair.split(", ")[0]) > float(pair.split(", ")[1]) for pair in [*sure[0], *sure[1]]
    ]
    yield (
        f"Labeled Arms {first} without EM, {then} with it; {em[0][1]}; Popular and Niche "
        f"{em[1][0]}; {em[1][1]}. With noise in {sum(helped)} of 4: Labeled Arms {sure[0][0]}; "
        f"**{sure[0][1]}**; Popular and Niche {sure[1][0]}; {sure[1][1]} | in "
        f"{4 + sum(helped)} of 8 |"
    )
    yield (
        f"on Labeled Arms: {weights(LABELED, 0.1)} (σ̂ = 0.1), {weights(LABELED, 0.05)} (0.05); on "
        f"Popular and Niche: {weights(PN, 0.1)} and {weights(PN, 0.05)}"
    )
    of_ours = "; ".join(
        [
            f"ours: Labeled Arms {tau_in_words(LABELED, 'ours', 'first ten steps ')}, Popular and "
            f"Niche {tau_in_words(PN, 'ours')}, Bidding {tau_in_words(BIDDING, 'ours')}, Maze "
            f"{tau_in_words(MAZE, 'ours')}",
            f"the paper's: Labeled Arms {tau_in_words(LABELED, 'paper')}, Popular and Niche "
            f"{tau_in_words(PN, 'paper')}",
        ]
    )
    yield of_ours
    groups = SUMMARIES["groups"]["scores"]
    yield "; ".join(
        " and ".join(
            f"{groups[f'{what} with {kind} noise']:.1%}" for what in ("recall", "precision")
        )
        for kind in ("predicted", "sampled")
    )
    yield (
        f"DiffTS is first in {firsts('real-slots').replace('of', 'of the')} plots, on a par with "
        "the mixtures in two"
    )
    yield (
        f"GMMTS-10 from imperfect data at 0.1 ({real('diffts', 'imperfect', 0.1)} against "
        f"{real('gmmts-10', 'imperfect', 0.1)})"
    )


def discussion():
    yield f"below our best baseline ({regret(mixture(PN), PN)}); DiffTS ({ours(PN)}) has come"
    yield (
        f"its mean regret is {ours(BIDDING, level=0.1)} at 0.1 and {ours(BIDDING)} at 0.2, where "
        f"for GMMTS-25 it is {regret('gmmts-25', BIDDING, level=0.1)} and "
        f"{regret('gmmts-25', BIDDING)}"
    )
    loses = [
        f"from {regret(policy, BIDDING)} to {regret(policy, BIDDING, 'imperfect')}"
        for policy in ("gts-full", "gmmts-25", "diffts")
    ]
    yield f"GTS-full goes {loses[0]}, GMMTS-25 {loses[1]}, DiffTS {loses[2]} (σ̂ = 0.2)"
    both = [f"from {ours(LABELED, 'perfect', s)} to {ours(LABELED, 'imperfect', s)}"
            for s in (0.1, 0.05)]  # fmt: skip
    nothing = [f"{ours(PN, 'perfect', s)} and {ours(PN, 'imperfect', s)}" for s in (0.1, 0.05)]
    yield (
        f"On Labeled Arms DiffTS goes {both[0]} (σ̂ = 0.1) and {both[1]} (0.05), on Popular and "
        f"Niche it loses nothing ({nothing[0]}, {nothing[1]})"
    )
    yield f"On Maze ({ours(MAZE, 'imperfect')} against {ours(MAZE)}) that has not been measured"
    gaussian = last_row(problem=MAZE, data="perfect", policy="gts-full", noise_std="0.1", seed="0")
    played = f"{float(gaussian['regret']):.1f} ± {float(gaussian['stderr']):.1f}"
    yield f"GTS-full at σ̂ = 0.1, seed 0, has {played} on the GPU"
    rises = {
        (p, mode): " and ".join(rise(p, level, mode) for level in (0.1, 0.05))
        for p in (LABELED, PN)
        for mode in ("plain", "calibrated")
    }
    yield (
        f"on Labeled Arms by {rises[LABELED, 'plain']} a hundred rounds from round 800 to 1000, "
        f"against {rises[LABELED, 'calibrated']} when calibrated (σ̂ = 0.1 and 0.05), on Popular "
        f"and Niche by {rises[PN, 'plain']} against {rises[PN, 'calibrated']}"
    )
    ratios = [
        float(ablation("variance", p, level, "not calibrated"))
        / float(ablation("variance", p, level, "calibrated"))
        for p in (LABELED, PN)
        for level in (0.1, 0.05)
    ]
    yield (
        f"that is {ratios[0]:.1f} and {ratios[1]:.1f} times the calibrated regret on Labeled Arms, "
        f"{ratios[2]:.1f} and {ratios[3]:.1f} times on Popular and Niche"
    )
    error, first_ten = tau(LABELED, "paper")
    own = ablation("noisy-incomplete-data", LABELED, 0.05, "our procedure")
    yield (
        f"its τ is off by {error:.0%} ({first_ten:.0%} in the first ten steps). Our own procedure "
        f"has {own}"
    )
    noisy = [change("noisy-data", PN, level, "λ = 0.1") for level in (0.1, 0.05)]
    yield f"Popular and Niche by {noisy[0]} at σ̂ = 0.1 and {noisy[1]} at 0.05"

    def weight(problem, level):
        """λ = 0.1 beside λ = 0, whose gap is told the other way round."""
        lines = panel("noisy-incomplete-data", problem, level)["lines"]
        with_it, without = lines["EM and SURE"], lines["EM, λ = 0"]
        more, error = -without["above_first_line"], without["stderr_of_that"]
        return with_it["regret"], without["regret"], f"({more:.1f} ± {error:.1f})"

    (a, b, c), (d, e, f), (g, h, i), (j, k, m) = (
        weight(p, level) for p in (PN, LABELED) for level in (0.1, 0.05)
    )
    yield (
        f"with it the regret is {a:.1f} against {b:.1f} with λ = 0 {c}, and {d:.1f} against "
        f"{e:.1f} {f}; but on Labeled Arms, too: {g:.1f} against {h:.1f} {i}, and {j:.1f} against "
        f"{k:.1f} {m}"
    )


def figures_section():
    rounds = {d: [behind(p, d) for p in (PN, BIDDING, MAZE)] for d in ("perfect", "imperfect")}
    a, b, c = rounds["perfect"]
    d, e, f = rounds["imperfect"]
    yield (
        f"DiffTS is behind another policy until round {a} on Popular and Niche, {b} on Bidding and "
        f"{c} on Maze (perfect data), and {d}, {e} and {f} (imperfect;"
    )


def imperfect_data():
    corrected = [line("gmmts-10", problem, "imperfect") for problem in (PN, LABELED)]
    told = [f"{one['regret']:.1f} ± {one['stderr']:.1f}" for one in corrected]
    yield f"Since then {told[0]} (three seeds) and, on Labeled Arms, {told[1]}"
    yield (
        f"is better from clean data: {ours(LABELED)}, against which ours from imperfect data had "
        f"{ours(LABELED, 'imperfect')}"
    )


SENTENCES = [
    *(("README.md", text) for text in readme()),
    *(("docs/imperfect-data.md", text) for text in imperfect_data()),
    *(("docs/reproduction.md", text) for text in figures_section()),
    *(("docs/reproduction.md", text) for text in claims_of_the_races()),
    *(("docs/reproduction.md", text) for text in claims_of_the_ablations()),
    *(("docs/reproduction.md", text) for text in discussion()),
]


def text_of(page):
    """A page with every run of blanks and line breaks as one blank."""
    return " ".join((ROOT / page).read_text().split())


@pytest.mark.parametrize(("page", "sentence"), SENTENCES, ids=lambda text: text[:40])
def test_a_sentence_says_what_the_result_files_say(page, sentence):
    assert sentence in text_of(page), f"{page} should say: {sentence}"


# No other figures


#: Of 'Where we differ': from throw-away runs and other commands, named there.
NOT_IN_RESULT_FILES = """
38.0 2.1 0.18 16.3 17.7 14.3 22.0 15.9 0.9 14.3 0.8 17.9 1.0 19.4 41.3 1.5 18.9 2.3 18.8 1.8 24.2
3.2 94.7 1.4 96.0 94.2 96.2 95.8 96.7 96.4 0.617 0.633 105.0 0.8 0.8 80.0 1.3 1.25 116.4 0.9 94.0
0.9 56.5 92.1 71.7 12.7 0.8 14.0 0.8
"""


def left_over(section):
    """Figures with decimals in a section, less those that a sentence above accounts for."""
    text = " ".join(
        re.split(r"\n## ", (ROOT / "docs/reproduction.md").read_text())[section].split()
    )
    for page, sentence in SENTENCES:
        if page == "docs/reproduction.md":
            text = text.replace(sentence, "…")
    text = re.sub(r"1e-5|`[^`]*`", "", text)
    return [figure for figure in re.findall(r"\d+\.\d+", text) if figure not in LEVELS]


def section(title):
    parts = re.split(r"\n## ", (ROOT / "docs/reproduction.md").read_text())
    return next(i for i, part in enumerate(parts) if part.startswith(title))


def test_all_figures_of_the_claims_are_accounted_for():
    assert left_over(section("Claim by claim")) == []


def test_figures_of_the_discussion_are_accounted_for_or_named():
    assert left_over(section("Where we differ")) == NOT_IN_RESULT_FILES.split()


# Tables


def rows_of_table(header):
    lines = (ROOT / "docs/reproduction.md").read_text().splitlines()
    start = next(i for i, text in enumerate(lines) if text.startswith(header)) + 2
    stop = next(i for i in range(start, len(lines)) if not lines[i].startswith("|"))
    return [[cell.strip() for cell in text.strip("|").split("|")] for text in lines[start:stop]]


def test_claims_are_all_told_with_their_verdicts():
    rows = rows_of_table("| the paper says | measured | agrees |")
    assert len(rows) == len(CLAIMS)
    for (says, _, verdict), claim in zip(rows, CLAIMS, strict=True):
        assert (verdict == "yes") == claim["agrees"], (says, claim["claim"])


def test_claims_in_the_folder_are_judged_by_its_summaries():
    with (RESULTS / "claims.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["claim"] for row in rows] == [claim["claim"] for claim in CLAIMS]
    assert [row["agrees"] for row in rows] == [str(claim["agrees"]) for claim in CLAIMS]
    agree, disagree, claims = tally()
    assert SUMMARIES["claims"]["tally"] == {
        "agree": agree, "disagree": disagree, "undecided": 0, "claims": claims,
    }  # fmt: skip


def test_scores_of_images_are_those_of_the_result_files():
    kinds = {
        "trained on clean images": "clean",
        "trained on corrupted images": "corrupted",
        "one more repeat, at λ = 1": "corrupted-more",
        "*corrupted images, filled with means*": "corrupted images",
        "*other clean images*": "other images",
    }
    found = {}
    name = ""
    for which, model, *scores in rows_of_table("| set | model | Fréchet distance"):
        name = which.lower() or name
        found.setdefault(name, {})[kinds[model]] = scores
    for name, models in found.items():
        for kind, told in models.items():
            scores = SUMMARIES[name]["scores"][kind]
            error = scores.get("hidden-pixel RMSE")
            assert told == [
                f"{scores['Fréchet distance']:.2f}",
                f"{scores['diversity']:.2f}",
                "" if error is None else f"{error:.3f}",
            ]
        assert models.keys() == SUMMARIES[name]["scores"].keys()
