//! Stacks of the host while the GPU is idle -> a flame graph with the outermost frames at the top (icicle
//! graph). The script of the page zooms into a frame. Without the script, the tooltip of each frame has its
//! name and share.
//!
//! Positions are percentages of the width, so the script zooms by widening the picture in a scrolling box.

use std::collections::BTreeMap;

use super::markdown::text;
use super::mean_step::Part;
use super::timeline::{folder, mark_in};
use stage2_contract::order::Order as _;
use stage2_contract::text::numbers::{count, counted, percent1};
use stage2_contract::text::shorten;
use stage2_model::{HostFrame, HostStage, HostUse};
use stage2_read::host_cause::Calls;

/// The most rows; deeper frames are left out.
const DEPTH: usize = 60;
/// Frames, and the least share of the width that one has, percent.
const FRAMES: usize = 800;
const LEAST_PERCENT: f64 = 0.1;
const NAME_CHARS: usize = 160;
/// So many frames of which each called one only are drawn as one, if hardly a stack ends in them.
const CHAIN: usize = 3;
const NEARLY_ALL: f64 = 0.95;
/// Functions that decorators and callers of objects put around others.
const WRAPPERS: [&str; 8] =
    ["wrapper", "wrapped", "inner", "decorated", "decorate_context", "__call__", "<lambda>", "_fn"];
/// What is between the name of a function and that of one without a name in it: `priority.<genexpr>`.
const NESTED: &str = ".<";
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

/// Returns a flame graph of the idle time of a stage; `None` without stacks, or where too few samples tell no cause.
/// `run`: the name of its folder. `bar`: the parts of the mean step, whose colours the same functions have here.
pub(super) fn flame(
    run: &str,
    host: &HostUse,
    stage: &HostStage,
    id: &str,
    bar: &[Part],
) -> Option<String> {
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
    if stage.causes.is_empty() || root.called.is_empty() || root.ns == 0 {
        return None;
    }
    let all_ns = stage.stacks_of_ns.max(root.ns);
    let mut picture = Picture { names: &host.names, bar, all_ns, ..Picture::default() };
    picture.draw(&root, 0.0, 0);
    let height = (picture.deepest + 1) * ROW;
    let left_out = match picture.left_out {
        0 => String::new(),
        1 => " 1 narrow frame is not drawn.".to_owned(),
        some => format!(" {} narrow frames are not drawn.", count(some)),
    };
    let drawn_ns = root.called.values().fold(0, |ns: u64, node| ns.saturating_add(node.ns));
    let without = (all_ns.saturating_sub(drawn_ns)) as f64 * 100.0 / all_ns as f64;
    let without = match percent1(without).as_str() {
        "0.0" => String::new(),
        percent => format!(" For {percent} % of the idle time, no stack is shown."),
    };
    let cut = without_callers(host, stage, &root).map_or_else(String::new, |(name, ns)| {
        let percent = percent1(ns as f64 * 100.0 / all_ns as f64);
        format!(" {percent} % have no callers, such as {}: the stack was cut off.", text(&name))
    });
    let from = match stage.samples {
        0 => "calls whose times are known, without a sample".to_owned(),
        some => counted(some, "sample"),
    };
    Some(format!(
        "<div class=\"flame\" id=\"{id}\">\n<div class=\"scroll\" tabindex=\"0\" role=\"group\" \
         aria-label=\"Flame graph; arrow keys pan\">\n<svg class=\"stacks\" height=\"{height}\" \
         role=\"img\" aria-labelledby=\"{id}-title\">\n<title id=\"{id}-title\">Stacks of the launching \
         threads while the GPU is idle</title>\n{}</svg>\n</div>\n</div>\n<p class=\"note\">The width of a \
         frame is its share of the idle time, from {from}. It includes all that the frame called, including waits, which \
         are separate rows of the table above, where its share can be smaller. The outermost frames are at the \
         top. If the thread was waiting, the innermost frame shows what for. A function that is a part of \
         the mean step has the same colour there.{cut}{without}{left_out} Stacks of the whole step, also while the GPU works: \
         <code>{}</code>, at speedscope.app.</p>\n",
        picture.frames,
        text(&format!("stage2-launch export {} -f speedscope", folder(run))),
    ))
}

/// The time of outermost frames that something must have called, and the name of the largest: functions without a name,
/// and of a single thread all but its first function. Nothing where it would read 0.0 %.
fn without_callers(host: &HostUse, stage: &HostStage, root: &Node) -> Option<(String, u64)> {
    let name = |at: &usize| host.names.get(*at).map_or("", String::as_str);
    let first = root.called.iter().max_by_key(|(_, node)| node.ns).map(|(at, _)| *at);
    let is_cut = |at: &usize| {
        let is_other = stage.threads.len() == 1 && Some(*at) != first && name(at).ends_with(')');
        is_other || name(at).contains(NESTED)
    };
    let cut = || root.called.iter().filter(|(at, _)| is_cut(at));
    let ns = cut().map(|(_, node)| node.ns).sum::<u64>();
    let most = cut().max_by_key(|(_, node)| node.ns)?;
    let function = name(most.0).split(" (").next().unwrap_or_default();
    (ns * 2_000 > root.ns).then(|| (function.to_owned(), ns))
}

