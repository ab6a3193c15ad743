//! What one client collects: kinds of records, single calls, attributes, and its buffers.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::buffers::Buffers;
use crate::config::Config;
use crate::id_set::IdSet;
use crate::record::{Record, Span};

/// Of the process for the first activity API, of each subscriber for the second.
pub(crate) struct Collection {
    /// Enabled activity kinds.
    pub(crate) kinds: IdSet,
    /// Driver calls that get API records while the `DRIVER` kind is off.
    pub(crate) recorded_calls: IdSet,
    /// Values of the activity attributes that were set.
    pub(crate) attributes: RwLock<HashMap<u32, u64>>,
    pub(crate) buffers: Arc<Buffers>,
}

impl Collection {
    /// Of nothing.
    pub(crate) fn new(config: &Config) -> Collection {
        Collection {
            kinds: IdSet::new(),
            recorded_calls: IdSet::new(),
            attributes: RwLock::default(),
            buffers: Arc::new(Buffers::new(config)),
        }
    }

    /// Whether driver calls with an id get API records.
    pub(crate) fn has_call(&self, cbid: u32) -> bool {
        self.kinds.has(crate::abi::kind::DRIVER) || self.recorded_calls.has(cbid)
    }

    /// Records something if it is collected; its work is done at `end_ns`.
    pub(crate) fn offer(&self, record: Record, end_ns: u64) {
        let is_wanted = match record {
            Record::Api { cbid, .. } => self.has_call(cbid),
            _ => self.kinds.has(record.kind()),
        };
        if is_wanted {
            self.buffers.stage(record, end_ns);
        }
    }

    /// See [`Buffers::overwrite`].
    pub(crate) fn overwrite(&self, exec_id: u32, spans: &[Span]) {
        self.buffers.overwrite(exec_id, spans);
    }
}
