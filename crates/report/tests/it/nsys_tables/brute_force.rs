//! Random exports, read by the loader and by a plain query without any cleverness.

use std::collections::BTreeMap;

use super::fixture::{SCHEMA, call, export, kernel, load, range};
use rusqlite::Connection;
use stage2_read::nsys::{Tables, sqlite};

/// For every kernel the first call of its process with its id, and the outermost range that was open
/// on that thread then.
const REFERENCE: &str = "
    WITH launch AS (
        SELECT k.rowid AS kernel, k.end - k.start AS ns,
            (SELECT r.rowid FROM CUPTI_ACTIVITY_KIND_RUNTIME r
             WHERE r.correlationId = k.correlationId
               AND r.globalTid & ~0xffffff = k.globalPid ORDER BY r.start LIMIT 1) AS call
        FROM CUPTI_ACTIVITY_KIND_KERNEL k)
    SELECT (SELECT s.value FROM NVTX_EVENTS n JOIN StringIds s ON s.id = n.textId
            WHERE n.globalTid = r.globalTid AND n.start <= r.start AND n.end >= r.start
            ORDER BY n.start, n.end DESC, n.rowid LIMIT 1) AS name,
        r.rowid IS NULL AS lost, count(*), sum(ns)
    FROM launch l LEFT JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.rowid = l.call GROUP BY 1, 2";

/// A generator of numbers, always the same.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: i64) -> i64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as i64) % limit
    }
}

fn thread(numbers: &mut Numbers) -> i64 {
    ((1 + numbers.below(2)) << 24) + 1 + numbers.below(2)
}

fn random_rows(seed: u64) -> String {
    let mut n = Numbers(seed);
    let mut sql = String::new();
    for i in 0..60 {
        let start = n.below(1000);
        let length = if n.below(3) == 0 { n.below(400) } else { n.below(40) };
        // Names differ by their times, so that equal times have equal names.
        let name = 10 + (start * 31 + length) % 3;
        sql += &range(thread(&mut n), name, start, start + length);
        let on = thread(&mut n);
        sql += &kernel(on & !0xff_ffff, i % 50, i, i + n.below(100));
        if n.below(8) > 0 {
            sql += &call(on, i % 50, n.below(1000));
        }
    }
    sql
}

fn by_range(tables: &Tables) -> BTreeMap<String, (u64, u64)> {
    let ranges = tables.ranges.iter().filter(|r| r.calls > 0);
    ranges.map(|r| (r.name.clone(), (r.calls, r.total_ns))).collect()
}

#[test]
fn random_exports_are_joined_as_a_plain_query_joins_them() {
    let dir = tempfile::tempdir().expect("folder");
    let mut placed = 0;
    for seed in 0..60 {
        let path = export(dir.path(), SCHEMA, &random_rows(seed));
        let tables = sqlite::load(&path, &Default::default()).expect("export");
        let (mut expected, mut outside, mut lost) = (BTreeMap::new(), 0, 0);
        let db = Connection::open(&path).expect("export");
        let mut statement = db.prepare(REFERENCE).expect("query");
        let rows = statement.query_map([], |row| {
            let name: Option<String> = row.get(0)?;
            Ok((name, row.get::<_, bool>(1)?, row.get::<_, u64>(2)?, row.get::<_, u64>(3)?))
        });
        for row in rows.expect("rows") {
            match row.expect("row") {
                (Some(name), _, calls, ns) => drop(expected.insert(name, (calls, ns))),
                (None, false, calls, _) => outside += calls,
                (None, true, calls, _) => lost += calls,
            }
        }
        assert_eq!(by_range(&tables), expected, "seed {seed}");
        assert_eq!(tables.counts.outside_ranges, outside, "seed {seed}");
        assert_eq!(tables.counts.without_launch, lost, "seed {seed}");
        placed += tables.counts.in_ranges;
        std::fs::remove_file(&path).expect("export");
    }
    assert!(placed > 500, "else the test shows little");
}

const MAIN: i64 = (1 << 24) + 1;

