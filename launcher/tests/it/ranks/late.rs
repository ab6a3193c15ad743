//! One rank comes late: it is named, its lateness is right, and waiting is no communication.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use predicates::prelude::PredicateBooleanExt as _;
use serde_json::Value;

use super::{ALL_REDUCE, BROADCAST, MS, Rank, US, report};
use crate::common::guest::Running;
use crate::common::trace::takeaways;
use crate::common::{LAUNCH, Sandbox, json};
use stage2_model::{LateCause, Operation, Report, Rule, WindowKind};

const BYTES: u64 = 16_384;
const HASH: u64 = 0xfeed;
/// Every so many steps rank 1 sleeps for so long.
const EVERY: u64 = 8;
const SLEEP: u64 = 4 * MS;
const STEPS: u64 = 32;
const TRANSFER: u64 = 20 * US;
/// In as many other steps it is a little late.
const JITTER: u64 = 3 * US;
const LATE: u64 = STEPS / EVERY;
const SENTENCE: &str = "rank 1 is late in 4 of 32 calls, every eighth call, by 4.00 ms; that is 100 % of the time that ranks wait in collectives of decode";

/// Why rank 1 is late.
#[derive(Clone, Copy, PartialEq)]
enum Late {
    /// It sleeps.
    OnTheHost,
    /// Its product takes longer.
    OnTheGpu,
}

/// Steps of 1 ms: a product of 100 us and an AllReduce whose transfer takes 20 us; every eighth step
/// rank 1 is 4 ms late, and every eighth 3 us.
fn captured(hash: Option<u64>) -> [Rank; 2] {
    late_by(Late::OnTheHost, hash)
}

fn late_by(why: Late, hash: Option<u64>) -> [Rank; 2] {
    [0u32, 1].map(|rank| {
        let mut one = Rank::new(rank, 2);
        if let Some(hash) = hash {
            one.communicator(hash, 2, rank.into());
        }
        let mut start = MS;
        for step in 0..STEPS {
            let sleep = match step % EVERY {
                7 => SLEEP,
                3 => JITTER,
                _ => 0,
            };
            let own = if rank == 1 { sleep } else { 0 };
            let begins = if why == Late::OnTheHost { own } else { 0 };
            one.decode(start).gemm((start + 10 * US + begins, start + 110 * US + own));
            let (from, to) = (start + 110 * US + own, start + 110 * US + sleep + TRANSFER);
            one.collective(ALL_REDUCE, Some(BYTES), hash, (from, to));
            one.done(to + 10 * US);
            start += MS + sleep;
        }
        one
    })
}

/// `collectives`: those that count. The ranges that make a communicator lie in `decode` here, as its first, cold instance.
fn expect_late_rank(report: &Report, collectives: u64) {
    let late = &report.ranks.late;
    assert_eq!(late.len(), 1, "{late:?}");
    assert_eq!((late[0].stage.as_str(), late[0].who.as_str()), ("decode", "rank 1"));
    assert_eq!((late[0].collectives, late[0].late_collectives), (collectives, 2 * LATE));
    assert_eq!((late[0].late_total_ns, late[0].late_max_ns), ((SLEEP + JITTER) * LATE, SLEEP));
    // What it is late by 3 us is nothing beside that.
    let delays = late[0].delays.as_ref().expect("no noise");
    assert_eq!((delays.collectives, delays.mean_ns, delays.max_ns), (LATE, SLEEP, SLEEP));
    let sentence = SENTENCE.replace("of 32", &format!("of {collectives}"));
    assert_eq!(late[0].delay_sentence(), Some(sentence));
}

