//! The doors: C entry points that the loader, the driver and NVTX call, into `lifecycle`.
//!
//! `LD_PRELOAD` runs a constructor that only names this library in the two variables through
//! which the driver and NVTX load their tools. A process that uses neither pays for nothing else.
//!
//! Constructors of other libraries may come first. Where these use NVTX or CUDA, the variables have
//! to be set before the process starts, as the launcher does.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};

use cupti_sys::nvtx as sys;

use crate::base::{barrier, diag, main_end};
use crate::entry::{ends, forks, lifecycle, stack};
use crate::guest::nvtx;
use crate::guest::state::{self, Phase};

const CUDA_DOOR: &CStr = c"CUDA_INJECTION64_PATH";
const NVTX_DOOR: &CStr = c"NVTX_INJECTION64_PATH";
/// Set where another tool owns both doors or none can be opened, so that a tree of processes says it once.
const STOOD_ASIDE: &CStr = c"STAGE2_STOOD_ASIDE";

/// Programs that start the guest under themselves, and are none.
const PROFILERS: &[&[u8]] = &[
    b"ncu",
    // ncu starts the guest through these.
    b"TreeLauncherSubreaper",
    b"TreeLauncherTargetLdPreloadHelper",
    b"nsys",
    b"nsys-launcher",
    b"compute-sanitizer",
    b"cuda-gdb",
];
/// Programs that only start others. These load this library themselves; what was exported here would reach
/// a profiler among them that does not.
const STARTERS: &[&[u8]] = &[
    b"sh", b"dash", b"bash", b"zsh", b"ksh", b"fish", b"busybox", b"env", b"nice", b"nohup",
    b"numactl", b"setsid", b"stdbuf", b"taskset", b"time", b"timeout", b"xargs",
];

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = constructor;

extern "C" fn constructor() {
    if !may_act() {
        return;
    }
    ends::prepare();
    let program = Program::find();
    if program.is_one_of(PROFILERS) {
        close_doors();
        return;
    }
    // `timeout` is among the programs that only start others. A sandbox may allow no sockets.
    if variable(c"STAGE2_CONTROL").is_none_or(|value| value != c"off") {
        ends::ask_others();
    }
    if program.is_one_of(STARTERS) {
        return;
    }
    if is_under_ncu() {
        close_doors();
        stand_aside(format_args!(
            "off: Nsight Compute profiles this program and needs CUPTI and NVTX for itself; run without ncu to \
             collect"
        ));
        return;
    }
    state::set_start(|| stack::on_own(None, lifecycle::start_child));
    forks::watch();
    main_end::watch();
    let Some(own) = OwnPath::find() else {
        stand_aside(format_args!(
            "off: the collector cannot find its own file ({}); have LD_PRELOAD name it by its \
             absolute path",
            std::io::Error::last_os_error()
        ));
        return;
    };
    let cuda = open_door(CUDA_DOOR, &own);
    let nvtx = open_door(NVTX_DOOR, &own);
    if nvtx {
        own.rehearse();
    }
    if !cuda && !nvtx {
        stand_aside(format_args!(
            "off: another tool owns CUDA_INJECTION64_PATH and NVTX_INJECTION64_PATH; run without \
             it to collect"
        ));
    }
}

/// States why nothing is recorded, once in a tree of processes.
fn stand_aside(why: std::fmt::Arguments<'_>) {
    if variable(STOOD_ASIDE).is_none() {
        diag::warn(why);
        set_variable(STOOD_ASIDE, c"1");
    }
}

/// Called by the CUDA driver in its initialisation (`CUDA_INJECTION64_PATH`). Always 1: the guest
/// goes on whatever happened here.
#[unsafe(no_mangle)]
pub extern "C" fn InitializeInjection() -> c_int {
    if !may_act() {
        return 1;
    }
    barrier::catch((), || {
        say_if_foreign(NVTX_DOOR, "its NVTX ranges are not seen here");
        lifecycle::start_gpu();
    });
    1
}

/// Called by NVTX, once for every library of the guest that uses it (`NVTX_INJECTION64_PATH`).
/// 0 makes NVTX do nothing from then on.
///
/// # Safety
/// `get_export_table` is what NVTX passes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn InitializeInjectionNvtx2(
    get_export_table: Option<nvtx::GetExportTable>,
) -> c_int {
    if !may_act() {
        return 0;
    }
    let answer = || {
        // A dormant process keeps what is registered, and its calls come to us from the first window on.
        if lifecycle::start().is_none() && state::phase() != Phase::Dormant {
            return 0;
        }
        say_if_foreign(CUDA_DOOR, "GPU work is not seen here");
        // SAFETY: the caller's contract.
        c_int::from(unsafe { nvtx::attach(get_export_table) })
    };
    forks::survived(get_export_table, || stack::on_own(0, answer))
}

/// Called by NVTX 3.1 and later for its extensions, after the entry point above. Always 1: with
/// another answer some versions take every domain for disabled.
///
/// # Safety
/// `info` is what NVTX passes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn InitializeInjectionNvtxExtension(
    info: *mut sys::nvtxExtModuleInfo_t,
) -> c_int {
    if !may_act() {
        return 1;
    }
    // SAFETY: the caller's contract.
    barrier::catch((), || unsafe { nvtx::attach_extension(info) });
    1
}

/// The path of the program of this process, without an allocation; empty where it is not known.
struct Program([u8; libc::PATH_MAX as usize]);

impl Program {
    fn find() -> Self {
        let mut path = Self([0; libc::PATH_MAX as usize]);
        // The last byte stays 0.
        let room = path.0.len() - 1;
        // SAFETY: the buffer has the length that is told.
        unsafe { libc::readlink(c"/proc/self/exe".as_ptr(), path.0.as_mut_ptr().cast(), room) };
        path
    }

