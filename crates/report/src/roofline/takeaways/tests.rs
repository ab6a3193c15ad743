use super::*;
use Rule::*;
use stage2_model::{Report, StageAnswer, StepBucket, StepSeries};

/// The example of an eager decode: short kernels, the GPU mostly idle.
fn eager_decode() -> StageMeasurements {
    StageMeasurements {
        stage: "decode".into(),
        decode: true,
        window_ns: Some(640_000_000),
        idle_percent: Some(79.5),
        short_gaps_percent: Some(93.0),
        interval_us: Some(14.4),
        kernels: Some(44_416),
        kernel_mean_us: Some(2.6),
        graph_percent: Some(0.0),
        kernels_per_token: Some(694.0),
        tokens_per_s: Some(100.0),
        batch_size: Some(1),
        mfu_wall: Some(0.0002),
        mfu_busy: Some(0.001),
        mbu_wall: Some(0.05),
        mbu_busy: Some(0.21),
        classes: vec![
            (KernelClass::Gemm, 50.0),
            (KernelClass::Elementwise, 28.0),
            (KernelClass::Reduction, 6.0),
            (KernelClass::Copy, 16.0),
        ],
        top_kernels: vec![kernel("nvjet", KernelClass::Gemm, 30.0)],
        ..StageMeasurements::default()
    }
}

fn kernel(name: &str, class: KernelClass, percent: f64) -> KernelMeasurements {
    KernelMeasurements {
        kernel: name.into(),
        name_index: 0,
        id: String::new(),
        class,
        percent,
        calls: 7168,
        bound: None,
        one_launch: false,
        sampled: false,
        attainable_share: None,
        achieved_occupancy_percent: None,
    }
}

fn takeaways(run: &RunMeasurements) -> Vec<Takeaway> {
    super::takeaways(run).0
}

fn of(stages: Vec<StageMeasurements>) -> Vec<Takeaway> {
    takeaways(&RunMeasurements { stages, ..RunMeasurements::default() })
}

fn rules(said: &[Takeaway]) -> Vec<Rule> {
    said.iter().map(|takeaway| takeaway.rule).collect()
}

fn text(said: &[Takeaway], rule: Rule) -> &str {
    said.iter().find(|t| t.rule == rule).map_or("", |t| t.text.as_str())
}

fn advice(said: &[Takeaway], rule: Rule) -> &str {
    let given = said.iter().find(|t| t.rule == rule).and_then(|t| t.recommendation.as_deref());
    given.unwrap_or_default()
}

fn alone(stage: StageMeasurements) -> Vec<Rule> {
    rules(&of(vec![stage]))
}

#[test]
fn an_eager_decode_is_launch_bound_first() {
    let prefill = StageMeasurements {
        stage: "prefill".into(),
        window_ns: Some(20_000_000),
        idle_percent: Some(5.0),
        ..StageMeasurements::default()
    };
    let said = of(vec![prefill, eager_decode()]);
    assert_eq!(rules(&said)[..4], [DominantStage, LaunchBound, DecodeFarFromBandwidth, Fusible]);
    assert_eq!(rules(&said)[4..], [TopKernel, Copies, GpuBusy, Utilisation]);
    let dominant = "decode: 97.0 % of the time of all stages, 100.0 tokens/s";
    assert_eq!(text(&said, DominantStage), dominant);
    let launch = text(&said, LaunchBound);
    for number in
        ["idle 79.5 %", "44,416 kernels", "694 per token", "take 2.6 us each", "every 14.4 us"]
    {
        assert!(launch.contains(number), "{number}: {launch}");
    }
    let fusible = text(&said, Fusible);
    assert!(fusible.contains("34.0 %") && fusible.contains("(elementwise 28.0, reduction 6.0)"));
    let concerned = said[1].concerns_percent.expect("known");
    assert!((concerned - 79.5 * 640.0 / 660.0).abs() < 1e-9, "{concerned}");
    let answer = Answer::default();
    let first = &recommendations(&said, &answer)[0];
    assert!(first.text.contains("CUDA graphs") && first.first.rule == LaunchBound);
    assert_eq!(takeaways(&RunMeasurements::default()), takeaways(&RunMeasurements::default()));
}

#[test]
fn a_share_of_kernel_time_is_of_the_busy_time_without_copies() {
    let stage = StageMeasurements { exposed_copies_percent: Some(10.5), ..eager_decode() };
    let said = of(vec![stage]);
    // The kernel has 30 % of the kernels' time, which is 10 of the 20.5 % in which the GPU is busy.
    let top = said.iter().find(|t| t.rule == TopKernel).expect("a kernel");
    assert!((top.concerns_percent.expect("known") - 3.0).abs() < 1e-9, "{top:?}");
}

