"""One small trace of nearly everything: two devices, threads, flows, pairs, memory, shapes, some damage."""

import json
from pathlib import Path
from typing import Any

from tests.kineto import Event, cpu, kernel, launch, memcpy, step

__all__ = ["made_events", "write_made"]

PROPERTIES = {
    "schemaVersion": 1,
    "deviceProperties": [
        {"id": i, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_000_000_000, "numSms": 132} | {
            "computeMajor": 9, "computeMinor": 0, "maxThreadsPerMultiprocessor": 2048, "warpSize": 32
        } for i in range(2)
    ],
    "distributedInfo": {"backend": "nccl", "rank": 1, "world_size": 2}, "record_shapes": 1,
    "displayTimeUnit": "ms", "baseTimeNanoseconds": 0
}  # fmt: skip
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off"
ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, "
    "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul>)"
)
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
TRITON = "triton_poi_fused_add_gelu_native_layer_norm_0"
BF16 = "c10::BFloat16"


def op(name: str, start: float, duration: float, number: int, *shapes: list[int], of: str = BF16) -> Event:
    """An op with its shapes."""
    args: dict[str, Any] = {
        "External id": number, "Input Dims": list(shapes), "Input type": [of] * len(shapes)
    }  # fmt: skip
    strides = [[shape[1] if len(shape) > 1 else 1, 1][-len(shape) or 2 :] for shape in shapes]
    return cpu(name, start, duration, **args | {"Input Strides": strides, "Sequence number": number})


def started(event: Event, number: int) -> Event:
    """With the id of the op that it belongs to."""
    return event | {"args": event["args"] | {"External id": number}}


def one_step(number: int, at: float) -> list[Event]:
    """300 us: a copy to the device, a product, an addition, a collective on another stream, a wait."""
    n = 100 * number
    grid = {"grid": [132, 2, 1], "block": [128, 1, 1], "registers per thread": 168, "shared memory": 1024}
    product = kernel(at + 60, 40 + number, n + 2, name=GEMM)
    product["args"] |= grid | {"est. achieved occupancy %": 25, "blocks per SM": 2.0, "warps per SM": 8.0}
    return [
        step(number, at, 300), cpu("forward", at + 2, 150, "user_annotation", **{"External id": n + 10}),
        op("aten::to", at + 4, 20, n + 11, [64, 512]),
        op("aten::copy_", at + 6, 16, n + 12, [64, 512], [64, 512]),
        started(launch(at + 8, n + 1, 13, "cudaMemcpyAsync"), n + 12),
        started(memcpy(at + 12, 8, n + 1, "HtoD (Pageable -> Device)"), n + 12),
        op("aten::linear", at + 30, 40, n + 13, [64, 512], [1024, 512], [1024]),
        op("aten::addmm", at + 34, 30, n + 14, [1024], [64, 512], [512, 1024], [], []),
        started(launch(at + 50, n + 2), n + 14), started(product, n + 14),
        op("aten::add", at + 80, 30, n + 15, [64, 1024], [64, 1024], []),
        op("aten::add", at + 82, 26, n + 16, [64, 1024], [64, 1024], []),
        started(launch(at + 90, n + 3), n + 16),
        started(kernel(at + 110 + 2 * number, 2, n + 3, name=ADD), n + 16),
        cpu("nccl:all_reduce", at + 112, 60, "user_annotation", **{"External id": n + 17}),
        started(launch(at + 114, n + 4), n + 17), started(kernel(at + 125, 70, n + 4, 13, NCCL), n + 17),
        kernel(at + 126, 68, n + 4, 13, "nccl:all_reduce", cat="gpu_user_annotation"),
        started(launch(at + 135, n + 5, name="cuLaunchKernelEx"), n + 13),
        started(kernel(at + 150, 20, n + 5, name=TRITON), n + 13),
        op("aten::item", at + 200, 60, n + 18, [1]),
        op("aten::_local_scalar_dense", at + 202, 56, n + 19, [1]),
        started(launch(at + 204, n + 6, 5, "cudaMemcpyAsync"), n + 19),
        started(memcpy(at + 212, 1.5, n + 6, "DtoH (Device -> Pinned)"), n + 19),
        started(cpu("cudaStreamSynchronize", at + 212, 44, "cuda_runtime", correlation=n + 7), n + 19),
        kernel(at + 212, 43, n + 7, name="Stream Sync", cat="cuda_sync"),
        cpu("train.py(12): step", at + 1, 280, "python_function", **{"Python id": n})
    ]  # fmt: skip


