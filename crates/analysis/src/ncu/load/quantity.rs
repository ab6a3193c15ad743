//! A cell of a table and its unit -> a number in its base unit.
//!
//! ncu scales to what reads well (`us`, `Gbyte/s`, `Ghz`), writes units out or short by version
//! (`usecond`, `us`), and rates over any time (`byte/second`, `cycle/nsecond`).

/// A value in its base unit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quantity {
    /// The number.
    pub value: f64,
    /// Its unit: `ns`, `byte`, `byte/s`, `hz`, `%`, `inst/cycle`, ...; empty: none.
    pub unit: String,
}

impl Quantity {
    /// Reads a cell; nothing where it is no number. The number may be infinite or no number at all.
    pub(super) fn read(cell: &str, unit: &str) -> Option<Quantity> {
        let (factor, unit) = base(unit);
        Some(Quantity { value: number(cell)? * factor, unit })
    }
}

/// Reads `1,234.5`, `-3`, `1e9`. Nothing for empty cells, `n/a`, words, and commas that group no
/// thousands. Non-finite values are read, so that they can be told.
pub(super) fn number(cell: &str) -> Option<f64> {
    let text = cell.trim();
    // `f64` also reads `inf`, `infinity` and `nan` in any case, which is wanted here.
    if text.contains(',') { grouped(text)?.parse().ok() } else { text.parse().ok() }
}

/// The text without its commas, where they group thousands.
fn grouped(text: &str) -> Option<String> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (whole, fraction) = match unsigned.split_once('.') {
        Some((whole, fraction)) => (whole, fraction),
        None => (unsigned, ""),
    };
    let mut groups = whole.split(',');
    let first = groups.next()?;
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let good = (1..=3).contains(&first.len())
        && digits(first)
        && digits(fraction)
        && groups.all(|group| group.len() == 3 && digits(group));
    good.then(|| text.replace(',', ""))
}

/// The factor to the base unit, and its name. An unknown unit is its own base unit.
fn base(unit: &str) -> (f64, String) {
    let unit = unit.trim();
    let mut parts = unit.split('/');
    let top = parts.next().unwrap_or_default();
    let (mut factor, mut name) = part(top);
    for below in parts {
        let (scale, below) = part(below);
        // Time is counted in nanoseconds, rates are given by second.
        if below == "ns" {
            factor /= scale / 1e9;
            name.push_str("/s");
        } else {
            factor /= scale;
            name.push('/');
            name.push_str(&below);
        }
    }
    if name == "cycle/s" {
        name = "hz".to_owned();
    }
    (factor, name)
}

/// One part of a unit, without a slash.
fn part(text: &str) -> (f64, String) {
    let lower = text.to_ascii_lowercase();
    let time = match lower.as_str() {
        "ns" | "nsecond" | "nanosecond" => Some(1.0),
        "us" | "usecond" | "microsecond" => Some(1e3),
        "ms" | "msecond" | "millisecond" => Some(1e6),
        "s" | "sec" | "second" => Some(1e9),
        "min" | "minute" => Some(60e9),
        "hour" => Some(3600e9),
        _ => None,
    };
    if let Some(scale) = time {
        return (scale, "ns".to_owned());
    }
    // Decimal: 11.796480 Mbyte is the 11796480 bytes of the base unit.
    let scales = [("k", 1e3), ("m", 1e6), ("g", 1e9), ("t", 1e12), ("p", 1e15)];
    for name in ["byte", "bit", "hz", "inst", "cycle", "sector", "request", "thread", "flop"] {
        let plain = lower.strip_suffix('s').filter(|_| name != "hz").unwrap_or(&lower);
        let Some(prefix) = plain.strip_suffix(name) else { continue };
        if prefix.is_empty() {
            return (1.0, name.to_owned());
        }
        if let Some((_, scale)) = scales.iter().find(|(known, _)| *known == prefix) {
            return (*scale, name.to_owned());
        }
    }
    (1.0, text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn is(unit: &str, factor: f64, expected: &str) {
        let (found, name) = base(unit);
        assert_eq!(name, expected, "{unit}");
        assert!((found / factor - 1.0).abs() < 1e-12, "{unit}: {found}");
    }

    #[test]
    fn times_are_in_nanoseconds() {
        for (unit, factor) in [
            ("ns", 1.0),
            ("nsecond", 1.0),
            ("us", 1e3),
            ("usecond", 1e3),
            ("ms", 1e6),
            ("msecond", 1e6),
            ("s", 1e9),
            ("second", 1e9),
        ] {
            is(unit, factor, "ns");
        }
    }

    #[test]
    fn sizes_rates_and_frequencies_lose_their_prefix() {
        is("Kbyte", 1e3, "byte");
        is("Mbyte", 1e6, "byte");
        is("Gbyte/s", 1e9, "byte/s");
        is("Tbyte/second", 1e12, "byte/s");
        is("byte/ns", 1e9, "byte/s");
        is("byte/us", 1e6, "byte/s");
        is("Kbyte/block", 1e3, "byte/block");
        is("Kbyte/cycle", 1e3, "byte/cycle");
        is("Ghz", 1e9, "hz");
        is("Mhz", 1e6, "hz");
        is("hz", 1.0, "hz");
        is("cycle/nsecond", 1e9, "hz");
        is("cycle/second", 1.0, "hz");
    }

    #[test]
    fn other_units_stay() {
        for unit in [
            "%",
            "",
            "inst",
            "inst/cycle",
            "register/thread",
            "warp",
            "block",
            "pass",
            "SM",
            "cycle",
        ] {
            is(unit, 1.0, unit);
        }
    }

    #[test]
    fn numbers_are_read_as_ncu_prints_them() {
        for (cell, expected) in [
            ("5,843", 5843.0),
            ("1,060,748,243,478,260.88", 1_060_748_243_478_260.9),
            ("-1,234", -1234.0),
            (" 0.055900 ", 0.0559),
            ("0", 0.0),
            ("1.5e3", 1500.0),
        ] {
            assert_eq!(number(cell), Some(expected), "{cell}");
        }
    }

    #[test]
    fn what_is_no_number_is_none() {
        for cell in [
            "",
            "n/a",
            "N/A",
            "(128, 1, 1)",
            "1,23",
            "12,3456",
            ",123",
            "1,234,",
            "1,2e3",
            "PolicySpread",
            "1 (1; 2)",
            "1.234,5",
        ] {
            assert_eq!(number(cell), None, "{cell}");
        }
    }

    #[test]
    fn values_that_are_not_finite_are_seen() {
        assert!(number("nan").is_some_and(f64::is_nan));
        assert!(number("inf").is_some_and(f64::is_infinite) && number("-inf").is_some());
    }
}
