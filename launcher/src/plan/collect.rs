//! Settings -> the passes with the collector loaded into the workload: collect, baseline and counters.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Capture, Limits, Link, Pass, Request, SIMULATOR, TRACE_FOLDER};
use crate::bundle::{BASELINE_DIR, COLLECTOR_DIR, COUNTERS_DIR};
use crate::config::{Collector, Config, Mode, in_plain_words};
use crate::env::DOORS;
use crate::workload::Loading;
use stage2_config::hydra::hydra_key;
use stage2_model::Finding;
use stage2_model::finding::{Id, Severity};

/// Where a Hydra app writes; the presets give each pass its own folder.
const HYDRA_RUN_DIR: &str = "hydra.run.dir";

const COUNTERS: &str = "STAGE2_COUNTERS";
const HOST: &str = "STAGE2_HOST";
const START: &str = "STAGE2_START";
const CONTROL: &str = "STAGE2_CONTROL";
/// Counters are sampled in their own pass in a deep run, and not at all in a light one.
const AUTO: &str = "auto";
const OFF: &str = "off";
const COUNTERS_PASS: &str = "counters";

pub(crate) const LIBRARY: &str = "libstage2.so";

pub(super) fn pass(request: &Request<'_>, findings: &mut Vec<Finding>) -> Pass {
    let run = &request.config.run;
    let folder = request.run_dir.join(COLLECTOR_DIR);
    Pass {
        argv: with_overrides(request.command, &appended(request, &request.run_dir), findings),
        tee: run.tee.then(|| (folder.join("stdout.log"), folder.join("stderr.log"))),
        ..under_collector(request, "collect", folder, findings)
    }
}

/// A pass under the collector without CUPTI, unseen by the user: it measures what the ranges take undisturbed.
pub(super) fn baseline(request: &Request<'_>) -> Pass {
    let mut pass = unseen(request, "baseline", BASELINE_DIR);
    pass.environment.insert("STAGE2_GPU".into(), "off".into());
    // Nobody asks it to begin.
    if let Some(start) = pass.environment.get_mut(START) {
        *start = "on".into();
    }
    pass.kept.remove("STAGE2_GPU");
    pass.environment.remove(COUNTERS);
    if pass.kept.remove(COUNTERS).is_some() {
        pass.environment.insert(COUNTERS.into(), OFF.into());
    }
    pass
}

/// A pass with hardware counters, which make kernels run up to 2 % longer on an H200 (the GPU saves no power while
/// they are taken): the times of the bundle are those of the collect pass.
pub(super) fn counters(request: &Request<'_>) -> Option<Pass> {
    let Config { run, profiling, .. } = request.config;
    // A user who set the variable has it obeyed in the collect pass.
    let is_wanted = run.mode == Mode::Deep
        && request.inherited.has_gpu
        && request.simulator.is_none()
        && profiling.collector.counters == AUTO
        && !request.inherited.collector.contains_key(COUNTERS);
    let mut pass = is_wanted.then(|| unseen(request, COUNTERS_PASS, COUNTERS_DIR))?;
    pass.environment.insert(COUNTERS.into(), "on".into());
    Some(pass)
}

/// A pass under the collector whose output the user does not see; the collect pass tells of its environment.
fn unseen(request: &Request<'_>, name: &'static str, dir: &str) -> Pass {
    let folder = request.run_dir.join(dir);
    let mut pass = Pass {
        argv: workload_of_pass(request, name),
        capture: Capture::of_pass(&folder),
        ..under_collector(request, name, folder, &mut Vec::new())
    };
    // Samples of the host are those of the collect pass.
    pass.environment.insert(HOST.into(), OFF.into());
    pass.kept.remove(HOST);
    pass
}

/// The command of the workload in a pass whose results are not those of the bundle: what the presets let it write
/// there goes to a folder of the pass, for the files of the collect pass fit the times of the bundle.
pub(super) fn workload_of_pass(request: &Request<'_>, pass: &str) -> Vec<OsString> {
    let append = appended(request, &request.run_dir.join(pass));
    with_overrides(request.command, &append, &mut Vec::new())
}

