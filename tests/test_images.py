"""Images: their files, their scores against closed forms, and their pictures."""

import gzip
import struct

import numpy as np
import pytest
import scipy.linalg

from diffts.errors import InvalidInputError
from diffts.figures.images import HIDDEN, draw_images, mosaic
from diffts.problems.images import FILE_NAME, read_images, stand_in_digits
from diffts.reproduction.image_scores import diversity, frechet_distance, masked_rmse

GREY = np.arange(3 * 2 * 4, dtype=np.uint8).reshape(3, 8) * 11  # three images of 2 x 4 pixels
HEADER = struct.pack(">4I", 2051, 3, 2, 4)
WHOLE = gzip.compress(HEADER + GREY.tobytes())


def written(folder, content):
    (folder / FILE_NAME).write_bytes(content)
    return folder


def test_images_are_read_in_order_and_scaled(tmp_path):
    folder = tmp_path / "tiny"
    folder.mkdir()
    images = read_images(written(folder, WHOLE))
    assert (images.name, images.height, images.width) == ("tiny", 2, 4)
    assert images.pixels.dtype == np.float32
    np.testing.assert_allclose(images.pixels, GREY / 255, rtol=1e-6)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (WHOLE[:-12], "cut off"),
        (gzip.compress(HEADER + GREY.tobytes()[:-1]), "cut off: 23 pixels, expected 24"),
        (gzip.compress(HEADER[:10]), "cut off: 10 bytes"),
        (gzip.compress(HEADER[:2]), "cut off: 2 bytes"),
        (b"", "cut off: 0 bytes"),
        (gzip.compress(HEADER + GREY.tobytes() + b"?"), "left over"),
        (gzip.compress(struct.pack(">2I", 2049, 3) + b"123"), "magic number 2049, expected 2051"),
        (gzip.compress(struct.pack(">4I", 2051, 0, 2, 4)), "empty"),
        (HEADER + GREY.tobytes(), "cannot read"),
        (WHOLE[:20] + b"\xff" * 8 + WHOLE[28:], "cannot read|cut off"),
    ],
    # Not the bytes: a compressed file holds the time, and workers must agree on the names of tests.
    ids=lambda value: value if isinstance(value, str) else "file",
)
def test_damaged_files_are_refused(tmp_path, content, message):
    with pytest.raises(InvalidInputError, match=f"^images: .*({message})"):
        read_images(written(tmp_path, content))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InvalidInputError, match=f"^images: no file .*{FILE_NAME}"):
        read_images(tmp_path)


def test_the_stand_in_has_pixels_from_0_to_1():
    digits = stand_in_digits()
    assert digits.pixels.dtype == np.float32
    assert (digits.pixels.min(), digits.pixels.max()) == (0.0, 1.0)
    assert "stand-in" in digits.name


def test_masked_rmse_counts_hidden_pixels_only():
    truth = np.array([[0.0, 1.0], [0.5, 0.25]])
    wrong = truth + np.array([[0.3, 9.0], [9.0, -0.4]])
    mask = [[False, True], [True, False]]
    assert masked_rmse(truth, wrong, mask) == pytest.approx(np.sqrt((0.09 + 0.16) / 2))
    with pytest.raises(InvalidInputError, match="mask: no pixel is hidden"):
        masked_rmse(truth, wrong, np.ones((2, 2), bool))
    with pytest.raises(InvalidInputError, match="mask: expected shape"):
        masked_rmse(truth, wrong, [True, False])
    with pytest.raises(InvalidInputError, match=r"reconstructed: .* not finite"):
        masked_rmse(truth, wrong * np.nan, mask)


def test_frechet_distance_of_two_gaussians():
    rng = np.random.default_rng(0)
    n, shift = 20_000, np.array([1.0, -0.5, 0.0, 0.5])
    first, second = np.array([1.0, 0.8, 0.6, 0.4]), np.array([0.5, 0.8, 1.0, 0.2])
    real = first * rng.standard_normal((n, 4))
    generated = shift + second * rng.standard_normal((n, 4))
    # Independent coordinates, all kept: Σ shift² + (first - second)².
    exact = np.sum(shift**2 + (first - second) ** 2)
    # A mean has variance σ²/n and a standard deviation σ²/2n; the squares add a bias of order 1/n.
    variance = (first**2 + second**2) / n
    error = np.sqrt(np.sum((4 * shift**2 + 2 * (first - second) ** 2) * variance))
    bias = 1.5 * variance.sum()
    assert abs(frechet_distance(real, generated, components=4) - exact) < 4 * error + bias


