//! The functions of the CUDA driver that the demo calls, from a library that is loaded at run time:
//! NVIDIA's driver or the simulated one.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::ManuallyDrop;

use anyhow::{Result, bail};
use libloading::Library;

/// A handle of the driver or an address on the device; nobody here looks behind it.
pub(crate) type Handle = usize;

/// The functions, in the types of the driver API.
pub(crate) struct Driver {
    error_name: unsafe extern "C" fn(u32, *mut *const c_char) -> u32,
    pub(crate) init: unsafe extern "C" fn(u32) -> u32,
    pub(crate) device_get: unsafe extern "C" fn(*mut c_int, c_int) -> u32,
    device_name: unsafe extern "C" fn(*mut c_char, c_int, c_int) -> u32,
    retain_context: unsafe extern "C" fn(*mut Handle, c_int) -> u32,
    pub(crate) set_context: unsafe extern "C" fn(Handle) -> u32,
    pub(crate) module_load: unsafe extern "C" fn(*mut Handle, *const c_void) -> u32,
    pub(crate) module_function: unsafe extern "C" fn(*mut Handle, Handle, *const c_char) -> u32,
    pub(crate) allocate: unsafe extern "C" fn(*mut Handle, usize) -> u32,
    pub(crate) free: unsafe extern "C" fn(Handle) -> u32,
    pub(crate) htod: unsafe extern "C" fn(Handle, *const c_void, usize, Handle) -> u32,
    pub(crate) dtoh: unsafe extern "C" fn(*mut c_void, Handle, usize, Handle) -> u32,
    pub(crate) stream_create: unsafe extern "C" fn(*mut Handle, u32) -> u32,
    pub(crate) stream_destroy: unsafe extern "C" fn(Handle) -> u32,
    pub(crate) stream_synchronize: unsafe extern "C" fn(Handle) -> u32,
    pub(crate) launch_kernel: LaunchKernel,
    pub(crate) begin_capture: unsafe extern "C" fn(Handle, u32) -> u32,
    pub(crate) end_capture: unsafe extern "C" fn(Handle, *mut Handle) -> u32,
    pub(crate) instantiate: unsafe extern "C" fn(*mut Handle, Handle, u64) -> u32,
    pub(crate) graph_launch: unsafe extern "C" fn(Handle, Handle) -> u32,
    pub(crate) graph_destroy: unsafe extern "C" fn(Handle) -> u32,
    pub(crate) exec_destroy: unsafe extern "C" fn(Handle) -> u32,
}

/// `cuLaunchKernel`: function, grid, block, shared bytes, stream, parameters, extra.
#[rustfmt::skip]
type LaunchKernel = unsafe extern "C" fn(
    Handle, u32, u32, u32, u32, u32, u32, u32, Handle, *mut *mut c_void, *mut *mut c_void,
) -> u32;

/// A function of a library.
///
/// # Safety
/// The symbol is a function of type `T`.
pub(crate) unsafe fn get<T: Copy>(library: &Library, name: &str) -> Result<T, libloading::Error> {
    // SAFETY: by the contract of this function.
    unsafe { library.get::<T>(name).map(|symbol| *symbol) }
}

impl Driver {
    /// # Safety
    /// The library exports these names with the types of the fields.
    pub(crate) unsafe fn load(library: Library) -> Result<Driver, libloading::Error> {
        // Never unloaded: threads and exit handlers of a driver run its code to the very end.
        let library = ManuallyDrop::new(library);
        // SAFETY: by the contract of this function.
        unsafe {
            Ok(Driver {
                error_name: get(&library, "cuGetErrorName")?,
                init: get(&library, "cuInit")?,
                device_get: get(&library, "cuDeviceGet")?,
                device_name: get(&library, "cuDeviceGetName")?,
                retain_context: get(&library, "cuDevicePrimaryCtxRetain")?,
                set_context: get(&library, "cuCtxSetCurrent")?,
                module_load: get(&library, "cuModuleLoadData")?,
                module_function: get(&library, "cuModuleGetFunction")?,
                allocate: get(&library, "cuMemAlloc_v2")?,
                free: get(&library, "cuMemFree_v2")?,
                htod: get(&library, "cuMemcpyHtoDAsync_v2")?,
                dtoh: get(&library, "cuMemcpyDtoHAsync_v2")?,
                stream_create: get(&library, "cuStreamCreate")?,
                stream_destroy: get(&library, "cuStreamDestroy_v2")?,
                stream_synchronize: get(&library, "cuStreamSynchronize")?,
                launch_kernel: get(&library, "cuLaunchKernel")?,
                begin_capture: get(&library, "cuStreamBeginCapture_v2")?,
                end_capture: get(&library, "cuStreamEndCapture")?,
                instantiate: get(&library, "cuGraphInstantiateWithFlags")?,
                graph_launch: get(&library, "cuGraphLaunch")?,
                graph_destroy: get(&library, "cuGraphDestroy")?,
                exec_destroy: get(&library, "cuGraphExecDestroy")?,
            })
        }
    }

    /// Turns a `CUresult` into an error that names the function and the result.
    pub(crate) fn check(&self, what: &str, result: u32) -> Result<()> {
        if result == 0 {
            return Ok(());
        }
        let mut name = std::ptr::null();
        // SAFETY: the out-pointer is valid; the function answers every number.
        unsafe { (self.error_name)(result, &raw mut name) };
        if name.is_null() {
            bail!("{what} failed with CUDA error {result}");
        }
        // SAFETY: the driver's names are constants that end with a NUL.
        let name = unsafe { CStr::from_ptr(name) };
        bail!("{what} failed with {} ({result})", name.to_string_lossy())
    }

    /// The name and the primary context of a device.
    pub(crate) fn open_device(&self, device: c_int) -> Result<(String, Handle)> {
        let (mut name, mut context) = ([0; 256], 0);
        // SAFETY: the out-pointers are valid, and 256 is the size of the first.
        unsafe {
            self.check("cuDeviceGetName", (self.device_name)(name.as_mut_ptr(), 256, device))?;
            self.check(
                "cuDevicePrimaryCtxRetain",
                (self.retain_context)(&raw mut context, device),
            )?;
        }
        let name = name.map(c_char::cast_unsigned);
        let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
        Ok((name.to_string_lossy().into_owned(), context))
    }
}
