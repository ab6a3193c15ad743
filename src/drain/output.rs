//! Records into the spool file, where one was asked for; remembers what the summary shows.

use std::cell::Cell;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustc_hash::FxHashMap;
use stage2_spool::{Device, GpuWork, Process, Record, Writer};
use stage2_text::redact::Redactor;

use crate::base::counters::Counters;
use crate::base::options::Options;
use crate::base::{diag, new_file};
use crate::drain::intern::Sink;
use crate::drain::own_file::{LostDescriptor, OwnFile};

/// Longer command lines are cut, bytes.
const ARGV_BYTES: usize = 64 << 10;
/// Facts about the process and its GPUs that are kept, far more than there are.
const MAX_FACTS: usize = 1 << 10;

/// The way out of the process.
#[derive(Default)]
pub(super) struct Output {
    writer: Option<Writer<OwnFile>>,
    /// The file, and the bytes that it took so far.
    file: Option<(PathBuf, Rc<Cell<u64>>)>,
    failed: bool,
    /// What describes the process, as long as it may have to be said again.
    facts: Vec<Record>,
    /// Dropped frames after which names were, and facts were, said again.
    names_lost: u64,
    facts_lost: u64,
    /// Devices that work ran on, and whether somebody was told.
    used: FxHashMap<u32, bool>,
}

impl Output {
    /// Opens `STAGE2_OUT/HOST-PID.s2t`, or `HOST-PID-wN.s2t` of a window that begins late. Where that fails
    /// one line says so and nothing is written.
    pub(super) fn open(options: &Options, window: Option<u64>) -> Self {
        let process = this_process(&options.redact);
        let created = |folder| create(folder, &process, window);
        let (writer, file) = options.out.as_deref().map_or((None, None), |folder| match created(folder) {
            Ok((writer, path, written)) => (Some(writer), Some((path, written))),
            Err(error) => {
                diag::warn(format_args!(
                    "no trace file in {}: {error}; set STAGE2_OUT to a folder that can be written",
                    folder.display()
                ));
                (None, None)
            }
        });
        let mut output = Output { writer, file, ..Output::default() };
        output.put(Record::Process(process));
        output
    }

    /// The trace file, if there is one.
    pub(super) fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|(path, _)| path.as_path())
    }

    /// Bytes of the trace file.
    pub(super) fn bytes(&self) -> u64 {
        self.file.as_ref().map_or(0, |(_, written)| written.get())
    }

    pub(super) fn tell<K: Into<String>>(&mut self, facts: impl IntoIterator<Item = (K, String)>) {
        for (key, value) in facts {
            self.put(Record::Meta { key: key.into(), value });
        }
    }

    pub(super) fn fact(&mut self, key: &str, value: String) {
        self.put(Record::Meta { key: key.to_owned(), value });
    }

    /// Notes how many of something there were, if there were any.
    pub(super) fn count(&mut self, key: &str, count: u64) {
        if count > 0 {
            self.fact(key, count.to_string());
        }
    }

    pub(super) fn work(&mut self, work: &GpuWork) {
        if let Some(writer) = &mut self.writer {
            writer.work(work);
        }
    }

    /// Whether definitions were lost since the last call.
    #[inline]
    pub(super) fn take_lost(&mut self) -> bool {
        let lost = self.writer.as_ref().map_or(0, Writer::dropped_frames);
        std::mem::replace(&mut self.names_lost, lost) != lost
    }

    /// Writes the losses so far and everything before them to the file.
    pub(super) fn flush(&mut self, counters: &Counters) {
        if let Some(writer) = &mut self.writer {
            let lost = writer.dropped_frames();
            if std::mem::replace(&mut self.facts_lost, lost) != lost {
                self.facts.iter().for_each(|fact| writer.write(fact));
            }
        }
        self.put(Record::Losses(counters.losses()));
        self.write_out(counters);
    }

    fn write_out(&mut self, counters: &Counters) {
        let Some(writer) = &mut self.writer else { return };
        let result = writer.flush();
        counters.spool_bytes_unwritten.set(writer.unwritten_bytes());
        match result {
            Err(error) if LostDescriptor::is(&error) => {
                diag::warn(format_args!(
                    "{error}: the file ends here; let it close what it inherited before it \
                     uses CUDA or NVTX"
                ));
                self.writer = None;
            }
            Err(error) if !std::mem::replace(&mut self.failed, true) => diag::warn(format_args!(
                "the trace file cannot be written ({error}): what follows is lost; free some space"
            )),
            _ => {}
        }
    }

    /// Ends the file in order.
    pub(super) fn end(&mut self, counters: &Counters, reason: &str) {
        self.put(Record::Losses(counters.losses()));
        self.put(Record::End { reason: reason.to_owned() });
        self.write_out(counters);
    }

    /// Of two descriptions of a GPU the later one holds.
    pub(super) fn devices(&self) -> FxHashMap<u32, &Device> {
        let devices = self.facts.iter().filter_map(|fact| match fact {
            Record::Device(device) => Some((device.id, device)),
            _ => None,
        });
        devices.collect()
    }

    /// Devices that work ran on and whose description is there, each once.
    pub(super) fn take_used(&mut self) -> Vec<(u32, [u8; 16])> {
        if self.used.values().all(|told| *told) {
            return Vec::new();
        }
        let devices = self.devices();
        let new = self.used.iter().filter(|(_, told)| !**told);
        let new = new.filter_map(|(id, _)| devices.get(id).map(|device| (*id, device.uuid)));
        let new: Vec<_> = new.collect();
        self.used.extend(new.iter().map(|(id, _)| (*id, true)));
        new
    }

    pub(super) fn is_simulated(&self) -> bool {
        let is = |fact: &_| matches!(fact, Record::Meta { key, .. } if key == "cupti.simulated");
        self.facts.iter().any(is)
    }
}

