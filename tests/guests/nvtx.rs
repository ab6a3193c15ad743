//! An NVTX client: loads the tool as NVTX's headers do and calls the functions that it installs.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use cupti_sys::nvtx as sys;
use libloading::Library;

/// Entries of each table; version 2 clients have 15 in the second.
const ENTRIES: usize = 16;

/// A module's table: NVTX hands out pointers to slots.
struct Table {
    slots: [sys::NvtxFunctionPointer; ENTRIES],
    pointers: [*mut sys::NvtxFunctionPointer; ENTRIES],
}

pub type Initialize =
    unsafe extern "C" fn(Option<unsafe extern "C" fn(u32) -> *const c_void>) -> c_int;

type InitializeExtension = unsafe extern "C" fn(*mut sys::nvtxExtModuleInfo_t) -> c_int;

pub const PAYLOAD_SLOTS: usize = 63;
/// In a slot of an extension before its tool was asked.
pub const FRESH: isize = 0;

/// One NVTX-using library of the guest.
pub struct Nvtx {
    core: Box<Table>,
    core2: Box<Table>,
    /// The payload extension: [`FRESH`] where the tool left a slot alone.
    pub payload: Box<[isize; PAYLOAD_SLOTS]>,
    /// What the tool answered to the extension.
    pub extended: Option<c_int>,
}

// SAFETY: the tables are written while `load` runs and only read afterwards.
unsafe impl Send for Nvtx {}
// SAFETY: as above.
unsafe impl Sync for Nvtx {}

static CLIENT: OnceLock<Nvtx> = OnceLock::new();

/// The client; the first call loads the tool.
pub fn client() -> &'static Nvtx {
    CLIENT.get_or_init(Nvtx::load)
}

pub fn range(name: &[u8]) {
    client().push(name);
    client().pop();
}

/// What `getExportTable` answers with; NVTX has it static as well.
static mut TABLES: [*mut Table; 2] = [ptr::null_mut(); 2];
static CALLBACKS: sys::NvtxExportTableCallbacks = sys::NvtxExportTableCallbacks {
    struct_size: size_of::<sys::NvtxExportTableCallbacks>(),
    GetModuleFunctionTable: Some(get_table),
};

unsafe extern "C" fn get_export_table(id: u32) -> *const c_void {
    if id == sys::NVTX_ETID_CALLBACKS { (&raw const CALLBACKS).cast() } else { ptr::null() }
}

unsafe extern "C" fn get_table(
    module: sys::NvtxCallbackModule,
    table: *mut sys::NvtxFunctionTable,
    size: *mut u32,
) -> c_int {
    let index = match module {
        sys::NVTX_CB_MODULE_CORE => 0,
        sys::NVTX_CB_MODULE_CORE2 => 1,
        _ => return 0,
    };
    let entries = if std::env::var_os("STAGE2_TEST_NVTX2").is_some() { 15 } else { ENTRIES };
    // SAFETY: the tool passes places to write to; the tables were set before it was called.
    unsafe {
        *table = (*TABLES[index]).pointers.as_mut_ptr();
        *size = entries as u32;
    }
    1
}

/// In NVTX's slots until its tool has answered: waits for that.
unsafe extern "C" fn unanswered() {
    std::thread::sleep(std::time::Duration::from_secs(3600));
}

fn is_unanswered(slot: sys::NvtxFunctionPointer) -> bool {
    slot.is_some_and(|function| function as usize == unanswered as *const () as usize)
}

/// Pushes and pops a range before NVTX has settled. For a child that was forked before its tool
/// answered: the answer never comes there.
pub fn push_and_pop_unanswered() {
    assert!(push_and_pop_if_answered(), "the tool's function");
}

/// Pushes and pops a range if the tool has put its functions into the tables. Returns whether it
/// has.
pub fn push_and_pop_if_answered() -> bool {
    let slot = |id: u32| {
        // SAFETY: the only thread there is; the tables stay.
        let slot = unsafe { TABLES[0].as_ref() }.and_then(|table| table.slots[id as usize]);
        slot.filter(|_| !is_unanswered(slot))
    };
    let of = [sys::NVTX_CBID_CORE_RangePushA, sys::NVTX_CBID_CORE_RangePop].map(slot);
    let [Some(push), Some(pop)] = of else { return false };
    // SAFETY: the tool put functions of the types that NVTX documents for the slots.
    unsafe {
        let push: unsafe extern "C" fn(*const c_char) -> c_int = std::mem::transmute(push);
        push(c"unanswered".as_ptr());
        pop();
    }
    true
}

