//! Changes to text: its lines, its words, its numbers.

use fastrand::Rng;

/// What stands between words of YAML and of overrides.
const MARKS: [&str; 24] = [
    "=", ":", ": ", "- ", ",", "[", "]", "{", "}", "'", "\"", "\\", ".", "@", "+", "++", "~", "/",
    "&a ", "*a", "<<: ", "!!int ", "|\n ", "---\n",
];

/// Changes lines, words or bytes.
pub fn text(input: &mut Vec<u8>, random: &mut Rng) {
    match random.u8(..4) {
        0 => lines(input, random),
        1 => insert(input, random, &MARKS),
        2 => insert(input, random, &super::TEXTS),
        _ => super::bytes(input, random),
    }
}

/// Changes the words of a command line, one on each line: doubles parts of their keys and brackets.
pub fn override_words(input: &mut Vec<u8>, random: &mut Rng) {
    if random.u8(..4) != 0 {
        return text(input, random);
    }
    let part = random.choice(["a.", "[", "{a:", "a/", "\\", "[[],", "${", "'a',", "a:1,"]);
    let at = random.usize(..=input.len());
    let times = if random.u8(..8) == 0 { random.usize(1..3000) } else { random.usize(1..40) };
    let many = part.unwrap_or_default().repeat(times);
    input.splice(at..at, many.into_bytes());
}

fn lines(input: &mut Vec<u8>, random: &mut Rng) {
    let mut lines: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
    let (one, other) = (random.usize(..lines.len()), random.usize(..lines.len()));
    match random.u8(..3) {
        0 => drop(lines.remove(one)),
        1 => lines.insert(other, lines[one]),
        _ => lines.swap(one, other),
    }
    *input = lines.join(&b'\n');
}

fn insert(input: &mut Vec<u8>, random: &mut Rng, of: &[&str]) {
    let at = random.usize(..=input.len());
    let what = random.choice(of).copied().unwrap_or_default();
    input.splice(at..at, what.bytes());
}
