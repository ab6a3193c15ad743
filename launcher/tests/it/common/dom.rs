//! A page as a browser reads it: the elements that the parser of HTML makes of it.

use html5ever::tendril::TendrilSink as _;
use markup5ever_rcdom::{Handle, NodeData, RcDom};

/// An element, or the whole page.
#[derive(Clone)]
pub(crate) struct Element(Handle);

impl std::fmt::Debug for Element {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "<{}>{}", self.name(), self.text())
    }
}

pub(crate) fn parse(page: &str) -> Element {
    let parser = html5ever::parse_document(RcDom::default(), Default::default());
    Element(parser.one(page).document)
}

#[allow(dead_code, reason = "each test uses a part")]
impl Element {
    /// Name of its tag; empty for the page.
    pub(crate) fn name(&self) -> String {
        match &self.0.data {
            NodeData::Element { name, .. } => name.local.to_string(),
            _ => String::new(),
        }
    }

    pub(crate) fn attributes(&self) -> Vec<(String, String)> {
        let NodeData::Element { attrs, .. } = &self.0.data else { return Vec::new() };
        let attrs = attrs.borrow();
        attrs.iter().map(|a| (a.name.local.to_string(), a.value.to_string())).collect()
    }

    pub(crate) fn attribute(&self, name: &str) -> Option<String> {
        self.attributes().into_iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// All elements within it, in the order of the page.
    pub(crate) fn within(&self) -> Vec<Element> {
        let (mut found, mut stack) = (Vec::new(), vec![self.0.clone()]);
        while let Some(node) = stack.pop() {
            stack.extend(node.children.borrow().iter().rev().cloned());
            if matches!(node.data, NodeData::Element { .. }) {
                found.push(Element(node));
            }
        }
        found
    }

    pub(crate) fn all(&self, tag: &str) -> Vec<Element> {
        self.within().into_iter().filter(|element| element.name() == tag).collect()
    }

    #[track_caller]
    pub(crate) fn one(&self, tag: &str) -> Element {
        self.all(tag).into_iter().next().unwrap_or_else(|| panic!("no <{tag}> in {self:?}"))
    }

    pub(crate) fn of_class(&self, class: &str) -> Vec<Element> {
        let has = |element: &Element| {
            let classes = element.attribute("class").unwrap_or_default();
            classes.split_whitespace().any(|known| known == class)
        };
        self.within().into_iter().filter(has).collect()
    }

    /// The only one with this identifier.
    #[track_caller]
    pub(crate) fn by_id(&self, id: &str) -> Element {
        let has = |element: &Element| element.attribute("id").as_deref() == Some(id);
        let mut found: Vec<Element> = self.within().into_iter().filter(has).collect();
        assert_eq!(found.len(), 1, "elements with the identifier {id}");
        found.remove(0)
    }

    /// Its text and that of all within it; not that of scripts and styles.
    pub(crate) fn text(&self) -> String {
        let (mut found, mut stack) = (String::new(), vec![self.0.clone()]);
        while let Some(node) = stack.pop() {
            match &node.data {
                NodeData::Text { contents } => found.push_str(&contents.borrow()),
                NodeData::Element { name, .. } if matches!(&*name.local, "script" | "style") => {}
                _ => stack.extend(node.children.borrow().iter().rev().cloned()),
            }
        }
        found
    }

    /// Tags and names of attributes, in the order of the page.
    pub(crate) fn shape(&self) -> Vec<String> {
        let shape = |element: Element| {
            let names: Vec<String> =
                element.attributes().into_iter().map(|(name, _)| name).collect();
            format!("{} {}", element.name(), names.join(" "))
        };
        self.within().into_iter().map(shape).collect()
    }
}
