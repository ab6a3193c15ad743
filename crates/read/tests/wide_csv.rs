//! Memory for CSV tables far wider than any tool writes: bounded, however large the file is.
//!
//! One test function that runs by itself: the counts are those of the process.

#[allow(dead_code, unreachable_pub, reason = "other tests use the rest")]
#[path = "../../fuzz/src/memory_count.rs"]
mod memory_count;

use std::io::{self, Read};
use std::time::Instant;

use memory_count::peak_of;
use stage2_read::ncu::load::{Source, Tables, load};

const MIB: usize = 1 << 20;

/// A raw page of ncu, made while it is read, so that it takes no memory itself.
struct Page {
    columns: usize,
    rows: usize,
    line: Vec<u8>,
    at: usize,
    next: usize,
}

impl Page {
    fn of(columns: usize, rows: usize) -> Self {
        Page { columns, rows, line: Vec::new(), at: 0, next: 0 }
    }

    fn make_line(&mut self) {
        let cells = |start: &str, cell: &dyn Fn(usize) -> String| {
            let mut line = start.to_owned();
            (0..self.columns).for_each(|at| line += &cell(at));
            line + "\n"
        };
        let line = match self.next {
            0 => cells("\"ID\",\"Process ID\",\"Kernel Name\"", &|at| format!(",\"m{at}\"")),
            1 => cells("\"\",\"\",\"\"", &|_| ",\"ns\"".to_owned()),
            row => cells(&format!("\"{row}\",\"7\",\"k\""), &|_| ",\"12345.5\"".to_owned()),
        };
        (self.line, self.at) = (line.into_bytes(), 0);
        self.next += 1;
    }
}

impl Read for Page {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.line.len() && self.next < self.rows + 2 {
            self.make_line();
        }
        let count = self.line.get(self.at..).unwrap_or_default().read(buffer)?;
        self.at += count;
        Ok(count)
    }
}

/// What is read of a page, and the bytes that were held at most.
fn read(columns: usize, rows: usize) -> (Tables, usize) {
    let begun = Instant::now();
    let source = Source { name: "wide.csv".to_owned(), input: Page::of(columns, rows) };
    let (tables, peak) = peak_of(|| load([source]));
    let (took, mib) = (begun.elapsed(), peak / MIB);
    println!("{columns} columns, {rows} rows: {took:?}, {mib} MiB, {:?}", tables.findings);
    (tables, peak)
}

#[test]
fn neither_columns_nor_values_take_more_memory_than_their_bounds() {
    let (tables, peak) = read(100_000, 20);
    assert!(peak < 64 * MIB, "{peak} bytes");
    assert!(
        tables.findings.iter().any(|finding| finding.what.contains("wide.csv: a row of 100003"))
    );
    // As wide as a table may be, and with more values than are kept.
    let (tables, peak) = read(19_000, 80);
    assert!(peak < 512 * MIB, "{peak} bytes");
    assert_eq!(tables.launches.len(), 52);
    assert!(tables.findings.iter().any(|finding| finding.what.contains("28 rows of a report")));
    if std::env::var_os("STAGE2_FULL_SIZE").is_some() {
        // 150 MB, which took 3.7 GB.
        assert!(read(100_000, 150).1 < 64 * MIB);
        assert!(read(19_000, 800).1 < 512 * MIB);
    }
}
