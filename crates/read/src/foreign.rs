//! The beginning of a file that someone took for a capture -> what it is, and what to give instead.
//!
//! Only what is certain is said: what is not recognised goes to its reader, which names what it lacks.

use std::io::{self, Read};
use std::path::Path;

use crate::decoded::Decoded;
use crate::files;
use crate::nsys::csv;

/// What a file was given as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// A trace file of the collector.
    Spool,
    /// A SQLite export of Nsight Systems.
    NsysExport,
    /// A table of `nsys stats`.
    NsysTable,
    /// A table of `ncu --csv`.
    NcuTable,
    /// A report that only its tool can read.
    Report,
}

/// A file that is no such capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// What it is, behind "it is".
    pub what: String,
    /// What to do.
    pub instead: &'static str,
}

impl std::fmt::Display for Foreign {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "it is {}; {}", self.what, self.instead)
    }
}

/// Bytes at the beginning of a file that are looked at: output of a program may stand before a table.
const HEAD_BYTES: u64 = 1 << 20;

const SQLITE: &[u8] = b"SQLite format 3\0";
/// Beginnings of files that say what they are.
const PACKED: [(&[u8], &str); 6] = [
    (b"\x1f\x8b", "gzip"),
    (b"PK\x03\x04", "zip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xfd7zXZ\0", "xz"),
    (b"BZh", "bzip2"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip"),
];
const UNPACK: &str =
    "unpack it, and give what is in it (or, for gzip, name it *.sqlite.gz or *.s2t.gz)";
const LFS: &str = "`git lfs pull` fetches the file that it stands for";
const OF_NSYS: &str = "give a SQLite export (`nsys export --type sqlite REPORT.nsys-rep`), or the table \
    of kernels (`nsys stats --report cuda_gpu_kern_sum --format csv REPORT.nsys-rep`)";
const OF_NCU: &str = "give the report (.ncu-rep), or the table that `ncu --import REPORT.ncu-rep --csv \
    --page raw` prints";
const OF_SPOOL: &str = "give a trace file of the collector (.s2t)";
const AS_NSYS: &str = "give it with --nsys";
const AS_NCU: &str = "give it with --ncu";

impl Given {
    fn instead(self) -> &'static str {
        match self {
            Given::Spool => OF_SPOOL,
            Given::NsysExport | Given::NsysTable => OF_NSYS,
            Given::NcuTable => OF_NCU,
            Given::Report => "give the report as its tool wrote it",
        }
    }
}

/// Looks at a file; nothing where it may be what it was given as.
pub fn look(path: &Path, given: Given) -> io::Result<Option<Foreign>> {
    let mut head = Vec::new();
    match files::is_compressed(path) {
        true => files::unpacked(path)?.take(HEAD_BYTES).read_to_end(&mut head)?,
        false => files::open(path)?.take(HEAD_BYTES).read_to_end(&mut head)?,
    };
    Ok(recognise(&head, given))
}

/// What any file is, behind "it is", and the option of `merge` that takes it.
pub fn kind_of(path: &Path) -> io::Result<(String, Option<&'static str>)> {
    let mut head = Vec::new();
    files::open(path)?.take(HEAD_BYTES).read_to_end(&mut head)?;
    let (what, option) = kind_by(files::ending(path), &head);
    Ok((what.to_owned(), option))
}

fn kind_by(ending: &str, head: &[u8]) -> (&'static str, Option<&'static str>) {
    match ending {
        "nsys-rep" | "qdrep" => return ("a report of Nsight Systems", Some("--nsys")),
        "ncu-rep" => return ("a report of Nsight Compute", Some("--ncu")),
        "s2t" => return ("a trace file of the collector", Some("--spool")),
        _ => {}
    }
    if head.starts_with(SQLITE) {
        return ("a SQLite file, as Nsight Systems exports them", Some("--nsys"));
    }
    if head.starts_with(b"NVR\0") {
        return ("a report of Nsight Compute without its ending .ncu-rep", None);
    }
    if PACKED.iter().any(|(magic, _)| head.starts_with(magic)) {
        return ("a compressed file", None);
    }
    let Some(text) = text_of(head) else { return ("a binary file", None) };
    let start = text.trim_start().to_ascii_lowercase();
    match ending {
        _ if start.is_empty() => ("an empty file", None),
        _ if start.starts_with("<!doctype html") || start.starts_with("<html") => {
            ("a page for a browser", None)
        }
        _ if start.starts_with('{') && text.contains("\"traceEvents\"") => {
            ("a trace for Chrome or Perfetto, as the PyTorch profiler writes them", None)
        }
        _ if is_json(&start) => (JSON, None),
        "csv" if text.lines().any(is_head_of_ncu) => ("a table of Nsight Compute", Some("--ncu")),
        "csv" if csv::tables_in(&text).is_read => ("a table of Nsight Systems", Some("--nsys")),
        _ => ("a text file", None),
    }
}

