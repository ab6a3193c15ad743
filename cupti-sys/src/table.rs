//! Turns an opened `libcupti` into [`Api`], the table of its functions.
//!
//! Functions that every CUPTI from 11.8 on has are required and plain fields; the others are
//! `Option`s. `load` calls none of them.

use std::ffi::c_void;
use std::fmt;
use std::path::PathBuf;
use std::ptr::{self, NonNull};

use libloading::Library;

use crate::error::{CuptiError, Result, check, told};
use crate::{bindings, bindings as cupti, process};

/// Names the function inside one of bindgen's optional function pointer types.
pub trait FunctionPointer {
    /// The function pointer itself, never null.
    type Function: Copy;
}

impl<F: Copy> FunctionPointer for Option<F> {
    type Function = F;
}

macro_rules! function_table {
    (
        required { $($required:ident = $required_symbol:ident,)* }
        optional { $($optional:ident = $optional_symbol:ident,)* }
    ) => {
        /// CUPTI's functions in one loaded library, named as the C symbols without `cupti`.
        ///
        /// The methods are the way to call them; the fields are for what has none. The calls are safe because the
        /// contract of [`Api::load`] covers them: the library is a CUPTI and the driver is there. Those that are
        /// made while the profiled program waits ([`Walker::next_record`], [`Api::timestamp_ns`],
        /// [`Api::graph_node_id`], [`Api::num_dropped`]) add nothing to CUPTI's own cost: no allocation, no lock.
        /// Nothing here panics.
        #[allow(missing_docs)]
        pub struct Api {
            $(pub $required: <bindings::$required_symbol as FunctionPointer>::Function,)*
            $(pub $optional: bindings::$optional_symbol,)*
            path: PathBuf,
        }

        /// Symbols without which [`Api::load`] refuses a library.
        pub const REQUIRED: &[&str] = &[$(stringify!($required_symbol),)*];

        /// Symbols that are used where they are there.
        pub const OPTIONAL: &[&str] = &[$(stringify!($optional_symbol),)*];

        impl Api {
            /// Resolves every symbol and keeps the library loaded for ever: a process that is being
            /// profiled must not lose the code that CUPTI's callbacks and threads run.
            ///
            /// # Errors
            /// [`LoadError`] if a required symbol is missing; the library is then closed again.
            ///
            /// # Safety
            /// The library is a CUPTI or behaves like one, and no method of the table is called
            /// before the driver `libcuda.so.1` is in the process (a CUPTI that needs no driver,
            /// such as a simulated one, is exempt).
            pub unsafe fn load(library: Library) -> std::result::Result<Self, LoadError> {
                let (library, path) = process::with_path(library);
                let path = path.unwrap_or_else(|| PathBuf::from("a library without a name"));
                let missing = missing(&library);
                $(
                    // SAFETY: the caller vouches that the library is a CUPTI, so that the symbol
                    // has the type that CUPTI's header gives it.
                    let symbol = unsafe { resolve(&library, stringify!($required_symbol)) };
                    let Some($required) = symbol else { return Err(LoadError { library: path, missing }) };
                )*
                let api = Self {
                    $($required,)*
                    $(
                        // SAFETY: as above.
                        $optional: unsafe { resolve(&library, stringify!($optional_symbol)) },
                    )*
                    path,
                };
                std::mem::forget(library);
                Ok(api)
            }

            /// The optional symbols that this library does not have.
            pub fn absent(&self) -> Vec<&'static str> {
                let mut absent = Vec::new();
                $(if self.$optional.is_none() {
                    absent.push(stringify!($optional_symbol));
                })*
                absent
            }

            /// The file that was loaded.
            pub fn path(&self) -> &std::path::Path {
                &self.path
            }
        }
    };
}

