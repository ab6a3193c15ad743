//! Settings, version and command of the user -> the command lines of nsys, fully spelled out.
//!
//! Pure: nothing is run or looked up, so that a dry run shows exactly what a run does.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::config::{CaptureRange, Invalid, Nsys};
use crate::tools::{Step, Version, without_patterns, word};
use stage2_model::Finding;
use stage2_model::finding::Id;

/// A command that writes a report.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Program and arguments.
    pub argv: Vec<OsString>,
    /// Where the report is expected. With `repeat` there are several instead, with `.1`, `.2`, ...
    /// before the extension.
    pub report: PathBuf,
    /// What should be known about it.
    pub findings: Vec<Finding>,
}

/// `nsys profile` around the words of the user, or a setting that cannot be used, by its key. `base` is the path
/// of the report without its extension.
pub fn profile(
    nsys: &Nsys,
    version: Option<Version>,
    workload: &[OsString],
    base: &Path,
) -> Result<Profile, Invalid> {
    nsys.validate()?;
    let mut findings = Vec::new();
    let mut note = |what: &str, why: &str, remedy: &str| {
        findings.push(Id::NsysAdjusted.found(what, why, remedy));
    };
    let mut argv = start(nsys, "profile");
    let mut switch = |name: &str, value: &str| argv.push(format!("--{name}={value}").into());
    switch("trace", &nsys.trace.join(","));
    // `none` has to be said: without the switch nsys samples.
    switch("sample", &word(nsys.sample));
    switch("cpuctxsw", &word(nsys.cpuctxsw));
    let graphs = word(nsys.cuda_graph_trace);
    let granularity = match graphs.split_once(':') {
        Some((granularity, _)) if !takes_graph_launch_origin(version) => {
            let why = "this version of nsys takes the granularity only";
            note("the origin of graph launches was left out of --cuda-graph-trace", why, "");
            granularity
        }
        _ => &graphs,
    };
    if nsys.trace.iter().any(|api| api.starts_with("cuda")) {
        switch("cuda-graph-trace", granularity);
    }
    if nsys.gated() {
        switch("capture-range", &word(nsys.capture_range));
        switch("capture-range-end", nsys.range_end());
    }
    if nsys.ends_workload() {
        note(
            "nsys ends the workload at the end of the capture range",
            "pipeline.nsys.capture_range_end requests it; what the workload writes at its end is missing",
            "use stop to let it run on",
        );
    }
    if let Some(capture) = nsys.capture()? {
        switch("nvtx-capture", &capture.text);
        if let Some(doubt) = capture.doubt() {
            note(&format!("the capture waits for the range {}", capture.text), doubt, "");
        }
    }
    if let Some(kill) = &nsys.kill {
        switch("kill", kill);
    }
    for (name, domains) in [
        ("nvtx-domain-include", &nsys.nvtx_domain_include),
        ("nvtx-domain-exclude", &nsys.nvtx_domain_exclude),
    ] {
        if !domains.is_empty() {
            let domains: Vec<_> = domains.iter().map(|d| d.replace(',', "\\,")).collect();
            switch(name, &domains.join(","));
        }
    }
    let variables = variables(nsys);
    if !variables.is_empty() {
        // The switch may be given once only.
        switch("env-var", &variables.join(","));
    }
    switch("force-overwrite", if nsys.force_overwrite { "true" } else { "false" });
    argv.extend(nsys.extra_args.iter().map(OsString::from));
    argv.push(with_value("--output=", &without_patterns(base)));
    // No `--` here: nsys takes it for a shortened switch. What follows is the first word that is none.
    argv.extend(workload.iter().cloned());
    let mut report = base.as_os_str().to_owned();
    report.push(".nsys-rep");
    Ok(Profile { argv, report: report.into(), findings })
}

/// `nsys export` of a report to SQLite.
pub fn export(nsys: &Nsys, report: &Path, sqlite: &Path) -> Step {
    let mut argv = start(nsys, "export");
    argv.extend(["--type=sqlite", "--quiet=true", "--force-overwrite=true"].map(OsString::from));
    argv.push(with_value("--output=", sqlite.as_os_str()));
    argv.push(operand(report));
    Step { argv, timeout: export_limit(nsys), ..Step::default() }
}

