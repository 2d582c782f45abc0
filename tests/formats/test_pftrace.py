"""Reads .pftrace: against Perfetto's own descriptors, and against the JSON of the same program."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.formats import perfetto_oracle as oracle

from tracetui.trace import Trace, load

ROOT = Path(__file__).resolve().parent.parent.parent
OWN = ROOT / "tests" / "data" / "pytorch215"
SHARED = ROOT.parent / "shared" / "traces" / "pytorch215"
RECORDED = sorted(OWN.glob("*.pftrace.gz")) + sorted(SHARED.glob("**/*.pftrace.gz"))
KINDS = {
    "Kernel": "kernel", "Memcpy": "gpu_memcpy", "Memset": "gpu_memset", "Annotation": "gpu_user_annotation",
}  # fmt: skip


def rows(trace: Trace) -> list[tuple[str, int, int]]:
    zero = trace.info.zero_ns
    return sorted(
        (trace.name_of(i), int(trace.start[i]) + zero, int(trace.duration[i])) for i in range(len(trace))
    )


def as_in_json(name: str, args: dict[str, Any]) -> dict[str, Any]:
    """The arguments of GPU work under their names in JSON."""
    named = {"device id": "device", "stream id": "stream", "context id": "context"}
    texts = ("arch", "process_name")
    return {named.get(k, k): v if k in texts else int(v) for k, v in args.items()}


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_slice_is_as_perfetto_says(path: Path) -> None:
    trace, wanted = load(path), oracle.slices(oracle.trace_of(path))
    assert trace.notices == ()
    assert rows(trace) == sorted((one.name, one.start, one.duration) for one in wanted)
    events = trace.reader.read(trace.source.tolist())
    base = trace.info.zero_ns - (trace.info.base_ns or 0)
    mine: dict[tuple[str, int, int], list[Any]] = {}
    for i, event in enumerate(events):
        assert (event["ph"], event["name"]) == ("X", trace.name_of(i))
        assert event["cat"] == trace.categories[trace.category[i]]
        assert round(event["ts"] * 1000) == trace.start[i] + base
        assert round(event["dur"] * 1000) == trace.duration[i]
        key = trace.name_of(i), int(trace.start[i]) + trace.info.zero_ns, int(trace.duration[i])
        mine.setdefault(key, []).append((event["cat"], event["args"]))
    for one in wanted:
        found = mine[one.name, one.start, one.duration]
        if one.category in KINDS:
            args = as_in_json(one.name, one.args)
            assert any(cat == KINDS[one.category] and args.items() <= has.items() for cat, has in found)
        else:
            assert any(
                (cat, has) == (one.category, one.args) or cat in ("cuda_sync", "overhead")
                for cat, has in found
            )


@pytest.mark.parametrize(
    "pair",
    [(OWN / "cuspy_training.pftrace.gz", OWN / "cuspy_training.json.gz")],
    ids=lambda pair: pair[0].name,
)
def test_the_same_program_as_json_has_the_same_ops_and_kernels(pair: tuple[Path, Path]) -> None:
    def counted(trace: Trace) -> Counter[tuple[str, str]]:
        return Counter(
            (trace.categories[c], trace.names[n])
            for c, n in zip(trace.category.tolist(), trace.name.tolist(), strict=True)
            if trace.categories[c] not in ("Trace", "cuda_sync")
        )

    mine, theirs = map(load, pair)
    assert counted(mine) == counted(theirs)
    lanes = [
        [(lane.tid, lane.kind) for lane in trace.lanes if lane.kind not in ("span", "sync")]
        for trace in (mine, theirs)
    ]
    assert lanes[0] == lanes[1]


def test_the_arguments_of_a_kernel_have_the_names_of_json() -> None:
    mine, theirs = load(OWN / "cuspy_training.pftrace.gz"), load(OWN / "cuspy_training.json.gz")
    for category in ("kernel", "gpu_memset", "cpu_op", "cuda_runtime"):
        found = []
        for trace in (mine, theirs):
            i = next(i for i in range(len(trace)) if trace.categories[trace.category[i]] == category)
            found.append(set(trace.args(i)))
        assert found[1] - found[0] <= {"priority", "value", "flags"}, category
