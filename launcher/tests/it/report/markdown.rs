//! What a Markdown reader makes of the pages: no HTML, and tables whose rows are all whole,
//! whatever the names of kernels, ranges and devices are.

use std::fs;

use proptest::prelude::*;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use stage2_contract::trace::NONE;
use stage2_launch::reports::write_reports;

use crate::report::build::Build;
use crate::report::fixture;

/// Cells of every row of every table, as (cells of the head, cells of the row, text of the row).
fn rows(page: &str) -> Vec<(usize, usize, Vec<String>)> {
    let (mut head, mut cells, mut rows) = (0, Vec::new(), Vec::new());
    for event in Parser::new_ext(page, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH) {
        match event {
            Event::Html(html) | Event::InlineHtml(html) => panic!("HTML: {html}"),
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

pub(crate) fn check(page: &str) -> Vec<Vec<String>> {
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
fn tables_are_whole_and_nothing_is_html() {
    let folder = tempfile::tempdir().expect("folder");
    fixture::write(folder.path());
    write_reports(folder.path()).expect("reports");
    for name in ["kernels.md", "report.md", "stakeholder_summary.md"] {
        let page = fs::read_to_string(folder.path().join(name)).expect("page");
        let rows = check(&page);
        assert!(rows.len() > 5);
        let screen: String = page.lines().take(16).collect();
        assert!(
            screen.contains("PARTIAL") && screen.contains("SIMULATED"),
            "first screen of {name}"
        );
    }
    let kernels = fs::read_to_string(folder.path().join("kernels.md")).expect("page");
    assert!(kernels.contains("\n| kernel_name | total_ms | calls | mean_ms | device |"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn no_name_breaks_a_table(
        name in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40),
            "[|`\\\\<>&*_~$\\[\\]()!'\" a-c\n-]{0,24}".prop_map(String::into_bytes),
        ],
    ) {
        let folder = tempfile::tempdir().expect("folder");
        let mut b = Build::process(1, &String::from_utf8_lossy(&name));
        b.anchor(1).name(1, &name).device(0, &String::from_utf8_lossy(&name), 1).shape(1, 1, 1);
        b.path(1, NONE, 1).path(2, 1, 1).open(1, 1, 0, 5).open(2, 2, 1, 6);
        b.kernel(2, 1, 1, (10, 20)).copy(2, 1, 5, (20, 30)).fill(2, 5, (30, 31));
        b.meta(&String::from_utf8_lossy(&name), &String::from_utf8_lossy(&name)).end();
        b.save(folder.path(), "a.s2t");
        let outcome = write_reports(folder.path()).expect("reports");
        for file in ["kernels.md", "report.md", "operators.md", "stakeholder_summary.md"] {
            let page = fs::read_to_string(folder.path().join(file)).expect("page");
            prop_assert!(!page.chars().any(|c| c.is_control() && c != '\n'));
            check(&page);
        }
        prop_assert!(!outcome.headline.iter().any(|line| line.chars().any(char::is_control)));
        let csv = fs::read_to_string(folder.path().join("kernels.csv")).expect("table");
        let mut reader = csv::Reader::from_reader(csv.as_bytes());
        let records: Vec<csv::StringRecord> = reader.records().map(|r| r.expect("whole")).collect();
        prop_assert_eq!(records.len(), 1);
        prop_assert!(records[0].iter().all(|field| !field.starts_with(['=', '+', '-', '@'])));
    }
}
