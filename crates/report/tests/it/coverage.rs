//! The parts of a run that coverage speaks of.

use stage2_model::{Coverage, META_RANGES, ProcessCoverage};

#[test]
fn windows_of_one_process_are_no_further_processes() {
    let file = |pid, ranges: Option<&str>| ProcessCoverage {
        pid: Some(pid),
        meta: ranges
            .map(|ranges| (META_RANGES.to_owned(), ranges.to_owned()))
            .into_iter()
            .collect(),
        ..ProcessCoverage::default()
    };
    let of = |processes| Coverage { processes, ..Coverage::default() }.ranges();
    let some = Some("decode");
    assert_eq!(of(vec![file(1, None), file(2, None)]), None);
    let all = of(vec![file(1, some), file(1, some)]);
    assert_eq!(all.as_deref(), Some("ranges that match decode"));
    let windows = of(vec![file(1, None), file(1, some), file(1, None)]);
    assert_eq!(windows.as_deref(), Some("ranges that match decode (in 1 of 3 windows)"));
    let processes = of(vec![file(1, None), file(2, some), file(2, some)]);
    assert_eq!(processes.as_deref(), Some("ranges that match decode (in 1 of 2 processes)"));
}
