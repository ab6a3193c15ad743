//! Names of ranges and domains -> short numbers, each name kept once.

use std::rc::Rc;

use foldhash::HashMap;
use stage2_contract::text::without_instance;

/// Names are cut here, bytes: where the collector cuts them.
pub(super) const TEXT_LIMIT: usize = 1024;

#[derive(Default)]
pub(super) struct Strings {
    by_text: HashMap<Rc<[u8]>, u32>,
    list: Vec<Rc<[u8]>>,
    bytes: usize,
    pub(super) cut: u64,
}

impl Strings {
    /// The number of a range's name, without what tells one call of an operator from the next.
    pub(super) fn range(&mut self, text: &[u8]) -> u32 {
        self.name(without_instance(text))
    }

    /// The number of a name as it is, cut if it is too long.
    pub(super) fn name(&mut self, mut text: &[u8]) -> u32 {
        if let Some(cut) = text.get(..TEXT_LIMIT).filter(|cut| cut.len() < text.len()) {
            self.cut += 1;
            text = cut;
        }
        if let Some(&known) = self.by_text.get(text) {
            return known;
        }
        self.bytes += text.len();
        let (text, fresh): (Rc<[u8]>, u32) = (text.into(), self.list.len() as u32);
        self.list.push(Rc::clone(&text));
        self.by_text.insert(text, fresh);
        fresh
    }

    /// The name of a number; empty for one that was not given out.
    pub(super) fn text(&self, number: u32) -> &[u8] {
        self.list.get(number as usize).map_or(&[], AsRef::as_ref)
    }

    /// Bytes of all names.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_an_operator_share_a_name_and_long_names_are_cut() {
        let mut strings = Strings::default();
        let first = strings.range(b"aten::mm, op_id = 1");
        assert_eq!(strings.range(b"aten::mm, op_id = 2"), first);
        let long = vec![b'x'; TEXT_LIMIT + 1];
        assert_eq!(strings.range(&long), strings.range(&long[..TEXT_LIMIT]));
        assert_eq!((strings.cut, strings.len()), (1, 2));
        assert_eq!((strings.text(1).len(), strings.bytes()), (TEXT_LIMIT, TEXT_LIMIT + 8));
    }
}
