//! Mangled kernel names -> names for people: demangled in full, shortened to stay legible, and in one spelling

use std::fmt::{self, Write as _};

use cpp_demangle::{DemangleOptions, Symbol};
use serde::{Deserialize, Serialize};

use crate::text::boilerplate;
use crate::text::visible::{self, shorten};

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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelName {
    /// A few characters of a hash of `demangled`, which stand for the kernel in every run; a report sets them.
    #[serde(default)]
    pub id: String,
    /// As CUPTI gave it.
    pub mangled: String,
    /// Demangled in full; as CUPTI gave it where that cannot be done.
    pub demangled: String,
    /// Demangled and shortened: what the kernel does, without parameters and wrappers, with template
    /// arguments cut.
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
    KernelName { short: short(&name), mangled: visible, demangled, ..KernelName::default() }
}

/// The name of a function of native code, without its parameters and as visible text.
pub fn function_name(mangled: &[u8]) -> String {
    let bare = DemangleOptions::new().recursion_limit(RECURSION_LIMIT).no_params().no_return_type();
    match demangle(mangled, bare) {
        Some(name) => visible::visible(name.as_bytes()),
        None => visible::visible(mangled),
    }
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
///
/// Of a wrapper, only the operation that it runs is kept: `elementwise_kernel<MulFunctor<float>>`.
fn short(name: &str) -> String {
    let name = name.replace(" >", ">").replace("(anonymous namespace)", ANONYMOUS_HERE);
    let tidy = boilerplate::plain_numbers(&tidy_arguments(boilerplate::bare(&name)));
    shorten_name(&boilerplate::operation(&tidy).unwrap_or(tidy), SHORT_LIMIT)
}

/// Within template arguments, leaves of `at::native::silu(at::Tensor&)::{lambda()#1}::operator()()
/// const` only `silu`.
fn tidy_arguments(name: &str) -> String {
    let (mut out, mut word) = (String::with_capacity(name.len()), String::new());
    let (mut open, mut left_out) = (0usize, 0usize);
    for c in name.chars() {
        if open > 0 {
            match c {
                // `&(op_add(float))` is `&op_add`.
                '(' if left_out == 0 && word.is_empty() && out.ends_with('&') => continue,
                '(' | '{' | '[' => left_out += 1,
                ')' | '}' | ']' => left_out = left_out.saturating_sub(1),
                _ if left_out > 0 => {}
                c if c.is_alphanumeric() || c == '_' || c == ':' => word.push(c),
                _ => push_word(&mut out, std::mem::take(&mut word), c),
            }
            if left_out > 0 || matches!(c, ')' | '}' | ']') || !word.is_empty() {
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

/// What compilers and demanglers call a namespace without a name.
const ANONYMOUS: [&str; 2] = ["(anonymous namespace)", "<unnamed>"];
/// How it is written while brackets are counted.
const ANONYMOUS_HERE: &str = "{anonymous}";

/// `void ns::kernel<int>(float*)` is `ns::kernel<int>`. A name that has neither return type nor
/// parameters, or whose brackets do not pair up, stays.
fn without_signature(name: &str) -> String {
    let name = ANONYMOUS.iter().fold(name.to_owned(), |name, is| name.replace(is, ANONYMOUS_HERE));
    let (mut open, mut start, mut end) = (0usize, 0, None);
    for (at, c) in name.char_indices() {
        match c {
            '<' | '(' | '[' | '{' => {
                if c == '(' && open == 0 && !name[..at].ends_with("operator") {
                    end = Some(at);
                }
                open += 1;
            }
            '>' | ')' | ']' | '}' => {
                match open.checked_sub(1) {
                    Some(left) => open = left,
                    None => return name,
                }
                let behind = name.get(at + 1..).unwrap_or_default();
                // What is in a function (a lambda) has a name behind the function's parameters.
                let inside = behind.starts_with("::") || behind.starts_with(" const::");
                match (open, end) {
                    (0, Some(_)) if inside => end = None,
                    (0, Some(_)) => break,
                    _ => {}
                }
            }
            ' ' if open == 0 && !name[at..].starts_with(" const::") => start = at + 1,
            _ => {}
        }
    }
    let end = end.unwrap_or(name.len());
    match name.get(start..end) {
        Some(part) if open == 0 && !part.is_empty() => part.to_owned(),
        _ => name,
    }
}

/// A kernel's name in at most `limit` characters. Return type and parameters go first, then template
/// arguments, then namespaces: the function's own name goes last.
pub fn shorten_kernel(name: &str, limit: usize) -> String {
    if is_within(name, limit) {
        return name.to_owned();
    }
    // The number at the end tells apart names that would otherwise be equal, so it stays.
    let (name, number) = match name.rsplit_once(" #") {
        Some((own, digits)) if digits.parse::<u32>().is_ok() && digits.len() + 2 < limit => {
            (own, format!(" #{digits}"))
        }
        _ => (name, String::new()),
    };
    shorten_name(&without_signature(name), limit - number.len()) + &number
}

/// A kernel's name without return type and parameters in at most `limit` characters. Template
/// arguments go first, then namespaces.
fn shorten_name(name: &str, limit: usize) -> String {
    let cut = [usize::MAX, 3, 2].into_iter().map(|depth| cut_arguments(name, depth));
    if let Some(short) = cut.into_iter().find(|short| is_within(short, limit)) {
        return short;
    }
    let bare = cut_arguments(name, 1);
    // The function's name ends where its own arguments begin: behind the last bracket at depth 0.
    let head: String = name.chars().take(limit.saturating_sub(2)).collect();
    let own = bare.strip_suffix("<…>").filter(|own| !own.contains('<'));
    if own.is_some_and(|own| head.starts_with(&format!("{own}<"))) {
        return head + "…>";
    }
    if is_within(&bare, limit) {
        return bare;
    }
    let mut rest = bare.as_str();
    while let Some((_, inner)) = rest.split_once("::") {
        rest = inner;
        let without = format!("…{rest}");
        if is_within(&without, limit) {
            return without;
        }
    }
    shorten(rest, limit)
}

fn is_within(name: &str, limit: usize) -> bool {
    name.chars().count() <= limit
}

/// Replaces what stands within `depth` or more pairs of angle brackets by `…`. A name whose
/// brackets do not pair up (`operator<`, for instance) stays whole.
fn cut_arguments(name: &str, depth: usize) -> String {
    let mut out = String::new();
    let mut open = 0usize;
    for c in name.chars() {
        if c == '>' {
            match open.checked_sub(1) {
                Some(left) => open = left,
                None => return name.to_owned(),
            }
        }
        if open < depth {
            out.push(c);
        }
        if c == '<' {
            open += 1;
            if open == depth {
                out.push('…');
            }
        }
    }
    if open == 0 { out } else { name.to_owned() }
}

/// One text for one kernel, however a demangler spells it: CUPTI's mangled names, demangled by us,
/// against the names that Nsight tools demangled. Left out are return types, parameters, namespaces,
/// `const`, blanks, and the types of literals; kept are the function, its template arguments, and the
/// numbers of lambdas. Different kernels may have one such text: who joins by it must see that it is
/// the only one.
pub fn comparable(demangled: &str) -> String {
    let name = without_signature(demangled).replace(ANONYMOUS_HERE, "");
    let mut out = String::with_capacity(name.len());
    // Everything in parentheses goes, but for the number of a lambda.
    let (mut round, mut inside) = (0usize, String::new());
    let mut rest = name.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '(' => {
                if round == 0 {
                    inside.clear();
                }
                round += 1;
            }
            ')' => round = round.saturating_sub(1),
            c if round > 0 => {
                inside.push(c);
                continue;
            }
            _ => {}
        }
        match c {
            '[' => out.push('['),
            // `[lambda(int) (instance 3)]` is `{lambda(int)#3}`.
            ']' => {
                let instance = inside.strip_prefix("instance ").unwrap_or_default();
                if out.ends_with('[') {
                    out.pop();
                }
                out.push('#');
                out.push_str(instance);
                inside.clear();
            }
            '{' | '}' | '(' | ')' | '&' => {}
            c if c.is_alphanumeric() || c == '_' => {
                let mut ident = String::from(c);
                while let Some(next) = rest.next_if(|c| c.is_alphanumeric() || *c == '_') {
                    ident.push(next);
                }
                push_ident(&mut out, &ident, rest.peek() == Some(&' '));
            }
            c if c.is_whitespace() => {}
            c => out.push(c),
        }
    }
    join(&out)
}

fn push_ident(out: &mut String, ident: &str, blank_follows: bool) {
    match ident {
        "const" | "volatile" | "lambda" | "instance" | "operator" => {}
        // A return type within template arguments; `void` alone is an argument.
        "void" if blank_follows => {}
        "true" => out.push('1'),
        "false" => out.push('0'),
        // `3ul` is 3.
        _ if ident.starts_with(|c: char| c.is_ascii_digit()) => {
            out.push_str(ident.trim_end_matches(['u', 'l', 'U', 'L']));
        }
        _ => out.push_str(ident),
    }
}

/// Drops namespaces and what is left between the parts of a lambda.
fn join(text: &str) -> String {
    let mut text = text.to_owned();
    while text.contains("::::") {
        text = text.replace("::::", "::");
    }
    let text = text.replace("::#", "#").replace("::>", ">").replace("::,", ",");
    let mut out = String::with_capacity(text.len());
    let mut ident = 0;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if c == ':' && rest.peek() == Some(&':') {
            rest.next();
            // `a<b>::c` keeps its first part: it is no namespace.
            out.truncate(out.len() - ident);
            if ident == 0 && out.ends_with('>') {
                out.push_str("::");
            }
            ident = 0;
            continue;
        }
        ident = if c.is_alphanumeric() || c == '_' { ident + c.len_utf8() } else { 0 };
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
        assert_eq!(name.short, "elementwise_kernel<CUDAFunctor_add<float>>");
        assert!(name.demangled.starts_with("void at::native::vectorized_elementwise_kernel<4, "));
    }

    #[test]
    fn a_name_that_a_tool_demangled_has_a_short_form() {
        let name = kernel_name(b"void gemvx::kernel<int, (anonymous namespace)::P>(float*, int)");
        assert_eq!(name.short, "gemvx::kernel<int, P>");
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
            (
                "k<&(op_add(float, float)), float, f()::[lambda() (instance 3)]>",
                "k<&op_add, float, f>",
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

    #[test]
    fn signatures_go_and_names_stay() {
        for (name, expected) in [
            (
                "void gemvx::kernel<int, float (*)(int)>(P<int>, float)",
                "gemvx::kernel<int, float (*)(int)>",
            ),
            ("at::<unnamed>::k<int>(T1)", "at::{anonymous}::k<int>"),
            ("void (anonymous namespace)::k(int)", "{anonymous}::k"),
            ("a::b<c>::operator()(int)", "a::b<c>::operator()"),
            ("nvjet_sm90_tst", "nvjet_sm90_tst"),
            ("_Z3addv", "_Z3addv"),
            ("operator<", "operator<"),
            ("a)b(", "a)b("),
            ("(x)", "(x)"),
            (
                "void f(int)::{lambda(int)#1}::operator()(int) const",
                "f(int)::{lambda(int)#1}::operator()",
            ),
            ("void f(g<int>", "void f(g<int>"),
            ("", ""),
        ] {
            assert_eq!(without_signature(name), expected, "{name}");
        }
    }

    #[test]
    fn the_functions_name_is_the_last_to_go() {
        let gemv = "void gemvx::kernel<int, int, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float, \
                    (bool)0, (bool)1>(cublasGemvParamsEx<int, float>)";
        assert_eq!(shorten_kernel(gemv, 40), "gemvx::kernel<int, int, __nv_bfloat16,…>");
        assert_eq!(
            shorten_kernel("void gemvx::kernel<int>(int)", 60),
            "void gemvx::kernel<int>(int)"
        );
        assert_eq!(shorten_kernel("void gemvx::kernel<int>(float*)", 20), "gemvx::kernel<int>");
        let numbered = "at::native::unrolled_elementwise_kernel<direct_copy_kernel_cuda> #2";
        assert_eq!(shorten_kernel(numbered, 40), "…unrolled_elementwise_kernel<…> #2");
        let deep =
            "at::native::elementwise_kernel<128, 4, gpu_kernel_impl_nocast<BinaryFunctor<float>>>";
        assert_eq!(shorten_kernel(deep, 40), "at::native::elementwise_kernel<128, 4,…>");
        let nested = "cub::Agent<Policy<float, 128>, int>::run_with_a_long_name<double, long>";
        assert_eq!(shorten_kernel(nested, 40), "cub::Agent<…>::run_with_a_long_name<…>");
        let spaces = "a_namespace::another_one::a_third_one::the_function<int, long, double>";
        assert_eq!(shorten_kernel(spaces, 30), "…a_third_one::the_function<…>");
        let plain = "a_very_long_function_name_without_any_namespace";
        assert_eq!(shorten_kernel(plain, 20), shorten(plain, 20));
    }

    #[test]
    fn one_kernel_has_one_comparable_name() {
        for (nsight, ours) in [
            (
                "void at::native::vectorized_elementwise_kernel<(int)4, \
                 at::native::CUDAFunctor_add<float>, std::array<char *, (unsigned long)3>>(int, T2, T3)",
                "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, \
                 std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)",
            ),
            (
                "void at::<unnamed>::k<int, at::arange(const c10::Scalar &)::[lambda() (instance 1)]::\
                 operator ()() const::[lambda(long) (instance 12)]>(T1, T2)",
                "void at::native::(anonymous namespace)::k<int, at::native::arange(c10::Scalar const&)::\
                 {lambda()#1}::operator()() const::{lambda(long)#12}>(int)",
            ),
            (
                "void k<f()::[lambda(float4, int *) (instance 2)]>(T1)",
                "void k<f()::{lambda(float4, int*)#2}>(int)",
            ),
            ("void k<(bool)1, (bool)0, void>(T1)", "void k<true, false, void>(int)"),
        ] {
            assert_eq!(comparable(nsight), comparable(ours), "{nsight}");
        }
        for (a, b) in [
            ("void k<float>(T1)", "void k<double>(T1)"),
            (
                "void k<f()::[lambda() (instance 1)]>(T1)",
                "void k<f()::[lambda() (instance 2)]>(T1)",
            ),
            ("void k<f()::{lambda()#1}>(int)", "void k<g()::{lambda()#1}>(int)"),
            ("void k<A<int>::P>(T1)", "void k<A<long>::P>(T1)"),
            ("void a(int)", "void b(int)"),
        ] {
            assert_ne!(comparable(a), comparable(b), "{a}");
        }
    }

    #[test]
    fn cutting_pairs_brackets() {
        assert_eq!(cut_arguments("a<b<c>, d>::e<f>", 1), "a<…>::e<…>");
        assert_eq!(cut_arguments("a<b<c>, d>", 2), "a<b<…>, d>");
        assert_eq!(cut_arguments("operator<", 1), "operator<");
        assert_eq!(cut_arguments("operator>", 1), "operator>");
    }

    proptest! {
        #[test]
        fn any_text_is_survived(name in "[a-z:<>(){}\\[\\]#0-9, *&é]{0,60}", limit in 0usize..50) {
            let _ = comparable(&name);
            prop_assert!(shorten_kernel(&name, limit).chars().count() <= limit.max(1));
        }
    }
}
