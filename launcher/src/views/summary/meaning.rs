//! Use of the peak, what the numbers say, and what they do not cover.

use super::{MfuRow, Recommendation, Section, Takeaway};
use stage2_analysis::roofline::takeaways;
use stage2_model::{Figure, Finding, ModelUse, Report};
use stage2_text::numbers::{counted, percent1};

pub(super) fn mfu(report: &Report) -> Section<MfuRow> {
    let Some(used) = &report.insight.utilisation else { return Section::default() };
    if let Some(why) = &used.absent {
        return Section::none(why.clone(), "");
    }
    let numbers = &used.numbers;
    if numbers.stages.is_empty() {
        return Section::none(
            "no stage is prefill or decode",
            "mark them with NVTX ranges of these names",
        );
    }
    let source = used.peak_source().unwrap_or_else(|| "not known".to_owned());
    let mut section =
        Section::of(rows(used), format!("shape of the model and token counts; peaks: {source}"));
    for note in notes(used) {
        section = section.with_note(note);
    }
    section
}

fn rows(used: &ModelUse) -> Vec<MfuRow> {
    let row = |scope: &str, flops: &Figure, wall_s: Option<f64>| MfuRow {
        scope: scope.to_owned(),
        flops: flops.value(),
        time_ns: wall_s.filter(|s| (0.0..1e9).contains(s)).map(|s| (s * 1e9).round() as u64),
        achieved_tflops: flops.value().zip(wall_s.filter(|s| *s > 0.0)).map(|(f, s)| f / s / 1e12),
        peak_dense_tflops: used.peak_dense_tflops(),
        ..MfuRow::default()
    };
    let model = &used.numbers.model;
    let mut rows = vec![MfuRow {
        mfu: model.mfu_wall.value(),
        ..row("Model-level", &model.flops, model.wall_s.value())
    }];
    rows.extend(used.numbers.stages.iter().map(|stage| {
        // Within another stage there is no window, and a vision encoder has no tokens: the time is
        // that in the share.
        let share = if stage.within.is_some() { &stage.mfu_busy } else { &stage.mfu_wall };
        let by_share = || {
            let flops_per_s = share.value()? * used.peak_dense_tflops()? * 1e12;
            stage.flops.value().map(|flops| flops / flops_per_s)
        };
        let by_tokens = stage.tokens.over(&stage.tokens_per_s, "token rate").value();
        let wall_s = by_tokens.or_else(by_share);
        MfuRow {
            mfu: share.value(),
            mfu_measured: stage.measured_mfu_busy.value(),
            counted_percent: stage.measured_percent,
            mbu: stage.mbu_wall.value(),
            ..row(&stage.stage, &stage.flops, wall_s)
        }
    }));
    rows
}

/// What the columns are over, the numbers over busy time, why some are missing, and assumptions.
fn notes(used: &ModelUse) -> Vec<String> {
    let mut notes = vec![
        "MFU and MBU are over wall time (the windows of the stages); FLOPs are of one instance, \
         model-level of one generation, and time is the joined windows over the instances (the \
         generations): where some run side by side, each of them takes longer"
            .to_owned(),
        "MFU by counters is over GPU busy time: FLOPs of a launch as ncu counted them times calls, \
         without the kernels whose counters are missing or of one launch only, and with what tensor cores compute on the \
         padding of their tiles: at small batches several times the model's own FLOPs"
            .to_owned(),
    ];
    let nested = used.numbers.stages.iter().filter(|stage| stage.within.is_some());
    let names: Vec<&str> = nested.map(|stage| stage.stage.as_str()).collect();
    notes.extend(within_prefill(&names));
    let model = &used.numbers.model;
    let mut reasons: Vec<String> =
        model.mfu_wall.absent().map(|why| format!("Model-level MFU: {why}")).into_iter().collect();
    for stage in &used.numbers.stages {
        let share = |figure: &Figure| figure.text(|share| format!("{share:.6}"));
        notes.push(format!(
            "{} over GPU busy time: MFU {}, MBU {}; {}",
            stage.stage,
            share(&stage.mfu_busy),
            share(&stage.mbu_busy),
            stage.basis
        ));
        let counted = stage
            .measured_mfu_busy
            .absent()
            .filter(|_| stage.mfu_wall.value().is_some() || stage.mfu_busy.value().is_some());
        reasons.extend(counted.map(|why| format!("MFU by counters of {}: {why}", stage.stage)));
        reasons.extend(
            stage.left_out_by_counters().filter(|_| stage.measured_mfu_busy.value().is_some()),
        );
        let why = match &stage.within {
            Some(_) => stage.mfu_busy.absent(),
            None => stage.mfu_wall.absent(),
        };
        reasons.extend(why.map(|why| format!("MFU of {}: {why}", stage.stage)));
    }
    notes.extend(reasons);
    notes.extend(used.numbers.assumptions.iter().cloned());
    notes
}

/// What the rows of these stages are over; nothing where there are none.
fn within_prefill(names: &[&str]) -> Option<String> {
    match names {
        [] => None,
        [name] => Some(format!(
            "{name} lies within prefill: its MFU and time are over the sum of its kernels' \
             durations, and its FLOPs and time are in prefill's"
        )),
        several => Some(format!(
            "{} lie within prefill: their MFU and time are over the sum of their kernels' \
             durations, and their FLOPs and times are in prefill's",
            several.join(", ")
        )),
    }
}

pub(super) fn takeaways(report: &Report) -> Section<Takeaway> {
    let takeaway = |said: &stage2_model::Takeaway| {
        let stage = said.stage.as_ref().map(|stage| format!("stage {stage}; "));
        Takeaway {
            text: said.text.clone(),
            evidence: format!("{}rule: {}", stage.unwrap_or_default(), said.rule.text()),
        }
    };
    let rows: Vec<Takeaway> = report.insight.takeaways.iter().map(takeaway).collect();
    if rows.is_empty() {
        return Section::none("nothing was computed from the numbers", "");
    }
    Section::of(rows, "rules over the numbers of report.md, each with its thresholds")
}

pub(super) fn recommendations(report: &Report) -> Section<Recommendation> {
    let given = takeaways::recommendations(&report.insight.takeaways);
    let rows: Vec<Recommendation> = given
        .into_iter()
        .map(|given| Recommendation {
            action: given.text.to_owned(),
            why: match given.further {
                0 => given.first.text.clone(),
                further => format!(
                    "{}; and {}",
                    given.first.text,
                    counted(further as u64, "more takeaway")
                ),
            },
            gain: given.concerns_percent.map_or_else(String::new, |percent| {
                format!("{} % of the time of all stages", percent1(percent))
            }),
        })
        .collect();
    if rows.is_empty() {
        return Section::none("no takeaway calls for one", "");
    }
    Section::of(rows, "the takeaways")
}

pub(super) fn limits(report: &Report) -> Section<Finding> {
    if report.findings.is_empty() {
        return Section::none("nothing is known to be missing or uncertain", "");
    }
    Section::of(report.findings.clone(), "findings of the run, as in report.md")
}

#[cfg(test)]
mod tests {
    use super::within_prefill;

    #[test]
    fn one_part_lies_and_several_lie_within_prefill() {
        let said = |names: &[&str]| within_prefill(names).unwrap_or_default();
        assert_eq!(said(&[]), "");
        assert!(said(&["sam"]).starts_with("sam lies within prefill: its MFU"));
        assert!(said(&["sam", "clip"]).starts_with("sam, clip lie within prefill: their MFU"));
    }
}
