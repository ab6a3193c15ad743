//! Names of the reports of `nsys stats`: at the end of file names, and in the lines between tables.

/// What a report has rows of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    /// Kernels.
    Kernels,
    /// Ranges, or kernels in ranges.
    Ranges,
    /// Anything else, which is not read.
    Other,
}

/// Every report of nsys 2020.3 to 2026.2 whose name can stand in a file name.
const REPORTS: &[(&str, Rows)] = &[
    ("cuda_gpu_kern_sum", Rows::Kernels),
    ("cuda_gpu_kern_gb_sum", Rows::Kernels),
    ("gpukernsum", Rows::Kernels),
    ("gpukerngbsum", Rows::Kernels),
    ("nvtx_kern_sum", Rows::Ranges),
    ("nvtx_pushpop_sum", Rows::Ranges),
    ("nvtx_startend_sum", Rows::Ranges),
    ("nvtx_sum", Rows::Ranges),
    ("nvtxkernsum", Rows::Ranges),
    ("nvtxppsum", Rows::Ranges),
    ("nvtxsssum", Rows::Ranges),
    ("nvtxsesum", Rows::Ranges),
    ("nvtxsum", Rows::Ranges),
    ("apigpusum", Rows::Other),
    ("cuda_api_gpu_sum", Rows::Other),
    ("cuda_api_sum", Rows::Other),
    ("cuda_api_trace", Rows::Other),
    ("cuda_gpu_mem_size_sum", Rows::Other),
    ("cuda_gpu_mem_time_sum", Rows::Other),
    ("cuda_gpu_sum", Rows::Other),
    ("cuda_gpu_trace", Rows::Other),
    ("cuda_kern_exec_sum", Rows::Other),
    ("cuda_kern_exec_trace", Rows::Other),
    ("cudaapisum", Rows::Other),
    ("cudaapitrace", Rows::Other),
    ("dx11_pix_sum", Rows::Other),
    ("dx11pixsum", Rows::Other),
    ("dx12_gpu_marker_sum", Rows::Other),
    ("dx12_pix_sum", Rows::Other),
    ("dx12gpumarkersum", Rows::Other),
    ("dx12pixsum", Rows::Other),
    ("gpumemsizesum", Rows::Other),
    ("gpumemtimesum", Rows::Other),
    ("gpusum", Rows::Other),
    ("gputrace", Rows::Other),
    ("kernexecsum", Rows::Other),
    ("kernexectrace", Rows::Other),
    ("khrdebuggpusum", Rows::Other),
    ("khrdebugsum", Rows::Other),
    ("mpi_event_sum", Rows::Other),
    ("mpi_event_trace", Rows::Other),
    ("mpi_msg_size_sum", Rows::Other),
    ("mpieventtrace", Rows::Other),
    ("network_congestion", Rows::Other),
    ("nvtx_gpu_proj_sum", Rows::Other),
    ("nvtx_gpu_proj_trace", Rows::Other),
    ("nvtx_pushpop_trace", Rows::Other),
    ("nvtx_startend_trace", Rows::Other),
    ("nvtxgpuproj", Rows::Other),
    ("nvtxpptrace", Rows::Other),
    ("nvvideo_api_sum", Rows::Other),
    ("openacc_sum", Rows::Other),
    ("openaccsum", Rows::Other),
    ("opengl_khr_gpu_range_sum", Rows::Other),
    ("opengl_khr_range_sum", Rows::Other),
    ("openmp_sum", Rows::Other),
    ("openmpevtsum", Rows::Other),
    ("osrt_sum", Rows::Other),
    ("osrtsum", Rows::Other),
    ("pixsum", Rows::Other),
    ("syscall_sum", Rows::Other),
    ("um_cpu_page_faults_sum", Rows::Other),
    ("um_sum", Rows::Other),
    ("um_total_sum", Rows::Other),
    ("umcpupagefaults", Rows::Other),
    ("umsum", Rows::Other),
    ("umtotalsum", Rows::Other),
    ("unifiedmemory", Rows::Other),
    ("unifiedmemorytotals", Rows::Other),
    ("vulkan_api_sum", Rows::Other),
    ("vulkan_api_trace", Rows::Other),
    ("vulkan_gpu_marker_sum", Rows::Other),
    ("vulkan_marker_sum", Rows::Other),
    ("vulkanapisum", Rows::Other),
    ("vulkanapitrace", Rows::Other),
    ("vulkangpumarkersum", Rows::Other),
    ("vulkanmarkerssum", Rows::Other),
    ("wddm_queue_sum", Rows::Other),
    ("wddmqueuesdetails", Rows::Other),
];
/// Options of reports, which follow their names.
const OPTIONS: [&str; 4] = ["_base", "_mangled", "_nvtx-name", "_demangled"];
/// Families of reports: those of later versions are told by them.
const FAMILIES: [&str; 4] = ["_cuda_", "_nvtx_", "_osrt_", "_um_"];
const KINDS: [&str; 2] = ["_sum", "_trace"];

