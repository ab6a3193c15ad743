//! Strategies for records with any values that their types allow.

use proptest::collection::vec;
use proptest::prelude::*;
use stage2_contract::trace::*;

/// Identifiers as they come: small, special, anything.
fn id64() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0..200_u64,
        1 => Just(RANGE_UNKNOWN),
        1 => Just(RANGE_OUTSIDE),
        2 => any::<u64>(),
    ]
}

fn id32() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0..200_u32, 1 => Just(u32::MAX), 2 => any::<u32>()]
}

/// Times near one another, and any others.
fn ns() -> impl Strategy<Value = u64> {
    const BASE: u64 = 1_789_000_000_000_000_000;
    prop_oneof![4 => BASE..BASE + 100_000, 1 => Just(0), 2 => any::<u64>()]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![3 => "[a-z./\\-]{0,12}", 1 => any::<String>()]
}

fn raw() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..40)
}

/// No NaN: it equals nothing, itself included.
fn payload() -> impl Strategy<Value = Option<Payload>> {
    use proptest::num::f64::{INFINITE, NORMAL, SUBNORMAL, ZERO};
    prop_oneof![
        2 => Just(None),
        1 => any::<u64>().prop_map(|value| Some(Payload::U64(value))),
        1 => any::<i64>().prop_map(|value| Some(Payload::I64(value))),
        1 => (NORMAL | SUBNORMAL | ZERO | INFINITE).prop_map(|value| Some(Payload::F64(value))),
    ]
}

fn field() -> impl Strategy<Value = Field> {
    let value = prop_oneof![
        1 => id32().prop_map(FieldValue::Name),
        3 => payload().prop_map(|payload| match payload {
            None => FieldValue::U64(0),
            Some(Payload::U64(value)) => FieldValue::U64(value),
            Some(Payload::I64(value)) => FieldValue::I64(value),
            Some(Payload::F64(value)) => FieldValue::F64(value),
        }),
    ];
    (id32(), value).prop_map(|(name, value)| Field { name, value })
}

prop_compose! {
    fn process()(
        pid in id32(), ppid in id32(), host in text(), exe in text(),
        argv in vec(text(), 0..5), collector in text(),
    ) -> Process {
        Process { pid, ppid, host, exe, argv, collector }
    }
}

prop_compose! {
    fn device()(
        id in id32(), name in raw(), multiprocessors in id32(), major in id32(), minor in id32(),
        memory_bytes in id64(), bandwidth_kb_per_s in id64(), core_clock_khz in id32(),
        l2_bytes in id32(), uuid in any::<[u8; 16]>(),
    ) -> Device {
        let compute_capability = (major, minor);
        Device {
            id, name, multiprocessors, compute_capability, memory_bytes, bandwidth_kb_per_s,
            core_clock_khz, l2_bytes, uuid,
        }
    }
}

prop_compose! {
    fn shape()(
        id in id32(), name in id32(), grid in any::<[u32; 3]>(), block in any::<[u32; 3]>(),
        shared in any::<[u32; 2]>(), thread in any::<[u32; 2]>(),
    ) -> Shape {
        let [static_shared_bytes, dynamic_shared_bytes] = shared;
        let [registers_per_thread, local_bytes_per_thread] = thread;
        Shape {
            id, name, grid, block, static_shared_bytes, dynamic_shared_bytes,
            registers_per_thread, local_bytes_per_thread,
        }
    }
}

prop_compose! {
    fn range_open()(
        range in id64(), path in id32(), thread in id32(), parent in id64(), start in ns(),
        start_end in any::<bool>(), category in id32(), payload in payload(), continues in id64(),
    ) -> RangeOpen {
        let start = MonoNs(start);
        RangeOpen { range, path, thread, parent, start, start_end, category, payload, continues }
    }
}

prop_compose! {
    fn mark()(
        at in ns(), thread in id32(), name in id32(), domain in id32(), category in id32(),
        payload in payload(),
    ) -> Mark {
        Mark { at: MonoNs(at), thread, name, domain, category, payload }
    }
}

