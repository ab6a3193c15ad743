use super::*;
use crate::llm::flops::{self, decode, kv_cache_bytes, prefill, weight_bytes};
use crate::llm::preset::{Model, PartFlops, built_in};
use crate::llm::shape::Vision;
use crate::roofline::hardware::{Catalogue, Hardware, resolve};
use stage2_model::Precision;

fn model(preset: &str) -> Model {
    built_in(preset).model().expect("fine").expect("a model")
}

fn h200() -> Peaks {
    resolve(&Catalogue::built_in(), &Hardware::default(), Some("NVIDIA H200")).peaks.expect("known")
}

fn stage(stage: &str, role: Role, per_generation: f64, wall_ms: u64, busy_ms: u64) -> StageInput {
    StageInput {
        stage: stage.to_owned(),
        within: None,
        role,
        per_generation,
        tokens: None,
        mean_batch: None,
        gpus: 1,
        instances: 2,
        wall_ns: Some(2_000_000 * wall_ms),
        busy_ns: Some(2_000_000 * busy_ms),
        kernels: Some(2 * 640),
        measured_flops: None,
        measured_percent: None,
        one_launch_percent: None,
        sampled: None,
        basis: "mean of 2 warm calls".to_owned(),
    }
}

const TOKENS: TokenCounts = TokenCounts {
    batch_size: Some(1),
    prompt_tokens: Some(512),
    decode_steps: Some(64),
    images_per_prompt: None,
    crops_per_image: None,
};

/// Those of stages that do not overlap, on an H200.
fn of(model: &Model, tokens: &TokenCounts, stages: &[StageInput]) -> Utilisation {
    let (model, joined) = (Ok(model), Some(1.0));
    utilisation(&Inputs { model, peaks: Some(&h200()), tokens, stages, joined })
}

/// A prefill of 20 ms and a decode of 640 ms.
fn two_stages() -> [StageInput; 2] {
    [stage("prefill", Role::Prefill, 1.0, 20, 4), stage("decode", Role::Decode, 1.0, 640, 128)]
}

fn near(figure: &Figure, expected: f64) {
    let value = figure.value().unwrap_or_else(|| panic!("{figure:?}, not {expected}"));
    assert!((value / expected - 1.0).abs() < 1e-12, "{value} against {expected}");
}

#[test]
fn stages_and_model_are_what_a_pocket_calculator_gives() {
    let model = model("llama_1b_random");
    let [prefill_stage, decode_stage] = two_stages();
    let stages = [prefill_stage, decode_stage, stage("load", Role::Other, 1.0, 5, 1)];
    let u = of(&model, &TOKENS, &stages);
    let first = prefill(&model.shape, 1.0, 512, flops::LmHead::Last);
    let then = decode(&model.shape, 1.0, 512, 64);
    near(&u.stages[0].flops, first);
    near(&u.stages[0].mfu_wall, first / 0.020 / 989.5e12);
    near(&u.stages[0].mfu_busy, first / 0.004 / 989.5e12);
    near(&u.stages[0].tokens_per_s, 512.0 / 0.020);
    near(&u.stages[1].mfu_wall, then / 0.640 / 989.5e12);
    near(&u.stages[1].tokens_per_s, 100.0);
    near(&u.stages[1].gpu_us_per_token, 2000.0);
    near(&u.stages[1].kernels_per_token, 10.0);
    let bytes = weight_bytes(&model.shape, model.weight_dtype, 1.0, 64)
        + kv_cache_bytes(&model.shape, model.kv_cache_dtype, 1.0, 512, 64);
    near(&u.stages[1].mbu_busy, bytes / 0.128 / 4.8e12);
    near(&u.stages[1].mbu_wall, bytes / 0.640 / 4.8e12);
    near(&u.model.mfu_wall, (first + then) / 0.660 / 989.5e12);
    near(&u.model.mfu_busy, (first + then) / 0.132 / 989.5e12);
    near(&u.model.generated_tokens_per_s, 65.0 / 0.660);
    assert_eq!(u.stages[0].mbu_wall, Figure::Absent(Absent::DecodeOnly));
    assert_eq!(u.stages[0].measured_flops, Figure::Absent(Absent::NotMeasured));
    assert_eq!(u.stages[2].flops, Figure::Absent(Absent::NotModelled));
    assert_eq!(u.findings, []);
    assert_eq!(u.precision, Some(Precision::Bf16));
    assert!(u.assumptions.iter().any(|line| line.contains("No vision encoder")));
}

