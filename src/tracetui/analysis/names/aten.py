"""Names of PyTorch's own CUDA kernels: C++ templates whose arguments say what they compute.

``vectorized_elementwise_kernel<8, CUDAFunctor_add<c10::BFloat16>, ...>`` adds bf16 numbers, eight at
a time. The template's name says how, its functor says what, and the functor's template or lambda arguments
say on which type.
"""

from __future__ import annotations

import re

from tracetui.analysis.names import cxx
from tracetui.analysis.names.model import KernelName, join_words
from tracetui.core.patterns import pattern

# Templates that wrap another functor, which is the first argument that is neither a number nor a plain type.
_WRAPPERS = frozenset(
    {
        "AUnaryFunctor", "BUnaryFunctor", "BinaryFunctor", "ReduceOp", "func_wrapper_t", "gpu_index_kernel",
        "gpu_kernel_impl", "gpu_kernel_impl_nocast",
    }
)  # fmt: skip

# What a functor computes, if stripping its prefixes and suffixes would not leave a plain name.
_OPS = {
    "CUDAFunctor_add": "add", "CUDAFunctorOnSelf_add": "add scalar", "CUDAFunctorOnOther_add": "add scalar",
    "direct_copy_kernel_cuda": "copy", "copy_device_to_device": "copy",
    "bfloat16_copy_kernel_cuda": "copy to bf16", "float16_copy_kernel_cuda": "copy to fp16",
    "float8_copy_kernel_cuda": "copy to fp8",
    "launch_clamp_scalar": "clamp", "arange_cuda_out": "arange", "compare_scalar_kernel": "compare scalar",
    "CompareEqFunctor": "eq", "CompareFunctor": "compare", "MulScalarFunctor": "mul scalar",
    "NormTwoOps": "norm2", "NormOneOps": "norm1", "ArgMaxOps": "argmax", "ArgMinOps": "argmin",
    "WelfordOps": "var mean", "multiplies": "mul", "divides": "div", "plus": "add", "minus": "sub",
    "threshold_kernel_impl": "threshold (relu)", "index_kernel_impl": "index",
    "index_put_kernel_impl": "index put", "pow_tensor_scalar_kernel_impl": "pow",
}  # fmt: skip

_SUFFIXES = pattern(
    r"(CUDAKernelImpl|KernelImplInternal|KernelImpl|KernelCUDA|CUDAKernel|Kernel|Functor|Ops|Op|Epilogue)$"
)
_TAIL = pattern(
    r"(?s)(?<=.)(?:_cuda_kernel_2d|_kernel_cuda|_cuda_kernel|_kernel_impl|_cuda_impl|_kernel|_cuda|_functor)\Z",
    re.DOTALL,
)
_OPAQUE = pattern(r"OpaqueType<(\d{1,3})")
_METADATA = pattern(r"TensorListMetadata<(\d{1,3})|TensorListScalarListMetadata<[a-z]{1,12}, (\d{1,3})")

_ELEMENTWISE = {
    "vectorized_elementwise_kernel": "vec{0}", "unrolled_elementwise_kernel": "unrolled",
    "unrolled_elementwise_kernel_for_multi_outputs": "unrolled", "elementwise_kernel": "",
    "elementwise_kernel_manual_unroll": "unrolled", "elementwise_kernel_with_index": "",
    "vectorized_templated_elementwise_kernel": "vec{0}",
}  # fmt: skip

_POINTWISE_TERNARY = {"mul": "addcmul", "div": "addcdiv"}

