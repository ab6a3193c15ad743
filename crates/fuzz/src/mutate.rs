//! Changes to an input that leave enough of its format whole to get past the first check.

use std::ops::Range;
use std::path::Path;

use fastrand::Rng;
use rusqlite::Connection;
use serde_json::{Number, Value};
use stage2_contract::trace::frame::framed;
use stage2_contract::trace::{Reader, Record, Writer};

use crate::scratch;

/// A mutator: changes an input in place.
pub type Mutator = fn(&mut Vec<u8>, &mut fastrand::Rng);

/// Numbers at the edges of types and of what programs check.
#[rustfmt::skip]
const NUMBERS: [i64; 24] = [
    0, 1, -1, 2, 7, 59, 75, 127, 128, 255, 256, 1023, 65_535, 65_536, 1 << 24, i32::MAX as i64,
    i32::MIN as i64, u32::MAX as i64, 1 << 32, 1 << 53, 1 << 62, i64::MAX - 1, i64::MAX, i64::MIN,
];

/// Texts that readers of cells and values take for something.
#[rustfmt::skip]
const TEXTS: [&str; 22] = [
    "", " ", "0", "-0", "1e308", "1e-320", "-1e999", "nan", "inf", "9223372036854775808",
    "18446744073709551616", "1,234.5", "n/a", "null", "true", "\"", "'", "\u{0}", "\u{1b}[31m",
    "é漢\u{202e}\u{feff}", "../../x", "${a}",
];

fn number(random: &mut fastrand::Rng) -> i64 {
    match random.u8(..4) {
        0 => random.i64(..),
        1 => random.i64(-300..300),
        _ => random.choice(NUMBERS).unwrap_or(0),
    }
}

/// Longest part that is doubled or taken out.
const PART_BYTES: usize = 64;

/// Makes one to four changes.
pub fn bytes(input: &mut Vec<u8>, random: &mut Rng) {
    for _ in 0..random.usize(1..=4) {
        change_bytes(input, random);
    }
}

fn change_bytes(input: &mut Vec<u8>, random: &mut Rng) {
    if input.is_empty() {
        return input.push(random.u8(..));
    }
    let at = random.usize(..input.len());
    match random.u8(..8) {
        0 => input[at] ^= 1 << random.u8(..8),
        1 => input[at] = random.u8(..),
        2 => input.insert(at, random.u8(..)),
        3 => drop(input.drain(part_of(input, random))),
        4 => {
            let copy = input[part_of(input, random)].to_vec();
            let times = if random.u8(..8) == 0 { random.usize(1..200) } else { 1 };
            input.splice(at..at, copy.repeat(times));
        }
        5 => {
            let copy = input[part_of(input, random)].to_vec();
            let end = input.len().min(at + copy.len());
            input[at..end].copy_from_slice(&copy[..end - at]);
        }
        6 if random.u8(..4) == 0 => input.truncate(at),
        _ => {
            let value = number(random);
            let width = random.choice([1, 2, 4, 8]).unwrap_or(8);
            let (little, big) = (value.to_le_bytes(), value.to_be_bytes());
            let written = if random.bool() { &little[..width] } else { &big[8 - width..] };
            let end = input.len().min(at + width);
            input[at..end].copy_from_slice(&written[..end - at]);
        }
    }
}

fn part_of(input: &[u8], random: &mut Rng) -> Range<usize> {
    let start = random.usize(..input.len());
    start..input.len().min(start + random.usize(1..=PART_BYTES))
}

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
        2 => insert(input, random, &TEXTS),
        _ => bytes(input, random),
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

