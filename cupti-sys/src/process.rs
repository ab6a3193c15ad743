//! Turns the dynamic linker's view of this process into paths and library handles.

use libloading::Library;
use libloading::os::unix;
use std::error::Error as _;
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The shared objects in the process, in the order in which they were loaded.
pub fn mapped_files() -> Vec<PathBuf> {
    /// Collects one object's name; what has none (the program, the vDSO) is left out.
    unsafe extern "C" fn collect(
        info: *mut libc::dl_phdr_info,
        _: usize,
        files: *mut c_void,
    ) -> c_int {
        // SAFETY: the linker hands out a valid entry, and `files` is the vector below.
        let (name, files) = unsafe { ((*info).dlpi_name, &mut *files.cast::<Vec<PathBuf>>()) };
        // SAFETY: a name that is not null is a C string that lives during the call.
        files.extend(unsafe { path(name) });
        0
    }
    let mut files: Vec<PathBuf> = Vec::new();
    // SAFETY: the callback gets the vector, which outlives the call, and does not unwind.
    unsafe { libc::dl_iterate_phdr(Some(collect), (&raw mut files).cast()) };
    files
}

/// Opens a library; the reason why not is the dynamic linker's own.
pub(super) fn open(path: &Path, flags: c_int) -> io::Result<Library> {
    // SAFETY: loading CUPTI means running a library's initialisers. With RTLD_NOLOAD none run.
    match unsafe { unix::Library::open(Some(path), flags) } {
        Ok(library) => Ok(library.into()),
        Err(_) if flags & libc::RTLD_NOLOAD != 0 => {
            Err(io::Error::other("it is not in the process any more"))
        }
        Err(error) => {
            let why = error.source().map_or_else(|| error.to_string(), |source| source.to_string());
            Err(io::Error::other(why))
        }
    }
}

/// The file that a library was loaded from, as the dynamic linker names it.
pub(crate) fn with_path(library: Library) -> (Library, Option<PathBuf>) {
    /// The public beginning of glibc's `struct link_map`.
    #[repr(C)]
    struct LinkMap {
        address: usize,
        name: *const c_char,
    }
    let handle = unix::Library::from(library).into_raw();
    let mut map: *const LinkMap = std::ptr::null();
    // SAFETY: the handle is open; this request writes one pointer. The map and its name live as
    // long as the handle is open.
    let path = unsafe {
        let code = libc::dlinfo(handle, libc::RTLD_DI_LINKMAP, (&raw mut map).cast());
        map.as_ref().filter(|_| code == 0).and_then(|map| path(map.name))
    };
    // SAFETY: the handle came from `into_raw` just above.
    (unsafe { unix::Library::from_raw(handle) }.into(), path)
}

/// # Safety
/// `name` is null or a C string.
unsafe fn path(name: *const c_char) -> Option<PathBuf> {
    if name.is_null() {
        return None;
    }
    // SAFETY: the caller vouches for it.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    (!name.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(name)))
}
