//! The offsets of the fields of CPython from which a stack is read: from tables (3.10 to 3.12), or from the
//! debug offsets that the interpreter itself publishes (3.13 and later).

use crate::base::call_stacks::FrameLayout;

/// A build whose memory can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// `MINOR` of `3.MINOR`.
    pub(super) minor: u32,
    pub(super) runtime: Runtime,
    pub(super) interpreter: Interpreter,
    pub(super) gil: Gil,
    pub(super) thread: Thread,
    pub(super) frame: Frame,
    pub(super) code: Code,
    /// Size of the header of an ASCII string, and of any other string, bytes.
    pub(super) text: [u64; 2],
}

// The fields below are offsets in bytes, unless they say otherwise.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Runtime {
    /// The first interpreter.
    pub(super) head: u64,
    /// Not null once the interpreter is finalizing.
    pub(super) finalizing: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interpreter {
    pub(super) next: u64,
    /// The first thread.
    pub(super) threads: u64,
    /// Pointer to the GIL; `None`: the GIL is in the runtime itself.
    pub(super) gil: Option<u64>,
    /// A counter that changes when a code object is freed (3.14 and later).
    pub(super) code_generation: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gil {
    /// The thread that holds it, or held it last.
    pub(super) holder: u64,
    pub(super) locked: u64,
    /// Size of the GIL, bytes; its futexes are within it.
    pub(super) bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Thread {
    pub(super) next: u64,
    pub(super) interpreter: u64,
    /// The innermost frame, or a pointer to the structure that holds it.
    pub(super) frame: u64,
    /// The innermost frame within that structure (3.11 and 3.12).
    pub(super) behind: Option<u64>,
    pub(super) pthread: u64,
    /// The thread ID of the kernel; `None`: only the C library has it (3.10).
    pub(super) tid: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) previous: u64,
    pub(super) code: u64,
    pub(super) instruction: u64,
    /// `None`: every frame is a Python frame.
    pub(super) owner: Option<u64>,
    /// Bytes up to the end of the last of these fields.
    pub(super) bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Code {
    pub(super) first_line: u64,
    /// The qualified name; in 3.10, which has none, the plain name.
    pub(super) name: u64,
    pub(super) file: u64,
    pub(super) lines: u64,
    /// The first instruction; `None`: frames hold an index instead of a pointer (3.10).
    pub(super) instructions: Option<u64>,
}

impl Thread {
    /// Bytes up to the end of the last field that is read.
    pub(super) fn bytes(&self) -> u64 {
        let ends = [self.next, self.interpreter, self.frame, self.pthread, self.tid.unwrap_or(0)];
        ends.into_iter().max().unwrap_or(0) + 8
    }
}

impl Code {
    pub(super) fn bytes(&self) -> u64 {
        let ends = [self.first_line, self.name, self.file, self.lines];
        ends.into_iter().max().unwrap_or(0) + 8
    }
}

/// The first owner of frames that are none of Python.
const ENTRY: u8 = 3;
/// Bytes of the longest head of a code object, a thread's state and a frame that are read: no build comes near.
pub(super) const LONGEST: u64 = 1024;
/// The fields of an interpreter state must lie within this many bytes.
const INTERPRETER_BYTES: u64 = 1 << 22;

const PYTHON_3_10: Layout = Layout {
    minor: 10,
    runtime: Runtime { head: 32, finalizing: 16 },
    interpreter: Interpreter { next: 0, threads: 8, gil: None, code_generation: None },
    gil: Gil { holder: 360, locked: 368, bytes: 1024 },
    thread: Thread { next: 8, interpreter: 16, frame: 24, behind: None, pthread: 176, tid: None },
    frame: Frame { previous: 24, code: 32, instruction: 96, owner: None, bytes: 112 },
    code: Code { first_line: 40, name: 112, file: 104, lines: 120, instructions: None },
    text: [48, 72],
};

const PYTHON_3_11: Layout = Layout {
    minor: 11,
    runtime: Runtime { head: 40, finalizing: 24 },
    interpreter: Interpreter { next: 0, threads: 16, gil: None, code_generation: None },
    gil: Gil { holder: 368, locked: 376, bytes: 1024 },
    thread: Thread {
        next: 8,
        interpreter: 16,
        frame: 56,
        behind: Some(8),
        pthread: 152,
        tid: Some(160),
    },
    frame: Frame { previous: 48, code: 32, instruction: 56, owner: None, bytes: 72 },
    code: Code { first_line: 72, name: 128, file: 112, lines: 136, instructions: Some(184) },
    text: [48, 72],
};

const PYTHON_3_12: Layout = Layout {
    minor: 12,
    runtime: Runtime { head: 40, finalizing: 24 },
    interpreter: Interpreter { next: 0, threads: 72, gil: Some(384), code_generation: None },
    gil: Gil { holder: 8, locked: 16, bytes: 200 },
    thread: Thread {
        next: 8,
        interpreter: 16,
        frame: 56,
        behind: Some(0),
        pthread: 136,
        tid: Some(144),
    },
    frame: Frame { previous: 8, code: 0, instruction: 56, owner: Some(70), bytes: 72 },
    code: Code { first_line: 68, name: 128, file: 112, lines: 136, instructions: Some(192) },
    text: [40, 56],
};

/// The first eight bytes of the runtime of 3.13 and later.
const COOKIE: [u8; 8] = *b"xdebugpy";
/// Words (8 bytes) at the beginning of the runtime that [`Layout::find`] reads.
pub(super) const TOLD: usize = 64;

/// Why the stacks of an interpreter are not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error(
        "the collector cannot read the stacks of Python {0}, only those of CPython 3.10 to 3.15; it samples \
         thread states without stacks"
    )]
    Version(String),
    #[error(
        "the collector cannot read the stacks of a free-threaded build of Python (3.{0}t); use a build with \
         the GIL, or accept samples without stacks"
    )]
    FreeThreaded(u32),
    #[error(
        "Python 3.{0} publishes an impossible memory layout; the collector samples thread states without \
         stacks"
    )]
    Nonsense(u32),
}

