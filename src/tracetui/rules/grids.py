"""Rule on grids with so few blocks that most of the device has nothing to do."""

from __future__ import annotations

from collections.abc import Iterator

from tracetui.analysis.device_work import decoded_name, op_behind, work_time
from tracetui.analysis.idle.gap_list import busy_share_of
from tracetui.analysis.part import Part
from tracetui.analysis.rates.small_grids import small_grids_of
from tracetui.analysis.select import has_kind, name_mask
from tracetui.core.units import plural
from tracetui.rules.claims import Claims, Count, Remedy, Share, Time, names_of, says
from tracetui.rules.model import OF_WORK, Finding, build_finding, graded_kernels
from tracetui.trace import Kind
from tracetui.trace.slices import Slices

BUSY_ENOUGH = 0.3
SHARE = 0.1
_OPS = (
    "Give them more to do at once: a larger batch, or an op that also splits its work along another "
    "dimension. Else run independent work beside them, on another stream."
)
_OWN_KERNELS = (
    "No op of PyTorch launches these: start them with a larger grid, each block with a part of the work. "
    "Else run independent work beside them, on another stream."
)


def small_grids(part: Part) -> Iterator[Finding]:
    """Kernels that run by themselves, with far fewer blocks than the GPU has multiprocessors: a block runs on
    one of them (https://docs.nvidia.com/cuda/cuda-c-programming-guide/#hardware-implementation)."""
    if (busy_share_of(part) or 0.0) < BUSY_ENOUGH:
        return
    small = small_grids_of(part)
    time = small.time
    if time < max(1, SHARE * work_time(part)):
        return
    told = (f"{decoded_name(part, i).short} ({plural(n, 'block')})" for _, i, n, _ in small.rows)
    kernels = small.slices.longest_first()
    yield build_finding(
        "small_grids",
        graded_kernels(part, time),
        {
            "share": Share(time, work_time(part), OF_WORK),
            "device_ns": Time(time),
            "blocks": Count(small.rows[0][2]),
            "about": not small.read,
            "multiprocessors": Count(small.rows[0][3]),
            "kernels": names_of([*dict.fromkeys(told)][:3]),
            "of_no_op": _of_no_op(part, small.slices),
        },
        kernels,
        "share device_ns blocks",
        remedy=Remedy("overlap", kernels),
    )


@says("small_grids")
def _small_grids(c: Claims) -> tuple[str, str, str]:
    return (
        f"Kernels that leave most of the GPU idle take {'about ' if c.about else ''}{c.share}",
        f"A block of threads runs on one of the GPU's {c.multiprocessors.n} multiprocessors, and these "
        f"kernels have fewer blocks than a quarter of that: {c.kernels}. Nothing runs beside them, so the "
        "rest of the GPU has nothing to do, although it counts as busy.",
        _OWN_KERNELS if c.of_no_op else _OPS,
    )


def _of_no_op(part: Part, kernels: Slices) -> bool:
    """Whether most of these kernels are launched by themselves outside of any op, where the CPU was
    recorded."""
    trace = part.trace
    graph = name_mask(part.trace, lambda name: "GraphLaunch" in name)
    launch = trace.launch[kernels]
    own = (op_behind(trace, kernels.at) < 0) & (launch >= 0) & ~graph[trace.name[launch]]
    recorded = has_kind(trace, Kind.CPU_OP) or has_kind(trace, Kind.ANNOTATION)
    return recorded and 2 * kernels[own].time > kernels.time
