//! What a browser makes of report.html: our own elements only, and nothing to load.

use std::collections::BTreeSet;
use std::fs;

use proptest::prelude::*;
use stage2_contract::trace::NONE;
use stage2_launch::reports::write_reports;

use crate::common::dom::parse;
use crate::report::build::Build;
use crate::report::fixture;

/// Elements of the page. None of them loads or sends anything.
const ELEMENTS: [&str; 49] = [
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "nav",
    "main",
    "header",
    "footer",
    "section",
    "details",
    "summary",
    "div",
    "h1",
    "h2",
    "h3",
    "p",
    "a",
    "ul",
    "li",
    "ol",
    "dl",
    "dt",
    "dd",
    "b",
    "span",
    "strong",
    "em",
    "bdi",
    "code",
    "pre",
    "blockquote",
    "br",
    "svg",
    "g",
    "rect",
    "line",
    "polyline",
    "polygon",
    "circle",
    "text",
    "desc",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
];

/// Attributes that would run or load something, or that the policy of the page forbids.
fn is_harmful(attribute: &str) -> bool {
    attribute.starts_with("on") || ["src", "style", "srcdoc", "action"].contains(&attribute)
}

/// Reads the page as a browser does: its elements are ours, and its only script is the page's own.
pub(crate) fn check(page: &str) {
    let read = parse(page);
    let (mut scripts, mut ids) = (0, BTreeSet::new());
    for element in read.within() {
        let name = element.name();
        scripts += usize::from(name == "script");
        assert!(ELEMENTS.contains(&name.as_str()) || name == "script", "<{name}> is not ours");
        for (attribute, value) in element.attributes() {
            assert!(!is_harmful(&attribute), "{attribute} in <{name}>");
            assert!(attribute != "id" || ids.insert(value), "an identifier twice in <{name}>");
        }
    }
    assert_eq!(scripts, 1, "one script, our own");
    for link in read.all("a") {
        let to = link.attribute("href").unwrap_or_default();
        assert!(to.strip_prefix('#').is_some_and(|id| ids.contains(id)), "{to} leaves the page");
    }
    assert!(!page.chars().any(|c| c.is_control() && c != '\n'));
    let policy = read
        .all("meta")
        .iter()
        .find_map(|meta| meta.attribute("http-equiv").and_then(|_| meta.attribute("content")));
    let policy = policy.expect("a policy");
    assert!(policy.starts_with("default-src 'none'; "), "nothing is loaded: {policy}");
    assert!(!policy.contains("unsafe"), "only what has its hash runs: {policy}");
}

#[test]
fn the_page_has_every_section_and_needs_nothing_else() {
    let folder = tempfile::tempdir().expect("folder");
    fixture::write(folder.path());
    write_reports(folder.path()).expect("reports");
    let page = fs::read_to_string(folder.path().join("report.html")).expect("page");
    check(&page);
    let page_without_names = page.replace("http://www.w3.org/2000/svg", "");
    for url in ["http://", "https://", "url(", "@import"] {
        assert!(!page_without_names.contains(url), "{url}");
    }
    for title in [
        "Kernels",
        "Environment",
        "Aggregates",
        "Per-Stage Timings",
        "Cost of the Passes",
        "MFU",
        "Top Operators",
        "Top Kernels",
        "Takeaways",
        "Recommendations",
        "Limits",
    ] {
        assert!(page.contains(&format!("\n<h2>{title}</h2>\n")), "{title}");
    }
    for title in ["Stages", "Roofline", "Nsight Systems against the collector", "Coverage"] {
        assert!(page.contains(&format!("<summary>{title}</summary>")), "{title}");
    }
    let screen = page.split("</header>").next().expect("first screen");
    assert!(screen.contains("SIMULATED") && screen.contains("PARTIAL"), "{screen}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    /// Hazard (Hostile files): Names in pages, tables and exports.
    /// Promise: None breaks a table, becomes an element or a formula.
    #[test]
    fn no_name_breaks_out_of_the_page(
        name in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40),
            "(<script>|</title>|</style>|\"|'|<!--|<img src=x onerror=y>|&lt;|[|`\\\\<>&*\\[\\]()! a-c\n-]){0,12}"
                .prop_map(String::into_bytes),
        ],
    ) {
        let folder = tempfile::tempdir().expect("folder");
        let text = String::from_utf8_lossy(&name).into_owned();
        let mut b = Build::process(1, &text);
        b.anchor(1).name(1, &name).device(0, &text, 1).shape(1, 1, 1).path(1, NONE, 1);
        b.open(1, 1, 0, 5).kernel(1, 1, 1, (10, 20)).close(1, 30).meta(&text, &text).end();
        b.save(folder.path(), "a.s2t");
        let run = serde_json::json!({
            "command": [text], "passes": [{"name": text, "status": text, "why": text}],
            "findings": [{"severity": "error", "what": text, "why": text, "remedy": text}],
        });
        fs::write(folder.path().join("run.json"), run.to_string()).expect("run.json");
        write_reports(folder.path()).expect("reports");
        check(&fs::read_to_string(folder.path().join("report.html")).expect("page"));
    }
}
