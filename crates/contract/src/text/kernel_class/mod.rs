//! A kernel's name -> what kind of work it does, by one table of rules.
//!
//! Names are compared as words: `CatArrayBatchedCopy`, `cat_array` and `cat-array` all hold the
//! words `cat array`, and `rope` is not found in `property`. The first rule that fits wins, so the
//! special stands before the general in the table.

use std::borrow::Cow;

use crate::text::{KernelName, kernel_name};
use strum::{EnumString, IntoStaticStr, VariantArray};

/// What kind of work a kernel does.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumString, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "snake_case")]
pub enum KernelClass {
    /// Between GPUs: collectives, point to point, expert dispatch.
    Communication,
    /// Matrix products, matrix-vector products and convolutions, with their split-K reductions.
    Gemm,
    /// Scaled dot-product attention, with the reductions of its parts.
    Attention,
    /// Mixture of experts: routing, permutation, grouped products.
    Moe,
    /// Layer, RMS, batch and group norms.
    Norm,
    /// Softmax by itself.
    Softmax,
    /// Rotary position embedding.
    Rope,
    /// Choosing among values: top-k, sort, argmax, multinomial. Samplers do that with tokens and
    /// routers with experts, by the same kernels.
    Selection,
    /// Quantisation and dequantisation by themselves.
    Quantization,
    /// State-space and linear-attention scans.
    Scan,
    /// Writes, moves and gathers entries of a KV cache. These are part of its cost, not copies to
    /// avoid.
    KvCache,
    /// Copies, casts, concatenation, gather, scatter, embedding.
    Copy,
    /// Fills.
    Fill,
    /// Reductions.
    Reduction,
    /// Arithmetic on each element.
    Elementwise,
    /// Preparation by an engine for its next kernels: positions, slots, block tables, schedules,
    /// pointers.
    Bookkeeping,
    /// Not recognised.
    Other,
}

impl KernelClass {
    /// All classes, each at its number.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// Its name in reports.
    pub fn label(self) -> &'static str {
        self.into()
    }
}

/// The class of a kernel.
pub fn class_of(name: &KernelName) -> KernelClass {
    classify(&name.mangled, &name.demangled)
}

/// The class of a kernel by its names; an empty demangled name is made from the mangled one.
fn classify(mangled: &str, demangled: &str) -> KernelClass {
    let demangled = match demangled {
        "" => Cow::Owned(kernel_name(mangled.as_bytes()).demangled),
        name => Cow::Borrowed(name),
    };
    let name = ANONYMOUS
        .iter()
        .fold(clip(&demangled).to_owned(), |name, written| name.replace(written, "anonymous"));
    let whole = words(&name);
    let head = words(own_name(&name));
    let (of_whole, of_head) = (letters(&whole), letters(&head));
    let found = RULES.iter().find(|rule| {
        let (text, letters) = match rule.scope {
            Scope::Head => (&head, of_head),
            Scope::Anywhere => (&whole, of_whole),
        };
        rule.patterns.iter().any(|pattern| fits(text, letters, pattern))
    });
    found.map_or(KernelClass::Other, |rule| rule.class)
}

/// How demanglers write an anonymous namespace: with brackets that belong to no arguments.
const ANONYMOUS: [&str; 3] = ["(anonymous namespace)", "<unnamed>", "{anonymous}"];

/// Bytes of a name that are looked at: names of templates may be huge.
const NAME_LIMIT_BYTES: usize = 16 * 1024;

fn clip(name: &str) -> &str {
    name.get(..name.floor_char_boundary(NAME_LIMIT_BYTES)).unwrap_or(name)
}

/// The function's own name: without return type, template arguments and parameters.
fn own_name(name: &str) -> &str {
    let name = name.strip_prefix("void ").unwrap_or(name);
    let end = name.find(['<', '(']).unwrap_or(name.len());
    name.get(..end).unwrap_or(name)
}

