//! Turns the raw function table into calls that return `Result`s.
//!
//! The calls are safe because [`Api::load`]'s contract covers them: the library is a CUPTI and the
//! driver is there. Those that are made while the profiled program waits ([`Walker::next_record`],
//! [`Api::timestamp_ns`], [`Api::graph_node_id`], [`Api::num_dropped`]) add nothing to CUPTI's own
//! cost: no allocation, no lock. Nothing here panics.

use crate::bindings as cupti;
use crate::error::{CuptiError, Result, check};
use crate::table::Api;
use std::ffi::{CStr, c_char, c_void};
use std::mem::{offset_of, size_of};
use std::ptr::{self, NonNull};

/// Called by CUPTI for every enabled callback, with what was given to [`Api::subscribe`], the
/// domain, the callback id and the domain's data (for API calls `CUpti_CallbackData`), which is
/// valid during the call only.
pub type Callback = extern "C" fn(
    user_data: *mut c_void,
    domain: cupti::CUpti_CallbackDomain,
    id: cupti::CUpti_CallbackId,
    data: *const c_void,
);

/// Called by CUPTI on the program's threads when it needs a buffer: fills in its address (8-byte
/// aligned), its size in bytes and the most records to put into it (0: as many as fit).
pub type BufferRequest =
    extern "C" fn(buffer: *mut *mut u8, size_bytes: *mut usize, max_records: *mut usize);

/// Called by CUPTI when a buffer comes back: its address, its size and how much of it holds
/// records, in bytes. Context and stream are always null and 0 since CUDA 6.
pub type BufferComplete = extern "C" fn(
    context: cupti::CUcontext,
    stream_id: u32,
    buffer: *mut u8,
    size_bytes: usize,
    valid_bytes: usize,
);

/// `cuptiActivityGetNextRecord`.
pub type NextRecord = unsafe extern "C" fn(
    buffer: *mut u8,
    valid_bytes: usize,
    record: *mut *mut cupti::CUpti_Activity,
) -> cupti::CUptiResult;

/// CUPTI's way from one record of a buffer to the next: only CUPTI knows how long each is.
#[derive(Clone, Copy, Debug)]
pub struct Walker(NextRecord);

impl Walker {
    /// For buffers that come from no library, such as recorded ones.
    ///
    /// # Safety
    /// `next` does what CUPTI's function does, and the texts that its records point to end in NUL and
    /// stay for the life of the process.
    pub const unsafe fn new(next: NextRecord) -> Self {
        Walker(next)
    }

    /// The record after `previous` (null: the first) in a buffer that CUPTI handed back; `None`
    /// after the last one.
    ///
    /// # Errors
    /// `CUPTI_ERROR_INVALID_KIND` for an incomplete record: nothing after it can be read.
    ///
    /// # Safety
    /// The buffer is one that CUPTI completed with `valid_bytes`, unchanged since, and `previous`
    /// is null or came from this function for this buffer.
    pub unsafe fn next_record(
        self,
        buffer: *mut u8,
        valid_bytes: usize,
        previous: *mut cupti::CUpti_Activity,
    ) -> Result<Option<NonNull<cupti::CUpti_Activity>>> {
        let mut record = previous;
        // SAFETY: the caller vouches for the buffer and the record.
        let code = unsafe { (self.0)(buffer, valid_bytes, &mut record) };
        match code {
            cupti::CUPTI_ERROR_MAX_LIMIT_REACHED => Ok(None),
            code => check(code).map(|()| NonNull::new(record)),
        }
    }
}

/// The one registration for callbacks that CUPTI allows in a process.
///
/// Dropping it leaves the registration in place; [`Api::unsubscribe`] ends it.
#[derive(Debug)]
pub struct Subscriber(NonNull<cupti::CUpti_Subscriber_st>);

// SAFETY: the handle is only a name for CUPTI, whose functions may be called from any thread.
unsafe impl Send for Subscriber {}
// SAFETY: shared references to it give access to nothing.
unsafe impl Sync for Subscriber {}

