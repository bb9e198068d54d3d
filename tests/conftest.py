"""What all tests share: fixed examples without deadlines, and compiled programs.

Nearly all time of a test is compilation, so XLA is told to spend little on it: the programs are
then compiled about five times faster, and run slower, which small tests do not notice.
``XLA_FLAGS= make test`` tests the programs that users get.

Programs are compiled once for all workers of a run, and for the processes that tests start: JAX
keeps them in a folder. ``make test`` has one in the virtual environment, so that later runs find
them, too; plain ``pytest`` has a new one in every run, unless JAX_COMPILATION_CACHE_DIR names one.
Whether a program is found there changes no result. (An entry that another process is just writing
does not decompress, and is compiled again.)
"""

import collections
import gc
import itertools
import os
import platform
import shutil
import signal
import tempfile
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import settings

MAPS = Path("/proc/self/maps")
MOST_MAPS = 20_000  # Linux allows 65,530 in a process; beyond that, XLA's compiler crashes

# The same examples in every run, and no time limit for one: a busy machine changes nothing.
settings.register_profile("fixed", deadline=None, derandomize=True, database=None)
settings.load_profile("fixed")

COMPILED = {
    # Whatever time they take and space they need: the clock does not decide what is kept.
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": 0.0,
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": -1,
}

# One thread for linear algebra in each worker, told before NumPy is loaded. With two, threads that
# wait for one another keep both cores busy: a mixture took fifteen times the processor time.
for library in ("OPENBLAS", "MKL", "OMP"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

# Plain loops instead of fused and vectorised ones; one compiled module a program.
HASTY = (
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
    "--xla_cpu_use_fusion_emitters=false",
    "--xla_cpu_parallel_codegen_split_count=1",
    # Without instructions that multiply and add in one rounding. XLA may work out a value twice, in
    # a maximum and in what is compared with it; unoptimised, one of the two was rounded so and the
    # other not, and no arm was the best one.
    *(["--xla_cpu_max_isa=AVX"] if platform.machine() in ("x86_64", "AMD64") else []),
)
PINNED = Path(__file__).parent.parent / "constraints.txt"
# XLA aborts at a flag that it does not know: these are flags of the release that we pin.
if f"jaxlib=={version('jaxlib')}\n" in PINNED.read_text():
    os.environ.setdefault("XLA_FLAGS", " ".join(HASTY))

import jax  # noqa: E402 (it reads what is set above)

# Tracing leaves millions of small objects, and to look through all of them again and again took a
# tenth of the suite. They are looked through where programs are forgotten, below.
gc.set_threshold(50_000, 20, 1_000)


def pytest_configure(config):
    """Signals as in a terminal, and a folder of compiled programs.

    A shell starts what runs in the background with Ctrl-C ignored, and so would be all that tests
    start. Workers and subprocesses find the folder, as XLA's flags, in the environment.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    how = dict(COMPILED)
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        folder = tempfile.mkdtemp(prefix="diffts-compiled-")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
        how["JAX_COMPILATION_CACHE_DIR"] = folder
    for name, value in how.items():
        os.environ[name] = str(value)
        jax.config.update(name.lower(), value)


def pytest_collection_modifyitems(items):
    """Files with slow tests first: of two workers, one would be idle beside a slow one at the end.

    A file stays together, its slow tests before the others: they use the same programs, which a
    worker that has none of them would trace and lower again. The slowest of all say about how long
    they take, ``slow(seconds=60)``, and come before everything.
    """

    def seconds(item):
        slow = item.get_closest_marker("slow")
        return slow.kwargs.get("seconds", 1) if slow else 0

    of_file = collections.Counter()
    for item in items:
        of_file[item.path] += seconds(item)

    def place(item):
        own = seconds(item)
        return max(own, 1), of_file[item.path], item.path, own

    items.sort(key=place, reverse=True)
    for item in items:
        for marker in item.iter_markers("long"):
            assert marker.kwargs.get("reason"), f"{item.nodeid}: long for which reason?"


TESTS = itertools.count(1)
forget_all = jax.clear_caches  # whatever a test puts in its place


@pytest.fixture(autouse=True)
def forget_compiled_programs():
    """Every compiled program takes some memory maps; a test worker compiles thousands.

    To count them takes as long as a small test: now and then will do.
    """
    yield
    if next(TESTS) % 8 == 0 and MAPS.exists() and MAPS.read_bytes().count(b"\n") > MOST_MAPS:
        forget_all()
        gc.collect()
