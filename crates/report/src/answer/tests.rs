use stage2_model::{Absent, Figure, Floor, Role, StageAnswer, TokensCounted};

fn no_floor() -> Floor {
    let [memory_ns, compute_ns, floor_ns, distance] =
        [(); 4].map(|()| Figure::Absent(Absent::NoModel));
    Floor { memory_ns, kv_cache_ns: None, compute_ns, floor_ns, distance, baseline_distance: None }
}

/// Of a decode of which nothing is known.
pub(crate) fn stage_answer(stage: &str) -> StageAnswer {
    StageAnswer {
        stage: stage.to_owned(),
        role: Role::Decode,
        basis: String::new(),
        step: None,
        slowdown: None,
        time_to_first_token_ns: Figure::Absent(Absent::NoModel),
        tokens_per_s: Figure::Absent(Absent::NoModel),
        tokens_counted: TokensCounted::Generated,
        window: None,
        bottleneck: None,
        floor: no_floor(),
        first: None,
    }
}

pub(super) mod steps {
    use super::super::*;
    use stage2_model::{InferredSteps, ModelUse, Needs, TokenCounts, Utilisation};
    use stage2_read::roles::{Meant, RoleSettings};

    fn row(stage: &str, instances: u64, median_ns: u64) -> StageRow {
        let times = StepTimes { p50_ns: median_ns, ..StepTimes::default() };
        StageRow {
            stage: stage.to_owned(),
            role: match RoleSettings::default().of(stage, None) {
                Meant::Stage(role) => role,
                Meant::Apart(_) => Role::Other,
            },
            instances: Some(instances),
            host_warm_median_ns: Some(median_ns),
            steps: Some(StageSteps { times, per_instance: 1.0, warm: true }),
            ..StageRow::default()
        }
    }

    pub(in crate::answer) fn report(stages: Vec<StageRow>, decode_steps: u64) -> Report {
        let tokens = TokenCounts { decode_steps: Some(decode_steps), ..TokenCounts::default() };
        let mut report = Report { stages, ..Report::default() };
        let none = || Figure::Absent(Absent::NoModel);
        report.insight.utilisation = Some(ModelUse {
            model_name: None,
            absent: None,
            tokens,
            needs: Needs::default(),
            peaks: None,
            numbers: Utilisation {
                stages: Vec::new(),
                model: stage2_model::ModelUtilisation {
                    flops: none(),
                    wall_s: none(),
                    busy_s: none(),
                    mfu_wall: none(),
                    mfu_busy: none(),
                    generated_tokens: none(),
                    generated_tokens_per_s: none(),
                },
                precision: None,
                peak_source: None,
                assumptions: Vec::new(),
                findings: Vec::new(),
            },
        });
        report
    }

    fn steps_at(report: &Report, at: usize) -> Option<StageSteps> {
        let measured = RunMeasurements::default();
        steps_of_stage(report, &StageIndex::of(report, &measured), &report.stages[at])
    }

    #[test]
    fn a_step_holds_as_many_tokens_as_decode_has_steps_for_it() {
        let tokens = |decode: StageRow, decode_steps| {
            let report = report(vec![row("prefill", 4, 10), decode], decode_steps);
            steps_at(&report, 1).and_then(|steps| steps.times.tokens_per_step)
        };
        assert_eq!(tokens(row("decode", 4, 640), 64), Some(64), "one range around all steps");
        assert_eq!(tokens(row("decode", 256, 10), 64), Some(1), "one range around each");
        assert_eq!(tokens(row("decode", 255, 10), 64), None, "they do not divide evenly");
        let mut within = row("decode", 4, 640);
        within.steps.as_mut().expect("steps").per_instance = 64.0;
        assert_eq!(tokens(within, 64), Some(1));
        assert_eq!(tokens(row("other", 4, 640), 64), None);
    }

    #[test]
    fn a_prefill_is_no_time_to_the_first_token_of_a_request() {
        let ttft = |stages| {
            let (report, measured) = (report(stages, 64), RunMeasurements::default());
            time_to_first_token(&report, &StageIndex::of(&report, &measured), &report.stages[0])
        };
        let prefill = || row("prefill", 4, 100);
        assert_eq!(ttft(vec![prefill()]), Figure::Absent(Absent::NoRequests));
        for label in ["TTFT@engine", "engine@TTFT"] {
            assert_eq!(ttft(vec![prefill(), row(label, 9, 700)]), Figure::of(700.0), "{label}");
        }
        let both = vec![prefill(), row("ttft", 9, 700), row("first_token", 9, 800)];
        assert_eq!(ttft(both), Figure::Absent(Absent::NoRequests), "which of them is not known");
        assert_eq!(ttft(vec![row("decode", 4, 9)]), Figure::Absent(Absent::PrefillOnly));
    }