/// A frame and the frames below it, as long as each called one frame only, or hardly another. The innermost frame of a
/// stack stays one of its own.
fn chain(name: usize, node: &Node) -> (Vec<usize>, &Node) {
    let (mut names, mut at) = (vec![name], node);
    while let Some((name, only)) = at.called.first_key_value()
        && at.called.len() == 1
        && !only.called.is_empty()
        && only.ns as f64 >= at.ns as f64 * NEARLY_ALL
    {
        names.push(*name);
        at = only;
    }
    (names, at)
}

#[derive(Default)]
struct Picture<'h> {
    names: &'h [String],
    bar: &'h [Part],
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
        called.order_by_key(|(name, node)| (std::cmp::Reverse(node.ns), **name));
        for (name, node) in called {
            let percent = node.ns as f64 * 100.0 / self.all_ns as f64;
            if percent < LEAST_PERCENT || self.drawn >= FRAMES {
                self.left_out += 1;
                continue;
            }
            let (outer, end) = chain(*name, node);
            if outer.len() < CHAIN {
                let shown = self.name(*name);
                self.frame(node, &shown, "", (x, depth), &[*name]);
                self.draw(node, x, depth + 1);
            } else {
                let names: Vec<String> = outer.iter().map(|name| self.name(*name)).collect();
                let shown = format!("{} ({} frames)", self.name(self.telling(&outer)), names.len());
                let more = format!("\n{}", names.join("\n"));
                self.frame(node, &shown, &more, (x, depth), &outer);
                self.draw(end, x, depth + 1);
            }
            x += percent;
        }
    }

    /// Draws one frame, of all those in `outer`; `more` is what its tooltip says below its share.
    fn frame(&mut self, node: &Node, shown: &str, more: &str, at: (f64, usize), outer: &[usize]) {
        let shade = outer.first().map_or(0, |name| name % SHADES);
        let mark = outer.iter().rev().find_map(|name| self.mark(*name));
        let mark = mark.map_or_else(|| format!("f-{shade}"), str::to_owned);
        let (x, depth) = at;
        self.drawn += 1;
        self.deepest = self.deepest.max(depth);
        let percent = node.ns as f64 * 100.0 / self.all_ns as f64;
        let (share, y) = (percent1(percent), depth * ROW);
        // Calls whose times are known need none.
        let samples = match node.samples {
            0 => String::new(),
            some => format!(", {}", counted(some, "sample")),
        };
        self.frames.push_str(&format!(
            "<svg class=\"frame\" x=\"{x:.4}%\" width=\"{percent:.4}%\" y=\"{y}\" height=\"{BAR}\">\
             <title>{shown}: {share} %{samples}{more}</title>\
             <rect class=\"{mark}\" width=\"100%\" height=\"100%\"/>\
             <text x=\"3\" y=\"12\">{shown}</text></svg>\n"
        ));
    }

    /// Of several frames in one, the outermost first, the one that names them: as in the table of causes, the innermost
    /// that does more than call others.
    fn telling(&self, outer: &[usize]) -> usize {
        let frame = |at: &usize| {
            let name = self.names.get(*at).map_or("", String::as_str);
            let (function, place) = name.rsplit_once(" (").unwrap_or((name, ""));
            let place = place.trim_end_matches(')');
            let file = place.rsplit_once(':').map_or(place, |(file, _)| file);
            (*at, HostFrame { function: function.to_owned(), file: file.to_owned(), line: 0 })
        };
        let inner: Vec<(usize, HostFrame)> = outer.iter().rev().map(frame).collect();
        let wraps = |frame: &HostFrame| {
            let name = frame.function.rsplit('.').next().unwrap_or_default();
            WRAPPERS.contains(&name)
        };
        let own: Vec<&(usize, HostFrame)> =
            inner.iter().filter(|(_, frame)| !wraps(frame)).collect();
        let of = |frames: &[&(usize, HostFrame)]| {
            let row = Calls::of(frames.iter().map(|(_, frame)| frame)).row()?;
            frames.get(row).map(|(at, _)| *at)
        };
        of(&own).or(outer.last().copied()).unwrap_or_default()
    }

    /// The colour of a frame, `f (lib/a.py:3)`, in the bar of the mean step, if that has its function.
    fn mark(&self, at: usize) -> Option<&'static str> {
        let (function, place) = self.names.get(at)?.rsplit_once(" (")?;
        let file = place.rsplit_once(':').map_or(place, |(file, _)| file);
        let file = file.rsplit_once('/').map_or(file, |(_, file)| file);
        let of = |function: &str| mark_in(self.bar, &format!("{function} ({file})"));
        // A generator expression or a lambda is a part of its function.
        of(function).or_else(|| of(function.split_once(NESTED)?.0))
    }

    /// The name of a frame, for HTML.
    fn name(&self, at: usize) -> String {
        let known = self.names.get(at).map_or("(not known)", String::as_str);
        text(&shorten(known, NAME_CHARS))
    }
}

