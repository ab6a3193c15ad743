//! A report and its pages -> `report.html`: one file that works offline, without scripts, on a phone
//! and on paper.
//!
//! Pictures are SVG that is drawn here; everything else is what the Markdown pages state, so that a
//! number stands in one place only. Foreign text is escaped by [`markdown`] alone. The page forbids
//! itself to load anything, and to run or apply what is not its own script and style.

mod chart;
mod flame;
mod header;
mod job;
pub(super) mod markdown;
mod mean_step;
mod roofline;
mod tables;
#[cfg(test)]
mod tests;
mod timeline;

pub(super) use job::job_html;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};
use stage2_contract::text::numbers::{counted, grouped, percent1, ratio3, shown_rate, shown_time};
use stage2_contract::text::shorten;
use stage2_model::{
    Finding, FirstStep, HostStage, HostUse, Report, Severity, StageAnswer, StepSeries,
    StepTimeline, StepTimes, StepUnit, WindowKind,
};

use crate::advice::worst_first;
use crate::host::{late_md, stage_md};
use crate::html::chart::{latency, sampled, step_times};
use crate::html::flame::flame;
use crate::html::header::{Card, card, cards, header};
use crate::html::markdown::{foreign, html, text};
use crate::html::roofline::roofline;
use crate::html::tables::{Kernels, SHORT_CHARS, by_class, ranks_by_stage, table, top_losses};
use crate::html::timeline::{beyond, first_shown, timelines};
use crate::packed;
use crate::page::{Page, host_ahead, is_idle, verdict_stage};
use crate::stages::idle_kinds;
use crate::{engine, host, steps};
use stage2_model::kernels::{model_stages, stage_kernels};

/// The section of report.md on MFU.
const MFU_SECTION: &str = "model-flop-utilisation";
/// Sections of report.md that come right behind the answer: what to do, why, and what is missing.
const FIRST: [&str; 3] = ["Recommendations", "Takeaways", "Findings"];
/// Sections that the page has elsewhere, and whole: of the summary, and of report.md.
const SAID_IN_FULL: [&str; 8] = [
    "Environment",
    "Per-Stage Timings",
    "Top Kernels",
    "Takeaways",
    "Recommendations",
    "Limits",
    "MFU",
    engine::TITLE,
];
const SAID_ALREADY: [&str; 4] =
    ["The answer in full", "Cost of the passes", "Top kernels of each stage", "Kernel classes"];
/// Sections that are open.
const OPEN: [&str; 2] = [TIMES, steps::TITLE];
/// The section of report.md with the times of the stages, and their floors.
const TIMES: &str = "Stages";
const TIMES_AT: &str = "stages";
/// Stages with pictures: those with the longest window.
const STAGES: usize = 8;
const NAME_CHARS: usize = 40;

/// The page, from those of the summary, the report and the operators.
pub(super) fn report_html(
    report: &Report,
    summary: &Page,
    whole: &Page,
    operators: &Page,
) -> String {
    let kernels = stage_kernels(report);
    let kernels = Kernels::of(report, &kernels);
    let parts = parts(report, &kernels, [summary, whole, operators]);
    let title = text(&whole.title);
    let style = [packed("html/page.css"), packed("html/tables.css")].concat();
    let script = [packed("html/tables.js"), packed("html/page.js")].concat();
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src '{}'; script-src '{}'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#main\">Skip the answer</a>\n",
        hash(&style),
        hash(&script),
    );
    out.push_str(&header(report, &kernels, &whole.title, &parts));
    out.push_str(&contents(&parts));
    out.push_str("<main id=\"main\">\n");
    parts.iter().for_each(|part| out.push_str(&part.html()));
    out.push_str(&format!(
        "<footer>Written by {}. metrics.json holds all numbers, kernels.csv every kernel row.</footer>\n\
         </main>\n<script>{script}</script>\n</body>\n</html>\n",
        text(&report.generator)
    ));
    out
}

/// What the policy calls a script or style.
pub(super) fn hash(content: &str) -> String {
    format!("sha256-{}", BASE64_STANDARD.encode(Sha256::digest(content)))
}

