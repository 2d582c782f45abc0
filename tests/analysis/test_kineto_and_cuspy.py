"""One program recorded by PyTorch 2.15's two profilers: Cuspy's file is judged like Kineto's."""

import gzip
import json
from collections import Counter, defaultdict
from decimal import Decimal
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from tests.recorded import ROOT, load

from tracetui.analysis.calls.averages import AverageRow, averages_of
from tracetui.analysis.calls.chain import launch_chain
from tracetui.analysis.calls.flow import work_within
from tracetui.analysis.device_work import device_work_of
from tracetui.analysis.idle.parts import CAUSES
from tracetui.analysis.part import Part
from tracetui.analysis.rates.efficiency import efficiency_of
from tracetui.analysis.verdicts import verdict_of
from tracetui.compare.compare import compare
from tracetui.rules import find_findings
from tracetui.trace import DEVICE_WORK, Kind

DATA = ROOT / "tests" / "data" / "pytorch215"
SHARED = ROOT.parent / "shared" / "traces" / "pytorch215"
PAIRS = {
    "training": ("kineto_training", "cuspy_training"),
    "training_all": ("kineto_training", "cuspy_training_all"),
    "graph": ("kineto_graph", "cuspy_graph_all"),
    "decoder_train": ("decoder_train_kineto", "decoder_train_cuspy"),
} | {
    f"{job}_{rank}": (f"ranks/{job}_kineto/rank{rank}", f"ranks/{job}_cuspy/rank{rank}")
    for job in ("ddp_late_rank1", "ddp_slow_gpu", "tp_decode")
    for rank in (0, 1)
}
ALIKE = ("training", "training_all", "graph", "decoder_train", "ddp_late_rank1_0", "ddp_late_rank1_1")
"""The pairs whose program did the same both times. In the others another rank came last."""
WHOLE = ("training", "training_all", "graph", "decoder_train", "ddp_late_rank1_1")
"""Those in which every launch has its work in both files, and nothing waits for another rank."""
CALLS = ("cuda_runtime", "cuda_driver")
WORK = ("kernel", "gpu_memcpy", "gpu_memset")


def path_of(name: str) -> Path:
    """Of a recording; skips where it is not there."""
    for folder in (DATA, SHARED):
        if (path := folder / f"{name}.json.gz").exists():
            return path
    pytest.skip(f"{name} is not here")


@lru_cache(maxsize=2)
def results_of(name: str) -> Part:
    return Part(load(path_of(name)))


@pytest.fixture(params=PAIRS)
def pair(request: pytest.FixtureRequest) -> tuple[Part, Part]:
    kineto, cuspy = PAIRS[request.param]
    return results_of(kineto), results_of(cuspy)


