"""The report of a fit: what it says, that foreign text stays text, and that it opens anywhere."""

import functools
import json
import re
import shutil
from html.parser import HTMLParser

import numpy as np
import pytest

from diffts import DiffusionPrior
from diffts.bandits.noise import FixedNoise
from diffts.diffusion.exact import Gaussian
from diffts.diffusion.schedule import Schedule
from diffts.errors import InvalidInputError
from diffts.fitting import Fitted, NewArms
from diffts.fitting.report import write_report
from fits_for_tests import ADVICE, SPANS, arm_names, example_facts, example_fit

VOID = {"meta", "img", "br", "link", "input"}
FOREIGN = '<script>alert("1")</script>'
SLIPPING = '"><img src=x onerror=alert(2)>'


class Page(HTMLParser):
    """Text and tags of a page; complains of tags that are not closed in order."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.open, self.words = [], [], []
        self.feed(html)
        self.close()
        assert not self.open, f"not closed: {self.open}"
        self.text = re.sub(r"\s+", " ", "".join(self.words))

    def handle_starttag(self, tag, attrs):
        assert len({name for name, _ in attrs}) == len(attrs), f"an attribute twice: {attrs}"
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        assert "svg" in self.open, f"<{tag}/> outside of SVG"
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> without a beginning"
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.words.append(data)

    def count(self, tag):
        return sum(name == tag for name, _ in self.tags)


def report(folder, fit=None, **changes):
    fitted, past = example_fit(**changes) if fit is None else fit
    write_report(fitted, folder, past=past)
    return Page((folder / "report.html").read_text(encoding="utf-8"))


def self_contained(page):
    assert page.count("script") == page.count("link") == page.count("iframe") == 0
    for tag, attributes in page.tags:
        assert not any(name.startswith("on") for name in attributes), (tag, attributes)
        assert "href" not in attributes
        assert attributes.get("src", "data:").startswith("data:"), (tag, attributes)


@pytest.mark.parametrize("advice", ADVICE)
def test_the_verdict_comes_first_with_its_reasons(advice, tmp_path):
    page, said = report(tmp_path, advice=advice), example_facts(advice)["verdict"]
    before, found, after = page.text.partition("What to expect")
    assert found
    assert advice.capitalize() in before
    for sentence in (said["headline"], *said["reasons"]):
        assert sentence in before
    assert ("Aim for about 490 tasks in all. The log has 60." in before) == (
        advice == "collect more data"
    )
    for title in (
        "What was in the log",
        "What was learned",
        "Which belief won",
        "How it was judged",
    ):
        assert title in after
    self_contained(page)


def test_rewards_stand_beside_todays_and_ucb(tmp_path):
    facts = example_facts("use it")
    text = report(tmp_path).text
    ours = next(row for row in facts["judged"] if row["kind"] == "diffusion")["reward"]
    assert "With this fit" + "".join(f"{ours[n]:.3f} ± 0.012" for n in SPANS) in text
    for row, label in zip(facts["baselines"], ("Today", "One arm for all", "UCB"), strict=True):
        cells = "".join(f"{row['reward'][n]:.3f} ± 0.012" for n in SPANS)
        assert label + cells in text
    assert "about 45% more" in text  # 0.608 instead of 0.42
    assert "Best possible0.8000.8000.800" in text


def test_where_intervals_overlap_no_gain_is_claimed(tmp_path):
    text = report(tmp_path, advice="collect more data").text
    first, second, third = re.findall(
        r"first \d+ decisions(about [\d.]+)today: about [\d.]+(.*?)(?=first|First)", text
    )
    assert first == ("about 0.57", "no clear difference")
    assert second[1] == "no clear difference"
    assert third == ("about 0.69", "about 21% more")


def test_what_is_too_good_to_be_true_is_doubted(tmp_path):
    assert "seldom true" not in report(tmp_path / "plain").text
    facts = example_facts("use it")
    today = next(row for row in facts["baselines"] if row["name"] == "as logged")
    today["reward"] = dict.fromkeys(SPANS, 0.05)
    text = report(tmp_path / "doubted", facts=facts).text
    assert "times as much" in text
    assert "So much more than today is seldom true." in text


def test_what_was_dropped_and_what_is_rare_is_told(tmp_path):
    text = report(tmp_path).text
    for said in ("22,080 of 22,137 used", "no reward41", "duplicate row16", "1,840", "41%",
                 "2025-03-01 to 2025-05-31", "2 arms with too few rewards to say much of: "
                 "Flights, Phones"):  # fmt: skip
        assert said in text


def test_who_won_and_by_how_much(tmp_path):
    text = report(tmp_path, advice="collect more data").text
    assert "Each arm alone31.0 ± 5.916.1 ± 4.7below 1 s" in text
    assert "Gaussian14.9 ± 5.9winner4 s" in text
    assert "Diffusion: left out: fewer than 100 tasks to learn from" in text
    assert "52% fell into its 50% intervals and 88% into its 90% intervals" in text
    assert "Arms that a task had not tried were filled in" in text


def test_rewards_of_yes_and_no_are_shares(tmp_path):
    text = report(tmp_path, binary=True).text
    assert "Today42.0% ± 1.243.0% ± 1.243.0% ± 1.2" in text
    assert "yes or no" in text


def test_arms_that_go_together_are_found(tmp_path):
    covariance = np.eye(5)
    covariance[0, 3] = covariance[3, 0] = 0.9
    covariance[1, 4] = covariance[4, 1] = -0.6
    law, arms = Gaussian(np.zeros(5), covariance), tuple("abcde")
    fit = (Fitted("gaussian", law, arms, FixedNoise(1.0), NewArms(0, 1, 1)), np.zeros((9, 5)))
    text = report(tmp_path, fit).text
    assert "a and dhigh together+0.90" in text
    assert "b and eone high, one low−0.60" in text
    assert "2 of 10 pairs" in text


def test_independent_arms_do_not_go_together(tmp_path):
    facts = {**example_facts("use the simple one"), "chosen": "independent"}
    fitted, past = example_fit(facts=facts)
    assert fitted.kind == "independent"
    assert "None: this belief takes each arm by itself." in report(tmp_path, (fitted, past)).text


@pytest.mark.slow
def test_draws_of_a_diffusion_prior(tmp_path):
    covariance = 0.2 * np.eye(4) + 0.8
    law = DiffusionPrior.gaussian(np.arange(4.0), covariance, Schedule.linear(20))
    fitted = Fitted("diffusion", law, tuple("abcd"), FixedNoise(1.0), NewArms(0, 1, 1))
    page = report(tmp_path, (fitted, np.full((3, 4), np.nan)))
    assert "24 made-up ones" in page.text
    assert "of your tasks" not in page.text  # none was seen
    assert "6 of 6 pairs" in page.text


def hostile():
    """Foreign text wherever there can be any."""
    arms = [FOREIGN, SLIPPING, "x" * 5000, "‮right to left", "", "a\x00b\ud800c", *arm_names(3)]
    facts = example_facts("use it", arms=arms)
    facts["log"]["dropped"] = {FOREIGN: 3}
    facts["log"]["rare_arms"] = arms
    facts["baselines"][0]["name"] = FOREIGN
    facts["judged"][0] |= {"kind": SLIPPING, "note": FOREIGN}
    facts["versions"] = {FOREIGN: SLIPPING}
    facts["verdict"] |= {"headline": FOREIGN, "reasons": [SLIPPING]}
    for key in ("completed", "why", "command", "rule"):
        facts[key] = FOREIGN
    return example_fit(arms=arms, facts=facts)


def test_foreign_text_is_shown_as_text(tmp_path):
    page = report(tmp_path, hostile())
    self_contained(page)
    assert page.text.count(FOREIGN) >= 8
    assert SLIPPING in page.text
    longest = max(len(word) for word in page.text.split())
    assert longest < 100  # the name of 5000 letters was cut
    assert json.loads((tmp_path / "report.json").read_text())["arms"][0]["name"] == FOREIGN


@functools.cache
def hundreds():
    """Names of 60 letters and more, which differ at the end only; made once."""
    return example_fit("use the simple one", arms=[f"{'item-' * 12}{i}" for i in range(500)])


@pytest.mark.slow
def test_hundreds_of_arms_make_no_wall(tmp_path):
    page = report(tmp_path, hundreds())
    assert page.count("tr") < 60
    assert len(page.text) < 12_000
    assert (tmp_path / "report.html").stat().st_size < 300_000
    assert "The 30 arms that vary most" in page.text
    assert len(json.loads((tmp_path / "report.json").read_text())["arms"]) == 500


@pytest.mark.parametrize("n_arms", [1, 2, 3])
def test_few_arms(n_arms, tmp_path):
    page = report(tmp_path, arms=arm_names(n_arms))
    assert ("nothing to choose from" in page.text) == (n_arms == 1)
    self_contained(page)


def test_no_dates(tmp_path):
    facts = example_facts()
    facts["log"] |= {"first": None, "last": None}
    text = report(tmp_path, example_fit(facts=facts)).text
    assert "Datesnone in the log" in text
    assert "None" not in text


def replaced(value, choose):
    """The same facts with some values replaced."""
    if isinstance(value, dict):
        return {key: replaced(each, choose) for key, each in value.items()}
    if isinstance(value, list):
        return [replaced(each, choose) for each in value]
    return choose(value)


@pytest.mark.parametrize("odd", [None, float("nan"), float("inf"), 0.0, 1e300, -1e-300])
@pytest.mark.parametrize("advice", ADVICE)
def test_odd_numbers_neither_break_the_page_nor_the_json(advice, odd, tmp_path):
    def choose(value):
        return odd if isinstance(value, float) else value

    page = report(tmp_path, example_fit(facts=replaced(example_facts(advice), choose)))
    assert not re.search(r"\b(nan|inf|None)\b", page.text)

    def refuse(constant):
        raise AssertionError(constant)

    json.loads((tmp_path / "report.json").read_text(), parse_constant=refuse)


def test_every_fact_may_be_missing(tmp_path):
    whole = example_facts("use it")
    for key in whole:
        facts = {name: value for name, value in whole.items() if name != key}
        report(tmp_path, example_fit(facts=facts))
    for part in ("log", "verdict"):
        for key in whole[part]:
            inner = {name: value for name, value in whole[part].items() if name != key}
            report(tmp_path, example_fit(facts={**whole, part: inner}))
    assert "What was learned" in report(tmp_path, example_fit(facts={})).text


def test_json_has_the_facts(tmp_path):
    fitted, past = example_fit()
    report(tmp_path / "new" / "folder", (fitted, past))
    assert json.loads((tmp_path / "new" / "folder" / "report.json").read_text()) == fitted.facts


def test_same_fit_same_bytes(tmp_path):
    for folder in ("a", "b"):
        report(tmp_path / folder)
    for file in ("report.html", "report.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


@pytest.mark.parametrize("shape", [(4, 15), (16,)])
def test_past_of_another_shape_is_refused_before_anything_is_written(shape, tmp_path):
    fitted, _ = example_fit()
    with pytest.raises(InvalidInputError, match="past: expected an array of tasks × 16 arms"):
        write_report(fitted, tmp_path / "folder", past=np.zeros(shape))
    assert not (tmp_path / "folder").exists()


# In a real browser.

SCREENS = {"desk": (1280, 800), "telephone": (390, 844), "old telephone": (320, 568)}


@pytest.fixture(scope="module")
def browser():
    """Debian's Chromium (scripts/browser-for-tests installs it), driven by Playwright."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    found = [shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome")]
    program = next(filter(None, found), None)
    if program is None:
        pytest.skip("there is no Chromium: run scripts/browser-for-tests")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program)
        yield browser
        browser.close()


