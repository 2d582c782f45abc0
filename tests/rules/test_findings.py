"""The rules on real traces: what each of them finds, and where each of them keeps quiet."""

import gzip
import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.conftest import COLLECTION, needed
from tests.recorded import load

from tracetui.analysis.calls.calls import self_time_of
from tracetui.analysis.device_work import device_work_of
from tracetui.analysis.part import Part
from tracetui.analysis.rates.efficiency import efficiency
from tracetui.analysis.steps.scope import range_scope, step_scope
from tracetui.analysis.steps.steps import steps_of
from tracetui.analysis.verdicts import verdict_of
from tracetui.rules import BEFORE_THE_VERDICT, RULES, SEVERITIES, Finding, find_findings
from tracetui.rules.claims import Claim, claims_json, say
from tracetui.trace import Kind, Trace
from tracetui.views.explain import explain

DATA = Path(__file__).parent.parent / "data"
SAMPLE_TRACES = DATA.parent.parent / "sample_traces"
RECORDED = {
    "llama_train": "overhead_bound short_calls metadata_only",
    "matmul_add_4096_warm_compile": "idle_time copy_before_product hotspot compiled_overhead",
    "matmul_add_4096_warm_eager": "hotspot waiting_at_the_end",
    "matmul_add_64_cold_eager": "overhead_bound wide_first_step",
    "matmul_add_64_nosched_20": "overhead_bound cold_start profiler_overhead",
    "matmul_add_64_warm_eager": "overhead_bound wide_first_step",
    "mlp_compile": "idle_time before_the_first_op compiled_overhead fused_kernels hotspot",
    "mlp_eager": "idle_time",
}
"""Every rule that fires, per trace of an H200: those that are not named must not."""

SAMPLES = {
    "attention_math": "waiting_at_the_end unfused_attention fp32_products",
    "attention_naive": "waiting_at_the_end unfused_attention",
    "attention_sdpa": "idle_time hotspot wide_first_step",
    "linear": "overhead_bound wide_first_step metadata_only",
    "llm_decode": "overhead_bound short_calls metadata_only",
    "matmul_add_4096_compile": "copy_before_product hotspot waiting_at_the_end",
    "matmul_add_4096_eager": "hotspot waiting_at_the_end",
    "matmul_add_64_20_steps": "overhead_bound cold_start profiler_overhead",
    "matmul_add_64_cold": "initialisation overhead_bound cold_start",
    "matmul_add_64_warm": "overhead_bound wide_first_step",
    "mlp_compile": "hotspot fused_kernels waiting_at_the_end",
    "mlp_cuda_graph": "cuda_graphs fused_kernels waiting_at_the_end", "mlp_eager": "waiting_at_the_end",
    "mlp_liger": "idle_time hotspot", "train": "overhead_bound short_calls metadata_only",
    "train_ddp": "waiting_at_the_end", "train_memory": "overhead_bound short_calls metadata_only"
}  # fmt: skip
"""The same of the samples that come with the program."""

OTHERS = {
    "a100_nccl_rank0of2_2024.json.gz": "overhead_bound short_calls metadata_only layout_conversions "
    "ddp_copies",
    "gloo_cpu_only_rank34.pt.trace.json.gz": "communication",
    "h100_owlv2_stack_mem.json.gz": "overhead_bound data_loading blocking_calls pageable_memory "
    "unfused_attention recording_cost",
    "mi210_gpu_only.json.gz": "idle_time memory_bound waiting_at_the_end layout_conversions",
    "mtia_inference.json.gz": "before_the_first_op",
    "resnet50_2020_bare_array.pt.trace.json.gz": "little_use fp32_products short_calls "
    "pageable_memory data_loading tensor_loops",
    "v100_overlapping_kernels_2022.json.gz": "blocking_calls cuda_graphs fp32_products",
    "vllm_mi300_graph.json.gz": "cuda_graphs hotspot",
    "dlrm_8ranks/worker0_step_12.1694128201545.pt.trace.json": "overhead_bound communication data_loading "
    "blocking_calls short_calls metadata_only",
    "chrome65_timeline.json": "",
    "torchtitan_chromium_events.json": "",
    "truncated_partial.json": "",
}


