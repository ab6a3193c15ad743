//! A trace file to lines of text, one for each record, for debugging:
//! `cargo run -p stage2-contract --example dump -- FILE`.

use std::error::Error;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use stage2_contract::trace::{Ending, Reader, Record};

fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1) else {
        eprintln!("usage: dump FILE    (FILE is a spool, HOST-PID.s2t)");
        return ExitCode::from(2);
    };
    match Reader::open(path).map_err(Into::into).and_then(dump) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read our output has seen enough.
        Err(error) if is_broken_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dump: {error}");
            ExitCode::FAILURE
        }
    }
}

fn dump<R: io::Read>(mut reader: Reader<R>) -> Result<(), Box<dyn Error>> {
    let mut out = BufWriter::new(io::stdout().lock());
    for record in &mut reader {
        writeln!(out, "{}", line(&record?))?;
    }
    let end = match reader.end() {
        Ending::Complete => "complete".to_owned(),
        Ending::Open => "no end: the process was killed, or still runs".to_owned(),
        Ending::Torn { at_byte, lost_bytes } => {
            format!("torn at byte {at_byte}: the last {lost_bytes} bytes could not be read")
        }
    };
    writeln!(out, "# {end}; {:?}", reader.skipped())?;
    out.flush()?;
    Ok(())
}

/// A record in Rust's debug notation, which escapes control characters; byte strings as text.
fn line(record: &Record) -> String {
    match record {
        Record::Name { id, bytes } => format!("Name {{ id: {id}, bytes: {} }}", text(bytes)),
        Record::Thread { id, os_tid, name } => {
            format!("Thread {{ id: {id}, os_tid: {os_tid}, name: {} }}", text(name))
        }
        Record::Device(device) => {
            let mut rest = device.clone();
            let name = std::mem::take(&mut rest.name);
            format!("Device {} {rest:?}", text(&name))
        }
        other => format!("{other:?}"),
    }
}

/// Bytes that are not printable ASCII as `\n`, `\xff` and the like.
fn text(bytes: &[u8]) -> String {
    format!("\"{}\"", bytes.escape_ascii())
}

fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}
