"""Killing `tracetui attach` at any moment: the job's output, exit code and rate stay as they are.

    python benchmarks/kills.py [--runs 50] [--seed 1] [--only attach|answerer|run|job]

Needs PyTorch and Linux; takes about 15 seconds a run. Each starts a training loop by `tracetui run`, and:

attach    kills an `attach` of a random kind, a random time after it has begun a random stage of its work;
answerer  kills the program that `run` starts beside the job, while somebody attaches or not;
run       kills `tracetui run` in its first moments, before or after it has become the command;
job       kills the job while it is asked: `attach` has to say so in one line, and end with exit code 1.

The loop prints a line per step, as it does without us, and ends by itself with an exit code of its own, but
not before a recording that was asked for is over: PyTorch itself crashes a program that ends in the middle.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from terminal import terminal
from tracetui.capture.live import listener, procfs

LOOP = """
import os, sys, time, torch
torch.set_num_threads(1)
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64))
optimizer = torch.optim.SGD(model.parameters(), 0.001)
stop, times, code, most = sys.argv[1], open(sys.argv[2], "w"), int(sys.argv[3]), int(sys.argv[4])
step = 0
while step < most and not os.path.exists(stop):
    begun = time.thread_time()
    optimizer.zero_grad()
    loss = model(torch.randn(32, 64)).square().mean()
    loss.backward()
    optimizer.step()
    step += 1
    print("step", step, f"{loss.item():.6f}", flush=True)
    times.write(f"{time.monotonic()} {time.thread_time() - begun}\\n")
    time.sleep(0.01)
