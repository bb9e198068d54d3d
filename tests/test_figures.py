"""Pictures are drawn without a display; what they show is for eyes, but some of it can be measured.

Whether curves can be told apart is measured as the eye sees them: in grey, and with the two
commonest kinds of colour-blindness (Machado, Oliveira and Fernandes, 2009, at full strength).
"""

from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.transforms import Bbox

from diffts import DiffusionPrior, Evidence
from diffts.bandits.policies import UCB1, Uniform
from diffts.bandits.simulate import simulate
from diffts.errors import InvalidInputError
from diffts.figures import draw_evolution, draw_prior, draw_regret, draw_tasks
from diffts.figures.images import draw_image_table, image_table
from diffts.figures.looks import LEAST_CONTRAST, LOOKS, VARIANTS, contrast, look_of, looks_of
from diffts.figures.notes import NOTE
from diffts.figures.regret_grid import GridCurve, GridPanel, draw_regret_grid, regret_grid
from diffts.figures.style import label_of, pyplot
from diffts.problems import GaussianRewards

PRIOR = DiffusionPrior.gaussian(np.zeros(6), np.eye(6))


def regret(path):
    tasks = np.random.default_rng(0).random((4, 6))
    runs = {
        name: simulate(policy, tasks, GaussianRewards(std=0.1), horizon=30)
        for name, policy in {"ucb1": UCB1(6, 0.1), "uniform": Uniform(6)}.items()
    }
    draw_regret(runs, path, title="a title")


def tasks(path):
    rows = np.random.default_rng(0).random((8, 6))
    draw_tasks({"data": rows, "draws": rows[::-1]}, path, order=[5, 4, 3, 2, 1, 0])


def evolution(path):
    seen = {0: Evidence.none(6), 3: Evidence([0.5] + [np.nan] * 5, 0.1)}
    draw_evolution(PRIOR, np.zeros(6), seen, path, draws=20)


