//! Domains, strings, schemas and enumerations of the guest into the table of registrations.
//!
//! The guest registers once and keeps what it got for ever. So this works in every phase, also where
//! nothing is recorded; it takes no lock and may be interrupted and entered again anywhere.

use std::ffi::c_char;

use cupti_sys::nvtx as sys;

use super::Text;
use crate::base::barrier;
use crate::guest::event::TEXT_LIMIT;
use crate::guest::registry::Handle;
use crate::guest::registry::{Kind, Registry, registry};
use crate::guest::schema_encoding::{
    self, DYNAMIC_IDS, MAX_NAME, MAX_SCHEMA_ENTRIES, MAX_VALUES, STATIC_IDS, SchemaEntry,
    SchemaHead,
};
use crate::guest::state;

pub(super) fn create_domain(name: Text<'_>) -> Handle {
    barrier::catch(Handle::NULL, || {
        name.with_bytes(|name| {
            let globs = state::range_filter().map_or(0, |ranges| ranges.match_domain(name));
            let library = stage2_contract::text::is_library_domain(name);
            Handle::new(add_text(Kind::Domain, 0, name), globs, library)
        })
    })
}

pub(super) fn register_string(domain: Handle, text: Text<'_>) -> Handle {
    barrier::catch(Handle::NULL, || {
        text.with_bytes(|text| {
            let globs = state::range_filter().map_or(0, |ranges| ranges.match_name(text));
            Handle::new(add_text(Kind::Text, domain.number(), text), globs, false)
        })
    })
}

fn add_text(kind: Kind, domain: u32, text: &[u8]) -> u32 {
    let kept = &text[..text.len().min(TEXT_LIMIT)];
    if let (Some(shared), true) = (state::shared(), kept.len() < text.len()) {
        shared.counters.names_cut.increment();
    }
    let added = registry().add_text(kind, domain, kept);
    state::note_registration(added.0, kind, text);
    counted(added)
}

/// The number of a registration; one that found no room is counted.
fn counted((number, kept): (u32, bool)) -> u32 {
    if let (Some(shared), false) = (state::shared(), kept) {
        shared.counters.beyond_limits.increment();
    }
    number
}

/// The identifier that a registration is answered with: the guest's own, or one that has our number.
fn identifier(chosen: u64, number: u32) -> u64 {
    if chosen == 0 { DYNAMIC_IDS + u64::from(number) } else { chosen }
}

/// The identifier that the guest chose, 0 where it left that to us. `None`: none that it may choose.
fn chosen(mask: u64, field: u32, id: u64) -> Option<u64> {
    match id {
        _ if mask & u64::from(field) == 0 => Some(0),
        0 => Some(0),
        id => (STATIC_IDS..DYNAMIC_IDS).contains(&id).then_some(id),
    }
}

/// Registers a schema in a table, and gives its identifier. `None`: the attributes describe none.
///
/// # Safety
/// `attributes` is null or points to attributes that, with all that they point to, are there until
/// the call ends.
pub(super) unsafe fn register_schema(
    registry: &Registry,
    domain: Handle,
    attributes: *const sys::nvtxPayloadSchemaAttr_t,
) -> Option<u64> {
    if attributes.is_null() {
        return None;
    }
    // SAFETY: the whole struct is there, and may stand anywhere.
    let attributes = unsafe { attributes.read_unaligned() };
    let has = |field: u32| attributes.fieldMask & u64::from(field) != 0;
    let needed = sys::NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE
        | sys::NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES
        | sys::NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES;
    let complete = attributes.fieldMask & u64::from(needed) == u64::from(needed);
    if !complete || attributes.entries.is_null() {
        return None;
    }
    let id_field = sys::NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID;
    let id = chosen(attributes.fieldMask, id_field, attributes.schemaId)?;
    let kind = u8::try_from(attributes.type_).unwrap_or(u8::MAX);
    let number = |present: bool, value: usize| {
        u32::try_from(if present { value } else { 0 }).unwrap_or(u32::MAX)
    };
    let size =
        number(has(sys::NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE), attributes.payloadStaticSize);
    let pack = number(has(sys::NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ALIGNMENT), attributes.packAlign);
    let named = has(sys::NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME);
    let name = if named { attributes.name } else { std::ptr::null() };
    // SAFETY: null or a text that ends in NUL, as the mask and NVTX say.
    let name = unsafe { self::name(name) };
    let head = SchemaHead { kind, size, pack, name };
    let count = attributes.numEntries.min(MAX_SCHEMA_ENTRIES);
    // SAFETY: so many entries are there, and may stand anywhere; names as above.
    let entry = |index: usize| unsafe {
        let entry = attributes.entries.add(index).read_unaligned();
        SchemaEntry {
            flags: entry.flags,
            kind: entry.type_,
            detail: entry.arrayOrUnionDetail,
            offset: entry.offset,
            name: self::name(entry.name),
        }
    };
    let entries = (0..count).map(&entry);
    let added = schema_encoding::add_schema(registry, domain.number(), id, head, entries);
    Some(identifier(id, counted(added)))
}

/// Registers an enumeration in a table, and gives its identifier. `None`: the attributes describe none.
///
/// # Safety
/// As [`register_schema`].
pub(super) unsafe fn register_enumeration(
    registry: &Registry,
    domain: Handle,
    attributes: *const sys::nvtxPayloadEnumAttr_t,
) -> Option<u64> {
    if attributes.is_null() {
        return None;
    }
    // SAFETY: the whole struct is there, and may stand anywhere.
    let attributes = unsafe { attributes.read_unaligned() };
    let needed = sys::NVTX_PAYLOAD_ENUM_ATTR_FIELD_ENTRIES
        | sys::NVTX_PAYLOAD_ENUM_ATTR_FIELD_NUM_ENTRIES
        | sys::NVTX_PAYLOAD_ENUM_ATTR_FIELD_SIZE;
    let complete = attributes.fieldMask & u64::from(needed) == u64::from(needed);
    if !complete || attributes.entries.is_null() || !(1..=8).contains(&attributes.sizeOfEnum) {
        return None;
    }
    let id_field = sys::NVTX_PAYLOAD_ENUM_ATTR_FIELD_SCHEMA_ID;
    let id = chosen(attributes.fieldMask, id_field, attributes.schemaId)?;
    let count = attributes.numEntries.min(MAX_VALUES);
    // SAFETY: so many entries are there, and may stand anywhere; names end in NUL.
    let value = |index: usize| unsafe {
        let entry = attributes.entries.add(index).read_unaligned();
        (entry.value, entry.isFlag != 0, name(entry.name))
    };
    let (size, values) = (attributes.sizeOfEnum as u8, (0..count).map(&value));
    let added = schema_encoding::add_enumeration(registry, domain.number(), id, size, values);
    Some(identifier(id, counted(added)))
}

/// A name as bytes, cut.
///
/// # Safety
/// `start` is null or points to a text that ends in NUL and lives for `'a`.
unsafe fn name<'a>(start: *const c_char) -> &'a [u8] {
    if start.is_null() {
        return &[];
    }
    // SAFETY: no byte behind the NUL is read.
    unsafe { std::slice::from_raw_parts(start.cast(), libc::strnlen(start, MAX_NAME)) }
}
