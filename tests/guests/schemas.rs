//! Guests whose ranges have payloads that follow schemas, as NCCL's do, and guests that open a range
//! through one function of NVTX and close it through another.

use std::ffi::CStr;

use cupti_sys::nvtx as sys;

use crate::cuda::{self, Stream};
use crate::nvtx::{Nvtx, client};
use crate::payload::{attributes, data, entry, text_schema};

/// The first identifier that a guest may choose.
const STATIC: u64 = 1 << 24;
const U64: u64 = sys::NVTX_PAYLOAD_ENTRY_TYPE_UINT64 as u64;
const SIZE: u64 = sys::NVTX_PAYLOAD_ENTRY_TYPE_SIZE as u64;
const INT: u64 = sys::NVTX_PAYLOAD_ENTRY_TYPE_INT as u64;

#[repr(C)]
struct AllReduce {
    comm: u64,
    bytes: usize,
    op: i32,
}

#[repr(C)]
struct CommInit {
    comm: u64,
    ranks: i32,
    rank: i32,
    device: i32,
}

/// A communicator whose parameters come with the pop, then three reductions inside of `decode`.
pub fn nccl() {
    cuda::init();
    let (nvtx, stream) = (client(), Stream::new());
    let domain = nvtx.domain("NCCL");
    let operations = [(c"Sum", 0), (c"Product", 1), (c"Max", 2), (c"Min", 3), (c"Avg", 4)];
    assert_eq!(nvtx.enumeration(domain, STATIC + 11, &operations), STATIC + 11);
    let comm = c"NCCL communicator ID";
    // Newer versions of NCCL tell no size.
    let reduce = nvtx.schema(
        domain,
        STATIC + 5,
        0,
        &[
            entry(U64, comm, std::mem::offset_of!(AllReduce, comm)),
            entry(SIZE, c"Message size [bytes]", std::mem::offset_of!(AllReduce, bytes)),
            entry(STATIC + 11, c"Reduction operation", std::mem::offset_of!(AllReduce, op)),
        ],
    );
    let init = nvtx.schema(
        domain,
        STATIC,
        size_of::<CommInit>(),
        &[
            entry(U64, comm, std::mem::offset_of!(CommInit, comm)),
            entry(INT, c"No. of ranks", std::mem::offset_of!(CommInit, ranks)),
            entry(INT, c"Rank", std::mem::offset_of!(CommInit, rank)),
            entry(INT, c"CUDA device", std::mem::offset_of!(CommInit, device)),
        ],
    );
    assert_eq!((reduce, init), (STATIC + 5, STATIC));
    nvtx.push_in(domain, &attributes(c"ncclCommInitRank", &[]));
    let parameters = CommInit { comm: 0xfeed, ranks: 2, rank: 1, device: -1 };
    nvtx.pop_payload(domain, &[data(init, &parameters)]);
    for step in 0..3 {
        nvtx.push(b"decode");
        stream.launch(4);
        let parameters = AllReduce { comm: 0xfeed, bytes: 1024 << step, op: step };
        nvtx.push_in(domain, &attributes(c"ncclAllReduce", &[data(reduce, &parameters)]));
        stream.launch(1);
        nvtx.pop_in(domain);
        stream.synchronize();
        nvtx.pop();
    }
}

/// A library that closes its range through the extension; then three decodes.
pub fn popped_elsewhere() {
    cuda::init();
    let (nvtx, stream) = (client(), Stream::new());
    let domain = nvtx.domain("NCCL");
    nvtx.push_in(domain, &attributes(c"ncclCommInitRank", &[]));
    stream.launch(2);
    nvtx.pop_payload(domain, &[]);
    for _ in 0..3 {
        stream.work(b"decode", 5);
    }
}

/// Ranges of a library around those of the program, inside of them, and alone; and three ranges that
/// stay open, one of which is the library's.
pub fn library_around() {
    cuda::init();
    let (nvtx, stream) = (client(), Stream::new());
    let domain = nvtx.domain("NCCL");
    let library = |name: &CStr, inside: &dyn Fn()| {
        nvtx.push_in(domain, &attributes(name, &[]));
        stream.launch(1);
        inside();
        stream.synchronize();
        nvtx.pop_in(domain);
    };
    for _ in 0..4 {
        library(c"ncclGroup", &|| {
            nvtx.push(b"decode");
            stream.launch(10);
            library(c"ncclAllReduce", &|| {});
            nvtx.pop();
        });
    }
    nvtx.push_in(domain, &attributes(c"ncclWatchdog", &[]));
    nvtx.push(b"serve");
    nvtx.push(b"request");
}

