//! The pieces of a trace that is cut: when one is over, where the next one goes, which ones are deleted, and
//! what of the earlier ones has to be said again.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustc_hash::{FxHashMap, FxHashSet};
use stage2_contract::settings::Rotate;
use stage2_contract::trace::{Losses, RANGE_OUTSIDE, RANGE_UNKNOWN, Record, pieces};

use crate::base::clock::Instant;
use crate::base::{clock, diag, new_file};
use crate::drain::own_file::NewFile;

/// Between two attempts to begin a piece, where that fails.
const RETRY: Duration = Duration::from_secs(1);
/// Threads whose names are kept.
const MAX_THREADS: usize = 1 << 10;
/// Nodes of CUDA graphs whose place of capture is kept: as many as [`crate::drain::ranges`] keeps.
const MAX_NODES: usize = 1 << 17;
/// Ranges that are said again in a piece, far more than have work on its way.
const MAX_RANGES: usize = 1 << 16;
/// Names that are tried for the first piece: two processes may begin in the same second.
const NAMES: u64 = 100;

#[derive(Default)]
pub(super) struct Pieces {
    rotate: Rotate,
    folder: PathBuf,
    stem: String,
    /// When the first one was begun, ns since the Unix epoch.
    begun: u64,
    /// Of the one that is written.
    number: u64,
    since: Instant,
    /// Bytes of what it says again.
    head: u64,
    /// Something happened in it. Else it is not worth an older one, which `keep` may cost.
    holds_events: bool,
    /// Those that were not deleted, the oldest first.
    files: VecDeque<PathBuf>,
    /// Where only pieces around something unusual stay: whether it happened in the piece, and in the one before.
    unusual: Option<(bool, bool)>,
    /// When it may be tried again to begin one.
    retry: Option<Instant>,
    /// Bytes of the earlier ones, and bytes that they did not take.
    pub(super) bytes: u64,
    pub(super) unwritten: u64,
    /// The losses that they tell.
    told: Losses,
    threads: BTreeMap<u32, Record>,
    /// Nodes with path and range of their capture, and the piece that states them.
    nodes: FxHashMap<u64, (u32, u64, u64)>,
    /// Ranges with lower numbers were opened in earlier pieces.
    first_range: u64,
    /// Those of them that this one says.
    said: FxHashSet<u64>,
}

fn delete(piece: &Path) {
    match fs::remove_file(piece) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            diag::debug(format_args!("{} cannot be deleted: {error}", piece.display()))
        }
        _ => {}
    }
}