#[test]
fn numbers_of_a_sample_say_which_calls_they_are_of() {
    let stage = StageMeasurements {
        recorded_instances: Some(103),
        scaled: true,
        noun: "call",
        ..eager_decode()
    };
    let said = of(vec![stage]);
    let launch = text(&said, LaunchBound);
    assert!(
        launch.contains("79.5 % of the window of 103 recorded calls, ")
            && launch.contains(". 44,416 kernels ("),
        "{launch}"
    );
    let top = text(&said, TopKernel);
    assert!(top.ends_with("in 7,168 calls (scaled from the recorded ones)"), "{top}");
}

#[test]
fn idle_time_has_three_readings_and_busy_time_one() {
    let idle = StageMeasurements {
        stage: "s".into(),
        window_ns: Some(1_000_000_000),
        idle_percent: Some(50.0),
        short_gaps_percent: Some(50.0),
        interval_us: Some(20.0),
        kernels: Some(50_000),
        kernel_mean_us: Some(10.0),
        ..StageMeasurements::default()
    };
    type Change = fn(&mut StageMeasurements);
    let cases: [(Change, Rule); 13] = [
        (|_| (), LaunchBound),
        (|s| s.kernel_mean_us = Some(10.1), HostGaps),
        (|s| s.short_gaps_percent = Some(49.9), HostGaps),
        (|s| s.short_gaps_percent = None, HostGaps),
        (|s| s.interval_us = None, GpuIdle),
        (|s| s.caveat = Some("x".into()), GpuIdle),
        (|s| s.graph_percent = Some(50.0), HostGaps),
        (|s| s.kernels = None, GpuIdle),
        (|s| s.kernels = Some(0), GpuIdle),
        (|s| s.idle_percent = Some(29.9), Nothing),
        (|s| s.idle_percent = Some(10.0), GpuBusy),
        (|s| s.idle_percent = Some(f64::NAN), Nothing),
        (|s| s.idle_percent = Some(400.0), Nothing),
    ];
    for (at, (change, rule)) in cases.into_iter().enumerate() {
        let mut stage = idle.clone();
        change(&mut stage);
        assert_eq!(alone(stage), [rule], "case {at}");
    }
}

#[test]
fn requests_around_the_steps_of_an_engine_do_not_count_their_time_again() {
    let request = || StageMeasurements {
        stage: "request".into(),
        window_ns: Some(6_400_000_000),
        no_gpu_work: true,
        idle_percent: Some(100.0),
        kernels: Some(0),
        ..StageMeasurements::default()
    };
    let steps = of(vec![eager_decode()]);
    let said = of(vec![eager_decode(), request()]);
    let is_of_request = |said: &Takeaway| said.stage.as_deref() == Some("request");
    let (of_requests, others): (Vec<_>, Vec<_>) = said.into_iter().partition(is_of_request);
    assert_eq!(others, steps, "the steps alone");
    let [of_request] = &of_requests[..] else { panic!("{of_requests:?}") };
    assert_eq!((of_request.rule, of_request.concerns_percent), (GpuIdle, None));
    let apart = "request: no GPU work launched by the stage itself in the window, which is not in the time of all stages";
    assert_eq!(of_request.text, apart);
    // Where nothing has GPU work, the longest of them is still told.
    let load =
        StageMeasurements { stage: "load".into(), window_ns: Some(1_600_000_000), ..request() };
    let said = of(vec![request(), load]);
    assert_eq!(text(&said, DominantStage), "request: 80.0 % of the time of all stages");
    assert_eq!(
        text(&said, GpuIdle),
        "request: no GPU work launched by the stage itself in the window"
    );
}

/// Eager `generate()` of Hugging Face on a busy machine: it does nothing but launch.
#[test]
fn a_host_that_does_not_feed_the_gpu_is_not_said_to_wait_for_something_else() {
    let said = of(vec![StageMeasurements {
        idle_percent: Some(97.0),
        short_gaps_percent: Some(31.0),
        interval_us: Some(66.6),
        kernel_mean_us: Some(2.0),
        noun: "call",
        warm_instances: Some(19),
        ..eager_decode()
    }]);
    let gaps = text(&said, HostGaps);
    for words in ["97.0 % of the window of 19 warm calls", "every 66.6 us", "do not show why"] {
        assert!(gaps.contains(words), "{words}: {gaps}");
    }
    let advice = advice(&said, HostGaps);
    assert!(advice.contains("STAGE2_HOST=on") && advice.contains("perf"), "{advice}");
    let all = format!("{said:?}");
    for guess in ["something else", ".item()", "tokenis", "synchronis"] {
        assert!(!all.contains(guess), "{guess}: {all}");
    }
}

