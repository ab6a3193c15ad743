//! Names of ranges: what they have in common, without what tells one call from the next, and whose they are.

use std::borrow::Cow;

const UUID: [usize; 5] = [8, 4, 4, 4, 12];
/// Hexadecimal digits from which a word is a hash, and from which it is one if it has both digits
/// and letters.
const HASH: usize = 8;
const SHORT_HASH: usize = 7;
/// Letters and digits from which a word that mixes them is an identifier, and how often it does.
const IDENTIFIER: usize = 16;
const MIXES: usize = 3;

/// Name of the empty range whose fields record the times, tokens and steps of a request of an
/// inference engine. It is a record, not a stage.
pub const REQUEST_RANGE: &str = "stage2.request";
/// How the name of a range begins that is open while nodes of a CUDA graph are captured. The path of the
/// module that launches them follows. No work runs in such a range, so it is not a stage.
pub const MODULE_RANGE: &str = "stage2.module ";

/// Whether a range of this name is a record of ours, and no range of the workload.
pub fn is_record(name: &[u8]) -> bool {
    name == REQUEST_RANGE.as_bytes() || name.starts_with(MODULE_RANGE.as_bytes())
}

/// What several names have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The name with a `*` in place of each part that differs.
    pub text: Vec<u8>,
    /// A UUID or a hash is among these parts, which no two things share.
    pub has_identifier: bool,
}

/// The pattern of a name; nothing where it has no number and no identifier.
///
/// A program that puts the number of a step or the identifier of a request into the name of a range has as many
/// names as steps or requests. What reads such names joins them under their pattern where there are many.
pub fn pattern(name: &[u8]) -> Option<Pattern> {
    let mut found = Pattern { text: Vec::with_capacity(name.len()), has_identifier: false };
    let mut is_pattern = false;
    let mut rest = name;
    while let Some(&first) = rest.first() {
        let uuid = uuid(rest);
        let word = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        let length = uuid.unwrap_or(word.max(1));
        let (part, behind) = rest.split_at(length.min(rest.len()));
        rest = behind;
        if uuid.is_some() || is_identifier(part) {
            found.has_identifier = true;
            is_pattern = true;
            star(&mut found.text);
        } else if !first.is_ascii_alphanumeric() {
            found.text.push(first);
        } else {
            for &byte in part {
                match byte.is_ascii_digit() {
                    true => star(&mut found.text),
                    false => found.text.push(byte),
                }
                is_pattern |= byte.is_ascii_digit();
            }
        }
    }
    is_pattern.then_some(found)
}

/// The pattern of a text, or the text where it has none.
pub fn pattern_of(name: &str) -> Cow<'_, str> {
    match pattern(name.as_bytes()) {
        // Only whole ASCII characters were replaced.
        Some(pattern) => Cow::Owned(String::from_utf8_lossy(&pattern.text).into_owned()),
        None => Cow::Borrowed(name),
    }
}

fn star(text: &mut Vec<u8>) {
    if !text.ends_with(b"*") {
        text.push(b'*');
    }
}

/// The length of a UUID at the start of `text`, which no further letter or digit follows.
fn uuid(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    for (group, length) in UUID.iter().enumerate() {
        if group > 0 {
            text.get(at).filter(|&&byte| byte == b'-')?;
            at += 1;
        }
        let digits = text.get(at..at + length)?;
        digits.iter().all(u8::is_ascii_hexdigit).then_some(())?;
        at += length;
    }
    (!text.get(at).is_some_and(u8::is_ascii_alphanumeric)).then_some(at)
}

