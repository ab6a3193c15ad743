//! What the libraries do at exit that CUPTI loads when counters are sampled: they take themselves
//! apart, and a call after that ends the process.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

static LOADED: Once = Once::new();
static APART: AtomicBool = AtomicBool::new(false);

/// Loads the libraries, which registers their exit handler. Handlers that are registered later run
/// before it.
pub(crate) fn load() {
    LOADED.call_once(|| {
        // Without memory for the handler the libraries stay whole.
        // SAFETY: the handler only stores a value, and stays as long as this library does.
        unsafe { libc::atexit(take_apart) };
    });
}

extern "C" fn take_apart() {
    APART.store(true, Ordering::Release);
}

/// Ends the process where the libraries are no longer whole, as CUPTI 13.0 did on an H200.
pub(crate) fn expect_whole() {
    if APART.load(Ordering::Acquire) {
        eprintln!("stage2-sim: counters are sampled after what samples them took itself apart");
        std::process::abort();
    }
}
