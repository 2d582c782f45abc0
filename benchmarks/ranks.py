"""The ranks of a job, against loading the same bytes, one file per core; and against another tool.

    python benchmarks/ranks.py [--ranks 8] [--megabytes 70] [--repeat 3] [--gzip]
    python benchmarks/ranks.py --hta /path/to/python          # one with HolisticTraceAnalysis 0.5.0
    python benchmarks/ranks.py --ranks 1000 --megabytes 20 --alike   # memory: one file under many names

The files are those of two recorded ranks, repeated. Loading is timed in as many processes as there are cores,
each with the files that the other would not take: starting Python is in both times. Prints the times in turn,
their ratio, and the largest memory of any process.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tracetui.core.threads import usable_cores

JOB = Path(__file__).resolve().parent.parent / "tests" / "data" / "ranks" / "ddp_batch_straggler"
LOAD = """
import sys
from tracetui.trace.load import load
for path in sys.argv[1:]:
    load(path, workers=1)
"""
RANKS = "import sys; from tracetui.cli import main; main(['ranks', *sys.argv[1:], '--json'])"
HTA = """
import sys
from hta.trace_analysis import TraceAnalysis
found = TraceAnalysis(trace_dir=sys.argv[1])
found.get_comm_comp_overlap(visualize=False)
found.get_temporal_breakdown(visualize=False)
try:
    print(found.get_potential_stragglers())
except Exception as error:
    print("no stragglers:", repr(error)[:200])
"""
LENGTH = 100_000
"""From one repetition to the next, in µs: longer than the recordings, and the same for all ranks."""
Event = dict[str, Any]


def repeated(path: Path, megabytes: float) -> dict[str, Any]:
    """A recording, again and again, each time with ids and steps of its own."""
    file: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    heads = [e for e in file["traceEvents"] if e.get("ph") == "M"]
    events = [e for e in file["traceEvents"] if e.get("ph") in "Xsf" and e.get("cat") != "Trace"]
    size = len(json.dumps(events, indent=1))
    found = list(heads)
    for time_ in range(max(1, round(megabytes * 1e6 / size))):
        for event in events:
            one = event | {"ts": round(event["ts"] + time_ * LENGTH, 3)}
            if "args" in event:
                one["args"] = dict(event["args"])
                for key in ("correlation", "External id"):
                    if key in one["args"]:
                        one["args"][key] += time_ << 24
            if "id" in event:
                one["id"] = event["id"] + (time_ << 24)
            if event["name"].startswith("ProfilerStep#"):
                one["name"] = f"ProfilerStep#{int(event['name'][13:]) + 1000 * time_}"
            found.append(one)
    # PyTorch writes what the CPU did first, and then the calls and the work of the GPU.
    found.sort(key=lambda one: one.get("cat") not in ("cpu_op", "user_annotation", "fwdbwd", None))
    return file | {"traceEvents": found}


def made(folder: Path, ranks: int, megabytes: float, zipped: bool, alike: bool) -> list[Path]:
    """The files of a job with this many ranks; `alike`: one file by many names, which have the ranks."""
    ending = ".json.gz" if zipped else ".json"
    found = []
    for rank in range(ranks):
        path = folder / f"rank{rank}{ending}"
        if alike and rank:
            path.symlink_to(found[0])
        else:
            file = repeated(JOB / f"rank{rank % 2}.json.gz", megabytes)
            file.pop("distributedInfo")
            every = str(list(range(ranks)))
            if not alike:
                file["distributedInfo"] = {"rank": rank, "world_size": ranks}
            for event in file["traceEvents"]:
                if "Process Group Ranks" in event.get("args", {}):
                    event["args"] |= {"Process Group Ranks": every, "Group size": ranks}
            text = json.dumps(file, indent=1).encode()
            path.write_bytes(gzip.compress(text, 1) if zipped else text)
        found.append(path)
    return found


def timed(*commands: list[str]) -> float:
    begun = time.perf_counter()
    running = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in commands]
    if max(one.wait() for one in running):
        raise SystemExit(f"failed: {commands[0][:3]}")
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--megabytes", type=float, default=70)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--gzip", action="store_true")
    parser.add_argument("--alike", action="store_true")
    parser.add_argument("--hta", metavar="PYTHON")
    options = parser.parse_args()
    os.environ["TRACETUI_NO_CACHE"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        files = made(Path(folder), options.ranks, options.megabytes, options.gzip, options.alike)
        paths, cores = [str(path) for path in files], usable_cores()
        size = sum(path.stat().st_size for path in files)
        print(f"{len(paths)} files, {size / 1e6:,.0f} MB, {cores} cores")
        loads = [[sys.executable, "-c", LOAD, *paths[core::cores]] for core in range(cores)]
        ratios = []
        for _ in range(options.repeat):
            loading = timed(*loads)
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
            ranks = timed([sys.executable, "-c", RANKS, *paths])
            largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
            ratios.append(ranks / loading)
            print(
                f"loading {loading:.2f} s, ranks {ranks:.2f} s ({size / ranks / 1e6:,.0f} MB/s): "
                f"{ranks / loading:.2f} times; largest process {max(before, largest) / 1e3:,.0f} MB"
            )
            if options.hta:
                other = timed([options.hta, "-c", HTA, folder])
                print(f"HolisticTraceAnalysis {other:.1f} s: {other / ranks:.1f} times ours")
        print(f"median: {statistics.median(ratios):.2f} times loading")


if __name__ == "__main__":
    main()
