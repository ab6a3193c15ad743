//! The median step of a stage as a picture: ranges of the host, times without GPU work, and a lane for
//! each stream.
//!
//! Positions are percentages of the width, so that zooming is a wider picture in a box that scrolls:
//! panning is the browser's, by touch, mouse and keyboard, and names in ranges keep their shape.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::markdown::{attribute, class_mark, foreign, text};
use super::mean_step::{IDLE, Part};
use stage2_contract::order::Order as _;
use stage2_contract::text::numbers::{count, counted, shown_time, us3};
use stage2_contract::text::shorten;
use stage2_model::{
    StepTimeline, TimelineGap, TimelineHost, TimelineHostPart, TimelineLane, TimelineRange,
    TimelineSum,
};

/// Rows of ranges: what is deeper is counted.
const DEPTH: u64 = 8;
/// Lanes of streams: the rest is counted.
const LANES: usize = 24;
/// Names in the list below: those with the longest time.
const NAMES: usize = 300;
/// The class in the style of the page for the part of a collective that is waiting.
const WAITING: &str = "w-waiting";
/// Stands for the names that the analysis did not tell apart.
const OTHERS: &str = "(other names)";
const NAME_CHARS: usize = 160;
const RANGE_NAME_CHARS: usize = 48;
/// Heights of the axis, a row and the space below it, in pixels.
const AXIS: u64 = 20;
const ROW: u64 = 20;
const BAR: u64 = 17;
/// Rows that the lane of samples takes where functions lie on each other, and the least height of one of these, pixels.
const MIXED_ROWS: u64 = 4;
const LEAST_HIGH: u64 = 11;

/// Colours of the lane of samples: the functions of a point by their number of samples, and what has no room.
const SAMPLES: [(&str, &str); 4] = [
    ("r-host", "host: function with most samples"),
    ("r0", "function with second most"),
    ("r1", "third most"),
    ("r-after", "other functions"),
];
/// What the host does between the range of a step of an engine and the next step.
const AFTER_RANGE: &str = "between steps";

const NO_WORK: &str = "<p class=\"absent\">None: no GPU work of this step was recorded: other steps \
    of the stage may have been sampled.</p>\n";

/// The timelines of a late rank and of one that waits for it, where both are known.
fn late_and_waiting<'t>(
    of_stage: &[&'t StepTimeline],
) -> Option<(&'t StepTimeline, &'t StepTimeline)> {
    let of_rank = |is_late: bool| {
        let is = |found: &&&StepTimeline| found.rank.as_ref().is_some_and(|r| r.is_late == is_late);
        of_stage.iter().copied().find(|found| is(&found))
    };
    of_rank(true).zip(of_rank(false))
}

/// The timeline of a stage that is shown first, and that has the id of [`timelines`].
pub(super) fn first_shown<'t>(of_stage: &[&'t StepTimeline]) -> Option<&'t StepTimeline> {
    let late = late_and_waiting(of_stage).map(|(late, _)| late);
    late.or_else(|| of_stage.first().copied())
}

/// Whether a bar of the picture is named after the kernel. Bars have no number behind names that several kernels share.
pub(super) fn has_bar(timeline: &StepTimeline, kernel: &str) -> bool {
    let numbered = kernel.rsplit_once(" #").filter(|(_, number)| number.parse::<u32>().is_ok());
    let shared = numbered.map_or(kernel, |(name, _)| name);
    let is_it = |name: &String| name == kernel || name == shared;
    let Some(name) = timeline.names.iter().position(is_it) else { return false };
    let lanes = timeline.lanes.iter().take(LANES);
    let mut works = lanes.flat_map(|lane| &lane.work);
    timeline.length_ns > 0 && works.any(|work| work.name == name)
}

/// The command that writes a step with those next to it, or the whole stage where instances of the stage have other
/// numbers, as a file for Perfetto.
pub(super) fn export_command(
    run: &str,
    stage: &str,
    path: &str,
    steps: std::ops::Range<u64>,
) -> String {
    let part = match path == stage {
        true => ("window", format!("{stage}:{}..{}", steps.start, steps.end)),
        false => ("stage", stage.to_owned()),
    };
    let value = shlex::try_quote(&part.1).unwrap_or_default();
    let command = format!("stage2-launch export {} -f perfetto --{} {value}", folder(run), part.0);
    format!("<code>{}</code>", text(&command))
}