impl Layout {
    /// Returns the layout of a build. `told` holds the first words of its runtime. `version`
    /// (`PY_VERSION_HEX`) is used if the runtime does not publish its own.
    pub(super) fn find(told: &[u64; TOLD], version: u32) -> Result<Self, Refusal> {
        if told[0] == u64::from_le_bytes(COOKIE) {
            return Self::of_told(told);
        }
        match version >> 16 {
            0x30a => Ok(PYTHON_3_10),
            0x30b => Ok(PYTHON_3_11),
            0x30c => Ok(PYTHON_3_12),
            _ => Err(Refusal::Version(words(version))),
        }
    }

    fn of_told(told: &[u64; TOLD]) -> Result<Self, Refusal> {
        let version = told[1] as u32;
        // The index at which each group of offsets begins, and the number of fields that later versions
        // inserted.
        let (threads, frames, codes, later, between) = match version >> 16 {
            0x30d => (19, 28, 34, 0, 0),
            0x30e => (22, 31, 39, 1, 0),
            0x30f => (22, 39, 47, 1, 3),
            _ => return Err(Refusal::Version(words(version))),
        };
        let minor = version >> 16 & 0xff;
        if told[2] != 0 {
            return Err(Refusal::FreeThreaded(minor));
        }
        const RUNTIME: usize = 3;
        const INTERPRETER: usize = 6;
        let interpreter = |field: usize| told[INTERPRETER + field];
        let (thread, frame, code) = (
            |field: usize| told[threads + field],
            |field: usize| told[frames + field],
            |field: usize| told[codes + field],
        );
        // The fields of the GIL are published as fields of the interpreter's own GIL, which begins there.
        let own_gil = interpreter(9 + later);
        let layout = Layout {
            minor,
            runtime: Runtime { finalizing: told[RUNTIME + 1], head: told[RUNTIME + 2] },
            interpreter: Interpreter {
                next: interpreter(2),
                threads: interpreter(3),
                gil: Some(interpreter(8 + later)),
                code_generation: (later > 0).then(|| interpreter(14)),
            },
            gil: Gil {
                locked: interpreter(11 + later).wrapping_sub(own_gil),
                holder: interpreter(12 + later).wrapping_sub(own_gil),
                bytes: 200,
            },
            thread: Thread {
                next: thread(2),
                interpreter: thread(3),
                frame: thread(4),
                behind: None,
                pthread: thread(5 + between),
                tid: Some(thread(6 + between)),
            },
            frame: Frame {
                previous: frame(1),
                code: frame(2),
                instruction: frame(3),
                owner: Some(frame(5)),
                bytes: [1, 2, 3, 5].map(frame).into_iter().max().unwrap_or(0).saturating_add(8),
            },
            code: Code {
                file: code(1),
                name: code(3),
                lines: code(4),
                first_line: code(5),
                instructions: Some(code(9)),
            },
            text: [40, 56],
        };
        if layout.is_possible() { Ok(layout) } else { Err(Refusal::Nonsense(minor)) }
    }