@pytest.mark.slow
@pytest.mark.parametrize("draw", [regret, tasks, evolution, lambda path: draw_prior(PRIOR, path)])
def test_pictures_are_written(draw, tmp_path):
    draw(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 5000


# --- names and looks -----------------------------------------------------------------------------

OURS = ["diffts", "diffts (Thompson)", "diffts (paper)"]
LEARNING = ["gts-diag", "gts-full", "gmmts-10", "gmmts-25"]
RACING = [*OURS, "ucb1", *LEARNING]
REFERENCES = ["gmmts-10 (perfect data)", "gmmts-25 (perfect data)"]
USUAL = [*RACING, *(f"{name}:default" for name in LEARNING), *REFERENCES]


def test_every_policy_has_one_name():
    assert [label_of(name) for name in USUAL] == [
        "DiffTS", "DiffTS (Thompson)", "DiffTS (paper)", "UCB1",
        "GTS-diag", "GTS-full", "GMMTS-10", "GMMTS-25",
        "GTS-diag, default rule", "GTS-full, default rule",
        "GMMTS-10, default rule", "GMMTS-25, default rule",
        "GMMTS-10 (exact data)", "GMMTS-25 (exact data)",
    ]  # fmt: skip
    assert label_of("gmmts-10:default (perfect data)") == "GMMTS-10, default rule (exact data)"
    assert label_of("diffts:greedy (moment)") == "DiffTS, greedy rule (moment)"
    assert [label_of(name) for name in VARIANTS] == list(VARIANTS)


def test_policies_have_colours_of_their_own():
    assert len({look.colour for look in LOOKS.values()}) == len(LOOKS)
    assert look_of("diffts") == LOOKS["diffts"]
    assert look_of("gmmts-7") == look_of("gmmts-7")
    assert look_of("diffts (moment)").ours
    many = [*USUAL, "diffts:greedy", "diffts:top-two", "diffts (moment)", "mine", "yours"]
    assert len(set(looks_of(many).values())) == len(many)
    assert all(looks_of(many)[name] == look_of(name) for name in USUAL)


def linear(colour):
    light = np.asarray(to_rgb(colour))
    return np.where(light <= 0.04045, light / 12.92, ((light + 0.055) / 1.055) ** 2.4)


TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
EYES = {
    "all colours": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "grey": np.tile(TO_XYZ[1], (3, 1)),
}


def seen(colour, eyes):
    """CIELAB as such eyes see it: ten apart is clear, two is just noticeable."""
    xyz = TO_XYZ @ np.clip(EYES[eyes] @ linear(colour), 0, 1) / TO_XYZ.sum(1)
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def apart(one, other, eyes):
    return np.linalg.norm(seen(one.colour, eyes) - seen(other.colour, eyes))


def test_the_distance_of_colours_is_known_of_black_and_white():
    assert [np.round(seen("white", eyes)[0], 1) for eyes in EYES] == [100.0] * 4
    np.testing.assert_allclose(seen("red", "all colours"), [53.2, 80.1, 67.2], atol=0.1)
    np.testing.assert_allclose(seen("red", "grey")[1:], 0.0, atol=0.1)
    # These two are hard to tell apart where red looks dark.
    dark, green = (
        look_of("diffts")._replace(colour="#8b1a1a"),
        LOOKS["diffts"]._replace(colour="#3b3b16"),
    )
    assert apart(dark, green, "protanopia") < 12 < 50 < apart(dark, green, "all colours")


@pytest.mark.parametrize("eyes", EYES)
def test_all_eyes_can_tell_any_two_curves_apart(eyes):
    for one, other in combinations(map(look_of, USUAL), 2):
        assert one.style != other.style or apart(one, other, eyes) > 20, (one, other)
    # Of variants, those that are drawn together.
    for names in (
        ["predicted noise", "sampled noise"],
        ["calibrated", "partly calibrated", "not calibrated"],
        ["λ = 0", "λ = 0.1", "λ = 0.3", "λ = 1", "gts-full"],
        ["with EM", "without EM", "gts-full"],
        ["EM and SURE", "EM, λ = 0", "SURE, no EM", "gts-full"],
    ):
        for one, other in combinations(map(look_of, names), 2):
            assert one.style != other.style, names


@pytest.mark.parametrize("eyes", EYES)
def test_colours_alone_tell_ours_and_the_mixtures_apart(eyes):
    for names in (OURS, ["gmmts-10", "gmmts-25"], ["gts-full", "gmmts-10"], REFERENCES):
        for one, other in combinations(map(look_of, names), 2):
            assert apart(one, other, eyes) > 10, (names, apart(one, other, eyes))


def test_what_looks_mean():
    ours, others = [look_of(name) for name in OURS], [look_of(name) for name in USUAL[3:]]
    assert min(one.width for one in ours) > 1.5 * max(one.width for one in others)
    for one in ours:  # red or orange: the hue of nothing else
        red, green, blue = to_rgb(one.colour)
        assert red > 1.4 * max(green, blue)
    assert not any(to_rgb(one.colour)[0] > 1.4 * to_rgb(one.colour)[1] for one in others[:4])
    for name in LEARNING:
        own, by_default = look_of(name), look_of(f"{name}:default")
        reference = look_of(f"{name} (perfect data)")
        assert reference == look_of(name, reference=True)
        assert own.marker == by_default.marker == reference.marker != ""
        assert len({own.dashes, by_default.dashes, reference.dashes}) == 3
        assert (reference.hollow, own.hollow) == (True, False)
        assert reference.width < own.width
        assert contrast(reference.colour) < contrast(own.colour)


def test_small_text_can_be_read():
    for name in [*USUAL, *LOOKS, *VARIANTS, "mine"]:
        assert contrast(look_of(name).text_colour) >= LEAST_CONTRAST
    assert look_of("uniform").text_colour == "#000000"  # what is dark enough stays as it is


# --- many regret plots ---------------------------------------------------------------------------


def panel(names, seed=0, title="Labeled Arms (common scale)\nimperfect data, σ̂ = 0.05"):
    """Curves that end between 20 and 200, in another order for each seed."""
    rng, rounds = np.random.default_rng(seed), np.arange(50, 1001, 50)
    curves = []
    for name, end in zip(names, rng.permutation(np.geomspace(20, 200, len(names))), strict=True):
        mean = end * (rounds / 1000) ** rng.uniform(0.3, 0.9)
        curves.append(GridCurve(name, rounds, mean, 0.1 * mean, name in REFERENCES))
    return GridPanel(title, curves)


def grid(*lengths, names=USUAL):
    return [[panel(names, 10 * i + j) for j in range(n)] for i, n in enumerate(lengths)]


@pytest.fixture(scope="module")
def full():
    """All labels in 4 × 3 panels."""
    figure = regret_grid(grid(3, 3, 3, 3), "a title")
    yield figure
    pyplot().close(figure)


@pytest.fixture
def figures():
    """Figures that are made of rows, and forgotten."""
    yield regret_grid
    pyplot().close("all")


def box_of(artist):
    return artist.get_window_extent(artist.figure.canvas.get_renderer())


def notes_of(axes):
    return [text for text in axes.texts if text.get_gid() == NOTE]


def pixels(figure):
    figure.canvas.draw()
    return np.array(figure.canvas.buffer_rgba(), int)


@pytest.mark.slow
def test_notes_have_the_colour_of_their_curve_and_no_curve_is_below_them(full):
    with_curves, high = pixels(full), int(full.bbox.height)
    curves = [one for axes in full.axes for one in (*axes.lines, *axes.collections)]
    for one in curves:
        one.set_visible(False)
    without = pixels(full)
    for one in curves:
        one.set_visible(True)
    assert np.abs(with_curves - without).sum() > 1e6
    for axes in full.axes:
        looks = {label_of(name): look_of(name) for name in USUAL}
        notes = notes_of(axes)
        ends = {line.get_label(): line.get_ydata()[-1] for line in axes.lines}
        leaving = {label: end for label, end in ends.items() if end > axes.get_ylim()[1]}
        assert len(notes) == len(leaving) > 0
        for note in notes:
            label, end = note.get_text().removeprefix("↑ ").rsplit(" ", 1)
            assert float(end) == pytest.approx(leaving[label], abs=0.5)
            assert note.get_color() == looks[label].text_colour
            box = box_of(note)
            left, right = int(box.x0), int(np.ceil(box.x1))
            top, bottom = high - int(np.ceil(box.y1)), high - int(box.y0)
            below = (slice(top, bottom), slice(left, right))
            np.testing.assert_array_equal(with_curves[below], without[below])
            for line in axes.lines:  # curves end where their plot ends
                assert line.get_clip_on()
            assert not Bbox.intersection(box, axes.bbox)


def texts_of(figure):
    """All texts that can be seen."""
    found = [*figure.texts, *(text for legend in figure.legends for text in legend.get_texts())]
    for axes in figure.axes:
        found += [axes.title, axes.xaxis.label, axes.yaxis.label, *axes.texts]
        for scale, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            ticks = scale.get_major_ticks()
            found += [tick.label1 for tick in ticks if low <= tick.get_loc() <= high]
    return [text for text in found if text.get_text()]


def check_texts(figure):
    """None is clipped, none is on another one, and all can be read in print."""
    figure.canvas.draw()
    boxes = [(text, box_of(text)) for text in texts_of(figure)]
    for text, box in boxes:
        assert text.get_fontsize() * 5.5 / 7 > 6, text
        assert figure.bbox.x0 <= box.x0 <= box.x1 <= figure.bbox.x1, text
        assert figure.bbox.y0 <= box.y0 <= box.y1 <= figure.bbox.y1, text
    for (one, mine), (other, its) in combinations(boxes, 2):
        common = Bbox.intersection(mine, its)
        assert common is None or min(common.width, common.height) < 1, (one, other)


@pytest.mark.slow
def test_no_text_is_clipped_or_on_another_one(full, figures):
    assert full.get_size_inches()[0] <= 7.0
    check_texts(full)
    check_texts(figures(grid(6, 4, names=RACING)))
    check_texts(figures([[panel(["λ = 0.1", "gts-full"])]]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lengths", "beside"),
    [((2, 2, 3, 2), True), ((2, 2, 2), False), ((3, 3, 3), False), ((4, 6, 4, 4), True)],
)
def test_rows_begin_at_the_left_and_the_legend_is_in_free_cells_or_below(lengths, beside, figures):
    figure = figures(grid(*lengths, names=[*RACING, *REFERENCES]))
    assert len(figure.axes) == sum(lengths)  # no empty ones
    (legend,) = figure.legends
    assert len(legend.get_texts()) == len(RACING) + len(REFERENCES)
    renderer = figure.canvas.get_renderer()
    plots = [axes.get_tightbbox(renderer) for axes in figure.axes]
    assert not any(Bbox.intersection(box_of(legend), plot) for plot in plots)
    assert (box_of(legend).y0 > min(plot.y0 for plot in plots)) == beside
    # What the rows consist of, from the left: as many columns as are needed, and no hole.
    lefts = sorted({round(axes.bbox.x0) for axes in figure.axes})
    for bottom in {round(axes.bbox.y0) for axes in figure.axes}:
        row = sorted(round(a.bbox.x0) for a in figure.axes if round(a.bbox.y0) == bottom)
        assert row == lefts[: len(row)]
    assert len(lefts) == min(4, max(lengths))
    assert len({round(axes.bbox.width) for axes in figure.axes}) == 1


def test_half_of_the_curves_stay_in_the_picture(figures):
    ends = [1.0, 100.0, 110.0, 5000.0]
    rounds = np.array([1, 2])
    curves = [GridCurve(f"p{end}", rounds, np.full(2, end), np.zeros(2)) for end in ends]
    of_all = GridPanel("a title", curves)
    assert [one.label for one in of_all.leaving(of_all.top)] == ["p5000.0"]
    nothing = [GridCurve("ucb1", rounds, np.zeros(2), np.zeros(2))]
    assert GridPanel("no regret at all", nothing).leaving(0.0) == []
    figures([[GridPanel("no regret at all", nothing)]])


def flat(*ends):
    """Curves that have so much regret throughout."""
    rounds = np.array([1, 2])
    return [GridCurve(f"p{end}", rounds, np.full(2, end), np.zeros(2)) for end in ends]


@pytest.mark.parametrize(
    ("ends", "gone"),
    [
        ((1.0, 1.5, 2.0, 3.59), []),  # 3 is three times the lowest, 3.6 a fifth more
        ((1.0, 1.5, 2.0, 3.61), ["p3.61"]),
        ((1.0, 1.5, 2.0, 3.5, 9.0), ["p9.0"]),
    ],
)
def test_a_curve_that_ends_just_above_the_top_stays(ends, gone):
    panel = GridPanel("a title", flat(*ends))
    assert [one.label for one in panel.leaving(panel.top)] == gone


def test_the_band_of_a_curve_that_stays_is_not_cut():
    """But for a band that would make all else small."""
    rounds = np.array([500, 1000])
    for error, top in ((1.0, 30.0), (6.0, 1.02 * 32.0), (50.0, 36.0)):
        ends = ((10.0, 0.0), (26.0, error), (100.0, 5.0))
        curves = [
            GridCurve(f"p{end}", rounds, np.array([end / 2, end]), np.full(2, stderr))
            for end, stderr in ends
        ]
        assert GridPanel("a", curves).top == pytest.approx(top)


def test_plots_of_one_problem_have_one_scale(figures):
    low, high, other = flat(1.0, 2.0), flat(10.0, 12.0), flat(100.0, 101.0)
    titles = ("Maze\nexact data", "Maze\nimperfect data", "Bidding\nexact data")
    panels = [GridPanel(*one) for one in zip(titles, (low, high, other), strict=True)]
    figure = figures([panels])
    tops = [axes.get_ylim()[1] for axes in figure.axes if axes.get_ylabel() or axes.lines]
    assert tops[0] == tops[1] == pytest.approx(12.6)
    assert tops[2] == pytest.approx(106.05)


@pytest.mark.slow
def test_a_grid_is_written_for_screen_and_print_and_comes_out_the_same(tmp_path):
    rows = grid(2, 1, names=RACING)
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        draw_regret_grid(rows, tmp_path / folder / "main.png")
    written = {file.name: file.read_bytes() for file in (tmp_path / "one").iterdir()}
    assert sorted(written) == ["main.pdf", "main.png"]
    assert written == {file.name: file.read_bytes() for file in (tmp_path / "two").iterdir()}
    assert written["main.png"].startswith(b"\x89PNG")
    pdf = written["main.pdf"]
    assert pdf.startswith(b"%PDF")
    assert b"Date" not in pdf
    assert b"/FontFile2" in pdf  # letters as TrueType,
    assert b"/Type3" not in pdf  # and not as little drawings


# --- images --------------------------------------------------------------------------------------


def test_a_row_of_images_is_one_model_with_its_name_at_the_left(figures):
    del figures  # forgets
    pixels = np.random.default_rng(0).random((5, 16))
    hidden = np.where(pixels > 0.5, np.nan, pixels)
    rows = {
        "original": {"rebuilt": pixels}, "corrupted": {"rebuilt": hidden},
        "a model": {"rebuilt": pixels, "drawn": pixels},
        "a model with a long name": {"rebuilt": pixels, "drawn": pixels[:2]},
        "nothing": {},
    }  # fmt: skip
    figure = image_table(rows, 4, 4, columns=3, title="a title")
    assert figure.get_size_inches()[0] <= 7.0
    names = ["original", "corrupted\n(light blue: hidden)", "a model", "a model with a long\nname"]
    written = {text.get_text(): box_of(text) for text in figure.texts}
    assert sorted(written) == sorted([*names, "rebuilt", "drawn", "a title"])
    for one, other in combinations(written.values(), 2):
        assert not Bbox.intersection(one, other)
    placed = []
    for axes in figure.axes:  # the one name that is as high as its images
        middle = (axes.bbox.y0 + axes.bbox.y1) / 2
        nearest = min(names, key=lambda n: abs((written[n].y0 + written[n].y1) / 2 - middle))
        assert written[nearest].x1 < axes.bbox.x0
        placed.append(nearest)
    assert [placed.count(name) for name in names] == [1, 1, 2, 2]
    assert written["drawn"].y0 < figure.axes[1].bbox.y0  # above the first that it is about


def test_image_tables_come_out_the_same(tmp_path):
    rows = {"original": {"": np.eye(4).reshape(1, 16)}}
    for name in ("one", "two"):
        draw_image_table(rows, tmp_path / f"{name}.png", 4, 4)
    for suffix in (".png", ".pdf"):
        one, two = ((tmp_path / name).with_suffix(suffix).read_bytes() for name in ("one", "two"))
        assert one == two
    with pytest.raises(InvalidInputError, match="nothing to draw"):
        draw_image_table({"a model": {}}, tmp_path / "none.png", 4, 4)