def test_frechet_distance_is_the_textbook_formula_on_principal_components():
    rng = np.random.default_rng(1)
    real = rng.standard_normal((300, 10)) @ rng.standard_normal((10, 10))
    generated = rng.standard_normal((200, 10)) @ rng.standard_normal((10, 10)) + 1
    for components in (1, 5):
        directions = np.linalg.svd(real - real.mean(0))[2][:components]
        a, b = real @ directions.T, generated @ directions.T
        c_1, c_2 = (np.atleast_2d(np.cov(z, rowvar=False)) for z in (a, b))
        root = scipy.linalg.sqrtm(c_1 @ c_2).real
        exact = np.sum((a.mean(0) - b.mean(0)) ** 2) + np.trace(c_1 + c_2 - 2 * root)
        assert frechet_distance(real, generated, components) == pytest.approx(exact, rel=1e-8)


def test_frechet_distance_is_0_for_equal_sets_even_if_pixels_are_constant():
    pixels = stand_in_digits().pixels  # some border pixels are always 0
    assert frechet_distance(pixels, pixels[::-1], components=64) < 1e-9
    assert frechet_distance(pixels, 0.5 * pixels) > 1


def test_diversity():
    rng = np.random.default_rng(2)
    real = rng.random((50, 9))
    assert diversity(real, real[:30]) == 1
    assert diversity(real, 0.25 * real + 3) == pytest.approx(0.25)
    assert diversity(real, np.tile(real[0], (20, 1))) == 0
    # Every image has a copy: 0 as well, though the pairs differ.
    assert diversity(real, np.repeat(real[:10], 2, axis=0)) == 0
    # Neighbours on a line at 0, 1, 3: distances 1, 1, 2.
    line = np.array([[0.0], [1.0], [3.0]])
    assert diversity([[0.0], [1.0], [2.0], [9.0]], line) == pytest.approx(4 / 3)


@pytest.mark.parametrize("score", [frechet_distance, diversity])
def test_scores_refuse_sets_that_do_not_fit(score):
    images = np.random.default_rng(3).random((40, 33))
    with pytest.raises(InvalidInputError, match="generated: expected 33 pixels, got 32"):
        score(images, images[:, 1:])
    with pytest.raises(InvalidInputError, match="generated: at least 2 images"):
        score(images, images[:1])


def test_scores_refuse_too_few_real_images():
    images = np.random.default_rng(4).random((40, 64))
    with pytest.raises(InvalidInputError, match=r"components: .* from 1 to 20"):
        frechet_distance(images[:20], images)
    with pytest.raises(InvalidInputError, match=r"real: 20 .* fewer than the 40"):
        diversity(images[:20], images)
    with pytest.raises(InvalidInputError, match="real: each of the first 40 images has a copy"):
        diversity(np.ones((40, 64)), images)


def test_hidden_pixels_are_coloured_and_the_others_grey():
    block = mosaic(np.array([[[np.nan, -2.0, 0.5, 7.0]]]), columns=1)
    np.testing.assert_allclose(block[0], [HIDDEN, [0.0] * 3, [0.5] * 3, [1.0] * 3])


def test_images_are_drawn(tmp_path):
    pixels = stand_in_digits().pixels[:20]
    hidden = np.where(np.random.default_rng(5).random(pixels.shape) < 0.5, np.nan, pixels)
    panels = {"clean": pixels, "observed": hidden, "few": pixels[:3], "a long title " * 9: pixels}
    path = tmp_path / "images.png"
    draw_images(panels, path, 8, 8, title="digits")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size > 5000
    with pytest.raises(InvalidInputError, match=r"panels: 'clean' has shape \(20, 64\)"):
        draw_images({"clean": pixels}, path, 28, 28)
    with pytest.raises(InvalidInputError, match="panels: nothing"):
        draw_images({}, path, 8, 8)
