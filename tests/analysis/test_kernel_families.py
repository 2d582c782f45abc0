"""Names of the libraries that serve and train models: real ones, from public traces, benchmarks and sources."""

# ruff: noqa: E501 (kernel names are long)

import sys
import time
from importlib.util import find_spec

import pytest

from tracetui.analysis.names import cxx
from tracetui.analysis.names.communication import is_communication
from tracetui.analysis.names.kernel_names import LONGEST, decode
from tracetui.analysis.names.letters import letters
from tracetui.analysis.names.model import NAMESPACES
from tracetui.words.texts import sections

needs_demangler = pytest.mark.skipif(
    find_spec("demangle") is None, reason="the demangler is not installed: it has no version for Python 3.10"
)

# A trace of SGLang on a B200 (Ring-2.5-1T); Kineto leaves names of more than 1,024 characters mangled.
SM100_FP8 = (
    "_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalIN4cute5tupleIJiiiiEEENS1_10collective13CollectiveMmaINS1"
    "_35MainloopSm100TmaUmmaWarpSpecializedILi13ELi2ELi4ENS5_IJNS4_1CILi1EEENSA_ILi4EEESB_EEEEENS5_IJNSA_ILi64EEESF_NSA"
    "_ILi128EEEEEENS_12float_e4m3_tENS5_IJlSB_lEEESI_SJ_NS4_8TiledMMAINS4_8MMA_AtomIJNS4_10MMA_TraitsINS4_19SM100_MMA_F"
    "8F6F4_SSEJSI_SI_fSF_SF_NS4_17integral_constantINS4_4UMMA5MajorELSQ_0EEESR_NSO_INSP_7ScaleInELSS_0EEEST_EEEEEENS4_6"
    "LayoutINS5_IJSB_SB_SB_EEENS5_IJNSA_ILi0EEESY_SY_EEEEENS5_IJNS4_10UnderscoreES11_S11_EEEEENS4_23SM90_TMA_LOAD_MULTI"
    "CASTENS4_14ComposedLayoutINS4_7SwizzleILi3ELi4ELi3EEENS4_18smem_ptr_flag_bitsILi8EEENSW_INS5_IJNSA_ILi8EEESG_EEENS"
    "5_IJSG_SB_EEEEEEEvNS4_8identityENS4_13SM90_TMA_LOADES1E_vS1F_EENS_8epilogue10collective18CollectiveEpilogueINS1I_2"
    "3Sm100TmaWarpSpecializedILi1ELi1ELi32ELb0ELb1EEEJSH_NS5_IJNSW_ISF_SB_EES1N_EEEvSJ_NS_10bfloat16_tESJ_NS1I_6fusion1"
    "5Sm90TreeVisitorINS1Q_11Sm90ComputeINS_10multipliesES1P_fLNS_15FloatRoundStyleE2EvEEJNS1Q_16Sm90ColBroadcastILi0ES"
    "H_ffNS5_IJSB_SY_SY_EEELi4ELb1EEENS1R_INS1S_IS1T_ffLS1U_2EvEEJNS1Q_16Sm90RowBroadcastILi0ESH_ffNS5_IJSY_SB_SY_EEELi"
    "4ELb1EEENS1Q_12Sm90AccFetchEEEEEEENS4_5SM1004TMEM4LOAD26SM100_TMEM_LOAD_16dp256b8xES1G_NS15_IS17_NS18_ILi16EEENSW_"
    "INS5_IJS1A_SF_EEENS5_IJSF_SB_EEEEEEENS4_17SM75_U32x4_LDSM_NENS4_14SM90_TMA_STOREES2E_NS4_17SM90_U32x4_STSM_NENS4_3"
    "9AutoVectorizingCopyWithAssumedAlignmentILi128EEEEEEvvEEEEvNT_6ParamsE"
)
# vLLM's wrapper in PTX (a PyTorch blog on FP8 GEMMs with TMA); and in an issue of vLLM on an H100.
VLLM_INT8 = (
    "_ZN7cutlass13device_kernelIN49_GLOBAL__N__8bf0e19b_16_scaled_mm_c3x_cu_2bec3df915cutlass_3x_gemmIaNS_6half_tENS1_14"
    "ScaledEpilogueEN4cute5tupleIJNS5_1CILi64EEENS7_ILi128EEES9_EEENS6_IJNS7_ILi2EEENS7_ILi1EEESC_EEENS_4gemm32KernelTma"
    "WarpSpecializedPingpongENS_8epilogue18TmaWarpSpecializedEE10GemmKernelEEEvNT_6ParamsE"
)
VLLM_FP8 = (
    "void cutlass::device_kernel<vllm::cutlass_3x_gemm_sm90_fp8<cutlass::float_e4m3_t, cutlass::bfloat16_t, vllm::c3x::"
    "ScaledEpilogue, cute::tuple<cute::C<64>, cute::C<128>, cute::C<128> >, cute::tuple<cute::C<2>, cute::C<1>, cute::C"
    "<1> >, cutlass::gemm::KernelTmaWarpSpecializedPingpongFP8FastAccum, cutlass::epilogue::TmaWarpSpecialized, false>::"
    "GemmKernel>(vllm::cutlass_3x_gemm_sm90_fp8<cutlass::float_e4m3_t>::GemmKernel::Params)"
)
VLLM_BLOCKWISE = (
    "void cutlass::device_kernel<vllm::cutlass_3x_gemm_fp8_blockwise<cutlass::bfloat16_t, 128, 1, 128, cute::tuple<cute::"
    "C<128>, cute::C<32>, cute::C<128> >, cute::tuple<cute::C<1>, cute::C<1>, cute::C<1> >, EpilogueScheduleAuto, "
    "KernelTmaWarpSpecializedBlockwiseCooperativeSm120, true>::GemmKernel>(int)"
)
# FlashAttention 3 and DeepGEMM as SGLang's profile tools list them; DeepEP beside them.
FLASH3 = (
    "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2, "
    "cute::tuple<cute::C<1>, cute::C<1>, cute::C<1> >, cute::tuple<cute::C<128>, cute::C<128>, cute::C<192> >, 128, "
    "cutlass::bfloat16_t, float, cutlass::arch::Sm90, true, false, false, true>, flash::CollectiveEpilogueFwd<cute::tuple"
    "<cute::C<128>, cute::C<128>, cute::C<128> > > > > >(int)"
)
DEEP_GEMM = "void deep_gemm::fp8_gemm_kernel<{}u, {}u, 128u, 160u, 128u, 0u, 64u, 9u, 4u, 128u, 128u, 1u, true, (deep_gemm::GemmType){}>(__nv_bfloat16*, float*)"
# TraceLens's tests: a vLLM trace on an MI300.
CK_ABSCALE = (
    "void ck::kernel_gemm_xdl_cshuffle_v3<ck::GridwiseGemmMultiD_ABScale_xdl_cshuffle_v3<ck::tensor_layout::gemm::RowMajor, "
    "ck::tensor_layout::gemm::ColumnMajor, ck::Tuple<>, ck::tensor_layout::gemm::RowMajor, ck::f8_fnuz_t, ck::f8_fnuz_t, "
    "float, float, ck::Tuple<>, unsigned short, ck::tensor_operation::element_wise::PassThrough, ck::tensor_operation::"
    "element_wise::PassThrough, ck::tensor_operation::element_wise::PassThrough, (ck::tensor_operation::device::"
    "GemmSpecialization)2, 256, 1, 128, 128, 16, 128, 256, 16, 16, 16, 16, 1, 2, ck::Sequence<16, 16, 1> >, true>(int)"
)
CK_MX = (  # LLVM IR of Composable Kernel's MXFP4 product
    "_ZN2ck27kernel_gemm_xdl_cshuffle_v3INS_30GridwiseGemmMX_xdl_cshuffle_v3INS_13tensor_layout4gemm8RowMajorENS3_11Column"
    "MajorES4_NS_9f4x2_pk_tENS_11e8m0_bexp_tES6_S7_fDF16_DF16_NS_16tensor_operation12element_wise11PassThroughESA_SA_LNS8_"
    "6device18GemmSpecializationE0ELi32ELi256ELi128ELi256ELi256ELi32ELi32ELi16ELi16ELi4ELi8ENS_8SequenceIJLi8ELi32ELi1EEEE"
    "NSD_IJLi1ELi0ELi2EEEESF_Li2ELi32ELi32ELb0ELi0ESE_SF_SF_Li2ELi32ELi32ELb0ELi0ELi2ELi2ENSD_IJLi1ELi32ELi1ELi8EEEELi8ELN"
    "S_26BlockGemmPipelineSchedulerE0ELNS_24BlockGemmPipelineVersionE2ES6_S6_Lb0ELb0EEELb1ELNS_25InMemoryDataOperationEnum"
    "E0ELi1ELNS_10TailNumberE1EEEvNT_8ArgumentE"
)
CK_CONV = (  # TraceLens: ResNet on an MI300; what follows the gridwise template is left out
    "_ZN2ck16tensor_operation6device12_GLOBAL__N_139kernel_grouped_conv_fwd_xdl_cshuffle_v3INS_28GridwiseGemm_xdl_cshuffle_v3"
    "INS_13tensor_layout4gemm8RowMajorENS6_11ColumnMajorES7_ttfttNS0_12element_wise11PassThroughESA_SA_LNS1_18GemmSpecializat"
    "ionE7ELi128ELi16ELi32ELi64ELi8ELi8ELi16ELi16ELi1ELi1EEEEEvT_"
)
CK_WGRAD = (  # TraceLens: ResNet on an MI300; cut, as it is long
    "void ck::tensor_operation::device::kernel_batched_gemm_xdlops_bwd_weight<ck::GridwiseGemm_bk0mk1_bk0nk1_mn_xdlops_bwd_"
    "weight<64, unsigned short, unsigned short, float, unsigned short, (ck::InMemoryDataOperationEnum)1> >(int)"
)
FLASHINFER_PREFILL = (  # SGLang on a B200
    "void flashinfer::BatchPrefillWithPagedKVCacheKernel<flashinfer::KernelTraits<(flashinfer::MaskMode)0, 16u, 1u, 4u, 4u, "
    "4u, 1u, 4u, (flashinfer::PosEncodingMode)0, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float, int, flashinfer::"
    "DefaultAttention<false, false, false, false> >, PagedParams>(PagedParams)"
)
FLASHINFER_DSL = (  # CUTLASS 4 in FlashInfer, SGLang on a B200
    "kernel_cutlass_kernel_flashinfernormkernelsfused_add_rmsnormFusedAddRMSNormKernel_object_at__tensorptrbf16gmemalign128"
    "o819281921_tensorptrbf16gmemalign128o819281921_tensorptrbf16gmemalign_0"
)
TRTLLM_ALLREDUCE = (  # FlashInfer's copy of TensorRT-LLM's all-reduce, SGLang on a B200
    "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<(flashinfer::trtllm_allreduce_fusion"
    "::AllReduceFusionPattern)1, __nv_bfloat16, 8, false, false>(flashinfer::trtllm_allreduce_fusion::AllReduceFusionParams"
    "<__nv_bfloat16>)"
)
NAMES = [
    (VLLM_FP8, "cutlass", "gemm", "gemm fp8 64x128x128 c2x1 pingpong"),
    (VLLM_BLOCKWISE, "cutlass", "gemm", "gemm fp8 128x32x128 coop"),
    (FLASH3, "flash", "attention", "flash3 fwd bf16 d192 128x128"),
    (DEEP_GEMM.format(4096, 7168, 1), "deep_gemm", "gemm", "fp8 gemm n4096 k7168 128x160 grouped"),
    (DEEP_GEMM.format(7168, 2048, 2), "deep_gemm", "gemm", "fp8 gemm n7168 k2048 128x160 masked"),
    # TraceLens' rule for this name: N and K are the second and the third number.
    (
        "void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 2112u, 7168u, 1u, 64u, 128u, 128u, 128u>(float*)",
        "deep_gemm",
        "gemm",
        "sm90 fp8 gemm 1d2d n2112 k7168 64x128",
    ),
    (  # of the types, the last is that of the result
        "void deep_gemm::sm100_fp8_gemm_1d1d_impl<(cute::UMMA::Major)0, (cute::UMMA::Major)0, 0u, 4096u, cutlass::bfloat16_t>(int*)",
        "deep_gemm",
        "gemm",
        "sm100 fp8 gemm 1d1d",
    ),
    (  # CUTLASS's block-scaled products: the type of the scales, an x, that of the elements
        "cutlass3x_sm100_bstensorop_s256x192x64gemm_block_scaled_ue4m3xe2m1_ue4m3xe2m1_f32_bf16_bf16_256x192x256_0x0x1_0_tnn_align32_2sm",
        "cutlass",
        "gemm",
        "gemm fp4 256x192 tnn",
    ),
    (
        "cutlass3x_sm100_bstensorop_s128x128x32gemm_block_scaled_ue8m0xe3m2_ue8m0xe3m2_f32_void_f32_128x128x128_1x1x1_0_tnt_align16",
        "cutlass",
        "gemm",
        "gemm fp6 128x128 tnt",
    ),
    # vLLM: the type of the indices stands before that of the logits; 16 bits of either type.
    ("void vllm::moe::topkGatingSoftmax<4, 128, 4, 16, 32, int, float>(float const*)", "vllm", "softmax", "topkGatingSoftmax fp32"),
    ("void vllm::paged_attention_v2_kernel<unsigned short, unsigned char, 128, 16, 128>(float*)", "vllm", "attention", "paged_attention_v2"),
    # SGLang's attention in Triton, for decoding.
    ("_fwd_grouped_kernel_stage1", "other", "attention", "fwd_grouped_kernel_stage1"),
    ("_fwd_kernel_stage2", "other", "attention", "fwd_kernel_stage2"),
    (CK_ABSCALE, "ck", "gemm", "ck gemm fp8 16x128"),
    (CK_WGRAD, "ck", "conv", "ck conv wgrad bf16"),
    (FLASHINFER_PREFILL, "flashinfer", "attention", "flashinfer prefill paged bf16"),
    (FLASHINFER_DSL, "cutlass", "norm", "FusedAddRMSNorm bf16"),
    (
        "kernel_cutlass_kernel_flash_attncuteflash_fwd_sm100FlashAttentionForwardSm100_object_at__tensor0000o11101213",
        "cutlass",
        "attention",
        "FlashAttentionForwardSm100",
    ),
    ("void marlin_moe_wna16::Marlin<1125899906909960l, 562949953487106l, 128, 4>(int4 const*)", "marlin", "gemm", "moe gemm marlin"),
    (  # trtllm-gen, SGLang on a B200
        "bmm_Bfloat16_E4m3E4m3_Fp32_t128x8x128u2_s8_et64x8_m64x8x32_c1x1x1_rM_TN_transOut_noShfl_dsFp8_sm100f",
        "tensorrt_llm",
        "gemm",
        "bmm fp8→bf16 128x8x128",
    ),
    (
        "fmhaSm100fKernel_QkvE4m3OBfloat16HQk576HV512PagedKvDenseP32MultiCtasKvVarSeqQ16Kv128StaticSwapsAbForGen",
        "tensorrt_llm",
        "attention",
        "fmha generation fp8 d576",
    ),
    ("void sgl_hip::activation::act_and_mul_kernel<__hip_bfloat16, &(silu(float const&))>(int)", "sglang", "elementwise", "act_and_mul silu bf16"),
    ("void flashinfer::norm::FusedAddRMSNormKernel<8u, __half>(__half*)", "flashinfer", "norm", "FusedAddRMSNorm fp16"),
    ("void transformer_engine::normalization::rmsnorm_fwd_general_kernel<transformer_engine::normalization::Kernel_traits<__nv_bfloat16, float> >(int)", "transformer_engine", "norm", "rmsnorm_fwd_general bf16"),
    # A functor among the arguments says more than "apply": the last argument of the last one.
    ("void lib::apply<int, 256, lib::Broadcast<float, at::native::BinaryFunctor<float, float, float, lib::MulFunctor<float> > > >(int)", "other", "other", "mul fp32"),
    ("void rocprim::ROCPRIM_400000_NS::detail::trampoline_kernel<rocprim::ROCPRIM_400000_NS::detail::target_config<1>, rocprim::ROCPRIM_400000_NS::detail::reduce_impl<true> >(int)", "rocprim", "reduction", "rocprim reduce"),
    ("fused_moe_kernel", "other", "gemm", "fused_moe"),
    ("_w8a8_block_fp8_matmul", "other", "gemm", "w8a8_block_fp8_matmul"),  # SGLang's, in Triton
    ("matmul_kernel", "other", "gemm", "matmul"),  # the tutorial of Triton
    ("_scaled_mm_kernel", "other", "gemm", "scaled_mm"),
    (
        "std::enable_if<(((8)>(0)))&&_typeConvert<c10::BFloat16>::exists, void>::type vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*)",
        "vllm",
        "norm",
        "fused_add_rms_norm bf16",
    ),
    # NCCL from 2.27 on, its symmetric kernels
    ("ncclSymDevKernel_AllReduce_RSxLD_AGxST_sum_bf16(ncclSymDevArgs)", "nccl", "collective", "nccl AllReduce bf16 RSxLD_AGxST"),
    ("ncclSymkDevKernel_AllGather_STMC(ncclSymkDevWorkArgs4K)", "nccl", "collective", "nccl AllGather STMC"),
    # vLLM and ATOM on MI300 and MI355; the names of AMD's kernel descriptors end in ".kd"
    ("kernel_paged_attention_2d.kd", "other", "attention", "paged_attention_2d"),
    ("Custom_Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT64x16x64_MI16x16x1_SN_LDSB0", "rocm", "gemm", "gemm bf16 64x16 tn"),
    ("void ck_tile::kentry<2, ck_tile::MoeFlatmmKernel<ck_tile::GemmSpatiallyLocalTilePartitioner<1> > >(int)", "ck", "gemm", "moe_flatmm"),
    ("void ck_tile::kentry<256, 1, ck_tile::FmhaBwdDQDKDVKernel<ck_tile::bfloat16_t> >(int)", "ck", "attention", "ck fmha bwd dqdkdv bf16"),
    ("void wvSplitK_hf_sml_<__hip_bfloat16, 64, 1, 16, 8, 4, 4>(int)", "other", "gemm", "wvSplitK_hf_sml bf16"),
    # PyTorch 2.11 on an H200: _int_mm, a conversion to FP8, group_norm
    ("void cutlass::Kernel2<cutlass_80_wmma_tensorop_i161616gemm_s8_forwardCompat_128x128_32x2_nn_align4>(int)", "cutlass", "gemm", "gemm int8 128x128 nn"),
    ("void at::native::vectorized_elementwise_kernel<4, at::native::float8_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda(float)#1}, std::array<char*, 2ul> >(int)", "aten", "copy", "copy fp32→fp8 vec4"),
    ("void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<at::native::(anonymous namespace)::GroupNormKernelImplInternal<float>(at::Tensor const&)::{lambda(float)#1}>(int)>(int)", "aten", "elementwise", "group_norm fp32"),
    ("_causal_conv1d_update_kernel", "other", "conv", "causal_conv1d_update"),
    ("_chunk_scan_fwd_kernel", "other", "other", "chunk_scan_fwd"),
    ("void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)", "vllm", "other", "rotary_embedding bf16"),
    ("gemm_one_shot_all_reduce_kernel", "other", "gemm", "gemm_one_shot_all_reduce"),
]  # fmt: skip
MANGLED = [
    (SM100_FP8, "cutlass", "gemm", "gemm fp8 64x64x128 c1x4"),
    (VLLM_INT8, "cutlass", "gemm", "gemm int8 64x128x128 c2x1 pingpong"),
    (CK_MX, "ck", "gemm", "ck gemm fp4 128x256"),
    (CK_CONV, "ck", "conv", "ck conv fprop bf16 16x32"),
    # aiter: traces and sources of vLLM and ATOM on MI300 and MI355
    ("_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb1ELb0ELb1ELi1EEEvPT0_PT_PfS4_S4_S4_diiiiiiib", "aiter", "norm", "add_rmsnorm_quant bf16"),
    ("_ZN5aiter24add_rmsnorm_quant_kernelIDF16bEEvPT_.kd", "aiter", "norm", "add_rmsnorm_quant bf16"),
    ("_ZN5aiter33f4gemm_bf16_per1x32Fp4_tn_256x256E", "aiter", "gemm", "f4gemm_bf16_per1x32Fp4_tn_256x256"),
    ("_ZN5aiter32fmha_fwd_hd192_hd128_bf16_causalE", "aiter", "attention", "fmha_fwd_hd192_hd128_bf16_causal"),
    # rocPRIM: a failure report of TensorFlow on ROCm
    ("_ZN7rocprim6detail19block_reduce_kernelILj256ELj4ELb0EfNS_18transform_iteratorIPfN10tensorflow10squareHalfIfEEfEES3_fN6hipcub3SumEEEvT3_mT4_T5_T6_", "rocprim", "reduction", "rocprim block reduce"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "family", "kind", "short"), NAMES, ids=[row[3] for row in NAMES])
