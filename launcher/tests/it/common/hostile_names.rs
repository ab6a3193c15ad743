//! Names that break out of one format or another: one list for every test of them.

/// Text that is far longer than any name.
const LONG: usize = 1 << 20;

/// What each name tries, and its bytes.
pub(crate) fn all() -> Vec<(&'static str, Vec<u8>)> {
    let mut names: Vec<(&str, Vec<u8>)> = NAMES.map(|(what, name)| (what, name.to_vec())).to_vec();
    names.push(("a megabyte of text", b"long ".repeat(LONG / 5)));
    names.push(("a megabyte of bars", b"|".repeat(LONG)));
    names
}

const NAMES: [(&str, &[u8]); 42] = [
    // Markdown.
    ("a cell of a table", b"a | b || c |"),
    ("a bar behind a backslash", b"a \\| b \\\\| c"),
    ("lines, and a table", b"a\n\n| x | y |\n| --- | --- |\n| 1 | 2 |\r\n"),
    ("an open code span", b"a ` b `` c ```"),
    ("a code block", b"\n```\ncode\n```\n~~~"),
    ("a link", b"[text](https://example.org/) <https://example.org/>"),
    ("a link by reference", b"[a]\n\n[a]: https://example.org \"t\""),
    ("an image", b"![x](https://example.org/x.png)"),
    ("a heading and a list", b"# heading\n- item\n1. item\n> quote\n***\n---"),
    ("emphasis", b"*a* **b** _c_ __d__ ~~e~~ $f$"),
    // HTML.
    ("a script", b"<script>alert(1)</script>"),
    ("the end of a script", b"</script><script>alert(1)</script>"),
    ("the end of a style, a title, a comment", b"</style></title>--><!--"),
    ("an element with a handler", b"<img src=x onerror=alert(1)>"),
    ("the end of an attribute", b"\" onmouseover=\"alert(1)\" x='"),
    ("entities", b"&lt;script&gt; &#60;b&#62; &amp;amp; &nbsp;"),
    ("an SVG", b"<svg/onload=alert(1)><foreignObject>"),
    ("CDATA", b"]]><![CDATA[ <b>"),
    // CSV.
    ("a formula", b"=cmd|' /C calc'!A0"),
    ("a formula by a plus", b"+1+cmd|' /C calc'!A0"),
    ("a formula by a minus", b"-1+cmd|' /C calc'!A0"),
    ("a formula by an at", b"@SUM(1+1)*cmd|' /C calc'!A0"),
    ("a formula behind a tab", b"\t=1+1"),
    ("a formula behind a carriage return", b"\r=1+1"),
    ("a formula behind a space", b" =1+1"),
    ("a formula in full width", "\u{ff1d}1+1".as_bytes()),
    ("cells and records", b"a,b;c\td\"e\"\"f\r\ng,\"h"),
    // JSON, SQL, stacks.
    ("escapes of JSON", b"\\\" \\u0022 \\n \\ \"},{\"a\":\""),
    ("SQL", b"'; DROP TABLE StringIds; -- \" ["),
    ("frames of a stack", b"a;b;c 99\nd 1"),
    ("a path", b"../../etc/passwd/./x"),
    // Terminals.
    ("colours and cursor", b"\x1b[31m\x1b[2J\x1b[1;1H"),
    ("a link of a terminal", b"\x1b]8;;https://example.org\x07text\x1b]8;;\x1b\\"),
    ("the title of a terminal", b"\x1b]0;title\x07\x08\x08\x7f"),
    ("a carriage return over the line", b"safe\rstage2-launch: error: x\x0b\x0c"),
    ("C1 controls", "\u{9b}31m\u{90}\u{9d}0;x\u{9c}\u{85}".as_bytes()),
    // Text.
    ("direction", "\u{202e}gnp.exe\u{2066}\u{2069}\u{200f}".as_bytes()),
    ("without width", "de\u{200b}co\u{feff}de\u{2060}\u{ad}\u{e0041}".as_bytes()),
    ("line separators", "a\u{2028}b\u{2029}c\u{0}d".as_bytes()),
    ("no UTF-8", b"\xff\xfe\xc3\x28\xed\xa0\x80\xf4\x90\x80\x80"),
    ("nothing", b""),
    ("blanks", b"   "),
];

/// Whether a character acts on what stands around it, or cannot be seen.
pub(crate) fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}
