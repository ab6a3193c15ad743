//! A gzipped pprof profile: ranges are the stack, kernels its leaves.
//!
//! Values are the number of calls, and nanoseconds of GPU time under the name that Parca's agent gives
//! them. The messages are those of `profile.proto` (`perftools.profiles`).

use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;
use rustc_hash::FxHashMap;

use crate::selection::Selected;
use crate::tree::Node;
use crate::{Counts, ExportError, Exported, output};

#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
}

#[derive(Clone, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    text: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
}

/// Strings of a profile; the first is the empty one.
#[derive(Default)]
struct Strings(FxHashMap<String, i64>, Vec<String>);

impl Strings {
    fn index(&mut self, text: &str) -> i64 {
        if let Some(&index) = self.0.get(text) {
            return index;
        }
        let index = self.1.len() as i64;
        self.1.push(text.to_owned());
        self.0.insert(text.to_owned(), index);
        index
    }
}

pub(crate) fn write(selected: &Selected<'_>, out: &Path) -> Result<Exported, ExportError> {
    let mut counts = Counts::default();
    let root = Node::build(selected, &mut counts)?;
    let profile = profile(&root, selected);
    output::file(out, |file| {
        let mut packed = GzEncoder::new(file, Compression::default());
        let written = packed.write_all(&profile.encode_to_vec());
        written.and_then(|()| packed.finish().map(drop)).map_err(ExportError::write(out))
    })?;
    Ok(Exported { files: vec![out.to_owned()], counts, ..Exported::default() })
}

fn profile(root: &Node, selected: &Selected<'_>) -> Profile {
    let mut strings = Strings::default();
    strings.index("");
    let mut kind =
        |kind: &str, unit: &str| ValueType { kind: strings.index(kind), unit: strings.index(unit) };
    let sample_type =
        vec![kind("gpu_kernel_calls", "count"), kind("gpu_kernel_time", "nanoseconds")];
    let gpu = strings.index("gpu");
    let mut functions: FxHashMap<i64, u64> = FxHashMap::default();
    let mut profile = Profile { sample_type, ..Profile::default() };
    let walked: Result<(), std::convert::Infallible> =
        root.walk(&mut Vec::new(), &mut |ranges, name, total| {
            // The leaf comes first.
            let frames = std::iter::once(name).chain(ranges.iter().rev().copied());
            let mut location_id = Vec::with_capacity(ranges.len() + 1);
            for frame in frames {
                let name = strings.index(frame);
                let next = functions.len() as u64 + 1;
                let id = *functions.entry(name).or_insert(next);
                if id == next {
                    profile.function.push(Function { id, name });
                    let line = vec![Line { function_id: id }];
                    profile.location.push(Location { id, line });
                }
                location_id.push(id);
            }
            profile.sample.push(Sample {
                location_id,
                value: [total.calls, total.ns]
                    .map(|n| i64::try_from(n).unwrap_or(i64::MAX))
                    .to_vec(),
                label: vec![Label { key: gpu, text: strings.index(&total.gpu.to_string()) }],
            });
            Ok(())
        });
    let Ok(()) = walked;
    if let Some(span) = selected.run.span() {
        profile.time_nanos = span.start_ns;
        profile.duration_nanos = span.ns();
    }
    profile.string_table = strings.1;
    profile
}
