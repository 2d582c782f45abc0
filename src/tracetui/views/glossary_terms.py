"""The words of this program and of profiling, in two sentences each, for readers who know PyTorch.

`words/glossary.md` has a block for each: its name, the two sentences, where it shows, other terms to see, and
the ways in which a text may write it: those in lower case ignore case, any may have an s at the end, * stands
for more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracetui.trace import DEVICE_WORK, Kind
from tracetui.views import examples
from tracetui.views.examples import Example, Find, decoded, first, gap, judged, launch, longest
from tracetui.words.operators import is_view
from tracetui.words.texts import text_of

if TYPE_CHECKING:
    from tracetui.analysis.part import Part


@dataclass(frozen=True, slots=True)
class Term:
    """A word and what it means.

    Attributes:
        name: as the program writes it.
        group: its heading.
        text: two sentences.
        where: where it shows.
        see: names of other terms.
        spelled: the ways in which a text may write it.
        find: gives an example in a trace; None where there cannot be one.
    """

    name: str
    group: str
    text: str
    where: str
    see: tuple[str, ...] = ()
    spelled: tuple[str, ...] = ()
    find: Find | None = None


def _view(part: Part) -> Example | None:
    """The longest view op."""
    views = {name for name in part.trace.names if name.startswith("aten::") and is_view(name)}
    return longest(Kind.CPU_OP, name=rf"^(?:{'|'.join(sorted(views))})$")(part) if views else None


_KERNEL = longest(Kind.KERNEL)
_GEMM = decoded(lambda name: name.kind == "gemm")
_MEMORY_BOUND = decoded(lambda name: name.kind in ("elementwise", "copy", "norm", "softmax", "reduction"))
FIND: dict[str, Find] = {
    "an idle GPU lane": gap(),
    "a full GPU lane": judged("compute-bound"),
    "a long first step": examples.finding("cold_start", "initialisation", "wide_first_step"),
    "many short kernels": examples.finding("short_calls"),
    "a growing delay": examples.most_delayed,
    "a long synchronize call": longest(Kind.RUNTIME, name="Synchronize"),
    "an op with no kernel": _view,
    "total far above self": examples.parent,
    "a copy before a matmul": examples.finding("copy_before_product"),
    "host and device": first(*DEVICE_WORK),
    "kernel": _KERNEL,
    "stream": _KERNEL,
    "launch": launch(Kind.KERNEL),
    "copy": longest(Kind.MEMCPY),
    "memset": longest(Kind.MEMSET),
    "pinned memory": longest(Kind.MEMCPY, name="Pinned|Pageable"),
    "SM": _KERNEL,
    "warp": _KERNEL,
    "block": _KERNEL,
    "grid": _KERNEL,
    "occupancy": _KERNEL,
    "registers": _KERNEL,
    "shared memory": _KERNEL,
    "L2": _MEMORY_BOUND,
    "HBM": _MEMORY_BOUND,
    "tensor core": decoded(lambda name: name.tensor_cores),
    "peak": _GEMM,
    "roofline": _GEMM,
    "FLOP": _GEMM,
    "elementwise": decoded(lambda name: name.kind == "elementwise"),
    "reduction": decoded(lambda name: name.kind == "reduction"),
    "vec8": decoded(lambda name: " vec" in name.short),
    "fusion": decoded(lambda name: len(name.ops) > 1),
    "foreach": longest(Kind.CPU_OP, name="_foreach_"),
    "flash attention": decoded(lambda name: name.kind == "attention"),
    "spread": _KERNEL,
    "GEMM": _GEMM,
    "tile": decoded(lambda name: name.tile),
    "64x8": decoded(lambda name: name.family == "nvjet"),
    "stages": decoded(lambda name: name.stages),
    "cluster": decoded(lambda name: name.cluster),
    "cooperative": decoded(lambda name: any("cooperative" in note for note in name.notes)),
    "epilogue": decoded(lambda name: any("epilogue" in note for note in name.notes)),
    "split K": decoded(lambda name: any("split K" in note for note in name.notes)),
    "tnt": decoded(lambda name: name.kind == "gemm" and name.layout),
    "bz": decoded(lambda name: "_bz_" in name.name),
    "cuBLAS": decoded(lambda name: name.family in ("nvjet", "cublas")),
    "operator": longest(Kind.CPU_OP),
    "view and stride": _view,
    "in place": longest(Kind.CPU_OP, name="^aten::\\w+[a-z0-9]_$"),
    "self and total": examples.parent,
    "backward": longest(Kind.CPU_OP, name="^autograd::engine|Backward\\d*$"),
    "caching allocator": longest(Kind.RUNTIME, name="Malloc|MemAlloc|Free|MemCreate"),
    "synchronization": longest(Kind.RUNTIME, name="Synchronize"),
    "data loader": longest(Kind.ANNOTATION, Kind.CPU_OP, name="^enumerate\\(DataLoader\\)"),
    "CUDA graph": longest(Kind.RUNTIME, name="GraphLaunch"),
    "cold start": gap("initialisation"),
    "torch.compile": longest(Kind.CPU_OP, Kind.ANNOTATION, name="^Torch-Compiled Region"),
    "guard": longest(Kind.CPU_OP, name="^TorchDynamo Cache Lookup"),
    "recompilation": longest(Kind.CPU_OP, Kind.ANNOTATION, name="^Torch-Compiled Region: \\d+/[1-9]"),
    "Inductor": longest(Kind.CPU_OP, Kind.ANNOTATION, name="CompiledFxGraph"),
    "Triton": decoded(lambda name: name.family == "triton"),
    "collective": examples.collective,
    "NCCL": longest(Kind.KERNEL, name="(?i)nccl|rccl"),
    "exposed": examples.exposed,
    "ProfilerStep": first(Kind.ANNOTATION, Kind.CPU_OP, name="^ProfilerStep#"),
    "window": first(Kind.ANNOTATION, Kind.CPU_OP, name="^ProfilerStep#"),
    "schedule": first(Kind.ANNOTATION, Kind.CPU_OP, name="^ProfilerStep#"),
    "annotation": longest(Kind.ANNOTATION, name="^(?!ProfilerStep)"),
    "shadow": longest(Kind.GPU_ANNOTATION),
    "correlation and flow": launch(Kind.KERNEL),
    "External id": longest(Kind.CPU_OP),
    "Activity Buffer Request": longest(Kind.OVERHEAD, name="^Activity Buffer Request"),
    "Lazy Function Loading": longest(Kind.OVERHEAD, name="^(?:Lazy Function|Runtime Triggered)"),
    "INVALID": longest(Kind.RUNTIME, name="^INVALID$"),
    "gap": gap(),
    "launch to start": examples.most_delayed,
    "queue depth": examples.most_delayed,
    "lead-in": first(*DEVICE_WORK),
    "initialisation": gap("initialisation"),
    "profiler": gap("profiler"),
    "sync": gap("sync"),
    "allocation": gap("allocation"),
    "dispatch": gap("dispatch"),
    "host": gap("host"),
    "launch (cause)": gap("launch"),
    "queued": gap("queued"),
    "back to back": gap("back to back"),
    "unlinked": gap("unlinked"),
    "graph capture": gap("graph capture"),
    "in flight": gap("in flight"),
    "not recorded": gap("not recorded"),
    "overhead-bound": judged("overhead-bound"),
    "compute-bound": judged("compute-bound"),
    "communication-bound": judged("communication-bound"),
    "copy-bound": judged("copy-bound"),
    "mixed": judged("mixed"),
    "CPU-only": judged("CPU-only"),
    "not known": judged("not known"),
}
"""The finder for each term that a trace can have an example of."""


def _read(text: str) -> Iterator[Term]:
    group = ""
    for block in text.strip().split("\n\n"):
        if block.startswith("# "):
            group = block[2:]
            continue
        name, *lines = block.splitlines()
        fields, field = {"": "", "where": "", "see": "", "also": ""}, ""
        for line in lines:
            key, colon, value = line.strip().partition(": ")
            if colon and key in fields:
                field = key
            fields[field] = f"{fields[field]} {value if colon and key in fields else line.strip()}".strip()
        see, spelled = (tuple(filter(None, fields[key].split(", "))) for key in ("see", "also"))
        yield Term(name, group, fields[""], fields["where"], see, spelled or (name,), FIND.get(name))


TERMS = tuple(_read(text_of("glossary")))
