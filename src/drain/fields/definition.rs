//! Payload schemas and enumerations from the table of registrations, found by domain and identifier.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::guest::registry::{Entry as Registered, Kind, Lookup, Registry};
use crate::guest::schema_encoding::{self, DYNAMIC_IDS, Enumeration, Schema};

/// What an identifier stands for.
#[derive(Clone, Debug)]
pub enum Definition {
    /// A schema.
    Schema(Rc<Schema>),
    /// An enumeration.
    Enumeration(Rc<Enumeration>),
}

/// The schemas and enumerations of a process, read from its table of registrations.
pub struct Definitions {
    registry: &'static Registry,
    /// By domain and identifier, those that the guest numbered itself.
    chosen: FxHashMap<(u32, u64), Definition>,
    /// By number of the registration.
    given: FxHashMap<u32, Definition>,
    /// Registrations up to this one were looked at.
    seen: u32,
    /// Those of them that were not there yet: another thread was writing them.
    missing: Vec<u32>,
}

impl Definitions {
    /// Those in a table.
    pub fn of(registry: &'static Registry) -> Self {
        Definitions {
            registry,
            chosen: FxHashMap::default(),
            given: FxHashMap::default(),
            seen: 0,
            missing: Vec::new(),
        }
    }

    /// What an identifier stands for in a domain.
    pub fn find(&mut self, domain: u32, id: u64) -> Option<Definition> {
        if let Some(number) = id.checked_sub(DYNAMIC_IDS) {
            let number = u32::try_from(number).ok()?;
            if !self.given.contains_key(&number) {
                self.look();
            }
            return self.given.get(&number).cloned();
        }
        // It may have been registered again since, so the table is looked at each time.
        self.look();
        self.chosen.get(&(domain, id)).cloned()
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
        let definition = match entry.kind {
            Kind::Schema => {
                schema_encoding::schema(&entry.bytes).map(|it| Definition::Schema(Rc::new(it)))
            }
            Kind::Enumeration => schema_encoding::enumeration(&entry.bytes)
                .map(|it| Definition::Enumeration(Rc::new(it))),
            Kind::Domain | Kind::Text => None,
        };
        let Some(definition) = definition else { return };
        if entry.id == 0 {
            self.given.insert(number, definition);
        } else {
            self.chosen.insert((entry.domain, entry.id), definition);
        }
    }
}