# Other templates by kind of work: what each one does.
_TEMPLATES = {
    "copy": {
        "CatArrayBatchedCopy": "cat", "CatArrayBatchedCopy_aligned16_contig": "cat aligned",
        "CatArrayBatchedCopy_vectorized": "cat vectorized", "CatArrayBatchedCopy_contig": "cat contiguous",
        "CatArrayBatchedCopy_alignedK_contig": "cat aligned",
    },
    "norm": {
        "GammaBetaBackwardCUDAKernel": "layer_norm bwd gamma beta",
        "GammaBetaBackwardCUDAKernelTemplate": "layer_norm bwd gamma beta",
        "layer_norm_grad_input_kernel": "layer_norm bwd input",
        "layer_norm_grad_input_kernel_vectorized": "layer_norm bwd input",
        "vectorized_layer_norm_kernel": "layer_norm", "RowwiseMomentsCUDAKernel": "norm moments",
        "batch_norm_backward_kernel": "batch_norm bwd",
        "batch_norm_collect_statistics_kernel": "batch_norm stats",
        "batch_norm_transform_input_kernel": "batch_norm apply",
    },
    "index": {
        "indexSelectLargeIndex": "index_select large", "indexSelectSmallIndex": "index_select small",
        "indexing_backward_kernel": "index bwd", "vectorized_gather_kernel": "gather",
        "compute_grad_weight": "embedding bwd", "sum_and_scatter": "embedding bwd scatter",
        "krn_partial_segment_offset": "embedding bwd offsets",
        "krn_partials_per_segment": "embedding bwd segments",
        "compute_num_of_partial_segments": "embedding bwd count",
        "searchsorted_cuda_kernel": "searchsorted",
    },
    "reduction": {
        "max_pool_forward_nchw": "max_pool fwd", "max_pool_backward_nchw": "max_pool bwd",
        "nll_loss_forward_reduce_cuda_kernel_2d": "nll_loss fwd",
        "nll_loss_backward_reduce_cuda_kernel_2d": "nll_loss bwd",
        "cunn_ClassNLLCriterion_updateOutput_kernel": "nll_loss fwd",
        "cunn_ClassNLLCriterion_updateGradInput_kernel": "nll_loss bwd",
    },
    "elementwise": {
        "distribution_elementwise_grid_stride_kernel": "random", "fused_dropout_kernel_vec": "dropout",
    },
}  # fmt: skip
_NAMED = {name: (what, kind) for kind, names in _TEMPLATES.items() for name, what in names.items()}


def decode_aten(name: str, function: cxx.Function) -> KernelName | None:
    """Decode one of ATen's templates from its parsed name, or None if it is not a known one."""
    base, args = function.base, function.args
    if base in _ELEMENTWISE:
        return _elementwise(name, base, args)
    if base == "reduce_kernel":
        return _reduce(name, args)
    if base == "multi_tensor_apply_kernel":
        return _foreach(name, args)
    if base == "index_elementwise_kernel":
        op, dtype, size = _functor(args[2] if len(args) > 2 else "")
        short = join_words(op or "index", size or dtype)
        return KernelName(name, "aten", short, kind="index", dtype=None if size else dtype)
    if base == "_scatter_gather_elementwise_kernel":
        return _scatter_gather(name, args)
    if base.startswith(("softmax_warp_", "cunn_SoftMax", "cunn_SpatialSoftMax")):
        return _softmax(name, base, args)
    if base in _NAMED:
        what, kind = _NAMED[base]
        size = _size(args[0]) if args else None
        # A gather names only the type of its index.
        silent = size is not None or base == "vectorized_gather_kernel"
        dtype = None if silent else cxx.first_dtype(args)
        return KernelName(name, "aten", join_words(what, dtype or size), kind=kind, dtype=dtype)
    return None


def _elementwise(name: str, base: str, args: tuple[str, ...]) -> KernelName:
    width = args[0] if args and len(args[0]) < 3 else ""
    functor = next((arg for arg in args if not arg.isdigit() and cxx.dtype_of(arg) is None), "")
    op, dtype, size = _functor(functor)
    style = _ELEMENTWISE[base].format(width) if width or "{" not in _ELEMENTWISE[base] else ""
    copy = op is not None and op.startswith("copy")
    if op and op.startswith("copy to "):
        short = join_words(f"copy {dtype or ''}→{op[8:]}".replace(" →", " to "), style)
    else:
        short = join_words(op or "elementwise", dtype or size, style)
    notes = (f"{width} elements at a time",) if style.startswith("vec") else ("unrolled",) if style else ()
    return KernelName(name, "aten", short, kind="copy" if copy else "elementwise", dtype=dtype, notes=notes)


def _reduce(name: str, args: tuple[str, ...]) -> KernelName:
    op, dtype, _ = _functor(args[2] if len(args) > 2 else "")
    short = join_words(op or "reduce", dtype, "reduce")
    return KernelName(name, "aten", short, kind="reduction", dtype=dtype)