/// ` a b c `: the words of a name in lower case, set off by spaces. Words end at anything but a
/// letter or digit, before a capital after a small letter or digit, and before the last of several
/// capitals (`RMSNorm` is `rms norm`).
fn words(name: &str) -> String {
    let mut out = String::with_capacity(name.len() * 2);
    out.push(' ');
    let chars: Vec<char> = name.chars().collect();
    for (at, &c) in chars.iter().enumerate() {
        if !c.is_ascii_alphanumeric() {
            if !out.ends_with(' ') {
                out.push(' ');
            }
            continue;
        }
        let before = at.checked_sub(1).and_then(|i| chars.get(i)).copied().unwrap_or(' ');
        let after = chars.get(at + 1).copied().unwrap_or(' ');
        let starts = c.is_ascii_uppercase()
            && (before.is_ascii_lowercase()
                || before.is_ascii_digit()
                || (before.is_ascii_uppercase() && after.is_ascii_lowercase()));
        if starts && !out.ends_with(' ') {
            out.push(' ');
        }
        out.push(c.to_ascii_lowercase());
    }
    out.push(' ');
    out
}

/// The letters of a text, a bit each.
fn letters(text: &str) -> u128 {
    text.bytes().fold(0, |all, byte| all | letter(byte))
}

fn letter(byte: u8) -> u128 {
    1 << (byte & 127)
}

/// Whether all parts of a pattern, set off by `+`, are in the words. `*` at an end of a part stands
/// for the rest of a word; a pattern after `=` has to be all there is.
fn fits(words: &str, letters: u128, pattern: &str) -> bool {
    if let Some(all) = pattern.strip_prefix('=') {
        return words.trim() == all;
    }
    pattern.split('+').all(|part| {
        let open_front = part.starts_with('*');
        let open_back = part.ends_with('*');
        let core = part.trim_matches('*');
        // Most patterns have a letter that is not there, and that is found much sooner than that they fit nowhere.
        core.bytes().all(|byte| letters & letter(byte) != 0)
            && words.match_indices(core).any(|(at, _)| {
                let before = words.get(..at).is_none_or(|s| s.ends_with(' '));
                let after = words.get(at + core.len()..).is_none_or(|s| s.starts_with(' '));
                (open_front || before) && (open_back || after)
            })
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Head,
    /// Also in template arguments and parameters.
    Anywhere,
}
struct Rule {
    class: KernelClass,
    scope: Scope,
    /// One of these has to fit.
    patterns: &'static [&'static str],
}

const fn head(class: KernelClass, patterns: &'static [&'static str]) -> Rule {
    Rule { class, scope: Scope::Head, patterns }
}

const fn anywhere(class: KernelClass, patterns: &'static [&'static str]) -> Rule {
    Rule { class, scope: Scope::Anywhere, patterns }
}

