//! Activity buffers recorded on an H200, their names and events, into the real drain thread, with
//! only CUPTI itself replaced.

use std::ffi::{CStr, CString};
use std::io::BufReader;
use std::path::Path;
use std::sync::atomic::Ordering;

use cupti_sys::bindings as sys;
use cupti_sys::record;
use cupti_sys::{CuptiError, Walker};
use rustc_hash::FxHashMap;
use stage2::base::options::{Options, Summary};
use stage2::guest::event::{Event, EventKind};
use stage2::guest::gpu::{Gpu, Tracer};
use stage2::guest::pool::{Buffers, Pool};
use stage2::guest::state::Shared;
use stage2_contract::trace::{GpuNs, MonoNs};

/// From the start of one copy of a recording to that of the next, longer than any, ns.
const COPY_NS: u64 = 60_000_000_000;

/// A capture: its buffers, the kernel names behind the recorded addresses, its NVTX events.
pub(crate) struct Recording {
    buffers: Vec<Vec<u8>>,
    names: FxHashMap<usize, &'static CStr>,
    events: Vec<(Event, String)>,
}

impl Recording {
    /// Loads one of the recordings in `tests/fixtures/cupti`.
    pub(crate) fn load(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/cupti");
        let file = std::fs::File::open(folder.join(format!("{name}.buf.xz"))).expect("recorded");
        let mut raw = Vec::new();
        lzma_rs::xz_decompress(&mut BufReader::new(file), &mut raw).expect("recorded");
        let mut recording =
            Recording { buffers: Vec::new(), names: FxHashMap::default(), events: Vec::new() };
        let mut rest = raw.as_slice();
        while let Some((head, tail)) = rest.split_at_checked(12) {
            assert_eq!(&head[..4], b"BUF0");
            let length = u64::from_le_bytes(head[4..].try_into().expect("recorded")) as usize;
            recording.buffers.push(tail[..length].to_vec());
            rest = &tail[length..];
        }
        let table = std::fs::read_to_string(folder.join(format!("{name}.tsv"))).expect("recorded");
        for line in table.lines() {
            recording.line(&line.split('\t').collect::<Vec<_>>());
        }
        recording
    }

    fn line(&mut self, fields: &[&str]) {
        match fields[0] {
            "cupti" => assert_eq!(fields[1], "130001", "the version of `record_bytes`"),
            "name" => {
                let address = fields[1].trim_start_matches("0x");
                let address = usize::from_str_radix(address, 16).expect("recorded");
                // Records point to it, as to the names that CUPTI keeps, for the life of the process.
                let name = CString::new(fields[2]).expect("recorded");
                self.names.insert(address, Box::leak(name.into_boxed_c_str()));
            }
            push_or_pop => {
                let kind = if push_or_pop == "push" { EventKind::Push } else { EventKind::Pop };
                let mut event = Event::new(kind, 1);
                event.at = MonoNs(fields[2].parse().expect("recorded"));
                event.fence = fields[3].parse().expect("recorded");
                self.events.push((event, fields.get(5).unwrap_or(&"").to_string()));
            }
        }
    }
}

/// Bytes of a record, as CUPTI 13.0 writes it.
fn record_bytes(kind: sys::CUpti_ActivityKind) -> usize {
    match kind {
        sys::CUPTI_ACTIVITY_KIND_MEMCPY => 96,
        sys::CUPTI_ACTIVITY_KIND_MEMSET => 88,
        sys::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL => 216,
        sys::CUPTI_ACTIVITY_KIND_DEVICE => 184,
        sys::CUPTI_ACTIVITY_KIND_CONTEXT => 32,
        sys::CUPTI_ACTIVITY_KIND_SYNCHRONIZATION | sys::CUPTI_ACTIVITY_KIND_GRAPH_TRACE => 56,
        other => panic!("kind {other} is in no recording"),
    }
}

/// The records of a buffer, each with where it begins.
fn records_of(buffer: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut next = 0;
    std::iter::from_fn(move || {
        let begin = next;
        next += record_bytes(record::kind(buffer.get(begin..)?)?);
        Some((begin, &buffer[begin..next]))
    })
}

/// Stands in for `cuptiActivityGetNextRecord`.
unsafe extern "C" fn next_record(
    buffer: *mut u8,
    valid: usize,
    record: *mut *mut sys::CUpti_Activity,
) -> sys::CUptiResult {
    // SAFETY: the walker's contract: a buffer with so many valid bytes, and a place that holds null
    // or a record in it.
    unsafe {
        let bytes = std::slice::from_raw_parts(buffer, valid);
        let at = match *record {
            last if last.is_null() => 0,
            last => {
                let at = last as usize - buffer as usize;
                let kind = record::kind(&bytes[at..]).expect("recorded");
                at + record_bytes(kind)
            }
        };
        if at >= valid {
            return sys::CUPTI_ERROR_MAX_LIMIT_REACHED;
        }
        *record = buffer.add(at).cast();
    }
    sys::CUPTI_SUCCESS
}

