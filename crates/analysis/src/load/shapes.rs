//! Shape records -> kernels with their launch configuration, under identifiers that are safe to
//! look up.

use stage2_spool::Shape;

use super::ids::Ids;

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

/// All shapes of one file. Index 0 stands for shapes that are not defined.
#[derive(Debug)]
pub struct Shapes {
    list: Vec<ShapeEntry>,
    by_id: Ids,
}

impl Default for Shapes {
    fn default() -> Self {
        Self { list: vec![ShapeEntry::default()], by_id: Ids::default() }
    }
}

impl Shapes {
    /// Adds a shape, and gives its index. One that repeats an identifier counts from there on.
    pub fn define(&mut self, shape: Shape, name: Option<u32>) -> u32 {
        let index = self.list.len() as u32;
        self.by_id.insert(u64::from(shape.id), index);
        self.list.push(ShapeEntry { shape, name, defined: true });
        index
    }

    /// Index of the shape that `id` names.
    pub fn find(&self, id: u32) -> Option<u32> {
        self.by_id.get(u64::from(id))
    }

    /// Number that tells the names of kernels apart; 0 where a shape has none.
    pub fn name(&self, index: u32) -> u32 {
        let name = self.list.get(index as usize).and_then(|entry| entry.name);
        name.map_or(0, |name| name + 1)
    }

    /// Index of the stand-in.
    pub fn unknown(&self) -> u32 {
        0
    }

    /// All shapes, by index.
    pub fn into_list(self) -> Vec<ShapeEntry> {
        self.list
    }
}
