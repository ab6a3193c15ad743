use KernelClass::*;

use super::*;

const LLM: &str = include_str!("../../../../../tests/fixtures/cupti/llm13.tsv");
const GRAPH: &str = include_str!("../../../../../tests/fixtures/cupti/graph13.tsv");

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

/// Names of kernels of engines, libraries and compilers, as CUPTI reports them and as profilers
/// show them: class, short name, name.
const NAMES: &str = include_str!("names.tsv");

/// The rows of the table: class, short name, name.
fn known() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    NAMES.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let mut cells = line.split('\t');
        let mut cell = || cells.next().expect("three cells");
        (cell(), cell(), cell())
    })
}

#[test]
fn names_that_engines_launch_have_a_class_and_a_short_name() {
    let wrong: Vec<String> = known()
        .filter_map(|(label, short, name)| {
            let found = (class(name).label(), kernel_name(name.as_bytes()).short);
            (found != (label, short.to_owned()))
                .then(|| format!("{}\t{}\t{name}", found.0, found.1))
        })
        .collect();
    assert!(wrong.is_empty(), "found instead:\n{}", wrong.join("\n"));
    assert!(known().count() > 200);
    assert_eq!(class(""), Other);
}

#[test]
fn what_ncu_may_not_replay_and_what_is_called_communication_are_the_same_kernels() {
    let recorded = recorded().into_iter().map(|name| (name, class(name)));
    let known = known().map(|(_, _, name)| (name, class(name)));
    for (name, class) in known.chain(recorded) {
        let operation = crate::text::operation::of_kernel(name.as_bytes());
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
    for class in KernelClass::ALL {
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