def test_names_of_libraries(name, family, kind, short):
    found = decode(name)
    assert (found.family, found.kind, found.short) == (family, kind, short)


@pytest.mark.parametrize(("base", "dtype"), [
    ("sm100_fp8_gemm_1d1d", "fp8"), ("sm100_fp8_fp4_gemm_1d1d", None), ("transpose", "bf16")
])  # fmt: skip
def test_the_type_of_a_result_is_not_that_of_the_operands(base, dtype):
    assert decode(f"void deep_gemm::{base}_impl<128u, cutlass::bfloat16_t>(int*)").dtype == dtype


@needs_demangler
@pytest.mark.parametrize(("name", "family", "kind", "short"), MANGLED, ids=[row[3] for row in MANGLED])
def test_mangled_names_of_libraries(name, family, kind, short):
    found = decode(name)
    assert (found.name, found.family, found.kind, found.short) == (name, family, kind, short)


def test_every_family_is_explained():
    shown = {row[1] for row in (*NAMES, *MANGLED)} | {decode(name).family for name in COMMUNICATING}
    unexplained = {"other"}  # follows no known convention
    assert (shown | set(NAMESPACES.values())) - set(sections("kernels")["families"].texts) == unexplained


def test_what_templates_say():
    found = decode(VLLM_FP8)
    assert (found.arch, found.dtype, found.tile, found.cluster) == ("sm90", "fp8", "64x128x128", "2x1x1")
    assert "fast FP8 accumulation" in found.notes
    found = decode(FLASH3)
    assert (found.arch, found.dtype, found.tile) == ("sm90", "bf16", "128x128")
    found = decode(DEEP_GEMM.format(4096, 7168, 1))
    assert (found.dtype, found.tile) == ("fp8", "128x160x128")
    found = decode(CK_ABSCALE)
    assert (found.dtype, found.tile, found.layout) == ("fp8", "16x128x256", "tn")
    found = decode(CK_WGRAD)  # its tile stands behind descriptors that this one lacks
    assert (found.tile, found.tensor_cores) == (None, True)


