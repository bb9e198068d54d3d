"""The errors that diffts raises on purpose.

A caller can catch :class:`DifftsError` for all of them; the command line turns each
into one line and an exit code instead of a traceback.
"""


class DifftsError(Exception):
    """Base class of every error that diffts raises on purpose."""


class InvalidInputError(DifftsError, ValueError):
    """An argument has a value that cannot be used; the message names the argument."""


class ArtifactError(DifftsError):
    """A saved file or folder is missing, damaged, foreign, or of a newer format."""


class MissingPackageError(DifftsError):
    """An optional package is not installed; the message says how to install it."""
