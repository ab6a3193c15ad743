//! Turns to the next piece of the trace between two batches, and says there again what it is told against.

use stage2_contract::trace::{MonoNs, RANGE_OUTSIDE, RangeOpen, Record};

use super::Drain;
use crate::base::clock;
use crate::drain::intern::Sink;
use crate::drain::ranges::LaunchSite;

impl Drain {
    /// Begins the next piece if this one is over. Work and ranges are in one of the two; what is open goes on
    /// in the new one.
    pub(super) fn turn_piece(&mut self) {
        if !self.output.is_piece_over() {
            return;
        }
        let gpu = self.shared.gpu();
        let anchor = clock::anchor(|| gpu.and_then(|gpu| gpu.tracer.now()));
        let counters = &self.shared.counters;
        if !self.output.begin_piece(counters) {
            return;
        }
        self.names.define_again();
        self.output.put(Record::Anchor(anchor));
        let open = self.ranges.say_open(anchor.mono, &mut self.names, &mut self.output);
        self.output.end_head(open, self.ranges.next_number(), counters);
        if let Some(path) = self.output.path() {
            self.shared.windows.turned(path.display().to_string());
        }
    }

    /// Says what the piece does not know of a piece of work: records come after the ranges of their launch
    /// have closed, and graphs are launched long after their capture.
    #[inline]
    pub(super) fn say_earlier(&mut self, site: &LaunchSite, graph_node: u64) {
        let Some(pieces) = self.output.pieces() else { return };
        let node = pieces.unsaid_node(graph_node);
        if pieces.is_unsaid(site.place.range) {
            self.say_closed(site, clock::mono());
        }
        if let Some((path, range)) = node {
            self.names.define_path(path, &mut self.output);
            self.output.put(Record::GraphNode { node: graph_node, path, range });
        }
    }

    /// A range that closed in an earlier piece: here it has no length and counts as no instance.
    fn say_closed(&mut self, site: &LaunchSite, at: MonoNs) {
        let (range, path) = (site.place.range, site.place.path);
        self.names.define_path(path, &mut self.output);
        let (thread, parent, category) = (0, RANGE_OUTSIDE, 0);
        let (start, start_end, payload, continues) = (at, true, None, range);
        self.output.put(Record::RangeOpen(RangeOpen {
            range,
            path,
            thread,
            parent,
            start,
            start_end,
            category,
            payload,
            continues,
        }));
        if self.wanted.is_restricted() {
            self.output.put(Record::RangeSample { range, recorded: site.place.wanted });
        }
        self.output.put(Record::RangeClose { range, end: at });
    }
}