COMMUNICATING = [
    # NCCL, RCCL, MSCCL and their kind
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "rcclAllReduceRingKernel",
    "void mscclKernel_Sum_half_LL<false>(ncclDevComm*)",
    "nccl_ep_jit_ht_dispatch_kernel",  # NCCL's own expert parallelism, measured on B200s
    # DeepEP: SGLang's profile tools; and AMD's port
    "void deep_ep::internode::notify_dispatch<false, 4>(int const*, int*, int)",
    "void deep_ep::internode::cached_notify<false>(int, int, int, int, int*)",
    "void deep_ep::internode_ll::dispatch<true, 3, 10, 7168>(void*, float*, int*)",
    "void deep_ep::internode_ll::combine<3, 10, 7168, 9>(void*, void*, int*)",
    "void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*)",
    "void primus_turbo::deep_ep::intranode::notify_dispatch<8>(int const*)",
    "_ZN7deep_ep9intranode8dispatchILi8ELi768ELi8192EEEvP4int4Pf",
    # its relatives: DeepSeek's own traces, NVIDIA's hybrid EP, Mooncake, and one that nobody knows
    "void dpsk::ep::internode::combine<false, 8, __nv_bfloat16, 8, 2, 16, 24>(int4*, float*, bool const*)",
    "void dpsk::ep::internode::dispatch_ll<false, 8>(int4*, float*)",
    "void hybrid_ep::dispatch_kernel<hybrid_ep::inter_node_group<128>, 4>(hybrid_ep::dispatch_param_t)",
    "void hybrid_ep::device_sync_kernel(unsigned int*)",
    "void mooncake::combine<true, 3, 10, 7168>(void*, void*)",
    "void lab::internode_ll::dispatch<true>(void*)",
    "all reduce sum DmaI",  # of a compiler that names kernels in words
    # custom all-reduces: vLLM, SGLang, aiter, AMD's quick reduce, FlashInfer, TensorRT-LLM
    "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*, vllm::RankSignals, vllm::Signal*)",
    "void sglang::cross_device_reduce_2stage<__nv_bfloat16, 8>(sglang::RankData*)",
    "void (anonymous namespace)::all_reduce_one_shot_push_kernel<__nv_bfloat16, 8u, true>((anonymous namespace)::AllReducePushData)",
    "void aiter::reduce_scatter_cross_device_store<__hip_bfloat16, 8>(int)",
    "void quickreduce::allreduce_prototype_twoshot<quickreduce::AllReduceTwoshot<__half>, __half>(int)",
    TRTLLM_ALLREDUCE,
    "void flashinfer::trtllm_mnnvl_allreduce::rmsNormLamport<__nv_bfloat16>(int)",  # waits for the ranks' data
    "void tensorrt_llm::kernels::oneShotAllReduceKernel<__half, 8, true, true>(tensorrt_llm::kernels::AllReduceParams)",
    "void tensorrt_llm::kernels::moe_comm::moeAllToAllKernel(int)",
    # PyTorch's symmetric memory (CUDASymmetricMemoryOps.cu), and its Triton examples
    "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*, unsigned long, unsigned int**)",
    "void (anonymous namespace)::two_shot_all_reduce_kernel<c10::BFloat16, 16, 8>(c10::BFloat16**)",
    "one_shot_all_reduce_kernel_optimized",
    # Transformer Engine's userbuffers, mori, NVSHMEM
    "userbuffers_fp16_sum_inplace_gpu_rw_ag",
    "EpDispatchInterNodeV1Kernel_fp8_fnuz",
    "EpCombineIntraNodeKernel_bf16_nop2p",
    "void barrier_on_stream_kernel_threadgroup<(threadgroup_t)2>(int)",
    "void aiter::allreduce_fusion_kernel_1stage<std::bfloat16_t, std::bfloat16_t, 4, true>(aiter::RankData)",
    "void moeA2ADispatchKernel<8, false>(int const*)",  # TensorRT-LLM
    "oneccl_allreduce_pcie",
]  # fmt: skip
LOCAL = [
    # the same words in kernels that stay on one device
    "void vllm::moe::moe_align_block_size_kernel<int>(int*, int)",
    "void moe_permute_kernel<__nv_bfloat16>(int)",
    "_combined_routing_compute",
    "void fastmoe::dispatch<float>(float const*)",
    "void tutel::dispatch_fwd<float>(float*)",
    "void flash::flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4> >(int)",
    "void cutlass::device_kernel<flash::FlashAttnFwdCombine<cute::tuple<cute::C<8>, cute::C<128> >, 6, 256> >(int)",
    "void finalizeMoeRoutingKernel<__nv_bfloat16>(int)",
    # beside an exchange: nothing is sent
    "void deep_ep::layout::get_dispatch_layout<256, 32, 8>(long const*)",
    "void dpsk::ep::layout::get_dispatch_layout<256, 32, 8>(long const*)",
    "void hybrid_ep::permute_kernel<128>(int*)",
    "void hybrid_ep::scan<512, 8>(bool const*)",
    "void sweep::dispatch<float>(float const*)",
    "tensorrt_llm::kernels::ar_fusion::lamport_initialize_kernel(float*, int)",
    "void nvshmemi_init_array_kernel<int>(int*, int, int)",
    # a product with the exchange fused in is mostly the product
    "gemm_one_shot_all_reduce_kernel",
    "lattice_collision_stream_kernel",
    # Inductor names what stood around its kernel
    "triton_poi_fused_all_reduce_wait_tensor_0",
    "triton_red_fused__to_copy_reduce_scatter_tensor_mean_3",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, x> >(int)",
    "void lib::scatter_reduce_kernel<float>(ncclComm*)",
    "",
]


