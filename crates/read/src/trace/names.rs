//! Name records -> strings by index, each kept once.

use std::collections::HashMap;

use indexmap::IndexSet;

/// Names of a file, each once.
#[derive(Debug, Default)]
pub struct Names {
    all: IndexSet<Vec<u8>>,
    by_id: HashMap<u32, u32>,
}

impl Names {
    /// Adds a string, and gives its index. One that repeats an identifier counts from there on.
    pub fn define(&mut self, id: u32, bytes: Vec<u8>) -> u32 {
        let index = self.add(bytes);
        self.by_id.insert(id, index);
        index
    }

    /// Adds a string that no record defines, and gives its index.
    pub fn add(&mut self, bytes: Vec<u8>) -> u32 {
        self.all.insert_full(bytes).0 as u32
    }

    pub(crate) fn get(&self, index: u32) -> Option<&[u8]> {
        self.all.get_index(index as usize).map(Vec::as_slice)
    }

    pub(crate) fn find(&self, id: u32) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    pub(crate) fn into_list(self) -> Vec<Vec<u8>> {
        self.all.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_is_kept_once_and_an_identifier_can_move() {
        let mut names = Names::default();
        names.define(7, b"a".to_vec());
        names.define(8, b"a".to_vec());
        names.define(7, b"b".to_vec());
        assert_eq!((names.find(7), names.find(8), names.find(9)), (Some(1), Some(0), None));
        assert_eq!(names.into_list(), [b"a".to_vec(), b"b".to_vec()]);
    }
}
