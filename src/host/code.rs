//! Code objects by address. Their names, files and line tables are read once, when they are first seen.

use rustc_hash::FxHashMap;

use super::layout::{LONGEST, Layout};
use super::memory::Memory;
use super::{CodeText, Interpreter, Round};

/// Code objects in the cache. One more clears the cache, and each is read again when it is next seen.
const MAX_CODES: usize = 1 << 14;
/// Bytes of all their line tables.
const MAX_TABLES: usize = 8 << 20;
/// Bytes that are kept of a line table; lines past these are unknown.
const MAX_TABLE: u64 = 64 << 10;
/// Characters that are kept of a string.
const MAX_TEXT: u64 = 400;
/// After this many rounds, a code object is read again, because another one may have taken its address.
const RECHECK: u32 = 128;

const TYPE: usize = 8;
const BYTES_SIZE: u64 = 16;
const BYTES_DATA: u64 = 32;
const TEXT_LENGTH: usize = 16;
const TEXT_STATE: usize = 32;
const TEXT_HEAD: usize = 48;

#[derive(Clone, Copy, Debug)]
struct Known {
    id: u32,
    /// The addresses of its name, file and line table, and its first line: they identify it.
    parts: [u64; 4],
    /// When these were last read: the number of the round, and the code generation.
    seen: (u32, u64),
}

#[derive(Debug, Default)]
pub(super) struct Codes {
    known: FxHashMap<u64, Known>,
    table_bytes: usize,
    last: u32,
    /// The number of the round, and the interpreter's code generation, which changes when a code object is
    /// freed.
    now: (u32, u64),
}

impl Codes {
    /// Begins a round.
    pub(super) fn begin(&mut self, generation: u64) {
        self.now = (self.now.0.wrapping_add(1), generation);
    }

    /// Clears the cache if it is full, or if the round forgets all numbers anyway. Not within a round: the frames of
    /// the round name code objects by number.
    pub(super) fn make_room(&mut self, round: &mut Round) {
        if round.forgets_codes || self.known.len() >= MAX_CODES || self.table_bytes >= MAX_TABLES {
            self.known.clear();
            self.table_bytes = 0;
            round.forgets_codes = true;
        }
    }

    /// Returns the number of the code object at this address. `None`: there is none, or another one has taken its
    /// place while it was read. `held` is the address of a frame's pointer to it, and that pointer.
    pub(super) fn find(
        &mut self,
        address: u64,
        held: Option<(u64, u64)>,
        python: (&Layout, &Interpreter),
        memory: &mut Memory,
        round: &mut Round,
    ) -> Option<u32> {
        let before = self.known.get_mut(&address);
        if let Some(known) = &before
            && known.seen.1 == self.now.1
            && self.now.0.wrapping_sub(known.seen.0) < RECHECK
        {
            return Some(known.id);
        }
        let parts = parts(address, python, memory)?;
        if let Some(known) = before.filter(|known| known.parts == parts) {
            known.seen = self.now;
            return Some(known.id);
        }
        if self.known.len() >= 2 * MAX_CODES || self.table_bytes >= 2 * MAX_TABLES {
            return None;
        }
        let [name, file, lines, first_line] = parts;
        let begin = round.bytes.len();
        let read = Self::texts([name, file, lines], python, memory, &mut round.bytes);
        // While this thread waited for a processor, the function may have returned, and another one may have taken
        // its memory. Then the frame has another code object, or this one has other parts.
        let is_same = is_held(held, memory) && self::parts(address, python, memory) == Some(parts);
        let Some([name, file, table]) = read.filter(|_| is_same) else {
            round.bytes.truncate(begin);
            return None;
        };
        self.last += 1;
        self.table_bytes += table;
        self.known.insert(address, Known { id: self.last, parts, seen: self.now });
        let first_line = first_line as u32;
        round.codes.push(CodeText { id: self.last, first_line, name, file, table });
        Some(self.last)
    }

