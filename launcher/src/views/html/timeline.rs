//! The median step of a stage as a picture: ranges of the host, times without GPU work, and a lane for
//! each stream.
//!
//! Positions are percentages of the width, so that zooming is a wider picture in a box that scrolls:
//! panning is the browser's, by touch, mouse and keyboard, and names in ranges keep their shape.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::markdown::{attribute, class_mark, foreign, text};
use stage2_model::{StepTimeline, TimelineGap, TimelineLane, TimelineRange};
use stage2_text::numbers::{count, counted, ms3, us3};
use stage2_text::shorten;

/// Rows of ranges: what is deeper is counted.
const DEPTH: u64 = 8;
/// Lanes of streams: the rest is counted.
const LANES: usize = 24;
/// Names in the list below: those with the longest time.
const NAMES: usize = 300;
/// Characters of a name in that list, and in a range.
const NAME_LIMIT: usize = 160;
const RANGE_NAME_LIMIT: usize = 48;
/// Heights of the axis, a row and the space below it, in pixels.
const AXIS: u64 = 20;
const ROW: u64 = 20;
const BAR: u64 = 17;

/// The picture and its list of names.
pub(super) fn timeline(timeline: &StepTimeline, id: &str) -> String {
    if timeline.length_ns == 0 {
        return "<p class=\"absent\">None, because the step has no length.</p>\n".to_owned();
    }
    let scale = Scale::of(timeline.length_ns);
    let ranges = timeline.ranges.iter().filter(|range| range.depth < DEPTH);
    let deepest = ranges.clone().map(|range| range.depth).max().unwrap_or(0);
    let lanes = timeline.lanes.get(..LANES.min(timeline.lanes.len())).unwrap_or_default();
    let listed = Listed::of(timeline, lanes);
    let gaps_y = AXIS + (deepest + 1) * ROW;
    let lane_y = |at: usize| gaps_y + (at as u64 + 1) * ROW;
    let height = lane_y(lanes.len());

    let mut labels = vec![(AXIS, "host".to_owned())];
    labels.push((gaps_y, "GPU idle".to_owned()));
    labels.extend(lanes.iter().enumerate().map(|(at, lane)| (lane_y(at), lane.label.clone())));
    let labels: String = (labels.iter())
        .map(|(y, label)| format!("<text x=\"0\" y=\"{}\">{}</text>\n", y + 13, text(label)))
        .collect();
    let ranges: String = ranges.map(|range| scale.range(timeline, range)).collect();
    let gaps = scale.gaps(&timeline.gaps, gaps_y);
    let works: String = (lanes.iter().enumerate())
        .map(|(at, lane)| scale.lane(lane, lane_y(at), &listed))
        .collect();
    let pieces = lanes.iter().map(|lane| lane.work.len() as u64).sum::<u64>();
    let description = format!(
        "Step {} of the stage, {} ms long: {}, {}, {}. The list below has the names with their times.",
        timeline.step.number,
        ms3(timeline.length_ns),
        counted(timeline.ranges.len() as u64, "range"),
        counted(pieces, "piece") + " of GPU work",
        counted(timeline.gaps.len() as u64, "gap"),
    );
    let empty = match pieces {
        0 => {
            "<p class=\"absent\">No GPU work of this step was recorded, so that nobody knows what the \
              GPU did in it.</p>\n"
        }
        _ => "",
    };
    format!(
        "<div class=\"timeline\" id=\"{id}\" data-length=\"{}\">\n\
         <svg class=\"lanes\" height=\"{height}\" aria-hidden=\"true\">\n{labels}</svg>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Timeline; arrow keys pan\">\n\
         <svg class=\"steps\" height=\"{height}\" role=\"img\" \
         aria-labelledby=\"{id}-title {id}-text\">\n<title id=\"{id}-title\">Timeline of the median \
         step</title>\n<desc id=\"{id}-text\">{}</desc>\n<g class=\"axis\">\n{}</g>\n{ranges}{gaps}\
         {works}</svg>\n</div>\n</div>\n{empty}<p class=\"note\">{}{}</p>\n{}{}",
        timeline.length_ns,
        text(&description),
        scale.ticks(height),
        text(&description),
        left_out(timeline),
        legend(timeline, lanes),
        listed.html(),
    )
}

