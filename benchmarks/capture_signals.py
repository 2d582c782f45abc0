"""Signals to a `tracetui capture`, and keys that send them: what there is is kept, the program gets it once.

    python benchmarks/capture_signals.py [--only WORD]

Needs PyTorch, bash and Linux; takes about 2 minutes. The captured loop either leaves signals alone or counts
them and ends by itself. Signals go to the recorder, which is the tracetui process; keys to a terminal with an
interactive shell in between, where the program shares the recorder's process group. There the recorder
takes every SIGINT and SIGQUIT for a key, which the program got, too: sent by `kill` to the recorder alone,
they end the recording and not the program.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import os
import shutil
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from capture_kills import Run, complete, ours, status_of

LOOP = r"""
import os, signal, sys, time
counts = sys.argv[1] == "counts"
got = []
def count(number, frame):
    got.append(number)
    with open("signals", "a") as file: print(signal.Signals(number).name, file=file)
for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT") if counts else ():
    signal.signal(getattr(signal, name), count)
with open("pid.new", "w") as file: print(os.getpid(), file=file)
os.rename("pid.new", "pid")
import torch
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
end = time.monotonic() + 60
step = 0
try:
    while time.monotonic() < end:
        if got and end - time.monotonic() > 2:
            end = time.monotonic() + 1
        optimizer.zero_grad()
        model(torch.ones(8, 64)).sum().backward()
        optimizer.step()
        print("step", step, 0, flush=True)
        step += 1
        time.sleep(0.02)
finally:
    open("finally", "w").close()
print("done", flush=True)
sys.exit(7)
"""
SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"]
WAYS = [f"{name} to a {place}'s" for place, name in itertools.product(("file", "terminal"), SIGNALS)]
WAYS = [way for way in WAYS if way not in ("SIGINT to a terminal's", "SIGQUIT to a terminal's")]
WAYS += ["Ctrl+C", "Ctrl+C twice", "Ctrl+\\", "Ctrl+Z, fg", "Ctrl+Z, fg, Ctrl+C", "closed terminal"]
KEYS = {"Ctrl+C": b"\x03", "Ctrl+\\": b"\x1c", "Ctrl+Z": b"\x1a", "fg": b"fg\n"}


def state(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return "-"


def press(run: Run, key: str) -> list[str]:
    """Press a key; what is wrong afterwards."""
    os.write(run.fd, KEYS[key])
    if key == "Ctrl+Z":
        ok = run.wait(lambda: state(run.recorder) == state(run.pid) == "T", 5)
        ok = ok and run.wait(lambda: os.tcgetpgrp(run.fd) == run.shell, 5)
        return [] if ok else [f"not stopped: {state(run.recorder)} {state(run.pid)}"]
    if key == "fg":
        at = len(run.lines)
        return [] if run.wait(lambda: len(run.lines) > at + 5, 10) else ["does not go on"]
    return []


def one(way: str, kind: str, folder: Path) -> list[str]:
    place = "file" if "file" in way else "terminal"
    run = Run(folder, kind, place, True, 7, LOOP, ["--active", "1000"])
    if not run.wait(lambda: "step 12 " in run.output):
        raise SystemExit(f"never came to step 12: {run.output[-300:]}")
    wrong = []
    asked = time.monotonic()
    if way.startswith("SIG"):
        os.kill(run.recorder, getattr(signal, way.split()[0]))
    elif way == "closed terminal":
        os.close(run.fd)
    elif way == "Ctrl+C twice":
        press(run, "Ctrl+C")
        run.wait((folder / "signals").exists, 0.5)
        time.sleep(0.2)
        press(run, "Ctrl+C")
    else:
        for key in way.split(", "):
            wrong += press(run, key)
        if way.endswith("fg"):
            os.kill(run.pid, signal.SIGTERM)
    if not run.wait(lambda: not ours(folder), 20, 0.05):
        wrong.append(f"after 20 s there is {ours(folder)}: recorder {state(run.recorder)}, {state(run.pid)}")
        for pid in ours(folder):
            os.kill(pid, signal.SIGKILL)
    took = time.monotonic() - asked
    code: int | str = "?"
    if way == "closed terminal":
        pass
    elif place == "terminal":
        run.wait((folder / "stty").exists, 10)
        time.sleep(0.1)
        code = int((folder / "code").read_text().split()[1])
        flags = (folder / "stty").read_text().split()
        wrong += [f"the terminal has {flag}" for flag in ("-echo", "-icanon", "-isig") if flag in flags]
        wrong += ["the shell is not in front"] * (os.tcgetpgrp(run.fd) != run.shell)
    else:
        code = run.process.wait()
    whole, more = complete(run)
    wrong += more
    text = run.output if place == "terminal" else (folder / "err").read_text()
    said = [line for line in text.splitlines() if "tracetui: " in line]  # behind an echoed ^C
    got = (folder / "signals").read_text().split() if (folder / "signals").exists() else []
    if kind == "counts" and way not in (
        "Ctrl+C twice",
        "closed terminal",
    ):  # the kernel and the shell both send it
        wrong += [f"the program got {got}"] * (len(got) != 1 and not way.endswith("fg"))
    last = said[-1] if said else text[-200:]
    orphan = status_of(run.pid)
    print(
        f"{way}, {kind}: code {code} after {took:.1f} s, {'files' if whole else 'no file'}, got {got}, "
        f"finally {(folder / 'finally').exists()}, orphan {orphan}; {last!r}",
        *wrong,
        sep="\n     WRONG: " if wrong else "",
        flush=True,
    )
    if place == "terminal":
        with suppress(OSError):
            os.kill(run.shell, signal.SIGKILL)
        with suppress(OSError):
            os.waitpid(run.shell, 0)
            os.close(run.fd)
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default="", help="ways with this word in them")
    options = parser.parse_args()
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    bad = 0
    for way, kind in itertools.product(WAYS, ("plain", "counts")):
        if options.only in way:
            folder = Path(tempfile.mkdtemp(prefix="ts-")).resolve()
            bad += bool(one(way, kind, folder))
            shutil.rmtree(folder, ignore_errors=True)
    sys.exit(bad != 0)


if __name__ == "__main__":
    main()