/// Whether a word is a hash, or something else that a program makes to tell things apart.
fn is_identifier(word: &[u8]) -> bool {
    let hexadecimal = word.strip_prefix(b"0x").unwrap_or(word);
    let has_letter = hexadecimal.iter().any(u8::is_ascii_alphabetic);
    let has_digit = hexadecimal.iter().any(u8::is_ascii_digit);
    if has_letter && hexadecimal.iter().all(u8::is_ascii_hexdigit) {
        let length = hexadecimal.len();
        return length >= HASH || has_digit && length >= SHORT_HASH;
    }
    let mixes = word.windows(2).filter(|pair| {
        let [a, b] = pair else { return false };
        a.is_ascii_digit() != b.is_ascii_digit()
    });
    word.len() >= IDENTIFIER && mixes.count() >= MIXES
}

/// What PyTorch appends before a number.
const NUMBERS: [&[u8]; 3] = [b", seq = ", b", stashed seq = ", b", op_id = "];
/// What it appends before lists of numbers.
const LISTS: [&[u8]; 2] = [b", sizes = [", b", input_op_ids = ["];

/// `name` without sequence number, operator id, sizes and ids of inputs, where PyTorch appended them.
///
/// PyTorch's NVTX ranges are called `aten::linear, seq = 5, op_id = 7`: every call has its own name. Ten
/// thousand calls of an operator must neither fill a table of names nor be ten thousand operators, so collector
/// and launcher leave out the same.
pub fn without_instance(name: &[u8]) -> &[u8] {
    let mut from = 0;
    while let Some(at) = name.get(from..).and_then(|rest| rest.iter().position(|&b| b == b',')) {
        let comma = from + at;
        let (front, rest) = name.split_at(comma);
        if !front.is_empty() && is_suffix(rest) {
            return front;
        }
        from = comma + 1;
    }
    name
}

/// [`without_instance`] for text.
pub fn without_instance_str(name: &str) -> &str {
    // It ends before a comma, which is no part of another character.
    name.get(..without_instance(name.as_bytes()).len()).unwrap_or(name)
}

/// Whether `rest` is nothing but what PyTorch appends.
fn is_suffix(mut rest: &[u8]) -> bool {
    while !rest.is_empty() {
        rest = if let Some(number) = NUMBERS.iter().find_map(|key| rest.strip_prefix(*key)) {
            let digits = number.iter().take_while(|b| b.is_ascii_digit()).count();
            match number.get(digits..) {
                Some(behind) if digits > 0 => behind,
                _ => return false,
            }
        } else if let Some(list) = LISTS.iter().find_map(|key| rest.strip_prefix(*key)) {
            after_list(list)
        } else {
            return false;
        };
    }
    true
}

/// What follows the numbers, commas and brackets of a list; another list begins with its key.
fn after_list(list: &[u8]) -> &[u8] {
    let of_list = |b: u8| b.is_ascii_digit() || b"[](), -".contains(&b);
    let length = list.iter().take_while(|&&b| of_list(b)).count();
    match list.get(length) {
        None => &[],
        // The `, ` of the key looked like a part of the list.
        Some(_) => list.get(length.saturating_sub(2)..).unwrap_or_default(),
    }
}

/// NVTX domains of CUDA libraries and frameworks, whose ranges are never stages of the user's program.
/// This is one string and not an array, because the relocations of an array make the collector larger.
const LIBRARY_DOMAINS: &str = "NCCL TSL CCCL cuBLAS cuBLASLt cuDNN cuSOLVER cuSPARSE cuFFT cuTENSOR cuRAND \
                               NVSHMEM libnvshmem cuFile UCX NPP";