#[test]
fn domains_registered_and_inline_names_and_start_end_ranges() {
    let nvtx = |rest: &str| format!("INSERT INTO NVTX_EVENTS VALUES ({rest});");
    let process = MAIN & !0xff_ffff;
    let sql = [
        // start, end, eventType, text, globalTid, endGlobalTid, textId, domainId
        nvtx(&format!("50, 60, 59, 'decode', {MAIN}, NULL, NULL, 3")),
        nvtx(&format!("40, NULL, 75, 'vllm', {MAIN}, NULL, NULL, 3")),
        nvtx(&format!("0, 20, 59, NULL, {MAIN}, NULL, 10, 0")),
        nvtx(&format!("100, 200, 60, 'request', {MAIN}, {}, NULL, 0", MAIN + 1)),
        nvtx(&format!("300, NULL, 59, 'still open', {MAIN}, NULL, NULL, 0")),
        nvtx(&format!("5, NULL, 34, 'a mark', {MAIN}, NULL, NULL, 0")),
        kernel(process, 1, 0, 10) + &call(MAIN, 1, 10),
        kernel(process, 2, 0, 20) + &call(MAIN, 2, 55),
        kernel(process, 3, 0, 40) + &call(MAIN, 3, 150),
        kernel(process, 4, 0, 80) + &call(MAIN, 4, 900),
        kernel(process, 5, 0, 160) + &call(MAIN, 5, 30),
    ];
    let tables = load(&sql.concat());
    let found: Vec<_> = tables
        .ranges
        .iter()
        .map(|r| (r.name.as_str(), r.domain.as_deref(), r.total_ns, r.unclosed))
        .collect();
    let expected = [
        ("still open", None, 80, 1),
        ("request", None, 40, 0),
        ("decode", Some("vllm"), 20, 0),
        ("prefill", None, 10, 0),
    ];
    assert_eq!(found, expected);
    assert_eq!((tables.counts.cross_thread_ranges, tables.counts.outside_ranges), (1, 1));
    assert_eq!(tables.counts.nvtx_ranges, 4, "marks and domains are no ranges");
    assert!(tables.totals_in("decode", Some("other")).is_none());
    assert_eq!(tables.totals_in("decode", Some("vllm")).map(|t| t[0].total_ns), Some(20));
}

#[test]
fn medians_leave_out_the_first_instance_of_each_process() {
    let other = (2 << 24) + 1;
    let rows = [
        // Out of order: the first in time is the cold one.
        range(MAIN, 11, 1_000, 1_010),
        range(MAIN, 11, 0, 900),
        range(MAIN, 11, 2_000, 2_030),
        range(other, 11, 50, 850),
        range(other, 11, 1_000, 1_020),
        range(MAIN, 10, 3_000, 3_500),
    ];
    let tables = load(&rows.concat());
    let found = |name: &str| {
        let range = tables.ranges.iter().find(|range| range.name == name).expect(name);
        let (warm, std_ns) = (range.host_warm_instances, range.host_warm_std_ns);
        (range.instances, range.host_total_ns, warm, std_ns, range.host_warm_median_ns)
    };
    assert_eq!(found("decode"), (Some(5), Some(1_760), Some(3), Some(10), Some(20)));
    assert_eq!(found("prefill"), (Some(1), Some(500), Some(0), None, None), "only a cold one");
}

#[test]
fn all_kernels_of_one_graph_launch_belong_to_its_range() {
    let process = MAIN & !0xff_ffff;
    let nodes: String = (0..100).map(|i| kernel(process, 7, i, i + 2)).collect();
    let graphs = "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER);
                  INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (5, 9);";
    let tables = load(&(nodes + &call(MAIN, 7, 15) + &range(MAIN, 11, 10, 20) + graphs));
    assert_eq!(
        tables.totals_in("decode", None).map(|t| (t[0].calls, t[0].total_ns)),
        Some((100, 200))
    );
    assert_eq!((tables.counts.graph_launches, tables.counts.graph_total_ns), (1, 4));
    assert!(tables.findings.iter().any(|f| f.remedy.contains("cuda_graph_trace=node")));
}