    #[test]
    fn without_ranges_the_steps_are_those_that_repeat_most() {
        let step = |timed_steps, ns| InferredStepRow {
            timed_steps,
            step_p50_ns: Some(ns),
            step_p99_ns: Some(ns),
            step_mean_ns: Some(ns),
            ..InferredStepRow::default()
        };
        let row = StageRow { kind: PathKind::WholeProcess, ..StageRow::default() };
        let mut report = report(vec![row], 64);
        assert!(steps_at(&report, 0).is_none());
        report.inferred_steps = Some(InferredSteps::of(vec![step(5, 1), step(9, 2), step(9, 3)]));
        let found = steps_at(&report, 0).expect("inferred").times;
        assert_eq!((found.unit, found.steps, found.p50_ns), (StepUnit::Inferred, 9, 2));
    }
}

mod split {
    use super::super::*;
    use proptest::prelude::*;
    use stage2_model::WarmRow;

    fn of(
        report: &Report,
        row: &StageRow,
        steps: Option<f64>,
    ) -> Result<WindowSplit, &'static str> {
        let collectives: Vec<_> = report.ranks.collectives.iter().collect();
        split_window(report, row, &collectives, steps, None)
    }

    fn row() -> StageRow {
        StageRow {
            stage: "decode".into(),
            instances: Some(4),
            gpu_window_ns: Some(1_000),
            gpu_busy_ns: Some(900),
            gpu_idle_ns: Some(100),
            gpu_short_gaps_ns: Some(70),
            gpu_busy_parts: Some(BusyParts {
                compute_ns: 500,
                communication_ns: 300,
                copies_ns: 100,
            }),
            ..StageRow::default()
        }
    }

    fn report(collectives: Vec<CollectiveRow>) -> Report {
        let mut report = Report::default();
        report.coverage.verdict.status = Status::Complete;
        report.ranks.collectives = collectives;
        report
    }

    /// Hazard (Dormant processes and windows): Requests are open around the steps of an engine.
    /// Promise: They do not count as idle time, because they launch no GPU work themselves.
    #[test]
    fn a_stage_without_gpu_work_of_its_own_is_not_called_idle() {
        let request = StageRow {
            gpu_busy_ns: Some(0),
            gpu_idle_ns: Some(1_000),
            gpu_busy_parts: Some(BusyParts::default()),
            kernels: Some(0),
            copies: Some(0),
            fills: Some(0),
            ..row()
        };
        assert_eq!(of(&report(Vec::new()), &request, None), Err(NO_GPU_WORK));
        for work in [
            StageRow { copies: Some(1), ..request.clone() },
            StageRow { graph_launches: Some(1), ..request.clone() },
            StageRow { kernels: None, ..request },
        ] {
            assert!(of(&report(Vec::new()), &work, None).is_ok(), "{work:?}");
        }
    }

    fn parts(report: &Report, row: &StageRow) -> Vec<(WindowKind, u64)> {
        let split = of(report, row, None).expect("a split");
        split.parts.iter().map(|part| (part.kind, part.ns)).collect()
    }

    fn collective(time_ns: u64, waiting_ns: u64, transfer_ns: u64) -> CollectiveRow {
        CollectiveRow {
            stage: "decode".into(),
            time_ns,
            waiting_ns: Some(waiting_ns),
            transfer_ns: Some(transfer_ns),
            warm_waiting_ns: Some(10),
            warm_transfer_ns: Some(20),
            ..CollectiveRow::default()
        }
    }

    #[test]
    fn communication_is_waiting_and_transfer_where_nearly_all_of_it_was_matched() {
        use WindowKind::*;
        let rest = |communication: &[(WindowKind, u64)]| {
            let mut all = vec![(Compute, 500)];
            all.extend_from_slice(communication);
            all.extend([(Copies, 100), (LaunchGaps, 70), (OtherIdle, 30)]);
            all
        };
        let unknown = rest(&[(Communication, 300)]);
        assert_eq!(parts(&report(vec![]), &row()), unknown);
        let matched = report(vec![collective(1_000, 600, 400)]);
        assert_eq!(parts(&matched, &row()), rest(&[(Transfer, 120), (Waiting, 180)]));
        let in_part = report(vec![collective(1_000, 500, 440)]);
        assert_eq!(parts(&in_part, &row()), unknown);
        let mut lost = matched.clone();
        lost.ranks.kernels_left_out = 1;
        assert_eq!(parts(&lost, &row()), unknown);
        // The ratio of the warm instances is not that of the first one.
        let warm = Some(WarmRow {
            instances: 3,
            gpu_window_ns: 1_000,
            gpu_busy_ns: 900,
            gpu_short_gaps_ns: 70,
            gpu_busy_parts: row().gpu_busy_parts,
            kernels: 9,
        });
        let warm = StageRow { warm, ..row() };
        assert_eq!(parts(&matched, &warm), rest(&[(Transfer, 200), (Waiting, 100)]));
    }

    #[test]
    fn what_is_not_known_is_busy_or_nothing() {
        let report = report(vec![]);
        let plain = StageRow { gpu_busy_parts: None, gpu_short_gaps_ns: None, ..row() };
        let busy = [(WindowKind::Busy, 900), (WindowKind::OtherIdle, 100)];
        assert_eq!(parts(&report, &plain), busy);
        let shared = StageRow { gpu_idle_ns: None, ..row() };
        assert_eq!(of(&report, &shared, None), Err("several processes share the GPU"));
        let none = StageRow { gpu_window_ns: None, gpu_idle_ns: None, ..row() };
        assert!(of(&report, &none, None).is_err());
        let wrong = StageRow { gpu_window_ns: Some(800), ..row() };
        assert!(of(&report, &wrong, None).is_err());
    }

    proptest! {
        #[test]
        fn parts_add_up_to_the_window(
            compute_ns in 0u64..1 << 50,
            communication_ns in 0u64..1 << 50,
            copies_ns in 0u64..1 << 50,
            idle_ns in 0u64..1 << 50,
            short_gaps_ns in any::<u64>(),
            communication in prop::option::of((any::<u64>(), any::<u64>())),
            known in any::<bool>(),
            other in prop::option::of((-1.0..150.0, -1.0..150.0)),
        ) {
            let other_work = other.map(|(percent, launch_gaps_percent)| HostOtherWork {
                percent,
                launch_gaps_percent,
            });
            let busy_ns = compute_ns + communication_ns + copies_ns;
            let parts = BusyParts { compute_ns, communication_ns, copies_ns };
            let measured = StageWindow {
                other_work,
                window_ns: busy_ns + idle_ns,
                busy_ns,
                busy_parts: known.then_some(parts),
                short_gaps_ns,
                communication,
            };
            let Some(split) = measured.split() else {
                prop_assert_eq!(busy_ns + idle_ns, 0);
                return Ok(());
            };
            prop_assert_eq!(split.parts.iter().map(|part| part.ns).sum::<u64>(), split.window_ns);
            let percent: f64 = split.parts.iter().map(|part| part.percent).sum();
            prop_assert!((percent - 100.0).abs() < 1e-6, "{percent}");
            prop_assert!(split.parts.is_sorted_by_key(|part| part.kind));
        }
    }
}

