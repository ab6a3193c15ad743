//! FLOPs of a whole vision encoder that the user gives, where its parts are stages of their own.

use super::*;

/// Prefill and decode, and these parts before them.
fn with(model: &Model, before: &[&str]) -> Utilisation {
    let mut stages = vec![
        stage("prefill", Role::Prefill, 1.0, 100, 50),
        stage("decode", Role::Decode, 1.0, 600, 128),
    ];
    stages.extend(before.iter().map(|part| stage(part, Role::VisionBefore, 1.0, 40, 20)));
    let tokens = TokenCounts { images_per_prompt: Some(1), crops_per_image: Some(0), ..TOKENS };
    let (peaks, joined) = (Some(&h200()), Some(1.0));
    utilisation(&Inputs { model: Ok(model), peaks, tokens: &tokens, stages: &stages, joined })
}

fn text(model: &Model) -> (f64, f64) {
    let prefill = prefill(&model.shape, 1, 512, flops::LmHead::All).total();
    (prefill, decode(&model.shape, 1, 512, 64).total())
}

const PARTS: [&str; 3] = ["sam", "clip", "projector"];

#[test]
fn a_whole_that_is_given_stands_for_all_of_its_parts() {
    let mut plain = model("llama_1b_random");
    plain.vision_flops_per_prefill = Some(2e12);
    let mut ocr = model("deepseek_ocr");
    ocr.vision_flops_per_prefill = Some(2e12);
    // Those of the parts are not known for one, and computed for the other.
    for model in [plain, ocr] {
        let (prefill, decode) = text(&model);
        let u = with(&model, &PARTS);
        near(&u.stages[0].flops, prefill);
        near(&u.model.flops, prefill + 2e12 + decode);
        assert!(u.model.mfu_wall.value().is_some());
    }
}

#[test]
fn parts_that_stay_in_prefill_have_what_is_left_of_the_whole() {
    let mut given = model("llama_1b_random");
    given.vision_flops_per_prefill = Some(2e12);
    given.vision_part_flops_per_prefill.sam = Some(0.5e12);
    let (prefill, decode) = text(&given);
    let u = with(&given, &["sam"]);
    near(&u.stages[0].flops, prefill + 1.5e12);
    near(&u.model.flops, prefill + 2e12 + decode);
    // A part with more than the whole leaves nothing, not less.
    given.vision_part_flops_per_prefill.sam = Some(3e12);
    near(&with(&given, &["sam"]).stages[0].flops, prefill);
}