/// Whether a domain is that of a CUDA library or a framework. Upper and lower case count alike,
/// because versions of a library differ in it.
pub fn is_library_domain(domain: &[u8]) -> bool {
    LIBRARY_DOMAINS.split(' ').any(|known| domain.eq_ignore_ascii_case(known.as_bytes()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_of_one_kind_have_one_pattern() {
        for (names, text, has_identifier) in [
            (&["step 17", "step 3"][..], "step *", false),
            (&["leaf.0", "leaf.999"], "leaf.*", false),
            (&["layer_3_of_32", "layer_31_of_32"], "layer_*_of_*", false),
            (
                &["execute_context_13(6656)_generation_3(3)"],
                "execute_context_*(*)_generation_*(*)",
                false,
            ),
            (
                &[
                    "request-16e3d6d0-1b2c-4d5e-8f90-a1b2c3d4e5f6",
                    "request-deadbeef-cafe-abcd-1234-000000000000",
                    "request-16e3d6d01b2c4d5e8f90a1b2c3d4e5f6",
                ],
                "request-*",
                true,
            ),
            (&["request-16e3d6d0-7", "request-abcdefab-12"], "request-*-*", true),
            (&["commit 344aac04", "commit 198fcffa"], "commit *", true),
            (&["at 0x7f12ab"], "at *x*f*ab", false),
            (&["at 0x7f12ab34"], "at *", true),
            (&["01ARZ3NDEKTSV4RRFFQ69G5FAV"], "*", true),
        ] {
            for name in names {
                let text = text.as_bytes().to_vec();
                assert_eq!(
                    pattern(name.as_bytes()),
                    Some(Pattern { text, has_identifier }),
                    "{name}"
                );
            }
        }
        assert_eq!(pattern(b"request-12345678").map(|of| of.text), Some(b"request-*".to_vec()));
    }

    #[test]
    fn names_of_things_are_no_patterns() {
        for name in ["decode", "facade", "aten::add_", "attn qkv", "\u{e4}\u{f6}", "", "feed"] {
            assert_eq!(pattern(name.as_bytes()), None, "{name}");
            assert_eq!(pattern_of(name), name);
        }
        assert_eq!(pattern_of("bf16 \u{e4}7"), "bf* \u{e4}*");
    }

    #[test]
    fn what_pytorch_appends_goes() {
        for suffix in [
            "",
            ", op_id = 7",
            ", seq = 5",
            ", seq = 5, op_id = 7",
            ", stashed seq = 12, seq = 0",
            ", seq = 0, op_id = 3, sizes = [[2, 7], [], [-1]]",
            ", op_id = 3, sizes = [[2, 7]], input_op_ids = [(1,0), (2,1)]",
            ", op_id = 3, sizes = [[2, 7",
        ] {
            for name in
                ["aten::linear", "autograd::engine::evaluate_function: AddBackward0", "a, b"]
            {
                assert_eq!(without_instance_str(&format!("{name}{suffix}")), name, "{suffix}");
            }
        }
    }

    #[test]
    fn other_names_stay() {
        for name in [
            "",
            "prefill",
            ", seq = 5",
            "step, seq = x",
            "step, seq = ",
            "step, seq = 5 of 6",
            "step, op_id = 7, part 2",
            "f(a, b)",
            "x, sizes = [a]",
            "größe, ",
        ] {
            assert_eq!(without_instance_str(name), name);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_beginning_of_them(name in prop::collection::vec(any::<u8>(), 0..60),
                                              text in "(a|, seq = |[0-9]|, sizes = \\[|\\]|ö){0,9}") {
            prop_assert!(name.starts_with(without_instance(&name)));
            let kept = without_instance_str(&text);
            prop_assert!(text.starts_with(kept));
            prop_assert_eq!(kept.is_empty(), text.is_empty());
            let kept = if kept.is_empty() { "x" } else { kept };
            let longer = format!("{kept}, op_id = 1");
            prop_assert_eq!(without_instance_str(&longer), kept, "idempotent");
        }
    }

    #[test]
    fn libraries_are_known_in_any_case_and_nothing_else_is() {
        for domain in ["NCCL", "nccl", "TSL", "CCCL", "cuBLAS", "CUBLAS", "cuDNN", "cuTENSOR"] {
            assert!(is_library_domain(domain.as_bytes()), "{domain}");
        }
        for domain in ["", "my.NCCL", "NCCL2", "vllm"] {
            assert!(!is_library_domain(domain.as_bytes()), "{domain}");
        }
    }
}
