"""What the loader makes of a file, slice by slice; what is said of each event; how its name is read."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs
from tests.golden.made import write_made
from tests.recorded import load

from tracetui.analysis.calls.calls import build_calls
from tracetui.analysis.calls.flow import follow, partner, path, unfollow
from tracetui.analysis.names.kernel_names import decode, short_name
from tracetui.analysis.rates.efficiency import efficiency
from tracetui.analysis.rates.flops import work_of
from tracetui.trace import Trace
from tracetui.trace.memory import memory_records
from tracetui.views.event import Fact, event_facts, trace_facts
from tracetui.views.explain import explain

SAMPLES = Path(__file__).parent.parent.parent / "sample_traces"


@pytest.fixture
def trace(request: pytest.FixtureRequest, tmp_path: Path) -> Trace:
    name = request.param
    return load(write_made(tmp_path)) if name == "made" else load(SAMPLES / f"{name}.json.gz")


def columns(trace: Trace) -> str:
    """Every slice, lane by lane, and all that is not a slice."""
    lines = []
    for number, lane in enumerate(trace.lanes):
        process = trace.processes[lane.process]
        lines.append(
            f"{number} {process.name} {process.labels}: {lane.name}, {lane.kind}, device {lane.device}"
        )
        for i in range(lane.first, lane.last):
            time = f"{trace.start[i]:9} +{trace.duration[i]}"
            links = [int(column[i]) for column in (trace.depth, trace.parent, trace.launch, trace.op)]
            ids = [int(n) for n in (trace.correlation[i], trace.external_id[i]) if n >= 0]
            odd = " implausible" if trace.implausible[i] else ""
            told = f"{trace.name_of(i)[:30]} ({trace.categories[trace.category[i]]}, {trace.kind[i]})"
            lines.append(f" {i:3} {time} {told} {links} {ids}{odd}")
    lines += [str([int(a), int(b), trace.flow_kind[c]]) for a, b, c in zip(
        trace.flow_from, trace.flow_to, trace.flow_category, strict=True
    )]  # fmt: skip
    instants = trace.instants
    for start, name in zip(instants.start.tolist(), instants.name.tolist(), strict=True):
        lines.append(f"instant {start} {trace.names[name]}")
    counters = trace.counters
    for start, series, value in zip(counters.start, counters.series, counters.value, strict=True):
        lines.append(f"counter {start} {counters.series_names[series]} {value}")
    lines += [f"{n.kind} {n.level} {n.count}: {n.text}" for n in trace.notices]
    lines += [f"{dict(trace.phases)}", f"{trace.span} {trace.first_view}"]
    return "\n".join(lines)


@pytest.mark.parametrize("trace", ["made", "linear", "mlp_cuda_graph"], indirect=True)
def test_columns(trace, request, golden):
    golden("columns", request.node.callspec.params["trace"], columns(trace))


def first_of_each_name(trace: Trace) -> list[int]:
    _, first = np.unique(trace.name, return_index=True)
    return sorted(first.tolist())


@pytest.mark.parametrize("trace", ["made", "mlp_eager", "attention_sdpa", "mlp_cuda_graph"], indirect=True)
def test_explanations(trace, request, golden):
    lines = []
    for i in first_of_each_name(trace):
        found = explain(trace, i)
        lines += [f"{i}: {found.title}", *found.what, *found.why, *(f"  {k}: {v}" for k, v in found.facts)]
        for link in found.chain.links:
            lines.append(f"    {' ' * link.level}{link.role} {link.slice} {link.name} {link.delay}")
        lines.append(f"    {follow(trace, i)} {unfollow(trace, i)} {partner(trace, i)} {path(trace, i)}")
    golden("explanations", request.node.callspec.params["trace"], "\n".join(lines))


NAMES = (Path(__file__).parent / "kernel_names.txt").read_text(encoding="utf-8").splitlines()
"""Names of kernels as libraries have given them: one at least for each way to read them."""


@pytest.mark.parametrize("part", range(0, len(NAMES), 40))
def test_names_of_kernels(part, golden):
    lines = []
    for name in NAMES[part : part + 40]:
        found = decode(name)
        assert found.name == name
        known = {key: value for key, value in structs.asdict(found).items() if value and key != "name"}
        lines += [name, f"  {short_name(name, 'kernel')} {known}"]
    golden("names", f"names from {part} on", "\n".join(lines))


@pytest.mark.parametrize("trace", ["train_ddp", "attention_sdpa", "made"], indirect=True)
def test_work(trace, request, golden):
    """FLOP and bytes of ops by their shapes."""
    lines = []
    for i in first_of_each_name(trace):
        work = work_of(trace.name_of(i), trace.args(i))
        if work is not None:
            lines.append(f"{trace.name_of(i)} {work}")
    table = efficiency(trace)
    lines += [
        f"{row.name} {row.calls} {row.flops} {row.bytes} {row.tflops} {row.duration}" for row in table.kernels
    ]
    golden("work", request.node.callspec.params["trace"], "\n".join(lines))


@pytest.mark.parametrize("trace", ["made", "mlp_compile"], indirect=True)
def test_calls(trace, request, golden):
    """The tree of calls behind the averages."""
    calls = build_calls(trace, python_functions=True)
    rows = zip(
        calls.cpu.tolist(), calls.cpu_parent.tolist(), calls.merged_into.tolist(), calls.removed.tolist(),
        calls.asynchronous.tolist(), calls.self_cpu.tolist(), calls.device_total.tolist(),
        calls.self_device.tolist(), strict=True,
    )  # fmt: skip
    lines = [f"{trace.name_of(row[0])[:40]} {row[1:]}" for row in rows]
    for event, start, duration, op in zip(
        calls.device.tolist(), calls.device_start.tolist(), calls.device_duration.tolist(),
        calls.device_op.tolist(), strict=True,
    ):  # fmt: skip
        lines.append(f"{trace.name_of(event)[:40]} {start} +{duration} op {op}")
    golden("calls", request.node.callspec.params["trace"], "\n".join(lines))


@pytest.mark.parametrize("trace", ["made", "mlp_eager", "train_memory"], indirect=True)
def test_facts(trace, request, golden):
    """The details of the file and of some events."""
    facts = trace_facts(replace(trace, info=structs.replace(trace.info, path="-")))
    records = memory_records(trace)
    for i in first_of_each_name(trace)[::2][:24]:
        facts += [*event_facts(trace, i, trace.args(i), records), Fact("", "")]
    lines = [f"{fact.label:>20} {fact.value[:200]}" + f" {fact.event}" * (fact.event >= 0) for fact in facts]
    golden("facts", request.node.callspec.params["trace"], "\n".join(lines))