struct Part {
    id: String,
    title: String,
    html: String,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It has its own frame and heading.
    Framed,
    /// It is open.
    Open,
    /// It opens when it is asked for.
    Folded,
}

/// All of them, in order: what to do and why, pictures of each stage, ranks, kernels, the other sections of
/// the pages.
fn parts(report: &Report, kernels: &Kernels<'_>, pages: [&Page; 3]) -> Vec<Part> {
    let [summary, whole, operators] = pages;
    let mut stages: Vec<&str> = report.answer.stages.iter().map(|s| s.stage.as_str()).collect();
    if stages.is_empty() {
        stages = model_stages(report).map(|row| row.stage.as_str()).collect();
    }
    let open = |id: &str, title: &str, html: String| Part {
        id: id.into(),
        title: title.into(),
        html,
        kind: Kind::Open,
    };
    let of_whole = |title: &&str| whole.sections.iter().find(|(known, _)| known == title);
    let pictured: Vec<&str> = stages.iter().copied().take(STAGES).collect();
    let all_kernels = table(report, kernels, &pictured);
    let first = FIRST.iter().filter_map(of_whole).filter(|(_, markdown)| !markdown.is_empty());
    let mut parts: Vec<Part> =
        first.map(|(title, markdown)| open(&slug(title), title, html(markdown))).collect();
    let is_serious = report.findings.iter().any(|finding| finding.severity != Severity::Note);
    for part in &mut parts {
        match part.id.as_str() {
            "findings" => {
                part.html = with_anchors(&part.html, &worst_first(report));
                part.kind = if is_serious { Kind::Open } else { Kind::Folded };
            }
            // The recommendations have them as reasons.
            "takeaways" => part.kind = Kind::Folded,
            "recommendations" => {
                let linked = kernels.linked_rows(&part.html, &all_kernels);
                let support = |html: String, noun: &str| {
                    let link = format!(" more <a href=\"#takeaways\">{noun}</a> support");
                    html.replace(&format!(" more {noun} support"), &link)
                };
                let linked = ["takeaway", "takeaways"].into_iter().fold(linked, support);
                part.html = first_rows(&linked, ADVISED, ADVICE)
            }
            _ => part.html = kernels.linked(std::mem::take(&mut part.html), SHORT_CHARS),
        }
    }
    // On the second screen at the latest: what to do first is on the first one.
    let top = top_losses(report, kernels).map(|table| open("top-kernels", "Top kernels", table));
    parts.splice(0..0, top);
    // What a late rank costs is not in its kernels.
    let ranks = || ranks_by_stage(report).map(|table| open("by-rank", "Ranks by stage", table));
    let is_late = report.ranks.late.iter().any(|late| late.delays.is_some());
    parts.splice(0..0, ranks().filter(|_| is_late));
    let rows: HashSet<&str> = all_kernels
        .split("<tr")
        .filter_map(|row| Some(row.split_once(" id=\"")?.1.split_once('"')?.0))
        .collect();
    parts.extend(pictured.iter().zip(1..).map(|(stage, number)| Part {
        id: format!("stage-{number}"),
        title: foreign(&shorten(stage, NAME_CHARS)),
        html: stage_section(report, kernels, &rows, stage, number),
        kind: Kind::Framed,
    }));
    let more = stages.len().saturating_sub(STAGES);
    if more > 0 {
        let text = format!(
            "<p>{more} more stages have no pictures here, because their windows are shorter. The tables \
             below and metrics.json have their numbers.</p>\n"
        );
        parts.push(open("more-stages", "More stages", text));
    }
    parts.extend(ranks().filter(|_| !is_late));
    parts.push(open("all-kernels", "Kernels", all_kernels));
    let brief = summary.sections.iter().filter(|(title, _)| !SAID_IN_FULL.contains(title));
    let known = whole.sections.iter();
    let known = known.filter(|(title, _)| !SAID_ALREADY.contains(title) && !FIRST.contains(title));
    // The sections of the stages have their causes.
    let basis = (host::TITLE, host::basis_md(report));
    let is_pictured = has_host(report, &pictured);
    let known =
        known.map(|known| if known.0 == host::TITLE && is_pictured { &basis } else { known });
    let is_open =
        |(title, text): &(&str, String)| OPEN.contains(title) && !text.starts_with("None: ");
    let sections = brief.chain(known).chain(&operators.sections);
    let sections =
        sections.map(|section| (section, if is_open(section) { Kind::Open } else { Kind::Folded }));
    for ((title, markdown), kind) in sections.filter(|((_, markdown), _)| !markdown.is_empty()) {
        let mut id = slug(title);
        while parts.iter().any(|part| part.id == id) {
            id.push_str("-more");
        }
        let is_brief = summary.sections.iter().any(|(of, _)| of == title);
        let title = if is_brief { sentence_case(title) } else { (*title).to_owned() };
        parts.push(Part { id, title: text(&title), html: html(markdown), kind });
    }
    parts
}

