//! Samples of the host -> folded stacks of the time in which the GPU was idle.

use std::fs;
use std::path::Path;

use stage2_contract::trace::{
    Anchor, GpuNs, GpuWork, HostFrame, HostSample, HostStack, HostState, MonoNs, NONE,
    Path as RangePath, RangeOpen, Record, WallNs, What, Writer,
};
use stage2_export::{ExportError, Format, Run, Selection, Traces, Window, export};
use stage2_read::trace::libraries::RangeNames;

/// A decode of 10 us, of which the GPU works for the first 4, with a sample each microsecond.
fn records(with_samples: bool) -> Vec<Record> {
    let anchor = |at| Anchor { gpu: GpuNs(at), mono: MonoNs(at), wall: WallNs(at) };
    let names = ["decode", "step;x", "core.py", "schedule", "/usr/lib/python3.12/queue.py"];
    let mut all = vec![Record::Anchor(anchor(1)), Record::Anchor(anchor(1_000_000))];
    all.extend((1..).zip(names).map(|(id, name)| Record::Name { id, bytes: name.into() }));
    all.push(Record::Path(RangePath { id: 1, parent: NONE, name: 1, domain: NONE }));
    for (id, function, file) in [(1, 2, 3), (2, 4, 5)] {
        all.push(Record::HostFrame(HostFrame { id, function, file, line: 10 * id }));
        all.push(Record::HostStack(HostStack { id, parent: id - 1, frame: id }));
    }
    let open = RangeOpen { range: 1, path: 1, thread: 1, ..RangeOpen::default() };
    all.push(Record::RangeOpen(RangeOpen { start: MonoNs(10_000), ..open }));
    all.push(Record::RangeClose { range: 1, end: MonoNs(20_000) });
    let work = GpuWork { range: 1, ..GpuWork::new(What::Fill { bytes: 1 }) };
    all.push(Record::Work(GpuWork { start: GpuNs(10_000), end: GpuNs(14_000), ..work }));
    let sample = |at: u64| {
        let state = if at < 7 { HostState::Running } else { HostState::Lock };
        let stack = if at < 7 { 2 } else { 1 };
        let at = MonoNs(10_500 + at * 1_000);
        HostSample { at, thread: 1, state, stack, interval_ns: 1_000, ..HostSample::default() }
    };
    if with_samples {
        all.push(Record::HostSamples((0..10).map(sample).collect()));
    }
    all.push(Record::End { reason: "exit".into() });
    all
}

fn run(folder: &Path, with_samples: bool) -> Run {
    let mut writer = Writer::new(Vec::new()).expect("memory");
    records(with_samples).iter().for_each(|record| writer.write(record));
    writer.flush().expect("memory");
    fs::write(folder.join("node-1.s2t"), writer.into_sink()).expect("file");
    let traces = Traces::read(folder, &RangeNames::default());
    Run::of_traces("try".into(), traces, &[]).expect("a run")
}

#[test]
fn idle_time_is_folded_by_stage_stack_and_what_was_waited_for() {
    let folder = tempfile::tempdir().expect("folder");
    let run = run(folder.path(), true);
    let out = folder.path().join("x");
    export(&run, Format::FoldedHost, &Selection::default(), &out).expect("an export");
    let expected = "decode;step:x (core.py:10);(waiting for a lock or a thread) 3000\n\
                    decode;step:x (core.py:10);schedule (queue.py:20) 3000\n";
    assert_eq!(fs::read_to_string(&out).expect("file"), expected);
    let window = Some(Window::Time { from_ns: 0, to_ns: 1 });
    let part = Selection { window, ..Selection::default() };
    let refused = export(&run, Format::FoldedHost, &part, &folder.path().join("y"));
    assert!(matches!(refused, Err(ExportError::NoWindowOfHost)), "{refused:?}");
}

#[test]
fn without_samples_the_export_says_how_to_have_some() {
    let folder = tempfile::tempdir().expect("folder");
    let run = run(folder.path(), false);
    let refused = export(&run, Format::FoldedHost, &Selection::default(), &folder.path().join("x"));
    let error = refused.expect_err("no samples");
    assert!(error.to_string().contains("STAGE2_HOST=on"), "{error}");
    assert!(!error.is_usage());
}
