"""The sample traces show what their README and the series say they show."""

import gzip
import json
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.capture.test_workloads import same_rows, table_rows

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
NAMES = sorted(path.name.removesuffix(".json.gz") for path in SAMPLES.glob("*.json.gz"))
Event = dict[str, Any]


@cache
def slices(name: str) -> tuple[Event, ...]:
    events = json.loads(gzip.decompress((SAMPLES / f"{name}.json.gz").read_bytes()))["traceEvents"]
    return tuple(sorted((e for e in events if e.get("ph") == "X"), key=lambda e: e["ts"]))


def of(name: str, *categories: str) -> Counter[str]:
    """How often each name occurs in the categories."""
    return Counter(e["name"] for e in slices(name) if e["cat"] in categories)


def launched(name: str) -> list[Event]:
    """The kernels and copies whose launch is in the trace."""
    launches = {e["args"]["correlation"] for e in slices(name) if e["cat"] in ("cuda_runtime", "cuda_driver")}
    device = [e for e in slices(name) if e["cat"] in ("kernel", "gpu_memcpy")]
    return [e for e in device if e["args"]["correlation"] in launches]


def steps(name: str) -> list[float]:
    """Durations of the steps, in microseconds."""
    return [
        e["dur"] for e in slices(name) if e["name"].startswith("ProfilerStep#")
        and e["cat"] == "user_annotation"
    ]  # fmt: skip


def gpu_time(name: str) -> float:
    return sum(e["dur"] for e in launched(name))


def test_what_there_is():
    wanted = {
        "matmul_add_64_cold", "matmul_add_64_warm", "matmul_add_4096_eager", "matmul_add_4096_compile",
        "mlp_eager", "mlp_compile", "attention_naive", "attention_sdpa", "llm_decode", "train"
    }  # fmt: skip
    assert wanted <= set(NAMES)
    assert sorted(re.findall(r"^\| `(\w+)` \|", (SAMPLES / "README.md").read_text(), re.M)) == NAMES
    assert sum(path.stat().st_size for path in SAMPLES.iterdir()) < 4_000_000


@pytest.mark.parametrize("name", NAMES)
def test_files_belong_together(name):
    same_rows(SAMPLES / f"{name}.json.gz", SAMPLES / f"{name}.averages.json")
    rows = json.loads((SAMPLES / f"{name}.averages.json").read_text())
    expected = Counter((row["key"][:197], row["count"]) for row in rows)  # the table cuts at 200, with dots
    assert Counter((key[:197], count) for key, count in table_rows(SAMPLES / f"{name}.txt")) == expected
    meta = json.loads((SAMPLES / f"{name}.meta.json").read_text())
    assert meta["device"]["name"] == "NVIDIA H200"
    assert re.match("(torchrun .* )?tracetui capture ", meta["command"])
    assert len(steps(name)) == meta["options"]["active"]


def test_the_cold_first_step():
    first, *others = steps("matmul_add_64_cold")
    assert first > 100 * max(others)
    overhead = of("matmul_add_64_cold", "overhead")
    assert overhead["Activity Buffer Request"] == 1
    assert overhead["Lazy Function Loading"] >= 1
    assert of("matmul_add_64_cold", "cuda_runtime")["cudaMalloc"] >= 1
    assert max(steps("matmul_add_64_warm")) < 200


def test_overhead_bound_and_compute_bound():
    assert gpu_time("matmul_add_64_warm") < 0.1 * sum(steps("matmul_add_64_warm"))
    assert gpu_time("matmul_add_4096_eager") > 2 * sum(steps("matmul_add_4096_eager"))


def test_addmm_when_compiled():
    eager = of("matmul_add_4096_eager", "cpu_op")
    assert (eager["aten::mm"], eager["aten::add"], eager["aten::addmm"]) == (3, 3, 0)
    compiled = of("matmul_add_4096_compile", "cpu_op")
    assert (compiled["aten::mm"], compiled["aten::add"], compiled["aten::addmm"]) == (0, 0, 3)
    assert of("matmul_add_4096_compile", "gpu_memcpy") == {"Memcpy DtoD (Device -> Device)": 3}
    assert sum(of("matmul_add_4096_compile", "kernel").values()) == 3
    assert min(steps("matmul_add_4096_compile")) > 1.5 * min(steps("matmul_add_4096_eager"))


def test_linear_is_one_kernel_with_the_bias():
    assert of("linear", "cpu_op")["aten::t"] == 3
    (kernel,) = of("linear", "kernel").items()
    assert "bias" in kernel[0]
    assert kernel[1] == 3


def test_five_kernels_a_forward_in_eager_mode():
    kernels = launched("mlp_eager")
    assert len(kernels) == 3 * 5
    assert sum("GeluCUDAKernel" in e["name"] for e in kernels) == 3


def test_one_fused_kernel_when_compiled():
    kernels = of("mlp_compile", "kernel")
    triton = {name: count for name, count in kernels.items() if name.startswith("triton_")}
    assert triton == {"triton_poi_fused__unsafe_view_gelu_mul_0": 3}
    assert sum(kernels.values()) == 3 * 4
    assert of("mlp_liger", "kernel")["_geglu_tanh_forward_kernel"] == 3
    assert sum(of("mlp_liger", "kernel").values()) == 3 * 4


def test_one_launch_and_many_kernels_in_a_cuda_graph():
    launches = [e for e in slices("mlp_cuda_graph") if e["name"] == "cudaGraphLaunch"]
    assert len(launches) == 3
    for launch in launches:
        same = [
            e for e in launched("mlp_cuda_graph") if e["args"]["correlation"] == launch["args"]["correlation"]
        ]
        assert len(same) >= 4


def test_attention():
    assert gpu_time("attention_naive") > 10 * gpu_time("attention_sdpa")
    assert len(launched("attention_sdpa")) == 3
    assert len(launched("attention_naive")) == 3 * 6
    assert len(launched("attention_math")) == 3 * 20
    assert gpu_time("attention_math") > 40 * gpu_time("attention_sdpa")
    # The GPU is behind: kernels of the step before run into the recording, without their launches.
    assert len(launched("attention_naive")) < sum(of("attention_naive", "kernel", "gpu_memcpy").values())


def test_decode_leaves_the_gpu_idle():
    assert gpu_time("llm_decode") < 0.1 * sum(steps("llm_decode"))
    assert len(launched("llm_decode")) > 3 * 200


def test_train():
    names = of("train", "user_annotation")
    assert (names["forward"], names["backward"], names["optimizer"]) == (2, 2, 2)
    assert len({e["tid"] for e in slices("train") if e["cat"] == "cpu_op"}) == 2  # backward has its own
    adam = sum(count for name, count in of("train", "kernel").items() if "FusedAdam" in name)
    assert 2 <= adam <= 8