/// Hazard (Watching what runs): A rank is late while the job runs.
/// Promise: `top` marks it, and states the basis.
#[test]
fn a_late_rank_is_marked_while_the_job_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
    let traces = captured(Some(HASH)).map(|mut rank| {
        rank.clocks(0, now - 1_700_000_000_000_000_000);
        (folder.path().join(format!("node-1-{}.s2t", rank.pid)), rank.b.bytes())
    });
    let mut rest = traces.map(|(path, all)| {
        let (first, rest) = all.split_at(all.len() / 2);
        std::fs::write(&path, first).expect("written");
        (std::fs::File::options().append(true).open(path).expect("a file"), rest.to_owned())
    });
    let mut command = Command::new(LAUNCH);
    command.args(["top", "--plain"]).arg(folder.path()).stdout(Stdio::piped());
    let mut top = Running(command.spawn().expect("stage2-launch"));
    let lines = BufReader::new(top.0.stdout.take().expect("piped")).lines();
    let (mut rank_1, began) = (String::new(), Instant::now());
    for line in lines.map_while(Result::ok) {
        assert!(began.elapsed() < Duration::from_secs(60), "no rank is marked");
        if line.contains("2 recording") {
            rest.iter_mut().for_each(|(file, rest)| {
                file.write_all(&std::mem::take(rest)).expect("written");
            });
        }
        if line.contains("* rank 1 is late: the other rank waits for it") {
            break;
        }
        rank_1 = line;
    }
    let cells: Vec<&str> = rank_1.split_whitespace().collect();
    assert_eq!((cells[0], cells[3]), ("1", "recording"), "{rank_1}");
    assert!(cells[7].ends_with("%)*"), "{rank_1}");
}

#[test]
fn a_rank_that_is_late_on_the_host_is_told_from_one_with_a_slow_gpu() {
    for (why, work_ns, cause, said) in [
        (Late::OnTheHost, 0, LateCause::Host, "is late on the host"),
        (Late::OnTheGpu, SLEEP * LATE, LateCause::Gpu, "is slow on the GPU"),
    ] {
        let (report, page) = report(&mut late_by(why, Some(HASH)));
        expect_late_rank(&report, STEPS);
        let row = &report.ranks.late[0];
        let delays = row.delays.as_ref().expect("no noise");
        assert_eq!((delays.work_ns, delays.cause()), (work_ns, cause));
        assert!(page("report.md").contains(said), "{said}");
    }
}

