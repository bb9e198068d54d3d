"""How each policy is drawn: a colour, a line and a marker of its own, the same in all pictures.

Warm colours and thick lines are ours; the baselines are thin, in colours that the colour-blind can
tell apart (Okabe and Ito, Tol). In grey print markers and dashes tell them apart. The look of a
baseline says three things at once:

* its colour and the form of its marker, which policy it is;
* a dashed line, that it is played by another rule than its own;
* a dotted, pale line with hollow markers, that it is a reference: it does not race.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from diffts.extras import optional

PERFECT_DATA = " (perfect data)"

#: Dashes as Matplotlib takes them: where they begin, and lengths in widths of the line.
Dashes = tuple[float, tuple[float, ...]]
_SOLID: Dashes = (0.0, ())
_DASHED: Dashes = (0.0, (4.0, 1.6))
_DASH_DOT: Dashes = (0.0, (5.0, 1.4, 1.2, 1.4))
_DOTTED: Dashes = (0.0, (1.2, 1.4))
_OTHER_RULE: Dashes = (0.0, (6.0, 2.5))
_OTHER_RULE_DOTTED: Dashes = (0.0, (4.0, 1.5, 1.0, 1.5, 1.0, 1.5))

_THICK, _MIDDLE, _THIN, _FINE = 1.9, 1.4, 1.0, 0.8


class Look(NamedTuple):
    """How the curve of one policy looks."""

    colour: str
    dashes: Dashes = _SOLID
    marker: str = ""
    width: float = _THIN
    hollow: bool = False  # markers are white inside
    ours: bool = False  # drawn on top of the others

    @property
    def style(self) -> tuple[Dashes, str, bool]:
        """What is left of it without colours."""
        return self.dashes, self.marker, self.hollow

    @property
    def text_colour(self) -> str:
        """The colour of small text about it: dark enough to be read on white."""
        return darkened(self.colour)


def _ours(colour: str, dashes: Dashes = _SOLID, width: float = _THICK) -> Look:
    return Look(colour, dashes, width=width, ours=True)


_RED, _ORANGE, _DARK_RED = "#d7301f", "#f0a000", "#7f0000"
LOOKS = {
    "diffts:default": _ours(_RED),  # our rule, which we advise: no baseline by another one
    "diffts": _ours(_ORANGE, _DASHED),
    "diffts (paper)": _ours(_DARK_RED, _DASH_DOT),
    "diffts-top-two": _ours("#fc8d6e", _DOTTED),
    "ucb1": Look("#6b6b6b", marker="x"),
    "ucb1-standard": Look("#b3b3b3", marker="+"),
    "ucb1-three-paths": Look("#9a9a9a", marker="1"),
    "gts-diag": Look("#009e73", marker="^"),
    "gts-full": Look("#0063a8", marker="s"),
    "gts-top-two": Look("#88bbdd", marker="v"),
    "gmmts-10": Look("#4fb3e8", marker="o"),
    "gmmts-25": Look("#762a83", marker="D"),
    "bayes-ucb": Look("#999933", marker="<"),
    "gaussian-greedy": Look("#8c564b", marker=">"),
    "epsilon-greedy": Look("#44aa99", marker="P"),
    "uniform": Look("#000000", marker="*"),
}
#: What varies in the ablations: the paper's DiffTS as it looks in the races, and cold colours for
#: what is changed of it.
_PAPERS = _ours(_DARK_RED, _DASH_DOT, _MIDDLE)
_CHANGED = _ours("#1b8a7a", _DASHED, _MIDDLE)
_LESS = _ours("#8064b4", _DOTTED, _MIDDLE)
VARIANTS = {
    "predicted noise": _PAPERS,
    "sampled noise": _CHANGED,
    "calibrated": _PAPERS,
    "partly calibrated": _CHANGED,
    "not calibrated": _LESS,
    "with EM": _PAPERS,
    "without EM": _CHANGED,
    "EM and SURE": _PAPERS,
    "EM, λ = 0": _LESS,
    "SURE, no EM": _CHANGED,
    "λ = 0": _LESS,
    "λ = 0.1": _PAPERS,
    "λ = 0.3": _CHANGED,
    "λ = 1": _ours("#333333", width=_MIDDLE),
}
_SPARE = (
    Look("#b07d2b", marker="h"),
    Look("#7fbf5b", marker="p"),
    Look("#c49c94", marker="X"),
    Look("#6fc7d1", marker="d"),
    Look("#5254a3", marker="8"),
    Look("#843c39", marker="H"),
    Look("#a3bd3a", marker="1"),
    Look("#cc79a7", marker="2"),
)
_WARM_SPARE = (
    _ours("#e377a2", _DASHED),
    _ours("#b04a10", _DASH_DOT),
    _ours("#fdb57a", _DOTTED),
    _ours("#a5316b"),
    _ours("#8a5a2b", _DASHED),
)


class Name(NamedTuple):
    """The parts of a policy's name in a table, as in 'gmmts-10:default (perfect data)'."""

    policy: str  # with what tells it from others of its family: 'diffts (paper)'
    rule: str  # by which its belief is played; empty for its own
    is_reference: bool

    @staticmethod
    def of(name: str) -> Name:
        """Take a name apart.

        >>> Name.of("gmmts-10:default (perfect data)")
        Name(policy='gmmts-10', rule='default', is_reference=True)
        >>> Name.of("diffts:greedy (moment)").policy
        'diffts (moment)'
        """
        policy, _, after = name.removesuffix(PERFECT_DATA).partition(":")
        rule, space, which = after.partition(" ")
        return Name(f"{policy}{space}{which}", rule, name.endswith(PERFECT_DATA))


