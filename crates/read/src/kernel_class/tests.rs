use KernelClass::*;

use super::*;

const LLM: &str = include_str!("../../../../tests/fixtures/cupti/llm13.tsv");
const GRAPH: &str = include_str!("../../../../tests/fixtures/cupti/graph13.tsv");

fn class(name: &str) -> KernelClass {
    class_of(&kernel_name(name.as_bytes()))
}

fn recorded() -> Vec<&'static str> {
    let mut names: Vec<&str> = LLM
        .lines()
        .chain(GRAPH.lines())
        .filter_map(|line| line.strip_prefix("name\t")?.split('\t').nth(1))
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Of the recorded names, by hand: a part of the mangled name that tells what the kernel does.
const RECORDED: &[(&str, KernelClass)] = &[
    ("nvjet_sm90", Gemm),
    ("cutlass_80_simt_sgemm", Gemm),
    ("splitKreduce_kernel", Gemm),
    ("_flash_fprop_", Attention),
    ("fmha_cutlassF", Attention),
    ("flash_fwd_kernel", Attention),
    ("direct_copy_kernel_cuda", Copy),
    ("bfloat16_copy_kernel_cuda", Copy),
    ("CatArrayBatchedCopy", Copy),
    ("indexSelectSmallIndex", Copy),
    ("index_elementwise_kernel", Copy),
    ("vectorized_gather_kernel", Copy),
    ("FillFunctor", Fill),
    ("ArgMaxOps", Selection),
    ("MeanOps", Reduction),
    ("lean_reduction_kernel", Reduction),
    ("DeviceScan", Reduction),
    ("distribution_elementwise", Elementwise),
    ("elementwise_kernel", Elementwise),
];

#[test]
fn all_recorded_names_have_the_class_that_a_reader_gives_them() {
    let names = recorded();
    assert_eq!(names.len(), 64);
    for name in names {
        let (part, expected) =
            RECORDED.iter().find(|(part, _)| name.contains(part)).expect("a hand-made class");
        assert_eq!(class(name), *expected, "{part} in {name}");
        assert_eq!(classify(name, ""), *expected, "without a demangled name: {name}");
    }
}

