//! The page that explains the others.

use super::*;

#[test]
fn the_help_of_a_narrow_terminal_goes_on_in_its_column() {
    let mut view = view();
    view.state.help = true;
    let shown = text(&view, 60, 40);
    let at =
        shown.iter().position(|line| line.starts_with("Look    up, down    or k, j")).expect("it");
    assert_eq!(shown[at + 1], "                    chart and causes");
    assert!(shown.iter().all(|line| line.chars().count() <= 60), "{shown:#?}");
    // Where it does not fit, it scrolls to its end.
    let shown = text(&view, 60, 20);
    assert!(shown[0].starts_with("lines 1-19 of "), "{shown:#?}");
    let beyond = view.help_beyond.get();
    view.state.help_above = 2 * beyond;
    let shown = text(&view, 60, 20);
    let end = format!("lines {}-{} of {}:", beyond + 1, beyond + 19, beyond + 19);
    assert!(shown[0].starts_with(&end) && shown[19].contains("sends no data"), "{shown:#?}");
}
