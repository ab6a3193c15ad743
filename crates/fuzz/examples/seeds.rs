//! Writes the first inputs of the corpus, small parts of the fixtures and of the sample bundles:
//! `cargo run -p stage2-fuzz --example seeds`.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use serde_json::Value;
use stage2_fuzz::corpus_folder;
use stage2_fuzz::mutate::{BUNDLE_FILES, pack_bundle};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> Vec<u8> {
    fs::read(root().join(path)).unwrap_or_else(|why| panic!("{path}: {why}"))
}

fn unpacked(path: &str) -> Vec<u8> {
    let mut packed = BufReader::new(File::open(root().join(path)).expect("a fixture"));
    let mut bytes = Vec::new();
    lzma_rs::xz_decompress(&mut packed, &mut bytes).expect("xz");
    bytes
}

fn save(target: &str, name: &str, bytes: &[u8]) {
    let folder = corpus_folder().join(target);
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join(name), bytes).expect("room");
    println!("{target}/{name}: {} bytes", bytes.len());
}

/// The first lines of a text.
fn lines(bytes: &[u8], count: usize) -> Vec<u8> {
    bytes.split_inclusive(|byte| *byte == b'\n').take(count).collect::<Vec<_>>().concat()
}

/// The first `columns` cells of each line: hundreds of metrics are alike.
fn narrow(bytes: &[u8], columns: usize) -> Vec<u8> {
    let mut reader = Vec::new();
    for line in String::from_utf8_lossy(bytes).lines() {
        let mut quoted = false;
        let cells: Vec<&str> = line
            .split(|c| {
                quoted ^= c == '"';
                c == ',' && !quoted
            })
            .take(columns)
            .collect();
        reader.extend(cells.join(",").into_bytes());
        reader.push(b'\n');
    }
    reader
}

/// An export with a few rows of each table that is read, in small pages.
fn export(name: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run.sqlite");
    fs::write(&path, unpacked(&format!("tests/fixtures/nsys/{name}.sqlite.xz"))).expect("room");
    let database = Connection::open(&path).expect("an export");
    const READ: [&str; 11] = [
        "CUPTI_ACTIVITY_KIND_KERNEL",
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        "CUPTI_ACTIVITY_KIND_MEMSET",
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
        "NVTX_EVENTS",
        "StringIds",
        "TARGET_INFO_GPU",
        "META_DATA_EXPORT",
        "META_DATA_CAPTURE",
        "DIAGNOSTIC_EVENT",
    ];
    let tables: Vec<String> = database
        .prepare("SELECT name FROM sqlite_master WHERE type = 'table'")
        .and_then(|mut found| found.query_map([], |row| row.get(0))?.collect())
        .expect("tables");
    for table in &tables {
        if !READ.contains(&table.as_str()) {
            let _ = database.execute_batch(&format!("DROP TABLE \"{table}\""));
        }
    }
    database
        .execute_batch(
            "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE rowid > 12;
             DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE correlationId NOT IN
                 (SELECT correlationId FROM CUPTI_ACTIVITY_KIND_KERNEL);
             DELETE FROM NVTX_EVENTS WHERE rowid > 16 AND eventType <> 75;
             DELETE FROM StringIds WHERE id NOT IN (SELECT mangledName FROM CUPTI_ACTIVITY_KIND_KERNEL)
                 AND id NOT IN (SELECT demangledName FROM CUPTI_ACTIVITY_KIND_KERNEL)
                 AND id NOT IN (SELECT coalesce(textId, -1) FROM NVTX_EVENTS);",
        )
        .expect("rows");
    for table in ["DIAGNOSTIC_EVENT", "META_DATA_CAPTURE", "META_DATA_EXPORT"] {
        let _ = database.execute_batch(&format!("DELETE FROM {table} WHERE rowid > 12"));
    }
    database.execute_batch("PRAGMA page_size = 512; VACUUM;").expect("small pages");
    drop(database);
    fs::read(path).expect("the export")
}

/// A report without most of the rows of its lists.
fn report(path: &str, rows: usize) -> Vec<u8> {
    fn cut(value: &mut Value, rows: usize) {
        match value {
            Value::Array(items) => {
                items.truncate(rows);
                items.iter_mut().for_each(|item| cut(item, rows));
            }
            Value::Object(fields) => fields.values_mut().for_each(|field| cut(field, rows)),
            _ => {}
        }
    }
    let mut value: Value = serde_json::from_slice(&read(path)).expect("a report");
    cut(&mut value, rows);
    serde_json::to_vec(&value).expect("JSON")
}

