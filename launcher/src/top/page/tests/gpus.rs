//! GPUs and their counters.

use super::*;

/// Hazard (Watching what runs): Counters are sampled no more, and their last values stand there as if they were new.
/// Promise: Their age is said.
#[test]
fn old_readings_say_their_age() {
    let mut view = view();
    view.look.processes.truncate(1);
    view.look.processes[0].gpus[0].age_ns = 7_000_000_000;
    view.look.processes[0].counters =
        vec![Counter { age_ns: 12_400_000_000, ..counter(0, "dram__bytes_read.sum", 3e11) }];
    let shown = text(&view, 120, 40).join("\n");
    assert!(shown.contains("GPU0 (7 s old) 412 W"), "{shown}");
    assert!(shown.contains("GPU0 (12 s old) DRAM 300 GB/s"), "{shown}");
    view.look.processes[0].gpus[0].age_ns = 2_000_000_000;
    assert!(!text(&view, 120, 40).join("\n").contains("(2 s old)"));
}

/// Hazard (Watching what runs): A job has more GPUs than the page has lines.
/// Promise: A line shows the lowest and the highest value of all of them, and how many are held down.
#[test]
fn many_gpus_are_one_line_where_there_is_no_room_for_each() {
    let mut view = view();
    view.look.processes = (0..8).map(|rank| process(71 + rank as u32, rank)).collect();
    view.look.processes[7].gpus[0].power_mw = Some(97_000);
    view.look.processes[7].gpus[0].memory_used_bytes = None;
    let find = |width: usize, height: usize| -> Vec<String> {
        text(&view, width, height).into_iter().filter(|line| line.contains(" C ")).collect()
    };
    let all = "  8 GPUs 97-412 W 1980 MHz memory 2619 MHz 61 C 20 of 80 GiB ! power limit on 1";
    assert_eq!(find(80, 24), [all]);
    let each = find(200, 60);
    assert!(each.len() == 3 && each[0].contains("rank 1 GPU0 412 W"), "{each:#?}");
}

/// Hazard (Watching what runs): Counters are called as CUPTI calls them, and there are more than fit into a line.
/// Promise: Names and numbers are not cut; the most important come first, and a line counts the GPUs that do not fit.
#[test]
fn counters_are_called_as_people_call_them_and_never_cut() {
    let mut view = view();
    let tensor = "sm__pipe_tensor_cycles_active_realtime.avg.pct_of_peak_sustained_elapsed";
    for (process, device) in view.look.processes.iter_mut().zip([0, 1]) {
        process.counters = vec![
            counter(device, "own__metric_of_a_very_long_name.sum", 12.0),
            counter(device, "gpc__cycles_elapsed.max", 1.98e9),
            counter(device, "dram__bytes_read.sum", 3e11),
            counter(device, "dram__bytes_write.sum", 4.5e10),
            counter(device, tensor, 0.0),
            counter(device, "lts__t_sectors.sum", 1e9),
        ];
    }
    let find = |width: usize, height: usize| -> Vec<String> {
        let all = text(&view, width, height).into_iter();
        all.filter(|line| line.contains("DRAM")).map(|line| line.trim().to_owned()).collect()
    };
    let start = "rank 0 GPU0 DRAM 345 GB/s · tensor 0.0% · SM clock 1.98 GHz";
    assert_eq!(find(80, 20), [format!("{start} …  (1 more GPU)")]);
    let all = find(140, 50);
    assert_eq!(
        all[0],
        format!("{start} · L2 32.0 GB/s · own__metric_of_a_very_long_name.sum 12.0/s")
    );
    assert!(all.len() == 2 && all[1].starts_with("rank 1 GPU1 DRAM"), "{all:#?}");
}

#[test]
fn how_busy_a_gpu_is_that_is_not_recorded_is_not_known() {
    let mut view = view();
    for process in &mut view.look.processes {
        process.counts = Counts::default();
        process.window.stages.values_mut().for_each(|sum| {
            (sum.busy_ns, sum.gaps_ns, sum.launches) = (0, 0, 0);
        });
    }
    let shown = text(&view, 80, 24);
    let decode = shown.iter().find(|line| line.starts_with("> decode")).expect("a stage");
    assert!(decode.contains(" - ") && !decode.contains("100%"), "{shown:#?}");
    assert_eq!(decode.split_whitespace().nth(5), Some("-"), "{shown:#?}");
    // The reason is stated: no number of GPU work is a zero, and there is no chart of it.
    let chart =
        |view: &View| text(view, 130, 40).iter().any(|line| line.starts_with("  GPU, last "));
    assert!(chart(&view));
    view.look.processes.iter_mut().for_each(|process| process.has_no_gpu_records = true);
    let shown = text(&view, 130, 40);
    assert!(!chart(&view) && shown[1].contains("GPU work -  attributed -"), "{shown:#?}");
    let decode = shown.iter().find(|line| line.starts_with("> decode")).expect("a stage");
    assert!(!decode.contains("0/step"), "{decode}");
    // One of two ranks is recorded: shares and counts are its own.
    view.look.processes[0] = process(71, 0);
    let shown = text(&view, 130, 40);
    let decode = shown.iter().find(|line| line.starts_with("> decode")).expect("a stage");
    assert!(chart(&view) && decode.contains("70.0%") && decode.contains("40.0/step"), "{decode}");
}
