"""The kind of each category that Kineto and the forks of vendors write, now and in the past."""

from __future__ import annotations

from itertools import product

from tracetui.trace.model import Kind

_NAMES = {
    Kind.CPU_OP: "cpu_op operator",
    Kind.ANNOTATION: "user_annotation",
    Kind.PYTHON: "python_function",
    Kind.RUNTIME: "runtime hpu_op",
    Kind.OVERHEAD: "overhead",
    Kind.KERNEL: "kernel concurrent_kernel",
    Kind.MEMCPY: "gpu_memcpy memcpy",
    Kind.MEMSET: "gpu_memset memset",
    Kind.SYNC: "cuda_sync cuda_event musa_sync musa_event privateuse1_sync",
    Kind.GPU_ANNOTATION: "gpu_user_annotation privateuse1_user_annotation",
    Kind.SPAN: "trace",
}
_BACKENDS = ("cuda", "hip", "xpu", "mtia", "musa", "npu", "hpu", "mlu", "privateuse1", "glow")
_OF_A_BACKEND = {
    "runtime": Kind.RUNTIME,
    "driver": Kind.RUNTIME,
    "kernel": Kind.KERNEL,
    "memcpy": Kind.MEMCPY,
    "memset": Kind.MEMSET,
}
CATEGORY_KINDS = {
    **{f"{backend}_{what}": kind for backend, (what, kind) in product(_BACKENDS, _OF_A_BACKEND.items())},
    **{name: kind for kind, names in _NAMES.items() for name in names.split()},
}
"""Lower-cased category to kind. Any other category is `Kind.OTHER`, on every lane."""
_WITHOUT_KINETO = {"cpu functions": Kind.CPU_OP, "cuda functions": Kind.KERNEL}
"""What PyTorch writes without Kineto, and all that it wrote until 1.8: no categories, but these processes."""


def kind_of(category: str, pid: int | str) -> Kind:
    """The kind of an event of this category and process."""
    if category:
        return CATEGORY_KINDS.get(category.lower(), Kind.OTHER)
    return _WITHOUT_KINETO.get(str(pid).lower(), Kind.OTHER)
