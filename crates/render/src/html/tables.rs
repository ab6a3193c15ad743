//! Tables of the page that are in no other page: kernels with what they lose, to sort and to filter where
//! scripts are allowed; kernel time by class; ranks against stages.

use std::collections::{BTreeMap, BTreeSet};

use stage2_contract::order::{IntoOrdered as _, Order as _};
use stage2_contract::text::numbers::{
    ABSENT, count, counted, ms3, or_absent, percent1, shown_time, us3,
};
use stage2_contract::text::{shorten, shorten_kernel};
use stage2_model::kernels::{
    ClassFloor, ClassSum, Kernel, Loss, class_floors, classes, model_stages, stage_totals,
    stages_with_cold_calls, steps, top_kernels, with_cold_calls,
};
use stage2_model::{
    Bottleneck, BottleneckKind, KernelRow, LateCause, LateDelays, LateRow, LateSteps, RankStageRow,
    Report, StageAnswer, StepTimeline, late_in_turn,
};

use crate::html::markdown::{attribute, class_mark, foreign, text};
use crate::html::roofline::has_points;
use crate::html::timeline::{first_shown, has_bar};
use crate::page::{above_floor, lead_first, lost_by_counters, ms_of, to_measure, told};
use crate::table::capitalised;

/// Rows: those with the longest time.
const ROWS: usize = 500;
const NAME_CHARS: usize = 1_000;
pub(super) const SHORT_CHARS: usize = 60;
/// Kernels with less of the kernel time of their stage are folded: whatever becomes of one, no step gets shorter by as
/// much as times vary between two runs. Of a fixed time, it would depend on the length of the run. Percent.
const SMALL_PERCENT: f64 = 0.1;
/// Classes of a stage.
const CLASSES: usize = 20;
/// Of these so many are named without a click.
const CLASSES_NAMED: usize = 3;

/// The kernels of the page with what they lose, and the stage whose kernels stand on its first screens.
pub(super) struct Kernels<'k> {
    losses: Vec<Loss<'k>>,
    /// As the kernels, but those of each launch grid apart: counters are of one launch.
    launches: Vec<Kernel<'k>>,
    /// Those of [`steps`].
    steps: BTreeMap<&'k str, f64>,
    /// What the times of a step of each stage are of.
    units: BTreeMap<&'k str, &'static str>,
    /// Kernels of cold calls only, which are left out.
    only_cold: usize,
    /// The first one whose kernels have times per step.
    lead: Option<&'k StageAnswer>,
}

impl<'k> Kernels<'k> {
    /// Of all `kernels` of the report.
    pub(super) fn of(report: &'k Report, kernels: &'k [Kernel<'k>]) -> Self {
        let steps = steps(report);
        let is_warm = |kernel: &&Kernel<'_>| kernel.usual_calls > 0;
        let losses: Vec<Loss<'k>> =
            kernels.iter().filter(is_warm).map(|kernel| Loss::of(kernel, &steps)).collect();
        let has_times = |answer: &&StageAnswer| {
            let mut timed = losses.iter().filter(|loss| loss.ns_of_step.is_some());
            timed.any(|loss| loss.kernel.row.stage == answer.stage)
        };
        let lead = lead_first(report).find(has_times);
        let totals = stage_totals(report);
        let of_stage = |row: &KernelRow| totals.get(row.stage.as_str()).copied().unwrap_or(0);
        let of_grid = |row: &'k KernelRow| {
            (row.stage.as_str(), row.name_index, row.launch.map(|launch| launch.grid))
        };
        let mut launches = top_kernels(report, usize::MAX, of_grid, of_stage);
        launches.retain(|kernel| kernel.usual_calls > 0);
        let unit = |answer: &'k StageAnswer| {
            Some((answer.stage.as_str(), answer.step.as_ref()?.shown_unit()))
        };
        let units = report.answer.stages.iter().filter_map(unit).collect();
        Self { only_cold: kernels.len() - losses.len(), lead, losses, launches, steps, units }
    }

    /// The kernels of a stage.
    pub(super) fn of_stage(&self, stage: &str) -> impl Iterator<Item = &Loss<'k>> {
        self.losses.iter().filter(move |loss| loss.kernel.row.stage == stage)
    }

    /// Kernels of a stage, those of each launch grid apart.
    pub(super) fn launches(&self, stage: &str) -> impl Iterator<Item = &Kernel<'k>> {
        self.launches.iter().filter(move |kernel| kernel.row.stage == stage)
    }

    /// What one of the launches loses.
    pub(super) fn loss<'l>(&self, kernel: &'l Kernel<'l>) -> Loss<'l> {
        Loss::of(kernel, &self.steps)
    }

    /// The text with links from the names of kernels of the lead stage, of at most `chars`, to their rows.
    pub(super) fn linked(&self, html: String, chars: usize) -> String {
        let lead = self.lead.map(|lead| self.links(&lead.stage, chars));
        with_links(html, &lead.unwrap_or_default())
    }

    /// The rows of a table with links to those of `all`, the table of kernels: each to kernels of the stages that it is
    /// about, the first one first, as another may run the same.
    pub(super) fn linked_rows(&self, html: &str, all: &str) -> String {
        let row = |row: &str| {
            let stages = self.losses.iter().map(|loss| loss.kernel.row.stage.as_str());
            let place = |stage: &str| row.find(&format!("{}: ", text(stage)));
            let stages = stages.filter_map(|stage| Some((place(stage)?, stage)));
            let stages: BTreeSet<(usize, &str)> = stages.into_set();
            let linked = |row, (_, stage)| {
                let mut links = self.links(stage, SHORT_CHARS);
                links.retain(|(_, anchor)| all.contains(&format!("id=\"{anchor}\"")));
                with_links(row, &links)
            };
            stages.into_iter().fold(row.to_owned(), linked)
        };
        html.split_inclusive("</tr>").map(row).collect()
    }

    /// Names of kernels of a stage with the places of their rows.
    fn links(&self, stage: &str, chars: usize) -> Vec<(String, String)> {
        let link = |loss: &Loss<'_>| {
            let name = text(&shorten_kernel(&loss.kernel.row.kernel, chars));
            (name, self.anchor(loss.kernel))
        };
        self.of_stage(stage).take(TOP).map(link).collect()
    }

    /// Identifier of the row of a kernel. Stages may share kernels: those of the lead stage have the short one.
    pub(super) fn anchor(&self, kernel: &Kernel<'_>) -> String {
        let row = kernel.row;
        let of = match self.lead.is_some_and(|lead| lead.stage == row.stage) {
            true => String::new(),
            false => format!("-{}", row.stage),
        };
        let id = format!("k-{}{of}", row.kernel_id);
        attribute(&id).replace(char::is_whitespace, "-")
    }
}

