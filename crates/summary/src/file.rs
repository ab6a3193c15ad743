//! Members and periods to bytes and back.

use std::io::{self, BufRead, Write};

use stage2_contract::trace::frame::{Frames, framed, header_of};
use stage2_contract::trace::varint::Cursor;

use crate::period::{Member, Period};

const MAGIC: [u8; 8] = *b"\x89S2M\r\n\x1a\n";
/// The version that this crate writes, and the newest that it reads.
pub const FORMAT_VERSION: u32 = 1;
const MEMBER: u16 = 1;
const PERIOD: u16 = 2;

/// What a summary holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// Whose it is. The last one of an identifier holds.
    Member(Member),
    /// What they did in a minute.
    Period(Box<Period>),
}

impl Entry {
    /// The frame that holds it.
    pub fn frame(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        match self {
            Self::Member(member) => {
                member.put(&mut payload);
                framed(MEMBER, &payload)
            }
            Self::Period(period) => {
                period.put(&mut payload);
                framed(PERIOD, &payload)
            }
        }
    }
}

/// Writes a summary.
#[derive(Debug)]
pub struct Writer<W> {
    output: W,
}

impl<W: Write> Writer<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// When `output` takes no more.
    pub fn new(mut output: W) -> io::Result<Self> {
        output.write_all(&header_of(MAGIC, FORMAT_VERSION))?;
        Ok(Self { output })
    }

    /// Writes one entry.
    ///
    /// # Errors
    /// When `output` takes no more.
    pub fn write(&mut self, entry: &Entry) -> io::Result<()> {
        self.output.write_all(&entry.frame())
    }

    /// What was written to.
    pub fn into_output(self) -> W {
        self.output
    }

    /// Hands on what a buffer holds.
    ///
    /// # Errors
    /// When `output` takes no more.
    pub fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// Reads a summary, whatever the bytes are. Memory: one frame.
#[derive(Debug)]
pub struct Reader<R> {
    frames: Frames<R>,
    /// Sound frames whose content makes no sense.
    senseless: u64,
    /// Frames of kinds that this version does not know.
    pub unknown: u64,
}

impl<R: BufRead> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// When it is not a summary that this version reads.
    pub fn new(input: R) -> io::Result<Self> {
        let (version, frames) = Frames::open(input, MAGIC)?;
        if !(1..=FORMAT_VERSION).contains(&version) {
            let why = format!(
                "its format has version {version}, and this program reads {FORMAT_VERSION}"
            );
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        Ok(Self { frames, senseless: 0, unknown: 0 })
    }

    /// The next entry; nothing at the end of what can be read.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn next_entry(&mut self) -> io::Result<Option<Entry>> {
        while let Some((kind, payload)) = self.frames.next_frame()? {
            let mut cursor = Cursor::new(payload);
            let entry = match kind {
                MEMBER => Member::get(&mut cursor).map(Entry::Member),
                PERIOD => Period::get(&mut cursor).map(Box::new).map(Entry::Period),
                _ => {
                    self.unknown += 1;
                    continue;
                }
            };
            match entry {
                Some(entry) => return Ok(Some(entry)),
                None => self.senseless += 1,
            }
        }
        Ok(None)
    }

    /// As [`next_entry`](Self::next_entry), with the number of a period; of a period, with `brief`, its number alone.
    pub(crate) fn next_looked(
        &mut self,
        brief: bool,
    ) -> io::Result<Option<(Option<u64>, Option<Entry>)>> {
        if !brief {
            let entry = self.next_entry()?;
            return Ok(entry.map(|entry| match &entry {
                Entry::Period(period) => (Some(period.index), Some(entry)),
                Entry::Member(_) => (None, Some(entry)),
            }));
        }
        loop {
            let Some((kind, payload)) = self.frames.next_frame()? else { return Ok(None) };
            let mut cursor = Cursor::new(payload);
            match kind {
                PERIOD => {
                    if let Some(index) = cursor.u64() {
                        return Ok(Some((Some(index), None)));
                    }
                }
                MEMBER => {
                    if let Some(member) = Member::get(&mut cursor) {
                        return Ok(Some((None, Some(Entry::Member(member)))));
                    }
                }
                _ => self.unknown += 1,
            }
        }
    }

    /// Frames that were damaged, and whether the file ends within one.
    pub fn damage(&self) -> (u64, bool) {
        (self.frames.damaged + self.senseless, self.frames.torn)
    }
}
