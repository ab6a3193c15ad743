//! Names of ranges and domains -> short numbers, each name kept once.

use std::rc::Rc;

use rustc_hash::FxHashMap;
use stage2_text::without_instance;

/// Names are cut here, bytes: where the collector cuts them.
pub(super) const TEXT_LIMIT: usize = 1024;

#[derive(Default)]
pub(super) struct Strings {
    by_text: FxHashMap<Rc<[u8]>, u32>,
    list: Vec<Rc<[u8]>>,
    pub(super) cut: u64,
}

impl Strings {
    /// The number of a range's name, without what tells one call of an operator from the next.
    pub(super) fn range(&mut self, text: &[u8]) -> u32 {
        let mut text = without_instance(text);
        if let Some(cut) = text.get(..TEXT_LIMIT).filter(|cut| cut.len() < text.len()) {
            self.cut += 1;
            text = cut;
        }
        self.exact(text)
    }

    pub(super) fn exact(&mut self, text: &[u8]) -> u32 {
        if let Some(&known) = self.by_text.get(text) {
            return known;
        }
        let (text, fresh): (Rc<[u8]>, u32) = (text.into(), self.list.len() as u32);
        self.list.push(Rc::clone(&text));
        self.by_text.insert(text, fresh);
        fresh
    }

    /// Names from the number `from` on.
    pub(super) fn since(&self, from: u32) -> impl Iterator<Item = (u32, &[u8])> {
        let rest = self.list.get(from as usize..).unwrap_or_default();
        (from..).zip(rest.iter().map(AsRef::as_ref))
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
        let all: Vec<_> = strings.since(1).map(|(number, text)| (number, text.len())).collect();
        assert_eq!(all, [(1, TEXT_LIMIT)]);
    }
}
