//! Changes to any bytes: bits, numbers of every width, parts that are doubled, moved or cut.

use std::ops::Range;

use fastrand::Rng;

/// Longest part that is doubled or taken out.
const PART: usize = 64;

/// Makes one to four changes.
pub fn bytes(input: &mut Vec<u8>, random: &mut Rng) {
    for _ in 0..random.usize(1..=4) {
        change(input, random);
    }
}

fn change(input: &mut Vec<u8>, random: &mut Rng) {
    if input.is_empty() {
        return input.push(random.u8(..));
    }
    let at = random.usize(..input.len());
    match random.u8(..8) {
        0 => input[at] ^= 1 << random.u8(..8),
        1 => input[at] = random.u8(..),
        2 => input.insert(at, random.u8(..)),
        3 => drop(input.drain(part(input, random))),
        4 => {
            let copy = input[part(input, random)].to_vec();
            let times = if random.u8(..8) == 0 { random.usize(1..200) } else { 1 };
            input.splice(at..at, copy.repeat(times));
        }
        5 => {
            let copy = input[part(input, random)].to_vec();
            let end = input.len().min(at + copy.len());
            input[at..end].copy_from_slice(&copy[..end - at]);
        }
        6 if random.u8(..4) == 0 => input.truncate(at),
        _ => {
            let value = super::number(random);
            let width = random.choice([1, 2, 4, 8]).unwrap_or(8);
            let (little, big) = (value.to_le_bytes(), value.to_be_bytes());
            let written = if random.bool() { &little[..width] } else { &big[8 - width..] };
            let end = input.len().min(at + width);
            input[at..end].copy_from_slice(&written[..end - at]);
        }
    }
}

fn part(input: &[u8], random: &mut Rng) -> Range<usize> {
    let start = random.usize(..input.len());
    start..input.len().min(start + random.usize(1..=PART))
}