#[cfg(test)]
mod tests {
    use stage2_model::{HostCause, HostStackTime, HostStage, HostUse};

    use super::{Part, flame};

    #[test]
    fn frames_that_call_one_frame_only_are_one_frame() {
        let names = ["main", "run", "step", "sample", "wait"].map(String::from).to_vec();
        let host = HostUse { names, ..HostUse::default() };
        let stack = |stack: &[usize], ns| HostStackTime { stack: stack.to_vec(), ns, samples: 1 };
        let stacks = vec![stack(&[0, 1, 2, 3], 50), stack(&[0, 1, 2, 4], 30), stack(&[], 10)];
        let known = HostStage { causes: vec![HostCause::default()], ..HostStage::default() };
        let stage = HostStage { stacks, stacks_of_ns: 100, ..known.clone() };
        let picture = flame("run 1", &host, &stage, "flame", &[]).expect("a picture");
        assert!(
            picture.contains("step (3 frames): 80.0 %, 2 samples\nmain\nrun\nstep</title>"),
            "{picture}"
        );
        assert!(picture.contains("<title>sample: 50.0 %, 1 sample</title>"), "{picture}");
        let whole = "<code>stage2-launch export 'run 1' -f speedscope</code>";
        assert!(picture.contains(whole), "{picture}");
        assert!(picture.contains("For 20.0 % of the idle time, no stack is shown."), "{picture}");
        // Neither PyTorch's calls of modules nor decorators tell more than a module.
        let names = [
            "run (app.py:7)",
            "Net.forward (net.py:9)",
            "Module._call_impl (torch/nn/modules/module.py:1790)",
            "capture.wrapper (transformers/utils/generic.py:9)",
            "wait",
        ];
        let modules = HostUse { names: names.map(String::from).to_vec(), ..HostUse::default() };
        let of_modules = HostStage { stacks: vec![stack(&[0, 1, 2, 3, 4], 50)], ..stage.clone() };
        let part = Part {
            label: "idle: Net.forward (net.py:9 and 2 more lines)".into(),
            mark: "i-0",
            ns: 1.0,
            percent: 1.0,
            to: String::new(),
        };
        let picture = flame("", &modules, &of_modules, "flame", std::slice::from_ref(&part))
            .expect("a picture");
        assert!(picture.contains("class=\"i-0\"") && picture.contains("class=\"f-"), "{picture}");
        let named = "<title>Net.forward (net.py:9) (4 frames): 50.0 %, 1 sample\nrun (app.py:7)\n";
        assert!(picture.contains(named), "{picture}");
        // The part of a function without a name has its colour, and callers that are not known.
        let names =
            ["main (a.py:1)", "Net.forward.<genexpr> (net.py:9)"].map(String::from).to_vec();
        let nested = HostUse { names, ..HostUse::default() };
        let stacks = vec![stack(&[0], 60), stack(&[1], 20)];
        let cut = HostStage { stacks, threads: vec!["engine".into()], ..stage.clone() };
        let picture = flame("", &nested, &cut, "flame", &[part]).expect("a picture");
        assert!(picture.contains("class=\"i-0\""), "{picture}");
        let said =
            "20.0 % have no callers, such as Net.forward.&lt;genexpr&gt;: the stack was cut off.";
        assert!(picture.contains(said), "{picture}");
        // The last frame of the only stack is what the thread does, and stays.
        let stage = HostStage { stacks: vec![stack(&[0, 1], 5)], stacks_of_ns: 5, ..known };
        let picture = flame("run 1", &host, &stage, "flame", &[]).expect("a picture");
        assert!(picture.contains("<title>run: 100.0 %"), "{picture}");
        // Without a sample.
        let from = "share of the idle time, from calls whose times are known";
        assert!(picture.contains(from), "{picture}");
        let stage = HostStage { samples: 40, ..stage };
        let picture = flame("run 1", &host, &stage, "flame", &[]).expect("a picture");
        assert!(picture.contains("share of the idle time, from 40 samples."), "{picture}");
        let few = HostStage { causes: Vec::new(), ..stage };
        assert_eq!(flame("run 1", &host, &few, "flame", &[]), None, "too few samples for causes");
    }
}
