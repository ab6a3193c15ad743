//! Names and texts as people read them.
//!
//! The collector prints a table when its guest ends, and the launcher writes reports later. Both must
//! demangle, shorten and escape alike, so what does it lives here.

mod boilerplate;
pub mod kernel_class;
mod kernel_name;
mod near;
pub mod numbers;
pub mod operation;
mod range_names;
pub mod redact;
mod visible;

pub use kernel_name::{KernelName, comparable, function_name, kernel_name, shorten_kernel};
pub use near::{did_you_mean, instead, most_like};
pub use range_names::{
    MODULE_RANGE, Pattern, REQUEST_RANGE, is_library_domain, is_record, pattern, pattern_of,
    without_instance, without_instance_str,
};
pub use visible::{
    code, code_in_text, csv_field, cut, plain, shorten, uuid_text, visible, visible_path,
};

/// The word with a capital.
pub fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters.clone()).collect()
}

/// The first `most` of several texts, and how many more there are: `a, b and 3 more`.
pub fn listed(texts: &[impl AsRef<str>], most: usize) -> String {
    let shown: Vec<&str> = texts.iter().take(most).map(AsRef::as_ref).collect();
    let shown = shown.join(", ");
    match texts.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// At most `limit` characters of a command: words of its middle give way to `…`, and no word is cut. One whose first word
/// is longer than that, as [`shorten`] has it.
pub fn shorten_words(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    let words: Vec<&str> = text.split(' ').collect();
    // The words that have room, each with its space.
    fn fitting<'w>(words: impl Iterator<Item = &'w &'w str>, room: usize) -> (usize, usize) {
        let mut used = 0;
        let ends = words.map(|word| {
            used += word.chars().count() + 1;
            used
        });
        let ends: Vec<usize> = ends.take_while(|end| *end <= room).collect();
        (ends.len(), ends.last().copied().unwrap_or(0))
    }
    let room = limit.saturating_sub(1);
    let (front, used) = fitting(words.iter(), room.div_ceil(2));
    let (back, _) = fitting(words.iter().skip(front).rev(), room - used.min(room));
    if front == 0 {
        return shorten(text, limit);
    }
    let head = words.iter().take(front);
    let tail = words.iter().skip(words.len() - back);
    head.chain([&"…"]).chain(tail).copied().collect::<Vec<_>>().join(" ")
}

/// Units that stay on the line of their number.
const UNITS: [&str; 16] = [
    "%", "ns", "us", "ms", "s", "min", "h", "B", "KiB", "MiB", "GiB", "GB/s", "TB/s", "TFLOP/s",
    "tokens/s", "W",
];

/// Whether a quoted argument of a command goes on behind this part of it: `'lane`.
fn is_open(part: &str) -> bool {
    let begins = |at: &usize| {
        part.get(..*at).is_some_and(|head| head.is_empty() || head.ends_with(['=', '(', '`', ' ']))
    };
    let quoted = part.find('\'').filter(begins).and_then(|at| part.get(at + 1..));
    quoted.is_some_and(|quoted| !quoted.contains('\''))
}

/// The words of a text; a number and its unit, or its error, are one, as is a quoted argument, unless that is longer
/// than a line.
fn unbroken(text: &str, width: usize) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let unit = word.trim_end_matches([',', ';', ':', '.', ')']);
        let belongs = |before: &String| {
            let is_number = before.ends_with(|c: char| c.is_ascii_digit());
            let is_of_number = is_number && (unit == "±" || UNITS.contains(&unit));
            before.ends_with('±') || is_of_number || is_open(before)
        };
        let fits = |before: &String| before.chars().count() + word.chars().count() < width;
        match words.last_mut().filter(|before| belongs(before) && fits(before)) {
            Some(before) => before.extend([" ", word]),
            None => words.push(word.to_owned()),
        }
    }
    words
}

