//! Finds the interpreter of this process.

use std::ffi::{CStr, c_char, c_void};

/// The addresses of an interpreter's symbols. The sampling thread reads the memory behind them only through
/// the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Interpreter {
    /// Address of `_PyRuntime`.
    pub(super) runtime: u64,
    /// Address of `PyCode_Type`.
    pub(super) code_type: u64,
    /// Address of `PyUnicode_Type`.
    pub(super) text_type: u64,
    /// `PY_VERSION_HEX`; 0: not known.
    pub(super) version: u32,
}

impl Interpreter {
    /// Finds the interpreter of this process by its global symbols. Takes the loader's lock, so only the
    /// start of a recording calls it.
    #[must_use]
    pub fn find() -> Option<Self> {
        // SAFETY: it only looks up the symbol.
        let symbol = |name: &CStr| unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        let there = |name: &CStr| Some(symbol(name)).filter(|symbol| !symbol.is_null());
        let address = |name: &CStr| there(name).map(|symbol| symbol as u64);
        let runtime = there(c"_PyRuntime")?;
        // Of two interpreters, the older one may lack a symbol that the other one has.
        let library = library_of(runtime);
        let of_it = |name: &CStr| there(name).filter(|symbol| library_of(*symbol) == library);
        let version = if let Some(version) = of_it(c"Py_Version") {
            // SAFETY: the symbol is an integer of the interpreter, which lives as long as its library.
            unsafe { version.cast::<u32>().read() }
        } else {
            // SAFETY: the function has this type in each version, needs no lock, and returns a static
            // string.
            let text = of_it(c"Py_GetVersion").map(|function| unsafe {
                type Version = extern "C" fn() -> *const c_char;
                CStr::from_ptr(std::mem::transmute::<*mut c_void, Version>(function)())
            });
            version_of(text.map_or(&[][..], CStr::to_bytes))
        };
        Some(Interpreter {
            runtime: runtime as u64,
            code_type: address(c"PyCode_Type")?,
            text_type: address(c"PyUnicode_Type")?,
            version,
        })
    }
}

/// The address at which the library of a symbol begins; null: it is in none.
fn library_of(symbol: *mut c_void) -> *mut c_void {
    // SAFETY: it only looks up the address, and all zeros are a valid value of the structure.
    unsafe {
        let mut found: libc::Dl_info = std::mem::zeroed();
        libc::dladdr(symbol, &raw mut found);
        found.dli_fbase
    }
}

/// Parses `3.10.13 (main, ...` into `PY_VERSION_HEX`, up to the minor version.
fn version_of(text: &[u8]) -> u32 {
    let text = std::str::from_utf8(text).unwrap_or_default();
    let mut numbers = text.split('.').map(|number| number.parse::<u8>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) => u32::from(major) << 24 | u32::from(minor) << 16,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_the_interpreter_says_of_itself() {
        assert_eq!(version_of(b"3.10.13 (main, Aug 24 2023) [GCC 12.2.0]"), 0x030a_0000);
        assert_eq!(version_of(b"3.9.1+ (heads)"), 0x0309_0000);
        for odd in [&b""[..], b"3", b"3.x", b"x.10", b"3.300", b"\xff\xfe"] {
            assert_eq!(version_of(odd), 0, "{odd:?}");
        }
    }
}
