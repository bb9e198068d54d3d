"""What ``demo`` and ``compare`` share: to play policies, and to show how they fared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from diffts.cli.console import out, progress, say, table_of

if TYPE_CHECKING:
    from diffts.diffusion.prior import DiffusionPrior
    from diffts.experiments.compare import Comparison, Outcome


def play(
    comparison: Comparison,
    policies: Mapping[str, bool],
    priors: Mapping[int, DiffusionPrior | None],
    samplers: Sequence[str | None] = (None,),
    steps: int | None = None,
) -> dict[str, Outcome]:
    """All policies on the same tasks, once for each seed and its prior.

    Those of which ``policies`` says that they draw from a prior play once for each sampler; None is
    what suits the prior.
    """
    from diffts.experiments.compare import Outcome

    outcomes: dict[str, Outcome] = {}
    for name, draws in policies.items():
        for sampler in samplers if draws else samplers[:1]:
            label = f"{name} ({sampler})" if draws and len(samplers) > 1 else name
            runs = {}
            for seed, prior in priors.items():
                what = f"playing {label}" + (f", seed {seed}" if len(priors) > 1 else "")
                with progress(what, 100) as advance:

                    def show(done: int, total: int, advance: Any = advance) -> None:
                        advance(int(100 * done / total), f"{done} decisions")

                    policy = comparison.policy(name, prior, sampler, steps)
                    runs[seed] = comparison.play(policy, seed, show)
            used = sampler
            if draws and sampler is None:
                used = next(p.denoiser.default_sampler for p in priors.values() if p is not None)
            outcomes[label] = Outcome(name, used if draws else None, runs)
    return outcomes


def print_outcomes(outcomes: Mapping[str, Outcome], result: dict[str, Any]) -> None:
    """A table, best first, and a sentence."""
    seeds = len(next(iter(outcomes.values())).runs)
    title = f"{result['tasks']} tasks, {result['horizon']} rounds"
    title += f", {seeds} seeds" if seeds > 1 else ""
    numbers = ("regret ± s.e.", "simple regret", "right arm", "as believed", "decisions / s")
    table = table_of(title, ["policy"], *numbers)
    ranked = sorted(result["regret"], key=result["regret"].get)
    for name in ranked:
        table.add_row(
            name,
            f"{result['regret'][name]:.1f} ± {result['stderr'][name]:.1f}",
            f"{result['simple_regret'][name]:.4f}",
            f"{result['share_right'][name]:.0%}",
            f"{result['chance_right'][name]:.0%}",
            f"{result['decisions_per_second'][name]:,.0f}",
        )
    out.print(table)
    say(_sentence(outcomes, ranked))


def _sentence(outcomes: Mapping[str, Outcome], ranked: Sequence[str]) -> str:
    """One plain sentence about the two best policies, with the paired error of their gap."""
    from diffts.experiments.compare import standard_error

    first, *others = ranked
    if not others:
        return f"{first} alone: {outcomes[first].mean_regret[-1]:.1f} of regret."
    second = others[0]
    gaps = (outcomes[second].regret - outcomes[first].regret)[..., -1]  # (seeds, tasks)
    gap, error = float(gaps.mean()), float(standard_error(gaps))
    if gap == 0.0:
        return f"{first} and {second} are level."
    ratio = gap / outcomes[second].mean_regret[-1]
    said = f"{first} is first: {ratio:.0%} less regret than {second}, the next best"
    if error == 0.0:
        return f"{said}; too few tasks to say how sure that is."
    return f"{said}; the gap of {gap:.1f} is {gap / error:.1f} standard errors, task by task."