def _foreach(name: str, args: tuple[str, ...]) -> KernelName:
    """One kernel over a list of tensors: foreach operators and fused optimizers."""
    functor = cxx.parse(args[1]) if len(args) > 1 else cxx.Function((), ())
    dtype = cxx.first_dtype(functor.args)
    inner = next((cxx.parse(arg).base for arg in args[2:] if cxx.dtype_of(arg) is None), "")
    op = op_name(inner) if inner else op_name(functor.base)
    if functor.base.startswith("PointwiseOp"):
        op = _POINTWISE_TERNARY.get(op, op)
    low = functor.base.lower()
    optimizer = next((word for word in ("adam", "sgd", "adagrad", "lamb") if word in low), None)
    lists = _METADATA.match(cxx.parse(args[0]).base + args[0][args[0].find("<") :]) if args else None
    count = next((group for group in lists.groups() if group), None) if lists else None
    what = join_words("fused" if "fused" in low else None, optimizer) if optimizer else f"foreach {op}"
    note = "one kernel over lists of tensors" + (f", {count} at a time" if count else "")
    kind = "optimizer" if optimizer else "elementwise"
    return KernelName(name, "aten", join_words(what, dtype), kind=kind, dtype=dtype, notes=(note,))


def _scatter_gather(name: str, args: tuple[str, ...]) -> KernelName:
    text = args[2] if len(args) > 2 else ""
    inner = cxx.split_args(text[text.find("<") + 1 :]) if "<" in text else []
    scatter = bool(inner) and inner[0] == "true"
    dtype = cxx.dtype_of(inner[1].split(">")[0]) if len(inner) > 1 else None
    what = "gather" if not scatter else "scatter add" if "ReduceAdd" in text else "scatter"
    return KernelName(name, "aten", join_words(what, dtype or _size(text)), kind="index", dtype=dtype)


def _softmax(name: str, base: str, args: tuple[str, ...]) -> KernelName:
    low = base.lower()
    way = "bwd" if "backward" in low else None
    flagged = base.startswith("softmax_warp") and args[4:5] == ("true",)
    logarithm = flagged or any("LogSoftMax" in arg for arg in args)
    dtype = cxx.first_dtype(args)
    style = "warp" if "warp" in low else None
    what = "log_softmax" if logarithm else "softmax"
    return KernelName(name, "aten", join_words(what, way, dtype, style), kind="softmax", dtype=dtype)


def _functor(text: str) -> tuple[str | None, str | None, str | None]:
    """(operation, type, element size) of a functor; None for each part that it does not state."""
    dtype: str | None = None
    scalar = False
    for _ in range(6):
        function = cxx.parse(text)
        base = function.base
        dtype = dtype or cxx.first_dtype(function.args)
        if base.startswith("operator"):  # sum_functor<...>::operator()(TensorIterator&)::{lambda...}
            base = function.path[-2] if len(function.path) > 1 else base
        if base not in _WRAPPERS:
            break
        scalar = scalar or base in ("AUnaryFunctor", "BUnaryFunctor")
        inner = next((arg for arg in function.args if not arg.isdigit() and cxx.dtype_of(arg) is None), None)
        if inner is None:
            break
        text = inner
    typed = cxx.lambda_types(text)
    if dtype is None and typed:
        types = [cxx.dtype_of(item) for item in typed]
        dtype = types[-1] if types[0] == "bool" else types[0]
    op = op_name(base) if base else None
    if base == "GeluCUDAKernelImpl" and cxx.lambda_number(text) == 1:
        op = "gelu (tanh)"  # the function's first branch is the tanh approximation, its second the exact one
    if op and scalar and not op.endswith("scalar"):
        op = f"{op} scalar"
    return op, dtype, _size(text)


def op_name(base: str) -> str:
    """What a functor of this name computes: ``MulFunctor`` multiplies."""
    if base in _OPS:
        return _OPS[base]
    text, cut = _TAIL.subn("", base)
    if not cut:
        text = _SUFFIXES.sub("", base) or base
    return cxx.snake(text) if text[:1].isupper() else text


def _size(text: str) -> str | None:
    """``OpaqueType<4>``: a kernel that moves elements of four bytes, whatever they are."""
    match = _OPAQUE.search(text[:400])
    return f"{int(match.group(1)) * 8}-bit" if match else None
