//! Records into the trace file, where one was asked for; remembers what the summary shows.

use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustc_hash::FxHashMap;
use stage2_contract::settings::{Detail, Rotate};
use stage2_contract::text::redact::Redactor;
use stage2_contract::trace::{Device, GpuWork, Losses, Process, Record, Writer, pieces};

use crate::base::counters::Counters;
use crate::base::options::Options;
use crate::base::{diag, new_file};
use crate::drain::intern::Sink;
use crate::drain::own_file::{Gauge, LostDescriptor, NewFile, OwnFile};
use crate::drain::rotation::Pieces;
use crate::drain::summary_file::SummaryFile;

/// Longer command lines are cut, bytes.
const ARGV_BYTES: usize = 64 << 10;
/// Facts about the process and its GPUs that are kept, far more than there are.
const MAX_FACTS: usize = 1 << 10;
/// Length of a piece where only some stay, ms.
const AUTO_PIECE_MS: u64 = 60_000;
/// Fact that states what the file leaves out.
const DETAIL: &str = "detail";

#[derive(Default)]
pub(super) struct Output {
    writer: Option<Writer<OwnFile>>,
    file: Option<(PathBuf, Rc<Gauge>)>,
    summary: Option<SummaryFile>,
    detail: Detail,
    /// Nothing where the trace is one file.
    pieces: Option<Pieces>,
    failed: bool,
    /// What describes the process, as long as it may have to be said again.
    facts: Vec<Record>,
    /// Dropped frames after which names were, and facts were, said again.
    names_lost: u64,
    facts_lost: u64,
    /// Devices that work ran on, and whether someone was told.
    used: FxHashMap<u32, bool>,
}

impl Output {
    /// Opens `STAGE2_OUT/HOST-PID.s2t`, or `HOST-PID-wN.s2t` of a window that begins late, or the first piece
    /// of a trace that is cut. Where that fails one line reports it and nothing is written.
    pub(super) fn open(options: &Options, window: Option<u64>) -> Self {
        let process = this_process(&options.redact);
        let mut pieces = None;
        let detail = options.detail;
        let by_minute = Rotate { every_ms: Some(AUTO_PIECE_MS), ..Rotate::default() };
        let rotate = options.rotate.or((detail == Detail::Auto).then_some(by_minute));
        let mut created = |folder: &Path| match rotate {
            None => create(folder, &process, window),
            Some(rotate) => {
                let (begun, file) = Pieces::begin(rotate, folder, &stem(&process), window)?;
                pieces = Some(begun);
                Ok(file)
            }
        };
        let (writer, file) = options.out.as_deref().map_or((None, None), |folder| match created(folder) {
            Ok(NewFile { writer, path, gauge }) => (Some(writer), Some((path, gauge))),
            Err(error) => {
                diag::warn(format_args!(
                    "no trace file in {}: {error}; set STAGE2_OUT to a folder that can be written",
                    folder.display()
                ));
                (None, None)
            }
        });
        // Named as the trace is, which has a number where its name was taken.
        let stem = file.as_ref().and_then(|(path, _)| path.file_stem()?.to_str());
        let stem = stem.map(|stem| {
            stem.rsplit_once("-p").filter(|_| pieces.is_some()).map_or(stem, |(stem, _)| stem)
        });
        let folder = options.out.as_deref().filter(|_| detail.summarises());
        let summary = folder.zip(stem).and_then(|(folder, stem)| SummaryFile::begin(folder, stem));
        if detail == Detail::Auto
            && summary.is_some()
            && let Some(pieces) = &mut pieces
        {
            pieces.keep_unusual();
        }
        // Without a summary all records are kept: something has to be.
        let detail = if summary.is_some() { detail } else { Detail::Records };
        let mut output = Output { writer, file, pieces, summary, detail, ..Output::default() };
        output.put(Record::Process(process));
        if detail == Detail::Summary {
            output.fact(DETAIL, "summary".to_owned());
        }
        output.say_piece();
        output.say_open_before(0, 0);
        output
    }

