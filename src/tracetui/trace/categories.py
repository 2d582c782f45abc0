"""The kind of each category that Kineto writes, including ROCm, XPU and older ones."""

from __future__ import annotations

from tracetui.trace.model import Kind

_NAMES = {
    Kind.CPU_OP: "cpu_op operator",
    Kind.ANNOTATION: "user_annotation",
    Kind.PYTHON: "python_function",
    Kind.RUNTIME: "cuda_runtime cuda_driver runtime hip_runtime hip_driver xpu_runtime xpu_driver"
    " mtia_runtime privateuse1_runtime privateuse1_driver",
    Kind.OVERHEAD: "overhead",
    Kind.KERNEL: "kernel concurrent_kernel mtia_kernel",
    Kind.MEMCPY: "gpu_memcpy memcpy",
    Kind.MEMSET: "gpu_memset memset",
    Kind.SYNC: "cuda_sync cuda_event",
    Kind.GPU_ANNOTATION: "gpu_user_annotation",
    Kind.SPAN: "trace",
}
CATEGORY_KINDS = {name: kind for kind, names in _NAMES.items() for name in names.split()}
"""Lower-cased category to kind. Any other category is `Kind.OTHER`, on every lane."""
