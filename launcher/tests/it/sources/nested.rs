//! An export with ranges within ranges: whole paths, operators, percentiles, busy and idle time, as
//! plain SQL and plain sums have them.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::Connection;
use serde_json::Value;

use super::{Bundle, Place, sql};
use crate::common::{change_export, row};

/// Two layers in `decode`, and an operator around each launch: products, and the others.
fn mark_operators(export: &Path) {
    let sql = "
        CREATE TEMP TABLE launches AS
            SELECT min(r.start) AS start, max(r.end) AS end, r.globalTid AS thread,
                max(s.value LIKE 'nvjet%') AS product,
                row_number() OVER (ORDER BY min(r.start)) AS number, correlationId
            FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.mangledName
            JOIN CUPTI_ACTIVITY_KIND_RUNTIME r USING (correlationId) GROUP BY correlationId;
        INSERT INTO NVTX_EVENTS (start, end, eventType, globalTid, text, domainId)
            SELECT min(start) - 20, max(end) + 20, 59, thread, 'layer.' || (number > 3000), 0
            FROM launches GROUP BY number > 3000, thread;
        INSERT INTO NVTX_EVENTS (start, end, eventType, globalTid, text, domainId)
            SELECT start - 10, end + 10, 59, thread,
                iif(product, 'aten::mm', 'aten::add') || ', op_id = ' || number, 0
            FROM launches WHERE number % 10 > 0;";
    change_export(export, sql);
}

