//! A bundle with everything that there can be: counters, a timeline, an untraced pass, a model,
//! warm-up, and operators that lie in no stage; and the numbers that only follow from all of it.

use std::fs;
use std::path::Path;

use crate::common::golden::compare;
use crate::common::trace::{Build, RunFolder, stage};
use crate::common::{read, repository, unpack};
use crate::nsys_export;
use serde_json::json;
use stage2_contract::trace::{NONE, Record};
use stage2_launch::reports::write_reports;
use stage2_model::{Absent, Apart, Figure, Report, Severity, StageCost};

/// A kernel of the ncu fixture: 1024 x 1024 x 1024, launched with these blocks and threads.
const GEMM: (&[u8], [u32; 3], [u32; 3]) =
    (b"nvjet_sm90_tst_128x64_64x8_1x2_h_bz_NNT", [2, 64, 1], [384, 1, 1]);
const OTHER: &[u8] = b"_Z3addPf";
const US: u64 = 1_000;
/// Undisturbed duration of the product.
const PRODUCT_NS: u64 = 6_400;

/// Warm-up, an operator of its own, and three generations; the first is cold. A stage runs the
/// product for 6.4 us (ncu: 7.04) and another kernel for `other_ns`. `slow` stretches the host times, percent.
fn run(other_ns: [u64; 2], slow: u64) -> Build {
    run_products([PRODUCT_NS; 2], [PRODUCT_NS; 2], other_ns, slow)
}

/// The run of [`run`] with other durations of the product, ns: each pair holds that of the first,
/// cold instance and that of the later ones.
fn run_products(prefill_ns: [u64; 2], decode_ns: [u64; 2], other_ns: [u64; 2], slow: u64) -> Build {
    let mut b = Build::process(1, "python3");
    b.anchor(1).device(0, "NVIDIA H200", 1);
    b.name(1, b"warm_up").name(2, b"prefill").name(3, b"decode").name(4, b"aten::mm");
    b.name(5, GEMM.0).name(6, OTHER).launch_shape(1, 5, GEMM.1, GEMM.2).shape(2, 6, 1);
    for path in 1..5 {
        b.path(path, NONE, path);
    }
    b.open(1, 1, 0, 100).kernel(1, 2, 1, (200, 300)).close(1, 2_000 * US);
    b.open(2, 4, 0, 2_100 * US).kernel(2, 2, 1, (2_100 * US + 5, 2_100 * US + 25));
    b.close(2, 2_150 * US);
    // Host times without stretching; the cold ones are far longer.
    let instances = [[900, 800], [100, 300], [102, 304]];
    for (i, host_us) in instances.into_iter().enumerate() {
        for (stage, host_us) in host_us.into_iter().enumerate() {
            let range = 10 + 2 * i as u64 + stage as u64;
            let start = (3_000 + 2_000 * i as u64 + 1_000 * stage as u64) * US;
            let mut at = start + 10 * US;
            b.open(range, 2 + stage as u32, 0, start);
            let product_ns = [prefill_ns, decode_ns][stage][usize::from(i > 0)];
            for (shape, ns) in [(1, product_ns), (2, other_ns[stage])] {
                b.kernel(range, shape, 1, (at, at + ns));
                at += ns;
            }
            b.close(range, start + host_us * (100 + slow) / 100 * US);
        }
    }
    b.end();
    b
}

fn untraced(run_dir: &Path) {
    let mut records = run([1_000; 2], 0);
    records.records.retain(|record| !matches!(record, Record::Work(work) if work.is_kernel()));
    let off = Record::Meta { key: "gpu.off".into(), value: "STAGE2_GPU=off".into() };
    records.records.insert(1, off);
    fs::create_dir(run_dir.join("baseline")).expect("folder");
    fs::write(run_dir.join("baseline/node-1-1.s2t"), records.bytes()).expect("a trace file");
}

fn preset(name: &str) -> String {
    let text = read(&repository("conf").join(name));
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| format!("    {line}\n")).collect()
}

pub(crate) fn deep() -> RunFolder {
    let folder = RunFolder::new();
    write(&folder.path(""));
    folder
}

