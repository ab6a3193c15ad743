//! What calls for something to be done, and where the window goes -> the one thing to do first, and how
//! many times faster the stage would be at most.

use super::lines::Told;
use crate::roofline::takeaways::{FUSIBLE, StageFacts};
use stage2_contract::text::shorten_kernel;
use stage2_model::{
    CollectiveRow, FirstStep, Floor, LateRow, RATE_SHARE_MOST, Removed, Report, Rule, Status,
    Takeaway, WindowKind, WindowSplit,
};
use stage2_read::kernel_class::KernelClass;

/// Characters of a kernel's name.
const NAME_LIMIT: usize = 40;

/// What to do first in a stage.
#[derive(Clone, Debug, Default)]
pub(super) struct Gain {
    pub(super) step: Option<FirstStep>,
    /// Part of its window that would vanish.
    pub(super) saved: Option<f64>,
}

/// Time of a window that would vanish under a condition.
struct Vanishing {
    ns: f64,
    condition: String,
    removes: Vec<Removed>,
}

/// What the ranks did together in a stage.
#[derive(Clone, Copy)]
pub(super) struct OfRanks<'a> {
    pub(super) collectives: &'a [&'a CollectiveRow],
    pub(super) late: &'a [&'a LateRow],
}

/// The largest gain of what `takeaways`, those of the stage, call for. Of times in caveat, of a part of
/// the capture and near the roofs there is no gain.
pub(super) fn of_stage(
    ranks: OfRanks<'_>,
    takeaways: &[&Takeaway],
    facts: Option<&StageFacts>,
    window: Option<&WindowSplit>,
    floor: &Floor,
) -> Gain {
    let stage = Stage { ranks, facts, window };
    let mut best = Gain::default();
    for takeaway in takeaways {
        let Some(text) = &takeaway.recommendation else { continue };
        let vanishing = stage.vanishing(takeaway);
        best.offer(takeaway, text, vanishing, window, floor);
    }
    best
}

impl Gain {
    /// Takes what gains more; of several the first, and any rather than none.
    fn offer(
        &mut self,
        takeaway: &Takeaway,
        text: &str,
        vanishing: Option<Vanishing>,
        window: Option<&WindowSplit>,
        floor: &Floor,
    ) {
        let gain = vanishing.zip(window).and_then(|(vanishing, window)| {
            let (factor, is_floor) = factor(vanishing.ns, window.window_ns as f64, floor)?;
            Some((factor, is_floor, vanishing))
        });
        let saved = gain.as_ref().map(|(factor, ..)| 1.0 - 1.0 / factor);
        if self.step.is_some() && saved.unwrap_or(0.0) <= self.saved.unwrap_or(0.0) {
            return;
        }
        self.saved = saved;
        let step = FirstStep {
            stage: takeaway.stage.clone(),
            rule: takeaway.rule,
            text: text.to_owned(),
            ..FirstStep::default()
        };
        self.step = Some(match gain {
            None => step,
            Some((factor, is_floor, Vanishing { condition, removes, .. })) => {
                FirstStep { condition, removes, factor: Some(factor), is_floor, ..step }
            }
        });
    }
}

/// How many times faster a window is without `vanishing` of it; true where the floor allows less than
/// that.
fn factor(vanishing_ns: f64, window_ns: f64, floor: &Floor) -> Option<(f64, bool)> {
    let left = window_ns - vanishing_ns;
    let factor = Some(window_ns / left).filter(|_| vanishing_ns > 0.0 && left > 0.0);
    match floor.distance.value() {
        // Faster than the hardware allows: model and run do not agree.
        Some(distance) if distance <= 1.0 => None,
        Some(distance) if factor.is_none_or(|factor| factor > distance) && vanishing_ns > 0.0 => {
            Some((distance, true))
        }
        _ => factor.map(|factor| (factor, false)),
    }
}

