"""Which kind each category of Kineto, and of its ROCm, XPU and legacy kin, is."""

from __future__ import annotations

from collections.abc import Mapping

from tracetui.trace.model import Kind

__all__ = ["CATEGORY_KINDS"]

CATEGORY_KINDS: Mapping[str, Kind] = {
    "cpu_op": Kind.CPU_OP,
    "operator": Kind.CPU_OP,
    "user_annotation": Kind.ANNOTATION,
    "python_function": Kind.PYTHON,
    "cuda_runtime": Kind.RUNTIME,
    "cuda_driver": Kind.RUNTIME,
    "runtime": Kind.RUNTIME,
    "hip_runtime": Kind.RUNTIME,
    "hip_driver": Kind.RUNTIME,
    "xpu_runtime": Kind.RUNTIME,
    "xpu_driver": Kind.RUNTIME,
    "mtia_runtime": Kind.RUNTIME,
    "privateuse1_runtime": Kind.RUNTIME,
    "privateuse1_driver": Kind.RUNTIME,
    "overhead": Kind.OVERHEAD,
    "kernel": Kind.KERNEL,
    "concurrent_kernel": Kind.KERNEL,
    "mtia_kernel": Kind.KERNEL,
    "gpu_memcpy": Kind.MEMCPY,
    "memcpy": Kind.MEMCPY,
    "gpu_memset": Kind.MEMSET,
    "memset": Kind.MEMSET,
    "cuda_sync": Kind.SYNC,
    "cuda_event": Kind.SYNC,
    "gpu_user_annotation": Kind.GPU_ANNOTATION,
    "trace": Kind.SPAN,
}
"""Lower-cased category to kind. A category that is not here is `Kind.OTHER`, wherever its lane is."""
