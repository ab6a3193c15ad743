//! The records of the trace file, as they are written -> the summary next to it, and whether something unusual happened.

use std::io::{self, Write as _};
use std::path::Path;

use stage2_contract::trace::{GpuWork, Record};
use stage2_summary::{Summariser, Writer};

use crate::base::{diag, new_file};
use crate::drain::own_file::OwnFile;

/// Names that are tried: ids of processes come round again.
const NAMES: u64 = 100;

/// The summary of this process.
pub(super) struct SummaryFile {
    summariser: Summariser,
    /// Nothing once it cannot be written.
    file: Option<OwnFile>,
}

impl SummaryFile {
    /// Begins `STEM.s2s`. Where that fails one line reports it, and nothing is summarised.
    pub(super) fn begin(folder: &Path, stem: &str) -> Option<Self> {
        let created = new_file::create_folder(folder).and_then(|()| create(folder, stem));
        let file = created.inspect_err(|error| {
            diag::warn(format_args!(
                "no summary in {}: {error}; set STAGE2_OUT to a folder that can be written",
                folder.display()
            ));
        });
        Some(Self { summariser: Summariser::default(), file: Some(file.ok()?) })
    }

    #[inline]
    pub(super) fn take(&mut self, record: &Record) {
        self.summariser.take(record);
    }

    #[inline]
    pub(super) fn work(&mut self, work: &GpuWork) {
        self.summariser.work(work);
    }

    /// Whether a step left the usual band since the last call.
    pub(super) fn take_unusual(&mut self) -> bool {
        self.summariser.take_unusual()
    }

    /// Writes the minutes that are over; at the end all.
    pub(super) fn write_out(&mut self, ends: bool) {
        if ends {
            self.summariser.finish();
        }
        let frames: Vec<u8> = self.summariser.ready().flat_map(|entry| entry.frame()).collect();
        let Some(file) = self.file.as_mut().filter(|_| !frames.is_empty()) else { return };
        // A frame that is cut ends what a reader takes: nothing may follow it.
        if let Err(error) = file.write_all(&frames) {
            diag::warn(format_args!("the summary cannot be written ({error}): it ends here"));
            self.file = None;
        }
    }
}

fn create(folder: &Path, stem: &str) -> io::Result<OwnFile> {
    let names = (1..NAMES).map(|number| match number {
        1 => format!("{stem}.s2s"),
        number => format!("{stem}-{number}.s2s"),
    });
    for name in names {
        let path = folder.join(name);
        match new_file::create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            file => {
                let mut file = OwnFile::new(file?, path)?;
                Writer::new(&mut file)?;
                return Ok(file);
            }
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{stem}*.s2s exist 99 times")))
}
