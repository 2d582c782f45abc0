"""Killing a `tracetui capture` at any moment: the program goes on as alone, and nothing of ours is left.

    python benchmarks/capture_kills.py [--runs 50] [--seed 1] [--only recorder|program|stopped]

Needs PyTorch, bash and Linux; takes about 6 seconds a run. Each captures one of four programs, with its
output to a file, a pipe, or a terminal with an interactive shell in between, and in a random moment
of a stage

recorder  kills the recorder, which is the tracetui process (SIGKILL);
program   kills the program: the recorder has to say so in one line, with exit code 137;
stopped   stops one of them (SIGSTOP), and lets it go on half a second later.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import pty
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

SCRIPT = r"""
import os, sys, threading, time
kind, code = sys.argv[1], int(sys.argv[2])
with open("pid.new", "w") as file: print(os.getpid(), file=file)
os.rename("pid.new", "pid")
print("begun", flush=True)
import torch
print("imported", flush=True)
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
class Data(torch.utils.data.Dataset):
    def __len__(self): return 40 * 32
    def __getitem__(self, i): return torch.full((64,), i / 1280)
def train():
    batches = torch.utils.data.DataLoader(Data(), 32, num_workers=2 if kind == "workers" else 0)
    for step, batch in enumerate(batches):
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        print("step", step, f"{loss.item():.6f}", flush=True)
        time.sleep(0.02)
if kind == "thread":
    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
else:
    train()
print("trained", flush=True)
time.sleep(0.2)
with open("result", "w") as file: print(sum(p.sum() for p in model.parameters()).item(), file=file)
print("done", flush=True)
sys.exit(code)
"""
KINDS = ["plain", "workers", "thread", "duration"]
PLACES = ["file", "pipe", "terminal"]
STAGES = ["start", "import", "warm-up", "recording", "export", "publishing", "published", "end"]
LINE = re.compile(r"begun|imported|step \d+ [\d.]+|trained|done")
SPREAD = [0.6, 1.5, 0.15, 0.1, 0.03, 0.0005, 0.6, 0.4]
"""Most seconds from a stage's begin to the signal."""


class Run:
    """A captured program in a folder of its own."""

    def __init__(
        self,
        folder: Path,
        kind: str,
        place: str,
        to_end: bool,
        code: int,
        script: str = SCRIPT,
        more: Sequence[str] = (),
    ) -> None:
        self.folder, self.place, self.to_end, self.code = folder, place, to_end, code
        (folder / "train.py").write_text(script)
        how = [*more, *(["--duration", "300ms"] if kind == "duration" else [])]
        how += ["--run-to-end"] * to_end + ["--device", "cpu", "--no-open"]
        command = [sys.executable, "-m", "tracetui", "capture", *how, "train.py", "--", kind, str(code)]
        self._seen = b""
        self.fd = -1
        self._reader = None
        if place == "terminal":
            self.shell, self.fd = pty.fork()
            if self.shell == 0:
                os.chdir(folder)
                os.environ.update(PS1="", TERM="dumb", HISTFILE="")
                os.execvp("bash", ["bash", "--norc", "--noprofile", "--noediting", "-i"])
            self.type("PS1=; " + " ".join(command) + '; echo "code $?" > code; stty -a > stty')
            self.wait(lambda: os.tcgetpgrp(self.fd) not in (0, self.shell))
            self.recorder = os.tcgetpgrp(self.fd)
        else:
            out = open(folder / "out", "wb") if place == "file" else subprocess.PIPE  # noqa: SIM115
            with open(folder / "err", "wb") as err:
                self.process = subprocess.Popen(
                    command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err
                )
            self.recorder = self.process.pid
            if self.process.stdout is not None:
                self.fd = self.process.stdout.fileno()
        if self.fd >= 0:
            threading.Thread(target=self._read, daemon=True).start()

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode() + b"\n")

    def _read(self) -> None:
        with suppress(OSError):
            while part := os.read(self.fd, 1 << 16):
                self._seen += part

    @property
    def output(self) -> str:
        raw = (self.folder / "out").read_bytes() if self.place == "file" else self._seen
        return raw.decode(errors="replace")

    @property
    def lines(self) -> list[str]:
        return LINE.findall(self.output)

    @property
    def pid(self) -> int:
        with suppress(OSError, ValueError):
            return int((self.folder / "pid").read_text())
        return 0

    def wait(self, true: Callable[[], object], most: float = 60, pause: float = 0.001) -> bool:
        end = time.monotonic() + most
        while not true():
            if time.monotonic() > end:
                return False
            time.sleep(pause)
        return True

    def found(self, pattern: str) -> list[str]:
        return [str(path.relative_to(self.folder)) for path in self.folder.glob(f"traces/{pattern}")]

    def reached(self, stage: str) -> bool:
        """Whether this stage has begun, or a later one."""
        if stage == "start":
            return True
        if stage == "import":
            return "begun" in self.output
        if stage in ("warm-up", "recording"):
            return f"step {0 if stage == 'warm-up' else 5} " in self.output or self.over
        if stage == "export":
            return bool(self.found("*/.capture-*/*.json")) or self.reached("publishing")
        if stage == "publishing":
            return bool(self.found("*/[!.]*")) or self.over
        return (
            bool(self.found("*/*.meta.json")) and (stage != "end" or "trained" in self.output)
        ) or self.over

    @property
    def over(self) -> bool:
        return not running(self.recorder) and not running(self.pid)