mod first {
    use super::super::*;
    use stage2_model::{LateDelays, LateHost, LateHostRow, LateSteps};

    fn takeaway(rule: Rule) -> Takeaway {
        Takeaway {
            rule,
            stage: Some("decode".into()),
            recommendation: Some(format!("{rule:?}")),
            ..Takeaway::default()
        }
    }

    fn window(parts: &[(WindowKind, u64)]) -> WindowSplit {
        let window_ns = parts.iter().map(|(_, ns)| ns).sum();
        let part = |&(kind, ns): &(WindowKind, u64)| WindowPart { kind, ns, percent: 0.0 };
        WindowSplit { window_ns, parts: parts.iter().map(part).collect(), steps: Some(2.0) }
    }

    fn floor(distance: Option<f64>) -> Floor {
        let none = super::no_floor();
        Floor { distance: distance.map_or(none.distance, Figure::of), ..none }
    }

    fn gain(rules: &[Rule], parts: &[(WindowKind, u64)], distance: Option<f64>) -> FirstStep {
        gain_in(&Report::default(), rules, parts, distance)
    }

    fn gain_in(
        report: &Report,
        rules: &[Rule],
        parts: &[(WindowKind, u64)],
        distance: Option<f64>,
    ) -> FirstStep {
        let measured = StageMeasurements {
            stage: "decode".into(),
            classes: vec![(KernelClass::Norm, 40.0), (KernelClass::Gemm, 60.0)],
            class_calls: vec![(KernelClass::Norm, 50.0), (KernelClass::Gemm, 50.0)],
            ..StageMeasurements::default()
        };
        let all: Vec<Takeaway> = rules.iter().map(|&rule| takeaway(rule)).collect();
        let all: Vec<&Takeaway> = all.iter().collect();
        let window = window(parts);
        let collectives: Vec<_> = report.ranks.collectives.iter().collect();
        let late: Vec<_> = report.ranks.late.iter().collect();
        let stage = Stage {
            collectives: &collectives,
            late: &late,
            measured: Some(&measured),
            window: Some(&window),
        };
        stage.largest_gain(&all, &floor(distance)).step.expect("a step")
    }