struct Stage<'a> {
    ranks: OfRanks<'a>,
    facts: Option<&'a StageFacts>,
    window: Option<&'a WindowSplit>,
}

impl Stage<'_> {
    fn part_ns(&self, kinds: &[WindowKind]) -> Option<f64> {
        let of_kind = self.window?.parts.iter().filter(|part| kinds.contains(&part.kind));
        Some(of_kind.map(|part| part.ns as f64).sum())
    }

    /// All of these parts, with the shares that the window shows.
    fn parts(&self, kinds: &[WindowKind], condition: &str) -> Option<Vanishing> {
        let window = self.window?;
        let parts = window.parts.iter().zip(window.rounded_percent());
        let removes = parts.filter(|(part, _)| kinds.contains(&part.kind));
        let removes = removes
            .map(|(part, percent)| Removed { what: part.kind.label().to_owned(), percent })
            // What would read 0.0 % explains nothing.
            .filter(|part| part.percent > 0.0);
        Some(Vanishing {
            ns: self.part_ns(kinds)?,
            condition: condition.to_owned(),
            removes: removes.collect(),
        })
    }

    /// A part of a part.
    fn removed(&self, what: &str, ns: f64) -> Option<Removed> {
        let percent = ns * 100.0 / self.window?.window_ns as f64;
        Some(Removed { what: what.to_owned(), percent })
    }

    /// Time of a part of the kernel time, which is no longer than what the kernels took.
    fn of_kernels_ns(&self, percent: f64) -> Option<f64> {
        use WindowKind::{Busy, Communication, Compute, Copies, Transfer, Waiting};
        let compute_ns = self.part_ns(&[Compute, Busy])?;
        let busy_ns = self.part_ns(&[Compute, Busy, Communication, Transfer, Waiting, Copies])?;
        Some((busy_ns * percent.clamp(0.0, 100.0) / 100.0).min(compute_ns))
    }

    /// What vanishes if the kernels of these classes do: their time, and one launch gap for each of them.
    fn without_classes(&self, classes: &[KernelClass], what: &str) -> Option<Vanishing> {
        let facts = self.facts?;
        let share = |all: &[(KernelClass, f64)]| -> f64 {
            let of = all.iter().filter(|(class, _)| classes.contains(class));
            of.map(|(_, percent)| percent).filter(|percent| percent.is_finite()).sum()
        };
        let kernels_ns = self.of_kernels_ns(share(&facts.classes))?;
        let of_calls = share(&facts.class_calls).clamp(0.0, 100.0) / 100.0;
        let gaps_ns = self.part_ns(&[WindowKind::LaunchGaps])? * of_calls;
        let parts =
            [self.removed(what, kernels_ns)?, self.removed("launch gaps beside them", gaps_ns)?];
        Some(Vanishing {
            ns: kernels_ns + gaps_ns,
            condition: format!("{what} vanish"),
            removes: parts.into_iter().filter(|part| part.percent >= 0.05).collect(),
        })
    }

    /// What following the advice of `takeaway` does away with at best.
    fn vanishing(&self, takeaway: &Takeaway) -> Option<Vanishing> {
        let facts = self.facts.filter(|facts| facts.caveat.is_none())?;
        match takeaway.rule {
            // A graph closes long gaps as well: what launches less often waits less often for the host.
            Rule::LaunchBound | Rule::HostAhead | Rule::HostGaps => {
                let idle = [WindowKind::LaunchGaps, WindowKind::OtherIdle];
                self.parts(&idle, "the GPU's idle time vanishes")
            }
            Rule::Waiting => self.without_waiting(),
            Rule::Communication => {
                self.parts(&[WindowKind::Transfer], "exposed communication vanishes")
            }
            Rule::ExposedCopies => self.parts(&[WindowKind::Copies], "exposed copies vanish"),
            Rule::Fusible => self.without_classes(&FUSIBLE, "kernels that could be fused"),
            Rule::Copies => self.without_classes(&[KernelClass::Copy], "copy kernels"),
            Rule::FarFromRoof | Rule::LowOccupancy => self.at_its_roof(facts, takeaway),
            _ => None,
        }
    }

    /// Waiting for ranks. Where it is the largest part but for idle time, so is what the others wait
    /// for: the window is a sum over ranks, and the GPU of the late one is idle meanwhile.
    fn without_waiting(&self) -> Option<Vanishing> {
        let window = self.window?;
        let waiting_ns = self.part_ns(&[WindowKind::Waiting])?;
        let not_idle = window.parts.iter().filter(|part| part.kind != WindowKind::OtherIdle);
        let most_ns = not_idle.map(|part| part.ns as f64).fold(0.0, f64::max);
        let OfRanks { collectives, late } = self.ranks;
        let members = collectives.iter().max_by_key(|c| c.waiting_ns).map_or(0, |c| c.members);
        let condition = match late.iter().find_map(|late| late.delay_sentence()) {
            Some(late) => format!("no rank waits for others ({late})"),
            None => "no rank waits for others".to_owned(),
        };
        let mut vanishing = self.parts(&[WindowKind::Waiting], &condition)?;
        if waiting_ns >= most_ns && members > 1 {
            let late_ns = waiting_ns / (members - 1) as f64;
            let idle_ns = self.part_ns(&[WindowKind::OtherIdle])?.min(late_ns);
            vanishing.ns += idle_ns;
            let idle = self.removed("other idle of the late rank", idle_ns);
            vanishing.removes.extend(idle.filter(|part| part.percent >= 0.05));
        }
        Some(vanishing)
    }

    /// What a kernel would take less at its roof.
    fn at_its_roof(&self, facts: &StageFacts, takeaway: &Takeaway) -> Option<Vanishing> {
        let kernel = facts.top_kernels.iter().find(|kernel| {
            let about = format!("{}: {} (", facts.stage, kernel.kernel);
            takeaway.text.starts_with(&about)
        })?;
        let share = kernel.attainable_share.filter(|share| (0.0..=RATE_SHARE_MOST).contains(share));
        let ns = self.of_kernels_ns(kernel.percent)? * (1.0 - share?.min(1.0));
        let name = shorten_kernel(&kernel.kernel, NAME_LIMIT);
        let removes = self.removed("its time beyond that", ns)?;
        let condition = format!("{name} reaches its roof");
        Some(Vanishing { ns, condition, removes: vec![removes] })
    }
}

