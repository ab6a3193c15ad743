//! A trace that a collector cut into files, its pieces -> their names, and one stream of records again.
//!
//! Each piece says again what a reader needs, so that it can be read alone. Who reads several must not
//! count that twice: [`Join`] leaves it out. The numbers of names, paths, shapes, queues and ranges are
//! the same in all pieces of a trace.

use std::collections::HashSet;

use crate::trace::record::{Losses, MonoNs, Record};

/// Meta key: the number of a piece, from 1. Absent: the trace is one file.
pub const PIECE: &str = "piece";
/// Meta key: when the first piece was begun, ns since the Unix epoch: the same in all pieces of a trace.
pub const TRACE_BEGUN: &str = "piece.trace";
/// Meta key: when a piece ends and which ones stay, as the collector was told.
pub const ROTATE: &str = "piece.rotate";
/// Meta key: how many ranges of earlier pieces are open at the beginning. What says that stands before it.
pub const OPEN_BEFORE: &str = "piece.open";
/// Value of [`OPEN_BEFORE`] where a piece says again which one it is, because its beginning may be lost.
pub const UNKNOWN: &str = "unknown";
/// Reason of the [`Record::End`] of a piece behind which there is another one.
pub const CONTINUED: &str = "continued";

/// Gaps that are told one by one.
const MAX_GAPS: usize = 64;

/// Name of a piece of the trace whose one file would be called `STEM.s2t`: `STEM-pNNNNNN.s2t`.
pub fn piece_name(stem: &str, number: u64) -> String {
    format!("{stem}-p{number:06}.s2t")
}

/// A gap in words: `piece 3`, or `pieces 1 to 5`.
pub fn gap_in_words((first, last): (u64, u64)) -> String {
    if first == last { format!("piece {first}") } else { format!("pieces {first} to {last}") }
}

/// The stem and the number of the piece of that name, which may be compressed (`.gz`).
pub fn piece_of(name: &str) -> Option<(&str, u64)> {
    let name = name.strip_suffix(".gz").unwrap_or(name);
    let (stem, digits) = name.strip_suffix(".s2t")?.rsplit_once("-p")?;
    let is_number = digits.len() >= 6 && digits.bytes().all(|digit| digit.is_ascii_digit());
    let number = digits.parse().ok().filter(|&number| is_number && number > 0)?;
    Some((stem, number))
}

/// Joins pieces that are read one after the other. Records of a trace in one file pass as they are.
#[derive(Clone, Debug, Default)]
pub struct Join {
    /// Files were begun.
    files: u64,
    /// The number of the piece, and of the one read before; 0: not known.
    number: u64,
    before: u64,
    gaps: Vec<(u64, u64)>,
    open: HashSet<u64>,
    /// The numbers of ranges whose opening was read, first and last without a gap between, and those that
    /// were opened in a piece that is missing, and said later.
    seen: Vec<(u64, u64)>,
    said: HashSet<u64>,
    is_behind_gap: bool,
    /// What the piece says of ranges that are open since earlier ones.
    carried: HashSet<u64>,
    in_head: bool,
    /// A range that is known: its closing in this piece, and its sample, are not new.
    known: HashSet<u64>,
    /// The last time that a range opened or closed.
    last: MonoNs,
    earlier_losses: Losses,
    losses: Losses,
    end: Option<Record>,
}

impl Join {
    /// The records that follow are those of the next file.
    pub fn begin_file(&mut self) {
        self.files += 1;
        self.before = self.number;
        self.in_head = false;
        self.known.clear();
        self.earlier_losses = self.earlier_losses.plus(&self.losses);
        self.losses = Losses::default();
        // The trace does not end where there is a further file.
        self.end = None;
    }

    /// Pieces that are not there, in between and at the beginning, as first and last number.
    pub fn gaps(&self) -> &[(u64, u64)] {
        &self.gaps
    }

    /// The number of the piece that was read last; 0: it is none.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether the last piece says that another one follows.
    pub fn is_continued(&self) -> bool {
        matches!(&self.end, Some(Record::End { reason }) if reason == CONTINUED)
    }