#[test]
fn the_host_is_blamed_only_where_its_ranges_show_that_it_was_behind() {
    let with = |ahead_percent, behind_percent| {
        let host = Some(HostLead { ahead_percent, behind_percent });
        of(vec![StageMeasurements { host, ..eager_decode() }])
    };
    for unknown in [of(vec![eager_decode()]), with(40.0, 49.0)] {
        let said = text(&unknown, LaunchBound);
        assert!(said.contains(", 93.0 % of that time in gaps of at most 50 us. "), "{said}");
        assert!(!said.contains("behind") && !said.contains("launched"), "{said}");
    }
    let behind = with(10.0, 60.0);
    let said = text(&behind, LaunchBound);
    let parts = "When idle time of the median step begins, the next work is not yet launched (60.0 %), already \
                 launched (10.0 %), not known (30.0 %)";
    assert!(said.contains("and the host is behind. ") && said.ends_with(parts), "{said}");
    let ahead = with(79.0, 21.0);
    assert_eq!(text(&ahead, LaunchBound), "");
    let said = text(&ahead, HostAhead);
    assert!(
        said.contains("ahead of the GPU. ") && said.ends_with("launched (79.0 %)"),
        "all parts are known: {said}"
    );
    let advice = advice(&ahead, HostAhead);
    assert!(
        advice.starts_with("Launch fewer and larger kernels (fusion, a larger batch)"),
        "{advice}"
    );
    assert!(advice.contains("faster host does not help"), "{advice}");
    assert!(!advice.contains("graphs"), "they launch faster, which does not help: {advice}");
    let said = with(57.2, 2.2);
    let advice = self::advice(&said, HostAhead);
    assert!(!advice.contains("does not help"), "40.6 % may be the host's: {advice}");
    assert!(
        advice.contains("57.2 % of the idle time was already launched")
            && advice.contains("of 40.6 % is not known: CUDA graphs may"),
        "{advice}"
    );
}

#[test]
fn sentences_on_idle_time_are_short() {
    let leads = [None, Some((10.0, 60.0)), Some((79.0, 21.0)), Some((0.9, 54.3))];
    for (lead, graphs, launching) in leads
        .iter()
        .flat_map(|lead| [(lead, 0.0, None), (lead, 100.0, None), (lead, 0.0, Some("f"))])
    {
        let host =
            lead.map(|(ahead_percent, behind_percent)| HostLead { ahead_percent, behind_percent });
        let launching = launching.map(|name: &str| format!("{name} (a.py:3)"));
        let graph_percent = Some(graphs);
        let stage = StageMeasurements { host, graph_percent, launching, ..eager_decode() };
        let said = of(vec![stage]);
        let idle = said.iter().find(|said| [LaunchBound, HostAhead, HostGaps].contains(&said.rule));
        let text = &idle.expect("idle time").text;
        let longest = text.split(". ").map(|part| part.split_whitespace().count()).max();
        assert!(longest <= Some(35) && text.contains(" kernels"), "{longest:?}: {text}");
    }
}

