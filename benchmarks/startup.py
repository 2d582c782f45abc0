"""From the command to the first drawn timeline, against a bare Textual app with one empty widget.

    python benchmarks/startup.py [TRACE] [--runs 9] [--size 120x36] [--large | --again]

Both run in a pseudo-terminal, by turns; the clock stops when a text of the first picture has been written.
Imports are included, compiled as an installation has them. The bound is 1.5 times the bare app plus 0.15 s.
Without TRACE: the largest sample. With
--large the picture is compared with loading the trace alone, in a process of its own; with --again that of a
second opening, from a cache of its own, with that of the largest sample: the bound is 0.1 s more.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from terminal import terminal, until, viewing

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
KEEPING = """
from tracetui.analysis.part import Part
from tracetui.views.overview_cache import first_screen, cached_overviews
from tracetui.session.recording import Recording
from tracetui.trace import load, saved

trace = load({!r})
Recording.prepare(trace)
assert saved.save(trace) and Recording.keep_prepared(trace)
part = Part(trace)
print(len(list(first_screen(part))), len(list(cached_overviews(part))))
"""
"""What a first visit keeps."""
LOADING = "from tracetui.trace import load; load({!r}); print('drawn-at-last')"


def first_picture(command: list[str], mark: str, size: tuple[int, int], limit: float = 60) -> float:
    """Seconds until the command has written `mark`."""
    begun = time.perf_counter()
    with terminal(command, size) as fd:
        until(fd, mark, limit)
        return time.perf_counter() - begun


def show(what: str, seconds: list[float]) -> float:
    """Print a line; returns the median."""
    median = statistics.median(seconds)
    print(f"{what:<22}{median:6.3f} s  ({min(seconds):.3f} to {max(seconds):.3f})")
    return median


def again(trace: str, sample: str, folder: str, runs: int, mark: str, size: tuple[int, int]) -> None:
    """Compare the second opening of a trace with that of a sample, by turns."""
    del os.environ["TRACETUI_NO_CACHE"]
    os.environ["TRACETUI_CACHE"] = folder
    subprocess.run([sys.executable, "-c", KEEPING.format(trace)], check=True)
    small, large = [], []
    for _ in range(runs + 1):
        small.append(first_picture(viewing(sample), mark, size))
        large.append(first_picture(viewing(trace), mark, size))
    least, median = show("the largest sample", small[1:]), show("a second opening", large[1:])
    held = "held" if median <= least + 0.1 else "NOT held"
    print(f"{'more by':<22}{median - least:6.3f} s  {held}  {trace}")


def main() -> None:
    os.environ["TRACETUI_NO_CACHE"] = "1"
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("trace", nargs="?")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--size", default="120x36")
    parser.add_argument("--mark", default="annotations", help="a text that the first picture holds")
    parser.add_argument("--large", action="store_true", help="compare with loading, not with a bare app")
    parser.add_argument("--again", action="store_true", help="a second opening, compared with a sample's")
    options = parser.parse_args()
    samples = Path(__file__).resolve().parent.parent / "sample_traces"
    largest = str(max(samples.rglob("*.json.gz"), key=lambda p: p.stat().st_size))
    trace = options.trace or largest
    columns, rows = map(int, options.size.split("x"))
    if options.again:
        with tempfile.TemporaryDirectory(dir=Path(trace).parent) as folder:
            again(trace, largest, folder, options.runs, options.mark, (columns, rows))
        return
    base, code = ("loading alone", LOADING.format(trace)) if options.large else ("bare Textual app", BARE)
    bare, ours = [], []
    for _ in range(options.runs + 1):
        bare.append(first_picture([sys.executable, "-c", code], "drawn-at-last", (columns, rows)))
        ours.append(first_picture(viewing(trace), options.mark, (columns, rows)))
    # The first run of each warms the file cache and Python's own.
    least, median = show(base, bare[1:]), show("tracetui open", ours[1:])
    print(f"{'ratio':<22}{median / least:6.2f}  {trace}")
    if not options.large:
        bound = 1.5 * least + 0.15
        print(f"1.5 x bare + 0.15 s   {bound:6.3f} s  {'held' if median <= bound else 'NOT held'}")


if __name__ == "__main__":
    main()