    /// Appends a name, a file and a line table, and returns the length of each in bytes.
    fn texts(
        [name, file, lines]: [u64; 3],
        (layout, interpreter): (&Layout, &Interpreter),
        memory: &mut Memory,
        out: &mut Vec<u8>,
    ) -> Option<[usize; 3]> {
        let begin = out.len();
        put_text(name, false, (layout, interpreter), memory, out)?;
        let behind_name = out.len();
        put_text(file, true, (layout, interpreter), memory, out)?;
        let behind_file = out.len();
        let mut size = [0; 8];
        if !memory.read(lines.checked_add(BYTES_SIZE)?, &mut size) {
            return None;
        }
        let size = u64::from_le_bytes(size).min(MAX_TABLE) as usize;
        out.resize(behind_file + size, 0);
        let table = out.get_mut(behind_file..)?;
        memory.read(lines.checked_add(BYTES_DATA)?, table).then_some(())?;
        Some([behind_name - begin, behind_file - behind_name, size])
    }
}

/// The parts of the code object at this address, as it is now. `None`: there is none.
fn parts(
    address: u64,
    (layout, interpreter): (&Layout, &Interpreter),
    memory: &Memory,
) -> Option<[u64; 4]> {
    let mut head = [0; LONGEST as usize];
    let head = head.get_mut(..layout.code.bytes() as usize)?;
    if !memory.read(address, head) || number(head, TYPE)? != interpreter.code_type {
        return None;
    }
    let of = |offset: u64| number(head, offset as usize);
    let code = layout.code;
    let first_line = of(code.first_line)? as u32;
    Some([of(code.name)?, of(code.file)?, of(code.lines)?, first_line.into()])
}