def alike(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("pair", names, indirect=True)


def ops(results: Part) -> dict[str, AverageRow]:
    """The rows of ops and annotations, by name."""
    kinds = {int(kind) for kind in (Kind.CPU_OP, Kind.ANNOTATION)}
    rows = [row for row in averages_of(results).rows() if not row.device]
    return {row.name: row for row in rows if int(results.trace.kind[row.first]) in kinds}


# -- a plain reading, of nothing but the JSON
def device_times(path: Path) -> Counter[str]:
    """The time of the work that each op itself launched, in ns, by the op's name: by `External id` where the
    file has it, otherwise by the innermost op around the launch, in whatever thread that is."""
    text = gzip.decompress(path.read_bytes())
    events = [e for e in json.loads(text, parse_float=Decimal)["traceEvents"] if e["ph"] == "X"]
    found = [e for e in events if e["cat"] == "cpu_op"]
    by_id = {e["args"]["External id"]: e for e in found}
    calls = {e["args"]["correlation"]: e for e in events if e["cat"] in CALLS}
    threads = {e["tid"] for e in found}
    spans = defaultdict(list)
    for e in sorted(found, key=lambda e: e["dur"]):  # the innermost is the shortest
        spans[e["tid"]].append((e["ts"], e["ts"] + e["dur"], e))
    times: Counter[str] = Counter()
    for e in events:
        if e["cat"] not in WORK:
            continue
        own, call = by_id.get(e["args"].get("External id")), calls.get(e["args"]["correlation"])
        if own is None and call is not None and "External id" not in e["args"]:
            low, high = call["ts"], call["ts"] + call["dur"]
            where = [call["tid"]] if call["tid"] in threads else threads - {call["pid"]}
            own = next(((op for tid in where for a, b, op in spans[tid] if a <= low and high <= b)), None)
        if own is not None:
            times[own["name"]] += int(e["dur"] * 1000)
    return times


@pytest.mark.parametrize("name", sorted({name for both in PAIRS.values() for name in both}))
def test_device_times_of_ops_are_those_of_a_plain_reading(name):
    rows = ops(results_of(name))
    times = device_times(path_of(name))
    assert {name: row.self_device for name, row in rows.items() if row.self_device} == +times


# -- the pairs
def test_each_op_is_called_as_often(pair):
    kineto, cuspy = map(ops, pair)
    assert list(kineto) == list(cuspy)
    polled = {"record_param_comms"}  # once more for each wait that found the work unfinished
    for name in kineto.keys() - polled:
        assert kineto[name].calls == cuspy[name].calls, name


@alike(*WHOLE)
def test_each_op_has_its_device_time(pair):
    kineto, cuspy = map(ops, pair)
    for name, row in kineto.items():
        other = cuspy[name]
        assert (row.self_device > 0) == (other.self_device > 0), name
        assert other.device_total == pytest.approx(row.device_total, rel=0.2, abs=1000), name


@alike(*WHOLE)
def test_the_kernels_are_the_same(pair):
    names = [Counter(results.trace.name_of(i) for i in device_work_of(results)) for results in pair]
    assert names[0] == names[1]
    assert not {"Memcpy", "Memset"} & names[1].keys()


@alike(*ALIKE)
def test_the_verdict_is_the_same(pair):
    kineto, cuspy = (verdict_of(results) for results in pair)
    assert kineto.verdict == cuspy.verdict


@alike(*(name for name in ALIKE if name != "graph"))  # three replays: all of it is noise
def test_idle_time_has_the_same_causes(pair):
    """As shares of what is judged, within the noise of two captures."""
    shares = [np.array(v.causes) / v.judged for v in (verdict_of(results) for results in pair)]
    for cause, one, other in zip(CAUSES, *shares, strict=True):
        assert other == pytest.approx(one, abs=0.07), cause
    assert CAUSES[int(shares[0].argmax())] == CAUSES[int(shares[1].argmax())]


def test_dispatch_is_above_host_in_training():
    """The calls of autograd's thread lie in its ops."""
    causes = dict(zip(CAUSES, verdict_of(results_of("decoder_train_cuspy")).causes, strict=True))
    assert causes["dispatch"] > 2 * causes["host"]


def test_every_launch_leads_to_an_op_and_back(pair):
    """The shares of work with an op are those of Kineto's file; so are chains."""
    kineto, cuspy = (
        results.trace.op[(work := device_work_of(results).at)][results.trace.launch[work] >= 0] >= 0
        for results in pair
    )
    assert kineto.mean() == cuspy.mean()
    trace = pair[1].trace
    for i in device_work_of(pair[1])[:: max(1, len(device_work_of(pair[1])) // 20)]:
        if (op := int(trace.op[i])) < 0:
            continue
        assert i in work_within(trace, op)
        assert op in [link.slice for link in launch_chain(trace, i).links]


def test_no_lane_has_calls_alone(pair):
    for results in pair:
        trace = results.trace
        threads = [lane for lane in trace.lanes if lane.kind == "thread"]
        assert all((trace.kind[x.first : x.last] != Kind.RUNTIME).any() for x in threads)
        assert all("(" in lane.name for lane in threads)
        assert not {notice.kind for notice in trace.notices} & {"whose_calls", "foreign_ids", "other_op"}


@alike(*WHOLE)
def test_operations_are_counted_alike(pair):
    """FLOP come from the inputs of the op that a kernel belongs to."""
    kineto, cuspy = (
        {(row.name, row.shape, row.calls): (row.flops, row.bytes) for row in (*table.ops, *table.kernels)}
        for table in (efficiency_of(results) for results in pair)
    )
    assert kineto == cuspy


@alike("training", "decoder_train", "ddp_late_rank1_0", "ddp_late_rank1_1")
def test_findings_are_the_same(pair):
    kineto, cuspy = ({finding.rule for finding in find_findings(results)} for results in pair)
    assert kineto ^ cuspy <= {"blocking_calls"}  # 37 us of waiting, and 22


def test_waits_are_no_work():
    trace = results_of("cuspy_training_all").trace
    marks = trace.is_kind(Kind.SYNC)
    assert marks.any()
    assert not np.isin(trace.kind[marks], DEVICE_WORK).any()
    assert (trace.op[marks] < 0).all()


@alike("training", "training_all", "graph", "decoder_train", "ddp_late_rank1_1")
def test_a_comparison_finds_one_program(pair):
    """What it explains is how fast the machine was, not who recorded."""
    found = compare(*pair)
    assert found.same_program
    assert {one.kind for one in found.explanations} <= {"machine", "host", "slower", "faster"}
    for metric in ("launches", "kernels"):
        assert found.metrics[metric].change == 0, metric
