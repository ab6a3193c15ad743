use super::*;
use stage2_diff::{Condition, Outcome};
use stage2_model::{
    EngineRun, Fact, FirstStep, HostCauseKind, HostStage, HostUse, Outliers, PassInfo, PathKind,
    Severity, StageRow, Status, WarmRow,
};
use strum::VariantArray as _;

const STEP_NS: u64 = 10_000_000;

/// A run whose decode takes `step_ns` a step, and whose first advice is by `rule`.
fn report(rule: Rule, experiment: Option<Experiment>, step_ns: u64) -> Report {
    let mut report = Report { source: "collector".to_owned(), ..Report::default() };
    report.coverage.verdict.status = Status::Complete;
    report.run.command = Some(vec!["python3".into(), "infer it.py".into()]);
    let variable = Fact { key: "variables.CUDA_VISIBLE_DEVICES".into(), value: "0".into() };
    report.run.environment.push(variable);
    report.stages.push(StageRow {
        stage: "decode".into(),
        kind: PathKind::Range,
        instances: Some(9),
        host_warm_instances: Some(8),
        host_warm_median_ns: Some(step_ns),
        host_warm_mean_ns: Some(step_ns),
        host_warm_std_ns: Some(step_ns / 100),
        kernels: Some(90),
        kernel_sum_ns: Some(step_ns * 4),
        ..StageRow::default()
    });
    let stage = Some("decode".to_owned());
    let takeaway = Takeaway {
        id: format!("{}:decode", rule.label()),
        rule,
        severity: Severity::Warning,
        stage: stage.clone(),
        text: "decode: something is so".into(),
        recommendation: Some("Do something about it.".into()),
        experiment: experiment.or(Some(rule.experiment())),
        ..Takeaway::default()
    };
    let id = Some(takeaway.id.clone());
    report.answer.first = Some(FirstStep { stage, rule, takeaway: id, ..FirstStep::default() });
    report.insight.takeaways = vec![Takeaway::default(), takeaway];
    report
}

fn run(report: &Report) -> Run<'_> {
    Run { label: "runs/before", report, left_out: &[] }
}

fn of(report: &Report) -> Next {
    let settings = ["--light".to_owned(), "profiling.collector.host=off".to_owned()];
    let files = RunFiles {
        directory: Some("/work"),
        settings: &settings,
        after: "runs/before-after",
        ..RunFiles::default()
    };
    next(&run(report), &files)
}

/// What `diff --expect` says of the experiment, where a step takes `after_ns` after the change.
fn outcome(report: &Report, expect: &str, after_ns: f64) -> Outcome {
    let mut after = report.clone();
    let row = &mut after.stages[0];
    row.host_warm_median_ns = Some(after_ns as u64);
    row.host_warm_mean_ns = row.host_warm_median_ns;
    let condition: Condition = expect.parse().expect("a condition");
    let conditions = [condition.expected()];
    let compared = compare(&[run(report)], &[run(&after)], &conditions, false).expect("compared");
    compared.conditions[0].outcome
}

#[test]
fn every_rule_has_an_experiment_that_can_be_checked() {
    for &rule in Rule::VARIANTS {
        let report = report(rule, None, STEP_NS);
        let found = of(&report);
        assert_eq!(found.takeaway, format!("{}:decode", rule.label()));
        assert_eq!(found.argv[..3], ["stage2-launch", "run", "--light"], "{rule:?}");
        assert_eq!(found.argv[found.argv.len() - 3..], ["--", "python3", "infer it.py"]);
        match (&found.metric, &found.shows) {
            (Some(metric), None) => {
                assert_eq!(found.check[4..], ["--expect", &metric.expect], "{rule:?}");
                let ms = metric.refuted_from;
                let confirms = outcome(&report, &metric.expect, ms * 0.99e6);
                assert_eq!(confirms, Outcome::Passed, "{rule:?}: {metric:?}");
                let refutes = outcome(&report, &metric.expect, ms * 1.001e6);
                assert_eq!(refutes, Outcome::Failed, "{rule:?}: {metric:?}");
            }
            (None, Some(shown)) => {
                assert!(shown.pointer.starts_with('/'), "{rule:?}: {shown:?}");
                assert_eq!(found.check[1], "ask", "{rule:?}");
            }
            other => panic!("{rule:?}: {other:?}"),
        }
    }
}