#[test]
fn weights_of_a_file_count_by_its_bytes() {
    let mut model = model("llama_1b_random");
    let stored = flops::StoredWeights { dense: 7_000_000, routed_experts: 0, embedding: 32_000 };
    model.stored = Some(stored);
    let u = of(&model, &TOKENS, &two_stages());
    let rows = 32_000.0 / model.shape.vocab_size as f64;
    let kv_cache = kv_cache_bytes(&model.shape, model.kv_cache_dtype, 1.0, 512, 64);
    near(&u.stages[1].bytes, 64.0 * (7e6 + rows) + kv_cache);
    assert!(u.assumptions[0].contains("weights as the file stores them"), "{}", u.assumptions[0]);
}

#[test]
fn a_range_around_each_step_gives_the_same_as_one_around_all() {
    let model = model("llama_1b_random");
    let [prefill, all_steps] = two_stages();
    let one_step = StageInput { kernels: Some(20), ..stage("step", Role::Decode, 64.0, 10, 2) };
    let all = of(&model, &TOKENS, &[prefill.clone(), all_steps]);
    let each = of(&model, &TOKENS, &[prefill, one_step]);
    for pick in [
        |s: &StageUtilisation| s.mfu_wall.clone(),
        |s: &StageUtilisation| s.mbu_busy.clone(),
        |s: &StageUtilisation| s.tokens_per_s.clone(),
        |s: &StageUtilisation| s.kernels_per_token.clone(),
    ] {
        near(&pick(&each.stages[1]), pick(&all.stages[1]).value().expect("known"));
    }
    near(&each.model.mfu_wall, all.model.mfu_wall.value().expect("known"));
    // How many steps of an engine make a generation is not known.
    let of_engine =
        StageInput { tokens: Some(TOKENS), ..stage("decode", Role::Decode, 1.0, 600, 128) };
    let of_stages = [stage("prefill", Role::Prefill, 1.0, 20, 4), of_engine];
    let of_steps = of(&model, &TOKENS, &of_stages);
    assert_eq!(of_steps.model.wall_s, Figure::Absent(Absent::NoGenerations));
    let unknown = of(&model, &TokenCounts::default(), &of_stages);
    assert_eq!(
        unknown.model.mfu_wall,
        Figure::Absent(Absent::NoGenerations),
        "no batch size is missing"
    );
    assert!(of_steps.stages[1].mfu_wall.value().is_some());
    // A step of an engine rarely has the same number of requests as the next one.
    let mixed = of_stages.each_ref().map(|stage| StageInput {
        tokens: Some(TOKENS),
        mean_batch: Some(1.583),
        ..stage.clone()
    });
    let mixed = of(&model, &TOKENS, &mixed);
    near(&mixed.stages[0].tokens, 1.583 * 512.0);
    let prefill = of_steps.stages[0].flops.value().expect("known");
    near(&mixed.stages[0].flops, 1.583 * prefill);
    assert_eq!(per_generation(192, 3), Some(64.0));
    assert_eq!(per_generation(200, 3), None);
    assert_eq!(per_generation(0, 3), None);
    assert_eq!(per_generation(3, 0), None);
    assert_eq!(per_cut_generation(52, 53, 1), Some(1.0));
    assert_eq!(per_cut_generation(53, 52, 1), Some(1.0));
    assert_eq!(per_cut_generation(52, 53, 0), None);
    assert_eq!(per_cut_generation(11, 4, 1), Some(3.0), "two of three in the last one");
    assert_eq!(per_cut_generation(630, 10, 1), None, "58 to 70 are possible");
    assert_eq!(per_cut_generation(2, 1, 1), None, "the only one is cut");
    assert_eq!(per_cut_generation(1, 1, 1), Some(1.0));
    assert_eq!(per_cut_generation(3, 2, 2), None);
}