/// A command that writes CSV files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    /// The command.
    pub step: Step,
    /// What it may write: tables that this version or this capture does not have are left out.
    pub files: Vec<PathBuf>,
}

/// `nsys stats` on an exported SQLite file (or on a report): one CSV file for each table, in the
/// folder of the input, named `NAME_TABLE.csv`.
pub fn stats(nsys: &Nsys, version: Option<Version>, input: &Path, name: &str) -> Stats {
    let reports = reports(version);
    let folder = input.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).to_owned();
    let mut argv = start(nsys, "stats");
    argv.push(format!("--report={}", reports.join(",")).into());
    // A comma or an @ in --output has a meaning of its own: only the plain name goes there.
    argv.extend(["--format=csv".into(), format!("--output={name}").into()]);
    argv.push("--force-overwrite=true".into());
    argv.push(operand(Path::new(input.file_name().unwrap_or(input.as_os_str()))));
    let csv = |report: &&str| folder.join(format!("{name}_{}.csv", report.replace(':', "_")));
    let files = reports.iter().map(csv).collect();
    let timeout = export_limit(nsys);
    Stats { step: Step { argv, cwd: Some(folder), timeout, ..Step::default() }, files }
}

fn export_limit(nsys: &Nsys) -> Option<Duration> {
    Some(Duration::from_secs(nsys.export_time_limit_s.get()))
}

fn start(nsys: &Nsys, command: &str) -> Vec<OsString> {
    vec![nsys.executable.clone().into_os_string(), command.into()]
}

/// `NAME=VALUE` of every variable that the workload gets.
fn variables(nsys: &Nsys) -> Vec<String> {
    const REGISTER_ONLY: &str = "NSYS_NVTX_PROFILER_REGISTER_ONLY";
    let mut variables = nsys.env_var.clone();
    if nsys.capture_range == CaptureRange::Nvtx && !nsys.register_only {
        variables.entry(REGISTER_ONLY.into()).or_insert_with(|| "0".into());
    }
    variables.into_iter().map(|(name, value)| format!("{name}={value}")).collect()
}

/// A path that cannot be taken for a switch.
fn operand(path: &Path) -> OsString {
    if path.as_os_str().as_bytes().starts_with(b"-") {
        Path::new(".").join(path).into_os_string()
    } else {
        path.as_os_str().to_owned()
    }
}

