//! A trace that grows, in one file or cut into pieces -> its records: at the end of a piece goes on with the next.

use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Read, Seek as _, SeekFrom};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use stage2_contract::trace::pieces::{Join, piece_name, piece_of};
use stage2_contract::trace::{Ending, ReadError, Reader, Record, Writer};
use stage2_read::files;

/// Pieces that are looked at ahead of the one that is read.
const AHEAD: u64 = 10_000;

pub(crate) type Trace = (PathBuf, String);

/// Folder and stem of the trace that a file is a piece of, and its number; nothing for other files.
pub(crate) fn place(path: &Path) -> Option<(Trace, u64)> {
    let (stem, number) = piece_of(path.file_name()?.to_str()?)?;
    Some(((path.parent()?.to_owned(), stem.to_owned()), number))
}

#[derive(Debug)]
pub(crate) struct Chain {
    follow: Follow,
    join: Join,
    /// Where the pieces lie, and the numbers of the first and of the present one.
    pieces: Option<(Trace, u64, u64)>,
    /// Bytes of earlier pieces that were read.
    before: u64,
    is_finished: bool,
}

impl Chain {
    pub(crate) fn new(path: PathBuf) -> Self {
        let pieces = place(&path).map(|(trace, number)| (trace, number, number));
        let mut join = Join::default();
        join.begin_file();
        Self { follow: Follow::new(path), join, pieces, before: 0, is_finished: false }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.follow.path
    }

    /// Device and number of the file that is read.
    pub(crate) fn identity(&self) -> (u64, u64) {
        self.follow.identity
    }

    /// How things stand. A piece that is over is not the end of the trace.
    pub(crate) fn state(&self) -> &FileState {
        match &self.follow.state {
            FileState::Ended if self.join.is_continued() => &FileState::Growing,
            state => state,
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.before.saturating_add(self.follow.at)
    }

    /// Bytes that are there and were not read.
    pub(crate) fn backlog(&self) -> u64 {
        let length = |path: &Path| fs::metadata(path).map_or(0, |found| found.len());
        let own = length(self.path()).saturating_sub(self.follow.at);
        let Some((trace, _, number)) = &self.pieces else { return own };
        let later = (1..AHEAD).map(|more| length(&file(trace, number + more)));
        own + later.take_while(|length| *length > 0).sum::<u64>()
    }

    /// Pieces that are or were not there, as first and last number.
    pub(crate) fn gaps(&self) -> &[(u64, u64)] {
        self.join.gaps()
    }

    /// All files that were read and are there yet, with how far.
    pub(crate) fn files(&self) -> Vec<(PathBuf, u64)> {
        let now = (self.path().to_owned(), self.follow.at);
        let Some((trace, first, number)) = &self.pieces else { return vec![now] };
        let earlier = (*first..*number).map(|number| file(trace, number));
        let earlier = earlier.filter_map(|path| Some((path.metadata().ok()?.len(), path)));
        earlier.map(|(bytes, path)| (path, bytes)).chain([now]).collect()
    }

    /// Reads on, `budget` bytes about.
    pub(crate) fn read(&mut self, budget: u64, mut take: impl FnMut(Record)) -> Taken {
        let mut all = Taken::default();
        loop {
            let join = &mut self.join;
            let left = budget.saturating_sub(all.bytes);
            let taken = self.follow.read(left, |record| match record {
                work @ Record::Work(_) => take(work),
                record => join.take(record, &mut take),
            });
            all.bytes += taken.bytes;
            all.corrupt_frames += taken.corrupt_frames;
            if all.bytes >= budget || !self.turn() {
                break;
            }
        }
        // Of a file of which nothing more is read, nothing is left to read.
        all.behind = if self.state().is_over() { 0 } else { self.backlog() };
        if self.state().is_over() && !std::mem::replace(&mut self.is_finished, true) {
            self.join.finish(take);
        }
        all
    }

    /// Goes to the next piece, where this one is over or gone; whether there is one.
    fn turn(&mut self) -> bool {
        let is_over = match &self.follow.state {
            FileState::Ended => self.join.is_continued(),
            FileState::Waiting | FileState::Growing => false,
            // For example, it was deleted before we read it. The reader reports a gap before the next piece.
            _ => true,
        };
        let Some((trace, _, number)) = self.pieces.as_mut().filter(|_| is_over) else {
            return false;
        };
        let Some(next) = next_piece(trace, *number) else { return false };
        self.before = self.before.saturating_add(self.follow.at);
        *number = next;
        self.follow = Follow::new(file(trace, next));
        self.join.begin_file();
        true
    }
}

fn file((folder, stem): &Trace, number: u64) -> PathBuf {
    folder.join(piece_name(stem, number))
}

/// The lowest number behind `number` of a piece that is there.
fn next_piece(trace: &Trace, number: u64) -> Option<u64> {
    if file(trace, number + 1).exists() {
        return Some(number + 1);
    }
    let entries = fs::read_dir(&trace.0).ok()?.flatten();
    let found = entries.filter_map(|entry| place(&entry.path()));
    found.filter(|(of, other)| of == trace && *other > number).map(|(_, other)| other).min()
}

/// Bytes that a call may read in any case: more than the largest frame.
const LEAST_BUDGET: u64 = 2 << 20;
/// How often the same damaged frame is read before the file is given up: a writer may be at it.
const PATIENCE: u32 = 5;

/// How things stand with a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileState {
    /// It was found and has no whole header yet.
    #[default]
    Waiting,
    /// It is read; more may come.
    Growing,
    /// Its process ended it in order.
    Ended,
    /// It was removed before its end.
    Removed,
    /// Another file stands in its place.
    Replaced,
    /// It became shorter than what was read of it.
    Cut,
    /// It is damaged from this byte.
    Damaged(u64),
    /// It cannot be read, and why.
    Unreadable(String),
    /// The host that shows it does not answer.
    Unreachable,
}