impl Table {
    /// As NVTX leaves it: what its tool did not take does nothing.
    fn settle(&mut self) {
        for slot in &mut self.slots {
            if is_unanswered(*slot) {
                *slot = None;
            }
        }
    }

    fn new() -> Box<Self> {
        let slots = [Some(unanswered as unsafe extern "C" fn()); ENTRIES];
        let mut table = Box::new(Table { slots, pointers: [ptr::null_mut(); ENTRIES] });
        // Entry 0 is invalid in NVTX and points nowhere.
        for index in 1..ENTRIES {
            table.pointers[index] = &raw mut table.slots[index];
        }
        table
    }
}

impl Nvtx {
    pub fn load() -> Self {
        let tool = std::env::var_os("NVTX_INJECTION64_PATH").and_then(|path| {
            // SAFETY: NVTX loads whatever the variable names.
            unsafe {
                let library = Library::new(path).ok()?;
                let initialize = *library.get::<Initialize>(b"InitializeInjectionNvtx2").ok()?;
                let name = b"InitializeInjectionNvtxExtension";
                let extend = library.get::<InitializeExtension>(name).ok().map(|it| *it);
                std::mem::forget(library);
                Some((initialize, extend))
            }
        });
        tool.map_or_else(
            || Self::new().settled(),
            |(initialize, extend)| {
                let mut client = Self::attached_to(initialize);
                client.extended = extend.map(|extend| client.extend(extend));
                client
            },
        )
    }

    /// Has a tool fill in the slots of the payload extension, as NVTX does at the first call of it.
    pub fn extend(&mut self, extend: InitializeExtension) -> c_int {
        let mut segment = sys::nvtxExtModuleSegment_t {
            segmentId: 0,
            slotCount: PAYLOAD_SLOTS,
            functionSlots: self.payload.as_mut_ptr(),
        };
        let mut info = sys::nvtxExtModuleInfo_t {
            nvtxVer: 3,
            structSize: size_of::<sys::nvtxExtModuleInfo_t>() as u16,
            moduleId: sys::NVTX_EXT_PAYLOAD_MODULEID as u16,
            compatId: sys::NVTX_EXT_PAYLOAD_COMPATID as u16,
            segmentsCount: 1,
            segments: &raw mut segment,
            getExportFunction: None,
            extInfo: ptr::null(),
        };
        // SAFETY: the struct and its slots are there, and nobody else uses them.
        unsafe { extend(&raw mut info) }
    }

    fn new() -> Self {
        let payload = Box::new([FRESH; PAYLOAD_SLOTS]);
        Nvtx { core: Table::new(), core2: Table::new(), payload, extended: None }
    }

    /// A client of the tool with this entry point.
    pub fn attached_to(initialize: Initialize) -> Self {
        let mut client = Self::new();
        // SAFETY: nothing reads the tables before the tool is called, which is what it expects.
        unsafe {
            TABLES = [&raw mut *client.core, &raw mut *client.core2];
            initialize(Some(get_export_table));
        }
        client.settled()
    }

    fn settled(mut self) -> Self {
        self.core.settle();
        self.core2.settle();
        self
    }

