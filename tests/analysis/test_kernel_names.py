"""The kernel-name decoder: real names, and any text at all."""

# ruff: noqa: E501 (kernel names are long)

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kineto import cpu, trace_of

from tracetui.analysis.names.cxx import LIMIT, parse
from tracetui.analysis.names.kernel_names import LONGEST, decode, short_name
from tracetui.analysis.names.short_names import differences, short_names, told_apart
from tracetui.views.averages import brief_shapes
from tracetui.views.lines import bar, columns
from tracetui.views.model import Column, fit, next_sort, scrolled

ADD = (
    "void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<c10::BFloat16>, "
    "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul>)"
)
GELU = (
    "void at::native::vectorized_elementwise_kernel<{}, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, "
    "at::native::GeluType)::{{lambda()#{}}}::operator()() const::{{lambda()#4}}::operator()() const::"
    "{{lambda(c10::BFloat16)#1}}, std::array<char*, 2ul> >(int, at::native::GeluCUDAKernelImpl(x))"
)
MUL_STRIDED = (
    "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<"
    "c10::BFloat16, c10::BFloat16, c10::BFloat16, at::native::binary_internal::MulFunctor<float> > >("
    "at::TensorIteratorBase&, x const&)::{lambda(int)#1}>(int, y)"
)
COPY = (
    "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::"
    "{lambda()#3}::operator()() const::{lambda()#7}::operator()() const::{lambda(float)#1}, std::array<char*, 2ul>,"
    " 4, TrivialOffsetCalculator<1, unsigned int> >(int, x)"
)
TO_BF16 = (
    "void at::native::vectorized_elementwise_kernel<8, at::native::bfloat16_copy_kernel_cuda("
    "at::TensorIteratorBase&)::{lambda(float)#1}, std::array<char*, 2ul> >(int, x)"
)
SUM = (
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t<float, "
    "at::native::sum_functor<float, float, float>::operator()(at::TensorIterator&)::{lambda(float, float)#1}>, "
    "unsigned int, float, 4, 4> >(at::native::ReduceOp<float, x>)"
)
FOREACH = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
    "TensorListMetadata<3>, at::native::(anonymous namespace)::PointwiseOpScalarFunctor<c10::BFloat16, 3, 3, 0>, "
    "std::multiplies<float>, float>(x)"
)
LOG_SOFTMAX = (
    "void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, float, float, "
    "at::native::(anonymous namespace)::LogSoftMaxForwardEpilogue>(float*, float const*, int)"
)
CUTLASS = "void cutlass::Kernel2<cutlass_80_{0}>(cutlass_80_{0}::Params)"
TENSILE = "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT160x256x64_MI16x16x1_SN_LDSB1_AFC1_GLS0_ISA942_IU1_K1_WS64"
FLASH = (
    "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, "
    "cutlass::bfloat16_t, pytorch_flash::Flash_kernel_traits<64, 128, 128, 4, cutlass::bfloat16_t> >, false>(x)"
)
CUDNN_ATTENTION = (
    "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_4x1x1_cga1x1x1_kernel0_0"
)
SORT = (
    "void at_cuda_detail::cub::detail::radix_sort::DeviceRadixSortOnesweepKernel<at_cuda_detail::cub::detail::"
    "radix::policy_hub<long, x>::Policy1000, long>(int*)"
)
SHORT = [
    (ADD, "aten", "elementwise", "add bf16 vec8"),
    (GELU.format(8, 1), "aten", "elementwise", "gelu (tanh) bf16 vec8"),
    (GELU.format(4, 2), "aten", "elementwise", "gelu bf16 vec4"),
    (MUL_STRIDED, "aten", "elementwise", "mul bf16"),
    (COPY, "aten", "copy", "copy fp32 unrolled"),
    (TO_BF16, "aten", "copy", "copy fp32→bf16 vec8"),
    (SUM, "aten", "reduction", "sum fp32 reduce"),
    (FOREACH, "aten", "elementwise", "foreach addcmul bf16"),
    (LOG_SOFTMAX, "aten", "softmax", "log_softmax fp32"),
    (FLASH, "flash", "attention", "flash fwd bf16 d64 128x128"),
    (CUDNN_ATTENTION, "cudnn", "attention", "cudnn attention fwd 64x128x64"),
    (SORT, "aten", "sort", "cub radix sort onesweep"),
    (TENSILE, "rocm", "gemm", "gemm bf16 160x256 tn"),
    ("nvjet_sm90_tst_64x8_64x16_1x4_h_bz_NNT", "nvjet", "gemm", "gemm bf16 64x8 nnt"),
    ("nvjet_sm90_tst_256x128_64x4_1x2_h_badd_coopA_NNT", "nvjet", "gemm", "gemm bf16 256x128 nnt +C"),
    ("nvjet_sm90_tst_64x8_64x16_1x2_h_bz_bias_TNT", "nvjet", "gemm", "gemm bf16 64x8 tnt +bias"),
    ("nvjet_hsh_32x64_64x16_4x1_v_bz_splitK_TNN", "nvjet", "gemm", "gemm fp16 32x64 tnn splitk"),
    ("ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_nn", "cublas", "gemm", "gemm bf16 128x256 nn"),
    ("volta_sgemm_128x32_sliced1x4_nn", "cublas", "gemm", "gemm fp32 128x32 nn"),
    (
        "triton_poi_fused__scaled_dot_product_cudnn_attention_add_7",
        "triton",
        "elementwise",
        "triton poi: scaled_d…cudnn_attention add",
    ),
    ("triton_poi_fused__unsafe_view_gelu_mul_0", "triton", "elementwise", "triton poi: gelu mul"),
    ("triton_red_fused__to_copy_mean_rsqrt_3", "triton", "reduction", "triton red: to_copy mean rsqrt"),
    ("triton_tem_fused_addmm_relu_5", "triton", "gemm", "triton tem: addmm relu"),
    (
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "nccl",
        "collective",
        "nccl AllReduce bf16 ring ll",
    ),
    # A broadcast reduces nothing: the "Sum" and the type in its name are placeholders.
    ("ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclDevComm*)", "nccl", "collective", "nccl Broadcast ring ll"),
    ("Memcpy HtoD (Pageable -> Device)", "memcpy", "memcpy", "memcpy HtoD pageable"),
    ("Memset (Device)", "memset", "memset", "memset"),
    (
        "fmha_cutlassF_bf16_aligned_64x128_rf_sm80(x)",
        "cutlass",
        "attention",
        "efficient attention fwd bf16 64x128",
    ),
    ("_ZN5mykit12rms_norm_fwdEPfS0_i", "other", "norm", "rms_norm_fwd"),
    ("void mykit::rope_kernel<float, 4>(float*)", "other", "other", "rope fp32"),
    ("kernel_42", "other", "other", "kernel_42"),
    ("kernel_rope_2", "other", "other", "rope_2"),
]


