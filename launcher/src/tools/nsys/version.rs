//! A version of nsys -> the forms of arguments that it takes.

use crate::tools::version::Version;

/// The oldest version whose arguments are known to be understood. Its reports end in `.nsys-rep`; versions
/// before 2021.4 wrote `.qdrep`.
pub const OLDEST: Version = Version::new(2022, 4, 0);

/// Whether `--cuda-graph-trace` takes `graph:host-only` and `graph:host-and-device`. As below, an
/// unknown version is taken for a new one.
pub fn takes_graph_launch_origin(version: Option<Version>) -> bool {
    version.is_none_or(|version| version >= Version::new(2023, 4, 0))
}

/// The reports of `nsys stats` that are asked for, in the order of their use: kernels by mangled name
/// with launch configuration, kernels by name, kernels by range, ranges. An unknown version is asked
/// by both names, because a name that is not there costs a message only; so is 2022.5, which kept the
/// old names as far as is known.
pub fn reports(version: Option<Version>) -> Vec<&'static str> {
    const NEW: [&str; 5] = [
        "cuda_gpu_kern_gb_sum:mangled",
        "cuda_gpu_kern_sum:mangled",
        "cuda_gpu_kern_sum",
        "nvtx_kern_sum:mangled",
        "nvtx_sum",
    ];
    // The old kernel summary has the launch configuration in it.
    const OLD: [&str; 4] = ["gpukernsum:mangled", "gpukernsum", "nvtxkernsum:mangled", "nvtxsum"];
    let mut reports = Vec::new();
    if version.is_none_or(|version| version >= Version::new(2022, 5, 0)) {
        reports.extend(NEW);
    }
    if version.is_none_or(|version| version < Version::new(2023, 1, 0)) {
        reports.extend(OLD);
    }
    reports
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_follow_the_version() {
        let version = |year, release| Some(Version::new(year, release, 0));
        let names = |version| {
            let reports = reports(version);
            (reports.contains(&"gpukernsum:mangled"), reports.contains(&"cuda_gpu_kern_sum"))
        };
        assert_eq!(names(version(2022, 4)), (true, false));
        assert_eq!(names(version(2022, 5)), (true, true));
        assert_eq!(names(None), (true, true));
        assert_eq!(names(version(2023, 1)), (false, true));
        assert!(!takes_graph_launch_origin(version(2023, 3)));
        assert!(takes_graph_launch_origin(version(2024, 1)) && takes_graph_launch_origin(None));
    }
}