#[test]
fn the_late_rank_is_named_and_waiting_is_told_from_transfer() {
    let (report, page) = report(&mut captured(Some(HASH)));
    expect_late_rank(&report, STEPS);
    let ranks = &report.ranks;
    assert_eq!((ranks.seen, ranks.expected, ranks.hosts), (2, Some(2), 1));
    assert_eq!(ranks.clock_error_ns, Some(2 * US), "twice the reading of a clock");

    let row = &ranks.collectives[0];
    assert_eq!(ranks.collectives.len(), 1, "{:?}", ranks.collectives);
    assert_eq!((row.operation, row.members), (Operation::AllReduce, 2));
    assert_eq!((row.calls, row.matched_calls), (2 * STEPS, 2 * STEPS));
    assert_eq!((row.bytes_min, row.bytes_max), (Some(BYTES), Some(BYTES)));
    assert_eq!(row.bytes_total, Some(2 * STEPS * BYTES));
    assert_eq!(row.waiting_ns, Some((SLEEP + JITTER) * LATE));
    assert_eq!(row.transfer_ns, Some(2 * STEPS * TRANSFER));
    assert_eq!(row.time_ns, row.waiting_ns.unwrap() + row.transfer_ns.unwrap());
    // Of two members each moves the message once, in 20 us.
    let bus = row.bus_gb_per_s.expect("all is known");
    assert!((bus - BYTES as f64 / TRANSFER as f64).abs() < 1e-9, "{bus}");

    // The slowest first: rank 1 never waited.
    let told: Vec<_> = ranks.stages.iter().map(|row| (row.who.as_str(), row.waiting_ns)).collect();
    assert_eq!(told, [("rank 1", Some(0)), ("rank 0", Some((SLEEP + JITTER) * LATE))]);
    let slow = &ranks.stages[0];
    assert_eq!((slow.instances, slow.kernels), (STEPS, Some(2 * STEPS)));
    assert_eq!(slow.communication_ns, Some(STEPS * TRANSFER));

    let text = page("report.md");
    for part in ["2 of 2", SENTENCE] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn waiting_is_a_part_of_the_window_of_its_own() {
    let (report, _) = report(&mut captured(Some(HASH)));
    let decode = &report.answer.stages[0];
    let window = decode.window.as_ref().expect("a window");
    let parts: Vec<(WindowKind, u64)> =
        window.parts.iter().map(|part| (part.kind, part.ns)).collect();
    // Of both ranks: where rank 1 sleeps, rank 0 waits. The set-up of the communicator came first.
    let (waiting, warm) = ((SLEEP + JITTER) * LATE, 2 * STEPS);
    assert_eq!(
        parts,
        [
            (WindowKind::Compute, warm * 100 * US),
            (WindowKind::Transfer, warm * TRANSFER),
            (WindowKind::Waiting, waiting),
            (WindowKind::OtherIdle, warm * 20 * US + waiting),
        ]
    );
    // The late rank's GPU idles while the other one waits: both go if the rank comes in time.
    let first = report.answer.first.as_ref().expect("a late rank");
    let condition = (first.rule, first.condition.as_str(), first.detail.as_deref());
    assert_eq!(condition, (Rule::Waiting, "no rank waits for others", Some(SENTENCE)));
    let left = warm * (100 * US + TRANSFER + 20 * US);
    let expected = window.window_ns as f64 / left as f64;
    assert!(first.factor.is_some_and(|factor| (factor - expected).abs() < 1e-9), "{first:?}");
}

#[test]
fn without_a_hash_the_nth_call_of_a_stage_instance_is_the_same_one() {
    let (report, page) = report(&mut captured(None));
    // The first step is the cold one.
    expect_late_rank(&report, STEPS - 1);
    assert_eq!(report.ranks.collectives[0].communicator, None);

    // The timelines are of a step in which rank 1 is late, not of the median one.
    let timelines: Value = serde_json::from_str(&page("timelines.json")).expect("JSON");
    let timelines = timelines["step_timelines"].as_array().expect("timelines");
    let [late, waits] = [true, false].map(|is_late| {
        timelines.iter().find(|one| one["rank"]["is_late"] == is_late).expect("a timeline")
    });
    assert_eq!(
        (&late["step"]["number"], &late["rank"]["late_ns"]),
        (&waits["step"]["number"], &SLEEP.into())
    );
    let work =
        waits["lanes"].as_array().expect("lanes").iter().flat_map(|lane| lane["work"].as_array());
    assert_eq!(work.flatten().filter_map(|work| work["waiting_ns"].as_u64()).sum::<u64>(), SLEEP);
}

#[test]
fn no_takeaway_calls_waiting_communication() {
    let (report, page) = report(&mut captured(Some(HASH)));
    // 16 ms of waiting, 6.4 of products, 1.28 of transfer: 5.4 % are communication.
    let said = takeaways(&report);
    assert!(!said.iter().any(|text| text.contains("communication is")), "{said:?}");
    let waiting = said.iter().find(|text| text.contains("waiting for other ranks"));
    let waiting = waiting.expect("it is said what the time is");
    assert!(waiting.contains("67.6 %") && waiting.contains(&SENTENCE["rank".len()..]), "{waiting}");
    let classes = page("report.md");
    assert!(classes.contains("waiting"), "{classes}");
}

#[test]
fn of_a_sample_waiting_is_scaled_as_kernel_time_is() {
    // One instance in 16 is recorded; in each, rank 1 is 400 us late.
    let (steps, late) = (64, 400 * US);
    let mut ranks = [0u64, 1].map(|rank| {
        let mut one = Rank::new(rank as u32, 2);
        one.b.meta("sample", "1/16");
        one.communicator(HASH, 2, rank);
        for step in 0..steps {
            let start = (step + 1) * MS;
            one.decode(start).sampled(step % 16 == 5);
            if step % 16 == 5 {
                let own = late * rank;
                one.gemm((start, start + 100 * US));
                let times = (start + 100 * US + own, start + 100 * US + late + TRANSFER);
                one.collective(ALL_REDUCE, Some(BYTES), Some(HASH), times);
            } else {
                one.call(ALL_REDUCE, Some(BYTES), Some(HASH));
            }
            one.done(start + 600 * US);
        }
        one
    });
    let (report, page) = report(&mut ranks);
    let row = &report.ranks.collectives[0];
    assert_eq!((row.calls, row.matched_calls), (2 * steps, 2 * steps));
    assert_eq!(row.bytes_total, Some(2 * steps * BYTES));
    assert_eq!((row.waiting_ns, row.transfer_ns), (Some(steps * late), Some(2 * steps * TRANSFER)));
    assert_eq!(row.time_ns, steps * (late + 2 * TRANSFER));
    // Bandwidth is that of what was recorded.
    assert_eq!(row.bus_gb_per_s, Some(BYTES as f64 / TRANSFER as f64));
    let row = &report.ranks.late[0];
    assert_eq!((row.collectives, row.late_collectives), (steps, steps));
    assert_eq!((row.late_total_ns, row.late_max_ns), (steps * late, late));
    let of = |who: &str| report.ranks.stages.iter().find(|row| row.who == who).expect("a row");
    let waited = of("rank 0");
    assert_eq!(waited.communication_ns, Some(steps * (late + TRANSFER)));
    assert_eq!(waited.waiting_ns, Some(steps * late));
    assert_eq!(waited.transfer_ns, Some(steps * TRANSFER));
    // 400 us of waiting, 200 of products and 40 of transfer.
    let said = takeaways(&report);
    assert!(said.iter().any(|text| text.contains("waiting for other ranks is 62.5 %")), "{said:?}");
    assert!(!said.iter().any(|text| text.contains("communication is")), "{said:?}");
    assert!(page("report.md").contains("calls, bytes and times are scaled to all"));
}

#[test]
fn time_of_collectives_that_are_not_split_is_not_called_transfer() {
    let mut ranks = [0u64, 1].map(|rank| {
        let mut one = Rank::new(rank as u32, 2);
        one.communicator(HASH, 2, rank);
        for step in 0..8 {
            let start = (step + 1) * MS;
            one.decode(start).gemm((start, start + 100 * US));
            let (reduced, sent) = (start + 120 * US, start + 520 * US);
            one.collective(ALL_REDUCE, Some(BYTES), Some(HASH), (start + 100 * US, reduced));
            one.collective(BROADCAST, Some(BYTES), Some(HASH), (reduced, sent));
            one.done(sent + US);
        }
        one
    });
    let (report, _) = report(&mut ranks);
    assert!(report.ranks.collectives.iter().all(|row| row.unmatched.is_empty()));
    let said = takeaways(&report);
    let known = "waiting for other ranks not counted";
    assert!(!said.iter().any(|text| text.contains(known)), "{said:?}");
    let unknown = "an unknown part of that is waiting for other ranks";
    assert!(said.iter().any(|text| text.contains(unknown)), "{said:?}");
}

#[test]
fn every_artifact_says_which_rank_ran_where() {
    let (_, page) = report(&mut captured(Some(HASH)));
    let place = "rank 1 on node-1, GPU 1 (NVIDIA H200)";
    for name in ["report.md", "kernels.md", "stakeholder_summary.md", "report.html"] {
        let text = page(name);
        assert!(text.contains("2 of 2 seen") && text.contains(place), "{name}: {text}");
    }
    let table = page("kernels.csv");
    let mut lines = table.lines();
    let head: Vec<&str> = lines.next().expect("a head").split(',').collect();
    let column = |name: &str| head.iter().rev().position(|&column| column == name).expect(name);
    for line in lines {
        // Names hold commas: counted from the end.
        let cells: Vec<&str> = line.rsplit(',').collect();
        let rank = if line.contains("1 NVIDIA H200") { "1" } else { "0" };
        assert_eq!((cells[column("ranks")], cells[column("host")]), (rank, "node-1"), "{line}");
    }
}

/// The files of a bundle say who rank 1 is, and where it ran.
fn expect_rank_1(bundle: &Path) {
    for name in ["run.json", "env.json", "metrics.json"] {
        let file = json(&bundle.join(name));
        let row = &file["processes"][1];
        assert_eq!(
            (&row["rank"], &row["host"], &row["devices"][0]),
            (&1.into(), &"node-1".into(), &"1 NVIDIA H200".into()),
            "{name}"
        );
        // LOCAL_RANK and WORLD_SIZE.
        assert_eq!((&row["local_rank"], &row["world_size"]), (&1.into(), &2.into()), "{name}");
    }
}

#[test]
fn the_files_of_a_run_and_of_merged_captures_say_it_too() {
    let sandbox = Sandbox::new();
    captured(Some(HASH)).iter_mut().for_each(|rank| rank.save(&sandbox.path("recorded")));
    let words = ["merge", "--spool", "recorded/collector", "-o", "out"];
    let merge = sandbox.launch_strictly(&words).assert().success();
    let late = "late:     rank 1 in 4 of 32 calls, by 4.00 ms (median), on the host";
    // Whoever merges has to name the model.
    let floor = predicates::str::contains(
        "floor:    not known: no model is configured (choose one, also for stage2-launch report",
    );
    merge.stderr(predicates::str::contains(late).and(floor));
    expect_rank_1(&sandbox.path("out"));
    let script = "cp recorded/collector/*.s2t \"$STAGE2_OUT\"";
    let words = ["-q", "run.mode=light", "--", "sh", "-c", script];
    sandbox.launch_strictly(&words).assert().success();
    expect_rank_1(&sandbox.latest(""));
}
