//! The bytes of a text file of any usual encoding -> UTF-8, as they are read.
//!
//! PowerShell writes what `>` redirects as UTF-16, and programs of Windows put a byte order mark
//! before UTF-8. Readers of foreign text read through this, and see neither.

use std::io::{self, Read};

/// Bytes of the longest record of a CSV file: in a longer one a quote was never closed, or a line never ends.
/// Stacks of ranges in one cell reach megabytes.
pub(crate) const MAX_RECORD_BYTES: u64 = 16 << 20;
/// Cells of the widest record: every metric that a GPU has, with all of its sums and means, is fewer.
pub(crate) const MAX_COLUMNS: usize = 20_000;

const START_BYTES: usize = 512;
/// Bytes of UTF-16 that are turned at a time.
const CHUNK_BYTES: usize = 8 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    /// Or any other one whose first characters are those of ASCII.
    Utf8,
    Utf16 {
        big_endian: bool,
    },
}

impl Encoding {
    /// The encoding of a file that starts so, and how many bytes of it are its mark.
    fn of(start: &[u8]) -> (Encoding, usize) {
        match start {
            [0xef, 0xbb, 0xbf, ..] => return (Encoding::Utf8, 3),
            [0xff, 0xfe, ..] => return (Encoding::Utf16 { big_endian: false }, 2),
            [0xfe, 0xff, ..] => return (Encoding::Utf16 { big_endian: true }, 2),
            _ => {}
        }
        // Without a mark: nearly all of a table is ASCII, so that one byte of each pair is zero.
        let (pairs, _) = start.as_chunks::<2>();
        let zero = |at: usize| pairs.iter().filter(|pair| pair[at] == 0).count();
        let mostly =
            |many: usize, few: usize| many * 10 >= pairs.len() * 6 && few * 10 <= pairs.len();
        match (zero(0), zero(1)) {
            _ if pairs.len() < 4 => (Encoding::Utf8, 0),
            (high, low) if mostly(low, high) => (Encoding::Utf16 { big_endian: false }, 0),
            (high, low) if mostly(high, low) => (Encoding::Utf16 { big_endian: true }, 0),
            _ => (Encoding::Utf8, 0),
        }
    }
}

/// Reads through, and turns UTF-16 into UTF-8. Marks at the start are left out, and units that are not a
/// character become U+FFFD.
pub(crate) struct Decoded<R> {
    inner: R,
    /// None: nothing was read yet.
    encoding: Option<Encoding>,
    /// What is ready, and how much of it was handed on.
    ready: Vec<u8>,
    at: usize,
    /// Bytes of a unit, or of a pair of units, whose others are still to come.
    rest: Vec<u8>,
}

impl<R: Read> Decoded<R> {
    pub(crate) fn new(inner: R) -> Self {
        Decoded { inner, encoding: None, ready: Vec::new(), at: 0, rest: Vec::new() }
    }
    fn start(&mut self) -> io::Result<Encoding> {
        let mut start = Vec::with_capacity(START_BYTES);
        self.inner.by_ref().take(START_BYTES as u64).read_to_end(&mut start)?;
        let (encoding, mark) = Encoding::of(&start);
        self.encoding = Some(encoding);
        match encoding {
            Encoding::Utf8 => (self.ready, self.at) = (start, mark),
            Encoding::Utf16 { big_endian } => {
                self.turn(start.get(mark..).unwrap_or(&[]), big_endian)
            }
        }
        Ok(encoding)
    }

    /// Makes the next units ready. Nothing is left of what was ready before.
    fn turn(&mut self, bytes: &[u8], big_endian: bool) {
        self.rest.extend_from_slice(bytes);
        let unit = if big_endian { u16::from_be_bytes } else { u16::from_le_bytes };
        let (pairs, _) = self.rest.as_chunks::<2>();
        let mut units: Vec<u16> = pairs.iter().map(|pair| unit(*pair)).collect();
        units.pop_if(|unit| (0xd800..0xdc00).contains(&*unit));
        self.rest.drain(..2 * units.len());
        let chars = char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER));
        (self.ready, self.at) = (chars.collect::<String>().into_bytes(), 0);
    }
}

impl<R: Read> Read for Decoded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let encoding = self.encoding.map_or_else(|| self.start(), Ok)?;
        while self.at >= self.ready.len() {
            let Encoding::Utf16 { big_endian } = encoding else { return self.inner.read(buffer) };
            let mut bytes = [0; CHUNK_BYTES];
            let count = self.inner.read(&mut bytes)?;
            if count == 0 {
                // A file that ends within a character.
                if std::mem::take(&mut self.rest).is_empty() {
                    return Ok(0);
                }
                (self.ready, self.at) = ("\u{fffd}".into(), 0);
                break;
            }
            self.turn(bytes.get(..count).unwrap_or(&[]), big_endian);
        }
        let count = self.ready.get(self.at..).unwrap_or_default().read(buffer)?;
        self.at += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands out few bytes at a time, so that units and characters are torn apart.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let most = buffer.len().min(self.1);
            self.0.read(&mut buffer[..most])
        }
    }

    fn text(bytes: &[u8], at_a_time: usize) -> String {
        let mut out = Vec::new();
        Decoded::new(Slow(bytes, at_a_time)).read_to_end(&mut out).expect("read");
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn any_usual_encoding_gives_the_same_text() {
        let line = "\"ID\",\"größe 名前 \u{1f600}\"\n";
        let long = line.repeat(2_000);
        let of = |text: &str, bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
            text.encode_utf16().flat_map(bytes).collect()
        };
        for expected in [line, &long, "a,b\n", ""] {
            let marked = format!("\u{feff}{expected}");
            for bytes in [
                expected.as_bytes().to_vec(),
                marked.as_bytes().to_vec(),
                of(&marked, u16::to_le_bytes),
                of(&marked, u16::to_be_bytes),
                of(expected, u16::to_le_bytes),
                of(expected, u16::to_be_bytes),
            ] {
                for at_a_time in [1, 3, 1 << 20] {
                    assert!(text(&bytes, at_a_time) == expected, "{at_a_time}: {expected:.40}");
                }
            }
        }
    }

    #[test]
    fn what_is_no_text_is_read_to_its_end() {
        assert_eq!(text(b"\xff\xfea\0\x3d\xd8", 1), "a\u{fffd}", "half of a pair");
        assert_eq!(text(b"\xff\xfea\0b", 1), "a\u{fffd}", "half of a unit");
        assert_eq!(text(b"\xff\xfe", 1), "");
        assert_eq!(text(&[0; 40], 7), "\0".repeat(40), "zeros are no text of any kind");
    }
}