/// The overrides that are added to the command: those of the preset, and the list of inputs. What they
/// let the workload write into the folder of the run goes to `dir`.
fn appended(request: &Request<'_>, dir: &Path) -> Vec<String> {
    let Config { workload, inputs, .. } = request.config;
    let word = |word: &String| in_folder(word, &request.run_dir, dir);
    let mut append: Vec<String> = workload.append.iter().map(word).collect();
    if let (Some(key), Some(path)) = (&workload.manifest_key, &inputs.manifest) {
        // The workload may run elsewhere. Whether it knows the key is not known: ++ goes both ways.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        append.push(format!("++{key}={}", hydra_text(&path.to_string_lossy())));
    }
    append
}

/// The folder below that of the run in which a workload writes.
const OF_WORKLOAD: &str = "stage1";

/// The override `word` of a preset with a path in `dir` instead of the folder of the run, quoted as Hydra reads paths
/// (a comma would be a sweep) unless the preset quotes by itself.
fn in_folder(word: &str, run_dir: &Path, dir: &Path) -> String {
    let own = run_dir.to_string_lossy();
    let is_below = |rest: &str| rest.is_empty() || rest.starts_with('/');
    let below = word.split_once('=').and_then(|(key, value)| {
        Some((key, value.strip_prefix(&*own).filter(|rest| is_below(rest))?))
    });
    match below {
        // Only what the workload writes is told apart by pass.
        Some((key, rest)) if Path::new(rest.trim_start_matches('/')).starts_with(OF_WORKLOAD) => {
            format!("{key}={}", hydra_text(&format!("{}{rest}", dir.to_string_lossy())))
        }
        Some((key, rest)) => format!("{key}={}", hydra_text(&format!("{own}{rest}"))),
        None => {
            let of = |dir: &Path| dir.join(OF_WORKLOAD).to_string_lossy().into_owned();
            word.replace(&of(run_dir), &of(dir))
        }
    }
}

/// A text as a value in Hydra's grammar.
fn hydra_text(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    // `${` would be a reference; backslashes count as such only where a quote follows them.
    let mut quoted = String::new();
    let mut slashes = 0;
    for c in text.replace("${", "\\${").chars() {
        if c == '\'' {
            quoted.extend(std::iter::repeat_n('\\', slashes + 1));
        }
        slashes = if c == '\\' { slashes + 1 } else { 0 };
        quoted.push(c);
    }
    quoted.extend(std::iter::repeat_n('\\', slashes));
    format!("'{quoted}'")
}

pub(super) fn limits(config: &Config) -> Limits {
    Limits {
        timeout: config.run.timeout_s.map(|s| Duration::from_secs(s.get())),
        grace: Duration::from_secs(config.run.kill_grace_s),
        bytes: None,
    }
}

/// A pass with the collector loaded into the workload, recording into `folder`.
fn under_collector(
    request: &Request<'_>,
    name: &'static str,
    folder: PathBuf,
    findings: &mut Vec<Finding>,
) -> Pass {
    // In a place that ld.so would split the library is loaded through a link in a plain one.
    let link = is_split_by_loader(&request.library).then(|| {
        let folder = PathBuf::from(format!("/tmp/stage2-preload-{}", request.inherited.pid));
        Link { target: request.library.clone(), at: folder.join(LIBRARY) }
    });
    let preload = link.as_ref().map_or(&request.library, |link| &link.at);
    let (mut environment, kept) = collector_environment(request, &folder, findings);
    let Loading { preload: preloads, doors: has_doors, ref not_loaded, .. } = *request.loading;
    if preloads {
        let others = request.inherited.ld_preload.as_deref();
        environment.insert("LD_PRELOAD".into(), prepend(preload, others));
    }
    // The collector opens these doors itself, in its constructor. Those of the workload's libraries
    // may run before it, and use NVTX or CUDA.
    let free = |door: &&str| has_doors && !request.inherited.doors.contains(door);
    for door in DOORS.into_iter().filter(free) {
        environment.insert(door.into(), preload.into());
    }
    Pass {
        name,
        environment,
        kept,
        outputs: vec![folder.join("*.s2t")],
        folders: vec![folder],
        link,
        limits: limits(request.config),
        not_loaded: not_loaded.clone(),
        ..Pass::default()
    }
}

