//! A kernel's name -> what kind of work it does, by one table of rules.
//!
//! Names are compared as words: `CatArrayBatchedCopy`, `cat_array` and `cat-array` all hold the
//! words `cat array`, and `rope` is not found in `property`. The first rule that fits wins, so the
//! special stands before the general in the table.

mod rules;

use std::borrow::Cow;

use stage2_contract::text::{KernelName, kernel_name};

use rules::{RULES, Scope};
use strum::{EnumString, IntoStaticStr, VariantArray};

/// What kind of work a kernel does.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumString, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "snake_case")]
pub enum KernelClass {
    /// Between GPUs: collectives, point to point, expert dispatch.
    Communication,
    /// Matrix products, matrix-vector products and convolutions, with their split-K reductions.
    Gemm,
    /// Scaled dot-product attention, with the reductions of its parts.
    Attention,
    /// Mixture of experts: routing, permutation, grouped products.
    Moe,
    /// Layer, RMS, batch and group norms.
    Norm,
    /// Softmax by itself.
    Softmax,
    /// Rotary position embedding.
    Rope,
    /// Choosing among values: top-k, sort, argmax, multinomial. Samplers do that with tokens and
    /// routers with experts, by the same kernels.
    Selection,
    /// Quantisation and dequantisation by themselves.
    Quantization,
    /// State-space and linear-attention scans.
    Scan,
    /// Copies, casts, concatenation, gather, scatter, embedding, cache writes.
    Copy,
    /// Fills.
    Fill,
    /// Reductions.
    Reduction,
    /// Arithmetic on each element.
    Elementwise,
    /// Not recognised.
    Other,
}

impl KernelClass {
    /// Its name in reports.
    pub fn label(self) -> &'static str {
        self.into()
    }
}

/// The class of a kernel.
pub fn class_of(name: &KernelName) -> KernelClass {
    classify(&name.mangled, &name.demangled)
}

/// The class of a kernel by its names; an empty demangled name is made from the mangled one.
fn classify(mangled: &str, demangled: &str) -> KernelClass {
    let demangled = match demangled {
        "" => Cow::Owned(kernel_name(mangled.as_bytes()).demangled),
        name => Cow::Borrowed(name),
    };
    let name = ANONYMOUS
        .iter()
        .fold(clip(&demangled).to_owned(), |name, written| name.replace(written, "anonymous"));
    let whole = words(&name);
    let head = words(head(&name));
    let (of_whole, of_head) = (letters(&whole), letters(&head));
    let found = RULES.iter().find(|rule| {
        let (text, letters) = match rule.scope {
            Scope::Head => (&head, of_head),
            Scope::Anywhere => (&whole, of_whole),
        };
        rule.patterns.iter().any(|pattern| fits(text, letters, pattern))
    });
    found.map_or(KernelClass::Other, |rule| rule.class)
}

/// How demanglers write an anonymous namespace: with brackets that belong to no arguments.
const ANONYMOUS: [&str; 3] = ["(anonymous namespace)", "<unnamed>", "{anonymous}"];

/// Bytes of a name that are looked at: names of templates may be huge.
const NAME_LIMIT_BYTES: usize = 16 * 1024;

fn clip(name: &str) -> &str {
    name.get(..name.floor_char_boundary(NAME_LIMIT_BYTES)).unwrap_or(name)
}

/// The function's own name: without return type, template arguments and parameters.
fn head(name: &str) -> &str {
    let name = name.strip_prefix("void ").unwrap_or(name);
    let end = name.find(['<', '(']).unwrap_or(name.len());
    name.get(..end).unwrap_or(name)
}

/// ` a b c `: the words of a name in lower case, set off by spaces. Words end at anything but a
/// letter or digit, before a capital after a small letter or digit, and before the last of several
/// capitals (`RMSNorm` is `rms norm`).
fn words(name: &str) -> String {
    let mut out = String::with_capacity(name.len() * 2);
    out.push(' ');
    let chars: Vec<char> = name.chars().collect();
    for (at, &c) in chars.iter().enumerate() {
        if !c.is_ascii_alphanumeric() {
            if !out.ends_with(' ') {
                out.push(' ');
            }
            continue;
        }
        let before = at.checked_sub(1).and_then(|i| chars.get(i)).copied().unwrap_or(' ');
        let after = chars.get(at + 1).copied().unwrap_or(' ');
        let starts = c.is_ascii_uppercase()
            && (before.is_ascii_lowercase()
                || before.is_ascii_digit()
                || (before.is_ascii_uppercase() && after.is_ascii_lowercase()));
        if starts && !out.ends_with(' ') {
            out.push(' ');
        }
        out.push(c.to_ascii_lowercase());
    }
    out.push(' ');
    out
}

/// The letters of a text, a bit each.
fn letters(text: &str) -> u128 {
    text.bytes().fold(0, |all, byte| all | letter(byte))
}

fn letter(byte: u8) -> u128 {
    1 << (byte & 127)
}

/// Whether all parts of a pattern, set off by `+`, are in the words. `*` at an end of a part stands
/// for the rest of a word; a pattern after `=` has to be all there is.
fn fits(words: &str, letters: u128, pattern: &str) -> bool {
    if let Some(all) = pattern.strip_prefix('=') {
        return words.trim() == all;
    }
    pattern.split('+').all(|part| {
        let open_front = part.starts_with('*');
        let open_back = part.ends_with('*');
        let core = part.trim_matches('*');
        // Most patterns have a letter that is not there, and that is found much sooner than that they fit nowhere.
        core.bytes().all(|byte| letters & letter(byte) != 0)
            && words.match_indices(core).any(|(at, _)| {
                let before = words.get(..at).is_none_or(|s| s.ends_with(' '));
                let after = words.get(at + core.len()..).is_none_or(|s| s.starts_with(' '));
                (open_front || before) && (open_back || after)
            })
    })
}

#[cfg(test)]
mod tests;
