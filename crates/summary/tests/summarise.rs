//! Records of a trace -> its summary, and what a job of two such ranks says.

use std::fs::File;
use std::path::Path as Folder;

use stage2_contract::trace::{
    Anchor, Device, DeviceState, Field, FieldValue, GpuNs, GpuWork, Losses, MonoNs, Path, Process,
    Queue, RangeOpen, Record, Shape, WallNs, What,
};
use stage2_summary::job::Fold;
use stage2_summary::{Entry, Member, PERIOD_NS, Period, Summariser, Writer, tree};

const MS: u64 = 1_000_000;
const STEP_NS: u64 = 100 * MS;
/// The GPU's clock against the monotonic one.
const GPU_AHEAD_NS: u64 = 5_000_000_000;

/// A rank that runs steps of a gemm and an all-reduce of `transfer`. Rank 1 comes late by `late_ns`, because its gemm
/// takes longer where `by_work`.
struct Rank {
    rank: u64,
    host: &'static str,
    steps: u64,
    late_ns: u64,
    by_work: bool,
    graph: bool,
    wall_ahead_ns: u64,
}

impl Rank {
    fn new(rank: u64, steps: u64, late_ns: u64) -> Self {
        let (by_work, graph) = (false, false);
        let wall_ahead_ns = 29_000_000 * PERIOD_NS;
        Self { rank, host: "a", steps, late_ns, by_work, graph, wall_ahead_ns }
    }

    fn records(&self) -> Vec<Record> {
        let name = |id: u32, text: &str| Record::Name { id, bytes: text.into() };
        let anchor = |mono: u64, moved: u64| {
            let wall = WallNs(mono + self.wall_ahead_ns + moved);
            Record::Anchor(Anchor { gpu: GpuNs(mono + GPU_AHEAD_NS), mono: MonoNs(mono), wall })
        };
        let meta =
            |key: &str, value: u64| Record::Meta { key: key.into(), value: value.to_string() };
        let path =
            |id: u32, name: u32, domain: u32| Record::Path(Path { id, parent: 0, name, domain });
        let shape = |id: u32, name: u32| Record::Shape(Shape { id, name, ..Shape::default() });
        let pid = 100 + self.rank as u32;
        let process = Process { pid, host: self.host.into(), ..Process::default() };
        let device = Device { name: b"NVIDIA H200".to_vec(), uuid: [7; 16], ..Device::default() };
        let mut all = vec![
            Record::Process(process),
            meta("env.RANK", self.rank),
            meta("env.WORLD_SIZE", 2),
            anchor(MS, 0),
            Record::Device(device),
            Record::Queue(Queue { id: 1, ..Queue::default() }),
        ];
        let names = [
            "NCCL",
            "decode",
            "ncclAllReduce",
            "ncclCommInitRank",
            "sm90_xmma_gemm_bf16",
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
            "NCCL communicator ID",
            "No. of ranks",
            "Rank",
        ];
        all.extend((1..).zip(names).map(|(id, text)| name(id, text)));
        all.extend([path(1, 2, 0), path(2, 3, 1), path(3, 4, 1), shape(1, 5), shape(2, 6)]);
        let field = |name, value| Field { name, value: FieldValue::U64(value) };
        let mut range = 0;
        let mut open = |all: &mut Vec<Record>, path: u32, parent: u64, at: u64| {
            range += 1;
            let start = MonoNs(at);
            all.push(Record::RangeOpen(RangeOpen {
                range,
                path,
                thread: 1,
                parent,
                start,
                ..RangeOpen::default()
            }));
            range
        };
        let close = |range: u64, at: u64| Record::RangeClose { range, end: MonoNs(at) };
        let init = open(&mut all, 3, 0, 2 * MS);
        let fields = vec![field(7, 0xfeed), field(8, 2), field(9, self.rank)];
        all.push(Record::RangeFields { range: init, fields });
        all.push(close(init, 3 * MS));
        let kernel = |shape, range, start: u64, ns: u64, graph_node| {
            let (start, end) = (GpuNs(start + GPU_AHEAD_NS), GpuNs(start + ns + GPU_AHEAD_NS));
            let work = GpuWork::new(What::Kernel { shape });
            let correlation = start.0;
            Record::Work(GpuWork { start, end, queue: 1, range, graph_node, correlation, ..work })
        };
        if self.graph {
            let capture = open(&mut all, 2, 0, 4 * MS);
            all.push(Record::RangeFields { range: capture, fields: vec![field(7, 0xfeed)] });
            all.push(Record::GraphNode { node: 77, path: 2, range: capture });
            all.push(close(capture, 5 * MS));
        }
        for step in 0..self.steps {
            let at = 10 * MS + step * STEP_NS;
            let decode = open(&mut all, 1, 0, at);
            let is_late = self.rank == 1;
            let own = if is_late { self.late_ns } else { 0 };
            let gemm = 10 * MS + if self.by_work { own } else { 0 };
            all.push(kernel(1, decode, at + MS, gemm, 0));
            // All end together, 30 us after the last one came.
            let (start, end) = (at + 12 * MS + own, at + 12 * MS + self.late_ns + 30_000);
            if self.graph {
                all.push(kernel(2, decode, start, end - start, 77));
            } else {
                let reduce = open(&mut all, 2, decode, at + 2 * MS);
                all.push(Record::RangeFields { range: reduce, fields: vec![field(7, 0xfeed)] });
                all.push(close(reduce, at + 3 * MS));
                all.push(kernel(2, reduce, start, end - start, 0));
            }
            all.push(close(decode, at + 90 * MS));
            if step % 10 == 0 {
                // The wall clock is set an hour back on the way.
                all.push(anchor(at + 95 * MS, if step > 700 { 3_600_000 * MS } else { 0 }));
                all.push(Record::DeviceState(DeviceState {
                    at: MonoNs(at + 95 * MS),
                    sm_clock_mhz: Some(1_980),
                    temperature_c: Some(55),
                    ..DeviceState::default()
                }));
            }
        }
        all.push(Record::Losses(Losses { cupti_dropped: 3, ..Losses::default() }));
        all.push(Record::End { reason: "exit".into() });
        all
    }

