//! Guest threads do not allocate after the start: counted, not believed.
//!
//! One test, because it counts for the whole process. The collector is linked in here, and its allocator
//! calls the `malloc` and the `free` of this test.

#[path = "guests/nvtx.rs"]
#[allow(dead_code, unreachable_pub, reason = "written for the guest, which calls all of it")]
mod nvtx;
#[path = "guests/payload.rs"]
#[allow(dead_code, unreachable_pub, reason = "as above")]
mod payload;

use std::cell::Cell;
use std::ffi::c_void;

use cupti_sys::bindings as sys;
use cupti_sys::fields::Completion;
use stage2::base::counters::Counters;
use stage2::guest::pool::{Buffers, Pool};

thread_local!(static COUNT: Cell<Option<u64>> = const { Cell::new(None) });

fn note() {
    let _ = COUNT.try_with(|count| count.set(count.get().map(|n| n + 1)));
}

unsafe extern "C" {
    fn __libc_malloc(bytes: usize) -> *mut c_void;
    fn __libc_free(start: *mut c_void);
}

/// In place of libc's `malloc`, which every allocator of the process ends at.
#[unsafe(no_mangle)]
extern "C" fn malloc(bytes: usize) -> *mut c_void {
    note();
    // SAFETY: what this stands for.
    unsafe { __libc_malloc(bytes) }
}

/// In place of libc's `free`, which every allocator of the process ends at.
///
/// # Safety
/// As that of libc's.
#[unsafe(no_mangle)]
unsafe extern "C" fn free(start: *mut c_void) {
    note();
    // SAFETY: the caller's contract.
    unsafe { __libc_free(start) }
}

/// Allocations and releases of this thread during `body`.
fn counted(body: impl FnOnce()) -> u64 {
    COUNT.with(|count| count.set(Some(0)));
    body();
    COUNT.with(|count| count.take()).unwrap_or(0)
}

/// Hazard (Threads, stacks and locks): Ranges, marks and buffers on guest threads.
/// Promise: They cost no allocation.
#[test]
fn ranges_marks_and_buffers_cost_no_allocation() {
    // SAFETY: no other thread reads the environment meanwhile.
    unsafe {
        std::env::set_var("STAGE2_SUMMARY", "off");
        // The choice of instances is on the way of every push and start.
        std::env::set_var("STAGE2_SAMPLE", "1/4");
    }
    let mut client = nvtx::Nvtx::attached_to(stage2::entry::inject::InitializeInjectionNvtx2);
    assert_eq!(client.extend(stage2::entry::inject::InitializeInjectionNvtxExtension), 1);
    let entries = [payload::entry(18, c"size", 0), payload::entry(18, c"comm", 8)];
    let (schema, parameters) = (client.schema(0, 0, 16, &entries), [1u64, 2]);
    let name = std::ffi::CString::new(
        "a range name that does not fit into one event, which is why \
        it travels in pieces of which each has to be copied",
    )
    .expect("no NUL");
    let wide: Vec<i32> = "wide".chars().map(|c| c as i32).chain([0]).collect();
    client.push_c(&name);
    client.pop();
    assert_eq!(counted(|| drop(vec![1u8])), 2, "the count counts");
    let count = counted(|| {
        for _ in 0..10_000 {
            client.push_c(&name);
            client.push_wide(&wide);
            client.pop();
            client.pop();
            let id = client.start_c(&name);
            client.end(id);
            let domain = client.domain_c(&name);
            let string = client.register_c(domain, &name);
            client.push_registered(domain, string, 1);
            client.pop_in(domain);
            client.schema(domain, 0, 16, &entries);
            let payloads = [payload::data(schema, &parameters)];
            client.push_in(0, &payload::attributes(c"reduce", &payloads));
            client.pop_payload(0, &payloads);
        }
    });
    assert_eq!(count, 0, "allocations in the NVTX handlers");

    let counters = Counters::default();
    let pool = Pool::new(Buffers::Sized { bytes: 64 << 10, count: 4 }, true).expect("memory");
    let count = counted(|| {
        for _ in 0..10_000 {
            let (start, _) = pool.request(1, &counters).expect("a free buffer");
            pool.complete(start, 1000, &counters);
            pool.recycle(pool.take_full().expect("a full buffer"));
        }
    });
    assert_eq!(count, 0, "allocations in the buffer hand-over");

    let pool = Pool::new(Buffers::Sized { bytes: 64 << 10, count: 4 }, true).expect("memory");
    let pool = pool.with_layouts().expect("memory");
    let mut entry = [40_u64, 0, 0, 4, 4];
    let mut layout = sys::CUpti_ActivityRecordLayout {
        structSize: 32,
        pEntries: entry.as_mut_ptr().cast(),
        numFields: 1,
        recordSize: 12,
    };
    let mut by_kind = [std::ptr::null_mut(), &raw mut layout];
    let mut info = sys::CUpti_BufferCallbackCompleteInfo {
        structSize: 32,
        threadId: 1,
        ppRecordLayouts: by_kind.as_mut_ptr(),
        numRecordLayouts: by_kind.len(),
    };
    let count = counted(|| {
        for _ in 0..10_000 {
            let (start, _) = pool.request(1, &counters).expect("a free buffer");
            // SAFETY: as CUPTI lays it out, until the end of this test.
            let completion = unsafe { Completion::new(&raw mut info) };
            pool.complete_told(start, 1000, completion, &counters);
            let full = pool.take_full().expect("a full buffer");
            assert!(full.layouts().is_some_and(|layouts| layouts.is_ok()));
            pool.recycle(full);
        }
    });
    assert_eq!(count, 0, "allocations in the hand-over of buffers with layouts");
}