/// Changes a cell, a row, a column, or bytes.
pub fn table(input: &mut Vec<u8>, random: &mut Rng) {
    if random.u8(..4) == 0 {
        return text(input, random);
    }
    let text = String::from_utf8_lossy(input).into_owned();
    let mut rows: Vec<Vec<String>> = text.split('\n').map(cells).collect();
    let row = random.usize(..rows.len());
    match random.u8(..8) {
        0 => rows.insert(random.usize(..=rows.len()), rows[row].clone()),
        1 => drop(rows.remove(row)),
        2 => {
            // A column twice, and all behind it in another place.
            let column = random.usize(..rows[row].len());
            for row in &mut rows {
                if let Some(cell) = row.get(column).cloned() {
                    row.insert(column, cell);
                }
            }
        }
        3 => {
            let column = random.usize(..rows[row].len());
            rows.iter_mut()
                .filter(|row| column < row.len())
                .for_each(|row| drop(row.remove(column)));
        }
        _ => {
            let column = random.usize(..rows[row].len());
            let (from, at) = (random.usize(..rows.len()), random.usize(..rows[row].len()));
            rows[row][column] = match random.u8(..4) {
                0 => number(random).to_string(),
                1 => rows[from][at % rows[from].len()].clone(),
                2 => format!(
                    "\"{}\"",
                    rows[row][column].trim_matches('"').repeat(random.usize(1..20))
                ),
                _ => random.choice(TEXTS).unwrap_or_default().to_owned(),
            };
        }
    }
    let rows: Vec<String> = rows.iter().map(|row| row.join(",")).collect();
    *input = rows.join("\n").into_bytes();
}

/// The cells of a line; commas in quotes end none.
fn cells(line: &str) -> Vec<String> {
    let mut quoted = false;
    let cells = line.split(|c| {
        quoted ^= c == '"';
        c == ',' && !quoted
    });
    cells.map(str::to_owned).collect()
}

/// Changes one value, or bytes.
pub fn json(input: &mut Vec<u8>, random: &mut Rng) {
    let parsed = serde_json::from_slice::<Value>(input);
    let (Ok(mut value), true) = (parsed, random.u8(..6) != 0) else {
        return text(input, random);
    };
    let mut other = value.clone();
    let taken = inner_value(&mut other, random).clone();
    change_value(inner_value(&mut value, random), taken, random);
    if let Ok(text) = serde_json::to_vec(&value) {
        *input = text;
    }
}

/// A value anywhere in `value`: deep ones are as likely as shallow ones.
fn inner_value<'v>(value: &'v mut Value, random: &mut Rng) -> &'v mut Value {
    let inner = match value {
        Value::Array(items) => items.len(),
        Value::Object(fields) => fields.len(),
        _ => 0,
    };
    if inner == 0 || random.u8(..8) == 0 {
        return value;
    }
    let chosen = random.usize(..inner);
    let inner = match value {
        Value::Array(items) => items.get_mut(chosen),
        Value::Object(fields) => fields.values_mut().nth(chosen),
        _ => None,
    };
    inner_value(inner.expect("there are so many"), random)
}

fn change_value(value: &mut Value, taken: Value, random: &mut Rng) {
    *value = match (std::mem::take(value), random.u8(..6)) {
        (Value::Object(mut fields), 0 | 1) => {
            let chosen = fields.keys().nth(random.usize(..fields.len().max(1))).cloned();
            chosen.map(|key| fields.remove(&key));
            Value::Object(fields)
        }
        (Value::Array(mut items), 0) => {
            items.truncate(random.usize(..=items.len()));
            Value::Array(items)
        }
        (Value::Array(mut items), 1) => {
            items.push(taken);
            Value::Array(items)
        }
        (_, 2) => taken,
        (_, 3) => Value::String(random.choice(TEXTS).unwrap_or_default().to_owned()),
        (_, 4) => {
            let float = random.choice([0.5, -1.0, 1e308, 1e-300, 1e19]).unwrap_or(0.5);
            Number::from_f64(float).map_or(Value::Null, Value::Number)
        }
        (old, 5) => Value::Array(vec![old; random.usize(..4)]),
        _ => match random.u8(..4) {
            0 => Value::Null,
            1 => Value::Bool(random.bool()),
            2 => Value::from(number(random) as u64),
            _ => Value::from(number(random)),
        },
    };
}

/// Changes what the tables hold, or bytes.
pub fn sqlite(input: &mut Vec<u8>, random: &mut Rng) {
    if random.u8(..4) == 0 {
        return bytes(input, random);
    }
    let file = scratch::file("mutated.sqlite", input);
    if change_database(&file.path, random).is_err() {
        return bytes(input, random);
    }
    if let Ok(bytes) = std::fs::read(&file.path) {
        *input = bytes;
    }
}