/// A folder with [`write`] and an untraced pass.
fn deep_with_baseline() -> RunFolder {
    let folder = deep();
    untraced(&folder.path(""));
    folder
}

/// The product takes 6.4 of 8 us of a prefill, and 6.4 of 16 us of a decode.
fn write(run_dir: &Path) {
    run([1_600, 9_600], 10).save(run_dir, "node-1-1.s2t");
    unpack("ncu/matmul.raw.csv.xz", &run_dir.join("ncu/raw.csv"));
    unpack("ncu/matmul.details.csv.xz", &run_dir.join("ncu/details.csv"));
    let model = preset("model/llm/llama_1b_random.yaml");
    let config = format!("run: {{baseline: true}}\nmodel:\n  llm:\n{model}");
    fs::write(run_dir.join("config.yaml"), config).expect("config");
    let pass = |name: &str, ms: u64| json!({"name": name, "status": "ok", "duration_ms": ms});
    let passes = [pass("baseline", 10_000), pass("collect", 11_500), pass("ncu", 42_000)];
    fs::write(run_dir.join("run.json"), json!({"passes": passes}).to_string()).expect("run.json");
    fs::write(run_dir.join("env.json"), json!({"driver": "580.159"}).to_string()).expect("env");
    fs::create_dir(run_dir.join("stage1")).expect("folder");
    let metrics = json!({"batch_size": 1, "prompt_tokens": 64, "decode_steps": 8});
    fs::write(run_dir.join("stage1/metrics.json"), metrics.to_string()).expect("metrics");
}

#[test]
fn every_page_of_a_deep_run_is_as_expected() {
    let folder = tempfile::tempdir().expect("folder");
    let run_dir = folder.path().join("20261120-193500-2");
    fs::create_dir(&run_dir).expect("run folder");
    write(&run_dir);
    untraced(&run_dir);
    write_reports(&run_dir).expect("reports");
    for name in ["report.md", "report.html", "stakeholder_summary.md"] {
        let text =
            read(&run_dir.join(name)).replace(&folder.path().display().to_string(), "FOLDER");
        compare(&format!("deep_{name}"), &text);
    }
}

#[test]
fn means_leave_the_cold_instance_out() {
    let folder = deep();
    let report = folder.report();
    let decode = stage(&report, "decode");
    // 300 and 304 us, a tenth longer.
    assert_eq!((decode.host_first_ns, decode.host_warm_instances), (Some(880 * US), Some(2)));
    assert_eq!(decode.host_warm_mean_ns, Some(332 * US), "330 and 334");
    assert_eq!(decode.host_warm_std_ns, Some(2_828), "4 us / the root of 2");
    let warm = decode.warm.expect("warm");
    assert_eq!((warm.instances, warm.kernels), (2, 4));
    assert_eq!((warm.gpu_window_ns, warm.gpu_busy_ns), (664 * US, 32 * US));
    let used = report.insight.utilisation.expect("utilisation");
    let numbers = used.numbers.stages.iter().find(|s| s.stage == "decode").expect("decode");
    assert_eq!(numbers.tokens_per_s.value().map(f64::round), Some((8.0_f64 / 332e-6).round()));
    assert_eq!(numbers.kernels_per_token, Figure::Known(0.25));
    assert_eq!(numbers.basis, "mean of 2 warm calls, the first, cold one left out");
}