/// First version whose `cuptiSubscribe_v2` takes `CUpti_SubscriberParams` in full; 13.0 and 13.1 end
/// before `allowMultipleSubscribers`.
const LONG_SUBSCRIBER_PARAMS_SINCE: u32 = 130_200;

/// The longest name of a subscriber that CUPTI hands out is 64 bytes, its ending included.
const SUBSCRIBER_NAME_BYTES: usize = 128;

impl Api {
    /// CUPTI's version: 18 for CUDA 11.8 to 12.1, 20 to 28 for 12.2 to 12.9, then
    /// major * 10000 + minor * 100 + update.
    pub fn version(&self) -> Result<u32> {
        let mut version = 0;
        // SAFETY: by the contract of `load`; the pointer is valid for a write.
        check(unsafe { (self.get_version)(&mut version) })?;
        Ok(version)
    }

    /// CUPTI's clock now, in ns: the clock of the timestamps in its records.
    pub fn timestamp_ns(&self) -> Result<u64> {
        let mut now_ns = 0;
        // SAFETY: by the contract of `load`; the pointer is valid for a write.
        check(unsafe { (self.get_timestamp)(&mut now_ns) })?;
        Ok(now_ns)
    }

    /// Registers the process's callback; which calls it sees is up to [`Api::enable_callback`].
    ///
    /// # Errors
    /// [`CuptiError::MULTIPLE_SUBSCRIBERS`] if another tool was first; see [`Api::holder`].
    #[expect(clippy::not_unsafe_ptr_arg_deref, reason = "nobody but the callback looks at it")]
    pub fn subscribe(&self, callback: Callback, user_data: *mut c_void) -> Result<Subscriber> {
        let mut handle = ptr::null_mut();
        // SAFETY: by the contract of `load`; `user_data` is handed back, never looked at, and the
        // callback is a safe function for any arguments.
        check(unsafe { (self.subscribe)(&mut handle, Some(callback), user_data) })?;
        NonNull::new(handle).map(Subscriber).ok_or(CuptiError::UNKNOWN)
    }

    /// Ends a registration.
    pub fn unsubscribe(&self, subscriber: Subscriber) -> Result<()> {
        // SAFETY: by the contract of `load`; the handle came from `subscribe` and ends here.
        check(unsafe { (self.unsubscribe)(subscriber.0.as_ptr()) })
    }

    /// Switches the callback on or off for one function or event. The exclusive reference keeps
    /// these calls apart, which CUPTI leaves to its client.
    pub fn enable_callback(
        &self,
        subscriber: &mut Subscriber,
        domain: cupti::CUpti_CallbackDomain,
        id: cupti::CUpti_CallbackId,
        on: bool,
    ) -> Result<()> {
        // SAFETY: by the contract of `load`; the handle is live.
        check(unsafe { (self.enable_callback)(on.into(), subscriber.0.as_ptr(), domain, id) })
    }

    /// Who holds CUPTI, as that subscriber calls itself, after [`Api::subscribe`] was refused with
    /// [`CuptiError::MULTIPLE_SUBSCRIBERS`]. CUPTI tells from 13.0 on.
    ///
    /// To ask is to try to subscribe once more, as `own_name`; a success is undone at once.
    pub fn holder(&self, own_name: &CStr) -> Option<String> {
        extern "C" fn nothing(_: *mut c_void, _: u32, _: u32, _: *const c_void) {}
        let subscribe = self.subscribe_v2?;
        let long = self.version().ok()? >= LONG_SUBSCRIBER_PARAMS_SINCE;
        let mut name = [0_u8; SUBSCRIBER_NAME_BYTES];
        let mut parameters = cupti::CUpti_SubscriberParams {
            structSize: if long {
                size_of::<cupti::CUpti_SubscriberParams>()
            } else {
                offset_of!(cupti::CUpti_SubscriberParams, allowMultipleSubscribers)
            },
            subscriberName: own_name.as_ptr(),
            oldSubscriberName: name.as_mut_ptr().cast::<c_char>(),
            // The last byte stays 0 whatever CUPTI writes.
            oldSubscriberSize: name.len() - 1,
            allowMultipleSubscribers: 0,
            padding: [0; 7],
        };
        let mut handle = ptr::null_mut();
        // SAFETY: by the contract of `load`; all pointers are valid during the call, and the
        // parameters are at least as long as they say.
        let code =
            unsafe { subscribe(&mut handle, Some(nothing), ptr::null_mut(), &raw mut parameters) };
        if check(code).is_ok() {
            if let Some(handle) = NonNull::new(handle) {
                // The failure of an undo has no one to go to: the next subscription will report it.
                let _ = self.unsubscribe(Subscriber(handle));
            }
            return None;
        }
        let name = CStr::from_bytes_until_nul(&name).ok()?.to_string_lossy();
        (!name.is_empty()).then(|| name.into_owned())
    }

