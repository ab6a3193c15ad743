//! The path in CUDA_INJECTION64_PATH into a loaded tool, as the driver does it in cuInit.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_int};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::sync::Once;

const VARIABLE: &str = "CUDA_INJECTION64_PATH";
/// File name of the library of Nsight Systems, up to where versions differ.
const NSYS: &str = "libToolsInjection";

static LOADED: Once = Once::new();

thread_local! {
    static LOADING: Cell<bool> = const { Cell::new(false) };
}

/// Loads the tool once per process and calls its `InitializeInjection`.
///
/// The real driver is silent when that fails; here each failure is a line on stderr, because a
/// test that injects nothing proves nothing.
pub(crate) fn load_tool() {
    // The tool may call cuInit from its entry point; waiting for ourselves would never end.
    if LOADING.get() {
        return;
    }
    LOADED.call_once(|| {
        LOADING.set(true);
        if let Err(message) = load() {
            eprintln!("stage2-sim: {VARIABLE}: {message}");
        }
        LOADING.set(false);
    });
}

fn load() -> Result<(), String> {
    let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) else {
        return Ok(());
    };
    let shown = path.to_string_lossy().into_owned();
    // It brings a CUPTI of its own, which asks NVIDIA's driver for tables that are not public, and
    // reads them without a look at whether there are any.
    if is_nsys(Path::new(&path)) {
        return Err(format!(
            "{shown} is not loaded: Nsight Systems needs NVIDIA's driver, and would crash here; \
             NVTX ranges are still recorded (nsys profile --trace=nvtx)"
        ));
    }
    let path = CString::new(path.into_vec()).map_err(|_| "the path holds a NUL".to_owned())?;
    // SAFETY: a valid C string; what the library's constructors do is the choice of whoever set
    // the variable. It stays loaded until the process ends.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    if library.is_null() {
        return Err(format!("cannot load {shown}: {}", last_error()));
    }
    // SAFETY: a live handle and a valid C string.
    let entry = unsafe { libc::dlsym(library, c"InitializeInjection".as_ptr()) };
    if entry.is_null() {
        return Err(format!("{shown} has no symbol InitializeInjection: it is no CUDA tool"));
    }
    // SAFETY: the symbol has this type by the contract of CUDA_INJECTION64_PATH.
    let entry =
        unsafe { std::mem::transmute::<*mut libc::c_void, extern "C" fn() -> c_int>(entry) };
    if entry() == 0 {
        return Err(format!("InitializeInjection of {shown} reports that it failed"));
    }
    Ok(())
}

fn is_nsys(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(NSYS.as_bytes()))
}

fn last_error() -> String {
    // SAFETY: dlerror has no preconditions; its text is copied before the next call.
    unsafe {
        let text = libc::dlerror();
        if text.is_null() {
            "unknown error".to_owned()
        } else {
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    }
}
