//! CUPTI's second activity API: everything belongs to a subscriber, and records may hold chosen fields.
//!
//! A process uses this API or the first one, not both: whoever comes second gets
//! [`CuptiError::MULTIPLE_SUBSCRIBERS`]. The order of calls: [`Api::subscribe_as`]; attributes, first of
//! all `CUPTI_ACTIVITY_ATTR_USER_DEFINED_RECORDS`; [`Api::register_callbacks_v2`];
//! [`Api::activity_enable_v2`]. Flushing has no second form: [`Api::flush_all`] flushes the buffers of
//! all subscribers.
//!
//! Every method returns [`CuptiError::NOT_IMPLEMENTED`] where the library lacks the function.

use crate::bindings as cupti;
use crate::error::{CuptiError, Result, check, told};
use crate::fields::Field;
use crate::subscriber::Subscriber;
use crate::table::Api;
use std::ffi::c_void;
use std::mem::{offset_of, size_of};
use std::os::raw::c_int;
use std::ptr;

/// Called by CUPTI on the program's threads when it needs a buffer: fills in its address (8-byte
/// aligned), its size in bytes and the most records to put into it (0: as many as fit). `info` has
/// no meaning yet.
pub type BufferRequestV2 = extern "C" fn(
    buffer: *mut *mut u8,
    size_bytes: *mut usize,
    max_records: *mut usize,
    info: *mut cupti::CUpti_BufferCallbackRequestInfo,
);

/// Called by CUPTI when a buffer comes back: its address, its size and how much of it holds records, in
/// bytes, and what [`crate::fields::Completion`] reads.
pub type BufferCompleteV2 = extern "C" fn(
    buffer: *mut u8,
    size_bytes: usize,
    valid_bytes: usize,
    info: *mut cupti::CUpti_BufferCallbackCompleteInfo,
);

/// First version that tells the layouts of records; 13.2 has the first half of the functions, as a beta.
const COMPLETE_SINCE: u32 = 130_300;

/// First version whose `CUpti_ActivityConfig` has `pKindOptions`.
const KIND_OPTIONS_SINCE: u32 = 130_400;

mod sealed {
    /// Values of attributes, made of bytes that may have any value: switches of one byte, choices of four.
    pub trait AttributeValue {}
    impl AttributeValue for u8 {}
    impl AttributeValue for u32 {}
}

impl Api {
    /// Whether this CUPTI has all of the second activity API: 13.3 and later have.
    pub fn has_activity_v2(&self) -> bool {
        !self.absent().iter().any(|name| name.ends_with("_v2"))
            && self.version().is_ok_and(|version| version >= COMPLETE_SINCE)
    }

    /// Registers the two functions that hand buffers to CUPTI and take them back, for this subscriber.
    pub fn register_callbacks_v2(
        &self,
        subscriber: &Subscriber,
        request: BufferRequestV2,
        complete: BufferCompleteV2,
    ) -> Result<()> {
        let register = self.activity_register_callbacks_v2.ok_or(CuptiError::NOT_IMPLEMENTED)?;
        // SAFETY: by the contract of `load`; both are safe functions for any arguments.
        check(unsafe { register(subscriber.handle(), Some(request), Some(complete)) })
    }