/// The words of the user, then the overrides of the preset whose key the user does not set: in Hydra the last wins.
fn with_overrides(
    command: &[OsString],
    append: &[String],
    findings: &mut Vec<Finding>,
) -> Vec<OsString> {
    let own: Vec<&str> = command.iter().filter_map(|w| w.to_str()).filter_map(hydra_key).collect();
    let mut argv = command.to_vec();
    for word in append {
        let Some(key) = hydra_key(word).filter(|key| own.contains(key)) else {
            argv.push(word.into());
            continue;
        };
        let what = format!("the override {word} was not added to the command");
        let why = format!("the command sets {key} itself");
        findings.push(if key == HYDRA_RUN_DIR {
            let lost = "every pass writes there, and what is left is of the last pass; the reports do not find it";
            Id::WorkloadOverride.found(what, format!("{why}: {lost}"), format!("leave {key} to the preset"))
        } else {
            Id::WorkloadOverride.graded(Severity::Note, what, why, "")
        });
    }
    argv
}

/// ld.so splits LD_PRELOAD at spaces and colons, and expands `$`.
pub(crate) fn is_split_by_loader(library: &Path) -> bool {
    let breaks = |b: &u8| b.is_ascii_whitespace() || matches!(b, b':' | b'$');
    library.as_os_str().as_bytes().iter().any(breaks)
}

/// The library before those of the user, except for AddressSanitizer's runtime, which has to be the first.
fn prepend(library: &Path, others: Option<&OsStr>) -> OsString {
    let library = library.as_os_str();
    let Some(others) = others.filter(|others| !others.is_empty()) else {
        return library.to_owned();
    };
    let text = others.to_string_lossy();
    let has_asan = text.contains("libasan") || text.contains("libclang_rt.asan");
    let order = if has_asan { [others, library] } else { [library, others] };
    order.join(OsStr::new(":"))
}

