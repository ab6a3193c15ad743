//! Any bytes give records or a clear error: cut, flipped and random files.

use crate::common::{
    FILE_HEADER_BYTES, FRAME_HEADER_BYTES, any, file_header, frame, read, sample, trace_file,
};
use proptest::prelude::*;
use stage2_contract::trace::{Ending, ReadError, Record};

/// Where each frame of a sound trace file ends, and how many records there are up to there.
fn boundaries(file: &[u8]) -> Vec<(usize, usize)> {
    let mut at = FILE_HEADER_BYTES;
    let mut found = vec![(at, 0)];
    while at < file.len() {
        let length = u32::from_le_bytes(file[at + 4..at + 8].try_into().unwrap()) as usize;
        at += FRAME_HEADER_BYTES + length;
        found.push((at, read(&file[..at]).unwrap().records.len()));
    }
    found
}

/// A file cut after `length` bytes gives every whole frame before the cut, and says where it ends.
fn check_cut(file: &[u8], records: &[Record], boundaries: &[(usize, usize)], length: usize) {
    let cut = read(&file[..length]);
    if length < FILE_HEADER_BYTES {
        match cut {
            Err(ReadError::HeaderCut { length_bytes, .. }) => {
                assert_eq!(length_bytes, length as u64);
            }
            other => panic!("cut at {length}: {other:?}"),
        }
        return;
    }
    let cut = cut.unwrap();
    let &(whole, count) = boundaries.iter().rfind(|(at, _)| *at <= length).unwrap();
    assert_eq!(cut.records, records[..count], "cut at {length}");
    assert!(cut.error.is_none());
    assert_eq!(cut.skipped.corrupt_frames, 0);
    let expected = match length - whole {
        0 if cut.records.iter().any(|record| matches!(record, Record::End { .. })) => {
            Ending::Complete
        }
        0 => Ending::Open,
        lost => Ending::Torn { at_byte: whole as u64, lost_bytes: lost as u64 },
    };
    assert_eq!(cut.end, expected, "cut at {length}");
}

/// What is read of a damaged file are whole frames of the sound one, and damage is reported.
fn check_damage(damaged: &[u8], frames: &[Vec<Record>], what: &str) {
    let Ok(read) = read(damaged) else { return };
    let mut rest = read.records.as_slice();
    let mut missing = 0;
    for frame in frames {
        match rest.strip_prefix(frame.as_slice()) {
            Some(after) => rest = after,
            None => missing += 1,
        }
    }
    assert!(rest.is_empty(), "{what}: records that nobody wrote: {rest:?}");
    assert!(missing > 0, "{what}: the damage hit no frame");
    let torn = matches!(read.end, Ending::Torn { .. });
    assert!(torn || read.skipped.corrupt_frames > 0, "{what}: not reported: {read:?}");
}

/// Hazard (Hostile files): A trace file that is cut at any byte.
/// Promise: Every complete frame before the cut is read.
#[test]
fn a_file_cut_at_every_byte_gives_every_whole_frame() {
    let frames = sample::frames();
    let file = trace_file(&frames);
    let boundaries = boundaries(&file);
    for length in 0..=file.len() {
        check_cut(&file, &frames.concat(), &boundaries, length);
    }
}

/// Hazard (Hostile files): Flipped bits.
/// Promise: None goes unnoticed.
#[test]
fn no_flipped_bit_goes_unnoticed() {
    let frames = sample::frames();
    let file = trace_file(&frames);
    for at in 0..file.len() {
        for bit in 0..8 {
            let mut damaged = file.clone();
            damaged[at] ^= 1 << bit;
            check_damage(&damaged, &frames, &format!("bit {bit} of byte {at}"));
        }
    }
}

#[test]
fn a_damaged_frame_in_the_middle_costs_only_itself() {
    let frames = sample::frames();
    let mut file = trace_file(&frames);
    let &[_, (first, _), (second, _), ..] = boundaries(&file).as_slice() else { panic!() };
    file[first + FRAME_HEADER_BYTES + 3] ^= 0x10;
    let read = read(&file).unwrap();
    assert_eq!(read.records, [&frames[0][..], &frames[2], &frames[3]].concat());
    assert_eq!(read.skipped.corrupt_frames, 1);
    assert_eq!(read.skipped.corrupt_bytes, (second - first) as u64);
    assert_eq!(read.end, Ending::Complete);
}

#[test]
fn a_damaged_length_ends_the_file_there() {
    let frames = sample::frames();
    let mut file = trace_file(&frames);
    let &[_, (first, _), ..] = boundaries(&file).as_slice() else { panic!() };
    file[first + 4] ^= 0x01;
    let read = read(&file).unwrap();
    assert_eq!(read.records, frames[0]);
    assert_eq!(read.skipped.corrupt_frames, 1);
    let lost_bytes = (file.len() - first) as u64;
    assert_eq!(read.end, Ending::Torn { at_byte: first as u64, lost_bytes });
}

#[test]
fn zeros_behind_the_last_frame_are_reported() {
    let frames = sample::frames();
    let mut file = trace_file(&frames);
    let length = file.len();
    file.resize(length + 5_000, 0);
    let read = read(&file).unwrap();
    assert_eq!(read.records, frames.concat());
    assert_eq!(read.end, Ending::Torn { at_byte: length as u64, lost_bytes: 5_000 });
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    /// Hazard (Hostile files): Any bytes as a trace file.
    /// Promise: Records or an error, in bounded memory.
    #[test]
    fn any_bytes_give_records_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let _ = read(&bytes);
        // And behind a header, as a frame, as the content of a sound frame.
        let header = file_header(1, &[]);
        let raw = read(&[header.as_slice(), &bytes].concat()).unwrap();
        prop_assert!(raw.error.is_none());
        let framed = read(&[header, frame(1, &bytes), frame(1, &[])].concat()).unwrap();
        prop_assert!(framed.error.is_none());
        prop_assert!(framed.skipped.corrupt_frames <= 1);
        prop_assert_eq!(framed.skipped.unknown_frames, 0);
    }

    #[test]
    fn records_with_any_changes_give_records_or_an_error(
        frames in any::frames(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        // With the checksum made right again, so that the decoder sees the changes.
        let file = trace_file(&frames);
        let mut at = FILE_HEADER_BYTES;
        let mut changed = file_header(1, &[]);
        for pair in boundaries(&file).windows(2) {
            let mut payload = file[at + FRAME_HEADER_BYTES..pair[1].0].to_vec();
            for (index, byte) in &changes {
                let index = index.index(payload.len());
                payload[index] = *byte;
            }
            changed.extend(frame(1, &payload));
            at = pair[1].0;
        }
        let read = read(&changed).unwrap();
        prop_assert!(read.error.is_none());
        let torn = matches!(read.end, Ending::Torn { .. });
        prop_assert!(!torn);
    }

    #[test]
    fn a_cut_file_gives_every_whole_frame(frames in any::frames(), cut in any::<prop::sample::Index>()) {
        let file = trace_file(&frames);
        check_cut(&file, &frames.concat(), &boundaries(&file), cut.index(file.len() + 1));
    }

    #[test]
    fn flipped_bits_are_noticed(
        frames in any::frames(),
        byte in any::<prop::sample::Index>(),
        flip in 1..=255_u8,
    ) {
        let mut file = trace_file(&frames);
        let at = byte.index(file.len());
        file[at] ^= flip;
        check_damage(&file, &frames, &format!("byte {at}"));
    }
}