fn what() -> impl Strategy<Value = What> {
    prop_oneof![
        3 => id32().prop_map(|shape| What::Kernel { shape }),
        1 => (id64(), any::<u8>()).prop_map(|(bytes, kind)| What::Copy { bytes, kind }),
        1 => id64().prop_map(|bytes| What::Fill { bytes }),
        1 => id32().prop_map(|graph| What::Graph { graph }),
    ]
}

prop_compose! {
    fn work()(
        what in what(), start in ns(), end in ns(), queue in id32(), range in id64(),
        correlation in id64(), node in id64(),
    ) -> GpuWork {
        let (start, end) = (GpuNs(start), GpuNs(end));
        let graph_node = if let What::Graph { .. } = what { 0 } else { node };
        GpuWork { what, start, end, queue, range, correlation, graph_node }
    }
}

prop_compose! {
    fn losses()(counts in any::<[u64; 14]>()) -> Losses {
        let [cupti_dropped, buffers_refused, range_events, unattributed, invalid_timestamps,
            unreadable_records, unbalanced, unclosed, names_cut, spool_bytes_unwritten,
            aggregates_folded, late_switches, beyond_limits, calls_turned_away] = counts;
        Losses {
            cupti_dropped, buffers_refused, range_events, unattributed, invalid_timestamps,
            unreadable_records, unbalanced, unclosed, names_cut, spool_bytes_unwritten,
            aggregates_folded, late_switches, beyond_limits, calls_turned_away,
        }
    }
}

/// Any record but [`Record::End`].
pub(crate) fn record() -> impl Strategy<Value = Record> {
    prop_oneof![
        1 => process().prop_map(Record::Process),
        1 => (text(), text()).prop_map(|(key, value)| Record::Meta { key, value }),
        1 => (ns(), ns(), ns()).prop_map(|(gpu, mono, wall)| {
            Record::Anchor(Anchor { gpu: GpuNs(gpu), mono: MonoNs(mono), wall: WallNs(wall) })
        }),
        1 => (id32(), raw()).prop_map(|(id, bytes)| Record::Name { id, bytes }),
        1 => (id32(), id32(), raw()).prop_map(|(id, os_tid, name)| Record::Thread { id, os_tid, name }),
        1 => device().prop_map(Record::Device),
        1 => (id32(), id32(), id32(), id32()).prop_map(|(id, device, context, stream)| {
            Record::Queue(Queue { id, device, context, stream })
        }),
        1 => shape().prop_map(Record::Shape),
        1 => (id32(), id32(), id32(), id32()).prop_map(|(id, parent, name, domain)| {
            Record::Path(Path { id, parent, name, domain })
        }),
        1 => range_open().prop_map(Record::RangeOpen),
        1 => (id64(), ns()).prop_map(|(range, end)| Record::RangeClose { range, end: MonoNs(end) }),
        1 => mark().prop_map(Record::Mark),
        4 => work().prop_map(Record::Work),
        1 => (id64(), id32(), prop_oneof![Just(0), id64()])
            .prop_map(|(node, path, range)| Record::GraphNode { node, path, range }),
        1 => losses().prop_map(Record::Losses),
        1 => (id64(), any::<bool>())
            .prop_map(|(range, recorded)| Record::RangeSample { range, recorded }),
        1 => (id64(), vec(field(), 0..20))
            .prop_map(|(range, fields)| Record::RangeFields { range, fields }),
        1 => counter_set().prop_map(Record::CounterSet),
        1 => counter_samples().prop_map(Record::CounterSamples),
        1 => device_state().prop_map(Record::DeviceState),
        1 => (id32(), id32(), id32(), id32()).prop_map(|(id, function, file, line)| {
            Record::HostFrame(HostFrame { id, function, file, line })
        }),
        1 => (id32(), id32(), id32()).prop_map(|(id, parent, frame)| {
            Record::HostStack(HostStack { id, parent, frame })
        }),
        1 => vec(host_sample(), 0..20).prop_map(Record::HostSamples),
        1 => vec(host_call(), 0..20).prop_map(Record::HostCalls),
        1 => host_sampling().prop_map(Record::HostSampling),
        1 => (ns(), id32(), any::<bool>(), id64(), id64()).prop_map(
            |(at, thread, launches, cpu_ns, delay_ns)| {
                Record::HostThread(HostThread { at: MonoNs(at), thread, launches, cpu_ns, delay_ns })
            }
        ),
    ]
}

