//! Turns the raw function table into calls that return `Result`s.
//!
//! The calls are safe because [`Api::load`]'s contract covers them: the library is a CUPTI and the
//! driver is there. Those that are made while the profiled program waits ([`Walker::next_record`],
//! [`Api::timestamp_ns`], [`Api::graph_node_id`], [`Api::num_dropped`]) add nothing to CUPTI's own
//! cost: no allocation, no lock. Nothing here panics.

use crate::bindings as cupti;
use crate::error::{CuptiError, Result, check};
use crate::table::Api;
use std::ffi::c_void;
use std::ptr::{self, NonNull};

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

    /// As [`Api::activity_enable`], and has records written of what is there already (devices, contexts).
    /// A library without that function only does the former.
    pub fn activity_enable_and_dump(&self, kind: cupti::CUpti_ActivityKind) -> Result<()> {
        match self.activity_enable_and_dump {
            // SAFETY: by the contract of `load`.
            Some(enable) => check(unsafe { enable(kind) }),
            None => self.activity_enable(kind),
        }
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