struct Replay;

impl Tracer for Replay {
    fn fence(&self) -> u32 {
        0
    }
    fn flush(&self, _forced: bool) -> Result<(), CuptiError> {
        Ok(())
    }
    fn now(&self) -> Option<GpuNs> {
        None
    }
    fn take_dropped(&self) -> Option<u64> {
        Some(0)
    }
    fn collect(&self, _on: bool) {}
    fn watch_launches(&self, _on: bool) -> bool {
        false
    }
    fn is_attached(&self) -> bool {
        true
    }
    fn shut(&self) {}
}

impl Recording {
    /// A collector that has the recording before it, `copies` times over, and is to finish.
    /// `launcher`: as under `stage2-launch`, i.e. without the table at exit.
    pub(crate) fn offered(&self, out: &Path, copies: usize, launcher: bool) -> &'static Shared {
        let table = Summary::File(out.join("summary.txt"));
        let options = Options {
            out: Some(out.to_path_buf()),
            summary: if launcher { Summary::Off } else { table },
            launcher,
            ..Options::default()
        };
        let shared: &'static Shared = Box::leak(Box::new(Shared::new(options)));
        let count = copies * self.buffers.len();
        let pool = Pool::new(Buffers::Sized { bytes: 8 << 20, count }, true).expect("memory");
        for (event, text) in &self.events {
            shared.events.send_with_text(*event, text.as_bytes(), &shared.counters);
        }
        let copies = (0..copies as u64).flat_map(|copy| {
            let later_ns = copy * COPY_NS;
            self.buffers.iter().map(move |buffer| self.delayed(buffer, later_ns))
        });
        for buffer in copies {
            let (start, size) = pool.request(1, &shared.counters).expect("a buffer");
            assert!(buffer.len() <= size);
            // SAFETY: the pool gave us `size` bytes.
            unsafe { std::ptr::copy_nonoverlapping(buffer.as_ptr(), start, buffer.len()) };
            pool.complete(start, buffer.len(), &shared.counters);
        }
        assert!(shared.pool.set(pool).is_ok());
        let replay = Gpu {
            tracer: Box::new(Replay),
            // SAFETY: it walks as CUPTI does, and `delayed` has put texts of ours, which are never
            // freed, in the place of the recorded addresses.
            walker: unsafe { Walker::new(next_record) },
            reports_launches: false,
            asks_hardware: false,
            switches: false,
            counters: None,
            facts: Vec::new(),
        };
        assert!(shared.gpu.set(Ok(replay)).is_ok());
        shared.stop.store(true, Ordering::Release);
        shared
    }

    /// The records of a buffer as if they had run later, and in this process: with names of its own.
    fn delayed(&self, buffer: &[u8], later_ns: u64) -> Vec<u8> {
        let mut delayed = buffer.to_vec();
        for (at, record) in records_of(buffer) {
            // Kernels, copies and fills have their start at 16 and their end at 24.
            if matches!(record.first(), Some(1 | 2 | 10)) {
                for field in [at + 16, at + 24] {
                    let place = &mut delayed[field..field + 8];
                    let ns = u64::from_ne_bytes((&*place).try_into().expect("8 bytes"));
                    place.copy_from_slice(&(ns + later_ns).to_ne_bytes());
                }
            }
            // Where kernels and devices have the address of their name.
            let name = match record.first() {
                Some(10) => at + 104,
                Some(8) => at + 136,
                _ => continue,
            };
            let place = &mut delayed[name..name + 8];
            let address = usize::from_ne_bytes((&*place).try_into().expect("8 bytes"));
            let text = self.names.get(&address).copied().unwrap_or(c"(address not in the capture)");
            place.copy_from_slice(&(text.as_ptr() as usize).to_ne_bytes());
        }
        delayed
    }

    pub(crate) fn records(&self) -> usize {
        self.buffers.iter().map(|buffer| records_of(buffer).count()).sum()
    }
}

/// What the drain thread asks of those above it, where no window begins late.
pub(crate) fn hooks() -> stage2::drain::Hooks {
    let (begin_anew, watch_exit) = (|| (), || ());
    stage2::drain::Hooks {
        start_gpu: |_| Ok(()),
        begin_anew,
        watch_exit,
        call_name: |_| None,
        python: None,
    }
}