const HYDRA: [(&str, &str); 4] = [
    (
        "words",
        "run.mode=light\n+a.b=1\n++a.c={x: 1, y: [a, 'b c', \"d\\\"\"]}\n~a.b\n~a.c=x\n\
         profiling/collector@profiling.second=default\na=${b.c}\nx=null\ny=-1.5e3\nz=0x10\n\
         w=a\\ b\nlist=[1,[2,[3]],{a:b}]\nq='it''s'\n",
    ),
    (
        "yaml",
        "defaults:\n  - profiling: {a: 1}\n  - _self_\nrun: &r\n  mode: deep\n  n: 0x1F\n  f: 1e3\n\
         \x20 t: |\n    two\n    lines\nother: *r\nlist: [1, 2.5, ~, true, 'x']\nempty:\n",
    ),
    ("merge", "a: &a {b: 1, c: [1, 2]}\nd:\n  <<: *a\n  b: 2\n"),
    ("deep", "a: [[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]\na.b.c.d.e.f.g.h=1\n"),
];

fn main() {
    let golden = read("crates/contract/tests/golden/v1.s2t");
    let torch = read("tests/fixtures/torch_ops/vm-14234.s2t");
    save("trace", "golden", &golden);
    save("trace", "torch-ops", &torch);
    save("nsys_sqlite", "decode", &export("decode"));
    save("nsys_sqlite", "nccl", &export("nccl"));
    for name in [
        "decode_2022_gpukernsum_mangled",
        "decode_cuda_gpu_kern_sum",
        "decode_nvtx_kern_sum",
        "decode_nvtx_sum",
        "decode_us_cuda_gpu_kern_sum",
    ] {
        save("nsys_csv", name, &lines(&read(&format!("tests/fixtures/nsys/{name}.csv")), 5));
    }
    for name in ["nested.raw", "ranges.raw", "ranges.details", "shapes.raw", "matmul.raw-scaled"] {
        let page = unpacked(&format!("tests/fixtures/ncu/{name}.csv.xz"));
        save("ncu_csv", name, &narrow(&lines(&page, 9), 40));
    }
    for (name, text) in HYDRA {
        save("hydra", name, text.as_bytes());
    }
    // Instructions of a target that reads no file: any bytes are some.
    let mut random = fastrand::Rng::with_seed(1);
    for length in [60, 120, 200, 300, 500] {
        let bytes: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(length).collect();
        save("nvtx", &format!("random-{length}"), &bytes);
    }
    save("metrics_json", "regions", &report("docs/sample/regions/metrics.json", 2));
    save("metrics_json", "llama", &report("docs/sample/llama_1b/metrics.json", 1));
    save("metrics_json", "ranks", &report("docs/sample/two_ranks/metrics.json", 2));

    let of = |name: &str| BUNDLE_FILES.iter().position(|(file, _)| *file == name).expect("known");
    let sample = |file: &str| read(&format!("docs/sample/{file}"));
    let nsys = lines(&read("tests/fixtures/nsys/decode_m_cuda_gpu_kern_sum_mangled.csv"), 4);
    let raw = narrow(&lines(&unpacked("tests/fixtures/ncu/nested.raw.csv.xz"), 9), 40);
    let run = report("docs/sample/two_ranks/run.json", 3);
    let small = [
        (of("run.json"), run.clone()),
        (of("env.json"), sample("two_ranks/env.json")),
        (of("config.yaml"), lines(&sample("two_ranks/config.yaml"), 60)),
        (of("collector/host-1.s2t"), golden.clone()),
        (of("collector/host-2.s2t"), golden.clone()),
    ];
    save("bundle", "ranks", &pack_bundle(&small));
    let tools = [
        (of("run.json"), report("docs/sample/llama_1b/run.json", 3)),
        (of("collector/host-1.s2t"), golden.clone()),
        (of("counters/host-3.s2t"), golden),
        (of("nsys/run_cuda_gpu_kern_sum_mangled.csv"), nsys.clone()),
        (of("ncu/raw.csv"), raw.clone()),
    ];
    save("bundle", "tools", &pack_bundle(&tools));
    save(
        "bundle",
        "torch-ops",
        &pack_bundle(&[(of("run.json"), run), (of("collector/host-1.s2t"), torch)]),
    );
    let elsewhere =
        [(of("nsys/run_cuda_gpu_kern_sum_mangled.csv"), nsys), (of("ncu/raw.csv"), raw)];
    save("bundle", "without-collector", &pack_bundle(&elsewhere));
}