#[test]
fn one_cause_is_the_advice_from_its_own_share_on() {
    let causes = |own_percent| {
        let cause = |name: &str, percent, main_from_percent| HostEvidence {
            name: name.to_owned(),
            percent,
            main_from_percent,
            ..HostEvidence::default()
        };
        vec![cause("launch", 25.0, 30.0), cause("sort", own_percent, 10.0)]
    };
    let with = |own_percent, host_never_waits| {
        let host_causes = causes(own_percent);
        let stage = StageMeasurements { host_causes, host_never_waits, ..eager_decode() };
        of(vec![StageMeasurements { short_gaps_percent: None, ..stage }])
    };
    assert_eq!(advice(&with(10.0, true), HostGaps), "");
    let said = with(9.9, false);
    let spread = advice(&said, HostGaps);
    assert!(
        spread.contains("asynchronous") && spread.ends_with("the largest is launch."),
        "{spread}"
    );
    // What never waits for the GPU is as early as it can be.
    let said = with(9.9, true);
    let spread = advice(&said, HostGaps);
    assert!(spread.contains("larger batch") && !spread.contains("asynchronous"), "{spread}");
    let experiment = |said: &[Takeaway]| {
        said.iter().find(|said| said.rule == HostGaps).and_then(|said| said.experiment.clone())
    };
    assert_eq!(experiment(&said), Some(Experiment::shorter_steps()));
    // More requests make no step shorter.
    let then = "Send more requests at once".to_owned();
    let more_requests = Some(MoreRequests { then, requests: 16.0, aim: 32.0 });
    let (host_causes, host_never_waits) = (causes(9.9), true);
    let said = of(vec![StageMeasurements {
        host_causes,
        host_never_waits,
        more_requests,
        short_gaps_percent: None,
        ..eager_decode()
    }]);
    assert!(
        advice(&said, HostGaps).starts_with("Send more requests at once. Or do less host work")
    );
    assert_eq!(experiment(&said), Some(Experiment::more("tokens_per_s")));
    // The same where another function is the cause, and the engine's code the rest.
    let then = "Send more requests at once".to_owned();
    let more_requests = Some(MoreRequests { then, requests: 16.0, aim: 32.0 });
    let mut host_causes = causes(10.0);
    host_causes[1].is_own = true;
    let said = of(vec![StageMeasurements {
        host_causes,
        host_never_waits,
        more_requests,
        short_gaps_percent: None,
        ..eager_decode()
    }]);
    let engine = said.iter().find(|said| said.subject.as_deref() == Some("launch"));
    let engine = engine.expect("the code of the engine");
    let then = "Send more requests at once. Or run the engine on a faster core.";
    assert_eq!(engine.recommendation.as_deref(), Some(then));
    assert_eq!(engine.experiment, Some(Experiment::more("tokens_per_s")));
}

/// The first advice of the demo is on its program, not on the simulator that makes its threads slow.
#[test]
fn where_a_slow_machine_launches_for_a_simulated_gpu_the_advice_is_to_launch_less_often() {
    let stage = StageMeasurements { simulated: true, short_gaps_percent: None, ..eager_decode() };
    let said = of(vec![stage]);
    assert_eq!(advice(&said, HostGaps), LAUNCH_LESS_OFTEN);
    let whose = ": launches are those of this machine, which is slow or busy. ";
    assert!(text(&said, HostGaps).contains(whose), "{said:?}");
}

#[test]
fn what_the_host_did_is_no_cause_where_it_was_ahead() {
    let cause = HostEvidence {
        percent: 43.0,
        text: "43 % of the idle time: sleeping".to_owned(),
        then: "Wait for an event.".to_owned(),
        ..HostEvidence::default()
    };
    let with = |ahead_percent, behind_percent| {
        let host = Some(HostLead { ahead_percent, behind_percent });
        let host_causes = vec![cause.clone()];
        of(vec![StageMeasurements { host, host_causes, ..eager_decode() }])
    };
    let is_blamed = |said: &[Takeaway]| rules(said).contains(&HostCause);
    assert!(is_blamed(&with(10.0, 60.0)) && is_blamed(&with(40.0, 49.0)));
    assert!(!is_blamed(&with(97.0, 3.0)));
    // Ranges do not show it where the host waits within the range that launched: samples do.
    let wait = |percent| stage2_model::HostCause {
        kind: stage2_model::HostCauseKind::CudaCall,
        called: Some("cuStreamSynchronize".into()),
        percent,
        ..stage2_model::HostCause::default()
    };
    let samples = |waits: [f64; 2], simulated| {
        let host_waits = stage2_model::waits_for_gpu(&waits.map(wait)).map(|(percent, longest)| {
            (percent, Evidence::number("cause_percent", longest.percent, "percent", String::new()))
        });
        let host_causes = vec![cause.clone()];
        of(vec![StageMeasurements { host_waits, host_causes, simulated, ..eager_decode() }])
    };
    assert!(is_blamed(&samples([40.0, 9.9], false)));
    assert!(!rules(&samples([40.0, 10.1], true)).contains(&HostAhead), "the simulator is slow");
    let said = samples([40.0, 10.1], false);
    assert!(!is_blamed(&said) && rules(&said).contains(&HostAhead));
    let words = ". For 50.1 % of the idle time, the host waits for what it has launched";
    assert!(said.iter().any(|said| said.text.contains(words)), "{said:#?}");
}

