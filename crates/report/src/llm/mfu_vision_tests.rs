//! The parts of a vision encoder: computed and given FLOPs, within prefill and before it.

use super::super::super::preset::PartFlops;
use super::*;

#[test]
fn parts_of_a_vision_encoder_have_their_own_flops() {
    let (peaks, ocr) = (h200(), model("deepseek_ocr"));
    let tokens = TokenCounts { images_per_prompt: Some(2), crops_per_image: Some(6), ..TOKENS };
    let of = |model: &Model, tokens: &TokenCounts, stages: &[StageInput]| {
        utilisation(&Inputs {
            model: Ok(model),
            peaks: Some(&peaks),
            tokens,
            stages,
            joined: Some(1.0),
        })
    };
    let text = prefill(&ocr.shape, 1, 512, flops::LmHead::All);
    let then = decode(&ocr.shape, 1, 512, 64);
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
        let text = prefill(&whole.shape, 1, 512, flops::LmHead::All);
        let then = decode(&whole.shape, 1, 512, 64);
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
