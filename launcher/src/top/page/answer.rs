//! What limits the chosen stage, and by how much -> one line.

use ratatui::text::Line;
use stage2_contract::order::Order as _;
use stage2_contract::text::shorten;
use stage2_live::class_label;
use stage2_model::rule::HOST_DECIDED_PERCENT;

use super::hosts::{AHEAD, causes_of, fitted, host_of};
use super::processes::late_process;
use super::{Row, View, alone, bold, missing_text, only, seen, share, who};

/// Waits for other ranks by so much of the time are named, with all other parts of that size.
const WAITS: f64 = 0.05;

/// What takes most of the time in the calls of a stage: its GPU work, or else the longest of what leaves the GPU without.
pub(super) fn answer(view: &View, row: Option<&Row>, width: usize) -> Option<Line<'static>> {
    let row = row?;
    if let Some(missing) = row.missing {
        let text = format!("{}: BUSY and IDLE are not known", missing_text(missing));
        return Some(bold(&text, width));
    }
    let (busy, gaps, idle) = (row.busy?, row.gaps.unwrap_or(0.0), row.idle?);
    let other = row.other.unwrap_or(0.0);
    let wait = row.wait.unwrap_or(0.0);
    let alone = only(view).map_or_else(String::new, |of| format!(" of {}", alone(view, of)));
    let name = shorten(&format!("{}{alone}", row.label()), width / 3);
    let (what, why) = match () {
        () if wait >= WAITS => {
            let late = late_process(view, row).map(|(late, _)| who(late));
            let waits = format!("waits for {}", late.as_deref().unwrap_or("other ranks"));
            // Kernels that wait are no work.
            let mut parts = vec![
                (busy - wait, "GPU work"),
                (wait, waits.as_str()),
                (gaps, "launch gaps"),
                (idle, "idle"),
                (other, "work of other stages"),
            ];
            parts.retain(|(part, _)| *part >= WAITS);
            parts.order_by(|a, b| b.0.total_cmp(&a.0));
            let parts: Vec<String> =
                parts.into_iter().map(|(part, what)| format!("{what} {}", share(part))).collect();
            (parts.join(", "), String::new())
        }
        () if busy >= 0.5 => (format!("GPU works {} of the time", share(busy)), longest_class(row)),
        () if other > gaps.max(idle) => {
            (format!("GPU works for other stages {} of the time", share(other)), String::new())
        }
        () if gaps > idle => {
            let host = Some(host_part(&seen(view, Some(row)), row));
            let ahead = host.filter(|host| host.starts_with(AHEAD));
            // Where the host waits, its launches are in time.
            let of = if ahead.is_some() { "gaps between kernels" } else { "gaps between launches" };
            let what = format!("{of} take {} of the time", share(gaps));
            (what, ahead.unwrap_or_else(|| format!("GPU work {}", share(busy))))
        }
        () => {
            let what = format!("GPU idle {} of the time", share(idle));
            (what, host_part(&seen(view, Some(row)), row))
        }
    };
    let start = format!("{name}: {what}");
    let brief = start.replace(" of the time", "");
    // The place in the code gives way, not what it is.
    let (between, why) = match why.strip_prefix(FIRST_CAUSE) {
        Some(cause) => (format!(", {FIRST_CAUSE}"), cause),
        None => (", ".to_owned(), why.as_str()),
    };
    let room = |start: &str| width.saturating_sub(start.chars().count() + between.len());
    let text = match why {
        "" => start,
        why if why.chars().count() <= room(&start) => format!("{start}{between}{why}"),
        why => format!("{brief}{between}{}", fitted(why, room(&brief))),
    };
    Some(bold(&text, width))
}

/// The class of kernels that takes longest, as in the table below.
fn longest_class(row: &Row) -> String {
    let classes = row.sum.class_ns.iter().zip(0u8..);
    let kernels = classes.filter(|(_, class)| !class_label(*class).starts_with("mem"));
    let total = kernels.clone().fold(0u64, |sum, (ns, _)| sum.saturating_add(*ns));
    let longest = kernels.max_by_key(|(ns, _)| **ns).filter(|(ns, _)| **ns > 0);
    longest.map_or_else(String::new, |(ns, class)| {
        format!("{} {} of its kernel time", class_label(class), share(*ns as f64 / total as f64))
    })
}

/// What the host of the process that is idle longest does most often meanwhile. As in a report, it is ahead of the GPU
/// where that decides, and a wait for the GPU is not the cause.
fn host_part(view: &View, row: &Row) -> String {
    let hosts = view.look.processes.iter().map(|of| (of, host_of(of, &row.name)));
    let idlest = hosts.max_by_key(|(_, host)| host.idle_ns);
    let causes = idlest.map(|(of, host)| causes_of(of, host)).unwrap_or_default();
    let is_wait = |text: &str| text.starts_with(AHEAD);
    match causes.first() {
        Some((percent, wait)) if is_wait(wait) && *percent >= HOST_DECIDED_PERCENT => wait.clone(),
        _ => {
            let first = causes.into_iter().find(|(_, text)| !is_wait(text));
            first.map_or_else(String::new, |(_, text)| format!("{FIRST_CAUSE}{text}"))
        }
    }
}

const FIRST_CAUSE: &str = "first cause: ";
