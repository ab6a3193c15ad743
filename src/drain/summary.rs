//! The aggregates into the table that is shown when the guest ends, as text and as `kernels.md`.

mod markdown;
mod rows;
mod shown;
mod terminal;

pub(crate) use shown::ShownPaths;

use std::fmt;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use rustc_hash::FxHashMap;
use stage2_contract::trace::Device;

use crate::base::counters::{Counter, Counters};
use crate::base::options::{Options, Summary as Target};
use crate::base::{diag, new_file, timed_write};
use crate::drain::aggregate::Totals;
use crate::drain::intern::Interner;
use crate::guest::gpu::OffReason;

/// Above the ranges of libraries that are in none of the workload's.
const LIBRARIES: &str = "Library ranges outside the workload's ranges";

/// The longest that the summary waits for its reader. The end of the guest waits longer for us.
const PATIENCE: Duration = Duration::from_secs(2);

/// What there is to show.
pub(crate) struct Summary<'a> {
    pub(crate) options: &'a Options,
    pub(crate) counters: &'a Counters,
    pub(crate) names: &'a Interner,
    pub(crate) shown: ShownPaths,
    pub(crate) totals: Totals,
    /// Why no GPU work was recorded.
    pub(crate) gpu_off: Option<&'a OffReason>,
    /// The guest initialised CUDA.
    pub(crate) gpu_seen: bool,
    pub(crate) devices: FxHashMap<u32, &'a Device>,
    pub(crate) simulated: bool,
}

impl Summary<'_> {
    /// Writes the table where `STAGE2_SUMMARY` wants it and, without the launcher, `kernels.md`
    /// into `STAGE2_OUT`. A failure is one line.
    pub(crate) fn show(&self) {
        let written = match &self.options.summary {
            Target::Off => Ok(()),
            Target::Stderr => {
                timed_write::write_stderr(self.text(terminal::write).as_bytes(), PATIENCE)
            }
            Target::File(path) => append(path, &self.text(terminal::write)),
        };
        if let Err(error) = written {
            diag::warn(format_args!(
                "the summary could not be written: {error}; see STAGE2_SUMMARY"
            ));
        }
        if let (Some(folder), false) = (&self.options.out, self.options.launcher)
            && let Err(error) = write_new(folder, &self.text(markdown::write))
        {
            diag::warn(format_args!(
                "kernels.md could not be written to {}: {error}",
                folder.display()
            ));
        }
    }

    fn text(&self, write: fn(&Self, &mut String) -> fmt::Result) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = write(self, &mut text);
        text
    }

    /// One line that says whether the tables show everything.
    fn coverage(&self) -> String {
        let c = self.counters;
        let losses = [
            (&c.buffers_refused, "buffer requests refused (raise STAGE2_BUFFERS)"),
            (&c.range_events, "range events lost"),
            (
                &c.unreadable_records,
                "records unreadable, about (work that still ran at exit, for instance)",
            ),
            (&c.incomplete, "reason why GPU work is missing (see above)"),
            (&c.late_switches, "ranges opened before collection was on"),
            (&c.beyond_limits, "ranges or names beyond what is kept"),
            (&c.calls_turned_away, "NVTX calls not taken in"),
        ];
        let remarks = [
            (&c.range_fields, "fields of ranges left out"),
            (&c.unbalanced, "range ends without a start"),
            (&c.unclosed, "ranges still open"),
            (&c.names_cut, "range names cut"),
            (&c.aggregates_folded, "calls in folded rows"),
            (&c.filtered, "left out by STAGE2_RANGES or STAGE2_SAMPLE"),
        ];
        let always = [&c.unattributed, &c.cupti_dropped, &c.invalid_timestamps].map(Counter::get);
        let [unattributed, dropped, untimed] = always;
        let mut line = format!(
            "{} GPU records attributed, {unattributed} unattributed, {dropped} dropped by CUPTI, \
             {untimed} without valid times",
            c.attributed.get(),
        );
        let is_lossy = always.iter().any(|&n| n > 0) || losses.iter().any(|(n, _)| n.get() > 0);
        for (count, what) in losses.into_iter().chain(remarks) {
            if count.get() > 0 {
                line.push_str(&format!(", {} {what}", count.get()));
            }
        }
        let verdict = if is_lossy { "PARTIAL" } else { "complete" };
        format!("{verdict}: {line}")
    }

    fn device_name(&self, id: u32) -> String {
        let device = self.devices.get(&id);
        device
            .map_or_else(|| "GPU".to_owned(), |device| stage2_contract::text::visible(&device.name))
    }
}

fn append(path: &Path, text: &str) -> io::Result<()> {
    timed_write::write(new_file::append(path)?.as_fd(), text.as_bytes(), PATIENCE)
}

/// Writes `kernels.md`, or `kernels-PID.md` where another process of the guest was first, or that with a
/// number. Nothing that is there is written over: in a shared folder it may be anybody's.
fn write_new(folder: &Path, text: &str) -> io::Result<()> {
    let pid = std::process::id();
    let names = ["kernels.md".to_owned(), format!("kernels-{pid}.md")].into_iter();
    let exists = io::ErrorKind::AlreadyExists;
    for name in names.chain((2..100).map(|n| format!("kernels-{pid}-{n}.md"))) {
        match new_file::create(&folder.join(name)) {
            Err(error) if error.kind() == exists => {}
            file => return file?.write_all(text.as_bytes()),
        }
    }
    Err(io::Error::new(exists, format!("kernels-{pid}*.md exist 99 times")))
}