@pytest.mark.parametrize(("name", "family", "kind", "short"), SHORT, ids=[row[3] for row in SHORT])
def test_short_names_of_real_kernels(name, family, kind, short):
    found = decode(name)
    assert (found.family, found.kind, found.short) == (family, kind, short)
    assert found.name == name


def test_nvjet_fields():
    found = decode("nvjet_sm90_tst_128x192_64x5_4x1_v_bz_coopB_NTN")
    assert (found.arch, found.dtype, found.tile, found.stages) == ("sm90", "bf16", "128x192x64", 5)
    assert (found.cluster, found.layout, found.tensor_cores) == ("4x1", "ntn", True)
    assert found.notes == ("cooperative (B)",)


def test_cublas_and_cutlass_fields():
    found = decode("ampere_fp16_s16816gemm_fp16_64x64_sliced1x2_ldg8_f2f_stages_64x6_tn")
    assert (found.arch, found.dtype, found.tile, found.stages) == ("ampere", "fp16", "64x64", 6)
    assert (found.instruction, found.layout) == ("16x8x16", "tn")
    found = decode(CUTLASS.format("tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8"))
    assert (found.family, found.arch, found.dtype, found.stages) == ("cutlass", "sm80", "bf16", 6)
    found = decode(
        "cutlass3x_sm90_tensorop_s64x128x16gemm_f16_f16_f32_f16_f16_128x128x64_2x1x1_0_tnn_align8_warpspecialized"
    )
    assert (found.tile, found.cluster, found.stages, found.dtype) == ("128x128x64", "2x1x1", None, "fp16")


