//! The aggregates into the table that is shown when the guest ends, as text and as `kernels.md`.

use std::fmt::{self, Write as _};
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use rustc_hash::FxHashMap;
use stage2_contract::stats::P99_VALUES;
use stage2_contract::text::{self, is_library_domain, kernel_name, shorten_kernel};
use stage2_contract::trace::{Device, NONE, Path as RangePath};

use crate::base::counters::{Counter, Counters};
use crate::base::options::{Options, Summary as Target};
use crate::base::{diag, new_file, timed_write};
use crate::drain::aggregate::{Instances, Key, Row, Totals, UNATTRIBUTED, Work};
use crate::drain::intern::Interner;
use crate::guest::gpu::OffReason;
use crate::guest::window_filter::WindowFilter;

/// Above the ranges of libraries that are in none of the workload's.
const LIBRARIES: &str = "Library ranges outside the workload's ranges";

/// The longest that the summary waits for its reader. The end of the guest waits longer for us.
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) struct Summary<'a> {
    pub(crate) options: &'a Options,
    /// What the environment asks for.
    pub(crate) filter: &'a WindowFilter,
    pub(crate) counters: &'a Counters,
    pub(crate) names: &'a Interner,
    pub(crate) shown: ShownPaths,
    pub(crate) totals: Totals,
    pub(crate) gpu_off: Option<&'a OffReason>,
    pub(crate) gpu_seen: bool,
    pub(crate) devices: FxHashMap<u32, &'a Device>,
    pub(crate) simulated: bool,
}

impl Summary<'_> {
    /// Writes the table where `STAGE2_SUMMARY` wants it and, without the launcher, `kernels.md`
    /// into `STAGE2_OUT`. A failure is one line.
    pub(crate) fn show(&self) {
        let written = match &self.options.summary {
            Target::Off => Ok(()),
            Target::Stderr => {
                timed_write::write_stderr(self.text(write_terminal).as_bytes(), PATIENCE)
            }
            Target::File(path) => append(path, &self.text(write_terminal)),
        };
        if let Err(error) = written {
            diag::warn(format_args!(
                "the summary could not be written: {error}; see STAGE2_SUMMARY"
            ));
        }
        if let (Some(folder), false) = (&self.options.out, self.options.launcher)
            && let Err(error) = write_new(folder, &self.text(write_markdown))
        {
            diag::warn(format_args!(
                "kernels.md could not be written to {}: {error}",
                folder.display()
            ));
        }
    }

    fn text(&self, write: fn(&Self, &mut String) -> fmt::Result) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = write(self, &mut text);
        text
    }

    /// One line that states whether the tables show everything.
    fn coverage(&self) -> String {
        let c = self.counters;
        let losses = [
            (&c.buffers_refused, "buffer requests refused (raise STAGE2_BUFFERS)"),
            (&c.range_events, "range events lost"),
            (
                &c.unreadable_records,
                "records unreadable, about (work that still ran at exit, for instance)",
            ),
            (&c.incomplete, "reason why GPU work is missing (see above)"),
            (&c.late_switches, "ranges opened before collection was on"),
            (&c.beyond_limits, "ranges or names beyond what is kept"),
            (&c.calls_turned_away, "NVTX calls not taken in"),
        ];
        let remarks = [
            (&c.range_fields, "fields of ranges left out"),
            (&c.unbalanced, "range ends without a start"),
            (&c.unclosed, "ranges still open"),
            (&c.names_cut, "range names cut"),
            (&c.aggregates_folded, "calls in folded rows"),
            (&c.filtered, "left out by STAGE2_RANGES or STAGE2_SAMPLE"),
        ];
        let always = [&c.unattributed, &c.cupti_dropped, &c.invalid_timestamps].map(Counter::get);
        let [unattributed, dropped, untimed] = always;
        let mut line = format!(
            "{} GPU records attributed, {unattributed} unattributed, {dropped} dropped by CUPTI, \
             {untimed} without valid times",
            c.attributed.get(),
        );
        let is_lossy = always.iter().any(|&n| n > 0) || losses.iter().any(|(n, _)| n.get() > 0);
        for (count, what) in losses.into_iter().chain(remarks) {
            if count.get() > 0 {
                line.push_str(&format!(", {} {what}", count.get()));
            }
        }
        let verdict = if is_lossy { "PARTIAL" } else { "complete" };
        format!("{verdict}: {line}")
    }

    fn device_name(&self, id: u32) -> String {
        self.devices.get(&id).map_or_else(|| "GPU".to_owned(), |device| text::visible(&device.name))
    }
}