/// The folder of a run as a word of a command, from the folder around it.
pub(super) fn folder(run: &str) -> Cow<'_, str> {
    shlex::try_quote(if run.is_empty() { "RUN" } else { run }).unwrap_or("RUN".into())
}

/// How to see more than the median step.
pub(super) fn beyond(run: &str, timeline: &StepTimeline, noun: &str) -> String {
    let StepTimeline { stage, path, step, .. } = timeline;
    let steps = step.number.saturating_sub(1)..step.number.saturating_add(2);
    format!(
        "<p class=\"note\">To see this {noun} and those next to it with all that was recorded, run {} in the folder around that of \
         the run, and open the file at ui.perfetto.dev.</p>\n",
        export_command(run, stage, path, steps)
    )
}

/// The timelines of a stage: those of a late rank and of one that waits for it where both are known, on one scale;
/// else the first one. Nothing where there is none. `noun`: what a step of the stage is. `bar`: the parts of the mean step,
/// whose colours the same functions have here.
pub(super) fn timelines(
    of_stage: &[&StepTimeline],
    noun: &str,
    id: &str,
    bar: &[Part],
) -> Option<String> {
    let Some((late, waiting)) = late_and_waiting(of_stage) else {
        let first = of_stage.first()?;
        let picture = timeline(first, noun, Extent::of(first), id, bar);
        let about = if picture.contains("<svg") { about(&[first], noun) } else { String::new() };
        return Some(picture + &about);
    };
    let start_ns = late.start_ns.min(waiting.start_ns);
    let before =
        |found: &StepTimeline| u64::try_from(found.start_ns.saturating_sub(start_ns)).unwrap_or(0);
    let end = |found: &StepTimeline| before(found).saturating_add(found.length_ns);
    let length_ns = end(late).max(end(waiting));
    let of_rank = |found: &StepTimeline, id: &str| {
        let rank = found.rank.clone().unwrap_or_default();
        let role = if rank.is_late { "late" } else { "waits" };
        let extent = Extent { before_ns: before(found), length_ns };
        let name = format!("{} ({role})", rank.who);
        let picture = timeline(found, noun, extent, id, bar);
        format!("<div class=\"rank\">\n<h4>{}</h4>\n{picture}</div>\n", foreign(&name))
    };
    // The steps next to it can be late by more, or by less.
    let waited = waiting.lanes.iter().flat_map(|lane| &lane.work).map(|work| work.waiting_ns);
    let waited_ns = waited.fold(0, u64::saturating_add);
    let which = match late.rank.as_ref().and_then(|rank| rank.late_ns) {
        Some(ns) => format!("the late one with the median delay ({})", shown_time(ns as f64)),
        None => "the one of median length, not of median delay".to_owned(),
    };
    Some(format!(
        "<p class=\"note\">The same {noun} on both ranks, on one time axis: {which}. \
         In this {noun}, {} waits {} for {}.</p>\n<div class=\"ranks\">\n{}{}</div>\n{}",
        foreign(&waiting.rank.clone().unwrap_or_default().who),
        shown_time(waited_ns as f64),
        foreign(&late.rank.clone().unwrap_or_default().who),
        of_rank(late, id),
        of_rank(waiting, &format!("{id}-2")),
        about(&[late, waiting], noun),
    ))
}

/// What a picture shows of the time: the step, with what other ranks need before and behind it.
struct Extent {
    before_ns: u64,
    length_ns: u64,
}

impl Extent {
    fn of(timeline: &StepTimeline) -> Self {
        Self { before_ns: 0, length_ns: timeline.length_ns }
    }
}