impl Pieces {
    /// Begins a trace: `HOST-PID-SECONDS-p000001.s2t`, or `HOST-PID-SECONDS-wN-p000001.s2t`.
    pub(super) fn begin(
        rotate: Rotate,
        folder: &Path,
        stem: &str,
        window: Option<u64>,
    ) -> io::Result<(Pieces, NewFile)> {
        new_file::create_folder(folder)?;
        let begun = clock::wall().0;
        let window = window.map_or(String::new(), |number| format!("-w{number}"));
        let mut last = None;
        for more in 0..NAMES {
            let stem = format!("{stem}-{}{window}", begun / 1_000_000_000 + more);
            match NewFile::create(folder.join(pieces::piece_name(&stem, 1))) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = Some(error),
                Err(error) => return Err(error),
                Ok(file) => {
                    let pieces = Pieces {
                        rotate,
                        folder: folder.to_owned(),
                        stem,
                        begun,
                        number: 1,
                        since: Instant::now(),
                        files: VecDeque::from([file.path.clone()]),
                        ..Pieces::default()
                    };
                    return Ok((pieces, file));
                }
            }
        }
        Err(last.unwrap_or_else(|| io::ErrorKind::AlreadyExists.into()))
    }

    /// From here on only the first piece stays, and those in which something unusual was noted, with the one before:
    /// what is noted may have happened there.
    pub(super) fn keep_unusual(&mut self) {
        self.unusual = Some((false, true));
    }

    pub(super) fn note_unusual(&mut self) {
        self.unusual.iter_mut().for_each(|unusual| unusual.0 = true);
    }

    pub(super) fn is_over(&self, bytes: u64) -> bool {
        let Rotate { size, every_ms, .. } = self.rotate;
        let is_full = size.is_some_and(|size| bytes.saturating_sub(self.head) >= size);
        let age = |ms| self.since.elapsed() >= Duration::from_millis(ms);
        let is_old = self.holds_events && every_ms.is_some_and(age);
        (is_full || is_old) && self.retry.is_none_or(|at| Instant::now() >= at)
    }

    pub(super) fn create_next(&mut self) -> io::Result<NewFile> {
        let path = self.folder.join(pieces::piece_name(&self.stem, self.number + 1));
        let created = new_file::create_folder(&self.folder).and_then(|()| NewFile::create(path));
        created.inspect_err(|_| self.retry = Some(Instant::now() + RETRY))
    }

    /// Bytes of this piece at most, while no further one can be begun: nothing else bounds the disk then.
    pub(super) fn most_bytes(&self) -> u64 {
        self.rotate.size.map_or(u64::MAX, |size| self.head.saturating_add(2 * size))
    }

    /// The next piece is there, and the old one, which told `losses`, is closed. Deletes what is too old.
    pub(super) fn turn(&mut self, path: PathBuf, losses: Losses) {
        self.number += 1;
        self.since = Instant::now();
        self.retry = None;
        self.told = losses;
        self.said.clear();
        if let Some((now, before)) = self.unusual {
            // That of the piece before last is known only now.
            let at = self.files.len().checked_sub(2);
            if let Some(dull) = at.filter(|_| !now && !before).and_then(|at| self.files.remove(at))
            {
                delete(&dull);
            }
            // The first one stays, whatever follows.
            self.unusual = Some((false, now || self.files.len() < 2));
        }
        self.files.push_back(path);
        let Some(keep) = self.rotate.keep else { return };
        while self.files.len() > keep {
            let Some(oldest) = self.files.pop_front() else { return };
            delete(&oldest);
        }
    }

    pub(super) fn untold(&self, losses: &Losses) -> Losses {
        losses.since(&self.told)
    }

    /// What states which piece this is, and of the process what earlier ones say.
    pub(super) fn head(&self) -> impl Iterator<Item = Record> {
        let Rotate { size, every_ms, keep } = self.rotate;
        let words = [
            size.map(|bytes| format!("size={bytes}")),
            every_ms.map(|ms| format!("every={ms}ms")),
            keep.map(|keep| format!("keep={keep}")),
        ];
        let words: Vec<String> = words.into_iter().flatten().collect();
        let facts = [
            (pieces::PIECE, self.number.to_string()),
            (pieces::TRACE_BEGUN, self.begun.to_string()),
            (pieces::ROTATE, words.join(",")),
        ];
        let facts = facts.map(|(key, value)| Record::Meta { key: key.to_owned(), value });
        facts.into_iter().chain(self.threads.values().cloned())
    }

    /// The records of `head`, repeated in the middle of a piece whose beginning may be lost, so
    /// that it is not known there what was open.
    pub(super) fn head_again(&self) -> impl Iterator<Item = Record> {
        let (key, value) = (pieces::OPEN_BEFORE.to_owned(), pieces::UNKNOWN.to_owned());
        self.head().chain([Record::Meta { key, value }])
    }

    /// What says that so many ranges were open at the beginning. Those from `first_range` on are new.
    pub(super) fn end_head(&mut self, open: u64, first_range: u64) -> Record {
        self.first_range = first_range;
        self.holds_events = false;
        Record::Meta { key: pieces::OPEN_BEFORE.to_owned(), value: open.to_string() }
    }

    /// The beginning is written, and has so many bytes.
    pub(super) fn begins_at(&mut self, bytes: u64) {
        self.head = bytes;
    }

    /// Notes what later pieces may have to say again.
    pub(super) fn note(&mut self, record: &Record) {
        match record {
            Record::RangeOpen(open) if open.continues == open.range => {
                self.said.insert(open.range);
            }
            Record::RangeOpen(_) | Record::RangeClose { .. } | Record::Mark(_) => self.note_event(),
            Record::Thread { id, .. } => {
                self.note_event();
                if self.threads.len() < MAX_THREADS || self.threads.contains_key(id) {
                    self.threads.insert(*id, record.clone());
                }
            }
            &Record::GraphNode { node, path, range }
                if self.nodes.len() < MAX_NODES || self.nodes.contains_key(&node) =>
            {
                self.nodes.insert(node, (path, range, self.number));
            }
            _ => {}
        }
    }

    pub(super) fn note_event(&mut self) {
        self.holds_events = true;
    }

    /// Whether the piece names that range without having said what it is.
    #[inline]
    pub(super) fn is_unsaid(&self, range: u64) -> bool {
        range < self.first_range
            && ![RANGE_OUTSIDE, RANGE_UNKNOWN].contains(&range)
            && !self.said.contains(&range)
            && self.said.len() < MAX_RANGES
    }

    /// Path and range of the capture of a node, if the piece does not say them.
    #[inline]
    pub(super) fn unsaid_node(&self, node: u64) -> Option<(u32, u64)> {
        let &(path, range, said) = self.nodes.get(&node)?;
        (said != self.number).then_some((path, range))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_dull_pieces_the_first_and_the_latest_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let begun = Pieces::begin(Rotate::default(), folder.path(), "h-1", None);
        let (mut pieces, _first) = begun.expect("the folder takes files");
        pieces.keep_unusual();
        for number in 1..10 {
            if [4, 7].contains(&number) {
                pieces.note_unusual();
            }
            let next = pieces.create_next().expect("the folder takes files");
            pieces.turn(next.path.clone(), Losses::default());
        }
        let entries = fs::read_dir(folder.path()).expect("a folder");
        let name = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
        let number = |name: String| pieces::piece_of(&name).map(|(_, number)| number);
        let mut left: Vec<u64> = entries.filter_map(name).filter_map(number).collect();
        left.sort_unstable();
        assert_eq!(left, [1, 3, 4, 6, 7, 9, 10], "the unusual ones and those before them");
    }
}
