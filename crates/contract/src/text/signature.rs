//! Demangled names -> their parts: the qualified name, without return type and parameters; the same
//! name however a tool spells it; and at most so many characters of it, the function's name last to go.

use crate::text::visible::shorten;

/// What compilers and demanglers call a namespace without a name.
const ANONYMOUS: [&str; 2] = ["(anonymous namespace)", "<unnamed>"];
/// How it is written while brackets are counted.
const ANONYMOUS_HERE: &str = "{anonymous}";

/// `void ns::kernel<int>(float*)` is `ns::kernel<int>`. A name that has neither return type nor
/// parameters, or whose brackets do not pair up, stays.
pub(crate) fn without_signature(name: &str) -> String {
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
    if fits(name, limit) {
        return name.to_owned();
    }
    // Names that would be the same are told apart by a number, which has to stay.
    let (name, number) = match name.rsplit_once(" #") {
        Some((own, digits)) if digits.parse::<u32>().is_ok() && digits.len() + 2 < limit => {
            (own, format!(" #{digits}"))
        }
        _ => (name, String::new()),
    };
    fit(&without_signature(name), limit - number.len()) + &number
}

/// A kernel's name without return type and parameters in at most `limit` characters. Template
/// arguments go first, then namespaces.
pub(crate) fn fit(name: &str, limit: usize) -> String {
    let cut = [usize::MAX, 3, 2].into_iter().map(|depth| cut_arguments(name, depth));
    if let Some(short) = cut.into_iter().find(|short| fits(short, limit)) {
        return short;
    }
    let bare = cut_arguments(name, 1);
    // The function's name ends where its own arguments begin: behind the last bracket at depth 0.
    let head: String = name.chars().take(limit.saturating_sub(2)).collect();
    let own = bare.strip_suffix("<…>").filter(|own| !own.contains('<'));
    if own.is_some_and(|own| head.starts_with(&format!("{own}<"))) {
        return head + "…>";
    }
    if fits(&bare, limit) {
        return bare;
    }
    let mut rest = bare.as_str();
    while let Some((_, inner)) = rest.split_once("::") {
        rest = inner;
        let without = format!("…{rest}");
        if fits(&without, limit) {
            return without;
        }
    }
    shorten(rest, limit)
}

fn fits(name: &str, limit: usize) -> bool {
    name.chars().count() <= limit
}

/// Replaces what stands within `depth` or more pairs of angle brackets by `…`. A name whose
/// brackets do not pair up (`operator<`, for instance) stays whole.
pub(crate) fn cut_arguments(name: &str, depth: usize) -> String {
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
    use super::*;
    use proptest::prelude::*;

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
