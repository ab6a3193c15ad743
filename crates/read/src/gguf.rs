//! The head of a GGUF file (llama.cpp's models) -> its metadata, and the size of each tensor,
//! bytes.
//!
//! The format is little endian, version 2 or 3: `GGUF`, u32 version, u64 number of tensors, u64
//! number of keys; then the keys (a string, u32 type, value), then the tensors (a string, u32
//! number of dimensions, u64 for each dimension, u32 type, u64 offset). A string is its length in
//! bytes, u64, and the bytes. The data follow. A tensor ends where the next one begins, so its size
//! is known without a table of types.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use stage2_contract::text::visible;

use crate::files;

/// Maximum number of bytes to read of a file: lists of tokens have about 10 MB.
pub const LIMIT_BYTES: u64 = 64 << 20;
/// Maximum number of keys of a file; models have fewer than 100.
const MOST_KEYS: u64 = 1 << 12;
/// Maximum number of tensors of a model, in all of its files; the largest models have some thousands.
const MOST_TENSORS: u64 = 1 << 16;
/// Maximum number of files of a model.
const MOST_FILES: u64 = 256;
/// Maximum length of a key, a name or a string value, bytes. A longer value is left out.
const MOST_NAME_BYTES: u64 = 256;
/// Maximum depth of nested arrays.
const MOST_NESTED: u8 = 4;

/// The contents of the head of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gguf {
    /// Metadata by key, without floating-point and negative numbers.
    pub values: BTreeMap<String, GgufValue>,
    /// The tensors of all files of the model.
    pub tensors: Vec<Tensor>,
}

/// A value of the metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GgufValue {
    /// A number, or a truth value as 0 or 1.
    Whole(u64),
    /// A text of at most 256 bytes.
    Text(String),
    /// An array: the number of its elements, which are not kept.
    Array(u64),
}

/// A tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Its name: `blk.0.attn_q.weight`.
    pub name: String,
    /// Its size in the file, bytes, with padding of less than the alignment (32 bytes).
    pub bytes: u64,
}

impl Gguf {
    /// Reads the head of a model: that of the file, and those of the other files if it is the first
    /// of several (`NAME-00001-of-00003.gguf`).
    ///
    /// # Errors
    /// A file is not readable GGUF; the error names the file and the reason.
    pub fn read(path: &Path) -> Result<Self, GgufError> {
        let mut model = Self::read_one(path)?;
        for other in others(path) {
            model.tensors.extend(Self::read_one(&other)?.tensors);
            within("tensors in all files", model.tensors.len() as u64, MOST_TENSORS)
                .map_err(|why| GgufError { path: other, why: why.to_string() })?;
        }
        Ok(model)
    }

    fn read_one(path: &Path) -> Result<Self, GgufError> {
        let read = || {
            let file = files::open(path)?;
            let bytes = file.metadata()?.len();
            Self::of(file, bytes)
        };
        read().map_err(|why| GgufError { path: path.to_owned(), why: why.to_string() })
    }

    /// Reads the head of a file of `file_bytes` bytes.
    ///
    /// # Errors
    /// The bytes are not a GGUF head, or they exceed the limits.
    pub fn of(file: impl Read, file_bytes: u64) -> io::Result<Self> {
        let left = file_bytes.min(LIMIT_BYTES);
        let mut bytes =
            Bytes { inner: BufReader::new(file), left, is_whole: file_bytes <= LIMIT_BYTES };
        if &bytes.array::<4>()? != b"GGUF" {
            return Err(wrong("it does not begin with GGUF"));
        }
        match bytes.u32()? {
            2 | 3 => {}
            version if version & 0xffff == 0 => return Err(wrong("it is big endian")),
            version => return Err(wrong(format!("version {version} is neither 2 nor 3"))),
        }
        let tensors = within("tensors", bytes.u64()?, MOST_TENSORS)?;
        let keys = within("keys", bytes.u64()?, MOST_KEYS)?;
        let mut values = BTreeMap::new();
        for _ in 0..keys {
            let key = bytes.name()?;
            let kind = bytes.u32()?;
            if let Some(value) = bytes.value(kind)? {
                values.insert(key, value);
            }
        }
        let mut offsets = Vec::new();
        for _ in 0..tensors {
            let name = bytes.name()?;
            let dimensions = within("dimensions of a tensor", u64::from(bytes.u32()?), 8)?;
            bytes.skip(dimensions * 8 + 4)?;
            offsets.push((bytes.u64()?, name));
        }
        let alignment = match values.get("general.alignment") {
            Some(GgufValue::Whole(alignment)) => *alignment,
            _ => 32,
        };
        let head = file_bytes.min(LIMIT_BYTES) - bytes.left;
        let data = head.checked_next_multiple_of(alignment);
        let data_bytes = data.and_then(|data| file_bytes.checked_sub(data)).unwrap_or_default();
        Ok(Self { values, tensors: sized(offsets, data_bytes)? })
    }
}