/// What to do first over all stages: where the most time is saved, else what the takeaways put first.
pub(super) fn of_run(report: &Report, stages: &[Told<'_>]) -> Option<FirstStep> {
    if report.coverage.verdict.status == Status::Empty {
        let reason = &report.coverage.empty.as_ref()?.first;
        return Some(FirstStep {
            stage: None,
            rule: Rule::Incomplete,
            text: reason.remedy.clone(),
            ..FirstStep::default()
        });
    }
    let saving = stages.iter().filter(|told| told.saved_ns.is_some());
    let most = saving.reduce(|most, told| if told.saved_ns > most.saved_ns { told } else { most });
    if let Some(most) = most {
        return most.answer.first.clone();
    }
    let advised = report.insight.takeaways.iter().filter(|takeaway| !takeaway.rule.is_caveat());
    let advised = advised.chain(report.insight.takeaways.iter());
    let step = |takeaway: &Takeaway| {
        Some(FirstStep {
            stage: takeaway.stage.clone(),
            rule: takeaway.rule,
            text: takeaway.recommendation.clone()?,
            ..FirstStep::default()
        })
    };
    advised.filter_map(step).next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_model::{Absent, Figure, LateDelays, WindowPart};

    fn takeaway(rule: Rule) -> Takeaway {
        Takeaway {
            rule,
            stage: Some("decode".into()),
            text: "decode: k (gemm) takes".into(),
            recommendation: Some(format!("{rule:?}")),
            concerns_percent: None,
        }
    }

    fn window(parts: &[(WindowKind, u64)]) -> WindowSplit {
        let window_ns = parts.iter().map(|(_, ns)| ns).sum();
        let part = |&(kind, ns): &(WindowKind, u64)| WindowPart { kind, ns, percent: 0.0 };
        WindowSplit { window_ns, parts: parts.iter().map(part).collect(), steps: None }
    }

    fn floor(distance: Option<f64>) -> Floor {
        let none = || Figure::Absent(Absent::NoModel);
        let distance = distance.map_or(none(), Figure::of);
        let (memory_ns, compute_ns, floor_ns) = (none(), none(), none());
        Floor { memory_ns, compute_ns, floor_ns, distance, baseline_distance: None }
    }

    fn gain(rules: &[Rule], parts: &[(WindowKind, u64)], distance: Option<f64>) -> FirstStep {
        gain_in(&Report::default(), rules, parts, distance)
    }

    fn gain_in(
        report: &Report,
        rules: &[Rule],
        parts: &[(WindowKind, u64)],
        distance: Option<f64>,
    ) -> FirstStep {
        let facts = StageFacts {
            stage: "decode".into(),
            classes: vec![(KernelClass::Norm, 40.0), (KernelClass::Gemm, 60.0)],
            class_calls: vec![(KernelClass::Norm, 50.0), (KernelClass::Gemm, 50.0)],
            ..StageFacts::default()
        };
        let all: Vec<Takeaway> = rules.iter().map(|&rule| takeaway(rule)).collect();
        let all: Vec<&Takeaway> = all.iter().collect();
        let window = window(parts);
        let collectives: Vec<_> = report.ranks.collectives.iter().collect();
        let late: Vec<_> = report.ranks.late.iter().collect();
        let ranks = OfRanks { collectives: &collectives, late: &late };
        of_stage(ranks, &all, Some(&facts), Some(&window), &floor(distance)).step.expect("a step")
    }

    #[test]
    fn the_largest_gain_is_first_and_is_what_is_left_of_the_window() {
        use WindowKind::*;
        let parts = [(Compute, 197), (LaunchGaps, 799), (OtherIdle, 4)];
        let rules = [Rule::NearRoof, Rule::Fusible, Rule::LaunchBound];
        let first = gain(&rules, &parts, None);
        assert_eq!(first.rule, Rule::LaunchBound);
        // A graph closes long gaps, too.
        assert!((first.factor.expect("known") - 1000.0 / 197.0).abs() < 1e-9, "{first:?}");
        assert_eq!(
            first.gain().expect("known"),
            "5.1x faster if the GPU's idle time vanishes: launch gaps 79.9 % + other idle 0.4 % = 80.3 % \
             of the window"
        );
        let idle = gain(&[Rule::HostGaps], &parts, None);
        assert!((idle.factor.expect("known") - 1000.0 / 197.0).abs() < 1e-9, "{idle:?}");
        // Half of the kernels are gone, and with them half of the launch gaps.
        let fused = gain(&[Rule::Fusible], &parts, None);
        let left = 1000.0 - 78.8 - 399.5;
        assert!((fused.factor.expect("known") - 1000.0 / left).abs() < 1e-9, "{fused:?}");
        assert_eq!(
            fused.gain().expect("known"),
            "1.92x faster if kernels that could be fused vanish: kernels that could be fused 7.9 % + launch \
             gaps beside them 40.0 % = 47.9 % of the window"
        );
        let copies = gain(&[Rule::ExposedCopies], &[(Compute, 800), (Copies, 200)], None);
        assert_eq!((copies.rule, copies.factor), (Rule::ExposedCopies, Some(1.25)));
        let said = "1.25x faster if exposed copies vanish: copies 20.0 % of the window";
        assert_eq!(copies.gain().expect("known"), said);
        let ranks = gain(&[Rule::Waiting], &[(Compute, 600), (Waiting, 400)], None);
        assert!((ranks.factor.expect("known") - 1000.0 / 600.0).abs() < 1e-9, "{ranks:?}");
    }

    #[test]
    fn a_late_rank_comes_before_the_idle_time_that_it_causes() {
        use WindowKind::*;
        let stage = || "decode".to_owned();
        let ranks = |members| {
            let mut report = Report::default();
            let waiting_ns = Some(400);
            let row =
                CollectiveRow { stage: stage(), members, waiting_ns, ..CollectiveRow::default() };
            report.ranks.collectives.push(row);
            let who = "rank 1".into();
            let delays = LateDelays {
                collectives: 24,
                mean_ns: 10_684_000,
                waiting_percent: 87.0,
                range: "decode/step".into(),
                ..LateDelays::default()
            };
            // Noise stands in front of it, and is not told.
            report.ranks.late.push(LateRow { stage: stage(), ..LateRow::default() });
            let (collectives, delays) = (768, Some(delays));
            let late = LateRow { stage: stage(), who, collectives, delays, ..LateRow::default() };
            report.ranks.late.push(late);
            report
        };
        let rules = [Rule::HostGaps, Rule::Waiting];
        // One of two ranks sleeps, and the other one waits just as long.
        let parts = [(Compute, 150), (Waiting, 400), (OtherIdle, 450)];
        let two = gain_in(&ranks(2), &rules, &parts, None);
        assert_eq!((two.rule, two.factor), (Rule::Waiting, Some(5.0)));
        let said = "no rank waits for others (rank 1 is 10.7 ms late at 24 of 768 collectives, in \
                    decode/step; 87 % of all waiting)";
        assert_eq!(two.condition, said);
        let removes = two.removes.iter().map(|part| (part.what.as_str(), part.percent));
        let expected = [("waiting for ranks", 40.0), ("other idle of the late rank", 40.0)];
        assert_eq!(removes.collect::<Vec<_>>(), expected, "not all 45 % of idle time");
        // That one of nine is late explains 50 of 450 ns.
        let nine =
            gain_in(&ranks(9), &rules, &[(Compute, 50), (Waiting, 400), (OtherIdle, 550)], None);
        assert_eq!(nine.rule, Rule::HostGaps);
        let computes = [(Compute, 500), (Waiting, 400), (OtherIdle, 100)];
        let computes = gain_in(&ranks(2), &[Rule::Waiting], &computes, None);
        assert!((computes.factor.expect("known") - 1000.0 / 600.0).abs() < 1e-9, "{computes:?}");
    }

    #[test]
    fn no_gain_exceeds_the_floor_or_is_made_up() {
        use WindowKind::*;
        let parts = [(Compute, 100), (LaunchGaps, 900)];
        let capped = gain(&[Rule::LaunchBound], &parts, Some(4.0));
        assert_eq!(capped.factor, Some(4.0));
        let said = "4.0x faster if the GPU's idle time vanishes: launch gaps 90.0 % of the window, as far as \
                    the floor allows";
        assert_eq!(capped.gain().expect("known"), said);
        assert_eq!(gain(&[Rule::LaunchBound], &parts, Some(0.8)).factor, None);
        assert_eq!(gain(&[Rule::NearRoof], &parts, Some(4.0)).factor, None);
        assert_eq!(gain(&[Rule::Communication], &parts, None).factor, None);
        let doubted = StageFacts { caveat: Some("cold".into()), ..StageFacts::default() };
        let all = takeaway(Rule::LaunchBound);
        let none = OfRanks { collectives: &[], late: &[] };
        let of = of_stage(none, &[&all], Some(&doubted), Some(&window(&parts)), &floor(None));
        assert_eq!((of.step.expect("a step").factor, of.saved), (None, None));
    }
}
