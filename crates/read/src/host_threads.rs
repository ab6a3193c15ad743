//! Numbers that a trace file gives to threads -> one number for each thread.

use rustc_hash::FxHashMap;

/// The most numbers, unless another limit is set.
pub(crate) const MOST: usize = 1 << 16;

/// A thread may have two numbers, one from before it launched. Here they are one: the first.
#[derive(Debug)]
pub struct ThreadNumbers {
    numbers: FxHashMap<u32, u32>,
    /// The number of each thread ID.
    by_tid: FxHashMap<u32, u32>,
    most: usize,
}

impl Default for ThreadNumbers {
    fn default() -> Self {
        Self::with_limit(MOST)
    }
}

impl ThreadNumbers {
    /// Keeps at most so many numbers.
    pub fn with_limit(most: usize) -> Self {
        Self { numbers: FxHashMap::default(), by_tid: FxHashMap::default(), most }
    }

    /// Adds a number with its thread ID (0: not known). Returns the number that stands for both; `None` if there is
    /// no room.
    pub fn add(&mut self, id: u32, os_tid: u32) -> Option<u32> {
        if self.numbers.len() >= self.most && !self.numbers.contains_key(&id) {
            return None;
        }
        let number = if os_tid == 0 { id } else { *self.by_tid.entry(os_tid).or_insert(id) };
        self.numbers.insert(id, number);
        Some(number)
    }

    /// Returns the number that stands for a number.
    pub fn get(&self, thread: u32) -> u32 {
        self.numbers.get(&thread).copied().unwrap_or(thread)
    }
}