    /// Takes a record of the file, and gives what the stream of all files has in its place.
    pub fn take(&mut self, record: Record, mut give: impl FnMut(Record)) {
        match &record {
            Record::Meta { key, value } if key == PIECE => {
                self.begin_piece(value.parse().unwrap_or_default());
            }
            Record::Meta { key, value } if key == OPEN_BEFORE => {
                self.end_head(value.parse().unwrap_or(u64::MAX), &mut give);
            }
            _ if self.number == 0 => {}
            Record::RangeOpen(open) if open.continues == open.range => {
                let was_open = self.open.contains(&open.range);
                // Behind the head stands what is closed, and of which work came late. What the head says is
                // open, whatever was read: its opening may be lost.
                let is_known = was_open || (!self.in_head && self.has_seen(open.range));
                if self.in_head {
                    self.carried.insert(open.range);
                }
                if is_known {
                    self.known.insert(open.range);
                    return;
                }
                self.said.insert(open.range);
                self.open.insert(open.range);
                self.last = open.start;
            }
            Record::RangeOpen(open) => {
                self.open.insert(open.range);
                match self.seen.last_mut().filter(|_| !self.is_behind_gap) {
                    Some((_, last)) => *last = open.range.max(*last),
                    None => self.seen.push((open.range, open.range)),
                }
                self.is_behind_gap = false;
                self.last = open.start;
            }
            Record::RangeSample { range, .. } if self.known.contains(range) => return,
            Record::RangeClose { range, end } => {
                let was_open = self.open.remove(range);
                if self.known.remove(range) && !was_open {
                    return;
                }
                self.last = *end;
            }
            Record::Losses(losses) => {
                self.losses = *losses;
                return give(Record::Losses(self.earlier_losses.plus(losses)));
            }
            Record::End { .. } => {
                self.end = Some(record);
                return;
            }
            _ => {}
        }
        give(record);
    }

    /// No file follows: the end of the trace, if it has one.
    pub fn finish(&mut self, mut give: impl FnMut(Record)) {
        self.end.take().into_iter().for_each(&mut give);
    }

    fn begin_piece(&mut self, number: u64) {
        self.number = number;
        self.in_head = true;
        self.carried.clear();
        let expected = self.before + 1;
        if number > expected {
            self.is_behind_gap = true;
            if self.gaps.len() < MAX_GAPS {
                self.gaps.push((expected, number - 1));
            }
        }
    }

    fn has_seen(&self, range: u64) -> bool {
        let is_in = |&(first, last): &(u64, u64)| (first..=last).contains(&range);
        self.said.contains(&range) || self.seen.iter().any(is_in)
    }

