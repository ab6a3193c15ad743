//! Boilerplate in the names of kernels: wrappers that run an operation named by one of their
//! template arguments, and namespaces that all kernels of a library share.

/// The wrappers of PyTorch (vectorisation is not an operation), CUTLASS and ggml: templates whose
/// kernels run an operation named by one of their arguments. Each line has three words:
///
/// - the name of the template, qualified if the bare name is ambiguous; a final `*` matches any suffix
/// - the wrapper name to show around the argument; `-` to show the argument alone
/// - the zero-based index of the argument
///
/// This is one string and not an array of strings, because each reference in an array adds a
/// relocation of 24 bytes to the collector.
const WRAPPERS: &str = "\
vectorized_elementwise_kernel elementwise_kernel 1
vectorized_templated_elementwise_kernel elementwise_kernel 1
unrolled_elementwise_kernel elementwise_kernel 0
elementwise_kernel elementwise_kernel 2
elementwise_kernel_manual_unroll elementwise_kernel 2
elementwise_kernel_with_index elementwise_kernel 1
index_elementwise_kernel elementwise_kernel 2
_scatter_gather_elementwise_kernel elementwise_kernel 2
distribution_elementwise_grid_stride_kernel distribution_kernel 2
reduce_kernel reduce_kernel 2
gpu_kernel_impl - 0
gpu_kernel_impl_nocast - 0
gpu_index_kernel - 0
AUnaryFunctor - 3
BUnaryFunctor - 3
BinaryFunctor - 3
ReduceOp - 1
func_wrapper_t - 1
cutlass::device_kernel - 0
cutlass::Kernel - 0
cutlass::Kernel2 - 0
enable_sm* - 0
k_bin_bcast k_bin_bcast 0
k_bin_bcast_unravel k_bin_bcast 0
unary_op_kernel unary_op_kernel 0
unary_gated_op_kernel unary_gated_op_kernel 0
";

/// Maximum number of nested wrappers to remove.
const MOST_WRAPPERS: usize = 8;

/// Namespaces in front of a name that do not describe the operation.
const NAMESPACES: [&str; 4] = ["at::native::", "at::", "at_cuda_detail::", "{anonymous}::"];

/// Start of the suffix that CuTe's Python compiler adds to a name: types and layouts of arguments.
const CUTE_ARGUMENTS: &str = "_object_at_";

/// The name without namespaces in front that do not describe the operation, and without arguments
/// in its words.
pub(super) fn bare<'a>(mut name: &'a str) -> &'a str {
    let inside = |name: &'a str| NAMESPACES.iter().find_map(|space| name.strip_prefix(space));
    while let Some(rest) = inside(name).filter(|rest| !rest.is_empty()) {
        name = rest;
    }
    match name.split_once(CUTE_ARGUMENTS) {
        Some((own, _)) if !own.is_empty() => own,
        _ => name,
    }
}

/// The operation of a wrapped kernel; `None` if no wrapper is known. Arguments are names without
/// paths and lambdas.
pub(super) fn operation(name: &str) -> Option<String> {
    unwrapped(name, MOST_WRAPPERS)
}

fn unwrapped(name: &str, most: usize) -> Option<String> {
    let (path, arguments) = name.strip_suffix('>')?.split_once('<')?;
    let is = |known: &str| match known.strip_suffix('*') {
        Some(start) => path.starts_with(start),
        None => {
            path.strip_suffix(known).is_some_and(|space| space.is_empty() || space.ends_with("::"))
        }
    };
    let (shown, place) = WRAPPERS.lines().filter(|_| most > 0).find_map(|line| {
        let (known, rest) = line.split_once(' ')?;
        is(known).then(|| rest.split_once(' ')).flatten()
    })?;
    let argument = argument(arguments, place.parse().ok()?)?.trim_matches([' ', '&']);
    // A literal alone does not describe an operation.
    argument.contains(|c: char| c.is_alphabetic()).then_some(())?;
    let operation = unwrapped(argument, most - 1).unwrap_or_else(|| argument.to_owned());
    Some(match shown {
        "-" => operation,
        shown => format!("{shown}<{operation}>"),
    })
}

