"""Make the parts of a reproduction by several processes at once, which share one GPU.

python scripts/reproduce_together.py --list
python scripts/reproduce_together.py --out results/paper --at-once 2
python scripts/reproduce_together.py --out results/paper bidding/perfect/ours

A job is what one process makes: of a problem, from one kind of data, the runs of ours, of the
paper's DiffTS and its ablations, of the mixtures or of the other baselines. Jobs begin in the order
in which they are named. What is finished is kept when they are stopped. At last

diffts reproduce --profile paper --out results/paper

makes what is no run of a policy (pictures of tasks, τ, groups, images), and writes everything.
``XLA_PYTHON_CLIENT_PREALLOCATE=false`` lets processes share the memory of a GPU. Two are enough
there: one compiles while the other computes. Under NVIDIA's MPS (``nvidia-cuda-mps-control -d``)
small programs of four run at once; but who kills one of them ends them all.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

from diffts import chunks
from diffts.reproduction import EXPERIMENTS, PROFILES, reproduce
from diffts.reproduction.regret import MIXTURES, Line
from diffts.reproduction.specs import ARMS

#: What a job makes: experiments, and lines of their plots.
Job = dict[str, set[str]]


def all_jobs(profile: str) -> dict[str, Job]:
    """By their names: 'problem/data/whose'."""
    jobs: dict[str, Job] = defaultdict(lambda: {"names": set(), "lines": set()})
    for name, experiment in EXPERIMENTS.items():
        for panel in experiment.panels(PROFILES[profile]) if experiment.panels else ():
            for line in panel.lines:
                if line.runs[0].data == panel.data:  # references and UCB are of other plots
                    job = jobs[f"{panel.problem}/{panel.data}/{whose(line)}"]
                    job["names"].add(name)
                    job["lines"].add(line.label)
    return dict(jobs)


def whose(line: Line) -> str:
    """Whose runs a line has; those of one kind can go side by side."""
    run = line.runs[0]
    if run.prior:
        return "ours" if run.learner == ARMS else "paper"
    return "mixtures" if run.policy in MIXTURES else "others"


def make(job: Job, problem: str, data: str, options: argparse.Namespace) -> None:
    """The parts of one job, by this process."""
    if options.chunk:
        chunks.CHUNK_ENTRIES["gpu"] = options.chunk
    started = time.perf_counter()

    def report(line: str, done: int, total: int) -> None:
        print(f"{time.perf_counter() - started:6.0f} s  {done}/{total}  {line}", flush=True)

    reproduce(
        sorted(job["names"]),
        options.profile,
        options.out,
        options.data_dir,
        [problem],
        report,
        data=[data],
        lines=sorted(job["lines"]),
        parts_only=True,
    )
    report("done", 1, 1)


def make_all(names: list[str], options: argparse.Namespace) -> int:
    """Jobs in processes of their own, so many at once; how many of them failed."""
    logs = options.out / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    own = [sys.executable, __file__, "--alone", "--out", str(options.out)]
    own += ["--profile", options.profile, "--chunk", str(options.chunk)]
    own += [] if options.data_dir is None else ["--data-dir", str(options.data_dir)]
    waiting, running, failed = list(names), {}, 0
    while waiting or running:
        while waiting and len(running) < options.at_once:
            name = waiting.pop(0)
            log = (logs / f"{name.replace('/', '-')}.log").open("w")
            running[name] = subprocess.Popen([*own, name], stdout=log, stderr=log)
            print(f"begun: {name}", flush=True)
        time.sleep(0.5)
        for name, process in list(running.items()):
            if (code := process.poll()) is not None:
                del running[name]
                failed += code != 0
                print(f"{'failed' if code else 'done'}: {name}", flush=True)
    return failed


def main() -> None:
    """Make the jobs that are named, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("job", nargs="*", help="all of them if none is named")
    parser.add_argument("--list", action="store_true", help="name the jobs")
    parser.add_argument("--out", type=Path, default=Path("out/reproduce-paper"))
    parser.add_argument("--profile", default="paper", choices=sorted(PROFILES))
    parser.add_argument("--at-once", type=int, default=2, help="processes")
    parser.add_argument("--data-dir", type=Path, help="real data, for real-slots")
    parser.add_argument("--chunk", type=int, default=2**20, help="entries at once; 0: as always")
    parser.add_argument("--alone", action="store_true", help="make the jobs in this process")
    options = parser.parse_args()
    if options.at_once < 1:
        parser.error("--at-once: at least 1")
    jobs = all_jobs(options.profile)
    if options.list:
        print("\n".join(jobs))
        return
    names = options.job or list(jobs)
    if unknown := [name for name in names if name not in jobs]:
        parser.error(f"no job {unknown[0]!r}; --list names them")
    if options.alone:
        for name in names:
            make(jobs[name], *name.split("/")[:2], options)
    elif make_all(names, options):
        sys.exit(1)


if __name__ == "__main__":
    main()