/// A row for each kernel of a stage, over its GPUs. `stages` have the sections 1, 2 and so on; names lead to
/// their timelines, and shares of what is attainable to their rooflines.
pub(super) fn table(report: &Report, kernels: &Kernels<'_>, stages: &[&str]) -> String {
    let only_cold = kernels.only_cold;
    let mut losses: Vec<&Loss<'_>> = kernels.losses.iter().collect();
    if losses.is_empty() {
        let why = match only_cold {
            0 => "no kernel was recorded",
            _ => "no kernel ran after the first, cold call; kernels.csv lists those of that call",
        };
        return format!("<p class=\"absent\">None: {why}.</p>\n");
    }
    // The stages in the order of the page; those without a section last.
    let place = |loss: &&Loss<'_>| {
        let stage = loss.kernel.row.stage.as_str();
        stages.iter().position(|known| *known == stage).unwrap_or(stages.len())
    };
    losses.order_by_key(place);
    let has_counters =
        losses.iter().any(|loss| loss.attainable.is_some() || loss.kernel.known_bound().is_some());
    let several = report.devices.len() > 1;
    let sections: BTreeMap<&str, Section<'_>> = (stages.iter().zip(1..))
        .map(|(stage, number)| (*stage, Section::of(report, kernels, stage, number)))
        .into_map();
    let of_model: BTreeSet<&str> = model_stages(report).map(|row| row.stage.as_str()).into_set();
    let is_outside = |loss: &Loss<'_>| !of_model.contains(loss.kernel.row.stage.as_str());
    // Without stages of the model there is nothing to be outside of.
    let has_stages = !losses.iter().all(|loss| is_outside(loss));
    let everywhere = |loss: &&Loss<'_>| loss.kernel.devices().len() == report.devices.len();
    // What is the same in each row stands above them.
    let on_all = several && losses.iter().all(everywhere);
    let several = several && !on_all;
    let row = |loss: &&Loss<'_>| {
        let Kernel { row, usual_ns, usual_calls, percent, .. } = loss.kernel;
        // Of a report that was made by hand, it may be anything.
        let id = attribute(&row.kernel_id);
        let section = sections.get(row.stage.as_str());
        let roofline = section.and_then(|section| section.roofline.clone());
        let roofline = roofline.filter(|_| loss.attainable.is_some());
        let devices = match (several, loss.kernel.devices().as_slice()) {
            (false, _) => String::new(),
            (true, [one]) => format!("<td>{}</td>", foreign(one)),
            (true, many) => format!(
                "<td class=\"n\" title=\"{}\">{}</td>",
                attribute(&many.join(", ")),
                counted(many.len() as u64, "GPU")
            ),
        };
        let of_counters = match has_counters {
            true => format!(
                "<td>{}</td><td class=\"n\">{}</td><td class=\"n\"{}>{}</td>",
                text(loss.kernel.known_bound().as_deref().unwrap_or(ABSENT)),
                link(roofline, "", or_absent(loss.attainable, |share| percent1(share * 100.0))),
                loss.ns_per_step.map_or_else(String::new, |ns| {
                    let unit = kernels.units.get(row.stage.as_str()).copied().unwrap_or("step");
                    let part = loss.measured_in_part().map(|part| {
                        format!("; its counters are of {} % of its time", percent1(part * 100.0))
                    });
                    let part = part.unwrap_or_default();
                    format!(" title=\"{} ms per {}{part}\"", ms_of(ns), attribute(unit))
                }),
                or_absent(loss.ns_in_all(), ms_of),
            ),
            false => String::new(),
        };
        let small = percent.is_some_and(|percent| percent < SMALL_PERCENT);
        format!(
            "<tr{}{} id=\"{}\" data-id=\"{id}\" title=\"kernel {id}\"><td><code>{}</code></td><td>{}</td><td>{}</td>\
             {of_counters}<td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>{devices}</tr>\n",
            if small { " class=\"small\"" } else { "" },
            if has_stages && is_outside(loss) { " data-outside" } else { "" },
            kernels.anchor(loss.kernel),
            kernel_name(report, loss.kernel, section),
            foreign(&shorten(&row.stage, 60)),
            text(&row.class),
            or_absent(*usual_ns, ms3),
            or_absent(*percent, percent1),
            count(*usual_calls),
            or_absent(loss.kernel.usual_mean_ns(), us3),
        )
    };
    let mut more = match losses.len() > ROWS {
        true => format!(" The {ROWS} with the longest time are here; kernels.csv lists all."),
        false => String::new(),
    };
    if on_all {
        more.push_str(" Each kernel runs on all GPUs.");
    }
    if only_cold > 0 {
        let kernels = counted(only_cold as u64, "kernel");
        more.push_str(&format!(
            " Not shown: {kernels} that ran only in cold calls; kernels.csv lists them."
        ));
    }
    let mut head = vec![("Kernel", false), ("Stage", false), ("Class", false)];
    let of_counters = [("Bound", false), ("Attains (%)", true), ("Loses up to (ms)", true)];
    head.extend(of_counters.into_iter().filter(|_| has_counters));
    head.extend([("Total (ms)", true), ("Share (%)", true), ("Calls", true), ("Mean (us)", true)]);
    head.extend(several.then_some(("GPUs", false)));
    // As the rows come.
    let sorted = |name: &str| if name == "Total (ms)" { " aria-sort=\"descending\"" } else { "" };
    let head = head.iter().map(|(name, number)| {
        column(name, *number).replacen("<th", &format!("<th{}", sorted(name)), 1)
    });
    let counters = match has_counters {
        true => {
            "<b>attains</b>: the share of the rate that the hardware allows at the kernel's operations per \
             byte, by ncu or by sampled counters; it leads to the roofline. <b>loses up to</b>: the part of its total time \
             that it would not need at that rate, so it can be compared across stages; the tooltip shows it per step, \
             token or call. A latency-bound kernel can lose less, because each of its calls keeps at least the time of the run's shortest kernel. "
        }
        false => "",
    };
    format!(
        "<p class=\"note\">One row for each kernel of a stage, over all GPUs and the whole run; shares are of \
         the stage's kernel time. All numbers: warm calls only, where there are any.{} {counters}Click a kernel's name to find it in the timeline of the median step \
         (names there have no #number). The tooltip shows its full name, which is also what is copied.{more}</p>\n\
         <div class=\"table tall\"><table id=\"kernels\" class=\"sortable\"><thead><tr>{}</tr></thead>\n\
         <tbody>\n{}</tbody></table></div>\n",
        with_cold_calls(report).map_or_else(String::new, |said| format!(" {}", text(&said))),
        head.collect::<String>(),
        losses.iter().take(ROWS).map(row).collect::<String>(),
    )
}