    fn summary(&self) -> (Member, Vec<Period>) {
        let mut summariser = Summariser::default();
        let (mut member, mut periods) = (Member::default(), Vec::new());
        let mut entries: Vec<Entry> = Vec::new();
        for record in self.records() {
            summariser.take(&record);
            entries.extend(summariser.ready());
        }
        summariser.finish();
        entries.extend(summariser.ready());
        for entry in entries {
            match entry {
                Entry::Member(found) => member = found,
                Entry::Period(period) => periods.push(*period),
            }
        }
        (member, periods)
    }
}

#[test]
fn a_summary_holds_steps_kernels_idle_time_and_who_it_is() {
    let (member, periods) = Rank::new(1, 1_500, 0).summary();
    assert_eq!((member.rank, member.world, member.host.as_str()), (Some(1), Some(2), "a"));
    assert_eq!((member.gpus.len(), member.pid, member.in_part), (1, 101, false));
    // 150 s.
    assert_eq!(
        periods.iter().map(|period| period.index).collect::<Vec<_>>(),
        [29_000_000, 29_000_001, 29_000_002]
    );
    let mut all = Period::default();
    periods.iter().for_each(|period| all.merge(period.clone()));
    let decode = &all.stages["decode"];
    assert_eq!(
        (decode.steps.count(), decode.steps.min(), decode.steps.max()),
        (1_500, 90 * MS, 90 * MS)
    );
    assert_eq!((decode.busy.median(), decode.collective.median()), (10 * MS + 30_000, 30_000));
    let sum = |class: &str| (decode.classes[class].calls, decode.classes[class].total_ns);
    assert_eq!(sum("gemm"), (1_500, 1_500 * 10 * MS));
    assert_eq!(sum("communication"), (1_500, 1_500 * 30_000));
    // 1 ms from the gemm to the all-reduce in the step, and 1 ms from its begin to the gemm.
    assert_eq!(all.idle["in steps"], 1_500 * 2 * MS - MS);
    let outside = 1_499 * (STEP_NS - 12 * MS - 30_000);
    assert_eq!(all.idle["between steps"], outside);
    assert_eq!((all.clocks.median(), all.losses["dropped by CUPTI"]), (1_980, 3));
    assert_eq!(all.clock_moved_ms.value, 3_600_000, "a clock that is set moves no minute");
    let numbers: Vec<u64> = all.arrivals.keys().map(|call| call.number).collect();
    assert_eq!(numbers.len(), 3 * 24);
    assert!(numbers.iter().any(|number| *number >= 1_400), "all times: {numbers:?}");
    assert_eq!(all.communicators[&0xfeed], 2);
}

