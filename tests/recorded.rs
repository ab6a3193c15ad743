//! Activity buffers recorded on an H200 through the real drain thread: decode, attribution,
//! aggregation and spool, with only CUPTI itself replaced.

use std::collections::{BTreeMap, HashMap};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use cupti_sys::record::Recorded;
use stage2::event::{Event, What};
use stage2::options::{Options, Summary};
use stage2::pool::{Full, Pool, Sizes};
use stage2::state::{Shared, Tracer};
use stage2_spool::{Ending, GpuNs, MonoNs, RANGE_OUTSIDE, Reader, Record};

/// A capture: its buffers, the kernel names behind the recorded addresses, its NVTX events.
struct Recording {
    buffers: Vec<Vec<u8>>,
    names: HashMap<usize, Vec<u8>>,
    version: u32,
    events: Vec<(Event, String)>,
}

impl Recording {
    fn load(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/cupti");
        let file = std::fs::File::open(folder.join(format!("{name}.buf.xz"))).unwrap();
        let mut raw = Vec::new();
        lzma_rs::xz_decompress(&mut BufReader::new(file), &mut raw).unwrap();
        let mut recording = Recording {
            buffers: Vec::new(),
            names: HashMap::new(),
            version: 0,
            events: Vec::new(),
        };
        let mut rest = raw.as_slice();
        while let Some((head, tail)) = rest.split_at_checked(12) {
            assert_eq!(&head[..4], b"BUF0");
            let length = u64::from_le_bytes(head[4..].try_into().unwrap()) as usize;
            recording.buffers.push(tail[..length].to_vec());
            rest = &tail[length..];
        }
        let table = std::fs::read_to_string(folder.join(format!("{name}.tsv"))).unwrap();
        for line in table.lines() {
            recording.line(&line.split('\t').collect::<Vec<_>>());
        }
        recording
    }

    fn line(&mut self, fields: &[&str]) {
        match fields[0] {
            "cupti" => self.version = fields[1].parse().unwrap(),
            "name" => {
                let address = fields[1].trim_start_matches("0x");
                let address = usize::from_str_radix(address, 16).unwrap();
                self.names.insert(address, fields[2].as_bytes().to_vec());
            }
            push_or_pop => {
                let what = if push_or_pop == "push" { What::Push } else { What::Pop };
                let mut event = Event::new(what, 1);
                event.at = MonoNs(fields[2].parse().unwrap());
                event.fence = fields[3].parse().unwrap();
                self.events.push((event, fields.get(5).unwrap_or(&"").to_string()));
            }
        }
    }
}

/// Stands in for CUPTI: walks with the strides of the recorded version.
struct Replay {
    names: HashMap<usize, Vec<u8>>,
    version: u32,
}

impl Tracer for Replay {
    fn fence(&self) -> u32 {
        0
    }
    fn flush(&self, _forced: bool) -> Result<(), String> {
        Ok(())
    }
    fn now(&self) -> Option<GpuNs> {
        None
    }
    fn take_dropped(&self) -> u64 {
        0
    }
    fn walk(&self, full: &Full, each: &mut dyn FnMut(&[u8])) {
        for record in Recorded::new(full.bytes(), self.version) {
            each(record.unwrap().1);
        }
    }
    fn text_at(&self, address: usize) -> &[u8] {
        self.names.get(&address).map_or(b"(address not in the capture)", |name| name)
    }
    fn collect(&self, _on: bool) {}
    fn shut(&self) {}
    fn facts(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// Sends a recording through the collector and returns the records of its spool.
fn collect(recording: Recording, out: &Path) -> Vec<Record> {
    let options = Options {
        out: Some(out.to_path_buf()),
        summary: Summary::File(out.join("summary.txt")),
        ..Options::default()
    };
    let shared: &'static Shared = Box::leak(Box::new(Shared::new(options)));
    let pool = Pool::new(Sizes { bytes: 8 << 20, count: 4 }, true).unwrap();
    for (event, text) in &recording.events {
        shared.events.send_with_text(*event, text.as_bytes(), &shared.counters);
    }
    for buffer in &recording.buffers {
        let (start, size) = pool.request(1, &shared.counters).unwrap();
        assert!(buffer.len() <= size);
        // SAFETY: the pool gave us `size` bytes.
        unsafe { std::ptr::copy_nonoverlapping(buffer.as_ptr(), start, buffer.len()) };
        pool.complete(start, buffer.len());
    }
    assert!(shared.pool.set(pool).is_ok());
    let replay = Replay { names: recording.names, version: recording.version };
    assert!(shared.gpu.set(Ok(Box::new(replay))).is_ok());
    shared.stop.store(true, Ordering::Release);
    stage2::drain::run(shared);

    let spool = spool_in(out);
    let mut reader = Reader::open(&spool).unwrap();
    let records: Vec<Record> = reader.by_ref().map(Result::unwrap).collect();
    assert_eq!(reader.end(), Ending::Complete);
    records
}

fn spool_in(folder: &Path) -> PathBuf {
    let mut spools = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "s2t"));
    let spool = spools.next().unwrap();
    assert_eq!(spools.next(), None);
    spool
}

