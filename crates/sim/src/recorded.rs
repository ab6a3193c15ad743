//! The recorded sequences (data/*.tsv) into the operations that the simulated GPU replays.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::sync::LazyLock;

/// A kernel launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kernel {
    /// Mangled name; lives as long as the process, as CUPTI's name pointers do.
    pub(crate) name: &'static CStr,
    /// Blocks in x, y and z.
    pub(crate) grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub(crate) block: [u32; 3],
    /// Static shared memory, bytes per block.
    pub(crate) static_shared_bytes: u32,
    /// Dynamic shared memory, bytes per block.
    pub(crate) dynamic_shared_bytes: u32,
    /// Registers per thread.
    pub(crate) registers_per_thread: u16,
    /// Local memory, bytes per thread.
    pub(crate) local_bytes_per_thread: u32,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Runs a kernel.
    Kernel(Kernel),
    /// Copies bytes; `copy_kind` is `CUpti_ActivityMemcpyKind`.
    Memcpy { bytes: u64, copy_kind: u8 },
    /// Fills bytes with a value.
    Memset { bytes: u64, value: u32 },
}

/// One operation of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Op {
    /// What it does.
    pub(crate) work: Work,
    /// How long it runs, ns.
    pub(crate) duration_ns: u64,
    /// Idle time of the stream before it, ns; negative where it overlapped its predecessor.
    pub(crate) gap_ns: i64,
    /// Layer of the network that it was part of.
    pub(crate) layer: Option<u32>,
}

/// Everything recorded.
#[derive(Debug)]
pub(crate) struct Recorded {
    /// Prefill, decode step and graph replay.
    pub(crate) sequences: [Vec<Op>; 3],
    /// The first recorded launch of each kernel.
    pub(crate) by_name: HashMap<&'static CStr, (Kernel, u64)>,
    /// Facts of the device record, by the keys of `device.tsv`.
    pub(crate) device: HashMap<&'static str, u64>,
}

static RECORDED: LazyLock<Result<Recorded, String>> = LazyLock::new(parse);

/// The recorded sequences.
///
/// # Errors
/// The file and row that do not read; a test keeps it from happening to the files that are built
/// in.
pub(crate) fn recorded() -> Result<&'static Recorded, &'static str> {
    RECORDED.as_ref().map_err(String::as_str)
}

fn parse() -> Result<Recorded, String> {
    let names = names(include_str!("../data/names.tsv"))?;
    let sequences = [
        sequence("prefill.tsv", include_str!("../data/prefill.tsv"), &names)?,
        sequence("decode.tsv", include_str!("../data/decode.tsv"), &names)?,
        sequence("graph.tsv", include_str!("../data/graph.tsv"), &names)?,
    ];
    let mut by_name = HashMap::new();
    for op in sequences.iter().flatten() {
        if let Work::Kernel(kernel) = op.work {
            by_name.entry(kernel.name).or_insert((kernel, op.duration_ns));
        }
    }
    Ok(Recorded { sequences, by_name, device: device(include_str!("../data/device.tsv"))? })
}

fn names(table: &str) -> Result<Vec<&'static CStr>, String> {
    rows(table)
        .enumerate()
        .map(|(row, fields)| match fields.as_slice() {
            [_, name] => CString::new(*name)
                // Leaked once per process: the records point to it for as long as the process runs.
                .map(|name| &*Box::leak(name.into_boxed_c_str()))
                .map_err(|_| format!("names.tsv: row {row} holds a NUL")),
            _ => Err(format!("names.tsv: row {row} has not two columns")),
        })
        .collect()
}

fn device(table: &'static str) -> Result<HashMap<&'static str, u64>, String> {
    rows(table)
        .map(|fields| match fields.as_slice() {
            [key, value] => Ok((*key, value.parse().map_err(|_| format!("device.tsv: {key}"))?)),
            _ => Err("device.tsv: a row has not two columns".to_owned()),
        })
        .collect()
}

fn sequence(file: &str, table: &str, names: &[&'static CStr]) -> Result<Vec<Op>, String> {
    rows(table)
        .enumerate()
        .map(|(row, fields)| op(&fields, names).ok_or(format!("{file}: row {row} does not read")))
        .collect()
}

fn rows(table: &str) -> impl Iterator<Item = Vec<&str>> {
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
        let all = recorded().expect("the embedded data reads");
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
        let all = recorded().expect("the embedded data reads");
        let fills = |op: &&Op| matches!(op.work, Work::Memset { bytes: 4, .. });
        let copies = |op: &&Op| matches!(op.work, Work::Memcpy { copy_kind: 8, .. });
        assert_eq!(all.sequences[PREFILL].iter().filter(fills).count(), 17);
        assert_eq!(all.sequences[GRAPH].iter().filter(copies).count(), 16);
    }

    #[test]
    fn every_sequence_has_sixteen_layers_of_equal_length() {
        for ops in &recorded().expect("the embedded data reads").sequences {
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
