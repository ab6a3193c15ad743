//! A cell of a table and its unit -> a number in its base unit.
//!
//! ncu scales to what reads well (`us`, `Gbyte/s`, `Ghz`), writes units out or short by version
//! (`usecond`, `us`), and rates over any time (`byte/second`, `cycle/nsecond`).

use crate::numbers::Reading;

/// A value in its base unit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quantity {
    /// The number.
    pub value: f64,
    /// Its unit: `ns`, `byte`, `byte/s`, `hz`, `%`, `inst/cycle`, ...; empty: none.
    pub unit: String,
}

/// What a cell says: also `(!) nan`, which ncu marks so, and `10,000 (4,000; 6,000)`, with the value of
/// each instance behind that of all.
pub(super) fn reading(cell: &str) -> Reading {
    let cell = cell.trim();
    let cell = cell.strip_prefix("(!)").map_or(cell, str::trim_start);
    if !cell.contains(['(', '"']) {
        return Reading::of(cell);
    }
    // Behind a quote stands what a program printed into the same line.
    let cell = cell.split('"').next().unwrap_or_default();
    let of_all = cell.split_once(" (").filter(|_| cell.trim_end().ends_with(')'));
    Reading::of(of_all.map_or(cell, |(of_all, _)| of_all))
}

/// The factor to the base unit, and its name. An unknown unit is its own base unit.
pub(super) fn base(unit: &str) -> (f64, String) {
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
    use crate::numbers::Convention;

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
            ("5,843.25", Some(5843.25)),
            ("(!) 41.25", Some(41.25)),
            ("10,000.5 (4,000; 6,000.5)", Some(10_000.5)),
            ("1 (1; 2)", Some(1.0)),
            ("10.00\"tokens/s: 3\"", Some(10.0)),
            ("", None),
            ("n/a", None),
            ("(!) n/a", None),
            ("(128, 1, 1)", None),
            ("PolicySpread", None),
        ] {
            assert_eq!(reading(cell).by(Convention::Point), expected, "{cell}");
        }
        assert!(reading("(!) nan").by(Convention::Point).is_some_and(f64::is_nan));
    }
}
