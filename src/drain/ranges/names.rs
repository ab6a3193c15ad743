//! What an event says into names and fields: its text, what the guest registered, its payloads.

use stage2_spool::{Field, FieldValue, NONE, Record};

use super::apply::EventContext;
use super::{LOST, MAX_FIELD_TEXTS};
use crate::drain::fields::{self, PayloadValues, Value};
use crate::drain::intern::Sink;
use crate::guest::event::{Event, PayloadPlace};
use crate::guest::registry::{Kind, Lookup, registry};

/// The name of what was registered when the table was full.
const MORE_NAMES: &[u8] = b"(more names than are kept)";

impl<S: Sink> EventContext<'_, S> {
    pub(super) fn payload_values(&mut self, event: &Event) -> PayloadValues {
        if event.payload_place != PayloadPlace::Ahead {
            return PayloadValues::default();
        }
        let blob = std::mem::take(&mut self.ranges.thread(event.thread).payloads);
        let payload_values = fields::read(&blob, event.domain, &mut self.ranges.definitions);
        self.counters.range_fields.add(payload_values.skipped);
        payload_values
    }

    pub(super) fn put_fields(&mut self, range: u64, payload_values: PayloadValues) {
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

    /// Writes what was said at the close of a range. Its name stays: work was attributed to it.
    pub(super) fn put_last_fields(
        &mut self,
        thread: u32,
        index: usize,
        payload_values: PayloadValues,
    ) {
        if let Some(range) = self.ranges.thread(thread).open.get(index).map(|open| open.range) {
            self.put_fields(range, payload_values);
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

    pub(super) fn event_name(
        &mut self,
        event: &Event,
        text: &[u8],
        payload_values: &PayloadValues,
    ) -> u32 {
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

    pub(super) fn domain_name(&mut self, domain: u32) -> u32 {
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

    pub(super) fn text_name(&mut self, text: &[u8]) -> u32 {
        let text = stage2_text::without_instance(text);
        let name = self.names.name(text, self.sink);
        self.counters.names_cut.add(self.names.take_refused());
        name
    }
}
