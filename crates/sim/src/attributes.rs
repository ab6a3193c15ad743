//! Reads and writes the attributes of both activity APIs.
//!
//! Sizes and defaults are those in the comments of the attribute enumeration. Few have an effect here;
//! the others are kept and given back.

use std::sync::atomic::Ordering;

use crate::abi::{Outcome, cupti};
use crate::collection::Collection;
use crate::state::{ActivityApi, State};

/// `CUpti_ActivityAttribute`: one buffer a thread.
const PER_THREAD_ACTIVITY_BUFFER: u32 = 9;
/// Records hold the fields that were chosen.
pub(crate) const USER_DEFINED_RECORDS: u32 = 11;
/// Whether the first subscriber allowed others; only to be read.
const MULTIPLE_SUBSCRIBER_STATE: u32 = 12;
/// The hardware times kernels, for the whole process.
const ENABLE_HES: u32 = 13;
/// How threads are numbered: 1 as the system does it.
const THREAD_ID_TYPE: u32 = 21;

/// Size in bytes and default of an attribute in the simulated version, or `None` where it lacks it.
fn attribute(state: &State, api: ActivityApi, number: u32) -> Option<(usize, u64)> {
    let toolkit = state.config.version.toolkit;
    match number {
        0 => Some((8, 3_200_000)),
        1 => Some((8, 8 << 20)),
        2 => Some((8, 250)),
        5 => Some((1, 0)),
        6 => Some((8, 3)),
        8 => Some((1, u64::from(toolkit < (13, 0)))),
        PER_THREAD_ACTIVITY_BUFFER if toolkit >= (12, 3) => {
            Some((1, u64::from(toolkit >= (13, 0))))
        }
        10 if toolkit >= (12, 9) => Some((8, 16 << 20)),
        _ if matches!(api, ActivityApi::First) => None,
        MULTIPLE_SUBSCRIBER_STATE => Some((1, state.callbacks.company().map_or(2, u64::from))),
        ENABLE_HES => Some((1, state.hardware_trace.load(Ordering::Relaxed).into())),
        USER_DEFINED_RECORDS | 14..=20 | 23 => Some((1, 0)),
        THREAD_ID_TYPE => Some((4, 0)),
        24 if toolkit >= (13, 5) => Some((8, 128)),
        _ => None,
    }
}

/// Size in bytes and default of an attribute whose value the caller has room for.
fn attribute_for(
    state: &State,
    api: ActivityApi,
    number: u32,
    size: Option<&mut usize>,
    value: *mut u8,
) -> Outcome<(usize, u64)> {
    let (bytes, default) = attribute(state, api, number).ok_or(cupti::INVALID_PARAMETER)?;
    let size = size.filter(|_| !value.is_null()).ok_or(cupti::INVALID_PARAMETER)?;
    if *size < bytes { Err(cupti::PARAMETER_SIZE) } else { Ok((bytes, default)) }
}

/// Reads an attribute.
///
/// # Safety
/// `value` is null or has room for `size` bytes.
pub(crate) unsafe fn get(
    state: &State,
    (api, collection): (ActivityApi, &Collection),
    number: u32,
    mut size: Option<&mut usize>,
    value: *mut u8,
) -> Outcome {
    let (bytes, default) = attribute_for(state, api, number, size.as_deref_mut(), value)?;
    if let Some(size) = size {
        *size = bytes;
    }
    let set = collection.attributes.read().get(&number).copied().unwrap_or(default);
    // SAFETY: `value` is not null and has room for `bytes` by the caller's contract.
    unsafe { value.copy_from_nonoverlapping(set.to_le_bytes().as_ptr(), bytes) };
    Ok(())
}

/// Writes an attribute.
///
/// # Safety
/// `value` is null or has `size` bytes.
pub(crate) unsafe fn set(
    state: &State,
    (api, collection): (ActivityApi, &Collection),
    number: u32,
    size: Option<&mut usize>,
    value: *mut u8,
) -> Outcome {
    let (bytes, _) = attribute_for(state, api, number, size, value)?;
    let mut raw = [0; 8];
    // SAFETY: `value` is not null and has `bytes` bytes by the caller's contract; none has over 8.
    unsafe { raw.as_mut_ptr().copy_from_nonoverlapping(value, bytes) };
    let set = u64::from_le_bytes(raw);
    let buffers = &collection.buffers;
    match number {
        MULTIPLE_SUBSCRIBER_STATE => return Err(cupti::INVALID_OPERATION),
        // Not once something is collected.
        USER_DEFINED_RECORDS if !collection.kinds.is_empty() => {
            return Err(cupti::INVALID_OPERATION);
        }
        ENABLE_HES => return enable_hardware_trace(state, set != 0),
        PER_THREAD_ACTIVITY_BUFFER => buffers.per_thread.store(set != 0, Ordering::Relaxed),
        THREAD_ID_TYPE => buffers.system_thread_ids.store(set == 1, Ordering::Relaxed),
        _ => {}
    }
    collection.attributes.write().insert(number, set);
    Ok(())
}

/// Has the hardware time kernels. Records are the same here, with it and without. From 13.3 on this is accepted
/// for every GPU, because it may come before the driver is initialised.
///
/// # Errors
/// `NOT_SUPPORTED` before 13.3 unless the simulated GPU can, as set in the environment; on taking it back;
/// before 12.8.
pub(crate) fn enable_hardware_trace(state: &State, on: bool) -> Outcome {
    let config = &state.config;
    let toolkit = config.version.toolkit;
    let accepts = toolkit >= (13, 3) || (toolkit >= (12, 8) && config.faults.hardware_trace);
    if !on || !accepts {
        return Err(cupti::NOT_SUPPORTED);
    }
    state.hardware_trace.store(true, Ordering::Relaxed);
    Ok(())
}
