use stage2_live::{Counts, StageNumbers, Watched};

use super::*;

fn process() -> Watched {
    let mut decode = StageNumbers {
        steps: 3,
        steps_ns: 30_000_000,
        tokens: 24,
        steps_with_tokens: 3,
        window_ns: 30_000_000,
        busy_ns: 20_000_000,
        gaps_ns: 1_000_000,
        ..StageNumbers::default()
    };
    decode.step_buckets[6] = 2;
    decode.step_buckets[7] = 1;
    (decode.class_ns[1], decode.class_launches[1]) = (15_000_000, 30);
    Watched {
        host: "node-1".into(),
        pid: 4711,
        rank: Some(3),
        state: FileState::Growing,
        totals: [("decode".to_owned(), decode)].into(),
        device_totals: [(0, 21_000_000)].into(),
        counts: Counts { work: 31, attributed: 30, outside: 1, ..Counts::default() },
        losses: vec![("dropped_by_cupti", 2)],
        bytes: 1_000,
        last_wall_ns: Some(7_000_000_000),
        ..Watched::default()
    }
}

fn of(processes: Vec<Watched>) -> String {
    let own = Own { now_ns: 9_500_000_000, cpu_seconds: vec![(4711, 0.25)] };
    text(Look { processes, ..Look::default() }, own)
}

#[test]
fn the_text_is_this() {
    let text = of(vec![process()]);
    let who = "host=\"node-1\",pid=\"4711\",rank=\"3\"";
    for line in [
        "# TYPE stage2_stage_step_seconds histogram".to_owned(),
        "# UNIT stage2_stage_step_seconds seconds".to_owned(),
        format!("stage2_stage_step_seconds_sum{{{who},stage=\"decode\"}} 0.03"),
        format!("stage2_stage_step_seconds_count{{{who},stage=\"decode\"}} 3"),
        format!("stage2_stage_step_seconds_bucket{{le=\"0.005\",{who},stage=\"decode\"}} 0"),
        format!("stage2_stage_step_seconds_bucket{{le=\"0.01\",{who},stage=\"decode\"}} 2"),
        format!("stage2_stage_step_seconds_bucket{{le=\"+Inf\",{who},stage=\"decode\"}} 3"),
        format!("stage2_stage_tokens_total{{{who},stage=\"decode\"}} 24"),
        format!("stage2_stage_window_seconds_total{{{who},stage=\"decode\"}} 0.03"),
        format!("stage2_stage_busy_seconds_total{{{who},stage=\"decode\"}} 0.02"),
        format!("stage2_stage_launch_gap_seconds_total{{{who},stage=\"decode\"}} 0.001"),
        format!("stage2_stage_class_seconds_total{{{who},stage=\"decode\",class=\"gemm\"}} 0.015"),
        format!("stage2_stage_class_launches_total{{{who},stage=\"decode\",class=\"gemm\"}} 30"),
        format!("stage2_device_busy_seconds_total{{{who},device=\"0\"}} 0.021"),
        format!("stage2_launches_total{{{who},placed=\"range\"}} 30"),
        format!("stage2_losses_total{{{who},kind=\"dropped_by_cupti\"}} 2"),
        format!("stage2_collector_cpu_seconds_total{{{who}}} 0.25"),
        format!("stage2_trace_bytes_total{{{who}}} 1000"),
        format!("stage2_data_age_seconds{{{who}}} 2.5"),
        format!("stage2_recording{{{who}}} 1.0"),
        "stage2_feed_behind_bytes 0.0".to_owned(),
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\nis not in\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
}

/// Hazard (Watching what runs): Names of stages hold what terminals or Prometheus obey.
/// Promise: They stay text.
#[test]
fn names_from_anywhere_stay_within_their_label() {
    let mut hostile = process();
    let sum = hostile.totals.remove("decode").expect("a stage");
    hostile.totals.insert("a\"} 1\\x0astage2_up 1 \\".to_owned(), sum);
    let text = of(vec![hostile]);
    assert!(text.contains(r#"stage="a\"} 1\\x0astage2_up 1 \\"} 0.02"#), "{text}");
    assert!(text.lines().all(|line| line.starts_with("stage2_") || line.starts_with("# ")));
}

/// Hazard (Watching what runs): A job has hundreds of processes.
/// Promise: The number of series is bounded.
#[test]
fn series_are_bounded_and_no_kernel_has_one() {
    let many = |pid| {
        let mut process = Watched { pid, ..process() };
        let sum = process.totals["decode"].clone();
        process.totals.extend((0..3).map(|at| (format!("stage {at}"), sum.clone())));
        process
    };
    let text = of((0..PROCESSES as u32 + 9).map(many).collect());
    let pids = text.lines().filter(|line| line.starts_with("stage2_recording{")).count();
    assert_eq!(pids, PROCESSES);
    assert!(text.contains("stage2_feed_processes_left_out 9.0"));
}

#[test]
fn the_dashboard_asks_for_metrics_that_there_are() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/recipes/grafana.json");
    let dashboard = std::fs::read_to_string(path).expect("a dashboard");
    let json: serde_json::Value = serde_json::from_str(&dashboard).expect("JSON");
    assert!(json["panels"].as_array().is_some_and(|panels| panels.len() >= 6));
    let text = of(vec![process()]);
    let series: Vec<&str> = text.lines().filter_map(|line| line.split(['{', ' ']).next()).collect();
    let words = dashboard.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let asked: Vec<&str> = words.filter(|word| word.starts_with("stage2_")).collect();
    assert!(asked.len() >= 6);
    for name in asked {
        assert!(series.contains(&name), "the dashboard asks for {name}, which feed does not write");
    }
}

#[test]
fn the_manual_lists_every_metric() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/live.md");
    let manual = std::fs::read_to_string(path).expect("docs/live.md");
    let text = of(vec![process()]);
    for name in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()) {
        assert!(manual.contains(&format!("`{name}")), "{name}");
    }
}
