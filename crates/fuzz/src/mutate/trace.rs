//! Changes to a trace file: its records, its frames, and the bytes in a frame, whose checksum is made
//! right again, so that the change gets past it.

use fastrand::Rng;
use stage2_contract::trace::{Reader, Record, Writer};

const FRAME_HEADER_BYTES: usize = 12;
const CHECKSUM_AT: usize = 8;

/// Changes records, frames, the bytes within a frame, or any bytes.
pub fn trace(input: &mut Vec<u8>, random: &mut Rng) {
    match random.u8(..8) {
        0 => super::bytes(input, random),
        1..=3 => records(input, random),
        4 => frames(input, random),
        _ => payload(input, random),
    }
}

/// Writes the records again: some doubled, some gone, some in another place.
fn records(input: &mut Vec<u8>, random: &mut Rng) {
    let Ok(reader) = Reader::new(input.as_slice()) else { return super::bytes(input, random) };
    let mut records: Vec<Record> = reader.map_while(Result::ok).take(10_000).collect();
    if records.is_empty() {
        return super::bytes(input, random);
    }
    for _ in 0..random.usize(1..=3) {
        let (one, other) = (random.usize(..records.len()), random.usize(..records.len()));
        match random.u8(..4) {
            0 if records.len() > 1 => drop(records.remove(one)),
            1 => records.swap(one, other),
            2 => {
                let end = records.len().min(one + random.usize(1..=8));
                let part = records[one..end].to_vec();
                records.splice(other..other, part);
            }
            _ => records.insert(other, records[one].clone()),
        }
    }
    let mut writer = Writer::new(Vec::new()).expect("a vector takes everything");
    for record in &records {
        writer.write(record);
        if random.u8(..32) == 0 {
            let _ = writer.flush();
        }
    }
    let _ = writer.flush();
    *input = writer.into_sink();
}

/// Where the frames lie: behind the header of the file, up to the first that is none.
fn places(input: &[u8]) -> Vec<std::ops::Range<usize>> {
    let number = |at: usize| {
        let bytes = input.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize)
    };
    let mut found = Vec::new();
    let mut at = number(12).unwrap_or(0);
    while let Some(length) = number(at + 4) {
        let end = at.saturating_add(FRAME_HEADER_BYTES).saturating_add(length);
        if end > input.len() {
            break;
        }
        found.push(at..end);
        at = end;
    }
    found
}

fn frames(input: &mut Vec<u8>, random: &mut Rng) {
    let places = places(input);
    let Some(one) = random.choice(&places).cloned() else { return super::bytes(input, random) };
    let frame = input[one.clone()].to_vec();
    if random.bool() {
        input.drain(one);
    } else {
        let at = random.choice(&places).map_or(one.start, |other| other.start);
        input.splice(at..at, frame);
    }
}

fn payload(input: &mut Vec<u8>, random: &mut Rng) {
    let Some(place) = random.choice(&places(input)).cloned() else {
        return super::bytes(input, random);
    };
    let mut frame = input[place.clone()].to_vec();
    let mut payload = frame.split_off(FRAME_HEADER_BYTES);
    super::bytes(&mut payload, random);
    frame[4..8].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&frame[..CHECKSUM_AT]);
    checksum.update(&payload);
    frame[CHECKSUM_AT..].copy_from_slice(&checksum.finalize().to_le_bytes());
    frame.extend(payload);
    input.splice(place, frame);
}
