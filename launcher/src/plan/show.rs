//! A plan -> text that a shell would run.

use std::ffi::OsStr;
use std::io::IsTerminal as _;
use std::os::unix::ffi::OsStrExt as _;

use super::{FLUSH_PAGE, Pass, Plan};
use crate::redaction;
use crate::terminal::{printable, width};
use crate::tools::Step;

/// `runs`: whether a pass would run, or is left out on purpose; the others have no number, as in a run.
pub(crate) fn show(plan: &Plan, runs: impl Fn(&Pass) -> bool) -> String {
    let mut out = format!("# run folder: {}\n", printable(&plan.run_dir.to_string_lossy()));
    for finding in &plan.findings {
        out.push_str(&format!("# {}\n", printable(&redaction::text(&finding.to_string()))));
    }
    for file in plan.hook.iter().flat_map(|hook| hook.files()) {
        out.push_str(&format!("# writes {}\n", printable(&file.to_string_lossy())));
    }
    let all = plan.passes.iter().filter(|pass| runs(pass)).count();
    let mut number = 0;
    for pass in &plan.passes {
        let title = match runs(pass) {
            true => {
                number += 1;
                format!("pass {number} of {all}: {}", pass.name)
            }
            false => format!("{}, which would be skipped", pass.name),
        };
        out.push_str(&format!("\n# {title}\n"));
        out.push_str(&show_pass(pass));
    }
    let stdout = std::io::stdout();
    match width(&stdout).filter(|_| stdout.is_terminal()) {
        Some(width) => in_lines(&out, width),
        None => out,
    }
}

fn show_pass(pass: &Pass) -> String {
    let mut out = String::new();
    if let Some(why) = &pass.skip {
        return format!("# skipped: {}\n", printable(why));
    }
    for folder in &pass.folders {
        out.push_str(&format!("mkdir -p {}\n", quote(folder)));
    }
    if let Some(link) = &pass.link {
        let dir = link.at.parent().unwrap_or(&link.at);
        let (dir, target, at) = (quote(dir), quote(&link.target), quote(&link.at));
        out.push_str(&format!("mkdir -m 700 {dir} && ln -s {target} {at}\n"));
    }
    let profiler = pass.profiler.as_ref();
    for note in profiler.iter().flat_map(|profiler| &profiler.notes) {
        out.push_str(&format!("# {}\n", printable(note)));
    }
    for step in profiler.iter().flat_map(|profiler| &profiler.around.0) {
        out.push_str(&show_step(step, pass));
    }
    out.push_str("env");
    for (name, value) in &pass.environment {
        out.push_str(&format!(" {name}={}", quote(redaction::os_value(name, value))));
    }
    for word in redaction::os_words(&pass.argv) {
        out.push_str(&format!(" {}", quote(word)));
    }
    if let Some(capture) = &pass.capture {
        out.push_str(&format!(" < /dev/null >> {} 2>&1", quote(&capture.log)));
    }
    out.push('\n');
    for step in profiler.iter().flat_map(|profiler| &profiler.around.1) {
        out.push_str(&show_step(step, pass));
    }
    if pass.has_flush_page() {
        let value = "/proc/PID/fd/N:NONCE";
        out.push_str(&format!("# set when the process starts: {FLUSH_PAGE}={value}\n"));
    }
    for (name, value) in &pass.kept {
        let value = quote(redaction::os_value(name, value));
        out.push_str(&format!("# kept from the environment: {name}={value}\n"));
    }
    if let Some(timeout) = pass.limits.timeout {
        let grace = pass.limits.grace.as_secs();
        let timeout = timeout.as_secs();
        out.push_str(&format!("# SIGTERM after {timeout} s, SIGKILL {grace} s later\n"));
    }
    let tee = pass.tee.iter().flat_map(|(stdout, stderr)| [stdout, stderr]);
    for output in pass.outputs.iter().chain(tee) {
        out.push_str(&format!("# writes {}\n", printable(&output.to_string_lossy())));
    }
    out
}

fn show_step(step: &Step, pass: &Pass) -> String {
    let command: Vec<String> = redaction::os_words(&step.argv).iter().map(quote).collect();
    let mut line = command.join(" ");
    if let Some(cwd) = &step.cwd {
        line = format!("cd {} && {line}", quote(cwd));
    }
    let log = pass.capture.as_ref().map(|capture| quote(&capture.log));
    let log = log.unwrap_or_else(|| "/dev/null".to_owned());
    match &step.stdout {
        Some(stdout) => format!("({line}) > {} 2>> {log}\n", quote(stdout)),
        None => format!("({line}) >> {log} 2>&1\n"),
    }
}

