"""From the command to the first drawn timeline, against a bare Textual app with one empty widget.

    python benchmarks/startup.py [TRACE] [--runs 9] [--size 120x36] [--large]

Both run in a pseudo-terminal, by turns; the clock stops when a text of the first picture has been written.
Imports are included. The bound is 1.5 times the bare app plus 0.7 s. Without TRACE: the largest sample. With
--large the picture is compared with loading the trace alone, in a process of its own.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import select
import signal
import statistics
import struct
import sys
import termios
import time
from pathlib import Path

BARE = """
from textual.app import App
from textual.widget import Widget

class Empty(Widget):
    def render(self):
        return "drawn-at-last"

class Bare(App):
    def compose(self):
        yield Empty()

Bare().run()
"""


def first_picture(command: list[str], marks: list[bytes], size: tuple[int, int], limit: float = 60) -> float:
    """Seconds until one of the marks has been written by the command."""
    begun = time.perf_counter()
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
        os.environ.pop("NO_COLOR", None)
        os.execvp(command[0], command)
    try:
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        seen = b""
        while time.perf_counter() - begun < limit:
            if select.select([fd], [], [], 0.05)[0]:
                try:
                    seen += os.read(fd, 1 << 16)
                except OSError:
                    break
                if any(mark in seen for mark in marks):
                    return time.perf_counter() - begun
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(fd)
    raise SystemExit(f"{' '.join(command)}: nothing was drawn; the last it wrote: {seen[-300:]!r}")


def against_loading(viewer: list[str], trace: str, options: argparse.Namespace) -> None:
    """For a trace whose loading takes longer than starting an app: the picture against the loading alone."""
    columns, rows = map(int, options.size.split("x"))
    loading = [sys.executable, "-c", f"from tracetui.trace import load; load({trace!r}); print('loaded')"]
    alone, drawn = [], []
    for run in range(options.runs + 1):
        times = (
            first_picture(loading, [b"loaded"], (columns, rows)),
            first_picture(viewer, [options.mark.encode()], (columns, rows)),
        )
        if run:
            alone.append(times[0])
            drawn.append(times[1])
    print(f"loading alone         {statistics.median(alone):6.3f} s  ({min(alone):.3f} to {max(alone):.3f})")
    print(f"tracetui open         {statistics.median(drawn):6.3f} s  ({min(drawn):.3f} to {max(drawn):.3f})")
    print(f"ratio                 {statistics.median(drawn) / statistics.median(alone):6.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace", nargs="?")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--size", default="120x36")
    parser.add_argument("--mark", default="annotations", help="a text that the first picture holds")
    parser.add_argument(
        "--large", action="store_true", help="compare with loading alone, not with a bare app"
    )
    options = parser.parse_args()
    samples = Path(__file__).resolve().parent.parent / "sample_traces"
    trace = options.trace or str(max(samples.rglob("*.json.gz"), key=lambda p: p.stat().st_size))
    columns, rows = map(int, options.size.split("x"))
    python = sys.executable
    viewer = [python, "-m", "tracetui", "open", trace]
    if options.large:
        against_loading(viewer, trace, options)
        return
    bare, ours = [], []
    for run in range(options.runs + 1):
        times = (
            first_picture([python, "-c", BARE], [b"drawn-at-last"], (columns, rows)),
            first_picture(viewer, [options.mark.encode()], (columns, rows)),
        )
        if run:  # the first run of each warms the file cache and Python's own
            bare.append(times[0])
            ours.append(times[1])
    base, median = statistics.median(bare), statistics.median(ours)
    bound = 1.5 * base + 0.7
    print(f"bare Textual app      {base:6.3f} s  ({min(bare):.3f} to {max(bare):.3f})")
    print(f"tracetui open         {median:6.3f} s  ({min(ours):.3f} to {max(ours):.3f})  {trace}")
    print(f"1.5 x bare + 0.7 s    {bound:6.3f} s  {'held' if median <= bound else 'NOT held'}")
    print(f"ratio                 {median / base:6.2f}")


if __name__ == "__main__":
    main()
