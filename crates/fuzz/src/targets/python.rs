//! A Python interpreter in the memory of a guest, as the collector reads it: lists, stacks, code objects, texts.
//!
//! The first four bytes of an input are the version, the rest is memory.

use std::cell::RefCell;

use stage2::host::probe::{WORDS, look};

use super::same_twice;

/// Frames of all stacks of a look, as the collector has them.
const MAX_FRAMES: usize = 16 << 10;

pub(super) fn check(input: &[u8]) {
    // At one address, which frames depend on.
    thread_local!(static IMAGE: RefCell<Box<[u64; WORDS]>> = RefCell::new(Box::new([0; WORDS])));
    let (version, memory) = input.split_at(input.len().min(4));
    let version = version.iter().fold(0, |version, byte| version << 8 | u32::from(*byte));
    let (_, frames) = same_twice("stacks", || {
        IMAGE.with_borrow_mut(|image| {
            image.fill(0);
            for (word, bytes) in image.iter_mut().zip(memory.chunks(8)) {
                let mut whole = [0; 8];
                whole.iter_mut().zip(bytes).for_each(|(whole, byte)| *whole = *byte);
                *word = u64::from_le_bytes(whole);
            }
            look(image, version)
        })
    });
    assert!(frames <= MAX_FRAMES, "{frames} frames");
}
