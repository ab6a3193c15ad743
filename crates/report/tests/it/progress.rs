//! Readings of large files are told of, each with its name and how much of it there is.
//!
//! One test function: a process has one observer.

use std::fs;
use std::path::Path;
use std::sync::Mutex;

use rusqlite::Connection;
use stage2_contract::trace::{GpuNs, GpuWork, Record, What, Writer};
use stage2_read::progress::{Progress, Unit, observe};
use stage2_report::{Settings, Sources, analyse};

static SEEN: Mutex<Vec<Progress>> = Mutex::new(Vec::new());

/// More than the observer is not told of.
const BYTES: usize = 3 << 20;
const ROWS: u32 = 10_000;

fn trace_file(path: &Path) {
    let mut writer = Writer::new(fs::File::create(path).expect("file")).expect("a header");
    let mut random = 7_u64;
    while fs::metadata(path).expect("file").len() < BYTES as u64 {
        for _ in 0..10_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let start = GpuNs(random >> 8);
            let kernel = GpuWork::new(What::Kernel { shape: 1 });
            writer.write(&Record::Work(GpuWork { start, end: start, ..kernel }));
        }
        writer.flush().expect("a disk");
    }
}

fn export(path: &Path) {
    let sql = format!(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER);
         WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n LIMIT {ROWS})
         INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT i, i + 5, 0 FROM n;"
    );
    Connection::open(path).and_then(|made| made.execute_batch(&sql)).expect("rows");
}

/// Hazard (Hostile files): A large file is read.
/// Promise: It shows its progress.
#[test]
fn every_kind_of_large_file_is_told_of_with_its_size() {
    assert!(observe(|progress| SEEN.lock().expect("a lock").push(progress.clone())));
    let run = tempfile::tempdir().expect("folder");
    for folder in ["collector", "nsys", "ncu"] {
        fs::create_dir(run.path().join(folder)).expect("folder");
    }
    trace_file(&run.path().join("collector/1.s2t"));
    export(&run.path().join("nsys/run.sqlite"));
    let table = format!(
        "Total Time (ns),Instances,Name\n{}",
        format!("1,1,{:k>100}\n", "").repeat(BYTES / 105)
    );
    fs::write(run.path().join("nsys/other_cuda_gpu_kern_sum.csv"), table).expect("file");
    let page = format!(
        "\"ID\",\"Process ID\",\"Kernel Name\",\"m\"\n\"\",\"\",\"\",\"ns\"\n{}",
        "\"1\",\"7\",\"k\",\"5\"\n".repeat(BYTES / 16)
    );
    fs::write(run.path().join("ncu/raw.csv"), page).expect("file");

    analyse(&Sources::of_run(run.path()), &Settings::of_run(run.path()));

    let seen = std::mem::take(&mut *SEEN.lock().expect("a lock"));
    for (name, unit) in [
        ("collector/1.s2t", Unit::Bytes),
        ("nsys/run.sqlite, table CUPTI_ACTIVITY_KIND_KERNEL", Unit::Rows),
        ("nsys/other_cuda_gpu_kern_sum.csv", Unit::Bytes),
        ("ncu/raw.csv", Unit::Bytes),
    ] {
        let mut of_file = seen.iter().filter(|progress| progress.what.ends_with(name));
        let last = of_file.next_back().unwrap_or_else(|| panic!("nothing of {name}: {seen:?}"));
        assert_eq!(last.unit, unit, "{name}");
        let total = match unit {
            Unit::Rows => u64::from(ROWS),
            Unit::Bytes => fs::metadata(run.path().join(name)).expect("file").len(),
        };
        assert_eq!(last.total, Some(total), "{name}");
        assert!(last.done > total / 2 && last.done <= total, "{last:?}");
    }
}
