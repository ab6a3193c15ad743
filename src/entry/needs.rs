//! What a start cannot do without, tried before it: where the system refuses it later, std ends the
//! process or panics.

use crate::base::{allocator, clock, pages};
use crate::guest::event::Events;

/// The queue of events, the stack of a thread, and tables that grow.
const ROOM_BYTES: usize = Events::BYTES + (2 << 20) + (16 << 20);
/// Thread-specific keys: one of ours, and two of std's.
const KEYS: usize = 3;

/// What the system does not give, and what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Lack {
    #[error("the system refuses clock_gettime; allow it in the process's seccomp filter")]
    Clock,
    #[error(
        "the process has used up its thread-specific keys (pthread_key_create); have it use fewer \
         libraries that take some"
    )]
    Keys,
    #[error("the system refuses memory (ulimit -v or -d, or none is left)")]
    Memory,
    #[error(
        "the process may not take {} MiB more of address space (ulimit -v, or no memory left to \
         promise)",
        ROOM_BYTES >> 20
    )]
    Room,
}

/// Whether a start has what it needs.
///
/// # Errors
/// The first thing that is not there.
pub(super) fn check() -> Result<(), Lack> {
    if allocator::has_failed() {
        Err(Lack::Memory)
    } else if !clock::works() {
        Err(Lack::Clock)
    } else if !has_keys() {
        Err(Lack::Keys)
    } else if !has_room() {
        Err(Lack::Room)
    } else {
        Ok(())
    }
}

fn has_keys() -> bool {
    let mut keys: [libc::pthread_key_t; KEYS] = [0; KEYS];
    // SAFETY: the places are valid; what was created, for nobody yet, is deleted.
    unsafe {
        let create = |key: &mut libc::pthread_key_t| libc::pthread_key_create(key, None) == 0;
        let created = keys.iter_mut().map(create).take_while(|created| *created).count();
        keys.iter().take(created).for_each(|&key| {
            libc::pthread_key_delete(key);
        });
        created == KEYS
    }
}

fn has_room() -> bool {
    pages::map(ROOM_BYTES, libc::MAP_PRIVATE).is_some_and(|room| {
        // SAFETY: a new mapping, given back at once, that nobody knows of.
        unsafe { libc::munmap(room, ROOM_BYTES) == 0 }
    })
}
