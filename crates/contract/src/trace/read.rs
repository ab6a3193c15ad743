//! A trace file to records: whole, checked frames only, whatever the bytes are.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::text::visible_path;
use crate::trace::block::{Decoded, Delta, get_record};
use crate::trace::frame::{
    FILE_HEADER_BYTES, FORMAT_VERSION, FRAME_HEADER_BYTES, FrameHeader, KIND_RECORDS, MAGIC,
    MARKER, MAX_FILE_HEADER_BYTES, file_checksum, file_fields, frame_checksum,
};
use crate::trace::record::Record;
use crate::trace::varint::Cursor;

/// Room is made for this many bytes at a time, as they come, whatever a length field says.
const STEP_BYTES: usize = 64 * 1024;

/// How a trace file ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With its [`Record::End`].
    Complete,
    /// After a whole frame but without [`Record::End`]: the process was killed, or still runs.
    Open,
    /// In the middle of a frame, or in something that is not a frame: the process was killed while
    /// it wrote, still writes, its disk was full, or the file is damaged (a frame with a damaged
    /// length cannot be told from the last one of a file that was cut).
    Torn {
        /// Where the last whole frame ends, bytes from the start of the file.
        at_byte: u64,
        /// Bytes from there to the end of the file, none of which was read.
        lost_bytes: u64,
    },
}

/// What a reader came across and left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Frames that were damaged (wrong checksum) or whose content makes no sense. Records of the
    /// latter kind that came before the nonsense were read.
    pub corrupt_frames: u64,
    /// Bytes of those, where their length can be told.
    pub corrupt_bytes: u64,
    /// Sound frames of a kind that this version does not know.
    pub unknown_frames: u64,
    /// Sound records of a kind that this version does not know.
    pub unknown_records: u64,
}

/// Reads one trace file: an iterator over its records, in the order they were written.
///
/// An error ends the iteration; damage does not, as far as frames can be told apart, and is
/// reported by [`skipped`](Self::skipped) and [`end`](Self::end). Identifiers that nothing defines
/// are passed on. Memory: one frame.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    path: PathBuf,
    /// The payload of the current frame, and the header behind it.
    buffer: Vec<u8>,
    /// The part of the payload of the current frame that is still to be decoded.
    block: std::ops::Range<usize>,
    delta: Delta,
    /// The bytes of the next frame's header, or as many as the file has.
    ahead: Vec<u8>,
    /// Where that header starts, bytes from the start of the file.
    at_byte: u64,
    /// Bytes of the current frame, header included.
    frame_bytes: u64,
    end_seen: bool,
    torn: Option<Ending>,
    done: bool,
    skipped: Skipped,
}

impl Reader<File> {
    /// Opens a trace file.
    ///
    /// # Errors
    /// When there is no such file, or it is not a trace file that this version can read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ReadError> {
        let path = path.as_ref().to_path_buf();
        let failed = |source| ReadError::Open { path: path.clone(), source };
        // Asked before opening: opening a pipe would wait for somebody to write to it.
        if !fs::metadata(&path).map_err(failed)?.is_file() {
            return Err(ReadError::NotAFile(path));
        }
        let file = File::open(&path).map_err(failed)?;
        Self::named(file, path)
    }
}

impl<R: Read> Reader<R> {
    /// Reads a trace file from anything; errors call it `<stream>`. The reader asks for whole
    /// frames: a buffer around `input` gains nothing.
    ///
    /// # Errors
    /// When it is not a trace file that this version can read.
    pub fn new(input: R) -> Result<Self, ReadError> {
        Self::named(input, PathBuf::from("<stream>"))
    }

    /// Reads a trace file from `input`, the content of the file `path`: errors name that path.
    ///
    /// # Errors
    /// As of [`Reader::new`].
    pub fn named(mut input: R, path: PathBuf) -> Result<Self, ReadError> {
        let mut buffer = Vec::new();
        let (header_bytes, ahead) = read_file_header(&mut input, &mut buffer, &path)?;
        Ok(Self {
            input,
            path,
            buffer,
            block: 0..0,
            delta: Delta::default(),
            ahead,
            at_byte: header_bytes,
            frame_bytes: 0,
            end_seen: false,
            torn: None,
            done: false,
            skipped: Skipped::default(),
        })
    }

