//! Files as people have them -> the numbers in them, or what they are and what to give instead.

use std::fs;

use rusqlite::Connection;
use serde_json::Value;
use stage2_contract::trace::{NONE, RANGE_OUTSIDE};

use super::{Bundle, Place, fixture};
use crate::common::trace::Build;
use crate::common::{change_export, expect_parts, names_in, read, stderr};

/// Stage, kernel, calls and nanoseconds.
type Row<'a> = (&'a str, &'a str, u64, u64);
/// Folder of fixtures, its files, the rows that they give, and what is said or (`!`) never said.
type Given<'a> = (&'a str, &'a [&'a str], &'a [Row<'a>], &'a [&'a str]);
/// Names and texts of files, the rows that they give, and what is said or never said.
type Written<'a> = (&'a [(&'a str, String)], &'a [Row<'a>], &'a [&'a str]);

/// Brings a file of `tests/fixtures` into the place; SQL becomes the database that it makes.
fn give(place: &Place, case: &str, file: &str) -> String {
    let from = format!("public/nsys-{case}/{file}");
    let Some(stem) = file.strip_suffix(".sql") else {
        place.put(&from, file);
        return file.to_owned();
    };
    let name = format!("{stem}.sqlite");
    change_export(&place.path(&name), &read(&fixture(&from)));
    name
}

/// Rows of kernels.csv, by stage and name.
fn rows(bundle: &Bundle) -> Vec<(String, String, u64, u64)> {
    let number = |cell: &String| cell.parse::<u64>().expect("number");
    let mut rows: Vec<_> = bundle
        .rows()
        .iter()
        .map(|row| {
            let name = row["mangled_name"].clone();
            (row["stage"].clone(), name, number(&row["calls"]), number(&row["total_ns"]))
        })
        .collect();
    rows.sort();
    rows
}

fn expect_rows(bundle: &Bundle, case: &str, expected: &[Row<'_>]) {
    let mut expected: Vec<_> = expected
        .iter()
        .map(|&(stage, kernel, calls, ns)| (stage.to_owned(), kernel.to_owned(), calls, ns))
        .collect();
    expected.sort();
    assert_eq!(rows(bundle), expected, "{case}: {}", bundle.said);
}

/// A merge that gets nothing that it can use: it says why, and leaves nothing.
fn refused(place: &Place, words: &[&str]) -> String {
    let assert = place.merge(words).assert().code(2);
    assert!(!place.path("out").exists(), "{words:?}: a bundle is left");
    stderr(&assert)
}

const GEMM: &str = "void gemm<(int)4, float>(float *, int)";
const WHOLE: &str = "(whole capture)";
/// The first bytes of an export.
const CUT: &str = "SQLite format 3\0";

#[test]
fn every_shape_of_a_capture_gives_the_numbers_in_it() {
    let two: &[Row<'_>] = &[(WHOLE, GEMM, 3, 3_000), (WHOLE, "softmax_k", 1, 1_000)];
    let cases: &[Given<'_>] = &[
        ("several-tables-one-file", &["all.csv"], two, &["!cannot be used", "!damaged"]),
        ("glued-header", &["g.csv"], &[(WHOLE, "gemm_k", 3, 3_000)], &[]),
        ("old-names", &["report1_gpukernsum.csv"], two, &[]),
        (
            "ms-unit",
            &["k.csv"],
            &[(WHOLE, "gemm_k", 3, 3_000), (WHOLE, "softmax_k", 1, 1_000)],
            &[],
        ),
        (
            "gpu0-gpu1-names",
            &["llama_gpu0_cuda_gpu_kern_sum.csv", "llama_gpu1_cuda_gpu_kern_sum.csv"],
            &[(WHOLE, GEMM, 5, 7_000)],
            &["of 2 captures of nsys", "left out: llama_gpu0_cuda_gpu_kern_sum.csv (4 kernels)"],
        ),
        (
            "same-name-two-folders",
            &["rank0/k_cuda_gpu_kern_sum.csv", "rank1/k_cuda_gpu_kern_sum.csv"],
            &[(WHOLE, GEMM, 5, 7_000)],
            &["of 2 captures of nsys", "(4 kernels)"],
        ),
        (
            "nvtx-kern-sum-alone",
            &["x_nvtx_kern_sum.csv"],
            &[
                ("prefill", "gemm_k", 3, 3_000),
                ("decode", "softmax_k", 4, 2_000),
                ("decode", "gemm_k", 2, 1_000),
            ],
            &["with 9 kernels", "counts in each range around it", "!opened no NVTX range"],
        ),
        (
            "truncated",
            &["k.csv"],
            &[(WHOLE, "void gemm<\"a\", float>(float *, int)", 3, 3_000)],
            &["k.csv is cut short", "!softm"],
        ),
        ("start-end-only", &["se.sql"], &[("request", "_Z1ki", 6, 60_000)], &[]),
        (
            "no-api-table",
            &["hw.sql"],
            &[("(unattributed)", "_Z1ki", 12, 120_000)],
            &[
                "decode: GPU work not known (the file has no API calls)",
                "!no GPU work launched by the stage itself",
            ],
        ),
        (
            "old-foreign-keys",
            &["old.sql"],
            &[("(whole process)", "_Z1ki", 1, 3_000)],
            &["!no scrubbed copy", "!hold the environment"],
        ),
    ];
    for (case, files, expected, said) in cases {
        let place = Place::new();
        let names: Vec<String> = files.iter().map(|file| give(&place, case, file)).collect();
        let words: Vec<&str> = names.iter().flat_map(|name| ["--nsys", name]).collect();
        let bundle = place.merged(&words);
        expect_rows(&bundle, case, expected);
        expect_parts(&bundle.said, case, said);
        let pages = bundle.text("stakeholder_summary.md") + &bundle.text("report.md");
        let never: Vec<&str> = said.iter().copied().filter(|part| part.starts_with('!')).collect();
        expect_parts(&pages, case, &never);
    }
    let scrubbed = Place::new();
    let name = give(&scrubbed, "old-foreign-keys", "old.sql");
    let bundle = scrubbed.merged(&["--nsys", &name]);
    let copy = Connection::open(bundle.dir.join("nsys").join(&name)).expect("copy");
    let query = "SELECT count(*) FROM sqlite_master WHERE name = 'TARGET_INFO_SYSTEM_ENV'";
    let left: i64 = copy.query_row(query, [], |row| row.get(0)).expect("tables");
    assert_eq!(left, 0);
}

const HEAD: &str =
    "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n";
const KERNELS: &str = "75.0,3000,3,1000.0,1000.0,900,1100,100.0,gemm_k\n\
                       25.0,1000,1,1000.0,1000.0,1000,1000,0.0,softmax_k\n";
const NVTX: &str = "NVTX Range,Style,PID,TID,NVTX Inst,Kern Inst,Total Time (ns),Avg (ns),Med (ns),\
                    Min (ns),Max (ns),StdDev (ns),Kernel Name\n";
const API: &str = "Time (%),Total Time (ns),Num Calls,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),\
                   Name\n90.0,900000,4,225000.0,225000.0,200000,250000,25000.0,cudaLaunchKernel\n";
const MPI: &str = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),\
                   Source,Name\n90.0,900000,4,225000.0,225000.0,200000,250000,25000.0,MPI,MPI_Send\n";

/// Hazard (Records that make no sense): Several tables of `nsys stats` in one file, or of one
///  capture; cells of another locale; a cut file.
/// Promise: Each kernel counts once, from its own table; omitted, cut and ambiguous values are reported.
#[test]
fn tables_of_one_file_or_of_one_capture_are_told_apart() {
    let both: &[Row<'_>] = &[(WHOLE, "gemm_k", 3, 3_000), (WHOLE, "softmax_k", 1, 1_000)];
    let kernels = format!("{HEAD}{KERNELS}");
    let nested = "outer,PushPop,1,1,1,3,3000,1000.0,1000.0,900,1100,100.0,gemm_k\n\
                  inner,PushPop,1,1,1,3,3000,1000.0,1000.0,900,1100,100.0,gemm_k\n\
                  outer,PushPop,1,1,1,1,1000,1000.0,1000.0,1000,1000,0.0,softmax_k\n";
    let parted = "outer,PushPop,1,1,1,2,2000,1000.0,1000.0,900,1100,100.0,gemm_k\n\
                  outer,PushPop,1,2,1,1,1000,1000.0,1000.0,900,1100,100.0,gemm_k\n\
                  ,,1,1,0,1,1000,1000.0,1000.0,1000,1000,0.0,softmax_k\n";
    let quoted = "100.0,3000,3,1000.0,1000.0,900,1100,100.0,\"void\n gemm<\"\"a\"\">(int)\"\n";
    let european = "\"75,0\",\"3.000\",3,\"1.000,0\",\"1.000,0\",900,\"1.100\",\"100,0\",gemm_k\n\
                    \"25,0\",\"1.000\",1,\"1.000,0\",\"1.000,0\",\"1.000\",\"1.000\",\"0,0\",softmax_k\n";
    let other = format!("{HEAD}100.0,7000,5,1400.0,1400.0,1300,1500,100.0,gemm_k\n");
    let not_known = "(not known)";
    let cases: &[Written<'_>] = &[
        (&[("a.csv", format!("{API}{kernels}{API}{MPI}"))], both, &["!cannot be used"]),
        (&[("a.csv", format!("{API}\n{kernels}\n{MPI}").replace('\n', "\r\n"))], both, &["!cut"]),
        (&[("a.csv", format!("{HEAD}\n{}", KERNELS.replace('\n', "\n\n")))], both, &["!cut"]),
        (
            &[("a.csv", format!("{HEAD}{quoted}{API}"))],
            &[(WHOLE, "void\\n gemm<\"a\">(int)", 3, 3_000)],
            &["!cannot be used"],
        ),
        (&[("a.csv", format!("{HEAD}{european}"))], both, &["!cannot be used"]),
        (&[("a.csv", format!("{HEAD}{}25.0,10", KERNELS))], both, &["a.csv is cut short"]),
        (
            &[("x_cuda_gpu_kern_sum.csv", kernels.clone()), ("x_gpukernsum.csv", other.clone())],
            both,
            &["left out: x_gpukernsum.csv (5 calls)"],
        ),
        (
            &[
                ("x_cuda_gpu_kern_sum.csv", kernels.clone()),
                ("x_nvtx_kern_sum.csv", NVTX.to_owned() + nested),
            ],
            &[(not_known, "gemm_k", 3, 3_000), (not_known, "softmax_k", 1, 1_000)],
            &["!opened no NVTX range", "do not say which range is outermost"],
        ),
        (
            &[
                ("x_cuda_gpu_kern_sum.csv", kernels.clone()),
                ("x_nvtx_kern_sum.csv", NVTX.to_owned() + parted),
            ],
            &[("outer", "gemm_k", 3, 3_000), ("(outside ranges)", "softmax_k", 1, 1_000)],
            &["!opened no NVTX range"],
        ),
        (
            &[("a.csv", kernels.clone()), ("b.csv", "{\"no\": \"table\"}\n".to_owned())],
            both,
            &["b.csv is not merged", "JSON", "writing the reports"],
        ),
        (
            &[("a.csv", kernels.clone()), ("b.sqlite", CUT.to_owned())],
            both,
            &[
                "within its header, so no scrubbed copy of b.sqlite was written (",
                "!/nsys/b.sqlite",
            ],
        ),
    ];
    for (at, (files, expected, said)) in cases.iter().enumerate() {
        let place = Place::new();
        files.iter().for_each(|(name, text)| fs::write(place.path(name), text).expect("file"));
        let words: Vec<&str> = files.iter().flat_map(|(name, _)| ["--nsys", name]).collect();
        let bundle = place.merged(&words);
        expect_rows(&bundle, &format!("case {at}"), expected);
        let all = bundle.said.clone() + &bundle.text("stakeholder_summary.md");
        expect_parts(&all, &format!("case {at}"), said);
    }
}

#[test]
fn the_bytes_and_separators_of_other_systems_change_nothing() {
    let expected: &[Row<'_>] = &[(WHOLE, "gemm_k", 3, 3_000), (WHOLE, "softmax_k", 1, 1_000)];
    let plain = format!("{HEAD}{KERNELS}");
    let wide = |text: &str, bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
        text.encode_utf16().flat_map(bytes).collect()
    };
    let bom = |text: &str| format!("\u{feff}{text}");
    for (how, bytes) in [
        ("UTF-8 with a mark", bom(&plain).into_bytes()),
        ("UTF-16, little endian", wide(&plain, u16::to_le_bytes)),
        ("UTF-16, big endian, with a mark", wide(&bom(&plain), u16::to_be_bytes)),
        ("tabs", plain.replace(',', "\t").into_bytes()),
        ("semicolons", plain.replace(',', ";").into_bytes()),
        ("European", plain.replace(',', ";").replace('.', ",").into_bytes()),
    ] {
        let place = Place::new();
        fs::write(place.path("run.csv"), bytes).expect("table");
        expect_rows(&place.merged(&["--nsys", "run.csv"]), how, expected);
    }
}

/// Hazard (Records that make no sense): Files that are no captures: other tables, text for
///  reading, pointers, pages, folders.
/// Promise: Each is named with what it is and what to give instead; no bundle is left.
#[test]
fn what_is_no_capture_is_refused_with_what_it_is_and_what_to_give() {
    let given = |name: &str| read(&fixture(name));
    let of_ncu = "\"ID\",\"Process ID\",\"Kernel Name\"\n\"0\",\"1\",\"k\"\n";
    let kernels = format!("{HEAD}{KERNELS}");
    let two_decimals = format!("{HEAD}75.0,\"3,5\",3,1000.0,1000.0,900,1100,100.0,gemm_k\n");
    let (csv, lfs) = ("a.csv", "version https://git-lfs.github.com/spec/v1\n");
    let (trace, exec, stats, ncu) = (
        given("public/nsys-gpu-trace/x_cuda_gpu_trace.csv"),
        given("public/nsys-kern-exec-sum/x_cuda_kern_exec_sum.csv"),
        given("public/nsys-text-table/stats.csv"),
        given("public/ncu-text-output/run.csv"),
    );
    const HEADER: &str = "Total Time (ns),Instances,Name\n";
    let not_read = "reports of Nsight Systems are not read";
    for (option, name, text, parts) in [
        ("--nsys", csv, &*trace, ["cuda_gpu_trace", "cuda_gpu_kern_sum"]),
        ("--nsys", csv, &exec, ["cuda_kern_exec_sum", "cuda_gpu_kern_sum"]),
        ("--nsys", csv, &stats, ["for reading", "--format csv"]),
        ("--nsys", "stats.txt", &stats, ["for reading", "!has to end in"]),
        ("--nsys", "kernels.txt", &kernels, ["has to end in", ".csv"]),
        ("--nsys", csv, API, ["cuda_api_sum", "cuda_gpu_kern_sum"]),
        ("--nsys", csv, HEAD, ["has no rows", "no kernel"]),
        ("--nsys", csv, &two_decimals, ["decimal points", "3,5"]),
        ("--nsys", csv, of_ncu, ["Nsight Compute", "--ncu"]),
        ("--nsys", "a.sqlite", lfs, ["Git LFS", "!passwords"]),
        ("--nsys", "a.sqlite", "something else\n", ["not a SQLite export", "no bundle was made"]),
        ("--nsys", "a.sqlite", "<!DOCTYPE html>", ["HTML", "nsys export"]),
        ("--nsys", "a.qdrep", "report", [not_read, "nsys export"]),
        ("--ncu", "a.qdrep", "report", ["Nsight Systems", "--nsys"]),
        ("--ncu", csv, &kernels, ["nsys stats", "--nsys"]),
        ("--ncu", csv, &ncu, ["--csv", "ncu --import"]),
        ("--ncu", "a.txt", &ncu, ["--csv", "!has to end in"]),
        ("--nsys", "a.nsys-rep", "report", [not_read, "nsys export --type=sqlite"]),
        ("--spool", "rubbish.s2t", "rubbish", ["rubbish.s2t", "!not started"]),
        ("--spool", "empty.s2t", "", ["no bundle was made", "empty.s2t"]),
        ("--nsys", "cut.sqlite", CUT, ["(it is cut short within its header); export", "!/out/"]),
        ("--nsys", "empty.sqlite", "", ["no bundle was made", "empty.sqlite"]),
        ("--nsys", "empty.csv", "", ["no bundle was made", "empty.csv"]),
        ("--spool", "damaged.s2t", "no spool", ["made: `damaged.s2t` is", "!every number"]),
        ("--nsys", "header.csv", HEADER, ["no capture can be merged", "header.csv"]),
        ("--ncu", "empty.csv", "", ["no bundle was made", "empty.csv"]),
        (
            "--spool",
            "passwd",
            "root:x:0:0\n",
            ["passwd (its name has to end in .s2t)", "!redacted"],
        ),
    ] {
        let place = Place::new();
        fs::write(place.path(name), text).expect("file");
        let said = refused(&place, &[option, name]);
        expect_parts(&said, &format!("{option} {name}"), &parts);
    }
    let place = Place::new();
    fs::create_dir(place.path("folder.csv")).expect("folder");
    expect_parts(&refused(&place, &["--nsys", "folder.csv"]), "folder", &["folder", "files in it"]);
    // Of each what is wrong with it; the folders that were made around the bundle go.
    fs::create_dir(place.path("bare")).expect("folder");
    fs::write(place.path("empty.txt"), "").expect("file");
    let several = ["--spool", "bare", "--nsys", "gone.sqlite", "--ncu", "empty.txt"];
    let words = [&["merge"], &several[..], &["-o", "new/around/out"]].concat();
    let said = stderr(&place.command(&words).assert().code(2));
    let parts =
        ["no file in it ends in .s2t", "gone.sqlite (it does not exist", "empty.txt (it is empty"];
    expect_parts(&said, "several", &parts);
    assert!(!said.contains("--spool takes"), "the reasons have their remedies: {said}");
    assert!(!place.path("new").exists());
    fs::write(place.path("header.csv"), HEADER).expect("file");
    let words = ["merge", "--nsys", "header.csv", "-o", "new/around/out"];
    place.command(&words).assert().code(2);
    assert!(!place.path("new").exists());
    // Nothing is merged without it.
    fs::write(place.path("empty.nsys-rep"), "").expect("file");
    let said = refused(&place, &["--nsys", "empty.nsys-rep", "--nsys", "header.csv"]);
    let parts = ["empty.nsys-rep is not merged: it is empty; give the report as", "!the rest is"];
    expect_parts(&said, "nothing is left", &parts);
    refused(&place, &["--nsys", "missing.sqlite"]);
    refused(&place, &["--nsys", "empty.txt", "modle.llm=x"]);
    // A folder of the user stays.
    fs::create_dir(place.path("out")).expect("folder");
    fs::write(place.path("rubbish.s2t"), "rubbish").expect("file");
    place.merge(&["--spool", "rubbish.s2t"]).assert().code(2);
    assert!(names_in(&place.path("out")).is_empty());
}

/// Hazard (Records that make no sense): A capture of nsys with API calls and ranges and no kernel.
/// Promise: The report states it, with nsys's own reason.
#[test]
fn ranges_and_calls_without_a_kernel_are_told_with_the_words_of_nsys() {
    let place = Place::new();
    let name = give(&place, "ranges-no-kernels", "x.sql");
    let assert = place.merge(&["--nsys", &name]).assert().code(70);
    let said = stderr(&assert);
    let expected = [
        "nsys recorded 1 launch call and 1 NVTX range, but no kernel",
        "CUDA profiling could not be started: the driver is too old",
        "!opened no NVTX range",
        "!a run that used the GPU",
    ];
    expect_parts(&said, "said", &expected);
    let bundle = Bundle { dir: place.path("out"), said };
    for page in ["report.md", "stakeholder_summary.md", "operators.md"] {
        expect_parts(&bundle.text(page), page, &expected[2..]);
    }
}

/// Hazard (Security): Messages of nsys about its records quote secrets.
/// Promise: They reach the report without the secrets.
#[test]
fn what_nsys_says_reaches_the_report_without_secrets() {
    let place = Place::new();
    let name = give(&place, "old-foreign-keys", "old.sql");
    let texts = "CREATE TABLE DIAGNOSTIC_EVENT (timestamp INTEGER, severity INTEGER, text TEXT);
        INSERT INTO DIAGNOSTIC_EVENT VALUES (0, 1, 'CUPTI buffers: 49 of 50. Some CUPTI events might be missing.'),
        (0, 2, 'CUDA could not be traced with HF_TOKEN=not-a-real-token-1234'),
        (0, 2, 'CUDA failed with --password=hunter2supersecret'),
        (0, 1, 'said by the program');";
    change_export(&place.path(&name), texts);
    let bundle = place.merged(&["--nsys", &name, "pipeline.nsys.export.keep_raw=true"]);
    let report = bundle.text("report.md");
    expect_parts(
        &report,
        "report.md",
        &["49 of 50", "CUDA failed with", "!hunter2", "!not-a-real-token", "!said by"],
    );
    let copy = fs::read(bundle.dir.join("nsys").join(&name)).expect("copy");
    assert!(!String::from_utf8_lossy(&copy).contains("not-a-real-token"));
}

/// Hazard (Security): An export given to `merge` cannot be scrubbed.
/// Promise: It stays out of the bundle, and a warning reports it.
#[test]
fn an_export_that_cannot_be_scrubbed_stays_out_of_the_bundle() {
    let place = Place::new();
    let name = give(&place, "old-foreign-keys", "old.sql");
    // A text in use holds the environment.
    let text = "UPDATE StringIds SET value = 'HF_TOKEN=not-a-real-token-1234' WHERE id = 2";
    change_export(&place.path(&name), text);
    fs::write(place.path("k.csv"), format!("{HEAD}{KERNELS}")).expect("file");
    let bundle = place.merged(&["--nsys", &name, "--nsys", "k.csv"]);
    expect_parts(
        &bundle.said,
        "said",
        &["old.sqlite is not in the bundle", "HF_TOKEN", "!not-a-real", "!hold the environment"],
    );
    assert!(!bundle.dir.join("nsys").join(&name).exists());
    assert!(!bundle.dir.join("nsys/SENSITIVE.txt").exists());
}

#[test]
fn our_own_export_gives_the_numbers_of_the_run_again() {
    let place = Place::new();
    let mut b = Build::process(7, "python3");
    b.anchor(1).device(0, "NVIDIA H200", 1);
    for (id, name) in (1..).zip(["decode", "layer", "prefill", "gemm", "norm"]) {
        b.name(id, name.as_bytes());
    }
    b.shape(1, 4, 1).shape(2, 5, 1).path(1, NONE, 1).path(2, 1, 2).path(3, NONE, 3);
    b.kernel(RANGE_OUTSIDE, 1, 1, (1_000, 1_500));
    b.open(1, 3, 0, 2_000).kernel(1, 1, 1, (2_500, 3_000)).close(1, 3_500);
    // Kernels of a range before and behind the range in it, which end after the range itself.
    for step in 0..4 {
        let (at, outer, inner) = (10_000 * (step + 1), 10 + 2 * step, 11 + 2 * step);
        b.open(outer, 1, 0, at).kernel(outer, 2, 1, (at + 100, at + 300));
        b.open(inner, 2, outer, at + 50)
            .kernel(inner, 1, 1, (at + 400, at + 900))
            .close(inner, at + 60);
        b.kernel(outer, 2, 1, (at + 1_000, at + 1_005 + 10 * step)).close(outer, at + 70);
    }
    b.end();
    b.save(&place.path("run"), "h-7.s2t");
    let run = place.merged(&["--spool", "run/collector"]);
    place.command(&["export", "out", "-f", "sqlite", "-o", "own.sqlite"]).assert().success();
    let kept = Bundle { dir: place.path("run-bundle"), said: run.said };
    fs::rename(place.path("out"), &kept.dir).expect("bundle");
    let again = place.merged(&["--nsys", "own.sqlite"]);
    assert_eq!(rows(&again), rows(&kept), "{}", again.said);
    let numbers = |bundle: &Bundle| -> Vec<Value> {
        let metrics = bundle.json("metrics.json");
        let of = |table: &str, columns: &str| {
            let rows = metrics[table].as_array().expect("rows").iter();
            let columns = columns.split(' ');
            let values = |row: &Value| columns.clone().map(|name| row[name].clone()).collect();
            rows.map(values).collect::<Vec<Value>>()
        };
        let mut all = [
            of("stages", "stage instances kernels kernel_sum_ns gpu_window_ns gpu_busy_ns"),
            of("stages", "stage host_warm_median_ns"),
            of("paths", "path instances kernels_inclusive kernels_exclusive"),
            of("paths", "path kernel_sum_exclusive_ns"),
        ]
        .concat();
        all.sort_by_key(ToString::to_string);
        all
    };
    assert_eq!(numbers(&again), numbers(&kept), "{}", again.said);
    expect_parts(
        &again.said,
        "again",
        &["!have no launch", "!not known (the file", "!has no table"],
    );
}
