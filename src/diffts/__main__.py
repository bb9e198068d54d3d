"""``python -m diffts`` is the ``diffts`` command."""

from diffts.cli import main

main()