fn rows<T>(
    export: &Path,
    query: &str,
    row: impl Fn(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> Vec<T> {
    let db = Connection::open(export).expect("export");
    let mut statement = db.prepare(query).expect("query");
    statement.query_map([], row).expect("rows").map(|row| row.expect("row")).collect()
}

/// For each path of ranges, by comparing every kernel with every range, the durations of its kernels.
fn durations(export: &Path) -> BTreeMap<String, Vec<u64>> {
    let query = "SELECT start, end, globalTid,
            iif(text LIKE '%, op_id%', substr(text, 1, instr(text, ',') - 1), text)
        FROM NVTX_EVENTS WHERE end IS NOT NULL ORDER BY start";
    let ranges = rows(export, query, |row| {
        Ok((row.get::<_, i64>(0)?..=row.get(1)?, row.get::<_, i64>(2)?, row.get::<_, String>(3)?))
    });
    let query = "SELECT k.end - k.start, r.start, r.globalTid
        FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN (SELECT min(start) AS start, globalTid,
            correlationId FROM CUPTI_ACTIVITY_KIND_RUNTIME GROUP BY correlationId) r
        USING (correlationId) ORDER BY 1";
    let kernels = rows(export, query, |row| {
        Ok((row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
    });
    let mut found: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (ns, launched, thread) in kernels {
        let around =
            ranges.iter().filter(|(times, of, _)| *of == thread && times.contains(&launched));
        let path: Vec<&str> = around.map(|(.., name)| name.as_str()).collect();
        found.entry(path.join("/")).or_default().push(ns);
    }
    found
}

/// How long any kernel ran.
fn busy_ns(export: &Path) -> i64 {
    let query = "SELECT start, end FROM CUPTI_ACTIVITY_KIND_KERNEL ORDER BY start";
    let (mut busy, mut reached) = (0, 0);
    for (start, end) in
        rows(export, query, |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))
    {
        busy += (end - start.max(reached)).max(0);
        reached = reached.max(end);
    }
    busy
}

fn list<'a>(metrics: &'a Value, name: &str) -> &'a Vec<Value> {
    metrics[name].as_array().expect(name)
}

fn merged(place: &Place) -> Bundle {
    place.merged(&["--nsys", "a.sqlite"])
}

#[test]
fn whole_paths_operators_and_idle_time() {
    let place = Place::new();
    let export = place.put("nsys/decode.sqlite.xz", "a.sqlite");
    mark_operators(&export);
    let bundle = merged(&place);
    assert_eq!(bundle.sums(None), sql(&export, None));
    assert_eq!(bundle.sums(Some("decode")), sql(&export, Some("decode")));
    let metrics = bundle.json("metrics.json");
    let expected = durations(&export);
    assert_eq!(expected.len(), 6, "{:?}", expected.keys());
    for row in list(&metrics, "paths") {
        let path = row["path"].as_str().expect("path");
        let within = |of: &&String| *of == path || of.starts_with(&format!("{path}/"));
        let own = expected.get(path).map_or(0, Vec::len);
        let all: usize = expected.iter().filter(|(of, _)| within(of)).map(|(_, ns)| ns.len()).sum();
        assert_eq!(row["kernels_exclusive"], own, "{path}");
        assert_eq!(row["kernels_inclusive"], all, "{path}");
        let parent = row["parent"].as_u64().map(|at| &metrics["paths"][at as usize]["path"]);
        let around = path.rsplit_once('/').map(|(around, _)| Value::from(around));
        assert_eq!(parent, around.as_ref());
    }
    assert_eq!(list(&metrics, "paths").len(), 7, "and decode itself");

    // Over all shapes and names of a path: extremes are those of plain SQL.
    let mut extremes: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for row in list(&metrics, "kernels") {
        let ns = |name: &str| row[name].as_u64().expect(name);
        let p50 = ns("p50_ns");
        // Of few calls there is no 99th percentile.
        let p99 = row["p99_ns"].as_u64();
        assert_eq!(p99.is_some(), ns("calls") >= 20, "{row:#}");
        let p99 = p99.unwrap_or(ns("max_ns"));
        assert!(ns("min_ns") <= p50 && p50 <= p99 && p99 <= ns("max_ns"), "{row:#}");
        let seen = extremes.entry(row["path"].as_str().expect("path")).or_insert((u64::MAX, 0));
        *seen = (seen.0.min(ns("min_ns")), seen.1.max(ns("max_ns")));
    }
    let ends = |list: &Vec<u64>| (list[0], list[list.len() - 1]);
    let expected_ends: BTreeMap<&str, (u64, u64)> =
        expected.iter().map(|(path, ns)| (path.as_str(), ends(ns))).collect();
    assert_eq!(extremes, expected_ends);

    let stage = &metrics["stages"][0];
    assert_eq!(stage["gpu_busy_ns"], busy_ns(&export));
    let window = stage["gpu_window_ns"].as_i64().expect("window");
    assert_eq!(window, 517_030_787, "of the range, in which all work ended");
    assert_eq!(stage["gpu_idle_ns"], window - busy_ns(&export));
    let said = "decode, all of 1 call: ";
    assert!(bundle.said.contains(said), "{}", bundle.said);
    assert!(bundle.said.contains("GPU busy 14.50 ms"), "{}", bundle.said);
    assert!(bundle.text("stakeholder_summary.md").contains("decode: the GPU is idle 97.2 %"));

    let operators = bundle.text("operators.md");
    assert!(operators.contains("as nsys saw them"), "{operators}");
    for name in ["aten::mm", "aten::add"] {
        let of = expected.iter().filter(|(path, _)| path.ends_with(name));
        let (calls, ns) = of.fold((0, 0), |(calls, ns), (_, list)| {
            (calls + list.len(), ns + list.iter().sum::<u64>())
        });
        let row = row(&metrics["operators"]["rows"], "op_name", name);
        assert_eq!((&row["calls"], &row["kernels_inclusive"]), (&calls.into(), &calls.into()));
        assert_eq!(row["gpu_inclusive_ns"], ns);
        assert!(operators.contains(&format!("`{name}`")), "{operators}");
    }
}

#[test]
fn ranges_in_another_order_give_the_same_reports() {
    let place = Place::new();
    let export = place.put("nsys/decode.sqlite.xz", "a.sqlite");
    mark_operators(&export);
    let bundle = merged(&place);
    let before = (bundle.text("kernels.csv"), bundle.json("metrics.json")["paths"].clone());
    bundle.remove();
    let backwards = "CREATE TEMP TABLE other AS SELECT * FROM NVTX_EVENTS ORDER BY end, start DESC;
        DELETE FROM NVTX_EVENTS; INSERT INTO NVTX_EVENTS SELECT * FROM other;";
    change_export(&export, backwards);
    let bundle = merged(&place);
    assert!(before.0 == bundle.text("kernels.csv"));
    assert_eq!(before.1, bundle.json("metrics.json")["paths"]);
}
