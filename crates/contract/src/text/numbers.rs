//! Integers and shares -> digits for people: the same in every locale, thousands with commas, absent where there is
//! nothing. CSV and JSON have plain numbers.

/// What stands for an absent value in a table.
pub const ABSENT: &str = "–";

/// A count with commas: `1,234,567`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}

/// The numbers of a text with commas in front of their points: `32000 to 51200.125` is `32,000 to 51,200.125`. What
/// belongs to a word stays as it is.
pub fn grouped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from_digits) = rest.split_at(at);
        let end = from_digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(from_digits.len());
        let (digits, after) = from_digits.split_at(end);
        out.push_str(before);
        let is_of_a_word = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | ',');
        let is_free = !out.ends_with(is_of_a_word) && !after.starts_with(char::is_alphabetic);
        match digits.parse() {
            Ok(number) if is_free && !digits.starts_with('0') => out.push_str(&count(number)),
            _ => out.push_str(digits),
        }
        rest = after;
    }
    out + rest
}

/// A rate: `113.7`; `4,314`, because the decimals of thousands carry no information.
pub fn shown_rate(value: f64) -> String {
    if value < 1_000.0 { format!("{value:.1}") } else { count(value.round() as u64) }
}

/// A count with its noun: `1 warning`, `1,234 warnings`, `2 copies`, `2 launches`.
pub fn counted(value: u64, noun: &str) -> String {
    let number = count(value);
    if value == 1 {
        return format!("{number} {noun}");
    }
    let after_consonant = |stem: &&str| !stem.ends_with(['a', 'e', 'o', 'u']);
    match noun.strip_suffix('y').filter(after_consonant) {
        Some(stem) => format!("{number} {stem}ies"),
        None if noun.ends_with(['s', 'x']) || noun.ends_with("ch") => format!("{number} {noun}es"),
        None => format!("{number} {noun}s"),
    }
}

/// Bytes in the unit that suits them, with two or more digits: `2.3 GB`, `617 MB`.
pub fn size(bytes: u64) -> String {
    let units = [("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    let bytes_f = bytes as f64;
    match units.into_iter().find(|(_, of)| bytes_f >= *of) {
        Some((unit, of)) if bytes_f < of * 10.0 => format!("{:.1} {unit}", bytes_f / of),
        Some((unit, of)) => format!("{} {unit}", count((bytes_f / of).round() as u64)),
        None => counted(bytes, "byte"),
    }
}

/// Nanoseconds of the unit that a time is shown in, the unit, and its decimals.
pub fn time_scale(ns: f64) -> (f64, &'static str, usize) {
    match ns {
        ns if ns < 1e5 => (1e3, "us", 1),
        ns if ns < 1e10 => (1e6, "ms", 2),
        _ => (1e9, "s", 2),
    }
}

/// Nanoseconds in the unit that suits them: `3.62 ms`.
pub fn shown_time(ns: f64) -> String {
    let (scale, unit, decimals) = time_scale(ns);
    grouped(&format!("{:.decimals$} {unit}", ns / scale))
}

/// Nanoseconds as milliseconds with three decimals, rounded: `1,234.568`.
pub fn ms3(ns: u64) -> String {
    let us = ns / 1000 + u64::from(ns % 1000 >= 500);
    format!("{}.{:03}", count(us / 1000), us % 1000)
}

/// Nanoseconds as milliseconds, exactly: `0.001235`.
pub fn ms6(ns: u64) -> String {
    format!("{}.{:06}", ns / 1_000_000, ns % 1_000_000)
}

/// Nanoseconds as microseconds, exactly: `1,234.567`.
pub fn us3(ns: u64) -> String {
    format!("{}.{:03}", count(ns / 1000), ns % 1000)
}

/// A share with one decimal: `12.5`.
pub fn percent1(percent: f64) -> String {
    if percent.is_finite() { format!("{percent:.1}") } else { ABSENT.to_owned() }
}

/// A ratio with three decimals: `1.042`.
pub fn ratio3(ratio: f64) -> String {
    if ratio.is_finite() { format!("{ratio:.3}") } else { ABSENT.to_owned() }
}

/// What `show` makes of a value, or the mark for an absent one.
pub fn or_absent<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| ABSENT.to_owned(), show)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_unit_that_suits_them() {
        let shown = [0, 1, 999, 1_000, 9_999, 617_300_000, 2_261_000_000, u64::MAX].map(size);
        let expected = [
            "0 bytes",
            "1 byte",
            "999 bytes",
            "1.0 kB",
            "10.0 kB",
            "617 MB",
            "2.3 GB",
            "18,446,744,074 GB",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn counts_have_commas() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
        let nouns =
            [(1, "process"), (1200, "process"), (0, "note"), (6, "copy"), (2, "graph launch")];
        let expected = ["1 process", "1,200 processes", "0 notes", "6 copies", "2 graph launches"];
        assert_eq!(counted(2, "takeaway"), "2 takeaways");
        assert_eq!(nouns.map(|(value, noun)| counted(value, noun)), expected);
    }

    #[test]
    fn numbers_in_a_text_have_commas() {
        let texts = [
            "24477.9214",
            "235 / 1246 / –",
            "-1234",
            "12,606",
            "0x12345",
            "e4fc7a99",
            "1e12345",
            "2024-01",
            "007777",
        ];
        let expected = [
            "24,477.9214",
            "235 / 1,246 / –",
            "-1,234",
            "12,606",
            "0x12345",
            "e4fc7a99",
            "1e12345",
            "2,024-01",
            "007777",
        ];
        assert_eq!(texts.map(grouped), expected);
        assert_eq!([999.94, 4313.5].map(shown_rate), ["999.9", "4,314"]);
        assert_eq!([3_683_352_000.0, 24e9].map(shown_time), ["3,683.35 ms", "24.00 s"]);
    }

    #[test]
    fn times_are_rounded_once_and_never_overflow() {
        let expected = ["1.234", "1.235", "0.000", "18,446,744,073,709.552"];
        assert_eq!([1_234_499, 1_234_500, 499, u64::MAX].map(ms3), expected);
        assert_eq!(ms6(1_235), "0.001235");
        assert_eq!(us3(1_235), "1.235");
    }

    #[test]
    fn absent_is_not_zero() {
        assert_eq!(or_absent(None, ms3), ABSENT);
        assert_eq!(or_absent(Some(0), ms3), "0.000");
        assert_eq!([f64::NAN, 12.34].map(percent1), [ABSENT, "12.3"]);
        assert_eq!([f64::INFINITY, 1.0416].map(ratio3), [ABSENT, "1.042"]);
    }
}
