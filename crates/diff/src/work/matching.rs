//! Kernels without a partner of their own name -> pairs that do the same work under other names.
//!
//! First those whose names only builds or demanglers spell differently, then names that autotuning
//! chose: class, number format and calls per unit have to be the same, and among several the order in
//! which they first ran decides. A grid says nothing here: it follows the tiles that were tuned.

use std::collections::{BTreeMap, HashSet};

use super::gather::Key;
use super::tuned::{format, is_tuned, stem};
use crate::comparison::MatchedBy;

/// Relative difference up to which calls per unit are the same: cold instances have a few more.
const SAME_CALLS: f64 = 0.01;

/// A kernel that needs a partner.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate<'c> {
    pub(super) key: &'c Key,
    pub(super) demangled: &'c str,
    pub(super) class: &'c str,
    pub(super) calls: f64,
    pub(super) ns: f64,
    pub(super) first_start: Option<u64>,
}

/// Pairs of one before and one after; no kernel is in two.
pub(super) fn pair(
    before: &[Candidate<'_>],
    after: &[Candidate<'_>],
) -> Vec<(Key, Key, MatchedBy)> {
    let mut pairs = Pairs { found: Vec::new(), taken: HashSet::new() };
    let spelled = |kernel: &Candidate<'_>| {
        // Without letters there is nothing to go by.
        kernel.demangled.contains(char::is_alphanumeric).then(|| kernel.demangled.to_owned())
    };
    pairs.add(before, after, MatchedBy::Spelling, spelled, |one, all| all == 1 && one == 1, false);
    let tuned = |kernel: &Candidate<'_>| is_tuned(kernel.demangled) && !kernel.class.is_empty();
    let by_stem = |kernel: &Candidate<'_>| {
        let key = format!("{}\n{}", kernel.class, stem(kernel.demangled));
        tuned(kernel).then_some(key)
    };
    pairs.add(before, after, MatchedBy::TunedName, by_stem, |_, _| true, true);
    // What no class is known of may be anything.
    let by_class = |kernel: &Candidate<'_>| {
        (tuned(kernel) && kernel.class != "other").then(|| kernel.class.to_owned())
    };
    pairs.add(before, after, MatchedBy::ClassAndCalls, by_class, |_, _| true, true);
    pairs.found
}

struct Pairs<'c> {
    found: Vec<(Key, Key, MatchedBy)>,
    taken: HashSet<(bool, &'c Key)>,
}

