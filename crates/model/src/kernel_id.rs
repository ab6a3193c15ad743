//! Short names for kernels that are the same in every run: the start of a hash of the full name.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};
use stage2_contract::order::IntoOrdered as _;
use stage2_contract::text::KernelName;

use crate::report::Report;

/// Characters of the hash in an id. Of a thousand kernels, two share them once in two thousand reports.
const ID_CHARS: usize = 6;
/// Base32 in lower case: no two of its characters look alike, unlike 0 and o.
const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
/// An id begins with it, so that none looks like a number to a spreadsheet (`5e2233`).
const FIRST: char = 'k';

/// The id of each of `names`: `k` and the first six characters of the SHA-256 of the demangled name, in
/// base32. Kernels whose hashes begin alike have as many characters more as it takes to tell them apart, so
/// that the short id is the start of the long one. Names that are equal have one id.
pub fn kernel_ids(names: &[KernelName]) -> Vec<String> {
    ids_of(names.iter().map(|name| digits(name.demangled.as_bytes())).collect())
}

fn ids_of(hashes: Vec<String>) -> Vec<String> {
    let mut sorted: Vec<&str> = hashes.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    sorted.dedup();
    // What begins most alike stands side by side.
    let mut lengths: BTreeMap<&str, usize> = sorted.iter().map(|hash| (*hash, ID_CHARS)).into_map();
    for pair in sorted.windows(2) {
        let &[one, other] = pair else { continue };
        let alike = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other);
        let needed = alike.count() + 1;
        for hash in [one, other] {
            lengths.entry(hash).and_modify(|length| *length = needed.max(*length));
        }
    }
    let id = |hash: &String| {
        let length = lengths.get(hash.as_str()).copied().unwrap_or(ID_CHARS);
        format!("{FIRST}{}", hash.get(..length).unwrap_or(hash))
    };
    hashes.iter().map(id).collect()
}

/// The SHA-256 of a name in base32.
fn digits(name: &[u8]) -> String {
    let (mut out, mut bits, mut held) = (String::new(), 0u32, 0u32);
    for byte in Sha256::digest(name) {
        // At most four bits are left over from the byte before.
        (bits, held) = ((bits << 8 | u32::from(byte)) & 0xfff, held + 8);
        while held >= 5 {
            held -= 5;
            let digit = DIGITS.get((bits >> held & 31) as usize).copied().unwrap_or_default();
            out.push(char::from(digit));
        }
    }
    out
}

impl Report {
    /// Gives the kernels their ids. Of a report of a version that had none, it adds them.
    pub fn set_kernel_ids(&mut self) {
        let ids = kernel_ids(&self.kernel_names);
        let of = |name_index: usize| ids.get(name_index).cloned().unwrap_or_default();
        for (name, id) in self.kernel_names.iter_mut().zip(&ids) {
            name.id.clone_from(id);
        }
        for row in &mut self.kernels {
            row.kernel_id = of(row.name_index);
        }
        for row in &mut self.stage_kernels {
            row.kernel_id = of(row.name_index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_contract::text::kernel_name;

    fn ids(names: &[&str]) -> Vec<String> {
        let names: Vec<KernelName> = names.iter().map(|n| kernel_name(n.as_bytes())).collect();
        kernel_ids(&names)
    }

    #[test]
    fn an_id_follows_from_the_full_name_alone() {
        // `printf gemm_kernel | sha256sum | xxd -r -p | base32`
        assert_eq!(ids(&["gemm_kernel"]), ["k4daz5i"]);
        assert_eq!(ids(&["rms_norm", "gemm_kernel", "gemm_kernel"])[1..], ["k4daz5i", "k4daz5i"]);
        let mangled = ids(&["_Z4copyPf", "copy(float*)"]);
        assert_eq!(mangled[0], mangled[1], "the demangled name counts");
        assert_eq!(ids(&["f<(unsigned char)1>"])[0].len(), 1 + ID_CHARS);
    }

    #[test]
    fn hashes_that_begin_alike_are_told_apart_by_more_characters() {
        let hashes = ["aaaaaabb", "aaaaaabc", "aaaaaacd", "zaaaaabb"].map(str::to_owned);
        let expected = ["kaaaaaabb", "kaaaaaabc", "kaaaaaac", "kzaaaaa"];
        assert_eq!(ids_of(hashes.to_vec()), expected);
        // Whatever the order, and with equal ones.
        let hashes = ["zaaaaabb", "aaaaaacd", "zaaaaabb", "aaaaaabb"].map(str::to_owned);
        assert_eq!(ids_of(hashes.to_vec()), ["kzaaaaa", "kaaaaaac", "kzaaaaa", "kaaaaaab"]);
        assert_eq!(ids_of(Vec::new()), Vec::<String>::new());
    }

    #[test]
    fn rows_have_the_ids_of_their_names() {
        use crate::rows::{KernelRow, StageKernelRow};
        let row = |name_index| KernelRow { name_index, ..KernelRow::default() };
        let mut report = Report {
            kernel_names: vec![kernel_name(b"rms_norm"), kernel_name(b"gemm_kernel")],
            kernels: vec![row(1), row(7)],
            stage_kernels: vec![StageKernelRow { name_index: 1, ..StageKernelRow::default() }],
            ..Report::default()
        };
        report.set_kernel_ids();
        assert_eq!(report.kernel_names[1].id, "k4daz5i");
        assert_eq!(report.kernels[0].kernel_id, "k4daz5i");
        assert_eq!(report.kernels[1].kernel_id, "", "a broken report has no such name");
        assert_eq!(report.stage_kernels[0].kernel_id, "k4daz5i");
    }
}