@pytest.mark.parametrize("name", COMMUNICATING)
def test_communication_is_told_by_its_name(name):
    assert is_communication(name)
    assert decode(name).kind == "collective"


@pytest.mark.parametrize("name", LOCAL)
def test_what_only_sounds_like_communication_is_not(name):
    assert not is_communication(name)
    assert decode(name).kind != "collective"


def test_short_names_of_communication():
    shorts = [decode(name).short for name in COMMUNICATING]
    assert "deepep internode notify_dispatch" in shorts
    assert "deepep internode_ll combine" in shorts
    assert {"deepep internode combine", "hybrid_ep dispatch", "mooncake combine"} < set(shorts)
    assert "cross_device_reduce_1stage bf16" in shorts
    assert "multimem_all_reduce bf16" in shorts
    assert max(map(len, shorts)) <= LONGEST


@pytest.mark.parametrize(
    ("damaged"), [SM100_FP8[:900], SM100_FP8.replace("EEE", "EE", 1), "_Z", "_ZN", "_Z\x00", "_Z9"]
)
def test_a_mangled_name_that_cannot_be_read(damaged):
    found = decode(damaged)
    assert found.name == damaged
    assert found.family in ("cutlass", "other")


def test_the_outline_of_a_mangled_name(monkeypatch):
    """What Python 3.10 shows, for which the demangler has no version."""
    monkeypatch.setitem(sys.modules, "demangle", None)
    cxx.readable.cache_clear()
    try:
        assert (
            cxx.readable("_ZN5aiter32fmha_fwd_hd192_hd128_bf16_causalE")
            == "aiter::fmha_fwd_hd192_hd128_bf16_causal"
        )
        assert cxx.readable("_ZN3lib4normIDF16bLi256EEEvPT_") == "lib::norm<bfloat16_t, 256>"
        assert cxx.readable("_ZN9lib") == "_ZN9lib", "cut short"
        assert cxx.readable("_ZN3lib1fES_3bar") == "lib::f::bar"
        assert decode(SM100_FP8).family == "cutlass"
        assert (decode(SM100_FP8).kind, decode(SM100_FP8).dtype) == ("gemm", "fp8")
    finally:
        cxx.readable.cache_clear()