    /// Whether the offset of each field is plausible for its object.
    fn is_possible(&self) -> bool {
        let Layout { runtime, interpreter, gil, thread, frame, code, .. } = self;
        let small = [
            gil.locked,
            gil.holder,
            thread.next,
            thread.interpreter,
            thread.frame,
            thread.pthread,
            thread.tid.unwrap_or(0),
            frame.bytes - 8,
            code.first_line,
            code.name,
            code.file,
            code.lines,
            code.instructions.unwrap_or(0),
        ];
        let large = [
            runtime.head,
            runtime.finalizing,
            interpreter.next,
            interpreter.threads,
            interpreter.gil.unwrap_or(0),
            interpreter.code_generation.unwrap_or(0),
        ];
        small.iter().all(|offset| *offset < LONGEST - 8)
            && large.iter().all(|offset| *offset < INTERPRETER_BYTES)
    }

    /// Whether a frame is a Python frame. The interpreter inserts other frames between them.
    pub(super) fn is_python_frame(&self, owner: u8) -> bool {
        self.frame.owner.is_none() || owner < ENTRY
    }

    /// What a thread needs that reads its own frames.
    pub(super) fn of_frames(&self) -> FrameLayout {
        let Layout { thread, frame, .. } = *self;
        FrameLayout {
            innermost: thread.frame,
            behind: thread.behind,
            pthread: thread.pthread,
            previous: frame.previous,
            code: frame.code,
            instruction: frame.instruction,
            owner: frame.owner,
            no_owner: ENTRY,
            bytes: frame.bytes,
        }
    }
}

/// Formats `PY_VERSION_HEX` as `3.12`.
fn words(version: u32) -> String {
    format!("{}.{}", version >> 24, version >> 16 & 0xff)
}

/// Returns the line of an instruction, from 1; 0 if it has none, or if the table ends before it. `offset` is
/// in bytes from the first instruction.
pub(crate) fn line(minor: u32, table: &[u8], first_line: u32, offset: i32) -> u32 {
    // A frame that points before its first instruction has not started to run.
    let offset = u64::try_from(offset).unwrap_or(0);
    let found = match minor {
        ..=10 => line_of_pairs(table, first_line.into(), offset),
        _ => line_of_locations(table, first_line.into(), offset),
    };
    found.and_then(|line| u32::try_from(line).ok()).unwrap_or(0)
}

/// Reads the table of 3.10: pairs of a number of bytes and a change of the line.
fn line_of_pairs(table: &[u8], first_line: i64, offset: u64) -> Option<i64> {
    const NO_LINE: i8 = -128;
    let (mut line, mut end) = (first_line, 0);
    for pair in table.chunks_exact(2) {
        let step = pair[1] as i8;
        end += u64::from(pair[0]);
        line += if step == NO_LINE { 0 } else { i64::from(step) };
        if offset < end {
            return (step != NO_LINE).then_some(line);
        }
    }
    None
}

/// Reads the table of 3.11 and later: entries that begin with a byte whose highest bit is set.
fn line_of_locations(table: &[u8], first_line: i64, offset: u64) -> Option<i64> {
    let (mut line, mut end, mut at) = (first_line, 0, 0);
    while let Some(&head) = table.get(at) {
        at += 1;
        let kind = head >> 3 & 15;
        line = line.saturating_add(match kind {
            10..=12 => i64::from(kind) - 10,
            13 | 14 => signed(table.get(at..).unwrap_or_default()),
            _ => 0,
        });
        // In units of two bytes.
        end += (u64::from(head & 7) + 1) * 2;
        if offset < end {
            return (kind != 15).then_some(line);
        }
        while table.get(at).is_some_and(|byte| byte & 0x80 == 0) {
            at += 1;
        }
    }
    None
}

