"""Thompson sampling with a learned diffusion prior."""

from diffts._version import __version__

__all__ = ["__version__"]
