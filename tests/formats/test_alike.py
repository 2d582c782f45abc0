"""An event is read alike beside any others: in whichever chunk, by whichever worker, in C or in Python.

The files are the same in every run. TRACETUI_ODD=2000 tries more of them, TRACETUI_FUZZ_SEED others.
"""

import os
import random

import pytest
from tests.hostile.test_odd_events import FIELDS, NUMBERS, SEED, odd, sound, written

from .alike import WAYS, differences, made

FILES = int(os.environ.get("TRACETUI_ODD", "30"))
IDS = ("External id", "correlation", "external id", "x")


@pytest.mark.parametrize("number", range(FILES))
def test_odd_events_are_read_alike(number, tmp_path):
    rng = random.Random(SEED * 1_000_003 + number)
    events = odd(sound(), rng)
    for event in events:
        if isinstance(event.get("args"), dict) and rng.random() < 0.05:
            event["args"][rng.choice(IDS)] = rng.choice(NUMBERS)
        if rng.random() < 0.01:
            event[rng.choice(FIELDS)] = rng.choice(NUMBERS)
    written(events, tmp_path / "odd.json")
    assert not differences(tmp_path / "odd.json")


@pytest.mark.parametrize("how", WAYS)
def test_a_number_out_of_range_costs_only_itself(how, tmp_path):
    """Not the ids beside it, if something in the same chunk is of the wrong type."""
    path = tmp_path / "trace.json"
    path.write_text(
        """{"traceEvents": [
{"ph": "X", "cat": "cpu_op", "name": "odd", "pid": 1, "tid": 1.5, "ts": 1, "dur": 1},
{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 10, "dur": 5,
 "args": {"External id": 1, "correlation": 7}},
{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 20, "dur": 50,
 "args": {"External id": 1, "correlation": 7, "stream": 7, "memory bandwidth (GB/s)": 1e999}},
{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "main", "x": -1e999}},
{"ph": "C", "name": "memory", "pid": 1, "ts": 3, "args": {"used": 1e999, "free": 5}}
]}"""
    )
    found = made(path, how)
    assert sorted(zip(found["names"], found["correlation"], found["external_id"], strict=True)) == [
        ("cudaLaunchKernel", 7, 1), ("gemm", 7, 1), ("odd", -1, -1)
    ]  # fmt: skip
    assert found["processes"][0].name == "main"
    assert (found["series"], found["counters"][2]) == (("memory free",), [5.0])
    assert [(n.kind, n.count) for n in found["notices"]] == [("wrong_type", 2)]


def test_a_number_out_of_range_in_the_header_or_in_args_is_none(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(
        '{"deviceProperties": [{"id": 0, "name": "H100", "clock": 1e999}], "traceEvents": ['
        '{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1, '
        '"args": {"x": [1e999, 1.5], "y": "\xe9"}}'
        '], "last": -1e999}',
        encoding="utf-8",
    )
    found = made(path, "at once")
    assert found["notices"] == ()
    assert found["info"].devices == ({"id": 0, "name": "H100", "clock": None},)
    assert found["args"][0]["args"] == {"x": [None, 1.5], "y": "\xe9"}


def test_braces_before_a_cut_event_are_noted_however_the_text_is_cut(tmp_path):
    path = tmp_path / "trace.json"
    event = '{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1}'
    events = ",\n".join([event] * 9 + [event.replace('"pid": 1', '"pid": ,1')] + [event] * 40)
    path.write_text(f'{{"traceEvents": [{events},\n}},\n{{"ph": "X')
    assert not differences(path)
    kinds = {notice.kind: notice.count for notice in made(path, "at once")["notices"]}
    assert kinds == {"broken_event": 1, "separator": 1, "truncated": 1}
