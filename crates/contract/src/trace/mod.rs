//! The trace file, which the collector appends to and the launcher reads. Identifiers and the
//! option `--spool` call it a spool.
//!
//! A trace file describes what one process did. It is a sequence of [`Record`]s, in the order in which the
//! collector learned of them. [`Writer`] turns records into a file, [`Reader`] turns any file into records or a
//! clear error. Its name is [`HOST-PID.s2t`](fn@file_name), or one for each [piece](pieces).
//!
//! # The file, byte by byte
//!
//! A header, then frames up to the end of the file. All integers of fixed width are
//! little-endian. CRC32 is the checksum of zlib and PNG.
//!
//! ## File header
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | magic: `89 53 32 54 0D 0A 1A 0A` |
//! | 8..12 | format version, u32: 1 |
//! | 12..16 | length of the whole header in bytes, u32: 20; at most 65,536 |
//! | 16..20 | CRC32 of bytes 0..16 and of bytes 20.. of the header |
//! | 20.. | nothing yet; a reader steps over what it does not know |
//!
//! These 20 bytes mean the same in every version. The version grows only when older readers
//! would misread the file; what they can step over (a longer header, a new kind of frame, a new
//! kind of record, a new field at the end of a record) comes without a new version.
//!
//! ## Frame
//!
//! | bytes | what |
//! |---|---|
//! | 0..2 | marker: `53 32` |
//! | 2..4 | kind, u16: 1 for records; a reader steps over other kinds |
//! | 4..8 | length of the payload in bytes, u32; at most 1,048,576 |
//! | 8..12 | CRC32 of bytes 0..8 and of the payload |
//! | 12.. | payload |
//!
//! A frame that was cut ends the file. One whose checksum is wrong is left out if another frame,
//! or the end of the file, follows where its length says, and ends the file otherwise.
//!
//! ## Records
//!
//! The payload of a frame of kind 1 is a block: records back to back, each beginning with a tag
//! byte. The writer closes a block at about 64 KiB and whenever it flushes. No block needs
//! another one to be decoded.
//!
//! - `v`: a LEB128 varint, 7 bits a byte, low bits first, the high bit set on all bytes but the
//!   last; at most 10 bytes, 64 bits. A field that holds 32 bits must not hold more.
//! - `z`: a signed integer as a varint, zigzagged: 0, -1, 1, -2 as 0, 1, 2, 3.
//! - `step(x)`: how far a value lies from `x`, modulo 2^64, as `z`.
//! - `s`: a string, its length in bytes as `v` and then the bytes.
//!
//! ### Compact records, tags below 0x40
//!
//! They are told against earlier records *of the block* and have no length: a reader that meets
//! an unknown one cannot go on in this block. At the start of a block all that they refer to is 0.
//!
//! | tag | record | fields |
//! |---|---|---|
//! | `0x10` + flags | kernel | work, shape `v` |
//! | `0x20` + flags | copy | work, bytes `v`, direction as one byte |
//! | `0x30` + flags | fill | work, bytes `v` |
//! | `0x01` | range closed | range `step(range)`, end `step(time)` |
//! | `0x04` + flags | range opened | range `step(range)`, start `step(time)`, path `v`, thread `v`, [parent `step(this range)`], \[options\] |
//!
//! Here `range` and `time` are those of the range opening or closing before.
//!
//! *work* is, with square brackets around what a flag announces: start `step(end)`, duration `v`
//! (end less start, modulo 2^64), correlation `step(correlation)`, [queue `v`],
//! [range `step(range)`], [graph node `step(graph node)`]. The flags in the tag:
//!
//! | bits | value | meaning |
//! |---|---|---|
//! | 3 | 1 | a queue follows; else it is that of the work before |
//! | 2-1 | 0 | the range is that of the work before |
//! | | 1 | a range follows, as a step from the last range that was told so |
//! | | 2 | [`RANGE_OUTSIDE`] |
//! | | 3 | [`RANGE_UNKNOWN`] |
//! | 0 | 1 | a graph node follows, as a step from the last one that was told; else it is 0 |
//!
//! Flags of a range opening: bit 0, a parent follows (else it is [`RANGE_OUTSIDE`]); bit 1,
//! options follow: one byte, then [category `v`], \[payload\], [continues `step(this range)`].
//! Bits of that byte: 0, a start/end range; 1, a category follows; 3-2, the type of the payload
//! (0 none, 1 unsigned as `v`, 2 signed as `z`, 3 floating-point as 8 bytes IEEE 754); 4,
//! continues follows; the others are 0.
//!
//! ### Records with a length, tags from 0x40 on
//!
//! The tag, the length of what follows in bytes as `v`, and the fields. A reader steps over an
//! unknown tag, and over bytes behind the last field that it knows; a field that is added later
//! stands at the end and may be absent. Fields in the order of the types, numbers as `v`, except:
//!
//! | tag | record | |
//! |---|---|---|
//! | `0x40` | [`Process`] | the arguments: their number `v`, then each `s` |
//! | `0x41` | [`Record::Meta`] | |
//! | `0x42` | [`Anchor`] | |
//! | `0x43` | [`Record::Name`] | |
//! | `0x44` | [`Record::Thread`] | |
//! | `0x45` | [`Device`] | the UUID: 16 bytes |
//! | `0x46` | [`Queue`] | |
//! | `0x47` | [`Shape`] | |
//! | `0x48` | [`Path`] | |
//! | `0x49` | [`Mark`] | the payload: its type as one byte (`0x00`, `0x04`, `0x08`, `0x0C` for 0 to 3 above), then its value |
//! | `0x4A` | [`What::Graph`] | start, duration (end less start), queue, range plus 1 (all modulo 2^64), correlation, graph |
//! | `0x4B` | [`Record::GraphNode`] | the range may be absent: 0 |
//! | `0x4C` | [`Losses`] | |
//! | `0x4D` | [`Record::End`] | |
//! | `0x4E` | [`Record::RangeSample`] | recorded: 1, else 0; a reader that steps over it shows a sample unscaled, and no work where none was recorded |
//! | `0x4F` | [`Record::RangeFields`] | the fields: their number `v`, then each as its length in bytes `v`, name `v`, type as one byte, value. Types: those of a mark's payload, and `0x10` for a name `v`; a reader steps over a field of another type, and over bytes behind the value |
//! | `0x50` | [`CounterSet`] | the metrics: their number `v`, then each `s` |
//! | `0x51` | [`CounterSamples`] | as `0x53`, with a table of coarse values: written until 2026-11-23 |
//! | `0x52` | [`DeviceState`] | what may be unknown as one more than it is; 0: not known; older files lack the memory in use |
//! | `0x53` | [`CounterSamples`] | set, number of samples, number of metrics, length of the table in bytes, the table as a raw DEFLATE stream `s` |
//! | `0x54` | [`HostFrame`] | |
//! | `0x55` | [`HostStack`] | |
//! | `0x56` | [`Record::HostSamples`] | below |
//! | `0x57` | [`HostSampling`] | |
//! | `0x58` | [`HostThread`] | launches: 1, else 0 |
//! | `0x59` | [`Record::HostCalls`] | below |
//!
//! Samples of `0x56`: their number `v`, then each as one byte, thread `v`, stack `step(stack)`, \[time
//! `step(time)`\], \[interval `step(interval)`\], \[holder `v`\]. Stack, time and interval are differences from
//! the previous sample; those of the first sample are differences from 0. Bits of the byte: 3-0, the [`HostState`] (a reader takes one that it does not
//! know for 0); 4, it holds the GIL; 5, a holder follows (else it is [`NONE`]); 6, the interval is that of the
//! sample before; 7, the time is that of the sample before.
//!
//! Calls of `0x59`: their number `v`, then each as name `v`, thread `v`, begin `step(end)`, duration `v` (end less
//! begin, modulo 2^64), stack `step(stack)`. Here `end` and `stack` are those of the call before, and 0 at first.
//!
//! The table of `0x53`, with the number of samples as n: for each sample, how far its start lies
//! from the end of the sample before (0 at first) as `step`; for each, how far its length lies from
//! that of the sample before (0 at first) as `step`; then for each metric its largest value as 8
//! bytes IEEE 754 (never negative, never NaN), n bytes, and n times 4 bits, of which the first are the
//! lower ones of a byte. With b as the byte and f as the 4 bits of a value: b 255 is a value that is not
//! known, b and f 0 the value 0, and all others the largest value times 2^((16 b + f - 4079) / 256). In
//! `0x51` there are no 4 bits: b 0 is the value 0, b 255 not known, others the largest value times
//! 2^((b - 254) / 16).
//!
//! # Pieces
//!
//! A collector may cut what one file would hold into several, each a whole file of this format: see [`pieces`].
//! A piece begins with [`Process`] and facts, among them [`pieces::PIECE`] (its number, from 1),
//! [`pieces::TRACE_BEGUN`] (the same in all) and [`pieces::ROTATE`]; then threads and a clock reading; then, for
//! each range that is open, what defines it and an opening that *continues itself* (the range and what it
//! continues are the same number, the start is that of the piece); then [`pieces::OPEN_BEFORE`], their
//! number. Where that may be lost, the collector says the facts again, with [`pieces::UNKNOWN`] for the number.
//! Behind it, an opening that continues itself, with its closing, stands for a range that closed in
//! an earlier piece and of which work came late. Numbers of names, paths, shapes, queues, ranges, threads and
//! host stacks mean the same in all pieces, and each piece defines those that it uses. Losses count from the beginning
//! of the piece. A piece that another one follows ends with the reason [`pieces::CONTINUED`].
//!
//! # Example
//!
//! ```
//! use stage2_contract::trace::{Ending, GpuNs, GpuWork, Reader, Record, What, Writer};
//!
//! let mut file = Vec::new();
//! let mut writer = Writer::new(&mut file)?;
//! let kernel = GpuWork::new(What::Kernel { shape: 1 });
//! let kernel = GpuWork { start: GpuNs(1_000), end: GpuNs(3_000), ..kernel };
//! writer.work(&kernel);
//! writer.write(&Record::End { reason: "exit".into() });
//! writer.flush()?;
//!
//! let mut reader = Reader::new(file.as_slice())?;
//! assert_eq!(reader.next().transpose()?, Some(Record::Work(kernel)));
//! assert_eq!(reader.by_ref().count(), 1);
//! assert_eq!(reader.end(), Ending::Complete);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod block;
pub mod counters;
pub mod ending;
pub mod frame;
pub mod host;
pub mod pieces;
mod read;
mod record;
mod samples;
pub mod varint;
pub mod window;
mod wire;
mod write;

