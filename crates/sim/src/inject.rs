//! Loads the tool in CUDA_INJECTION64_PATH, as the driver does it in cuInit.

use std::cell::Cell;
use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::path::Path;
use std::sync::Once;

use anyhow::{Context, anyhow, bail, ensure};
use libloading::os::unix::{Library, RTLD_NOW};

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
        if let Err(error) = load() {
            eprintln!("stage2-sim: {VARIABLE}: {error:#}");
        }
        LOADING.set(false);
    });
}

fn load() -> anyhow::Result<()> {
    let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) else {
        return Ok(());
    };
    let path = Path::new(&path);
    let shown = path.display();
    // It brings a CUPTI of its own, which asks NVIDIA's driver for tables that are not public, and
    // reads them without a look at whether there are any.
    if path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(NSYS.as_bytes())) {
        bail!(
            "{shown} is not loaded: Nsight Systems needs NVIDIA's driver, and would crash here; \
             NVTX ranges are still recorded (nsys profile --trace=nvtx)"
        );
    }
    // SAFETY: what the library's constructors do is the choice of whoever set the variable.
    let library = unsafe { Library::open(Some(path), RTLD_NOW) };
    // It stays loaded until the process ends.
    let library = ManuallyDrop::new(library.with_context(|| format!("cannot load {shown}"))?);
    // SAFETY: the symbol has this type by the contract of the variable.
    let entry = unsafe { library.get::<extern "C" fn() -> c_int>("InitializeInjection") };
    let entry = entry
        .map_err(|_| anyhow!("{shown} has no symbol InitializeInjection: it is no CUDA tool"))?;
    ensure!(entry() != 0, "InitializeInjection of {shown} reports that it failed");
    Ok(())
}