/// Opens a range through each function that can and closes it through each that can, with one
/// kernel inside and one after it. Prints the names of the ranges.
pub fn every_pair() {
    cuda::init();
    let (nvtx, stream) = (client(), Stream::new());
    assert_eq!((nvtx.extended, nvtx.is_enabled(0)), (Some(1), 1));
    for (open, opener) in nvtx.openers() {
        for (close, closer) in nvtx.closers() {
            let name = std::ffi::CString::new(format!("{open}.{close}")).expect("no NUL");
            opener(&name);
            stream.launch(1);
            assert_eq!(closer(), 0, "{open} {close}");
            stream.launch(1);
            println!("{}", name.to_string_lossy());
        }
    }
    for (open, starter) in starters(nvtx) {
        for (close, ender) in enders(nvtx) {
            let name = std::ffi::CString::new(format!("{open}.{close}")).expect("no NUL");
            let id = starter(&name);
            assert_ne!(id, 0, "{open} {close}");
            stream.launch(1);
            ender(id);
            stream.launch(1);
            println!("{}", name.to_string_lossy());
        }
    }
}

type Starter<'a> = Box<dyn Fn(&CStr) -> u64 + 'a>;

fn starters(nvtx: &Nvtx) -> Vec<(&'static str, Starter<'_>)> {
    let wide = |name: &CStr| {
        let wide: Vec<i32> = name.to_bytes_with_nul().iter().map(|&c| c.into()).collect();
        nvtx.call(false, sys::NVTX_CBID_CORE_RangeStartW, wide.as_ptr()).expect("a slot")
    };
    let extended = |name: &CStr| {
        let attributes = attributes(name, &[]);
        nvtx.call(false, sys::NVTX_CBID_CORE_RangeStartEx, &raw const attributes).expect("a slot")
    };
    let in_domain = |name: &CStr| {
        let (id, attributes) = (sys::NVTX_CBID_CORE2_DomainRangeStartEx, attributes(name, &[]));
        nvtx.call_with(true, id, 0usize, &raw const attributes).expect("a slot")
    };
    let payload = |name: &CStr| {
        let mut text = [0u8; 64];
        text[..name.count_bytes()].copy_from_slice(name.to_bytes());
        nvtx.start_payload(0, &[data(text_schema(nvtx), &text)])
    };
    vec![
        ("RangeStartA", Box::new(|name: &CStr| nvtx.start_c(name)) as Starter<'_>),
        ("RangeStartW", Box::new(wide)),
        ("RangeStartEx", Box::new(extended)),
        ("DomainRangeStartEx", Box::new(in_domain)),
        ("RangeStartPayload", Box::new(payload)),
    ]
}

type Ender<'a> = Box<dyn Fn(u64) + 'a>;

fn enders(nvtx: &Nvtx) -> Vec<(&'static str, Ender<'_>)> {
    let in_domain = |id: u64| {
        nvtx.call_with(true, sys::NVTX_CBID_CORE2_DomainRangeEnd, 0usize, id).expect("a slot")
    };
    vec![
        ("RangeEnd", Box::new(|id| nvtx.end(id)) as Ender<'_>),
        ("DomainRangeEnd", Box::new(in_domain)),
        ("RangeEndPayload", Box::new(|id| nvtx.end_payload(0, id, &[]))),
    ]
}

/// A page of text that does not end, and no memory behind it.
fn page_at_an_edge() -> *const std::ffi::c_void {
    const PAGE: usize = 4096;
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANON);
    // SAFETY: a new mapping of two pages, whose second one is made inaccessible.
    unsafe {
        let page = libc::mmap(std::ptr::null_mut(), 2 * PAGE, access, kind, -1, 0);
        assert_ne!(page, libc::MAP_FAILED);
        std::ptr::write_bytes(page.cast::<u8>(), b'x', PAGE);
        assert_eq!(libc::mprotect(page.wrapping_byte_add(PAGE), PAGE, libc::PROT_NONE), 0);
        page
    }
}

/// Payloads and registrations that are not what they say; then two ranges that are.
pub fn hostile_payloads() {
    cuda::init();
    let (nvtx, stream) = (client(), Stream::new());
    let domain = nvtx.domain("hostile");
    let null = std::ptr::null();
    assert_eq!(nvtx.schema_of(domain, null), 0);
    assert_eq!(nvtx.enumeration_of(domain, std::ptr::null()), 0);
    // SAFETY: all-zero is a valid value of this struct of numbers and pointers.
    let mut empty: sys::nvtxPayloadSchemaAttr_t = unsafe { std::mem::zeroed() };
    assert_eq!(nvtx.schema_of(domain, &raw const empty), 0);
    // It says that everything is there.
    empty.fieldMask = u64::MAX;
    assert_eq!(nvtx.schema_of(domain, &raw const empty), 0);
    assert_eq!(nvtx.schema(domain, 5, 8, &[entry(INT, c"of a reserved id", 0)]), 0);
    let long = nvtx.schema(
        domain,
        0,
        1 << 20,
        &[
            entry(INT, c"there", 0),
            entry(INT, c"far away", 1 << 19),
            entry(0xdead_beef, c"of no type", 0),
        ],
    );
    let given = |id, size, payload: *const std::ffi::c_void| sys::nvtxPayloadData_t {
        schemaId: id,
        size,
        payload,
    };
    let value = 7i32;
    let at = std::ptr::from_ref(&value).cast();
    let edge = page_at_an_edge();
    for payload in [
        given(long, 4, null.cast()),
        given(long, usize::MAX, at),
        given(long, 0, at),
        given(STATIC + 99, 4, at),
        given(u64::MAX, 4, at),
        given(long, 2, at),
        given(long, 4, at),
        given(long, 1 << 20, edge),
        given(long, usize::MAX - 1, edge),
        given(sys::NVTX_PAYLOAD_ENTRY_TYPE_CSTRING.into(), usize::MAX, edge),
    ] {
        nvtx.push_payload(domain, &[payload]);
        nvtx.pop_payload(domain, &[payload; 20]);
        nvtx.mark_payload(domain, &[payload]);
        let id = nvtx.start_payload(domain, &[payload]);
        nvtx.end_payload(domain, id, &[payload]);
    }
    nvtx.push_payload_raw(domain, std::ptr::null(), usize::MAX);
    nvtx.pop_payload(0x4141_4141, &[]);
    nvtx.pop_in(domain);
    let mut broken = attributes(c"broken", &[given(long, 4, at)]);
    broken.reserved0 = -1;
    nvtx.push_in(domain, &broken);
    nvtx.pop_in(domain);
    broken.reserved0 = i32::MAX;
    broken.payload.ullValue = 0;
    nvtx.push_in(domain, &broken);
    nvtx.pop_in(domain);
    nvtx.push_in(domain, &attributes(c"right", &[given(long, 4, at)]));
    stream.run(3);
    nvtx.pop_in(domain);
    stream.work(b"after", 2);
}

/// What [`overridden`] gives at its push.
#[repr(C)]
struct Parameters {
    message: u64,
    category: u32,
    tokens: i32,
}

/// A range whose every attribute comes from payloads, of which some come with the pop.
pub fn overridden() {
    let nvtx = client();
    let domain = nvtx.domain("own");
    let message = nvtx.register(domain, "from the payload");
    let mut name =
        entry(sys::NVTX_PAYLOAD_ENTRY_TYPE_NVTX_REGISTERED_STRING_HANDLE.into(), c"name", 0);
    name.flags = sys::NVTX_PAYLOAD_ENTRY_FLAG_EVENT_MESSAGE.into();
    let category = entry(sys::NVTX_PAYLOAD_ENTRY_TYPE_CATEGORY.into(), c"category", 8);
    let tokens = entry(INT, c"tokens", 12);
    let schema = nvtx.schema(domain, 0, 16, &[name, category, tokens]);
    let later = nvtx.schema(domain, 0, 4, &[entry(INT, c"tokens", 0)]);
    let parameters = Parameters { message: message as u64, category: 9, tokens: 100 };
    nvtx.push_in(domain, &attributes(c"of the call", &[data(schema, &parameters)]));
    nvtx.pop_payload(domain, &[data(later, &128i32)]);
}