    fn is_one_of(&self, names: &[&[u8]]) -> bool {
        let path = self.0.split(|byte| *byte == 0).next().unwrap_or_default();
        names.contains(&path.rsplit(|byte| *byte == b'/').next().unwrap_or_default())
    }
}

/// Whether ncu has started this process, which it does with a library and its own variable. It ends a
/// guest with an error where a variable names our library, also a child of this process.
fn is_under_ncu() -> bool {
    let of_ncu = |path: &[u8]| path.ends_with(b"/libcuda-injection.so");
    let preloaded = variable(c"LD_PRELOAD")
        .is_some_and(|list| list.to_bytes().split(|byte| matches!(byte, b':' | b' ')).any(of_ncu));
    preloaded || variable(c"NV_COMPUTE_PROFILER_PERFWORKS_DIR").is_some()
}

/// Takes our name out of the variables, where the shell around this process has put it: ncu refuses to start
/// alongside another tool's.
fn close_doors() {
    let Some(own) = OwnPath::find() else { return };
    for door in [CUDA_DOOR, NVTX_DOOR] {
        if variable(door).is_some_and(|path| is_own(path, &own)) {
            // SAFETY: called from the constructor, before the program has threads.
            unsafe { libc::unsetenv(door.as_ptr()) };
        }
    }
}

fn may_act() -> bool {
    is_glibc() && is_trusted()
}

/// Whether this process has the C library that we are made for. A preloaded library comes into every
/// process of a tree, also into one of musl, which is left alone: no CUDA is there to be recorded.
fn is_glibc() -> bool {
    // SAFETY: only looks the symbol up.
    unsafe { !libc::dlsym(libc::RTLD_DEFAULT, c"gnu_get_libc_version".as_ptr()).is_null() }
}

/// Names this library in a variable, or says that it cannot. `false` where another tool is named there.
fn open_door(door: &CStr, own: &OwnPath) -> bool {
    if let Some(path) = variable(door) {
        return is_own(path, own);
    }
    if !set_variable(door, own.as_c_str()) {
        diag::warn(format_args!(
            "{} cannot be set ({}): what comes through it is not recorded; set it to {} before \
             the program starts",
            door.to_string_lossy(),
            std::io::Error::last_os_error(),
            own.as_c_str().to_string_lossy()
        ));
    }
    true
}

/// Names the tool that keeps half of the picture from us.
fn say_if_foreign(door: &CStr, consequence: &str) {
    let (Some(path), Some(own)) = (variable(door), OwnPath::find()) else { return };
    if !is_own(path, &own) {
        diag::warn(format_args!(
            "another tool owns {} ({}): {consequence}",
            door.to_string_lossy(),
            path.to_string_lossy()
        ));
    }
}

/// The absolute path of this library, without an allocation.
struct OwnPath([c_char; libc::PATH_MAX as usize]);

impl OwnPath {
    fn find() -> Option<Self> {
        let mut path = OwnPath([0; libc::PATH_MAX as usize]);
        // SAFETY: the address is one of ours; `info` is filled in where the call says so; the
        // buffer has the size that realpath asks for.
        unsafe {
            let mut info: libc::Dl_info = std::mem::zeroed();
            let address = constructor as *const c_void;
            if libc::dladdr(address, &raw mut info) == 0 || info.dli_fname.is_null() {
                return None;
            }
            // A relative LD_PRELOAD must hold after the guest changed its folder.
            let resolved = libc::realpath(info.dli_fname, path.0.as_mut_ptr());
            (!resolved.is_null()).then_some(path)
        }
    }

    /// Does what NVTX is going to do, so that the pages for it are there: see `forks`. From then on this
    /// library stays loaded, because it has a thread.
    fn rehearse(&self) {
        // SAFETY: the texts are NUL-terminated; the library is loaded, so no code of it runs.
        unsafe {
            let library = libc::dlopen(self.0.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            if !library.is_null() {
                libc::dlsym(library, c"InitializeInjectionNvtx2".as_ptr());
            }
        }
    }

    fn as_c_str(&self) -> &CStr {
        // SAFETY: realpath wrote a NUL-terminated string.
        unsafe { CStr::from_ptr(self.0.as_ptr()) }
    }
}

/// Whether a path is this file, whatever it is called.
fn is_own(path: &CStr, own: &OwnPath) -> bool {
    if path == own.as_c_str() {
        return true;
    }
    let identity = |path: &CStr| {
        let file = fs::metadata(OsStr::from_bytes(path.to_bytes())).ok()?;
        Some((file.dev(), file.ino()))
    };
    identity(path).is_some_and(|file| Some(file) == identity(own.as_c_str()))
}

fn variable(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: the string stays until somebody changes the variable; it is read at once.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: environment strings are NUL-terminated.
    let value = (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) });
    value.filter(|value| !value.is_empty())
}

/// `false` where there is no memory for it.
fn set_variable(name: &CStr, value: &CStr) -> bool {
    // SAFETY: called from the constructor, before the guest has threads.
    unsafe { libc::setenv(name.as_ptr(), value.as_ptr(), 1) == 0 }
}

// The loader ignores `LD_PRELOAD` in a program that is setuid, setgid or has capabilities, but the driver
// and NVTX load what their variables name. `STAGE2_OUT` would let any user create files with the rights
// of such a program, and `STAGE2_CUPTI` run code with them.

/// The doors are several, and one line is enough.
static SAID: AtomicBool = AtomicBool::new(false);

/// Whether this library may do anything here. If not, one line reports it, and no variable is read.
fn is_trusted() -> bool {
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
