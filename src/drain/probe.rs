//! The reader of payloads without a recording around it, for programs that try it with bytes of any
//! content (`crates/fuzz`).

use super::fields::{self, Definitions};
use crate::guest::registry::Registry;

/// What the payloads of one call say.
#[derive(Debug, PartialEq)]
pub struct Fields {
    /// Names, and values as texts.
    pub fields: Vec<(Vec<u8>, String)>,
    /// Entries and payloads that were left out or cut.
    pub skipped: u64,
}

/// Reads the payloads of a call in `domain`, as they travel, by the schemas of a table.
pub fn fields(blob: &[u8], domain: u32, registry: &Registry) -> Fields {
    let values = fields::read(blob, domain, &mut Definitions::of(registry));
    let fields = values.fields.into_iter().map(|(name, value)| (name, format!("{value:?}")));
    Fields { fields: fields.collect(), skipped: values.skipped }
}
