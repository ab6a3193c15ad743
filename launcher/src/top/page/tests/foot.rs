//! Messages, questions and keys, above which the page ends.

use super::*;

#[test]
fn a_dormant_process_is_recorded_at_the_press_of_a_key_and_the_page_says_which() {
    let processes = vec![Watched { pid: 7, ..Watched::default() }];
    let look = Look { processes, ..Look::default() };
    let dormant = View { look, phases: vec![(7, "dormant".to_owned())], ..View::default() };
    let shown = text(&dormant, 80, 24);
    assert!(shown[0].contains("1 process, 1 dormant"), "{shown:#?}");
    assert_eq!(shown[3], "  1 process dormant: press s to record");
    // Where there is no stage, the page says why.
    let why = |view: &View| text(view, 80, 24).swap_remove(3);
    assert_eq!(why(&View::default()), "  no process has a trace file yet");
    // Recording has begun, perhaps again: what ran is recorded, and no number is final.
    let counts = Counts { work: 4_865, ..Counts::default() };
    let look =
        Look { processes: vec![Watched { counts, ..Watched::default() }], ..Look::default() };
    let begun = View { look, ..View::default() };
    assert_eq!(why(&begun), "  first numbers in 2 s");
    assert!(text(&begun, 80, 24)[0].ends_with("  first numbers in 2 s"));
    let look = Look { hosts: Some((0, 2)), ..Look::default() };
    assert_eq!(why(&View { look, ..View::default() }), "  no host answers");
    let look = Look { processes: vec![Watched::default()], ..Look::default() };
    assert!(why(&View { look, ..View::default() }).contains("nothing has run in the last 10 s"));
}

#[test]
fn a_question_names_what_it_costs() {
    let mut view = view();
    view.state.asked = Some(Switch::Start([71, 72].into()));
    let shown = text(&view, 80, 24);
    let asked = |what: &str| [format!("{what}?"), "y: start, any other key: no".to_owned()];
    assert_eq!(shown[22..], asked("start recording 2 processes"), "it is paid, and no other key");
    view.look.processes[1].counts.work = 0;
    let shown = text(&view, 80, 24);
    let at = shown.iter().position(|line| line == "start recording 2 processes?");
    let cost = shown[at.expect("a question") + 1..23].join(" ");
    assert_eq!(cost.split_whitespace().collect::<Vec<_>>().join(" "), START_COST);
    view.state.asked = Some(Switch::Stop([72].into()));
    let shown = text(&view, 80, 24);
    assert_eq!(shown[22..], ["stop recording process 72?", "y: stop, any other key: no"]);
    // What the key would do is of the process that is shown alone.
    view.state.asked = None;
    view.phases = vec![(71, "on".into()), (72, "dormant".into())];
    let mut keys = |only: Option<u32>| {
        view.state.only = only.map(|pid| ("node-1".to_owned(), pid));
        text(&view, 80, 24).pop().unwrap_or_default()
    };
    assert!(keys(None).contains("  s stop") && keys(Some(71)).contains("  s stop"));
    assert!(keys(Some(72)).contains("  s record"));
}

#[test]
fn messages_leave_one_stage_its_row() {
    let mut view = view();
    view.ended = Some("Ended; report: /srv/of/a/long/name/stage2/run-7/report.html".into());
    view.look.problems = vec!["/tmp/a.s2t is damaged at byte 7, and what follows is lost".into()];
    let shown = text(&view, 40, 8);
    assert!(shown.iter().any(|line| line.starts_with("> decode")), "{shown:#?}");
    assert!(shown[4].starts_with("/tmp/a.s2t is damaged"), "{shown:#?}");
    assert!(shown[5].starts_with("Ended;") && shown[7].starts_with("q quit"), "{shown:#?}");
}

/// Hazard (Watching what runs): A run ends while it is watched.
/// Promise: The page states it and the next step, above its keys.
#[test]
fn a_run_that_has_ended_says_what_to_do_next() {
    let mut view = view();
    view.ended = Some("Ended; w writes its report".into());
    view.look.problems = vec!["/tmp/a.s2t is damaged at byte 7".into()];
    let shown = text(&view, 80, 24);
    assert_eq!((shown[22].as_str(), shown.len()), (view.ended.as_deref().expect("told"), 24));
    assert!(shown[21].contains("damaged at byte 7") && shown[23].starts_with("q quit"));
    // A share shows it if a part of the work came late.
    let late = "Shares can differ from the report's, which include what came late";
    for (late_ns, is_said) in [(9_000_000, false), (11_000_000, true)] {
        let process = &mut view.look.processes[0];
        (process.late_ns, process.device_totals) = (late_ns, [(0, 10_000_000_000)].into());
        assert_eq!(text(&view, 80, 24).iter().any(|line| line == late), is_said);
    }
}

#[test]
fn the_keys_are_those_that_do_something() {
    let keys = |phases: &[(u32, &str)], width: usize| {
        let phases = phases.iter().map(|(pid, phase)| (*pid, (*phase).to_owned())).collect();
        text(&View { phases, ..view() }, width, 24).swap_remove(23)
    };
    assert!(keys(&[(71, "dormant"), (72, "on")], 80).starts_with("q quit  s stop  j/k stage"));
    assert!(keys(&[(71, "dormant")], 80).starts_with("q quit  s record  j/k stage"));
    assert!(keys(&[], 80).starts_with("q quit  j/k stage"));
    let ended = View { ended: Some("Ended".into()), has_report: true, ..view() };
    let last = text(&ended, 200, 24).swap_remove(23);
    assert!(!last.contains("freeze") && !last.contains("w report") && last.contains("? help"));
    let without = text(&View { has_report: false, ..ended }, 200, 24).swap_remove(23);
    assert!(!without.contains("freeze") && without.contains("w report"), "{without}");
    assert!(keys(&[(71, "dormant")], 200).contains("  PgUp/PgDn kernels  "));
    assert!(keys(&[(71, "on")], 80).contains("  ←/→ process  PgUp/Dn  / filter  o,t sort  ? help"));
    // One process is neither chosen nor sorted.
    let mut one = View { phases: vec![(71, "on".to_owned())], ..view() };
    one.look.processes.truncate(1);
    let last = |view: &View| text(view, 80, 24).swap_remove(23);
    let all = "q quit  s stop  j/k stage  PgUp/Dn  / filter  t sort  f freeze  w report  ? help";
    assert_eq!(last(&one), all);
    let ended = View { ended: Some("Ended".into()), has_report: true, phases: Vec::new(), ..one };
    assert_eq!(last(&ended), "q quit  j/k stage  PgUp/PgDn kernels  / filter  t sort  ? help");
    for (width, keys) in [
        (52, "q quit  j/k stage  PgUp/Dn  / filter  t sort  ? help"),
        (50, "q quit  j/k stage  / filter  t sort  ? help"),
    ] {
        assert_eq!(text(&ended, width, 24).swap_remove(23), keys);
    }
}