/// Reads a signed number of 6 bits per byte, lowest first. Bit 6 of a byte says that another byte follows.
fn signed(bytes: &[u8]) -> i64 {
    let (mut value, mut shift) = (0_u64, 0);
    for byte in bytes.iter().take(10) {
        value |= u64::from(byte & 63) << shift;
        shift += 6;
        if byte & 64 == 0 {
            break;
        }
    }
    let size = (value >> 1) as i64;
    if value & 1 == 0 { size } else { -size }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The groups of offsets of 3.13.0.
    fn told_by_3_13() -> [u64; TOLD] {
        let mut told = [0; TOLD];
        let mut put =
            |at: usize, numbers: &[u64]| told[at..at + numbers.len()].copy_from_slice(numbers);
        put(0, &[u64::from_le_bytes(COOKIE), 0x030d_00f0, 0, 283_320, 608, 632]);
        put(6, &[194_968, 7272, 7264, 7344, 0, 0, 0, 0, 16, 7752, 0, 7768, 7760]);
        put(19, &[304, 0, 8, 16, 72, 152, 160, 0, 0]);
        put(28, &[80, 8, 0, 56, 72, 70]);
        put(34, &[208, 112, 120, 128, 136, 68, 0, 0, 0, 200]);
        told
    }

    #[test]
    fn what_the_runtime_tells_is_read_where_its_version_has_it() {
        let layout = Layout::find(&told_by_3_13(), 0).expect("a layout");
        assert_eq!((layout.runtime.head, layout.runtime.finalizing), (632, 608));
        assert_eq!((layout.interpreter.next, layout.interpreter.threads), (7264, 7344));
        assert_eq!((layout.gil.holder, layout.gil.locked), (8, 16));
        assert_eq!((layout.thread.frame, layout.thread.tid), (72, Some(160)));
        let Frame { previous, code, instruction, owner, bytes } = layout.frame;
        assert_eq!((previous, code, instruction, owner, bytes), (8, 0, 56, Some(70), 78));
        assert_eq!((layout.code.name, layout.code.instructions), (128, Some(200)));
        assert_eq!((layout.thread.bytes(), layout.code.bytes()), (168, 144));
    }

    /// The groups of offsets of 3.14.10 and 3.15.2.
    #[test]
    fn later_versions_have_put_fields_between_others() {
        let told = |version: u64,
                    runtime: [u64; 2],
                    interpreter: [u64; 3],
                    gil: u64,
                    [threads, frames, codes]: [usize; 3]| {
            let mut told = [0; TOLD];
            let mut put = |at: usize, numbers: &[u64]| {
                told[at..at + numbers.len()].copy_from_slice(numbers);
            };
            let [next, id, head] = interpreter;
            put(0, &[u64::from_le_bytes(COOKIE), version, 0, 316_616, runtime[0], runtime[1]]);
            put(
                6,
                &[225_864, id, next, head, 0, 0, 0, 0, 0, 16, gil, 0, gil + 16, gil + 8, 7_000, 0],
            );
            match version >> 16 {
                0x30e => put(threads, &[832, 0, 8, 16, 72, 152, 160, 0, 0]),
                _ => put(threads, &[888, 0, 8, 16, 72, 80, 88, 96, 176, 184]),
            }
            put(frames, &[88, 8, 0, 56, 80, 74, 64, 72]);
            put(codes, &[216, 112, 120, 128, 136, 68, 0, 0, 0, 208, 200]);
            Layout::find(&told, 0).expect("a layout")
        };
        let of_3_14 = told(0x030e_0af0, [784, 808], [7272, 7280, 7344], 7784, [22, 31, 39]);
        let of_3_15 = told(0x030f_02f0, [912, 936], [7264, 7272, 7336], 7736, [22, 39, 47]);
        for (layout, minor, head, tid) in [(of_3_14, 14, 808, 160), (of_3_15, 15, 936, 184)] {
            assert_eq!((layout.minor, layout.runtime.head), (minor, head));
            assert_eq!(
                (layout.interpreter.gil, layout.interpreter.code_generation),
                (Some(16), Some(7_000))
            );
            assert_eq!((layout.gil.holder, layout.gil.locked), (8, 16));
            assert_eq!((layout.thread.frame, layout.thread.tid), (72, Some(tid)));
            assert_eq!((layout.frame.owner, layout.frame.instruction), (Some(74), 56));
            assert_eq!((layout.code.name, layout.code.instructions), (128, Some(208)));
            // 3.14 has a second kind of frame that is not a Python frame.
            assert!(
                layout.is_python_frame(2)
                    && !layout.is_python_frame(3)
                    && !layout.is_python_frame(4)
            );
        }
    }

    #[test]
    fn versions_that_are_not_known_and_builds_without_the_gil_are_refused() {
        let with = |at: usize, number| {
            let mut told = told_by_3_13();
            told[at] = number;
            Layout::find(&told, 0x030c_0000)
        };
        assert_eq!(with(2, 1), Err(Refusal::FreeThreaded(13)));
        assert_eq!(with(1, 0x0310_00f0), Err(Refusal::Version("3.16".into())));
        assert_eq!(with(1, 0x030c_00f0), Err(Refusal::Version("3.12".into())), "has no offsets");
        assert_eq!(with(23, 1 << 40), Err(Refusal::Nonsense(13)), "a frame beyond every thread");
        assert_eq!(with(28 + 5, u64::MAX), Err(Refusal::Nonsense(13)));
        let none = [0; TOLD];
        assert_eq!(Layout::find(&none, 0x0309_00f0), Err(Refusal::Version("3.9".into())));
        for (version, minor) in [(0x030a_0df0, 10), (0x030b_07f0, 11), (0x030c_01f0, 12)] {
            assert_eq!(Layout::find(&none, version).map(|layout| layout.minor), Ok(minor));
        }
    }

    #[test]
    fn lines_of_3_10_are_pairs() {
        // `co_linetable` of a function of CPython 3.10: lines 2, 3, 4, 3 and 5, and instructions without a
        // line.
        let table = [4, 1, 8, 1, 12, 1, 2, 0xff, 4, 2, 6, 0x80];
        let line = |offset| super::line(10, &table, 1, offset);
        assert_eq!([line(-2), line(0), line(3), line(4), line(11)], [2, 2, 2, 3, 3]);
        assert_eq!([line(12), line(24), line(26), line(30), line(36)], [4, 3, 5, 0, 0]);
    }

    #[test]
    fn lines_of_3_11_are_locations() {
        // RESUME on line 7 (long form, step 0), then one unit on line +1, two units one line later, three
        // without a line, and a long form that steps back by 70 lines.
        let table = [
            0xf0, 0x00, 0x00, 0x00, 0x00, 0xd8, 0x08, 0x09, 0xd9, 0x04, 0x05, 0xfa, 0xe8, 0x4d,
            0x02,
        ];
        let line = |offset| super::line(12, &table, 7, offset);
        assert_eq!([line(-5), line(0), line(1)], [7, 7, 7]);
        assert_eq!([line(2), line(4), line(6)], [8, 9, 9]);
        assert_eq!([line(8), line(13)], [0, 0], "no line");
        assert_eq!([line(14), line(16)], [0, 0], "before the file, and past the table");
        assert_eq!(super::line(12, &table, 100, 14), 100 + 2 - 70);
    }

    #[test]
    fn any_bytes_are_a_table() {
        let mut bytes = Vec::new();
        for seed in 0..2_000_u32 {
            bytes.push((seed.wrapping_mul(2_654_435_761) >> 13) as u8);
            for minor in [10, 12] {
                line(minor, &bytes, u32::MAX, seed as i32 * 3);
                line(minor, &bytes, 0, i32::MAX);
            }
        }
        assert_eq!(line(12, &[0x80; 8], 5, i32::MAX), 0);
    }
}
