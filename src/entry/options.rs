//! The environment (`STAGE2_*`) into [`Options`]: one table, defaults visible, bad values named.
//!
//! Only a start reads it, on the thread that starts us: our own thread never looks at an environment
//! that the guest may be changing.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use crate::base::diag::{self, Level};
use crate::base::glob::RangeFilter;
use crate::base::options::{Attribution, Graph, Options, Summary};
use stage2_contract::settings;
use stage2_contract::text::redact::{REDACT_FORM, Redactor};

/// Sets one option from its text; `false` where the text cannot be read.
type Read = fn(&mut Options, &str) -> bool;
/// Sets one option from a path, which need not be text.
type ReadPath = fn(&mut Options, &OsStr);

/// Variable, accepted form, reader.
const TABLE: &[(&str, &str, Read)] = &[
    ("STAGE2_LOG", "off, warn, info or debug", |o, v| {
        let levels = [
            ("off", Level::Off),
            ("warn", Level::Warn),
            ("info", Level::Info),
            ("debug", Level::Debug),
        ];
        set(&mut o.log, named(v, levels))
    }),
    (
        "STAGE2_RANGES",
        "up to 30 comma-separated globs name[@domain], e.g. prefill,decode*@llm",
        |o, v| set(&mut o.ranges, RangeFilter::parse(v)),
    ),
    ("STAGE2_SAMPLE", settings::SAMPLE_FORM, |o, v| set(&mut o.sample, settings::read_sample(v))),
    ("STAGE2_GRAPH", "node or graph", |o, v| {
        set(&mut o.graph, named(v, [("node", Graph::Node), ("graph", Graph::Graph)]))
    }),
    ("STAGE2_CUPTI_API", settings::CUPTI_API_FORM, |o, v| {
        set(&mut o.cupti_api, settings::read_cupti_api(v))
    }),
    ("STAGE2_HWTRACE", settings::HARDWARE_TRACE_FORM, |o, v| {
        set(&mut o.hardware_trace, settings::read_hardware_trace(v))
    }),
    ("STAGE2_ROTATE", settings::ROTATE_FORM, |o, v| {
        set(&mut o.rotate, settings::read_rotate(v).map(Some))
    }),
    ("STAGE2_DETAIL", settings::DETAIL_FORM, |o, v| set(&mut o.detail, settings::read_detail(v))),
    ("STAGE2_BUFFERS", settings::BUFFERS_FORM, |o, v| {
        set(&mut o.buffers, settings::read_buffers(v))
    }),
    ("STAGE2_COUNTERS", settings::COUNTERS_FORM, |o, v| {
        set(&mut o.counters, settings::read_counters(v))
    }),
    ("STAGE2_HOST", settings::HOST_FORM, |o, v| set(&mut o.host_hz, settings::read_host(v))),
    ("STAGE2_FLUSH_MS", settings::FLUSH_MS_FORM, |o, v| {
        let ms = v.parse().ok().filter(|ms| settings::FLUSH_MS.contains(ms));
        set(&mut o.flush, ms.map(Duration::from_millis))
    }),
    ("STAGE2_ATTRIBUTION", "auto, fence or callback", |o, v| {
        let ways = [
            ("auto", Attribution::Auto),
            ("fence", Attribution::Fence),
            ("callback", Attribution::Callback),
        ];
        set(&mut o.attribution, named(v, ways))
    }),
    ("STAGE2_GPU", "on or off", |o, v| set(&mut o.gpu, on_off(v))),
    ("STAGE2_DEVICE_STATE", "on or off", |o, v| set(&mut o.device_state, on_off(v))),
    ("STAGE2_REDACT", REDACT_FORM, |o, v| set(&mut o.redact, Redactor::parse(v).ok())),
    ("STAGE2_START", "on or off", |o, v| set(&mut o.start, on_off(v))),
    ("STAGE2_CONTROL", "on or off", |o, v| set(&mut o.control, on_off(v))),
    ("STAGE2_WATCH", settings::WATCH_FORM, |o, v| {
        set(&mut o.watch, settings::read_watch(v).map(|ms| ms.map(Duration::from_millis)))
    }),
    ("STAGE2_LAUNCHER", "1 (set by stage2-launch)", |o, v| set(&mut o.launcher, Some(v == "1"))),
];

/// Variable, reader.
const PATHS: &[(&str, ReadPath)] = &[
    ("STAGE2_OUT", |o, v| o.out = Some(lasting(v))),
    ("STAGE2_SUMMARY", |o, v| {
        o.summary = match v.to_str() {
            Some("stderr") => Summary::Stderr,
            Some("off") => Summary::Off,
            _ => Summary::File(lasting(v)),
        };
    }),
    ("STAGE2_CUPTI", |o, v| o.cupti = Some(library(v))),
    ("STAGE2_NVML", |o, v| o.nvml = Some(library(v).into())),
    ("STAGE2_WATCH_COMMAND", |o, v| o.watch_command = Some(v.to_owned())),
    ("STAGE2_FLUSH_PAGE", |o, v| o.flush_page = Some(v.to_owned())),
];

