//! Integers to LEB128 varints and back, with every read checked against the bytes that are there.

/// Appends `value` as a LEB128 varint: 7 bits a byte, low bits first, high bit on all but the last.
#[inline]
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends how far `to` lies from `from`, modulo 2^64 and zigzagged, so that a small step either
/// way is a short varint and every pair of values round-trips.
#[inline]
pub fn put_step(out: &mut Vec<u8>, from: u64, to: u64) {
    put(out, zigzag(to.wrapping_sub(from) as i64));
}

/// Appends a length and the bytes.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// 0, -1, 1, -2, ... to 0, 1, 2, 3, ...
#[inline]
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[inline]
fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// What is left to read of a record or block. Every method answers `None` when the bytes end too
/// early or say something that no writer writes.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// All of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// How many bytes are left.
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// One byte.
    #[inline]
    pub fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    /// A varint.
    #[inline]
    pub fn u64(&mut self) -> Option<u64> {
        let mut byte = self.byte()?;
        let mut value = u64::from(byte & 0x7f);
        let mut shift = 7;
        while byte >= 0x80 {
            byte = self.byte()?;
            // The tenth byte holds the one bit that is left of 64.
            if shift == 63 && byte > 1 {
                return None;
            }
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
        }
        Some(value)
    }

    /// A varint of at most 32 bits.
    #[inline]
    pub fn u32(&mut self) -> Option<u32> {
        u32::try_from(self.u64()?).ok()
    }

    /// A field at the end of a record that older files lack: 0 there.
    pub fn later(&mut self) -> Option<u64> {
        if self.rest.is_empty() { Some(0) } else { self.u64() }
    }

    /// A zigzagged varint.
    pub fn i64(&mut self) -> Option<i64> {
        self.u64().map(unzigzag)
    }

    /// The counterpart of [`put_step`].
    #[inline]
    pub fn step(&mut self, from: u64) -> Option<u64> {
        self.u64().map(|value| from.wrapping_add(unzigzag(value) as u64))
    }

    /// So many bytes.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (&array, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(array)
    }

    /// A length, and so many bytes.
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.u64()?).ok()?;
        self.bytes_of(length)
    }

    /// So many bytes.
    pub fn bytes_of(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(bytes)
    }

    /// A string; what is not UTF-8 in it (no writer of ours writes such) becomes U+FFFD.
    pub fn string(&mut self) -> Option<String> {
        self.bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(value: u64) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, value);
        out
    }

    #[test]
    fn varints_are_leb128() {
        assert_eq!(encoded(0), [0]);
        assert_eq!(encoded(127), [0x7f]);
        assert_eq!(encoded(128), [0x80, 0x01]);
        assert_eq!(encoded(624_485), [0xe5, 0x8e, 0x26]);
        assert_eq!(encoded(u64::MAX), [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
    }

    #[test]
    fn varints_round_trip_at_every_width() {
        for bits in 0..64 {
            for value in [(1 << bits) - 1, 1 << bits, u64::MAX >> bits] {
                assert_eq!(Cursor::new(&encoded(value)).u64(), Some(value));
                assert_eq!(unzigzag(zigzag(value as i64)), value as i64);
            }
        }
    }

    #[test]
    fn steps_wrap_around() {
        for (from, to) in [(0, u64::MAX), (u64::MAX, 0), (5, 3), (1 << 63, 7), (9, 9)] {
            let mut out = Vec::new();
            put_step(&mut out, from, to);
            assert_eq!(Cursor::new(&out).step(from), Some(to));
        }
    }

    #[test]
    fn impossible_varints_are_refused() {
        let mut too_wide = [0xff; 10];
        too_wide[9] = 2;
        assert_eq!(Cursor::new(&too_wide).u64(), None, "more than 64 bits");
        assert_eq!(Cursor::new(&[0x80; 11]).u64(), None, "more than ten bytes");
        assert_eq!(Cursor::new(&[0x80, 0x80]).u64(), None, "ends early");
        assert_eq!(Cursor::new(&encoded(1 << 32)).u32(), None, "more than 32 bits");
        assert_eq!(Cursor::new(&[5, 1, 2]).bytes(), None, "longer than what is there");
        assert_eq!(Cursor::new(&encoded(u64::MAX)).bytes(), None);
    }
}