fn with_value(switch: &str, value: &OsStr) -> OsString {
    let mut word = OsString::from(switch);
    word.push(value);
    word
}

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
    use crate::tools::nsys::config::GraphTrace;
    use crate::tools::nsys::config::tests::{default, gated};

    fn argv_of(nsys: &Nsys, version: Option<Version>) -> String {
        let workload = ["python", "-m", "app", "a=b", "--x"].map(OsString::from);
        let profile = profile(nsys, version, &workload, Path::new("/run/nsys/run")).expect("valid");
        let words: Vec<_> = profile.argv.iter().map(|w| w.to_string_lossy()).collect();
        words.join(" ")
    }

    #[test]
    fn the_default_records_everything_and_says_none_where_none_is_meant() {
        let expected = "nsys profile --trace=cuda,nvtx --sample=none --cpuctxsw=none \
                        --cuda-graph-trace=node --force-overwrite=true --output=/run/nsys/run \
                        python -m app a=b --x";
        assert_eq!(argv_of(&default(), Some(Version::new(2023, 4, 4))), expected);
    }

    #[test]
    fn gating_stops_at_the_end_of_the_range_and_sees_unregistered_names() {
        let expected = "nsys profile --trace=cuda,nvtx --sample=none --cpuctxsw=none \
                        --cuda-graph-trace=node --capture-range=nvtx --capture-range-end=stop \
                        --nvtx-capture=decode@* --env-var=NSYS_NVTX_PROFILER_REGISTER_ONLY=0 \
                        --force-overwrite=true --output=/run/nsys/run python -m app a=b --x";
        assert_eq!(argv_of(&gated(), None), expected);
        let unset = Nsys { capture_range_end: None, ..gated() };
        assert_eq!(argv_of(&unset, None), expected, "stop unless told otherwise");
        let retry = argv_of(&gated().without_gate(), None);
        assert_eq!(retry, argv_of(&default(), None), "the retry has no trace of the gate");
    }

    #[test]
    fn a_range_end_is_passed_only_with_a_range() {
        let mut nsys = Nsys { capture_range_end: Some("repeat:2".into()), ..gated() };
        assert!(argv_of(&nsys, None).contains(" --capture-range-end=repeat:2 "));
        nsys.capture_range = CaptureRange::None;
        assert!(!argv_of(&nsys, None).contains(" --capture-range"));
        nsys.capture_range = CaptureRange::CudaProfilerApi;
        let argv = argv_of(&nsys, None);
        assert!(argv.contains(" --capture-range=cudaProfilerApi "));
        assert!(!argv.contains(" --nvtx-capture") && !argv.contains(" --env-var"), "{argv}");
    }

    #[test]
    fn every_other_key_reaches_the_command_line() {
        let mut nsys = Nsys {
            nvtx_domain_exclude: vec!["CUB".into(), "a,b".into()],
            env_var: [("A".to_owned(), "1".to_owned())].into(),
            kill: Some("none".into()),
            force_overwrite: false,
            extra_args: vec!["--wait=primary".into()],
            executable: "/opt/nsys".into(),
            register_only: true,
            ..gated()
        };
        let argv = argv_of(&nsys, None);
        assert!(argv.starts_with("/opt/nsys "), "{argv}");
        for word in [
            r" --nvtx-domain-exclude=CUB,a\,b ",
            " --env-var=A=1 ",
            " --kill=none ",
            " --force-overwrite=false ",
            " --wait=primary ",
        ] {
            assert!(argv.contains(word), "{word} in {argv:?}");
        }
        nsys.register_only = false;
        let both = " --env-var=A=1,NSYS_NVTX_PROFILER_REGISTER_ONLY=0 ";
        assert!(argv_of(&nsys, None).contains(both));
    }

    #[test]
    fn the_version_decides_the_forms() {
        let nsys = Nsys { cuda_graph_trace: GraphTrace::GraphHostOnly, ..default() };
        let (old, new) = (Version::new(2022, 4, 2), Version::new(2024, 6, 2));
        assert!(argv_of(&nsys, Some(old)).contains(" --cuda-graph-trace=graph "));
        assert!(argv_of(&nsys, Some(new)).contains(" --cuda-graph-trace=graph:host-only "));
        let words = ["true".into()];
        let noted = profile(&nsys, Some(old), &words, Path::new("r")).expect("valid").findings;
        assert!(noted.iter().any(|f| f.what.contains("--cuda-graph-trace")), "{noted:?}");
        let files_of = |version| {
            format!("{:?}", stats(&nsys, Some(version), Path::new("/r/run.sqlite"), "run").files)
        };
        assert!(files_of(old).contains("/r/run_gpukernsum_mangled.csv"));
        assert!(files_of(new).contains("/r/run_cuda_gpu_kern_sum_mangled.csv"));
    }

    #[test]
    fn hostile_paths_are_only_paths() {
        let words = ["true".into()];
        let base = Path::new("/r/50%p, %q{HOME}/run");
        let profile = profile(&default(), None, &words, base).expect("valid");
        let output = "--output=/r/50%%p, %%q{HOME}/run";
        assert!(profile.argv.contains(&output.into()));
        assert_eq!(profile.report, Path::new("/r/50%p, %q{HOME}/run.nsys-rep"));
        let stats = stats(&default(), None, Path::new("/r/a,b/@run.sqlite"), "run");
        assert_eq!(stats.step.cwd.as_deref(), Some(Path::new("/r/a,b")));
        assert!(stats.step.argv.contains(&"--output=run".into()));
        let export = export(&default(), Path::new("-x.nsys-rep"), Path::new("/r/x.sqlite"));
        assert_eq!(export.argv.last(), Some(&"./-x.nsys-rep".into()));
    }

    #[test]
    fn wrong_settings_give_no_command() {
        let nsys = Nsys { nvtx_capture: None, ..gated() };
        let error = profile(&nsys, None, &["true".into()], Path::new("r")).expect_err("no range");
        assert_eq!(error.key, "nvtx_capture");
    }

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
