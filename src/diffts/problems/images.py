"""Images as tasks: MNIST and Fashion-MNIST from their files, or a small stand-in.

A data set is a folder with ``train-images-idx3-ubyte.gz``: a gzip file of four big-endian 32-bit
numbers (2051, images, height, width), then one byte a pixel, row by row.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from diffts.errors import InvalidInputError
from diffts.extras import optional

FILE_NAME = "train-images-idx3-ubyte.gz"
MAGIC = 2051  # unsigned bytes (8) in three dimensions (3)
_HEADER = struct.Struct(">4I")


class Images(NamedTuple):
    """Grey images of one size."""

    name: str
    pixels: NDArray[np.float32]  # one image a row, in [0, 1], ``(n, height * width)``
    height: int
    width: int


def read_images(folder: str | PathLike[str]) -> Images:
    """The training images of MNIST, or of a data set in the same format, named as their folder.

    Raises:
        InvalidInputError: no such file, not a gzip file, not images, or cut off.
    """
    path = Path(folder) / FILE_NAME
    if not path.is_file():
        raise InvalidInputError(f"images: no file {str(path)!r}")
    try:
        data = gzip.decompress(path.read_bytes())
    except EOFError:
        raise InvalidInputError(f"images: {str(path)!r} is cut off") from None
    except (OSError, zlib.error) as error:
        raise InvalidInputError(f"images: cannot read {str(path)!r} ({error})") from None
    magic = int.from_bytes(data[:4], "big")
    if len(data) >= 4 and magic != MAGIC:
        raise InvalidInputError(
            f"images: {str(path)!r} does not hold images (magic number {magic}, expected {MAGIC})"
        )
    if len(data) < _HEADER.size:
        raise InvalidInputError(f"images: {str(path)!r} is cut off: {len(data)} bytes in all")
    _, n, height, width = _HEADER.unpack_from(data)
    found, expected = len(data) - _HEADER.size, n * height * width
    if not expected:
        raise InvalidInputError(f"images: {str(path)!r} is empty: {n} images, {height} x {width}")
    if found != expected:
        problem = "is cut off" if found < expected else "has bytes left over"
        raise InvalidInputError(
            f"images: {str(path)!r} {problem}: {found} pixels, expected {expected} "
            f"({n} images, {height} x {width})"
        )
    grey = np.frombuffer(data, np.uint8, offset=_HEADER.size).reshape(n, height * width)
    pixels = np.divide(grey, 255, dtype=np.float32)
    return Images(Path(folder).resolve().name, pixels, height, width)


def stand_in_digits() -> Images:
    """The 1797 digits of 8 x 8 pixels that come with scikit-learn.

    A stand-in where the real data are absent: results on it say that the code runs, and nothing
    about MNIST.

    >>> digits = stand_in_digits()
    >>> digits.pixels.shape, digits.height, digits.width
    ((1797, 64), 8, 8)
    """
    digits = optional("sklearn.datasets", "the stand-in digits").load_digits()
    grey = np.asarray(digits.data, np.float32)  # whole numbers from 0 to 16
    return Images("stand-in digits", grey / np.float32(16), 8, 8)
