//! A Python interpreter in the memory of a guest, as the collector reads it: lists, stacks, code objects, texts.
//!
//! The first four bytes of an input are the version, the rest is memory.

use std::cell::RefCell;

use stage2::host::probe::{WORDS, look};

use super::same_twice;

/// Frames of all stacks of a look, as the collector has them.
const MAX_FRAMES: usize = 16 << 10;

/// Memory for an image, at one address for all inputs, because frames depend on it. No field of an object in it
/// lies behind the closed memory that follows.
fn closed() -> &'static mut [u64; WORDS] {
    const ALL_BYTES: usize = 64 << 20;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_NORESERVE;
    // SAFETY: an anonymous mapping at a place of the kernel's choice touches nothing that exists. It stays, and
    // nobody else has it.
    unsafe {
        let start = libc::mmap(std::ptr::null_mut(), ALL_BYTES, libc::PROT_NONE, flags, -1, 0);
        assert_ne!(start, libc::MAP_FAILED, "some megabytes of address space");
        let access = libc::PROT_READ | libc::PROT_WRITE;
        assert_eq!(libc::mprotect(start, WORDS * 8, access), 0, "memory of our own can be opened");
        &mut *start.cast()
    }
}

pub(super) fn check(input: &[u8]) {
    thread_local!(static IMAGE: RefCell<&'static mut [u64; WORDS]> = RefCell::new(closed()));
    let (version, memory) = input.split_at(input.len().min(4));
    let version = version.iter().fold(0, |version, byte| version << 8 | u32::from(*byte));
    let (_, frames) = same_twice("stacks", || {
        IMAGE.with_borrow_mut(|image| {
            let image = &mut **image;
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