fn change_database(path: &Path, random: &mut Rng) -> rusqlite::Result<()> {
    let database = Connection::open(path)?;
    database.execute_batch(
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA secure_delete = ON;
         PRAGMA trusted_schema = OFF;",
    )?;
    let tables = names(&database, "SELECT name FROM sqlite_master WHERE type = 'table'")?;
    for _ in 0..random.usize(1..=3) {
        let Some(table) = random.choice(&tables) else { return Ok(()) };
        let columns =
            names(&database, &format!("SELECT name FROM pragma_table_info({})", quoted(table)))?;
        let Some(column) = random.choice(&columns) else { return Ok(()) };
        let (table, column) = (quoted(table), quoted(column));
        let bits = random.u8(..8);
        let row = format!(
            "rowid IN (SELECT rowid FROM {table} LIMIT 1 OFFSET {})",
            random.usize(..1 << bits)
        );
        let statement = match random.u8(..12) {
            0 => format!("DELETE FROM {table} WHERE {row}"),
            1 => format!("INSERT INTO {table} SELECT * FROM {table} LIMIT 40"),
            2 => format!("ALTER TABLE {table} DROP COLUMN {column}"),
            3 => format!("ALTER TABLE {table} RENAME COLUMN {column} TO \"other\""),
            4 if random.u8(..4) == 0 => format!("DROP TABLE {table}"),
            5 => {
                // Without its key, and with the types that the values have.
                format!(
                    "CREATE TABLE t AS SELECT * FROM {table}; DROP TABLE {table}; ALTER TABLE t RENAME TO {table}"
                )
            }
            6 => {
                let other =
                    random.choice(&columns).map_or_else(|| column.clone(), |name| quoted(name));
                format!("UPDATE OR IGNORE {table} SET {column} = {other} WHERE {row}")
            }
            7 => format!("UPDATE OR IGNORE {table} SET {column} = {column} + {} ", number(random)),
            _ => {
                format!("UPDATE OR IGNORE {table} SET {column} = {} WHERE {row}", sql_value(random))
            }
        };
        // What one table refuses is no reason to leave the others.
        let _ = database.execute_batch(&statement);
    }
    Ok(())
}

fn sql_value(random: &mut Rng) -> String {
    match random.u8(..8) {
        0 => "NULL".to_owned(),
        1 => "x'ff00'".to_owned(),
        2 => random.choice(["1.5", "1e300", "-1e-300", "9e999"]).unwrap_or_default().to_owned(),
        3 => format!("'{}'", random.choice(TEXTS).unwrap_or_default().replace(['\'', '\0'], "")),
        4 => format!("printf('%.{}c', 'x')", random.usize(1..5000)),
        _ => number(random).to_string(),
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn names(database: &Connection, query: &str) -> rusqlite::Result<Vec<String>> {
    database.prepare(query)?.query_map([], |row| row.get(0))?.collect()
}

const FRAME_HEADER_BYTES: usize = 12;
const CHECKSUM_AT: usize = 8;

/// Changes the bytes of one frame of a summary, and its checksum with them; or anything.
pub fn summary(input: &mut Vec<u8>, random: &mut Rng) {
    if random.bool() {
        return trace(input, random);
    }
    let mut begins = Vec::new();
    let mut at = 20;
    while let Some(bytes) = input.get(at + 4..at + 8).and_then(<[u8]>::first_chunk) {
        begins.push(at);
        at = at.saturating_add(12).saturating_add(u32::from_le_bytes(*bytes) as usize);
    }
    let Some(&begin) = begins.get(random.usize(..begins.len().max(1))) else {
        return bytes(input, random);
    };
    let next = begins.iter().copied().find(|next| *next > begin).unwrap_or(input.len());
    let Some((head, payload)) = input.get(begin..next).and_then(|frame| frame.split_at_checked(12))
    else {
        return bytes(input, random);
    };
    let kind = u16::from_le_bytes([head[2], head[3]]);
    let mut payload = payload.to_vec();
    bytes(&mut payload, random);
    input.splice(begin..next, framed(kind, &payload));
}

/// Changes records, frames, the bytes within a frame, or any bytes.
pub fn trace(input: &mut Vec<u8>, random: &mut Rng) {
    match random.u8(..8) {
        0 => bytes(input, random),
        1..=3 => records(input, random),
        4 => frames(input, random),
        _ => payload(input, random),
    }
}

/// Writes the records again: some doubled, some gone, some in another place.
fn records(input: &mut Vec<u8>, random: &mut Rng) {
    let Ok(reader) = Reader::new(input.as_slice()) else { return bytes(input, random) };
    let mut records: Vec<Record> = reader.map_while(Result::ok).take(10_000).collect();
    if records.is_empty() {
        return bytes(input, random);
    }
    for _ in 0..random.usize(1..=3) {
        let (one, other) = (random.usize(..records.len()), random.usize(..records.len()));
        match random.u8(..4) {
            0 if records.len() > 1 => drop(records.remove(one)),
            1 => records.swap(one, other),
            2 => {
                let end = records.len().min(one + random.usize(1..=8));
                let part = records[one..end].to_vec();
                records.splice(other..other, part);
            }
            _ => records.insert(other, records[one].clone()),
        }
    }
    let mut writer = Writer::new(Vec::new()).expect("a vector takes everything");
    for record in &records {
        writer.write(record);
        if random.u8(..32) == 0 {
            let _ = writer.flush();
        }
    }
    let _ = writer.flush();
    *input = writer.into_sink();
}

/// Where the frames lie: behind the header of the file, up to the first that is none.
fn places(input: &[u8]) -> Vec<std::ops::Range<usize>> {
    let number = |at: usize| {
        let bytes = input.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize)
    };
    let mut found = Vec::new();
    let mut at = number(12).unwrap_or(0);
    while let Some(length) = number(at + 4) {
        let end = at.saturating_add(FRAME_HEADER_BYTES).saturating_add(length);
        if end > input.len() {
            break;
        }
        found.push(at..end);
        at = end;
    }
    found
}

fn frames(input: &mut Vec<u8>, random: &mut Rng) {
    let places = places(input);
    let Some(one) = random.choice(&places).cloned() else { return bytes(input, random) };
    let frame = input[one.clone()].to_vec();
    if random.bool() {
        input.drain(one);
    } else {
        let at = random.choice(&places).map_or(one.start, |other| other.start);
        input.splice(at..at, frame);
    }
}

fn payload(input: &mut Vec<u8>, random: &mut Rng) {
    let Some(place) = random.choice(&places(input)).cloned() else {
        return bytes(input, random);
    };
    let mut frame = input[place.clone()].to_vec();
    let mut payload = frame.split_off(FRAME_HEADER_BYTES);
    bytes(&mut payload, random);
    frame[4..8].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&frame[..CHECKSUM_AT]);
    checksum.update(&payload);
    frame[CHECKSUM_AT..].copy_from_slice(&checksum.finalize().to_le_bytes());
    frame.extend(payload);
    input.splice(place, frame);
}

