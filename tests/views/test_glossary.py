"""The glossary: its terms, which of them a text uses, and examples in the bundled traces."""

import re
from functools import cache

import numpy as np
import pytest
from tests.conftest import SAMPLES
from tests.kineto import cpu, kernel, run, trace_of
from tests.recorded import load

from tracetui.analysis.idle import causes
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.split import causes_of
from tracetui.analysis.idle.verdict import VERDICTS
from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import step_table_of
from tracetui.trace import Kind
from tracetui.views import glossary
from tracetui.views.explain import explain
from tracetui.views.glossary_terms import FIND, TERMS
from tracetui.words import cause_words

NAMES = [term.name for term in TERMS]
SENTENCE = re.compile(r"[.!?](?= [A-Za-z0-9#]|$)")


@cache
def results(name: str) -> Part:
    return Part(load(SAMPLES / f"{name}.json.gz"))


def used(text: str) -> list[str]:
    return [term.name for term in glossary.terms_in(text)]


def test_the_terms_are_whole():
    assert len(set(NAMES)) == len(NAMES) > 80
    assert set(FIND) <= set(NAMES)
    for term in TERMS:
        assert len(SENTENCE.findall(term.text)) == 2, term.text
        assert term.text.endswith(".")
        assert term.group
        assert term.where
        assert term.name not in term.see
        for other in term.see:
            assert glossary.term(other).name == other


def test_every_cause_and_every_verdict_is_a_term():
    named = {name.removesuffix(" (cause)") for name in NAMES}
    assert set(causes.CAUSES) <= named
    assert set(VERDICTS) <= named


def test_the_words_for_a_cause_lead_to_it():
    for cause, text in (*cause_words.CAUSE_SENTENCES.items(), *cause_words.CAUSE_TEXT.items()):
        name = "launch (cause)" if cause == "launch" else cause
        if (cause, text) not in UNSAID:
            assert name in used(text), (cause, text)


UNSAID = {
    (cause, cause_words.CAUSE_TEXT[cause])
    for cause in ("initialisation", "allocation", "dispatch", "queued", "unlinked", "in flight")
}
"""Too short to name the cause; they stand beside its name."""


def test_a_term_is_found_by_its_name():
    for name in NAMES:
        assert used(name) == [name]
    with pytest.raises(KeyError):
        glossary.term("no such term")


@pytest.mark.parametrize(("text", "names"), [
    ("8 blocks for 132 multiprocessors", ["block", "SM"]), ("Kernels and a kernel.", ["kernel"]),
    ("the launch was on its way (launch latency)", ["launch (cause)"]),
    ("Puts a kernel into a stream's queue", ["kernel", "stream"]), ("name says bias epilogue", ["epilogue"]),
    ("TNT: A transposed", ["tnt", "view and stride"]), ("host 69%, dispatch 31%", ["host", "dispatch"]),
    ("memory of the host", ["host and device"]), ("sms, tops, tension, hosting, relaunched", []), ("", [])
])  # fmt: skip
def test_the_terms_in_a_text(text, names):
    assert used(text) == names


def test_the_terms_of_an_explanation():
    trace = results("linear").trace
    at = next(i for i in range(len(trace)) if trace.name_of(i).startswith("nvjet"))
    names = [term.name for term in glossary.terms_of(explain(trace, at))]
    assert {"GEMM", "tile", "stages", "cluster", "tnt", "bz", "epilogue", "tensor core", "cuBLAS"} - set(
        names
    ) <= {
        "epilogue"  # its letters say "a bias is added before the result is written"
    }


