"""Every command over traces whose events lack something, or have it odd: no traceback, no warning.

The traces are the same in every run. TRACETUI_ODD=2000 tries more of them, TRACETUI_FUZZ_SEED others.
"""

import copy
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
from tests.kineto import Event, cpu, kernel, launch, memcpy, step
from tests.program import READING

from .test_commands import run

pytestmark = [pytest.mark.usefixtures("analysed_once"), pytest.mark.filterwarnings("error::RuntimeWarning")]
ODD = int(os.environ.get("TRACETUI_ODD", "24"))
SEED = int(os.environ.get("TRACETUI_FUZZ_SEED", "20261127"))
FIELDS = ("pid", "tid", "dur", "ts", "name", "cat", "ph", "args", "id")
CATEGORIES = (
    *("kernel", "gpu_memcpy", "gpu_memset", "cuda_sync", "gpu_user_annotation", "cpu_op", "cuda_runtime"),
    *("user_annotation", "python_function", "overhead", "Trace", "nonsense", "", "ac2g", "fwdbwd"),
)
PHASES = ["X", "B", "E", "b", "e", "n", "S", "F", "T", "i", "I", "s", "t", "f", "C", "M", "R", "N"]
NUMBERS: tuple[Any, ...] = (
    *(0, -1, 1, -5, 0.001, 1e6, 1e12, 1e15, 1e18, -1e15, 1e30, 1e308, 1.5, 10**30),
    *(2**31, 2**53, 2**62, 2**63 - 1, 2**63, 2**64, -(2**63), None, "", "7", "x", [], {}, True, "INF", "BIG"),
)
NAMES = ("", "ProfilerStep#1", f"ProfilerStep#{10**20}", "cudaGraphLaunch", "nccl:all_reduce", None, 7)


def sound() -> list[Event]:
    """Four steps with an event of every kind."""
    events: list[Event] = []
    for n in range(4):
        at, ids = 1000 * n, {"External id": 10 * n + 1}
        shapes = {"Input Dims": [[64, 64], [64, 64]], "Input type": ["float", "float"]}
        events += [step(n, at, 900), cpu("aten::mm", at + 10, 100, **ids, **shapes)]
        events += [cpu("nn.Module: Linear_0", at + 5, 300, "python_function", **{"Python id": n})]
        for k in range(3):
            number = 10 * n + k + 1
            events += [launch(at + 20 + 30 * k, number), kernel(at + 60 + 100 * k, 50, number, 7 + k // 2)]
            for event in events[-2:]:
                event["args"] |= ids
        number = 10 * n + 5
        events += [cpu("cudaMemcpyAsync", at + 400, 10, "cuda_runtime", correlation=number)]
        events += [memcpy(at + 420, 30, number), cpu("cudaDeviceSynchronize", at + 500, 300, "cuda_runtime")]
        sync = {"cat": "cuda_sync", "tid": -1, "args": {"correlation": number + 1, "device": 0, "stream": -1}}
        events += [kernel(at + 500, 290, number + 1, name="Context Sync", **sync)]
        events += [kernel(at + 60, 400, 0, name=f"ProfilerStep#{n}", cat="gpu_user_annotation", args={})]
        events += [kernel(at + 300, 60, number + 500, 9, "ncclDevKernel_AllReduce", pid=1)]
        events += [cpu("Activity Buffer Request", at + 850, 20, "overhead")]
        flow = {"id": n, "cat": "fwdbwd", "name": "fwdbwd", "pid": 9, "tid": 9}
        events += [flow | {"ph": "s", "ts": at + 11}, flow | {"ph": "f", "ts": at + 131, "bp": "e"}]
        events += [{"ph": "C", "name": "memory", "pid": 9, "ts": at, "args": {"bytes": n}}]
        used = {"Bytes": 100, "Total Allocated": 100, "Total Reserved": 900, "Device Id": 0, "Device Type": 1}
        mark = {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 9, "tid": 9}
        events += [mark | {"ts": at + 12, "args": used}]
    return events


def odd(events: list[Event], rng: random.Random) -> list[Event]:
    """Events of which some lack a field, or have another value there: single ones, or all of a category."""
    events = copy.deepcopy(events)
    for _ in range(rng.choice((1, 1, 2, 3, 6, 20))):
        one = rng.choice(events)
        alike = [e for e in events if e.get("cat") == one.get("cat")] if rng.random() < 0.25 else [one]
        change, field, number = rng.randrange(8), rng.choice(FIELDS), rng.choice(NUMBERS)
        category, phase = rng.choice(CATEGORIES), rng.choice(PHASES)
        args = one.get("args")
        arg = rng.choice([*args, "x"]) if isinstance(args, dict) else "x"
        for event in alike:
            inner = event["args"] if isinstance(event.get("args"), dict) else {}
            if change == 0:
                event.pop(field, None)
            elif change == 1:
                inner.pop(arg, None)
            elif change == 2:
                event["cat"] = category
            elif change == 3:
                event["ph"] = phase
            elif change == 4:
                event |= {"ph": phase, "cat": category}
            elif change == 5:
                event[rng.choice(("dur", "ts", "pid", "tid"))] = number
            elif change == 6:
                inner[arg] = number
            else:
                event["name"] = rng.choice(NAMES)
    return events


def written(events: list[Event], path: Path) -> str:
    text = json.dumps({"traceEvents": events})
    path.write_text(text.replace('"INF"', "1e999").replace('"BIG"', "1" * 5000))
    return str(path)


def ask_everything(path: str, other: str) -> None:
    """Run every command; the exit code is one of those that are told, and no output is not JSON."""
    commands = [[name, path] for name in READING if name != "compare"]
    commands += [["check", path], ["compare", other, path], ["compare", path, other], ["compare", path, path]]
    for command in commands:
        for form in [[], ["--json"]] if command[0] != "check" else [[]]:
            code, out, err = run(*command, *form)
            assert code in (0, 1), (command, err)
            assert out or err
            if form and out:
                json.loads(out, parse_constant=pytest.fail)


@pytest.mark.parametrize("number", range(ODD))
def test_what_events_lack(number, tmp_path):
    rng = random.Random(SEED * 1_000_003 + number)
    events = sound()[: rng.choice((None, None, 23))]
    other = written(events, tmp_path / "sound.json")
    ask_everything(written(odd(events, rng), tmp_path / "odd.json"), other)


@pytest.mark.parametrize("category", ["kernel", "gpu_memset", "cuda_sync", "gpu_user_annotation", "cpu_op"])
@pytest.mark.parametrize("phase", ["b", "S", "B", "X", "i", "s"])
def test_a_single_event_with_nothing_but_a_time(phase, category, tmp_path):
    other = written(sound(), tmp_path / "sound.json")
    ask_everything(written([{"ph": phase, "cat": category, "ts": 1}], tmp_path / "odd.json"), other)