def look_of(name: str, *, reference: bool = False) -> Look:
    """How a policy, or a variant in an ablation, is drawn.

    One without a look of its own gets a spare one that depends on its name.
    """
    policy, rule, is_reference = Name.of(name)
    if (own := LOOKS.get(f"{policy}:{rule}")) and not (reference or is_reference):
        return own
    look = LOOKS.get(policy) or VARIANTS.get(policy) or _spare(policy)
    if rule:
        look = look._replace(dashes=_OTHER_RULE)
    if not (reference or is_reference):
        return look
    dashes = _OTHER_RULE_DOTTED if rule else _DOTTED
    pale = mixed(look.colour, "#ffffff", 0.3)
    return look._replace(colour=pale, dashes=dashes, width=_FINE, hollow=True)


def looks_of(names: Iterable[str]) -> dict[str, Look]:
    """A look for each; no two look the same while there are spare looks.

    >>> names = ["diffts (paper)", "diffts (moment)", "mine", "ucb1", "ucb1:greedy", "ucb1:top-two"]
    >>> len(set(looks_of(names).values()))
    6
    """
    chosen: dict[str, Look] = {}
    for name in names:
        look, taken = look_of(name), {(one.colour, one.style) for one in chosen.values()}
        if (look.colour, look.style) in taken:
            colours = {colour for colour, _ in taken}
            unused = (spare for spare in _spares(name) if spare.colour not in colours)
            look = next(unused, look)
        chosen[name] = look
    return chosen


def _spares(policy: str) -> Sequence[Look]:
    return _WARM_SPARE if policy.startswith("diffts") else _SPARE


def _spare(policy: str) -> Look:
    spares = _spares(policy)
    return spares[sum(map(ord, policy)) % len(spares)]


# --- colours -------------------------------------------------------------------------------------

#: Of small text to its ground, as the guidelines for accessible web pages ask (WCAG 2, AA).
LEAST_CONTRAST = 4.5


def darkened(colour: str) -> str:
    """The colour, mixed with as little black as makes small text of it readable on white."""
    return next(
        dark
        for percent in range(101)
        if contrast(dark := mixed(colour, "#000000", percent / 100)) >= LEAST_CONTRAST
    )


def mixed(colour: str, other: str, share: float) -> str:
    """A colour with a share of another one.

    >>> mixed("#ff0000", "#ffffff", 0.2)
    '#ff3333'
    """
    colours = optional("matplotlib.colors", "drawing")
    both = zip(colours.to_rgb(colour), colours.to_rgb(other), strict=True)
    return str(colours.to_hex([(1 - share) * mine + share * its for mine, its in both]))


def contrast(colour: str) -> float:
    """The contrast to white, from 1 (white itself) to 21 (black), as WCAG 2 defines it.

    >>> contrast("#000000")
    21.0
    """
    red, green, blue = map(_linear, optional("matplotlib.colors", "drawing").to_rgb(colour))
    return 1.05 / (0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05)


def _linear(value: float) -> float:
    """The light of an sRGB value from 0 to 1."""
    return value / 12.92 if value <= 0.04045 else float(((value + 0.055) / 1.055) ** 2.4)
