//! Mangled kernel names -> names for people: demangled in full, and shortened to stay legible.

use std::fmt::{self, Write as _};

use cpp_demangle::{DemangleOptions, Symbol};

use serde::{Deserialize, Serialize};

use crate::text::signature::{fit, without_signature};
use crate::text::visible;

/// Mangled names longer than this stay as they are.
const MANGLED_LIMIT_BYTES: usize = 32 * 1024;
/// A demangled name longer than this is not worth having: names can be made that grow without
/// end. Such a name stays mangled.
const DEMANGLED_LIMIT_BYTES: usize = 64 * 1024;
/// Depth to which a name may nest, for the demangler's stack.
const RECURSION_LIMIT: u32 = 128;
/// Characters of a short name.
const SHORT_LIMIT: usize = 100;

/// The name of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelName {
    /// As CUPTI gave it.
    pub mangled: String,
    /// Demangled in full; as CUPTI gave it where that cannot be done.
    pub demangled: String,
    /// Demangled and shortened: without parameters, with template arguments cut.
    pub short: String,
}

/// All three forms of a name, as visible text.
pub fn kernel_name(mangled: &[u8]) -> KernelName {
    let visible = visible::visible(mangled);
    let full = DemangleOptions::new().recursion_limit(RECURSION_LIMIT);
    let demangled =
        demangle(mangled, full).map_or_else(|| visible.clone(), |s| visible::visible(s.as_bytes()));
    let bare = full.no_params().no_return_type().hide_expression_literal_types();
    let name = match demangle(mangled, bare) {
        Some(name) => visible::visible(name.as_bytes()),
        // Some captures hold demangled names only.
        None if visible.contains('(') => without_signature(&visible),
        None => visible.clone(),
    };
    KernelName { short: short(&name), mangled: visible, demangled }
}

fn demangle(mangled: &[u8], options: DemangleOptions) -> Option<String> {
    if mangled.len() > MANGLED_LIMIT_BYTES {
        return None;
    }
    let name = std::str::from_utf8(mangled).ok()?;
    let mut out = Limited::default();
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        // The alternate form leaves the hash out.
        write!(out, "{rust:#}").ok()?;
    } else if name.starts_with("_Z") {
        Symbol::new(mangled).ok()?.structured_demangle(&mut out, &options).ok()?;
    }
    (!out.0.is_empty()).then_some(out.0)
}

/// A string that refuses to grow beyond [`DEMANGLED_LIMIT_BYTES`].
#[derive(Default)]
struct Limited(String);

impl fmt::Write for Limited {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.0.len() + part.len() > DEMANGLED_LIMIT_BYTES {
            return Err(fmt::Error);
        }
        self.0.push_str(part);
        Ok(())
    }
}

/// Leaves out what tells kernels apart least, until the name is legible: namespaces, parameters and
/// lambdas within template arguments, then the deepest arguments, then the last ones.
fn short(name: &str) -> String {
    let name = name.replace(" >", ">").replace("(anonymous namespace)", "{anonymous}");
    if name.chars().count() <= SHORT_LIMIT {
        return name;
    }
    fit(&tidy_arguments(&name), SHORT_LIMIT)
}

/// Within template arguments, leaves of `at::native::silu(at::Tensor&)::{lambda()#1}::operator()()
/// const` only `silu`.
fn tidy_arguments(name: &str) -> String {
    let (mut out, mut word) = (String::with_capacity(name.len()), String::new());
    let (mut open, mut left_out) = (0usize, 0usize);
    for c in name.chars() {
        if open > 0 {
            match c {
                '(' | '{' => left_out += 1,
                ')' | '}' => left_out = left_out.saturating_sub(1),
                _ if left_out > 0 => {}
                c if c.is_alphanumeric() || c == '_' || c == ':' => word.push(c),
                _ => push_word(&mut out, std::mem::take(&mut word), c),
            }
            if left_out > 0 || matches!(c, ')' | '}') || !word.is_empty() {
                continue;
            }
        }
        match c {
            '<' => open += 1,
            '>' => open = open.saturating_sub(1),
            ' ' if out.ends_with([' ', '<']) => continue,
            _ => {}
        }
        out.push(c);
    }
    push_word(&mut out, word, ' ');
    out
}

