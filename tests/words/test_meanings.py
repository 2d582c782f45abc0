"""Every name in the bundled traces has a meaning of its own, and what it says agrees with the traces."""

import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import ROOT, SAMPLES
from tests.kineto import cpu, kernel, launch, run, step, trace_of
from tests.recorded import load

from tracetui.analysis.calls.chain import launched_by
from tracetui.analysis.names.kernel_names import decode
from tracetui.analysis.rates.layouts import input_facts, layout
from tracetui.analysis.select import METADATA_OPS
from tracetui.trace import DEVICE_WORK, Kind, Trace
from tracetui.views.explain import explain
from tracetui.words import kernels, operators, others
from tracetui.words.texts import sections

TRACES = sorted([*SAMPLES.glob("*.json.gz"), *(ROOT / "tests" / "data").rglob("*.json.gz")])
TRACES = [path for path in TRACES if path.parent.name not in ("unrecorded", "writers")]
"""Those are made up."""
SENTENCE = re.compile(r"[.!?:](?= |$)")


@cache
def recorded(path: Path) -> Trace:
    return load(path)


def names(*kinds: Kind) -> set[str]:
    found: set[str] = set()
    for path in TRACES:
        trace = recorded(path)
        found |= {trace.names[n] for n in np.unique(trace.name[trace.is_kind(*kinds)])}
    return found


def find(trace: Trace, pattern: str) -> int:
    return next(i for i in range(len(trace)) if re.search(pattern, trace.name_of(i)))


def what(trace: Trace, pattern: str) -> str:
    return " ".join(explain(trace, find(trace, pattern)).what)


def test_every_name_of_the_bundled_traces_has_a_text_of_its_own():
    assert len(TRACES) > 25
    missing = {
        "operators": [name for name in names(Kind.CPU_OP) if operators.operator(name) is None],
        "calls": [name for name in names(Kind.RUNTIME) if others.runtime_call(name) is None],
        "device": [name for name in names(*DEVICE_WORK) if not kernels.kernel(decode(name))],
        "overhead": sorted(names(Kind.OVERHEAD) - set(sections("others")["overhead"].texts)),
    }
    assert missing == {"operators": [], "calls": [], "device": [], "overhead": []}


def test_each_is_two_sentences():
    texts = [operators.operator(name) or "" for name in names(Kind.CPU_OP)]
    texts += [others.runtime_call(name) or "" for name in names(Kind.RUNTIME)]
    texts += [" ".join(kernels.kernel(decode(name))) for name in names(*DEVICE_WORK)]
    texts += [text for section in sections("others").values() for text in section.texts.values()]
    texts += [others.ANNOTATION, others.PYTHON, others.SHADOW, others.SPAN]
    texts += [operators.unknown(name) for name in ("aten::new", "library::op", "Range")]
    for text in texts:
        assert text.endswith("."), text
        assert len(SENTENCE.findall(text)) >= 2, text
        assert "{" not in text


def test_what_is_said_to_launch_nothing_launches_nothing():
    """Held against every launch in the bundled traces."""
    direct: dict[str, int] = defaultdict(int)
    below: dict[str, int] = defaultdict(int)
    for path in TRACES:
        trace = recorded(path)
        for at in np.unique(trace.launch[trace.is_kind(*DEVICE_WORK) & (trace.launch >= 0)]).tolist():
            seen: set[str] = set()
            while (at := int(trace.parent[at])) >= 0:
                if trace.kind[at] == Kind.CPU_OP:
                    name = trace.name_of(at)
                    direct[name] += not seen
                    below[name] += 1
                    seen.add(name)
    for name in names(Kind.CPU_OP):
        text = operators.operator(name) or ""
        if operators.about("memory") in text or operators.is_view(name):
            assert not below[name], name
        if operators.about("calls") in text:
            assert not direct[name], name
        if any(
            said in text
            for said in (
                operators.about("elementwise"),
                operators.about("products"),
                operators.about("convolutions"),
            )
        ):
            assert direct[name] or not below[name], name


