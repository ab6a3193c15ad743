//! Changes to an input that leave enough of its format whole to get past the first check.

pub mod bundle;
mod bytes;
mod json;
mod sqlite;
mod table;
mod text;
mod trace;

pub use bytes::bytes;
pub use json::json;
pub use sqlite::sqlite;
pub use table::table;
pub use text::{override_words, text};
pub use trace::trace;

/// A mutator: changes an input in place.
pub type Mutator = fn(&mut Vec<u8>, &mut fastrand::Rng);

/// Numbers at the edges of types and of what programs check.
const NUMBERS: [i64; 24] = [
    0,
    1,
    -1,
    2,
    7,
    59,
    75,
    127,
    128,
    255,
    256,
    1023,
    65_535,
    65_536,
    1 << 24,
    i32::MAX as i64,
    i32::MIN as i64,
    u32::MAX as i64,
    1 << 32,
    1 << 53,
    1 << 62,
    i64::MAX - 1,
    i64::MAX,
    i64::MIN,
];

/// Texts that readers of cells and values take for something.
const TEXTS: [&str; 22] = [
    "",
    " ",
    "0",
    "-0",
    "1e308",
    "1e-320",
    "-1e999",
    "nan",
    "inf",
    "9223372036854775808",
    "18446744073709551616",
    "1,234.5",
    "n/a",
    "null",
    "true",
    "\"",
    "'",
    "\u{0}",
    "\u{1b}[31m",
    "é漢\u{202e}\u{feff}",
    "../../x",
    "${a}",
];

fn number(random: &mut fastrand::Rng) -> i64 {
    match random.u8(..4) {
        0 => random.i64(..),
        1 => random.i64(-300..300),
        _ => random.choice(NUMBERS).unwrap_or(0),
    }
}
