//! Markdown of our own pages -> HTML.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd, html};

/// A piece of Markdown as HTML. The policy of the page forbids style attributes: cells of numbers get
/// a class instead. In a text no `<` is left, so that only tags are replaced.
pub(crate) fn html(markdown: &str) -> String {
    let html = push(events(markdown));
    let html = html.replace("<td style=\"text-align: right\">", "<td class=\"n\">");
    let html = html.replace("<th style=\"text-align: right\">", "<th class=\"n\">");
    unbroken(&with_words(&html))
}

/// Numbers stay on one line; a cell that says in words why it has none may take several.
fn with_words(html: &str) -> String {
    const CELL: &str = "<td class=\"n\">";
    let mut cells = html.split(CELL);
    let mut out = cells.next().unwrap_or_default().to_owned();
    for cell in cells {
        let content = cell.split('<').next().unwrap_or_default();
        let is_word = |word: &&str| word.starts_with(char::is_alphabetic);
        let words = content.split(' ').filter(is_word).count();
        out.push_str(if words < WORDS { CELL } else { "<td class=\"n words\">" });
        out.push_str(cell);
    }
    out
}

/// So many words are a text; a number has a unit at most.
const WORDS: usize = 3;

/// Browsers end a line behind a dash: options, and words of commands, stay whole where a line has room for them.
pub(crate) fn unbroken(html: &str) -> String {
    let mut out = String::with_capacity(html.len());
    let (mut is_code, is_letter) = (false, |c: char| c.is_alphanumeric());
    let breaks = |word: &str| word.split('-').skip(1).any(|part| part.starts_with(is_letter));
    for piece in html.split_inclusive('>') {
        let (text, tag) = piece.split_at(piece.rfind('<').unwrap_or(piece.len()));
        for word in text.split_inclusive([' ', '\n']) {
            let (bare, space) = word.split_at(word.trim_end().len());
            match (is_code || bare.starts_with("--")) && breaks(bare) {
                true => out.push_str(&format!("<span class=\"word\">{bare}</span>{space}")),
                false => out.push_str(word),
            }
        }
        out.push_str(tag);
        is_code = tag.starts_with("<code");
    }
    out
}

/// A sentence of Markdown as HTML without the paragraph around it.
pub(super) fn inline(markdown: &str) -> String {
    let html = html(markdown);
    let inner = html.strip_prefix("<p>").and_then(|html| html.strip_suffix("</p>\n"));
    inner.map_or(html.clone(), str::to_owned)
}

/// Text of any origin as HTML text; not for attributes.
pub(crate) fn text(text: &str) -> String {
    push([Event::Text(text.into())])
}

/// Text of any origin as an attribute in double quotes.
pub(crate) fn attribute(value: &str) -> String {
    text(value).replace('"', "&quot;")
}

/// A name of foreign origin: one that is written from right to left turns nothing around it.
pub(super) fn foreign(name: &str) -> String {
    format!("<bdi>{}</bdi>", text(name))
}

/// The class in the style of the page for a class of kernels, or for other GPU work.
pub(super) fn class_mark(class: &str) -> &'static str {
    match class {
        "gemm" => "k-gemm",
        "attention" => "k-attention",
        "communication" => "k-communication",
        "moe" => "k-moe",
        "norm" => "k-norm",
        "softmax" | "rope" => "k-softmax",
        "elementwise" => "k-elementwise",
        "reduction" | "scan" => "k-reduction",
        "selection" => "k-selection",
        "quantization" => "k-quantization",
        "copy" => "k-copy",
        "kv_cache" => "k-kv-cache",
        "fill" => "k-fill",
        "graph" => "k-graph",
        _ => "k-other",
    }
}

fn push<'e>(events: impl IntoIterator<Item = Event<'e>>) -> String {
    let mut out = String::new();
    html::push_html(&mut out, events.into_iter().flat_map(framed));
    out
}

/// Wide tables get a frame that scrolls by itself.
fn framed(event: Event<'_>) -> Vec<Event<'_>> {
    let frame = |tag: &'static str| Event::Html(tag.into());
    match event {
        Event::Start(Tag::Table(_)) => vec![frame("<div class=\"table\">"), event],
        Event::End(TagEnd::Table) => vec![event, frame("</div>\n")],
        _ => vec![event],
    }
}

/// The pages hold neither HTML nor links. Should a name ever get through as one, it is text here.
fn events(markdown: &str) -> impl Iterator<Item = Event<'_>> {
    let parser = Parser::new_ext(markdown, Options::ENABLE_TABLES);
    parser.filter_map(|event| match event {
        Event::Html(html) | Event::InlineHtml(html) => Some(Event::Text(html)),
        Event::Start(Tag::Link { .. } | Tag::Image { .. } | Tag::HtmlBlock)
        | Event::End(TagEnd::Link | TagEnd::Image | TagEnd::HtmlBlock) => None,
        event => Some(event),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_do_not_end_a_line_within() {
        let found = html("`a-b --run-dir x` takes --max-num-seqs, and a-b - --");
        let word = |word: &str| format!("<span class=\"word\">{word}</span>");
        let [name, option, seqs] = ["a-b", "--run-dir", "--max-num-seqs,"].map(word);
        assert_eq!(
            found,
            format!("<p><code>{name} {option} x</code> takes {seqs} and a-b - --</p>\n")
        );
    }

    #[test]
    fn words_in_a_column_of_numbers_may_take_several_lines() {
        let found = html(
            "| x | ms |\n| --- | ---: |\n| 1 | no sample, below 0.022 |\n| 2 | 0.35 ± 0.05 ms |\n",
        );
        assert!(found.contains("<td class=\"n words\">no sample, below 0.022</td>"), "{found}");
        assert!(found.contains("<td class=\"n\">0.35 ± 0.05 ms</td>"), "{found}");
    }

    #[test]
    fn tables_get_a_frame() {
        let found = html("text\n\n### deeper\n\n| x | ms |\n| --- | ---: |\n| 1 | 2 |\n\n- item\n");
        assert!(found.starts_with("<p>text</p>\n<h3>deeper</h3>\n<div class=\"table\"><table>"));
        assert!(found.contains("<td class=\"n\">2</td>"), "{found}");
        assert!(found.ends_with("</table>\n</div>\n<ul>\n<li>item</li>\n</ul>\n"), "{found}");
    }

    #[test]
    fn nothing_gets_through_as_html() {
        assert_eq!(attribute("\"><b x='"), "&quot;&gt;&lt;b x='");
        assert_eq!(text("</p><script>&amp;"), "&lt;/p&gt;&lt;script&gt;&amp;amp;");
        let page = html("<script>alert(1)</script>\n\na <b>c</b> [d](javascript:x) ![e](http://f)");
        for tag in ["<script", "<b>", "<a", "<img", "href", "src"] {
            assert!(!page.contains(tag), "{tag}: {page}");
        }
        assert!(page.contains("&lt;script&gt;"), "{page}");
    }
}