    /// How the trace file ends. Tells of the whole file once the iterator has given `None`, before
    /// that of what was read so far.
    pub fn end(&self) -> Ending {
        match self.torn {
            Some(torn) => torn,
            None if self.end_seen => Ending::Complete,
            None => Ending::Open,
        }
    }

    /// What was left out so far.
    pub fn skipped(&self) -> Skipped {
        self.skipped
    }

    /// Reads on without decoding, to where the last whole frame ends: bytes from the start of the file. A
    /// file that is still being written can be cut there.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn whole_bytes(mut self) -> Result<u64, ReadError> {
        while self.advance()? {}
        Ok(self.at_byte)
    }

    #[inline]
    fn decode(&mut self) -> Option<Record> {
        while !self.block.is_empty() {
            let mut cursor = Cursor::new(self.buffer.get(self.block.clone())?);
            let decoded = get_record(&mut cursor, &mut self.delta);
            self.block.start = self.block.end - cursor.left();
            match decoded {
                Some(Decoded::Record(record)) => return Some(record),
                Some(Decoded::Unknown) => self.skipped.unknown_records += 1,
                None => {
                    self.skip_corrupt();
                    self.block = 0..0;
                }
            }
        }
        None
    }

    /// Goes to the next frame of records; false at the end of what can be read.
    fn advance(&mut self) -> Result<bool, ReadError> {
        let advanced = self.try_advance();
        advanced.map_err(|source| {
            let (path, at_byte) = (self.path.clone(), self.at_byte);
            ReadError::Io { path, at_byte, source }
        })
    }

    fn try_advance(&mut self) -> io::Result<bool> {
        loop {
            let there = self.ahead.len();
            if there == 0 {
                return Ok(false);
            }
            let Some(&header_bytes) = self.ahead.first_chunk() else {
                return self.tear(there as u64);
            };
            let Some(header) = FrameHeader::parse(&header_bytes) else {
                self.skipped.corrupt_frames += 1;
                return self.tear(there as u64);
            };
            let got = fill(&mut self.input, &mut self.buffer, header.length + FRAME_HEADER_BYTES)?;
            let Some((payload, rest)) = self.buffer[..got].split_at_checked(header.length) else {
                return self.tear((there + got) as u64);
            };
            let sound = frame_checksum(&header_bytes, payload) == header.checksum;
            self.frame_bytes = (FRAME_HEADER_BYTES + header.length) as u64;
            if !sound && !can_follow(rest) {
                self.skipped.corrupt_frames += 1;
                return self.tear((there + got) as u64);
            }
            self.ahead.clear();
            self.ahead.extend_from_slice(rest);
            self.at_byte += self.frame_bytes;
            if !sound {
                self.skip_corrupt();
            } else if header.kind != KIND_RECORDS {
                self.skipped.unknown_frames += 1;
            } else {
                self.block = 0..header.length;
                self.delta = Delta::default();
                return Ok(true);
            }
        }
    }

    fn skip_corrupt(&mut self) {
        self.skipped.corrupt_frames += 1;
        self.skipped.corrupt_bytes += self.frame_bytes;
    }

    /// Gives up at the frame that starts at `at_byte`, of which `taken` bytes were read.
    fn tear(&mut self, taken: u64) -> io::Result<bool> {
        let at_byte = self.at_byte;
        self.torn = Some(Ending::Torn { at_byte, lost_bytes: taken });
        let lost_bytes = taken + io::copy(&mut self.input, &mut io::sink())?;
        self.torn = Some(Ending::Torn { at_byte, lost_bytes });
        Ok(false)
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Record, ReadError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        while !self.done {
            if let Some(record) = self.decode() {
                self.end_seen |= matches!(record, Record::End { .. });
                return Some(Ok(record));
            }
            match self.advance() {
                Ok(more) => self.done = !more,
                Err(error) => {
                    self.done = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

impl<R: Read> std::iter::FusedIterator for Reader<R> {}

/// Whether this can be where one frame ends and another, or nothing, begins.
fn can_follow(bytes: &[u8]) -> bool {
    match bytes.first_chunk() {
        Some(header) => FrameHeader::parse(header).is_some(),
        None => bytes.iter().zip(MARKER).all(|(&byte, expected)| byte == expected),
    }
}

/// Reads the file header and the header of the first frame; gives the length of the former too.
fn read_file_header(
    input: &mut impl Read,
    buffer: &mut Vec<u8>,
    path: &Path,
) -> Result<(u64, Vec<u8>), ReadError> {
    let path = || path.to_owned();
    let failed = |source| ReadError::Io { path: path(), at_byte: 0, source };
    let cut = |length_bytes| ReadError::HeaderCut { path: path(), length_bytes };
    let got = fill(input, buffer, FILE_HEADER_BYTES).map_err(failed)?;
    let there = &buffer[..got];
    if !there.iter().zip(&MAGIC).all(|(byte, expected)| byte == expected) {
        return Err(ReadError::NotATraceFile(path()));
    }
    let fixed = *there.first_chunk::<FILE_HEADER_BYTES>().ok_or_else(|| cut(got as u64))?;
    let [version, length_bytes, checksum] = file_fields(&fixed);
    let length = length_bytes as usize;
    if !(FILE_HEADER_BYTES..=MAX_FILE_HEADER_BYTES).contains(&length) {
        return Err(ReadError::HeaderDamaged(path()));
    }
    let more = length - FILE_HEADER_BYTES;
    let got = fill(input, buffer, more + FRAME_HEADER_BYTES).map_err(failed)?;
    let Some((more, ahead)) = buffer[..got].split_at_checked(more) else {
        return Err(cut((FILE_HEADER_BYTES + got) as u64));
    };
    if file_checksum(&fixed, more) != checksum || version == 0 {
        return Err(ReadError::HeaderDamaged(path()));
    }
    if version > FORMAT_VERSION {
        return Err(ReadError::NewerVersion { path: path(), found: version });
    }
    Ok((u64::from(length_bytes), ahead.to_vec()))
}

/// Reads up to `want` bytes into the front of `buffer` and states how many there were.
fn fill(input: &mut impl Read, buffer: &mut Vec<u8>, want: usize) -> io::Result<usize> {
    let mut got = 0;
    while got < want {
        if got == buffer.len() {
            buffer.resize(want.min(got + STEP_BYTES), 0);
        }
        let end = want.min(buffer.len());
        match input.read(&mut buffer[got..end]) {
            Ok(0) => break,
            Ok(read) => got = end.min(got + read),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}

/// Why a trace file cannot be read, or not further.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be opened.
    #[error("cannot open the trace file `{}`: {source}; check the path and its permissions", visible_path(.path))]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A folder, pipe or device.
    #[error("`{}` is not a regular file; name a spool (HOST-PID.s2t) that a collector wrote", visible_path(.0))]
    NotAFile(PathBuf),
    /// Reading failed on the way.
    #[error(
        "cannot read the trace file `{}` beyond byte {at_byte}: {source}; the records before are \
         good; copy the file to another disk to read the rest",
        visible_path(.path)
    )]
    Io {
        /// The file.
        path: PathBuf,
        /// Start of the frame that could not be read.
        at_byte: u64,
        /// What the system says.
        source: io::Error,
    },
    /// Another kind of file.
    #[error(
        "`{}` is damaged, or not a trace file: the header is missing; leave it out, or copy it again from \
         where the collector wrote it",
        visible_path(.0)
    )]
    NotATraceFile(PathBuf),
    /// The file ends within its header.
    #[error(
        "the trace file `{}` ends within its header, after {length_bytes} bytes: the process ended \
         or the disk was full before anything was recorded; leave the file out, or run again",
        visible_path(.path)
    )]
    HeaderCut {
        /// The file.
        path: PathBuf,
        /// How much there is.
        length_bytes: u64,
    },
    /// The header does not match its checksum.
    #[error(
        "the header of the trace file `{}` is damaged (its checksum is wrong); copy the file again \
         from where it was written, or run again",
        visible_path(.0)
    )]
    HeaderDamaged(PathBuf),
    /// A later version wrote it.
    #[error(
        "the trace file `{}` has format version {found}, and this program reads versions up to {FORMAT_VERSION}; \
         read it with a release at least as new as the collector that wrote it",
        visible_path(.path)
    )]
    NewerVersion {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
}
