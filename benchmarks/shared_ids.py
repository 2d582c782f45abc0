"""Events that share one id, beside as many that have one each: the time of both, and the ratio.

    python benchmarks/shared_ids.py [--events 40000] [--growth] [--kinds flow ...] [--commands check ...]

Each row is a kind of id, and each column a command, run in this process: seconds of CPU with an id each, with
one for all, and how many times as long that takes. More than twice as long is marked: time should grow with
the number of events, whatever their ids are. With `--growth`, the two are a quarter of the events and all of
them, with an id each; more than six times as long is marked. `names` has a name for each event, the other one
on each side of `compare`, beside names that all come on both sides.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tracetui.cli import main as run

COMMANDS = ("check", "summary", "findings", "table", "gaps", "steps", "efficiency", "compare")
RAW = argparse.RawDescriptionHelpFormatter
MUCH, GROWN = 2.0, 6.0
Event = dict[str, Any]


def host(name: str, start: float, duration: float, category: str, **args: Any) -> Event:
    """An event of a CPU thread. Times in microseconds."""
    event = {"ph": "X", "cat": category, "name": name, "pid": 9, "tid": 9, "ts": start, "dur": duration}
    return event | {"args": args}


def device(start: float, **args: Any) -> Event:
    """A kernel."""
    args = {"device": 0, "stream": 7} | args
    event = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": start, "dur": 4}
    return event | {"args": args}


def _correlation(i: int, own: int) -> Iterator[Event]:
    yield host("cudaLaunchKernel", 10 * i, 4, "cuda_runtime", correlation=own)
    yield device(10 * i + 5, correlation=own)


def _kernels_first(i: int, own: int) -> Iterator[Event]:
    """Each kernel comes before all launches."""
    yield host("cudaLaunchKernel", 10 * i + 10_000_000, 4, "cuda_runtime", correlation=own)
    yield device(10 * i, correlation=own)


def _external(i: int, own: int) -> Iterator[Event]:
    yield host("aten::mm", 10 * i, 8, "cpu_op", **{"External id": own})
    launch = host("cudaLaunchKernel", 10 * i + 1, 4, "cuda_runtime", correlation=i + 1)
    yield launch | {"args": {"External id": own, "correlation": i + 1}}
    yield device(10 * i + 6, correlation=i + 1, **{"External id": own})


def _graph(i: int, own: int) -> Iterator[Event]:
    if i == 0 or own > 1:
        yield host("cudaGraphLaunch", 10 * i, 4, "cuda_runtime", correlation=own)
    yield device(10 * i + 5, correlation=own, **{"graph id": own, "graph node id": own})


def _flow(i: int, own: int, category: str = "fwdbwd") -> Iterator[Event]:
    yield host("aten::mm", 10 * i, 8, "cpu_op", **{"External id": i + 1})
    for phase, at in (("s", 1), ("f", 2)):
        place = {"pid": 9, "tid": 9, "ts": 10 * i + at, "bp": "e"}
        yield {"ph": phase, "id": own, "cat": category, "name": category} | place


def _launch_flow(i: int, own: int) -> Iterator[Event]:
    yield from _flow(i, own, "ac2g")


def _python(i: int, own: int) -> Iterator[Event]:
    ids = {"Python id": own, "Python parent id": own - 1, "Python module id": own}
    yield host("nn.Module: Linear_0", 10 * i, 8, "python_function", **ids)
    yield host("aten::mm", 10 * i + 1, 4, "cpu_op", **{"External id": i + 1, "Sequence number": own})


def _step(i: int, own: int) -> Iterator[Event]:
    yield host(f"ProfilerStep#{own}", 10 * i, 9, "user_annotation")
    yield host("aten::mm", 10 * i + 1, 4, "cpu_op", **{"External id": i + 1})


def _sync(i: int, own: int) -> Iterator[Event]:
    yield host("cudaEventRecord", 10 * i, 1, "cuda_runtime", correlation=own)
    yield host("cudaStreamWaitEvent", 10 * i + 2, 1, "cuda_runtime", correlation=own + 1)
    yield host("cudaLaunchKernel", 10 * i + 4, 1, "cuda_runtime", correlation=own + 2)
    yield device(10 * i + 5, correlation=own + 2)
    waits = {"wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": own, "correlation": own + 1}
    yield device(10 * i + 3, **waits) | {"cat": "cuda_sync", "name": "Stream Wait Event", "dur": 1}


def _async(i: int, own: int) -> Iterator[Event]:
    yield host("aten::mm", 10 * i, 8, "cpu_op")
    for phase, at in (("b", 1), ("e", 5)):
        yield {"ph": phase, "id": own, "cat": "x", "name": "a", "pid": 9, "tid": 9, "ts": 10 * i + at}


def _async_open(i: int, own: int) -> Iterator[Event]:
    yield host("aten::mm", 10 * i, 8, "cpu_op")
    yield {"ph": "b", "id": own, "cat": "x", "name": "a", "pid": 9, "tid": 9, "ts": 10 * i}


def _memory(i: int, own: int) -> Iterator[Event]:
    yield host("aten::empty", 10 * i, 8, "cpu_op")
    args = {"Bytes": 100 if i % 2 else -100, "Addr": own, "Device Id": 0, "Device Type": 1}
    event = {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 9, "tid": 9}
    yield event | {"ts": 10 * i + 1, "args": args | {"Total Allocated": 100, "Total Reserved": 1000}}


def _time(i: int, own: int) -> Iterator[Event]:
    """All of them at one time."""
    yield host("aten::mm", 10 * own, 8, "cpu_op", **{"External id": i + 1})
    yield host("cudaLaunchKernel", 10 * own + 1, 4, "cuda_runtime", correlation=i + 1)
    yield device(10 * own + 6, correlation=i + 1)


def _names(i: int, own: int) -> Iterator[Event]:
    yield host(f"aten::op{own}", 10 * i, 8, "cpu_op", **{"External id": i + 1})


def _threads(i: int, own: int) -> Iterator[Event]:
    yield host("aten::mm", 10 * i, 8, "cpu_op", **{"External id": i + 1}) | {"tid": own}


def _thread_steps(i: int, own: int) -> Iterator[Event]:
    yield host(f"ProfilerStep#{i}", 100 * i, 90, "user_annotation") | {"tid": own}
    yield host("aten::mm", 100 * i + 1, 5, "cpu_op") | {"tid": own}


def _streams(i: int, own: int) -> Iterator[Event]:
    yield host("cudaLaunchKernel", 10 * i, 4, "cuda_runtime", correlation=i + 1)
    yield device(10 * i + 5, correlation=i + 1, stream=own) | {"tid": own, "dur": 1000}


def _devices(i: int, own: int) -> Iterator[Event]:
    yield host("cudaLaunchKernel", 10 * i, 4, "cuda_runtime", correlation=i + 1)
    yield device(10 * i + 5, correlation=i + 1, device=own) | {"pid": own}


def _counters(i: int, own: int) -> Iterator[Event]:
    yield host("aten::mm", 10 * i, 8, "cpu_op")
    yield {"ph": "C", "name": f"c{own}", "pid": 9, "ts": 10 * i, "args": {"v": i}}


def _annotations(i: int, own: int) -> Iterator[Event]:
    yield host(f"part {own}", i, 10_000_000 - 2 * i, "user_annotation")
    yield host("aten::mm", i + 0.1, 0.5, "cpu_op", **{"External id": i + 1})


def _instant(i: int, own: int) -> Iterator[Event]:
    """All at one time, and of no length."""
    yield host(f"op{own}", 5, 0, "cpu_op", **{"External id": i + 1})


KINDS: dict[str, Callable[[int, int], Iterator[Event]]] = {
    "correlation": _correlation,
    "kernels_first": _kernels_first,
    "external": _external,
    "graph": _graph,
    "flow": _flow,
    "launch_flow": _launch_flow,
    "python": _python,
    "step": _step,
    "sync": _sync,
    "async": _async,
    "async_open": _async_open,
    "memory": _memory,
    "time": _time,
    "names": _names,
    "threads": _threads,
    "thread_steps": _thread_steps,
    "streams": _streams,
    "devices": _devices,
    "counters": _counters,
    "annotations": _annotations,
    "instant": _instant,
}


def events_of(kind: str, count: int, shared: bool, side: int = 0) -> list[Event]:
    """At least `count` events, with one id for all or one each; `side`: of a comparison."""
    per = len(list(KINDS[kind](1, 3)))
    rows = range(-(-count // per))
    if kind == "names":  # the hard case is that nothing is shared
        ids = [i if not shared else 2 * i + side for i in rows]
    else:
        ids = [5 if shared else 3 * i + 3 for i in rows]
    return [event for i, own in zip(rows, ids, strict=True) for event in KINDS[kind](i, own)]


def write(path: Path, kind: str, count: int, shared: bool, side: int = 0) -> Path:
    """A trace of `events_of`, written to `path`."""
    path.write_text(json.dumps({"traceEvents": events_of(kind, count, shared, side)}))
    return path


def seconds(command: str, files: list[Path]) -> float:
    """Seconds of CPU that a command takes."""
    arguments = [command, *map(str, files if command == "compare" else files[:1]), "--no-cache"]
    begun = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        run(arguments, prog_name="tracetui")
    return time.process_time() - begun


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=40_000)
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--commands", nargs="+", choices=COMMANDS, default=list(COMMANDS))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for number, count in enumerate((100, options.events)):  # first a small one, for the imports
            for kind in options.kinds if number else options.kinds[:1]:
                cells = []
                files: dict[bool, list[Path]] = {}
                for last in (False, True):
                    paths = [Path(folder, f"{last}_{side}.json") for side in (0, 1)]
                    some, shared = (count if last else count // 4, False) if options.growth else (count, last)
                    files[last] = [write(p, kind, some, shared, side) for side, p in enumerate(paths)]
                for command in options.commands:
                    first, second = (seconds(command, files[last]) for last in (False, True))
                    mark = " !" if second > (GROWN if options.growth else MUCH) * first else ""
                    cells.append(f"{command} {first:.2f} {second:.2f} {second / first:.1f}x{mark}")
                if number:
                    print(f"{kind:14}" + "  ".join(f"{cell:26}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