/// Recommendations that are read without a click, ...
const ADVISED: usize = 5;
const ADVICE: &str = "more recommendation";
/// ... and causes of idle time with their lines.
const CAUSES: usize = 8;

/// The first table with its first rows, `most` and those that are parts of the last of these; the others open when they
/// are asked for, as so many of `noun`.
fn first_rows(html: &str, most: usize, noun: &str) -> String {
    let parts = html.split_once("<tbody>\n");
    let parts = parts.and_then(|(head, rest)| Some((head, rest.split_once("</tbody>")?)));
    let Some((head, (body, tail))) = parts else { return html.to_owned() };
    let rows: Vec<&str> =
        body.split_inclusive("</tr>\n").filter(|row| row.contains("<tr")).collect();
    let is_part = |row: &&&str| row.contains("class=\"part-of\"");
    let parts_of_last = rows.iter().skip(most).take_while(is_part).count();
    let (first, more) = rows.split_at(rows.len().min(most + parts_of_last));
    // One row takes no more room than its summary.
    if more.len() < 2 {
        return html.to_owned();
    }
    let frame_ends = tail.find("</div>\n").map_or(0, |at| at + "</div>\n".len());
    let (end, tail) = tail.split_at(frame_ends);
    let table_begins = head.rfind("<div class=\"table").unwrap_or(0);
    let (before, head) = head.split_at(table_begins);
    format!(
        "{before}{head}<tbody>\n{}</tbody>{end}<details class=\"rest\"><summary>{}</summary>\n{head}<tbody>\n{}</tbody>{end}</details>\n{tail}",
        first.concat(),
        counted(more.len() as u64, noun),
        more.concat()
    )
}

/// Whether the sections of stages say all that is known of the host.
fn has_host(report: &Report, pictured: &[&str]) -> bool {
    let mut stages = report.host.iter().flat_map(|host| &host.stages);
    stages.all(|found| pictured.contains(&found.stage.as_str()))
}

/// The list of findings, each with its id as the place that links lead to, and as its hint.
fn with_anchors(list: &str, findings: &[&Finding]) -> String {
    let items: Vec<&str> = list.split("<li>").collect();
    let Some((before, items)) = items.split_first().filter(|_| items.len() == findings.len() + 1)
    else {
        return list.to_owned();
    };
    let mut taken: HashMap<String, u32> = HashMap::new();
    let mut out = (*before).to_owned();
    for (item, finding) in items.iter().zip(findings) {
        let anchor = finding.anchor();
        let number = taken.entry(anchor.clone()).and_modify(|number| *number += 1).or_insert(1);
        let again = if *number > 1 { format!("-{number}") } else { String::new() };
        let id = finding.id.code();
        out.push_str(&format!("<li id=\"{anchor}{again}\" title=\"{id}\">{item}"));
    }
    out
}