#[test]
fn vision_is_counted_once_wherever_it_runs() {
    let mut ocr = model("deepseek_ocr");
    ocr.vision_flops_per_prefill = Some(1e12);
    let text = prefill(&ocr.shape, 1.0, 512, flops::LmHead::Last);
    let then = decode(&ocr.shape, 1.0, 512, 64);
    let of_role = |model: &Model, role| {
        let stages = [
            stage("prefill", Role::Prefill, 1.0, 100, 50),
            stage("vision", role, 1.0, 40, 20),
            stage("decode", Role::Decode, 1.0, 600, 128),
        ];
        of(model, &TOKENS, &stages)
    };
    let nested = of_role(&ocr, Role::VisionInPrefill);
    near(&nested.stages[0].flops, text + 1e12);
    near(&nested.stages[1].mfu_wall, 1e12 / 0.040 / 989.5e12);
    near(&nested.model.flops, text + 1e12 + then);
    near(&nested.model.wall_s, 0.700);
    let before = of_role(&ocr, Role::VisionBefore);
    near(&before.stages[0].flops, text);
    near(&before.model.flops, text + 1e12 + then);
    near(&before.model.wall_s, 0.740);

    let mut unknown = model("deepseek_ocr");
    unknown.shape.vision_parts = None;
    let unknown = of_role(&unknown, Role::VisionInPrefill);
    near(&unknown.stages[0].flops, text);
    assert_eq!(unknown.stages[1].flops, Figure::Absent(Absent::NoVisionFlops));
    assert!(unknown.assumptions.iter().any(|line| line.contains("lower bound")));

    let mut vit = model("llama_1b_random");
    vit.shape.vision = Some(Vision {
        hidden_size: 64,
        num_hidden_layers: 2,
        intermediate_size: 256,
        image_size: 64,
        patch_size: 16,
    });
    let tokens = TokenCounts { images_per_prompt: Some(3), ..TOKENS };
    let stages = [stage("prefill", Role::Prefill, 1.0, 100, 50)];
    let images = 3.0 * flops::plain_vision(vit.shape.vision.as_ref().expect("set"));
    let text = prefill(&vit.shape, 1.0, 512, flops::LmHead::Last);
    near(&of(&vit, &tokens, &stages).stages[0].flops, text + images);
}

#[test]
fn whatever_is_missing_is_named_and_costs_only_its_own_numbers() {
    let (model, peaks) = (model("llama_1b_random"), h200());
    let stages = two_stages();
    let all = Inputs {
        model: Ok(&model),
        peaks: Some(&peaks),
        tokens: &TOKENS,
        stages: &stages,
        joined: Some(1.0),
    };

    let no_model = utilisation(&Inputs { model: Err(Absent::NoModel), ..all.clone() });
    assert_eq!(no_model.stages[0].mfu_wall, Figure::Absent(Absent::NoModel));
    near(&no_model.stages[1].tokens_per_s, 100.0);
    assert_eq!(no_model.assumptions, Vec::<String>::new());

    let no_peaks = utilisation(&Inputs { peaks: None, ..all.clone() });
    let reason = Absent::NoPeak { precision: Precision::Bf16 };
    assert_eq!(no_peaks.stages[0].mfu_wall, Figure::Absent(reason));
    assert_eq!(no_peaks.stages[1].mbu_wall, Figure::Absent(Absent::NoBandwidth));
    assert!(no_peaks.stages[0].flops.value().is_some());

    let tokens = TokenCounts { prompt_tokens: None, ..TOKENS };
    let no_prompt = utilisation(&Inputs { tokens: &tokens, ..all.clone() });
    let reason = Absent::NoTokenCount { count: "prompt_tokens".to_owned() };
    assert_eq!(no_prompt.model.mfu_wall, Figure::Absent(reason));
    near(&no_prompt.stages[1].tokens_per_s, 100.0);

    let no_stages = utilisation(&Inputs { stages: &[], ..all.clone() });
    let reason = Absent::NoStage { stage: "prefill".to_owned() };
    assert_eq!(no_stages.model.mfu_wall, Figure::Absent(reason));
    let twice = [stages[0].clone(), stages[0].clone(), stages[1].clone()];
    let twice = utilisation(&Inputs { stages: &twice, ..all.clone() });
    assert!(matches!(twice.model.wall_s.absent(), Some(Absent::SeveralStages { .. })));

    // Steps of requests of any length: which make a generation is not known.
    let uneven = [stages[0].clone(), StageInput { per_generation: f64::NAN, ..stages[1].clone() }];
    let uneven = utilisation(&Inputs { stages: &uneven, ..all.clone() });
    for figure in [&uneven.stages[1].flops, &uneven.stages[1].mbu_wall, &uneven.model.wall_s] {
        assert_eq!(figure.absent(), Some(&Absent::NoGenerations));
    }
    assert!(uneven.stages[0].flops.value().is_some());

    let bare = StageInput {
        wall_ns: Some(0),
        busy_ns: None,
        kernels: None,
        instances: 0,
        per_generation: 0.0,
        ..stages[0].clone()
    };
    let bare = utilisation(&Inputs { stages: &[bare], ..all.clone() });
    for figure in [
        &bare.stages[0].flops,
        &bare.stages[0].mfu_wall,
        &bare.stages[0].mfu_busy,
        &bare.stages[0].tokens_per_s,
        &bare.stages[0].gpu_us_per_token,
        &bare.stages[0].kernels_per_token,
    ] {
        assert!(figure.absent().is_some(), "{figure:?}");
    }
}