@cache
def recorded(name: str, folder: Path = DATA) -> tuple[Trace, tuple[Finding, ...]]:
    trace = load(folder / f"{name}.json.gz")
    return trace, find_findings(Part(trace))


@cache
def wild_findings(name: str) -> tuple[Trace, tuple[Finding, ...]]:
    trace = load(needed(COLLECTION / "wild" / name))
    return trace, find_findings(Part(trace))


def one(found: tuple[Finding, ...], rule: str) -> Finding:
    (finding,) = [finding for finding in found if finding.rule == rule]
    return finding


REMEDIES = ("remove", "speed_up", "overlap", "move")
IN_PAIRS = ("copy_before_product", "before_the_first_op", "planned_launches")
"""Rules whose pairs of slices may have one in several of them."""


def check_all(trace: Trace, found: tuple[Finding, ...]) -> None:
    """What holds for every finding of every trace."""
    for finding in found:
        assert finding.severity in SEVERITIES
        assert finding.evidence, finding.rule
        assert all(0 <= i < len(trace) for i in finding.evidence)
        assert not finding.title.endswith(".")
        assert finding.text.endswith(".")
        assert finding.advice.endswith(".")
        assert "  " not in finding.text + finding.title + finding.advice
        assert "\n" not in finding.text
        assert (
            tuple(finding.affected)[: len(finding.evidence)] == finding.evidence or finding.rule in IN_PAIRS
        )
        assert set(finding.evidence) <= set(finding.affected)
        assert finding.remedy is None or (finding.remedy.what in REMEDIES and len(finding.remedy.slices))
        # What JSON has of a finding is enough to say it.
        claims = msgspec.json.decode(msgspec.json.encode(claims_json(finding.claims)), type=dict[str, Claim])
        assert say(finding.rule, claims) == (finding.title, finding.text, finding.advice)
    ranks = [SEVERITIES.index(finding.severity) for finding in found]
    assert ranks == sorted(ranks)


@pytest.mark.parametrize("name", RECORDED)
def test_what_fires_on_recorded_traces(name):
    trace, found = recorded(name)
    assert sorted({finding.rule for finding in found}) == sorted(RECORDED[name].split())
    check_all(trace, found)


@pytest.mark.parametrize("name", SAMPLES)
def test_what_fires_on_the_samples(name):
    trace, found = recorded(name, SAMPLE_TRACES)
    assert sorted({finding.rule for finding in found}) == sorted(SAMPLES[name].split())
    check_all(trace, found)


def test_every_sample_is_named():
    assert sorted(SAMPLES) == sorted(
        path.name.removesuffix(".json.gz") for path in SAMPLE_TRACES.glob("*.json.gz")
    )


@pytest.mark.parametrize("name", OTHERS)
def test_what_fires_on_other_traces(name):
    trace, found = wild_findings(name)
    assert sorted({finding.rule for finding in found}) == sorted(OTHERS[name].split())
    check_all(trace, found)


def test_every_rule_keeps_quiet_somewhere():
    tables = [set(rules.split()) for rules in (*RECORDED.values(), *SAMPLES.values(), *OTHERS.values())]
    for rule in RULES:
        assert any(rule not in table for table in tables), rule


def test_rules_that_are_looked_at_before_the_verdict_do_not_ask_for_it():
    trace, found = recorded("llama_train")
    results = Part(trace)
    early = [finding for name in BEFORE_THE_VERDICT for finding in RULES[name](results)]
    assert early == [finding for finding in found if finding.rule in BEFORE_THE_VERDICT] != []
    assert not results.knows(verdict_of)
    assert not results.knows(steps_of)