/// A plan for a terminal of a width: commands go on in further lines, as a shell reads them.
fn in_lines(plan: &str, width: usize) -> String {
    const INDENT: &str = "    ";
    let mut out = String::new();
    for line in plan.lines() {
        let (mut column, mut quote, mut is_escaped) = (0, None, false);
        let mut words = vec![String::new()];
        for c in line.chars() {
            match (quote, c) {
                (None, ' ') if !is_escaped && !line.starts_with('#') => {
                    words.push(String::new());
                    continue;
                }
                (None, '\'' | '"') if !is_escaped => quote = Some(c),
                (Some(open), _) if open == c && !is_escaped => quote = None,
                _ => {}
            }
            is_escaped = c == '\\' && !is_escaped;
            words.last_mut().into_iter().for_each(|word| word.push(c));
        }
        for (at, word) in words.iter().enumerate() {
            let chars = word.chars().count();
            // With room for a space and the mark of a line that goes on.
            if at > 0 && column + 1 + chars + 2 > width {
                out.push_str(&format!(" \\\n{INDENT}"));
                column = INDENT.len();
            } else if at > 0 {
                out.push(' ');
                column += 1;
            }
            let word = match column + chars + 2 > width {
                true => list_in_lines(word, column, width),
                false => word.clone(),
            };
            out.push_str(&word);
            column = match word.rsplit_once('\n') {
                Some((_, last)) => last.chars().count(),
                None => column + chars,
            };
        }
        out.push('\n');
    }
    out
}

/// A quoted list that is longer than a line, in lines that a shell reads as one word: it goes on at the start of the next
/// line, with its quotes closed before.
fn list_in_lines(word: &str, mut column: usize, width: usize) -> String {
    let inner = word.strip_prefix('\'').and_then(|word| word.strip_suffix('\''));
    let Some(inner) = inner.filter(|inner| !inner.contains('\'')) else { return word.to_owned() };
    let mut out = String::from("'");
    column += 1;
    // With room for the quote, and for what a line that goes on ends with.
    for (at, item) in inner.split_inclusive(',').enumerate() {
        let chars = item.chars().count();
        if at > 0 && column + chars + 3 > width {
            out.push_str("'\\\n'");
            column = 1;
        }
        out.push_str(item);
        column += chars;
    }
    out + "'"
}

/// One word as a POSIX shell reads it. Characters that a terminal would obey are shown as such.
pub(crate) fn quote(word: impl AsRef<OsStr>) -> String {
    let bytes = word.as_ref().as_bytes();
    if bytes.iter().any(|b| b.is_ascii_control()) || std::str::from_utf8(bytes).is_err() {
        let escaped: String = bytes
            .iter()
            .map(|b| match b {
                b'\'' | b'\\' => format!("\\{}", *b as char),
                b' '..=b'~' => (*b as char).to_string(),
                other => format!("\\{other:03o}"),
            })
            .collect();
        return format!("$'{escaped}'");
    }
    // Only a NUL cannot be quoted, and no argument has one.
    let text = String::from_utf8_lossy(bytes);
    shlex::try_quote(&text).map(|quoted| quoted.into_owned()).unwrap_or_else(|_| text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_command_goes_on_in_lines_that_a_shell_reads_as_one() {
        let plan = "# a comment that is longer than a line\nenv A='b  c d e' tool --first --second x\nmkdir -p y\n";
        let shown = in_lines(plan, 24);
        let lines = "# a comment that is longer than a line\nenv A='b  c d e' tool \\\n    --first --second x\nmkdir -p y\n";
        assert_eq!(shown, lines);
        assert_eq!(in_lines(plan, usize::MAX), plan);
    }

    #[test]
    fn a_list_that_is_longer_than_a_line_goes_on_in_the_next_one() {
        let list = "metric_a.sum,metric b,metric_c.max,metric_d";
        let plan = format!("printf %s, --metrics '{list}' last\n");
        let shown = in_lines(&plan, 24);
        assert!(shown.lines().all(|line| line.chars().count() <= 24), "{shown}");
        assert!(shown.contains("'metric_a.sum,'\\\n'metric b,"), "{shown}");
        let output = std::process::Command::new("bash").args(["-c", &shown]).output();
        let said = String::from_utf8(output.expect("bash").stdout).expect("UTF-8");
        assert_eq!(said, format!("--metrics,{list},last,"), "{shown}");
    }

    #[test]
    fn a_shell_reads_back_what_was_quoted() {
        use std::os::unix::ffi::OsStringExt as _;
        let words = "plain|two words|it's|$HOME|a\nb\t\u{1b}[2J|\\|é|#|~|a=b|!|".split('|');
        let mut words: Vec<std::ffi::OsString> = words.map(Into::into).collect();
        words.push(std::ffi::OsString::from_vec(vec![b'x', 0xff, b'\'', b'\\']));
        let line: Vec<String> = words.iter().map(quote).collect();
        assert!(!line.join(" ").contains(['\n', '\u{1b}']));
        let output = std::process::Command::new("bash")
            .arg("-c")
            .arg(format!("printf '%s\\0' {}", line.join(" ")))
            .output()
            .expect("bash");
        let expected: Vec<u8> =
            words.iter().flat_map(|w| w.as_bytes().iter().copied().chain([0])).collect();
        assert_eq!(output.stdout, expected, "{}", line.join(" "));
    }
}
