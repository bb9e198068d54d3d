"""A PostgreSQL server of Debian's package for one run of tests, in a temporary folder.

`scripts/debian-for-tests postgresql` installs the package. The server listens on a free port
of this machine alone, and keeps nothing. It refuses to run as root, so root starts it as the user
'postgres'.
"""

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path


def find_programs() -> Path | None:
    """The folder of initdb and postgres: Debian keeps them off the path."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    versions = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    newest = max(versions, key=lambda path: int(path.parts[-3]), default=None)
    return newest and newest.parent


def why_not() -> str | None:
    """Why no server can be started here; None if one can."""
    if find_programs() is None:
        return "no PostgreSQL server here: scripts/debian-for-tests postgresql installs one"
    return None


@contextlib.contextmanager
def running():
    """The URL of a new, empty database."""
    programs = find_programs()
    user = "postgres" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="diffts-postgres-"))
    if user:
        shutil.chown(folder, user)
    port = _free_port()

    def call(*command):
        subprocess.run(
            command, user=user, cwd=folder, check=True, capture_output=True, text=True, timeout=60
        )

    data = folder / "data"
    started = False
    try:
        owner = user or getpass.getuser()
        call(programs / "initdb", "-D", data, "-A", "trust", "-U", owner, "-N", "-E", "UTF8",
             "--locale=C.UTF-8")  # fmt: skip
        options = (
            f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
        )
        call(programs / "pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", options, "start")
        started = True
        yield f"postgresql://{owner}@127.0.0.1:{port}/postgres"
    finally:
        if started:
            call(programs / "pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