/// Reads the environment. A value that cannot be read costs one warning and is the default.
pub fn from_env() -> Options {
    read(|name| env::var_os(name))
}

fn read(variable: impl Fn(&str) -> Option<OsString>) -> Options {
    let mut options = Options::default();
    let mut launcher_summary = true;
    let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
    // What starts the program under the launcher asks for a report, and gets one of the host as well.
    if variable("STAGE2_LAUNCHER").is_some_and(|value| value == "1") {
        options.host_hz = Some(settings::HOST_HZ);
    }
    // The level of the log is among them, before anything is said.
    for &(name, accepted, read) in TABLE {
        let Some(value) = variable(name) else { continue };
        if !value.to_str().is_some_and(|text| read(&mut options, text)) {
            diag::warn(format_args!(
                "{name}={value:?} cannot be read and is ignored; accepted: {accepted}"
            ));
        }
        if name == "STAGE2_LOG" {
            diag::set_level(options.log);
        }
    }
    for &(name, read) in PATHS {
        let Some(value) = variable(name) else { continue };
        launcher_summary &= name != "STAGE2_SUMMARY";
        // No shell has replaced it, and `sh` runs the command of a watch.
        if name != "STAGE2_WATCH_COMMAND" && value.as_encoded_bytes().starts_with(b"~") {
            diag::warn(format_args!("{name}={value:?} begins with a ~ that no shell has replaced"));
        } else if name == "STAGE2_SUMMARY" && value == "stdout" {
            diag::warn(format_args!(
                "{name}=stdout writes a file of this name; use stderr or a path"
            ));
        }
        read(&mut options, &value);
    }
    if options.rotate.is_some() && options.out.is_none() {
        diag::warn(format_args!("STAGE2_ROTATE has no effect without STAGE2_OUT"));
    }
    if options.launcher && launcher_summary {
        options.summary = Summary::Off;
    }
    options
}

fn set<T>(field: &mut T, value: Option<T>) -> bool {
    value.map(|value| *field = value).is_some()
}

fn named<T, const N: usize>(name: &str, values: [(&str, T); N]) -> Option<T> {
    values.into_iter().find(|(known, _)| *known == name).map(|(_, value)| value)
}

fn on_off(name: &str) -> Option<bool> {
    named(name, [("on", true), ("off", false)])
}

/// The file of a library. The loader looks for a bare name in its own folders.
fn library(path: &OsStr) -> PathBuf {
    let is_bare = !path.as_encoded_bytes().contains(&b'/');
    if is_bare { path.into() } else { lasting(path) }
}

/// A path that means the same after the guest has changed its folder.
fn lasting(path: &OsStr) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.into())
}

#[cfg(test)]
mod tests {
    use stage2_contract::settings::{Buffers, CuptiApi, Rotate};

    use super::*;
    use crate::guest::window_filter::WindowFilter;