impl Sink for Output {
    fn put(&mut self, record: Record) {
        if matches!(
            record,
            Record::Process(_) | Record::Device(_) | Record::Meta { .. } | Record::CounterSet(_)
        ) && self.facts.len() < MAX_FACTS
        {
            self.facts.push(record.clone());
        }
        if let Record::Queue(queue) = &record {
            self.used.entry(queue.device).or_insert(false);
        }
        if let Some(writer) = &mut self.writer {
            writer.write(&record);
        }
    }
}

/// A new file, its path, and the bytes that it takes from then on.
type Created = (Writer<OwnFile>, PathBuf, Rc<Cell<u64>>);

fn create(folder: &Path, process: &Process, window: Option<u64>) -> io::Result<Created> {
    new_file::create_folder(folder)?;
    let name = stage2_spool::file_name(&process.host, process.pid);
    let stem = name.strip_suffix(".s2t").unwrap_or(&name);
    let stem = window.map_or(stem.to_owned(), |number| format!("{stem}-w{number}"));
    let name = format!("{stem}.s2t");
    // A process keeps its id over an exec, and ids come round again: never write over a capture.
    let names = std::iter::once(name.clone()).chain((2..100).map(|n| format!("{stem}-{n}.s2t")));
    for name in names {
        let path = folder.join(name);
        match new_file::create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            file => {
                let file = OwnFile::new(file?)?;
                let written = file.written();
                return Ok((Writer::new(file)?, path, written));
            }
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{stem}*.s2t exist 99 times")))
}

fn this_process(redact: &Redactor) -> Process {
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut cmdline = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    // One record has to hold it.
    cmdline.truncate(ARGV_BYTES);
    let mut argv: Vec<String> = cmdline.split(|&byte| byte == 0).map(lossy).collect();
    // The last argument ends in a NUL, so the last part is empty.
    argv.pop();
    let host = std::fs::read("/proc/sys/kernel/hostname").unwrap_or_default();
    Process {
        pid: std::process::id(),
        ppid: std::os::unix::process::parent_id(),
        host: lossy(host.trim_ascii()),
        exe: std::env::current_exe().map(|exe| exe.display().to_string()).unwrap_or_default(),
        argv: redact.words(&argv),
        collector: env!("CARGO_PKG_VERSION").to_owned(),
    }
}
