//! Counters of instructions -> floating-point operations by type.
//!
//! Operations of the ordinary pipes come from executed instructions of threads, predicated off ones
//! left out: an add or a multiplication is one operation, a fused multiply-add two. Half precision
//! is executed two at a time, also where a program uses one of them, so that it counts twice as
//! much; this is ncu's own convention. Operations of the tensor cores are counted by the hardware
//! for each type of their inputs.

use std::collections::BTreeMap;

use stage2_model::Flops;

use super::quantity::Quantity;

/// Counts the operations of one launch.
pub(in crate::ncu) fn flops(metrics: &BTreeMap<String, Quantity>) -> Flops {
    let (tensor, tensor_integer) =
        tensor(metrics).into_iter().partition(|(source, _)| !source.starts_with("int"));
    Flops {
        fp64: plain(metrics, 'd', 1.0),
        fp32: plain(metrics, 'f', 1.0),
        fp16: plain(metrics, 'h', 2.0),
        tensor,
        tensor_integer,
    }
}

/// Operations of one precision. All three kinds have to be there: a part is no total.
fn plain(metrics: &BTreeMap<String, Quantity>, precision: char, lanes: f64) -> Option<f64> {
    let mut total = 0.0;
    for (operation, weight) in [("add", 1.0), ("mul", 1.0), ("fma", 2.0)] {
        total += weight * lanes * instructions(metrics, &format!("{precision}{operation}"))?;
    }
    // Packed single precision, two operands at a time: sm_100 and later only.
    for (operation, weight) in [("add2", 2.0), ("mul2", 2.0), ("fma2", 4.0)] {
        total += weight * instructions(metrics, &format!("{precision}{operation}")).unwrap_or(0.0);
    }
    Some(total)
}

/// Executed instructions of threads; from the rate and the cycles where a set gives only those.
fn instructions(metrics: &BTreeMap<String, Quantity>, operation: &str) -> Option<f64> {
    ["smsp", "sm"].into_iter().find_map(|unit| {
        let name = format!("{unit}__sass_thread_inst_executed_op_{operation}_pred_on.sum");
        let value = |name: &str| metrics.get(name).map(|quantity| quantity.value);
        value(&name).or_else(|| {
            let rate = value(&format!("{name}.per_cycle_elapsed"))?;
            // The rate is over the mean of the units' cycles, not over the longest.
            let cycles = value(&format!("{unit}__cycles_elapsed.avg"))?;
            Some(rate * cycles)
        })
    })
}

/// A counter of tensor operations, by what its name says: `op_hgmma_src_bf16_dst_fp32_sparsity_off`.
struct Counter<'a> {
    /// Empty: over all instructions.
    instruction: &'a str,
    source: &'a str,
    destination: Option<&'a str>,
    sparsity: Option<&'a str>,
    value: f64,
}

impl<'a> Counter<'a> {
    fn of(name: &'a str, value: f64) -> Option<Self> {
        let split = |text: &'a str, at: &str| match text.split_once(at) {
            Some((front, behind)) => (front, Some(behind)),
            None => (text, None),
        };
        let (instruction, rest) = name.split_once("src_")?;
        let (rest, sparsity) = split(rest, "_sparsity_");
        let (source, destination) = split(rest, "_dst_");
        (!source.is_empty()).then_some(Counter {
            instruction,
            source,
            destination,
            sparsity,
            value,
        })
    }

    /// Whether this counter is a part of what `other` counts.
    fn is_within(&self, other: &Counter<'_>) -> bool {
        other.source == self.source
            && (other.destination.is_none() || other.destination == self.destination)
            && (other.sparsity.is_none() || other.sparsity == self.sparsity)
            && (other.destination != self.destination || other.sparsity != self.sparsity)
    }
}