/// A title whose words begin with capitals, as those of the summary, in sentence case. Abbreviations and names stay.
fn sentence_case(title: &str) -> String {
    let separators = |c: char| matches!(c, ' ' | '-');
    let words = title.split_inclusive(separators).enumerate().map(|(at, word)| {
        let is_title_case = word.chars().skip(1).all(|c| c.is_ascii_lowercase() || separators(c));
        if at > 0 && is_title_case { word.to_lowercase() } else { word.to_owned() }
    });
    words.collect()
}

/// The identifier of a section: its title in small letters.
fn slug(title: &str) -> String {
    let word = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    title.chars().map(word).collect()
}

impl Part {
    /// Browsers open folded details when a link leads into them.
    fn html(&self) -> String {
        let Part { id, title, html, kind } = self;
        match kind {
            Kind::Framed => html.clone(),
            Kind::Open => {
                format!("<section id=\"{id}\">\n<h2>{title}</h2>\n{html}</section>\n")
            }
            Kind::Folded => format!(
                "<details class=\"part\">\n<summary>{title}</summary>\n<div id=\"{id}\">\n{html}</div>\n\
                 </details>\n"
            ),
        }
    }
}

/// The begin of a section that only explains why it is empty.
const ABSENT_SECTION: &str = "<p>None: ";

/// What is in the section of the stage of the verdict.
fn pictures(part: &Part) -> String {
    const PICTURES: [(&str, &str); 6] = [
        ("causes", "host code"),
        ("late", "late rank"),
        ("timeline", "timeline"),
        ("latency", "latency"),
        ("batch", "by batch"),
        ("roofline", "roofline"),
    ];
    // Those of other stages are folded.
    if part.kind != Kind::Framed || part.html.starts_with("<details") {
        return String::new();
    }
    let is_there = |id: &String| part.html.contains(&format!("id=\"{id}\""));
    let there = PICTURES.into_iter().filter_map(|(what, title)| {
        // The heading says what the picture is.
        let ids = [heading_id(&part.id, what), format!("{}-{what}", part.id)];
        let id = ids.into_iter().find(is_there)?;
        Some(format!("<li><a href=\"#{id}\">{title}</a></li>\n"))
    });
    let items: String = there.collect();
    if items.is_empty() { items } else { format!("\n<ul>\n{items}</ul>\n") }
}

fn heading_id(section: &str, picture: &str) -> String {
    format!("{section}-of-{picture}")
}

fn contents(parts: &[Part]) -> String {
    // Of what is not there, the page says why; nobody looks for it.
    let there = || parts.iter().filter(|part| !part.html.starts_with(ABSENT_SECTION));
    let list = |kind: Kind| -> String {
        let of_kind = there().filter(|part| part.kind == kind);
        let item = |part: &Part| {
            let Part { id, title, .. } = part;
            format!("<li><a href=\"#{id}\">{title}</a>{}</li>\n", pictures(part))
        };
        of_kind.map(item).collect()
    };
    let stages = list(Kind::Framed);
    let stages = match stages.is_empty() {
        true => String::new(),
        false => format!("<h2>Each stage</h2>\n<ul>\n{stages}</ul>\n"),
    };
    let folded = there().filter(|part| part.kind == Kind::Folded).count();
    let details = match folded {
        0 => String::new(),
        _ => format!(
            "<details>\n<summary>{}</summary>\n<ul>\n{}</ul>\n</details>\n",
            counted(folded as u64, "more section"),
            list(Kind::Folded)
        ),
    };
    format!(
        "<nav aria-label=\"Contents\">\n<details open>\n<summary>Contents</summary>\n{stages}\
         <h2>Contents</h2>\n<ul>\n{}</ul>\n{details}</details>\n</nav>\n",
        list(Kind::Open),
    )
}

const STAGE_NAME_CHARS: usize = 80;