function_table! {
    required {
        activity_disable = cuptiActivityDisable,
        activity_enable = cuptiActivityEnable,
        activity_flush_all = cuptiActivityFlushAll,
        activity_get_attribute = cuptiActivityGetAttribute,
        activity_get_next_record = cuptiActivityGetNextRecord,
        activity_get_num_dropped_records = cuptiActivityGetNumDroppedRecords,
        activity_register_callbacks = cuptiActivityRegisterCallbacks,
        activity_set_attribute = cuptiActivitySetAttribute,
        enable_callback = cuptiEnableCallback,
        get_result_string = cuptiGetResultString,
        get_timestamp = cuptiGetTimestamp,
        get_version = cuptiGetVersion,
        subscribe = cuptiSubscribe,
        unsubscribe = cuptiUnsubscribe,
    }
    optional {
        activity_disable_v2 = cuptiActivityDisable_v2,
        activity_enable_and_dump = cuptiActivityEnableAndDump,
        activity_enable_hw_trace = cuptiActivityEnableHWTrace,
        activity_enable_v2 = cuptiActivityEnable_v2,
        activity_get_attribute_v2 = cuptiActivityGetAttribute_v2,
        activity_get_next_record_v2 = cuptiActivityGetNextRecord_v2,
        activity_get_num_dropped_records_v2 = cuptiActivityGetNumDroppedRecords_v2,
        activity_register_callbacks_v2 = cuptiActivityRegisterCallbacks_v2,
        activity_set_attribute_v2 = cuptiActivitySetAttribute_v2,
        device_get_chip_name = cuptiDeviceGetChipName,
        get_device_id = cuptiGetDeviceId,
        get_graph_node_id = cuptiGetGraphNodeId,
        get_timestamp_v2 = cuptiGetTimestamp_v2,
        pm_sampling_counter_data_get_sample_info = cuptiPmSamplingCounterDataGetSampleInfo,
        pm_sampling_counter_data_image_initialize = cuptiPmSamplingCounterDataImageInitialize,
        pm_sampling_decode_data = cuptiPmSamplingDecodeData,
        pm_sampling_disable = cuptiPmSamplingDisable,
        pm_sampling_enable = cuptiPmSamplingEnable,
        pm_sampling_get_counter_availability = cuptiPmSamplingGetCounterAvailability,
        pm_sampling_get_counter_data_info = cuptiPmSamplingGetCounterDataInfo,
        pm_sampling_get_counter_data_size = cuptiPmSamplingGetCounterDataSize,
        pm_sampling_set_config = cuptiPmSamplingSetConfig,
        pm_sampling_start = cuptiPmSamplingStart,
        pm_sampling_stop = cuptiPmSamplingStop,
        profiler_host_config_add_metrics = cuptiProfilerHostConfigAddMetrics,
        profiler_host_deinitialize = cuptiProfilerHostDeinitialize,
        profiler_host_evaluate_to_gpu_values = cuptiProfilerHostEvaluateToGpuValues,
        profiler_host_get_config_image = cuptiProfilerHostGetConfigImage,
        profiler_host_get_config_image_size = cuptiProfilerHostGetConfigImageSize,
        profiler_host_get_num_of_passes = cuptiProfilerHostGetNumOfPasses,
        profiler_host_initialize = cuptiProfilerHostInitialize,
        profiler_initialize = cuptiProfilerInitialize,
        subscribe_v2 = cuptiSubscribe_v2,
    }
}

impl fmt::Debug for Api {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Api").field("path", &self.path).field("absent", &self.absent()).finish()
    }
}

/// The required symbols that a library does not have, none of them called.
pub fn missing(library: &Library) -> Vec<&'static str> {
    // SAFETY: the address is only looked at, never used as a function.
    let has = |name: &&str| unsafe { resolve::<*const ()>(library, name) }.is_some();
    REQUIRED.iter().copied().filter(|name| !has(name)).collect()
}

/// Looks a symbol up; `None` if it is absent or null.
///
/// # Safety
/// `F` is a pointer type, and the symbol's own if the pointer is used.
unsafe fn resolve<F: Copy>(library: &Library, name: &str) -> Option<F> {
    // SAFETY: `*const ()` fits any symbol; reading the address does not use what is there.
    let address: *const () = *unsafe { library.get::<*const ()>(name) }.ok()?;
    const { assert!(size_of::<F>() == size_of::<*const ()>()) };
    // SAFETY: the address is not null, and the caller vouches for the type; sizes match.
    (!address.is_null()).then(|| unsafe { std::mem::transmute_copy(&address) })
}

/// A library that cannot be used as CUPTI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadError {
    /// The file.
    pub library: PathBuf,
    /// The required symbols that it does not have.
    pub missing: Vec<&'static str>,
}

impl fmt::Display for LoadError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{} is not a CUPTI of CUDA 11.8 or newer: it lacks {}; install CUPTI of CUDA 11.8 to \
             13.x (pip install nvidia-cuda-cupti for CUDA 13, nvidia-cuda-cupti-cu12 for CUDA \
             12), or set STAGE2_CUPTI to the path of such a libcupti",
            self.library.display(),
            self.missing.join(", ")
        )
    }
}

impl std::error::Error for LoadError {}

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
        // SAFETY: by the contract of `load`; the pointer is valid for a write.
        told(|version| unsafe { (self.get_version)(version) })
    }

    /// CUPTI's clock now, in ns: the clock of the timestamps in its records.
    pub fn timestamp_ns(&self) -> Result<u64> {
        // SAFETY: by the contract of `load`; the pointer is valid for a write.
        told(|now_ns| unsafe { (self.get_timestamp)(now_ns) })
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
        let get = self.activity_get_num_dropped_records;
        // SAFETY: by the contract of `load`; null and 0 stand for the whole process.
        told(|dropped| unsafe { get(ptr::null_mut(), 0, dropped) })
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
        // SAFETY: the caller vouches for the context.
        told(|device| unsafe { get(context, device) })
    }

    /// The `graphNodeId` that records of this node carry.
    ///
    /// # Safety
    /// The node exists, for example as handed to a resource callback that is still running.
    pub unsafe fn graph_node_id(&self, node: cupti::CUgraphNode) -> Result<u64> {
        let get = self.get_graph_node_id.ok_or(CuptiError::NOT_IMPLEMENTED)?;
        // SAFETY: the caller vouches for the node.
        told(|id| unsafe { get(node, id) })
    }
}
