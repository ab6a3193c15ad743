//! Stacks of the host while the GPU is idle -> a flame graph with the outermost frames at the top (icicle
//! graph). The script of the page zooms into a frame. Without the script, the tooltip of each frame has its
//! name and share.
//!
//! Positions are percentages of the width, so the script zooms by widening the picture in a scrolling box.

use std::collections::BTreeMap;

use super::markdown::text;
use stage2_contract::text::numbers::{count, percent1};
use stage2_contract::text::shorten;
use stage2_model::{HostStage, HostUse};

/// The most rows; deeper frames are left out.
const DEPTH: usize = 60;
/// Frames, and the least share of the width that one has, percent.
const FRAMES: usize = 800;
const LEAST_PERCENT: f64 = 0.1;
const NAME_CHARS: usize = 160;
/// Heights of a row and of its bar, in pixels.
const ROW: usize = 18;
const BAR: usize = 17;
/// The number of colours of frames.
const SHADES: usize = 4;

/// A frame with the frames that it called.
#[derive(Default)]
struct Node {
    ns: u64,
    samples: u64,
    called: BTreeMap<usize, Node>,
}

/// Returns a flame graph of the idle time of a stage; `None` without stacks.
pub(super) fn flame(host: &HostUse, stage: &HostStage, id: &str) -> Option<String> {
    let mut root = Node::default();
    for known in &stage.stacks {
        root.ns = root.ns.saturating_add(known.ns);
        let mut at = &mut root;
        for name in known.stack.iter().take(DEPTH) {
            at = at.called.entry(*name).or_default();
            at.ns = at.ns.saturating_add(known.ns);
            at.samples = at.samples.saturating_add(known.samples);
        }
    }
    if root.called.is_empty() || root.ns == 0 {
        return None;
    }
    let mut picture = Picture { names: &host.names, all_ns: root.ns, ..Picture::default() };
    picture.draw(&root, 0.0, 0);
    let height = (picture.deepest + 1) * ROW;
    let all = root.ns.saturating_add(stage.stacks_left_out_ns).max(1);
    let shown = root.ns as f64 * 100.0 / all as f64;
    let left_out = match picture.left_out {
        0 => String::new(),
        some => format!(" {} narrow frames are not drawn.", count(some)),
    };
    Some(format!(
        "<div class=\"flame\" id=\"{id}\">\n<div class=\"scroll\" tabindex=\"0\" role=\"group\" \
         aria-label=\"Flame graph; arrow keys pan\">\n<svg class=\"stacks\" height=\"{height}\" \
         role=\"img\" aria-labelledby=\"{id}-title\">\n<title id=\"{id}-title\">Stacks of the launching \
         threads while the GPU is idle</title>\n{}</svg>\n</div>\n</div>\n<p class=\"note\">The width of a \
         frame is its share of the idle time, from {} samples. The outermost frames are at the top. The \
         last frame of a stack is what the thread waited for, if it did. The graph shows {} % of the \
         time.{left_out}</p>\n",
        picture.frames,
        count(stage.samples),
        percent1(shown),
    ))
}

#[derive(Default)]
struct Picture<'h> {
    names: &'h [String],
    all_ns: u64,
    frames: String,
    drawn: usize,
    deepest: usize,
    left_out: u64,
}

impl Picture<'_> {
    /// Draws the frames that a frame called, the longest first, from `x` percent of the width on. The
    /// recursion is at most [`DEPTH`] deep, because stacks are cut to that.
    fn draw(&mut self, node: &Node, mut x: f64, depth: usize) {
        let mut called: Vec<(&usize, &Node)> = node.called.iter().collect();
        called.sort_by_key(|(name, node)| (std::cmp::Reverse(node.ns), **name));
        for (name, node) in called {
            let percent = node.ns as f64 * 100.0 / self.all_ns as f64;
            if percent < LEAST_PERCENT || self.drawn >= FRAMES {
                self.left_out += 1;
                continue;
            }
            self.drawn += 1;
            self.deepest = self.deepest.max(depth);
            let known = self.names.get(*name).map_or("(not known)", String::as_str);
            let shown = text(&shorten(known, NAME_CHARS));
            let said = format!("{shown}: {} %, {} samples", percent1(percent), count(node.samples));
            let (y, shade) = (depth * ROW, name % SHADES);
            self.frames.push_str(&format!(
                "<svg class=\"frame\" x=\"{x:.4}%\" width=\"{percent:.4}%\" y=\"{y}\" height=\"{BAR}\">\
                 <title>{said}</title><rect class=\"f-{shade}\" width=\"100%\" height=\"100%\"/>\
                 <text x=\"3\" y=\"12\">{shown}</text></svg>\n"
            ));
            self.draw(node, x, depth + 1);
            x += percent;
        }
    }
}