impl FileState {
    /// Whether nothing more is read.
    pub fn is_over(&self) -> bool {
        !matches!(self, Self::Waiting | Self::Growing)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) bytes: u64,
    pub(crate) behind: u64,
    /// Frames within that were damaged and left out.
    pub(crate) corrupt_frames: u64,
}

#[derive(Debug)]
struct Follow {
    path: PathBuf,
    file: Option<File>,
    identity: (u64, u64),
    /// Where the next frame begins, bytes from the start; 0: the header was not read.
    at: u64,
    /// Calls that came no further because of damage at `at`.
    stuck: u32,
    state: FileState,
    ended: bool,
}

impl Follow {
    fn new(path: PathBuf) -> Self {
        let state = FileState::default();
        Self { path, file: None, identity: (0, 0), at: 0, stuck: 0, state, ended: false }
    }

    /// Reads on, `budget` bytes at most, or 2 MiB where a frame is larger.
    fn read(&mut self, budget: u64, mut take: impl FnMut(Record)) -> Taken {
        self.follow_move();
        if self.state.is_over() && !self.comes_back() {
            return Taken::default();
        }
        let mut taken = self.try_read(budget, &mut take);
        if taken.as_ref().is_ok_and(|of| of.bytes == 0 && of.behind > budget) {
            taken = self.try_read(budget.max(LEAST_BUDGET), take);
        }
        taken.unwrap_or_else(|error| {
            self.state = FileState::Unreadable(error.to_string());
            Taken::default()
        })
    }

    /// A run moves the files of its windows into their bundles at its end, under the same names: the file that is open
    /// has its new path then.
    fn follow_move(&mut self) {
        let is_it = |path: &Path| {
            let found = fs::metadata(path);
            found.is_ok_and(|found| (found.dev(), found.ino()) == self.identity)
        };
        let Some(file) = self.file.as_ref().filter(|_| !self.path.exists()) else { return };
        let moved = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok();
        let has_name = |path: &PathBuf| path.file_name() == self.path.file_name();
        if let Some(path) = moved.filter(has_name).filter(|path| is_it(path)) {
            self.path = path;
        }
    }

    /// A shared folder may lose a file for some time: whether the one that was read is there again.
    fn comes_back(&mut self) -> bool {
        if self.at == 0 || !matches!(self.state, FileState::Removed | FileState::Unreadable(_)) {
            return false;
        }
        let found = fs::metadata(&self.path);
        let is_it = |found: fs::Metadata| {
            (found.dev(), found.ino()) == self.identity && found.len() >= self.at
        };
        let is_back = found.is_ok_and(is_it);
        if is_back {
            (self.file, self.state) = (None, FileState::Growing);
        }
        is_back
    }