fn append(path: &Path, text: &str) -> io::Result<()> {
    timed_write::write(new_file::append(path)?.as_fd(), text.as_bytes(), PATIENCE)
}

/// Writes `kernels.md`, or `kernels-PID.md` where another process of the guest was first, or that with a
/// number. Nothing that is there is written over: in a shared folder it may be anybody's.
fn write_new(folder: &Path, text: &str) -> io::Result<()> {
    let pid = std::process::id();
    let names = ["kernels.md".to_owned(), format!("kernels-{pid}.md")].into_iter();
    let exists = io::ErrorKind::AlreadyExists;
    for name in names.chain((2..100).map(|n| format!("kernels-{pid}-{n}.md"))) {
        match new_file::create(&folder.join(name)) {
            Err(error) if error.kind() == exists => {}
            file => return file?.write_all(text.as_bytes()),
        }
    }
    Err(io::Error::new(exists, format!("kernels-{pid}*.md exist 99 times")))
}

/// Characters of a kernel name.
const NAME: usize = 60;
/// Percent of the GPU time from which the kernels of a path are listed.
const DETAILED: u64 = 2;

fn write_terminal(summary: &Summary<'_>, out: &mut String) -> std::fmt::Result {
    let simulated = if summary.simulated { "SIMULATED GPU, " } else { "" };
    writeln!(out, "\nstage2: {simulated}process {}", std::process::id())?;
    match summary.gpu_off {
        Some(off) => writeln!(out, "stage2: no GPU work recorded: {off}")?,
        None if !summary.gpu_seen => {
            writeln!(out, "stage2: no GPU work: this process did not initialise CUDA")?;
        }
        None => writeln!(out, "stage2: {}", summary.coverage())?,
    }
    for part in parts(summary) {
        writeln!(out, "stage2: {part}")?;
    }
    let which = which(summary);
    for &(device, busy) in &summary.totals.busy {
        write!(
            out,
            "stage2: GPU {device} ({}) busy {} ms (union of {which} work on it)",
            summary.device_name(device),
            ms(busy.busy_ns)
        )?;
        if busy.late_ns > 0 {
            write!(out, ", up to {} ms more: some records came too late", ms(busy.late_ns))?;
        }
        writeln!(out)?;
    }
    let Tables { own, libraries, whole_ns } = tables(summary);
    write_sections(summary, &own, whole_ns, out)?;
    if !libraries.is_empty() {
        writeln!(out, "\nstage2: {LIBRARIES}:")?;
        write_sections(summary, &libraries, whole_ns, out)?;
    }
    Ok(())
}

fn write_sections(
    summary: &Summary<'_>,
    sections: &[Section],
    whole_ns: u64,
    out: &mut String,
) -> std::fmt::Result {
    let restricted = summary.filter.is_restricted();
    for section in sections.iter().take(PATHS) {
        write!(out, "\n{}", section.title(summary.names))?;
        let Instances { count, asked, recorded, host_ns } = section.instances;
        if count > 0 {
            write!(out, "  x{count}, host {} ms", ms(host_ns))?;
            if restricted && asked > 0 {
                write!(out, ", recorded {recorded}")?;
            }
        }
        let is_off = summary.gpu_off.is_some() && section.rows.is_empty();
        if is_off || !section.is_recorded(restricted) {
            writeln!(out, ", GPU work not recorded")?;
            continue;
        }
        let (total, share) = (ms(section.total_ns), percent(section.total_ns, whole_ns));
        writeln!(out, ", GPU sum {total} ms ({share} %), {} calls", section.calls)?;
        let is_short = section.total_ns.saturating_mul(100) < whole_ns.saturating_mul(DETAILED);
        if is_short || section.rows.is_empty() {
            continue;
        }
        writeln!(
            out,
            "  {:>9} {:>12} {:>10} {:>10} {:>10} {:>6}  kernel",
            "calls", "total ms", "mean us", "p50 us", "p99 us", "%"
        )?;
        for line in section.rows.iter().take(TOP) {
            let percentile = |ns: Option<u64>| us(ns.map(|ns| ns as f64));
            writeln!(
                out,
                "  {:>9} {:>12} {:>10} {:>10} {:>10} {:>6}  {}",
                line.calls,
                ms(line.total_ns),
                us(line.mean_ns()),
                percentile(line.percentile_ns(50)),
                percentile(line.p99_ns()),
                percent(line.total_ns, whole_ns),
                shorten_kernel(&line.name, NAME),
            )?;
        }
        left_out(out, section.rows.iter().skip(TOP).map(|line| line.total_ns), "kernels")?;
    }
    left_out(out, sections.iter().skip(PATHS).map(|s| s.total_ns), "range paths")
}