/// The short name, with the full one as a hint; it leads to the timeline that has a bar of it.
fn kernel_name(report: &Report, kernel: &Kernel<'_>, section: Option<&Section<'_>>) -> String {
    named(report, kernel, section.and_then(|section| section.timeline_of(&kernel.row.kernel)))
}

fn named(report: &Report, kernel: &Kernel<'_>, to: Option<String>) -> String {
    let row = kernel.row;
    let full = report.kernel_names.get(row.name_index).map(|name| name.demangled.as_str());
    let full = full.filter(|name| !name.is_empty()).unwrap_or(&row.kernel);
    let full = format!(" title=\"{}\"", attribute(&shorten(full, NAME_CHARS)));
    link(to, &full, foreign(&shorten_kernel(&row.kernel, SHORT_CHARS)))
}

/// Neither tags nor links that are there already change, and a name that is a part of a longer one stays.
fn with_links(html: String, links: &[(String, String)]) -> String {
    let links = links.iter().filter(|(name, _)| !name.is_empty());
    links.fold(html, |html, (name, anchor)| {
        let link = format!("<a href=\"#{anchor}\">{name}</a>");
        let (mut out, mut is_link) = (String::with_capacity(html.len()), false);
        for piece in html.split_inclusive('>') {
            let (text, tag) = piece.split_at(piece.rfind('<').unwrap_or(piece.len()));
            match is_link {
                true => out.push_str(text),
                false => push_linked(&mut out, text, name, &link),
            }
            out.push_str(tag);
            is_link = tag.starts_with("<a ") || is_link && tag != "</a>";
        }
        out
    })
}