#[test]
fn times_in_doubt_are_numbers_with_a_label_and_no_advice() {
    let caveat = Some("one call, which is cold: not a basis for advice".to_owned());
    let mut counted = kernel("k", KernelClass::Gemm, 40.0);
    (counted.bound, counted.attainable_share) = (Some(Bound::Compute), Some(0.1));
    let stage = StageMeasurements { caveat, decode: false, ..eager_decode() };
    let said = of(vec![StageMeasurements { top_kernels: vec![counted], ..stage.clone() }]);
    for told in &said {
        let label = match told.recommendation {
            Some(_) => {
                "(one call, which is cold; the counters of the kernel are valid nevertheless)"
            }
            None => "(one call, which is cold: not a basis for advice)",
        };
        assert!(told.text.ends_with(label), "{told:?}");
    }
    assert!(said.iter().all(|t| t.concerns_percent.is_none()), "{said:?}");
    assert!(text(&said, GpuIdle).contains("idle 79.5 %"), "{said:?}");
    // What counters say of a kernel does not depend on the times of its stage.
    let advised: Vec<Rule> =
        said.iter().filter(|t| t.recommendation.is_some()).map(|t| t.rule).collect();
    assert_eq!(advised, [FarFromRoof]);
    assert_eq!(recommendations(&of(vec![stage]), &Answer::default()), []);
}

#[test]
fn a_warm_up_is_to_be_left_out_and_nothing_else_is_advised_for_its_stage() {
    let times = [400, 50, 50, 50].into_iter().chain([10; 20]).enumerate();
    let bucket = |(at, ms): (usize, u64)| StepBucket {
        first: at as u64,
        steps: 1,
        min_ns: ms * 1_000_000,
        mean_ns: ms * 1_000_000,
        max_ns: ms * 1_000_000,
    };
    let series = StepSeries {
        stage: "decode".into(),
        path: "decode".into(),
        buckets: times.map(bucket).collect(),
        ..StepSeries::default()
    };
    let report = Report { step_series: vec![series], ..Report::default() };
    let warm_up = warm_up::WarmUp::of(&report, "decode");
    let caveat = Some("a warm-up: not a basis for advice".to_owned());
    let said = of(vec![StageMeasurements { warm_up, caveat, ..eager_decode() }]);
    assert_eq!(
        text(&said, WarmUp),
        "decode: the first 4 calls take about 50.00 ms each, the others 10.00 ms (median): this warm-up makes up 34.3 % \
         of its time"
    );
    let advised = said.iter().filter_map(|told| told.recommendation.as_deref());
    let advised: Vec<&str> = advised.collect();
    let [only] = advised[..] else { panic!("{advised:?}") };
    assert!(only.starts_with("Record decode without its warm-up: open a range"), "{only}");
}

#[test]
fn class_shares_speak_from_their_thresholds_on() {
    let classes = |class, percent| {
        alone(StageMeasurements { classes: vec![(class, percent)], ..StageMeasurements::default() })
    };
    for (class, threshold, rule) in [
        (KernelClass::Communication, 10.0, Communication),
        (KernelClass::Elementwise, 30.0, Fusible),
        (KernelClass::Norm, 30.0, Fusible),
        (KernelClass::Copy, 15.0, Copies),
    ] {
        assert_eq!(classes(class, threshold), [rule]);
        assert_eq!(classes(class, threshold - 0.1), [Nothing]);
    }
    assert_eq!(classes(KernelClass::Gemm, 100.0), [Nothing]);
}

#[test]
fn decode_is_held_against_the_bandwidth() {
    let at = |decode, mbu| {
        let stage =
            StageMeasurements { decode, mbu_busy: Some(mbu), ..StageMeasurements::default() };
        alone(stage).into_iter().filter(|r| *r != Utilisation).collect::<Vec<_>>()
    };
    assert_eq!(at(true, 0.6), [DecodeNearBandwidth]);
    assert_eq!(at(true, 0.5), []);
    assert_eq!(at(true, 0.2), [DecodeFarFromBandwidth]);
    assert_eq!(at(false, 0.6), []);
    assert_eq!(at(true, f64::NAN), [Nothing]);
}

