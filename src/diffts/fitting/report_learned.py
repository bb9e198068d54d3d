"""What was learned, for the eye: task vectors beside draws, arms that go together, best arms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.cluster.hierarchy as hierarchy
import scipy.spatial.distance as distance
from numpy.typing import NDArray

from diffts.diffusion.exact import GaussianMixture
from diffts.diffusion.prior import DiffusionPrior
from diffts.figures.fit_report import colour_key, correlation_image, value_image
from diffts.fitting.fitted import Fitted, Law
from diffts.fitting.report_words import (
    is_number,
    name,
    number,
    percent,
    section,
    significant,
    table,
)

_ROWS = 24  # task vectors and draws in the picture
_DRAWS = 500  # for correlations of a diffusion prior: each is known to ± 0.045
_CLEAR = 0.25  # weaker correlations are not told: the strongest of many may be chance
_MOST_ARMS = 30  # in the map of correlations, with names
_PAIRS, _ARMS = 6, 6


class Learned(NamedTuple):
    """What a law says of the arms.

    Attributes:
        draws: ``(n, K)``.
        correlation: between arms, ``(K, K)``; 0 where an arm does not vary.
        std: of each arm, ``(K,)``.
        order: the arms, those that go together side by side.
    """

    draws: NDArray[np.float64]
    correlation: NDArray[np.float64]
    std: NDArray[np.float64]
    order: NDArray[np.intp]


def look_into(law: Law) -> Learned:
    """Draws, correlations (exact for Gaussians and mixtures), and an order of the arms."""
    if isinstance(law, DiffusionPrior):
        draws = np.asarray(law.sample(_DRAWS, seed=0), np.float64)
        centred = draws - draws.mean(0)
        covariance = centred.T @ centred / len(draws)
    else:
        mixture = GaussianMixture.of(law)
        draws = mixture.sample(_ROWS, seed=0)
        apart = mixture.means - mixture.mean
        inside = np.einsum("c,cij->ij", mixture.weights, mixture.covariances)
        covariance = inside + (mixture.weights[:, None] * apart).T @ apart
    std = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    varies = std > 1e-9 * max(float(std.max()), 1e-300)
    scale = np.where(varies, std, np.inf)
    correlation = np.clip(covariance / np.outer(scale, scale), -1.0, 1.0)
    return Learned(draws, correlation, std, similar_side_by_side(correlation))


def similar_side_by_side(correlation: NDArray[np.float64]) -> NDArray[np.intp]:
    """An order of the arms by a tree of their correlations (average linkage on ``1 - r``)."""
    n_arms = len(correlation)
    if n_arms < 3:
        return np.arange(n_arms)
    apart = 1.0 - (correlation + correlation.T) / 2
    np.fill_diagonal(apart, 0.0)
    # The best order of the tree's leaves takes time in the cube of their number.
    tree = hierarchy.linkage(
        distance.squareform(apart, checks=False), "average", optimal_ordering=n_arms <= 200
    )
    return hierarchy.leaves_list(tree).astype(np.intp)


def learned(fitted: Fitted, facts: Mapping[str, Any], past: NDArray[np.float64]) -> str:
    """The whole part of the page."""
    arms = fitted.arms
    if len(arms) < 2:
        only = f"<p>There is one arm only, {name(arms[0])}: nothing to choose from.</p>"
        return section("What was learned", only)
    seen, binary = look_into(fitted.law), bool((facts.get("log") or {}).get("binary"))
    return section(
        "What was learned",
        _side_by_side(seen, past, binary)
        + _together(seen, arms, fitted.kind)
        + _best_arms(facts.get("arms") or (), percent if binary else number),
    )


def _side_by_side(seen: Learned, past: NDArray[np.float64], binary: bool) -> str:
    """Task vectors and draws, rows sorted by the direction in which draws vary most."""
    known = np.isfinite(past)
    most_seen = np.argsort(-known.sum(1), kind="stable")[:_ROWS]
    tasks, draws = past[most_seen], seen.draws[:_ROWS]
    centre = seen.draws.mean(0)
    direction = np.linalg.svd(seen.draws - centre, full_matrices=False)[2][0]

    def arranged(rows: NDArray[np.float64]) -> NDArray[np.float64]:
        along = np.where(np.isfinite(rows), rows - centre, 0.0) @ direction
        return rows[np.argsort(along, kind="stable")][:, seen.order]

    values = np.concatenate([tasks[np.isfinite(tasks)], draws.ravel()])
    low, high = (float(end) for end in np.quantile(values, [0.02, 0.98]))
    if binary:  # draws of a share may lie beyond what a share can be
        low, high = max(low, 0.0), min(high, 1.0)
    digits = significant(high - low, 2)
    ends = [percent(end) if binary else number(end, digits) for end in (low, high)]
    panels = []
    if known.any():
        what = f"{len(tasks)} of your tasks"
        panels.append((what, value_image(arranged(tasks), low, high, what)))
    what = f"{len(draws)} made-up ones"
    panels.append((what, value_image(arranged(draws), low, high, what)))
    pictures = "".join(f"<figure><figcaption>{c}</figcaption>{p}</figure>" for c, p in panels)
    return (
        "<h3>Your tasks, and made-up ones</h3>"
        "<p>Each row is a task, each column an arm; bright is a high reward. Made-up tasks are "
        "what the fit expects of new ones: they should look like yours. Yours are rougher, since "
        "their rewards are noisy, and have gaps where an arm was not tried.</p>"
        f'<div class="panels">{pictures}</div>'
        f'<div class="key"><span>{ends[0]}</span>{colour_key()}<span>{ends[1]}</span></div>'
    )


def _together(seen: Learned, arms: Sequence[str], kind: str) -> str:
    """The strongest pairs, and a map of the arms that vary most."""
    title = "<h3>Arms that go together</h3>"
    if kind == "independent":
        return f"{title}<p>None: this belief takes each arm by itself.</p>"
    first, second = np.triu_indices(len(arms), 1)
    pairs = seen.correlation[first, second]
    clear = np.flatnonzero(np.abs(pairs) >= _CLEAR)
    if not clear.size:
        return f"{title}<p>No two arms go together clearly.</p>"
    strongest = clear[np.argsort(-np.abs(pairs[clear]), kind="stable")]
    together = [i for i in strongest if pairs[i] > 0][:_PAIRS]
    against = [i for i in strongest if pairs[i] < 0][: _PAIRS // 2]
    rows = [
        [
            f"{name(arms[first[i]])} and {name(arms[second[i]])}",
            "high together" if pairs[i] > 0 else "one high, one low",
            number(float(pairs[i]), 2, sign=True),
        ]
        for i in (*together, *against)
    ]
    share = number(len(clear)), number(len(pairs))
    return (
        f"{title}<p>Two arms go together if both are better than usual in the same tasks: one "
        f"reward then tells of both. {share[0]} of {share[1]} pairs are clearly related "
        f"(correlation beyond ±{_CLEAR}). The strongest:</p>"
        + table(["arms", "how", "correlation"], rows, words=True)
        + _map(seen, arms)
    )


def _map(seen: Learned, arms: Sequence[str]) -> str:
    if len(arms) < 3:
        return ""
    shown = seen.order
    which = "All arms"
    if len(arms) > _MOST_ARMS:
        varied = set(np.argsort(-seen.std, kind="stable")[:_MOST_ARMS].tolist())
        shown = np.array([arm for arm in seen.order if arm in varied])
        which = f"The {_MOST_ARMS} arms that vary most"
    picture = correlation_image(seen.correlation[np.ix_(shown, shown)], "map of correlations")
    labels = "".join(f"<span>{name(arms[arm], 18)}</span>" for arm in shown)
    return (
        f"<p>{which}, similar ones side by side. Blue: high together. Orange: one high, one low. "
        "Clear: unrelated. Columns are in the order of the rows.</p>"
        f'<div class="map" style="height:max({13 * len(shown)}px,min(60vw,24rem))">'
        f'<div class="labels">{labels}</div>{picture}</div>'
    )


def _best_arms(arms: Sequence[Any], written: Callable[[Any], str]) -> str:
    """The best ones on average, and those on which tasks differ most."""

    def leading(key: str) -> list[Any]:
        known = [arm for arm in arms if is_number(arm.get(key))]
        return sorted(known, key=lambda arm: -arm[key])[:_ARMS]

    def listed(title: str, key: str) -> str:
        rows = [
            [
                name(arm.get("name"), 24),
                written(arm.get("mean")),
                written(arm.get("std")),
                number(arm.get("tasks")),
            ]
            for arm in leading(key)
        ]
        shown = table(["arm", "mean", "spread", "tasks"], rows)
        return f"<div><h3>{title}</h3>{shown}</div>" if rows else ""

    both = listed("Best on average", "mean") + listed("Most different from task to task", "std")
    if not both:
        return ""
    return (
        f'<div class="two">{both}</div><p class="small">Spread: how much the arm’s mean reward '
        "differs between tasks (standard deviation). A large one is where knowing the task pays. "
        "All arms are in report.json.</p>"
    )
