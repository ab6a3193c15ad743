//! Foreign text -> text that cannot break a terminal, a table or a spreadsheet.
//!
//! Two steps, and no other place does either. [`visible`], once, when a string enters the report:
//! what would act instead of being seen (control characters, bidirectional and invisible ones,
//! bytes that are not UTF-8) is spelled out. Then, where a string enters a format, the step for
//! that format: [`code`], [`plain`] or [`csv_field`]. JSON needs no further step.

use std::path::Path;

/// Spells out what cannot be seen: `\n`, `\x1b`, `\u{202e}`, and `\xff` for bytes that are not
/// UTF-8. Printable text, mangled names among it, stays as it is.
pub fn visible(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            push_visible(&mut out, c);
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

/// [`visible`] for a path.
pub fn visible_path(path: &Path) -> String {
    visible(path.as_os_str().as_encoded_bytes())
}

fn push_visible(out: &mut String, c: char) {
    match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        c if c.is_ascii_control() => out.push_str(&format!("\\x{:02x}", c as u32)),
        c if acts(c) => out.push_str(&format!("\\u{{{:x}}}", c as u32)),
        c => out.push(c),
    }
}

/// Characters beyond ASCII that act on their surroundings or leave no trace: C1 controls, line
/// separators, bidirectional controls, joiners, byte order marks, tags, and fillers.
fn acts(c: char) -> bool {
    matches!(c,
        '\u{80}'..='\u{9f}' | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}'
        | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// At most `limit` characters of `text`: the middle gives way to `…`.
pub fn shorten(text: &str, limit: usize) -> String {
    let length = text.chars().count();
    if length <= limit {
        return text.to_owned();
    }
    let kept = limit.saturating_sub(1);
    let front = kept.div_ceil(2);
    let back = kept - front;
    let head = text.chars().take(front);
    let tail = text.chars().skip(length - back);
    head.chain(['…']).chain(tail).collect()
}

/// Cuts a text that is too long at the end of a sentence, or if that is far, of a clause, or else between words, outside
/// of brackets where it can, and then marks the cut.
pub fn cut(text: &str, limit: usize) -> String {
    let Some((end, _)) = text.char_indices().nth(limit) else { return text.to_owned() };
    let fits = text.get(..end).unwrap_or(text);
    // Not much less than what fits.
    let is_late = |at: &usize| at * 2 >= end;
    if let Some(at) = fits.rfind(". ").filter(is_late) {
        return fits.get(..=at).unwrap_or(fits).to_owned();
    }
    let kept = |at: usize| fits.get(..at).unwrap_or(fits);
    let is_closed = |at: &usize| kept(*at).matches('(').count() <= kept(*at).matches(')').count();
    let last = |ends: &[&str]| {
        let ends = ends.iter().flat_map(|end| fits.match_indices(end));
        ends.map(|(at, _)| at).filter(|at| is_late(at) && is_closed(at)).max()
    };
    let at = last(&["; ", ": ", ", ", " ("]).or_else(|| last(&[" "]));
    let at = at.or_else(|| fits.rfind(' ').filter(is_late)).unwrap_or(end);
    format!("{} ...", kept(at).trim_end())
}

/// Visible text as a Markdown code span in a table: nothing in it is Markdown or HTML. The only
/// change to its look: a `|` directly after a backslash, which renderers disagree on, is spelled
/// out.
pub fn code(visible: &str) -> String {
    span(visible, true)
}

/// Visible text as a Markdown code span outside of tables, where a `|` needs no escape.
pub fn code_in_text(visible: &str) -> String {
    span(visible, false)
}

fn span(visible: &str, in_table: bool) -> String {
    if visible.trim().is_empty() {
        return if visible.is_empty() { "(empty)" } else { "(blank)" }.to_owned();
    }
    let mut body = String::with_capacity(visible.len() + 4);
    let mut fence = 1;
    let mut run = 0;
    for c in visible.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        fence = fence.max(run + 1);
        match c {
            '|' if in_table && body.ends_with('\\') => body.push_str("\\x7c"),
            '|' if in_table => body.push_str("\\|"),
            c => body.push(c),
        }
    }
    // A fence that touches a backtick would take it for its own.
    let padded = [body.chars().next(), body.chars().last()].contains(&Some('`'));
    let ticks = "`".repeat(fence);
    if padded { format!("{ticks} {body} {ticks}") } else { format!("{ticks}{body}{ticks}") }
}