#[test]
fn far_from_the_bandwidth_says_how_much_of_the_time_reads() {
    let said = |classes: &[(KernelClass, f64)]| {
        let classes = classes.to_vec();
        let (decode, mbu_busy) = (true, Some(0.249));
        let stage = StageMeasurements { decode, mbu_busy, classes, ..Default::default() };
        text(&of(vec![stage]), DecodeFarFromBandwidth).to_owned()
    };
    let shares = [
        (KernelClass::Gemm, 53.5),
        (KernelClass::Attention, 2.6),
        (KernelClass::Elementwise, 20.0),
    ];
    let all = said(&shares);
    assert!(all.ends_with("24.9 % of the peak bandwidth; the kernels that read them are 56.1 % of kernel time (gemm 53.5, attention 2.6)"), "{all}");
    assert!(said(&[]).ends_with("24.9 % of the peak bandwidth"), "nothing is known of classes");
}

#[test]
fn kernels_speak_by_what_holds_them_up() {
    type Change = fn(&mut KernelMeasurements);
    let cases: [(bool, Change, Rule, &str, &str); 12] = [
        (
            true,
            |k| (k.bound, k.attainable_share) = (Some(Bound::Memory), Some(0.8)),
            MemoryBoundProduct,
            "memory-bound, 80 % of what is attainable",
            "quantisation",
        ),
        (
            true,
            |k| (k.bound, k.attainable_share) = (Some(Bound::Memory), Some(0.6)),
            MemoryBoundProduct,
            "memory-bound, 60 % of what is attainable",
            "more tokens. The kernel is also far from its roof: try another implementation",
        ),
        (
            false,
            |k| (k.bound, k.attainable_share) = (Some(Bound::Memory), Some(0.8)),
            NearRoof,
            "",
            "k is close to its roof",
        ),
        // Its bound is known already.
        (
            true,
            |k| (k.class, k.bound) = (KernelClass::Norm, Some(Bound::Memory)),
            TopKernel,
            "",
            "",
        ),
        (true, starve, LowOccupancy, "12.0 % occupancy", "Give k more parallel work"),
        (
            true,
            |k| {
                starve(k);
                k.one_launch = true;
            },
            LowOccupancy,
            "latency-bound in the one launch that was profiled, with 12.0 % occupancy",
            "Give k more parallel work",
        ),
        (
            false,
            |k| (k.bound, k.attainable_share) = (Some(Bound::Latency), Some(0.1)),
            FarFromRoof,
            "",
            "k is far from its roof",
        ),
        (
            false,
            |k| k.attainable_share = Some(282_413.0),
            TopKernel,
            "",
            "to see what limits k, or profile it with ncu (--deep",
        ),
        (false, |_| (), TopKernel, "", "to see what limits k, or profile it with ncu (--deep"),
        (true, |_| (), TopKernel, "", "to see what limits k, or profile it with ncu (--deep"),
        (true, |k| k.percent = 9.9, Nothing, "", ""),
        (true, |k| k.percent = f64::NAN, Nothing, "", ""),
    ];
    for (at, (decode, change, rule, words, then)) in cases.into_iter().enumerate() {
        let mut top = kernel("k", KernelClass::Gemm, 40.0);
        change(&mut top);
        let stage =
            StageMeasurements { decode, top_kernels: vec![top], ..StageMeasurements::default() };
        let said = of(vec![stage]);
        assert_eq!(rules(&said), [rule], "case {at}");
        assert!(text(&said, rule).contains(words), "case {at}: {said:?}");
        // What is beyond the peak is not shown.
        let is_shown = text(&said, rule).contains("attainable");
        assert!(rule != TopKernel || !is_shown, "case {at}: {said:?}");
        if rule != Nothing {
            assert!(advice(&said, rule).contains(then), "case {at}: {said:?}");
            assert_eq!(advice(&said, rule).is_empty(), then.is_empty(), "case {at}: {said:?}");
        }
    }
}

fn starve(kernel: &mut KernelMeasurements) {
    (kernel.bound, kernel.achieved_occupancy_percent) = (Some(Bound::Latency), Some(12.0));
}

#[test]
fn small_shares_keep_their_digits() {
    let said = |mfu_wall| {
        let stage = StageMeasurements { mfu_wall: Some(mfu_wall), ..StageMeasurements::default() };
        text(&of(vec![stage]), Utilisation).to_owned()
    };
    for (share, expected) in [
        (0.000_043, "MFU 0.0043 % of wall time"),
        (0.000_34, "MFU 0.034 % of wall time"),
        (0.001_285, "MFU 0.13 % of wall time"),
        (0.5, "MFU 50.00 % of wall time"),
        (0.0, "MFU 0.00 % of wall time"),
    ] {
        assert!(said(share).ends_with(expected), "{}", said(share));
    }
}