def running(pid: int) -> bool:
    with suppress(OSError):
        return bool(pid) and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def ours(folder: Path) -> list[int]:
    """Processes of a capture that work in this folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            there = os.readlink(entry / "cwd") == str(folder) and running(int(entry.name))
            if there and b"tracetui" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def status_of(pid: int) -> int | None:
    """The exit code of a process that ended and was left to us (this is a subreaper)."""
    with suppress(ChildProcessError):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
    return None


def complete(run: Run) -> tuple[bool, list[str]]:
    """Whether a whole set of files is there, and what is wrong with those that are."""
    wrong = [f"left {name}" for name in run.found("*/.*")]
    files = [run.folder / name for name in run.found("*/[!.]*")]
    for path in files:
        try:
            json.loads(path.read_text()) if path.suffix == ".json" else path.read_text()[-1]
        except (ValueError, IndexError) as error:
            wrong.append(f"half a file: {path.name}: {error}")
    kinds = {".meta.json" if p.name.endswith(".meta.json") else p.suffix for p in files}
    if kinds and kinds != {".json", ".txt", ".meta.json"}:
        wrong.append(f"half a set: {sorted(kinds)}")
    if not kinds and (run.folder / "traces").exists():
        wrong.append("an empty folder")
    return bool(kinds), wrong


def one_run(
    folder: Path, number: int, chance: random.Random, only: str, alone: dict[str, list[str]]
) -> list[str]:
    stage = number % len(STAGES)
    kind, place = KINDS[number // 2 % 4], chance.choice(PLACES)
    to_end, code = chance.random() < 0.5, chance.randrange(3, 100)
    run = Run(folder, kind, place, to_end, code)
    delay = chance.random() * SPREAD[stage]
    whom = "recorder" if only == "recorder" or (only == "stopped" and chance.random() < 0.5) else "program"
    if not run.wait(lambda: run.reached(STAGES[stage]), pause=0 if STAGES[stage] == "publishing" else 0.001):
        raise SystemExit(f"never came to {STAGES[stage]}: {run.output[-300:]}")
    time.sleep(delay)
    if whom == "program":
        run.wait(lambda: run.pid or run.over)
    victim = run.recorder if whom == "recorder" else run.pid
    before = run.found("*/[!.]*")
    alive = running(victim)
    with suppress(ProcessLookupError):
        if not alive:
            pass
        elif only == "stopped":
            os.kill(victim, signal.SIGSTOP)
            time.sleep(0.5)
            os.kill(victim, signal.SIGCONT)
        else:
            os.kill(victim, signal.SIGKILL)
    killed = alive and only != "stopped"
    step = len([line for line in run.lines if line.startswith("step")])
    text = f"{STAGES[stage]} + {delay * 1000:.0f} ms, {kind}, {place}{', --run-to-end' * to_end}: "
    text += f"{whom if alive else 'nobody'} at step {step}, files {len(before)}"
    wrong = [] if run.wait(lambda: not ours(folder), 60, 0.05) else [f"left running {ours(folder)}"]
    for pid in ours(folder):
        os.kill(pid, signal.SIGKILL)
    # Who gets the exit code: the shell or this process that of the recorder; this one that of an orphan.
    if place == "terminal":
        run.wait((folder / "stty").exists, 10)
        time.sleep(0.1)
        own = int((folder / "code").read_text().split()[1])
        flags = (folder / "stty").read_text().split()
        wrong += [f"the terminal has {flag}" for flag in ("-echo", "-icanon", "-isig") if flag in flags]
        wrong += ["the shell is not in front"] * (os.tcgetpgrp(run.fd) != run.shell)
    else:
        own = run.process.wait()
        own = own if own >= 0 else 128 - own
        time.sleep(0.1)
    status = status_of(run.pid) if run.pid else None
    whole, more = complete(run)
    wrong += more
    lines, full = run.lines, alone[kind]
    said = run.output if place == "terminal" else (folder / "err").read_text()
    told = [line for line in said.splitlines() if line.startswith("tracetui: ") and "CPU" not in line]
    odd = [line for line in said.splitlines() if place != "terminal" and not line.startswith("tracetui: ")]
    if kind != "workers" or whom != "program":  # DataLoader's workers say that they lost it
        wrong += [f"said {odd[:3]}"] * bool(odd)
    text += f" -> {own}, program {status}, {len(lines)} of {len(full)} lines, {'files' if whole else 'none'}"
    if kind == "thread" and whole and not to_end:  # its main thread goes on a little
        lines, full = lines[: len(lines) - lines.count("trained") - lines.count("done")], full[:-2]
    wrong += [f"output {lines[-2:]}"] * (lines != full[: len(lines)])
    if whom == "program" and killed:
        wrong += [f"code {own}: {told}"] * (own != 137 and not (whole and not to_end and own == 0))
        if not whole:
            wrong += [f"said {told}"] * (len(told) != 1 or "SIGKILL" not in told[0])
    elif run.pid or not killed:
        ended = whole and not to_end  # by us, since its recording is written
        if ended and len(lines) < len(full):
            right = status if killed and kind == "thread" else 0
        else:
            right = code
            wrong += ["output ends early"] * (lines != full)
            wrong += ["no result"] * (not (folder / "result").exists())
        got = status if killed else own
        wrong += [f"exit code {got}, not {right}"] * (got != right)
        wrong += ["no files"] * (not killed and not whole)
    strays = {p.name for p in folder.iterdir()} - {
        "train.py",
        "pid",
        "result",
        "out",
        "err",
        "code",
        "stty",
        "traces",
    }
    wrong += [f"strays {strays}"] * bool(strays)
    wrong += [f"{said[-500:]!r}"] * bool(wrong)
    print(f"{number + 1:>3}  {text}", *wrong, sep="\n     WRONG: " if wrong else "", flush=True)
    if place == "terminal":
        os.kill(run.shell, signal.SIGKILL)
        os.waitpid(run.shell, 0)
        os.close(run.fd)
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=["recorder", "program", "stopped"], default="recorder")
    options = parser.parse_args()
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: orphans leave their exit code here
    chance = random.Random(options.seed)
    root = Path(tempfile.mkdtemp(prefix="tk-")).resolve()
    good = 0
    try:
        alone = {}
        for kind in KINDS:
            words = [sys.executable, "-c", SCRIPT, kind, "0"]
            done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=True)
            alone[kind] = done.stdout.splitlines()
            assert not done.stderr, done.stderr
        for number in range(options.runs):
            folder = Path(tempfile.mkdtemp(dir=root))
            good += not one_run(folder, number, chance, options.only, alone)
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print(f"{good} of {options.runs} as they should be")
    sys.exit(good != options.runs)


if __name__ == "__main__":
    main()
