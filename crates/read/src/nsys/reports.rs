//! Names of the reports of `nsys stats`: at the end of file names, and in the lines between tables.

/// Reports with rows of kernels, of ranges, or of kernels in ranges: these are read. This table and the next
/// have every report of nsys 2020.3 to 2026.2 whose name can stand in a file name.
#[rustfmt::skip] // One name a line would make it long, and no easier to read.
const READ: &[&str] = &[
    "cuda_gpu_kern_sum", "cuda_gpu_kern_gb_sum", "gpukernsum", "gpukerngbsum", "nvtx_kern_sum",
    "nvtx_pushpop_sum", "nvtx_startend_sum", "nvtx_sum", "nvtxkernsum", "nvtxppsum", "nvtxsssum",
    "nvtxsesum", "nvtxsum",
];
/// Reports of anything else.
#[rustfmt::skip]
const NOT_READ: &[&str] = &[
    "apigpusum", "cuda_api_gpu_sum", "cuda_api_sum", "cuda_api_trace",
    "cuda_gpu_mem_size_sum", "cuda_gpu_mem_time_sum", "cuda_gpu_sum", "cuda_gpu_trace",
    "cuda_kern_exec_sum", "cuda_kern_exec_trace", "cudaapisum", "cudaapitrace",
    "dx11_pix_sum", "dx11pixsum", "dx12_gpu_marker_sum", "dx12_pix_sum",
    "dx12gpumarkersum", "dx12pixsum", "gpumemsizesum", "gpumemtimesum", "gpusum",
    "gputrace", "kernexecsum", "kernexectrace", "khrdebuggpusum", "khrdebugsum",
    "mpi_event_sum", "mpi_event_trace", "mpi_msg_size_sum", "mpieventtrace",
    "network_congestion", "nvtx_gpu_proj_sum", "nvtx_gpu_proj_trace", "nvtx_pushpop_trace",
    "nvtx_startend_trace", "nvtxgpuproj", "nvtxpptrace", "nvvideo_api_sum", "openacc_sum",
    "openaccsum", "opengl_khr_gpu_range_sum", "opengl_khr_range_sum", "openmp_sum",
    "openmpevtsum", "osrt_sum", "osrtsum", "pixsum", "syscall_sum",
    "um_cpu_page_faults_sum", "um_sum", "um_total_sum", "umcpupagefaults", "umsum",
    "umtotalsum", "unifiedmemory", "unifiedmemorytotals", "vulkan_api_sum",
    "vulkan_api_trace", "vulkan_gpu_marker_sum", "vulkan_marker_sum", "vulkanapisum",
    "vulkanapitrace", "vulkangpumarkersum", "vulkanmarkerssum", "wddm_queue_sum",
    "wddmqueuesdetails",
];
const OPTIONS: [&str; 4] = ["_base", "_mangled", "_nvtx-name", "_demangled"];
/// Families of reports: those of later versions are told by them.
const FAMILIES: [&str; 4] = ["_cuda_", "_nvtx_", "_osrt_", "_um_"];
const KINDS: [&str; 2] = ["_sum", "_trace"];

fn reports() -> impl Iterator<Item = (&'static str, bool)> {
    let read = READ.iter().map(|name| (*name, true));
    read.chain(NOT_READ.iter().map(|name| (*name, false)))
}

/// The name of the capture in front of that of a report, where the stem of a file name ends with one.
pub(super) fn capture_in(stem: &str) -> Option<&str> {
    let mut name = stem;
    while let Some(shorter) = OPTIONS.iter().find_map(|option| name.strip_suffix(option)) {
        name = shorter;
    }
    // The longest: `cuda_gpu_kern_sum` ends with no other, but a later one may.
    let known = reports().filter_map(|(report, _)| {
        let front = name.strip_suffix(report)?;
        if front.is_empty() { Some(front) } else { front.strip_suffix('_') }
    });
    known.min_by_key(|front| front.len()).or_else(|| {
        let of_later = KINDS.iter().any(|kind| name.ends_with(kind));
        let begin = FAMILIES.iter().filter_map(|family| name.rfind(family)).max();
        begin.filter(|_| of_later).and_then(|begin| name.get(..begin))
    })
}

/// Whether the report in the name of a file is read, where it is a known one, and what follows the name of
/// the capture: options, too.
pub(super) fn report_in(stem: &str) -> (Option<bool>, &str) {
    let front = capture_in(stem).unwrap_or_default();
    let rest = stem.get(front.len()..).unwrap_or(stem);
    let known = reports().filter(|(report, _)| rest.trim_start_matches('_').starts_with(report));
    (known.max_by_key(|(report, _)| report.len()).map(|(_, is_read)| is_read), rest)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Announced {
    pub(super) name: String,
    /// None: it is not known.
    pub(super) is_read: Option<bool>,
    pub(super) options: String,
}

/// The report that a line between two tables announces:
/// `Processing [x.sqlite] with [/opt/nsys/reports/cuda_gpu_kern_sum.py]...`, and
/// ` ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):`.
pub(super) fn announced(line: &str) -> Option<Announced> {
    let line = line.trim();
    let of = match line.strip_prefix("** ") {
        Some(title) if title.ends_with(':') => title.rsplit_once('(')?.1,
        Some(_) => return None,
        None => line.strip_prefix("Processing [")?.rsplit_once(" with [")?.1,
    };
    let name = of.rsplit_once('/').map_or(of, |(_, name)| name);
    let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
    let (name, options) = name.split_at_checked(end)?;
    let is_read = reports().find(|(report, _)| *report == name).map(|(_, is_read)| is_read);
    Some(Announced { name: name.to_owned(), is_read, options: options.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_between_tables_name_their_report() {
        for (line, is_read, options) in [
            (
                "Processing [x.sqlite] with [/opt/nsys/reports/cuda_gpu_kern_sum.py]... ",
                Some(true),
                ".py]...",
            ),
            ("Processing [a] b.sqlite] with [cuda_gpu_mem_time_sum.py]...", Some(false), ".py]..."),
            (" ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum:mangled):", Some(true), ":mangled):"),
            ("** NVTX Range Summary (nvtx_sum):", Some(true), "):"),
            ("** News (news_sum):", None, "):"),
        ] {
            let found = announced(line).expect(line);
            assert_eq!((found.is_read, found.options.as_str()), (is_read, options), "{line}");
        }
        for line in ["** a kernel(int)", "SKIPPED: x", "", "Processing", "** a:"] {
            assert_eq!(announced(line), None, "{line}");
        }
    }
}
