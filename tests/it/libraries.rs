//! Ranges of libraries: never around a range of the program in the table at exit, never what a
//! sample is made of, and never what the program forgot to close.

use crate::common::{Guest, counts};

#[test]
fn the_table_shows_the_ranges_of_the_program_and_those_of_libraries_apart() {
    let left = Guest::new("library_around").env("STAGE2_SUMMARY", "stderr").run();
    let said = left.expect_said(0);
    let (own, libraries) =
        said.split_once("stage2: Library ranges outside the workload's ranges:").expect("apart");
    let section = |text: &str, title: &str| {
        text.lines().find(|line| line.starts_with(&format!("{title} "))).map(String::from)
    };
    let decode = section(own, "decode").expect("a stage");
    assert!(decode.contains("x4,") && decode.contains(" 40 calls"), "{decode}");
    let reduce = section(own, "decode/ncclAllReduce").expect("inside of it");
    assert!(reduce.contains("x4,") && reduce.contains(" 4 calls"), "{reduce}");
    let group = section(libraries, "ncclGroup").expect("alone");
    assert!(group.contains("x4,") && group.contains(" 4 calls"), "{group}");
    assert!(!said.contains("ncclGroup/") && !own.contains("\nncclGroup"), "{said}");
    // The trace file tells what happened.
    let kernels = left.trace().kernels();
    let group = "ncclGroup";
    assert_eq!(kernels[&format!("{group}/decode")], 40);
    assert_eq!((kernels[group], kernels[&format!("{group}/decode/ncclAllReduce")]), (4, 4));
}

#[test]
fn the_table_on_disk_is_made_likewise() {
    let left = Guest::new("library_around").run();
    let page = left.kernels_md();
    let (own, libraries) =
        page.split_once("## Library ranges outside the workload's ranges").expect("apart");
    assert!(own.contains("decode") && !own.contains("ncclGroup"), "{page}");
    assert!(libraries.contains("ncclGroup") && !libraries.contains("decode"), "{page}");
    let plain = Guest::new("return").run().kernels_md();
    assert!(!plain.contains("libraries"), "{plain}");
}

#[test]
fn ranges_that_the_program_left_open_are_named_and_those_of_libraries_are_not() {
    let left = Guest::new("library_around").run();
    let said = left.expect_said(0);
    assert!(
        said.contains("2 ranges were still open") && said.contains("(serve, request)"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    assert_eq!(left.trace().meta("ranges.open_at_end"), Some("2"));
    assert_eq!(left.trace().losses().unclosed, 3);
}

#[test]
fn a_sample_is_made_of_ranges_of_the_program() {
    let left = Guest::new("library_around").env("STAGE2_SAMPLE", "1/2").run();
    let trace = left.trace();
    let samples = trace.samples();
    assert_eq!(samples["ncclGroup/decode"], (4, 2));
    assert!(!samples.contains_key("ncclGroup"), "{samples:?}");
    assert_eq!(
        trace.kernels(),
        counts(&[("ncclGroup/decode", 20), ("ncclGroup/decode/ncclAllReduce", 2)])
    );
}
