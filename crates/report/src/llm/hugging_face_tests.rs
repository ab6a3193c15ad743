use super::super::preset::built_in_shape;
use super::super::weights::tests::{active_parameters, parameters};
use super::*;

fn shape(json: &str) -> Shape {
    let shape = from_json(json).expect(json).shape;
    shape.check().expect(json);
    shape
}

fn problem(json: &str) -> String {
    from_json(json).expect_err(json).to_string()
}

const LLAMA_3_8B: &str = r#"{"architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "tie_word_embeddings": false, "torch_dtype": "bfloat16", "rope_theta": 500000.0}"#;

const DEEPSEEK_OCR: &str = r#"{"model_type": "DeepseekOCR", "torch_dtype": "bfloat16",
    "language_config": {"model_type": "deepseek_v2", "hidden_size": 1280,
        "intermediate_size": 6848, "moe_intermediate_size": 896, "first_k_dense_replace": 1,
        "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6,
        "num_attention_heads": 10, "num_key_value_heads": 10, "num_hidden_layers": 12,
        "use_mla": false, "kv_lora_rank": null, "q_lora_rank": null, "qk_nope_head_dim": 0,
        "qk_rope_head_dim": 0, "v_head_dim": 0, "vocab_size": 129280},
    "hidden_size": 1280, "vocab_size": 129280,
    "projector_config": {"input_dim": 2048, "n_embed": 1280, "projector_type": "linear"},
    "vision_config": {"image_size": 1024, "mlp_ratio": 3.7362,
        "width": {"clip-l-14-224": {"heads": 16, "layers": 24, "width": 1024},
            "sam_vit_b": {"downsample_channels": [512, 1024], "heads": 12, "layers": 12,
                "global_attn_indexes": [2, 5, 8, 11], "width": 768}}}}"#;

const DEEPSEEK_V3: &str = r#"{"model_type": "deepseek_v3", "hidden_size": 7168,
    "intermediate_size": 18432, "moe_intermediate_size": 2048, "first_k_dense_replace": 3,
    "moe_layer_freq": 1, "n_routed_experts": 256, "n_shared_experts": 1,
    "num_experts_per_tok": 8, "num_attention_heads": 128, "num_key_value_heads": 128,
    "num_hidden_layers": 61, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 129280,
    "quantization_config": {"quant_method": "fp8", "fmt": "e4m3"}, "torch_dtype": "bfloat16"}"#;

#[test]
fn files_give_the_shapes_of_the_presets() {
    assert_eq!(shape(LLAMA_3_8B), built_in_shape("llama_3_8b"));
    assert_eq!(shape(DEEPSEEK_OCR), built_in_shape("deepseek_ocr"));
    assert_eq!(shape(DEEPSEEK_V3), built_in_shape("deepseek_v3"));
    let mixtral = r#"{"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
        "vocab_size": 32000, "num_local_experts": 8, "num_experts_per_tok": 2,
        "sliding_window": null}"#;
    assert_eq!(shape(mixtral), built_in_shape("mixtral_8x7b"));

    let ocr = from_json(DEEPSEEK_OCR).expect("fine");
    assert_eq!((ocr.dtype, ocr.weight_dtype), (Some(Dtype::Bf16), None));
    assert_eq!(ocr.name.as_deref(), Some("deepseek_v2"));
    assert!(ocr.assumptions[0].contains("windows of 14 patches"), "{:?}", ocr.assumptions);
    for (from, to) in [
        ("\"linear\"", "\"mlp_gelu\""),
        ("[512, 1024]", "\"many\""),
        ("\"layers\": 24", "\"layers\": 0"),
        ("sam_vit_b", "sam_vit_x"),
    ] {
        let json = DEEPSEEK_OCR.replace(from, to);
        assert_ne!(json, DEEPSEEK_OCR);
        let other = from_json(&json).expect("the language model is fine");
        assert_eq!(other.shape.vision_parts, None, "{to}");
        assert!(other.assumptions[0].contains("no plain vision"), "{:?}", other.assumptions);
    }
    let v3 = from_json(DEEPSEEK_V3).expect("fine");
    assert_eq!((v3.dtype, v3.weight_dtype), (Some(Dtype::Bf16), Some(Dtype::Fp8)));
}

