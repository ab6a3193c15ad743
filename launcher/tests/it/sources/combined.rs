//! Several sources together: durations stay the collector's, counters find their kernels, and
//! nothing of one capture is taken for a part of another.

use std::fs;
use std::path::Path;

use serde_json::Value;
use stage2_contract::trace::{NONE, Record, Shape};

use super::{Bundle, Place, sql};
use crate::common::trace::Build;
use crate::common::{change_export, golden};

/// A product in the fixture of ncu, and a kernel of the nsys fixture with the same grid and block.
const PROFILED: &str = "nvjet_sm90_tst_128x64_64x8_1x2_h_bz_NNT";
const LONGEST: &str = "nvjet_sm90_tst_64x8_64x16_2x1_v_bz_TNT";

/// Writes `spools/h-1.s2t`: every launch of the nsys capture in `decode`, the mean duration each and
/// the rest in the first.
pub(super) fn write_trace(place: &Place, nsys: &Path) {
    write_trace_of(place, nsys, "decode", None);
}

/// A trace file with every kernel of the nsys export `nsys`, in one range with this name and domain.
fn write_trace_of(place: &Place, nsys: &Path, name: &str, domain: Option<&str>) {
    let mut b = Build::process(1, "python3");
    b.anchor(1).device(3, "NVIDIA H200", 1).name(1, name.as_bytes());
    let domain = b.domain(2, domain);
    b.path_in(1, NONE, 1, domain);
    let connection = rusqlite::Connection::open(nsys).expect("database");
    let query = "SELECT s.value, gridX, gridY, gridZ, blockX, blockY, blockZ, count(*),
        sum(k.end - k.start) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s
        ON s.id = k.mangledName GROUP BY 1, 2, 3, 4, 5, 6, 7";
    let mut statement = connection.prepare(query).expect("query");
    let mut rows = statement.query([]).expect("rows");
    let (mut at, mut id) = (1_000, 10);
    b.open(1, 1, 0, at);
    while let Some(row) = rows.next().expect("row") {
        let number = |i: usize| row.get::<_, u32>(i).expect("number");
        b.name(id, row.get::<_, String>(0).expect("name").as_bytes());
        b.add(Record::Shape(Shape {
            id,
            name: id,
            grid: [number(1), number(2), number(3)],
            block: [number(4), number(5), number(6)],
            ..Shape::default()
        }));
        let (calls, total) = (u64::from(number(7)), row.get::<_, i64>(8).expect("ns") as u64);
        for call in 0..calls {
            let ns = total / calls + if call == 0 { total % calls } else { 0 };
            b.kernel(1, id, 4, (at, at + ns));
            at += ns + 500;
        }
        id += 1;
    }
    b.close(1, at).end();
    b.save(&place.path(""), "h-1.s2t");
    let _ = fs::remove_dir_all(place.path("spools"));
    fs::rename(place.path("collector"), place.path("spools")).expect("spools");
}

/// A tenth longer than the mean of the longest kernel, 10,801 ns.
const PROFILED_NS: &str = "11,880";

/// The pages of ncu's report, with the profiled product under the name of the longest kernel, and as
/// long as that takes with cold caches.
fn pages(place: &Place, folder: &str, sm_percent: Option<&str>) {
    for page in ["raw", "details"] {
        let path = place.put(&format!("ncu/matmul.{page}.csv.xz"), &format!("{folder}/{page}.csv"));
        let mut text = fs::read_to_string(&path).expect("page").replace(PROFILED, LONGEST);
        if page == "raw" {
            text = with_metric(&text, "gpu__time_duration.sum", PROFILED_NS);
            if let Some(percent) = sm_percent {
                let throughput = "sm__throughput.avg.pct_of_peak_sustained_elapsed";
                text = with_metric(&text, throughput, percent);
            }
        }
        fs::write(&path, text).expect("page");
    }
}

fn with_metric(text: &str, wanted: &str, value: &str) -> String {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
    let rows: Vec<csv::StringRecord> = reader.records().map(|row| row.expect("row")).collect();
    let column = rows[0].iter().position(|name| name == wanted).expect("metric");
    let mut writer = csv::Writer::from_writer(Vec::new());
    for (at, row) in rows.iter().enumerate() {
        let cell = |(i, cell): (usize, &str)| {
            if at > 1 && i == column { value.to_owned() } else { cell.to_owned() }
        };
        writer.write_record(row.iter().enumerate().map(cell)).expect("row");
    }
    String::from_utf8(writer.into_inner().expect("text")).expect("UTF-8")
}