def test_the_cold_start():
    trace, found = recorded("matmul_add_64_cold", SAMPLE_TRACES)
    finding = one(found, "cold_start")
    assert trace.name_of(finding.evidence[0]) == "ProfilerStep#0"
    assert "aten::mm" in f"{finding.claims['dearer']}"
    # Three steps of 215, 93 and 72 us, in which nothing is set up, do not tell that it was cold.
    trace, found = recorded("matmul_add_64_cold_eager")
    finding = one(found, "wide_first_step")
    assert trace.name_of(finding.evidence[0]) == "ProfilerStep#2"
    assert finding.numbers["first_ns"] == 214_788
    assert finding.numbers["profiler_ns"] == 0
    assert finding.claims["reason"] == "too few"
    # A warm program is slow in its first recorded step as well, but not in the second.
    _, found = recorded("matmul_add_64_warm_eager")
    assert one(found, "wide_first_step").severity == "info"


def test_the_buffer_request():
    trace, found = recorded("matmul_add_64_nosched_20")
    finding = one(found, "profiler_overhead")
    assert finding.claims["name"] == "Activity Buffer Request"
    assert finding.claims["inside"] == "aten::mm"
    assert trace.kind[finding.evidence[0]] == Kind.OVERHEAD
    assert trace.kind[finding.evidence[-1]] == Kind.KERNEL
    assert finding.numbers["profiler_ns"] == trace.duration[finding.evidence[0]]
    # The cold start of the same step does not count what the profiler took.
    cold = one(found, "cold_start")
    assert cold.numbers["profiler_ns"] == finding.numbers["profiler_ns"]
    assert cold.numbers["first_ns"] - cold.numbers["profiler_ns"] < 5 * cold.numbers["usual_ns"]


def test_the_copy_before_the_product():
    trace, found = recorded("matmul_add_4096_warm_compile")
    finding = one(found, "copy_before_product")
    assert finding.claims["name"] == "aten::addmm"
    assert finding.numbers["calls"] == 3
    assert [trace.name_of(i)[:12] for i in finding.evidence] == ["Memcpy DtoD ", "nvjet_sm90_t"] * 3
    assert finding.numbers["copy_ns"] == sum(int(trace.duration[i]) for i in finding.evidence[::2])
    assert f"{finding.claims['longest']}" == "33.6 MB"


def test_the_fused_kernel():
    trace, found = recorded("mlp_compile")
    finding = one(found, "fused_kernels")
    assert f"{finding.claims['computed']}" == "gelu, mul"
    assert "_unsafe_view" in f"{finding.claims['fused']}"
    assert trace.name_of(finding.evidence[0]) == "triton_poi_fused__unsafe_view_gelu_mul_0"
    assert finding.numbers["calls"] == 3
    assert f"{one(found, 'compiled_overhead').claims['each_ns']}" == "29.0 µs"


def test_overhead_bound():
    for name in ("matmul_add_64_cold_eager", "matmul_add_64_warm_eager", "matmul_add_64_nosched_20"):
        trace, found = recorded(name)
        assert found[0].rule == "overhead_bound"
        assert found[0].numbers["busy_share"] < 0.05
        assert found[0].numbers["launch_delay_ns"] < 20_000
        assert all(trace.kind[i] == Kind.KERNEL for i in found[0].evidence)


def test_the_closing_wait():
    trace, found = recorded("matmul_add_4096_warm_eager")
    finding = one(found, "waiting_at_the_end")
    assert trace.name_of(finding.evidence[0]) == "cudaDeviceSynchronize"
    assert finding.numbers["wait_ns"] == 297_955
    assert finding.numbers["busy_ns"] > 0.9 * finding.numbers["wait_ns"]


def test_views_launch_nothing():
    trace, found = recorded("linear", SAMPLE_TRACES)
    finding = one(found, "metadata_only")
    assert finding.numbers["calls"] == 3 * 3  # t, transpose, as_strided
    assert "aten::t (3)" in f"{finding.claims['names']}"
    assert not set(finding.evidence) & set(trace.op.tolist())


def test_a_hotspot_is_rated_where_shapes_were_recorded():
    _, found = recorded("matmul_add_4096_eager", SAMPLE_TRACES)
    finding = one(found, "hotspot")
    assert 0.75 < finding.numbers["compute_share"] < 0.9
    assert finding.claims["compute_share"].of == "of the peak for its type"
    _, found = recorded("matmul_add_4096_warm_eager")
    assert "compute_share" not in one(found, "hotspot").numbers


