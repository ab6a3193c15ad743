//! One NVTX event into changes of the open ranges, names and fields, with everything that an event may
//! touch.

use stage2_contract::trace::{Field, FieldValue, Mark, MonoNs, NONE, Payload, Record};

use stage2_contract::text::is_library_domain;

use super::{
    ClosedRange, Depth, LOST, MAX_CONTINUED, MAX_FIELD_TEXTS, MAX_NODES, MAX_OPEN, MAX_STARTED,
    OpenRange, Ranges,
};
use crate::base::counters::Counters;
use crate::drain::fields::{self, PayloadValues, Value};
use crate::drain::intern::{Interner, MORE_NAMES, Sink};
use crate::drain::timeline::Place;
use crate::guest::event::{Event, EventKind, PayloadPlace, Selection};
use crate::guest::registry::{Kind, Lookup, registry};

pub(super) struct EventContext<'a, S> {
    pub(super) ranges: &'a mut Ranges,
    pub(super) names: &'a mut Interner,
    pub(super) sink: &'a mut S,
    pub(super) counters: &'a Counters,
}

impl<S: Sink> EventContext<'_, S> {
    pub(super) fn apply(&mut self, event: &Event, text: &[u8]) {
        let payload_values = self.payload_values(event);
        let mut event = *event;
        event.category = payload_values.category.unwrap_or(event.category);
        let event = &event;
        match event.kind {
            EventKind::TextPiece | EventKind::PayloadPiece | EventKind::Call => {}
            EventKind::Thread => self.sink.put(Record::Thread {
                id: event.thread,
                os_tid: event.id as u32,
                name: text.to_vec(),
            }),
            EventKind::Push => {
                let name = self.event_name(event, text, &payload_values);
                self.resynchronise(event, event.depth.map(|depth| depth.saturating_sub(1)));
                if let Some(range) = self.push(event, name, false) {
                    self.put_fields(range, payload_values);
                }
                self.note_change(event.thread, event.fence);
            }
            EventKind::Pop => {
                self.resynchronise(event, event.depth.map(|depth| depth.saturating_add(1)));
                if !self.pop(event, payload_values) {
                    self.counters.unbalanced.increment();
                }
                self.note_change(event.thread, event.fence);
            }
            // A guest that never ends its ranges.
            EventKind::Start if self.ranges.started_on.len() >= MAX_STARTED => {
                self.counters.range_events.increment();
            }
            EventKind::Start => {
                let name = self.event_name(event, text, &payload_values);
                self.ranges.started_on.insert(event.id, event.thread);
                let range = self.open(event, name, Some(event.id), false);
                self.put_fields(range, payload_values);
                self.note_change(event.thread, event.fence);
            }
            EventKind::End => {
                let thread = self.ranges.started_on.remove(&event.id);
                let place = thread.and_then(|thread| {
                    let open = &self.ranges.thread(thread).open;
                    open.iter().rposition(|o| o.start_id == Some(event.id)).map(|i| (thread, i))
                });
                match place {
                    Some((thread, index)) => {
                        self.close(thread, index, event, payload_values);
                        self.note_change(thread, event.fence);
                    }
                    None => self.counters.unbalanced.increment(),
                }
            }
            EventKind::Mark => {
                let name = self.event_name(event, text, &payload_values);
                let domain = self.domain_name(event.domain);
                self.sink.put(Record::Mark(Mark {
                    at: event.at,
                    thread: event.thread,
                    name,
                    domain,
                    category: event.category,
                    payload: event.payload,
                }));
            }
            EventKind::Launch => self.ranges.note_launch(event),
            EventKind::GraphNodeCreated => {
                let place = self.ranges.now(event.thread);
                if place.path != NONE && self.ranges.captures.len() < MAX_NODES {
                    self.ranges.captures.insert(event.id, place);
                } else if place.path != NONE {
                    self.counters.beyond_limits.increment();
                }
            }
            EventKind::GraphNodeCloned => {
                let Some(Payload::U64(original)) = event.payload else { return };
                if let Some(&Place { path, range, .. }) = self.ranges.captures.get(&original) {
                    self.sink.put(Record::GraphNode { node: event.id, path, range });
                }
            }
        }
    }

    /// Opens a push/pop range, if it is kept; the caller notes the change.
    fn push(&mut self, event: &Event, name: u32, lost: bool) -> Option<u64> {
        let full = self.ranges.thread(event.thread).open.len() >= MAX_OPEN;
        let depth = self.depth(event);
        depth.open = depth.open.saturating_add(1);
        // The innermost ones are popped first.
        if full || depth.beyond > 0 {
            depth.beyond += 1;
            self.counters.beyond_limits.increment();
            return None;
        }
        Some(self.open(event, name, None, lost))
    }

    /// Closes the innermost push/pop range of the domain; `false` where none is open. The caller
    /// notes the change.
    fn pop(&mut self, event: &Event, payload_values: PayloadValues) -> bool {
        let depth = self.depth(event);
        depth.open = depth.open.saturating_sub(1);
        if let Some(beyond) = depth.beyond.checked_sub(1) {
            depth.beyond = beyond;
            return true;
        }
        let open = &self.ranges.thread(event.thread).open;
        let of_domain =
            |o: &OpenRange| o.start_id.is_none() && o.event.domain == event.domain && !o.gone;
        let innermost = open.iter().rposition(of_domain);
        if let Some(index) = innermost {
            self.close(event.thread, index, event, payload_values);
        }
        innermost.is_some()
    }

    /// Opens a range on its thread; the caller notes the change.
    fn open(&mut self, event: &Event, name: u32, start_id: Option<u64>, lost: bool) -> u64 {
        let domain = self.domain_name(event.domain);
        let range = self.ranges.next_range;
        self.ranges.next_range += 1;
        let mut open = OpenRange::new(range, event, name, domain, start_id);
        open.lost = lost;
        self.write_open(event.thread, open);
        range
    }

    /// Writes the opening of `open` inside what is open on `thread`, and keeps it there.
    fn write_open(&mut self, thread: u32, mut open: OpenRange) {
        let path = open.put_in(self.ranges.thread(thread).open.last());
        open.path = self.names.path(path, open.name, open.domain, self.sink);
        self.sink.put(Record::RangeOpen(open.record(thread)));
        if self.ranges.restricted && open.event.selection != Selection::Inherit {
            let recorded = open.selection == Selection::Collect;
            self.sink.put(Record::RangeSample { range: open.range, recorded });
        }
        self.ranges.thread(thread).open.push(open);
    }

    /// Closes the open range at `index` of `thread`; those opened in it go on without it.
    /// Too many cannot: then it stays where it is as one that is gone, until they are fewer.
    /// What was said at the close does not change its name: work was attributed to that.
    fn close(&mut self, thread: u32, index: usize, event: &Event, values: PayloadValues) {
        let open = self.ranges.thread(thread).open.get(index);
        if let Some(range) = open.map(|open| open.range) {
            self.put_fields(range, values);
        }
        let known = self.ranges.thread(thread);
        let is_around = |range: u64| known.open.iter().skip(index + 1).any(|o| o.parent == range);
        if known.gone == 0
            && let Some(range) = known.open.get(index).map(|open| open.range)
            && !is_around(range)
        {
            let open = known.open.remove(index);
            return self.write_close(&open, event.at);
        }
        let gone = |open: &OpenRange| open.gone;
        let first_gone = if known.gone == 0 { None } else { known.open.iter().position(gone) };
        let lowest = first_gone.map_or(index, |first| first.min(index));
        let from = if known.open.len() - lowest - known.gone <= MAX_CONTINUED {
            lowest
        } else if known.open.len() - index <= MAX_CONTINUED {
            index
        } else {
            let Some(open) = known.open.get_mut(index) else { return };
            open.gone = true;
            known.gone += 1;
            let open = *open;
            self.counters.beyond_limits.increment();
            return self.write_close(&open, event.at);
        };
        let mut rest = known.open.split_off(from);
        known.gone -= rest.iter().filter(|open| open.gone).count();
        while known.open.pop_if(|last| rest.len() == 1 && last.gone).is_some() {
            known.gone -= 1;
        }
        for open in rest.iter().rev().filter(|open| !open.gone) {
            self.write_close(open, event.at);
        }
        if let Some(open) = rest.get_mut(index - from) {
            open.gone = true;
        }
        for mut open in rest.drain(..).filter(|open| !open.gone) {
            open.range = self.ranges.next_range;
            self.ranges.next_range += 1;
            open.event.at = event.at;
            open.selection = open.event.selection;
            self.write_open(thread, open);
        }
    }

    fn write_close(&mut self, open: &OpenRange, end: MonoNs) {
        self.sink.put(Record::RangeClose { range: open.range, end });
        let whole = open.first == open.range;
        let is_step = whole
            && match self.ranges.restricted {
                true => open.event.selection == Selection::Collect,
                false => {
                    let outermost =
                        self.names.path_of(open.path).is_some_and(|at| at.parent == NONE);
                    outermost && !is_library_domain(self.names.text(open.domain))
                }
            };
        self.ranges.closed.push(ClosedRange {
            path: open.path,
            host_ns: end.since(open.event.at),
            counts: whole,
            selection: open.selection,
            is_step,
        });
    }

    /// What is open on `thread` is so from this fence.
    fn note_change(&mut self, thread: u32, fence: u32) {
        let known = self.ranges.thread(thread);
        let place = match known.open.last() {
            _ if known.uncertain || known.gone > 0 => Place::UNKNOWN,
            None => Place::OUTSIDE,
            Some(open) => Place {
                range: open.range,
                path: open.path,
                wanted: open.selection == Selection::Collect || open.lost,
            },
        };
        // No fence: CUPTI is not there yet, and everything it will number comes later.
        let fence = if fence == 0 { 0 } else { self.ranges.correlations.extend(fence) };
        self.ranges.edit_timeline(thread, |timeline| timeline.change(fence, place));
    }

    /// Brings the open ranges of the event's domain to `expected`, the number that was open
    /// before the event. They only differ where events were lost; then those above the lowest
    /// depth that was reached meanwhile are not those that we know.
    fn resynchronise(&mut self, event: &Event, expected: Option<u32>) {
        let Some(expected) = expected else { return };
        let thread = self.ranges.thread(event.thread);
        thread.uncertain = event.depth_uncertain || thread.lost_track;
        let known = self.depth(event).open;
        let kept = known.min(expected).min(event.min_depth_since_delivery);
        for _ in kept..known {
            self.pop(event, PayloadValues::default());
        }
        for _ in kept..expected {
            let name = self.text_name(LOST);
            let mut lost = *event;
            (lost.category, lost.payload, lost.selection) = (0, None, Selection::Inherit);
            self.push(&lost, name, true);
        }
    }

    fn depth(&mut self, event: &Event) -> &mut Depth {
        let depths = &mut self.ranges.thread(event.thread).depths;
        let known = depths.iter().position(|depth| depth.domain == event.domain);
        let index = known.unwrap_or_else(|| {
            depths.push(Depth { domain: event.domain, open: 0, beyond: 0 });
            depths.len() - 1
        });
        &mut depths[index]
    }

    fn payload_values(&mut self, event: &Event) -> PayloadValues {
        if event.payload_place != PayloadPlace::Ahead {
            return PayloadValues::default();
        }
        let blob = std::mem::take(&mut self.ranges.thread(event.thread).payloads);
        let payload_values = fields::read(&blob, event.domain, &mut self.ranges.definitions);
        self.counters.range_fields.add(payload_values.skipped);
        payload_values
    }

    fn put_fields(&mut self, range: u64, payload_values: PayloadValues) {
        let mut fields = Vec::new();
        for (name, value) in payload_values.fields {
            let value = match value {
                Value::U64(value) => Some(FieldValue::U64(value)),
                Value::I64(value) => Some(FieldValue::I64(value)),
                Value::F64(value) => Some(FieldValue::F64(value)),
                Value::Text(text) => self.field_text(&text).map(FieldValue::Name),
                Value::Registered(number) => {
                    self.registered(number).map(|name| self.define(name)).map(FieldValue::Name)
                }
            };
            let name = value.is_some().then(|| self.field_text(&name)).flatten();
            match (name, value) {
                (Some(name), Some(value)) => fields.push(Field { name, value }),
                _ => self.counters.range_fields.increment(),
            }
        }
        if !fields.is_empty() {
            self.sink.put(Record::RangeFields { range, fields });
        }
    }

    /// The number of a text in a field. Guests may put texts there that are new each time, and
    /// these must not take the room of names of ranges.
    fn field_text(&mut self, text: &[u8]) -> Option<u32> {
        if !self.names.knows(text) {
            self.ranges.field_texts = self.ranges.field_texts.checked_add(1)?;
            if self.ranges.field_texts > MAX_FIELD_TEXTS {
                self.ranges.field_texts = MAX_FIELD_TEXTS;
                return None;
            }
        }
        Some(self.names.name(text, self.sink))
    }

    fn event_name(&mut self, event: &Event, text: &[u8], payload_values: &PayloadValues) -> u32 {
        match &payload_values.message {
            Some(Value::Text(message)) => return self.text_name(message),
            Some(Value::Registered(number)) => return self.handle_name(*number),
            _ => {}
        }
        if event.string != 0 {
            return self.handle_name(event.string);
        }
        // Something has to stand for a range whose only message is behind a pointer.
        let nameless = text.is_empty() && event.payload_place != PayloadPlace::None;
        self.text_name(match nameless {
            true if !payload_values.schema.is_empty() => &payload_values.schema,
            true => b"(payload)",
            false => text,
        })
    }

    fn domain_name(&mut self, domain: u32) -> u32 {
        if domain == 0 { NONE } else { self.handle_name(domain) }
    }

    fn handle_name(&mut self, number: u32) -> u32 {
        match self.registered(number) {
            Some(name) => self.define(name),
            None => self.text_name(LOST),
        }
    }

    /// The name that was registered under a number. `None`: the guest made the number up.
    fn registered(&mut self, number: u32) -> Option<u32> {
        if let Some(&name) = self.ranges.registered.get(&number) {
            return Some(name);
        }
        let name = match registry().get(number) {
            Lookup::Entry(entry) if matches!(entry.kind, Kind::Domain | Kind::Text) => {
                self.text_name(&entry.bytes)
            }
            // Beyond the table there are numbers without end: none of them is remembered.
            Lookup::Refused => return Some(self.text_name(MORE_NAMES)),
            Lookup::Entry(_) | Lookup::Nothing => return None,
        };
        self.ranges.registered.insert(number, name);
        Some(name)
    }

    fn define(&mut self, name: u32) -> u32 {
        self.names.define_name(name, self.sink);
        name
    }

    fn text_name(&mut self, text: &[u8]) -> u32 {
        let text = stage2_contract::text::without_instance(text);
        let name = self.names.name(text, self.sink);
        self.counters.names_cut.add(self.names.take_refused());
        name
    }
}