#[test]
fn measured_flops_stand_beside_and_impossible_shares_are_told() {
    let [prefill, _] = two_stages();
    let measured = StageInput { measured_flops: Some(4e12), ..prefill };
    let stages = [measured, stage("decode", Role::Decode, 1.0, 1, 1)];
    let u = of(&model("llama_1b_random"), &TOKENS, &stages);
    near(&u.stages[0].measured_flops, 2e12);
    near(&u.stages[0].measured_mfu_busy, 2e12 / 0.004 / 989.5e12);
    assert!(u.findings.iter().any(|f| f.what.contains("MBU of decode")), "{:?}", u.findings);
    let json = serde_json::to_string(&u).expect("JSON");
    assert_eq!(serde_json::from_str::<Utilisation>(&json).expect("read back"), u);
}

#[test]
fn a_recorded_run_lands_where_an_h200_can_be() {
    // The recording in tests/fixtures/cupti: 512 prompt tokens, 8 steps; GPU busy 3.846 and 14.591 ms.
    let tokens = TokenCounts { decode_steps: Some(8), ..TOKENS };
    let recorded = |name: &str, role, busy_ns, kernels| StageInput {
        instances: 1,
        wall_ns: None,
        busy_ns: Some(busy_ns),
        kernels: Some(kernels),
        ..stage(name, role, 1.0, 0, 0)
    };
    let stages = [
        recorded("prefill", Role::Prefill, 3_846_000, 662),
        recorded("decode", Role::Decode, 14_591_000, 5552),
    ];
    let u = of(&model("llama_1b_random"), &tokens, &stages);
    let [prefill, decode] = u.stages.as_slice() else { panic!("two stages") };
    let between = |figure: &Figure, low: f64, high: f64| {
        assert!(figure.value().is_some_and(|v| (low..high).contains(&v)), "{figure:?}");
    };
    between(&prefill.mfu_busy, 0.2, 0.4);
    between(&decode.mbu_busy, 0.2, 0.3);
    between(&decode.mfu_busy, 0.001, 0.002);
    near(&decode.kernels_per_token, 694.0);
    assert_eq!(prefill.mfu_wall, Figure::Absent(Absent::NoWallTime));
}

#[test]
fn stages_that_overlap_take_their_joined_time() {
    let (model, peaks) = (model("llama_1b_random"), h200());
    let stages =
        [stage("prefill", Role::Prefill, 1.0, 20, 4), stage("decode", Role::Decode, 1.0, 600, 128)];
    let of = |joined| {
        let (model, tokens) = (Ok(&model), &TOKENS);
        utilisation(&Inputs { model, peaks: Some(&peaks), tokens, stages: &stages, joined })
    };
    let apart = of(Some(1.0)).model;
    // 620 ms of windows in 465 ms: three quarters.
    let u = of(Some(0.75));
    near(&u.model.wall_s, 0.465);
    near(&u.model.generated_tokens_per_s, apart.generated_tokens.value().expect("tokens") / 0.465);
    near(&u.model.mfu_wall, apart.mfu_wall.value().expect("MFU") / 0.75);
    assert!(matches!(u.model.mfu_busy, Figure::Absent(Absent::StagesOverlap { .. })));
    assert!(u.assumptions.iter().any(|line| line.contains("75.0 % of their sum")));
    let unknown = of(None).model;
    for figure in [unknown.wall_s, unknown.mfu_wall, unknown.generated_tokens_per_s] {
        assert!(figure.absent().is_some_and(|why| why.to_string().contains("may overlap")));
    }
}

