//! Range paths -> names of operators, for those ranges that are one.

use stage2_contract::text::without_instance_str;
use stage2_model::{PathKind, PathRow};

use super::{OperatorSettings, Pattern};

/// Whether the range `row` is an operator: by the pattern of `settings`, or by its name.
pub fn is_operator(row: &PathRow, settings: &OperatorSettings) -> bool {
    operator(row, settings.pattern.as_ref()).is_some()
}

/// The operator that the range `row` stands for. Without a pattern it has to be in NVTX's default
/// domain, where PyTorch's are, and to look like one.
pub(super) fn operator<'r>(row: &'r PathRow, pattern: Option<&Pattern>) -> Option<&'r str> {
    if row.kind != PathKind::Range {
        return None;
    }
    let name = without_instance_str(&row.name);
    let is_one = match pattern {
        Some(pattern) => pattern.matches(name),
        None => row.domain.is_none() && looks_like_one(name),
    };
    is_one.then_some(name)
}

/// `namespace::operator`, deeper (`c10d::functional::all_reduce`), with an overload (`.Tensor`), or
/// with what it works for (`autograd::engine::evaluate_function: MmBackward0`). Namespaces of
/// operators are lower case: `Model::forward` is a range of the user's.
fn looks_like_one(name: &str) -> bool {
    let (qualified, about) = name.split_once(": ").map_or((name, None), |(q, a)| (q, Some(a)));
    let mut parts = qualified.split("::");
    let namespace = parts.next().unwrap_or_default();
    let mut rest = parts.peekable();
    namespace.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && is_word(namespace)
        && rest.peek().is_some()
        && rest.all(|part| part.split('.').all(is_word))
        && about.is_none_or(|about| about.split("::").all(is_word))
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str) -> PathRow {
        PathRow { name: name.to_owned(), ..PathRow::default() }
    }

    #[test]
    fn names_of_operators() {
        for (name, expected) in [
            ("aten::linear", "aten::linear"),
            ("aten::addmm, seq = 0, op_id = 27", "aten::addmm"),
            ("aten::mm, op_id = 3, sizes = [[2, 2], [2, 2]]", "aten::mm"),
            ("aten::add.Tensor", "aten::add.Tensor"),
            ("_c10d_functional::all_reduce", "_c10d_functional::all_reduce"),
            ("vllm::unified_attention", "vllm::unified_attention"),
            (
                "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad, op_id = 9",
                "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad",
            ),
        ] {
            assert_eq!(operator(&row(name), None), Some(expected));
        }
    }

    #[test]
    fn other_ranges() {
        for name in [
            "",
            "prefill",
            "::",
            "aten::",
            "::add",
            "A::A1",
            "Model::forward",
            "aten::li near",
            "step: a::b",
            "aten::x: ",
            "## Call CompiledFxGraph ##",
        ] {
            assert_eq!(operator(&row(name), None), None, "{name:?}");
        }
        let own = PathRow { domain: Some("CCCL".into()), ..row("cub::DeviceReduce") };
        assert_eq!(operator(&own, None), None);
        let undefined = PathRow { kind: PathKind::Undefined, ..row("aten::add") };
        assert_eq!(operator(&undefined, None), None);
    }

    #[test]
    fn a_pattern_decides_alone() {
        let pattern = Pattern::try_from("^layer\\.".to_owned()).expect("pattern");
        assert_eq!(operator(&row("layer.3"), Some(&pattern)), Some("layer.3"));
        assert_eq!(operator(&row("aten::add"), Some(&pattern)), None);
        let own = PathRow { domain: Some("mine".into()), ..row("layer.3, seq = 2") };
        assert_eq!(operator(&own, Some(&pattern)), Some("layer.3"));
    }
}
