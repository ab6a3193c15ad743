//! A CUPTI client over a private copy of the library: what it was given, in plain types.
//!
//! CUPTI's buffer callbacks have no user data, so the client is a static and the tests of one
//! program take turns.

#![allow(dead_code, reason = "every test program uses its own part")]

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::PathBuf;
use std::ptr;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use libloading::Library;

pub(crate) type Handle = usize;

/// Launches cost nothing.
pub(crate) const FAST: (&str, &str) = ("STAGE2_SIM_FAST", "1");

/// `CUpti_ActivityKind`s.
pub(crate) const MEMCPY: u32 = 1;
pub(crate) const MEMSET: u32 = 2;
pub(crate) const DRIVER: u32 = 4;
pub(crate) const DEVICE: u32 = 8;
pub(crate) const CONTEXT: u32 = 9;
pub(crate) const KERNEL: u32 = 10;
pub(crate) const GRAPH_TRACE: u32 = 51;

/// Recorded sequences.
pub(crate) const PREFILL: u32 = 0;
pub(crate) const DECODE: u32 = 1;
pub(crate) const GRAPH: u32 = 2;

/// An activity record, as far as the tests look at it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Activity {
    pub(crate) kind: u32,
    pub(crate) correlation: u32,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) stream: u32,
    pub(crate) graph: u32,
    pub(crate) node: u64,
    pub(crate) name: String,
}

/// A driver or resource callback.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) thread: ThreadId,
    pub(crate) domain: u32,
    pub(crate) cbid: u32,
    /// Driver: 0 enter, 1 exit.
    pub(crate) site: u32,
    /// Driver.
    pub(crate) correlation: u32,
    /// Driver: the function; and the launched kernel.
    pub(crate) function: String,
    pub(crate) symbol: Option<String>,
    /// Resource: node and original node.
    pub(crate) node: Handle,
    pub(crate) original: Handle,
}

/// What happened at the client, and what it shall do.
#[derive(Debug, Default)]
pub(crate) struct Client {
    next: Option<unsafe extern "C" fn(*mut u8, usize, *mut *mut u8) -> u32>,
    pub(crate) buffer_bytes: usize,
    pub(crate) max_records: usize,
    pub(crate) refuse: bool,
    pub(crate) activities: Vec<Activity>,
    /// Results that ended the walks over the buffers.
    pub(crate) ends: Vec<u32>,
    /// Bytes that records of kind 10 are apart.
    pub(crate) strides: Vec<usize>,
    pub(crate) requested_on: Vec<ThreadId>,
    pub(crate) completed_on: Vec<ThreadId>,
    pub(crate) events: Vec<Event>,
}

static CLIENT: LazyLock<Mutex<Client>> = LazyLock::new(Mutex::default);
static TURN: Mutex<()> = Mutex::new(());

impl Client {
    pub(crate) fn of(&self, kind: u32) -> Vec<Activity> {
        self.activities.iter().filter(|activity| activity.kind == kind).cloned().collect()
    }
}

pub(crate) fn client() -> MutexGuard<'static, Client> {
    CLIENT.lock().unwrap_or_else(PoisonError::into_inner)
}

unsafe extern "C" fn request(buffer: *mut *mut u8, size: *mut usize, records: *mut usize) {
    let mut client = client();
    client.requested_on.push(std::thread::current().id());
    if client.refuse {
        return;
    }
    let words = vec![u64::MAX; client.buffer_bytes.div_ceil(8)].leak();
    // SAFETY: CUPTI's out-pointers.
    unsafe {
        *buffer = words.as_mut_ptr().cast();
        *size = client.buffer_bytes;
        *records = client.max_records;
    }
}

unsafe extern "C" fn complete(_: Handle, _: u32, buffer: *mut u8, size: usize, valid: usize) {
    let mut client = client();
    assert!(valid <= size);
    client.completed_on.push(std::thread::current().id());
    let next = client.next.expect("a library");
    let (mut record, mut last) = (ptr::null_mut::<u8>(), None::<(u32, usize)>);
    let end = loop {
        // SAFETY: a buffer of this client with `valid` bytes of records.
        let result = unsafe { next(buffer, valid, &raw mut record) };
        if result != 0 {
            break result;
        }
        // SAFETY: the record lies in the buffer.
        let activity = unsafe { read(record) };
        if let Some((KERNEL, at)) = last {
            client.strides.push(record.addr() - at);
        }
        last = Some((activity.kind, record.addr()));
        client.activities.push(activity);
    };
    client.ends.push(end);
    // SAFETY: the memory that `request` leaked, with the size that it said.
    unsafe {
        let words = ptr::slice_from_raw_parts_mut(buffer.cast::<u64>(), size.div_ceil(8));
        drop(Box::from_raw(words));
    }
}