fn left_out(out: &mut String, rest: impl Iterator<Item = u64>, what: &str) -> std::fmt::Result {
    let (count, total) = rest.fold((0u64, 0u64), |(count, sum), ns| (count + 1, sum + ns));
    if count > 0 {
        writeln!(out, "  ... {count} more {what}, {} ms", ms(total))?;
    }
    Ok(())
}

fn write_markdown(summary: &Summary<'_>, out: &mut String) -> std::fmt::Result {
    writeln!(out, "# Kernels\n")?;
    if summary.simulated {
        writeln!(out, "**SIMULATED GPU: these are replayed recordings, not measurements.**\n")?;
    }
    match summary.gpu_off {
        Some(off) => {
            let reason = text::plain(&text::visible(off.0.as_bytes()));
            writeln!(out, "No GPU work recorded: {reason}\n")?;
        }
        None => writeln!(out, "{}\n", summary.coverage())?,
    }
    for part in parts(summary) {
        writeln!(out, "**{}.**\n", text::plain(&part))?;
    }
    for &(device, busy) in &summary.totals.busy {
        let name = text::plain(&summary.device_name(device));
        let (busy, which) = (ms(busy.busy_ns), which(summary));
        writeln!(out, "GPU {device} ({name}): busy {busy} ms (union of {which} work).\n")?;
    }
    let Tables { own, libraries, whole_ns } = tables(summary);
    if own.iter().any(|section| !section.rows.is_empty()) {
        write_table(summary, own, whole_ns, out)?;
    }
    if libraries.iter().any(|section| !section.rows.is_empty()) {
        writeln!(out, "\n## {LIBRARIES}\n")?;
        write_table(summary, libraries, whole_ns, out)?;
    }
    Ok(())
}

fn write_table(
    summary: &Summary<'_>,
    sections: Vec<Section>,
    whole_ns: u64,
    out: &mut String,
) -> std::fmt::Result {
    writeln!(
        out,
        "| kernel_name | total_ms | calls | mean_ms | device | range | % of GPU time | p50_ms | p99_ms |"
    )?;
    writeln!(out, "|---|--:|--:|--:|---|---|--:|--:|--:|")?;
    let mut lines: Vec<_> = sections
        .into_iter()
        .filter(|section| !section.rows.is_empty())
        .flat_map(|section| {
            let mut title = section.title(summary.names);
            if summary.filter.is_sampled() && section.instances.recorded > 0 {
                let Instances { asked, recorded, .. } = section.instances;
                title.push_str(&format!(" (scaled: recorded {recorded} of {asked})"));
            }
            section.rows.into_iter().map(move |line| (title.clone(), line))
        })
        .collect();
    lines.sort_by_key(|(_, line)| std::cmp::Reverse(line.total_ns));
    for (title, line) in &lines {
        let ms6 =
            |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.6}", ns / 1e6));
        let percentile = |ns: Option<u64>| ms6(ns.map(|ns| ns as f64));
        let mean = ms6(line.mean_ns());
        writeln!(
            out,
            "| {} | {} | {} | {mean} | {}:{} | {} | {} | {} | {} |",
            text::code(&line.name),
            ms(line.total_ns),
            line.calls,
            line.device,
            text::plain(&summary.device_name(line.device)),
            text::code(title),
            percent(line.total_ns, whole_ns),
            percentile(line.percentile_ns(50)),
            percentile(line.p99_ns()),
        )?;
    }
    Ok(())
}