#[test]
fn parts_of_a_vision_encoder_have_their_own_flops() {
    let ocr = model("deepseek_ocr");
    let tokens = TokenCounts { images_per_prompt: Some(2), crops_per_image: Some(6), ..TOKENS };
    let text = prefill(&ocr.shape, 1.0, 512, flops::LmHead::Last);
    let then = decode(&ocr.shape, 1.0, 512, 64);
    // Two images, each as a whole and in six crops; the FLOPs of one view are tested in `vision`.
    let sam = 2.0 * (976_909_172_736.0 + 6.0 * 325_620_793_344.0);
    let clip = 2.0 * (161_715_683_328.0 + 6.0 * 62_004_756_480.0);
    let projector = 2.0 * (1_342_177_280.0 + 6.0 * 524_288_000.0);
    let nested = |name: &str| StageInput {
        within: Some("prefill".to_owned()),
        wall_ns: None,
        ..stage(name, Role::VisionInPrefill, 2.0, 0, 20)
    };
    let mut stages = vec![
        stage("prefill", Role::Prefill, 1.0, 100, 50),
        stage("decode", Role::Decode, 1.0, 600, 128),
        nested("sam"),
        nested("clip"),
        nested("projector"),
    ];
    let u = of(&ocr, &tokens, &stages);
    near(&u.stages[0].flops, text + sam + clip + projector);
    near(&u.model.flops, text + sam + clip + projector + then);
    near(&u.model.wall_s, 0.700);
    // Two instances in a generation share the work.
    near(&u.stages[2].flops, sam / 2.0);
    near(&u.stages[2].mfu_busy, sam / 2.0 / 0.020 / 989.5e12);
    near(&u.stages[3].flops, clip / 2.0);
    near(&u.stages[4].flops, projector / 2.0);
    let text_of_lines = u.assumptions.join("\n");
    assert!(text_of_lines.contains("6 crops of 640 x 640"), "{text_of_lines}");

    // SAM before prefill: the other two stay in prefill.
    stages[2] = stage("sam", Role::VisionBefore, 1.0, 40, 20);
    let u = of(&ocr, &tokens, &stages);
    near(&u.stages[0].flops, text + clip + projector);
    near(&u.stages[2].mfu_wall, sam / 0.040 / 989.5e12);
    near(&u.model.flops, text + sam + clip + projector + then);
    near(&u.model.wall_s, 0.740);

    // A part that occurs under two ranges, or whose crops nobody counted, has none.
    stages.push(nested("sam"));
    let twice = Absent::SeveralStages { stage: "sam".to_owned() };
    assert_eq!(of(&ocr, &tokens, &stages).stages[2].flops, Figure::Absent(twice));
    stages.pop();
    let uncounted = TokenCounts { crops_per_image: None, ..tokens.clone() };
    let missing = Absent::NoTokenCount { count: "crops_per_image".to_owned() };
    let u = of(&ocr, &uncounted, &stages);
    assert_eq!(u.stages[2].flops, Figure::Absent(missing));
    let says_views =
        |lines: &[String]| lines.join("\n").contains("FLOPs of sam, clip and projector");
    assert!(!says_views(&u.assumptions), "nothing was computed: {:?}", u.assumptions);

    // What is given for the whole wins over computed parts, wherever they run.
    let mut whole = ocr.clone();
    whole.vision_flops_per_prefill = Some(9e12);
    let u = of(&whole, &tokens, &stages);
    near(&u.stages[0].flops, text + 9e12 - sam);
    near(&u.model.flops, text + 9e12 + then);
    assert!(says_views(&u.assumptions), "sam's are computed: {:?}", u.assumptions);
    let outside = |name: &str| stage(name, Role::VisionBefore, 1.0, 40, 20);
    let before = [&stages[..2], &["sam", "clip", "projector"].map(outside)].concat();
    for shape in [ocr.shape.clone(), model("llama_1b_random").shape] {
        whole.shape = shape;
        let text = prefill(&whole.shape, 1.0, 512, flops::LmHead::Last);
        let then = decode(&whole.shape, 1.0, 512, 64);
        let u = of(&whole, &tokens, &before);
        near(&u.stages[0].flops, text);
        near(&u.model.flops, text + 9e12 + then);
    }
    let mut parts = ocr.clone();
    parts.vision_part_flops_per_prefill =
        PartFlops { sam: Some(3e12), clip: Some(2e12), projector: Some(1e12) };
    let u = of(&parts, &tokens, &stages);
    near(&u.model.flops, text + 6e12 + then);
    assert!(!says_views(&u.assumptions), "all are given: {:?}", u.assumptions);

    // What is given wins over what is computed, and the sizes are not needed.
    let mut given = model("llama_1b_random");
    given.vision_part_flops_per_prefill.sam = Some(1e12);
    let u = of(&given, &tokens, &stages);
    near(&u.stages[2].flops, 1e12);
    let unknown = Absent::NoVisionPartFlops { part: "clip".to_owned() };
    assert_eq!(u.stages[3].flops, Figure::Absent(unknown));
}