fn timeline(timeline: &StepTimeline, noun: &str, extent: Extent, id: &str, bar: &[Part]) -> String {
    if timeline.length_ns == 0 {
        return "<p class=\"absent\">None: the step has no length.</p>\n".to_owned();
    }
    if timeline.lanes.iter().all(|lane| lane.work.is_empty()) {
        return NO_WORK.to_owned();
    }
    let scale = Scale::of(&extent);
    let ranges = timeline.ranges.iter().filter(|range| range.depth < DEPTH);
    let deepest = ranges.clone().map(|range| range.depth).max().unwrap_or(0);
    let lanes = timeline.lanes.get(..LANES.min(timeline.lanes.len())).unwrap_or_default();
    let listed = Listed::of(timeline);
    let samples_y = AXIS + (deepest + 1) * ROW;
    let samples = timeline.host.as_ref();
    let samples_height = samples.map_or(0, height_of_samples);
    let gaps_y = samples_y + samples_height;
    let lane_y = |at: usize| gaps_y + (at as u64 + 1) * ROW;
    let height = lane_y(lanes.len());

    let host = |depth: u64| match depth {
        0 => "host".to_owned(),
        depth => format!("host, depth {}", depth + 1),
    };
    let mut labels: Vec<(u64, String)> =
        (0..=deepest).map(|depth| (AXIS + depth * ROW, host(depth))).collect();
    labels.extend(samples.map(|_| (samples_y, "host samples".to_owned())));
    labels.push((gaps_y, "gaps of the GPU".to_owned()));
    labels.extend(lanes.iter().enumerate().map(|(at, lane)| (lane_y(at), lane.label.clone())));
    let labels: String = (labels.iter())
        .map(|(y, label)| format!("<text x=\"0\" y=\"{}\">{}</text>\n", y + 13, text(label)))
        .collect();
    let ranges_drawn = ranges.clone().count() as u64;
    let ranges = ranges.map(|range| scale.range(timeline, range));
    let ranges: String = scale.after_range(timeline).into_iter().chain(ranges).collect();
    let parts = samples.into_iter().flat_map(|host| &host.parts);
    let parts: String =
        parts.map(|part| scale.part(timeline, part, (samples_y, samples_height), bar)).collect();
    let gaps = scale.gaps(&timeline.gaps, gaps_y);
    let works: String = (lanes.iter().enumerate())
        .map(|(at, lane)| scale.lane(lane, lane_y(at), &listed))
        .collect();
    let pieces = lanes.iter().map(|lane| lane.work.len() as u64).sum::<u64>();
    let waits = lanes.iter().flat_map(|lane| &lane.work).any(|work| work.waiting_ns > 0);
    let waits = if waits { " The waiting part of a collective is a separate bar." } else { "" };
    let of_rank =
        timeline.rank.as_ref().map(|rank| format!(" of {}", rank.who)).unwrap_or_default();
    let names = listed.html(&format!("{noun}{of_rank}"));
    let to_list = if names.is_empty() { "" } else { TO_LIST };
    let description = format!(
        "This is {} {}{of_rank}, {}: {}, {}, {}.{waits}",
        noun,
        timeline.step.number,
        length(timeline),
        counted(ranges_drawn, "range"),
        counted(pieces, "piece") + " of GPU work",
        counted(timeline.gaps.len() as u64, "gap"),
    );
    format!(
        "<div class=\"timeline\" id=\"{id}\" data-length=\"{}\">\n\
         <svg class=\"lanes\" height=\"{height}\" aria-hidden=\"true\">\n{labels}</svg>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Timeline; arrow keys pan\">\n\
         <svg class=\"steps\" height=\"{height}\" role=\"img\" \
         aria-labelledby=\"{id}-title {id}-text\">\n<title id=\"{id}-title\">Timeline of the median \
         {noun}</title>\n<desc id=\"{id}-text\">{}</desc>\n<g class=\"axis\">\n{}</g>\n{ranges}{parts}{gaps}\
         {works}</svg>\n</div>\n</div>\n<p class=\"note\">{}{to_list}{}{}</p>\n{}{names}",
        extent.length_ns,
        text(&description),
        scale.ticks(height),
        text(&description),
        part_drawn(timeline, ranges_drawn.saturating_add(pieces)),
        samples.map(|host| of_samples(host, noun)).unwrap_or_default(),
        legend(timeline),
    )
}

/// Not on paper, which has no list that is folded.
const TO_LIST: &str =
    "<span class=\"to-list\"> The list below shows the names with their times.</span>";

/// How long the step is, and of an engine what that is to the beginning of the next one.
fn length(timeline: &StepTimeline) -> String {
    let all = shown_time(timeline.length_ns as f64);
    match timeline.lasts_ns {
        Some(ns) if ns < timeline.length_ns => {
            format!(
                "{all} long to the end of its GPU work; the next one begins after {}",
                shown_time(ns as f64)
            )
        }
        Some(_) => format!("{all} long until the next one begins"),
        None => format!("{all} long"),
    }
}