/// What is not in the picture.
fn left_out(timeline: &StepTimeline) -> String {
    let mut out = String::new();
    let deeper = timeline.ranges.iter().filter(|range| range.depth >= DEPTH).count();
    let lanes = timeline.lanes.len().saturating_sub(LANES);
    for (n, what) in [
        (timeline.left_out, "ranges and pieces of work, the shortest, did not fit"),
        (deeper as u64, "ranges are deeper than the picture"),
        (lanes as u64, "more streams have work"),
    ] {
        if n > 0 {
            out.push_str(&format!(" {} {what}.", count(n)));
        }
    }
    out
}

/// What the colours mean.
fn legend(timeline: &StepTimeline, lanes: &[TimelineLane]) -> String {
    let mut classes: BTreeMap<&str, u64> = BTreeMap::new();
    for work in lanes.iter().flat_map(|lane| &lane.work) {
        let sum = classes.entry(&work.class).or_default();
        *sum = sum.saturating_add(work.length_ns);
    }
    let mut classes: Vec<_> = classes.into_iter().collect();
    classes.sort_by_key(|(_, ns)| Reverse(*ns));
    let mut entries: Vec<(&str, &str, u64)> =
        classes.iter().map(|(class, ns)| (class_mark(class), *class, *ns)).collect();
    for (mark, label, launch) in
        [("g-launch", "launch gaps", true), ("g-idle", "other idle", false)]
    {
        let gaps = timeline.gaps.iter().filter(|gap| gap.launch == launch);
        let ns = gaps.fold(0u64, |sum, gap| sum.saturating_add(gap.length_ns));
        entries.extend((ns > 0).then_some((mark, label, ns)));
    }
    let entry = |(mark, label, ns): &(&str, &str, u64)| {
        format!(
            "<li><svg class=\"swatch\" aria-hidden=\"true\"><rect class=\"{mark}\" width=\"100%\" \
             height=\"100%\"/></svg>{} {} ms</li>\n",
            text(label),
            ms3(*ns)
        )
    };
    format!("<ul class=\"legend\">\n{}</ul>\n", entries.iter().map(entry).collect::<String>())
}

/// Times as percentages of the width, with as many digits as give back the nanosecond.
struct Scale {
    length_ns: u64,
    digits: usize,
}

impl Scale {
    fn of(length_ns: u64) -> Self {
        let digits = usize::try_from(length_ns.ilog10()).unwrap_or(0).saturating_sub(1);
        Self { length_ns, digits: digits.clamp(1, 15) }
    }

    fn percent(&self, ns: u64) -> String {
        let digits = self.digits;
        let percent = format!("{:.digits$}", ns as f64 * 100.0 / self.length_ns as f64);
        format!("{}%", percent.trim_end_matches('0').trim_end_matches('.'))
    }

    /// Position and width; nothing reaches beyond the picture.
    fn span(&self, start_ns: u64, length_ns: u64) -> String {
        let start_ns = start_ns.min(self.length_ns);
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
            text(&shorten(name, RANGE_NAME_LIMIT)),
        )
    }

    fn gaps(&self, gaps: &[TimelineGap], y: u64) -> String {
        let rect = |gap: &TimelineGap| {
            let kind = if gap.launch { "g-launch" } else { "g-idle" };
            let span = self.span(gap.start_ns, gap.length_ns);
            format!("<rect class=\"{kind}\" {span} y=\"{y}\" height=\"{BAR}\"/>\n")
        };
        format!("<g class=\"gaps\">\n{}</g>\n", gaps.iter().map(rect).collect::<String>())
    }

    fn lane(&self, lane: &TimelineLane, y: u64, listed: &Listed<'_>) -> String {
        let rects = lane.work.iter().map(|work| {
            let name = listed.number(work.name, &work.class);
            let name = name.map_or_else(String::new, |number| format!(" data-n=\"{number}\""));
            format!(
                "<rect class=\"{}\" {} y=\"{y}\" height=\"{BAR}\"{name}/>\n",
                class_mark(&work.class),
                self.span(work.start_ns, work.length_ns),
            )
        });
        format!("<g class=\"lane\">\n{}</g>\n", rects.collect::<String>())
    }

    /// Lines and times at round numbers.
    fn ticks(&self, height: u64) -> String {
        let rough = self.length_ns as f64 / 4.0;
        let power = 10f64.powf(rough.log10().floor());
        let step =
            [5.0, 2.0, 1.0].into_iter().find(|by| by * power <= rough).unwrap_or(1.0) * power;
        let step = (step as u64).max(1);
        let unit = if self.length_ns >= 1_000_000 { ("ms", 1e6) } else { ("µs", 1e3) };
        let tick = |at_ns: u64| {
            let at = self.percent(at_ns);
            let shown = super::chart::short(at_ns as f64 / unit.1);
            format!(
                "<line x1=\"{at}\" x2=\"{at}\" y1=\"{AXIS}\" y2=\"{height}\"/><text x=\"{at}\" dx=\"3\" \
                 y=\"13\">{shown} {}</text>\n",
                unit.0
            )
        };
        // Before the end, where a label would be cut off.
        let end = self.length_ns as f64 * 0.94;
        let ticks = (0u64..=6).map(|i| i.saturating_mul(step)).take_while(|at| (*at as f64) < end);
        ticks.map(tick).collect()
    }
}