/// By its first characters: `[package]` is TOML.
fn is_json(start: &str) -> bool {
    let in_list = start.strip_prefix('[').map(str::trim_start);
    let begins =
        |list: &str| list.starts_with(|c: char| "{[\"]-".contains(c) || c.is_ascii_digit());
    start.starts_with('{') || in_list.is_some_and(begins)
}

/// What [`kind_of`] calls a file that may be a report of ours.
pub const JSON: &str = "a JSON file";

/// What a file that begins with `head` is; nothing where it may be what it was given as.
pub fn recognise(head: &[u8], given: Given) -> Option<Foreign> {
    let is = |what: &str, instead| Some(Foreign { what: what.to_owned(), instead });
    if head.is_empty() && given != Given::Spool {
        return is("empty", given.instead());
    }
    let text = text_of(head);
    let lower = text.as_deref().map(|text| text.trim_start().to_ascii_lowercase());
    let begins = |start: &str| lower.as_deref().is_some_and(|text| text.starts_with(start));
    if begins("version https://git-lfs.github.com/") {
        return is("a pointer of Git LFS, not the file", LFS);
    }
    if begins("<!doctype html") || begins("<html") {
        return is("a page in HTML: the download gave a page, not the file", given.instead());
    }
    if matches!(given, Given::Report | Given::Spool) {
        return None;
    }
    if head.starts_with(SQLITE) {
        return match given {
            Given::NsysExport => None,
            Given::NsysTable => is("a SQLite file", "give it a name that ends in .sqlite"),
            _ => is("a SQLite file, as Nsight Systems exports them", AS_NSYS),
        };
    }
    if let Some((_, with)) = PACKED.iter().find(|(magic, _)| head.starts_with(magic)) {
        return is(&format!("packed with {with}"), UNPACK);
    }
    if head.starts_with(b"NVR\0") {
        let instead = "give it with --ncu, under a name that ends in .ncu-rep";
        return is("a report of Nsight Compute", instead);
    }
    let Some(text) = text else {
        let is_export = given == Given::NsysExport;
        let what = if is_export { "no SQLite file" } else { "a binary file, not a table" };
        return is(what, given.instead());
    };
    if begins("<?xml") {
        return is("a file in XML", given.instead());
    }
    if begins("{") || begins("[{") || begins("[\n") {
        return is("a file in JSON", given.instead());
    }
    of_text(&text, given, (head.len() as u64) < HEAD_BYTES)
}

fn of_text(text: &str, given: Given, is_whole: bool) -> Option<Foreign> {
    let is = |what: String, instead| Some(Foreign { what, instead });
    let of_ncu = text.lines().any(is_head_of_ncu);
    let of_nsys = csv::tables_in(text);
    match given {
        Given::NsysTable if of_nsys.is_read => return None,
        Given::NcuTable if of_ncu => return None,
        Given::NsysExport if of_nsys.is_read => {
            let instead = "give it a name that ends in .csv, or a SQLite export";
            return is("a table of `nsys stats`, not a SQLite file".into(), instead);
        }
        Given::NcuTable if of_nsys.is_read => {
            return is("a table of `nsys stats` (Nsight Systems)".into(), AS_NSYS);
        }
        Given::NsysExport | Given::NsysTable if of_ncu => {
            return is("a table of Nsight Compute (ncu)".into(), AS_NCU);
        }
        // The table may come behind all that a program printed.
        _ if !is_whole => return None,
        _ => {}
    }
    let line = |start: &str| text.lines().any(|line| line.trim_start().starts_with(start));
    if let Some(report) = of_nsys.other {
        return is(format!("the table {report} of nsys, which is not read"), OF_NSYS);
    }
    if text.lines().any(is_rule) && (line("** ") || line("Time (%)") || line("Time(%)")) {
        let what = "the table for reading that `nsys stats` prints; --format csv is missing";
        return is(what.into(), OF_NSYS);
    }
    if line("SKIPPED:") {
        return is("the message of nsys that the report has no such data".into(), given.instead());
    }
    if line("==PROF==") || line("==ERROR==") || line("Section: GPU Speed Of Light") {
        let what = "the text that ncu prints for reading, or its messages; --csv is missing";
        return is(what.into(), OF_NCU);
    }
    None
}

/// Whether a line has the column names of a table of ncu, whatever stands between them.
fn is_head_of_ncu(line: &str) -> bool {
    line.contains("Process ID")
        && ["Kernel Name", "Invocations"].iter().any(|name| line.contains(name))
}