/// Adds the last part of a path of names; nothing for `const` and for a return type `void`.
fn push_word(out: &mut String, word: String, next: char) {
    let last = word.rsplit("::").find(|part| !matches!(*part, "" | "operator"));
    match last {
        None => {}
        Some("const") => out.truncate(out.trim_end().len()),
        Some("void") if next == ' ' => {}
        Some(last) => {
            if word.starts_with("::") && out.ends_with('>') {
                out.push_str("::");
            }
            out.push_str(last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn demangles_cpp_and_rust_and_leaves_the_rest() {
        let cases = [
            ("_Z3addPfS_i", "add(float*, float*, int)", "add"),
            ("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt", ""),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo", "mycrate::foo"),
            ("triton_red_fused_3", "triton_red_fused_3", "triton_red_fused_3"),
            ("_Znope", "_Znope", "_Znope"),
            ("", "", ""),
        ];
        for (mangled, demangled, short) in cases {
            let name = kernel_name(mangled.as_bytes());
            assert_eq!(name.mangled, mangled);
            assert_eq!(name.demangled, demangled);
            if !short.is_empty() {
                assert_eq!(name.short, short);
            }
        }
    }

    #[test]
    fn a_real_kernel_name_stays_legible() {
        let name = kernel_name(
            b"_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_",
        );
        assert_eq!(
            name.short,
            "at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add<float>, array<char*, 3>>"
        );
        assert!(name.demangled.starts_with("void at::native::vectorized_elementwise_kernel<4, "));
    }

    #[test]
    fn a_name_that_a_tool_demangled_has_a_short_form() {
        let name = kernel_name(b"void gemvx::kernel<int, (anonymous namespace)::P>(float*, int)");
        assert_eq!(name.short, "gemvx::kernel<int, {anonymous}::P>");
        assert!(name.mangled == name.demangled && name.mangled.starts_with("void "));
    }

    #[test]
    fn arguments_are_left_with_what_tells_kernels_apart() {
        let cases = [
            (
                "k<8, at::(anonymous namespace)::silu(at::Tensor&)::{lambda()#1}::operator()() \
                 const::{lambda(float)#1}, std::array<char*, 2> >",
                "k<8, silu, array<char*, 2>>",
            ),
            (
                "k<128, void at::impl<at::Add<float> >(at::Iter&, at::Add<float> const&)::{lambda(int)#1}>",
                "k<128, impl<Add<float>>>",
            ),
            (
                "k<cub::hub<long>::Policy1000, long const*, void>",
                "k<hub<long>::Policy1000, long*, void>",
            ),
            ("ns::plain", "ns::plain"),
        ];
        for (name, expected) in cases {
            let name = name.replace(" >", ">").replace("(anonymous namespace)", "{anonymous}");
            assert_eq!(tidy_arguments(&name), expected);
        }
    }

    #[test]
    fn names_that_grow_without_end_stay_mangled() {
        // Every parameter holds the one before it twice: 2^60 in the last.
        let mut bomb = String::from("_Z1f1aI1b1bE");
        for i in 1..60u32 {
            let id = |n: u32| char::from_digit(n, 36).map(|c| c.to_ascii_uppercase());
            let high = id(i / 36).filter(|&c| c != '0').map_or(String::new(), String::from);
            let previous = format!("S{high}{}_", id(i % 36).unwrap());
            bomb.push_str(&format!("S_I{previous}{previous}E"));
        }
        assert!(Symbol::new(&bomb).is_ok(), "the name is valid");
        let name = kernel_name(bomb.as_bytes());
        assert_eq!((name.demangled.as_str(), name.short.as_str()), (bomb.as_str(), "f"));
        let long = "x".repeat(10_240);
        assert_eq!(kernel_name(long.as_bytes()).short.chars().count(), SHORT_LIMIT);
        assert_eq!(kernel_name(long.as_bytes()).demangled, long);
    }

    proptest! {
        #[test]
        fn any_bytes_give_short_visible_names(bytes in prop::collection::vec(any::<u8>(), 0..200), tail in "[A-Z0-9_a-z]{0,60}") {
            for bytes in [bytes, format!("_Z{tail}").into_bytes(), format!("_R{tail}").into_bytes()] {
                let name = kernel_name(&bytes);
                prop_assert!(name.short.chars().count() <= SHORT_LIMIT);
                prop_assert!(!name.demangled.chars().any(char::is_control));
            }
        }
    }
}