/// `rows`: the identifiers of the rows of the table of kernels.
fn stage_section(
    report: &Report,
    kernels: &Kernels<'_>,
    rows: &HashSet<&str>,
    stage: &str,
    number: usize,
) -> String {
    let id = |what: &str| format!("stage-{number}-{what}");
    let heading = |what: &str, title: &str| {
        let id = heading_id(&format!("stage-{number}"), what);
        format!("<h3 id=\"{id}\">{title}</h3>\n")
    };
    let answer = report.answer.stages.iter().find(|answer| answer.stage == stage);
    let times = answer.and_then(|answer| answer.step.as_ref());
    let steps = report.step_timelines.iter().filter(|timeline| timeline.stage == stage);
    let steps: Vec<&StepTimeline> = steps.collect();
    let of_engine = Some(report.noun_of(stage)).filter(|noun| *noun != StepUnit::Instance.noun());
    let noun = of_engine.unwrap_or(steps.first().map_or("call", |step| step.noun()));
    let series = report.step_series.iter().find(|series| series.stage == stage);
    let timed = of_engine.unwrap_or(series.map_or(noun, StepSeries::noun));
    let series = series.map(|series| latency(&report.run.name, series, times, &id("latency")));
    let series = series.unwrap_or_else(|| absent("the times of single steps are not known", ""));
    let title = heading("latency", &format!("Latency of each {timed} over the run"));
    let latency = format!("{title}{series}");
    let kinds = report.engine.iter().flat_map(|run| &run.kinds);
    let by_batch = kinds.into_iter().find(|kind| kind.stage == stage);
    let by_batch = by_batch.and_then(|kind| step_times(kind, &id("batch")));
    let by_batch = by_batch
        .map(|picture| {
            format!("<div>\n{}{picture}</div>\n", heading("batch", "Step time by batch"))
        })
        .unwrap_or_default();
    let bar = answer.and_then(|answer| {
        let (split, found) = (answer.window.as_ref()?, answer.bottleneck.as_ref()?);
        let scale = found.ns as f64 / split.window_ns.max(1) as f64;
        Some(mean_step::parts(report, answer, split, number, scale))
    });
    let bar = bar.unwrap_or_default();
    let host = report.host.as_ref();
    let host = host.map_or_else(String::new, |host| host_of(report, host, stage, &id, &bar));
    let body = if has_gpu_work(report, stage) {
        let split = answer.and_then(|answer| window(report, answer, number, &id("window")));
        let split = split.unwrap_or_else(|| absent("its GPU window is not known", ""));
        let roofline = roofline(report, kernels, stage, rows, &id("roofline"));
        let roofline = roofline.map(|picture| heading("roofline", "Roofline") + &picture);
        let export = first_shown(&steps)
            .map_or_else(String::new, |shown| beyond(&report.run.name, shown, noun));
        let steps = timelines(&steps, noun, &id("timeline"), &bar).unwrap_or_else(|| {
            absent(
                "no median call or step of this stage is known",
                "the four longest stages with warm calls in a trace file of the collector have \
                 timelines",
            )
        });
        let title = "Where the window goes";
        // The head of the page has this bar already.
        let split = match mean_step::shown(report).is_some_and(|(head, ..)| head == number) {
            true => format!("<details>\n<summary>{title}</summary>\n{split}</details>\n"),
            false => format!("<h3>{title}</h3>\n{split}"),
        };
        let of_median = heading("timeline", &format!("Timeline of the median {noun}"));
        format!(
            "{split}{host}{of_median}\
             {steps}{export}{}<div class=\"pair\">\n<div>\n{latency}</div>\n{by_batch}</div>\n{}{}",
            sampled(report, stage, &id("sampled")),
            roofline.unwrap_or_default(),
            by_class(report, stage),
        )
    } else {
        format!("<p class=\"note\">{}</p>\n{host}{by_batch}{latency}", text(WITHOUT_GPU_WORK))
    };
    let has_picture = |to: &str| body.contains(&format!("id=\"{to}\""));
    let processes = report.ranks.stages.iter().filter(|row| row.stage == stage).count();
    let figures = answer
        .map_or_else(String::new, |answer| figures(report, answer, processes, &id, has_picture));
    let name = format!("Stage <code>{}</code>", foreign(&shorten(stage, STAGE_NAME_CHARS)));
    let section = |heading: &str| {
        format!(
            "<section id=\"stage-{number}\" class=\"stage\">\n{heading}{figures}{body}</section>\n"
        )
    };
    // That of the verdict is what a reader came for.
    let is_lead = match verdict_stage(report) {
        Some(lead) => lead.stage == stage,
        None => number == 1,
    };
    if is_lead {
        return section(&format!("<h2>{name}</h2>\n"));
    }
    let p50 = times.map(|times| {
        let time = shown_time(times.shown_ns(times.p50_ns));
        let floor = answer.and_then(|answer| answer.floor.distance.value());
        let floor = floor.map_or_else(String::new, |x| format!(", {x:.1}x the floor on average"));
        let unit = answer.and_then(StageAnswer::unit_of_times);
        let unit = unit.unwrap_or_else(|| times.shown_unit().to_owned());
        format!(": {time} per {unit} (p50){floor}")
    });
    format!(
        "<details class=\"part\">\n<summary>{name}{}</summary>\n{}</details>\n",
        text(&p50.unwrap_or_default()),
        section("")
    )
}

