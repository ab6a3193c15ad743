//! CSV (RFC 4180) with a row for each piece of GPU work, for spreadsheets and short scripts.
//!
//! No field begins with what a spreadsheet takes for a formula, and a value that is absent is an empty
//! field.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use stage2_contract::text::{csv_field, uuid_text};
use stage2_contract::trace::{RANGE_OUTSIDE, RANGE_UNKNOWN, Shape};
use stage2_read::trace::events::{Event, What, Work};

use crate::run::Process;
use crate::selection::{Holds, Selected};
use crate::{Counts, ExportError, names, output};

/// Piece of work, and what holds for all of its process.
struct Row<'r> {
    work: &'r Work<'r>,
    host: &'r str,
    rank: &'r str,
    pid: &'r str,
    /// UUID of its GPU; empty: not known.
    gpu: &'r str,
}

/// A name, and the field of a row below it.
type Column = (&'static str, fn(&Row<'_>) -> String);

const COLUMNS: [Column; 29] = [
    ("kind", |r| kind(r.work.what).to_owned()),
    ("kernel_name", |r| csv_field(&names::full(r.work))),
    ("mangled_name", |r| match r.work.what {
        What::Kernel(_, name) => csv_field(&name.mangled),
        _ => String::new(),
    }),
    ("stage", |r| csv_field(r.work.path.stage())),
    ("range_path", |r| csv_field(&r.work.path.label)),
    ("range_id", |r| {
        some((![RANGE_OUTSIDE, RANGE_UNKNOWN].contains(&r.work.range)).then_some(r.work.range))
    }),
    ("start_ns", |r| some(r.work.span.map(|span| span.start_ns))),
    ("end_ns", |r| some(r.work.span.map(|span| span.end_ns))),
    ("duration_ns", |r| some(r.work.span.map(|span| span.ns()))),
    ("host", |r| csv_field(r.host)),
    ("rank", |r| r.rank.to_owned()),
    ("pid", |r| r.pid.to_owned()),
    ("device", |r| r.work.queue.device.to_string()),
    ("device_uuid", |r| r.gpu.to_owned()),
    ("context", |r| r.work.queue.context.to_string()),
    ("stream", |r| r.work.queue.stream.to_string()),
    ("correlation", |r| r.work.correlation.to_string()),
    ("graph_node", |r| some((r.work.graph_node != 0).then_some(r.work.graph_node))),
    ("grid_x", |r| launch(r, |shape| shape.grid[0])),
    ("grid_y", |r| launch(r, |shape| shape.grid[1])),
    ("grid_z", |r| launch(r, |shape| shape.grid[2])),
    ("block_x", |r| launch(r, |shape| shape.block[0])),
    ("block_y", |r| launch(r, |shape| shape.block[1])),
    ("block_z", |r| launch(r, |shape| shape.block[2])),
    ("registers_per_thread", |r| launch(r, |shape| shape.registers_per_thread)),
    ("static_shared_bytes", |r| launch(r, |shape| shape.static_shared_bytes)),
    ("dynamic_shared_bytes", |r| launch(r, |shape| shape.dynamic_shared_bytes)),
    ("local_bytes_per_thread", |r| launch(r, |shape| shape.local_bytes_per_thread)),
    ("bytes", |r| match r.work.what {
        What::Copy { bytes, .. } | What::Fill { bytes } => bytes.to_string(),
        What::Kernel(..) | What::Graph { .. } => String::new(),
    }),
];

fn kind(what: What<'_>) -> &'static str {
    match what {
        What::Kernel(..) => "kernel",
        What::Copy { .. } => "copy",
        What::Fill { .. } => "fill",
        What::Graph { .. } => "graph",
    }
}

fn some(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn launch(row: &Row<'_>, value: fn(&Shape) -> u32) -> String {
    match row.work.what {
        What::Kernel(shape, _) => value(shape).to_string(),
        _ => String::new(),
    }
}

pub(crate) fn write(
    selected: &Selected<'_>,
    out: &Path,
    counts: &mut Counts,
) -> Result<Vec<PathBuf>, ExportError> {
    output::file(out, |file| table(selected, out, file, counts))
}

fn table(
    selected: &Selected<'_>,
    path: &Path,
    out: &mut dyn Write,
    counts: &mut Counts,
) -> Result<(), ExportError> {
    let failed = |error: csv::Error| ExportError::write(path)(error.into());
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(out);
    writer.write_record(COLUMNS.map(|(name, _)| name)).map_err(failed)?;
    for process in selected.run.processes() {
        let rank = some(process.rank);
        let pid = some(process.file.process().map(|traced| traced.pid));
        let (gpus, host) = (uuids(selected, process), process.host());
        selected.for_each(process, Holds::Work, counts, |event| {
            let Event::Work(work) = event else { return Ok(()) };
            let gpu = gpus.get(&work.queue.device).map_or("", String::as_str);
            let row = Row { work: &work, host: &host, rank: &rank, pid: &pid, gpu };
            writer.write_record(COLUMNS.map(|(_, field)| field(&row))).map_err(failed)
        })?;
    }
    writer.flush().map_err(ExportError::write(path))
}

/// GPUs of a process by the number that it gives them: `GPU-` and the UUID, as reports have it.
fn uuids(selected: &Selected<'_>, process: &Process) -> BTreeMap<u32, String> {
    let uuid = |(&device, &of_run): (&u32, &u32)| {
        let known = &selected.run.gpus().get(of_run as usize)?.device;
        (known.uuid != [0; 16]).then(|| (device, format!("GPU-{}", uuid_text(known.uuid))))
    };
    process.gpus.iter().filter_map(uuid).collect()
}
