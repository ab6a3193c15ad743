//! The checks -> the list in docs/doctor.md, so that the page says what the program does.

use super::all_known;
use super::check::Status;

/// Stands before the list in the page, and behind it.
const MARKS: [&str; 2] = ["<!-- checks: written by a test -->\n", "<!-- end of checks -->\n"];

fn list() -> String {
    let mut text = String::new();
    let mut group = None;
    for known in all_known() {
        if group.replace(known.group) != Some(known.group) {
            text.push_str(&format!("\n## {}\n", known.group.title()));
        }
        text.push_str(&format!(
            "### `{}`\n**Looks at:** {}\n\n**Why it matters:** {}\n",
            known.id, known.looks_at, known.why
        ));
        if known.fixes.is_empty() {
            text.push_str("\nIt informs only: nothing has to be done.\n");
        } else {
            text.push_str("\n| case | result | what to do |\n|---|---|---|\n");
        }
        for fix in known.fixes {
            let word = if fix.status == Status::Problem { "problem" } else { "warning" };
            text.push_str(&format!(
                "| {} | {word} | {} |\n",
                fix.when,
                fix.text.replace('|', "\\|")
            ));
        }
        text.push('\n');
    }
    text
}

#[test]
fn the_page_has_the_texts_of_the_program() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/doctor.md");
    let page = std::fs::read_to_string(path).expect("docs/doctor.md");
    let (head, rest) = page.split_once(MARKS[0]).expect("the first mark");
    let (_, tail) = rest.split_once(MARKS[1]).expect("the second mark");
    let wanted = format!("{head}{}{}{}{tail}", MARKS[0], list(), MARKS[1]);
    if std::env::var_os("SNAPSHOTS").is_some_and(|value| value == "overwrite") {
        std::fs::write(path, &wanted).expect("docs/doctor.md");
    } else {
        snapbox::assert_data_eq!(page, snapbox::data::Data::text(wanted).raw());
    }
}
