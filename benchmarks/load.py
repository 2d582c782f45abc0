"""How fast a large trace is read, beside the bare decoding loop, `json` and `orjson`, in one run.

    python benchmarks/load.py make SAMPLE OUT.json [--events 1700000] [--layout kineto|line]
    python benchmarks/load.py run OUT.json [--repeat 3] [--whole-file]

`make` repeats a sample's events end to end in time, with ids of their own. `run` measures each way in a
process of its own and prints wall time, CPU time, MB/s, anonymous memory at its peak beyond that of the bare
interpreter, and the ratio to the bare loop: a loop that decodes chunks of 1 MB into msgspec structs with a
typed `args` of two fields, and throws them away. Times are medians; a line each for one process and for all
cores.

With OUT.pftrace beside OUT.json, the same recording multiplied by `benchmarks/multiply.py`, both are
measured; MB/s and "x file" are of the JSON.

For a machine with little memory, make a trace with --events 85000000 (29 GB, 58 million slices), and open it
with
`systemd-run --user --scope -p MemoryMax=16G tracetui open OUT.json`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_NUMBERS = re.compile(rb'"(ts|External id|correlation|id|Ev Idx|Sequence number)": (-?\d+)(\.\d+)?')
_LABEL = re.compile(rb'\{\s*"name": "[^"]*", "ph": "M",[^{}]*\{[^{}]*\}\s*\},?\s*')


# -- making a large trace


def make(sample: Path, out: Path, events: int, layout: str) -> None:
    """Write a trace of about `events` events, each copy of the sample's after the one before it."""
    text = gzip.decompress(sample.read_bytes()) if sample.suffix == ".gz" else sample.read_bytes()
    trace = json.loads(text)
    begin = text.index(b'"traceEvents": [') + len(b'"traceEvents": [')
    end = text.rindex(b"]")
    body = text[begin:end].strip()
    times = [e["ts"] for e in trace["traceEvents"] if "ts" in e]
    length = int(max(times) - min(times)) + 1_000_000
    largest = max(int(m.group(2)) for m in _NUMBERS.finditer(body) if m.group(1) != b"ts")
    if layout == "line":
        # As json.dumps writes it, with the digits as they were.
        body = re.sub(rb"\n\s*", b"", body.replace(b",\n", b", \n"))
        body = body.replace(b"{ ", b"{").replace(b" }", b"}")
    comma = b", " if layout == "line" else b",\n  "
    # What processes and threads are called is in a file once.
    labels = [label.rstrip(b", \n") + comma for label in _LABEL.findall(body)]
    body = _LABEL.sub(b"", body).rstrip(b", \n")
    each = len(trace["traceEvents"]) - len(labels)
    pieces: list[bytes] = []
    numbers: list[tuple[int, bytes, bool]] = []
    at = 0
    for match in _NUMBERS.finditer(body):
        pieces.append(body[at : match.start(2)])
        numbers.append((int(match.group(2)), match.group(3) or b"", match.group(1) == b"ts"))
        at = match.end()
    last = body[at:]
    copies = max(1, round(events / each))
    with out.open("wb") as file:
        head, tail = text[:begin], text[end:]
        file.write(head.replace(b"\n", b" ") if layout == "line" else head + b"\n  ")
        file.writelines(labels)
        for copy in range(copies):
            shift = copy * length, copy * (largest + 1)
            made = [b"%d%s" % (value + shift[not is_time], rest) for value, rest, is_time in numbers]
            file.write(comma if copy else b"")
            file.write(b"".join(part for pair in zip(pieces, made, strict=True) for part in pair) + last)
        file.write(tail.replace(b"\n", b" ") if layout == "line" else b"\n  " + tail)
    print(
        f"{out}: {out.stat().st_size / 1e6:.0f} MB, {copies * each + len(labels):,} events, {layout} layout"
    )


# -- the ways to read it


def bare(path: str) -> int:
    """The bare loop."""
    import msgspec

    number = (int, -1)
    args = msgspec.defstruct(
        "Args",
        [("external", int, msgspec.field(name="External id", default=-1)), ("correlation", *number)],
        gc=False,
    )
    text, real, label = (str, ""), (float, 0.0), (int | str, "")
    fields = [("ph", *text), ("cat", *text), ("name", *text), ("pid", *label), ("tid", *label)]
    fields += [("ts", *real), ("dur", *real), ("args", args | None, None)]
    event = msgspec.defstruct("Event", fields, gc=False)
    decode = msgspec.json.Decoder(list[event]).decode
    count = 0
    for chunk in _chunks(path):
        count += len(decode(chunk))
    return count


def _chunks(path: str, size: int = 1 << 20) -> Iterator[bytes]:
    """Lists of whole events, by the separator between the first two events."""
    with open(path, "rb", buffering=0) as file:
        text = file.read(1 << 16)
        begin = text.index(b"{", text.index(b'"traceEvents"'))
        line = text.startswith(b'{ "ph"', begin) or b"\n" not in text[begin : begin + 200]
        tight = b'},{"ph"'  # as Cuspy writes it
        separator = (tight if tight in text else b'}, {"ph"') if line else b"\n  },\n  {"
        text = text[begin:]
        while block := file.read(size):
            text += block
            cut = text.rindex(separator)
            comma = text.index(b",", cut)
            yield b"[" + text[:comma] + b"]"
            text = text[comma + 1 :]


def ours(path: str, workers: int | None) -> int:
    from tracetui.core.threads import import_numpy

    import_numpy()  # as the commands do
    from tracetui.trace import load

    return load(path, workers=workers, cache=False).events


