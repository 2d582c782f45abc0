"""Dumps of the flight recorder: who has not come, and that no pickle runs anything."""

from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.recorded import ROOT

from tracetui.core.errors import TraceError
from tracetui.ranks.dumps import Dump, dumps_in, is_dump, read_dump, stuck

FOLDER = ROOT / "tests" / "data" / "flight_recorder"


def dumps(which: str, form: str) -> list[Dump]:
    return [read_dump(str(FOLDER / f"{which}_rank{rank}.{form}")) for rank in range(2)]


@pytest.mark.parametrize("form", ["pickle", "json"])
def test_rank_1_has_not_come(form):
    first, second = stuck(dumps("stuck", form))
    assert (first.group, first.number, first.operation) == (("1", "grads"), 6, "nccl:all_reduce")
    assert (second.group, second.number) == (("0", "default_pg"), 6)
    for one in (first, second):
        assert (sorted(one.came), sorted(one.absent), one.unknown) == ([0], [1], ())
        last = one.absent[1]
        assert last is not None
        assert (last.group, last.number) == (("1", "grads"), 5)
    assert (first.came[0].state, second.came[0].state) == ("started", "scheduled")
    assert first.since == 1795787330547623886  # its call, not when a watchdog saw it


@pytest.mark.parametrize("form", ["pickle", "json"])
def test_nothing_is_stuck_whatever_the_status_says(form):
    """In these pickles, `pg_status` says that no collective is complete."""
    assert stuck(dumps("done", form)) == []


def test_lines_of_the_program():
    first, _ = stuck(dumps("stuck", "pickle"))
    assert first.came[0].place == "/home/user/capture_neighbours.py:21 (fr_rank)"
    last = first.absent[1]
    assert last is not None
    assert last.place == "/home/user/capture_neighbours.py:16 (fr_rank)"


def test_missing_dump_is_not_a_missing_rank():
    found = stuck(dumps("stuck", "pickle")[:1])
    assert [(one.absent, one.unknown) for one in found] == [({}, (1,)), ({}, (1,))]


def test_names_that_pytorch_gives(tmp_path):
    for rank in range(2):
        shutil.copy(FOLDER / f"stuck_rank{rank}.pickle", tmp_path / f"nccl_trace_rank_{rank}")
        shutil.copy(FOLDER / f"stuck_rank{rank}.json", tmp_path / f"nccl_trace_rank_{rank}.json")
    (tmp_path / "rank0.pt").write_bytes(pickle.dumps({"weights": [1.0]}))
    found = dumps_in(str(tmp_path))
    assert [os.path.basename(path) for path in found] == ["nccl_trace_rank_0", "nccl_trace_rank_1"]
    assert not is_dump(str(tmp_path / "rank0.pt"))


class Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_runs_nothing(protocol, tmp_path):
    path = tmp_path / "nccl_trace_rank_0"
    marks = {"pg_config": {}, "pg_status": {}, "entries": [Evil(tmp_path / "made")]}
    path.write_bytes(pickle.dumps(marks, protocol))
    with pytest.raises(TraceError, match=r"cannot be read as a dump: asks for (posix|nt)\.mkdir"):
        read_dump(str(path))
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02",
        b"\x80\x02N.",
        b"{",
        b"[]",
        b'{"entries": 3}',
        b"\x80\x02]q\x00" * 5,
        pickle.dumps({"entries": [None, 3, {"process_group": "x"}, {"process_group": ["0"]}]})[:-3],
    ],
)
def test_broken_dump_is_one_line(data, tmp_path):
    path = tmp_path / "nccl_trace_rank_0"
    path.write_bytes(data)
    with pytest.raises(TraceError) as error:
        read_dump(str(path))
    assert "\n" not in str(error.value)


def test_strange_entries_are_passed_over(tmp_path):
    path = tmp_path / "rank_3"
    strange = [None, 3, {"process_group": "x"}, {"process_group": ["0", "a"], "collective_seq_id": "1"}]
    good = {"process_group": ["0", "a\x1b[31m"], "collective_seq_id": 1, "state": "started",
            "time_created_ns": -(10**30), "frames": [{"filename": 7}, 5]}  # fmt: skip
    path.write_bytes(pickle.dumps({"entries": [*strange, good], "pg_config": {"0": {"ranks": "[0, 1"}}}))
    (call,) = read_dump(str(path)).calls
    assert "\x1b" not in call.group[1]
    assert (call.created, call.place, call.complete) == (0, "", False)


def test_gloo_is_complete_once_it_is_retired(tmp_path):
    path = tmp_path / "rank_0"
    entry = {"process_group": ["0", "d"], "collective_seq_id": 1, "state": "scheduled", "retired": True}
    path.write_bytes(pickle.dumps({"entries": [entry]}))
    assert stuck([read_dump(str(path))]) == []
