//! Turns an opened `libcupti` into [`Api`], the table of its functions.
//!
//! Functions that every CUPTI from 11.8 on has are required and plain fields; the others are
//! `Option`s. Nothing here calls any of them.

use crate::{bindings, process};
use libloading::Library;
use std::fmt;
use std::path::PathBuf;

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
        /// The methods ([`crate::api`]) are the way to call them; the fields are for what has none.
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
            pub unsafe fn load(library: Library) -> Result<Self, LoadError> {
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
        finalize = cuptiFinalize,
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
            "{} is no CUPTI of CUDA 11.8 or newer: it has no {}; install CUPTI of CUDA 11.8 to \
             13.x (pip install nvidia-cuda-cupti for CUDA 13, nvidia-cuda-cupti-cu12 for CUDA \
             12), or set STAGE2_CUPTI to the path of such a libcupti",
            self.library.display(),
            self.missing.join(", ")
        )
    }
}

impl std::error::Error for LoadError {}