/// Whether a frame still has this pointer to its code object.
fn is_held(held: Option<(u64, u64)>, memory: &Memory) -> bool {
    let mut now = [0; 8];
    held.is_none_or(|(at, pointer)| memory.read(at, &mut now) && u64::from_le_bytes(now) == pointer)
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// Appends a Python string as UTF-8. Of a long one, it keeps the beginning, or the `end`. `None`: the object
/// is not a string.
fn put_text(
    address: u64,
    end: bool,
    (layout, interpreter): (&Layout, &Interpreter),
    memory: &mut Memory,
    out: &mut Vec<u8>,
) -> Option<()> {
    let mut head = [0; TEXT_HEAD];
    if !memory.read(address, &mut head) || number(&head, TYPE)? != interpreter.text_type {
        return None;
    }
    let (length, state) = (number(&head, TEXT_LENGTH)?, number(&head, TEXT_STATE)?);
    let (width, is_compact, is_ascii) = (state >> 2 & 7, state & 0x20 != 0, state & 0x40 != 0);
    if !is_compact || ![1, 2, 4].contains(&width) {
        return None;
    }
    let kept = length.min(MAX_TEXT);
    let first = if end { length - kept } else { 0 };
    let [ascii, other] = layout.text;
    let data = address.checked_add(if is_ascii { ascii } else { other })?;
    let mut units = [0; 4 * MAX_TEXT as usize];
    let units = units.get_mut(..(kept * width) as usize)?;
    if !memory.read(data.checked_add(first.checked_mul(width)?)?, units) {
        return None;
    }
    for unit in units.chunks_exact(width as usize) {
        let mut wide = [0; 4];
        wide.iter_mut().zip(unit).for_each(|(wide, byte)| *wide = *byte);
        let unit = char::from_u32(u32::from_le_bytes(wide)).unwrap_or(char::REPLACEMENT_CHARACTER);
        out.extend_from_slice(unit.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: fn() -> Layout =
        || Layout::find(&[0; super::super::layout::TOLD], 0x030c_0000).expect("3.12");
    const TYPES: Interpreter =
        Interpreter { runtime: 0, code_type: 0xc0de, text_type: 0x7e87, version: 0 };

    /// A string object in the layout of 3.12, in words.
    fn text(kind: u64, is_ascii: bool, length: u64, data: &[u8]) -> Vec<u64> {
        let state = kind << 2 | 0x20 | if is_ascii { 0x40 } else { 0 };
        let mut words = vec![1, TYPES.text_type, length, 0, state];
        if !is_ascii {
            words.extend([0, 0]);
        }
        let mut data = data.to_vec();
        data.resize(data.len().next_multiple_of(8), 0);
        words.extend(data.chunks_exact(8).map(|word| number(word, 0).expect("a word")));
        words
    }

    fn read(words: &[u64], end: bool) -> Option<String> {
        let (mut memory, mut out) = (Memory::open(false).expect("own memory"), Vec::new());
        let address = words.as_ptr() as u64;
        put_text(address, end, (&LAYOUT(), &TYPES), &mut memory, &mut out)?;
        String::from_utf8(out).ok()
    }

    #[test]
    fn texts_of_every_width_are_read_and_long_ones_cut() {
        assert_eq!(read(&text(1, true, 6, b"decode"), false).as_deref(), Some("decode"));
        assert_eq!(read(&text(1, false, 5, b"na\xefve"), false).as_deref(), Some("naïve"));
        assert_eq!(
            read(&text(2, false, 2, &[0xc7, 0x30, 0x00, 0xd8]), false).as_deref(),
            Some("デ\u{fffd}")
        );
        assert_eq!(
            read(&text(4, false, 1, &[0x0b, 0x00, 0x02, 0x00]), false).as_deref(),
            Some("𠀋")
        );
        let mut long = vec![b'a'; 1 << 20];
        long[(1 << 20) - 1] = b'z';
        let words = text(1, true, 1 << 20, &long);
        let (head, tail) =
            (read(&words, false).expect("a text"), read(&words, true).expect("a text"));
        assert_eq!((head.len(), head.ends_with('a')), (400, true));
        assert_eq!((tail.len(), tail.ends_with('z')), (400, true));
    }

    #[test]
    fn what_is_no_text_is_none() {
        let sound = text(1, true, 6, b"decode");
        let with = |at: usize, word| {
            let mut words = sound.clone();
            words[at] = word;
            read(&words, false)
        };
        assert_eq!(with(1, 7), None, "another type");
        assert_eq!(with(4, 1 << 2), None, "not compact");
        assert_eq!(with(4, 0x20 | 3 << 2), None, "no width");
        // A wrong length: memory past the object is read only where it is mapped.
        let _ = with(2, u64::MAX);
        assert_eq!(read(&[0; 6], false), None);
    }

    /// A code object with this name, file and line table.
    fn code(name: &[u64], file: &[u64], lines: &[u64]) -> Vec<u64> {
        let mut words = vec![0; 18];
        words[1] = TYPES.code_type;
        words[8] = 7 << 32;
        words[128 / 8] = name.as_ptr() as u64;
        words[112 / 8] = file.as_ptr() as u64;
        words[136 / 8] = lines.as_ptr() as u64;
        words
    }

    #[test]
    fn an_address_that_another_code_object_has_taken_gets_its_own_number() {
        let (first, second) = (text(1, true, 1, b"f"), text(1, true, 1, b"g"));
        let (file, lines) = (text(1, true, 4, b"a.py"), vec![1, 2, 3, 0, 0x80]);
        let mut object = code(&first, &file, &lines);
        let address = object.as_ptr() as u64;
        let mut memory = Memory::open(false).expect("own memory");
        let (mut codes, mut round) = (Codes::default(), Round::default());
        let layout = LAYOUT();
        let mut find = |codes: &mut Codes, generation| {
            codes.begin(generation);
            codes.find(address, None, (&layout, &TYPES), &mut memory, &mut round)
        };
        assert_eq!(find(&mut codes, 0), Some(1));
        assert_eq!(find(&mut codes, 0), Some(1));
        object[128 / 8] = second.as_ptr() as u64;
        std::hint::black_box(&object);
        assert_eq!(find(&mut codes, 0), Some(1), "not read again so soon");
        assert_eq!(find(&mut codes, 1), Some(2), "a code object was freed");
        object[128 / 8] = first.as_ptr() as u64;
        std::hint::black_box(&object);
        let numbers: Vec<_> = (0..RECHECK).map(|_| find(&mut codes, 1)).collect();
        assert_eq!((numbers[0], numbers[RECHECK as usize - 1]), (Some(2), Some(3)));
        object[1] = 0;
        std::hint::black_box(&object);
        assert_eq!(find(&mut codes, 2), None, "no code object any more");
        assert_eq!(round.codes.len(), 3);
        let CodeText { first_line, name, file, table, .. } = round.codes[1];
        assert_eq!((first_line, name, file, table), (7, 1, 4, 3));
        assert_eq!(round.bytes[8..16], *b"ga.py\x80\0\0");
    }

    /// Hazard (Host samples): While a code object is read, it is freed and another one takes its memory.
    /// Promise: The name of one is never reported with the line of the other.
    #[test]
    fn a_code_object_that_changes_while_it_is_read_is_left_out() {
        use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
        let (name, file, lines) =
            (text(1, true, 1, b"a"), text(1, true, 4, b"a.py"), vec![1, 2, 3, 0, 0x80]);
        let shared = |words: &[u64]| words.iter().map(|word| AtomicU64::new(*word)).collect();
        let name: Vec<AtomicU64> = shared(&name);
        let mut object = code(&[], &file, &lines);
        object[128 / 8] = name.as_ptr() as u64;
        let object: Vec<AtomicU64> = shared(&object);
        let (address, ends) = (object.as_ptr() as u64, AtomicBool::new(false));
        let (layout, mut whole) = (LAYOUT(), 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for line in 1..u64::from(u32::MAX) {
                    if ends.load(Ordering::Relaxed) {
                        break;
                    }
                    object[1].store(0, Ordering::SeqCst);
                    name[5].store(u64::from(b'a') + line % 26, Ordering::SeqCst);
                    object[8].store(line << 32, Ordering::SeqCst);
                    object[1].store(TYPES.code_type, Ordering::SeqCst);
                    (0..200).for_each(|_| std::hint::spin_loop());
                }
            });
            let mut memory = Memory::open(false).expect("own memory");
            for _ in 0..20_000 {
                let (mut codes, mut round) = (Codes::default(), Round::default());
                let python = (&layout, &TYPES);
                if codes.find(address, None, python, &mut memory, &mut round).is_some() {
                    whole += 1;
                    let line = round.codes[0].first_line;
                    let expected = b'a' + (line % 26) as u8;
                    if line != 7 && round.bytes[0] != expected {
                        ends.store(true, Ordering::Relaxed);
                        panic!("line {line} has the name {:?}", char::from(round.bytes[0]));
                    }
                }
            }
            ends.store(true, Ordering::Relaxed);
        });
        assert!(whole > 0, "none was read");
        // The frame has gone on to another code object.
        let (mut memory, mut round) = (Memory::open(false).expect("own memory"), Round::default());
        let pointer = address + 64;
        let held = Some(((&raw const pointer) as u64, address));
        let python = (&layout, &TYPES);
        assert_eq!(Codes::default().find(address, held, python, &mut memory, &mut round), None);
        assert!(round.codes.is_empty() && round.bytes.is_empty());
    }

    #[test]
    fn codes_are_forgotten_together_and_stay_bounded() {
        let (mut codes, mut round) = (Codes::default(), Round::default());
        let known = Known { id: 1, parts: [0; 4], seen: (0, 0) };
        codes.known.extend((0..MAX_CODES as u64).map(|address| (address, known)));
        codes.make_room(&mut round);
        assert!(codes.known.is_empty() && round.forgets_codes);
        codes.known.extend((1..=2 * MAX_CODES as u64).map(|address| (address, known)));
        let (name, file, lines) =
            (text(1, true, 1, b"f"), text(1, true, 1, b"g"), vec![1, 2, 0, 0]);
        let object = code(&name, &file, &lines);
        let mut memory = Memory::open(false).expect("own memory");
        let found =
            codes.find(object.as_ptr() as u64, None, (&LAYOUT(), &TYPES), &mut memory, &mut round);
        assert_eq!(found, None);
    }
}