/// How much of a timeline is drawn; nothing where that is all.
fn part_drawn(timeline: &StepTimeline, drawn: u64) -> String {
    let works = timeline.lanes.iter().map(|lane| lane.work.len() as u64).sum::<u64>();
    let all = works.saturating_add(timeline.ranges.len() as u64).saturating_add(timeline.left_out);
    let is_deeper = timeline.ranges.iter().any(|range| range.depth >= DEPTH);
    let which = [
        (timeline.left_out > 0).then(|| "the longest".to_owned()),
        is_deeper.then(|| format!("ranges to depth {DEPTH}")),
        (timeline.lanes.len() > LANES).then(|| format!("work of {LANES} streams")),
    ];
    let which: Vec<String> = which.into_iter().flatten().collect();
    match drawn < all {
        false => String::new(),
        true => format!(
            " {} of {} ranges and pieces of GPU work are drawn: {}.",
            count(drawn),
            count(all),
            which.join(", ")
        ),
    }
}

/// The height of the lane of samples with the space below it: several functions lie on each other where none has half of
/// the samples.
fn height_of_samples(host: &TimelineHost) -> u64 {
    let most = |part: &TimelineHostPart| part.functions.first().map_or(0, |(_, most)| *most);
    let is_mixed = |part: &TimelineHostPart| {
        part.samples > 0 && !TimelineHostPart::is_main(most(part), part.samples)
    };
    if host.parts.iter().any(is_mixed) { MIXED_ROWS * ROW } else { ROW }
}

/// What the lane of samples is of.
fn of_samples(host: &TimelineHost, noun: &str) -> String {
    format!(
        " {} of the host are pooled from {} of similar length.",
        counted(host.samples, "sample"),
        counted(host.steps, noun),
    )
}

/// What the lane of samples shows, of any rank.
fn about_samples(noun: &str) -> String {
    format!(
        " Host samples show what the launching thread runs at each point of a {noun}; one {noun} has too few. Where no \
         function has half of the samples, the functions are stacked, and their heights are their shares. A function \
         that is a part of the mean step has the same colour there."
    )
}

/// The colour of a function, `f (a.py)`, in the bar, which names it with its line: `idle: f (a.py:3)`.
pub(super) fn mark_in(bar: &[Part], name: &str) -> Option<&'static str> {
    let named = name.strip_suffix(')')?;
    let is_it = |part: &&Part| {
        let code = part.label.strip_prefix(IDLE).and_then(|code| code.strip_prefix(named));
        code.is_some_and(|line| line.starts_with(':'))
    };
    bar.iter().find(is_it).map(|part| part.mark)
}

fn swatch(mark: &str, label: &str) -> String {
    format!(
        "<li><svg class=\"swatch\" aria-hidden=\"true\"><rect class=\"{mark}\" width=\"100%\" \
         height=\"100%\"/></svg>{}</li>\n",
        text(label),
    )
}

/// What the colours mean, and the times of the whole step, of which only a part is drawn, where known.
fn legend(timeline: &StepTimeline) -> String {
    let sums = &timeline.sums;
    let work = timeline.lanes.iter().flat_map(|lane| &lane.work);
    let waiting_ns = work.fold(0u64, |sum, work| sum.saturating_add(work.waiting_ns));
    let classes = by_class(&sums.work);
    let mut entries: Vec<(&str, &str, u64)> =
        classes.iter().map(|(class, ns)| (class_mark(class), *class, *ns)).collect();
    // The waiting is an entry of its own.
    for (_, label, ns) in entries.iter_mut().filter(|(_, class, _)| *class == "communication") {
        *ns = ns.saturating_sub(waiting_ns);
        *label = if waiting_ns > 0 { "transfer in collectives" } else { label };
    }
    entries.extend([
        ("g-launch", "launch gaps", sums.launch_gaps_ns),
        ("g-idle", "other idle", sums.other_idle_ns),
        ("w-other", "work of other steps or stages", sums.other_work_ns),
        (WAITING, "waiting in collectives", waiting_ns),
    ]);
    let entry = |(mark, label, ns): &(&str, &str, u64)| {
        let ms = if sums.whole { format!(" {}", shown_time(*ns as f64)) } else { String::new() };
        swatch(mark, &format!("{label}{ms}"))
    };
    let mut shown: String = entries.iter().filter(|(_, _, ns)| *ns > 0).map(entry).collect();
    if timeline.host.is_some() {
        for (mark, label) in SAMPLES {
            shown.push_str(&swatch(mark, label));
        }
    }
    format!("<ul class=\"legend\">\n{shown}</ul>\n")
}

