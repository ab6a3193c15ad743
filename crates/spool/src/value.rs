//! Values that the guest attached to its ranges and marks.

/// A value that the guest attached to an NVTX range or mark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Payload {
    /// An unsigned integer.
    U64(u64),
    /// A signed integer.
    I64(i64),
    /// A floating-point number.
    F64(f64),
}

/// A named value of a range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field {
    /// Its name, as the guest's schema has it: the identifier of a [`Record::Name`](crate::Record::Name).
    pub name: u32,
    /// The value.
    pub value: FieldValue,
}

/// What a [`Field`] holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldValue {
    /// An unsigned integer.
    U64(u64),
    /// A signed integer.
    I64(i64),
    /// A floating-point number.
    F64(f64),
    /// A text, or the name of an entry of an enumeration: the identifier of a [`Record::Name`](crate::Record::Name).
    Name(u32),
}