/// Kernels listed for each range path.
const TOP: usize = 10;
/// Range paths listed.
const PATHS: usize = 20;
/// Characters of a path.
const TITLE: usize = 120;

struct Tables {
    /// Paths with ranges of the program, and those outside of all ranges.
    own: Vec<Section>,
    /// Paths with ranges of libraries only.
    libraries: Vec<Section>,
    /// All GPU time, ns: the sum that shares are taken of.
    whole_ns: u64,
}

/// One range path as it is shown, with its work, heaviest first.
#[derive(Default)]
struct Section {
    path: u32,
    instances: Instances,
    total_ns: u64,
    calls: u64,
    rows: Vec<Line>,
}

#[derive(Clone)]
struct Line {
    name: String,
    device: u32,
    /// Calls, scaled where the range was sampled.
    calls: u64,
    /// Sum of the durations, ns, in the same way.
    total_ns: u64,
    row: Row,
}

impl Line {
    fn mean_ns(&self) -> Option<f64> {
        (self.row.timed > 0).then(|| self.row.total_ns as f64 / self.row.timed as f64)
    }

    /// Percentile, kept within the exact extremes.
    fn percentile_ns(&self, percent: u64) -> Option<u64> {
        let value = self.row.histogram.percentile(percent)?;
        Some(value.clamp(self.row.min_ns, self.row.max_ns))
    }

    /// The 99th percentile; nothing of too few values.
    fn p99_ns(&self) -> Option<u64> {
        (self.row.timed >= P99_VALUES).then(|| self.percentile_ns(99))?
    }
}

/// Every path that has work or instances, heaviest first.
fn tables(summary: &Summary<'_>) -> Tables {
    let section = |path| Section { path, ..Section::default() };
    let mut by_path: FxHashMap<u32, Section> = FxHashMap::default();
    for (&path, instances) in &summary.totals.instances {
        let path = summary.shown.path(path);
        by_path.entry(path).or_insert_with(|| section(path)).instances.add(instances);
    }
    // A kernel under thousands of paths is one name to be demangled.
    let mut names: FxHashMap<Work, String> = FxHashMap::default();
    for (key, row) in &summary.totals.rows {
        let name = names.entry(key.work).or_insert_with(|| work_name(summary, key)).clone();
        let path = summary.shown.path(key.path);
        by_path.entry(path).or_insert_with(|| section(path)).add(name, key.device, row);
    }
    let mut sections: Vec<Section> = by_path.into_values().collect();
    for section in &mut sections {
        section.scale(summary.filter.is_sampled());
        section.rows.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.name.cmp(&b.name)));
    }
    sections.sort_by_key(|s| (std::cmp::Reverse((s.total_ns, s.instances.host_ns)), s.path));
    let whole_ns = sections.iter().fold(0u64, |sum, section| sum.saturating_add(section.total_ns));
    let (libraries, own) =
        sections.into_iter().partition(|section| summary.shown.is_of_library(section.path));
    Tables { own, libraries, whole_ns }
}

impl Section {
    fn add(&mut self, name: String, device: u32, row: &Row) {
        match self.rows.iter_mut().find(|line| line.name == name && line.device == device) {
            Some(line) => merge(&mut line.row, row),
            None => {
                self.rows.push(Line { name, device, calls: 0, total_ns: 0, row: row.clone() });
            }
        }
    }

    fn scale(&mut self, sampled: bool) {
        let instances = self.instances;
        for line in &mut self.rows {
            let scale = |value| if sampled { instances.scaled(value) } else { value };
            (line.calls, line.total_ns) = (scale(line.row.calls), scale(line.row.total_ns));
            self.calls = self.calls.saturating_add(line.calls);
            self.total_ns = self.total_ns.saturating_add(line.total_ns);
        }
    }