/// Each tensor ends where the next one begins, and the last one ends at the end of the data.
fn sized(mut offsets: Vec<(u64, String)>, data_bytes: u64) -> io::Result<Vec<Tensor>> {
    offsets.sort();
    let ends: Vec<u64> = offsets.iter().skip(1).map(|(offset, _)| *offset).collect();
    let ends = ends.into_iter().chain([data_bytes]);
    let sized = offsets.into_iter().zip(ends).map(|((offset, name), end)| {
        let bytes = end.checked_sub(offset).filter(|bytes| *bytes > 0 && end <= data_bytes);
        let bytes = bytes.ok_or_else(|| wrong(format!("tensor {name} is cut off")))?;
        Ok(Tensor { name, bytes })
    });
    sized.collect()
}

/// The other files of a model whose first one is `path`.
fn others(path: &Path) -> Vec<PathBuf> {
    let split = || {
        let stem = path.file_stem()?.to_str()?;
        let (name, count) = stem.rsplit_once("-00001-of-")?;
        let is_number = count.len() == 5 && count.bytes().all(|byte| byte.is_ascii_digit());
        let files = is_number.then(|| count.parse::<u64>().ok())??.min(MOST_FILES);
        let other = |number| path.with_file_name(format!("{name}-{number:05}-of-{count}.gguf"));
        Some((2..=files).map(other).collect())
    };
    split().unwrap_or_default()
}