#[test]
fn mlps_have_two_projections_or_three() {
    let parameters = |json: &str| parameters(&shape(json));
    // Gate, up and down: 32 layers of 4*2560^2 + 3*2560*6912, and 2*50304*2560. StableLM 3B.
    for kind in ["stablelm_epoch", "stablelm"] {
        let json = format!(
            r#"{{"model_type": "{kind}", "hidden_size": 2560, "intermediate_size": 6912,
            "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
            "vocab_size": 50304, "tie_word_embeddings": false}}"#
        );
        assert_eq!(parameters(&json), 2_795_110_400.0, "{kind}");
    }
    // Up and down around xIELU: 32 layers of 2*4096^2 + 2*4096*1024 + 2*4096*21504, and
    // 2*131072*4096. Apertus 8B.
    let apertus = r#"{"model_type": "apertus", "hidden_size": 4096, "intermediate_size": 21504,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
        "vocab_size": 131072, "tie_word_embeddings": false}"#;
    assert_eq!(parameters(apertus), 8_053_063_680.0);
}

#[test]
fn families_differ_in_what_they_leave_out() {
    // Qwen1.5-MoE-A2.7B: 14.3 billion parameters, 2.7 active.
    let qwen = shape(
        r#"{"model_type": "qwen2_moe", "hidden_size": 2048, "intermediate_size": 5632,
        "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632,
        "num_experts": 60, "num_experts_per_tok": 4, "decoder_sparse_step": 1,
        "num_attention_heads": 16, "num_key_value_heads": 16, "num_hidden_layers": 24,
        "sliding_window": 32768, "use_sliding_window": false, "vocab_size": 151936}"#,
    );
    let moe = qwen.moe.as_ref().expect("MoE");
    assert_eq!((moe.num_moe_layers, moe.shared_expert_gate), (24, true));
    assert_eq!((qwen.attention.sliding_window, qwen.attention.num_sliding_layers), (None, 0));
    let (all, active) = (parameters(&qwen), active_parameters(&qwen));
    assert!((all / 14.3e9 - 1.0).abs() < 0.01, "{all}");
    assert!((active / 2.7e9 - 1.0).abs() < 0.02, "{active}");

    // GPT-2: 124 million, tied, two projections, a width that is not given.
    let gpt2 = shape(
        r#"{"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_inner": null,
        "vocab_size": 50257}"#,
    );
    assert_eq!((gpt2.mlp.intermediate_size, gpt2.mlp.gated), (3072, false));
    assert!(gpt2.tie_word_embeddings);
    assert!((parameters(&gpt2) / 123.5e6 - 1.0).abs() < 0.01);

    let mistral = shape(
        r#"{"model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
        "sliding_window": 4096, "vocab_size": 32000}"#,
    );
    assert_eq!(mistral.attention.sliding_window, Some(4096));
    assert_eq!(mistral.attention.num_sliding_layers, 32);

    let layered = shape(
        r#"{"model_type": "gpt_oss", "hidden_size": 64, "intermediate_size": 64, "head_dim": 64,
        "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
        "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 128,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        "vocab_size": 100, "quantization_config": {"quant_method": "mxfp4"}}"#,
    );
    assert_eq!(layered.attention.num_sliding_layers, 2);
    assert_eq!(layered.attention.head_dim, 64);

    let sparse = shape(
        r#"{"model_type": "qwen3_moe", "hidden_size": 64, "intermediate_size": 64,
        "moe_intermediate_size": 16, "num_experts": 8, "num_experts_per_tok": 2,
        "decoder_sparse_step": 2, "mlp_only_layers": [3], "num_hidden_layers": 6,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100}"#,
    );
    assert_eq!(sparse.moe.expect("MoE").num_moe_layers, 2, "layers 1 and 5 of 0 to 5");

    let llava = from_json(
        r#"{"model_type": "llava", "text_config": {"model_type": "llama", "hidden_size": 64,
        "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "vocab_size": 100}, "vision_config": {"hidden_size": 1024, "intermediate_size": 4096,
        "num_hidden_layers": 24, "image_size": 336, "patch_size": 14}}"#,
    )
    .expect("fine");
    assert_eq!(llava.shape.vision.expect("plain").image_size, 336);
    assert_eq!(llava.assumptions, Vec::<String>::new());
}

