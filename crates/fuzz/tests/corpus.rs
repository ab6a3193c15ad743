//! The committed corpus, and a short run of the mutators over it, without libFuzzer.
//!
//! `STAGE2_FUZZ_SECONDS` says how long each target is mutated (default: 2 s), `STAGE2_FUZZ_SEED` with
//! which numbers (default: the same each time).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use stage2_fuzz::{TARGETS, Target, corpus_folder, corpus_inputs, run};

/// Longest input that is mutated: longer ones only make a run slower.
const LONGEST: usize = 256 << 10;

fn of_environment(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => {
            text.parse().unwrap_or_else(|_| panic!("{name} is `{text}`; give a whole number"))
        }
        Err(_) => default,
    }
}

/// Runs an input; where it fails, keeps it beside the programs and says where.
fn checked(target: &Target, input: &[u8], origin: &str) {
    if catch_unwind(AssertUnwindSafe(|| run(target, input))).is_err() {
        let kept = std::env::temp_dir().join(format!("stage2-fuzz-{}-failed", target.name));
        std::fs::write(&kept, input).expect("room for the input that failed");
        panic!(
            "{} failed on {origin}; the input is {}; when it is mended, put it into {}",
            target.name,
            kept.display(),
            corpus_folder().join(target.name).display()
        );
    }
}

/// The stack of a program's main thread. That of a test has a quarter of it, and a debug build takes
/// 30 KB for each bracket of YAML, of which 64 may be inside one another.
const STACK_BYTES: usize = 8 << 20;

/// Hazard (Hostile files): A damaged table of an nsys export has other rows when it is read again.
/// Promise: No kernel counts that was not there at first.
///
/// One test function: the counts of memory and CPU time are those of the process.
#[test]
fn every_target_holds_over_its_corpus_and_over_changes_to_it() {
    let all = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(all_targets);
    let all = all.expect("a thread").join();
    all.unwrap_or_else(|why| std::panic::resume_unwind(why));
}

fn all_targets() {
    let seconds = Duration::from_secs(of_environment("STAGE2_FUZZ_SECONDS", 2));
    let seed = of_environment("STAGE2_FUZZ_SEED", 1);
    for target in TARGETS {
        let inputs = corpus_inputs(target.name);
        assert!(!inputs.is_empty(), "{} has no corpus", target.name);
        for (name, input) in &inputs {
            checked(target, input, name);
        }
        let mut random = fastrand::Rng::with_seed(seed);
        let (begun, mut executions) = (Instant::now(), 0_u64);
        while begun.elapsed() < seconds {
            let (name, input) = random.choice(&inputs).expect("there are some");
            let mut input = input.clone();
            for _ in 0..random.usize(1..=4) {
                (target.mutate)(&mut input, &mut random);
            }
            input.truncate(LONGEST);
            checked(target, &input, &format!("a change to {name}"));
            executions += 1;
        }
        println!("{}: {} inputs, {executions} changed ones", target.name, inputs.len());
    }
}
