//! The bottlenecks of stages -> the sentences of the line on the window.

use super::AnsweredStage;
use stage2_contract::text::numbers::{grouped, percent1, shown_time, time_scale};
use stage2_model::lead::bound_by;
use stage2_model::{Bottleneck, BottleneckKind, BottleneckPart, Report, Role, times_faster};

/// What the stage with the longest window is bound by, and decode if that is another one: one sentence
/// each. Empty if no window is known.
pub(super) fn bottlenecks(report: &Report, stages: &[AnsweredStage<'_>]) -> String {
    let known = || stages.iter().filter(|told| told.answer.bottleneck.is_some());
    let decode = known().find(|told| told.answer.role == Role::Decode);
    let longest = known().next();
    let other = decode.filter(|decode| longest.is_some_and(|l| l.row.stage != decode.row.stage));
    let sentences = longest.into_iter().chain(other).filter_map(|told| bottleneck(report, told));
    sentences.map(|sentence| format!("{sentence}. ")).collect()
}

/// Parts of a step behind the first one that are worth naming, percent.
const PART_PERCENT: f64 = 10.0;
/// Smaller parts that are worth a time together, percent.
const OTHERS_PERCENT: f64 = 1.0;

/// `decode is bound by the host: the GPU waits 1.40 of 3.62 ms for it (38.7 % of the mean step of 2 ranks); then
/// kernels 0.99 ms (2.8x their memory floor of 0.35 ms)`.
fn bottleneck(report: &Report, told: &AnsweredStage<'_>) -> Option<String> {
    use BottleneckKind::{Host, Kernels, Launches, OtherWork};
    let found = told.answer.bottleneck.as_ref()?;
    let (name, first) = (told.name(), found.first()?);
    let part_of = part_of(first.ns, found.ns);
    let ranks = match found.ranks.len() {
        0 => String::new(),
        ranks => format!(" of {ranks} ranks"),
    };
    let which = told.which_instances().map(|which| format!(", {which}")).unwrap_or_default();
    let mean = if found.of == "window" { "" } else { "mean " };
    let of = format!(
        "({} % of the {mean}{}{ranks}{which})",
        percent1(found.percent(first)),
        told.answer.unit_of_mean()?
    );
    let over_floor = over_floor(told, found);
    let says = match first.kind {
        Host => format!("the GPU waits {part_of} for it {of}"),
        Launches => format!("the GPU is idle {part_of} between its kernels {of}"),
        OtherWork => format!("the GPU works {part_of} for these {of}"),
        kind if kind.is_kernels() => {
            let floor = over_floor.as_ref().map(|floor| format!(", {floor}")).unwrap_or_default();
            let they = if kind == Kernels { "they" } else { "the kernels" };
            format!("{they} take {part_of} {of}{floor}")
        }
        _ => format!("{part_of} {of}"),
    };
    let (named, others): (Vec<&BottleneckPart>, Vec<&BottleneckPart>) =
        found.parts.iter().skip(1).partition(|part| {
            found.percent(part) >= PART_PERCENT || (part.kind.is_kernels() && over_floor.is_some())
        });
    let mut rest: Vec<String> = named
        .into_iter()
        .map(|part| {
            let floor = over_floor.as_ref().filter(|_| part.kind.is_kernels());
            let floor = floor.map(|floor| format!(" ({floor})")).unwrap_or_default();
            let label = match part.kind {
                Host => "waiting for the host",
                Launches => "idle between launches",
                kind if kind.is_kernels() => "the kernels",
                kind => kind.label(),
            };
            format!("{label} {}{floor}", shown_time(part.ns as f64))
        })
        .collect();
    // So that several parts add up to the step.
    let others = BottleneckPart { kind: first.kind, ns: others.iter().map(|part| part.ns).sum() };
    if !rest.is_empty() && found.percent(&others) >= OTHERS_PERCENT {
        rest.push(format!("everything else {}", shown_time(others.ns as f64)));
    }
    let rest = if rest.is_empty() { String::new() } else { format!("; then {}", rest.join(", ")) };
    Some(format!(
        "{name} is bound by {}: {says}{rest}",
        bound_by(report, &told.answer.stage, first.kind)
    ))
}

/// `1.40 of 3.62 ms`.
pub(super) fn part_of(part_ns: u64, all_ns: u64) -> String {
    let (scale, unit, decimals) = time_scale(all_ns as f64);
    let part = part_ns as f64 / scale;
    grouped(&format!("{part:.decimals$} of {:.decimals$} {unit}", all_ns as f64 / scale))
}

/// `2.8x their memory floor of 0.35 ms`.
fn over_floor(told: &AnsweredStage<'_>, found: &Bottleneck) -> Option<String> {
    let (times, kernels) = (found.kernels_over_floor?, found.kernels()?);
    let floor = &told.answer.floor;
    let by_memory = floor.memory_ns.value() == floor.floor_ns.value();
    let of = if by_memory { "memory" } else { "FLOP" };
    let floor_ns = shown_time(kernels.ns as f64 / times);
    Some(format!("{} their {of} floor of {floor_ns}", times_faster(times)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::lines::tests::{bound, report, row, stage, texts};
    use stage2_model::{Figure, RankIdle, StageRow};

    #[test]
    fn the_window_begins_with_what_the_step_is_bound_by_and_by_how_much() {
        use BottleneckKind::*;
        let decode = row("decode");
        let window = |found: Bottleneck, by_memory: bool| {
            let mut told = stage(&decode);
            told.answer.bottleneck = Some(found);
            let floor = &mut told.answer.floor;
            (floor.memory_ns, floor.floor_ns) = (Figure::of(350_000.0), Figure::of(350_000.0));
            if !by_memory {
                (floor.memory_ns, floor.compute_ns) = (Figure::of(1.0), Figure::of(350_000.0));
            }
            texts(&report(), &[told], None).swap_remove(1)
        };
        let of_ranks = Bottleneck {
            ranks: ["rank 0", "rank 1"].map(|who| RankIdle { who: who.into(), ns: 1 }).into(),
            ..bound(&[(Host, 1_400), (Ranks, 1_060), (Kernels, 990), (Copies, 170)], Some(2.829))
        };
        for (found, by_memory, said) in [
            (
                of_ranks,
                true,
                "decode is bound by the host: the GPU waits 1.40 of 3.62 ms for it (38.7 % of the mean step of \
                 2 ranks); then waiting in collectives 1.06 ms, the kernels 0.99 ms (2.8x their memory floor of 0.35 \
                 ms), everything else 0.17 ms",
            ),
            (
                bound(&[(Launches, 14_510), (Kernels, 1_890)], None),
                true,
                "decode is bound by launches: the GPU is idle 14.51 of 16.40 ms between its kernels (88.5 % of \
                 the mean step); then the kernels 1.89 ms",
            ),
            // Kernels far from their floor are named, however short they are.
            (
                bound(&[(Ranks, 9_000), (Host, 500), (Kernels, 500)], Some(1.43)),
                true,
                "decode is bound by waiting in collectives: 9.00 of 10.00 ms (90.0 % of the mean step); then the \
                 kernels 0.50 ms (1.43x their memory floor of 0.35 ms), everything else 0.50 ms",
            ),
            (
                bound(&[(Memory, 450), (Launches, 50)], Some(1.286)),
                true,
                "decode is bound by memory: the kernels take 0.45 of 0.50 ms (90.0 % of the mean step), 1.29x \
                 their memory floor of 0.35 ms; then idle between launches 50.0 us",
            ),
            (
                bound(&[(Compute, 450)], Some(1.286)),
                false,
                "decode is bound by compute: the kernels take 0.45 of 0.45 ms (100.0 % of the mean step), 1.29x \
                 their FLOP floor of 0.35 ms",
            ),
            (
                Bottleneck { of: "window".into(), ..bound(&[(Kernels, 60), (OtherWork, 5)], None) },
                true,
                "decode is bound by its kernels: they take 60.0 of 65.0 us (92.3 % of the window)",
            ),
        ] {
            let told = window(found, by_memory);
            assert_eq!(told, format!("{said}."));
        }
    }

    #[test]
    fn the_longest_stage_and_the_decode_have_their_bottlenecks_on_the_first_screen() {
        use BottleneckKind::*;
        let rows = ["prefill", "mixed", "decode"].map(row);
        let told = |row, role, kind| {
            let mut told = stage(row);
            told.answer.role = role;
            told.answer.bottleneck = Some(bound(&[(kind, 2_000)], None));
            told
        };
        let stages = [
            told(&rows[0], Role::Prefill, Kernels),
            told(&rows[1], Role::Other, Ranks),
            told(&rows[2], Role::Decode, Copies),
        ];
        let window = texts(&report(), &stages, None).swap_remove(1);
        assert_eq!(
            window,
            "prefill is bound by its kernels: they take 2.00 of 2.00 ms (100.0 % of the mean step). decode is \
             bound by copies: 2.00 of 2.00 ms (100.0 % of the mean step)."
        );
    }

    #[test]
    fn of_a_cold_instance_the_bottleneck_says_so() {
        let cold = StageRow { instances: Some(1), ..row("decode") };
        let mut told = stage(&cold);
        told.answer.bottleneck = Some(bound(&[(BottleneckKind::Host, 2_000)], None));
        let window = texts(&report(), &[told], None).swap_remove(1);
        let said = "for it (100.0 % of the mean step, its only call, which was cold).";
        assert!(window.ends_with(said), "{window}");
    }
}