    #[test]
    fn the_largest_gain_is_first_and_is_what_is_left_of_the_window() {
        use WindowKind::*;
        let parts = [(Compute, 197), (LaunchGaps, 799), (OtherIdle, 4)];
        let rules = [Rule::NearRoof, Rule::Fusible, Rule::LaunchBound];
        let first = gain(&rules, &parts, None);
        assert_eq!(first.rule, Rule::LaunchBound);
        // A graph closes long gaps, too.
        assert!((first.factor.expect("known") - 1000.0 / 197.0).abs() < 1e-9, "{first:?}");
        assert_eq!(
            first.gain().expect("known"),
            "up to 5.1x faster if all GPU idle time is removed: launch gaps 79.9 % + other idle 0.4 % = 80.3 % \
             of the window"
        );
        let idle = gain(&[Rule::HostGaps], &parts, None);
        assert!((idle.factor.expect("known") - 1000.0 / 197.0).abs() < 1e-9, "{idle:?}");
        let sampled = Experiment::measured_with("profiling.collector.host=on", "/host");
        let sampled = Takeaway { experiment: Some(sampled), ..takeaway(Rule::HostGaps) };
        let measured = StageMeasurements::default();
        let of_window = window(&parts);
        let stage = Stage {
            collectives: &[],
            late: &[],
            measured: Some(&measured),
            window: Some(&of_window),
        };
        let of = stage.largest_gain(&[&sampled], &floor(Some(2.0)));
        let step = of.step.expect("a step");
        assert_eq!((step.gain(), step.is_floor), (None, false), "measuring gains nothing");
        let said = "launch gaps 79.9 % + other idle 0.4 % = 80.3 % of the window";
        assert_eq!(step.to_measure().as_deref(), Some(said));
        assert!(of.saved.is_some(), "but it has its place by the time that it is about");
        // Half of the kernels are gone, and with them half of the launch gaps.
        let fused = gain(&[Rule::Fusible], &parts, None);
        let left = 1000.0 - 78.8 - 399.5;
        assert!((fused.factor.expect("known") - 1000.0 / left).abs() < 1e-9, "{fused:?}");
        assert_eq!(
            fused.gain().expect("known"),
            "up to 1.92x faster if kernels that could be fused are removed: kernels that could be fused 7.9 % + launch \
             gaps around them 39.9 % = 47.8 % of the window"
        );
        let copies = gain(&[Rule::ExposedCopies], &[(Compute, 800), (Copies, 200)], None);
        assert_eq!((copies.rule, copies.factor), (Rule::ExposedCopies, Some(1.25)));
        let said = "up to 1.25x faster if exposed copies are removed: copies 20.0 % of the window";
        assert_eq!(copies.gain().expect("known"), said);
        let ranks = gain(&[Rule::Waiting], &[(Compute, 600), (Waiting, 400)], None);
        assert!((ranks.factor.expect("known") - 1000.0 / 600.0).abs() < 1e-9, "{ranks:?}");
    }