fn write(folder: &Folder, name: &str, rank: &Rank) -> std::path::PathBuf {
    let path = folder.join(name);
    let mut writer = Writer::new(File::create(&path).expect("a file")).expect("a header");
    let (member, periods) = rank.summary();
    writer.write(&Entry::Member(member)).expect("space");
    for period in periods {
        writer.write(&Entry::Period(Box::new(period))).expect("space");
    }
    path
}

/// Hazard (Jobs of many ranks): One of two ranks is delayed by 0, 50, 250 or 1,000 us in each step, launched eagerly or
///  by a graph, on its host or by its GPU.
/// Promise: The delay is recovered within 10 % or the stated error, with its cause.
#[test]
fn an_injected_delay_is_recovered_from_traces() {
    use stage2_summary::job::Cause;
    for late_ns in [0, 50_000, 250_000, 1_000_000] {
        for (by_work, graph, host) in [(false, false, "a"), (true, true, "a"), (false, true, "b")] {
            let folder = tempfile::tempdir().expect("a folder");
            let first = Rank { graph, by_work, ..Rank::new(0, 700, late_ns) };
            let second = Rank { graph, by_work, host, ..Rank::new(1, 700, late_ns) };
            let paths =
                [write(folder.path(), "a.s2s", &first), write(folder.path(), "b.s2s", &second)];
            let mut inventory = tree::look(&paths);
            let mut fold = Fold::default();
            let take = |period| {
                fold.add(period);
                Ok(())
            };
            tree::merge(&mut inventory, folder.path(), take).expect("it merges");
            let job = fold.finish(&inventory, |_| None);
            let what = format!("{late_ns} {by_work} {graph} {host}: {:?}", job.late);
            assert!(job.collectives.samples >= 48, "{what} {:?}", job.collectives);
            let Some(late) = job.late.first() else {
                assert_eq!(late_ns, 0, "{what}");
                continue;
            };
            assert_eq!((late.rank, job.late.len()), (Some(1), 1), "{what}");
            let off = late.late_ns.abs_diff(late_ns);
            assert!(off <= late_ns / 10 || off <= late.error_ns, "{what}");
            assert_eq!(late.cause, if by_work { Cause::GpuWork } else { Cause::Host }, "{what}");
        }
    }
}

/// Hazard (Jobs of many ranks): A trace of hostile records: unknown numbers, times at the ends of their range, ranges
///  that never close.
/// Promise: A summary of bounded size, and no panic.
#[test]
fn hostile_records_give_a_summary_all_the_same() {
    let mut summariser = Summariser::default();
    let mut entries = 0;
    for (at, record) in Rank::new(0, 50, 0).records().into_iter().enumerate() {
        summariser.take(&record);
        let at = at as u64;
        for time in [0, 1, at, u64::MAX, u64::MAX / 2] {
            let work = GpuWork::new(What::Kernel { shape: at as u32 });
            let (start, end) = (GpuNs(time), GpuNs(u64::MAX));
            summariser.work(&GpuWork { start, end, range: time, queue: 9, ..work });
            let start = MonoNs(time);
            let open = RangeOpen { range: time ^ at, path: 1, start, ..RangeOpen::default() };
            summariser.take(&Record::RangeOpen(RangeOpen { continues: at % 3, ..open }));
            summariser.take(&Record::RangeClose { range: at ^ time, end: MonoNs(time) });
            let (gpu, wall) = (GpuNs(time), WallNs(time ^ u64::MAX));
            summariser.take(&Record::Anchor(Anchor { gpu, mono: start, wall }));
        }
        entries += summariser.ready().count();
    }
    summariser.finish();
    entries += summariser.ready().count();
    assert!((1..10_000).contains(&entries), "{entries}");
}

#[test]
fn a_step_that_is_longer_than_usual_is_told_once() {
    let mut summariser = Summariser::default();
    for record in Rank::new(0, 400, 0).records() {
        summariser.take(&record);
        assert!(!summariser.take_unusual(), "all are alike");
    }
    let start = MonoNs(60_000 * MS);
    let open = RangeOpen { range: 9_999, path: 1, thread: 1, start, ..RangeOpen::default() };
    summariser.take(&Record::RangeOpen(open));
    summariser.take(&Record::RangeClose { range: 9_999, end: MonoNs(60_200 * MS) });
    summariser.finish();
    assert!(summariser.take_unusual());
    assert!(!summariser.take_unusual());
}