times.close()
print("done")
sys.exit(code)
"""
STEPS = 12_000
"""More than a job makes."""
KINDS = [
    ["--duration", "100ms"],
    ["--duration", "1s", "--with-stack"],
    ["--duration", "500ms", "--record-shapes", "--profile-memory"],
    ["--steps", "5"],
    ["--steps", "60", "--with-stack"],
    ["--every", "1s", "--keep", "2", "--duration", "200ms"],
    ["--duration", "300ms", "--start-in", "2s"],
]
MARKS = ["", "asking ", "warming up", "recording ", "writing", "\x1b[?1049h", "overview"]
"""What `attach` writes at each stage: nothing yet; then it asks, and so on, until the trace is shown."""
STAGES = ["just started", "asking", "warming up", "recording", "writing", "loading", "done"]
LINE = b"tracetui: "


class Job:
    """A loop under `tracetui run`, with folders of its own."""

    def __init__(self, folder: Path, code: int) -> None:
        self.folder, self.code = folder, code
        self.runtime = folder / "r"
        self.runtime.mkdir(mode=0o700)
        self.recordings = folder / "t"
        self.recordings.mkdir(mode=0o700)
        self.environment = {name: text for name, text in os.environ.items() if "KINETO" not in name}
        self.environment |= {
            "XDG_RUNTIME_DIR": str(self.runtime),
            "KINETO_ONDEMAND_TRACE_DIR": str(self.recordings),
        }
        words = [str(folder / "stop"), str(folder / "times"), str(code), str(STEPS)]
        command = [sys.executable, "-m", "tracetui", "run", "--", sys.executable, "-c", LOOP, *words]
        self.out, self.err = folder / "out", folder / "err"
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.process = subprocess.Popen(command, env=self.environment, stdout=out, stderr=err)

    def trains(self, steps: int = 200) -> None:
        self.wait(lambda: self.out.read_bytes().count(b"\n") >= steps)

    def wait(self, true: object, most: float = 120) -> None:
        end = time.monotonic() + most
        while not true():  # type: ignore[operator]
            if time.monotonic() > end or self.process.poll() is not None:
                raise SystemExit(f"the job does not get on: {self.err.read_text()[-500:]}")
            time.sleep(0.02)

    def records(self) -> bool:
        """Whether a file is being written, or was in the last three seconds."""
        now = time.time()
        for path in self.recordings.glob("recording-*/*"):
            with suppress(OSError):
                if path.suffix == ".tmp" or now - path.stat().st_mtime < 3:
                    return True
        return False

    def ends(self, reference: list[str]) -> list[str]:
        """Let it end; what is not as it is without us."""
        (self.folder / "stop").touch()
        self.process.wait(120)
        lines = self.out.read_text().splitlines()
        wrong = [f"exit code {self.process.returncode}, not {self.code}"] * (
            self.process.returncode != self.code
        )
        if lines[-1:] != ["done"] or lines[:-1] != reference[: len(lines) - 1]:
            wrong.append(f"output: {lines[-3:]}")
        # Of Python frames PyTorch itself may say that one was left open: see docs/live.md.
        said = [line for line in self.err.read_text().splitlines() if "collection.cpp" not in line]
        return wrong + [f"errors: {said[:3]}"] * bool(said)

    def per_step(self, since: float, until: float) -> float:
        """Median CPU seconds of a step between two times of the monotonic clock."""
        rows = [line.split() for line in (self.folder / "times").read_text().splitlines()]
        own = [float(spent) for at, spent in rows if since < float(at) < until]
        return statistics.median(own) if own else float("nan")

    def answerers(self) -> list[int]:
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError, ValueError, IndexError):
                words = procfs.arguments(int(entry.name))
                if words[words.index(listener.__file__) + 1].startswith(f"{self.runtime}/"):
                    found.append(int(entry.name))
        return found

    def left(self) -> list[str]:
        """What is still in its folders, by kind."""
        found = [path for root in (self.runtime, self.recordings) for path in root.rglob("*")]
        names = ["" if path.parent.name == "tracetui" else path.name for path in found]
        names = [re.split(r"-|client|\d+\.json$", name)[0] for name in names]
        return sorted(names + [path.name for path in self.folder.glob("traces/.*")])

    def clean(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for pid in self.answerers():
            os.kill(pid, signal.SIGKILL)


def attach(job: Job, words: list[str]) -> list[str]:
    command = [sys.executable, "-m", "tracetui", "attach", str(job.process.pid), *words]
    return [*command, "-o", str(job.folder / "traces")]


def read_until(fd: int, marks: list[str], seen: bytes, most: float) -> bytes:
    """What was written until one of `marks`, or for so long, or until the end."""
    end = time.monotonic() + most
    while not any(mark.encode() in seen for mark in marks) and (left := end - time.monotonic()) > 0:
        if select.select([fd], [], [], left)[0]:
            try:
                part = os.read(fd, 1 << 16)
            except OSError:
                return seen
            seen += part
    return seen


def kill_attach(job: Job, chance: random.Random, stage: int) -> str:
    """Kill it in this stage; says what and when."""
    words = chance.choice(KINDS)
    if "--every" in words:  # opens nothing, so its last stages are those of the next recordings
        stage = min(stage, 4)
    elif "--steps" in words and stage in (2, 4):
        stage = 3  # it skips these
    delay = chance.random() * (1.0 if stage in (0, 6) else 0.4)
    os.environ.update(job.environment)
    with terminal(attach(job, words), (120, 36)) as fd:
        seen = read_until(fd, MARKS[stage:], b"", 60)
        come = [at for at, mark in enumerate(MARKS) if at >= stage and mark.encode() in seen]
        if not come:
            raise SystemExit(f"it never came to {STAGES[stage]}: {seen[-300:]!r}")
        stage = come[0]  # a later one where a process asks at once
        read_until(fd, ["\0never"], seen, delay)
        os.kill(os.tcgetpgrp(fd), signal.SIGKILL)
        time.sleep(0.05)
    return f"{STAGES[stage]} + {delay * 1000:3.0f} ms, {' '.join(words)}"


def killed_attach(
    job: Job, chance: random.Random, number: int, reference: list[str]
) -> tuple[str, list[str]]:
    began = time.monotonic()
    job.trains()
    time.sleep(chance.random())
    asked = time.monotonic()
    what = kill_attach(job, chance, number % len(STAGES))
    time.sleep(5.5)  # a request that was taken is recorded by now, or at least begun
    job.wait(lambda: not job.records())
    over = time.monotonic()
    time.sleep(1.5)
    wrong = job.ends(reference)
    ratio = job.per_step(over, over + 99) / job.per_step(began, asked)
    traces = list((job.folder / "traces").glob("*")) if (job.folder / "traces").exists() else []
    wrong += [f"{path.name} is empty" for path in traces if not path.stat().st_size]
    wrong += [f"left: {left}" for left in job.left() if left not in KNOWN]
    return f"{what}; CPU per step {ratio:.2f}; left {Counter(job.left())['trace_']} traces", wrong


KNOWN = {"", "tracetui", "kineto.conf", "lock", "dynolog", "dynoconfig", "recording", "trace_"}
"""A minute long the folder of the job's sockets; a day long what was recorded and not fetched."""