# Names that end the interpreter, or take minutes and gigabytes, with the demanglers of LLVM and libstdc++.
HOSTILE = {
    "pointers": "_Z1f" + "P" * 200_000 + "i",
    "templates": "_Z1f" + "1AI" * 100_000 + "i" + "E" * 100_000,
    "functions": "_Z1f" + "F" * 100_000,
    "doubling": "_Z1f1XIiiE" + "S_IS0_S0_E" + "".join(f"S_IS{n}_S{n}_E" for n in range(1, 10)) + "".join(f"S_IS{c}_S{c}_E" for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
    "lengths": "_Z" + "9" * 100_000,
    "expressions": "_Z1fIX" + "ng" * 50_000 + "Li1EEvv",
    "locals": "_ZZ" * 50_000,
    "constructors": "_Z1f" + "C1" * 4_000,
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_mangled_name_is_read_in_bounded_time(name):
    decode("_Z1fv")
    start = time.process_time()
    found = decode(name)
    assert time.process_time() - start < 2  # measured: 0.05 s
    assert len(found.short) <= LONGEST


def test_letters_of_cublas_and_cutlass():
    said = dict(letters(decode("nvjet_sm90_tst_64x8_64x16_1x4_h_bz_splitK_TNT")))
    assert said["64x8"] == "tile: 64 x 8 of the result at a time"
    assert said["64x16"] == "64 of K at a time, 16 stages in flight"
    assert said["1x4"] == "blocks work in clusters of 1 x 4"
    assert said["tst"].startswith("bf16 inputs, fp32 accumulation, bf16 result (not documented")
    fp8 = dict(letters(decode("nvjet_sm90_qqtst_128x128_128x6_2x1_v_bz_coopA_algo2_TNT")))
    assert fp8["qqtst"].startswith("fp8 inputs, fp32 accumulation, bf16 result")
    assert "h" not in said  # not documented, nor evident
    assert said["TNT"].startswith("A transposed, B as is, T not documented")
    name = "cutlass3x_sm90_tensorop_s64x128x16gemm_f16_f16_f32_f16_f16_128x128x64_2x1x1_0_tnn_align8_warpspecialized_pingpong"
    said = dict(letters(decode(name)))
    assert said["s64x128x16gemm"] == "fp32 accumulation, instruction 64x128x16"
    assert said["128x128x64"] == "tile: a block computes 128 x 128 of the result at a time, 64 of K at a time"
    assert said["2x1x1"] == "blocks work in clusters of 2 x 1"
    assert said["tnn"] == "A row-major, B column-major, C column-major"
    assert said["align8"] == "loads of 8 elements at a time: the operands' alignment"
    assert "multiply" in said["warpspecialized"]
    assert "take turns" in said["pingpong"]
    said = dict(letters(decode("ampere_fp16_s16816gemm_fp16_64x64_sliced1x2_ldg8_f2f_stages_64x6_tn")))
    assert said["64x6"] == "64 of K at a time, 6 stages in flight"
    assert said["sliced1x2"] == "K is divided among the warps of a block, 1 x 2"
    assert said["tn"].startswith("A transposed, B as is")
    assert "ldg8" not in said  # nobody documents it
    name = (
        "sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64_cga2x1x1_stage4"
    )
    assert dict(letters(decode(name)))["cga2x1x1"] == "blocks work in clusters of 2 x 1 x 1"
    said = dict(letters(decode("cutlass_tensorop_s16816fprop_optimized_f16_64x64_32x6_tn_align8")))
    assert said["32x6"] == "32 of K at a time, 6 stages in flight"
    assert "tn" not in said  # of a convolution they would be no matrices


def test_letters_of_tensile_and_nccl():
    name = "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT160x256x64_MI16x16x1_SN_GSU4_ISA942_PGR2_WGM1_WS64"
    said = dict(letters(decode(name)))
    assert said["BBS"] == "bf16 inputs, bf16 result, fp32 arithmetic"
    assert said["MT160x256x64"] == "tile: a work group computes 160 x 256 of the result, 64 of K at a time"
    assert said["MI16x16x1"] == "matrix instruction of 16 x 16"
    assert said["GSU4"] == "K is divided among 4 work groups (GlobalSplitU)"
    assert said["Alik"].startswith("A transposed")
    assert said["Bljk"].startswith("B as is")
    assert "WGM1" not in said
    said = dict(
        letters(decode("ncclDevKernel_AllReduce_Sum_bf16_TREE_LL128(ncclDevKernelArgsStorage<4096ul>)"))
    )
    assert set(said) == {"Sum", "TREE", "LL128"}


@pytest.mark.parametrize("name", [
    "nvjet_", "nvjet_x_1x1", "nvjet_sm120_hsh_mma_96x256x64_2_48x64x64_bz_TNNN", "Cijk_", "Cijk_Alik_Bljk_"
])  # fmt: skip
def test_letters_of_strange_names(name):
    assert all(part in name and meaning for part, meaning in letters(decode(name)))


def test_only_products_of_trtllm_gen_are_read_as_such():
    name = (
        "{}_Bfloat16_E4m3E4m3_Fp32_t128x8x128u2_s8_et64x8_m64x8x32_c1x1x1_rM_TN_transOut_noShfl_dsFp8_sm100f"
    )
    bmm, gemm, other = (decode(name.format(word)) for word in ("bmm", "gemm", "scan"))
    assert bmm.family == gemm.family != other.family
    assert bmm.kind == gemm.kind == "gemm" != other.kind


def test_the_type_of_an_attention_kernel_may_stand_far_behind():
    sizes = "cute::tuple<cute::C<128>, cute::C<128> >, " * 30
    name = f"void cutlass::device_kernel<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2, {sizes}cutlass::{{}}> > >(int)"
    assert decode(name.format("bfloat16_t")).dtype == "bf16"
    assert decode(name.format("half_t")).dtype == "fp16"


def test_what_a_main_loop_of_cutlass_says():
    name = (
        "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int, int>, "
        "cutlass::gemm::collective::CollectiveMma<cutlass::gemm::MainloopSm90TmaGmmaWarpSpecialized<7, cute::tuple<"
        "cute::C<2>, cute::C<1>, cute::C<1> >, cutlass::gemm::KernelTmaWarpSpecializedPingpong>, cute::tuple<cute::C"
        "<64>, cute::C<128>, cute::C<32> >, cutlass::bfloat16_t, cute::tuple<long, cute::C<1>, long> > > >(int)"
    )
    kernel = decode(name)
    assert (kernel.family, kernel.kind, kernel.dtype, kernel.arch) == ("cutlass", "gemm", "bf16", "sm90")
    assert (kernel.stages, kernel.cluster, kernel.tile) == (7, "2x1x1", "64x128x32")
    assert kernel.tensor_cores is True


@pytest.mark.parametrize(("name", "layout"), [
    ("cutlass_tensorop_bf16_s16816fprop_optimized_bf16_128x64_64x4_nhwc_align8", "nhwc"),
    ("cutlass_tensorop_bf16_s16816fprop_optimized_bf16_128x64_64x4_ncdhw_align8", "ncdhw"),
    ("ampere_scudnn_128x64_relu_interior_nn_v1", "nn")
])  # fmt: skip
def test_the_layout_of_a_convolution(name, layout):
    kernel = decode(name)
    assert (kernel.kind, kernel.layout) == ("conv", layout)


def test_a_name_that_is_cut_inside_its_template_arguments():
    cut = cxx.parse("lib::gemm<float, 2")
    assert (cut.path, cut.args) == (("lib", "gemm"), ("float", "2"))
    nameless = cxx.parse("<float, 2")
    assert (nameless.path, nameless.args) == ((), ("float", "2"))


@pytest.mark.parametrize(
    ("types", "dtype", "tile"), [("", None, None), (", cutlass::half_t", "fp16", "64x128x32")]
)
def test_a_main_loop_that_is_cut_short(types, dtype, tile):
    """Tile and type are read where both stand there."""
    name = (
        "void cutlass::device_kernel<cutlass::gemm::collective::CollectiveMma<"
        "cutlass::gemm::MainloopSm90TmaGmmaWarpSpecialized<7, cute::tuple<cute::C<2>, cute::C<1>, cute::C<1> > >, "
        f"cute::tuple<cute::C<64>, cute::C<128>, cute::C<32> >{types}> >(int)"
    )
    assert decode(name).dtype == dtype
    if tile:
        assert decode(name).tile == tile


def test_a_name_of_inductor_without_words() -> None:
    assert decode("triton_").short == "triton"