/// Field offsets by kind: correlation, start, stream, graph, node. Source: CUPTI's headers.
unsafe fn read(record: *const u8) -> Activity {
    // SAFETY: a whole record; every offset lies in it in all versions.
    unsafe {
        let u32_at = |at: usize| record.add(at).cast::<u32>().read_unaligned();
        let u64_at = |at: usize| record.add(at).cast::<u64>().read_unaligned();
        let kind = u32_at(0);
        let (correlation, start, stream, graph, node) = match kind {
            KERNEL => (u32_at(92), 16, u32_at(48), u32_at(156), u64_at(144)),
            MEMCPY | MEMSET => (u32_at(44), 16, u32_at(40), u32_at(72), u64_at(64)),
            GRAPH_TRACE => (u32_at(4), 8, u32_at(36), u32_at(28), 0),
            DRIVER => (u32_at(32), 8, 0, 0, 0),
            _ => (0, 0, 0, 0, 0),
        };
        let name = match kind {
            KERNEL => CStr::from_ptr(u64_at(104) as *const c_char),
            DEVICE => CStr::from_ptr(u64_at(136) as *const c_char),
            _ => c"",
        };
        let (start, end) = if start == 0 { (0, 0) } else { (u64_at(start), u64_at(start + 8)) };
        let name = name.to_string_lossy().into_owned();
        Activity { kind, correlation, start, end, stream, graph, node, name }
    }
}

unsafe extern "C" fn callback(_: *mut c_void, domain: u32, cbid: u32, data: *const c_void) {
    // SAFETY: `data` is the struct of the domain, as CUPTI's headers lay it out.
    let event = unsafe {
        let u32_at = |at: usize| data.byte_add(at).cast::<u32>().read();
        let word_at = |at: usize| data.byte_add(at).cast::<usize>().read();
        let text = |at: usize| match word_at(at) {
            0 => None,
            text => Some(CStr::from_ptr(text as *const c_char).to_string_lossy().into_owned()),
        };
        let is_driver = domain == 1;
        let (site, correlation) = if is_driver { (u32_at(0), u32_at(64)) } else { (0, 0) };
        let (function, symbol) = if is_driver { (text(8), text(32)) } else { (None, None) };
        let graph = if is_driver { ptr::null() } else { word_at(16) as *const usize };
        let (node, original) =
            if graph.is_null() { (0, 0) } else { (*graph.add(2), *graph.add(3)) };
        let (thread, function) = (std::thread::current().id(), function.unwrap_or_default());
        Event { thread, domain, cbid, site, correlation, function, symbol, node, original }
    };
    client().events.push(event);
}

/// The library that the tests of this package load: beside the test program.
pub(crate) fn library_path() -> PathBuf {
    let program = std::env::current_exe().expect("the path of this program");
    program.parent().expect("its folder").join("libstage2_sim.so")
}