fn wrong(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

fn within(what: &str, count: u64, most: u64) -> io::Result<u64> {
    match count <= most {
        true => Ok(count),
        false => Err(wrong(format!("it claims {count} {what}; the limit is {most}"))),
    }
}

/// Why the head of a file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is not a readable GGUF file: {why}", stage2_contract::text::visible_path(path))]
pub struct GgufError {
    /// The file.
    pub path: PathBuf,
    /// The reason.
    pub why: String,
}

/// The bytes that may still be read.
struct Bytes<R> {
    inner: BufReader<R>,
    left: u64,
    /// Whether they reach the end of the file.
    is_whole: bool,
}

impl<R: Read> Bytes<R> {
    fn take(&mut self, bytes: u64) -> io::Result<()> {
        let left = self.left.checked_sub(bytes);
        self.left = left.ok_or_else(|| match self.is_whole {
            true => wrong("it is cut off, or a length in it is wrong"),
            false => wrong(format!("its head is longer than {} MiB", LIMIT_BYTES >> 20)),
        })?;
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        self.take(N as u64)?;
        let mut bytes = [0; N];
        self.inner.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn u32(&mut self) -> io::Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> io::Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        self.take(bytes)?;
        if bytes == 0 {
            return Ok(());
        }
        let skipped = io::copy(&mut (&mut self.inner).take(bytes), &mut io::sink())?;
        if skipped == bytes { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Reads a string; if it is too long, skips it and returns `None`.
    fn text(&mut self) -> io::Result<Option<String>> {
        let bytes = self.u64()?;
        if bytes > MOST_NAME_BYTES {
            return self.skip(bytes).map(|()| None);
        }
        self.take(bytes)?;
        let mut text = Vec::new();
        (&mut self.inner).take(bytes).read_to_end(&mut text)?;
        Ok(Some(visible(&text)))
    }

    fn name(&mut self) -> io::Result<String> {
        let text = self.text()?;
        text.ok_or_else(|| wrong(format!("a name is longer than {MOST_NAME_BYTES} bytes")))
    }

    /// Reads a value of the type `kind`; returns `None` for a type that is not kept.
    fn value(&mut self, kind: u32) -> io::Result<Option<GgufValue>> {
        let whole = |number: Option<u64>| number.map(GgufValue::Whole);
        Ok(match kind {
            0 | 7 => whole(Some(u64::from(u8::from_le_bytes(self.array()?)))),
            1 => whole(i8::from_le_bytes(self.array()?).try_into().ok()),
            2 => whole(Some(u64::from(u16::from_le_bytes(self.array()?)))),
            3 => whole(i16::from_le_bytes(self.array()?).try_into().ok()),
            4 => whole(Some(u64::from(self.u32()?))),
            5 => whole(i32::from_le_bytes(self.array()?).try_into().ok()),
            10 => whole(Some(self.u64()?)),
            11 => whole(i64::from_le_bytes(self.array()?).try_into().ok()),
            8 => self.text()?.map(GgufValue::Text),
            9 => Some(GgufValue::Array(self.skip_array(0)?)),
            other => {
                self.skip(fixed_bytes(other)?)?;
                None
            }
        })
    }

    /// Skips an array and returns the number of its elements.
    fn skip_array(&mut self, depth: u8) -> io::Result<u64> {
        let (kind, count) = (self.u32()?, self.u64()?);
        match kind {
            8 => {
                for _ in 0..count {
                    let bytes = self.u64()?;
                    self.skip(bytes)?;
                }
            }
            9 if depth < MOST_NESTED => {
                for _ in 0..count {
                    self.skip_array(depth + 1)?;
                }
            }
            9 => return Err(wrong("its arrays are nested too deeply")),
            _ => {
                let bytes = fixed_bytes(kind)?.checked_mul(count);
                self.skip(bytes.unwrap_or(u64::MAX))?;
            }
        }
        Ok(count)
    }
}

/// Size of a value of a fixed-size type, bytes.
fn fixed_bytes(kind: u32) -> io::Result<u64> {
    match kind {
        0 | 1 | 7 => Ok(1),
        2 | 3 => Ok(2),
        4..=6 => Ok(4),
        10..=12 => Ok(8),
        other => Err(wrong(format!("it has a value of the unknown type {other}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Vec<u8> {
        [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
    }

    fn key(name: &str, kind: u32, value: &[u8]) -> Vec<u8> {
        [&text(name)[..], &kind.to_le_bytes(), value].concat()
    }

    fn head(tensors: u64, keys: u64) -> Vec<u8> {
        [&b"GGUF\x03\0\0\0"[..], &tensors.to_le_bytes(), &keys.to_le_bytes()].concat()
    }

    fn tensor(name: &str, offset: u64) -> Vec<u8> {
        let dimensions = [&2u32.to_le_bytes()[..], &[9; 16], &[0; 4]].concat();
        [&text(name)[..], &dimensions, &offset.to_le_bytes()].concat()
    }

    /// A file with a key of each kind and two tensors, of 64 and 40 bytes, the later one first.
    fn file() -> Vec<u8> {
        let tokens = [&8u32.to_le_bytes()[..], &2u64.to_le_bytes(), &text("a"), &text("bc")];
        let nested = [&9u32.to_le_bytes()[..], &1u64.to_le_bytes(), &0u32.to_le_bytes(), &[0; 8]];
        let mut file = [
            head(2, 6),
            key("general.architecture", 8, &text("llama")),
            key("llama.block_count", 4, &7u32.to_le_bytes()),
            key("llama.rope.freq_base", 6, &1f32.to_le_bytes()),
            key("llama.odd", 5, &(-1i32).to_le_bytes()),
            key("tokenizer.ggml.tokens", 9, &tokens.concat()),
            key("nested", 9, &nested.concat()),
            tensor("late", 64),
            tensor("early", 0),
        ]
        .concat();
        file.resize(file.len().next_multiple_of(32) + 104, 0);
        file
    }

    fn read(bytes: &[u8]) -> io::Result<Gguf> {
        Gguf::of(bytes, bytes.len() as u64)
    }

    #[test]
    fn numbers_texts_lengths_and_sizes_are_read() {
        let found = read(&file()).expect("sound");
        let value = |key: &str| found.values.get(key).cloned();
        assert_eq!(value("general.architecture"), Some(GgufValue::Text("llama".into())));
        assert_eq!(value("llama.block_count"), Some(GgufValue::Whole(7)));
        assert_eq!(value("tokenizer.ggml.tokens"), Some(GgufValue::Array(2)));
        assert_eq!(value("nested"), Some(GgufValue::Array(1)));
        assert_eq!(found.values.len(), 4, "{:?}", found.values);
        let sizes: Vec<_> = found.tensors.iter().map(|t| (t.name.as_str(), t.bytes)).collect();
        assert_eq!(sizes, [("early", 64), ("late", 40)]);
    }

    #[test]
    fn no_bytes_are_trusted() {
        let sound = file();
        let head_bytes = sound.len() - 104;
        for end in 0..sound.len() {
            assert!(read(&sound[..end.min(head_bytes + 64)]).is_err(), "cut off at {end}");
        }
        for at in 0..head_bytes {
            for changed in [0, 0x7f, 0xff] {
                let mut bytes = sound.clone();
                bytes[at] = changed;
                let _ = read(&bytes);
            }
        }
        let huge = 1u64 << 63;
        let texts = [&8u32.to_le_bytes()[..], &huge.to_le_bytes()].concat();
        let numbers = [&12u32.to_le_bytes()[..], &huge.to_le_bytes()].concat();
        let mut deep = [&9u32.to_le_bytes()[..], &1u64.to_le_bytes()].concat().repeat(100);
        deep.extend([0; 12]);
        for (bytes, said) in [
            (head(huge, 0), "9223372036854775808 tensors"),
            (head(0, huge), "9223372036854775808 keys"),
            ([head(0, 1), key("a", 9, &texts)].concat(), "cut off"),
            ([head(0, 1), key("a", 9, &numbers)].concat(), "cut off"),
            ([head(0, 1), key("a", 8, &huge.to_le_bytes())].concat(), "cut off"),
            ([head(0, 1), key("a", 9, &deep)].concat(), "nested"),
            ([head(0, 1), key("a", 77, &[])].concat(), "unknown type 77"),
            (b"GGUF\0\0\0\x03".to_vec(), "big endian"),
            (b"GGUF\x01\0\0\0".to_vec(), "version 1"),
            (b"GGML".to_vec(), "does not begin"),
        ] {
            let why = read(&bytes).expect_err(said).to_string();
            assert!(why.contains(said), "{why}, not {said}");
        }
        let endless = [head(0, 1), key("a", 9, &texts)].concat();
        let zeros = io::Read::chain(&endless[..], io::repeat(0));
        let why = Gguf::of(zeros, u64::MAX).expect_err("too long").to_string();
        assert!(why.contains("64 MiB"), "{why}");
    }

    #[test]
    fn a_model_in_several_files_has_the_tensors_of_all() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = folder.path().join("m-00001-of-00002.gguf");
        std::fs::write(&first, file()).expect("a file");
        let why = Gguf::read(&first).expect_err("one is missing").to_string();
        assert!(why.contains("m-00002-of-00002.gguf"), "{why}");
        let mut second = [head(1, 0), tensor("other", 0)].concat();
        second.resize(second.len().next_multiple_of(32) + 10, 0);
        std::fs::write(folder.path().join("m-00002-of-00002.gguf"), second).expect("a file");
        let found = Gguf::read(&first).expect("sound");
        assert_eq!(found.tensors.last().map(|t| (t.name.as_str(), t.bytes)), Some(("other", 10)));
        // The limit is that of all files together.
        let most: Vec<u8> = (0..MOST_TENSORS).flat_map(|at| tensor("t", at)).collect();
        let mut second = [head(MOST_TENSORS, 0), most].concat();
        second.resize(second.len().next_multiple_of(32) + MOST_TENSORS as usize, 0);
        std::fs::write(folder.path().join("m-00002-of-00002.gguf"), second).expect("a file");
        let why = Gguf::read(&first).expect_err("two too many").to_string();
        assert!(why.contains("65538 tensors in all files"), "{why}");
    }
}