    /// The trace file, or the piece of it that is written, if there is one.
    pub(super) fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|(path, _)| path.as_path())
    }

    /// Bytes of the trace file, of all its pieces.
    pub(super) fn bytes(&self) -> u64 {
        self.pieces.as_ref().map_or(0, |pieces| pieces.bytes) + self.file_bytes()
    }

    fn file_bytes(&self) -> u64 {
        self.file.as_ref().map_or(0, |(_, gauge)| gauge.written.get())
    }

    #[inline]
    pub(super) fn pieces(&self) -> Option<&Pieces> {
        self.pieces.as_ref()
    }

    #[inline]
    pub(super) fn is_piece_over(&self) -> bool {
        let pieces = self.pieces.as_ref().filter(|_| self.writer.is_some());
        pieces.is_some_and(|pieces| pieces.is_over(self.file_bytes()))
    }

    /// Ends the piece in order and begins the next one with what describes the process. Where there can be no
    /// next one, this one goes on: false.
    pub(super) fn begin_piece(&mut self, counters: &Counters) -> bool {
        let Some(pieces) = &mut self.pieces else { return false };
        let NewFile { writer, path, gauge } = match pieces.create_next() {
            Ok(file) => file,
            Err(error) => {
                if let Some((path, gauge)) = &self.file {
                    gauge.limit.set(pieces.most_bytes());
                    if !std::mem::replace(&mut self.failed, true) {
                        let folder = path.parent().unwrap_or(path).display();
                        diag::warn(format_args!(
                            "no further piece of the trace file can be begun in {folder} ({error}): the last \
                             one goes on, up to twice its size, and what follows is lost; make room there"
                        ));
                    }
                }
                return false;
            }
        };
        if let Some(summary) = &mut self.summary
            && summary.take_unusual()
        {
            pieces.note_unusual();
        }
        let losses = counters.losses();
        self.lift_limit();
        self.put_losses(&losses);
        self.put(Record::End { reason: pieces::CONTINUED.to_owned() });
        self.write_out(counters);
        let bytes = self.file_bytes();
        let old = self.writer.replace(writer);
        if let Some(pieces) = &mut self.pieces {
            // What it owes is lost with it, and told by the next one.
            pieces.unwritten += old.map_or(0, |old| old.unwritten_bytes());
            pieces.bytes += bytes;
            pieces.turn(path.clone(), losses);
        }
        self.file = Some((path, gauge));
        (self.names_lost, self.facts_lost) = (0, 0);
        if let Some(writer) = &mut self.writer {
            self.facts.iter().for_each(|fact| writer.write(fact));
        }
        self.say_piece();
        true
    }

    /// What was open before is said: `open` ranges, with numbers below `first_range`.
    pub(super) fn end_head(&mut self, open: u64, first_range: u64, counters: &Counters) {
        self.say_open_before(open, first_range);
        self.flush(counters);
        let bytes = self.file_bytes();
        self.pieces.iter_mut().for_each(|pieces| pieces.begins_at(bytes));
    }

    fn say_piece(&mut self) {
        let Some((pieces, writer)) = self.pieces.as_ref().zip(self.writer.as_mut()) else { return };
        pieces.head().for_each(|record| writer.write(&record));
    }

    fn say_open_before(&mut self, open: u64, first_range: u64) {
        let Some((pieces, writer)) = self.pieces.as_mut().zip(self.writer.as_mut()) else { return };
        writer.write(&pieces.end_head(open, first_range));
    }

    /// The last words of a file may be beyond its limit.
    fn lift_limit(&self) {
        if let Some((_, gauge)) = &self.file {
            gauge.limit.set(u64::MAX);
        }
    }

    fn put_losses(&mut self, losses: &Losses) {
        let untold = self.pieces.as_ref().map_or(*losses, |pieces| pieces.untold(losses));
        if let Some(summary) = &mut self.summary {
            summary.take(&Record::Losses(*losses));
        }
        if let Some(writer) = &mut self.writer {
            writer.write(&Record::Losses(untold));
        }
    }

    pub(super) fn tell<K: Into<String>>(&mut self, facts: impl IntoIterator<Item = (K, String)>) {
        for (key, value) in facts {
            self.put(Record::Meta { key: key.into(), value });
        }
    }

    pub(super) fn fact(&mut self, key: &str, value: String) {
        self.put(Record::Meta { key: key.to_owned(), value });
    }

    pub(super) fn count(&mut self, key: &str, count: u64) {
        if count > 0 {
            self.fact(key, count.to_string());
        }
    }

    pub(super) fn work(&mut self, work: &GpuWork) {
        if let Some(summary) = &mut self.summary {
            summary.work(work);
        }
        if let Some(writer) = self.writer.as_mut().filter(|_| self.detail != Detail::Summary) {
            writer.work(work);
        }
        if let Some(pieces) = &mut self.pieces {
            pieces.note_event();
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
                let head = self.pieces.iter().flat_map(Pieces::head_again);
                head.for_each(|record| writer.write(&record));
            }
        }
        self.put_losses(&counters.losses());
        self.write_out(counters);
    }

    fn write_out(&mut self, counters: &Counters) {
        if let Some(summary) = &mut self.summary {
            summary.write_out(false);
        }
        let Some(writer) = &mut self.writer else { return };
        let result = writer.flush();
        let earlier = self.pieces.as_ref().map_or(0, |pieces| pieces.unwritten);
        counters.spool_bytes_unwritten.set(earlier + writer.unwritten_bytes());
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

    /// Says something that holds until it is said otherwise, and not in the next piece.
    pub(super) fn say(&mut self, key: &str, value: String, counters: &Counters) {
        if let Some(writer) = &mut self.writer {
            writer.write(&Record::Meta { key: key.to_owned(), value });
        }
        self.write_out(counters);
    }

    pub(super) fn end(&mut self, counters: &Counters, reason: &str) {
        self.lift_limit();
        self.put_losses(&counters.losses());
        self.put(Record::End { reason: reason.to_owned() });
        if let Some((_, gauge)) = &self.file {
            gauge.ends.set(true);
        }
        self.write_out(counters);
        if let Some(mut summary) = self.summary.take() {
            summary.write_out(true);
        }
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
        if let Some(summary) = &mut self.summary {
            summary.take(&record);
        }
        if let Some(writer) = &mut self.writer
            && (self.detail != Detail::Summary || is_of_process(&record))
        {
            writer.write(&record);
        }
        if let Some(pieces) = &mut self.pieces {
            pieces.note(&record);
        }
    }
}

/// Whether a record is kept where ranges and work are not.
fn is_of_process(record: &Record) -> bool {
    matches!(
        record,
        Record::Process(_)
            | Record::Meta { .. }
            | Record::Anchor(_)
            | Record::Device(_)
            | Record::DeviceState(_)
            | Record::Losses(_)
            | Record::End { .. }
    )
}

/// What the names of the files of a process begin with.
fn stem(process: &Process) -> String {
    let name = stage2_contract::trace::file_name(&process.host, process.pid);
    name.strip_suffix(".s2t").unwrap_or(&name).to_owned()
}

fn create(folder: &Path, process: &Process, window: Option<u64>) -> io::Result<NewFile> {
    new_file::create_folder(folder)?;
    let stem = stem(process);
    let stem = window.map_or(stem.clone(), |number| format!("{stem}-w{number}"));
    let name = format!("{stem}.s2t");
    // A process keeps its id over an exec, and ids come round again: never write over a capture.
    let names = std::iter::once(name).chain((2..100).map(|n| format!("{stem}-{n}.s2t")));
    for name in names {
        match NewFile::create(folder.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            file => return file,
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