    fn read(pairs: &[(&str, &str)]) -> Options {
        diag::set_level(Level::Off);
        super::read(|name| pairs.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).into()))
    }

    #[test]
    fn every_variable_is_read() {
        let options = read(&[
            ("STAGE2_OUT", "/tmp/x"),
            ("STAGE2_SUMMARY", "off"),
            ("STAGE2_RANGES", "decode"),
            ("STAGE2_SAMPLE", "1/16"),
            ("STAGE2_GRAPH", "graph"),
            ("STAGE2_CUPTI", "/c.so"),
            ("STAGE2_CUPTI_API", "v2"),
            ("STAGE2_HWTRACE", "on"),
            ("STAGE2_BUFFERS", "4M*16"),
            ("STAGE2_ROTATE", "size=256M,keep=8"),
            ("STAGE2_COUNTERS", "on@100"),
            ("STAGE2_HOST", "250"),
            ("STAGE2_FLUSH_MS", "250"),
            ("STAGE2_ATTRIBUTION", "callback"),
            ("STAGE2_GPU", "off"),
            ("STAGE2_DEVICE_STATE", "off"),
            ("STAGE2_NVML", "/n.so"),
            ("STAGE2_REDACT", "off"),
            ("STAGE2_START", "off"),
            ("STAGE2_CONTROL", "off"),
            ("STAGE2_WATCH", "2m"),
            ("STAGE2_WATCH_COMMAND", "true"),
        ]);
        assert_eq!(options.watch, Some(Duration::from_secs(120)));
        assert_eq!(options.watch_command, Some("true".into()));
        assert!(!options.start && !options.control);
        assert_eq!(options.out, Some(PathBuf::from("/tmp/x")));
        assert_eq!(options.summary, Summary::Off);
        assert!(!options.ranges.is_everything());
        assert_eq!(options.sample, 16);
        assert_eq!(options.graph, Graph::Graph);
        assert_eq!(options.cupti, Some(PathBuf::from("/c.so")));
        assert_eq!((options.cupti_api, options.hardware_trace), (CuptiApi::V2, true));
        assert_eq!(options.buffers, Buffers::Sized { bytes: 4 << 20, count: 16 });
        let rotate = Rotate { size: Some(256 << 20), keep: Some(8), ..Rotate::default() };
        assert_eq!(options.rotate, Some(rotate));
        assert_eq!((options.counters.off, options.counters.interval_us), (false, Some(100)));
        assert_eq!((options.host_hz, options.flush), (Some(250), Duration::from_millis(250)));
        assert_eq!(options.attribution, Attribution::Callback);
        assert!(!options.gpu && !options.device_state && options.redact.is_off());
        assert_eq!(options.nvml, Some("/n.so".into()));
    }

    #[test]
    fn what_is_left_out_is_told() {
        let restrictions =
            |pairs| WindowFilter::of(&read(pairs)).restrictions().collect::<Vec<_>>();
        assert_eq!(restrictions(&[("STAGE2_SAMPLE", "1/1")]), []);
        let both =
            restrictions(&[("STAGE2_SAMPLE", "1/16"), ("STAGE2_RANGES", " prefill, d*@l@m,,x@ ")]);
        assert_eq!(both, [("sample", "1/16".into()), ("ranges", "prefill,d*@l@m,x@".into())]);
    }

    #[test]
    fn paths_are_kept_as_they_are_and_hold_in_every_folder() {
        use std::os::unix::ffi::OsStrExt;

        let odd = OsStr::from_bytes(b"/tmp/a\xffb");
        let options = super::read(|name| (name == "STAGE2_OUT").then(|| odd.to_owned()));
        assert_eq!(options.out.as_deref(), Some(std::path::Path::new(odd)));
        let here = env::current_dir().expect("a folder");
        let options = read(&[
            ("STAGE2_OUT", "out"),
            ("STAGE2_SUMMARY", "a/b.txt"),
            ("STAGE2_CUPTI", "libcupti.so.13"),
        ]);
        assert_eq!(options.out, Some(here.join("out")));
        assert_eq!(options.summary, Summary::File(here.join("a/b.txt")));
        assert_eq!(options.cupti, Some(PathBuf::from("libcupti.so.13")));
        let options = read(&[("STAGE2_CUPTI", "lib/libcupti.so.13")]);
        assert_eq!(options.cupti, Some(here.join("lib/libcupti.so.13")));
    }

    #[test]
    fn unreadable_values_leave_the_default() {
        let defaults = Options::default();
        for bad in ["", "x", "4X", "4M*", "*3", "4X*3", "1*9", "1M*1", "1M*99999", "99999999999G*9"]
        {
            assert_eq!(read(&[("STAGE2_BUFFERS", bad)]).buffers, defaults.buffers, "{bad}");
        }
        for bad in ["-1", "9", "1e3", "99999999999999999999"] {
            assert_eq!(read(&[("STAGE2_FLUSH_MS", bad)]).flush, defaults.flush, "{bad}");
        }
        assert!(read(&[("STAGE2_COUNTERS", "everything")]).counters.off);
        assert_eq!(read(&[("STAGE2_HOST", "5000")]).host_hz, None);
        for bad in ["2", "V2", "v3", " v2"] {
            assert_eq!(read(&[("STAGE2_CUPTI_API", bad)]).cupti_api, CuptiApi::Auto, "{bad}");
        }
        for bad in ["", "auto", "1", "ON"] {
            assert!(!read(&[("STAGE2_HWTRACE", bad)]).hardware_trace, "{bad}");
        }
        assert_eq!(read(&[("STAGE2_GRAPH", "nodes")]).graph, Graph::Node);
        for bad in ["0", "16", "1/0", "2/3", "1/-1", "1/1.5", "1/ 4", "1/99999999999999999999"] {
            assert_eq!(read(&[("STAGE2_SAMPLE", bad)]).sample, 1, "{bad}");
        }
        assert!(!read(&[("STAGE2_REDACT", "a b")]).redact.is_off(), "secrets go all the same");
        assert!(read(&[("STAGE2_RANGES", ",,")]).ranges.is_everything());
    }

    #[test]
    fn under_the_launcher_the_summary_is_off_and_the_host_sampled_unless_it_is_said_otherwise() {
        assert_eq!(read(&[("STAGE2_LAUNCHER", "1")]).summary, Summary::Off);
        let both = read(&[("STAGE2_LAUNCHER", "1"), ("STAGE2_SUMMARY", "stderr")]);
        assert_eq!(both.summary, Summary::Stderr);
        let host = |pairs| read(pairs).host_hz;
        assert_eq!(host(&[]), None);
        assert_eq!(host(&[("STAGE2_LAUNCHER", "1")]), Some(settings::HOST_HZ));
        assert_eq!(host(&[("STAGE2_LAUNCHER", "1"), ("STAGE2_HOST", "off")]), None);
        assert_eq!(host(&[("STAGE2_HOST", "5"), ("STAGE2_LAUNCHER", "1")]), Some(5));
    }
}
