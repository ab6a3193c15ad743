//! Counter samples to a small table and back: 12 bits for each value, columns, DEFLATE.
//!
//! Eight bytes a value would make samples three times as large as the kernels that they describe. One byte
//! is too little: replays of a CUDA graph repeat the same samples, and with them what rounding adds, which
//! does not average out. Steps of 4 % put kernels of graphs up to 13 % off, steps of 0.3 % next to nothing
//! (crates/counter-fit/tests/it/recorded.rs). Sums over many samples stay exact: rounding is carried on.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use crate::trace::record::{CounterSamples, GpuNs, MAX_SAMPLES};
use crate::trace::varint::{Cursor, put as put_number, put_bytes, put_step};

/// Metrics of a set at most: far more than fit into one pass of any GPU.
const MAX_METRICS: usize = 64;
/// Bytes of the largest table: times of at most 20 bytes a sample, and the columns.
const MAX_TABLE_BYTES: usize = MAX_SAMPLES * 20 + MAX_METRICS * (8 + MAX_SAMPLES + MAX_SAMPLES / 2);

const ZERO: u16 = 0;
/// The level of the largest value of a column.
const TOP: u16 = 254 * FINE as u16 + 15;
/// The upper byte of a value that is not known.
const UNKNOWN: u8 = 255;
/// Coarse levels, which the upper byte tells, for each factor of 2.
const COARSE: usize = 16;
/// Fine levels for each coarse one.
const FINE: usize = 16;

/// What a column has for each value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// A byte, as files before 2026-11-23 have it.
    Coarse,
    /// A byte, and behind all of these four bits.
    Fine,
}

/// Appends samples. Values beyond those of whole samples, samples beyond [`MAX_SAMPLES`] and metrics
/// beyond [`MAX_METRICS`] are left out: no caller has any.
pub(crate) fn put(out: &mut Vec<u8>, samples: &CounterSamples) {
    let spans = &samples.spans[..samples.spans.len().min(MAX_SAMPLES)];
    let width = samples.values.len().checked_div(samples.spans.len()).unwrap_or(0);
    let metrics = width.min(MAX_METRICS);
    let mut table = Vec::with_capacity(spans.len() * (metrics + 2));
    let mut before = 0;
    for (start, end) in spans {
        let length = end.0.wrapping_sub(start.0);
        put_step(&mut table, before, length);
        before = length;
    }
    let mut before = 0;
    for (start, end) in spans {
        put_step(&mut table, before, start.0);
        before = end.0;
    }
    for metric in 0..metrics {
        let column = samples.values.chunks_exact(width).take(spans.len()).map(|row| row[metric]);
        put_column(&mut table, column);
    }
    put_number(out, samples.set.into());
    put_number(out, spans.len() as u64);
    put_number(out, metrics as u64);
    put_number(out, table.len() as u64);
    put_bytes(out, &deflate(&table));
}

fn put_column(table: &mut Vec<u8>, column: impl Iterator<Item = f64> + Clone) {
    let usable = |value: &f64| value.is_finite() && *value > 0.0;
    let top = column.clone().filter(usable).fold(0.0, f64::max);
    table.extend_from_slice(&top.to_bits().to_le_bytes());
    let (mut carried, mut fine) = (0.0, Vec::new());
    table.extend(column.map(|value| {
        if !value.is_finite() {
            fine.push(0);
            return UNKNOWN;
        }
        let wanted = value.max(0.0) + carried;
        let level = level(wanted, top);
        carried = wanted - value_of(level, top);
        fine.push((level % FINE as u16) as u8);
        (level / FINE as u16) as u8
    }));
    table.extend(fine.chunks(2).map(|pair| pair[0] | pair.get(1).unwrap_or(&0) << 4));
}

/// 2^(-k/16).
#[rustfmt::skip]
const COARSE_FRACTIONS: [f64; COARSE] = [
    1.0, 0.9576032806985737, 0.9170040432046712, 0.8781260801866497, 0.8408964152537145,
    0.8052451659746271, 0.7711054127039704, 0.7384130729697497, std::f64::consts::FRAC_1_SQRT_2,
    0.6771277734684463, 0.6484197773255048, 0.620928906036742, 0.5946035575013605,
    0.5693943173783458, 0.5452538663326288, 0.5221368912137069,
];
/// 2^(-k/256).
#[rustfmt::skip]
const FINE_FRACTIONS: [f64; FINE] = [
    1.0, 0.9972960560854701, 0.9945994234836332, 0.9919100824251097, 0.9892280131939755,
    0.9865531961276172, 0.9838856116165879, 0.9812252401044637, 0.9785720620877001,
    0.9759260581154892, 0.9732872087896166, 0.9706554947643202, 0.9680308967461472,
    0.9654133954938136, 0.9628029718180625, 0.9601996065815237,
];
/// 2^(1/512): half a step.
const HALF_STEP: f64 = 1.0013547198921082;

