//! Numbers as tools print them in the locale of their user: `1,117.18`, `1.117,18`, `1 117,18`,
//! `1'117.18` -> one reading.
//!
//! A single cell may not say whether its separator ends the whole part or groups thousands: `9.472`
//! is either. The other cells of its file do, so that the [`Convention`] is that of a file. Where none
//! of them says it, such a cell has no value: a guess would be wrong by a factor of a thousand.

/// What points and commas mean in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Convention {
    /// A point before the fraction, commas between thousands. Also that of a file in which no cell has
    /// a point, because tools print whole numbers so (`5,843`).
    #[default]
    Point,
    /// A comma before the fraction, points between thousands.
    Comma,
    /// Cells contradict each other, or none tells: only cells that leave no choice are read.
    Unknown,
}

impl Convention {
    /// A number as digits with a point before the fraction and no groups, for exact arithmetic.
    pub(crate) fn plain(self, cell: &str) -> Option<String> {
        let (point, comma) = (plain(cell.trim(), '.', ','), plain(cell.trim(), ',', '.'));
        match self {
            Convention::Point => point,
            Convention::Comma => comma,
            Convention::Unknown if point.is_none() || point == comma => comma,
            Convention::Unknown if comma.is_none() => point,
            Convention::Unknown => None,
        }
    }
}

/// What a cell states where a point stands before the fraction (`41.25`, `1,117.18`), and where a comma does
/// (`41,25`, `1.117,18`); `None` where it is not a number then. Both are equal where the cell leaves no choice.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Reading {
    pub(crate) point: Option<f64>,
    pub(crate) comma: Option<f64>,
}

impl Reading {
    pub(crate) fn of(cell: &str) -> Self {
        let cell = cell.trim();
        let digits = cell.bytes().all(|byte| byte.is_ascii_digit());
        // `f64` reads `inf`, `infinity` and `nan` in any case, which is wanted here.
        let word = cell.trim_start_matches(['-', '+']).starts_with(|c: char| c.is_alphabetic());
        if digits || word {
            let number = cell.parse().ok();
            return Reading { point: number, comma: number };
        }
        let number = |fraction, group| plain(cell, fraction, group)?.parse().ok();
        Reading { point: number('.', ','), comma: number(',', '.') }
    }

    /// Both numbers of a cell with two: `9.472`, `9,472`.
    pub(crate) fn open(self) -> Option<(f64, f64)> {
        self.point.zip(self.comma).filter(|(point, comma)| {
            point.partial_cmp(comma).is_some_and(std::cmp::Ordering::is_ne)
        })
    }

    /// The number of a cell with one, whichever convention holds.
    pub(crate) fn certain(self) -> Option<f64> {
        self.point.filter(|_| self.comma.is_some() && self.open().is_none())
    }

    /// The number by a convention.
    pub(crate) fn by(self, convention: Convention) -> Option<f64> {
        match convention {
            Convention::Point => self.point,
            Convention::Comma => self.comma,
            Convention::Unknown if self.open().is_some() => None,
            Convention::Unknown => self.point.or(self.comma),
        }
    }
}

/// What the cells of a file state together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Evidence {
    points: u64,
    commas: u64,
    /// Of cells with two readings, those of which one cannot be.
    likely_points: u64,
    likely_commas: u64,
    /// Cells with two readings, of which the point is one.
    open_points: u64,
}

/// So many times as many cells have to say the one than the other. A text may look like a number.
const CLEARLY: u64 = 10;

impl Evidence {
    /// Takes a cell into account. What it measures is never more than `most` (infinite: not known).
    pub(crate) fn add(&mut self, reading: Reading, most: f64) {
        self.points += u64::from(reading.point.is_some() && reading.comma.is_none());
        self.commas += u64::from(reading.comma.is_some() && reading.point.is_none());
        if let Some((point, comma)) = reading.open() {
            self.open_points += u64::from(point < comma);
            self.likely_points += u64::from(comma.abs() > most && point.abs() <= most);
            self.likely_commas += u64::from(point.abs() > most && comma.abs() <= most);
        }
    }

    /// Takes a cell into account where only whole numbers stand: of two readings the fraction cannot be.
    pub(crate) fn add_whole(&mut self, reading: Reading) {
        match reading.open() {
            Some((point, comma)) if point < comma => self.likely_commas += 1,
            Some(_) => self.likely_points += 1,
            None => self.add(reading, f64::INFINITY),
        }
    }

    /// What follows from the cells so far.
    pub(crate) fn convention(&self) -> Convention {
        let clearly = |points: u64, commas: u64| match (points, commas) {
            _ if points > 0 && points >= commas.saturating_mul(CLEARLY) => Convention::Point,
            _ if commas > 0 && commas >= points.saturating_mul(CLEARLY) => Convention::Comma,
            _ => Convention::Unknown,
        };
        match self {
            _ if self.points + self.commas > 0 => clearly(self.points, self.commas),
            _ if self.likely_points + self.likely_commas > 0 => {
                clearly(self.likely_points, self.likely_commas)
            }
            _ if self.open_points == 0 => Convention::Point,
            _ => Convention::Unknown,
        }
    }
}

/// What separates thousands in any convention: spaces, also such that do not break, and apostrophes.
const ANY_GROUP: [char; 6] = [' ', '\u{a0}', '\u{2009}', '\u{202f}', '\'', '\u{2019}'];