const WITHOUT_GPU_WORK: &str =
    "No GPU work belongs to this stage itself: it has times of the host only.";

/// Whether there is something to say on the GPU: the requests of a server, for instance, launch nothing.
fn has_gpu_work(report: &Report, stage: &str) -> bool {
    report.answer.stages.iter().any(|answer| answer.stage == stage && answer.window.is_some())
        || report.kernels.iter().any(|row| row.stage == stage)
        || (report.step_timelines.iter())
            .any(|timeline| timeline.stage == stage && !timeline.lanes.is_empty())
}

/// What the host does while the GPU has nothing to do for a stage; nothing where it was not sampled.
fn host_of(
    report: &Report,
    host: &HostUse,
    stage: &str,
    id: &impl Fn(&str) -> String,
    bar: &[mean_step::Part],
) -> String {
    let Some(found) = host.stages.iter().find(|found| found.stage == stage) else {
        return String::new();
    };
    let picture = flame(&report.run.name, host, found, &id("flame"), bar).unwrap_or_default();
    // Remedies for what the GPU did not wait for would be wrong.
    let (ahead, told) = match host_ahead(report, stage) {
        true => (HOST_WAS_AHEAD, Cow::Owned(HostStage { advice: Vec::new(), ..found.clone() })),
        false => ("", Cow::Borrowed(found)),
    };
    let late = match late_md(report, stage) {
        late if late.is_empty() => late,
        late => format!(
            "<div id=\"{}\">\n<h3>Host code of the late steps</h3>\n{}</div>\n",
            id("late"),
            first_rows(&html(&late), CAUSES, "more row")
        ),
    };
    let causes = html(&stage_md(report, &told, host.more_samples()))
        .replace("<td>– of which", "<td class=\"part-of\">of which");
    format!(
        "{late}<div id=\"{}\">\n<h3 id=\"{}\">What the host does while the GPU idles</h3>\n{ahead}{}</div>\n{picture}",
        id("causes"),
        id("host"),
        first_rows(&causes, CAUSES, "more row")
    )
}

const HOST_WAS_AHEAD: &str = "<p><strong>Not the cause:</strong> the host was ahead of the GPU. It had launched what \
    came next before most of the idle time began, and a faster host does not shorten that part. This is what it did meanwhile.</p>\n";

fn absent(why: &str, note: &str) -> String {
    let note = if note.is_empty() { String::new() } else { format!(" ({note})") };
    format!("<p class=\"absent\">None: {}{}.</p>\n", text(why), text(&note))
}