/// One of several arguments; `None` if the brackets do not match.
fn argument(arguments: &str, place: usize) -> Option<&str> {
    let (mut open, mut at, mut start, mut found) = (0usize, 0, 0, None);
    for (end, c) in arguments.char_indices().chain([(arguments.len(), ',')]) {
        match c {
            '<' => open += 1,
            '>' => open = open.checked_sub(1)?,
            ',' if open == 0 => {
                if at == place {
                    found = arguments.get(start..end);
                }
                (at, start) = (at + 1, end + 1);
            }
            _ => {}
        }
    }
    found.filter(|_| open == 0)
}

/// Replaces CUTLASS's integer types, `C<64>`, by their numbers.
pub(super) fn plain_numbers(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some((before, behind)) = rest.split_once("C<") {
        out.push_str(before);
        let is_word = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
        let number = behind.split_at_checked(digits).filter(|_| digits > 0 && !is_word);
        rest = match number.and_then(|(number, rest)| Some((number, rest.strip_prefix('>')?))) {
            Some((number, behind)) => {
                out.push_str(number);
                behind
            }
            None => {
                out.push_str("C<");
                behind
            }
        };
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_wrapper_the_operation_is_left() {
        let nested = format!("{}Op{}", "gpu_kernel_impl<".repeat(1000), ">".repeat(1000));
        for (name, expected) in [
            ("vectorized_elementwise_kernel<4, Add<float, 2>, array<3>>", Some("Add<float, 2>")),
            (
                "ns::elementwise_kernel<128, 4, gpu_kernel_impl<BinaryFunctor<a, b, c, Mul<d>>>>",
                Some("Mul<d>"),
            ),
            ("my_elementwise_kernel<128, 4, Add>", None),
            ("elementwise_kernel<128, 4>", None),
            ("elementwise_kernel<128, 4, 8>", None),
            ("elementwise_kernel<128>, 4>::k<Add>", None),
            ("elementwise_kernel<128, 4, Add<>", None),
            ("elementwise_kernel<", None),
            ("elementwise_kernel", None),
            ("", None),
        ] {
            let expected = expected.map(|operation| format!("elementwise_kernel<{operation}>"));
            assert_eq!(operation(name), expected, "{name}");
        }
        let kernel = "cutlass::device_kernel<enable_sm90_or_later<FlashAttnFwdSm90<Mainloop<2>>>>";
        assert_eq!(operation(kernel).as_deref(), Some("FlashAttnFwdSm90<Mainloop<2>>"));
        assert_eq!(operation("other::device_kernel<A>"), None);
        let left = operation(&nested).expect("an operation");
        assert_eq!(left.matches('<').count(), 1000 - MOST_WRAPPERS);
    }

    #[test]
    fn namespaces_that_say_nothing_and_arguments_in_words_go() {
        for (name, expected) in [
            ("at::native::{anonymous}::k<at::native::T>", "k<at::native::T>"),
            ("vllm::at::k", "vllm::at::k"),
            ("at::native::at::", "at::"),
            ("kernel_norm_object_at__tensor_0", "kernel_norm"),
            ("_object_at_", "_object_at_"),
        ] {
            assert_eq!(bare(name), expected, "{name}");
        }
        for (name, expected) in [
            ("k<tuple<C<64>, C<128>>, 2>", "k<tuple<64, 128>, 2>"),
            ("ABC<3> _C<3> C<x> C<> C<3", "ABC<3> _C<3> C<x> C<> C<3"),
        ] {
            assert_eq!(plain_numbers(name), expected);
        }
        let begun = "C<".repeat(1 << 20);
        assert_eq!(plain_numbers(&begun), begun, "in linear time");
    }
}