/// Files of a bundle, and how each is changed.
pub const BUNDLE_FILES: [(&str, Mutator); 10] = [
    ("run.json", json),
    ("env.json", json),
    ("config.yaml", text),
    ("collector/host-1.s2t", trace),
    ("collector/host-2.s2t", trace),
    ("counters/host-3.s2t", trace),
    ("nsys/run_cuda_gpu_kern_sum_mangled.csv", table),
    ("ncu/raw.csv", table),
    ("ncu/details.csv", table),
    ("baseline/host-4.s2t", trace),
];

/// Changes one of the files, or takes it out.
pub fn bundle(input: &mut Vec<u8>, random: &mut Rng) {
    let mut files = unpack_bundle(input);
    if files.is_empty() {
        return bytes(input, random);
    }
    let chosen = random.usize(..files.len());
    match random.u8(..32) {
        0 => drop(files.remove(chosen)),
        1 => files[chosen].0 = random.usize(..BUNDLE_FILES.len()),
        _ => {
            let (file, bytes) = &mut files[chosen];
            BUNDLE_FILES[*file].1(bytes, random);
        }
    }
    *input = pack_bundle(&files);
}

/// The files of an input: the number of each in [`BUNDLE_FILES`], and its bytes. The last may be cut.
pub fn unpack_bundle(mut input: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let mut files = Vec::new();
    while let Some(([which, length @ ..], rest)) = input.split_first_chunk::<5>() {
        let length = u32::from_le_bytes(*length) as usize;
        let (bytes, rest) = rest.split_at(length.min(rest.len()));
        files.push((usize::from(*which) % BUNDLE_FILES.len(), bytes.to_vec()));
        input = rest;
    }
    files
}

/// An input of these files.
pub fn pack_bundle(files: &[(usize, Vec<u8>)]) -> Vec<u8> {
    let mut input = Vec::new();
    for (which, bytes) in files {
        input.push(*which as u8);
        input.extend((bytes.len() as u32).to_le_bytes());
        input.extend(bytes);
    }
    input
}
