//! The end of a Python interpreter, before that of its process.
//!
//! CPython 3.10 frees its threads' states at its end while daemon threads still wake up, and is saved
//! from them only by the end of the process, which follows at once. An exit handler that takes some
//! milliseconds, as ours has to, lets them crash. So there we finish while the interpreter still holds them
//! off: in the destructor of an object in its own dictionary, which it clears when no Python code is left.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::base::barrier;

type Object = *mut c_void;
type Destructor = extern "C" fn(Object);

/// The interpreter was asked to run [`install`], here or in the process that forked this one.
static ASKED: AtomicBool = AtomicBool::new(false);

const NAME: &CStr = c"stage2";

/// A function of the interpreter's, null where there is none of this name.
fn function(name: &CStr) -> *mut c_void {
    // SAFETY: only looks the symbol up.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

/// Whether the program of this process is Python itself: what embeds an interpreter may go on without it.
fn is_python() -> bool {
    let mut path = [0u8; libc::PATH_MAX as usize];
    // SAFETY: the buffer has the length that is told.
    let length =
        unsafe { libc::readlink(c"/proc/self/exe".as_ptr(), path.as_mut_ptr().cast(), path.len()) };
    let path = usize::try_from(length).ok().and_then(|length| path.get(..length));
    let name = path.and_then(|path| path.rsplit(|&byte| byte == b'/').next());
    name.is_some_and(|name| name.starts_with(b"python"))
}

/// Has us finish at the end of an interpreter that needs it. May be called on any thread; the interpreter's
/// main thread does the rest when it next runs Python code, or at its end.
pub(super) fn watch() {
    let (initialised, later) = (function(c"Py_IsInitialized"), function(c"Py_AddPendingCall"));
    // A function of 3.10 and later, and a number of 3.11 and later.
    let needs = !function(c"PyModule_AddObjectRef").is_null() && function(c"Py_Version").is_null();
    if initialised.is_null() || later.is_null() || !needs || !is_python() {
        return;
    }
    type Initialised = extern "C" fn() -> c_int;
    type Later = extern "C" fn(extern "C" fn(*mut c_void) -> c_int, *mut c_void) -> c_int;
    // SAFETY: the functions have these types in each version, and need no lock of the interpreter's.
    unsafe {
        let initialised = std::mem::transmute::<*mut c_void, Initialised>(initialised);
        let later = std::mem::transmute::<*mut c_void, Later>(later);
        if initialised() == 0 || ASKED.swap(true, Ordering::Relaxed) {
            return;
        }
        if later(install, std::ptr::null_mut()) != 0 {
            // Too many wait; the next call may find room.
            ASKED.store(false, Ordering::Relaxed);
        }
    }
}

/// Called by the interpreter, with its lock held.
extern "C" fn install(_: *mut c_void) -> c_int {
    let names = [
        c"PyInterpreterState_Get",
        c"PyInterpreterState_GetDict",
        c"PyCapsule_New",
        c"PyDict_SetItemString",
        c"Py_DecRef",
        c"PyErr_Clear",
    ];
    let functions = names.map(function);
    if functions.iter().any(|function| function.is_null()) {
        return 0;
    }
    let [state, dict, capsule, set, release, clear] = functions;
    type Capsule = extern "C" fn(*const c_void, *const c_char, Destructor) -> Object;
    type Set = extern "C" fn(Object, *const c_char, Object) -> c_int;
    // SAFETY: the functions have these types in each version; we hold the interpreter's lock; the name and
    // the place that the capsule names stay.
    unsafe {
        let state = std::mem::transmute::<*mut c_void, extern "C" fn() -> Object>(state);
        let dict = std::mem::transmute::<*mut c_void, extern "C" fn(Object) -> Object>(dict);
        let capsule = std::mem::transmute::<*mut c_void, Capsule>(capsule);
        let set = std::mem::transmute::<*mut c_void, Set>(set);
        let release = std::mem::transmute::<*mut c_void, extern "C" fn(Object)>(release);
        let clear = std::mem::transmute::<*mut c_void, extern "C" fn()>(clear);
        let dict = dict(state());
        if dict.is_null() {
            return 0;
        }
        let ours = capsule((&raw const ASKED).cast(), NAME.as_ptr(), finish);
        if ours.is_null() || set(dict, NAME.as_ptr(), ours) != 0 {
            // Without memory for it, the end is as it was.
            clear();
        }
        if !ours.is_null() {
            release(ours);
        }
    }
    0
}

/// No Python code runs any more.
extern "C" fn finish(_: Object) {
    barrier::catch((), super::finish);
}
