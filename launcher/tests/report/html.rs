//! What a browser makes of report.html: our own tags only, all closed, and nothing to load.

use std::collections::BTreeMap;
use std::fs;

use proptest::prelude::*;
use stage2_launch::views::write_reports;
use stage2_spool::NONE;

use crate::build::Build;
use crate::fixture;

/// Tags of the page, and their attributes.
const TAGS: [(&str, &[&str]); 39] = [
    ("!doctype", &["html"]),
    ("html", &["lang"]),
    ("head", &[]),
    ("meta", &["charset", "http-equiv", "content", "name"]),
    ("title", &[]),
    ("style", &[]),
    ("body", &[]),
    ("nav", &["aria-label"]),
    ("main", &[]),
    ("header", &[]),
    ("footer", &[]),
    ("section", &["id"]),
    ("details", &[]),
    ("summary", &[]),
    ("div", &["class", "id"]),
    ("h1", &[]),
    ("h2", &[]),
    ("h3", &[]),
    ("p", &["class"]),
    ("a", &["href"]),
    ("ul", &[]),
    ("li", &[]),
    ("b", &[]),
    ("span", &[]),
    ("strong", &[]),
    ("em", &[]),
    ("code", &[]),
    ("svg", &["viewbox", "preserveaspectratio", "aria-hidden"]),
    ("rect", &["class", "x", "width", "height"]),
    ("table", &[]),
    ("thead", &[]),
    ("tbody", &[]),
    ("tr", &[]),
    ("th", &["style"]),
    ("td", &["style"]),
    ("ol", &[]),
    ("blockquote", &[]),
    ("pre", &[]),
    ("br", &[]),
];
const VOID: [&str; 5] = ["!doctype", "meta", "rect", "br", "hr"];

/// Reads the page as a browser does: every `<` begins a tag, up to the next `>` outside of quotes.
fn check(page: &str) {
    let known: BTreeMap<&str, &[&str]> = TAGS.into_iter().collect();
    let mut open: Vec<String> = Vec::new();
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let mut quoted = false;
        let end = rest.find(|c| {
            quoted ^= c == '"';
            c == '>' && !quoted
        });
        let tag = &rest[..end.expect("a tag that ends")];
        rest = &rest[tag.len() + 1..];
        if let Some(closed) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(closed), "{tag}");
            continue;
        }
        let (name, attributes) = tag.split_once([' ', '/']).unwrap_or((tag, ""));
        let name = name.to_ascii_lowercase();
        let allowed = known.get(name.as_str()).unwrap_or_else(|| panic!("<{tag}> is not ours"));
        for (i, part) in attributes.trim_end_matches('/').split('"').enumerate() {
            // Outside of quotes stand names of attributes.
            for attribute in part.split_whitespace().filter(|_| i % 2 == 0) {
                let attribute = attribute.trim_end_matches('=').to_ascii_lowercase();
                assert!(allowed.contains(&attribute.as_str()), "{attribute} in <{tag}>");
            }
        }
        if name == "a" {
            assert!(attributes.starts_with("href=\"#part-"), "<{tag}> leaves the page");
        }
        if !VOID.contains(&name.as_str()) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "never closed: {open:?}");
    for (at, _) in page.match_indices("href=\"#") {
        let id = page[at + 7..].split('"').next().expect("an identifier");
        assert_eq!(page.matches(&format!(" id=\"{id}\"")).count(), 1, "{id}");
    }
    assert!(!page.chars().any(|c| c.is_control() && c != '\n'));
    assert!(page.contains("default-src 'none'"), "nothing is loaded");
}

#[test]
fn the_page_has_every_section_and_needs_nothing_else() {
    let folder = tempfile::tempdir().expect("folder");
    fixture::write(folder.path());
    write_reports(folder.path()).expect("reports");
    let page = fs::read_to_string(folder.path().join("report.html")).expect("page");
    check(&page);
    for url in ["http://", "https://", "url(", "@import"] {
        assert!(!page.contains(url), "{url}");
    }
    for title in [
        "At a glance",
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
