//! An nsys export of many kernels -> how long it takes to read and join, and the peak memory.
//!
//! `cargo run --release -p stage2-launch --example nsys_speed -- [KERNELS] [FILE]` makes FILE unless
//! it is there: KERNELS (2 million) in two processes, with 3.5 API calls and 8 NVTX ranges for each.

use std::path::Path;
use std::time::Instant;

use anyhow::Context as _;
use rusqlite::Connection;
use stage2_launch::nsys::load::sqlite;

const KERNELS_PER_STEP: i64 = 694;
const PROCESSES: i64 = 2;

fn main() -> anyhow::Result<()> {
    let mut words = std::env::args().skip(1);
    let kernels = words.next().unwrap_or("2000000".into()).parse().context("a number is needed")?;
    let made = std::env::temp_dir().join(format!("nsys-speed-{kernels}.sqlite"));
    let file = words.next().map_or(made, Into::into);
    if !file.exists() {
        let start = Instant::now();
        make(&file, kernels)?;
        println!("made {} in {:.1} s", file.display(), start.elapsed().as_secs_f64());
    }
    let start = Instant::now();
    let tables = sqlite::load(&file).map_err(|finding| anyhow::anyhow!("{finding}"))?;
    println!("read and joined in {:.2} s, {}", start.elapsed().as_secs_f64(), peak_memory());
    println!("{:?}", tables.counts);
    for range in tables.ranges.iter().take(5) {
        println!("{}: {:?} instances, {} kernels", range.name, range.instances, range.calls);
    }
    tables.findings.iter().for_each(|finding| println!("{finding}"));
    Ok(())
}

fn make(file: &Path, kernels: i64) -> anyhow::Result<()> {
    let mut db = Connection::open(file)?;
    db.execute_batch(
        "PRAGMA journal_mode = off; PRAGMA synchronous = off;
         CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
         CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER,
             contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,
             demangledName INTEGER, shortName INTEGER, mangledName INTEGER, registersPerThread
             INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER,
             blockZ INTEGER);
         CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER,
             globalTid INTEGER, correlationId INTEGER, nameId INTEGER, returnValue INTEGER);
         CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, rangeId INTEGER,
             category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER,
             textId INTEGER, domainId INTEGER);",
    )?;
    let all = db.transaction()?;
    {
        let mut string = all.prepare("INSERT INTO StringIds VALUES (?1, ?2)")?;
        for id in 0..100 {
            string.execute((id, format!("_ZN5bench6kernelILi{id}EEvPf")))?;
            string
                .execute((1000 + id, if id == 0 { "decode".into() } else { format!("op{id}") }))?;
        }
        let mut kernel = all.prepare(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL
             VALUES (?1, ?2, 0, 1, 7, ?3, ?4, ?5, ?5, ?5, 32, ?6, 1, 1, 128, 1, 1)",
        )?;
        let mut call = all.prepare(
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?1, ?1 + 90, 0, ?2, ?3, 1, 0)",
        )?;
        let mut range = all.prepare(
            "INSERT INTO NVTX_EVENTS
             VALUES (?1, ?2, 59, NULL, NULL, NULL, ?3, ?4, NULL, ?5, 0)",
        )?;
        for process in 0..PROCESSES {
            let pid = (1 << 48) | ((1000 + process) << 24);
            let thread = pid + 1;
            for i in 0..kernels / PROCESSES {
                let time = i * 1000;
                let name = i % KERNELS_PER_STEP % 60;
                kernel.execute((time + 500, time + 3_000, 4 * i + 1, pid, name, name + 1))?;
                for n in 0..3 + i % 2 {
                    call.execute((time + 300 + 50 * n, thread, 4 * i + 1 + n))?;
                }
                if i % KERNELS_PER_STEP == 0 {
                    let end = time + KERNELS_PER_STEP * 1000 - 10;
                    range.execute((time, end, None::<&str>, thread, Some(1000)))?;
                }
                for n in 0..8 {
                    let (text, id) =
                        if n % 3 == 0 { (Some("step"), None) } else { (None, Some(1001 + n)) };
                    range.execute((time + 10 + n * 100, time + 100 + n * 100, text, thread, id))?;
                }
            }
        }
    }
    all.commit()?;
    Ok(())
}

fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    line.map_or_else(
        || "peak memory unknown".into(),
        |l| l.split_whitespace().collect::<Vec<_>>().join(" "),
    )
}