/// What is to be known to read the pictures of a step, of any rank.
fn about(shown: &[&StepTimeline], noun: &str) -> String {
    let note = match shown.iter().all(|timeline| timeline.sums.whole) {
        true => {
            "Times are of the whole step, including what is not drawn. Work that overlaps counts in full."
        }
        false => "It holds more work than fits in memory, so that no sums are given.",
    };
    // A step whose neighbours are of the same stage has less idle time than its gaps seem to be.
    let overlaps = match shown.iter().any(|timeline| timeline.sums.other_work_ns > 0) {
        false => "",
        true => {
            " In some of its gaps, the GPU works for other steps or stages. The bar of the mean step counts work for \
             other steps of its stage as busy."
        }
    };
    let has_samples = shown.iter().any(|timeline| timeline.host.is_some());
    let samples = if has_samples { about_samples(noun) } else { String::new() };
    format!("<p class=\"note\">{note}{overlaps}{samples}</p>\n")
}

fn by_class(work: &[TimelineSum]) -> Vec<(&str, u64)> {
    let mut classes: BTreeMap<&str, u64> = BTreeMap::new();
    for sum in work {
        let all = classes.entry(&sum.class).or_default();
        *all = all.saturating_add(sum.total_ns);
    }
    let mut classes: Vec<_> = classes.into_iter().collect();
    classes.order_by_key(|(_, ns)| Reverse(*ns));
    classes
}

/// Times as percentages of the width, with as many digits as give back the nanosecond.
struct Scale {
    /// Where the step begins.
    before_ns: u64,
    length_ns: u64,
    digits: usize,
}

impl Scale {
    fn of(extent: &Extent) -> Self {
        let Extent { before_ns, length_ns } = *extent;
        let digits = usize::try_from(length_ns.ilog10()).unwrap_or(0).saturating_sub(1);
        Self { before_ns, length_ns, digits: digits.clamp(1, 15) }
    }

    fn percent(&self, ns: u64) -> String {
        let digits = self.digits;
        let percent = format!("{:.digits$}", ns as f64 * 100.0 / self.length_ns as f64);
        format!("{}%", percent.trim_end_matches('0').trim_end_matches('.'))
    }

    /// Position and width; nothing reaches beyond the picture.
    fn span(&self, start_ns: u64, length_ns: u64) -> String {
        let start_ns = start_ns.saturating_add(self.before_ns).min(self.length_ns);
        let length_ns = length_ns.min(self.length_ns - start_ns);
        format!("x=\"{}\" width=\"{}\"", self.percent(start_ns), self.percent(length_ns))
    }

    fn range(&self, timeline: &StepTimeline, range: &TimelineRange) -> String {
        let name = timeline.names.get(range.name).map_or("", String::as_str);
        format!(
            "<svg class=\"range\" {} y=\"{}\" height=\"{BAR}\"><rect class=\"r{}\" width=\"100%\" \
             height=\"100%\"/><text x=\"3\" y=\"12\">{}</text></svg>\n",
            self.span(range.start_ns, range.length_ns),
            AXIS + range.depth * ROW,
            range.depth % 2,
            text(&shorten(name, RANGE_NAME_CHARS)),
        )
    }

