//! A trace file, or all pieces of one that was cut -> its records, in order, as one stream.

use std::collections::VecDeque;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustc_hash::FxHashSet;
use stage2_contract::order::Order as _;
use stage2_contract::trace::{Ending, MonoNs, ReadError, Reader, Record, Skipped, pieces};

use super::inferred::{Marked, Marks};
use crate::files;
use crate::progress::Metered;

/// The trace that a file belongs to: the file, or all of its pieces that lie next to it, by number.
pub fn files_of(path: &Path) -> Vec<PathBuf> {
    let alone = || vec![path.to_owned()];
    let Some((stem, _)) = piece_of(path) else { return alone() };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let Ok(entries) = fs::read_dir(folder.unwrap_or(Path::new("."))) else { return alone() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut found: Vec<(u64, PathBuf)> = paths
        .filter_map(|path| piece_of(&path).filter(|(of, _)| *of == stem).map(|(_, n)| (n, path)))
        .collect();
    found.sort();
    // One that was being compressed lies there twice.
    found.dedup_by_key(|(number, _)| *number);
    if found.is_empty() { alone() } else { found.into_iter().map(|(_, path)| path).collect() }
}

/// Keeps one path per trace: that of its first piece.
pub fn one_of_each(mut files: Vec<PathBuf>) -> Vec<PathBuf> {
    let place =
        |path: &Path| piece_of(path).map(|(stem, n)| (path.parent().map(Path::to_owned), stem, n));
    files.order_by_cached_key(|path| (place(path), path.clone()));
    files.dedup_by(|later, first| match (place(later), place(first)) {
        (Some((folder, stem, _)), Some(other)) => (folder, stem) == (other.0, other.1),
        _ => false,
    });
    files.sort();
    files
}

/// Stem and number of a piece, by the name of its file.
fn piece_of(path: &Path) -> Option<(String, u64)> {
    let (stem, number) = pieces::piece_of(path.file_name()?.to_str()?)?;
    Some((stem.to_owned(), number))
}

type Input = Box<dyn Read + Send>;

/// Reads a trace. What is wrong with a piece is an item; the next piece follows it.
pub struct Trace {
    reader: Option<Reader<Input>>,
    rest: VecDeque<PathBuf>,
    is_metered: bool,
    join: pieces::Join,
    ready: VecDeque<Record>,
    skipped: Skipped,
    torn: u64,
    ending: Ending,
    is_continued: bool,
    marked: Option<Marked>,
    until: Option<MonoNs>,
    /// Ranges that opened after `until`.
    beyond: FxHashSet<u64>,
}

impl Trace {
    /// Opens the trace of a file.
    ///
    /// # Errors
    /// When its first file is none that this version can read.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        Self::of(path, false)
    }

    /// Like [`Trace::open`]; if `is_metered`, it reports progress while it reads.
    pub(super) fn of(path: &Path, is_metered: bool) -> Result<Self, ReadError> {
        let mut rest = VecDeque::from(files_of(path));
        let first = rest.pop_front().unwrap_or_else(|| path.to_owned());
        let reader = Some(reader(&first, is_metered)?);
        let mut join = pieces::Join::default();
        join.begin_file();
        let (ready, skipped) = (VecDeque::new(), Skipped::default());
        let (torn, ending, is_continued) = (0, Ending::Open, false);
        let (marked, until, beyond) = (None, None, FxHashSet::default());
        Ok(Self {
            reader,
            rest,
            is_metered,
            join,
            ready,
            skipped,
            torn,
            ending,
            is_continued,
            marked,
            until,
            beyond,
        })
    }

    /// Adds ranges at the places of the marks. Call it before the first record is read.
    pub fn marked(mut self, marks: Option<&Arc<Marks>>) -> Self {
        self.marked = marks.map(|marks| Marked::new(Arc::clone(marks)));
        self
    }

    /// Leaves out what ranges did after this moment: which GPU work they launched is not known.
    pub fn until(mut self, until: Option<MonoNs>) -> Self {
        self.until = until;
        self
    }

    /// Whether it is left out by [`Trace::until`].
    fn is_beyond(&mut self, record: &Record) -> bool {
        let Some(until) = self.until else { return false };
        match record {
            Record::RangeOpen(open) if open.start > until => {
                self.beyond.insert(open.range);
                true
            }
            Record::RangeClose { end, .. } => *end > until,
            Record::Mark(mark) => mark.at > until,
            Record::RangeSample { range, .. } | Record::RangeFields { range, .. } => {
                self.beyond.contains(range)
            }
            _ => false,
        }
    }

    /// How it ends, after the last record; bytes behind the last whole frame of any file count.
    pub fn end(&self) -> Ending {
        match self.ending {
            Ending::Torn { at_byte, .. } => Ending::Torn { at_byte, lost_bytes: self.torn },
            _ if self.torn > 0 => Ending::Torn { at_byte: 0, lost_bytes: self.torn },
            other => other,
        }
    }

    /// What was left out, after the last record.
    pub fn skipped(&self) -> Skipped {
        self.skipped
    }

    /// Pieces that are not there, in words; nothing where none is missing.
    pub fn missing(&self) -> Option<String> {
        let gaps = self.join.gaps().iter().copied();
        let mut gaps: Vec<String> = gaps.map(pieces::gap_in_words).collect();
        if self.is_continued {
            gaps.push(format!("those after piece {}", self.join.number()));
        }
        (!gaps.is_empty()).then(|| gaps.join(", "))
    }

    /// Ends a file and begins the next; false where there is none.
    fn turn(&mut self) -> Result<bool, ReadError> {
        if let Some(reader) = self.reader.take() {
            let more = reader.skipped();
            self.skipped.corrupt_frames += more.corrupt_frames;
            self.skipped.corrupt_bytes += more.corrupt_bytes;
            self.skipped.unknown_frames += more.unknown_frames;
            self.skipped.unknown_records += more.unknown_records;
            self.ending = reader.end();
            if let Ending::Torn { lost_bytes, .. } = self.ending {
                self.torn += lost_bytes;
            }
        }
        let Some(next) = self.rest.pop_front() else { return Ok(false) };
        self.reader = Some(reader(&next, self.is_metered)?);
        self.join.begin_file();
        Ok(true)
    }
}

