//! Kernels and their classes.

use super::*;

#[test]
fn kernels_below_the_first_ones_can_be_scrolled_to() {
    let mut view = view();
    assert_eq!(kernels(&view), 9);
    let shown = |view: &View| {
        let lines = text(view, 80, 24);
        let at = lines.iter().position(|line| line.contains("KERNEL")).expect("a title");
        (lines[at].contains("KERNEL IN decode, from 2"), lines[at + 1].contains("gemm_b"))
    };
    assert_eq!(shown(&view), (false, false));
    view.state.above = 1;
    assert_eq!(shown(&view), (true, true));
    // A key scrolls by what is shown, so that none is passed over: the last line is the sum of the others.
    let lines = text(&view, 80, 24);
    let at = lines.iter().position(|line| line.contains("KERNEL IN")).expect("a title");
    let others = lines[at + 1..].iter().position(|line| line.contains(" others"));
    assert_eq!(view.kernels_shown.get(), others.unwrap_or(4), "{lines:#?}");
    // The last page is full, also where a later terminal has more lines.
    view.state.above = 99;
    for height in [24, 40] {
        let lines = text(&view, 80, height).join("\n");
        assert!(lines.contains(" cast ") && !lines.contains(" others"), "{lines}");
        let shown = 9 - view.kernels_above.get();
        assert!(shown > 4 && view.kernels_shown.get() == shown, "{shown} in {height} lines");
    }
}

/// Hazard (Watching what runs): Copies are in the classes and not in the whole that their shares are of.
/// Promise: The shares of the kernels' classes add up to 100 %, and those of copies say that they come on top.
#[test]
fn the_shares_of_the_classes_add_up_and_copies_come_on_top() {
    let label = |class: &u8| stage2_live::class_label(*class);
    let number = |wanted: &str| (0..u8::MAX).find(|class| label(class) == wanted).expect("a class");
    let of = |copies: &[(&str, u64)], height: usize| {
        let mut view = view();
        view.look.processes.truncate(1);
        let decode = view.look.processes[0].window.stages.get_mut("decode").expect("a stage");
        for (class, ns) in copies {
            decode.class_ns[usize::from(number(class))] = *ns;
        }
        let shown = text(&view, 80, height);
        let at = shown.iter().position(|line| line.contains("CLASS")).expect("a title");
        let rows = shown[at + 1..].iter().map(|line| line[..25].trim().to_owned());
        rows.take_while(|row| row.ends_with('%')).collect::<Vec<_>>()
    };
    let row = |class: &str, share: &str| format!("{class:14} {share:>6}");
    let kernels = [row("gemm", "76.9%"), row("attention", "23.1%")];
    assert_eq!(of(&[], 40), kernels);
    let with = |last: String| [&kernels[..], &[last]].concat();
    assert_eq!(of(&[("memcpy", 65_000_000)], 40), with(row("memcpy", "+1.0%")));
    let both = [("memcpy", 6_500_000_000), ("memset", 6_500_000_000)];
    assert_eq!(of(&both, 40), with(row("memcpy, memset", "+200%")));
    // Where there is no line for all, classes of kernels are worth more.
    let many = [("memcpy", 6_500_000), ("norm", 9), ("moe", 9), ("elementwise", 9), ("copy", 9)];
    let low = of(&many, 18);
    assert!(low.len() > 1 && low.iter().all(|row| !row.starts_with("mem")), "{low:#?}");
}

/// Hazard (Watching what runs): Kernels that are looked for and have no room are in one sum with those that are not.
/// Promise: Each has a row.
#[test]
fn kernels_that_match_and_have_no_room_are_counted_apart() {
    let mut view = view();
    view.state.filter = "gemm_".into();
    for process in &mut view.look.processes {
        process.window.kernels.iter_mut().for_each(|kernel| kernel.class = 2);
        process.window.kernels.iter_mut().skip(5).for_each(|of| of.name.insert_str(0, "gemm_"));
    }
    let shown = text(&view, 80, 20).join("\n");
    assert!(shown.contains("  2 more match ") && shown.contains("  3 others "), "{shown}");
    let whole = text(&view, 80, 60).join("\n");
    assert!(!whole.contains(" match ") && whole.contains("  3 others "), "{whole}");
    // And the key to the former is there.
    view.look.processes.truncate(1);
    let keys = text(&view, 80, 20).swap_remove(19);
    assert!(keys.starts_with("Esc clears /gemm_  ") && keys.contains("  PgUp/Dn  "), "{keys}");
}

#[test]
fn names_of_kernels_have_the_width_that_is_free() {
    let mut view = view();
    let name = format!("distribution_kernel<{}>", "uniform_and_transform, ".repeat(4));
    view.look.processes[0].window.kernels[0].name.clone_from(&name);
    assert!(text(&view, 200, 50).join("\n").contains(&name));
    // Two of which the same is left stay apart.
    let names =
        ["BFloat16", "float"].map(|of| format!("fill<transform<{of}, {}>>", "x, ".repeat(30)));
    for (kernel, name) in view.look.processes[0].window.kernels.iter_mut().zip(&names) {
        kernel.name.clone_from(name);
    }
    let shown = text(&view, 100, 50).join("\n");
    assert!(
        shown.contains(" fill<transform<BFloat16") && shown.contains(" fill<transform<float"),
        "{shown}"
    );
}

#[test]
fn the_kernels_of_one_process_alone_can_be_scrolled() {
    let mut view = view();
    view.state.only = Some(("node-1".into(), 72));
    text(&view, 80, 24);
    assert!(view.kernels_shown.get() > 1);
}