    /// What the host does in a part of the step: the function of most samples, or where none has half of them several ones,
    /// each as high as its share.
    fn part(
        &self,
        timeline: &StepTimeline,
        part: &TimelineHostPart,
        (y, height): (u64, u64),
        bar: &[Part],
    ) -> String {
        let functions = part.functions.iter().map(|&(name, samples)| {
            let name = timeline.names.get(name).map_or("", String::as_str);
            (shorten(name, NAME_CHARS), samples)
        });
        let functions: Vec<(String, u64)> = functions.collect();
        let Some((first, most)) = functions.first() else { return String::new() };
        let span = self.span(part.start_ns, part.length_ns);
        let slice = |class: &str, y: u64, height: u64, label: &str, title: &str| {
            format!(
                "<svg class=\"range\" {span} y=\"{y}\" height=\"{height}\"><title>{}</title><rect class=\"{class}\" \
                 width=\"100%\" height=\"100%\"/><text x=\"3\" y=\"{}\">{}</text></svg>\n",
                text(title),
                height / 2 + 4,
                text(label),
            )
        };
        // Without its file: the tooltip has all of it.
        let short = |name: &str| {
            let function = name.split_once(" (").map_or(name, |(of, _)| of);
            shorten(function, RANGE_NAME_CHARS)
        };
        let of = |(name, samples): &(String, u64)| format!("{}: {name}", count(*samples));
        let listed: Vec<String> = functions.iter().map(of).collect();
        let all = format!("{}; {}", counted(part.samples, "sample"), listed.join("; "));
        let height = height.saturating_sub(ROW - BAR);
        if TimelineHostPart::is_main(*most, part.samples) {
            return slice(mark_in(bar, first).unwrap_or("r-host"), y, height, &short(first), &all);
        }
        let percent = |samples: u64| samples as f64 * 100.0 / part.samples.max(1) as f64;
        let high = |samples: u64| height * samples / part.samples.max(1);
        let (mut out, mut top, mut rest) = (String::new(), y, part.samples);
        for ((name, samples), (class, _)) in functions.iter().zip(SAMPLES.into_iter().take(3)) {
            if high(*samples) < LEAST_HIGH {
                continue;
            }
            let label = format!("{} {:.0} %", short(name), percent(*samples));
            let title =
                format!("{} of {}: {name}", count(*samples), counted(part.samples, "sample"));
            let class = mark_in(bar, name).unwrap_or(class);
            out.push_str(&slice(class, top, high(*samples), &label, &title));
            top += high(*samples);
            rest = rest.saturating_sub(*samples);
        }
        let left = (y + height).saturating_sub(top);
        if left >= LEAST_HIGH {
            let label = match rest == part.samples {
                true => "many functions".to_owned(),
                false => format!("{:.0} % others", percent(rest)),
            };
            out.push_str(&slice("r-after", top, left, &label, &all));
        }
        out
    }

    /// What a step of an engine takes after its range, below the ranges that are opened meanwhile.
    fn after_range(&self, timeline: &StepTimeline) -> Option<String> {
        let start_ns = timeline.step.host_ns;
        let length_ns = timeline.lasts_ns?.checked_sub(start_ns).filter(|ns| *ns > 0)?;
        Some(format!(
            "<svg class=\"range\" {} y=\"{AXIS}\" height=\"{BAR}\"><rect class=\"r-after\" width=\"100%\" \
             height=\"100%\"/><text x=\"3\" y=\"12\">{AFTER_RANGE}</text></svg>\n",
            self.span(start_ns, length_ns),
        ))
    }

    fn gaps(&self, gaps: &[TimelineGap], y: u64) -> String {
        let rect = |gap: &TimelineGap| {
            let kind = match (gap.other_work, gap.launch) {
                (true, _) => "w-other",
                (false, true) => "g-launch",
                (false, false) => "g-idle",
            };
            let span = self.span(gap.start_ns, gap.length_ns);
            format!("<rect class=\"{kind}\" {span}/>\n")
        };
        let rects: String = gaps.iter().map(rect).collect();
        format!("<g class=\"gaps\" transform=\"translate(0 {y})\">\n{rects}</g>\n")
    }

    fn lane(&self, lane: &TimelineLane, y: u64, listed: &Listed<'_>) -> String {
        let rects = lane.work.iter().map(|work| {
            let name = listed.number(work.name, &work.class);
            let name = name.map_or_else(String::new, |number| format!(" data-n=\"{number}\""));
            let rect = |class: &str, start_ns, length_ns| {
                let span = self.span(start_ns, length_ns);
                format!("<rect class=\"{class}\" {span}{name}/>\n")
            };
            let waiting_ns = work.waiting_ns.min(work.length_ns);
            let waiting = match waiting_ns {
                0 => String::new(),
                ns => rect(WAITING, work.start_ns, ns),
            };
            let start_ns = work.start_ns.saturating_add(waiting_ns);
            waiting + &rect(class_mark(&work.class), start_ns, work.length_ns - waiting_ns)
        });
        let rects: String = rects.collect();
        format!("<g class=\"lane\" transform=\"translate(0 {y})\">\n{rects}</g>\n")
    }

