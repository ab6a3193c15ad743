//! Classes and kernels of the chosen stage -> their table.

use std::collections::{BTreeMap, BTreeSet};

use ratatui::text::Line;
use stage2_contract::order::{IntoOrdered as _, Order as _};
use stage2_contract::text::numbers::counted;
use stage2_contract::text::shorten_kernel;
use stage2_live::class_label;

use super::{
    KERNEL_COLUMNS, KernelOrder, Row, View, WIDE, WITH_CALLS, bold, clip, marked, padded, part,
    plain, share, short, unit,
};

/// The row of all copies and fills together.
const COPIES: &str = "memcpy, memset";

/// Time of copies next to that of kernels: it may be longer.
fn on_top(ns: u64, of_kernels: u64) -> String {
    match ns as f64 / of_kernels as f64 {
        _ if of_kernels == 0 => "-".to_owned(),
        part if part < 0.9995 => format!("+{}", share(part)),
        part if part < 100.0 => format!("+{:.0}%", part * 100.0),
        part => format!("+{}x", short(part)),
    }
}

/// Time and launches of each kernel of a stage, by name, and their classes.
pub(super) type Kernels<'v> = (Vec<(&'v str, (u64, u64))>, BTreeMap<&'v str, u8>);

/// Those that are looked for.
pub(super) fn kernels_of<'v>(view: &'v View, row: &Row) -> Kernels<'v> {
    let (mut kernels, class_of) = all_kernels(view, row);
    let class = |name: &str| class_of.get(name).copied().unwrap_or(0);
    let is_wanted = |name: &str| view.state.is_wanted_kernel(name, class(name));
    // Of a stage that is looked for by its own name, all of them.
    if kernels.iter().any(|(name, _)| is_wanted(name)) {
        kernels.retain(|(name, _)| is_wanted(name));
    }
    (kernels, class_of)
}

fn all_kernels<'v>(view: &'v View, row: &Row) -> Kernels<'v> {
    let mut kernels: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    let mut class_of: BTreeMap<&str, u8> = BTreeMap::new();
    let all = view.look.processes.iter().flat_map(|process| &process.window.kernels);
    for kernel in all.filter(|kernel| kernel.stage == row.name) {
        class_of.insert(&kernel.name, kernel.class);
        let sum = kernels.entry(&kernel.name).or_default();
        *sum = (sum.0.saturating_add(kernel.ns), sum.1.saturating_add(kernel.launches));
    }
    (kernels.into_iter().collect(), class_of)
}