def test_what_runs_on_tensor_cores():
    assert decode("ampere_sgemm_128x64_tn").tensor_cores is False
    assert decode(CUTLASS.format("simt_sgemm_128x32_8x5_nn_align1")).tensor_cores is False
    tf32 = decode(CUTLASS.format("tensorop_s1688gemm_256x64_16x4_nn_align4"))
    assert (tf32.tensor_cores, tf32.dtype) == (True, "tf32")
    hopper = decode(
        "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x64x32_warpgroupsize1x1x1_execute_segment"
    )
    assert (hopper.tensor_cores, hopper.dtype, hopper.short) == (True, "tf32", "gemm tf32 64x64 tn")
    plain = decode("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x16_stage3_warpsize2x2x1_ff")
    assert (plain.tensor_cores, plain.dtype) == (False, "fp32")
    assert decode(ADD).tensor_cores is None
    assert decode(FLASH).tensor_cores is True
    # What sums up the parts of an attention multiplies nothing.
    assert decode(FLASH.replace("fwd_kernel", "fwd_splitkv_combine_kernel")).tensor_cores is None
    # A plain "gemm" says nothing of the units.
    assert decode("sm80_xmma_gemm_tn_n_tilesize32x32x16").tensor_cores is None
    complex_ = decode("sm80_xmma_gemm_cf32cf32_f32f32_cf32_nn_n_tilesize64x64x8_stage3_warpsize2x2x1_ffma")
    assert complex_.short == "gemm complex64 64x64 nn"
    assert complex_.tensor_cores is None  # "autocast" would not help
    assert decode(CUTLASS.format("tensorop_sgemm_128x32_8x5_nn_align1")).tensor_cores is True


def test_a_name_that_does_not_say_leaves_none():
    # cuDNN's attention names say "f16" for bf16 as well: 16 bits is all that they tell.
    assert decode(CUDNN_ATTENTION).dtype is None
    # Turing has no TF32: an fp32 GEMM on its 16x8x8 instruction says nothing about its inputs.
    assert decode("turing_s1688gemm_128x64_tn").dtype is None
    assert decode("nvjet_sm120_tst_mma_64x64x128_3_32x32x128_tmaAB_alignCD4_bz_TNNN").stages is None


def test_the_operators_of_a_triton_kernel():
    assert decode("triton_poi_fused__unsafe_view_gelu_mul_0").ops == ("_unsafe_view", "gelu", "mul")
    found = decode("triton_per_fused__softmax_native_layer_norm_backward_view_12")
    assert found.ops == ("_softmax", "native_layer_norm_backward", "view")
    assert "persistent" in found.notes[0]
    longest = "_native_batch_norm_legit_no_training"
    assert decode(f"triton_poi_fused_{longest}_relu_3").ops == (longest, "relu")


def test_short_names_of_other_events():
    assert short_name(ADD, "kernel") == "add bf16 vec8"
    assert short_name("aten::mm", "cpu_op") == "aten::mm"
    assert short_name("cudaLaunchKernel", "cuda_runtime") == "cudaLaunchKernel"
    assert (
        short_name("autograd::engine::evaluate_function: MulBackward0", "cpu_op") == "evaluate MulBackward0"
    )
    assert short_name("## Call CompiledFxGraph fdglgmd3lpajgits ##", "cpu_op") == "CompiledFxGraph fdglgmd3"
    assert short_name("torch/nn/modules/module.py(1747): _call_impl", "python_function") == "_call_impl"
    assert short_name("<built-in method linear of type object at 0x7f>", "python_function") == "linear"
    assert short_name("nn.Module: Linear_0", "python_function") == "Linear_0"


PIECES = st.sampled_from(
    ["void ", "at::native::", "<", ">", "(", ")", "{lambda(", ")#1}", ", ", "128x256", "_", "gemm", "s16816",
     "triton_", "fused", "nvjet_", "cutlass", "_Z", "12", "Cijk_", "MT1x2", "igemm_", "ncclKernel_", "Memcpy ",
     "multi_tensor_apply_kernel<", "elementwise_kernel<", "BinaryFunctor<", "::operator()", "(anonymous namespace)",
     "flash_fwd_kernel<", "_matmul_ogs_", "reduce_kernel<", "float", "TensorListMetadata<4>", " ", "-"]
)  # fmt: skip


@given(st.one_of(st.text(), st.lists(PIECES, max_size=40).map("".join)))
def test_any_text_is_decoded(name):
    found = decode(name)
    assert found.name == name
    assert len(found.short) <= LONGEST
    assert short_name(name, "cpu_op") or not name