def killed_answerer(
    job: Job, chance: random.Random, number: int, reference: list[str]
) -> tuple[str, list[str]]:
    job.trains(1 if number % 2 else 200)
    time.sleep(chance.random())
    pids = job.answerers()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    os.environ.update(job.environment)
    done = subprocess.run([*attach(job, ["--no-open"])], capture_output=True, text=True)
    wrong = [f"attach: {done.stderr}"] * (done.returncode != 0)
    return f"{len(pids)} killed; attach ended with {done.returncode}", wrong + job.ends(reference)


def killed_run(job: Job, chance: random.Random, number: int, reference: list[str]) -> tuple[str, list[str]]:
    time.sleep(chance.random() * 4)
    job.process.kill()
    code = job.process.wait()
    lines = job.out.read_text().splitlines()
    wrong = [f"output: {lines[-3:]}"] * (lines != reference[: len(lines)])
    time.sleep(0.2)
    return f"ended with {code}, {len(lines)} lines; beside it {len(job.answerers())}", wrong


def killed_job(job: Job, chance: random.Random, number: int, reference: list[str]) -> tuple[str, list[str]]:
    job.trains(50)
    os.environ.update(job.environment)
    words = chance.choice([one for one in KINDS if "--every" not in one])
    delay = chance.random() * 4
    with subprocess.Popen([*attach(job, words), "--no-open"], stdout=-1, stderr=-1) as asking:
        time.sleep(delay)
        job.process.kill()
        job.process.wait()
        gone = time.monotonic()
        out, err = asking.communicate(timeout=120)
    took = time.monotonic() - gone
    text = f"after {delay:.1f} s, {' '.join(words)}: {asking.returncode}, {took:.1f} s later"
    said = [line for line in err.splitlines() if b"note:" not in line and b"waiting " not in line]
    wrong = []
    if asking.returncode == 0:
        wrong += ["a trace, but no path"] * (not out) + [f"said {err!r}"] * bool(said)
    elif asking.returncode != 1 or len(said) != 1 or not said[0].startswith(LINE) or out:
        wrong.append(f"said {err!r} {out!r}")
    wrong += ["late"] * (took > 5)
    lines = job.out.read_text().splitlines()
    wrong += [f"output: {lines[-3:]}"] * (lines != reference[: len(lines)])
    return f"{text} {said[0].decode() if said else 'recorded before'}", wrong


WAYS = {"attach": killed_attach, "answerer": killed_answerer, "run": killed_run, "job": killed_job}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=[*WAYS], default="attach")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    for name in [name for name in os.environ if name.startswith("KINETO_")]:
        del os.environ[name]
    root = Path(tempfile.mkdtemp(prefix="tk-", dir="/tmp"))  # sockets need a short path
    words = [str(root / "no"), str(root / "times"), "0", str(STEPS)]
    plain = LOOP.replace("time.sleep(0.01)", "pass")
    reference = subprocess.run(
        [sys.executable, "-c", plain, *words], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    good = 0
    try:
        for number in range(options.runs):
            job = Job(Path(tempfile.mkdtemp(dir=root)), chance.randrange(256))
            try:
                what, wrong = WAYS[options.only](job, chance, number, reference)
            finally:
                job.clean()
            good += not wrong
            print(f"{number + 1:>3}  {what}", *wrong, sep="\n     WRONG: " if wrong else "", flush=True)
            shutil.rmtree(job.folder, ignore_errors=True)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print(f"{good} of {options.runs} as without us")
    sys.exit(good != options.runs)


if __name__ == "__main__":
    main()