/// Kernels and their summed time, ns, by range instance.
fn kernels_by_range(records: &[Record]) -> BTreeMap<u64, (u64, u64)> {
    let mut ranges = BTreeMap::new();
    for record in records {
        if let Record::Kernel(kernel) = record {
            let (count, total_ns) = ranges.entry(kernel.range).or_insert((0, 0));
            *count += 1;
            *total_ns += kernel.end.since(kernel.start);
        }
    }
    ranges
}

fn losses(records: &[Record]) -> stage2_spool::Losses {
    let last = records.iter().rev().find_map(|record| match record {
        Record::Losses(losses) => Some(*losses),
        _ => None,
    });
    last.unwrap()
}

#[test]
fn eager_llm_has_exactly_the_recorded_kernels_and_times_in_every_range() {
    let out = tempfile::tempdir().unwrap();
    let records = collect(Recording::load("llm13"), out.path());
    let mut by_range = kernels_by_range(&records);
    // Building the model launched kernels outside of any range.
    assert_eq!(by_range.remove(&RANGE_OUTSIDE).map(|(count, _)| count), Some(307));
    let ranges: Vec<(u64, u64)> = by_range.into_values().collect();
    let counts: Vec<u64> = ranges.iter().map(|&(count, _)| count).collect();
    assert_eq!(counts, [662, 5552, 662, 5552]);
    let ms: Vec<String> = ranges.iter().map(|&(_, ns)| format!("{:.3}", ns as f64 / 1e6)).collect();
    assert_eq!(ms, ["3.846", "14.591", "3.816", "14.589"]);

    let opened: Vec<String> = range_names(&records);
    assert_eq!(opened, ["prefill", "decode", "prefill", "decode"]);
    let lost = losses(&records);
    assert_eq!((lost.unattributed, lost.invalid_timestamps, lost.unbalanced), (0, 0, 0));
    // Context and synchronization records were recorded with them and are not ours to read.
    assert!(lost.unreadable_records > 0);

    let summary = std::fs::read_to_string(out.path().join("summary.txt")).unwrap();
    assert!(summary.contains("decode  x2"), "{summary}");
    let table = std::fs::read_to_string(out.path().join("kernels.md")).unwrap();
    assert!(table.contains("| kernel_name | total_ms | calls | mean_ms | device |"), "{table}");
    // The device's name was not recorded; every kernel's was.
    assert!(!table.contains("| `(address not in the capture"), "{table}");
}

fn range_names(records: &[Record]) -> Vec<String> {
    let mut names = HashMap::new();
    let mut paths = HashMap::new();
    let mut opened = Vec::new();
    for record in records {
        match record {
            Record::Name { id, bytes } => {
                names.insert(*id, String::from_utf8(bytes.clone()).unwrap());
            }
            Record::Path(path) => {
                paths.insert(path.id, names[&path.name].clone());
            }
            Record::RangeOpen(open) => opened.push(paths[&open.path].clone()),
            _ => {}
        }
    }
    opened
}

#[test]
fn replayed_graphs_belong_to_the_range_that_is_open_at_replay() {
    let out = tempfile::tempdir().unwrap();
    let records = collect(Recording::load("graph13"), out.path());
    let mut replays: BTreeMap<u64, BTreeMap<u64, u64>> = BTreeMap::new();
    for record in &records {
        if let Record::Kernel(kernel) = record
            && kernel.graph_node != 0
        {
            *replays.entry(kernel.range).or_default().entry(kernel.correlation).or_default() += 1;
        }
    }
    // 20 replays to warm up outside of any range, then 5 in each of two; 761 kernels a replay.
    let sizes: Vec<(u64, Vec<u64>)> = replays
        .into_iter()
        .map(|(range, replays)| (range, replays.into_values().collect()))
        .collect();
    assert_eq!(sizes, [(0, vec![761; 20]), (1, vec![761; 5]), (2, vec![761; 5])]);
}

#[test]
fn graph_level_records_are_kept_as_wholes() {
    let out = tempfile::tempdir().unwrap();
    let records = collect(Recording::load("graphtrace13"), out.path());
    let launches: Vec<u64> = records
        .iter()
        .filter_map(|record| match record {
            Record::GraphLaunch(launch) => {
                assert!(launch.end > launch.start);
                Some(launch.range)
            }
            _ => None,
        })
        .collect();
    assert_eq!(launches, [vec![0; 20], vec![1; 5], vec![2; 5]].concat());
}