/// Operations of the tensor cores by source type, each counted once: a counter over all destinations,
/// or over all kinds of sparsity, includes the narrower counters beside it, so we leave those out.
/// Different sources are different instructions, also `fp4` and `fp4_fp6_fp8` of sm_100.
fn tensor(metrics: &BTreeMap<String, Quantity>) -> BTreeMap<String, f64> {
    const PREFIX: &str = "sm__ops_path_tensor_";
    let named = metrics
        .range(PREFIX.to_owned()..)
        .map_while(|(name, quantity)| Some((name.strip_prefix(PREFIX)?, quantity.value)));
    let counters = named.filter_map(|(name, value)| {
        // `_realtime` is a second way to sample the same counter.
        let name = name.strip_suffix(".sum").filter(|name| !name.ends_with("_realtime"))?;
        Counter::of(name, value)
    });
    let (over_all, of_one): (Vec<_>, Vec<_>) =
        counters.partition(|counter| counter.instruction.is_empty());
    // Counters of single instructions do not overlap each other.
    let counted: Vec<&Counter<'_>> = if over_all.is_empty() {
        of_one.iter().collect()
    } else {
        over_all.iter().filter(|one| !over_all.iter().any(|other| one.is_within(other))).collect()
    };
    let mut totals = BTreeMap::new();
    for counter in counted {
        *totals.entry(counter.source.to_owned()).or_insert(0.0) += counter.value;
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(list: &[(&str, f64)]) -> BTreeMap<String, Quantity> {
        let quantity = |value| Quantity { value, unit: String::new() };
        list.iter().map(|(name, value)| ((*name).to_owned(), quantity(*value))).collect()
    }

    #[test]
    fn fused_operations_count_twice_and_half_precision_by_two() {
        let names = |p: char| {
            ["add", "mul", "fma"]
                .map(|op| format!("smsp__sass_thread_inst_executed_op_{p}{op}_pred_on.sum"))
        };
        let mut list = Vec::new();
        for precision in ['d', 'f', 'h'] {
            list.extend(names(precision).into_iter().zip([3.0, 5.0, 7.0]));
        }
        let list: Vec<(&str, f64)> =
            list.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        let flops = super::flops(&metrics(&list));
        assert_eq!((flops.fp64, flops.fp32, flops.fp16), (Some(22.0), Some(22.0), Some(44.0)));
        assert_eq!((flops.total(), flops.tensor_total()), (Some(88.0), None));
    }

    #[test]
    fn a_part_is_no_total_and_absent_is_not_zero() {
        let one = [("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", 7.0)];
        assert_eq!(super::flops(&metrics(&one)), Flops::default());
        assert_eq!(Flops::default().total(), None);
    }

    #[test]
    fn tensor_operations_are_not_counted_twice() {
        let flops = super::flops(&metrics(&[
            ("sm__ops_path_tensor_src_bf16_dst_fp32.sum", 100.0),
            ("sm__ops_path_tensor_src_bf16_dst_fp32_sparsity_off.sum", 90.0),
            ("sm__ops_path_tensor_src_bf16_dst_fp32_sparsity_on.sum", 10.0),
            ("sm__ops_path_tensor_op_hgmma_src_bf16_dst_fp32_sparsity_off.sum", 90.0),
            ("sm__ops_path_tensor_src_fp16.sum", 7.0),
            ("sm__ops_path_tensor_src_fp16_dst_fp32.sum", 4.0),
            ("sm__ops_path_tensor_src_fp16_dst_fp16.sum", 3.0),
            ("sm__ops_path_tensor_src_fp8_sparsity_off.sum", 5.0),
            ("sm__ops_path_tensor_src_fp8_sparsity_on.sum", 1.0),
            ("sm__ops_path_tensor_src_int8.sum", 1000.0),
            ("sm__ops_path_tensor_src_int8.sum.per_second", 1e9),
        ]));
        let expected = [("bf16", 100.0), ("fp16", 7.0), ("fp8", 6.0)];
        assert_eq!(flops.tensor, expected.map(|(k, v)| (k.to_owned(), v)).into());
        assert_eq!(flops.tensor_integer, [("int8".to_owned(), 1000.0)].into());
        assert_eq!(flops.total(), Some(113.0));
    }

    #[test]
    fn destinations_are_added_where_nothing_covers_them() {
        let flops = super::flops(&metrics(&[
            ("sm__ops_path_tensor_src_fp16_dst_fp32.sum", 4.0),
            ("sm__ops_path_tensor_src_fp16_dst_fp16.sum", 3.0),
        ]));
        assert_eq!(flops.tensor, [("fp16".to_owned(), 7.0)].into());
        let only = super::flops(&metrics(&[
            ("sm__ops_path_tensor_op_hgmma_src_bf16_dst_fp32_sparsity_off.sum", 90.0),
            ("sm__ops_path_tensor_op_hmma_src_bf16_dst_fp32_sparsity_off.sum", 10.0),
        ]));
        assert_eq!(only.tensor, [("bf16".to_owned(), 100.0)].into());
    }
}