/// A private copy of the library and the client's turn to use it.
pub(crate) struct Sim {
    library: &'static Library,
    _folder: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Sim {
    /// A copy with settings of its own. The client is empty.
    pub(crate) fn new(settings: &[(&str, &str)]) -> Sim {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().expect("a folder");
        let copy = folder.path().join("libstage2_sim.so");
        std::fs::copy(library_path(), &copy).expect("a copy of the library");
        // SAFETY: the library of this package. It stays loaded: its thread never ends.
        let library = Box::leak(Box::new(unsafe { Library::new(copy) }.expect("loads")));
        let sim = Sim { library, _folder: folder, _turn: turn };
        for (name, value) in settings {
            let (name, value) = (CString::new(*name).expect("C"), CString::new(*value).expect("C"));
            let configure: unsafe extern "C" fn(*const c_char, *const c_char) -> u32 =
                sim.get("stage2_sim_configure");
            // SAFETY: two C strings.
            assert_eq!(unsafe { configure(name.as_ptr(), value.as_ptr()) }, 0);
        }
        let next = Some(sim.get("cuptiActivityGetNextRecord"));
        *client() = Client { next, buffer_bytes: 64 << 10, ..Client::default() };
        sim
    }

    /// A fast copy that collects these kinds, with its driver initialised.
    pub(crate) fn started(kinds: &[u32]) -> Sim {
        let sim = Sim::new(&[FAST]);
        sim.start(kinds);
        sim
    }

    /// The simulator's library as a collector sees CUPTI, for as long as the test takes.
    pub(crate) fn api(&self) -> cupti_sys::Api {
        let path = self._folder.path().join("libstage2_sim.so");
        // SAFETY: the library of this package, which is loaded already.
        let library = unsafe { Library::new(path) }.expect("loads again");
        // SAFETY: it behaves like a CUPTI that needs no driver.
        unsafe { cupti_sys::Api::load(library) }.expect("all required symbols")
    }

    /// A function of the library as type `T`.
    pub(crate) fn get<T: Copy>(&self, name: &str) -> T {
        // SAFETY: the tests name the types that the CUDA headers give these functions.
        *unsafe { self.library.get::<T>(name) }.unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(crate) fn call0(&self, name: &str) -> u32 {
        self.get::<extern "C" fn() -> u32>(name)()
    }

    pub(crate) fn call(&self, name: &str, argument: Handle) -> u32 {
        self.get::<extern "C" fn(Handle) -> u32>(name)(argument)
    }

    /// A function whose first argument is an out-pointer, with its result.
    pub(crate) fn out(&self, name: &str, argument: Handle) -> (u32, Handle) {
        let mut out = 0;
        let result =
            self.get::<extern "C" fn(*mut Handle, Handle) -> u32>(name)(&mut out, argument);
        (result, out)
    }

    pub(crate) fn make(&self, name: &str, argument: Handle) -> Handle {
        let (result, out) = self.out(name, argument);
        assert_eq!(result, 0, "{name}");
        out
    }

    pub(crate) fn register(&self) -> u32 {
        type Register = extern "C" fn(*const c_void, *const c_void) -> u32;
        let register = self.get::<Register>("cuptiActivityRegisterCallbacks");
        register(request as *const c_void, complete as *const c_void)
    }

    pub(crate) fn subscribe(&self) -> (u32, Handle) {
        type Subscribe = extern "C" fn(*mut Handle, *const c_void, usize) -> u32;
        let mut subscriber = 0;
        let subscribe = self.get::<Subscribe>("cuptiSubscribe");
        (subscribe(&mut subscriber, callback as *const c_void, 0), subscriber)
    }

    pub(crate) fn enable_callback(&self, subscriber: Handle, domain: u32, cbid: u32) {
        let enable: extern "C" fn(u32, Handle, u32, u32) -> u32 = self.get("cuptiEnableCallback");
        assert_eq!(enable(1, subscriber, domain, cbid), 0);
    }

    pub(crate) fn start(&self, kinds: &[u32]) {
        assert_eq!(self.register(), 0);
        for kind in kinds {
            assert_eq!(self.call("cuptiActivityEnable", *kind as Handle), 0, "kind {kind}");
        }
        assert_eq!(self.call("cuInit", 0), 0);
        self.make("cuDevicePrimaryCtxRetain", 0);
    }

    pub(crate) fn stream(&self) -> Handle {
        self.make("cuStreamCreate", 1)
    }

    pub(crate) fn launch(&self, sequence: u32, index: u32, stream: Handle) {
        let launch: extern "C" fn(u32, u32, Handle) -> u32 = self.get("stage2_sim_launch_recorded");
        assert_eq!(launch(sequence, index, stream), 0, "operation {index}");
    }

    pub(crate) fn play(&self, sequence: u32, stream: Handle) {
        let length: extern "C" fn(u32) -> u32 = self.get("stage2_sim_sequence_length");
        for index in 0..length(sequence) {
            self.launch(sequence, index, stream);
        }
    }

    pub(crate) fn synchronize(&self) {
        assert_eq!(self.call0("cuCtxSynchronize"), 0);
    }

    pub(crate) fn flush(&self, forced: bool) {
        assert_eq!(self.call("cuptiActivityFlushAll", Handle::from(forced)), 0);
    }

    pub(crate) fn finish(&self) -> MutexGuard<'static, Client> {
        self.synchronize();
        self.flush(true);
        client()
    }

    pub(crate) fn dropped(&self) -> usize {
        let mut dropped = 0;
        let get: extern "C" fn(Handle, u32, *mut usize) -> u32 =
            self.get("cuptiActivityGetNumDroppedRecords");
        assert_eq!(get(0, 0, &mut dropped), 0);
        dropped
    }

    /// The correlation id that a traced call takes now, seen by a fence.
    pub(crate) fn fence(&self, subscriber: Handle) -> u32 {
        self.enable_callback(subscriber, 1, 2);
        self.make("cuDriverGetVersion", 0);
        client().events.last().expect("a callback").correlation
    }

    /// A captured recorded graph: (template, executable).
    pub(crate) fn capture(&self, stream: Handle) -> (Handle, Handle) {
        assert_eq!(self.call("cuStreamBeginCapture_v2", stream), 0);
        self.play(GRAPH, stream);
        let mut graph = 0;
        let end: extern "C" fn(Handle, *mut Handle) -> u32 = self.get("cuStreamEndCapture");
        assert_eq!(end(stream, &mut graph), 0);
        (graph, self.make("cuGraphInstantiateWithFlags", graph))
    }

    pub(crate) fn replay(&self, exec: Handle, stream: Handle) {
        let launch: extern "C" fn(Handle, Handle) -> u32 = self.get("cuGraphLaunch");
        assert_eq!(launch(exec, stream), 0);
    }
}
