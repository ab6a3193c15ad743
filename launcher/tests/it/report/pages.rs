//! What a browser makes of report.html: our own elements only, and nothing to load. What a Markdown reader
//! makes of the pages: no HTML, and tables whose rows are all whole. Both whatever the names of kernels, ranges
//! and devices are.

use std::collections::BTreeSet;

use proptest::prelude::*;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use stage2_contract::trace::NONE;

use crate::common::dom::parse;
use crate::common::trace::{Build, RunFolder};
use crate::report::fixture;

/// Elements of the page. None of them loads or sends anything.
const ELEMENTS: &str = "html head meta title style body nav main header footer section details summary div h1 h2 \
    h3 p a ul li ol dl dt dd b span strong em bdi code pre blockquote br svg g rect line \
    polyline polygon circle text desc table thead tbody tr th td";

/// Attributes that would run or load something, or that the policy of the page forbids.
fn is_harmful(attribute: &str) -> bool {
    attribute.starts_with("on") || ["src", "style", "srcdoc", "action"].contains(&attribute)
}

/// Reads the page as a browser does: its elements are ours, and its only script is the page's own.
pub(super) fn check_html(page: &str) {
    let read = parse(page);
    let (mut scripts, mut ids) = (0, BTreeSet::new());
    for element in read.within() {
        let name = element.name();
        scripts += usize::from(name == "script");
        let ours = ELEMENTS.split(' ').any(|ours| ours == name) || name == "script";
        assert!(ours, "<{name}> is not ours");
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

/// Whether a link leads to a section of the page or to a file next to it or below, by its plain name.
fn stays_in_bundle(to: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._/-".contains(c);
    let is_file = to.chars().all(is_plain) && !to.starts_with('/') && !to.contains("..");
    to.starts_with('#') || is_file
}

/// Cells of every row of every table, as (cells of the head, cells of the row, text of the row).
fn rows(page: &str) -> Vec<(usize, usize, Vec<String>)> {
    let (mut head, mut cells, mut rows) = (0, Vec::new(), Vec::new());
    for event in Parser::new_ext(page, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH) {
        match event {
            Event::Html(html) | Event::InlineHtml(html) => panic!("HTML: {html}"),
            // Those to its own sections and to files of the bundle.
            Event::Start(Tag::Link { ref dest_url, .. }) if stays_in_bundle(dest_url) => {}
            Event::Start(Tag::Image { .. } | Tag::Link { .. }) => panic!("a link: {event:?}"),
            Event::Start(Tag::TableCell) => cells.push(String::new()),
            Event::Text(text) | Event::Code(text) => {
                cells.iter_mut().last().into_iter().for_each(|cell| cell.push_str(&text));
            }
            Event::End(TagEnd::TableHead) => head = std::mem::take(&mut cells).len(),
            Event::End(TagEnd::TableRow) => {
                rows.push((head, cells.len(), std::mem::take(&mut cells)))
            }
            _ => {}
        }
    }
    rows
}

/// Lines that look like rows: all of them must have been taken for rows.
fn lines(page: &str) -> usize {
    page.lines().filter(|line| line.starts_with('|')).count()
}

pub(super) fn check_markdown(page: &str) -> Vec<Vec<String>> {
    let rows = rows(page);
    // A name may start with dashes, too: the line below a head has nothing else.
    let below_head =
        |line: &&str| line.starts_with("| ---") && !line.contains(|c| !"-:| ".contains(c));
    let heads = page.lines().filter(below_head).count();
    assert_eq!(rows.len() + 2 * heads, lines(page), "every row is one: {page}");
    for (head, cells, texts) in &rows {
        assert_eq!(head, cells, "{texts:?}");
    }
    rows.into_iter().map(|(.., texts)| texts).collect()
}

#[test]
fn the_page_needs_nothing_else_and_says_what_it_is_of() {
    let page = fixture::reported().text("report.html");
    check_html(&page);
    let page_without_names = page.replace("http://www.w3.org/2000/svg", "");
    for url in ["http://", "https://", "url(", "@import"] {
        assert!(!page_without_names.contains(url), "{url}");
    }
    let screen = page.split("</header>").next().expect("first screen");
    assert!(screen.contains("SIMULATED") && screen.contains("PARTIAL"), "{screen}");
}

#[test]
fn tables_are_whole_and_nothing_is_html() {
    let folder = fixture::reported();
    for name in ["kernels.md", "report.md", "stakeholder_summary.md"] {
        let page = folder.text(name);
        let rows = check_markdown(&page);
        assert!(rows.len() > 5);
        let screen: String = page.lines().take(20).collect();
        assert!(
            screen.contains("PARTIAL") && screen.contains("SIMULATED"),
            "first screen of {name}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    /// Hazard (Hostile files): Names in pages, tables and exports.
    /// Promise: None breaks a table, becomes an element or a formula.
    #[test]
    fn no_name_breaks_out_of_the_page(
        name in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40),
            "(<script>|</title>|</style>|\"|'|<!--|<img src=x onerror=y>|&lt;|[|`\\\\<>&*\\[\\]()! a-c\n-]){0,12}"
                .prop_map(String::into_bytes),
            "[|`\\\\<>&*_~$\\[\\]()!'\" a-c\n-]{0,24}".prop_map(String::into_bytes),
        ],
    ) {
        let text = String::from_utf8_lossy(&name).into_owned();
        let mut b = Build::process(1, &text);
        b.anchor(1).name(1, &name).device(0, &text, 1).shape(1, 1, 1);
        b.path(1, NONE, 1).path(2, 1, 1).open(1, 1, 0, 5).open(2, 2, 1, 6);
        b.kernel(2, 1, 1, (10, 20)).copy(2, 1, 5, (20, 30)).fill(2, 5, (30, 31));
        b.close(2, 40).close(1, 50).meta(&text, &text).end();
        let run = serde_json::json!({
            "command": [text],
            "passes": [
                {"name": "collect", "status": "ok", "why": text},
                {"name": text, "status": text, "why": text},
            ],
            "findings": [{"severity": "error", "what": text, "why": text, "remedy": text}],
        });
        let folder = RunFolder::of([&b]);
        let outcome = folder.write("run.json", run.to_string()).reports();
        check_html(&folder.text("report.html"));
        for file in ["kernels.md", "report.md", "operators.md", "stakeholder_summary.md"] {
            let page = folder.text(file);
            prop_assert!(!page.chars().any(|c| c.is_control() && c != '\n'));
            check_markdown(&page);
        }
        prop_assert!(!outcome.headline.lines().iter().any(|line| line.chars().any(char::is_control)));
        let csv = folder.text("kernels.csv");
        let mut reader = csv::Reader::from_reader(csv.as_bytes());
        let records: Vec<csv::StringRecord> = reader.records().map(|r| r.expect("whole")).collect();
        prop_assert_eq!(records.len(), 1);
        prop_assert!(records[0].iter().all(|field| !field.starts_with(['=', '+', '-', '@'])));
    }
}
