"""Kernels that exchange data with other devices, told by their names alone.

One place decides what counts as communication: the split of a step, the exposed time and the findings ask
`is_communication`. A word such as ``dispatch`` or ``combine`` is not enough, as kernels that sort tokens by
expert within one device have it, too: it counts in the namespace of a library that communicates. ``triton_``
names are Inductor's, which lists the ops around a kernel: those fused after an all-reduce do not communicate.
"""

from __future__ import annotations

from functools import lru_cache

from tracetui.analysis.names import cxx, inductor
from tracetui.analysis.names.model import NAMESPACES, KernelName, join_words
from tracetui.analysis.names.plugins import decode_by_plugin
from tracetui.core.patterns import pattern

# A library's own prefix or namespace. DeepEP (github.com/deepseek-ai/DeepEP) and its relatives uccl and pplx;
# "Ep...Kernel": github.com/ROCm/mori; "..._on_stream_kernel" and "nvshmemi_...": NVSHMEM's collectives.
_LIBRARY = pattern(
    r"(?:^|::)(?:nccl|rccl|mscclpp|msccl|oneccl|gloo::|ucc_|hccl|xccl|kuserbuffers|userbuffers|rocshmem|nvshmem)"
    r"|(?:^|::)(?:deep_ep|uccl|nccl_ep|pplx|quickreduce|ar_fusion|moe_comm|symmetric_memory)::"
    r"|(?:^|::)mori::(?:collective|ccl|shmem)|(?:^|::)ep(?:dispatch|combine)(?:intra|inter)\w*kernel"
    r"|(?:^|::|_)(?:barrier|sync|alltoall|broadcast|fcollect|rdxn|reducescatter)\w{0,20}_on_stream_kernel"
)
# DeepEP's relatives in other namespaces (DeepSeek's own traces have dpsk::ep, NVIDIA's hybrid_ep), which hold
# kernels that permute within one device, too.
_EXPERTS_OF = pattern(r"(?:^|::)(?:(?:\w{1,40}_)?ep|(?:inter|intra)node(?:_ll)?|mooncake)::")
_EXCHANGE = pattern(r"dispatch|combine|notify|barrier|sync|a2a|send|recv")
# What a name says in any library: the custom all-reduces of vLLM, SGLang, TensorRT-LLM, FlashInfer and aiter,
# and PyTorch's symmetric memory. Compared without underscores, in lower case.
_WORDS = (
    "allreduce", "allgather", "reducescatter", "alltoall", "crossdevicereduce", "crossdevicestore",
    "multimem", "a2adispatch", "a2acombine",
)  # fmt: skip
# Work around an exchange that stays on the device, and matrix products with a fused exchange.
_LOCAL = pattern(r"layout|initiali[sz]e|init_array|gemm|matmul|^warp|^block")

_EXPERT = pattern(r"(?:^|::)(deep_ep|dpsk::ep|uccl|nccl_ep|(?:\w{1,40}_)?ep|mooncake)::(?:legacy::)?(.+)")
_EXPERTS = {"deep_ep": "deepep", "dpsk::ep": "deepep", "uccl": "uccl", "nccl_ep": "nccl_ep"}
_NCCL_TYPE = pattern(
    r"_(__nv_bfloat16|u?int(?:8|32|64)_t|float|half|double|f8e[45]m[23]|bf16|f16|f32|f64|[ui](?:8|32|64))(?:_|$)"
)
_ALGORITHMS = ("RING", "TREE", "NVLS", "COLLNET", "PAT")
_PROTOCOLS = ("LL128", "LL", "SIMPLE")
_REDUCTIONS = ("SumPostDiv", "PreMulSum", "Sum", "Prod", "MinMax", "Min", "Max", "Avg")
_REDUCING = ("AllReduce", "ReduceScatter", "Reduce")
_READ = 1000
_KERNEL = pattern(r"_?kernel(?=_|$)|Kernel$")


@lru_cache(maxsize=1024)
def is_communication(name: str) -> bool:
    """Whether a kernel exchanges data with other devices, judging by its name: a collective, or a part of
    one."""
    if name.startswith("triton_") and name[7:10] in inductor.KINDS:
        return False
    text = cxx.readable(name)
    if (known := decode_by_plugin(text)) is not None:
        return known.kind == "collective"
    path = cxx.parse(text).path
    low, base = "::".join(path)[:_READ].lower(), path[-1][:_READ].lower() if path else ""
    if _LOCAL.search(base):
        return False
    words = low.replace("_", "").replace(" ", "")
    if _LIBRARY.search(low) is not None or any(word in words for word in _WORDS):
        return True
    return _EXPERTS_OF.search(low) is not None and _EXCHANGE.search(base) is not None


def decode_communication(name: str, function: cxx.Function) -> KernelName | None:
    """Decode the name of a kernel that communicates, or None if it is not one."""
    if not is_communication(name):
        return None
    if function.base.startswith(("ncclDevKernel", "ncclKernel", "ncclSymDevKernel", "ncclSymkDevKernel")):
        return _nccl(name, function.base)
    path = "::".join(function.path)
    if expert := _EXPERT.search(path):
        label, library = _KERNEL.sub("", expert[2]).replace("::", " "), _EXPERTS.get(expert[1], "")
        short = f"{library or expert[1]} {label}"
        return KernelName(name, library or "other", short, kind="collective")
    label = _KERNEL.sub("", function.base).strip("_")
    dtype = cxx.first_dtype(function.args)
    family = NAMESPACES.get(function.path[0], "other")
    return KernelName(name, family, join_words(label, dtype), kind="collective", dtype=dtype)


def _nccl(name: str, head: str) -> KernelName:
    """``ncclDevKernel_AllReduce_Sum_bf16_RING_LL(...)`` and older spellings; RCCL uses the same."""
    words = head.split("_")
    what = words[1] if len(words) > 1 else "kernel"
    algorithm, protocol, reduction = (
        next((word for word in known if word in words), "")
        for known in (_ALGORITHMS, _PROTOCOLS, _REDUCTIONS)
    )
    typed = _NCCL_TYPE.search(head)
    # Collectives that reduce nothing also have "Sum" and a type in their names, which mean nothing there.
    reduces = what in _REDUCING
    dtype = cxx.DTYPES.get(typed.group(1)) if typed and reduces else None
    symmetric = words[0].startswith("ncclSym")  # the rest of such a name says how: RSxLD_AGxST_sum_bf16
    how = head.split(f"_{what}_", 1)[-1].split("_sum")[0].split("_avg")[0] if symmetric else None
    short = join_words("nccl", what, dtype, how, algorithm.lower(), protocol.lower())
    said = (reduction if reduces else "", algorithm, protocol, "symmetric memory" if symmetric else "")
    notes = tuple(filter(None, said))
    return KernelName(name, "nccl", short, kind="collective", dtype=dtype, notes=notes)