fn longest(bundle: &Bundle) -> Value {
    let metrics = bundle.json("metrics.json");
    let names = metrics["kernel_names"].as_array().expect("names");
    let name = names.iter().position(|name| name["mangled"] == LONGEST).expect("kernel");
    let rows = metrics["kernels"].as_array().expect("rows").iter();
    let mut found = rows.filter(|row| row["name_index"] == name);
    let row = found.next().expect("row").clone();
    assert!(found.next().is_none(), "it has one configuration");
    row
}

const ALL: [&str; 8] =
    ["--spool", "spools", "--nsys", "a.sqlite", "--ncu", "n/raw.csv", "--ncu", "n/details.csv"];

#[test]
fn all_of_them_stand_beside_the_collectors_durations() {
    let place = Place::new();
    let nsys = place.put("nsys/decode.sqlite.xz", "a.sqlite");
    write_trace(&place, &nsys);
    pages(&place, "n", None);
    let bundle = place.merged(&ALL);
    assert_eq!(bundle.values("source"), ["collector"]);
    assert_eq!(bundle.sums(None), sql(&nsys, None));
    let metrics = bundle.json("metrics.json");
    let compared = &metrics["nsys"]["reconciliations"][0];
    assert_eq!(compared["belief"], "agrees");
    assert_eq!(compared["overall"]["nsys_calls"], 5_552);
    assert_eq!(metrics["nsys"]["captures"][0]["gives_rows"], false);
    let row = longest(&bundle);
    assert_eq!(row["device"], "3 NVIDIA H200", "of ncu it is device 0, the only one on both sides");
    assert_eq!(row["sources"], serde_json::json!({"times": "collector", "counters": "ncu"}));
    // Operations of one launch over the collector's mean, and not over the duration under ncu.
    let roofline = &row["counters"]["roofline"];
    let mean_s = row["mean_ns"].as_f64().expect("mean") / 1e9;
    let rate = roofline["flops"].as_f64().expect("flops") / mean_s;
    assert!((roofline["flops_per_s"].as_f64().expect("rate") / rate - 1.0).abs() < 1e-9);
    assert!(
        (roofline["duration_ratio"].as_f64().expect("ratio") - 11_880e-9 / mean_s).abs() < 1e-9
    );
    let passes = bundle.json("run.json")["passes"].clone();
    let names: Vec<_> = passes.as_array().expect("passes").iter().map(|p| &p["name"]).collect();
    assert_eq!(names, ["collect", "nsys", "ncu"]);
}

#[test]
fn a_stage_is_compared_with_its_range_whatever_its_name_and_domain() {
    for (name, domain) in [("decode_all", Some("LLM")), ("LLM@decode_all", None)] {
        let place = Place::new();
        let nsys = place.put("nsys/decode.sqlite.xz", "a.sqlite");
        let named = format!(
            "INSERT INTO NVTX_EVENTS (start, eventType, globalTid, domainId, text)
             SELECT 0, 75, globalTid, 7, 'LLM' FROM NVTX_EVENTS LIMIT 1;
             UPDATE NVTX_EVENTS SET text = '{name}', textId = NULL, domainId = {}
             WHERE eventType != 75;",
            domain.map_or(0, |_| 7)
        );
        change_export(&nsys, &named);
        write_trace_of(&place, &nsys, name, domain);
        let bundle = place.merged(&["--spool", "spools", "--nsys", "a.sqlite"]);
        let compared = bundle.json("metrics.json")["nsys"]["reconciliations"].clone();
        let label = domain.map_or(name.to_owned(), |domain| format!("{name}@{domain}"));
        assert_eq!(compared[0]["scope"], format!("the stage {label}"), "{compared:#}");
        assert_eq!(compared[0]["belief"], "agrees", "{compared:#}");
        assert_eq!(compared[0]["overall"]["nsys_calls"], 5_552);
    }
}