/// The numbers of a stage. Each leads to what explains it: to the picture `id`, where that `is_there`, or to a
/// section, all of which are always there.
fn figures(
    report: &Report,
    answer: &StageAnswer,
    processes: usize,
    id: &impl Fn(&str) -> String,
    is_there: impl Fn(&str) -> bool,
) -> String {
    let (step, floor) = (answer.step.as_ref(), &answer.floor);
    let unit = answer.unit_of_times().unwrap_or_else(|| "call".to_owned());
    let to = |label: String, value: String, what: &str, section: &str| {
        let picture = id(what);
        card(label, value, if is_there(&picture) { &picture } else { section })
    };
    let per_unit = |label: String, times: &StepTimes, ns: u64| {
        to(label, shown_time(times.shown_ns(ns)), "latency", TIMES_AT)
    };
    let p50 = |times: &StepTimes| {
        let steps = counted(times.steps, &format!("{} {}", times.warmth(), times.unit.noun()));
        let of = if processes > 1 { " in one process" } else { "" };
        per_unit(format!("per {unit}: p50 of {steps}{of}"), times, times.p50_ns)
    };
    let first_token_ns = answer.time_to_first_token_ns.value();
    let first_token = "from a request to its first token, p50".to_owned();
    let floor_ns = floor.floor_ns.value();
    let floor_ns = floor_ns.map(|ns| step.map_or(ns, |times| ns * times.shown_ns(1)));
    let times_floor =
        |label: &str, times: f64| card(label.to_owned(), format!("{times:.1}x"), TIMES_AT);
    let counted_per_s = format!("{}/s", answer.tokens_counted.noun());
    let baseline = |ratio| card("times its baseline", ratio3(ratio), TIMES_AT);
    let shown = [
        step.map(p50),
        step.and_then(|times| {
            times.tail().map(|(of, ns)| per_unit(format!("per {unit}, {of}"), times, ns))
        }),
        answer.slowdown.as_ref().map(|cost| baseline(cost.ratio)),
        first_token_ns.map(|ns| to(first_token, shown_time(ns), "latency", TIMES_AT)),
        answer
            .tokens_per_s
            .value()
            .map(|rate| to(counted_per_s, shown_rate(rate), "latency", TIMES_AT)),
        floor_ns.map(|ns| {
            to(format!("hardware floor per {unit}"), shown_time(ns), "roofline", TIMES_AT)
        }),
        floor.distance.value().map(|times| times_floor("mean step vs. floor", times)),
        floor.baseline_distance.map(|x| times_floor("baseline vs. floor", x)),
    ];
    let shown: Vec<Card<'_>> = shown.into_iter().flatten().collect();
    // The head of the page has what is first of all.
    let of_run = report.answer.first.as_ref();
    let is_told = |first: &&FirstStep| {
        of_run.is_some_and(|of| (&of.stage, &of.text) == (&first.stage, &first.text))
    };
    let first = answer.first.as_ref().filter(|first| !is_told(first));
    let first = first.map_or_else(String::new, |first| {
        let gain = first.gain();
        let gain = gain.map(|gain| format!(" Gain: {}.", text(&gain)));
        let idle = || first.to_measure().map(|idle| format!(" Idle time: {}.", text(&idle)));
        let gain = gain.or_else(idle).unwrap_or_default();
        let first = text(first.text.trim_end_matches('.'));
        format!("<p><strong>First:</strong> {first}.{gain}</p>\n")
    });
    let all = match processes {
        0 | 1 => String::new(),
        processes => format!("; {} together", counted(processes as u64, "process")),
    };
    let over = answer.step.as_ref().and_then(|step| step.passed_over.as_ref());
    let over = over.map_or_else(String::new, |why| format!("; {why}"));
    let ahead = report.outlasting_work(&answer.stage).map_or_else(String::new, |said| {
        format!("<p class=\"note\">{}.</p>\n", text(&stage2_contract::text::capitalised(&said)))
    });
    format!(
        "{}{ahead}<p class=\"note\">Window and gains: {}.</p>\n{first}",
        cards(&shown),
        text(&format!("{}{all}{over}", answer.basis.trim_end_matches('.')))
    )
}

fn mark(kind: WindowKind) -> &'static str {
    match kind {
        WindowKind::Compute => "w-compute",
        WindowKind::Transfer => "w-transfer",
        WindowKind::Waiting => "w-waiting",
        WindowKind::Communication => "w-communication",
        WindowKind::Copies => "w-copies",
        WindowKind::Busy => "w-busy",
        WindowKind::LaunchGaps => "g-launch",
        WindowKind::OtherIdle => "g-idle",
        WindowKind::OtherWork => "w-other",
    }
}