class Opened:
    """A report as a browser shows it, with all that it asked for and complained of."""

    def __init__(self, browser, folder):
        self.page = browser.new_page()
        self.trouble, self.requests = [], []
        self.page.on("console", lambda message: self.trouble.append(message.text))
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.trouble.append("dialog"), dialog.dismiss()))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.address = (folder / "report.html").as_uri()
        self.page.goto(self.address, wait_until="load")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.page.close()

    def ends(self, part):
        """Left, top, right and bottom of a part of the page."""
        box = self.page.locator(part).bounding_box()
        return box["x"], box["y"], box["x"] + box["width"], box["y"] + box["height"]


@pytest.mark.slow
@pytest.mark.parametrize("advice", [*ADVICE, "hostile", "500 arms"])
def test_in_a_browser(browser, advice, tmp_path):
    special = {"hostile": hostile, "500 arms": hundreds}
    report(tmp_path, special[advice]() if advice in special else example_fit(advice))
    with Opened(browser, tmp_path) as opened:
        for name, (width, height) in SCREENS.items():
            opened.page.set_viewport_size({"width": width, "height": height})
            across = opened.page.evaluate("document.documentElement.scrollWidth")
            assert across <= width, f"{name}: {across} px wide"
            for part in (".verdict .advice", ".verdict .headline"):
                left, top, right, bottom = opened.ends(part)
                assert 0 <= left < right <= width
                assert 0 <= top < top + 10 < bottom <= height
            if name != "old telephone":  # the whole box, with its reasons
                assert opened.ends("#verdict")[3] <= height
        assert opened.trouble == []
        assert [url for url in opened.requests if not url.startswith("data:")] == [opened.address]