/// The table, of names that CUDA libraries and frameworks give their kernels: the first row that fits gives
/// the class.
#[rustfmt::skip] // One pattern a line would make it long, and no easier to read.
const RULES: &[Rule] = &[
    anywhere(KernelClass::Communication, &[
        "nccl*", "rccl*", "nvshmem*", "deep ep", "all reduce*", "allreduce*", "all gather*",
        "allgather*", "reduce scatter*", "reducescatter*", "all to all*", "alltoall*",
        "cross device reduce*", "multimem*", "internode", "intranode", "mscclpp*", "symm mem", "symmetric memory",
        "send recv", "moe a2a*", "moe a2 a*", "norm lamport*", "userbuffers*", "ggml cuda ar kernel",
    ]),
    // PyTorch's own kernels name a functor among their arguments: what they do decides.
    head(KernelClass::Softmax, &[
        "*softmax*+cunn*", "cunn soft max*", "soft max*+cunn*",
    ]),
    anywhere(KernelClass::Fill, &[
        "fill functor", "fill kernel", "memset*",
    ]),
    anywhere(KernelClass::Copy, &[
        "direct copy kernel*", "*16 copy kernel*", "*32 copy kernel*", "float8 copy kernel*", "memcpy*",
    ]),
    head(KernelClass::Copy, &[
        "index elementwise kernel", "index kernel", "scatter gather elementwise*",
    ]),
    head(KernelClass::Elementwise, &[
        "elementwise kernel with index",
    ]),
    // Sampling selects the largest quotient of probability and exponential noise.
    anywhere(KernelClass::Selection, &[
        "distribution elementwise*+exponential*",
    ]),
    anywhere(KernelClass::Elementwise, &[
        "distribution elementwise*",
    ]),
    anywhere(KernelClass::Selection, &[
        "native+arg max ops", "native+arg min ops", "mbtopk", "sbtopk",
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
        "triton tem", "triton red fused mm", "triton red fused addmm", "triton red fused bmm",
        "triton per fused mm", "triton per fused addmm", "triton per fused bmm",
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
    // The largest absolute value is the scale.
    head(KernelClass::Quantization, &[
        "triton red+abs+clamp", "triton per+abs+clamp", "triton red+abs+amax", "triton per+abs+amax",
    ]),
    head(KernelClass::Reduction, &[
        "triton red", "triton per",
    ]),
    head(KernelClass::Rope, &[
        "triton poi+cos+sin", "triton poi+rotary*", "triton poi+rope",
    ]),
    head(KernelClass::Fill, &[
        "triton poi fused zeros*", "triton poi fused ones*", "triton poi fused full*",
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
        "routing+indices*", "routing main*", "ep scatter*", "ep gather*", "router*",
        "deepseek v3 topk*", "topk with k2*", "expand input rows*", "shuffle input rows*",
        "compute strides tma*", "compute problem sizes*", "compute arg sorts*", "matmul ogs*",
        "mm ids helper*", "mul mat f ids*",
        // DeepGEMM's numbers for grouped products; routed batches of TensorRT-LLM's generated kernels.
        "deep gemm+gemm type 1", "deep gemm+gemm type 2", "bmm+dyn b", "bmm+dyn batch",
    ]),
    // Before attention: vLLM and others put these into files and namespaces named after it.
    head(KernelClass::KvCache, &[
        "reshape and cache*", "concat and cache*", "quant and cache*", "copy blocks*",
        "swap blocks*", "append paged*", "concat kv cache*", "gather+cache*", "store kv*",
        "set kv*", "set mla kv*", "transfer kv*", "k set rows*",
    ]),
    head(KernelClass::Bookkeeping, &[
        "prepare varlen*", "*metadata*", "plan kernel*", "prepare+inputs", "prepare pos*",
        "slot mapping*", "slot mappings*", "block table*", "block tables*", "page indices*",
        "kv indices*", "kv splits*", "create*+indices*", "write req*", "req to token*",
        "convert req*", "compute position*", "clamp position*", "alloc extend*", "alloc decode*",
        "assign extend cache*", "assign draft cache*", "advance step*", "apply write*",
        "post update*", "combine sampled*", "get num sampled*", "expand idx*", "num accepted*",
        "compute batched ptrs*", "compute out prod ptrs*", "batch pointers*",
    ]),
    // Before products: these prepare their inputs, and some are named after them.
    head(KernelClass::Quantization, &[
        "transpose and pack*", "silu mul+*quant*",
    ]),
    anywhere(KernelClass::Rope, &[
        "rope*", "ro pe", "mrope*", "rotary*", "batch qk apply*",
    ]),
    anywhere(KernelClass::Attention, &[
        "fmha*", "flash*+fwd*", "flash*+attn*", "flash*+attention*", "flash*+bwd*", "flash attn*",
        "flash attention*", "flash infer+*attn*", "*flash*+fprop*", "sdpa*", "*attention*",
        "paged attn*", "unified attn*", "*mqa*", "batch prefill with*", "batch decode with*",
        "single prefill with*", "single decode with*", "flash mla*", "*splitkv*+*mla*", "mla*",
        "attn fwd*", "fwd splitkv*", "attn bwd*", "fwd kernel stage*",
        "fwd grouped kernel stage*", "persistent variable length merge*", "merge state*",
        "merge attn*", "flash*+combine*", "=fwd kernel", "fwd kernel unified*", "fa3*", "fa2*",
        "flash decod*", "attn*", "*attn", "*grouped att*", "kernel mha*", "*mmha*", "xqa*",
        "lightning indexer*",
    ]),
    anywhere(KernelClass::Norm, &[
        "*rms norm*", "*rmsnorm*", "rms*norm*", "layer norm*", "layernorm*",
        "*layernorm*", "batch norm*", "batchnorm*", "group norm*", "groupnorm*", "ln fwd*",
        "rowwise moments*", "rms*+variance*", "l2norm*", "l2 norm*", "bn fw*", "add rms*", "=norm f32", "*qknorm*",
    ]),
    anywhere(KernelClass::Selection, &[
        "topk*", "top k*", "top p sampling*", "top p renorm*", "topp*", "min p sampling*",
        "multinomial*", "sampling*", "sample*", "*sampler*", "radix sort*", "*radix*+sort*",
        "bitonic sort*", "sort*", "radix topk*", "radix*+select*", "gather top k*", "sb topk*",
        "mb topk*", "argmax*", "arg max*", "logits processor*", "apply penalt*", "*merge sort*",
        "rejection*", "eagle*+verify*", "verify tree*", "*bitmask*", "nucleus*", "gumbel*",
        "*penalt*", "*logprobs*", "logit bias*", "logits stats*", "bad words*", "*argsort*", "curand*",
        // Steps of vLLM's sampler.
        "=temperature kernel", "=min p kernel", "=bias kernel", "=ranks kernel", "=bincount kernel",
    ]),
    anywhere(KernelClass::Softmax, &[
        "softmax*", "soft max*", "*softmax", "log softmax*",
    ]),
    anywhere(KernelClass::Scan, &[
        "selective scan*", "chunk scan*", "chunk state*", "state passing*", "ssd*", "mamba*",
        "causal conv1d*", "gated delta*", "*delta rule*", "chunk gla*", "recurrent*+fwd*",
        "ssm*", "rwkv*", "gdn*", "kda", "chunk fwd*", "chunk scaled dot*",
        "chunk local cumsum*", "recompute w u*", "solve tri*",
    ]),
    anywhere(KernelClass::Gemm, &[
        "nvjet*", "*gemm*", "*gemv*", "*gemm", "gemvx", "xmma*", "cublas*", "split kreduce*",
        "splitk reduce*", "split k reduce*", "splitkreduce*", "*wgrad*", "*dgrad*",
        "*implicit*conv*", "*conv2d*", "*conv*+fprop*", "fprop*+implicit*", "convolve*",
        "winograd*", "cudnn+conv*", "cutlass*+kernel2", "marlin*", "matmul*", "mat mul*",
        "mm kernel*", "*mm+triton*", "scaled mm*", "bmm*", "dot kernel*", "dot product*",
        "reduce 1block kernel*", "mul mat*", "awq*+*gem*", "machete*", "gptq*", "tinygemm*",
        "*bgmv*", "*sgmv*", "lora shrink*", "lora expand*", "*einsum*", "weight only*", "w4a16*",
        "w8a8*", "s884*", "*s16816*", "h16816*", "linear kernel*", "hgmma*", "wgmma*", "cask*",
        "mma kernel*",
    ]),
    anywhere(KernelClass::Quantization, &[
        "*quantize*", "*quant*", "cast to fp8*", "scaled fp8*", "*fp8 quant*", "to fp8*",
        "to nvfp4*", "per token group*", "*hadamard*", "fwht*",
    ]),
    head(KernelClass::KvCache, &[
        "*kv cache*", "*kvcache*",
    ]),
    head(KernelClass::Copy, &[
        "cat array*", "concat*", "*copy*", "gather*", "scatter*", "index select*", "index put*",
        "indexing*", "index*+kernel*", "embedding*", "transpose*", "permute*", "*transpose*",
        "vectorized gather*", "masked scatter*", "masked select*", "embed*", "cast*", "unfold*",
        "im2col*", "pad*", "roll*", "flip*", "cpy*", "convert unary*",
        "k get rows*", "k repeat*", "lookup*", "tensor transform*", "nchw to nhwc*", "nhwc to nchw*",
        "repeat interleave*", "split*+kernel*",
    ]),
    head(KernelClass::Fill, &[
        "zero*", "fill*",
    ]),
    head(KernelClass::Reduction, &[
        "reduce kernel*", "*reduce*", "reduction*", "*reduction*", "device scan*", "*scan*",
        "cumsum*", "cum sum*", "mean ops", "sum functor", "norm ops", "segmented*", "histogram*",
    ]),
    head(KernelClass::Elementwise, &[
        "elementwise*", "*elementwise*", "pointwise*", "*silu*", "si lu*", "gelu*", "ge lu*",
        "and mul*", "softcap*", "softplus*", "diag mask*", "upscale*", "add id*", "mhc*",
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

#[cfg(test)]
mod tests;