fn push_linked(out: &mut String, text: &str, name: &str, link: &str) {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(name) {
        out.push_str(before);
        let is_part = before.ends_with(is_word) || after.starts_with(is_word);
        out.push_str(if is_part { name } else { link });
        rest = after;
    }
    out.push_str(rest);
}

fn link(to: Option<String>, full: &str, inner: String) -> String {
    match to {
        Some(to) => format!("<a href=\"{to}\"{full}>{inner}</a>"),
        None if full.is_empty() => inner,
        None => format!("<span{full}>{inner}</span>"),
    }
}

/// Where the pictures of a stage are that a kernel is in.
struct Section<'r> {
    number: usize,
    /// The timeline that links lead to.
    timeline: Option<&'r StepTimeline>,
    roofline: Option<String>,
}

impl<'r> Section<'r> {
    fn of(report: &'r Report, kernels: &Kernels<'_>, stage: &str, number: usize) -> Self {
        let timelines = report.step_timelines.iter().filter(|found| found.stage == stage);
        let roofline = has_points(kernels, stage).then(|| format!("#stage-{number}-roofline"));
        Self { number, timeline: first_shown(&timelines.collect::<Vec<_>>()), roofline }
    }

    /// The link to the timeline, if a bar in it is the kernel.
    fn timeline_of(&self, kernel: &str) -> Option<String> {
        self.timeline.filter(|timeline| has_bar(timeline, kernel))?;
        Some(format!("#stage-{}-timeline", self.number))
    }
}

/// Rows of the short table, ...
const TOP: usize = 10;
/// ... and of these the most kernels of communication, the last ones.
const COMMUNICATION: usize = 2;