    #[test]
    fn a_late_rank_comes_before_the_idle_time_that_it_causes() {
        use WindowKind::*;
        let stage = || "decode".to_owned();
        let ranks = |members| {
            let mut report = Report::default();
            let waiting_ns = Some(400);
            let row =
                CollectiveRow { stage: stage(), members, waiting_ns, ..CollectiveRow::default() };
            report.ranks.collectives.push(row);
            let who = "rank 1".into();
            let delays = LateDelays {
                collectives: 24,
                mean_ns: 10_684_000,
                waiting_percent: 87.0,
                range: "decode/step".into(),
                ..LateDelays::default()
            };
            // Noise stands in front of it, and is not told.
            report.ranks.late.push(LateRow { stage: stage(), ..LateRow::default() });
            let (collectives, delays) = (768, Some(delays));
            let late = LateRow { stage: stage(), who, collectives, delays, ..LateRow::default() };
            report.ranks.late.push(late);
            report
        };
        let rules = [Rule::HostGaps, Rule::Waiting];
        // One of two ranks sleeps, and the other one waits just as long.
        let parts = [(Compute, 150), (Waiting, 400), (OtherIdle, 450)];
        let two = gain_in(&ranks(2), &rules, &parts, None);
        assert_eq!((two.rule, two.factor), (Rule::Waiting, Some(5.0)));
        let said = "rank 1 is 10.68 ms late at 24 of 768 collectives, in decode/step; that is 87 % of the \
                    time that ranks wait in collectives of decode";
        assert_eq!(two.detail.as_deref(), Some(said));
        let removes = two.removes.iter().map(|part| (part.what.as_str(), part.percent));
        let expected =
            [("waiting in collectives", 40.0), ("idle time of the late rank meanwhile", 40.0)];
        assert_eq!(removes.collect::<Vec<_>>(), expected, "not all 45 % of idle time");
        // What samples show of its host is an estimate, and its place is that of all waiting.
        let kind = stage2_model::HostCauseKind::Gil;
        let row =
            LateHostRow { kind, late_ns: 50, error_ns: 5, samples: 90, ..LateHostRow::default() };
        let mut compared = ranks(2);
        let late = &mut compared.ranks.late[1];
        let steps = LateSteps { late: 9, of: 10, ..LateSteps::default() };
        late.delays.as_mut().expect("late").steps = Some(steps);
        late.host = Some(LateHost { other_ranks: true, rows: vec![row], ..LateHost::default() });
        let estimate = gain_in(&compared, &rules, &parts, None);
        assert_eq!(estimate.rule, Rule::Waiting);
        let removes = estimate.removes.iter().map(|part| (part.what.as_str(), part.percent));
        // 45 ns in each of two steps of 500.
        assert_eq!(removes.collect::<Vec<_>>(), [("its additional host time", 9.0)]);
        assert!(estimate.error_percent.is_some_and(|error| (error - 0.9).abs() < 1e-9));
        // That one of nine is late explains 50 of 450 ns.
        let nine =
            gain_in(&ranks(9), &rules, &[(Compute, 50), (Waiting, 400), (OtherIdle, 550)], None);
        assert_eq!(nine.rule, Rule::HostGaps);
        let computes = [(Compute, 500), (Waiting, 400), (OtherIdle, 100)];
        let computes = gain_in(&ranks(2), &[Rule::Waiting], &computes, None);
        assert!((computes.factor.expect("known") - 1000.0 / 600.0).abs() < 1e-9, "{computes:?}");
    }

