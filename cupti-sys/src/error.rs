//! Turns CUPTI's result codes into errors with a name and, where it is known, a remedy.
//!
//! Everything comes from tables in this file: showing an error never calls into CUPTI, which may be
//! the very thing that just failed. The codes are the same in all versions from 11.8 to 13.5.

use crate::bindings as cupti;
use std::fmt;

/// A result code of CUPTI other than success. Codes that are newer than this crate are kept as
/// they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CuptiError(cupti::CUptiResult);

/// What a wrapped call of CUPTI returns.
pub type Result<T> = std::result::Result<T, CuptiError>;

/// Turns a returned code into `Ok` for success and an error for anything else.
pub const fn check(code: cupti::CUptiResult) -> Result<()> {
    if code == cupti::CUPTI_SUCCESS { Ok(()) } else { Err(CuptiError(code)) }
}

/// What `call` writes to the place that it is given.
pub(crate) fn told<T: Default>(call: impl FnOnce(&mut T) -> cupti::CUptiResult) -> Result<T> {
    let mut place = T::default();
    check(call(&mut place)).map(|()| place)
}

impl CuptiError {
    /// Another subscriber exists, or the process runs under a tool of NVIDIA's.
    pub const MULTIPLE_SUBSCRIBERS: Self =
        Self(cupti::CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
    /// CUPTI refuses an argument, for instance a struct whose size it does not know.
    pub const INVALID_PARAMETER: Self = Self(cupti::CUPTI_ERROR_INVALID_PARAMETER);
    /// The function is not in this libcupti; also what a call through an absent optional function
    /// of [`crate::Api`] returns.
    pub const NOT_IMPLEMENTED: Self = Self(cupti::CUPTI_ERROR_API_NOT_IMPLEMENTED);
    /// CUPTI returned success without the result that it promises then.
    pub(crate) const UNKNOWN: Self = Self(cupti::CUPTI_ERROR_UNKNOWN);

    /// The number, as in `CUptiResult`.
    pub const fn code(self) -> cupti::CUptiResult {
        self.0
    }

    /// The name of the code in CUPTI's header.
    pub const fn name(self) -> &'static str {
        macro_rules! names {
            ($($constant:ident)*) => {
                match self.0 {
                    $(cupti::$constant => stringify!($constant),)*
                    _ => "a code that is newer than this program",
                }
            };
        }
        names! {
            CUPTI_SUCCESS CUPTI_ERROR_INVALID_PARAMETER CUPTI_ERROR_INVALID_DEVICE
            CUPTI_ERROR_INVALID_CONTEXT CUPTI_ERROR_INVALID_EVENT_DOMAIN_ID
            CUPTI_ERROR_INVALID_EVENT_ID CUPTI_ERROR_INVALID_EVENT_NAME
            CUPTI_ERROR_INVALID_OPERATION CUPTI_ERROR_OUT_OF_MEMORY CUPTI_ERROR_HARDWARE
            CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT CUPTI_ERROR_API_NOT_IMPLEMENTED
            CUPTI_ERROR_MAX_LIMIT_REACHED CUPTI_ERROR_NOT_READY CUPTI_ERROR_NOT_COMPATIBLE
            CUPTI_ERROR_NOT_INITIALIZED CUPTI_ERROR_INVALID_METRIC_ID
            CUPTI_ERROR_INVALID_METRIC_NAME CUPTI_ERROR_QUEUE_EMPTY CUPTI_ERROR_INVALID_HANDLE
            CUPTI_ERROR_INVALID_STREAM CUPTI_ERROR_INVALID_KIND CUPTI_ERROR_INVALID_EVENT_VALUE
            CUPTI_ERROR_DISABLED CUPTI_ERROR_INVALID_MODULE CUPTI_ERROR_INVALID_METRIC_VALUE
            CUPTI_ERROR_HARDWARE_BUSY CUPTI_ERROR_NOT_SUPPORTED
            CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED
            CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_ON_DEVICE
            CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_ON_NON_P2P_DEVICES
            CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_WITH_MPS CUPTI_ERROR_CDP_TRACING_NOT_SUPPORTED
            CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED CUPTI_ERROR_CUDA_COMPILER_NOT_COMPATIBLE
            CUPTI_ERROR_INSUFFICIENT_PRIVILEGES CUPTI_ERROR_OLD_PROFILER_API_INITIALIZED
            CUPTI_ERROR_OPENACC_UNDEFINED_ROUTINE CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED
            CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
            CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES
            CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED CUPTI_ERROR_CMP_DEVICE_NOT_SUPPORTED
            CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED CUPTI_ERROR_SLI_DEVICE_NOT_SUPPORTED
            CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED CUPTI_ERROR_INVALID_CHIP_NAME
            CUPTI_ERROR_HES_TRACE_NOT_SUPPORTED_ON_MPS CUPTI_ERROR_UNKNOWN
        }
    }