/// What a level is of the largest value of its column; of level 0 nobody asks. Of tables, because the
/// mathematical functions of the C library are in their own library, which guests need not have.
fn ratio(level: u16) -> f64 {
    let below = usize::from(TOP.saturating_sub(level));
    let octaves = 1_u32 << (below / (COARSE * FINE));
    COARSE_FRACTIONS[below / FINE % COARSE] * FINE_FRACTIONS[below % FINE] / f64::from(octaves)
}

/// The level nearest to a value.
fn level(value: f64, top: f64) -> u16 {
    if value <= 0.0 || top <= 0.0 {
        return ZERO;
    }
    let wanted = value / top;
    if wanted * HALF_STEP < ratio(1) {
        return ZERO;
    }
    // The lowest level that is not below it by more than half a step.
    let (mut low, mut high) = (1, TOP);
    while low < high {
        let middle = low.midpoint(high);
        match ratio(middle) * HALF_STEP <= wanted {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    low
}

fn value_of(level: u16, top: f64) -> f64 {
    if level == ZERO { 0.0 } else { top * ratio(level) }
}

/// The level of a file's byte and, where it has them, its four bits.
fn level_of(byte: u8, fine: Option<u8>) -> u16 {
    let coarse = u16::from(byte) * FINE as u16;
    match fine {
        Some(fine) => coarse + u16::from(fine),
        // The coarse levels of older files are every sixteenth one, from the largest value down.
        None if byte == 0 => ZERO,
        None => coarse + FINE as u16 - 1,
    }
}

fn deflate(table: &[u8]) -> Vec<u8> {
    let mut packed = Vec::with_capacity(table.len() + 64);
    let mut state = Compress::new(Compression::default(), false);
    loop {
        let rest = table.get(state.total_in() as usize..).unwrap_or_default();
        match state.compress_vec(rest, &mut packed, FlushCompress::Finish) {
            Ok(Status::StreamEnd) | Err(_) => return packed,
            Ok(_) => packed.reserve(packed.capacity().max(64)),
        }
    }
}

/// Reads what [`put`] has written; at most [`MAX_TABLE_BYTES`] are unpacked, whatever the file states.
pub(crate) fn get(c: &mut Cursor<'_>, detail: Detail) -> Option<CounterSamples> {
    let set = c.u32()?;
    let count = usize::try_from(c.u64()?).ok().filter(|count| *count <= MAX_SAMPLES)?;
    let metrics = usize::try_from(c.u64()?).ok().filter(|metrics| *metrics <= MAX_METRICS)?;
    let length = usize::try_from(c.u64()?).ok().filter(|length| *length <= MAX_TABLE_BYTES)?;
    let mut table = Vec::with_capacity(length);
    let mut state = Decompress::new(false);
    state.decompress_vec(c.bytes()?, &mut table, FlushDecompress::Finish).ok()?;
    (table.len() == length).then_some(())?;
    let c = &mut Cursor::new(&table);
    let mut lengths = Vec::with_capacity(count);
    for _ in 0..count {
        lengths.push(c.step(lengths.last().copied().unwrap_or(0))?);
    }
    let mut spans = Vec::with_capacity(count);
    let mut before = 0_u64;
    for length in lengths {
        let start = c.step(before)?;
        before = start.wrapping_add(length);
        spans.push((GpuNs(start), GpuNs(before)));
    }
    let mut values = vec![0.0; count * metrics];
    for metric in 0..metrics {
        let top = f64::from_bits(u64::from_le_bytes(c.array()?));
        (top.is_finite() && top >= 0.0).then_some(())?;
        let bytes = c.bytes_of(count)?;
        let fine = match detail {
            Detail::Coarse => None,
            Detail::Fine => Some(c.bytes_of(count.div_ceil(2))?),
        };
        let of = |at: usize| fine.map(|fine| fine[at / 2] >> (4 * (at % 2)) & 15);
        for (at, row) in values.chunks_exact_mut(metrics).enumerate() {
            *row.get_mut(metric)? = match bytes[at] {
                UNKNOWN => f64::NAN,
                byte => value_of(level_of(byte, of(at)), top),
            };
        }
    }
    Some(CounterSamples { set, spans, values })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(samples: &CounterSamples) -> CounterSamples {
        let mut bytes = Vec::new();
        put(&mut bytes, samples);
        get(&mut Cursor::new(&bytes), Detail::Fine).unwrap()
    }

    /// Two metrics, of which the second lies below every step of the first, with noise from a formula.
    fn decode() -> CounterSamples {
        let spans = |i: u64| (GpuNs(1_000_000 + i * 100_000), GpuNs(1_100_000 + i * 100_000));
        let noise = |i: u64| f64::from((i * 2_654_435_761 % 1_000) as u32);
        let values = |i| [4.1e6 + 9e3 * noise(i), noise(i * 7)];
        CounterSamples {
            set: 3,
            spans: (0..1_000).map(spans).collect(),
            values: (0..1_000).flat_map(values).collect(),
        }
    }

    #[test]
    fn values_are_kept_within_a_step_and_sums_exactly() {
        let (sent, got) = (decode(), back(&decode()));
        assert_eq!((got.set, &got.spans), (sent.set, &sent.spans));
        for metric in 0..2 {
            let column = |of: &CounterSamples| -> Vec<f64> {
                of.values.iter().skip(metric).step_by(2).copied().collect()
            };
            let (sent, got) = (column(&sent), column(&got));
            let sum = |column: &[f64]| column.iter().sum::<f64>();
            let largest = sent.iter().fold(0.0, |a: f64, b| a.max(*b));
            assert!((sum(&sent) - sum(&got)).abs() < 0.0014 * largest, "metric {metric}");
            // Half a step for its own rounding and half a step of what came before it.
            let off = sent.iter().zip(&got).map(|(sent, got)| (sent - got).abs());
            assert!(off.fold(0.0, f64::max) < 0.0028 * largest, "metric {metric}");
        }
    }

    #[test]
    fn what_is_unknown_stays_unknown_and_zero_stays_zero() {
        let span = |start| (GpuNs(start), GpuNs(start + 5));
        let sent = CounterSamples {
            set: 1,
            spans: vec![span(10), span(700), span(u64::MAX - 5)],
            values: vec![f64::NAN, 0.0, 8.0, 0.0, f64::INFINITY, 0.0],
        };
        let got = back(&sent);
        assert_eq!(got.spans, sent.spans);
        assert!(got.values[0].is_nan() && got.values[4].is_nan());
        assert_eq!(
            [got.values[1], got.values[2], got.values[3], got.values[5]],
            [0.0, 8.0, 0.0, 0.0]
        );
        assert_eq!(back(&CounterSamples::default()), CounterSamples::default());
    }

    #[test]
    fn a_sample_takes_little_more_than_12_bits_a_metric() {
        let mut bytes = Vec::new();
        put(&mut bytes, &decode());
        assert!(bytes.len() < 3_600, "{} bytes for 1,000 samples of 2 metrics", bytes.len());
    }

    #[test]
    fn the_bytes_of_older_files_are_read_as_they_were_meant() {
        let mut table = Vec::new();
        // Two samples of 5 ns, the second one right behind the first.
        [10_u64, 0, 20, 0].into_iter().for_each(|step| put_number(&mut table, step));
        table.extend_from_slice(&8.0_f64.to_bits().to_le_bytes());
        table.extend_from_slice(&[254 - 16, UNKNOWN]);
        table.extend_from_slice(&2.0_f64.to_bits().to_le_bytes());
        table.extend_from_slice(&[0, 254]);
        let mut bytes = Vec::new();
        [1, 2, 2, table.len() as u64].into_iter().for_each(|number| put_number(&mut bytes, number));
        put_bytes(&mut bytes, &deflate(&table));
        let got = get(&mut Cursor::new(&bytes), Detail::Coarse).expect("samples");
        assert_eq!(got.values.len(), 4);
        assert_eq!([got.values[0], got.values[1], got.values[3]], [4.0, 0.0, 2.0]);
        assert!(got.values[2].is_nan());
    }

    #[test]
    fn tables_of_other_lengths_are_refused() {
        let mut bytes = Vec::new();
        put(&mut bytes, &decode());
        for cut in 0..bytes.len() {
            assert_eq!(get(&mut Cursor::new(&bytes[..cut]), Detail::Fine), None, "cut at {cut}");
        }
        // A table that unpacks to more than it says, and numbers that ask for too much room.
        let bomb = deflate(&vec![0; 1 << 20]);
        for numbers in [[1, 10, 1, 28], [1, 1 << 40, 1, 8], [1, 1, 1 << 40, 8], [1, 1, 1, 1 << 40]]
        {
            let mut bytes = Vec::new();
            numbers.into_iter().for_each(|number| put_number(&mut bytes, number));
            put_bytes(&mut bytes, &bomb);
            assert_eq!(get(&mut Cursor::new(&bytes), Detail::Fine), None);
        }
    }
}