def again(path: str) -> int:
    """The second opening: from what the first kept, in `run`."""
    from tracetui.formats.source import open_source
    from tracetui.trace import saved

    found = saved.find(open_source(path))
    assert found is not None
    return found.events


def standard(path: str) -> int:
    with open(path, "rb") as file:
        return len(json.load(file)["traceEvents"])


def with_orjson(path: str) -> int:
    import orjson

    return len(orjson.loads(Path(path).read_bytes())["traceEvents"])


WAYS: dict[str, Callable[[str], int]] = {
    "bare loop": bare,
    "tracetui, 1 process": lambda path: ours(path, 1),
    "tracetui, all cores": lambda path: ours(path, None),
    "tracetui, again": again,
    "tracetui, gz, 1 process": lambda path: ours(path, 1),
    "tracetui, gz, all cores": lambda path: ours(path, None),
    "tracetui, pftrace": lambda path: ours(path, None),
    "tracetui, pftrace, gz": lambda path: ours(path, None),
    "orjson, whole file": with_orjson,
    "json, whole file": standard,
}


# -- measuring


def anonymous() -> int:
    """Anonymous memory of this process in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


def measure_here(way: str, path: str) -> None:
    """Run one way in this process and print what it took as JSON."""
    peak = before = anonymous()
    stop = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not stop.wait(0.005):
            peak = max(peak, anonymous())

    watcher = threading.Thread(target=watch, daemon=True)
    if os.environ.get("MEASURE_MEMORY"):
        watcher.start()
    # Imports count: they are part of the command.
    wall = time.perf_counter()
    count = WAYS[way](path)
    wall = time.perf_counter() - wall
    stop.set()
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(u.ru_utime + u.ru_stime for u in usage)
    if "whole" in way:
        # One call that never lets the watcher in; all that it holds is anonymous.
        peak = max(peak, usage[0].ru_maxrss * 1024)
    print(json.dumps({"wall": wall, "cpu": cpu, "peak": max(peak, anonymous()) - before, "events": count}))


def file_of(way: str, path: str) -> str:
    """The file that a way reads: `path`, the same as .pftrace, or one of them compressed."""
    plain = str(Path(path).with_suffix(".pftrace")) if "pftrace" in way else path
    return f"{plain}.gz" if "gz" in way else plain


def run(path: str, repeat: int, whole_file: bool) -> None:
    size = os.path.getsize(path)
    print(f"{path}: {size / 1e6:.0f} MB, {os.cpu_count()} cores")
    ways = [w for w in WAYS if whole_file or "whole" not in w]
    if not Path(file_of("pftrace", path)).exists():
        ways = [w for w in ways if "pftrace" not in w]
    for way in ways:
        if "gz" in way and not Path(file_of(way, path)).exists():
            subprocess.run(["gzip", "-k", "-6", file_of(way, path).removesuffix(".gz")], check=True)
    found: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    kept = tempfile.TemporaryDirectory(dir=Path(path).parent)
    os.environ["TRACETUI_CACHE"] = kept.name
    keep = "import sys; from tracetui.trace import load, saved; sys.exit(not saved.save(load(sys.argv[1])))"
    subprocess.run([sys.executable, "-c", keep, path], check=True)
    for _ in range(repeat):
        for way in ways:  # side by side, so that a busy machine is busy for all
            found[way].append(_measure(way, file_of(way, path), memory=False))
    base_wall, base_cpu = (statistics.median(r[k] for r in found["bare loop"]) for k in ("wall", "cpu"))
    print(
        f"{'':26}{'wall s':>8}{'ratio':>7}{'CPU s':>8}{'ratio':>7}{'MB/s':>7}"
        f"{'peak MB':>9}{'x file':>7}{'events':>11}"
    )
    for way in ways:
        wall, cpu = (statistics.median(r[k] for r in found[way]) for k in ("wall", "cpu"))
        peak = _measure(way, file_of(way, path), memory=True)["peak"]
        print(
            f"{way:26}{wall:8.2f}{wall / base_wall:7.2f}{cpu:8.2f}{cpu / base_cpu:7.2f}"
            f"{size / wall / 1e6:7.0f}{peak / 1e6:9.0f}{peak / size:7.2f}{found[way][0]['events']:11,.0f}"
        )


def _measure(way: str, path: str, memory: bool) -> dict[str, float]:
    env = {**os.environ, **({"MEASURE_MEMORY": "1"} if memory else {})}
    command = [sys.executable, __file__, "measure", way, path]
    made: dict[str, float] = json.loads(
        subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE).stdout
    )
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    maker = commands.add_parser("make")
    maker.add_argument("sample", type=Path)
    maker.add_argument("out", type=Path)
    maker.add_argument("--events", type=int, default=1_700_000)
    maker.add_argument("--layout", choices=("kineto", "line"), default="kineto")
    runner = commands.add_parser("run")
    runner.add_argument("path")
    runner.add_argument("--repeat", type=int, default=3)
    runner.add_argument(
        "--whole-file", action="store_true", help="measure json and orjson too (memory: 8 times the file)"
    )
    one = commands.add_parser("measure")
    one.add_argument("way")
    one.add_argument("path")
    chosen = parser.parse_args()
    if chosen.command == "make":
        make(chosen.sample, chosen.out, chosen.events, chosen.layout)
    elif chosen.command == "run":
        run(chosen.path, chosen.repeat, chosen.whole_file)
    else:
        measure_here(chosen.way, chosen.path)


if __name__ == "__main__":
    main()
