use proptest::prelude::*;

use super::super::config::tests::settings;
use super::*;

fn row(name: &str, total_ns: u64, stage: &str) -> KernelTime {
    KernelTime { mangled: name.into(), total_ns, stage: stage.into() }
}

#[test]
fn the_longest_of_the_stage_are_chosen_over_all_of_their_configurations() {
    let rows = [
        row("a", 40, "decode"),
        row("b", 30, "decode"),
        row("b", 30, "decode/layer.1"),
        row("c", 1000, "prefill"),
        row("d", 5, "decode"),
        row("e", 40, "decode"),
    ];
    let selection = select(&rows, &settings("{top_n: 3}"));
    assert_eq!(selection.kernels, ["b", "a", "e"], "60, then 40 and 40 by name");
    assert_eq!(pattern(&selection.kernels).as_deref(), Some("regex:^(b|a|e)$"));
    assert!(selection.stage_occurred && selection.findings.is_empty());
}

#[test]
fn without_times_there_is_no_filter() {
    let selection = select(&[], &settings(""));
    assert_eq!((pattern(&selection.kernels), selection.stage_occurred), (None, true));
}

#[test]
fn a_stage_that_never_occurred_is_told_and_the_whole_run_is_taken() {
    let rows = [row("a", 1, "prefill"), row("b", 2, ""), row("c", 3, "warmup/x")];
    let selection = select(&rows, &settings("{stage: dekode}"));
    assert!(!selection.stage_occurred);
    assert_eq!(selection.kernels, ["c", "b", "a"]);
    let text = selection.findings[0].to_string();
    assert!(text.contains("\"dekode\"") && text.contains("prefill, warmup"), "{text}");
}

#[test]
fn kernels_that_wait_for_peers_are_left_out_unless_asked_for() {
    let rows = [row("ncclDevKernel_AllReduce", 100, "decode"), row("gemm", 10, "decode")];
    let selection = select(&rows, &settings(""));
    assert_eq!(selection.kernels, ["gemm"]);
    assert_eq!(pattern(&selection.communication), None);
    assert!(selection.findings[0].what.contains("1 kernels that talk"), "{:?}", selection.findings);
    let asked = select(&rows, &settings("{communication_kernels: true}"));
    assert_eq!(asked.kernels, ["gemm"], "not in the run with many passes");
    assert_eq!(pattern(&asked.communication).as_deref(), Some("regex:^(ncclDevKernel_AllReduce)$"));
    let alone = select(&rows[..1], &settings(""));
    assert!(alone.findings.iter().any(|f| f.what.contains("none of the kernels")));
}

#[test]
fn globs_include_and_exclude_by_either_name_and_exclude_wins() {
    let rows = [
        row("_ZN2at6native4gemmEv", 4, "decode"),
        row("gemm_plain", 3, "decode"),
        row("softmax", 2, "decode"),
    ];
    let chosen = |changes: &str| select(&rows, &settings(changes)).kernels;
    assert_eq!(chosen("{kernel_include: 'at::native::*'}"), ["_ZN2at6native4gemmEv"]);
    assert_eq!(
        chosen("{kernel_include: '*gemm*', kernel_exclude: '*plain'}"),
        ["_ZN2at6native4gemmEv"]
    );
    assert_eq!(chosen("{kernel_exclude: ['*gemm*']}"), ["softmax"]);
    assert_eq!(
        chosen("{kernel_exclude: '*gemm*', top_n: 1}"),
        ["softmax"],
        "the next one moves up"
    );
}

#[test]
fn names_that_no_argument_can_hold_are_left_out_and_told() {
    let huge = "x".repeat(LONGEST_NAME_BYTES + 1);
    let mut broken = row("", 9, "decode");
    broken.mangled = b"bad\xff\xfe".into();
    let rows = [
        broken,
        row("line\nbreak", 8, "decode"),
        row("zero\0byte", 7, "decode"),
        row(&huge, 6, "decode"),
        row("", 5, "decode"),
        row("good", 1, "decode"),
    ];
    let selection = select(&rows, &settings(""));
    assert_eq!(selection.kernels, ["good"]);
    let text = selection.findings[0].to_string();
    assert!(text.contains("5 kernels") && text.contains(r"bad\xff\xfe"), "{text}");
}

#[test]
fn an_expression_that_grows_too_long_loses_its_tail_and_never_half_a_name() {
    let long: Vec<String> = (0..40).map(|n| format!("k{n:02}{}", "y".repeat(4000))).collect();
    let rows: Vec<_> =
        long.iter().enumerate().map(|(n, name)| row(name, 1000 - n as u64, "decode")).collect();
    let selection = select(&rows, &settings("{top_n: 30}"));
    let whole = pattern(&selection.kernels).expect("pattern");
    assert!(whole.len() <= LONGEST_PATTERN_BYTES);
    assert_eq!(selection.kernels.len(), 16, "16 names of 4003 bytes and a bar fit");
    let inner = whole.strip_prefix("regex:^(").and_then(|p| p.strip_suffix(")$")).expect("form");
    assert!(inner.split('|').zip(&long).all(|(part, name)| part == name));
    assert!(selection.findings[0].what.contains("the last 14 "), "{:?}", selection.findings);
}

proptest! {
    /// Unescaping gives the name back, and no character with a meaning stands alone.
    #[test]
    fn an_escaped_name_means_itself(name in "\\PC{0,60}") {
        let escaped = escape(&name);
        let mut plain = String::new();
        let mut characters = escaped.chars();
        while let Some(c) = characters.next() {
            if c == '\\' {
                plain.push(characters.next().expect("something is escaped"));
            } else {
                let special = r"\^$.|?*+()[]{}".contains(c);
                prop_assert!(!special);
                plain.push(c);
            }
        }
        prop_assert_eq!(plain, name);
    }
}
