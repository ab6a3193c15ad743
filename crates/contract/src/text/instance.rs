//! Names of ranges without what tells one call from the next.
//!
//! PyTorch's NVTX ranges are called `aten::linear, seq = 5, op_id = 7`: every call has a name of its
//! own. Ten thousand calls of an operator must neither fill a table of names nor be ten thousand
//! operators, so collector and launcher leave out the same.

/// What PyTorch appends before a number.
const NUMBERS: [&[u8]; 3] = [b", seq = ", b", stashed seq = ", b", op_id = "];
/// What it appends before lists of numbers.
const LISTS: [&[u8]; 2] = [b", sizes = [", b", input_op_ids = ["];

/// `name` without sequence number, operator id, sizes and ids of inputs, where PyTorch appended them.
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
        let number = NUMBERS.iter().find_map(|key| rest.strip_prefix(*key));
        let list = LISTS.iter().find_map(|key| rest.strip_prefix(*key));
        rest = match (number, list) {
            (Some(number), _) => {
                let digits = number.iter().take_while(|b| b.is_ascii_digit()).count();
                if digits == 0 {
                    return false;
                }
                number.get(digits..).unwrap_or_default()
            }
            (None, Some(list)) => after_list(list),
            (None, None) => return false,
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
}
