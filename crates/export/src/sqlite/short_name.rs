//! The demangled name of a kernel -> its bare name, as nsys shows it.

/// The bare name of a kernel, as nsys has it: without return type, namespaces, template arguments and
/// parameters.
pub(super) fn short_name(demangled: &str) -> &str {
    let mut depth = 0usize;
    let (mut start, mut end) = (0, None);
    let mut before = ' ';
    for (at, c) in demangled.char_indices() {
        match c {
            // `(anonymous namespace)` is no list of parameters.
            '(' if depth == 0 && (before == ':' || before == ' ') => depth += 1,
            '(' if depth == 0 => {
                end.get_or_insert(at);
                break;
            }
            '<' if depth == 0 => {
                end = Some(at);
                depth += 1;
            }
            '(' | '<' | '[' | '{' => depth += 1,
            ')' | '>' | ']' | '}' => depth = depth.saturating_sub(1),
            ':' | ' ' if depth == 0 => (start, end) = (at + 1, None),
            _ => {}
        }
        before = c;
    }
    let name = demangled.get(start..end.unwrap_or(demangled.len())).unwrap_or(demangled);
    if name.is_empty() { demangled } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_name_is_the_bare_one() {
        assert_eq!(short_name("void at::native::vectorized<4, float>(int)"), "vectorized");
        assert_eq!(short_name("gemm_128x128"), "gemm_128x128");
        let nested = "void at::native::(anonymous namespace)::elementwise<4>(int)";
        assert_eq!(short_name(nested), "elementwise");
        assert_eq!(short_name("void cub::Agent<int, a::b>::Kernel<3>(int*)"), "Kernel");
        assert_eq!(short_name("void f<(a)1>((anonymous namespace)::T)"), "f");
        assert_eq!(short_name("kernel()"), "kernel");
        assert_eq!(short_name("<lambda>"), "<lambda>");
    }
}
