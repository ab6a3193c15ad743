//! Payloads of events into fields of ranges.

use stage2_contract::trace::{Field, FieldValue};

use super::*;
use crate::guest::blob::Blob;
use crate::guest::event::PayloadPlace;

const SIZE: u64 = cupti_sys::nvtx::NVTX_PAYLOAD_ENTRY_TYPE_SIZE as u64;
const CSTRING: u64 = cupti_sys::nvtx::NVTX_PAYLOAD_ENTRY_TYPE_CSTRING as u64;

impl Guest {
    /// Sends payloads ahead of an event; gives the event what that notes in it.
    fn with_payloads(&mut self, payloads: &[(u64, &[u8])]) -> impl FnOnce(&mut Event) + use<> {
        let (mut blob, mut event) = (Blob::default(), Event::new(EventKind::Push, 1));
        payloads.iter().for_each(|(schema, bytes)| blob.add(*schema, bytes));
        self.queue.send_payloads(&mut event, blob.bytes(), &self.counters);
        move |sent| sent.payload_place = event.payload_place
    }

    fn fields(&self) -> Vec<(u64, Vec<Field>)> {
        let of = |record: &Record| match record {
            Record::RangeFields { range, fields } => Some((*range, fields.clone())),
            _ => None,
        };
        self.records.iter().filter_map(of).collect()
    }
}

#[test]
fn payloads_longer_than_an_event_arrive_whole_and_belong_to_the_next_one_only() {
    let mut guest = Guest::new();
    let text = "t".repeat(200);
    let edit = guest.with_payloads(&[(CSTRING, text.as_bytes()), (SIZE, &7u64.to_le_bytes())]);
    guest.event(EventKind::Push, 1, edit, "a");
    // Those of an event that was lost belong to nobody.
    let _ = guest.with_payloads(&[(SIZE, &8u64.to_le_bytes())]);
    guest.event(EventKind::Push, 1, |_| {}, "b");
    let edit = guest.with_payloads(&[(SIZE, &9u64.to_le_bytes())]);
    guest.event(EventKind::Pop, 1, edit, "");
    let fields = guest.fields();
    let values: Vec<Vec<FieldValue>> =
        fields.iter().map(|(_, fields)| fields.iter().map(|field| field.value).collect()).collect();
    let named = |value: &FieldValue| match value {
        FieldValue::Name(name) => guest.names.text(*name).to_vec(),
        _ => Vec::new(),
    };
    assert_eq!((fields.len(), fields[0].0, fields[1].0), (2, 1, 2));
    assert_eq!((named(&values[0][0]), values[0][1]), (text.into_bytes(), FieldValue::U64(7)));
    assert_eq!(values[1], [FieldValue::U64(9)]);
    assert_eq!(guest.counters.range_fields.get(), 0);
}

#[test]
fn texts_that_are_new_each_time_leave_room_for_names_of_ranges() {
    let mut guest = Guest::new();
    let count = MAX_FIELD_TEXTS + 100;
    for call in 0..count {
        let edit = guest.with_payloads(&[(CSTRING, format!("request {call}").as_bytes())]);
        guest.event(EventKind::Push, 1, edit, "a");
        guest.pop(1);
    }
    // The name of the field is one of the texts.
    assert_eq!(guest.fields().len(), MAX_FIELD_TEXTS as usize - 1);
    assert_eq!(guest.counters.range_fields.get(), 101);
    assert_eq!(guest.counters.names_cut.get(), 0);
    let fence = guest.push(1, "a name to come");
    assert_eq!(guest.path_at(1, fence + 1), "a name to come");
}

#[test]
fn a_full_queue_loses_payloads_and_not_their_range() {
    let guest = Guest::new();
    while guest.queue.send(Event::new(EventKind::Mark, 2), &guest.counters).arrives {}
    let lost = guest.counters.range_events.get();
    let (mut blob, mut event) = (Blob::default(), Event::new(EventKind::Mark, 1));
    blob.add(SIZE, &[1; 8]);
    guest.queue.send_payloads(&mut event, blob.bytes(), &guest.counters);
    assert_eq!(event.payload_place, PayloadPlace::Lost);
    assert_eq!(guest.counters.range_fields.get(), 1);
    assert_eq!(guest.counters.range_events.get(), lost);
}

#[test]
fn handles_that_nobody_gave_out_are_named_lost() {
    let mut guest = Guest::new();
    let fence = guest.event(EventKind::Push, 1, |e| e.string = u32::MAX - 1, "");
    assert_eq!(guest.path_at(1, fence + 1), "(lost)");
}
