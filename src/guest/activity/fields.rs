//! The fields that are asked for in records of CUPTI's second activity API, by kind: what the decoded
//! [`Activity`](super::Activity) holds, and nothing else, because a record costs by its bytes.

use cupti_sys::bindings as sys;
use cupti_sys::fields::Field;

/// The fields of a kind, the kind itself first, and their names without the kind's.
pub(crate) struct Selection {
    /// `CUpti_ActivityKind`.
    pub(crate) kind: u32,
    name: &'static str,
    pub(crate) fields: &'static [Field],
    names: &'static [&'static str],
}

macro_rules! select {
    ($kind:ident, $name:literal, $($field:ident,)+) => {
        Selection {
            kind: sys::$kind,
            name: $name,
            fields: &[$(Field::new(sys::$field)),+],
            names: &[$(stringify!($field)),+],
        }
    };
}

/// Every kind that is ever enabled.
const SELECTIONS: [Selection; 6] = [
    select! {
        CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, "kernel",
        KERNEL_FIELD_KIND, KERNEL_FIELD_START, KERNEL_FIELD_END, KERNEL_FIELD_CORRELATION_ID,
        KERNEL_FIELD_NAME, KERNEL_FIELD_GRAPH_NODE_ID, KERNEL_FIELD_DEVICE_ID,
        KERNEL_FIELD_CONTEXT_ID, KERNEL_FIELD_STREAM_ID, KERNEL_FIELD_GRID_X, KERNEL_FIELD_GRID_Y,
        KERNEL_FIELD_GRID_Z, KERNEL_FIELD_BLOCK_X, KERNEL_FIELD_BLOCK_Y, KERNEL_FIELD_BLOCK_Z,
        KERNEL_FIELD_STATIC_SHARED_MEMORY, KERNEL_FIELD_DYNAMIC_SHARED_MEMORY,
        KERNEL_FIELD_LOCAL_MEMORY_PER_THREAD, KERNEL_FIELD_REGISTERS_PER_THREAD,
    },
    select! {
        CUPTI_ACTIVITY_KIND_MEMCPY, "memcpy",
        MEMCPY_FIELD_KIND, MEMCPY_FIELD_START, MEMCPY_FIELD_END, MEMCPY_FIELD_CORRELATION_ID,
        MEMCPY_FIELD_GRAPH_NODE_ID, MEMCPY_FIELD_DEVICE_ID, MEMCPY_FIELD_CONTEXT_ID,
        MEMCPY_FIELD_STREAM_ID, MEMCPY_FIELD_BYTES, MEMCPY_FIELD_COPY_KIND,
    },
    select! {
        CUPTI_ACTIVITY_KIND_MEMCPY2, "memcpy2",
        MEMCPY2_FIELD_KIND, MEMCPY2_FIELD_START, MEMCPY2_FIELD_END, MEMCPY2_FIELD_CORRELATION_ID,
        MEMCPY2_FIELD_GRAPH_NODE_ID, MEMCPY2_FIELD_DEVICE_ID, MEMCPY2_FIELD_CONTEXT_ID,
        MEMCPY2_FIELD_STREAM_ID, MEMCPY2_FIELD_BYTES, MEMCPY2_FIELD_COPY_KIND,
    },
    select! {
        CUPTI_ACTIVITY_KIND_MEMSET, "memset",
        MEMSET_FIELD_KIND, MEMSET_FIELD_START, MEMSET_FIELD_END, MEMSET_FIELD_CORRELATION_ID,
        MEMSET_FIELD_GRAPH_NODE_ID, MEMSET_FIELD_DEVICE_ID, MEMSET_FIELD_CONTEXT_ID,
        MEMSET_FIELD_STREAM_ID, MEMSET_FIELD_BYTES,
    },
    select! {
        CUPTI_ACTIVITY_KIND_GRAPH_TRACE, "graph_trace",
        GRAPH_TRACE_FIELD_KIND, GRAPH_TRACE_FIELD_START, GRAPH_TRACE_FIELD_END,
        GRAPH_TRACE_FIELD_CORRELATION_ID, GRAPH_TRACE_FIELD_DEVICE_ID, GRAPH_TRACE_FIELD_CONTEXT_ID,
        GRAPH_TRACE_FIELD_STREAM_ID, GRAPH_TRACE_FIELD_GRAPH_ID,
    },
    select! {
        CUPTI_ACTIVITY_KIND_DEVICE, "device",
        DEVICE_FIELD_KIND, DEVICE_FIELD_ID, DEVICE_FIELD_NAME, DEVICE_FIELD_NUM_MULTIPROCESSORS,
        DEVICE_FIELD_COMPUTE_CAPABILITY_MAJOR, DEVICE_FIELD_COMPUTE_CAPABILITY_MINOR,
        DEVICE_FIELD_GLOBAL_MEMORY_SIZE, DEVICE_FIELD_GLOBAL_MEMORY_BANDWIDTH,
        DEVICE_FIELD_CORE_CLOCK_RATE, DEVICE_FIELD_L2_CACHE_SIZE, DEVICE_FIELD_UUID,
    },
];

/// The fields to ask for in records of a kind; none for a kind that is never enabled.
pub(crate) fn of(kind: u32) -> &'static [Field] {
    SELECTIONS.iter().find(|chosen| chosen.kind == kind).map_or(&[], |chosen| chosen.fields)
}

/// The fields of all kinds, for people: `kernel: kind start end ...; memcpy: ...`.
pub(crate) fn names() -> String {
    let short = |name: &&str| {
        let field = name.split_once("_FIELD_").map_or(*name, |(_, field)| field);
        field.to_ascii_lowercase()
    };
    let line = |Selection { name, names, .. }: &Selection| {
        format!("{name}: {}", names.iter().map(short).collect::<Vec<_>>().join(" "))
    };
    SELECTIONS.iter().map(line).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_selection_begins_with_the_kind_and_has_no_field_twice() {
        for Selection { fields, names, kind, .. } in &SELECTIONS {
            assert_eq!((fields.first(), fields.len()), (Some(&Field::KIND), names.len()));
            let distinct: std::collections::BTreeSet<_> = fields.iter().collect();
            assert_eq!(distinct.len(), fields.len(), "kind {kind}");
            assert_eq!(of(*kind), *fields);
        }
        assert!(of(sys::CUPTI_ACTIVITY_KIND_RUNTIME).is_empty());
        let names = names();
        assert!(names.starts_with("kernel: kind start end correlation_id name "), "{names}");
        assert!(names.contains("; memset: kind start"), "{names}");
    }
}