    /// Registers the two functions that hand buffers to CUPTI and take them back.
    pub fn register_callbacks(
        &self,
        request: BufferRequest,
        complete: BufferComplete,
    ) -> Result<()> {
        // SAFETY: by the contract of `load`; both are safe functions for any arguments.
        check(unsafe { (self.activity_register_callbacks)(Some(request), Some(complete)) })
    }

    /// Starts collecting records of a kind.
    pub fn activity_enable(&self, kind: cupti::CUpti_ActivityKind) -> Result<()> {
        // SAFETY: by the contract of `load`.
        check(unsafe { (self.activity_enable)(kind) })
    }

    /// Stops collecting records of a kind.
    pub fn activity_disable(&self, kind: cupti::CUpti_ActivityKind) -> Result<()> {
        // SAFETY: by the contract of `load`.
        check(unsafe { (self.activity_disable)(kind) })
    }

    /// Has every buffer with complete records handed back; with `forced` also incomplete ones.
    /// Blocks until then, and must not be called from CUPTI's buffer and resource callbacks.
    pub fn flush_all(&self, forced: bool) -> Result<()> {
        // SAFETY: by the contract of `load`.
        check(unsafe { (self.activity_flush_all)(forced.into()) })
    }

    /// The way from record to record of the buffers that this CUPTI completes.
    pub fn walker(&self) -> Walker {
        Walker(self.activity_get_next_record)
    }

    /// Records that CUPTI dropped for want of a buffer since the last call.
    pub fn num_dropped(&self) -> Result<usize> {
        let mut dropped = 0;
        // SAFETY: by the contract of `load`; null and 0 stand for the whole process.
        let code =
            unsafe { (self.activity_get_num_dropped_records)(ptr::null_mut(), 0, &mut dropped) };
        check(code)?;
        Ok(dropped)
    }

    /// Sets an attribute whose value is one byte, such as a switch.
    pub fn set_attribute_u8(
        &self,
        attribute: cupti::CUpti_ActivityAttribute,
        mut value: u8,
    ) -> Result<()> {
        let mut bytes = 1;
        let value = (&raw mut value).cast::<c_void>();
        // SAFETY: by the contract of `load`; the value is as long as the size says.
        check(unsafe { (self.activity_set_attribute)(attribute, &mut bytes, value) })
    }

    /// The device of a context, as CUDA numbers devices in this process.
    ///
    /// # Safety
    /// The context exists, for example as handed to a resource callback that is still running.
    pub unsafe fn device_of(&self, context: cupti::CUcontext) -> Result<u32> {
        let get = self.get_device_id.ok_or(CuptiError::NOT_IMPLEMENTED)?;
        let mut device = 0;
        // SAFETY: the caller vouches for the context.
        check(unsafe { get(context, &mut device) })?;
        Ok(device)
    }

    /// The `graphNodeId` that records of this node carry.
    ///
    /// # Safety
    /// The node exists, for example as handed to a resource callback that is still running.
    pub unsafe fn graph_node_id(&self, node: cupti::CUgraphNode) -> Result<u64> {
        let get = self.get_graph_node_id.ok_or(CuptiError::NOT_IMPLEMENTED)?;
        let mut id = 0;
        // SAFETY: the caller vouches for the node.
        check(unsafe { get(node, &mut id) })?;
        Ok(id)
    }
}
