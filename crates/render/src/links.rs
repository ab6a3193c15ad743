//! What is not prose in the sentences of a finished page of Markdown: files of the bundle become links; commands of stage2 and
//! words with an underscore become code, which can be read and copied as it stands.

use stage2_contract::text::{code, code_in_text};

use crate::names::code_bytes;

/// Files that every bundle has.
const FILES: [&str; 7] = [
    "report.md",
    "report.html",
    "kernels.md",
    "kernels.csv",
    "operators.md",
    "stakeholder_summary.md",
    "metrics.json",
];
const PROGRAM: &str = "stage2-launch ";
/// What stands for the command of the workload.
const COMMAND: &str = " -- COMMAND";

/// The page, which is the file `own`, with its links and code. `command`: that of the workload, for pages that may show it.
pub(crate) fn linked(page: &str, own: &str, command: Option<&str>) -> String {
    page.split_inclusive('\n').map(|line| linked_line(line, own, command)).collect()
}

fn linked_line(line: &str, own: &str, command: Option<&str>) -> String {
    let span = if line.starts_with('|') { code } else { code_in_text };
    let (mut out, mut rest) = (String::with_capacity(line.len()), line);
    while let Some(c) = rest.chars().next() {
        let bytes = match c {
            '`' => code_bytes(rest),
            // The target of a link.
            ']' if rest.starts_with("](") => rest.find(')').map_or(1, |at| at + 1),
            _ if rest.starts_with(PROGRAM) => match command_in(rest) {
                Some((bytes, known)) => {
                    let whole = command.map_or_else(
                        || known.clone(),
                        |command| known.replace(COMMAND, &format!(" -- {command}")),
                    );
                    out.push_str(&span(&whole));
                    (_, rest) = rest.split_at(bytes);
                    continue;
                }
                None => PROGRAM.len(),
            },
            _ if is_of_word(c) => {
                let bytes = rest.find(|c| !is_of_word(c)).unwrap_or(rest.len());
                let (word, after) = rest.split_at(bytes);
                let bare = word.trim_end_matches(['.', ':', '\\']);
                let stop = word.get(bare.len()..).unwrap_or_default();
                match bare {
                    file if FILES.contains(&file) && file != own => {
                        out.push_str(&format!("[{file}]({file}){stop}"));
                    }
                    name if is_escaped_name(name) => {
                        out.push_str(&format!("{}{stop}", span(&name.replace("\\_", "_"))));
                    }
                    _ => out.push_str(word),
                }
                rest = after;
                continue;
            }
            _ => c.len_utf8(),
        };
        let (piece, after) = rest.split_at(bytes);
        out.push_str(piece);
        rest = after;
    }
    out
}

/// The command that a text begins with, up to the place of the workload's own, and its length.
fn command_in(text: &str) -> Option<(usize, String)> {
    let end = text.find(COMMAND)? + COMMAND.len();
    let known = text.get(..end).filter(|known| !known.contains(['`', '\n', '|']))?;
    Some((end, known.replace('\\', "")))
}

/// Whether a word has escapes, and only of underscores.
fn is_escaped_name(word: &str) -> bool {
    word.contains("\\_") && word.matches('\\').count() == word.matches("\\_").count()
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || "_.:/\\-".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_links_and_names_are_code() {
        let of = |text: &str| linked(text, "report.md", None);
        assert_eq!(
            of("See kernels.csv for 3 more.\n"),
            "See [kernels.csv](kernels.csv) for 3 more.\n"
        );
        assert_eq!(
            of("kernels.md, report.html."),
            "[kernels.md](kernels.md), [report.html](report.html)."
        );
        for same in [
            "report.md lists it",
            "`kernels.md` is code",
            "a/metrics.json, my-report.md",
            "[x](kernels.md)",
            "a_b",
            "**\\***",
            "a\\\\\\_b",
        ] {
            assert_eq!(of(same), same);
        }
        assert_eq!(of("aten::normal\\_ is one"), "`aten::normal_` is one");
        assert_eq!(of("of a\\_b: 3"), "of `a_b`: 3");
        assert_eq!(of("| a\\_b\\|c |"), "| `a_b`\\|c |");
    }

    #[test]
    fn a_command_is_whole_where_it_may_be_shown() {
        let said = "run again: stage2-launch run run.baseline=true -- COMMAND.";
        let known = linked(said, "report.md", Some("python3 a_b.py"));
        assert_eq!(known, "run again: `stage2-launch run run.baseline=true -- python3 a_b.py`.");
        let private = linked(said, "report.md", None);
        assert_eq!(private, "run again: `stage2-launch run run.baseline=true -- COMMAND`.");
        let other = "see stage2-launch run --help";
        assert_eq!(linked(other, "report.md", Some("a")), other);
    }
}
