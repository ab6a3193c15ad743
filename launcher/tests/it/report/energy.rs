//! Readings of NVML in trace files, with energies that are known -> the same energies in the report.

use serde_json::Value;
use stage2_contract::trace::{DeviceState, MonoNs, Record};

use crate::common;
use crate::common::trace::{Build, RunFolder};

const S: u64 = 1_000_000_000;

/// 80 W, then 700 W in prefill (1 s to 4 s), then 400 W at lower clocks in decode (4 s to 10 s): mJ.
fn energy_mj(at: u64) -> u64 {
    let part = |from: u64, to: u64, watts: u64| {
        at.clamp(from, to).saturating_sub(from) * watts / 1_000_000
    };
    part(0, S, 80) + part(S, 4 * S, 700) + part(4 * S, 10 * S, 400) + part(10 * S, 12 * S, 80)
}

fn process(pid: u32, device: u8, read_every_ms: u64) -> Build {
    let mut b = Build::process(pid, "/usr/bin/python3");
    b.anchor(1_000).device(0, "NVIDIA H200", device);
    for (id, name) in [(1, b"prefill".as_slice()), (2, b"decode"), (3, b"short"), (4, b"kernel")] {
        b.name(id, name);
    }
    b.path(1, 0, 1).path(2, 0, 2).path(3, 0, 3).shape(1, 4, 1);
    // The first of two calls of decode is a cold one.
    for (range, path, from, to) in [
        (1, 1, S, 4 * S),
        (2, 2, 4 * S, 6 * S),
        (3, 2, 6 * S, 10 * S),
        (4, 3, 10 * S, 10 * S + S / 2),
    ] {
        b.open(range, path, 0, from).close(range, to);
        b.kernel(range, 1, 1, (from + 10, to - 10));
    }
    for at in (0..=12_000 / read_every_ms).map(|number| number * read_every_ms * 1_000_000) {
        let in_decode = (4 * S..10 * S).contains(&at);
        b.add(Record::DeviceState(DeviceState {
            device: 0,
            at: MonoNs(at),
            energy_mj: Some(1_000_000 + energy_mj(at)),
            power_mw: None,
            sm_clock_mhz: Some(if in_decode { 1_395 } else { 1_980 }),
            memory_clock_mhz: Some(3_201),
            temperature_c: Some(if in_decode { 71 } else { 60 }),
            clock_reasons: Some(if in_decode { 4 } else { 0 }),
            other_processes: Some(0),
            memory_used_bytes: 0,
        }));
    }
    b.anchor(12 * S).end();
    b
}

/// The reports of these processes: `metrics.json` and `report.md`.
fn reports(processes: &[Build]) -> (Value, String) {
    let folder = RunFolder::of(processes);
    folder.reports();
    assert!(folder.text("report.html").contains("Energy and clocks"));
    (folder.metrics(), folder.text("report.md"))
}

fn row<'v>(report: &'v Value, stage: &str) -> &'v Value {
    common::row(&report["energy"], "stage", stage)
}

/// A number of a figure, which is exact but for the rounding of floating-point numbers.
fn assert_known(figure: &Value, expected: f64) {
    let known = figure["known"].as_f64().unwrap_or_else(|| panic!("{figure}"));
    assert!((known - expected).abs() < expected * 1e-6, "{known} instead of {expected}");
}

#[test]
fn each_stage_has_the_energy_that_was_taken_in_its_windows() {
    let (report, page) = reports(&[process(100, 1, 250)]);
    for (stage, joules, watts) in [("prefill", 2_100.0, 700.0), ("decode", 1_600.0, 400.0)] {
        let row = row(&report, stage);
        assert_known(&row["energy_j"], joules);
        assert_known(&row["mean_power_w"], watts);
        assert_eq!(row["uncertainty_j"], 0.0, "every window ends at a read");
        assert_eq!(row["joules_per_token"]["absent"]["reason"], "no_model");
    }
    assert_eq!(row(&report, "short")["energy_j"]["absent"]["reason"], "too_short_for_energy");
    assert_eq!(row(&report, "short")["uncertainty_j"], Value::Null);
    let decode = &row(&report, "decode")["clocks"];
    assert_eq!(decode["sm_clock_mhz"]["min"], 1_395);
    assert_eq!(decode["temperature_max_c"], 71);
    assert_eq!(decode["limits"][0]["reason"], "power limit");
    assert!(page.contains("`decode` | 0 NVIDIA H200 | 1,600.0 | 0.0 | 400 |"), "{page}");
    let findings = report["findings"].as_array().expect("findings");
    let slower = findings.iter().find(|finding| {
        let what = finding["what"].as_str().unwrap_or_default();
        what.contains("decode at 1") && what.contains("prefill at 1")
    });
    let why = slower.expect("a finding on clocks")["why"].as_str().expect("text");
    assert!(why.contains("power limit in 16 of 17 readings"), "{why}");
}

#[test]
fn reads_that_are_too_far_apart_give_a_reason_instead_of_a_number() {
    let (report, page) = reports(&[process(100, 1, 3_000)]);
    let absent = &row(&report, "prefill")["energy_j"]["absent"];
    assert_eq!(
        (&absent["reason"], &absent["spacing_ms"]),
        (&"energy_uncertain".into(), &3_000.into())
    );
    assert!(page.contains("because the GPU's energy was read only every 3000 ms"), "{page}");
}

#[test]
fn gpus_are_summed_and_a_shared_one_is_nobodys() {
    let (report, page) = reports(&[process(100, 1, 250), process(200, 2, 250)]);
    let decode = row(&report, "decode");
    assert_known(&decode["energy_j"], 3_200.0);
    assert_known(&decode["mean_power_w"], 800.0);
    assert_eq!(decode["devices"].as_array().map(Vec::len), Some(2));
    assert_eq!(decode["joules_per_token"]["absent"]["reason"], "several_gpus");
    assert!(page.contains("not known which tokens each worked on"), "{page}");
    let (report, _) = reports(&[process(100, 1, 250), process(200, 1, 250)]);
    assert_eq!(row(&report, "decode")["energy_j"]["absent"]["reason"], "shared_gpu");
}

#[test]
fn hostile_readings_give_reasons_and_no_panic() {
    let mut b = process(100, 1, 250);
    for at in [0, 1, u64::MAX, 5 * S, 5 * S, 7 * S] {
        b.add(Record::DeviceState(DeviceState {
            device: 0,
            at: MonoNs(at),
            energy_mj: Some(u64::MAX - at),
            power_mw: Some(u32::MAX),
            sm_clock_mhz: Some(u32::MAX),
            clock_reasons: Some(u64::MAX),
            ..DeviceState::default()
        }));
    }
    let (report, page) = reports(&[b]);
    assert_eq!(row(&report, "decode")["energy_j"]["absent"]["reason"], "no_energy");
    assert!(page.contains("went backwards"), "{page}");
}
