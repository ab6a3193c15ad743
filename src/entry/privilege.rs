//! Whether this process has more rights than the user who started it: then nobody is trusted here.
//!
//! The loader ignores `LD_PRELOAD` in a program that is setuid, setgid or has capabilities, but the driver
//! and NVTX load what their variables name. `STAGE2_OUT` would let any user create files with the rights
//! of such a program, and `STAGE2_CUPTI` run code with them.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::base::diag;

/// The doors are several, and one line is enough.
static SAID: AtomicBool = AtomicBool::new(false);

/// Whether this library may do anything here. If not, one line says so, and no variable is read.
pub(super) fn is_trusted() -> bool {
    // SAFETY: reads what the kernel told this process when it started.
    let is_secure = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    if is_secure && !SAID.swap(true, Ordering::Relaxed) {
        diag::warn(format_args!(
            "off: this program is setuid or setgid or has capabilities, so variables of its user are not \
             trusted here; to record it, start it as the user whose rights it takes"
        ));
    }
    !is_secure
}