    /// Whether GPU work of this path was recorded: without any in it, there was none.
    fn is_recorded(&self, restricted: bool) -> bool {
        !restricted || self.instances.recorded > 0 || !self.rows.is_empty()
    }

    /// Its path as text. Made only for what is shown: paths can be thousands of ranges deep.
    fn title(&self, names: &Interner) -> String {
        match self.path {
            0 => "(outside ranges)".to_owned(),
            UNATTRIBUTED => "(unattributed)".to_owned(),
            path => text::shorten(&text::visible(&names.path_text(path)), TITLE),
        }
    }
}

fn merge(into: &mut Row, row: &Row) {
    into.min_ns = match (into.timed, row.timed) {
        (0, _) => row.min_ns,
        (_, 0) => into.min_ns,
        _ => into.min_ns.min(row.min_ns),
    };
    into.max_ns = into.max_ns.max(row.max_ns);
    into.calls += row.calls;
    into.timed += row.timed;
    into.total_ns += row.total_ns;
    into.histogram.merge(&row.histogram);
}

fn work_name(summary: &Summary<'_>, key: &Key) -> String {
    match key.work {
        Work::Kernel(name) => kernel_name(summary.names.text(name)).short,
        Work::Copy(1) => "[copy host to device]".to_owned(),
        Work::Copy(2) => "[copy device to host]".to_owned(),
        Work::Copy(8) => "[copy device to device]".to_owned(),
        Work::Copy(9) => "[copy host to host]".to_owned(),
        Work::Copy(10) => "[copy peer to peer]".to_owned(),
        Work::Copy(kind) => format!("[copy of kind {kind}]"),
        Work::Fill => "[fill]".to_owned(),
        Work::Graph(graph) => format!("[graph {graph}]"),
        Work::Folded => "[more rows than are kept]".to_owned(),
    }
}

/// Which GPU work the figures are of.
fn which(summary: &Summary<'_>) -> &'static str {
    if summary.filter.is_restricted() { "recorded" } else { "all" }
}

/// What was not recorded, and what that means for the figures; none where everything was.
fn parts(summary: &Summary<'_>) -> impl Iterator<Item = String> {
    filtering(summary).into_iter().chain(sampling(summary))
}

fn filtering(summary: &Summary<'_>) -> Option<String> {
    let filter = summary.filter;
    if filter.ranges.is_everything() {
        return None;
    }
    let shown = text::visible(filter.ranges.to_string().as_bytes());
    let mut line = format!(
        "COLLECTED ONLY in ranges that match {shown} (STAGE2_RANGES): GPU work elsewhere is not \
         recorded"
    );
    let none = summary.totals.instances.values().all(|instances| instances.asked == 0);
    if none && !filter.is_sampled() {
        line.push_str("; NO RANGE that matches was opened");
    }
    Some(line)
}

fn sampling(summary: &Summary<'_>) -> Option<String> {
    if !summary.filter.is_sampled() {
        return None;
    }
    let asked = || summary.totals.instances.values().filter(|instances| instances.asked > 0);
    let unseen = asked().filter(|instances| instances.recorded == 0).count();
    let mut line = format!(
        "SAMPLED 1/{}: calls, totals and shares are scaled by instances/recorded of their range \
         path; means and percentiles are of what was recorded; work outside of the sampled ranges \
         is not recorded",
        summary.filter.sample
    );
    if asked().next().is_none() {
        line.push_str("; NO RANGE to sample was opened: check STAGE2_RANGES, or open NVTX ranges");
    } else if unseen > 0 {
        line.push_str(&format!(
            "; {unseen} range paths have no recorded instance and are in no sum: lower N"
        ));
    }
    Some(line)
}

/// Milliseconds with three decimals.
fn ms(ns: u64) -> String {
    format!("{}.{:03}", ns / 1_000_000, ns % 1_000_000 / 1_000)
}

/// Microseconds with two decimals; a dash where there is none.
fn us(ns: Option<f64>) -> String {
    ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.2}", ns / 1e3))
}

/// A share in percent; a dash where there is nothing to share.
fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.1}", part as f64 * 100.0 / whole as f64) }
}