/// The kernels of the longest stage that lose most in a step, or without counters take longest; nothing where neither
/// is known.
pub(super) fn top_losses(report: &Report, kernels: &Kernels<'_>) -> Option<String> {
    let answer = kernels.lead?;
    let of_stage = kernels.of_stage(&answer.stage);
    let mut rows: Vec<&Loss<'_>> = of_stage.filter(|loss| loss.ns_of_step.is_some()).collect();
    rows.sort_by(|a, b| {
        let key =
            |loss: &Loss<'_>| (loss.ns_per_step.unwrap_or(-1.0), loss.ns_of_step.unwrap_or(0.0));
        let (a, b) = (key(a), key(b));
        b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1))
    });
    // Communication waits for as long as another rank lets it.
    let is_apart = |kernel: &Kernel<'_>| kernel.row.class == "communication";
    let apart = kernels.of_stage(&answer.stage).filter(|loss| is_apart(loss.kernel));
    let apart: f64 = apart.filter_map(|loss| loss.kernel.percent).sum();
    let share = |kernel: &Kernel<'_>| {
        let percent = kernel.percent.filter(|_| !is_apart(kernel))?;
        (apart < 100.0).then(|| (percent * 100.0 / (100.0 - apart)).min(100.0))
    };
    let of = if apart > 0.0 { " except communication" } else { "" };
    let (communication, mut rows): (Vec<_>, Vec<_>) =
        rows.into_iter().partition(|loss| is_apart(loss.kernel));
    // The first row is the kernel of the line above.
    let floors = class_floors(answer, &kernels.losses);
    let of_line = told(answer, &kernels.losses, &floors).map(|(loss, _)| loss);
    let is_told = |loss: &&Loss<'_>| of_line.is_some_and(|told| std::ptr::eq(told, *loss));
    let told = rows.iter().position(is_told).unwrap_or(0);
    if let Some(up_to_it) = rows.get_mut(..=told) {
        up_to_it.rotate_right(1);
    }
    let communication: Vec<_> = communication.into_iter().take(COMMUNICATION).collect();
    rows.truncate(TOP - communication.len());
    let has_counters = rows.iter().chain(&communication).any(|loss| loss.attainable.is_some());
    let unit = answer.step.as_ref().map_or("step", |step| step.shown_unit());
    let row = |loss: &&Loss<'_>| {
        let row = loss.kernel.row;
        let of_counters = match has_counters {
            true => format!(
                "<td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>",
                text(loss.kernel.known_bound().as_deref().unwrap_or(ABSENT)),
                or_absent(loss.attainable, |share| percent1(share * 100.0)),
                or_absent(loss.ns_per_step, ms_of),
            ),
            false => String::new(),
        };
        format!(
            "<tr><td><code>{}</code></td><td>{}</td>{of_counters}<td class=\"n\">{}</td><td class=\"n\">{}</td>\
             </tr>\n",
            named(report, loss.kernel, Some(format!("#{}", kernels.anchor(loss.kernel)))),
            text(&row.class),
            or_absent(loss.ns_of_step, ms_of),
            or_absent(share(loss.kernel), percent1),
        )
    };
    let mut head = vec![("Kernel".to_owned(), false), ("Class".to_owned(), false)];
    if has_counters {
        head.push(("Bound".to_owned(), false));
        head.push(("Attains (%)".to_owned(), true));
        head.push((format!("Loses up to (ms per {unit})"), true));
    }
    head.push((format!("Time (ms per {unit})"), true));
    let of_what = if communication.is_empty() { "Share (%)" } else { "Share of compute (%)" };
    head.push((of_what.to_owned(), true));
    let mut body: String = rows.iter().map(row).collect();
    if !communication.is_empty() {
        body.push_str(&format!(
            "<tr class=\"apart\"><th colspan=\"{}\">Communication, not ranked with the others: its time includes waiting for other \
             ranks</th></tr>\n{}",
            head.len(),
            communication.iter().map(row).collect::<String>()
        ));
    }
    let head: String = head.iter().map(|(name, number)| column(name, *number)).collect();
    let is_bound_by_latency = |loss: &&Loss<'_>| {
        loss.kernel.known_bound().is_some_and(|bound| bound.starts_with("latency"))
    };
    let latency = match rows.iter().any(is_bound_by_latency) {
        true => {
            "A latency-bound kernel can lose less than its gap to the roof, because each of its calls keeps at least \
             the time of the run's shortest kernel. "
        }
        false => "",
    };
    let (order, how) = match has_counters {
        true => ("lose most", lost_by_measured(answer, &kernels.losses) + latency),
        false if told > 0 => (
            "take longest, the first one of those that could gain most",
            lost_in_all(report, answer, &floors),
        ),
        false => ("take longest", lost_in_all(report, answer, &floors)),
    };
    Some(format!(
        "<p class=\"note\">Kernels of <code>{}</code> that {order} (per-GPU average). Share is of the time of all its \
         kernels{of}. {how}{}<a href=\"#all-kernels\">All kernels</a> of all stages are listed below.</p>\n\
         <div class=\"table\"><table class=\"top\"><thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table>\
         </div>\n",
        foreign(&shorten(&answer.stage, 60)),
        answer.bottleneck.as_ref().and_then(waiting).unwrap_or_default(),
    ))
}

