//! The words in kernel names that tell what a kernel does, the special before the general.
//!
//! The names are those that CUDA libraries and frameworks give their kernels. A pattern's parts,
//! set off by `+`, all have to be there; `*` stands for the rest of a word, and a pattern after `=`
//! has to be all there is.

use super::KernelClass;

/// Where a rule looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// In the function's own name.
    Head,
    /// Also in template arguments and parameters.
    Anywhere,
}

/// One row of the table.
pub(super) struct Rule {
    /// What a kernel is that the row fits.
    pub(super) class: KernelClass,
    /// Where the row looks.
    pub(super) scope: Scope,
    /// One of these has to fit.
    pub(super) patterns: &'static [&'static str],
}

const fn head(class: KernelClass, patterns: &'static [&'static str]) -> Rule {
    Rule { class, scope: Scope::Head, patterns }
}

const fn anywhere(class: KernelClass, patterns: &'static [&'static str]) -> Rule {
    Rule { class, scope: Scope::Anywhere, patterns }
}

/// The table: the first row that fits gives the class.
#[rustfmt::skip] // One pattern a line would make it long, and no easier to read.
pub(super) const RULES: &[Rule] = &[
    anywhere(KernelClass::Communication, &[
        "nccl*", "rccl*", "nvshmem*", "deep ep", "all reduce*", "allreduce*", "all gather*",
        "allgather*", "reduce scatter*", "reducescatter*", "all to all*", "alltoall*",
        "cross device reduce*", "multimem*", "internode", "intranode", "mscclpp*", "symm mem", "symmetric memory",
        "send recv", "moe a2a*",
    ]),
    // PyTorch's own kernels name a functor among their arguments: what they do decides.
    head(KernelClass::Softmax, &[
        "*softmax*+cunn*", "cunn soft max*", "soft max*+cunn*",
    ]),
    anywhere(KernelClass::Fill, &[
        "fill functor", "fill kernel", "memset*",
    ]),
    anywhere(KernelClass::Copy, &[
        "direct copy kernel*", "*16 copy kernel*", "float8 copy kernel*", "memcpy*",
    ]),
    head(KernelClass::Copy, &[
        "index elementwise kernel", "index kernel", "scatter gather elementwise*",
    ]),
    head(KernelClass::Elementwise, &[
        "elementwise kernel with index",
    ]),
    anywhere(KernelClass::Elementwise, &[
        "distribution elementwise*",
    ]),
    anywhere(KernelClass::Selection, &[
        "native+arg max ops", "native+arg min ops",
    ]),
    head(KernelClass::Elementwise, &[
        "vectorized elementwise kernel", "unrolled elementwise kernel", "elementwise kernel",
    ]),
    // Inductor says in a prefix what its kernels are: poi(ntwise), red(uction), per(sistent
    // reduction), tem(plate), for(each); and in the rest which operators it fused.
    head(KernelClass::Attention, &[
        "triton tem+*attention*", "triton tem+sdpa", "triton red+sdpa", "triton per+sdpa",
    ]),
    head(KernelClass::Gemm, &[
        "triton tem",
    ]),
    head(KernelClass::Norm, &[
        "triton red+norm", "triton per+norm", "triton red+rsqrt", "triton per+rsqrt",
        "triton red+layer norm*", "triton per+layer norm*",
    ]),
    head(KernelClass::Softmax, &[
        "triton red+softmax", "triton per+softmax",
    ]),
    head(KernelClass::Selection, &[
        "triton red+argmax", "triton per+argmax", "triton per+sort",
    ]),
    head(KernelClass::Reduction, &[
        "triton red", "triton per",
    ]),
    head(KernelClass::Copy, &[
        "triton poi fused cat*", "triton poi fused clone*", "triton poi fused embedding*",
        "triton poi fused index*", "triton poi fused copy*", "triton poi fused stack*",
    ]),
    head(KernelClass::Elementwise, &[
        "triton poi", "triton for",
    ]),
    anywhere(KernelClass::Moe, &[
        "moe*", "*moe", "mo e", "topk gating*", "top k gating*", "gating softmax*",
        "grouped topk*", "grouped top k*", "expert*", "group problem shape", "grouped gemm*",
        "gemm grouped", "m grouped*", "group gemm*", "grouped mm*", "grouped gemv*",
        "routing+indices*", "routing main*", "ep scatter*", "ep gather*",
    ]),
    // Before attention: vLLM and others put these into files and namespaces named after it.
    head(KernelClass::Copy, &[
        "reshape and cache*", "concat and cache*", "copy blocks*", "swap blocks*",
        "append paged*",
    ]),
    anywhere(KernelClass::Rope, &[
        "rope*", "mrope*", "rotary*", "batch qk apply*",
    ]),
    anywhere(KernelClass::Attention, &[
        "fmha*", "flash*+fwd*", "flash*+attn*", "flash*+attention*", "flash*+bwd*", "flash attn*",
        "flash attention*", "flash infer+*attn*", "*flash*+fprop*", "sdpa*", "*attention*",
        "paged attn*", "unified attn*", "*mqa*", "batch prefill with*", "batch decode with*",
        "single prefill with*", "single decode with*", "flash mla*", "*splitkv*+*mla*", "mla*",
        "attn fwd*", "fwd splitkv*", "attn bwd*", "fwd kernel stage*",
        "fwd grouped kernel stage*", "persistent variable length merge*", "merge state*",
        "merge attn*", "flash*+combine*", "=fwd kernel", "fa3*", "fa2*", "flash decod*", "attn*",
        "*attn",
    ]),
    anywhere(KernelClass::Norm, &[
        "rms norm*", "rmsnorm*", "*rmsnorm*", "rms*norm*", "layer norm*", "layernorm*",
        "*layernorm*", "batch norm*", "batchnorm*", "group norm*", "groupnorm*", "ln fwd*",
        "rowwise moments*", "rms*+variance*", "l2norm*", "l2 norm*", "bn fw*", "add rms*",
    ]),
    anywhere(KernelClass::Selection, &[
        "topk*", "top k*", "top p sampling*", "top p renorm*", "topp*", "min p sampling*",
        "multinomial*", "sampling*", "sample*", "*sampler*", "radix sort*", "*radix*+sort*",
        "bitonic sort*", "sort*", "radix topk*", "radix*+select*", "gather top k*", "sb topk*",
        "mb topk*", "argmax*", "arg max*", "logits processor*", "apply penalt*", "*merge sort*",
        "rejection*", "eagle*+verify*", "verify tree*", "apply token bitmask*", "nucleus*",
    ]),
    anywhere(KernelClass::Softmax, &[
        "softmax*", "soft max*", "*softmax", "log softmax*",
    ]),
    anywhere(KernelClass::Scan, &[
        "selective scan*", "chunk scan*", "chunk state*", "state passing*", "ssd*", "mamba*",
        "causal conv1d*", "gated delta*", "*delta rule*", "chunk gla*", "recurrent*+fwd*",
    ]),
    anywhere(KernelClass::Gemm, &[
        "nvjet*", "*gemm*", "*gemv*", "*gemm", "gemvx", "xmma*", "cublas*", "split kreduce*",
        "splitk reduce*", "split k reduce*", "splitkreduce*", "*wgrad*", "*dgrad*",
        "*implicit*conv*", "*conv2d*", "*conv*+fprop*", "fprop*+implicit*", "convolve*",
        "winograd*", "cudnn+conv*", "cutlass*+kernel2", "marlin*", "matmul*", "mat mul*",
        "mm kernel*", "*mm+triton*", "scaled mm*", "bmm*", "dot kernel*", "dot product*",
        "reduce 1block kernel*", "mul mat*", "awq*+*gem*", "machete*", "gptq*", "tinygemm*",
        "s884*", "*s16816*", "h16816*", "linear kernel*", "hgmma*", "wgmma*", "cask*",
        "mma kernel*",
    ]),
    anywhere(KernelClass::Quantization, &[
        "*quantize*", "*quant*", "cast to fp8*", "scaled fp8*", "*fp8 quant*", "to fp8*",
        "to nvfp4*", "per token group*",
    ]),
    head(KernelClass::Copy, &[
        "cat array*", "concat*", "*copy*", "gather*", "scatter*", "index select*", "index put*",
        "indexing*", "index*+kernel*", "embedding*", "transpose*", "permute*", "*transpose*",
        "vectorized gather*", "masked scatter*", "masked select*", "embed*", "cast*", "unfold*",
        "im2col*", "pad*", "roll*", "flip*", "set kv*", "store kv*", "*kv cache*",
        "create*+indices*", "tensor transform*", "nchw to nhwc*", "nhwc to nchw*",
        "repeat interleave*", "split*+kernel*",
    ]),
    head(KernelClass::Reduction, &[
        "reduce kernel*", "*reduce*", "reduction*", "*reduction*", "device scan*", "*scan*",
        "cumsum*", "cum sum*", "mean ops", "sum functor", "norm ops", "segmented*", "histogram*",
    ]),
    head(KernelClass::Elementwise, &[
        "elementwise*", "*elementwise*", "pointwise*", "*silu*", "si lu*", "gelu*", "ge lu*",
        "relu*", "swiglu*", "*act and mul*", "activation*", "add kernel*", "mul kernel*",
        "binary*", "unary*", "add bias*", "bias*", "dropout*", "foreach*", "for each*",
        "multi tensor apply*", "tanh*", "sigmoid*", "clamp*", "where*", "tril*", "triu*",
        "arange*", "k bin bcast*", "scale*", "compare*", "upsample*", "interpolate*", "mask*",
        "swish*", "residual*",
    ]),
    // Last resort: wrappers such as CUB's, whose own name says little.
    anywhere(KernelClass::Copy, &[
        "cat array*", "*memcpy*",
    ]),
    anywhere(KernelClass::Reduction, &[
        "reduce*", "*reduction*",
    ]),
    anywhere(KernelClass::Elementwise, &[
        "*elementwise*", "pointwise*",
    ]),
];
