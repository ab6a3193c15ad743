//! What limits the chosen stage, and by how much -> one line.

use ratatui::text::Line;
use stage2_contract::order::Order as _;
use stage2_contract::text::shorten;
use stage2_live::{Watched, class_label};
use stage2_model::rule::HOST_DECIDED_PERCENT;

use super::hosts::{AHEAD, causes_of, fitted, hosts_in, unused};
use super::processes::late_process;
use super::runs::names_apart;
use super::stages::RUN_COLUMNS;
use super::{MORE, Row, View, alone, bold, missing_text, only, runs, seen, share, who};

/// Waits for other ranks by so much of the time are named, with all other parts of that size.
const WAITS: f64 = 0.05;

/// What takes most of the time in the calls of a stage: its GPU work, or else the longest of what leaves the GPU without.
pub(super) fn answer(view: &View, row: Option<&Row>, width: usize) -> Option<Line<'static>> {
    let row = row?;
    if let Some(missing) = row.missing {
        let text = format!("{}: BUSY and IDLE are not known", missing_text(missing));
        return Some(bold(&text, width));
    }
    let (busy, gaps, longer) = (row.busy?, row.gaps.unwrap_or(0.0), row.idle?);
    let wait = row.wait.unwrap_or(0.0).min(busy);
    let name = match only(view) {
        Some(of) => format!("{} of {}", row.name, alone(view, of)),
        None => row.label(),
    };
    let short = with_short_runs(view, name.clone());
    // The rank is what tells it from the other processes: the run gives way.
    let of_rank = only(view).filter(|of| of.rank.is_some());
    let short = match of_rank.filter(|_| short.chars().count() > width / 3) {
        Some(of) => format!("{} of {}", shorten(&row.name, width / 4), who(of)),
        None => shorten(&short, width / 3),
    };
    let names = [name, short];
    let late = late_process(view, row).map(|(late, _)| who(late));
    let waits = format!("waits for {}", late.as_deref().unwrap_or("other ranks"));
    // The parts of a report's verdict, which are the same.
    let kernels = class_share(row, |of| !of.starts_with("mem") && of != COMMUNICATION);
    let kernels = kernels.min(busy - wait);
    let communication = class_share(row, |of| of == COMMUNICATION);
    let communication = (communication - wait).clamp(0.0, busy - wait - kernels);
    let idle = gaps + longer;
    let mut parts = [
        (kernels, KERNELS),
        (wait, waits.as_str()),
        (communication, COMMUNICATION),
        (busy - wait - kernels - communication, "copies"),
        (idle, IDLE),
        (row.other.unwrap_or(0.0), OTHER_WORK),
    ];
    parts.order_by(|a, b| b.0.total_cmp(&a.0));
    let (what, label, why) = match parts[0] {
        (part, KERNELS) if wait < WAITS => {
            (format!("kernels run {} of the time", share(part)), String::new(), longest_class(row))
        }
        (part, OTHER_WORK) if wait < WAITS => (
            format!("GPU works for other stages {} of the time", share(part)),
            String::new(),
            String::new(),
        ),
        (_, IDLE) if wait < WAITS => {
            let (label, host) = host_part(&seen(view, Some(row)), row);
            let between = match gaps > longer {
                true => format!(", {} in launch gaps", share(gaps)),
                false => String::new(),
            };
            let what = format!("GPU idle {} of the time{between}", share(idle));
            match gaps > longer && !host.starts_with(AHEAD) {
                true => (what, String::new(), format!("{KERNELS} {}", share(kernels))),
                false => (what, label, host),
            }
        }
        _ => {
            let named = parts.iter().filter(|(part, _)| *part >= WAITS);
            let named = named.map(|(part, what)| format!("{what} {}", share(*part)));
            (named.collect::<Vec<_>>().join(", "), String::new(), String::new())
        }
    };
    let between = if why.is_empty() { String::new() } else { format!(", {label}") };
    let whole = |name: &String| format!("{name}: {what}{between}{why}");
    let fits = |text: &String| text.chars().count() <= width;
    // The place in the code gives way, not what it is.
    let cut = || {
        let brief = format!("{}: {what}{between}", names[1]).replace(" of the time", "");
        let briefer = brief.replace(", first cause ", ", first ");
        let [long, longer] = [&brief, &briefer]
            .map(|start| fitted(&why, width.saturating_sub(start.chars().count())));
        // Only for what would be gone: the function, or the thread.
        match !long.contains(['(', '\'']) && longer.chars().count() > long.chars().count() {
            true => format!("{briefer}{longer}"),
            false => format!("{brief}{long}"),
        }
    };
    let text = names.iter().map(whole).find(fits).unwrap_or_else(cut);
    // What says nothing gives way, and then the least parts.
    let mut text = if fits(&text) { text } else { text.replace(" for other ranks", "") };
    let mut left = text.clone();
    while !fits(&text) {
        let Some((start, _)) = left.rsplit_once(", ") else { break };
        text = format!("{start},{MORE}");
        left = start.to_owned();
    }
    Some(bold(&text, width))
}

