//! Shape records -> kernels with their launch configuration, under identifiers that are safe to
//! look up.

use rustc_hash::FxHashMap;
use stage2_contract::trace::Shape;

/// A kernel and how it was launched, with the index of its name in the names of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShapeEntry {
    /// As recorded; [`Shape::id`] and [`Shape::name`] mean nothing outside the file.
    pub shape: Shape,
    /// Its name; nothing where the file does not define it.
    pub name: Option<u32>,
    /// False for the stand-in of shapes that are used but not defined.
    pub defined: bool,
}

/// Index of the stand-in for shapes that are not defined.
pub const UNKNOWN: u32 = 0;

#[derive(Debug)]
pub(crate) struct Shapes {
    list: Vec<ShapeEntry>,
    by_id: FxHashMap<u32, u32>,
}

impl Default for Shapes {
    fn default() -> Self {
        Self { list: vec![ShapeEntry::default()], by_id: FxHashMap::default() }
    }
}

impl Shapes {
    /// Adds a shape, and gives its index. One that repeats an identifier counts from there on; one that says
    /// the same again stays one.
    pub(crate) fn define(&mut self, shape: Shape, name: Option<u32>) -> u32 {
        let said = ShapeEntry { shape, name, defined: true };
        if let Some(index) = self.find(shape.id)
            && self.list.get(index as usize) == Some(&said)
        {
            return index;
        }
        let index = self.list.len() as u32;
        self.by_id.insert(shape.id, index);
        self.list.push(said);
        index
    }

    pub(crate) fn find(&self, id: u32) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    /// Number that tells the names of kernels apart; 0 where a shape has none.
    pub(crate) fn name(&self, index: u32) -> u32 {
        let name = self.list.get(index as usize).and_then(|entry| entry.name);
        name.map_or(0, |name| name + 1)
    }

    pub(crate) fn into_list(self) -> Vec<ShapeEntry> {
        self.list
    }
}