#[test]
fn counters_speak_for_a_stage_that_they_cover() {
    let folder = deep();
    let report = folder.report();
    let used = report.insight.utilisation.as_ref().expect("utilisation");
    let of = |stage: &str| used.numbers.stages.iter().find(|s| s.stage == stage).expect("stage");
    let prefill = of("prefill");
    assert_eq!(prefill.measured_percent, Some(80.0));
    // One product of 1024 x 1024 x 1024 in each instance; the few other FLOPs are the epilogue's.
    let flops = prefill.measured_flops.value().expect("FLOPs");
    assert!((flops / 2_147_483_648.0 - 1.0).abs() < 0.02, "{flops}");
    let share = prefill.measured_mfu_busy.value().expect("MFU");
    assert!((share / (flops / 8e-6 / 989.5e12) - 1.0).abs() < 1e-9, "{share}");
    let decode = of("decode");
    assert_eq!(decode.measured_percent, Some(40.0));
    let absent = Absent::FewCounters { covered: "40.0 %".into(), one_launch: None };
    assert_eq!(decode.measured_flops, Figure::Absent(absent));

    let summary = folder.text("stakeholder_summary.md");
    let bound = report.kernels.iter().find_map(|row| row.counters.as_ref()?.roofline.bound);
    let bound = bound.expect("bound").label();
    let is_product = |line: &&str| line.contains("| `prefill` | 0.013 | 2 |");
    let kernel = summary.lines().find(is_product).expect("the product's row");
    assert!(kernel.contains(&format!("| gemm | {bound} |")), "{kernel}");
    let said = report.insight.takeaways.iter().find(|t| t.text.contains("prefill: nvjet"));
    let said = &said.expect("a takeaway on the product").text;
    assert!(said.contains(&format!("{bound}-bound")) && said.contains("attainable"), "{said}");
}

#[test]
fn counters_of_one_launch_give_no_rate_no_share_and_no_takeaway() {
    let folder = deep();
    // ncu profiled a decode, for 7.04 us: faster than any of these prefills, so it is other work.
    // One of three decodes takes longer by half: two workloads under one configuration.
    let run = run_products([11_000; 2], [9_000, 6_000], [1_600; 2], 10);
    run.save(&folder.path(""), "node-1-1.s2t");
    let report = folder.report();
    let row = |stage: &str| {
        let product =
            report.kernels.iter().find(|row| row.stage == stage && row.counters.is_some());
        product.and_then(|row| row.counters.clone()).expect(stage)
    };
    for (stage, why) in [("prefill", "0.64 times the mean"), ("decode", "a factor of 1.50")] {
        let counters = row(stage);
        assert_eq!(counters.profiled_in.as_deref(), Some("decode"));
        let said = counters.one_launch.expect(stage);
        assert!(said.contains(why), "{said}");
        let roof = counters.roofline;
        assert!(roof.flops.is_some_and(|flops| flops > 2e9), "counts are shown: {roof:?}");
        assert_eq!((roof.flops_per_s, roof.bytes_per_s, roof.attainable_share), (None, None, None));
        assert_eq!(roof.bound.is_some(), stage == "decode", "of the profiled launch");
    }
    let used = report.insight.utilisation.as_ref().expect("utilisation");
    let decode = used.numbers.stages.iter().find(|s| s.stage == "decode").expect("decode");
    assert_eq!((decode.measured_percent, decode.measured_flops.value()), (Some(0.0), None));
    // 21 of 25.8 us.
    let left_out = decode.one_launch_percent.expect("a share");
    assert!((left_out - 100.0 * 21.0 / 25.8).abs() < 1e-9, "{left_out}");
    let said = |stage: &str| {
        let of_product = |t: &&stage2_model::Takeaway| {
            t.stage.as_deref() == Some(stage) && t.text.contains("nvjet")
        };
        report.insight.takeaways.iter().find(of_product).map_or("", |t| t.text.as_str())
    };
    assert!(said("prefill").contains("the longest kernel is"), "{}", said("prefill"));
    assert!(!said("decode").contains("attainable"), "{}", said("decode"));
    let whole = folder.text("report.md");
    assert!(whole.contains("of another 81.4 % one launch was profiled"), "{whole}");
}

#[test]
fn rates_beyond_the_peak_are_a_finding_and_give_no_takeaway() {
    let folder = deep();
    let preset = preset("hardware/h200.yaml").replace("    bf16: 989.5\n", "    bf16: 0.001\n");
    let config = format!("hardware:\n{}", preset.replace("_per_s: 4800", "_per_s: 0.001"));
    folder.write("config.yaml", config);
    let report = folder.report();
    let told = report.findings.iter().find(|f| f.what.contains("more than the GPU can do"));
    assert!(told.is_some_and(|f| f.what.contains("nvjet")), "{:?}", report.findings);
    let said = report.insight.takeaways.iter().any(|t| t.text.contains("attainable"));
    assert!(!said, "{:?}", report.insight.takeaways);
}