#[test]
fn what_is_wrong_is_named() {
    for (from, to, part) in [
        (r#""hidden_size": 4096,"#, "", "no key hidden_size"),
        (r#""vocab_size": 128256"#, r#""vocab_size": "many""#, "vocab_size is \"many\""),
        (r#""num_hidden_layers": 32"#, r#""num_hidden_layers": -1"#, "num_hidden_layers is -1"),
        (r#""num_hidden_layers": 32"#, r#""num_hidden_layers": 1.5"#, "whole number"),
        (r#""intermediate_size": 14336,"#, "", "no key intermediate_size"),
        (r#""num_attention_heads": 32"#, r#""num_attention_heads": 33"#, "a divisor of hidden"),
        (r#""num_attention_heads": 32"#, r#""num_attention_heads": 0"#, "a divisor of hidden"),
        (r#""model_type": "llama""#, r#""model_type": "mamba2""#, "cannot be modelled"),
        (r#""model_type": "llama""#, r#""is_encoder_decoder": true"#, "encoder-decoder"),
        (r#""model_type": "llama""#, r#""layer_types": ["linear_attention"]"#, "linear_attention"),
    ] {
        let json = LLAMA_3_8B.replace(from, to);
        assert_ne!(json, LLAMA_3_8B);
        let text = problem(&json);
        assert!(text.contains(part), "{part}: {text}");
    }
    let nested = DEEPSEEK_OCR.replace(r#""n_routed_experts": 64"#, r#""n_routed_experts": []"#);
    assert!(problem(&nested).contains("language_config.n_routed_experts"), "{}", problem(&nested));
    for json in ["", "[]", "{", "null"] {
        assert!(problem(json).contains("JSON"), "{json}");
    }
}

#[test]
fn files_are_read_by_path_or_folder_and_named_in_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = read(folder.path()).expect_err("no file yet").to_string();
    assert!(error.contains("config.json") && error.contains("cannot be read"), "{error}");
    let file = folder.path().join("config.json");
    std::fs::write(&file, LLAMA_3_8B).expect("written");
    assert_eq!(read(folder.path()).expect("fine"), read(&file).expect("fine"));
    std::fs::write(&file, [0xff, 0xfe]).expect("written");
    assert!(read(&file).is_err());
}

proptest::proptest! {
    #[test]
    fn no_sizes_bring_the_reader_down(
        a in proptest::prelude::any::<u64>(), b in 0u64..70, key in 0usize..14,
    ) {
        let keys = [
            "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
            "n_routed_experts", "n_shared_experts", "first_k_dense_replace", "kv_lora_rank",
            "qk_rope_head_dim", "moe_intermediate_size", "vocab_size", "num_experts_per_tok",
            "moe_layer_freq", "intermediate_size",
        ];
        let mut json: Value = serde_json::from_str(DEEPSEEK_V3).expect("JSON");
        json[keys[key]] = a.into();
        json[keys[(key + 1) % keys.len()]] = b.into();
        if let Ok(read) = from_json(&json.to_string())
            && read.shape.check().is_ok()
        {
            let flops = super::super::flops::prefill(&read.shape, 1 << 20, 1 << 30, Default::default());
            proptest::prop_assert!(flops.is_finite());
        }
    }
}