@pytest.mark.parametrize(("sample", "term", "pattern"), [
    ("matmul_add_4096_compile", "a copy before a matmul", "^Memcpy DtoD"),
    ("matmul_add_64_cold", "a long first step", "."),
    ("matmul_add_4096_eager", "a long synchronize call", "Synchronize$"),
    ("linear", "an op with no kernel", r"^aten::(t|transpose|view|as_strided)$"),
    ("mlp_eager", "kernel", "^nvjet"), ("mlp_eager", "launch", "^cuLaunchKernelEx$"),
    ("mlp_eager", "view and stride", r"^aten::(t|transpose|view|as_strided|_unsafe_view)$"),
    ("mlp_eager", "ProfilerStep", "^ProfilerStep#2$"), ("mlp_compile", "Triton", "^triton_poi"),
    ("mlp_compile", "fusion", "^triton_poi"), ("mlp_compile", "guard", "^TorchDynamo Cache Lookup$"),
    ("mlp_cuda_graph", "CUDA graph", "^cudaGraphLaunch$"), ("linear", "epilogue", "_bias_"),
    ("train", "reduction", "reduce"), ("train", "HBM", "cunn_SoftMaxForward"),
    ("matmul_add_64_cold", "Lazy Function Loading", "^(Lazy|Runtime Triggered)"),
    ("matmul_add_64_20_steps", "Activity Buffer Request", "^Activity Buffer Request$"),
    ("train", "backward", "Backward"), ("train", "in place", r"^aten::\w+_$"),
    ("train_ddp", "exposed", "^nccl"), ("train_ddp", "collective", "^nccl"),
    ("attention_naive", "copy", "^Memcpy")
])  # fmt: skip
def test_an_example(sample, term, pattern):
    found = glossary.example(results(sample), glossary.term(term))
    assert found.gap is None
    assert re.search(pattern, results(sample).trace.name_of(found.slice))


def test_an_example_is_the_longest():
    trace = results("train").trace
    found = glossary.example(results("train"), glossary.term("kernel"))
    assert trace.duration[found.slice] == trace.duration[trace.kind == Kind.KERNEL].max()


def test_an_example_of_idle_time_is_a_gap():
    of = results("train")
    for cause in ("dispatch", "host"):
        found = glossary.example(of, glossary.term(cause))
        assert found is not None
        assert found.gap is not None
        time = causes_of(of).pieces[:, causes.AT[cause]]
        assert time[found.gap] == time.max() > 0
        assert gaps_of(of).after[found.gap] == found.slice
    assert glossary.example(of, glossary.term("gap")).gap == int(np.argmax(gaps_of(of).duration))


def test_an_example_of_a_verdict_is_a_step():
    of = results("mlp_eager")
    found = glossary.example(of, glossary.term("compute-bound"))
    assert of.trace.name_of(found.slice).startswith("ProfilerStep#")
    assert glossary.example(of, glossary.term("copy-bound")) is None


def test_a_part_of_a_trace_has_the_examples_of_the_whole():
    of = results("train")
    part = of.in_scope(step_table_of(of).scope(1))
    assert glossary.example(part, glossary.term("gap")) == glossary.example(of, glossary.term("gap"))


def test_no_trace_is_too_small(tmp_path):
    traces = [
        trace_of(tmp_path, cpu("aten::add", 0, 10)), trace_of(tmp_path, kernel(10, 5, 1)),
        trace_of(tmp_path, *run(10, 5, 1), *run(10, 0, 2)),
        trace_of(
            tmp_path, {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "p"}}, cpu("a", 0, 0)
        )
    ]  # fmt: skip
    for trace in traces:
        for term in TERMS:
            found = glossary.example(Part(trace), term)
            assert found is None or 0 <= found.slice < len(trace)
    assert glossary.example(Part(traces[0]), glossary.term("kernel")) is None
    assert glossary.example(Part(traces[1]), glossary.term("launch")) is None


def test_the_layout_of_a_tensor_is_not_that_of_a_matmul():
    assert "tnt" not in {
        one.name for one in glossary.terms_in("a copy with a different type, device or layout")
    }
    assert "tnt" in {one.name for one in glossary.terms_in("gemm bf16 256x128 nnt")}