/// What all kernels of a stage lose at the most, and how much of that those do that are ranked.
fn lost_by_measured(answer: &StageAnswer, losses: &[Loss<'_>]) -> String {
    let above = above_floor(answer).map(|above| capitalised(&above) + ". ");
    let counted = lost_by_counters(answer, losses).map(|counted| capitalised(&counted) + " ");
    text(&(above.unwrap_or_default() + &counted.unwrap_or_default()))
}

/// What the kernels of a stage lose at the most, together and by class, as far as floors tell, and how to see what each
/// one loses.
fn lost_in_all(report: &Report, answer: &StageAnswer, floors: &[ClassFloor]) -> String {
    let of_class = |class: &ClassFloor| {
        let [lost, all, floor] = [class.above_ns(), class.ns, class.floor_ns].map(shown_time);
        match class.reads {
            Some(reads) => {
                let class = text(&class.class);
                format!("{class} {lost} of {all}, because reading {reads} once takes {floor}")
            }
            None => {
                format!(
                    "kernels that read neither weights nor KV cache have no floor, so all {all} count"
                )
            }
        }
    };
    let of_classes: Vec<String> = floors.iter().map(of_class).collect();
    let of_classes = match of_classes.is_empty() {
        true => ". ".to_owned(),
        false => format!(" ({}). ", of_classes.join("; ")),
    };
    above_floor(answer).map(|known| text(&capitalised(&known)) + &of_classes).unwrap_or_default()
        + "To see what each one loses, "
        + to_measure(report)
        + ". "
}

/// How much of the communication is not transfer.
fn waiting(mean: &Bottleneck) -> Option<String> {
    let parts = if mean.is_of_step() { &mean.parts[..] } else { &[] };
    let ranks = parts.iter().find(|part| part.kind == BottleneckKind::Ranks)?;
    let waiting = shown_time(ranks.ns as f64);
    Some(format!("Communication kernels wait {waiting} per {} for other ranks. ", text(&mean.of)))
}

fn column(name: &str, number: bool) -> String {
    let class = if number { " class=\"n\"" } else { "" };
    format!("<th scope=\"col\"{class}>{name}</th>")
}

/// Kernel time of a stage by class, as bars with their numbers.
pub(super) fn by_class(report: &Report, stage: &str) -> String {
    let rows = report.kernels.iter().filter(|row| row.stage == stage);
    let classes: Vec<_> =
        classes(rows).into_iter().filter(|class| class.usual_ns > Some(0)).take(CLASSES).collect();
    if classes.is_empty() {
        return "<p class=\"absent\">None: no kernel of this stage has a time.</p>\n".to_owned();
    }
    let bar = |class: &ClassSum<'_>| {
        format!(
            "<tr><td>{}</td><td class=\"bar\"><svg aria-hidden=\"true\"><rect class=\"{}\" \
             width=\"{:.3}%\" height=\"100%\"/></svg></td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n",
            text(class.class),
            class_mark(class.class),
            class.percent.unwrap_or(0.0).clamp(0.0, 100.0),
            or_absent(class.percent, percent1),
            or_absent(class.usual_ns, ms3),
            count(class.usual_calls),
        )
    };
    let most = classes.iter().take(CLASSES_NAMED);
    let most =
        most.map(|class| format!("{} {} %", class.class, or_absent(class.percent, percent1)));
    let mut most: Vec<String> = most.collect();
    let more = classes.len().saturating_sub(CLASSES_NAMED);
    most.extend((more > 0).then(|| format!("{more} more")));
    format!(
        "<details>\n<summary>Kernel time by class: {}</summary>\n\
         <div class=\"table\"><table class=\"classes\"><thead><tr><th>Class</th><th></th>\
         <th class=\"n\">Share (%)</th><th class=\"n\">Total (ms)</th><th class=\"n\">Calls</th></tr>\
         </thead>\n<tbody>\n{}</tbody></table></div>\n\
         <p class=\"note\">Shares of the sum of the kernel times of the stage. All numbers: {}.</p>\n</details>\n",
        text(&most.join(", ")),
        classes.iter().map(bar).collect::<String>(),
        match stages_with_cold_calls(report).any(|row| row.stage == stage) {
            true => "all calls, with the first, cold one",
            false => "warm calls only, where there are any",
        }
    )
}

/// Rows: the ranks; and columns: the stages.
const RANKS: usize = 1_024;
const STAGES: usize = 16;
/// Shades; the darkest is for times that are longer by half or more.
const SHADES: f64 = 8.0;
const DARKEST: f64 = 0.5;

/// Who is late and who waits, where the collectives tell; else the host times. Nothing for a single process.
pub(super) fn ranks_by_stage(report: &Report) -> Option<String> {
    let waits = report.ranks.stages.iter().any(|row| row.waiting_ns.is_some());
    if waits { Some(late_and_waiting(report)) } else { heat_map(report) }
}

