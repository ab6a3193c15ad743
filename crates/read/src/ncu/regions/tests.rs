use super::super::load::Quantity;
use super::*;

fn label(name: &str) -> Label {
    Label { name: name.into(), domain: None }
}

fn launch(kernel: &str, stack: &[&str], duration_ns: f64) -> Launch {
    let quantity = |value: f64, unit: &str| Quantity { value, unit: unit.into() };
    Launch {
        kernel: kernel.into(),
        grid: if kernel == "range" { [0; 3] } else { [1, 1, 1] },
        process_id: 7,
        ranges: stack.iter().map(|name| label(name)).collect(),
        metrics: [
            ("gpu__time_duration.sum".to_owned(), quantity(duration_ns, "ns")),
            ("dram__bytes.sum".to_owned(), quantity(duration_ns * 2.0, "byte")),
        ]
        .into(),
        ..Launch::default()
    }
}

fn settings() -> Regions {
    Regions::default()
}

fn aggregate(launches: &[Launch], settings: &Regions) -> Vec<Region> {
    let mut findings = Vec::new();
    let tables = tables(launches, settings, &mut findings);
    tables.into_iter().find(|t| t.scope == Scope::Aggregate).expect("aggregate").regions
}

/// Path, parent, depth, inclusive and exclusive nanoseconds.
type Figures<'a> = (&'a str, Option<&'a str>, usize, f64, Option<f64>);

fn figures(regions: &[Region]) -> Vec<Figures<'_>> {
    regions
        .iter()
        .map(|r| {
            let exclusive = r.exclusive.as_ref().and_then(|totals| totals.duration_ns);
            let inclusive = r.inclusive.duration_ns.expect("duration");
            (r.path.as_str(), r.parent.as_deref(), r.depth, inclusive, exclusive)
        })
        .collect()
}

#[test]
fn launches_count_for_all_regions_around_them_and_exclusively_for_the_innermost() {
    let launches = [
        launch("k", &["a"], 1.0),
        launch("k", &["a", "b"], 10.0),
        launch("k", &["a", "b", "c"], 100.0),
        launch("k", &["b"], 1000.0),
        launch("k", &[], 10000.0),
    ];
    let regions = aggregate(&launches, &settings());
    assert_eq!(
        figures(&regions),
        [
            ("a", None, 0, 111.0, Some(1.0)),
            ("a/b", Some("a"), 1, 110.0, Some(10.0)),
            ("a/b/c", Some("a/b"), 2, 100.0, Some(100.0)),
            ("b", None, 0, 1000.0, Some(1000.0)),
        ]
    );
    assert_eq!(regions[0].inclusive.dram_bytes, Some(222.0));
    assert_eq!((regions[0].inclusive.flops, regions[0].inclusive.launches), (None, 3));
}

#[test]
fn exclude_wins_and_what_is_left_out_counts_for_the_region_around_it() {
    let launches = [launch("k", &["a"], 1.0), launch("k", &["a", "b", "c"], 100.0)];
    let chosen = Regions { include: vec!["a".into(), "*c".into()], exclude: vec![], ..settings() };
    assert_eq!(
        figures(&aggregate(&launches, &chosen)),
        [("a", None, 0, 101.0, Some(1.0)), ("a/b/c", Some("a"), 1, 100.0, Some(100.0))]
    );
    let both = Regions { exclude: vec!["a/b/c".into()], ..chosen };
    assert_eq!(figures(&aggregate(&launches, &both)), [("a", None, 0, 101.0, Some(101.0))]);
}

#[test]
fn an_outer_region_without_launches_of_its_own_has_nothing_exclusive() {
    let regions = aggregate(&[launch("k", &["a", "b"], 5.0)], &settings());
    assert_eq!(figures(&regions)[0], ("a", None, 0, 5.0, Some(0.0)));
}

#[test]
fn ranges_are_measured_one_by_one_and_the_inner_ones_are_subtracted() {
    let launches = [
        launch("range", &["a"], 100.0),
        launch("range", &["a"], 120.0),
        launch("range", &["a", "b"], 30.0),
        launch("range", &["a", "b"], 40.0),
    ];
    assert_eq!(
        figures(&aggregate(&launches, &settings())),
        [("a", None, 0, 220.0, Some(150.0)), ("a/b", Some("a"), 1, 70.0, Some(70.0))]
    );
    let limited = Regions { launch_count: std::num::NonZeroU64::new(1), ..settings() };
    assert_eq!(figures(&aggregate(&launches, &limited))[0], ("a", None, 0, 220.0, None));
}

#[test]
fn more_within_than_around_is_told() {
    let launches = [launch("range", &["a"], 10.0), launch("range", &["a", "b"], 30.0)];
    let mut findings = Vec::new();
    let tables = tables(&launches, &settings(), &mut findings);
    assert_eq!(figures(&tables[0].regions)[0], ("a", None, 0, 10.0, None));
    let told = findings.iter().filter(|f| f.what.contains("exclusive totals of a "));
    assert_eq!(told.count(), 1, "once for all {} tables: {findings:?}", tables.len());
}

#[test]
fn each_process_and_device_has_a_table_and_the_aggregate_can_be_left_out() {
    let mut other = launch("k", &["a"], 5.0);
    (other.process_id, other.device) = (8, 1);
    let launches = [launch("k", &["a"], 1.0), other];
    let mut findings = Vec::new();
    let scopes = |settings: &Regions, findings: &mut Vec<Finding>| -> Vec<(Scope, f64)> {
        let tables = tables(&launches, settings, findings);
        tables.iter().map(|t| (t.scope, t.regions[0].inclusive.duration_ns.unwrap())).collect()
    };
    let each = [
        (Scope::Process(7), 1.0),
        (Scope::Process(8), 5.0),
        (Scope::Device(0), 1.0),
        (Scope::Device(1), 5.0),
    ];
    let all: Vec<_> = [(Scope::Aggregate, 6.0)].into_iter().chain(each).collect();
    assert_eq!(scopes(&settings(), &mut findings), all);
    assert_eq!(scopes(&Regions { aggregate: false, ..settings() }, &mut findings), each);
}

#[test]
fn no_regions_is_no_failure_and_is_told() {
    for (launches, why) in [
        (vec![launch("k", &[], 1.0)], "within a range"),
        (vec![launch("k", &["a"], 1.0)], "match none"),
        (vec![], "within a range"),
    ] {
        let none = Regions { include: vec!["x".into()], ..settings() };
        let mut findings = Vec::new();
        let tables = tables(&launches, &none, &mut findings);
        assert!(tables.iter().all(|table| table.regions.is_empty()));
        assert!(findings[0].why.contains(why), "{findings:?}");
    }
}
