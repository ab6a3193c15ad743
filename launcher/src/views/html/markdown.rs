//! Markdown of our own pages -> HTML, section by section.

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

/// A heading of the second level and what stands below it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Section {
    /// The heading, as text.
    pub(super) title: String,
    /// What stands below it, as HTML.
    pub(super) html: String,
}

/// The sections of a page, without what stands before the first.
pub(super) fn sections(page: &str) -> Vec<Section> {
    let mut sections: Vec<(String, Vec<Event<'_>>)> = Vec::new();
    let mut in_heading = false;
    for event in events(page) {
        match event {
            Event::Start(Tag::Heading { level: HeadingLevel::H2, .. }) => {
                in_heading = true;
                sections.push(Default::default());
            }
            Event::End(TagEnd::Heading(HeadingLevel::H2)) => in_heading = false,
            event => {
                let Some((title, below)) = sections.last_mut() else { continue };
                match event {
                    Event::Text(text) | Event::Code(text) if in_heading => title.push_str(&text),
                    _ if in_heading => {}
                    event => below.push(event),
                }
            }
        }
    }
    let section = |(title, below): (String, Vec<Event<'_>>)| Section { title, html: push(below) };
    sections.into_iter().map(section).collect()
}

/// A piece of Markdown as HTML.
pub(super) fn html(markdown: &str) -> String {
    push(events(markdown))
}

/// Text of any origin as HTML text; not for attributes, which hold nothing of foreign origin.
pub(super) fn text(text: &str) -> String {
    push([Event::Text(text.into())])
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
    fn pages_become_sections() {
        let page = "# Title\n\nbefore\n\n## `a<b` c\n\ntext\n\n### deeper\n\n\
                    | x | ms |\n| --- | ---: |\n| 1 | 2 |\n\n## Next\n\n- item\n";
        let found = sections(page);
        let titles: Vec<&str> = found.iter().map(|section| section.title.as_str()).collect();
        assert_eq!(titles, ["a<b c", "Next"]);
        assert!(found[0].html.starts_with("<p>text</p>\n<h3>deeper</h3>\n<div class=\"table\">"));
        assert!(found[0].html.contains("<td style=\"text-align: right\">2</td>"));
        assert_eq!(found[1].html, "<ul>\n<li>item</li>\n</ul>\n");
    }

    #[test]
    fn nothing_gets_through_as_html() {
        assert_eq!(text("</p><script>&amp;"), "&lt;/p&gt;&lt;script&gt;&amp;amp;");
        let page = html("<script>alert(1)</script>\n\na <b>c</b> [d](javascript:x) ![e](http://f)");
        for tag in ["<script", "<b>", "<a", "<img", "href", "src"] {
            assert!(!page.contains(tag), "{tag}: {page}");
        }
        assert!(page.contains("&lt;script&gt;"), "{page}");
    }
}