pub(super) fn kernel_table(
    view: &View,
    row: Option<&Row>,
    height: usize,
    width: usize,
) -> Vec<Line<'static>> {
    let Some(row) = row.filter(|_| height > 0) else { return Vec::new() };
    let (mut kernels, class_of) = kernels_of(view, row);
    // Those that are not looked for are a part of the sum.
    let wanted: BTreeSet<&str> = kernels.iter().map(|(name, _)| *name).into_set();
    let mut others = all_kernels(view, row).0;
    others.retain(|(name, _)| !wanted.contains(name));
    let mut classes: Vec<(u64, u8)> =
        row.sum.class_ns.iter().enumerate().map(|(class, &ns)| (ns, class as u8)).collect();
    classes.retain(|(ns, _)| *ns > 0);
    classes.order_by(|a, b| b.cmp(a));
    // As in a report, shares are of the time of kernels. That of copies and fills comes on top, in a row of its own.
    let is_copy = |(_, class): &mut (u64, u8)| class_label(*class).starts_with("mem");
    let copies: Vec<(u64, u8)> = classes.extract_if(.., is_copy).collect();
    let sum_of = |of: &[(u64, u8)]| of.iter().fold(0u64, |sum, (ns, _)| sum.saturating_add(*ns));
    let total = sum_of(&classes);
    let copies_row = match copies.as_slice() {
        [] => None,
        [(_, class)] => Some((class_label(*class), sum_of(&copies))),
        _ => Some((COPIES, sum_of(&copies))),
    };
    let by = view.state.kernels_by;
    let mean_ns = |(ns, launches): (u64, u64)| ns.checked_div(launches);
    let size = |sum: (u64, u64)| match by {
        KernelOrder::Time => (Some(sum.0), sum.1),
        KernelOrder::Mean => (mean_ns(sum), sum.0),
    };
    // Titles alone say nothing.
    if kernels.is_empty() && classes.is_empty() && copies.is_empty() {
        view.kernels_shown.set(1);
        return Vec::new();
    }
    kernels.order_by(|a, b| size(b.1).cmp(&size(a.1)).then_with(|| a.0.cmp(b.0)));
    // The last page is full.
    let shown = height.saturating_sub(1);
    let above = view.state.above.min(kernels.len().saturating_sub(shown.max(1)));
    view.kernels_above.set(above);
    let kernels = kernels.split_off(above);
    let from = if above > 0 { format!(", from {}", above + 1) } else { String::new() };
    // Of the processes whose work is recorded.
    let calls = row.recorded;
    let (has_calls, is_wide) = (width >= WITH_CALLS && calls > 0.0, width >= WIDE);
    let besides = 41 + if has_calls { 20 } else { 0 } + if is_wide { 16 } else { 0 };
    let longest = kernels.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let most = KERNEL_COLUMNS.max(longest);
    let name_width = width.saturating_sub(besides).clamp(8, most);
    // Its row says of which run it is.
    let titles = [row.label(), row.name.clone()].map(|stage| format!("KERNEL IN {stage}{from}"));
    let fits = |title: &&String| title.chars().count() <= name_width;
    let from = titles.iter().find(fits).unwrap_or(&titles[1]);
    let per = unit(&row.sum).to_uppercase();
    let title = format!(
        "  {} {:>6}  {} {:>6} {:>8}{}{}",
        padded("CLASS", 14),
        "TIME",
        padded(from, name_width),
        marked("TIME", by == KernelOrder::Time),
        marked("MEAN us", by == KernelOrder::Mean),
        if has_calls {
            format!(" {:>10} {:>8}", format!("COUNT/{per}"), format!("us/{per}"))
        } else {
            String::new()
        },
        if is_wide { "  OF CLASS" } else { "" }
    );
    let mut lines = vec![bold(&title, width)];
    // The last line is the sum of those that have no room.
    let is_cut = kernels.len() + usize::from(!others.is_empty()) > shown;
    // Those that are not looked for have another row than those that have no room.
    let sums = if others.is_empty() { 1 } else { 2 };
    let single = if is_cut { shown.saturating_sub(sums) } else { kernels.len() };
    view.kernels_shown.set(single.max(1));
    let (top, rest) = kernels.split_at_checked(single).unwrap_or((&[], &kernels));
    let sum_of_rows = |rows: &[(&str, (u64, u64))], what: &str| {
        let sum = rows.iter().fold((0u64, 0u64), |sum, (_, (ns, n))| {
            (sum.0.saturating_add(*ns), sum.1.saturating_add(*n))
        });
        (!rows.is_empty()).then(|| (format!("{} {what}", rows.len()), sum))
    };
    let what = if others.is_empty() { "others" } else { "more match" };
    let sums = [sum_of_rows(rest, what), sum_of_rows(&others, "others")];
    let sums = sums.iter().flatten().map(|(name, sum)| (name.as_str(), *sum));
    let top: Vec<_> = top.iter().copied().chain(sums).collect();
    let mut same: BTreeMap<String, usize> = BTreeMap::new();
    let shortened = |name: &str| shorten_kernel(name, name_width);
    top.iter().for_each(|(name, _)| *same.entry(shortened(name)).or_default() += 1);
    let mut top = top.iter().copied();
    // The same of the classes. The copies have a line that these do not need.
    let copies_row = copies_row.filter(|_| classes.len() < shown);
    let single = if classes.len() > shown { shown.saturating_sub(1) } else { classes.len() };
    let beyond = classes.split_off(single);
    let of_class = |(ns, class): (u64, u8)| (class_label(class).to_owned(), part(ns, total));
    let mut classes: Vec<(String, String)> = classes.into_iter().map(of_class).collect();
    if let Some((label, ns)) = copies_row {
        classes.push((label.to_owned(), on_top(ns, total)));
    }
    if !beyond.is_empty() {
        let others = format!("{} others", beyond.len());
        classes.push((others, part(sum_of(&beyond), total)));
    }
    for at in 0..shown {
        let (class, class_part) = classes.get(at).cloned().unwrap_or_default();
        let kernel = top.next();
        if class.is_empty() && kernel.is_none() {
            break;
        }
        let per_call = |(ns, launches): (u64, u64)| {
            format!(" {:>10} {:>8}", short(launches as f64 / calls), short(ns as f64 / 1e3 / calls))
        };
        let mut more = kernel.filter(|_| has_calls).map_or_else(String::new, |of| per_call(of.1));
        if let Some((name, _)) = kernel.filter(|_| is_wide) {
            more.push_str(&format!(
                "  {}",
                class_of.get(name).map_or("", |class| class_label(*class))
            ));
        }
        let (name, kernel_part, mean) = kernel.map_or_else(Default::default, |(name, sum)| {
            let mean = mean_ns(sum).map(|ns| short(ns as f64 / 1e3));
            (name, part(sum.0, total), mean.unwrap_or_default())
        });
        let class = padded(&class, 14);
        let name = match shortened(name) {
            // What was left out may tell it apart.
            same_name if same.get(&same_name).is_some_and(|rows| *rows > 1) => {
                format!("{}…", clip(name, name_width.saturating_sub(1)))
            }
            name => name,
        };
        let text = format!(
            "  {class} {class_part:>6}  {name:name_width$} {kernel_part:>6} {mean:>8}{more}"
        );
        lines.push(plain(&text, width));
    }
    lines
}

/// That the kernels of a stage, if it has some, have no room.
pub(super) fn without_kernels(
    view: &View,
    row: Option<&Row>,
    width: usize,
) -> Option<Line<'static>> {
    let kernels = kernels_of(view, row?).0.len() as u64;
    let text = format!("  no room for {} and their classes", counted(kernels, "kernel"));
    (kernels > 0).then(|| plain(&text, width))
}