#[test]
fn what_ncu_replayed_is_no_lower_bound() {
    let run =
        RunMeasurements { missing: Some("no collector".into()), ..RunMeasurements::default() };
    let said = |run: &RunMeasurements| text(&takeaways(run), Incomplete).to_owned();
    assert!(said(&run).contains("times are lower bounds"));
    let replayed = said(&RunMeasurements { replayed: true, ..run });
    assert!(!replayed.contains("lower bound") && replayed.contains("cold caches"), "{replayed}");
}

#[test]
fn nothing_known_says_nothing() {
    let said = takeaways(&RunMeasurements::default());
    assert_eq!(rules(&said), [Nothing]);
    assert!(said[0].text.contains("No stage"), "{said:?}");
    let bare = of(vec![StageMeasurements { stage: "s".into(), ..StageMeasurements::default() }]);
    assert_eq!(rules(&bare), [Nothing]);
    assert!(bare[0].text.contains("support no statement"), "{bare:?}");
}

#[test]
fn caveats_come_first_and_stand_beside_the_rest() {
    let run = RunMeasurements {
        simulated: true,
        replayed: false,
        missing: Some("1,000 records dropped by CUPTI".into()),
        failed: None,
        status: "partial",
        stages: vec![eager_decode()],
    };
    let said = takeaways(&run);
    assert_eq!(rules(&said)[..3], [Simulated, Incomplete, LaunchBound]);
    assert!(said[1].text.contains("1,000 records"), "{said:?}");
    let bare = RunMeasurements { stages: Vec::new(), ..run };
    assert_eq!(rules(&takeaways(&bare)), [Simulated, Incomplete, Nothing]);
}

#[test]
fn what_the_answer_puts_first_comes_before_its_symptoms() {
    let said = |rule: Rule, stage: &str, percent: f64| Takeaway {
        rule,
        stage: Some(stage.into()),
        text: String::new(),
        recommendation: Some(format!("{rule:?} in {stage}")),
        concerns_percent: Some(percent),
        ..Takeaway::default()
    };
    let step = |rule: Rule, stage: &str| FirstStep {
        stage: Some(stage.into()),
        rule,
        text: format!("{rule:?} in the words of the answer"),
        ..FirstStep::default()
    };
    let caveat = Takeaway { stage: None, concerns_percent: None, ..said(Incomplete, "-", 0.0) };
    let takeaways = [
        caveat,
        said(Fusible, "prefill", 60.0),
        said(HostGaps, "decode", 45.0),
        said(Waiting, "decode", 40.0),
        said(Copies, "prefill", 5.0),
        // Not worth the reading.
        said(Copies, "decode", 0.9),
    ];
    let order = |answer: &Answer| -> Vec<Rule> {
        recommendations(&takeaways, answer).iter().map(|given| given.first.rule).collect()
    };
    // To profile is one job for the kernels of all stages.
    let profiled = [said(TopKernel, "decode", 7.5), said(TopKernel, "mixed", 2.8)];
    let none = Answer::default();
    let given = recommendations(&profiled, &none)[0].clone();
    let second = given.second.and_then(|second| second.stage.as_deref());
    assert_eq!((given.further, second, given.concerns_percent), (1, Some("mixed"), Some(10.3)));
    let plain = Answer::default();
    assert_eq!(order(&plain), [Incomplete, Fusible, HostGaps, Waiting, Copies]);
    let first = Answer { first: Some(step(Waiting, "decode")), ..Answer::default() };
    assert_eq!(order(&first), [Waiting, Incomplete, Fusible, HostGaps, Copies]);
    let given = recommendations(&takeaways, &first);
    assert_eq!(given[0].text, "Waiting in the words of the answer");
    let of_stage = |rule, stage: &str| StageAnswer {
        first: Some(step(rule, stage)),
        ..crate::answer::tests::stage_answer(stage)
    };
    // In each stage, too: where the weightiest of the stage would stand.
    let stages = vec![of_stage(Waiting, "decode"), of_stage(Fusible, "prefill")];
    let both = Answer { stages, ..Answer::default() };
    assert_eq!(order(&both), [Incomplete, Fusible, Waiting, HostGaps, Copies]);
}