#[test]
fn warm_up_and_operators_are_set_apart() {
    let folder = deep_with_baseline();
    let report = folder.report();
    assert_eq!(stage(&report, "warm_up").apart, Some(Apart::WarmUp));
    assert_eq!(stage(&report, "aten::mm").apart, Some(Apart::Operator));
    assert_eq!(stage(&report, "decode").apart, None);
    let verdict = &report.coverage.verdict.text;
    assert!(verdict.contains("1 in warm-up ranges, 1 in operators"), "{verdict}");
    for takeaway in &report.insight.takeaways {
        assert!(!["warm_up", "aten::mm"].contains(&takeaway.stage.as_deref().unwrap_or("")));
    }
    let summary = folder.text("stakeholder_summary.md");
    let timings = summary.split("## Per-Stage Timings").nth(1).expect("section");
    let timings = timings.split("\n## ").next().expect("section");
    assert!(!summary.contains("`warm_up` |") && timings.contains("| `decode` |"), "{summary}");
    assert!(!summary.contains("collect | `aten::mm`"), "nor what passes cost it: {summary}");
    assert!(timings.contains("is a warm-up") && timings.contains("is an operator"), "{timings}");
    let whole = folder.text("report.md");
    assert!(whole.contains("| `warm_up` (warm-up) | 1 |"), "{whole}");
    assert!(whole.contains("| `aten::mm` (operator) | 1 |"), "{whole}");
    assert!(whole.contains("| collect | `warm_up` | – | 2.000 | 1 |"), "{whole}");
}

#[test]
fn a_baseline_tells_what_the_passes_cost() {
    let folder = deep_with_baseline();
    let costs = folder.report().costs;
    let of = |pass: &str| -> &StageCost {
        let row = |row: &&StageCost| row.stage == "decode" && row.pass == pass;
        costs.stages.iter().find(row).expect(pass)
    };
    assert_eq!((costs.absent.as_ref(), of("baseline").ratio), (None, None));
    assert_eq!(of("baseline").host_warm_median_ns, Some(302 * US));
    assert_eq!(of("baseline").host_total_ns, Some(1_404 * US));
    let collect = of("collect");
    assert_eq!(collect.host_warm_median_ns, Some(332 * US));
    assert_eq!(collect.ratio.map(|ratio| (ratio * 1e6).round()), Some(1_099_338.0));
    let whole = costs.passes.iter().map(|pass| (pass.pass.as_str(), pass.ratio));
    let expected = [("baseline", None), ("collect", Some(1.15)), ("ncu", Some(4.2))];
    assert_eq!(whole.collect::<Vec<_>>(), expected);
    let summary = folder.text("stakeholder_summary.md");
    assert!(summary.contains("| collect | `decode` | 0.332 | 1.099 |"), "{summary}");
    let whole = folder.text("report.md");
    assert!(whole.contains("| collect | `decode` | 0.332 | 1.544 | 3 | 1.099 |"), "{whole}");
}

#[test]
fn without_a_baseline_the_pages_say_why() {
    for (config, passes, expected) in [
        ("run: {baseline: false}\n", json!([]), "run.baseline is false"),
        (
            "run: {baseline: true}\n",
            json!([{"name": "baseline", "status": "failed", "why": "no such file"}]),
            "the baseline pass did not run through: failed (no such file)",
        ),
        (
            "run: {baseline: true}\n",
            json!([{"name": "baseline", "status": "ok", "duration_ms": 5}]),
            "the baseline pass left no range",
        ),
        ("{}\n", json!([]), "no baseline pass is on record"),
    ] {
        let folder = RunFolder::of(&[run([1_000; 2], 0)]);
        let record = json!({"passes": passes}).to_string();
        folder.write("config.yaml", config).write("run.json", record).reports();
        for name in ["report.md", "stakeholder_summary.md"] {
            let text = folder.plain(name).to_lowercase();
            let said =
                ["none: ", "none, because ", "passes:** "].map(|none| format!("{none}{expected}"));
            assert!(said.iter().any(|said| text.contains(said)), "{name}: {expected}: {text}");
        }
    }
}

