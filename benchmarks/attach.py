"""From `tracetui attach PID` to the first picture, phase by phase, beyond the recording itself.

    python benchmarks/attach.py [--runs 15] [--duration 500 | --steps 5] [--fresh] [--device cuda]

Needs PyTorch and Linux. Starts a small training loop by `tracetui run`, then attaches to it again and again, in a
pseudo-terminal, at random moments. A process asks every second and PyTorch's profiler wakes up every second, so single
runs differ by a second or two. --fresh: a new loop for each run, as the first recording of a process differs.
The bound is 3 s for the median of all that is not the recording. Imports are compiled as in an installation.
"""

from __future__ import annotations

import argparse
import os
import random
import select
import statistics
import subprocess
import sys
import tempfile
import time

from terminal import terminal

LOOP = """
import sys, time, torch
torch.set_num_threads(1)
model = torch.nn.Linear(512, 512).to(sys.argv[1])
optimizer = torch.optim.SGD(model.parameters(), 0.001)
told = True
while True:
    optimizer.zero_grad()
    model(torch.randn(64, 512, device=sys.argv[1])).sum().backward()
    optimizer.step()
    if told:
        print(end=".", file=sys.stderr, flush=True)
        told = False
    time.sleep(0.005)
"""
MARKS = ["asking ", "warming up", "recording ", "writing", "\x1b[?1049h", "overview"]
PHASES = ["start", "asked", "warm-up", "recorded", "written", "app"]
"""Phase N ends when mark N is written: until we listen, until the process has asked, until it begins, and so on."""


def attach(pid: int, words: list[str], folder: str) -> list[float]:
    """Milliseconds of each phase of one recording."""
    command = [sys.executable, "-m", "tracetui", "attach", str(pid), "-o", folder, *words]
    times, seen, begun = [0.0], b"", time.perf_counter()
    with terminal(command, (120, 36)) as fd:
        while len(times) <= len(MARKS):
            if not select.select([fd], [], [], 60)[0]:
                raise SystemExit(f"nothing more came: {seen[-300:]!r}")
            seen += os.read(fd, 1 << 16)
            for at, mark in enumerate(MARKS[len(times) - 1 :], len(times)):
                if mark.encode() in seen:  # a phase that is skipped takes no time
                    times += [time.perf_counter() - begun] * (at + 1 - len(times))
    return [(after - before) * 1000 for before, after in zip(times, times[1:], strict=False)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--duration", type=int, default=500, help="ms")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    words = ["--steps", str(options.steps)] if options.steps else ["--duration", f"{options.duration}ms"]
    run = [sys.executable, "-m", "tracetui", "run", "--", sys.executable, "-c", LOOP, options.device]
    runs, job = list[list[float]](), None
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.runs + 1):
            if job is None or options.fresh:
                if job is not None:
                    job.kill()
                job = subprocess.Popen(run, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                assert job.stderr is not None and job.stderr.read(1)  # it trains
            time.sleep(1 + random.random())
            runs.append(attach(job.pid, words, folder))
        job.kill()
    print(f"{'ms':<10}{'median':>8}{'least':>8}{'most':>8}")
    for name, values in zip(PHASES, zip(*runs[1:], strict=True), strict=True):
        print(f"{name:<10}{statistics.median(values):8.0f}{min(values):8.0f}{max(values):8.0f}")
    beyond = [sum(one) - one[3] * bool(options.steps) - options.duration * (not options.steps) for one in runs[1:]]
    held = "held" if statistics.median(beyond) < 3000 else "NOT held"
    print(f"{'beyond':<10}{statistics.median(beyond):8.0f}{min(beyond):8.0f}{max(beyond):8.0f}  {held}: 3000")


if __name__ == "__main__":
    main()