    fn try_read(&mut self, budget: u64, mut take: impl FnMut(Record)) -> io::Result<Taken> {
        let at_path = fs::metadata(&self.path);
        let file = match &mut self.file {
            Some(file) => file,
            None => match files::open(&self.path) {
                Ok(file) => {
                    let found = file.metadata()?;
                    self.identity = (found.dev(), found.ino());
                    self.file.insert(file)
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.state = FileState::Removed;
                    return Ok(Taken::default());
                }
                Err(error) => return Err(error),
            },
        };
        let length = file.metadata()?.len();
        if length < self.at {
            self.state = FileState::Cut;
            return Ok(Taken::default());
        }
        let there = length - self.at;
        let wanted = there.min(budget);
        let mut taken = Taken::default();
        if wanted > 0 {
            file.seek(SeekFrom::Start(self.at))?;
            let header = if self.at == 0 { Vec::new() } else { header()? };
            let before = header.len() as u64;
            let mut input = header.as_slice().chain(file.take(wanted));
            match Reader::named(&mut input, self.path.clone()) {
                Ok(mut reader) => {
                    for record in reader.by_ref() {
                        let record = record.map_err(as_io)?;
                        self.ended |= matches!(record, Record::End { .. });
                        take(record);
                    }
                    self.state = FileState::Growing;
                    let (end, skipped) = (reader.end(), reader.skipped());
                    drop(reader);
                    taken.corrupt_frames = skipped.corrupt_frames;
                    taken.bytes = match end {
                        Ending::Torn { at_byte, .. } => at_byte.saturating_sub(before),
                        Ending::Complete | Ending::Open => wanted - input.get_ref().1.limit(),
                    };
                    // A frame that does not begin as one, or whose end is none: not merely unfinished.
                    let damaged = matches!(end, Ending::Torn { .. }) && skipped.corrupt_frames > 0;
                    self.stuck = if damaged && taken.bytes == 0 { self.stuck + 1 } else { 0 };
                    taken.corrupt_frames -= u64::from(damaged);
                }
                // It may be in the making.
                Err(ReadError::HeaderCut { .. }) => {}
                Err(error) => return Err(as_io(error)),
            }
        }
        self.at += taken.bytes;
        taken.behind = length - self.at;
        if self.stuck >= PATIENCE {
            self.state = FileState::Damaged(self.at);
        } else if wanted == there {
            self.conclude(at_path);
        }
        Ok(taken)
    }

    /// All that is there was read: is there more to come?
    fn conclude(&mut self, at_path: io::Result<fs::Metadata>) {
        self.state = match at_path {
            _ if self.ended => FileState::Ended,
            Ok(found) if (found.dev(), found.ino()) != self.identity => FileState::Replaced,
            Err(error) if error.kind() == io::ErrorKind::NotFound => FileState::Removed,
            _ => return,
        };
    }
}

/// A file header, for a reader that begins in the middle.
fn header() -> io::Result<Vec<u8>> {
    let mut header = Vec::new();
    Writer::new(&mut header)?;
    Ok(header)
}

