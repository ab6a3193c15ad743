//! NVTX's predefined types: how many bytes each takes, and what value the bytes are.

use cupti_sys::nvtx as sys;

use super::Value;
use crate::guest::handle::Handle;

/// How a value is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    Signed,
    Unsigned,
    Float,
    /// The upper half of a 32-bit floating-point number.
    Brain,
    /// IEEE 754 binary16.
    Half,
    Registered,
    /// Its size is known, and nothing else.
    Opaque,
}

/// A type of fixed size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Basic {
    pub(super) bytes: usize,
    pub(super) read: Read,
}

/// A predefined type that has a size of its own; not the texts.
pub(super) fn basic(kind: u64) -> Option<Basic> {
    use Read::*;
    let kind = u32::try_from(kind).ok()?;
    let (bytes, read) = match kind {
        sys::NVTX_PAYLOAD_ENTRY_TYPE_CHAR | sys::NVTX_PAYLOAD_ENTRY_TYPE_INT8 => (1, Signed),
        sys::NVTX_PAYLOAD_ENTRY_TYPE_UCHAR
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_UINT8
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_CHAR8
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_BYTE => (1, Unsigned),
        sys::NVTX_PAYLOAD_ENTRY_TYPE_SHORT | sys::NVTX_PAYLOAD_ENTRY_TYPE_INT16 => (2, Signed),
        sys::NVTX_PAYLOAD_ENTRY_TYPE_USHORT
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_UINT16
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_CHAR16 => (2, Unsigned),
        sys::NVTX_PAYLOAD_ENTRY_TYPE_INT
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_INT32
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_WCHAR => (4, Signed),
        sys::NVTX_PAYLOAD_ENTRY_TYPE_UINT
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_UINT32
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_CHAR32
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_CATEGORY
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_COLOR_ARGB
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_PID_UINT32
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_TID_UINT32 => (4, Unsigned),
        sys::NVTX_PAYLOAD_ENTRY_TYPE_LONG
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_LONGLONG
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_INT64 => (8, Signed),
        sys::NVTX_PAYLOAD_ENTRY_TYPE_ULONG
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_ULONGLONG
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_UINT64
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_SIZE
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_ADDRESS
        | RANGE_ID
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_SCOPE_ID
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_PID_UINT64
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_TID_UINT64 => (8, Unsigned),
        sys::NVTX_PAYLOAD_ENTRY_TYPE_FLOAT
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_FLOAT32
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_TF32 => (4, Float),
        sys::NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE | sys::NVTX_PAYLOAD_ENTRY_TYPE_FLOAT64 => (8, Float),
        sys::NVTX_PAYLOAD_ENTRY_TYPE_FLOAT16 => (2, Half),
        sys::NVTX_PAYLOAD_ENTRY_TYPE_BF16 => (2, Brain),
        sys::NVTX_PAYLOAD_ENTRY_TYPE_LONGDOUBLE
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_INT128
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_UINT128
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_FLOAT128 => (16, Opaque),
        sys::NVTX_PAYLOAD_ENTRY_TYPE_NVTX_REGISTERED_STRING_HANDLE => (8, Registered),
        _ => return None,
    };
    Some(Basic { bytes, read })
}

/// NVTX 3.2's id of a range; not in the headers that the bindings are made from.
const RANGE_ID: u32 = 67;

/// Bytes of a character of a text type.
pub(super) fn text_unit(kind: u64) -> Option<usize> {
    match u32::try_from(kind).ok()? {
        sys::NVTX_PAYLOAD_ENTRY_TYPE_CSTRING | sys::NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF8 => Some(1),
        sys::NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF16 => Some(2),
        sys::NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF32 => Some(4),
        _ => None,
    }
}

/// Whether an array of this type is a text.
pub(super) fn is_character(kind: u64) -> bool {
    use sys::*;
    [NVTX_PAYLOAD_ENTRY_TYPE_CHAR, NVTX_PAYLOAD_ENTRY_TYPE_UCHAR, NVTX_PAYLOAD_ENTRY_TYPE_CHAR8]
        .into_iter()
        .any(|character| u64::from(character) == kind)
}

impl Basic {
    /// The value of as many bytes as the type has. `None` for those that have none here.
    pub(super) fn value(self, bytes: &[u8]) -> Option<Value> {
        let raw = unsigned(bytes)?;
        let unused = 64 - 8 * u32::try_from(bytes.len()).ok()?;
        Some(match (self.read, self.bytes) {
            (Read::Signed, _) => Value::I64(((raw << unused) as i64) >> unused),
            (Read::Unsigned, _) => Value::U64(raw),
            (Read::Float, 4) => Value::F64(f32::from_bits(raw as u32).into()),
            (Read::Float, _) => Value::F64(f64::from_bits(raw)),
            (Read::Brain, _) => Value::F64(f32::from_bits((raw as u32) << 16).into()),
            (Read::Half, _) => Value::F64(half(raw as u16)),
            (Read::Registered, _) => Value::Registered(Handle(raw).number()),
            (Read::Opaque, _) => return None,
        })
    }
}

/// Up to 8 bytes as an unsigned number.
pub(super) fn unsigned(bytes: &[u8]) -> Option<u64> {
    let mut whole = [0; 8];
    whole.get_mut(..bytes.len()).filter(|place| !place.is_empty())?.copy_from_slice(bytes);
    // NVTX's clients are 64-bit Linux programs: little-endian.
    Some(u64::from_le_bytes(whole))
}

fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    sign * match exponent {
        0 => fraction * 2f64.powi(-24),
        0x1f if fraction == 0.0 => f64::INFINITY,
        0x1f => f64::NAN,
        _ => (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_size_and_sign_are_read() {
        let value = |kind: u32, bytes: &[u8]| basic(kind.into()).unwrap().value(bytes);
        use sys::*;
        assert_eq!(value(NVTX_PAYLOAD_ENTRY_TYPE_INT8, &[0xff]), Some(Value::I64(-1)));
        assert_eq!(
            value(NVTX_PAYLOAD_ENTRY_TYPE_INT, &[0xfe, 0xff, 0xff, 0xff]),
            Some(Value::I64(-2))
        );
        assert_eq!(value(NVTX_PAYLOAD_ENTRY_TYPE_USHORT, &[0xff, 0xff]), Some(Value::U64(65_535)));
        let u64s = u64::MAX.to_le_bytes();
        assert_eq!(value(NVTX_PAYLOAD_ENTRY_TYPE_SIZE, &u64s), Some(Value::U64(u64::MAX)));
        assert_eq!(value(NVTX_PAYLOAD_ENTRY_TYPE_INT64, &u64s), Some(Value::I64(-1)));
        let float = 0.5f32.to_le_bytes();
        assert_eq!(value(NVTX_PAYLOAD_ENTRY_TYPE_FLOAT, &float), Some(Value::F64(0.5)));
        assert_eq!(value(NVTX_PAYLOAD_ENTRY_TYPE_BF16, &float[2..]), Some(Value::F64(0.5)));
        let halves = [0x3800u16, 0xc000, 0x0001, 0x7c00].map(u16::to_le_bytes);
        let floats = [0.5, -2.0, 2f64.powi(-24), f64::INFINITY];
        for (half, float) in halves.iter().zip(floats) {
            assert_eq!(value(NVTX_PAYLOAD_ENTRY_TYPE_FLOAT16, half), Some(Value::F64(float)));
        }
        assert_eq!(value(NVTX_PAYLOAD_ENTRY_TYPE_INT128, &[0; 16]), None);
    }
}