    /// Starts collecting records of a kind for this subscriber, with these fields in them. The first
    /// one is [`Field::KIND`]. Without fields, records are as CUPTI defines them, which
    /// `CUPTI_ACTIVITY_ATTR_USER_DEFINED_RECORDS` has to allow.
    ///
    /// To choose other fields for a kind that was enabled before, disable it and call
    /// [`Api::flush_all`] with `forced` first. Copies between devices (`MEMCPY2`) are their own
    /// kind here, which `MEMCPY` does not bring along.
    ///
    /// # Errors
    /// [`CuptiError::INVALID_PARAMETER`] for fields that do not begin with the kind,
    /// `CUPTI_ERROR_NOT_COMPATIBLE`, `CUPTI_ERROR_INVALID_KIND` and others.
    pub fn activity_enable_v2(
        &self,
        subscriber: &Subscriber,
        kind: cupti::CUpti_ActivityKind,
        fields: &[Field],
    ) -> Result<()> {
        let enable = self.activity_enable_v2.ok_or(CuptiError::NOT_IMPLEMENTED)?;
        if fields.is_empty() {
            // SAFETY: by the contract of `load`; null stands for no configuration.
            return check(unsafe { enable(subscriber.handle(), kind, ptr::null_mut()) });
        }
        if fields.first() != Some(&Field::KIND) {
            return Err(CuptiError::INVALID_PARAMETER);
        }
        let mut config = cupti::CUpti_ActivityConfig {
            structSize: if self.version()? >= KIND_OPTIONS_SINCE {
                size_of::<cupti::CUpti_ActivityConfig>()
            } else {
                offset_of!(cupti::CUpti_ActivityConfig, pKindOptions)
            },
            fieldSelection: cupti::CUpti_ActivityFieldSelection {
                structSize: size_of::<cupti::CUpti_ActivityFieldSelection>(),
                numFields: fields.len(),
                // CUPTI reads them only, during the call: NVIDIA's tutorial passes an array that is
                // gone after it. A `Field` is a C `int`.
                pFieldIds: fields.as_ptr().cast::<c_int>().cast_mut(),
            },
            pKindOptions: ptr::null_mut(),
        };
        // SAFETY: by the contract of `load`; what the configuration points to lives during the call.
        check(unsafe { enable(subscriber.handle(), kind, &raw mut config) })
    }

    /// Stops collecting records of a kind for this subscriber.
    pub fn activity_disable_v2(
        &self,
        subscriber: &Subscriber,
        kind: cupti::CUpti_ActivityKind,
    ) -> Result<()> {
        let disable = self.activity_disable_v2.ok_or(CuptiError::NOT_IMPLEMENTED)?;
        // SAFETY: by the contract of `load`; null stands for no configuration.
        check(unsafe { disable(subscriber.handle(), kind, ptr::null_mut()) })
    }

    /// Sets an attribute of this subscriber.
    ///
    /// # Errors
    /// `CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT` for a value of another type, and others.
    pub fn set_attribute_v2<T: sealed::AttributeValue>(
        &self,
        subscriber: &Subscriber,
        attribute: cupti::CUpti_ActivityAttribute,
        mut value: T,
    ) -> Result<()> {
        let set = self.activity_set_attribute_v2.ok_or(CuptiError::NOT_IMPLEMENTED)?;
        let mut bytes = size_of::<T>();
        let value = (&raw mut value).cast::<c_void>();
        // SAFETY: by the contract of `load`; the value is as long as the size says.
        check(unsafe { set(subscriber.handle(), attribute, &mut bytes, value) })
    }

    /// Records of this subscriber that CUPTI dropped for want of a buffer since the last call.
    pub fn num_dropped_v2(&self, subscriber: &Subscriber) -> Result<usize> {
        let get = self.activity_get_num_dropped_records_v2.ok_or(CuptiError::NOT_IMPLEMENTED)?;
        // SAFETY: by the contract of `load`; null and 0 stand for the whole process.
        told(|dropped| unsafe { get(subscriber.handle(), ptr::null_mut(), 0, dropped) })
    }

    /// CUPTI's clock now, in ns: the clock of the timestamps in this subscriber's records.
    pub fn timestamp_v2_ns(&self, subscriber: &Subscriber) -> Result<u64> {
        let get = self.get_timestamp_v2.ok_or(CuptiError::NOT_IMPLEMENTED)?;
        // SAFETY: by the contract of `load`; the pointer is valid for a write.
        told(|now_ns| unsafe { get(subscriber.handle(), now_ns) })
    }

    /// Has the hardware take the times of kernels from now on, which Blackwell and later GPUs can
    /// (CUPTI 12.8 and later). It belongs to the process, must come before the first context, and cannot
    /// be taken back.
    ///
    /// # Errors
    /// `CUPTI_ERROR_NOT_SUPPORTED` on older GPUs, `CUPTI_ERROR_HES_TRACE_NOT_SUPPORTED_ON_MPS` and
    /// others: kernels are then timed as without this call.
    pub fn enable_hardware_trace(&self) -> Result<()> {
        let enable = self.activity_enable_hw_trace.ok_or(CuptiError::NOT_IMPLEMENTED)?;
        // SAFETY: by the contract of `load`.
        check(unsafe { enable(1) })
    }
}