# From recorded traces: {op: kernels and copies on the device by one call, with the ops in it}.
MEASURED = {
    "aten::cudnn_convolution": {1, 2, 4}, "aten::cudnn_convolution_backward": {2, 4, 5, 7, 8},
    "aten::index": {1, 2, 3}, "aten::max_pool2d_with_indices_backward": {2}, "aten::pow": {1, 2},
    "aten::where": {1, 2}, "aten::native_layer_norm_backward": {2}, "aten::sigmoid_backward": {1},
    "aten::threshold_backward": {1}
}  # fmt: skip


@pytest.mark.parametrize("name", MEASURED)
def test_one_kernel_is_said_where_there_is_never_more(name):
    text = operators.operator(name) or ""
    assert (operators.about("elementwise") in text) == (MEASURED[name] == {1})


def test_the_views_of_the_findings_are_views():
    maybe = {"aten::reshape", "aten::flatten"}
    assert {name for name in METADATA_OPS if not operators.is_view(name)} == maybe
    assert all("metadata only, if" in (operators.operator(name) or "") for name in maybe)


def test_names_that_are_put_together():
    assert operators.operator("aten::relu_") == (
        f"The ReLU activation: negative elements become zero. {operators.IN_PLACE}"
    )
    assert (operators.operator("aten::unsqueeze_") or "").endswith(operators.VIEW_IN_PLACE)
    assert (operators.operator("aten::elu_backward") or "").startswith("The gradient of elu")
    assert (operators.operator("NllLossBackward0") or "").startswith("The backward of one call of nll_loss.")
    assert (operators.operator("OwnFunctionBackward") or "").startswith("The backward of OwnFunction")
    assert "sqrt on a whole list" in (operators.operator("aten::_foreach_sqrt") or "")
    assert "version number 2" in (operators.operator("Torch-Compiled Region: 1/2") or "")
    assert "guards are checked" in (operators.operator("Torch-Compiled Region: !0/1/2") or "")
    assert operators.operator("aten::no_such_op_") is None
    assert operators.operator("my_step") is None
    assert others.runtime_call("noSuchCall") is None


def test_no_name_is_repeated_unless_it_is_plain():
    for name in (
        "\x1b[2J::x",
        "c10d::\x1b[2J",
        "autograd::engine::evaluate_function: \x1b[31m",
        "a\nFunction",
    ):
        text = f"{operators.operator(name)} {operators.unknown(name)}"
        assert "\x1b" not in text
        assert "\n" not in text


def test_where_steps_begin(tmp_path):
    later = trace_of(tmp_path, step(2, 0, 10), step(3, 10, 10), cpu("a", 1, 2))
    assert "The recording begins at #2" in what(later, "#3")
    assert "begins at" not in what(trace_of(tmp_path, step(0, 0, 10), cpu("a", 1, 2)), "#0")


def test_who_calls_the_last_synchronize(tmp_path):
    def closing(*more: dict[str, object]) -> bool:
        sync = cpu("cudaDeviceSynchronize", 100, 10, "cuda_runtime")
        return "torch.profiler waits" in what(trace_of(tmp_path, *run(10, 20, 1), sync, *more), "Synchronize")

    assert closing()
    assert not closing(cpu("aten::add", 95, 40))  # within an op: the program's
    assert not closing(cpu("aten::add", 120, 4))  # something comes after it


def test_which_backend_attention_chose(tmp_path):
    outer = cpu("aten::scaled_dot_product_attention", 0, 100)
    for name, said in (("_flash_attention", "flash"), ("_attention_math", "math"), ("_other", "")):
        trace = trace_of(tmp_path, outer, cpu(f"aten::_scaled_dot_product{name}", 10, 50))
        assert (f"the backend {said}." in what(trace, "^aten::scaled")) == bool(said)


def test_what_a_memset_is_for(tmp_path):
    def why(name: str, size: int = 4, op: str = "aten::sum") -> str:
        cleared = kernel(30, 1, 1, name="Memset (Device)", cat="gpu_memset")
        cleared["args"]["bytes"] = size
        calls = (cpu(op, 0, 20), launch(2, 1), launch(8, 2), cpu("aten::mm", 40, 20), launch(45, 3))
        trace = trace_of(
            tmp_path, *calls, cleared, kernel(32, 1, 2, name=name), kernel(60, 1, 3, name="other")
        )
        return " ".join(explain(trace, find(trace, "Memset")).why)

    reduces = (
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float>>>()"
    )
    assert "its blocks find out which is last" in why(reduces)
    assert "next kernel of the same op is gemm. Libraries set counters" in why("nvjet_k")
    assert "next kernel" not in why(reduces, size=1 << 20)