/// Names of kernels of CUDA libraries, PyTorch, Triton, vLLM, SGLang, FlashInfer, TensorRT-LLM,
/// llama.cpp and communication libraries, as profilers show them.
const KNOWN: &[(&str, KernelClass)] = &[
    ("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_32x6_tn", Gemm),
    ("ampere_sgemm_128x64_tn", Gemm),
    ("volta_h884gemm_256x64_ldg8_tn", Gemm),
    ("turing_fp16_s1688gemm_fp16_64x64_sliced1x2_ldg8_f2f_tn", Gemm),
    (
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
        Gemm,
    ),
    ("sm80_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x32", Gemm),
    (
        "void gemv2T_kernel_val<int, int, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float, 128, 16, 4, 4, false, false, cublasGemvParamsEx<int> >(cublasGemvParamsEx<int>, float, float)",
        Gemm,
    ),
    (
        "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float, false, true, true, false, 7, false, cublasGemvParamsEx<int> >(cublasGemvParamsEx<int>)",
        Gemm,
    ),
    (
        "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_64x64_64x6_tn_align8>(cutlass_80_tensorop_bf16_s16816gemm_bf16_64x64_64x6_tn_align8::Params)",
        Gemm,
    ),
    (
        "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int, int>, cutlass::gemm::collective::CollectiveMma<cutlass::gemm::MainloopSm90TmaGmmaWarpSpecializedFP8<4> > > >(Params)",
        Gemm,
    ),
    (
        "void marlin::Marlin<__nv_bfloat16, 1, 256, 1, 8, 8, 4, true, 4, 8, false>(int4 const*, int4 const*)",
        Gemm,
    ),
    ("triton_tem_fused_addmm_0", Gemm),
    ("triton_mm_kernel", Gemm),
    ("_w8a8_block_fp8_matmul", Gemm),
    ("void mul_mat_vec_q<(ggml_type)12, 1>(void const*, void const*, float*)", Gemm),
    ("deep_gemm::fp8_gemm_kernel", Gemm),
    ("void cublasLt::splitKreduce_kernel<32, 16, int, float>(cublasSplitKParams<float>)", Gemm),
    (
        "void dot_kernel<float, 128, 0, cublasDotParams<cublasGemvTensor<float const>, float> >(cublasDotParams)",
        Gemm,
    ),
    (
        "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4> >(flash::Flash_fwd_params)",
        Attention,
    ),
    (
        "void flash::flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4>, 4, 1, true>(flash::Flash_fwd_params)",
        Attention,
    ),
    (
        "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2> > > >(flash::Params)",
        Attention,
    ),
    (
        "void vllm::paged_attention_v2_kernel<__nv_bfloat16, __nv_bfloat16, 128, 16, 128, 512>(float*, float*)",
        Attention,
    ),
    (
        "void vllm::paged_attention_v2_reduce_kernel<__nv_bfloat16, 128, 128, 512>(__nv_bfloat16*)",
        Attention,
    ),
    (
        "void flashinfer::BatchPrefillWithRaggedKVCacheKernel<flashinfer::KernelTraits<(flashinfer::MaskMode)1, 128u> >(flashinfer::Params)",
        Attention,
    ),
    (
        "void flashinfer::BatchDecodeWithPagedKVCacheKernel<(flashinfer::PosEncodingMode)0, 2u, 1u, 8u>(flashinfer::Params)",
        Attention,
    ),
    (
        "void flashinfer::PersistentVariableLengthMergeStatesKernel<8u, 16u, 8u, 4u>(float*)",
        Attention,
    ),
    (
        "fmhaSm100fKernel_QkvBfloat16OBfloat16H128PagedKvCausalP32VarSeqQ128Kv128PersistentContext",
        Attention,
    ),
    ("kernel_mha_attention_fwd", Attention),
    ("_fwd_kernel", Attention),
    ("_fwd_grouped_kernel_stage1", Attention),
    ("kernel_unified_attention_2d", Attention),
    ("_attn_fwd", Attention),
    ("triton_tem_fused_flex_attention_1", Attention),
    ("void flash_attn_ext_f16<128, 128, 16, 8, 4, 1, false>(char const*)", Attention),
    (
        "void flash_fwd_splitkv_mla_kernel<Flash_fwd_kernel_traits_mla<576, 64, 64, 8>, true>(Flash_fwd_mla_params)",
        Attention,
    ),
    ("void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>(c10::BFloat16*, c10::BFloat16 const*)", Norm),
    ("void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*)", Norm),
    ("void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*)", Norm),
    (
        "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float, false>(int, float)",
        Norm,
    ),
    (
        "void at::native::(anonymous namespace)::RowwiseMomentsCUDAKernel<float, float, false>(long, float)",
        Norm,
    ),
    (
        "void layer_norm::ln_fwd_kernel<layer_norm::Kernel_traits<float> >(layer_norm::FwdParams)",
        Norm,
    ),
    ("triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0", Norm),
    ("triton_per_fused_native_layer_norm_2", Norm),
    ("void rms_norm_f32<1024, false>(float const*, float*, int)", Norm),
    (
        "void at::native::batch_norm_transform_input_kernel<float, float, float, true, int>(at::GenericPackedTensorAccessor)",
        Norm,
    ),
    (
        "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false, false>(float*, float const*, int, int, int)",
        Softmax,
    ),
    (
        "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, float, float, float, at::native::(anonymous namespace)::SoftMaxForwardEpilogue>(float*, float const*, int)",
        Softmax,
    ),
    ("triton_per_fused__softmax_3", Softmax),
    ("void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*, c10::BFloat16*)", Rope),
    (
        "void flashinfer::BatchQKApplyRotaryPosIdsCosSinCacheKernel<true, 128u, 8u, 16u>(__nv_bfloat16*)",
        Rope,
    ),
    ("void rope_norm<true, false, float>(float const*, float*, int)", Rope),
    ("_triton_rope", Rope),
    ("void vllm::moe::topkGatingSoftmax<8, 128, 4, 16, int>(float const*)", Moe),
    ("fused_moe_kernel", Moe),
    ("void vllm::moe::moe_align_block_size_kernel<int>(int*)", Moe),
    (
        "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::GroupProblemShape<cute::tuple<int, int, int> > > >(Params)",
        Moe,
    ),
    ("moe_sum_reduce_warp_per_token_vec_kernel", Moe),
    (
        "void tensorrt_llm::kernels::cutlass_kernels::expandInputRowsKernel<__nv_bfloat16>(void)",
        Other,
    ),
    (
        "bmm_E4m3_E4m3_Fp32_bA16_bB16_bC16_t128x8x512_s7_et128x8_m128x8x32_cga1x1x1_16dp256b_TN_transOut_schedS_bN_dsFp8_dynBatch_sm100f",
        Gemm,
    ),
    ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", Communication),
    ("ncclKernel_AllGather_RING_LL_Sum_int8_t", Communication),
    ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)", Communication),
    (
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<(AllReduceFusionPattern)1>(AllReduceFusionParams)",
        Communication,
    ),
    ("void deep_ep::internode_ll::dispatch<true, 3, 10, 7168>(void*)", Communication),
    ("multimem_all_reduce_kernel", Communication),
    ("void multimem_one_shot_reduce_kernel<c10::BFloat16, 16, 8>()", Communication),
    ("void c10d::symmetric_memory::two_shot_all_reduce_kernel<c10::BFloat16, 8>()", Communication),
    ("one_shot_all_reduce_kernel", Communication),
    ("void vllm::cross_device_reduce_2stage<half, 8>(vllm::RankData*)", Communication),
    ("nvshmemi_transfer_rma_nbi", Communication),
    ("void deep_ep::intranode::combine<__nv_bfloat16, 8, 768>(void*)", Communication),
    (
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<1>()",
        Communication,
    ),
    ("void tensorrt_llm::kernels::oneShotAllReduceKernel<__nv_bfloat16, 8>()", Communication),
    (
        "void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>(at::cuda::detail::TensorInfo<float const, unsigned int>)",
        Selection,
    ),
    (
        "void at::native::radixSortKVInPlace<2, -1, 32, 4, float, long, unsigned int>(at::cuda::detail::TensorInfo<float, unsigned int>)",
        Selection,
    ),
    (
        "void at_cuda_detail::cub::DeviceRadixSortOnesweepKernel<at_cuda_detail::cub::DeviceRadixSortPolicy<float, long, int> >(int*)",
        Selection,
    ),
    ("void flashinfer::sampling::TopKTopPSamplingFromProbKernel<1024u, true>(float*)", Selection),
    (
        "void at::native::(anonymous namespace)::sampleMultinomialOnce<float, float>(long*, long, int)",
        Selection,
    ),
    (
        "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16>(__nv_bfloat16 const*)",
        Copy,
    ),
    (
        "void at::native::(anonymous namespace)::indexSelectLargeIndex<float, long, unsigned int, 2, 2, -2, true>(at::cuda::detail::TensorInfo)",
        Copy,
    ),
    (
        "void at::native::_scatter_gather_elementwise_kernel<128, 4, at::native::_cuda_scatter_gather_internal_kernel<false> >(int)",
        Copy,
    ),
    ("triton_poi_fused_embedding_0", Copy),
    (
        "void at::native::tensor_kernel_scan_innermost_dim<float, std::plus<float> >(float*)",
        Reduction,
    ),
    (
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t<float, at::native::sum_functor<float> > > >(float)",
        Reduction,
    ),
    ("triton_poi_fused_mul_silu_1", Elementwise),
    (
        "void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel<c10::BFloat16>, true>(c10::BFloat16*)",
        Elementwise,
    ),
    ("_fused_swiglu_kernel", Elementwise),
    (
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::TensorListMetadata<2> >(void)",
        Elementwise,
    ),
    ("void vllm::dynamic_per_token_scaled_fp8_quant_kernel<c10::BFloat16>(float*)", Quantization),
    (
        "void selective_scan_fwd_kernel<Selective_Scan_fwd_kernel_traits<128, 16, 1> >(SSMParamsBase)",
        Scan,
    ),
    ("_chunk_scan_fwd_kernel", Scan),
    (
        "void at::<unnamed>::indexSelectSmallIndex<c10::BFloat16, long, unsigned int, 2, 2, (int)-2>(cuda::TensorInfo<T1, T3>)",
        Copy,
    ),
    (
        "void <unnamed>::elementwise_kernel_with_index<int, at::arange_cuda_out>(T1, T2)",
        Elementwise,
    ),
    ("[CUDA memset]", Fill),
    ("[CUDA memcpy DtoH]", Copy),
    ("my_property_kernel", Other),
    ("europe", Other),
    ("normal_kernel", Other),
    ("k", Other),
    ("", Other),
];