/// A row for each stage and rank. The host times of ranks that wait for each other are alike and say nothing,
/// so they are not here.
fn late_and_waiting(report: &Report) -> String {
    let ranks = &report.ranks;
    let mut stages: Vec<&str> = Vec::new();
    for row in model_stages(report).filter(|row| ranks.stages.iter().any(|r| r.stage == row.stage))
    {
        stages.push(&row.stage);
    }
    let more_stages = stages.len() > STAGES;
    stages.truncate(STAGES);
    let mut rows: Vec<&RankStageRow> = Vec::new();
    for stage in stages {
        let mut of_stage: Vec<_> = ranks.stages.iter().filter(|row| row.stage == stage).collect();
        of_stage.order_by_key(|row| (row.rank, &row.who));
        rows.extend(of_stage);
    }
    let late = |row: &RankStageRow| {
        ranks.late.iter().find(|late| late.stage == row.stage && late.file == row.file)
    };
    // Where nobody is late, or there are few steps, the longest is chance.
    let is_late = |row: &&RankStageRow| {
        late(row).is_some_and(|late| late.delays.is_some() && late.shows_cause())
    };
    let shade = |ns: u64, of: &dyn Fn(&RankStageRow) -> Option<u64>, stage: &str| {
        let of_stage = rows.iter().filter(|row| row.stage == stage);
        let most = of_stage.filter_map(|row| of(row)).max().unwrap_or(0).max(1);
        (ns as f64 / most as f64 * SHADES).clamp(0.0, SHADES).round()
    };
    let has_late = |stage: &str| rows.iter().any(|row| row.stage == stage && is_late(row));
    let late_ns = |row: &RankStageRow| Some(late(row)?.late_total_ns);
    // Where a stage has warm instances, a rank without any waited in none of them.
    let has_warm =
        |stage: &str| rows.iter().any(|row| row.stage == stage && row.warm_waiting_ns.is_some());
    let waiting_ns = |row: &RankStageRow| match has_warm(&row.stage) {
        true => row.warm_waiting_ns,
        false => row.waiting_ns,
    };
    let transfer_ns = |row: &RankStageRow| match has_warm(&row.stage) {
        true => row.warm_transfer_ns,
        false => row.transfer_ns,
    };
    let busy_ns = |row: &RankStageRow| match has_warm(&row.stage) {
        true => row.warm_idle?.busy_ns,
        false => row.gpu_busy_ns,
    };
    let cell = |row: &RankStageRow, of: &dyn Fn(&RankStageRow) -> Option<u64>| match of(row) {
        Some(ns) if !has_late(&row.stage) => format!("<td class=\"n\">{}</td>", ms3(ns)),
        Some(ns) => format!("<td class=\"n heat-{}\">{}</td>", shade(ns, of, &row.stage), ms3(ns)),
        None => format!("<td class=\"n\">{ABSENT}</td>"),
    };
    let line = |row: &&RankStageRow| {
        let found = late(row).and_then(|late| Some((late, late.delays.as_ref()?)));
        let often = found.map(|(late, delays)| match &delays.steps {
            Some(LateSteps { noun, late, of, .. }) => {
                format!("{} of {}", count(*late), counted(*of, noun))
            }
            None => {
                let all = counted(late.collectives, "collective");
                format!("{} of {all}", count(delays.collectives))
            }
        });
        let is_many = |(late, _): &(&LateRow, &LateDelays)| late.shows_cause();
        // Its total has the delays that are not told from noise.
        let often = often.or_else(|| {
            let late = late(row)?;
            Some(match late_in_turn(&ranks.late, &row.stage) {
                Some(_) => format!(
                    "alternates: last at {} of {}",
                    count(late.late_collectives),
                    counted(late.collectives, "collective")
                ),
                None => "no delay above the noise".to_owned(),
            })
        });
        let by = found.map(|(_, delays)| {
            delays
                .steps
                .as_ref()
                .map_or((delays.mean_ns, delays.max_ns), |s| (s.median_ns, s.max_ns))
        });
        format!(
            "<tr><th scope=\"row\">{}</th><td>{}</td><td class=\"n words\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td>{}{}<td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n",
            foreign(&row.who),
            foreign(&shorten(&row.stage, 60)),
            text(&often.unwrap_or_else(|| ABSENT.to_owned())),
            found.filter(is_many).map_or(ABSENT, |(_, delays)| because_of(delays.cause())),
            or_absent(by.map(|(usual_ns, _)| usual_ns), ms3),
            or_absent(by.map(|(_, most_ns)| most_ns), ms3),
            cell(row, &late_ns),
            cell(row, &waiting_ns),
            or_absent(transfer_ns(row), ms3),
            or_absent(busy_ns(row), ms3),
        )
    };
    let mut notes = String::from(
        "The delay of a rank at a collective: how long after the median of the others it arrives. Its delay in a step: the sum \
         of these. Alternates: the ranks take turns arriving last, and no rank is consistently late. Late in, Median and Longest count delays above the noise (median: of steps, else the mean of collectives); \
         the total counts every delay above the clock error. Waiting: its time in collectives before the last rank \
         arrived; transfer: the rest of that time. Of a stage in which a rank is late, the darkest cell has the largest value. Ranks that wait for each other have \
         similar host times.",
    );
    if rows.len() > RANKS {
        notes.push_str(&format!(" {} more rows are in metrics.json.", rows.len() - RANKS));
    }
    if more_stages {
        notes.push_str(" More stages are in metrics.json.");
    }
    let head = [
        "Late in",
        "Late because of",
        "Median delay (ms)",
        "Longest delay (ms)",
        "Total delay (ms)",
        "Waiting (ms)",
        "Transfer (ms)",
        "GPU busy (ms)",
    ];
    format!(
        "<div class=\"table{}\"><table id=\"ranks-table\" class=\"heat\">\
         <thead><tr><th scope=\"col\">Rank</th><th scope=\"col\">Stage</th>{}</tr></thead>\n<tbody>\n{}\
         </tbody></table></div>\n<p class=\"note\">Warm calls only, where there are any.</p>\n<details><summary>What the columns \
         are</summary><p class=\"note\">{}</p></details>\n",
        if rows.len() > MOST_UNROLLED { " tall" } else { "" },
        head.map(|name| format!("<th scope=\"col\" class=\"n\">{name}</th>")).concat(),
        rows.iter().take(RANKS).map(line).collect::<String>(),
        text(&notes),
    )
}