/// The shown paths of a process. Each is a path of the [`Interner`]; 0 is not a range, and
/// [`UNATTRIBUTED`] is what it is.
#[derive(Default)]
pub(crate) struct ShownPaths {
    /// The shown path of every path, by its number from 1.
    of_path: Vec<u32>,
    /// The innermost part of a shown path that is the program's, as a path; 0 where all are a library's.
    own: FxHashMap<u32, u32>,
}

impl ShownPaths {
    /// Those of all paths that have a number. Adds to `names` the paths that no record has defined.
    pub(crate) fn of(names: &mut Interner) -> Self {
        let mut shown = ShownPaths::default();
        let paths: Vec<RangePath> = (1..).map_while(|id| names.path_of(id).copied()).collect();
        for path in paths {
            let is_library = path.domain != NONE && is_library_domain(names.text(path.domain));
            // Outer paths have smaller numbers.
            let around = shown.path(path.parent);
            let own = shown.own.get(&around).copied().unwrap_or(0);
            let parent = if is_library { around } else { own };
            let number = names.shown_path(parent, path.name, path.domain);
            shown.own.insert(number, if is_library { own } else { number });
            shown.of_path.push(number);
        }
        shown
    }

    pub(crate) fn path(&self, path: u32) -> u32 {
        if path == UNATTRIBUTED {
            return path;
        }
        let index = (path as usize).checked_sub(1);
        index.and_then(|index| self.of_path.get(index)).copied().unwrap_or(0)
    }

    /// Whether all parts of a shown path are a library's.
    pub(crate) fn is_of_library(&self, path: u32) -> bool {
        self.own.get(&path) == Some(&0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drain::intern::Sink;

    fn path(names: &mut Interner, sink: &mut impl Sink, parts: &[(&str, &str)]) -> u32 {
        parts.iter().fold(0, |parent, (domain, name)| {
            let name = names.name(name.as_bytes(), sink);
            let domain = if domain.is_empty() { 0 } else { names.name(domain.as_bytes(), sink) };
            names.path(parent, name, domain, sink)
        })
    }

    #[test]
    fn ranges_of_libraries_are_inside_those_of_the_program_or_alone() {
        let (mut names, mut sink) = (Interner::default(), Vec::new());
        let mut add = |parts: &[(&str, &str)]| path(&mut names, &mut sink, parts);
        let decode = add(&[("", "decode")]);
        let inside = add(&[("NCCL", "init"), ("", "decode")]);
        let between = add(&[("", "decode"), ("TSL", "run"), ("llm", "layer")]);
        let below = add(&[("NCCL", "init"), ("", "decode"), ("nccl", "reduce")]);
        let alone = add(&[("NCCL", "init"), ("TSL", "run")]);
        let shown = ShownPaths::of(&mut names);
        let text = |path| String::from_utf8(names.path_text(shown.path(path))).unwrap();
        assert_eq!(shown.path(inside), shown.path(decode));
        assert_eq!(
            [decode, inside, between, below, alone].map(text),
            ["decode", "decode", "decode/layer", "decode/reduce", "init/run"]
        );
        let of_library = |path| shown.is_of_library(shown.path(path));
        assert_eq!([decode, inside, between, below].map(of_library), [false; 4]);
        assert!(of_library(alone));
        assert_eq!((shown.path(0), shown.path(UNATTRIBUTED)), (0, UNATTRIBUTED));
        assert!(!shown.is_of_library(0) && !shown.is_of_library(UNATTRIBUTED));
    }

    #[test]
    fn a_deep_path_without_its_libraries_is_told_in_bounded_text() {
        let (mut names, mut sink) = (Interner::default(), Vec::new());
        let mut parts = vec![("NCCL", "init")];
        parts.extend([("", "a rather long name"); 1000]);
        let deep = path(&mut names, &mut sink, &parts);
        let shown = ShownPaths::of(&mut names);
        let text = String::from_utf8(names.path_text(shown.path(deep))).unwrap();
        assert!(text.starts_with("a rather") && text.contains('…') && text.len() < 1100, "{text}");
    }
}
