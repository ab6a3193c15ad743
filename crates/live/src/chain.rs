//! A trace that grows, in one file or cut into pieces -> its records: at the end of a piece goes on with the next.

use std::fs;
use std::path::{Path, PathBuf};

use stage2_contract::trace::Record;
use stage2_contract::trace::pieces::{Join, piece_name, piece_of};

use crate::follow::{FileState, Follow, Taken};

/// Pieces that are looked at ahead of the one that is read.
const AHEAD: u64 = 10_000;

/// Which trace a piece belongs to.
pub(crate) type Trace = (PathBuf, String);

/// Folder and stem of the trace that a file is a piece of, and its number; nothing for other files.
pub(crate) fn place(path: &Path) -> Option<(Trace, u64)> {
    let (stem, number) = piece_of(path.file_name()?.to_str()?)?;
    Some(((path.parent()?.to_owned(), stem.to_owned()), number))
}

/// A trace, and how far it was read.
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
    /// Starts at a file without opening it.
    pub(crate) fn new(path: PathBuf) -> Self {
        let pieces = place(&path).map(|(trace, number)| (trace, number, number));
        let mut join = Join::default();
        join.begin_file();
        Self { follow: Follow::new(path), join, pieces, before: 0, is_finished: false }
    }

    /// The file that is read.
    pub(crate) fn path(&self) -> &Path {
        self.follow.path()
    }

    /// How things stand. A piece that is over is not the end of the trace.
    pub(crate) fn state(&self) -> &FileState {
        match self.follow.state() {
            FileState::Ended if self.join.is_continued() => &FileState::Growing,
            state => state,
        }
    }

    /// Bytes that were read, of all pieces.
    pub(crate) fn bytes(&self) -> u64 {
        self.before.saturating_add(self.follow.read_to())
    }

    /// Bytes that are there and were not read.
    pub(crate) fn backlog(&self) -> u64 {
        let length = |path: &Path| fs::metadata(path).map_or(0, |found| found.len());
        let own = length(self.path()).saturating_sub(self.follow.read_to());
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
        let now = (self.path().to_owned(), self.follow.read_to());
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
        all.behind = self.backlog();
        if self.state().is_over() && !std::mem::replace(&mut self.is_finished, true) {
            self.join.finish(take);
        }
        all
    }

    /// Goes to the next piece, where this one is over or gone; whether there is one.
    fn turn(&mut self) -> bool {
        let is_over = match self.follow.state() {
            FileState::Ended => self.join.is_continued(),
            FileState::Waiting | FileState::Growing => false,
            // For example, it was deleted before we read it. The reader reports a gap before the next piece.
            _ => true,
        };
        let Some((trace, _, number)) = self.pieces.as_mut().filter(|_| is_over) else {
            return false;
        };
        let Some(next) = next_piece(trace, *number) else { return false };
        self.before = self.before.saturating_add(self.follow.read_to());
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
