"""Several threads read one file as one would, and leave nothing behind."""

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tracetui.core import threads as machine
from tracetui.formats.chrome_json import segments
from tracetui.formats.chrome_json.scan import learn_separator
from tracetui.trace import Cancelled, Trace, load

Event = dict[str, Any]

pytestmark = pytest.mark.skipif(os.name != "posix", reason="one thread only elsewhere")


@pytest.fixture(scope="module")
def big_text(event: Callable[..., Event]) -> str:
    events = [event(ts=i, name=f"op{i % 11}", tid=i % 3, args={"External id": i}) for i in range(30_000)]
    return json.dumps({"traceEvents": events, "traceName": "x"})


@pytest.fixture
def big(tmp_path: Path, big_text: str) -> Path:
    path = tmp_path / "big.json"
    path.write_text(big_text)
    return path


def same(a: Trace, b: Trace) -> bool:
    columns = ("start", "duration", "name", "lane", "depth", "parent", "external_id", "op")
    return all((getattr(a, c) == getattr(b, c)).all() for c in columns) and list(a.names) == list(b.names)


def test_two_threads_agree_with_one(big, load_in):
    one, two = load(big, workers=1), load_in(big, 1 << 16, 2, 400_000)
    assert same(one, two)
    assert one.info.text_size == two.info.text_size
    assert two.args(29_999)["External id"] == int(two.external_id[29_999])


def test_borders_that_are_none(tmp_path, event, load_in):
    """Lists inside one event look like events: a stretch that begins in there is noticed."""
    inner = [event(ts=i, name="inner") for i in range(4000)]
    events = [event(ts=i) for i in range(500)]
    events[250] = event(ts=250, name="large", args={"inner": inner, "text": json.dumps(inner)})
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    for count in (1, 3):
        trace = load_in(path, 3000, count, 60_000)
        assert (len(trace), trace.notices) == (500, ())
        assert trace.args(250)["inner"] == inner


def test_damage_across_a_border(big, load_in):
    data = bytearray(big.read_bytes())
    for at in range(200_000, len(data), 400_000):
        data[at : at + 30] = b"?" * 30
    big.write_bytes(bytes(data))
    one, two = load(big, workers=1), load_in(big, 1 << 16, 2, 400_000)
    assert same(one, two)
    assert one.phases == two.phases
    assert [(n.kind, n.count, n.offset) for n in one.notices] == [
        (n.kind, n.count, n.offset) for n in two.notices
    ]


def test_cancelling_ends_the_threads(big):
    threads = threading.active_count()
    with pytest.raises(Cancelled):
        load(big, lambda done, total: False, workers=2)
    calls = 0

    def later(done: int, total: int) -> bool:
        nonlocal calls
        calls += 1
        return calls < 2

    with pytest.raises(Cancelled):
        load(big, later, workers=3)
    assert threading.active_count() == threads


def test_from_a_thread(big):
    traces: list[Trace] = []
    thread = threading.Thread(target=lambda: traces.append(load(big, workers=2)))
    thread.start()
    thread.join(60)
    assert len(traces[0]) == 30_000


def test_cores_follow_affinity_and_quota(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    for text, cores in (("max 100000", 8), ("150000 100000", 2), ("50000 100000", 1), ("rubbish", 8)):
        (tmp_path / "cpu.max").write_text(text)
        quota = machine._quota.__wrapped__(tmp_path)
        monkeypatch.setattr(machine, "_quota", lambda folder, quota=quota: quota)
        assert machine.usable_cores() == cores
        monkeypatch.undo()
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    (tmp_path / "cpu.max").unlink()
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu/cpu.cfs_quota_us").write_text("300000")
    (tmp_path / "cpu/cpu.cfs_period_us").write_text("100000")
    assert machine._quota.__wrapped__(tmp_path) == 3


def test_small_files_are_read_by_one_thread(monkeypatch):
    monkeypatch.setattr(segments, "usable_cores", lambda: 64)
    assert segments.worth(50_000_000) == 1
    assert segments.worth(500_000_000) == 10
    assert segments.worth(50_000_000_000) == 10


def test_stretches_cover_the_text(big):
    text = big.read_bytes()
    begin = text.index(b"[") + 1
    separator = learn_separator(text[begin : begin + 5000])
    assert separator is not None
    with big.open("rb", buffering=0) as file:
        made = list(segments.cut(separator, begin, len(text), 300_000, file.fileno()))
    assert [s.number for s in made] == list(range(len(made)))
    assert [s.begin for s in made[1:]] == [s.end for s in made[:-1]]
    assert (made[0].begin, made[-1].end, [s.final for s in made]) == (
        begin, len(text), [False] * (len(made) - 1) + [True]
    )  # fmt: skip
    assert all(text[s.begin : s.begin + 5] == b'{"ph"' for s in made)