@pytest.mark.slow
@pytest.mark.parametrize("advice", ADVICE)
def test_pictures_load_and_words_can_be_read_in_light_and_dark(browser, advice, tmp_path):
    report(tmp_path, advice=advice)
    papers = []
    with Opened(browser, tmp_path) as opened:
        images = opened.page.evaluate("[...document.images].map(i => i.naturalWidth)")
        assert len(images) == 4
        assert min(images) > 1
        for scheme in ("light", "dark"):
            opened.page.emulate_media(color_scheme=scheme)
            for part, ground in (
                (".advice", ".verdict"),
                (".headline", ".verdict"),
                ("section p.small", "section"),
                ("td", "section"),
            ):
                ink = colour(opened, part, "color")
                paper = colour(opened, ground, "background-color")
                assert contrast(ink, paper) > 4.5, (scheme, part)
            papers.append(luminance(colour(opened, "body", "background-color")))
    light, dark = papers
    assert light > 0.8
    assert dark < 0.1


def colour(opened, part, which):
    style = opened.page.locator(part).first.evaluate(
        "(element, which) => getComputedStyle(element).getPropertyValue(which)", which
    )
    return [int(level) for level in re.findall(r"\d+", style)[:3]]


def luminance(rgb):
    """Relative luminance of sRGB, as WCAG 2 defines it."""
    shares = [level / 255 for level in rgb]
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


def contrast(one, other):
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)