/// Rows of ranks that need no box of their own to scroll in.
const MOST_UNROLLED: usize = 16;

/// Where a delay came about.
fn because_of(cause: LateCause) -> &'static str {
    match cause {
        LateCause::Host => "host",
        LateCause::Gpu => "GPU work",
        LateCause::Both => "GPU work, host",
    }
}

/// Ranks against stages: each cell is the median host time, coloured by how much longer it is than that of
/// the fastest rank. A table can be read without colours and scripts, too.
fn heat_map(report: &Report) -> Option<String> {
    let mut stages: Vec<&str> = Vec::new();
    let mut ranks: BTreeMap<(Option<u64>, &str), BTreeMap<&str, &RankStageRow>> = BTreeMap::new();
    for row in &report.ranks.stages {
        if !stages.contains(&row.stage.as_str()) && stages.len() <= STAGES {
            stages.push(&row.stage);
        }
        let cells = ranks.entry((row.rank, row.who.as_str())).or_default();
        cells.insert(&row.stage, row);
    }
    if ranks.len() < 2 {
        return None;
    }
    let more_stages = stages.len() > STAGES;
    stages.truncate(STAGES);
    let fastest: Vec<Option<u64>> = (stages.iter())
        .map(|stage| ranks.values().filter_map(|cells| cells.get(stage)?.host_warm_median_ns).min())
        .collect();
    let cell = |row: Option<&&RankStageRow>, fastest: Option<u64>| {
        let Some((ns, fastest)) = row.and_then(|row| row.host_warm_median_ns).zip(fastest) else {
            return format!("<td class=\"n\">{ABSENT}</td>");
        };
        let longer = ns as f64 / fastest.max(1) as f64 - 1.0;
        let shade = (longer / DARKEST * SHADES).clamp(0.0, SHADES).round();
        format!("<td class=\"n heat-{shade}\">{}</td>", ms3(ns))
    };
    let line = |((_, who), cells): (&(Option<u64>, &str), &BTreeMap<&str, &RankStageRow>)| {
        let columns = stages.iter().zip(&fastest);
        let columns: String = columns.map(|(stage, ns)| cell(cells.get(stage), *ns)).collect();
        format!("<tr><th scope=\"row\">{}</th>{columns}</tr>\n", foreign(who))
    };
    let head = |stage: &&str| {
        format!("<th scope=\"col\" class=\"n\">{} (ms)</th>", foreign(&shorten(stage, 60)))
    };
    let mut notes = String::from(
        "Median host time of the warm calls. The longer a time is than that of the fastest rank in its \
         stage, the darker its cell: the darkest is 50 % longer or more.",
    );
    if ranks.len() > RANKS {
        notes.push_str(&format!(" {} more ranks are in metrics.json.", ranks.len() - RANKS));
    }
    if more_stages {
        notes.push_str(" More stages are in metrics.json.");
    }
    Some(format!(
        "<p class=\"note\">{}</p>\n<div class=\"table tall\"><table class=\"heat\"><thead><tr><th \
         scope=\"col\">rank</th>{}</tr></thead>\n<tbody>\n{}</tbody></table></div>\n",
        text(&notes),
        stages.iter().map(head).collect::<String>(),
        ranks.iter().take(RANKS).map(line).collect::<String>(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_model::BottleneckPart;

    #[test]
    fn names_become_links_in_text_alone() {
        let linked = |html: &str, names: &[&str]| {
            let links = names.iter().map(|name| (name.to_string(), format!("k-{name}")));
            with_links(html.to_owned(), &links.collect::<Vec<_>>())
        };
        assert_eq!(
            linked("<td class=\"k\"><code>k</code> of kind</td>", &["k", "td", "code"]),
            "<td class=\"k\"><code><a href=\"#k-k\">k</a></code> of kind</td>"
        );
        let whole = "<p><a href=\"#k-rms\">norm_of rms</a> and norm</p>";
        assert_eq!(
            linked(whole, &["rms", "norm"]),
            "<p><a href=\"#k-rms\">norm_of rms</a> and <a href=\"#k-norm\">norm</a></p>"
        );
    }

    #[test]
    fn communication_says_how_much_of_it_is_waiting() {
        let part = |kind, ns| BottleneckPart { kind, ns };
        let parts =
            vec![part(BottleneckKind::Kernels, 2_000_000), part(BottleneckKind::Ranks, 1_060_000)];
        let of =
            |of: &str| Bottleneck { of: of.into(), parts: parts.clone(), ..Bottleneck::default() };
        let told = waiting(&of("step"));
        let expected = "Communication kernels wait 1.06 ms per step for other ranks. ";
        assert_eq!(told.as_deref(), Some(expected));
        assert_eq!(waiting(&of("window")), None, "it is none of a step");
        assert_eq!(waiting(&Bottleneck::default()), None);
    }
}