/// Whether a line is the one below the column names of a table for reading.
fn is_rule(line: &str) -> bool {
    let line = line.trim();
    line.starts_with("--") && line.contains("- ") && line.chars().all(|c| matches!(c, '-' | ' '))
}

/// The beginning of a file as text; nothing where it is none.
fn text_of(head: &[u8]) -> Option<String> {
    let mut text = Vec::new();
    Decoded::new(head).read_to_end(&mut text).ok()?;
    (!text.contains(&0)).then(|| String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_file_has_a_kind() {
        let kernels = b"Time (%),Total Time (ns),Instances,Name\n1,2,1,k\n";
        for (ending, head, what, option) in [
            ("nsys-rep", &b"\0"[..], "a report of Nsight Systems", Some("--nsys")),
            ("json", SQLITE, "a SQLite file", Some("--nsys")),
            ("csv", kernels, "a table of Nsight Systems", Some("--nsys")),
            (
                "csv",
                b"\"ID\",\"Process ID\",\"Kernel Name\"\n",
                "a table of Nsight Compute",
                Some("--ncu"),
            ),
            ("csv", b"a,b\n", "a text file", None),
            ("json", b"{\"traceEvents\": []}", "a trace for Chrome", None),
            ("json", b" [1]", JSON, None),
            ("toml", b"[package]", "a text file", None),
            ("md", b"\n", "an empty file", None),
            ("gz", b"\x1f\x8b\x08\0", "a compressed file", None),
            ("so", b"\x7fELF\0", "a binary file", None),
        ] {
            let (found, by) = kind_by(ending, head);
            assert!(found.starts_with(what) && by == option, "{ending}: {found} {by:?}");
        }
    }

    #[test]
    fn files_are_known_by_what_is_in_them() {
        use Given::*;
        let kernels = "Time (%),Total Time (ns),Instances,Name\n1,2,1,k\n";
        let trace = "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,Name\n1,2,3,1,1,1,k\n";
        let ncu = "==PROF== Connected\n\"ID\",\"Process ID\",\"Kernel Name\"\n";
        let utf16: Vec<u8> =
            [0xff, 0xfe].into_iter().chain(trace.bytes().flat_map(|byte| [byte, 0])).collect();
        for (head, given, part) in [
            (&b""[..], NsysTable, "empty"),
            (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", NsysExport, "Git LFS"),
            (b"version https://git-lfs.github.com/spec/v1\n", Spool, "git lfs pull"),
            (b"\n<!DOCTYPE html><html>", Report, "HTML"),
            (b"\x1f\x8b\x08\0", NsysExport, "gzip"),
            (b"PK\x03\x04", NcuTable, "zip"),
            (b"{\"a\": 1}", NcuTable, "JSON"),
            (b"SQLite format 3\0", NcuTable, "--nsys"),
            (b"SQLite format 3\0", NsysTable, ".sqlite"),
            (b"\x7fELF\0", NsysExport, "no SQLite file"),
            (b"NVR\0\x01", NsysTable, ".ncu-rep"),
            (kernels.as_bytes(), NcuTable, "--nsys"),
            (kernels.as_bytes(), NsysExport, ".csv"),
            (ncu.as_bytes(), NsysTable, "--ncu"),
            (trace.as_bytes(), NsysTable, "cuda_gpu_trace"),
            (&utf16, NsysTable, "cuda_gpu_trace"),
            (b"==PROF== Connected to process 1\n", NcuTable, "--csv"),
            (b"==PROF== Connected to process 1\n", NsysTable, "--csv"),
            (b" ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):\n\n Time (%)  Name\n --------  ----\n", NsysTable, "--format csv"),
            (b"SKIPPED: x.sqlite does not contain CUDA kernel data.\n", NsysTable, "no such data"),
            (b"\"Process ID\",\"Process Name\",\"Invocations\"\n", NsysTable, "Compute (ncu)"),
        ] {
            let found = recognise(head, given).expect(part).to_string();
            assert!(found.contains(part), "{given:?}: {found}");
        }
        for (head, given) in [
            (kernels.as_bytes(), NsysTable),
            (ncu.as_bytes(), NcuTable),
            (b"Time (%)\tTotal Time (ns)\tInstances\tName\n1\t2\t1\tk\n", NsysTable),
            (b"Time (%);Total Time (ns);Instances;Name\n1;2;1;k\n", NsysTable),
            (b"SQLite format 3\0", NsysExport),
            (b"no database", NsysExport),
            (b"", Spool),
            (b"report", Report),
        ] {
            assert_eq!(recognise(head, given), None, "{given:?}");
        }
    }
}