prop_compose! {
    fn counter_set()(
        id in id32(), device in id32(), interval_ns in id64(), metrics in vec(text(), 0..5),
    ) -> CounterSet {
        CounterSet { id, device, interval_ns, metrics }
    }
}

/// Values that come back as they were: what rounding does is tested where it is done.
fn counter_samples() -> impl Strategy<Value = CounterSamples> {
    let metrics = (0..5_usize, vec((ns(), ns()), 1..20));
    let rows = metrics.prop_flat_map(|(metrics, spans)| {
        let values = vec(prop_oneof![Just(0.0), Just(64.0), Just(2048.0)], spans.len() * metrics);
        (id32(), Just(spans), values)
    });
    rows.prop_map(|(set, spans, values)| {
        let span = |(start, end)| (GpuNs(start), GpuNs(end));
        CounterSamples { set, spans: spans.into_iter().map(span).collect(), values }
    })
}

prop_compose! {
    fn device_state()(
        device in id32(), at in ns(), energy_mj in prop::option::of(0..u64::MAX),
        numbers in any::<[Option<u32>; 5]>(), clock_reasons in prop::option::of(0..u64::MAX),
        memory_used_bytes in id64(),
    ) -> DeviceState {
        let [power_mw, sm_clock_mhz, memory_clock_mhz, temperature_c, other_processes] = numbers;
        DeviceState {
            device, at: MonoNs(at), energy_mj, power_mw, sm_clock_mhz, memory_clock_mhz,
            temperature_c, clock_reasons, other_processes, memory_used_bytes,
        }
    }
}

prop_compose! {
    fn host_sample()(
        at in ns(), thread in id32(), state in 0..9_usize, holds_gil in any::<bool>(), holder in id32(),
        stack in id32(), interval_ns in id64(),
    ) -> HostSample {
        use HostState::*;
        let states = [Unknown, Running, Runnable, GilWait, Lock, Sleep, Poll, Driver, Blocked];
        let (at, state) = (MonoNs(at), states[state]);
        HostSample { at, thread, state, holds_gil, holder, stack, interval_ns }
    }
}

prop_compose! {
    fn host_call()(
        name in id32(), thread in id32(), begin in ns(), end in ns(), stack in id32(),
    ) -> HostCall {
        HostCall { name, thread, begin: MonoNs(begin), end: MonoNs(end), stack }
    }
}

prop_compose! {
    fn host_sampling()(at in ns(), counts in any::<[u64; 17]>()) -> HostSampling {
        let [asked_ns, interval_ns, sampled_ns, rounds, late, samples, torn, unreadable, cut, lost,
            threads_left_out, backed_off, own_cpu_ns, own_delay_ns, calls, short_calls, lost_calls] = counts;
        HostSampling {
            at: MonoNs(at), asked_ns, interval_ns, sampled_ns, rounds, late, samples, torn, unreadable,
            cut, lost, threads_left_out, backed_off, own_cpu_ns, own_delay_ns, calls, short_calls,
            lost_calls,
        }
    }
}

/// Frames of records, with an end at the end or not.
pub(crate) fn frames() -> impl Strategy<Value = Vec<Vec<Record>>> {
    let ended = prop::option::of(text().prop_map(|reason| Record::End { reason }));
    (vec(vec(record(), 1..12), 0..8), ended).prop_map(|(mut frames, end)| {
        frames.extend(end.map(|end| vec![end]));
        frames
    })
}