fn over(basis: &str) -> String {
    match basis.trim_end_matches('.') {
        "" => String::new(),
        basis => format!("Basis of the times: {basis}. "),
    }
}

/// The bar and its table, with idle time by cause where causes are known.
fn window(report: &Report, answer: &StageAnswer, number: usize, id: &str) -> Option<String> {
    let (split, times) = (answer.window.as_ref()?, answer.step.as_ref());
    let unit = times.map_or("step", StepTimes::shown_unit);
    let tokens = times.filter(|_| split.steps.is_some()).and_then(|times| times.tokens_per_step);
    // As in the bar above.
    let all_ns = match answer.bottleneck.as_ref() {
        Some(found) => found.ns as f64,
        None => split.per_step(split.window_ns) / tokens.unwrap_or(1).max(1) as f64,
    };
    let all_ns = all_ns.max(1.0);
    let scale = all_ns / split.window_ns.max(1) as f64;
    let parts = mean_step::parts(report, answer, split, number, scale);
    let ms = |ns: f64| grouped(&format!("{:.3}", ns / 1e6));
    let (mut at, mut rects, mut rows) = (0.0, String::new(), String::new());
    for part in &parts {
        // Those of a broken report must not leave the bar.
        let width = (part.ns * 100.0 / all_ns).clamp(0.0, (100.0_f64 - at).max(0.0));
        let (label, mark, percent) = (text(&part.label), part.mark, percent1(part.percent));
        rects.push_str(&format!(
            "<rect class=\"{mark}\" x=\"{at:.4}%\" width=\"{width:.4}%\" height=\"100%\"><title>{label}: {percent} \
             %</title></rect>\n"
        ));
        at += width;
        let label = match part.to == id {
            true => label,
            false => format!("<a href=\"#{}\">{label}</a>", part.to),
        };
        rows.push_str(&format!(
            "<tr><td><svg class=\"swatch\" aria-hidden=\"true\"><rect class=\"{mark}\" width=\"100%\" \
             height=\"100%\"/></svg>{label}</td><td class=\"n\">{}</td><td class=\"n\">{percent}</td></tr>\n",
            ms(part.ns),
        ));
    }
    let said: Vec<String> =
        parts.iter().map(|part| format!("{} {} %", part.label, percent1(part.percent))).collect();
    // The times of a mean step are no sums.
    let over = if split.steps.is_some() { String::new() } else { over(&answer.basis) };
    let of = match split.steps {
        Some(_) => format!("the mean window per {unit}"),
        None => "the window".to_owned(),
    };
    let is_by_cause = parts.iter().any(|part| part.label.starts_with(mean_step::IDLE));
    let kinds = split.parts.iter().filter(|part| is_idle(part.kind) && part.ns > 0 && is_by_cause);
    let kinds: Vec<String> = kinds
        .map(|part| format!("{} {} ms", part.kind.label(), ms(part.ns as f64 * scale)))
        .collect();
    let by_cause = match kinds.is_empty() {
        true => String::new(),
        false => format!("Idle time by cause; it is {}. ", kinds.join(" and ")),
    };
    Some(format!(
        "<svg id=\"{id}\" class=\"window\" role=\"img\" aria-labelledby=\"{id}-title\">\n\
         <title id=\"{id}-title\">{}</title>\n{rects}</svg>\n\
         <div class=\"table\"><table><thead><tr><th>Part of the window</th><th class=\"n\">ms</th>\
         <th class=\"n\">%</th></tr></thead>\n<tbody>\n{rows}\
         <tr><td>{of}</td><td class=\"n\">{}</td><td class=\"n\">100.0</td></tr>\n\
         </tbody></table></div>\n<p class=\"note\">{}{}{}</p>\n",
        text(&format!("Where {of} of {} ms goes: {}", ms(all_ns), said.join(", "))),
        ms(all_ns),
        text(&over),
        text(&by_cause),
        text(&idle_kinds(split.parts.iter().map(|part| part.kind))),
    ))
}