#[test]
fn every_recommendation_is_given_once_and_every_rule_has_its_words() {
    let mut other = eager_decode();
    other.stage = "decode/again".into();
    let said = of(vec![eager_decode(), other]);
    let answer = Answer::default();
    let given = recommendations(&said, &answer);
    let mut texts: Vec<&str> = given.iter().map(|given| given.text).collect();
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), given.len());
    // Two stages that need the same: their parts add up.
    let both = given.iter().find(|given| given.text.contains("CUDA graphs")).expect("given");
    assert_eq!(both.further, 1);
    assert!((both.concerns_percent.expect("known") - 79.5).abs() < 1e-9, "{both:?}");
    for takeaway in &said {
        assert!(
            !takeaway.rule.text().is_empty()
                && takeaway.text.contains(|c: char| c.is_ascii_digit())
        );
    }
    assert!(LaunchBound.text().contains("30 %"), "{}", LaunchBound.text());
}

#[test]
fn waiting_for_a_late_rank_is_no_communication() {
    let mut reduce = kernel("ncclDevKernel_AllReduce", KernelClass::Communication, 70.0);
    (reduce.bound, reduce.attainable_share) = (Some(Bound::Latency), Some(0.1));
    let with = |waiting| StageMeasurements {
        stage: "decode".into(),
        window_ns: Some(1_000_000),
        idle_percent: Some(5.0),
        waiting,
        classes: vec![(KernelClass::Communication, 70.0), (KernelClass::Gemm, 30.0)],
        top_kernels: vec![reduce.clone()],
        ..StageMeasurements::default()
    };
    let late = Some("rank 1 arrives last at 4 of 32 collectives".to_owned());
    let split = RankWaiting { percent: 65.0, whole: true, late, ..RankWaiting::default() };
    let said = of(vec![with(Some(split.clone()))]);
    assert_eq!(rules(&said), [GpuBusy, Waiting], "{said:?}");
    assert_eq!(
        text(&said, Waiting),
        "decode: waiting for other ranks is 65.0 % of kernel time. Rank 1 arrives last at 4 of 32 \
         collectives"
    );
    // What to do is that for the cause that was found, where one was.
    let known = RankWaiting { late_remedy: Some("Do this.".to_owned()), ..split.clone() };
    assert!(advice(&of(vec![with(Some(known))]), Waiting).starts_with("Do this."));
    assert!(said.iter().all(|said| said.recommendation.is_none()), "no rank is late: {said:?}");
    // Of two ranks only one waits: its waiting is a small part of all kernel time, and every step is longer by it.
    let one_waits = RankWaiting { percent: 8.0, delayed_percent: 15.0, ..split.clone() };
    assert!(rules(&of(vec![with(Some(one_waits.clone()))])).contains(&Waiting));
    let none_is_late = RankWaiting { delayed_percent: 9.0, ..one_waits };
    assert!(!rules(&of(vec![with(Some(none_is_late))])).contains(&Waiting));
    // The rest is what is left of communication.
    let said = of(vec![with(Some(RankWaiting { percent: 30.0, ..split.clone() }))]);
    let left =
        "decode: communication is 40.0 % of kernel time, waiting for other ranks not counted";
    assert_eq!(text(&said, Communication), left);
    // Where the window splits both, its shares are told, whatever the kernels of cold instances took.
    let windowed = RankWaiting { percent: 36.0, transfer_percent: Some(15.0), ..split.clone() };
    let said = of(vec![with(Some(windowed))]);
    assert!(
        text(&said, Waiting)
            .starts_with("decode: waiting for other ranks is 36.0 % of GPU busy time.")
    );
    let left =
        "decode: communication is 15.0 % of GPU busy time, waiting for other ranks not counted";
    assert_eq!(text(&said, Communication), left);
    // Where it is not known how much waiting is in it, nothing is called communication.
    for unknown in [None, Some(RankWaiting::default())] {
        let said = of(vec![with(unknown)]);
        assert_eq!(rules(&said), [GpuBusy, Communication]);
        let text = text(&said, Communication);
        assert!(text.contains("are 70.0 % of kernel time"), "{text}");
        assert!(text.ends_with("an unknown part of that is waiting for other ranks"), "{text}");
        // What of it is transfer is not known, so no gain is promised.
        assert_eq!(said[1].concerns_percent, None);
    }
    // Every rank was recorded: the true cause is told, and not that a rank is missing.
    let why = ("the clocks are too coarse".to_owned(), "Compare ranks of one host.".to_owned());
    let coarse = RankWaiting { unmatched: Some(why), ..RankWaiting::default() };
    let said = of(vec![with(Some(coarse))]);
    let told = text(&said, Communication);
    assert!(told.ends_with("waiting for other ranks, because the clocks are too coarse"), "{told}");
    assert_eq!(advice(&said, Communication), "Compare ranks of one host.");
}
