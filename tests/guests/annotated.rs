//! A guest whose `malloc` makes NVTX ranges, on every thread and without a guard of its own.

#[allow(dead_code, unreachable_pub, reason = "written for the guest, which calls all of it")]
mod nvtx;

use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static CLIENT: OnceLock<nvtx::Nvtx> = OnceLock::new();
static ANNOTATES: AtomicBool = AtomicBool::new(false);
static MADE: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" {
    fn __libc_malloc(bytes: usize) -> *mut c_void;
}

/// In place of libc's, for every library of the process.
#[unsafe(no_mangle)]
pub extern "C" fn malloc(bytes: usize) -> *mut c_void {
    match CLIENT.get() {
        Some(client) if ANNOTATES.load(Ordering::Relaxed) => {
            MADE.fetch_add(1, Ordering::Relaxed);
            client.push_c(c"malloc");
            // SAFETY: what this stands for.
            let start = unsafe { __libc_malloc(bytes) };
            client.pop();
            start
        }
        // SAFETY: as above.
        _ => unsafe { __libc_malloc(bytes) },
    }
}

fn main() {
    CLIENT.get_or_init(nvtx::Nvtx::load);
    let thread = std::thread::spawn(|| {
        ANNOTATES.store(true, Ordering::Relaxed);
        // The first use that this thread makes of the tool.
        let start = std::hint::black_box(malloc(100));
        ANNOTATES.store(false, Ordering::Relaxed);
        start as usize
    });
    assert_ne!(thread.join().expect("ends"), 0);
    assert!(MADE.load(Ordering::Relaxed) > 0, "malloc is not ours");
    println!("done");
}
