//! Records to a trace file: blocks are filled, sealed and handed to the sink whole.

use std::io::{self, Write};

use crate::trace::block::{Delta, put_record, put_work};
use crate::trace::frame::{FRAME_HEADER_BYTES, MAX_PAYLOAD_BYTES, file_header, seal};
use crate::trace::record::{GpuWork, Record, What};

/// Bytes at which a block is closed and written.
const BLOCK_BYTES: usize = 64 * 1024;
/// A block has room for one compact record more than [`BLOCK_BYTES`].
const BLOCK_ROOM: usize = BLOCK_BYTES + 256;
/// Bytes of the largest record that is written. A larger one (a name or a command line of nearly
/// a megabyte) is left out, counted in [`Writer::unwritten_bytes`] and reported by
/// [`Writer::flush`].
pub const MAX_RECORD_BYTES: usize = MAX_PAYLOAD_BYTES - BLOCK_ROOM;

/// Writes one trace file.
///
/// Adding a record never fails and never blocks on anything but the sink, which gets a frame of
/// about 64 KiB whenever a block is full, and what there is at every [`flush`](Self::flush).
/// Nothing is written on drop.
///
/// When the sink fails (a full disk, for instance), the writer goes on:
/// - A frame of which the sink took nothing is dropped and counted.
/// - Of a frame of which the sink took a part, the rest is kept and goes out before anything
///   else, as soon as the sink takes bytes again. Until then the frames after it are dropped and
///   counted. So the trace file has a torn tail for as long as the sink fails, and is whole again
///   afterwards, except for the frames that were dropped; memory stays bounded.
///
/// Definitions (names, shapes, ...) in a dropped frame are lost with it. A writer that wants to
/// be understood after a failure defines again what it goes on using.
#[derive(Debug)]
pub struct Writer<W> {
    sink: W,
    /// The open block, behind room for its frame header.
    block: Vec<u8>,
    delta: Delta,
    /// Where a record whose length goes before it is built.
    scratch: Vec<u8>,
    /// A frame of which the sink has taken the first `owed_at` bytes.
    owed: Vec<u8>,
    owed_at: usize,
    dropped_bytes: u64,
    dropped_frames: u64,
    /// The first error since the last flush.
    error: Option<io::Error>,
}

impl<W: Write> Writer<W> {
    /// Begins a trace file: writes the file header to `sink`. Of a file, give the file itself: the
    /// writer does its own buffering.
    ///
    /// # Errors
    /// What the sink says. No trace file can be written to it then.
    pub fn new(mut sink: W) -> io::Result<Self> {
        sink.write_all(&file_header())?;
        let mut block = Vec::with_capacity(FRAME_HEADER_BYTES + BLOCK_ROOM);
        block.resize(FRAME_HEADER_BYTES, 0);
        Ok(Self {
            sink,
            block,
            delta: Delta::default(),
            scratch: Vec::with_capacity(1024),
            owed: Vec::with_capacity(FRAME_HEADER_BYTES + BLOCK_ROOM),
            owed_at: 0,
            dropped_bytes: 0,
            dropped_frames: 0,
            error: None,
        })
    }

    /// Adds a record.
    pub fn write(&mut self, record: &Record) {
        let before = self.block.len();
        put_record(&mut self.block, &mut self.delta, &mut self.scratch, record);
        let length = self.block.len() - before;
        if length > MAX_RECORD_BYTES {
            // So long are only records with a length, which nothing is told against.
            self.block.truncate(before);
            self.block.shrink_to(FRAME_HEADER_BYTES + BLOCK_ROOM);
            self.scratch = Vec::new();
            self.dropped_bytes += length as u64;
            self.note(too_large(length));
        }
        self.close_if_full();
    }

    /// Adds GPU work, quicker than [`write`](Self::write).
    #[inline]
    pub fn work(&mut self, work: &GpuWork) {
        if let What::Graph { .. } = work.what {
            return self.write(&Record::Work(*work));
        }
        put_work(&mut self.block, &mut self.delta, work);
        self.close_if_full();
    }

    /// Writes everything out, as a frame that may be short, and flushes the sink.
    ///
    /// # Errors
    /// The first that the sink has given since the last flush, or `InvalidInput` for a record
    /// that was larger than [`MAX_RECORD_BYTES`]. The writer can be used on.
    pub fn flush(&mut self) -> io::Result<()> {
        self.close_block();
        if let Err(error) = self.sink.flush() {
            self.note(error);
        }
        self.error.take().map_or(Ok(()), Err)
    }

    /// Bytes that the sink did not take, up to now: of dropped frames, of records too large, and
    /// of the frame whose rest is still to go out (these leave the count when they do).
    pub fn unwritten_bytes(&self) -> u64 {
        self.dropped_bytes + (self.owed.len() - self.owed_at) as u64
    }

    /// Frames that were dropped, with the definitions in them.
    #[inline]
    pub fn dropped_frames(&self) -> u64 {
        self.dropped_frames
    }

    /// Gives the sink back. What was not flushed is lost.
    pub fn into_sink(self) -> W {
        self.sink
    }

    #[inline]
    fn close_if_full(&mut self) {
        if self.block.len() >= BLOCK_BYTES {
            self.close_block();
        }
    }

    /// Hands the block to the sink, or drops it, and starts the next.
    #[cold]
    fn close_block(&mut self) {
        if let Err(error) = self.settle() {
            self.note(error);
        }
        if self.block.len() > FRAME_HEADER_BYTES {
            self.hand_over();
        }
        self.block.truncate(FRAME_HEADER_BYTES);
        self.delta = Delta::default();
    }

    /// Writes what is owed of an earlier frame.
    fn settle(&mut self) -> io::Result<()> {
        let (taken, result) = push(&mut self.sink, &self.owed[self.owed_at..]);
        self.owed_at += taken;
        if self.owed_at == self.owed.len() {
            self.owed.clear();
            self.owed_at = 0;
        }
        result
    }

    fn hand_over(&mut self) {
        seal(&mut self.block);
        if !self.owed.is_empty() {
            self.drop_block();
            return;
        }
        let (taken, result) = push(&mut self.sink, &self.block);
        let Err(error) = result else { return };
        self.note(error);
        if taken == 0 {
            self.drop_block();
        } else {
            self.owed.extend_from_slice(&self.block);
            self.owed_at = taken;
        }
    }

    fn drop_block(&mut self) {
        self.dropped_bytes += self.block.len() as u64;
        self.dropped_frames += 1;
    }

    fn note(&mut self, error: io::Error) {
        self.error.get_or_insert(error);
    }
}

/// Writes `bytes`, and states how many the sink took before it failed.
fn push(sink: &mut impl Write, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut rest = bytes;
    while !rest.is_empty() {
        match sink.write(rest) {
            Ok(0) => return (bytes.len() - rest.len(), Err(io::ErrorKind::WriteZero.into())),
            Ok(taken) => rest = rest.get(taken..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (bytes.len() - rest.len(), Err(error)),
        }
    }
    (bytes.len(), Ok(()))
}

fn too_large(length: usize) -> io::Error {
    let message = format!(
        "a record of {length} bytes is larger than the {MAX_RECORD_BYTES} that a spool accepts, and was \
         left out; shorten its strings"
    );
    io::Error::new(io::ErrorKind::InvalidInput, message)
}