fn as_io(error: ReadError) -> io::Error {
    match error {
        ReadError::Io { source, .. } => source,
        error => io::Error::other(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// A trace file that is written step by step.
    struct Trace {
        folder: tempfile::TempDir,
        bytes: Vec<u8>,
    }

    impl Trace {
        fn new() -> Self {
            let mut bytes = Vec::new();
            let mut writer = Writer::new(&mut bytes).expect("a header");
            for id in 1..=9 {
                writer.write(&Record::Name { id, bytes: b"name".repeat(id as usize) });
                writer.flush().expect("memory");
            }
            writer.write(&Record::End { reason: "exit".into() });
            writer.flush().expect("memory");
            drop(writer);
            Self { folder: tempfile::tempdir().expect("a folder"), bytes }
        }

        fn path(&self) -> PathBuf {
            self.folder.path().join("host-1.s2t")
        }

        fn write(&self, length: usize) {
            fs::write(self.path(), &self.bytes[..length]).expect("a file");
        }
    }

    fn read(follow: &mut Follow) -> usize {
        let mut records = 0;
        follow.read(0, |_| records += 1);
        records
    }

    /// Hazard (Watching what runs): A frame is half written when it is read.
    /// Promise: It is read once, and completely.
    #[test]
    fn a_file_that_grows_by_any_bytes_is_read_once_and_whole() {
        let trace = Trace::new();
        for step in [1, 7, 20, 33, 1_000] {
            trace.write(0);
            let mut file = fs::OpenOptions::new().append(true).open(trace.path()).expect("a file");
            let mut follow = Follow::new(trace.path());
            let mut records = read(&mut follow);
            for chunk in trace.bytes.chunks(step) {
                assert!(!follow.state.is_over(), "{:?}", &follow.state);
                file.write_all(chunk).expect("a disk");
                records += read(&mut follow);
            }
            assert_eq!((records, &follow.state), (10, &FileState::Ended), "steps of {step}");
            assert_eq!(follow.at, trace.bytes.len() as u64);
        }
    }

    #[test]
    fn more_than_the_budget_is_read_the_next_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.s2t");
        let mut writer = Writer::new(File::create(&path).expect("a file")).expect("a header");
        for id in 0..60u32 {
            writer.write(&Record::Name { id, bytes: vec![id as u8; 100_000] });
        }
        writer.flush().expect("a disk");
        let length = fs::metadata(&path).expect("a file").len();
        let mut follow = Follow::new(path);
        let mut seen = Vec::new();
        let first = follow.read(LEAST_BUDGET, |record| seen.push(record));
        assert!(
            first.bytes <= LEAST_BUDGET && first.behind == length - first.bytes && first.behind > 0
        );
        while follow.read(LEAST_BUDGET, |record| seen.push(record)).behind > 0 {}
        assert_eq!((seen.len(), follow.at), (60, length));
    }

    /// Hazard (Watching what runs): A trace file is cut, taken away or replaced while it is read.
    /// Promise: The change is reported once, and the frames read before it still count.
    #[test]
    fn a_file_that_is_cut_taken_away_or_replaced_says_so() {
        let trace = Trace::new();
        let begun = || {
            trace.write(trace.bytes.len() - 20);
            let mut follow = Follow::new(trace.path());
            assert!(read(&mut follow) > 0);
            follow
        };
        let mut follow = begun();
        trace.write(40);
        assert_eq!((read(&mut follow), &follow.state), (0, &FileState::Cut));
        let mut follow = begun();
        fs::remove_file(trace.path()).expect("a file");
        assert_eq!((read(&mut follow), &follow.state), (0, &FileState::Removed));
        let mut follow = begun();
        fs::rename(trace.path(), trace.folder.path().join("old")).expect("a file");
        trace.write(trace.bytes.len());
        assert_eq!((read(&mut follow), &follow.state), (0, &FileState::Replaced));
        let mut follow = Follow::new(trace.folder.path().join("absent"));
        assert_eq!((read(&mut follow), &follow.state), (0, &FileState::Removed));
    }

    /// Hazard (Watching what runs): A trace file is damaged anywhere.
    /// Promise: The damaged frames are lost and reported, and the reader goes on.
    #[test]
    fn any_damaged_byte_costs_frames_and_never_more() {
        let trace = Trace::new();
        // Where lengths stand: that of the header, and that of each frame.
        let (mut lengths, mut frame): (Vec<usize>, usize) = ((12..16).collect(), 20);
        while let Some(length) = trace.bytes.get(frame + 4..).and_then(|rest| rest.first_chunk()) {
            lengths.extend(frame + 4..frame + 8);
            frame += 12 + u32::from_le_bytes(*length) as usize;
        }
        for at in 0..trace.bytes.len() {
            let mut bytes = trace.bytes.clone();
            bytes[at] ^= 0x55;
            fs::write(trace.path(), &bytes).expect("a file");
            let mut follow = Follow::new(trace.path());
            let (mut records, mut corrupt) = (0, 0);
            for _ in 0..=PATIENCE {
                corrupt += follow.read(0, |_| records += 1).corrupt_frames;
            }
            let damaged = matches!(&follow.state, FileState::Damaged(_) | FileState::Unreadable(_));
            // What seems longer than the file may still be written.
            let waits = lengths.contains(&at) && !follow.state.is_over();
            assert!(
                records < 10 && (damaged || waits || corrupt > 0),
                "byte {at}: {:?}",
                &follow.state
            );
        }
    }

    #[test]
    fn a_pipe_and_a_folder_are_refused_without_a_wait() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut follow = Follow::new(folder.path().to_owned());
        read(&mut follow);
        assert!(
            matches!(&follow.state, FileState::Unreadable(why) if why.contains("regular file"))
        );
    }
}