    /// What this code means for a collector of kernels, and what to do about it; `None` if the
    /// name states all that is known.
    pub const fn remedy(self) -> Option<&'static str> {
        Some(match self.0 {
            cupti::CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED => {
                "another profiler already uses CUPTI in this process (torch.profiler, Triton \
                 Proton, Nsight Systems, Nsight Compute, cuda-gdb): switch that one off, or profile \
                 in a separate run"
            }
            cupti::CUPTI_ERROR_MAX_LIMIT_REACHED => {
                "a limit was reached: while subscribing it means that another profiler already \
                 uses CUPTI (switch that one off); while reading records it means the end"
            }
            cupti::CUPTI_ERROR_DISABLED => {
                "another enabled profiler conflicts with this call: switch that one off"
            }
            cupti::CUPTI_ERROR_HARDWARE_BUSY => {
                "another profiler uses the GPU's counters: wait for it or stop it"
            }
            cupti::CUPTI_ERROR_NOT_INITIALIZED => {
                "CUPTI could not start: the NVIDIA driver is missing or older than this CUPTI; \
                 see whether nvidia-smi works, update the driver, or set STAGE2_CUPTI to the \
                 libcupti of the CUDA version that nvidia-smi shows"
            }
            cupti::CUPTI_ERROR_UNKNOWN => {
                "CUPTI gives no reason; in 13.0 and later this is also its answer when the driver \
                 libcuda.so.1 is not loaded or does not fit: see whether nvidia-smi works, then \
                 set STAGE2_CUPTI to the libcupti of the CUDA version that nvidia-smi shows"
            }
            cupti::CUPTI_ERROR_INSUFFICIENT_PRIVILEGES => {
                "the driver keeps GPU counters for administrators: run as root or with \
                 CAP_SYS_ADMIN, or load the driver with NVreg_RestrictProfilingToAdminUsers=0"
            }
            cupti::CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES => {
                "the hypervisor forbids profiling on this virtual GPU: ask whoever runs the host \
                 to allow it for this machine"
            }
            cupti::CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED => {
                "this virtual GPU cannot be profiled: use a passed-through GPU, or ask whoever \
                 runs the host to enable profiling for the vGPU"
            }
            cupti::CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED => {
                "the GPU runs in confidential-computing mode, which excludes this: profile on a \
                 GPU with the mode off"
            }
            cupti::CUPTI_ERROR_NOT_SUPPORTED => {
                "this GPU or this CUPTI version does not offer it: leave the option off or use a \
                 newer CUPTI"
            }
            cupti::CUPTI_ERROR_API_NOT_IMPLEMENTED => {
                "this libcupti does not have the function: use a newer CUPTI"
            }
            cupti::CUPTI_ERROR_NOT_COMPATIBLE => {
                "this cannot be enabled by itself or together with what is already enabled"
            }
            cupti::CUPTI_ERROR_OUT_OF_MEMORY => {
                "CUPTI found no memory for its own buffers: free device or host memory"
            }
            cupti::CUPTI_ERROR_INVALID_KIND => {
                "this CUPTI does not know the record kind, or the record is incomplete: use a \
                 newer CUPTI"
            }
            _ => return None,
        })
    }
}

impl From<cupti::CUptiResult> for CuptiError {
    fn from(code: cupti::CUptiResult) -> Self {
        Self(code)
    }
}

impl fmt::Display for CuptiError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ({})", self.name(), self.0)?;
        match self.remedy() {
            Some(remedy) => write!(out, ": {remedy}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for CuptiError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_zero_is_success() {
        assert_eq!(check(0), Ok(()));
        assert_eq!(check(39), Err(CuptiError::MULTIPLE_SUBSCRIBERS));
        assert_eq!(check(u32::MAX).map_err(CuptiError::code), Err(u32::MAX));
    }

    #[test]
    fn every_code_has_its_own_name() {
        let known = (0..=47).chain([999]);
        let mut names: Vec<_> = known.map(|code| CuptiError::from(code).name()).collect();
        assert!(names.iter().all(|name| name.starts_with("CUPTI_")), "{names:?}");
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn the_codes_that_stop_a_collector_say_what_to_do() {
        for code in [39, 15, 999, 35, 40, 41, 33, 27, 12, 23] {
            let error = CuptiError::from(code);
            let remedy = error.remedy().unwrap_or_default();
            assert!(!remedy.is_empty(), "{error:?}");
            assert_eq!(error.to_string(), format!("{} ({code}): {remedy}", error.name()));
        }
    }

    #[test]
    fn an_unknown_code_shows_its_number() {
        let shown = CuptiError::from(4711).to_string();
        assert_eq!(shown, "a code that is newer than this program (4711)");
    }
}
