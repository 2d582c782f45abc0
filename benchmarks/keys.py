"""How fast and how heavily the app answers a key, and a key that is held.

    python benchmarks/keys.py [TRACE] [--beside TRACE] [--size 200x50] [--presses 25] [--ssh]
                              [--at-once] [KEY ...]

Opens TRACE in a pseudo-terminal, zooms in twelve times about the first event, presses each key so often, one
at a time, and prints milliseconds to the last byte of the answer and kilobytes: median and largest. Then `d`
and `a` are held for two seconds each at 30 presses a second: how long after the last press the picture
settles. With --at-once the keys are pressed from the first picture on, while the trace is being analyzed:
what the analyses find is drawn in the meantime, which looks like a late answer to one key or another.
The bounds are 16 ms median and 40 ms at most, 25 kB for a move of the view, 8 kB in the median for a step
of the selection (one that leaves the view moves it), 60 ms after a held key. A busy machine breaks the times.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

from terminal import answer, press, until, viewer

SAMPLE = Path(__file__).resolve().parent.parent / "sample_traces" / "train.json.gz"
KEYS = ("d", "a", "w", "s", "D", "A", "right", "left", "down", "up", "g", "G", "]", "[")
PAIR_KEYS = (")", "(", "=", "&")
STEPS = ("right", "left", "down", "up", "]", "[")
MARK = "annotations"
"""A text of the first picture."""
DONE = 6.0
"""Seconds of silence after which the analyses are over: what they draw would look like a late answer."""
QUIET = 0.12
"""Seconds of silence after which an answer counts as whole."""
MEDIAN, MOST, SETTLED = 0.016, 0.040, 0.060
MOVE_KB, STEP_KB = 25.0, 8.0


def pressed(fd: int, key: str, times: int, pair: bool = False) -> bool:
    """Press it, print a line; whether the bounds held. Presses that change nothing are left out. `pair`: of
    two recordings, where a step may shift one of them."""
    answers = []
    for _ in range(times):
        press(fd, key)
        answers.append(answer(fd, QUIET))
    answers = [a for a in answers if a.bytes]
    if not answers:
        print(f"{key:>6}  no answer")
        return True
    times_ms = sorted(a.last for a in answers)
    sizes = sorted(a.bytes / 1e3 for a in answers)
    limit = STEP_KB if key in STEPS and not pair else MOVE_KB
    middle, size = statistics.median(times_ms), statistics.median(sizes)
    good = middle <= MEDIAN and times_ms[-1] <= MOST and size <= limit and sizes[-1] <= MOVE_KB
    print(
        f"{key:>6}  {1e3 * middle:5.1f} ms (most {1e3 * times_ms[-1]:5.1f})   {size:5.1f} kB (most "
        f"{sizes[-1]:4.1f})   {len(answers)} of {times} answered{'' if good else '   OVER'}"
    )
    return good


def held(fd: int, key: str, seconds: float = 2.0) -> bool:
    """Hold it, print a line; whether the picture settled in time."""
    begun, count, presses = time.perf_counter(), 0, int(seconds * 30)
    for i in range(presses):
        press(fd, key)
        count += answer(fd, 1.0, max(0.0, begun + (i + 1) / 30 - time.perf_counter())).bytes
    # The last press was a thirtieth of a second ago.
    rest = answer(fd, QUIET)
    settled = 1 / 30 + rest.last if rest.bytes else 0.0
    when = f"{1e3 * settled:.0f} ms" if rest.bytes else "less than 33 ms"
    size = (count + rest.bytes) / presses / 1e3
    print(f"held {key}: settles {when} after its last press, {size:.1f} kB per press")
    return settled <= SETTLED and count > 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("trace", nargs="?", default=str(SAMPLE))
    parser.add_argument("keys", nargs="*")
    parser.add_argument("--size", default="200x50")
    parser.add_argument("--presses", type=int, default=25)
    parser.add_argument(
        "--beside", metavar="TRACE", help="compare with another trace, and press its keys, too"
    )
    parser.add_argument("--at-once", action="store_true", help="do not wait for the analyses")
    parser.add_argument("--ssh", action="store_true", help="let the app know that it runs over SSH")
    a = parser.parse_intermixed_args()
    columns, rows = map(int, a.size.split("x"))
    both = [a.trace, a.beside] if a.beside else [a.trace]
    names = " beside ".join(Path(one).name for one in both)
    with viewer(*both, size=(columns, rows), ssh=a.ssh) as fd:
        if a.at_once:
            until(fd, MARK)
        else:
            opened = answer(fd, DONE, 120)
            print(f"{names} at {a.size}: {opened.bytes / 1e3:.0f} kB until it is open")
        for key in ("right", "f", *("w" * 12)):
            press(fd, key)
            answer(fd, QUIET)
        good = [
            pressed(fd, key, a.presses, len(both) > 1)
            for key in a.keys or (KEYS + PAIR_KEYS if a.beside else KEYS)
        ]
        for key in ("0", *("w" * 14)):
            press(fd, key)
            answer(fd, QUIET)
        good += [held(fd, key) for key in ("d", "a")]
    print("all within their bounds" if all(good) else "NOT all within their bounds")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
