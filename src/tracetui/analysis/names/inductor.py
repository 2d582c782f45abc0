"""Names that Inductor gives to the Triton kernels it writes.

``triton_poi_fused__unsafe_view_gelu_mul_0``: a kind (pointwise), the ATen operators that were fused, sorted
and joined by underscores, and a number. Operator names contain underscores themselves, so the list is split
greedily by the known names that do; everything else counts as one word.
"""

from __future__ import annotations

from tracetui.analysis.names.cxx import LIMIT
from tracetui.analysis.names.model import KernelName

KINDS = {
    "poi": ("elementwise", "pointwise"),
    "red": ("reduction", "reduction, looping over the reduced axis"),
    "per": ("reduction", "persistent reduction: the reduced axis fits into one block"),
    "tem": ("gemm", "template, autotuned"),
    "for": ("elementwise", "foreach: one kernel over a list of tensors"),
    "spl": ("reduction", "split scan"),
}

_MULTIWORD = frozenset(
    """
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_max_pool2d avg_pool2d avg_pool2d_backward batch_norm
    bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor clamp_max clamp_min
    constant_pad_nd conv2d convert_element_type convolution_backward cross_entropy_loss cudnn_batch_norm
    cudnn_batch_norm_backward detach_copy div_trunc elu_backward embedding_backward embedding_dense_backward
    expand_copy flex_attention flex_attention_backward floor_divide full_like gelu_backward glu_backward
    grid_sampler_2d group_norm hardsigmoid_backward hardswish_backward hardtanh_backward index_add index_copy
    index_put index_select layer_norm layer_norm_backward leaky_relu leaky_relu_backward lift_fresh
    linalg_vector_norm log_softmax log_sigmoid logical_and logical_not logical_or logical_xor masked_fill
    masked_scatter max_pool2d max_pool2d_with_indices max_pool2d_with_indices_backward mse_loss
    mse_loss_backward nan_to_num native_batch_norm native_batch_norm_backward native_dropout
    native_dropout_backward native_group_norm native_group_norm_backward native_layer_norm
    native_layer_norm_backward new_empty new_empty_strided new_full new_ones new_zeros nll_loss
    nll_loss_backward nll_loss_forward ones_like pixel_shuffle prepare_softmax_online rand_like randn_like
    reflection_pad1d reflection_pad2d repeat_interleave replication_pad2d rms_norm scalar_tensor
    scaled_dot_product_attention scatter_add scatter_reduce select_backward select_scatter sigmoid_backward
    silu_backward slice_backward slice_scatter smooth_l1_loss soft_margin_loss softmax_backward
    softplus_backward split_with_sizes squeeze_copy sym_size tanh_backward threshold_backward to_copy
    unsqueeze_copy upsample_bicubic2d upsample_bilinear2d upsample_nearest2d var_mean view_as_complex
    view_as_real zeros_like _adaptive_avg_pool2d _fused_rms_norm _fused_rms_norm_backward _log_softmax
    _log_softmax_backward_data _native_batch_norm_legit _native_batch_norm_legit_functional
    _native_batch_norm_legit_no_training _reshape_copy _safe_softmax _scaled_mm _softmax
    _softmax_backward_data _to_copy _unsafe_index _unsafe_index_put _unsafe_view _weight_norm_interface
    _scaled_dot_product_cudnn_attention _scaled_dot_product_cudnn_attention_backward
    _scaled_dot_product_efficient_attention _scaled_dot_product_efficient_attention_backward
    _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_backward
    _scaled_dot_product_fused_attention_overrideable
    _scaled_dot_product_fused_attention_overrideable_backward _efficient_attention_backward
    _efficient_attention_forward _flash_attention_backward _flash_attention_forward _grouped_mm _int_mm
    _scaled_grouped_mm _embedding_bag _embedding_bag_forward_only _cdist_forward _assert_async
    adaptive_avg_pool2d_backward avg_pool1d avg_pool3d embedding_bag grid_sampler_2d_backward masked_select
    scaled_mm tril_indices triu_indices upsample_bilinear2d_backward upsample_nearest1d
    upsample_nearest2d_backward upsample_nearest3d upsample_trilinear3d
    moe_forward all_reduce all_gather_into_tensor reduce_scatter_tensor wait_tensor
    """.split()  # noqa: SIM905
)
_MAX_WORDS = max(name.count("_") for name in _MULTIWORD) + 1

# Operators that move no data: a kernel names them only because its operands passed through them.
METADATA = frozenset(
    """
    _unsafe_view alias as_strided detach expand lift_fresh movedim permute reshape select slice split
    split_with_sizes squeeze t transpose unsqueeze unbind view
    """.split()  # noqa: SIM905
)

_PRODUCTS = frozenset({"mm", "addmm", "bmm", "baddbmm", "_scaled_mm", "convolution"})


def decode_triton(name: str) -> KernelName | None:
    """Decode an Inductor name (``triton_<kind>_fused_...``), or None."""
    if not name.startswith("triton_"):
        return None
    tokens = name[len("triton_") : LIMIT].split("_")
    kind = tokens[0]
    family_kind, meaning = KINDS.get(kind, ("other", ""))
    rest = tokens[1:]
    number = rest.pop() if rest and rest[-1].isdigit() else None
    ops = tuple(_split_ops(rest[1:] if rest[:1] == ["fused"] else rest))
    attends = [op for op in ops if op.startswith("flex_attention")] if kind == "tem" else []
    # The other ops made its inputs, in kernels of their own.
    shown = attends or [op.lstrip("_") for op in ops if op not in METADATA] or [op.lstrip("_") for op in ops]
    label = f"triton {kind}" if kind in KINDS else "triton"
    words = shown if kind in KINDS else [word for word in (kind, *shown) if word]
    short = f"{label}: {' '.join(words)}" if words else f"{label} {number or ''}".strip()
    work = family_kind if kind != "tem" or not _PRODUCTS.isdisjoint(ops) else "other"
    work = "attention" if attends else work
    notes = tuple(filter(None, (meaning, f"number {number}" if number else "")))
    return KernelName(name, "triton", short, work, ops=ops, notes=notes)


def _split_ops(tokens: list[str]) -> list[str]:
    """The operators in a list of words, longest known name first. An empty word is a leading underscore."""
    ops: list[str] = []
    at = 0
    while at < len(tokens):
        for count in range(min(_MAX_WORDS, len(tokens) - at), 0, -1):
            candidate = "_".join(tokens[at : at + count])
            if candidate in _MULTIWORD or count == 1:
                break
        if not candidate and at + 1 < len(tokens):
            candidate, count = f"_{tokens[at + 1]}", 2
        if candidate:
            ops.append(candidate)
        at += count
    return ops
