//! What the collector says of forked children is a note, also where there is GPU work.

use crate::report::build::Build;
use crate::report::meaning::report_of;
use stage2_contract::trace::NONE;
use stage2_model::Severity;

fn worked(pid: u32) -> Build {
    let mut b = Build::process(pid, "python3");
    b.anchor(1).device(0, "GPU", 1).name(1, b"decode").name(2, b"k").shape(1, 2, 1);
    b.path(1, NONE, 1).open(1, 1, 0, 100).kernel(1, 1, 1, (200, 300)).close(1, 400);
    b
}

#[test]
fn children_without_cuda_and_fields_that_were_left_out_are_notes_beside_gpu_work() {
    let mut parent = worked(1);
    parent.meta("forks.after_cuda", "3").meta("ranges.fields_left_out", "12").end();
    let mut child = worked(2);
    child.meta("fork.unrecorded", "GPU work: its parent had initialised CUDA").end();
    let mut hostile = worked(3);
    hostile.meta("forks.after_cuda", "many").meta("ranges.fields_left_out", "-1").end();
    let report = report_of([&mut parent, &mut child, &mut hostile]);
    let note = |what: &str| {
        let found = report.findings.iter().find(|finding| finding.what.contains(what));
        let finding = found.unwrap_or_else(|| panic!("{what}: {:#?}", report.findings));
        assert_eq!(finding.severity, Severity::Note);
        finding
    };
    note("forked after their parent had initialised CUDA: 3");
    note("fields of NVTX payloads left out: 12");
    assert!(note("this forked child").why.contains("its parent had initialised CUDA"));

    let quiet = report_of([worked(1).end()]);
    assert_eq!(quiet.findings, [], "nothing is said where there is nothing to say");
}