/// The name of the capture in front of that of a report, where the stem of a file name ends with one.
pub(super) fn capture_in(stem: &str) -> Option<&str> {
    let mut name = stem;
    while let Some(shorter) = OPTIONS.iter().find_map(|option| name.strip_suffix(option)) {
        name = shorter;
    }
    // The longest: `cuda_gpu_kern_sum` ends with no other, but a later one may.
    let known = REPORTS.iter().filter_map(|(report, _)| {
        let front = name.strip_suffix(report)?;
        if front.is_empty() { Some(front) } else { front.strip_suffix('_') }
    });
    known.min_by_key(|front| front.len()).or_else(|| {
        let of_later = KINDS.iter().any(|kind| name.ends_with(kind));
        let begin = FAMILIES.iter().filter_map(|family| name.rfind(family)).max();
        begin.filter(|_| of_later).and_then(|begin| name.get(..begin))
    })
}

/// What the report in the name of a file has rows of, where it is a known one, and what follows the name
/// of the capture: options, too.
pub(super) fn rows_in(stem: &str) -> (Option<Rows>, &str) {
    let front = capture_in(stem).unwrap_or_default();
    let rest = stem.get(front.len()..).unwrap_or(stem);
    let known =
        REPORTS.iter().filter(|(report, _)| rest.trim_start_matches('_').starts_with(report));
    (known.max_by_key(|(report, _)| report.len()).map(|(_, rows)| *rows), rest)
}

/// A report that nsys is about to print.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Announced {
    pub(super) name: String,
    /// None: it is not known.
    pub(super) rows: Option<Rows>,
    /// What follows its name.
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
    let known = REPORTS.iter().find(|(report, _)| *report == name).map(|(_, rows)| *rows);
    Some(Announced { name: name.to_owned(), rows: known, options: options.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_between_tables_name_their_report() {
        for (line, rows, options) in [
            (
                "Processing [x.sqlite] with [/opt/nsys/reports/cuda_gpu_kern_sum.py]... ",
                Some(Rows::Kernels),
                ".py]...",
            ),
            (
                "Processing [a] b.sqlite] with [cuda_gpu_mem_time_sum.py]...",
                Some(Rows::Other),
                ".py]...",
            ),
            (
                " ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum:mangled):",
                Some(Rows::Kernels),
                ":mangled):",
            ),
            ("** NVTX Range Summary (nvtx_sum):", Some(Rows::Ranges), "):"),
            ("** News (news_sum):", None, "):"),
        ] {
            let found = announced(line).expect(line);
            assert_eq!((found.rows, found.options.as_str()), (rows, options), "{line}");
        }
        for line in ["** a kernel(int)", "SKIPPED: x", "", "Processing", "** a:"] {
            assert_eq!(announced(line), None, "{line}");
        }
    }
}
