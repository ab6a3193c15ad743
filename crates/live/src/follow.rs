//! A trace file that grows -> its records, up to the last whole frame, a bounded number of bytes at a time.

use std::fs::{self, File};
use std::io::{self, Read, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use stage2_contract::trace::{Ending, ReadError, Reader, Record, Writer};
use stage2_read::files;

/// The fewest bytes that a call may read: more than the largest frame.
pub(crate) const LEAST_BUDGET: u64 = 2 << 20;
/// How often the same damaged frame is read before the file is given up: a writer may be at it.
const PATIENCE: u32 = 5;

/// How things stand with a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FileState {
    /// It was found and has no whole header yet.
    #[default]
    Waiting,
    /// It is read; more may come.
    Growing,
    /// Its process ended it in order.
    Ended,
    /// It was taken away before it ended.
    Removed,
    /// Another file stands in its place.
    Replaced,
    /// It became shorter than what was read of it.
    Cut,
    /// It is damaged from this byte on.
    Damaged(u64),
    /// It cannot be read, and why.
    Unreadable(String),
}

impl FileState {
    /// Whether nothing more is read.
    pub fn is_over(&self) -> bool {
        !matches!(self, Self::Waiting | Self::Growing)
    }
}

/// What one call has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Bytes.
    pub bytes: u64,
    /// Bytes that are there and were not read yet.
    pub behind: u64,
    /// Frames within that were damaged and left out.
    pub corrupt_frames: u64,
}

/// A file, and how far it was read.
#[derive(Debug)]
pub struct Follow {
    path: PathBuf,
    file: Option<File>,
    identity: (u64, u64),
    /// Where the next frame begins; 0: the header was not read.
    at: u64,
    /// Calls that came no further because of damage at `at`.
    stuck: u32,
    state: FileState,
    ended: bool,
}

impl Follow {
    /// Nothing is opened yet.
    pub fn new(path: PathBuf) -> Self {
        let state = FileState::default();
        Self { path, file: None, identity: (0, 0), at: 0, stuck: 0, state, ended: false }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How things stand.
    pub fn state(&self) -> &FileState {
        &self.state
    }

    /// Where the part that was read ends, bytes from the start.
    pub fn read_to(&self) -> u64 {
        self.at
    }

    /// Reads on, `budget` bytes at most, or 2 MiB where that is less.
    pub fn read(&mut self, budget: u64, take: impl FnMut(Record)) -> Taken {
        if self.state.is_over() {
            return Taken::default();
        }
        match self.try_read(budget.max(LEAST_BUDGET), take) {
            Ok(taken) => taken,
            Err(error) => {
                self.state = FileState::Unreadable(error.to_string());
                Taken::default()
            }
        }
    }

    fn try_read(&mut self, budget: u64, mut take: impl FnMut(Record)) -> io::Result<Taken> {
        let at_path = fs::metadata(&self.path);
        let file = match &mut self.file {
            Some(file) => file,
            None => match files::open(&self.path) {
                Ok(file) => {
                    let found = file.metadata()?;
                    self.identity = (found.dev(), found.ino());
                    self.file.insert(file)
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.state = FileState::Removed;
                    return Ok(Taken::default());
                }
                Err(error) => return Err(error),
            },
        };
        let length = file.metadata()?.len();
        if length < self.at {
            self.state = FileState::Cut;
            return Ok(Taken::default());
        }
        let there = length - self.at;
        let wanted = there.min(budget);
        let mut taken = Taken::default();
        if wanted > 0 {
            file.seek(SeekFrom::Start(self.at))?;
            let header = if self.at == 0 { Vec::new() } else { header()? };
            let before = header.len() as u64;
            let mut counted =
                Counted { input: header.as_slice().chain(file.take(wanted)), bytes: 0 };
            match Reader::named(&mut counted, self.path.clone()) {
                Ok(mut reader) => {
                    for record in reader.by_ref() {
                        match record {
                            Ok(record) => {
                                self.ended |= matches!(record, Record::End { .. });
                                take(record);
                            }
                            Err(ReadError::Io { source, .. }) => return Err(source),
                            Err(error) => return Err(io::Error::other(error.to_string())),
                        }
                    }
                    self.state = FileState::Growing;
                    let (end, skipped) = (reader.end(), reader.skipped());
                    drop(reader);
                    taken.corrupt_frames = skipped.corrupt_frames;
                    let to = match end {
                        Ending::Torn { at_byte, .. } => at_byte,
                        Ending::Complete | Ending::Open => counted.bytes,
                    };
                    taken.bytes = to.saturating_sub(before);
                    // A frame that does not begin as one, or whose end is none: not merely unfinished.
                    let damaged = matches!(end, Ending::Torn { .. }) && skipped.corrupt_frames > 0;
                    self.stuck = if damaged && taken.bytes == 0 { self.stuck + 1 } else { 0 };
                    if damaged {
                        taken.corrupt_frames -= 1;
                    }
                }
                // It may be in the making.
                Err(ReadError::HeaderCut { .. }) => {}
                Err(ReadError::Io { source, .. }) => return Err(source),
                Err(error) => return Err(io::Error::other(error.to_string())),
            }
        }
        self.at += taken.bytes;
        taken.behind = length - self.at;
        if self.stuck >= PATIENCE {
            self.state = FileState::Damaged(self.at);
        } else if wanted == there {
            self.conclude(at_path);
        }
        Ok(taken)
    }

    /// All that is there was read: is there more to come?
    fn conclude(&mut self, at_path: io::Result<fs::Metadata>) {
        if self.ended {
            self.state = FileState::Ended;
            return;
        }
        match at_path {
            Ok(found) if (found.dev(), found.ino()) != self.identity => {
                self.state = FileState::Replaced
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.state = FileState::Removed
            }
            _ => {}
        }
    }
}

/// A file header, for a reader that begins in the middle.
fn header() -> io::Result<Vec<u8>> {
    let mut header = Vec::new();
    Writer::new(&mut header)?;
    Ok(header)
}

struct Counted<R> {
    input: R,
    bytes: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.bytes += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