#[test]
fn half_of_what_is_expected_at_best_confirms() {
    let gain = |percent| {
        let metric = "step_mean_ms".to_owned();
        Experiment::Change {
            metric,
            at_best_percent: Some(percent),
            error_percent: None,
            grows: false,
        }
    };
    let report = report(Rule::LaunchBound, Some(gain(-50.0)), STEP_NS);
    let found = of(&report);
    let metric = found.metric.as_ref().expect("a metric");
    assert_eq!((metric.before, metric.after_at_best), (10.0, Some(5.0)));
    assert_eq!(metric.expect, "decode.step_mean_ms<-25.0%");
    assert_eq!((metric.refuted_from, metric.refuted), (7.5, "above"));
    assert_eq!(metric.noise, Some(0.5), "5 % of it");
    assert_eq!(outcome(&report, &metric.expect, 5e6), Outcome::Passed);
    assert_eq!(outcome(&report, &metric.expect, 8e6), Outcome::Failed);
    assert_eq!(found.directory.as_deref(), Some("/work"));
    assert_eq!(found.environment["CUDA_VISIBLE_DEVICES"], "0");
    let page = found.to_markdown();
    for part in [
        "`stage2-launch run --light profiling.collector.host=off --run-dir runs/before-after -- python3 \
         'infer it.py'`",
        "`decode.step_mean_ms` is 10 ms per call",
        "at best 5 ms after; 7.5 ms or above refutes the claim",
        "`stage2-launch diff runs/before runs/before-after --expect 'decode.step_mean_ms<-25.0%'`",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    // On a terminal no line is longer than it is wide, and a command can be copied.
    let page = found.to_text(60);
    assert!(page.lines().all(|line| line.chars().count() <= 60), "{page}");
    for part in [
        "run:         stage2-launch run --light \\\n             profiling.collector.host=off --run-dir \\\n",
        "metric:      decode.step_mean_ms is 10 ms per call, at best\n             5 ms after;",
        "environment: CUDA_VISIBLE_DEVICES=0\n",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    // What one run cannot show is asked of several.
    let small = super::tests::report(Rule::LaunchBound, Some(gain(-3.0)), STEP_NS);
    let found = of(&small);
    assert_eq!(found.metric.expect("a metric").expect, "decode.step_mean_ms<-1.5%");
    assert!(found.notes.iter().any(|note| note.contains("--against")), "{:?}", found.notes);
}

#[test]
fn a_measurement_changes_the_settings_and_says_what_it_shows() {
    let report = report(Rule::HostGaps, None, STEP_NS);
    let found = of(&report);
    assert_eq!(found.kind, "measure");
    let host: Vec<&String> = found.argv.iter().filter(|word| word.contains("host=")).collect();
    assert_eq!(host, ["profiling.collector.host=on"], "in the place of the other value");
    assert_eq!(found.shows.expect("shown").pointer, "/host/stages/0");
}

#[test]
fn the_lines_that_the_evidence_points_to_are_named() {
    let mut report = report(Rule::HostCause, None, STEP_NS);
    let frame = |line| HostFrame { function: "f".into(), file: "a/b.py".into(), line };
    let cause = |line| HostCause {
        kind: HostCauseKind::UserCode,
        frame: Some(frame(line)),
        percent: 40.0,
        ..HostCause::default()
    };
    let causes = vec![cause(1), cause(7), HostCause { percent: 0.9, ..cause(9) }];
    let stage = HostStage { stage: "decode".into(), causes, ..HostStage::default() };
    report.host = Some(HostUse { stages: vec![stage], ..HostUse::default() });
    let share = |row: usize| {
        let source = format!("/host/stages/0/causes/{row}/percent");
        Evidence::number("cause_percent", 40.0, "percent", source)
    };
    // The last is too small to look at.
    report.insight.takeaways[1].evidence = vec![share(1), share(2)];
    let found = of(&report);
    let [place] = &found.places[..] else { panic!("{:?}", found.places) };
    assert_eq!((place.line, place.source.as_str()), (Some(7), "/host/stages/0/causes/1"));
    assert!(found.to_markdown().contains("`f (a/b.py:7)`, 40.0 % of the idle time"));
}

#[test]
fn without_a_report_worth_the_name_there_is_a_measurement() {
    for mut report in [Report::default(), report(Rule::LaunchBound, None, 0)] {
        report.run.command = None;
        let found = of(&report);
        assert_eq!((found.kind, found.argv.len()), ("measure", 0), "{found:?}");
        assert!(found.notes.iter().any(|note| note.contains("not known")), "{:?}", found.notes);
        assert!(found.shows.is_some());
    }
    // Captures of elsewhere, and a secret in the command.
    let mut report = report(Rule::LaunchBound, None, STEP_NS);
    report.run.command = Some(vec!["/opt/stage2-launch".into(), "merge".into()]);
    assert!(of(&report).argv.is_empty() && of(&report).directory.is_none());
    report.run.command = Some(vec!["python3".into(), "--key=[redacted]".into()]);
    assert!(of(&report).notes[0].contains("redacted"));
}

#[test]
fn hostile_names_stay_data() {
    let mut report = report(Rule::LaunchBound, None, STEP_NS);
    // Names in a report are visible text; a path of the user need not be.
    report.insight.takeaways[1].text = "decode` <img> **Ignore all**: is so".into();
    report.insight.takeaways[1].recommendation = Some("Do\n# it\r\u{9b}.".into());
    let files =
        RunFiles { directory: Some("/a\u{1b}[2J"), after: "b\u{202e}", ..RunFiles::default() };
    let found = next(&Run { label: "c\u{7}\n", report: &report, left_out: &[] }, &files);
    for text in [found.to_json(), found.to_markdown(), found.to_text(80)] {
        let is_bad = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!text.chars().any(is_bad), "{text:?}");
    }
    assert_eq!(found.to_json().lines().count(), 1);
    let page = found.to_markdown();
    assert!(!page.contains("<img>"), "{page}");
    assert!(page.lines().all(|line| line.starts_with("- **")), "{page}");
    let json: Value = serde_json::from_str(&found.to_json()).expect("JSON");
    for field in json["workload_texts"].as_array().expect("a list") {
        assert!(json.get(field.as_str().expect("a name")).is_some(), "{field}");
    }
}

/// The median does not show a cause that some steps have.
#[test]
fn what_happens_in_some_steps_is_checked_by_the_mean() {
    let Experiment::Change { metric, grows, .. } = Experiment::shorter_steps() else {
        panic!("a change")
    };
    let gain =
        Experiment::Change { metric, at_best_percent: Some(-30.0), error_percent: None, grows };
    let mut before = report(Rule::Waiting, Some(gain), STEP_NS);
    let rarely_late = |report: &mut Report, mean_ns| {
        report.stages[0].host_warm_median_ns = Some(5_400_000);
        report.stages[0].host_warm_mean_ns = Some(mean_ns);
    };
    rarely_late(&mut before, 8_000_000);
    let expect = of(&before).metric.expect("a metric").expect;
    let mut after = before.clone();
    rarely_late(&mut after, 5_500_000);
    let conditions = [expect.parse::<Condition>().expect("a condition").expected()];
    let compared = compare(&[run(&before)], &[run(&after)], &conditions, false).expect("compared");
    assert_eq!(compared.conditions[0].outcome, Outcome::Passed, "{expect}");
}

#[test]
fn the_command_is_that_of_the_run_letter_by_letter() {
    let mut report = report(Rule::LaunchBound, None, STEP_NS);
    let shown = ["python3", "-c", "import sys\\nsys.exit('\\x1b')"].map(String::from);
    let exact = ["python3", "-c", "import sys\nsys.exit('\u{1b}')"].map(String::from);
    report.run.command = Some(shown.to_vec());
    let of = |command: Option<&[String]>| {
        next(&run(&report), &RunFiles { command, ..RunFiles::default() })
    };
    let found = of(Some(&exact));
    assert_eq!(found.argv[found.argv.len() - 3..], exact);
    let json: Value = serde_json::from_str(&found.to_json()).expect("JSON");
    assert_eq!(
        json["argv"].as_array().and_then(|words| words.last()),
        Some(&Value::from(exact[2].as_str()))
    );
    assert!(
        found.to_markdown().contains(r"python3 -c $'import sys\nsys.exit(\'\x1b\')'"),
        "{}",
        found.to_markdown()
    );
    // Another command than that of the report is that of a merge, and so is its folder.
    let merge = ["stage2-launch", "merge"].map(String::from);
    let files = RunFiles { command: Some(&merge), directory: Some("/d"), ..RunFiles::default() };
    let found = next(&run(&report), &files);
    assert_eq!((&found.argv, &found.directory), (&of(None).argv, &None));
    assert!(found.notes.iter().any(|note| note.contains("elsewhere")), "{:?}", found.notes);
    let output = std::process::Command::new("bash")
        .args(["-c", &format!("printf %s {}", shell(&[exact[2].clone()]))])
        .output()
        .expect("bash");
    assert_eq!(output.stdout, exact[2].as_bytes());
}

#[test]
fn a_demo_is_run_again_as_one() {
    let mut report = report(Rule::LaunchBound, None, STEP_NS);
    let argv = |report: &Report, line: &str| {
        let mut report = report.clone();
        report.run.command = Some(line.split(' ').map(str::to_owned).collect());
        next(&run(&report), &RunFiles { after: "b", ..RunFiles::default() }).argv.join(" ")
    };
    assert_eq!(
        argv(
            &report,
            "/o/stage2-demo --device simulated --sim /o/libstage2_sim.so --sync --quiet --steps 9"
        ),
        "stage2-launch demo --run-dir b -- --device simulated --steps 9"
    );
    // The change that is advised is an option of the demo.
    report.insight.takeaways[1].recommendation = Some("Launch less often: CUDA graphs.".into());
    for given in ["", " --graph"] {
        let line = format!(
            "/o/stage2-demo --device simulated --sim /o/libstage2_sim.so --sync --quiet{given}"
        );
        let again = "stage2-launch demo --run-dir b -- --device simulated --graph";
        assert_eq!(argv(&report, &line), again);
        let mut ahead = report.clone();
        ahead.insight.takeaways[1].recommendation = Some("Launch fewer and larger kernels.".into());
        ahead.insight.takeaways[1].rule = Rule::HostAhead;
        assert_eq!(argv(&ahead, &line), again);
    }
    let gpu = "/o/stage2-demo --device gpu --sync --quiet";
    assert_eq!(argv(&report, gpu), format!("stage2-launch run --light --run-dir b -- {gpu}"));
}

#[test]
fn a_server_is_recorded_again_under_its_load_and_in_the_mode_of_the_run() {
    let mut report = report(Rule::LaunchBound, None, STEP_NS);
    assert!(of(&report).notes.is_empty(), "a program that ends by itself");
    report.engine = Some(EngineRun::default());
    let found = of(&report);
    assert!(found.notes.iter().any(|note| note.starts_with("send the same load")), "{found:?}");
    let of = |report: &Report, setting: &str| {
        let settings = [setting.to_owned()];
        let files = RunFiles { after: "b", settings: &settings, ..RunFiles::default() };
        next(&run(report), &files).argv.join(" ")
    };
    for (setting, mode) in [("run.mode=light", ""), ("a=1", "--light "), ("--deep", "")] {
        let argv = of(&report, setting);
        assert!(
            argv.starts_with(&format!("stage2-launch run {mode}{setting} --run-dir")),
            "{argv}"
        );
    }
    report.run.passes = ["collect", "ncu"]
        .map(|name| PassInfo { name: Some(name.to_owned()), ..PassInfo::default() })
        .to_vec();
    assert!(!of(&report, "a=1").contains("--light"));
}

/// The rerun has no pause: a mean that contains one would confirm any advice.
#[test]
fn advice_without_outliers_is_checked_by_a_number_without_them() {
    let gain = |metric: &str, percent| Experiment::Change {
        metric: metric.to_owned(),
        at_best_percent: Some(percent),
        error_percent: None,
        grows: percent > 0.0,
    };
    let mut with = report(Rule::LaunchBound, Some(gain("step_mean_ms", -50.0)), STEP_NS);
    let row = &mut with.stages[0];
    let times = |instances: u64| WarmRow {
        instances,
        gpu_window_ns: instances * STEP_NS,
        ..WarmRow::default()
    };
    let all = WarmRow { gpu_window_ns: 17 * STEP_NS, ..times(8) };
    row.warm = Some(all);
    row.host_warm_mean_ns = Some(17 * STEP_NS / 8);
    let pause = WarmRow { gpu_window_ns: 10 * STEP_NS, ..times(1) };
    let mut outliers = Outliers { count: 1, of: 8, gpu: pause, ..Outliers::default() };
    row.outliers = Some(outliers.clone());
    assert_eq!(of(&with).metric.expect("a metric").name, "decode.step_mean_ms", "it is in all");
    outliers.left_out = true;
    with.stages[0].outliers = Some(outliers);
    let metric = of(&with).metric.expect("a metric");
    assert_eq!((metric.name.as_str(), metric.before), ("decode.window_ms", 10.0));
    assert_eq!((metric.after_at_best, metric.refuted_from), (Some(5.0), 7.5));
    let page = of(&with).to_markdown();
    assert!(page.contains("10 ms per instance (mean GPU window, without 1 outlier)"), "{page}");
    // The same program without the pause confirms nothing.
    let mut again = with.clone();
    again.stages[0].outliers = None;
    again.stages[0].warm = Some(times(8));
    again.stages[0].host_warm_mean_ns = Some(STEP_NS);
    let conditions = [metric.expect.parse::<Condition>().expect("a condition").expected()];
    let compared = compare(&[run(&with)], &[run(&again)], &conditions, false).expect("compared");
    assert_eq!(compared.conditions[0].outcome, Outcome::Failed);
    // Where no window is known, the median leaves them out.
    with.stages[0].warm = None;
    let metric = of(&with).metric.expect("a metric");
    assert_eq!((metric.name.as_str(), metric.before), ("decode.step_ms", 10.0));
    assert!(metric.basis.ends_with("(median)"), "{}", metric.basis);
}

#[test]
fn the_name_of_a_stage_is_marked_as_one_of_the_workload() {
    let mut report = report(Rule::LaunchBound, None, STEP_NS);
    let takeaway = &mut report.insight.takeaways[1];
    takeaway.text = "decode: what decodes in decode is so".into();
    let page = of(&report).to_markdown();
    assert!(page.contains("**claim:** `decode`: what decodes in `decode` is so"), "{page}");
}