def made_events() -> list[Event]:
    """The events, in no order of time."""
    memory = [
        cpu("[memory]", 20 + 40 * i, 0, "cpu_instant_event") | {"ph": "i", "s": "t"} | {"args": {
            "Bytes": size, "Total Allocated": total, "Total Reserved": 2_097_152, "Device Id": 0,
            "Device Type": 1
        }} for i,
        (size, total) in enumerate([(65_536, 65_536), (131_072, 196_608), (-65_536, 131_072)])
    ]  # fmt: skip
    other = [
        cpu("aten::mul", 320, 40, **{"External id": 901}) | {"tid": 8}, launch(330, 901) | {"tid": 8},
        kernel(350, 30, 901, name=ADD) | {"pid": 1, "args": {"device": 1, "stream": 7, "correlation": 901}},
        launch(400, 902) | {"tid": 8},
        kernel(500, 10, 902, name=ADD) | {"pid": 1, "args": {"device": 1, "stream": 7, "correlation": 902}}
    ]  # fmt: skip
    odd = [
        cpu("cudaMalloc", 285, 30, "cuda_runtime", correlation=990),
        cpu("Activity Buffer Request", 700, 90, "overhead", correlation=991),
        cpu("Lazy Function Loading", 930, 25, "overhead", correlation=992),
        kernel(905, 1.152, 993, name="Memset (Device)", cat="gpu_memset"),
        launch(902, 993, 2, "cudaMemsetAsync"), cpu("crosses", 290, 20, "cpu_op"),
        cpu("negative", 610, -5, "cpu_op"), cpu("cut", 640, 0), kernel(650, 3, 994, 20, "no launch")
    ]  # fmt: skip
    pairs = [
        {"ph": "B", "name": "outer", "cat": "phase", "pid": 9, "tid": 8, "ts": 10},
        {"ph": "B", "name": "inner", "cat": "phase", "pid": 9, "tid": 8, "ts": 20.5},
        {"ph": "E", "pid": 9, "tid": 8, "ts": 30.25}, {"ph": "E", "pid": 9, "tid": 8, "ts": 50},
        {"ph": "B", "name": "left open", "cat": "phase", "pid": 9, "tid": 8, "ts": 60},
        {"ph": "b", "name": "request", "cat": "async", "id": 5, "pid": 9, "tid": 8, "ts": 100},
        {"ph": "n", "name": "half way", "cat": "async", "id": 5, "pid": 9, "tid": 8, "ts": 130},
        {"ph": "e", "name": "request", "cat": "async", "id": 5, "pid": 9, "tid": 8, "ts": 170},
        {"ph": "C", "name": "queue", "pid": 9, "ts": 100, "args": {"length": 3, "bytes": 4.5}},
        {"ph": "C", "name": "queue", "pid": 9, "ts": 400, "args": {"length": 7, "bytes": 1.25}},
        {"ph": "i", "name": "seed", "cat": "x", "pid": 9, "tid": 9, "ts": 33, "s": "t"},
        {"ph": "I", "name": "epoch", "cat": "x", "pid": 9, "tid": 9, "ts": 34, "s": "g"},
        {"ph": "s", "id": 1, "cat": "fwdbwd", "name": "fwdbwd", "pid": 9, "tid": 9, "ts": 134},
        {"ph": "f", "id": 1, "cat": "fwdbwd", "name": "fwdbwd", "pid": 9, "tid": 8, "ts": 320, "bp": "e"}
    ]  # fmt: skip
    named = [
        {"ph": "M", "name": "process_name", "pid": 9, "tid": 0, "args": {"name": "python3"}},
        {"ph": "M", "name": "process_labels", "pid": 9, "tid": 0, "args": {"labels": "CPU"}},
        {"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "args": {"name": "python3"}},
        {"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "args": {"labels": "GPU 0"}},
        {"ph": "M", "name": "process_sort_index", "pid": 0, "tid": 0, "args": {"sort_index": 5_000_000}},
        {"ph": "M", "name": "thread_name", "pid": 9, "tid": 9, "args": {"name": "thread 9 (python3)"}},
        {"ph": "M", "name": "thread_name", "pid": 9, "tid": 8, "args": {"name": "pt_autograd_0"}},
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": 7, "args": {"name": "stream 7 "}},
        {"ph": "M", "name": "thread_sort_index", "pid": 9, "tid": 8, "args": {"sort_index": -1}},
    ]
    steps = [event for number, at in ((1, 0), (2, 320), (3, 960)) for event in one_step(number, at)]
    return [*named, *steps, *other, *odd, *pairs, *memory]


def write_made(folder: Path) -> Path:
    """The trace as a file."""
    path = folder / "made.json"
    path.write_text(json.dumps(PROPERTIES | {"traceEvents": made_events()}))
    return path