    /// What the piece does not say to be open has closed in a piece that is missing, or its closing was
    /// lost: when is not known, and it was open up to here.
    fn end_head(&mut self, count: u64, give: &mut impl FnMut(Record)) {
        self.in_head = false;
        if self.carried.len() as u64 != count {
            // A part of it is lost.
            return;
        }
        let mut closed: Vec<u64> = self.open.difference(&self.carried).copied().collect();
        // The inner ones first, and always in the same order.
        closed.sort_unstable_by(|a, b| b.cmp(a));
        for range in closed {
            self.open.remove(&range);
            give(Record::RangeClose { range, end: self.last });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::record::RangeOpen;

    fn meta(key: &str, value: u64) -> Record {
        Record::Meta { key: key.to_owned(), value: value.to_string() }
    }

    fn open(range: u64, continues: u64) -> Record {
        Record::RangeOpen(RangeOpen {
            range,
            path: 1,
            thread: 1,
            parent: 0,
            start: MonoNs(range * 10),
            start_end: false,
            category: 0,
            payload: None,
            continues,
        })
    }

    fn close(range: u64, end: u64) -> Record {
        Record::RangeClose { range, end: MonoNs(end) }
    }

    fn end(reason: &str) -> Record {
        Record::End { reason: reason.to_owned() }
    }

    fn losses(range_events: u64) -> Record {
        Record::Losses(Losses { range_events, ..Losses::default() })
    }

    fn joined(files: &[&[Record]]) -> (Vec<Record>, Join) {
        let (mut join, mut all) = (Join::default(), Vec::new());
        for file in files {
            join.begin_file();
            file.iter().for_each(|record| join.take(record.clone(), |record| all.push(record)));
        }
        join.clone().finish(|record| all.push(record));
        all.retain(|record| !matches!(record, Record::Meta { .. }));
        (all, join)
    }

    #[test]
    fn names_of_pieces_sort_and_are_told_from_other_names() {
        assert_eq!(piece_name("node-7-1700000000", 12), "node-7-1700000000-p000012.s2t");
        assert_eq!(piece_of("a-7-w2-p000012.s2t"), Some(("a-7-w2", 12)));
        assert_eq!(piece_of("a-7-p1000000.s2t.gz"), Some(("a-7", 1_000_000)));
        for other in ["a-7.s2t", "a-p12.s2t", "a-p000000.s2t", "a-p00000x.s2t", "a-p000001.md"] {
            assert_eq!(piece_of(other), None, "{other}");
        }
    }

    #[test]
    fn what_a_piece_says_again_is_left_out_and_losses_add_up() {
        let one = [meta(PIECE, 1), meta(OPEN_BEFORE, 0), open(1, 0), open(2, 0), close(2, 25)];
        let one = [&one[..], &[losses(3), end(CONTINUED)]].concat();
        let two = [meta(PIECE, 2), open(1, 1), meta(OPEN_BEFORE, 1), losses(0), open(2, 2)];
        let two = [&two[..], &[close(2, 30), open(3, 0), close(3, 35), close(1, 40)]].concat();
        let two = [&two[..], &[losses(4), end("exit")]].concat();
        let (all, join) = joined(&[&one, &two]);
        let expected = [open(1, 0), open(2, 0), close(2, 25), losses(3), losses(3), open(3, 0)];
        let expected =
            [&expected[..], &[close(3, 35), close(1, 40), losses(7), end("exit")]].concat();
        assert_eq!((all, join.gaps()), (expected, &[][..]));
    }

    #[test]
    fn a_piece_that_says_again_which_one_it_is_closes_nothing() {
        let again = || Record::Meta { key: OPEN_BEFORE.to_owned(), value: UNKNOWN.to_owned() };
        let one = [meta(PIECE, 1), meta(OPEN_BEFORE, 0), open(1, 0), end(CONTINUED)];
        // Its beginning is lost, which would have said range 1 to be open.
        let two = [open(2, 0), meta(PIECE, 2), again(), open(3, 0), meta(PIECE, 2), again()];
        let two = [&two[..], &[close(3, 35), close(2, 40), close(1, 50), end("exit")]].concat();
        let (all, join) = joined(&[&one, &two]);
        let expected = [open(1, 0), open(2, 0), open(3, 0), close(3, 35), close(2, 40)];
        let expected = [&expected[..], &[close(1, 50), end("exit")]].concat();
        assert_eq!((all, join.gaps()), (expected, &[][..]));
    }

    /// Hazard (Traces in pieces): A range closed in a piece that is missing.
    /// Promise: It ends there, and takes no time of what follows.
    #[test]
    fn behind_a_gap_ranges_begin_and_end_and_the_gap_is_told() {
        let one = [meta(PIECE, 2), meta(OPEN_BEFORE, 0), open(1, 0), open(2, 0), end(CONTINUED)];
        let three = [meta(PIECE, 5), open(1, 1), open(7, 7), meta(OPEN_BEFORE, 2), close(7, 99)];
        let (all, join) = joined(&[&one, &three]);
        let expected = [open(1, 0), open(2, 0), open(7, 7), close(2, 70), close(7, 99)];
        assert_eq!((&all[..], join.gaps()), (&expected[..], &[(1, 1), (3, 4)][..]));
    }

    #[test]
    fn a_closed_range_of_a_missing_piece_is_said_once() {
        let late = [open(4, 4), close(4, 70)];
        let first = [&[meta(PIECE, 3), meta(OPEN_BEFORE, 0), open(7, 0)], &late[..]].concat();
        let second = [&[meta(PIECE, 4), open(7, 7), meta(OPEN_BEFORE, 1)], &late[..]].concat();
        let expected = [&[open(7, 0)], &late[..]].concat();
        assert_eq!(joined(&[&first, &second]).0, expected);
    }

    #[test]
    fn a_trace_in_one_file_is_as_it_was() {
        let one = [open(1, 0), open(1, 1), close(1, 5), losses(2), end(CONTINUED), end("exit")];
        assert_eq!(joined(&[&one]).0, one);
    }
}
