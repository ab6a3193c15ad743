//! What the environment says about a process's place in its job gets into the trace file.

use crate::common::Guest;
use stage2_contract::trace::Record;

#[test]
fn ranks_are_known_also_where_they_are_set_after_the_start_and_nothing_else_is_read() {
    let left = Guest::new("late_rank")
        .env("RANK", "0")
        .env("WORLD_SIZE", "2")
        .env("SLURM_PROCID", "token=hf_secret")
        .env("CUDA_VISIBLE_DEVICES", "0,1")
        .env("HF_TOKEN", "hf_secret")
        .run();
    let trace = left.expect_quiet(0).trace();
    assert_eq!(trace.meta("env.RANK"), Some("1"), "as it was when the GPU was first used");
    assert_eq!(trace.meta("env.LOCAL_RANK"), Some("1"));
    assert_eq!(trace.meta("env.WORLD_SIZE"), Some("2"));
    assert_eq!(trace.meta("env.CUDA_VISIBLE_DEVICES"), Some("0,1"));
    assert_eq!(trace.meta("env.SLURM_PROCID"), None, "no number");
    let facts = trace.records.iter().filter_map(|record| match record {
        Record::Meta { key, value } => Some(format!("{key}={value}")),
        _ => None,
    });
    let facts: Vec<String> = facts.collect();
    assert!(!facts.iter().any(|fact| fact.contains("secret")), "{facts:?}");
}