/// An export of nsys of the run with stages as `run` makes them, half as slow again; kernels that
/// `keep` refuses are missing from it.
fn timeline(run_dir: &Path, keep: impl Fn(u64) -> bool) {
    let thread = (1_u64 << 24) + 1;
    let mut sql = format!(
        "INSERT INTO StringIds VALUES (30, '{}'), (31, '{}'), (32, 'warm_up'), (33, 'aten::mm');",
        String::from_utf8_lossy(GEMM.0),
        String::from_utf8_lossy(OTHER)
    );
    let mut number = 0;
    let mut add = |name: u64, start: u64, end: u64, kernels: &[(u64, u64)]| {
        sql += &nsys_export::range(thread as i64, name as i64, start as i64, end as i64);
        for &(kernel, ns) in kernels {
            number += 1;
            if !keep(number) {
                continue;
            }
            sql += &nsys_export::call(thread as i64, number as i64, start as i64 + 1);
            sql += &format!(
                "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({start}, {}, 0, {number}, {}, \
                 {kernel}, {kernel}, {kernel}, 2, 64, 1, 384, 1, 1);",
                start + ns,
                thread & !0xff_ffff
            );
        }
    };
    add(32, 100, 2_000 * US, &[(31, 100)]);
    add(33, 2_100 * US, 2_150 * US, &[(31, 20)]);
    for (i, [prefill_us, decode_us]) in [[900, 800], [150, 450], [153, 456]].iter().enumerate() {
        let start = (3_000 + 2_000 * i as u64) * US;
        add(10, start, start + prefill_us * US, &[(30, PRODUCT_NS), (31, 1_600)]);
        let start = start + 1_000 * US;
        add(11, start, start + decode_us * US, &[(30, PRODUCT_NS), (31, 9_600)]);
    }
    fs::create_dir_all(run_dir.join("nsys")).expect("folder");
    let made = nsys_export::export(&run_dir.join("nsys"), nsys_export::SCHEMA, &sql);
    fs::rename(made, run_dir.join("nsys/run.sqlite")).expect("renamed");
}

#[test]
fn a_timeline_that_is_to_be_believed_has_its_cost_as_well() {
    let folder = deep_with_baseline();
    timeline(&folder.path(""), |_| true);
    let report = folder.report();
    let nsys = report.nsys.as_ref().expect("nsys");
    assert!(nsys.believed(), "{:?}", nsys.reconciliations);
    let of = |report: &Report| {
        let row = |row: &&StageCost| row.stage == "decode" && row.pass == "nsys";
        report.costs.stages.iter().find(row).cloned()
    };
    let decode = of(&report).expect("a row");
    assert_eq!((decode.instances, decode.host_total_ns), (Some(3), Some(1_706 * US)));
    assert_eq!(decode.host_warm_median_ns, Some(453 * US));
    // Of 450 and 456 us: without it every difference under nsys may be noise.
    assert_eq!((decode.host_warm_instances, decode.host_warm_std_ns), (Some(2), Some(4_242)));
    assert_eq!(decode.ratio, Some(1.5));

    timeline(&folder.path(""), |number| number % 3 == 0);
    let report = folder.report();
    assert!(!report.nsys.as_ref().expect("nsys").believed());
    assert_eq!(of(&report), None);
    let whole = folder.text("report.md");
    assert!(whole.contains("Stage times of nsys are left out"), "{whole}");
}

#[test]
fn a_damaged_baseline_costs_the_comparison_only() {
    let folder = deep();
    let whole = folder.report();
    folder.write("baseline/a.s2t", "no spool at all");
    let report = folder.report();
    assert_eq!((&report.kernels, &report.stages), (&whole.kernels, &whole.stages));
    let absent = report.costs.absent.as_deref().unwrap_or_default();
    assert!(absent.contains("left no range in a file that can be read"), "{absent}");
    let said = report.findings.iter().find(|f| f.what.starts_with("baseline pass: "));
    assert_eq!(said.map(|f| f.severity), Some(Severity::Warning), "{:?}", report.findings);
}