#[test]
fn names_of_other_frameworks_are_recognised() {
    assert!(KNOWN.len() >= 60);
    let wrong: Vec<String> = KNOWN
        .iter()
        .filter(|(name, expected)| class(name) != *expected)
        .map(|(name, expected)| format!("{expected:?}, found {:?}: {name}", classify(name, name)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_ncu_may_not_replay_and_what_is_called_communication_are_the_same_kernels() {
    let recorded = recorded().into_iter().map(|name| (name, class(name)));
    for (name, class) in KNOWN.iter().copied().chain(recorded) {
        let operation = crate::trace::operation::of_kernel(name.as_bytes());
        assert_eq!(operation.is_some(), class == Communication, "{name}: {operation:?}");
    }
}

#[test]
fn words_end_where_a_reader_ends_them() {
    for (name, expected) in [
        ("CatArrayBatchedCopy", " cat array batched copy "),
        ("FusedAddRMSNormKernel", " fused add rms norm kernel "),
        ("nvjet_sm90_tst_64x8", " nvjet sm90 tst 64x8 "),
        ("a::b<c>(d)", " a b c d "),
        ("größe", " gr e "),
        ("", "  "),
    ] {
        assert_eq!(words(name).replace("  ", " ").trim(), expected.trim(), "{name}");
    }
    assert_eq!(own_name("void a::b<c<d>, e>(int)"), "a::b");
    assert_eq!(own_name("plain"), "plain");
    let fits = |words: &str, pattern: &str| fits(words, letters(words), pattern);
    assert!(fits(" a bc d ", "bc+a") && fits(" a bc d ", "b*") && fits(" a bc d ", "*c"));
    assert!(!fits(" a bc d ", "b") && !fits(" a bc d ", "c*") && !fits(" a bc d ", "a+e"));
}

#[test]
fn every_class_but_other_has_a_rule() {
    for class in KernelClass::VARIANTS {
        let ruled = RULES.iter().any(|rule| rule.class == *class);
        assert_eq!(ruled, *class != Other, "{class:?}");
    }
}

proptest::proptest! {
    #[test]
    fn classifying_any_name_does_not_panic(name in ".{0,400}") {
        class(&name);
        classify(&name, "");
    }
}