impl<'c> Pairs<'c> {
    /// Pairs kernels with the same `group` where its sizes are `sound`.
    fn add(
        &mut self,
        before: &[Candidate<'c>],
        after: &[Candidate<'c>],
        by: MatchedBy,
        group: impl Fn(&Candidate<'c>) -> Option<String>,
        sound: impl Fn(usize, usize) -> bool,
        calls_decide: bool,
    ) {
        let grouped = |kernels: &[Candidate<'c>],
                       is_after: bool,
                       taken: &HashSet<(bool, &'c Key)>| {
            let mut groups: BTreeMap<String, Vec<Candidate<'c>>> = BTreeMap::new();
            for kernel in kernels.iter().filter(|kernel| !taken.contains(&(is_after, kernel.key))) {
                if let Some(group) = group(kernel) {
                    groups.entry(group).or_default().push(*kernel);
                }
            }
            groups.values_mut().for_each(|kernels| in_order(kernels));
            groups
        };
        let mut new = grouped(after, true, &self.taken);
        for (group, old) in grouped(before, false, &self.taken) {
            let Some(new) = new.get_mut(&group) else { continue };
            if !sound(old.len(), new.len()) {
                continue;
            }
            for kernel in old {
                let fits = |other: &Candidate<'c>| {
                    !calls_decide
                        || (same_calls(kernel.calls, other.calls) && same_format(&kernel, other))
                };
                let Some(at) = new.iter().position(fits) else { continue };
                let other = new.remove(at);
                self.taken.insert((false, kernel.key));
                self.taken.insert((true, other.key));
                self.found.push((kernel.key.clone(), other.key.clone(), by));
            }
        }
    }
}

/// By position in the stage; where that is not known of all, the longest first.
fn in_order(kernels: &mut [Candidate<'_>]) {
    if kernels.iter().all(|kernel| kernel.first_start.is_some()) {
        kernels.sort_by_key(|kernel| kernel.first_start);
    } else {
        kernels.sort_by(|a, b| b.ns.total_cmp(&a.ns));
    }
}

fn same_calls(a: f64, b: f64) -> bool {
    (a - b).abs() <= SAME_CALLS * a.max(b)
}

/// A name that says no format fits any.
fn same_format(a: &Candidate<'_>, b: &Candidate<'_>) -> bool {
    match (format(a.demangled), format(b.demangled)) {
        (Some(a), Some(b)) => a == b,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::WorkKind;

    fn matched(before: &[(&str, &str, f64)], after: &[(&str, &str, f64)]) -> Vec<String> {
        let keys = |kernels: &[(&str, &str, f64)]| -> Vec<Key> {
            let key = |name: &str| Key { kind: WorkKind::Kernel, name: name.to_owned() };
            kernels.iter().map(|(name, ..)| key(name)).collect()
        };
        let (old, new) = (keys(before), keys(after));
        fn candidates<'c>(keys: &'c [Key], of: &[(&str, &'c str, f64)]) -> Vec<Candidate<'c>> {
            let candidate =
                |(at, (key, kernel)): (usize, (&'c Key, &(&str, &'c str, f64)))| Candidate {
                    key,
                    demangled: &key.name,
                    class: kernel.1,
                    calls: kernel.2,
                    ns: 1.0,
                    first_start: Some(at as u64),
                };
            keys.iter().zip(of).enumerate().map(candidate).collect()
        }
        let pairs = pair(&candidates(&old, before), &candidates(&new, after));
        pairs.into_iter().map(|(a, b, by)| format!("{} -> {} {by:?}", a.name, b.name)).collect()
    }

    #[test]
    fn tuned_kernels_find_their_successors() {
        let before = [
            ("nvjet_sm90_tst_64x8_2x1_v_bz_TNT", "gemm", 512.0),
            ("nvjet_sm90_tst_64x16_4x1_v_bz_TNT", "gemm", 16.0),
            ("cutlass_80_simt_sgemm_128x32_8x5_nn_align1", "gemm", 1.0),
            ("ampere_fp16_s16816gemm_fp16_64x64_nn", "gemm", 7.0),
            ("triton_poi_fused_add_0", "elementwise", 32.0),
        ];
        let after = [
            ("nvjet_sm90_tst_256x8_2x1_v_bz_TNT", "gemm", 16.1),
            ("nvjet_sm90_tst_128x8_2x1_v_bz_TNN", "gemm", 512.0),
            ("ampere_sgemm_32x32_sliced1x4_tn", "gemm", 1.0),
            ("nvjet_sm90_tst_8x8_v_bz_TNT", "gemm", 7.0),
            ("triton_poi_fused_add_4", "elementwise", 32.0),
        ];
        assert_eq!(
            matched(&before, &after),
            [
                "triton_poi_fused_add_0 -> triton_poi_fused_add_4 TunedName",
                "nvjet_sm90_tst_64x8_2x1_v_bz_TNT -> nvjet_sm90_tst_128x8_2x1_v_bz_TNN TunedName",
                "nvjet_sm90_tst_64x16_4x1_v_bz_TNT -> nvjet_sm90_tst_256x8_2x1_v_bz_TNT TunedName",
                // Not the one of another number format.
                "cutlass_80_simt_sgemm_128x32_8x5_nn_align1 -> ampere_sgemm_32x32_sliced1x4_tn ClassAndCalls",
            ]
        );
    }

    #[test]
    fn what_nobody_tuned_has_no_successor() {
        let none: [String; 0] = [];
        let (a, b) = ([("my_add", "elementwise", 4.0)], [("my_mul", "elementwise", 4.0)]);
        assert_eq!(matched(&a, &b), none);
        let (a, b) = ([("nvjet_sm90_tst_1x1", "gemm", 4.0)], [("nvjet_sm90_tst_2x2", "gemm", 5.0)]);
        assert_eq!(matched(&a, &b), none, "other calls");
        let (a, b) = ([("nvjet_sm90_tst_1x1", "", 4.0)], [("nvjet_sm90_tst_2x2", "", 4.0)]);
        assert_eq!(matched(&a, &b), none, "no class");
    }
}