#[test]
fn a_capture_that_lost_records_stays_out() {
    let place = Place::new();
    let whole = place.put("nsys/decode.sqlite.xz", "whole.sqlite");
    write_trace(&place, &whole);
    let alone = place.merged(&["--spool", "spools"]);
    let rows = alone.rows();
    alone.remove();
    place.put("nsys/lossy.sqlite.xz", "b.sqlite");
    let words = ["--spool", "spools", "--nsys", "b.sqlite", "--nsys", "whole.sqlite"];
    let both = place.merged(&words);
    assert_eq!(both.rows(), rows);
    let compared = both.json("metrics.json")["nsys"]["reconciliations"].clone();
    let belief = |file: &str| -> Vec<String> {
        let of = compared.as_array().expect("list").iter();
        let of = of.filter(|one| one["scope"].as_str().is_some_and(|scope| scope.contains(file)));
        of.map(|one| one["belief"].as_str().expect("belief").to_owned()).collect()
    };
    assert_eq!(belief("whole.sqlite"), ["agrees", "agrees"]);
    assert!(belief("b.sqlite").contains(&"lossy".to_owned()), "{compared:#}");
    assert!(both.said.contains("lost records, and its numbers are not reliable"), "{}", both.said);
}

#[test]
fn counters_join_rows_of_nsys_too() {
    let place = Place::new();
    let nsys = place.put("nsys/decode.sqlite.xz", "a.sqlite");
    pages(&place, "n", None);
    let bundle = place.merged(&[&ALL[2..], &["report.top_n=4"]].concat());
    assert_eq!(bundle.sums(None), sql(&nsys, None));
    assert_eq!(longest(&bundle)["sources"]["times"], "nsys");
    assert_eq!(longest(&bundle)["sources"]["counters"], "ncu");
    for name in ["kernels.md", "kernels.csv"] {
        // The line below the title has the time of this run.
        let text = bundle.text(name);
        let text: String =
            text.split_inclusive('\n').filter(|line| !line.contains(" UTC")).collect();
        golden::compare(&format!("nsys_{name}"), &text);
    }
}

#[test]
fn rows_without_a_configuration_say_why_no_counters_join_them() {
    let place = Place::new();
    let name = "decode_m_cuda_gpu_kern_sum_mangled.csv";
    place.put(&format!("nsys/{name}"), name);
    pages(&place, "n", None);
    let bundle = place.merged(&[&["--nsys", name], &ALL[4..]].concat());
    assert_eq!(bundle.values("counters_source"), [""]);
    assert!(bundle.said.contains("have no grid and block"), "{}", bundle.said);
}

#[test]
fn launches_of_two_reports_with_the_same_numbers_do_not_mix() {
    let place = Place::new();
    pages(&place, "n", Some("10"));
    pages(&place, "m", Some("30"));
    let sm = |words: &[&str]| {
        let bundle = place.merged(words);
        let row = longest(&bundle);
        bundle.remove();
        (row["counters"]["sm_percent"].as_f64(), row["calls"].as_u64(), bundle.said)
    };
    let one = ["--ncu", "n/raw.csv", "--ncu", "n/details.csv"];
    assert_eq!(sm(&one).0, Some(10.0));
    // The details of the second report do not become those of the first, whose they are not.
    let both = [&one[..2], &["--ncu", "m/raw.csv", "--ncu", "m/details.csv"], &one[2..]].concat();
    let (percent, calls, _) = sm(&both);
    assert_eq!((percent, calls), (Some(20.0), Some(2)), "the mean of both launches");
    // Nor are those of another GPU averaged with them.
    let path = place.path("m/raw.csv");
    let other = fs::read_to_string(&path).expect("page").replace("NVIDIA H200", "NVIDIA L4");
    fs::write(&path, other).expect("page");
    let (percent, _, said) = sm(&["--ncu", "n/raw.csv", "--ncu", "m/raw.csv"]);
    assert_eq!(percent, Some(10.0));
    assert!(said.contains("a report from NVIDIA L4 are left out"), "{said}");
}

