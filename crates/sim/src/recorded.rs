//! Reads the recorded sequences (data/*.tsv), which the simulated GPU replays.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::sync::LazyLock;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kernel {
    /// Mangled name; lives as long as the process, as CUPTI's name pointers do.
    pub(crate) name: &'static CStr,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) static_shared_bytes: u32,
    pub(crate) dynamic_shared_bytes: u32,
    pub(crate) registers_per_thread: u16,
    pub(crate) local_bytes_per_thread: u32,
}

/// `copy_kind` is `CUpti_ActivityMemcpyKind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Kernel(Kernel),
    Memcpy { bytes: u64, copy_kind: u8 },
    Memset { bytes: u64, value: u32 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Op {
    pub(crate) work: Work,
    pub(crate) duration_ns: u64,
    /// Idle time of the stream before it, ns; negative where it overlapped its predecessor.
    pub(crate) gap_ns: i64,
    /// Layer of the network that it was part of.
    pub(crate) layer: Option<u32>,
}

impl Op {
    /// An operation that follows its predecessor at once.
    pub(crate) fn new(work: Work, duration_ns: u64) -> Op {
        Op { work, duration_ns, gap_ns: 0, layer: None }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Function {
    /// The recorded launch that stands for it; the caller's grid and block replace its own.
    pub(crate) kernel: Kernel,
    pub(crate) duration_ns: u64,
}

#[derive(Debug)]
pub(crate) struct Recordings {
    /// Prefill, decode step and graph replay.
    pub(crate) sequences: [Vec<Op>; 3],
    /// The first recorded launch of each kernel.
    pub(crate) by_name: HashMap<&'static CStr, Function>,
    device: HashMap<&'static str, u64>,
}

impl Recordings {
    /// A fact of the device record, by its key in `device.tsv`; 0 for one that is not there.
    pub(crate) fn device_fact(&self, key: &str) -> u64 {
        self.device.get(key).copied().unwrap_or(0)
    }
}

/// They are built in, and tests read them: a row that does not read is a bug of the build, not of a run.
pub(crate) fn recorded() -> &'static Recordings {
    static RECORDED: LazyLock<Recordings> = LazyLock::new(parse);
    &RECORDED
}

fn parse() -> Recordings {
    let names: Vec<&'static CStr> = rows(include_str!("../data/names.tsv"))
        .map(|fields| {
            let name = CString::new(fields[1]).expect("a name without NUL");
            // Leaked once per process: the records point to it for as long as the process runs.
            &*Box::leak(name.into_boxed_c_str())
        })
        .collect();
    let sequence = |table| {
        rows(table).map(|row| op(&row, &names).unwrap_or_else(|| panic!("{row:?}"))).collect()
    };
    let sequences: [Vec<Op>; 3] = [
        include_str!("../data/prefill.tsv"),
        include_str!("../data/decode.tsv"),
        include_str!("../data/graph.tsv"),
    ]
    .map(sequence);
    let mut by_name = HashMap::new();
    for op in sequences.iter().flatten() {
        if let Work::Kernel(kernel) = op.work {
            by_name.entry(kernel.name).or_insert(Function { kernel, duration_ns: op.duration_ns });
        }
    }
    let device = rows(include_str!("../data/device.tsv"))
        .map(|fields| (fields[0], fields[1].parse().expect("a whole number")))
        .collect();
    Recordings { sequences, by_name, device }
}

fn rows(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    table.lines().skip(1).map(|line| line.split('\t').collect())
}

fn op(fields: &[&str], names: &[&'static CStr]) -> Option<Op> {
    let &[
        op,
        name,
        grid,
        block,
        static_shared,
        dynamic_shared,
        registers,
        local,
        bytes,
        copy_kind,
        layer,
        duration,
        gap,
    ] = fields
    else {
        return None;
    };
    let work = match op {
        "kernel" => Work::Kernel(Kernel {
            name: names.get(name.parse::<usize>().ok()?)?,
            grid: dims(grid)?,
            block: dims(block)?,
            static_shared_bytes: static_shared.parse().ok()?,
            dynamic_shared_bytes: dynamic_shared.parse().ok()?,
            registers_per_thread: registers.parse().ok()?,
            local_bytes_per_thread: local.parse().ok()?,
        }),
        "memcpy" => Work::Memcpy { bytes: bytes.parse().ok()?, copy_kind: copy_kind.parse().ok()? },
        "memset" => Work::Memset { bytes: bytes.parse().ok()?, value: 0 },
        _ => return None,
    };
    let layer = match layer {
        "-" => None,
        number => Some(number.parse().ok()?),
    };
    Some(Op { work, duration_ns: duration.parse().ok()?, gap_ns: gap.parse().ok()?, layer })
}

fn dims(text: &str) -> Option<[u32; 3]> {
    let mut parts = text.split('x').map(|part| part.parse().ok());
    let dims = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(dims)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFILL: usize = 0;
    const DECODE: usize = 1;
    const GRAPH: usize = 2;

    fn kernels(sequence: usize) -> Vec<Op> {
        let all = recorded();
        let ops = all.sequences[sequence].iter();
        ops.filter(|op| matches!(op.work, Work::Kernel(_))).copied().collect()
    }

    fn busy_ns(sequence: usize) -> u64 {
        kernels(sequence).iter().map(|op| op.duration_ns).sum()
    }

    #[test]
    fn counts_and_times_are_those_of_the_capture() {
        assert_eq!(kernels(PREFILL).len(), 662);
        assert_eq!(kernels(DECODE).len(), 694);
        assert_eq!(kernels(GRAPH).len(), 761);
        // The second prefill of the capture took 3.816 ms, eight decode steps 14.589 ms.
        assert_eq!(busy_ns(PREFILL), 3_815_612);
        let eight_steps = busy_ns(DECODE) * 8;
        assert!((14_500_000..=14_680_000).contains(&eight_steps), "{eight_steps}");
        assert!((1_890_000..=1_930_000).contains(&busy_ns(GRAPH)));
    }

    #[test]
    fn copies_and_fills_are_there() {
        let all = recorded();
        let fills = |op: &&Op| matches!(op.work, Work::Memset { bytes: 4, .. });
        let copies = |op: &&Op| matches!(op.work, Work::Memcpy { copy_kind: 8, .. });
        assert_eq!(all.sequences[PREFILL].iter().filter(fills).count(), 17);
        assert_eq!(all.sequences[GRAPH].iter().filter(copies).count(), 16);
    }

    #[test]
    fn every_sequence_has_sixteen_layers_of_equal_length() {
        for ops in &recorded().sequences {
            let length = |layer| ops.iter().filter(|op| op.layer == Some(layer)).count();
            assert!(length(0) > 30);
            assert!((0..16).all(|layer| length(layer) == length(0)));
            assert_eq!(length(16), 0);
        }
    }

    #[test]
    fn a_row_that_is_cut_or_refers_to_nothing_is_refused() {
        let names = [c"k"];
        let good = "kernel\t0\t1x1x1\t2x1x1\t0\t0\t8\t0\t-\t-\t-\t5\t-3";
        let read = |row: &str| op(&row.split('\t').collect::<Vec<_>>(), &names);
        assert_eq!(read(good).map(|op| (op.duration_ns, op.gap_ns)), Some((5, -3)));
        for bad in [
            "",
            "kernel",
            &good.replace("kernel\t0", "kernel\t1"),
            &good.replace("1x1x1", "1x1"),
            &good.replace("2x1x1", "2x1x1x1"),
            &good.replace("kernel", "gemm"),
            &good.replace("-3", "-"),
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
