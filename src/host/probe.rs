//! Reads the stacks of an interpreter that is only an image of memory, for fuzz targets that fill it with
//! arbitrary bytes (`crates/fuzz`).

use super::layout::{self, Layout, TOLD};
use super::memory::Memory;
use super::stacks::Python;
use super::{Interpreter, Round};

/// Words of an image.
pub const WORDS: usize = 4096;
/// A word with this value in its upper 16 bits is a pointer to the word whose index is in its lower 32 bits.
pub const ADDRESS: u64 = 0x5052;
/// Stand-ins for the addresses of the types of code objects and strings.
pub const TYPES: [u64; 2] = [0xc0de, 0x7e87];

/// Reads the image three times. `version` has the form of `PY_VERSION_HEX`. Returns a description of what
/// was read, and the largest number of frames.
#[must_use]
pub fn look(image: &mut [u64; WORDS], version: u32) -> (String, usize) {
    let base = image.as_ptr() as u64;
    for word in image.iter_mut().filter(|word| **word >> 48 == ADDRESS) {
        *word = base + 8 * (*word as u32 as u64 % WORDS as u64);
    }
    let mut told = [0; TOLD];
    told.copy_from_slice(&image[..TOLD]);
    let layout = match Layout::find(&told, version) {
        Ok(layout) => layout,
        Err(refusal) => return (refusal.to_string(), 0),
    };
    let Ok(mut memory) = Memory::open(false) else { return (String::new(), 0) };
    let [code_type, text_type] = TYPES;
    let interpreter = Interpreter { runtime: base, code_type, text_type, version };
    let mut python = Python::new(layout, interpreter, &mut memory);
    let (mut text, mut most) = (String::new(), 0);
    let mut round = Round::default();
    for turn in 0..3 {
        round.clear();
        let looked = python.look(&mut memory, &mut round, (turn != 1, |_| false), |_| true);
        most = most.max(round.frames.len());
        text += &format!("{looked:?} {} {:?} ", round.frames.len(), round.codes);
        text += &String::from_utf8_lossy(&round.bytes);
        for code in &round.codes {
            for (_, offset) in round.frames.iter().take(100) {
                let table = round.bytes.get(..code.table).unwrap_or_default();
                text +=
                    &format!("{} ", layout::line(layout.minor, table, code.first_line, *offset));
            }
        }
    }
    (text, most)
}
