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
/// llama.cpp and communication libraries, as profilers show them: one on each line.
const KNOWN: &[(KernelClass, &str)] = &[
    (
        Gemm,
        "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_32x6_tn
         ampere_sgemm_128x64_tn
         volta_h884gemm_256x64_ldg8_tn
         turing_fp16_s1688gemm_fp16_64x64_sliced1x2_ldg8_f2f_tn
         sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas
         sm80_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x32
         void gemv2T_kernel_val<int, int, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float, 128, 16, 4, 4, false, false, cublasGemvParamsEx<int> >(cublasGemvParamsEx<int>, float, float)
         std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float, false, true, true, false, 7, false, cublasGemvParamsEx<int> >(cublasGemvParamsEx<int>)
         void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_64x64_64x6_tn_align8>(cutlass_80_tensorop_bf16_s16816gemm_bf16_64x64_64x6_tn_align8::Params)
         void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int, int>, cutlass::gemm::collective::CollectiveMma<cutlass::gemm::MainloopSm90TmaGmmaWarpSpecializedFP8<4> > > >(Params)
         void marlin::Marlin<__nv_bfloat16, 1, 256, 1, 8, 8, 4, true, 4, 8, false>(int4 const*, int4 const*)
         triton_tem_fused_addmm_0
         triton_mm_kernel
         _w8a8_block_fp8_matmul
         void mul_mat_vec_q<(ggml_type)12, 1>(void const*, void const*, float*)
         deep_gemm::fp8_gemm_kernel
         void cublasLt::splitKreduce_kernel<32, 16, int, float>(cublasSplitKParams<float>)
         void dot_kernel<float, 128, 0, cublasDotParams<cublasGemvTensor<float const>, float> >(cublasDotParams)
         bmm_E4m3_E4m3_Fp32_bA16_bB16_bC16_t128x8x512_s7_et128x8_m128x8x32_cga1x1x1_16dp256b_TN_transOut_schedS_bN_dsFp8_dynBatch_sm100f",
    ),
    (
        Attention,
        "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4> >(flash::Flash_fwd_params)
         void flash::flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4>, 4, 1, true>(flash::Flash_fwd_params)
         void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2> > > >(flash::Params)
         void vllm::paged_attention_v2_kernel<__nv_bfloat16, __nv_bfloat16, 128, 16, 128, 512>(float*, float*)
         void vllm::paged_attention_v2_reduce_kernel<__nv_bfloat16, 128, 128, 512>(__nv_bfloat16*)
         void flashinfer::BatchPrefillWithRaggedKVCacheKernel<flashinfer::KernelTraits<(flashinfer::MaskMode)1, 128u> >(flashinfer::Params)
         void flashinfer::BatchDecodeWithPagedKVCacheKernel<(flashinfer::PosEncodingMode)0, 2u, 1u, 8u>(flashinfer::Params)
         void flashinfer::PersistentVariableLengthMergeStatesKernel<8u, 16u, 8u, 4u>(float*)
         fmhaSm100fKernel_QkvBfloat16OBfloat16H128PagedKvCausalP32VarSeqQ128Kv128PersistentContext
         kernel_mha_attention_fwd
         _fwd_kernel
         _fwd_grouped_kernel_stage1
         kernel_unified_attention_2d
         _attn_fwd
         triton_tem_fused_flex_attention_1
         void flash_attn_ext_f16<128, 128, 16, 8, 4, 1, false>(char const*)
         void flash_fwd_splitkv_mla_kernel<Flash_fwd_kernel_traits_mla<576, 64, 64, 8>, true>(Flash_fwd_mla_params)",
    ),
    (
        Norm,
        "void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>(c10::BFloat16*, c10::BFloat16 const*)
         void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*)
         void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*)
         void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float, false>(int, float)
         void at::native::(anonymous namespace)::RowwiseMomentsCUDAKernel<float, float, false>(long, float)
         void layer_norm::ln_fwd_kernel<layer_norm::Kernel_traits<float> >(layer_norm::FwdParams)
         triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0
         triton_per_fused_native_layer_norm_2
         void rms_norm_f32<1024, false>(float const*, float*, int)
         void at::native::batch_norm_transform_input_kernel<float, float, float, true, int>(at::GenericPackedTensorAccessor)",
    ),
    (
        Softmax,
        "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false, false>(float*, float const*, int, int, int)
         void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, float, float, float, at::native::(anonymous namespace)::SoftMaxForwardEpilogue>(float*, float const*, int)
         triton_per_fused__softmax_3",
    ),
    (
        Rope,
        "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*, c10::BFloat16*)
         void flashinfer::BatchQKApplyRotaryPosIdsCosSinCacheKernel<true, 128u, 8u, 16u>(__nv_bfloat16*)
         void rope_norm<true, false, float>(float const*, float*, int)
         _triton_rope",
    ),
    (
        Moe,
        "void vllm::moe::topkGatingSoftmax<8, 128, 4, 16, int>(float const*)
         fused_moe_kernel
         void vllm::moe::moe_align_block_size_kernel<int>(int*)
         void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::GroupProblemShape<cute::tuple<int, int, int> > > >(Params)
         moe_sum_reduce_warp_per_token_vec_kernel",
    ),
    (
        Other,
        "void tensorrt_llm::kernels::cutlass_kernels::expandInputRowsKernel<__nv_bfloat16>(void)
         my_property_kernel
         europe
         normal_kernel
         k",
    ),
    (
        Communication,
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)
         ncclKernel_AllGather_RING_LL_Sum_int8_t
         void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)
         void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<(AllReduceFusionPattern)1>(AllReduceFusionParams)
         void deep_ep::internode_ll::dispatch<true, 3, 10, 7168>(void*)
         multimem_all_reduce_kernel
         void multimem_one_shot_reduce_kernel<c10::BFloat16, 16, 8>()
         void c10d::symmetric_memory::two_shot_all_reduce_kernel<c10::BFloat16, 8>()
         one_shot_all_reduce_kernel
         void vllm::cross_device_reduce_2stage<half, 8>(vllm::RankData*)
         nvshmemi_transfer_rma_nbi
         void deep_ep::intranode::combine<__nv_bfloat16, 8, 768>(void*)
         void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<1>()
         void tensorrt_llm::kernels::oneShotAllReduceKernel<__nv_bfloat16, 8>()",
    ),
    (
        Selection,
        "void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>(at::cuda::detail::TensorInfo<float const, unsigned int>)
         void at::native::radixSortKVInPlace<2, -1, 32, 4, float, long, unsigned int>(at::cuda::detail::TensorInfo<float, unsigned int>)
         void at_cuda_detail::cub::DeviceRadixSortOnesweepKernel<at_cuda_detail::cub::DeviceRadixSortPolicy<float, long, int> >(int*)
         void flashinfer::sampling::TopKTopPSamplingFromProbKernel<1024u, true>(float*)
         void at::native::(anonymous namespace)::sampleMultinomialOnce<float, float>(long*, long, int)",
    ),
    (
        Copy,
        "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16>(__nv_bfloat16 const*)
         void at::native::(anonymous namespace)::indexSelectLargeIndex<float, long, unsigned int, 2, 2, -2, true>(at::cuda::detail::TensorInfo)
         void at::native::_scatter_gather_elementwise_kernel<128, 4, at::native::_cuda_scatter_gather_internal_kernel<false> >(int)
         triton_poi_fused_embedding_0
         void at::<unnamed>::indexSelectSmallIndex<c10::BFloat16, long, unsigned int, 2, 2, (int)-2>(cuda::TensorInfo<T1, T3>)
         [CUDA memcpy DtoH]",
    ),
    (
        Reduction,
        "void at::native::tensor_kernel_scan_innermost_dim<float, std::plus<float> >(float*)
         void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t<float, at::native::sum_functor<float> > > >(float)",
    ),
    (
        Elementwise,
        "triton_poi_fused_mul_silu_1
         void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel<c10::BFloat16>, true>(c10::BFloat16*)
         _fused_swiglu_kernel
         void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::TensorListMetadata<2> >(void)
         void <unnamed>::elementwise_kernel_with_index<int, at::arange_cuda_out>(T1, T2)",
    ),
    (
        Quantization,
        "void vllm::dynamic_per_token_scaled_fp8_quant_kernel<c10::BFloat16>(float*)",
    ),
    (
        Scan,
        "void selective_scan_fwd_kernel<Selective_Scan_fwd_kernel_traits<128, 16, 1> >(SSMParamsBase)
         _chunk_scan_fwd_kernel",
    ),
    (
        Fill,
        "[CUDA memset]",
    ),
];

fn known() -> impl Iterator<Item = (&'static str, KernelClass)> {
    let names =
        KNOWN.iter().flat_map(|(class, names)| names.lines().map(|name| (name.trim(), *class)));
    names.chain([("", Other)])
}

#[test]
fn names_of_other_frameworks_are_recognised() {
    let wrong: Vec<String> = known()
        .filter(|(name, expected)| class(name) != *expected)
        .map(|(name, expected)| format!("{expected:?}, found {:?}: {name}", class(name)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(known().count(), 100);
}

#[test]
fn what_ncu_may_not_replay_and_what_is_called_communication_are_the_same_kernels() {
    let recorded = recorded().into_iter().map(|name| (name, class(name)));
    for (name, class) in known().chain(recorded) {
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