def test_naive_attention_is_not_fused():
    trace, found = recorded("attention_naive", SAMPLE_TRACES)
    finding = one(found, "unfused_attention")
    assert found[0] is finding
    work = device_work_of(Part(trace))
    names = work.names
    # The last three softmaxes; the first one's product ran before the recording.
    ends = [n for n, name in enumerate(names) if "softmax" in name][1:]
    parts = [i for n in ends for i in work[n - 4 : n + 2]]
    assert all("nvjet" in names[n - 4] and "nvjet" in names[n + 1] for n in ends)
    assert finding.numbers["device_ns"] == trace.duration[parts].sum()
    assert [trace.name_of(i) for i in finding.evidence] == ["aten::bmm", "aten::_softmax", "aten::bmm"] * 3
    assert finding.claims["shape"] == "1024 x 64 by 64 x 1024"
    assert finding.claims["batch"].n == 128


def test_graphs_and_their_kernels():
    trace, found = recorded("mlp_cuda_graph", SAMPLE_TRACES)
    finding = one(found, "cuda_graphs")
    assert trace.name_of(finding.evidence[0]) == "cudaGraphLaunch"
    assert trace.launch[finding.evidence[1]] == finding.evidence[0]


def test_findings_of_a_step():
    trace, _ = recorded("matmul_add_4096_warm_compile")
    step = step_scope(trace, 3)
    findings = find_findings(Part(trace).in_scope(step))
    check_all(trace, findings)
    copy = one(findings, "copy_before_product")
    assert copy.numbers["calls"] == 1
    assert step.start <= trace.start[trace.launch[copy.evidence[0]]] < step.end
    assert "cold_start" not in {finding.rule for finding in findings}


def test_findings_of_a_stretch_without_events():
    trace, _ = recorded("matmul_add_64_cold_eager")
    assert find_findings(Part(trace).in_scope(range_scope(0, 1_000))) == ()


VALUES: tuple[Any, ...] = (None, -1, 0, 1e18, 1.5, "x", "", [], {}, True, 2**40, [[1, 2], [2, 3]], [-5])
ARGS = (
    "Input Dims", "Input type", "Concrete Inputs", "grid", "bytes", "correlation", "External id", "device"
)  # fmt: skip


def mutate(rng: random.Random, events: list[dict[str, Any]]) -> None:
    """Change one event: its times, its name or category, its args; or lose it."""
    event, other = rng.choice(events), rng.choice(events)
    what = rng.random()
    if what < 0.3 and isinstance(event.get("dur"), int | float):
        event["ts"] += rng.uniform(-300, 300)
        event["dur"] *= rng.choice((0, 0.1, 3, 50))
    elif what < 0.6 and isinstance(event.get("args"), dict):
        event["args"][rng.choice(ARGS)] = rng.choice(VALUES)
    elif what < 0.7 and len(events) > 3:
        events.remove(event)
    elif what < 0.85:
        event["name"] = other.get("name", "")
    else:
        event["cat"] = other.get("cat", "")


@pytest.mark.parametrize("count", [8, pytest.param(200, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "name", ["mlp_cuda_graph", "matmul_add_4096_compile", "matmul_add_64_cold", "linear"]
)
def test_damaged_traces_have_findings_without_an_error(name, count, tmp_path):
    rng = random.Random(name)
    text = gzip.decompress((SAMPLE_TRACES / f"{name}.json.gz").read_bytes())
    for _ in range(count):
        damaged = json.loads(text)
        for _ in range(rng.choice((1, 10, 100))):
            mutate(rng, damaged["traceEvents"])
        path = tmp_path / "trace.json"
        path.write_text(json.dumps(damaged))
        trace = load(path)
        results = Part(trace)
        check_all(trace, find_findings(results))
        low, high = trace.span
        check_all(trace, find_findings(results.in_scope(range_scope(low, low + (high - low) // 2 + 1))))
        efficiency(trace)
        for i in rng.sample(range(len(trace)), min(10, len(trace))):
            assert explain(trace, i, self_time_of(results)).what
