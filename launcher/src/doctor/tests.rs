use super::check::{Fix, Group};
use super::*;

#[test]
fn every_check_has_a_name_of_its_own_and_only_bad_fixes() {
    let known = all_known();
    let names: std::collections::BTreeSet<_> = known.iter().map(|known| known.id).collect();
    assert_eq!(names.len(), known.len());
    for known in known {
        let bad = |fix: &Fix| matches!(fix.status, Status::Warning | Status::Problem);
        assert!(known.fixes.iter().all(bad), "{}", known.id);
        assert!(!known.looks_at.contains("  ") && !known.why.contains("  "), "{}", known.id);
    }
}

#[test]
fn the_worst_check_decides_and_unmade_ones_do_not() {
    let of = |checks: Vec<Check>| Diagnosis::of(checks).status;
    let (driver, nsys) = (&gpu::DRIVER, &tools::NSYS);
    assert_eq!(of(vec![driver.ok("x"), nsys.not_checked("y")]), Status::Ok);
    assert_eq!(of(vec![driver.ok("x"), nsys.case(0, "y")]), Status::Warning);
    let both = Diagnosis::of(vec![nsys.case(0, "y"), driver.case(0, "\u{1b}[2J")]);
    assert_eq!((both.status, both.problems, both.warnings), (Status::Problem, 1, 1));
    assert_eq!(both.checks[0].group, Group::Gpu, "in the order of the groups");
    let shown = show(&both, false);
    assert!(
        shown.contains("to do: install NVIDIA's driver") && shown.contains("\\x1b[2J"),
        "{shown}"
    );
    assert!(shown.contains("1 problem, 1 warning, 0 not checked, of 2 checks"), "{shown}");
}

#[test]
fn only_what_fits_the_cause_explains_an_empty_run() {
    let checks = || {
        vec![
            gpu::DRIVER.case(0, "no driver"),
            profilers::INJECTION.case(0, "another tool"),
            gpu::DEVICES.not_checked("x"),
            tools::NSYS.case(0, "missing"),
        ]
    };
    let ids = |causes: &[EmptyCause]| -> Vec<_> {
        fitting(checks(), causes).iter().map(|check| check.id).collect()
    };
    assert_eq!(ids(&[EmptyCause::NoGpu]), ["driver"]);
    assert_eq!(ids(&[EmptyCause::NothingUsed]), ["injection"]);
    assert_eq!(ids(&[EmptyCause::CuptiOff]), ["driver", "injection"]);
    assert_eq!(ids(&[EmptyCause::RangesNeverOpened]), [""; 0]);
}