    /// The function in a slot of core (`second`: core 2), if the tool put one there. `F` must be its type.
    pub fn function<F: Copy>(&self, second: bool, id: u32) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<sys::NvtxFunctionPointer>()) };
        let table = if second { &self.core2 } else { &self.core };
        // SAFETY: the tool put a function of the type that NVTX documents for the slot.
        table.slots[id as usize].map(|function| unsafe { std::mem::transmute_copy(&function) })
    }

    /// Calls the function in a slot, if the tool put one there. `A` and `B` must be those of its type.
    pub fn call<A, B>(&self, second: bool, id: u32, argument: A) -> Option<B> {
        let f: unsafe extern "C" fn(A) -> B = self.function(second, id)?;
        // SAFETY: what an argument points to lives during the call, and any number is allowed.
        Some(unsafe { f(argument) })
    }

    /// As [`Self::call`], with two arguments.
    pub fn call_with<A, B, C>(&self, second: bool, id: u32, first: A, other: B) -> Option<C> {
        let f: unsafe extern "C" fn(A, B) -> C = self.function(second, id)?;
        // SAFETY: as above.
        Some(unsafe { f(first, other) })
    }

    pub fn push(&self, name: &[u8]) -> c_int {
        self.push_c(&CString::new(name).expect("no NUL"))
    }

    pub fn push_c(&self, name: &CStr) -> c_int {
        self.call(false, sys::NVTX_CBID_CORE_RangePushA, name.as_ptr()).unwrap_or(-99)
    }

    /// The name ends in NUL.
    pub fn push_wide(&self, name: &[i32]) -> c_int {
        self.call(false, sys::NVTX_CBID_CORE_RangePushW, name.as_ptr()).unwrap_or(-99)
    }

    pub fn pop(&self) -> c_int {
        type F = unsafe extern "C" fn() -> c_int;
        let f = self.function::<F>(false, sys::NVTX_CBID_CORE_RangePop);
        // SAFETY: no arguments.
        f.map_or(-99, |f| unsafe { f() })
    }

    pub fn mark(&self, name: &CStr) {
        self.call::<_, ()>(false, sys::NVTX_CBID_CORE_MarkA, name.as_ptr());
    }

    pub fn start(&self, name: &str) -> u64 {
        self.start_c(&CString::new(name).expect("no NUL"))
    }

    pub fn start_c(&self, name: &CStr) -> u64 {
        self.call(false, sys::NVTX_CBID_CORE_RangeStartA, name.as_ptr()).unwrap_or_default()
    }

    pub fn end(&self, id: u64) {
        self.call::<_, ()>(false, sys::NVTX_CBID_CORE_RangeEnd, id);
    }

    pub fn domain(&self, name: &str) -> usize {
        self.domain_c(&CString::new(name).expect("no NUL"))
    }

    pub fn domain_c(&self, name: &CStr) -> usize {
        self.call(true, sys::NVTX_CBID_CORE2_DomainCreateA, name.as_ptr()).unwrap_or_default()
    }

    pub fn register(&self, domain: usize, text: &str) -> usize {
        self.register_c(domain, &CString::new(text).expect("no NUL"))
    }

    pub fn register_c(&self, domain: usize, text: &CStr) -> usize {
        let id = sys::NVTX_CBID_CORE2_DomainRegisterStringA;
        self.call_with(true, id, domain, text.as_ptr()).unwrap_or_default()
    }

    /// Pushes a registered string with category 7 and an integer payload.
    pub fn push_registered(&self, domain: usize, string: usize, payload: i64) -> c_int {
        // SAFETY: all-zero is a valid value of this struct of numbers and pointers.
        let mut attributes: sys::nvtxEventAttributes_t = unsafe { std::mem::zeroed() };
        attributes.version = 3;
        attributes.size = size_of::<sys::nvtxEventAttributes_t>() as u16;
        attributes.category = 7;
        attributes.messageType = sys::NVTX_MESSAGE_TYPE_REGISTERED as i32;
        attributes.message.registered = string as sys::nvtxStringHandle_t;
        attributes.payloadType = sys::NVTX_PAYLOAD_TYPE_INT64 as i32;
        attributes.payload.llValue = payload;
        self.push_in(domain, &attributes)
    }

    pub fn push_in(&self, domain: usize, attributes: &sys::nvtxEventAttributes_t) -> c_int {
        let id = sys::NVTX_CBID_CORE2_DomainRangePushEx;
        self.call_with(true, id, domain, ptr::from_ref(attributes)).unwrap_or(-99)
    }

    pub fn pop_in(&self, domain: usize) -> c_int {
        self.call(true, sys::NVTX_CBID_CORE2_DomainRangePop, domain).unwrap_or(-99)
    }
}