def test_why_a_kernel_took_longer_is_not_known(tmp_path):
    events = [event for n in range(4) for event in run(100 * n + 10, 50 if n == 2 else 10, n + 1, name="k")]
    trace = trace_of(tmp_path, *events)
    slow = [i for i in range(len(trace)) if trace.duration[i] == 50_000]
    assert "The trace does not say why" in " ".join(explain(trace, slow[0]).why)


@pytest.mark.parametrize(("shape", "strides", "said"), [
    ((64,), [1], ", stride 1: in order"),
    ((64, 128), [128, 1], ", strides 128, 1: in order"),
    ((32, 64), [1, 32], ", strides 1, 32: a transposed view"),
    ((8, 64, 32), [2048, 1, 64], ", strides 2048, 1, 64: a transposed view"),
    ((4, 8, 16), [16, 64, 1], ", strides 16, 64, 1: a view with its dimensions in a different order"),
    ((2, 3, 4, 5), [60, 20, 1, 4], ", strides 60, 20, 1, 4: a transposed view"),
    (  # the first two are exchanged as well
        (2, 3, 4, 5),
        [20, 40, 1, 4],
        ", strides 20, 40, 1, 4: a view with its dimensions in a different order",
    ),
    ((2, 3, 4, 5), [60, 1, 15, 3], ", strides 60, 1, 15, 3: channels last"),
    ((64, 128), [0, 1], ", strides 0, 1: expanded: the same elements are read again"),
    ((64, 100), [128, 1], ", strides 128, 1: a view of part of a larger tensor"),
    ((1, 128), [7, 1], ", strides 7, 1: in order"),
    ((0, 4), [9, 9], ", strides 9, 9: in order"),
    ((64, 128), [128], ""),
    ((64, 128), [128, "1"], ""),
    ((64, 128), None, ""),
])  # fmt: skip
def test_how_elements_lie(shape, strides, said):
    assert layout(shape, strides) == said


def test_the_inputs_of_a_linear_layer():
    trace = recorded(SAMPLES / "linear.json.gz")
    assert [fact for fact in explain(trace, find(trace, "^aten::addmm")).facts if "input" in fact[0]] == [
        ("input 1", "64 bf16, stride 1: in order"), ("input 2", "1024 x 32 bf16, strides 32, 1: in order"),
        ("input 3", "32 x 64 bf16, strides 1, 32: a transposed view")
    ]  # fmt: skip
    assert input_facts({}) == []
    assert input_facts({"Input Dims": [[2], [[1]], []], "Input type": ["float", "", "Scalar"]}) == [
        ("input 1", "2 fp32")
    ]


def test_an_rms_norm_in_single_ops(tmp_path):
    trace = recorded(SAMPLES / "llm_decode.json.gz")
    told = "an RMSNorm in single ops: to, pow, mean, add, rsqrt, mul, to, mul, which launch 8 kernels."
    assert told in what(trace, "^aten::rsqrt$")
    assert told in what(trace, "^aten::mean$")

    def said(*ops: str) -> bool:
        events = [cpu(f"aten::{op}", 10 * n, 5) for n, op in enumerate(ops)]
        return "RMSNorm in" in what(trace_of(tmp_path, *events), "^aten::mean$")

    assert said("pow", "mean", "add", "rsqrt")
    assert said("square", "mean", "add", "rsqrt", "mul")
    assert not said("pow", "mean", "add", "sqrt")
    assert not said("mean", "add", "rsqrt")
    assert not said("mean")


def test_a_view_that_copied_is_not_called_free(tmp_path):
    trace = trace_of(tmp_path, cpu("aten::reshape", 0, 20), launch(5, 1), kernel(30, 10, 1))
    assert len(launched_by(trace, 0)) == 1
    assert "otherwise it copies" in what(trace, "reshape")
    assert "launches nothing" not in what(trace, "reshape")
