//! The charts of the last minute.

use super::*;

#[test]
fn the_last_minute_is_a_column_a_second_and_ends_with_the_newest() {
    let lines = text(&view(), 80, 24);
    let find = |start: &str| {
        let found = lines.iter().find(|line| line.starts_with(start));
        found.unwrap_or_else(|| panic!("{start} is not in {lines:#?}")).as_str()
    };
    // 40 ms, no step, 60 ms; an idle GPU is a low bar and no gap.
    assert_eq!(find("  STEP ms"), "  STEP ms, last 3 s   ▆ █ 40.0-60.0", "no more is recorded");
    assert_eq!(find("  GPU,"), "  GPU, last 3 s       ▁▅█ 0.0%-100%");
    let gpu = "GPU0 412 W 1980 MHz memory 2619 MHz 61 C 20.0 of 80.0 GiB";
    let limited = format!("  rank 0 {gpu} ! power limit");
    assert_eq!(find("  rank 0"), limited, "one line at 80 columns");
    let wide = text(&view(), 200, 50);
    let both = format!("{limited}   rank 1 {gpu}");
    assert!(wide.contains(&both), "{wide:#?}");
    // Another stage has no steps in this minute.
    let mut other = view();
    other.state.chosen = 1;
    assert!(!text(&other, 80, 24).iter().any(|line| line.contains("STEP ms")));
}
