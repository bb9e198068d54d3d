"""Scores of images: how well hidden pixels are filled in, and how real generated ones look."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffts.errors import InvalidInputError
from diffts.extras import optional
from diffts.validation import finite_array, whole_number


def masked_rmse(truth: ArrayLike, reconstructed: ArrayLike, mask: ArrayLike) -> float:
    """Root mean square error of images ``(n, P)`` over their hidden pixels, not in ``mask``.

    >>> masked_rmse([[0.0, 0.0, 0.0]], [[9.0, 3.0, 4.0]], [[True, False, False]])  # √(25 / 2)
    3.5355...
    """
    x = finite_array("truth", truth, ndim=2)
    y = finite_array("reconstructed", reconstructed, ndim=2)
    hidden = ~np.asarray(mask, bool)
    for name, array in (("reconstructed", y), ("mask", hidden)):
        if array.shape != x.shape:
            raise InvalidInputError(f"{name}: expected shape {x.shape}, got {array.shape}")
    if not hidden.any():
        raise InvalidInputError("mask: no pixel is hidden")
    return float(np.sqrt(np.mean((x - y)[hidden] ** 2)))


def frechet_distance(real: ArrayLike, generated: ArrayLike, components: int = 32) -> float:
    """Fréchet distance between Gaussians fitted to two sets of images.

    Both sets are projected on the first principal components of the real one; with means
    ``m_1, m_2`` and covariances ``C_1, C_2`` of the coefficients the distance is::

        |m_1 - m_2|² + tr(C_1 + C_2 - 2 (C_1 C_2)^{1/2})

    It is 0 for equal sets ``(n, P)``, ``(m, P)``. It grows as the sets shrink, so compare sets of
    the same sizes only.

    >>> square = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> round(frechet_distance(square, square + [3.0, 4.0], components=2), 6)
    25.0
    """
    x, y = _two_sets(real, generated)
    components = whole_number("components", components, 1, min(x.shape))
    # This solver is exact, and fast for many small images.
    PCA = optional("sklearn.decomposition", "the distance of images").PCA
    pca = PCA(components, svd_solver="covariance_eigh").fit(x)
    first, second = (np.asarray(pca.transform(images)) for images in (x, y))
    shift = first.mean(0) - second.mean(0)
    C_1, C_2 = (np.cov(z, rowvar=False).reshape(components, -1) for z in (first, second))
    # tr (C_1 C_2)^{1/2} is the sum of the singular values of C_1^{1/2} C_2^{1/2}.
    cross = np.linalg.svd(_root(C_1) @ _root(C_2), compute_uv=False).sum()
    # Rounding can take the distance of equal sets just below 0.
    return max(0.0, float(shift @ shift + np.trace(C_1) + np.trace(C_2) - 2 * cross))


def diversity(real: ArrayLike, generated: ArrayLike) -> float:
    """How far apart generated images lie, relative to real ones.

    The mean distance of a generated image ``(m, P)`` to its nearest other generated one, divided by
    the same for the first ``m`` real images ``(n, P)``: about 1 for draws as varied as the data, 0
    for copies of one image.

    >>> corners = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> diversity(corners, corners / 2)
    0.5
    """
    x, y = _two_sets(real, generated)
    if len(x) < len(y):
        raise InvalidInputError(f"real: {len(x)} image(s), fewer than the {len(y)} generated ones")
    spread = _nearest_distance(x[: len(y)])
    if spread == 0:
        raise InvalidInputError(f"real: each of the first {len(y)} images has a copy among them")
    return _nearest_distance(y) / spread


def _two_sets(
    real: ArrayLike, generated: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both sets as arrays, of images of one size and two or more in each."""
    x, y = finite_array("real", real, ndim=2), finite_array("generated", generated, ndim=2)
    for name, images in (("real", x), ("generated", y)):
        if len(images) < 2:
            raise InvalidInputError(f"{name}: at least 2 images are needed, got {len(images)}")
    if x.shape[1] != y.shape[1]:
        raise InvalidInputError(f"generated: expected {x.shape[1]} pixels, got {y.shape[1]}")
    return x, y


def _root(C: NDArray[np.float64]) -> NDArray[np.float64]:
    """Symmetric square root of a covariance ``(d, d)``."""
    values, vectors = np.linalg.eigh(C)
    return (vectors * np.sqrt(values.clip(min=0.0))) @ vectors.T


def _nearest_distance(images: NDArray[np.float64]) -> float:
    """Mean distance of an image to its nearest other one."""
    neighbours = optional("sklearn.neighbors", "the diversity of images")
    search = neighbours.NearestNeighbors(n_neighbors=1, algorithm="brute").fit(images)
    nearest = search.kneighbors(return_distance=False)[:, 0]
    # The search's own distances are not quite 0 between copies.
    return float(np.linalg.norm(images - images[nearest], axis=1).mean())