    fn ticks(&self, height: u64) -> String {
        let rough = self.length_ns as f64 / 4.0;
        let power = 10f64.powf(rough.log10().floor());
        let step =
            [5.0, 2.0, 1.0].into_iter().find(|by| by * power <= rough).unwrap_or(1.0) * power;
        let step = (step as u64).max(1);
        let unit = if self.length_ns >= 1_000_000 { ("ms", 1e6) } else { ("us", 1e3) };
        let tick = |at_ns: u64| {
            let at = self.percent(at_ns);
            let shown = super::chart::short(at_ns as f64 / unit.1);
            // Near the end, where it would be cut off, a label stands before its line.
            let place = match at_ns as f64 > self.length_ns as f64 * 0.85 {
                true => "dx=\"-3\" text-anchor=\"end\"",
                false => "dx=\"3\"",
            };
            format!(
                "<line x1=\"{at}\" x2=\"{at}\" y1=\"{AXIS}\" y2=\"{height}\"/><text x=\"{at}\" {place} \
                 y=\"13\">{shown} {}</text>\n",
                unit.0
            )
        };
        let end = self.length_ns;
        let ticks = (0u64..=6).map(|i| i.saturating_mul(step)).take_while(|at| *at < end);
        ticks.map(tick).collect()
    }
}

/// The names of the work of a step, the longest time first.
struct Listed<'t> {
    names: &'t [String],
    entries: Vec<&'t TimelineSum>,
    numbers: BTreeMap<(usize, &'t str), usize>,
    left_out: usize,
}

impl<'t> Listed<'t> {
    fn of(timeline: &'t StepTimeline) -> Self {
        let mut entries: Vec<_> = timeline.sums.work.iter().collect();
        let left_out = entries.len().saturating_sub(NAMES);
        entries.truncate(NAMES);
        let number = |(at, entry): (usize, &&'t TimelineSum)| {
            Some(((entry.name?, entry.class.as_str()), at))
        };
        let numbers = entries.iter().enumerate().filter_map(number).collect();
        Self { names: &timeline.names, entries, numbers, left_out }
    }

    fn number(&self, name: usize, class: &str) -> Option<usize> {
        self.numbers.get(&(name, class)).copied()
    }

    fn html(&self, step: &str) -> String {
        if self.entries.is_empty() {
            return String::new();
        }
        let row = |entry: &&TimelineSum| {
            let name = entry.name.map_or(Some(OTHERS), |at| self.names.get(at).map(String::as_str));
            let name = name.unwrap_or_default();
            let shown = shorten(name, NAME_CHARS);
            format!(
                "<tr><td><code>{}</code></td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
                 <td class=\"n\">{}</td></tr>\n",
                foreign(&shown),
                text(&entry.class),
                count(entry.calls),
                us3(entry.total_ns),
                us3(entry.longest_ns),
            )
        };
        let left_out = counted(self.left_out as u64, "name");
        let more = format!("<p class=\"note\">{left_out} with shorter times are left out.</p>\n");
        let more = if self.left_out > 0 { more } else { String::new() };
        format!(
            "<details class=\"names\"><summary>GPU work of this {}, by name</summary>\n\
             <div class=\"table\"><table aria-label=\"{}\"><thead><tr><th>Name</th><th>Class</th>\
             <th class=\"n\">Calls</th><th class=\"n\">Total (us)</th><th class=\"n\">Longest (us)</th>\
             </tr></thead>\n<tbody>\n{}</tbody></table></div>\n{more}</details>\n",
            foreign(step),
            attribute(&format!("GPU work of the {step}, by name")),
            self.entries.iter().map(row).collect::<String>(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_has_its_colour_of_the_bar() {
        let part = |label: &str, mark| Part {
            label: label.into(),
            mark,
            ns: 1.0,
            percent: 1.0,
            to: String::new(),
        };
        let bar = [part("idle: f (a.py:3 and 2 more lines)", "i-0"), part("copies", "w-copies")];
        assert_eq!(mark_in(&bar, "f (a.py)"), Some("i-0"));
        assert_eq!(mark_in(&bar, "f (a.pyx)"), None);
        assert_eq!(mark_in(&bar, "copies"), None);
    }
}