/// Visible text as plain Markdown text, also in a table.
pub fn plain(visible: &str) -> String {
    let mut out = String::with_capacity(visible.len());
    let mut in_word = false;
    let mut rest = visible.chars();
    while let Some(c) = rest.next() {
        let next_in_word = rest.clone().next().is_some_and(char::is_alphanumeric);
        match c {
            // Within a word it is no emphasis.
            '_' if in_word && next_in_word => out.push(c),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '|' => out.push_str("&#124;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '~' | '$' => out.extend(['\\', c]),
            c => out.push(c),
        }
        in_word = c.is_alphanumeric();
    }
    out
}

/// Begins a formula in a spreadsheet. Some take the full-width and small forms for the ASCII ones, as
/// they are typed in East Asia.
const FORMULA: [char; 13] =
    ['=', '+', '-', '@', '＝', '＋', '－', '＠', '﹦', '﹢', '﹣', '﹫', '\u{2212}'];

/// Visible text as the content of a CSV field (the CSV writer does the quoting). What a spreadsheet
/// takes for a formula, also behind spaces, gets a `'` in front.
pub fn csv_field(visible: &str) -> String {
    match visible.trim_start().starts_with(FORMULA) {
        true => format!("'{visible}"),
        false => visible.into(),
    }
}

/// A UUID in the form that NVIDIA's tools print, without their `GPU-`.
pub fn uuid_text(uuid: [u8; 16]) -> String {
    let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &hex[part]);
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_text_is_cut_at_the_end_of_a_clause() {
        assert_eq!(cut("short", 10), "short");
        assert_eq!(cut("one clause; another, and more words", 24), "one clause; another ...");
        assert_eq!(cut("One sentence. Another one", 20), "One sentence.");
        assert_eq!(cut(&"é".repeat(50), 10), format!("{} ...", "é".repeat(10)));
        let bracket = "it reads 2.6 times its weights (16.8 GB, of which 6.4 are needed)";
        assert_eq!(cut(bracket, 50), "it reads 2.6 times its weights ...");
        assert_eq!(cut("seven words are longer than this here", 22), "seven words are ...");
    }

    #[test]
    fn printable_text_stays() {
        for text in ["_ZN2at6nativeEv", "prefill/layer.3", "größe 名前 →", "a|b`c<d>"] {
            assert_eq!(visible(text.as_bytes()), text);
        }
    }

    #[test]
    fn what_acts_is_spelled_out() {
        let cases: [(&[u8], &str); 8] = [
            (b"a\nb\r\t", "a\\nb\\r\\t"),
            (b"\x1b[31mred\x07", "\\x1b[31mred\\x07"),
            (b"\x00\x7f", "\\x00\\x7f"),
            (b"ok\xff\xc3", "ok\\xff\\xc3"),
            ("\u{202e}drowssap".as_bytes(), "\\u{202e}drowssap"),
            ("\u{9b}31m\u{85}".as_bytes(), "\\u{9b}31m\\u{85}"),
            ("a\u{2028}b\u{feff}".as_bytes(), "a\\u{2028}b\\u{feff}"),
            ("x\u{200b}\u{e0041}y".as_bytes(), "x\\u{200b}\\u{e0041}y"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(visible(bytes), expected);
        }
    }

    #[test]
    fn code_spans_hold_anything() {
        let cases = [
            ("gemm<4>", "`gemm<4>`"),
            ("a|b", "`a\\|b`"),
            ("a\\|b", "`a\\\\x7cb`"),
            ("a`b", "``a`b``"),
            ("``", "``` `` ```"),
            ("`x", "`` `x ``"),
            ("", "(empty)"),
            ("  ", "(blank)"),
        ];
        for (text, expected) in cases {
            assert_eq!(code(text), expected, "{text:?}");
        }
    }

    #[test]
    fn plain_text_is_neither_markup_nor_html() {
        assert_eq!(plain("<b>|&`[x](y)*_"), "&lt;b&gt;&#124;&amp;\\`\\[x\\](y)\\*\\_");
        assert_eq!(plain("C:\\x a_b _c_ d_"), "C:\\\\x a_b \\_c\\_ d\\_");
        assert_eq!(code_in_text("a|b`"), "`` a|b` ``");
    }

    #[test]
    fn formulas_are_disarmed() {
        for text in
            ["=1+1", "+1", "-1", "@x", "＝1", "＋1", "－1", "＠x", "﹦1", "\u{3000}＝1", " =1"]
        {
            assert_eq!(csv_field(text), format!("'{text}"));
        }
        assert_eq!(csv_field("_Z3addv"), "_Z3addv");
        assert_eq!(csv_field(&visible(b"\t=1+1")), "\\t=1+1", "a leading tab is spelled out");
    }

    #[test]
    fn shortening_keeps_both_ends_and_the_limit() {
        assert_eq!(shorten("abcdefgh", 8), "abcdefgh");
        assert_eq!(shorten("abcdefghi", 8), "abcd…ghi");
        assert_eq!(shorten("ääää", 3), "ä…ä");
        assert_eq!(shorten("abc", 1), "…");
        assert_eq!(shorten("abc", 0), "…");
    }

    /// Cells of a Markdown row as renderers split it: at every `|` not after a backslash.
    fn cells(row: &str) -> usize {
        let mut previous = ' ';
        let bars = row.chars().filter(|&c| {
            let bar = c == '|' && previous != '\\';
            previous = c;
            bar
        });
        bars.count() + 1
    }

    proptest! {
        #[test]
        fn nothing_breaks_out(bytes in prop::collection::vec(any::<u8>(), 0..80), text in "\\PC*|[\\\\|`<>]{0,9}") {
            for bytes in [bytes.as_slice(), text.as_bytes()] {
                let shown = visible(bytes);
                prop_assert!(!shown.chars().any(|c| c.is_control() || acts(c)));
                prop_assert_eq!(visible(shown.as_bytes()), shown.clone(), "idempotent");
                for cell in [code(&shown), plain(&shown)] {
                    prop_assert_eq!(cells(&format!("{cell} ")), 1, "{}", cell);
                    prop_assert_eq!(cells(&format!("{cell} |x")), 2, "{}", cell);
                }
                prop_assert!(!plain(&shown).contains(['<', '>']));
            }
        }
    }
}