/// A number with its groups taken out and a point before the fraction; nothing where the text is none
/// in a convention with these separators.
fn plain(text: &str, fraction_mark: char, group_mark: char) -> Option<String> {
    let (sign, text) = match text.strip_prefix(['-', '\u{2212}']) {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let of_two = |(front, behind)| (front, Some(behind));
    let (mantissa, exponent) = text.split_once(['e', 'E']).map_or((text, None), of_two);
    let (whole, fraction) = mantissa.split_once(fraction_mark).map_or((mantissa, None), of_two);
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let mark = whole.chars().find(|c| *c == group_mark || ANY_GROUP.contains(c));
    let whole = match mark {
        None => whole.to_owned(),
        // Groups have three digits, and none stands before a zero or in a number with an exponent.
        Some(mark) => {
            let mut groups = whole.split(mark);
            let first = groups.next()?;
            let begins = digits(first) && first.len() <= 3 && !first.starts_with('0');
            let good = begins && exponent.is_none();
            (good && groups.all(|group| group.len() == 3 && digits(group)))
                .then(|| whole.chars().filter(|c| *c != mark).collect())?
        }
    };
    let power = |text: &str| digits(text.strip_prefix(['-', '+']).unwrap_or(text));
    if !digits(&whole) || !fraction.is_none_or(digits) || !exponent.is_none_or(power) {
        return None;
    }
    let mut out = format!("{sign}{whole}");
    out.extend(fraction.map(|digits| format!(".{digits}")));
    out.extend(exponent.map(|power| format!("e{power}")));
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_say_what_they_can_be() {
        for (cell, point, comma) in [
            ("5843", Some(5843.0), Some(5843.0)),
            ("-3", Some(-3.0), Some(-3.0)),
            ("1 117", Some(1117.0), Some(1117.0)),
            ("1'117", Some(1117.0), Some(1117.0)),
            ("1e9", Some(1e9), Some(1e9)),
            ("41.25", Some(41.25), None),
            ("1,117.18", Some(1117.18), None),
            ("1,060,748,243,478,260.88", Some(1_060_748_243_478_260.9), None),
            ("1,234,567", Some(1_234_567.0), None),
            ("0.125", Some(0.125), None),
            ("1234.567", Some(1234.567), None),
            ("9.472e3", Some(9472.0), None),
            (" 0.055900 ", Some(0.0559), None),
            ("1’117.180", Some(1117.18), None),
            ("41,25", None, Some(41.25)),
            ("1.117,18", None, Some(1117.18)),
            ("9.420.231,80", None, Some(9_420_231.8)),
            ("1.234.567", None, Some(1_234_567.0)),
            ("0,125", None, Some(0.125)),
            ("1\u{202f}117,180", None, Some(1117.18)),
            ("-1\u{a0}117,18", None, Some(-1117.18)),
            ("1,5E+04", None, Some(15_000.0)),
            ("9.472", Some(9.472), Some(9472.0)),
            ("9,472", Some(9472.0), Some(9.472)),
        ] {
            assert_eq!(Reading::of(cell), Reading { point, comma }, "{cell}");
        }
        let none = "|n/a|N/A|-|(128, 1, 1)|12,3456,1|,123|1,234,|PolicySpread|1.2.3|0-47,96|0,1,2,3|\
                    1 234 56|1,234 567|5.|1e|--1|1.000,000.5";
        for cell in none.split('|') {
            assert_eq!(Reading::of(cell), Reading::default(), "{cell}");
        }
        assert!(Reading::of("nan").certain().is_some_and(f64::is_nan));
        assert!(Reading::of("-inf").certain().is_some_and(f64::is_infinite));
    }

    #[test]
    fn the_other_cells_of_a_file_say_what_one_leaves_open() {
        let of = |cells: &[&str]| {
            let mut evidence = Evidence::default();
            cells.iter().for_each(|cell| evidence.add(Reading::of(cell), f64::INFINITY));
            evidence.convention()
        };
        for (cells, expected, of_dot) in [
            (&["9.472", "41,25"][..], Convention::Comma, Some(9472.0)),
            (&["9.472", "41.25"], Convention::Point, Some(9.472)),
            (&["9.472", "12"], Convention::Unknown, None),
            (&["9.472", "41.25", "41,25"], Convention::Unknown, None),
            (&["5,843", "n/a"], Convention::Point, Some(9.472)),
            (&[], Convention::Point, Some(9.472)),
        ] {
            let convention = of(cells);
            let read = Reading::of("9.472").by(convention);
            assert_eq!((convention, read), (expected, of_dot), "{cells:?}");
        }
        let mut odd = vec!["41.25"; 10];
        odd.push("0,1");
        assert_eq!(of(&odd), Convention::Point, "one text that looks like a number");
        assert_eq!(Reading::of("41,25").by(Convention::Unknown), Some(41.25));
        assert_eq!(Convention::Comma.plain("1.117,18").as_deref(), Some("1117.18"));
        assert_eq!(Convention::Unknown.plain("9,472"), None);
        // A share of more than a thousand percent cannot be.
        let mut evidence = Evidence::default();
        evidence.add(Reading::of("80,125"), 1000.0);
        assert_eq!(evidence.convention(), Convention::Comma);
        for (cell, expected) in [("3.000", Convention::Comma), ("3,000", Convention::Point)] {
            let mut evidence = Evidence::default();
            evidence.add_whole(Reading::of(cell));
            assert_eq!(evidence.convention(), expected, "{cell}");
        }
    }
}