impl Iterator for Trace {
    type Item = Result<Record, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let Some(mut marked) = self.marked.take() else { return self.next_record() };
        let next = marked.next(|| self.next_record());
        self.marked = Some(marked);
        next
    }
}

impl Trace {
    fn next_record(&mut self) -> Option<Result<Record, ReadError>> {
        loop {
            if let Some(record) = self.ready.pop_front() {
                return Some(Ok(record));
            }
            match self.reader.as_mut().and_then(Iterator::next) {
                // Most records; a trace in one file knows no others.
                Some(Ok(work @ Record::Work(_))) => return Some(Ok(work)),
                Some(Ok(record)) if self.is_beyond(&record) => {}
                Some(Ok(record)) => {
                    let ready = &mut self.ready;
                    self.join.take(record, |record| ready.push_back(record));
                }
                Some(Err(error)) => return Some(Err(error)),
                None => match self.turn() {
                    Ok(true) => {}
                    Ok(false) => {
                        self.is_continued |= self.join.is_continued();
                        let ready = &mut self.ready;
                        self.join.finish(|record| ready.push_back(record));
                        return self.ready.pop_front().map(Ok);
                    }
                    Err(error) => return Some(Err(error)),
                },
            }
        }
    }
}

fn reader(path: &Path, is_metered: bool) -> Result<Reader<Input>, ReadError> {
    let failed = |source| ReadError::Open { path: path.to_owned(), source };
    let input: Input = if files::is_compressed(path) {
        Box::new(files::unpacked(path).map_err(failed)?)
    } else {
        let file = files::open(path).map_err(failed)?;
        if is_metered { Box::new(Metered::of(file, path)) } else { Box::new(file) }
    };
    Reader::named(input, path.to_owned())
}