/// A name in the list.
struct Entry<'t> {
    name: usize,
    class: &'t str,
    calls: u64,
    total_ns: u64,
    longest_ns: u64,
}

/// The names of the work of a step, the longest time first.
struct Listed<'t> {
    names: &'t [String],
    entries: Vec<Entry<'t>>,
    numbers: BTreeMap<(usize, &'t str), usize>,
    left_out: usize,
}

impl<'t> Listed<'t> {
    fn of(timeline: &'t StepTimeline, lanes: &'t [TimelineLane]) -> Self {
        let mut sums: BTreeMap<(usize, &str), Entry<'t>> = BTreeMap::new();
        for work in lanes.iter().flat_map(|lane| &lane.work) {
            let class = work.class.as_str();
            let new = Entry { name: work.name, class, calls: 0, total_ns: 0, longest_ns: 0 };
            let entry = sums.entry((work.name, class)).or_insert(new);
            entry.calls += 1;
            entry.total_ns = entry.total_ns.saturating_add(work.length_ns);
            entry.longest_ns = entry.longest_ns.max(work.length_ns);
        }
        let mut entries: Vec<_> = sums.into_values().collect();
        entries.sort_by_key(|entry| Reverse(entry.total_ns));
        let left_out = entries.len().saturating_sub(NAMES);
        entries.truncate(NAMES);
        let numbers =
            entries.iter().enumerate().map(|(at, entry)| ((entry.name, entry.class), at)).collect();
        Self { names: &timeline.names, entries, numbers, left_out }
    }

    fn number(&self, name: usize, class: &str) -> Option<usize> {
        self.numbers.get(&(name, class)).copied()
    }

    fn html(&self) -> String {
        if self.entries.is_empty() {
            return String::new();
        }
        let row = |entry: &Entry<'_>| {
            let name = self.names.get(entry.name).map_or("", String::as_str);
            let shown = shorten(name, NAME_LIMIT);
            format!(
                "<tr><td><code>{}</code></td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
                 <td class=\"n\">{}</td></tr>\n",
                foreign(&shown),
                text(entry.class),
                count(entry.calls),
                us3(entry.total_ns),
                us3(entry.longest_ns),
            )
        };
        let more = match self.left_out {
            0 => String::new(),
            n => format!(
                "<p class=\"note\">{} with shorter times are left out.</p>\n",
                counted(n as u64, "name")
            ),
        };
        format!(
            "<details class=\"names\"><summary>GPU work of this step by name</summary>\n\
             <div class=\"table\"><table aria-label=\"{}\"><thead><tr><th>name</th><th>class</th>\
             <th class=\"n\">calls</th><th class=\"n\">total, µs</th><th class=\"n\">longest, µs</th>\
             </tr></thead>\n<tbody>\n{}</tbody></table></div>\n{more}</details>\n",
            attribute("GPU work of the step by name"),
            self.entries.iter().map(row).collect::<String>(),
        )
    }
}
