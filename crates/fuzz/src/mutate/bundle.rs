//! Several files of a run's folder in one input, and changes to one of them by its format.
//!
//! Each file: one byte that says which of [`FILES`] it is, its length as 4 bytes, little end first, and
//! its bytes.

use fastrand::Rng;

use super::Mutator;

/// Files of a bundle, and how each is changed.
pub const FILES: [(&str, Mutator); 10] = [
    ("run.json", super::json),
    ("env.json", super::json),
    ("config.yaml", super::text),
    ("collector/host-1.s2t", super::trace),
    ("collector/host-2.s2t", super::trace),
    ("counters/host-3.s2t", super::trace),
    ("nsys/run_cuda_gpu_kern_sum_mangled.csv", super::table),
    ("ncu/raw.csv", super::table),
    ("ncu/details.csv", super::table),
    ("baseline/host-4.s2t", super::trace),
];

/// Changes one of the files, or takes it out.
pub fn bundle(input: &mut Vec<u8>, random: &mut Rng) {
    let mut files = unpack(input);
    if files.is_empty() {
        return super::bytes(input, random);
    }
    let chosen = random.usize(..files.len());
    match random.u8(..32) {
        0 => drop(files.remove(chosen)),
        1 => files[chosen].0 = random.usize(..FILES.len()),
        _ => {
            let (file, bytes) = &mut files[chosen];
            FILES[*file].1(bytes, random);
        }
    }
    *input = pack(&files);
}

/// The files of an input: the number of each in [`FILES`], and its bytes. The last may be cut.
pub fn unpack(mut input: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let mut files = Vec::new();
    while let Some(([which, length @ ..], rest)) = input.split_first_chunk::<5>() {
        let length = u32::from_le_bytes(*length) as usize;
        let (bytes, rest) = rest.split_at(length.min(rest.len()));
        files.push((usize::from(*which) % FILES.len(), bytes.to_vec()));
        input = rest;
    }
    files
}

/// An input of these files.
pub fn pack(files: &[(usize, Vec<u8>)]) -> Vec<u8> {
    let mut input = Vec::new();
    for (which, bytes) in files {
        input.push(*which as u8);
        input.extend((bytes.len() as u32).to_le_bytes());
        input.extend(bytes);
    }
    input
}
