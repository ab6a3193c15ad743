//! How a workload failed and what it wrote last -> whether it ran out of memory.

use stage2_model::WorkloadExit;
use stage2_text::{shorten, visible};

/// What programs write when the memory of a GPU is full.
const OF_GPU: [&str; 6] = [
    "OutOfMemoryError",
    "CUDA out of memory",
    "CUDA_ERROR_OUT_OF_MEMORY",
    "cudaErrorMemoryAllocation",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDA error: out of memory",
];
/// What they write when that of the machine is.
const OF_HOST: [&str; 5] = [
    "std::bad_alloc",
    "MemoryError",
    "DefaultCPUAllocator: ",
    "Cannot allocate memory",
    "Out of memory: Killed process",
];
/// Characters of the line that is quoted.
const LINE_LIMIT: usize = 240;
/// SIGKILL as an exit status: a shell between the workload and us hands the signal on so.
const KILLED: i32 = 128 + 9;

/// The likely cause of a failure, where memory is; `said` is the end of what the workload wrote.
/// Nothing that somebody asked to end belongs here: its SIGKILL has another sender.
pub fn out_of_memory(exit: Option<WorkloadExit>, said: &str) -> Option<String> {
    let last = |parts: &[&str]| said.lines().rfind(|line| parts.iter().any(|p| line.contains(p)));
    // `OutOfMemoryError` also holds `MemoryError`, so the GPU comes first.
    let found = last(&OF_GPU).map(|line| ("a GPU", line));
    let found = found.or_else(|| last(&OF_HOST).map(|line| ("the machine", line)));
    if let Some((whose, line)) = found {
        let line = shorten(&visible(line.trim().as_bytes()), LINE_LIMIT);
        return Some(format!("the memory of {whose} ran out; it wrote \"{line}\""));
    }
    matches!(exit, Some(WorkloadExit::Signal(9) | WorkloadExit::Code(KILLED))).then(|| {
        "the kernel's out-of-memory killer (stage2-launch sent no SIGKILL); see `dmesg`, or \
         memory.events of the container"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILED: Option<WorkloadExit> = Some(WorkloadExit::Code(1));

    #[test]
    fn the_errors_of_frameworks_are_recognised_and_quoted() {
        for (line, whose) in [
            ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "a GPU"),
            ("RuntimeError: CUDA error: out of memory", "a GPU"),
            ("cuMemAlloc failed: CUDA_ERROR_OUT_OF_MEMORY", "a GPU"),
            ("terminate called after throwing an instance of 'std::bad_alloc'", "the machine"),
            ("numpy._core._exceptions._ArrayMemoryError: Unable to allocate", "the machine"),
        ] {
            let said = format!("loading\n{line}\nmore\n");
            let cause = out_of_memory(FAILED, &said).unwrap_or_default();
            assert_eq!(cause, format!("the memory of {whose} ran out; it wrote \"{line}\""));
        }
    }

    #[test]
    fn other_failures_are_not_blamed_on_memory() {
        assert_eq!(out_of_memory(FAILED, "KeyError: 'memory'\nKilled\n"), None);
        assert_eq!(out_of_memory(Some(WorkloadExit::Signal(11)), ""), None);
        assert_eq!(out_of_memory(None, ""), None);
    }

    #[test]
    fn a_sigkill_of_a_stranger_may_be_the_out_of_memory_killers() {
        for exit in [WorkloadExit::Signal(9), WorkloadExit::Code(137)] {
            let cause = out_of_memory(Some(exit), "step 3\n").unwrap_or_default();
            assert!(cause.contains("out-of-memory killer") && cause.contains("dmesg"), "{cause}");
        }
    }

    #[test]
    fn what_is_quoted_is_short_and_can_be_seen() {
        let said = format!("\u{1b}[31mCUDA out of memory{}\r\n", "!".repeat(10_000));
        let cause = out_of_memory(FAILED, &said).unwrap_or_default();
        assert!(cause.len() < 400 && cause.contains("\\x1b[31mCUDA out of memory!"), "{cause}");
    }
}