    #[test]
    fn without_a_late_rank_its_own_work_and_idle_time_vanish_too() {
        use WindowKind::*;
        let mut report = Report::default();
        let stage = || "decode".to_owned();
        let row = CollectiveRow { stage: stage(), members: 2, ..CollectiveRow::default() };
        report.ranks.collectives.push(row);
        let delays = LateDelays { total_ns: 100, work_ns: 75, ..LateDelays::default() };
        let late = LateRow { stage: stage(), delays: Some(delays), ..LateRow::default() };
        report.ranks.late.push(late);
        let parts = [(Compute, 850), (Waiting, 100), (OtherIdle, 50)];
        let first = gain_in(&report, &[Rule::Waiting], &parts, None);
        assert!((first.factor.expect("known") - 1000.0 / 800.0).abs() < 1e-9, "{first:?}");
        let removes = first.removes.iter().map(|part| (part.what.as_str(), part.percent));
        let expected = [
            ("waiting in collectives", 10.0),
            ("idle time of the late rank meanwhile", 2.5),
            ("longer work of the late rank", 7.5),
        ];
        assert_eq!(removes.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn no_gain_exceeds_the_floor_or_is_made_up() {
        use WindowKind::*;
        let parts = [(Compute, 100), (LaunchGaps, 900)];
        let capped = gain(&[Rule::LaunchBound], &parts, Some(4.0));
        assert_eq!(capped.factor, Some(4.0));
        let said = "up to 4.0x faster if all GPU idle time is removed: launch gaps 90.0 % of the window, as far as \
                    the floor allows";
        assert_eq!(capped.gain().expect("known"), said);
        assert_eq!(gain(&[Rule::LaunchBound], &parts, Some(0.8)).factor, None);
        assert_eq!(gain(&[Rule::NearRoof], &parts, Some(4.0)).factor, None);
        assert_eq!(gain(&[Rule::Communication], &parts, None).factor, None);
        let doubted =
            StageMeasurements { caveat: Some("cold".into()), ..StageMeasurements::default() };
        let (measured, window) = (Some(&doubted), &window(&parts));
        let stage = Stage { collectives: &[], late: &[], measured, window: Some(window) };
        let of = stage.largest_gain(&[&takeaway(Rule::LaunchBound)], &floor(None));
        assert_eq!((of.step.expect("a step").factor, of.saved), (None, None));
        // While the GPU works for another stage, no launch of this one would be earlier.
        let parts = [(Compute, 500), (OtherIdle, 375), (OtherWork, 125)];
        let (measured, window) = (StageMeasurements::default(), self::window(&parts));
        let (measured, window) = (Some(&measured), Some(&window));
        let stage = Stage { collectives: &[], late: &[], measured, window };
        let of = stage.largest_gain(&[&takeaway(Rule::HostGaps)], &floor(None));
        assert!((of.saved.expect("known") - 0.375).abs() < 1e-9, "{of:?}");
    }

    #[test]
    fn fewer_launches_save_longer_idle_time_only_where_the_host_is_why_it_is_there() {
        use crate::roofline::takeaways::{HostEvidence, HostLead, LAUNCH_LESS_OFTEN};
        use WindowKind::*;
        let window = window(&[(Compute, 100), (LaunchGaps, 600), (OtherIdle, 300)]);
        let first = |rule, measured: &StageMeasurements| {
            let recommendation = Some(LAUNCH_LESS_OFTEN.to_owned());
            let takeaway = Takeaway { recommendation, ..takeaway(rule) };
            let (measured, window) = (Some(measured), Some(&window));
            let stage = Stage { collectives: &[], late: &[], measured, window };
            let gain = stage.largest_gain(&[&takeaway], &floor(None));
            // What comes first of the run does not change with what is known.
            assert!((gain.saved.expect("known") - 0.9).abs() < 1e-9, "{gain:?}");
            gain.step.and_then(|step| step.gain()).expect("known")
        };
        let gaps = "up to 2.5x faster if no launch gaps are left: launch gaps 60.0 % of the window; another 30.0 % of \
                    the window ";
        let unknown = StageMeasurements::default();
        let said = "up to 10.0x faster if all GPU idle time is removed: launch gaps 60.0 % + other idle 30.0 % = 90.0 % of \
                    the window";
        let of_unknown = "; why the GPU is idle for 30.0 % of the window of that is not known";
        assert_eq!(first(Rule::LaunchBound, &unknown), format!("{said}{of_unknown}"));
        let simulated = StageMeasurements { simulated: true, ..StageMeasurements::default() };
        let of_machine = format!("{gaps}is lost because the CPU of this machine was too busy");
        assert_eq!(first(Rule::HostGaps, &simulated), of_machine);
        let host = Some(HostLead { ahead_percent: 10.0, behind_percent: 60.0 });
        let behind = StageMeasurements { host, ..StageMeasurements::default() };
        let host_causes = vec![HostEvidence::default()];
        let sampled = StageMeasurements { host_causes, ..StageMeasurements::default() };
        for known in [&behind, &sampled] {
            assert_eq!(first(Rule::LaunchBound, known), said);
            let ahead = first(Rule::HostAhead, known);
            assert_eq!(
                ahead,
                format!("{gaps}is idle without a known cause"),
                "the host is not why"
            );
        }
    }
}
