//! Payload schemas and enumerations from the table of registrations, found by domain and identifier.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::guest::registry::{Entry as Registered, Kind, Lookup, Registry};
use crate::guest::schema_encoding::{self, DYNAMIC_IDS, Enumeration, Schema};

#[derive(Clone, Debug)]
pub(crate) enum Definition {
    Schema(Rc<Schema>),
    Enumeration(Rc<Enumeration>),
}

/// The schemas and enumerations of a process, read from its table of registrations.
pub(crate) struct Definitions<'r> {
    registry: &'r Registry,
    /// By domain and identifier; those that we numbered have no domain here.
    known: FxHashMap<(u32, u64), Definition>,
    /// Registrations up to this one were looked at.
    seen: u32,
    /// Those of them that were not there yet: another thread was writing them.
    missing: Vec<u32>,
}

impl<'r> Definitions<'r> {
    pub(crate) fn of(registry: &'r Registry) -> Self {
        Definitions { registry, known: FxHashMap::default(), seen: 0, missing: Vec::new() }
    }

    /// What an identifier stands for in a domain.
    pub(crate) fn find(&mut self, domain: u32, id: u64) -> Option<Definition> {
        let is_chosen = id < DYNAMIC_IDS;
        let key = if is_chosen { (domain, id) } else { (0, id) };
        // The guest may have registered an identifier of its own again since.
        if is_chosen || !self.known.contains_key(&key) {
            self.look();
        }
        self.known.get(&key).cloned()
    }

    /// Takes in what was registered since the last time.
    fn look(&mut self) {
        let last = self.registry.last();
        let missing = std::mem::take(&mut self.missing);
        for number in missing.into_iter().chain(self.seen + 1..=last) {
            match self.registry.get(number) {
                Lookup::Entry(entry) => self.take_in(number, &entry),
                Lookup::Nothing => self.missing.push(number),
                Lookup::Refused => {}
            }
        }
        self.seen = last.max(self.seen);
    }

    fn take_in(&mut self, number: u32, entry: &Registered) {
        let bytes = &entry.bytes;
        let definition = match entry.kind {
            Kind::Schema => schema_encoding::schema(bytes).map(Rc::new).map(Definition::Schema),
            Kind::Enumeration => {
                schema_encoding::enumeration(bytes).map(Rc::new).map(Definition::Enumeration)
            }
            Kind::Domain | Kind::Text => None,
        };
        let Some(definition) = definition else { return };
        let key = match entry.id {
            0 => (0, DYNAMIC_IDS + u64::from(number)),
            id => (entry.domain, id),
        };
        self.known.insert(key, definition);
    }
}