/// The variables that are set, and those of the user that are kept.
fn collector_environment(
    request: &Request<'_>,
    folder: &Path,
    findings: &mut Vec<Finding>,
) -> (BTreeMap<String, OsString>, BTreeMap<String, OsString>) {
    let mut set = BTreeMap::from([
        (TRACE_FOLDER.to_owned(), folder.as_os_str().to_owned()),
        // The reports are ours to write.
        ("STAGE2_LAUNCHER".to_owned(), "1".into()),
    ]);
    let mut kept = request.inherited.collector.clone();
    // The table at exit is the only output of the collector that the user may want besides ours.
    if !kept.contains_key("STAGE2_SUMMARY") {
        set.insert("STAGE2_SUMMARY".into(), "off".into());
    }
    // Its own default is to sample nothing: a program that loads it by hand gets what it asked for.
    let counters = &request.config.profiling.collector.counters;
    if !kept.contains_key(COUNTERS) && counters != AUTO && counters != OFF {
        set.insert(COUNTERS.into(), counters.into());
    }
    let wanted = variables(&request.config.profiling.collector);
    let defaults = variables(&request.defaults.profiling.collector);
    for (key, value) in wanted {
        // A value that the command line names is passed on even if it is the default: it has to
        // win over the variable that the user may have set.
        let explicit = request.explicit.contains(&format!("profiling.collector.{key}"));
        if explicit || defaults.get(&key) != Some(&value) {
            set.insert(format!("STAGE2_{}", key.to_uppercase()), value);
        }
    }
    if request.dormant {
        // Whatever the environment says: it is asked over its socket.
        set.extend([(START.to_owned(), "off".into()), (CONTROL.to_owned(), "on".into())]);
    }
    // The launcher's own word, which the collector does not know.
    set.retain(|name, value| name != COUNTERS || value != AUTO);
    // The collector has the same patterns by itself.
    if let Some(setting) = request.config.redact.redactor().setting() {
        set.insert("STAGE2_REDACT".into(), setting.into());
    }
    if let Some(simulator) = &request.simulator {
        set.insert(SIMULATOR.into(), simulator.clone().into());
    }
    for name in set.keys() {
        if let Some(old) = kept.remove(name) {
            let what =
                format!("the variable {name}={} of the environment was replaced", old.display());
            let id = Id::SettingReplaced.about(name);
            // Around this run, another one may have set the folder of its own traces.
            findings.push(match name == TRACE_FOLDER && !request.inherited.is_nested {
                true => id.graded(
                    Severity::Warning,
                    what,
                    "the traces of a run go into its folder",
                    "choose that with --run-dir DIR",
                ),
                false => id.found(what, "the configuration sets it for this run", ""),
            });
        }
    }
    findings.extend(kept.iter().map(|(name, value)| of_environment(request, name, value)));
    // What the collector cannot read would be told by each process once more: to it, empty is not set.
    let collector = &request.config.profiling.collector;
    let is_read = |name: &str, value: &OsStr| unreadable(collector, &key_of(name), value).is_none();
    let wrong = kept.extract_if(.., |name, value| !is_read(name, value));
    set.extend(wrong.map(|(name, _)| (name, OsString::new())));
    (set, kept)
}

/// The key of the setting of a variable.
fn key_of(name: &str) -> String {
    name.strip_prefix("STAGE2_").unwrap_or(name).to_lowercase()
}

/// What a variable of the user means for a run: the collector obeys it, or cannot read it.
fn of_environment(request: &Request<'_>, name: &str, value: &OsStr) -> Finding {
    let key = key_of(name);
    let shown = value.display();
    if let Some((why, near)) = unreadable(&request.config.profiling.collector, &key, value) {
        let remedy = format!("correct or unset it, or give profiling.collector.{key}");
        return Id::SettingNoEffect.about(name).found(
            format!("the variable {name}={shown} of the environment has no effect"),
            why,
            match near.strip_prefix("; ") {
                Some(near) => format!("{near} Otherwise {remedy}"),
                None => remedy,
            },
        );
    }
    Id::SettingReplaced.about(name).found(
        format!("the collector also obeys {name}={shown}"),
        "it is set in the environment",
        format!("unset {name} for a run that depends on its configuration only"),
    )
}

/// Why the collector cannot read a value of one of its settings, and what was probably meant.
fn unreadable(collector: &Collector, key: &str, value: &OsStr) -> Option<(String, String)> {
    let mut settings = serde_json::to_value(collector).ok()?;
    let text = value.to_str().filter(|text| !text.is_empty())?;
    let setting = settings.get_mut(key)?;
    *setting = match setting.is_number() {
        true => serde_json::from_str(text).unwrap_or_else(|_| text.into()),
        false => text.into(),
    };
    serde_json::from_value::<Collector>(settings).err().map(|why| in_plain_words(&why.to_string()))
}

/// The settings of the collector that have a variable, each as the variable has it.
fn variables(collector: &Collector) -> BTreeMap<String, OsString> {
    use serde_json::Value;
    let text = |value: Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text,
        Value::Array(globs) => globs.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    };
    // Only a path that is no UTF-8 has no JSON, and no configuration can hold one.
    let Ok(Value::Object(settings)) = serde_json::to_value(collector) else {
        return BTreeMap::new();
    };
    let settings = settings.into_iter().filter(|(key, _)| key != "library");
    settings.map(|(key, value)| (key, text(value).into())).collect()
}