/// Runs as the table of stages names them on a narrow terminal.
fn with_short_runs(view: &View, text: String) -> String {
    let all = runs(view.look.processes.iter());
    let names = names_apart(all.iter().map(|run| run.name.as_str()), RUN_COLUMNS);
    names.iter().fold(text, |text, (run, short)| text.replace(run, short))
}

const KERNELS: &str = "kernels";
const COMMUNICATION: &str = "communication";
const IDLE: &str = "GPU idle";
const OTHER_WORK: &str = "work of other stages";

/// Time of some classes of GPU work, as a part of the time in calls.
fn class_share(row: &Row, is_it: impl Fn(&str) -> bool) -> f64 {
    let of_class = row.sum.class_ns.iter().zip(0u8..).filter(|(_, of)| is_it(class_label(*of)));
    of_class.map(|(ns, _)| *ns as f64).sum::<f64>() / row.sum.window_ns.max(1) as f64
}

/// The class of kernels that takes longest, as in the table below.
fn longest_class(row: &Row) -> String {
    let classes = row.sum.class_ns.iter().zip(0u8..);
    let kernels = classes.filter(|(_, class)| !class_label(*class).starts_with("mem"));
    let total = kernels.clone().fold(0u64, |sum, (ns, _)| sum.saturating_add(*ns));
    let longest = kernels.max_by_key(|(ns, _)| **ns).filter(|(ns, _)| **ns > 0);
    longest.map_or_else(String::new, |(ns, class)| {
        format!("{} {} of kernel time", class_label(class), share(*ns as f64 / total as f64))
    })
}

/// What the host of the process that is idle longest does most often meanwhile, behind what it is and its part of the
/// time. As in a report, it is ahead of the GPU where that decides, and a wait for the GPU is not the cause.
fn host_part(view: &View, row: &Row) -> (String, String) {
    let all: Vec<&Watched> = view.look.processes.iter().collect();
    let (hosts, is_of_stage) = hosts_in(&all, Some(&row.name));
    let idlest = hosts.into_iter().max_by_key(|(_, host)| host.idle_ns);
    let Some((of, host)) = idlest else { return Default::default() };
    let causes = causes_of(of, host);
    let is_wait = |text: &str| text.starts_with(AHEAD);
    match causes.first() {
        Some((percent, wait)) if is_wait(wait) && *percent >= HOST_DECIDED_PERCENT => {
            (String::new(), wait.clone())
        }
        _ => match causes.into_iter().find(|(_, text)| !is_wait(text)) {
            Some((percent, text)) => {
                let part = share(percent / 100.0 * unused(host));
                // That of all stages is no part of the time of this one.
                let of = if is_of_stage { &*part } else { "in all stages" };
                (format!("first cause {of}: "), text)
            }
            None => Default::default(),
        },
    }
}