@pytest.mark.parametrize("piece", [
    "<", "(", "{", "a", "_", "::", ", ", "1x", "9", "_Z1", "{lambda(", "at::native::BinaryFunctor<", "\x00"
])  # fmt: skip
@pytest.mark.parametrize(
    "prefix", ["", "void at::native::elementwise_kernel<128, ", "triton_poi_fused_", "_ZN"]
)
def test_no_more_than_the_limit_is_read(prefix, piece):
    huge = prefix + piece * (100_000 // len(piece))
    assert decode(huge).short == decode(huge[:LIMIT]).short


def test_a_mangled_convolution_still_says_what_it_does():
    name = (
        "_ZN17cutlass__5x_cudnn6KernelINS_4conv6kernel23ImplicitGemmConvolutionINS1_11threadblock22"
        "ImplicitGemmMultistageINS_4gemm9GemmShapeILi64ELi128ELi16EEENS4_52Conv2dWgradOutputGradientTileAccess"
        "IteratorOptimizedINS_11MatrixShapeILi64ELi16EEENS_10tfloat32_tENS6_4warp11MmaTensorOpINS7_ILi32ELi64"
    )
    found = decode(name)
    assert (found.short, found.kind, found.dtype) == ("conv wgrad tf32 64x128", "conv", "tf32")
    assert (found.tile, found.tensor_cores) == ("64x128x16", True)
    assert decode("_ZN7cutlass6KernelINS_4gemm9GemmShapeILi64ELi128ELi16EEEEE").kind != "conv"


def test_a_long_name_is_read_to_its_end():
    """5,000 characters of it are arguments of a template."""
    inner = "at::native::AUnaryFunctor<" + "std::array<float, 4>, " * 230 + "float>"
    name = f"void at::native::vectorized_elementwise_kernel<4, {inner}, std::array<char*, 2> >(int)"
    assert len(name) > 5000
    assert parse(name).path == ("at", "native", "vectorized_elementwise_kernel")
    assert parse(name).args[-1].strip() == "std::array<char*, 2>"


def test_convolutions_on_plain_units():
    assert decode("void wgrad2d_c1_k1_nhwc_kernel<float>(int)").tensor_cores is False
    assert decode("void implicit_convolve_sgemm<float, 128>(int)").tensor_cores is False


def test_names_of_slices(tmp_path):
    trace = trace_of(tmp_path, cpu("a", 0, 1), cpu("b", 5, 1), cpu("a", 9, 1))
    assert short_names(trace, np.array([2, -1, 0, 1])) == ["a", "", "a", "b"]
    assert short_names(trace, np.zeros(0, np.int64)) == []
    assert short_names(trace, np.array([-1])) == [""]


def test_what_differs():
    assert differences(["f<float, 4>", "f<half, 4>"]) == ["float", "half"]
    assert differences(["f<float, 4>", "f<half, 8>", "f<half, 4>"]) == ["float 4", "half 8", "half 4"]
    assert differences(["f a b", "f b", "f b c"]) == ["a", "", "c"]
    assert differences(["f a", "f a "]) == ["#1", "#2"]
    assert differences(["f x x y", "f x x z"]) == ["y", "z"]
    long = "w" * 40
    assert differences([long + "1 a", long + "2 a"]) == ["#1", "#2"]  # alike where they are cut
    assert differences(["x" * 10 + " " + long, "y"]) == ["xxxxxxxxxx wwwwwwwwwwww…", "y"]
    assert told_apart(["k", "k", "k", "l"], ["k 1", "k 2", "k 1", "l 1"], [0, 0, 0, 0]) == [
        "k · 1", "k · 2", "k · 1", "l"
    ]  # fmt: skip
    assert told_apart(["k", "k"], ["k 1", "k 2"], [0, 1]) == ["k", "k"]
    assert told_apart(["k", "k", "k"], ["k", "k 2", "k 3"], [0, 0, 0]) == ["k", "k · 2", "k · 3"]


def test_bars():
    assert [bar(share, 2) for share in (-1, 0, 0.001, 0.25, 0.5, 0.5625, 1, 2)] == [
        "  ", "  ", "▏ ", "▌ ", "█ ", "█▏", "██", "██"
    ]  # fmt: skip


def test_columns_line_up_by_cells():
    lines = columns([["a", ("计", "dim")], ["bcd", "e"]], "<>")
    assert ["".join(text for text, _ in line) for line in lines] == ["  a    计", "  bcd   e"]
    assert lines[0][3] == ("计", "dim")
    assert columns([], "<") == []


def some(*widths: int, drop: tuple[int, ...]) -> list[Column]:
    return [Column(str(n), width=w, drop=d) for n, (w, d) in enumerate(zip(widths, drop, strict=True))]


def test_which_columns_fit():
    shown = some(0, 10, 5, 8, drop=(0, 1, 3, 2))

    def at(width: int, minimum: int = 0) -> list[tuple[str, int]]:
        return [(column.key, cells) for column, cells in fit(shown, width, minimum)]

    assert at(45, 16) == [("0", 16), ("1", 10), ("2", 5), ("3", 8)]
    assert at(44, 16) == [("0", 22), ("1", 10), ("3", 8)]
    assert at(38, 16) == [("0", 16), ("1", 10), ("3", 8)]
    assert at(37, 16) == [("0", 18), ("1", 10), ("2", 5)]  # the narrow one comes back for the wide one
    assert at(34, 16) == [("0", 22), ("1", 10)]
    assert at(10, 16) == [("0", 10)]
    assert at(100) == [("0", 71), ("1", 10), ("2", 5), ("3", 8)]
    assert at(60)[0] == ("0", 31)
    assert [cells for _, cells in fit(some(4, 6, drop=(0, 1)), 12)] == [4, 6]
    assert [cells for _, cells in fit(some(4, 6, drop=(0, 1)), 11)] == [4]


def test_where_there_is_plenty_texts_are_shown_in_full():
    columns = [
        Column("time", width=10), Column("in", width=26, right=False), Column("op", width=20, right=False),
        Column("name", right=False)
    ]  # fmt: skip

    def at(width: int) -> list[int]:
        return [cells for _, cells in fit(columns, width)]

    assert at(110) == [10, 26, 20, 48]
    assert at(111) == [10, 26, 20, 49]
    assert at(120) == [10, 31, 25, 48]
    assert at(200) == [10, 52, 40, 92]  # no more than twice
    assert [cells for _, cells in fit(columns[:3], 200)] == [10, 26, 20]


def test_the_next_column_to_sort_by():
    values = [lambda: np.zeros(1), None, lambda: np.zeros(1), lambda: np.zeros(1)]
    shown = [Column(key, values=value) for key, value in zip("abcd", values, strict=True)]

    def after(current: str | None, step: int) -> str:
        return next_sort(shown, current, step).key

    assert [after(key, 1) for key in ("a", "c", "d", "b", None)] == ["c", "d", "a", "a", "a"]
    assert [after(key, -1) for key in ("a", "c", "d", None)] == ["d", "a", "c", "d"]
    assert next_sort(shown[1:2], None, 1) is None


def test_the_cursor_stays_in_view():
    for top, cursor, height, rows, expected in (
        (0, 0, 5, 10, 0), (0, 4, 5, 10, 0), (0, 5, 5, 10, 1), (3, 2, 5, 10, 2), (3, 3, 5, 10, 3),
        (9, 9, 5, 10, 5), (4, 6, 5, 6, 1), (0, 2, 5, 3, 0), (3, 3, 0, 9, 0), (0, 9, 1, 10, 9),
    ):  # fmt: skip
        assert scrolled(top, cursor, height, rows) == expected, (top, cursor, height, rows)


def test_what_differs_in_mangled_names():
    """The letters of a mangled name say nothing: its words as C++ do, if there are any."""
    assert differences([f"_ZN3lib6kernelILi{n}EEEvv" for n in (4, 8)]) == ["4", "8"]


@pytest.mark.parametrize(("shapes", "told"), [
    ("[[4, 256, 512], [512], [], []]", "4x256x512, 512"),
    ("[[1024], [], [8, 8]]", "1024, [], 8x8"),
    ("[[], [2, 3]]", "[], 2x3"),
    ("[[[2, 3], [4]], []]", "[2x3, 4]"),  # a list of tensors
    ("[[]]", ""),
    ("[]", ""),
    ("", ""),
    ("[[4, 256, [512", "[[4, 256, [512"),
])  # fmt: skip
def test_shapes_for_the_screen(shapes, told):
    assert brief_shapes(shapes) == told


@pytest.mark.parametrize(
    ("name", "short", "kind"),
    [
        ("sdsc_bmm_2 Cmpt Exec", "sdsc_bmm_2 Cmpt Exec", "other"),
        ("layer norm backward", "layer norm backward", "norm"),
        ("Transpose copy", "Transpose copy", "copy"),
        ("void layer norm", "layer norm", "norm"),
        ("Exec (core 3)", "Exec (core 3)", "other"),
        # A return type stands before a parameter list, template arguments or a namespace.
        ("unsigned int scale<3>(int*)", "scale", "other"),
        ("float4 lib::scale", "scale", "other"),
    ],
)
def test_a_name_of_several_words_is_whole(name, short, kind):
    assert (decode(name).short, decode(name).kind) == (short, kind)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cudnn_bn_fw_tr_1C11_singleread", "norm"),
        ("cudnn_pooling_fw_4d_kernel", "other"),
        ("cudnn_softmax_fw_kernel", "softmax"),
        ("cudnn_lrn_fwd", "other"),
        ("cudnn_infer_ampere_scudnn_128x32_relu_small_nn_v1", "conv"),
        ("volta_fp16_s884cudnn_fp16_256x64_ldg8_relu_f2f_exp_interior_nhwc_tn_v1", "conv"),
    ],
)
def test_not_all_of_cudnn_is_a_convolution(name, kind):
    assert (decode(name).family, decode(name).kind) == ("cudnn", kind)
