//! The recorded captures: what nsys's own tables say, and what the same network's kernels, recorded
//! by CUPTI itself, say.

use std::collections::BTreeMap;
use std::path::Path;

use super::fixture::{load_recorded, recorded};
use stage2_model::nsys::Source;
use stage2_model::{Belief, Reconciliation};
use stage2_read::nsys::{Kernel, Naming, Tables, Total, csv};
use stage2_report::join::timeline::{Comparison, reconcile};

type Sums = BTreeMap<String, (u64, u64)>;

fn sums(totals: &[Total<'_>]) -> Sums {
    totals.iter().map(|t| (t.mangled.to_owned(), (t.calls, t.total_ns))).collect()
}

/// Calls and time of the kernels that were recorded for the simulated GPU, so many times each.
fn kernels_of(sequences: &[(&str, u64)]) -> Sums {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sim/data");
    let rows = |file: &str| -> Vec<Vec<String>> {
        let text = std::fs::read_to_string(data.join(file)).expect(file);
        text.lines().skip(1).map(|line| line.split('\t').map(str::to_owned).collect()).collect()
    };
    let names: BTreeMap<String, String> =
        rows("names.tsv").into_iter().map(|row| (row[0].clone(), row[1].clone())).collect();
    let mut sums = Sums::new();
    for (file, times) in sequences {
        for row in rows(file).iter().filter(|row| row[0] == "kernel") {
            let (calls, ns) = sums.entry(names[&row[1]].clone()).or_default();
            *calls += times;
            *ns += times * row[11].parse::<u64>().expect("duration");
        }
    }
    sums
}

fn compare(scope: &str, collector: &Sums, nsys: &[Total<'_>]) -> Reconciliation {
    let collector: Vec<Total<'_>> = collector
        .iter()
        .map(|(mangled, &(calls, total_ns))| Total { mangled, calls, total_ns })
        .collect();
    let comparison =
        Comparison { scope, collector: &collector, nsys, instances: None, graph_launches: 0 };
    reconcile(&comparison)
}

#[test]
fn the_whole_capture_is_read_as_nsys_reads_it() {
    let tables = load_recorded("decode");
    assert_eq!((tables.complete, tables.findings.as_slice()), (true, &[][..]));
    assert_eq!(tables.tool_version.as_deref(), Some("2023.4.4.54"));
    assert_eq!(tables.devices.get(&0).map(String::as_str), Some("NVIDIA H200"));
    let counts = tables.counts;
    assert_eq!((counts.kernels, counts.kernel_total_ns), (5552, 14_504_845));
    assert_eq!((counts.in_ranges, counts.outside_ranges, counts.without_launch), (5552, 0, 0));
    let mangled =
        csv::load(&[recorded("decode_m_cuda_gpu_kern_sum_mangled.csv")], &Default::default());
    assert_eq!(sums(&tables.totals()), sums(&mangled.totals()));
    let decode = tables.totals_in("decode", None).expect("the range");
    assert_eq!(sums(&decode), sums(&tables.totals()), "all of it was launched in decode");
    assert_eq!(tables.instances("decode", None), Some(1));
    assert_eq!(tables.ranges[0].host_total_ns, Some(517_030_787), "as nvtx_sum has it");
    assert!(tables.totals_in("prefill", None).is_none());
}

#[test]
fn launch_configurations_are_those_that_nsys_shows() {
    let tables = load_recorded("decode");
    let old = csv::load(&[recorded("decode_2022_gpukernsum_mangled.csv")], &Default::default());
    let rows = |tables: &Tables| -> Vec<Kernel> {
        let plain = |k: &Kernel| Kernel { device: None, ..k.clone() };
        let mut rows: Vec<Kernel> = tables.kernels.iter().map(plain).collect();
        rows.sort_by_key(|k| (k.name.clone(), k.grid, k.block));
        rows
    };
    assert!(old.kernels.len() > 30 && old.kernels.iter().all(|k| k.grid.is_some()));
    assert_eq!(rows(&tables), rows(&old), "calls, times, extremes, names, grids and blocks");
}

#[test]
fn units_of_the_csv_do_not_matter() {
    let in_ns = csv::load(&[recorded("decode_cuda_gpu_kern_sum.csv")], &Default::default());
    let in_us = csv::load(&[recorded("decode_us_cuda_gpu_kern_sum.csv")], &Default::default());
    let names = |t: &Tables| -> BTreeMap<String, (Naming, u64, u64)> {
        t.kernels.iter().map(|k| (k.name.to_string(), (k.naming, k.calls, k.total_ns))).collect()
    };
    assert_eq!(names(&in_ns), names(&in_us));
    assert_eq!(in_us.counts.kernel_total_ns, 14_504_845);
}

#[test]
fn the_csv_tables_alone_give_the_same_ranges() {
    for name in ["decode", "lossy"] {
        let files = ["cuda_gpu_kern_sum", "nvtx_kern_sum", "nvtx_sum"]
            .map(|table| recorded(&format!("{name}_{table}.csv")));
        let (from_csv, from_sqlite) = (csv::load(&files, &Default::default()), load_recorded(name));
        assert_eq!((from_csv.source, from_csv.complete), (Source::Csv, true));
        assert_eq!(from_csv.counts.kernels, from_sqlite.counts.kernels);
        assert_eq!(from_csv.counts.outside_ranges, from_sqlite.counts.outside_ranges);
        let ranges = |t: &Tables| -> Vec<_> {
            let row = |r: &stage2_read::nsys::Range| {
                (r.name.clone(), r.instances, r.calls, r.total_ns, r.host_total_ns)
            };
            t.ranges.iter().map(row).collect()
        };
        assert_eq!(ranges(&from_csv), ranges(&from_sqlite), "{name}");
    }
}

#[test]
fn kernels_are_placed_as_nsys_places_them_in_a_capture_with_losses() {
    let tables = load_recorded("lossy");
    let found: Vec<_> =
        tables.ranges.iter().map(|r| (r.name.as_str(), r.calls, r.total_ns)).collect();
    assert_eq!(found, [("decode", 438, 1_140_971), ("prefill", 4, 6_912)]);
    assert_eq!((tables.counts.outside_ranges, tables.counts.kernels), (686, 1128));
    assert!(tables.complete, "nothing in the tables says that they are not whole");
}

#[test]
fn the_whole_capture_agrees_with_kernels_that_cupti_recorded() {
    let tables = load_recorded("decode");
    let result = compare("the stage decode", &kernels_of(&[("decode.tsv", 8)]), &tables.totals());
    assert_eq!(result.overall.collector_calls, 5552);
    assert!(result.belief.usable(), "{}", result.text);
    assert!(result.text.contains("5,552 of 5,552 kernels (0.0%)"), "{}", result.text);
}

#[test]
fn the_capture_with_losses_is_not_believed() {
    let tables = load_recorded("lossy");
    let all = kernels_of(&[("decode.tsv", 16), ("prefill.tsv", 2)]);
    let result = compare("the whole run", &all, &tables.totals());
    assert_eq!(result.belief, Belief::Lossy);
    assert!(result.text.contains("1,128 of 12,428 kernels (-90.9%)"), "{}", result.text);
    assert!(result.finding().is_some_and(|f| f.what == result.text));
    let worst = &result.kernels[0].sides;
    assert!(
        worst.collector_calls > worst.nsys_calls && worst.calls_difference() < -500,
        "{worst:?}"
    );
    let prefill = tables.totals_in("prefill", None).expect("range");
    let stage = compare("the stage prefill", &kernels_of(&[("prefill.tsv", 1)]), &prefill);
    assert_eq!((stage.belief, stage.overall.collector_calls), (Belief::Lossy, 662));
}
