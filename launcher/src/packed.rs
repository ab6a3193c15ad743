//! What build.rs packed -> texts by their names.

use std::io::{self, Read as _};

use flate2::read::ZlibDecoder;

/// Texts with their names.
pub(crate) struct Packed(String);

impl Packed {
    /// Unpacks a file that build.rs has written.
    pub(crate) fn open(packed: &[u8]) -> io::Result<Self> {
        let mut all = String::new();
        ZlibDecoder::new(packed).read_to_string(&mut all)?;
        Ok(Self(all))
    }

    /// Each name with its text, in the order of the names.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut texts = self.0.split_terminator('\0');
        std::iter::from_fn(move || texts.next().zip(texts.next()))
    }
}