#[test]
fn what_the_collector_was_not_asked_for_is_not_held_against_it() {
    let place = Place::new();
    place.put("nsys/decode.sqlite.xz", "a.sqlite");
    let compared = |filter: Option<&str>| {
        let mut b = Build::process(1, "python3");
        b.anchor(1).device(0, "NVIDIA H200", 1).name(1, b"decode").name(2, b"prefill");
        b.path(1, NONE, 1).path(2, NONE, 2).name(3, b"k").shape(1, 3, 1);
        if let Some(filter) = filter {
            b.meta("ranges", filter);
        }
        b.open(1, 1, 0, 1_000).close(1, 9_000).open(2, 2, 0, 10_000);
        if filter.is_some() {
            b.add(Record::RangeSample { range: 2, recorded: true });
        }
        b.kernel(2, 1, 1, (11_000, 12_000)).close(2, 19_000).end();
        b.save(&place.path(""), "h-1.s2t");
        let bundle = place.merged(&["--spool", "collector", "--nsys", "a.sqlite"]);
        let found = bundle.json("metrics.json")["nsys"]["reconciliations"].clone();
        bundle.remove();
        let found = found.as_array().expect("list").iter();
        found.map(|one| one["scope"].as_str().expect("scope").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(compared(None), ["the stage decode"], "where all was recorded, decode had nothing");
    assert!(compared(Some("prefill")).is_empty());
}

#[test]
fn what_the_collector_saw_without_kernels_keeps_its_own_stages() {
    for copies in [false, true] {
        let place = Place::new();
        let nsys = place.put("nsys/decode.sqlite.xz", "a.sqlite");
        let mut b = Build::process(1, "python3");
        b.anchor(1).device(0, "NVIDIA H200", 1).name(1, b"decode").path(1, NONE, 1);
        b.open(1, 1, 0, 1_000);
        if copies {
            b.copy(1, 1, 4096, (2_000, 3_000));
        }
        b.close(1, 9_000).end();
        b.save(&place.path(""), "h-1.s2t");
        let bundle = place.merged(&["--spool", "collector", "--nsys", "a.sqlite"]);
        assert_eq!(bundle.sums(None), sql(&nsys, None));
        let metrics = bundle.json("metrics.json");
        let verdict = metrics["coverage"]["verdict"]["text"].as_str().expect("verdict");
        assert!(verdict.contains("; of the collector: "), "{verdict}");
        let stages = metrics["stages"].as_array().expect("stages").iter();
        let stages: Vec<_> = stages.map(|s| (&s["stage"], &s["gpu_busy_ns"])).collect();
        let (own, other) = ("decode".into(), "decode (nsys)".into());
        match copies {
            true => assert_eq!(stages, [(&own, &1_000.into()), (&other, &14_504_845.into())]),
            false => assert_eq!(stages, [(&own, &14_504_845.into())]),
        }
        let path = metrics["kernels"][0]["path_index"].as_u64().expect("index") as usize;
        assert_eq!(metrics["paths"][path]["path"], metrics["kernels"][0]["path"]);
        let devices = metrics["devices"].as_array().expect("devices");
        assert_eq!((devices.len(), &devices[0]["kernels"]), (1, &5_552.into()), "the same GPU");
    }
}

#[test]
fn demangled_names_find_their_kernels_and_it_is_said() {
    let place = Place::new();
    let nsys = place.put("nsys/decode.sqlite.xz", "decode.sqlite");
    write_trace(&place, &nsys);
    // The same capture as a table with nsys's own demangled names.
    let table = "decode_cuda_gpu_kern_sum.csv";
    place.put(&format!("nsys/{table}"), table);
    let bundle = place.merged(&["--spool", "spools", "--nsys", table]);
    let metrics = bundle.json("metrics.json");
    let compared = &metrics["nsys"]["reconciliations"][0];
    assert_eq!(compared["belief"], "agrees", "{}", compared["text"]);
    assert_eq!(compared["overall"]["nsys_calls"], 5_552);
    assert_eq!(compared["missing_in_nsys"], 0);
    assert_eq!(compared["missing_in_collector"], 0);
    assert!(bundle.text("report.md").contains("matched by normalised name"));
    // And the kernels that ncu profiled of this workload, as ncu demangles them.
    bundle.remove();
    place.put("ncu/decode.raw.csv.xz", "raw.csv");
    let bundle = place.merged(&["--spool", "spools", "--ncu", "raw.csv"]);
    let rows = bundle.rows();
    let counted = rows.iter().filter(|row| row["counters_source"] == "ncu");
    let counted = counted.filter(|row| row["mangled_name"].starts_with("_Z"));
    assert_eq!(counted.count(), 10, "{}", bundle.text("report.md"));
    assert!(bundle.text("report.md").contains("demangled names of ncu were matched"));
}