/// The words of a text in lines of a width. A word that is longer, such as a path, has its own line. Numbers stay with
/// their units.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut room = 0;
    for word in unbroken(text, width) {
        let length = word.chars().count();
        match lines.last_mut() {
            Some(line) if room > length => {
                line.push(' ');
                line.push_str(&word);
                room -= length + 1;
            }
            _ => {
                lines.push(word);
                room = width.saturating_sub(length);
            }
        }
    }
    lines
}

/// A word that is longer than its line breaks behind one of these, if it has one.
const SEPARATORS: [char; 9] = ['/', ':', ',', '.', '_', '-', '=', '<', ' '];

/// [`wrapped`], with longer words, such as paths, broken behind a separator: no line is longer than `width` characters
/// (at least 1), and nothing is cut.
pub fn broken(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    if text.chars().count() <= width {
        return vec![text.to_owned()];
    }
    let mut out = Vec::new();
    for line in wrapped(text, width) {
        let mut rest = line.as_str();
        while rest.chars().count() > width {
            let end = rest.char_indices().nth(width).map_or(rest.len(), |(end, _)| end);
            let head = rest.get(..end).unwrap_or(rest);
            let end = head.rfind(SEPARATORS).map_or(end, |at| at + 1);
            let (head, tail) = rest.split_at(end);
            out.push(head.to_owned());
            rest = tail;
        }
        out.push(rest.to_owned());
    }
    out
}

/// The words of a text in at most `most` lines of a width; what has no room is marked as cut.
pub fn wrapped_at_most(text: &str, width: usize, most: usize) -> Vec<String> {
    let words: Vec<String> =
        text.split_whitespace().map(|word| shorten(word, width.saturating_sub(1))).collect();
    let mut lines = wrapped(&words.join(" "), width);
    if lines.len() > most {
        lines.truncate(most);
        if let Some(last) = lines.last_mut() {
            let kept: String = last.chars().take(width.saturating_sub(1)).collect();
            *last = format!("{}…", kept.trim_end());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stays_with_its_unit_and_its_error() {
        let text = "saves up to 1.08 ± 0.12 ms (0.19 ms more), 5 calls";
        assert_eq!(
            wrapped(text, 16),
            ["saves up to", "1.08 ± 0.12 ms", "(0.19 ms more),", "5 calls"]
        );
    }

    /// A command that breaks within an argument does something else where it is copied to.
    #[test]
    fn a_quoted_argument_stays_on_one_line() {
        assert_eq!(
            wrapped("perf top --comms 'lane 0', the host's code", 20),
            ["perf top --comms", "'lane 0', the host's", "code"]
        );
        let longer = ["-- sh -c", "'a b c d e", "f'"];
        assert_eq!(wrapped("-- sh -c 'a b c d e f'", 10), longer, "longer than a line");
    }

    #[test]
    fn a_command_keeps_whole_words() {
        let command = "python3 -m vllm serve /models/llama --port 8000";
        assert_eq!(shorten_words(command, 47), command);
        assert_eq!(shorten_words(command, 34), "python3 -m vllm … --port 8000");
        assert_eq!(shorten_words(command, 20), "python3 … 8000");
        assert_eq!(shorten_words("/a/very/long/path of", 10), shorten("/a/very/long/path of", 10));
        for limit in 1..60 {
            assert!(shorten_words(command, limit).chars().count() <= limit, "{limit}");
        }
    }

    #[test]
    fn the_first_texts_are_named_and_the_others_counted() {
        assert_eq!(listed(&["a", "b"], 2), "a, b");
        assert_eq!(listed(&["a", "b", "c"], 2), "a, b and 1 more");
        assert_eq!(listed(&[] as &[&str], 2), "");
    }

    #[test]
    fn what_has_no_room_is_cut_at_a_word_and_says_so() {
        assert_eq!(wrapped_at_most("one two three four", 8, 2), ["one two", "three…"]);
        assert_eq!(wrapped_at_most("one two", 8, 2), ["one two"]);
        assert!(
            wrapped_at_most(&"x".repeat(100), 8, 2).iter().all(|line| line.chars().count() <= 8)
        );
        assert_eq!(wrapped_at_most("", 8, 2), [""; 0]);
    }
}