pub use frame::FORMAT_VERSION;
pub use host::{HostCall, HostFrame, HostSample, HostSampling, HostStack, HostState, HostThread};
pub use read::{Ending, ReadError, Reader, Skipped};
pub use record::*;
pub use write::{MAX_RECORD_BYTES, Writer};

/// Bytes of a host name that go into a file name: well under the 255 that file systems allow.
const HOST_LIMIT: usize = 200;

/// Name of the trace file of process `pid` on `host`: `HOST-PID.s2t`.
///
/// What is not an ASCII letter, digit, `.`, `-` or `_` becomes `_`, and so does a leading `.` or
/// `-` (neither a hidden file nor an option); a long host name is cut; none at all becomes `host`.
pub fn file_name(host: &str, pid: u32) -> String {
    let mut name: String = host.chars().take(HOST_LIMIT).map(harmless).collect();
    if name.starts_with(['.', '-']) {
        name.replace_range(..1, "_");
    }
    if name.is_empty() {
        name.push_str("host");
    }
    format!("{name}-{pid}.s2t")
}

fn harmless(c: char) -> char {
    if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '_' }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_hosts_stay_and_none_escapes_the_folder() {
        assert_eq!(file_name("node-07.example_x", 4321), "node-07.example_x-4321.s2t");
        assert_eq!(file_name("../../etc/passwd", 1), "_._.._etc_passwd-1.s2t");
        assert_eq!(file_name("-rf\n\0é", 2), "_rf___-2.s2t");
        assert_eq!(file_name("", 3), "host-3.s2t");
        assert_eq!(file_name(&"ü".repeat(5000), 4), format!("{}-4.s2t", "_".repeat(200)));
    }
}
