//! The views agree with the model: sums over kernels.csv equal those over metrics.json.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;
use stage2_launch::reports::write_reports;

use crate::report::fixture;

/// Sums of calls and nanoseconds by stage.
type Sums = BTreeMap<String, (u64, u64)>;

fn csv_sums(text: &str) -> Sums {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().expect("head").clone();
    let column = |name: &str| header.iter().position(|h| h == name).expect("column");
    let (stage, ns, calls) = (column("stage"), column("total_ns"), column("calls"));
    let mut sums = Sums::new();
    for record in reader.records() {
        let record = record.expect("row with as many fields as the head");
        let sum = sums.entry(record[stage].trim_start_matches('\'').to_owned()).or_default();
        sum.0 += record[calls].parse::<u64>().expect("calls");
        sum.1 += record[ns].parse::<u64>().expect("ns");
    }
    sums
}

fn json_sums(json: &Value) -> Sums {
    let mut sums = Sums::new();
    for stage in json["stages"].as_array().expect("stages") {
        // Null where the GPU was not recorded; the fixture has such a stage.
        let number = |key: &str| stage[key].as_u64().unwrap_or(0);
        if number("kernels") > 0 {
            let name = stage["stage"].as_str().expect("name").to_owned();
            sums.insert(name, (number("kernels"), number("kernel_sum_ns")));
        }
    }
    sums
}

#[test]
fn sums_of_the_csv_equal_those_of_the_json() {
    let folder = tempfile::tempdir().expect("folder");
    fixture::write(folder.path());
    write_reports(folder.path()).expect("reports");
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect("file");
    let json: Value = serde_json::from_str(&read("metrics.json")).expect("JSON");
    let from_csv = csv_sums(&read("kernels.csv"));
    assert_eq!(from_csv, json_sums(&json));
    let kernels: u64 = from_csv.values().map(|&(calls, _)| calls).sum();
    assert_eq!(Some(kernels), json["coverage"]["total"]["kernels"].as_u64());
    // Sums by path: exclusive adds up to everything, inclusive only at the top.
    let paths = json["paths"].as_array().expect("paths");
    let sum = |key: &str, top: bool| -> u64 {
        let chosen = paths.iter().filter(|p| !top || p["parent"].is_null());
        chosen.filter_map(|p| p[key].as_u64()).sum()
    };
    let all_ns: u64 = from_csv.values().map(|&(_, ns)| ns).sum();
    assert_eq!(sum("kernels_exclusive", false), kernels);
    assert_eq!(sum("kernels_inclusive", true), kernels);
    assert_eq!(sum("kernel_sum_exclusive_ns", false), all_ns);
    assert_eq!(sum("kernel_sum_inclusive_ns", true), all_ns);
}
