//! What is too much for `metrics.json`: `timelines.json` is this.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::report::{Report, Sources};
use crate::rows::{KernelRow, Launch};
use crate::sampled::{SampledCurve, SampledKernel, SampledStep};
use crate::step_timeline::StepTimeline;

/// Name of the model.
pub const TIMELINES_SCHEMA: &str = "stage2.timelines";
/// Version of the model: grows when a field changes its meaning or goes away.
pub const TIMELINES_VERSION: u32 = 1;

/// Timelines of steps, and what sampled counters say of steps and kernels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Timelines {
    /// [`TIMELINES_SCHEMA`].
    pub schema: String,
    /// [`TIMELINES_VERSION`].
    pub schema_version: u32,
    /// Program and version that wrote it.
    pub generator: String,
    /// The GPU, or that of some process, was simulated: times are those of a recording.
    pub simulated: bool,
    /// Rows in `kernels` of the `metrics.json` that it belongs to.
    pub kernel_rows: usize,
    /// What ran in the median step of each stage.
    pub step_timelines: Vec<StepTimeline>,
    /// What sampled counters say of the steps of stages; empty: none were sampled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sampled_steps: Vec<StepSamples>,
    /// What sampled counters say of kernels; empty: none were sampled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sampled_kernels: Vec<KernelSamples>,
}

/// Samples of the steps of a stage on a GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepSamples {
    /// Index in `sampled.stages` of `metrics.json`.
    pub sampled_stage: usize,
    /// [`crate::StageRow::stage`].
    pub stage: String,
    /// What ran in the step whose window is the median of the covered ones; null: none is covered.
    pub median: Option<SampledCurve>,
    /// Each of a bounded number of them, evenly over the run.
    pub each: Vec<SampledStep>,
}

/// What is known of a kernel by samples, in each of its rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelSamples {
    /// Indexes in `kernels.rows` of `metrics.json`.
    pub kernel_rows: Vec<usize>,
    /// What the samples say.
    #[serde(flatten)]
    pub sampled: SampledKernel,
}

impl Timelines {
    /// Those of a report.
    pub fn of(report: &Report) -> Self {
        let stages = report.sampled.iter().flat_map(|sampled| &sampled.stages).enumerate();
        let steps = stages.filter_map(|(sampled_stage, row)| {
            let steps = row.steps.as_ref()?;
            let (median, each) = (steps.median.clone(), steps.each.clone());
            Some(StepSamples { sampled_stage, stage: row.stage.clone(), median, each })
        });
        Self {
            schema: TIMELINES_SCHEMA.to_owned(),
            schema_version: TIMELINES_VERSION,
            generator: report.generator.clone(),
            simulated: report.simulated,
            kernel_rows: report.kernels.len(),
            step_timelines: report.step_timelines.clone(),
            sampled_steps: steps.collect(),
            sampled_kernels: sampled_kernels(&report.kernels),
        }
    }

    /// Puts all of it where it was when the report was made.
    ///
    /// # Errors
    /// Why it belongs to another report, or to none.
    pub fn put_into(self, report: &mut Report) -> Result<(), String> {
        let Self { schema, schema_version, kernel_rows, .. } = &self;
        if schema != TIMELINES_SCHEMA || *schema_version > TIMELINES_VERSION {
            return Err(format!(
                "it is not a file of timelines up to version {TIMELINES_VERSION}, which this \
                 stage2-launch reads"
            ));
        }
        if *kernel_rows != report.kernels.len() {
            return Err("it belongs to another metrics.json".to_owned());
        }
        report.step_timelines = self.step_timelines;
        let stages = report.sampled.iter_mut().flat_map(|sampled| &mut sampled.stages);
        let mut stages: Vec<_> = stages.collect();
        for StepSamples { sampled_stage, stage, median, each } in self.sampled_steps {
            let row = stages.get_mut(sampled_stage).filter(|row| row.stage == stage);
            if let Some(steps) = row.and_then(|row| row.steps.as_mut()) {
                (steps.median, steps.each) = (median, each);
            }
        }
        for KernelSamples { kernel_rows, sampled } in self.sampled_kernels {
            for at in kernel_rows {
                if let Some(row) = report.kernels.get_mut(at) {
                    row.sampled = Some(Box::new(sampled.clone()));
                }
            }
        }
        Ok(())
    }
}

/// What may tell the samples of two rows apart: they are of a stage, not of each range in it.
type Sampled<'r> = (&'r str, usize, &'r str, Option<Launch>, Sources);

/// The samples of all rows, once where several have the same.
fn sampled_kernels(rows: &[KernelRow]) -> Vec<KernelSamples> {
    let mut found: Vec<KernelSamples> = Vec::new();
    let mut known: HashMap<Sampled<'_>, Vec<usize>> = HashMap::new();
    for (at, row) in rows.iter().enumerate() {
        let Some(sampled) = row.sampled.as_deref() else { continue };
        let key = (&*row.stage, row.name_index, &*row.device, row.launch, row.sources);
        let places = known.entry(key).or_default();
        let same =
            places.iter().find(|&&place| found.get(place).is_some_and(|k| k.sampled == *sampled));
        match same.copied().and_then(|place| found.get_mut(place)) {
            Some(samples) => samples.kernel_rows.push(at),
            None => {
                places.push(found.len());
                found.push(KernelSamples { kernel_rows: vec![at], sampled: sampled.clone() });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampled::{SampledAmount, SampledCounters, SampledStage, SampledSteps};

    fn sampled(value: f64) -> Option<Box<SampledKernel>> {
        let amount = SampledAmount::AtMost { limit: value };
        Some(Box::new(SampledKernel {
            mean_ns: Some(value),
            dram_read_bytes: amount.clone(),
            dram_write_bytes: amount.clone(),
            l2_bytes: amount.clone(),
            tensor_ns: amount.clone(),
            issue_ns: amount,
            dram_percent: None,
            dram_percent_at_most: None,
            dram_percent_at_least: None,
            tensor_percent: None,
            tensor_flops_per_s: None,
            flops_per_byte: None,
            bound: None,
            bound_why: None,
            dram_read_over_ncu: None,
        }))
    }

    fn report() -> Report {
        let kernel = |value| KernelRow { sampled: value, ..KernelRow::default() };
        let steps = SampledSteps {
            median: Some(SampledCurve { number: 3, ..SampledCurve::default() }),
            each: vec![SampledStep { number: 3, ..SampledStep::default() }],
            ..SampledSteps::default()
        };
        let stage = |steps| SampledStage { stage: "decode".into(), steps, ..Default::default() };
        let stages = vec![stage(None), stage(Some(steps))];
        Report {
            step_timelines: vec![StepTimeline { stage: "decode".into(), ..Default::default() }],
            sampled: Some(SampledCounters { stages, ..SampledCounters::default() }),
            kernels: vec![
                kernel(sampled(1.0 / 3.0)),
                kernel(None),
                kernel(sampled(2.0)),
                kernel(sampled(1.0 / 3.0)),
            ],
            ..Report::default()
        }
    }

    #[test]
    fn what_leaves_the_report_comes_back() {
        let report = report();
        let timelines = serde_json::to_string(&Timelines::of(&report)).expect("JSON");
        let timelines: Timelines = serde_json::from_str(&timelines).expect("our own JSON");
        let rows: Vec<_> =
            timelines.sampled_kernels.iter().map(|k| k.kernel_rows.clone()).collect();
        assert_eq!(rows, [vec![0, 3], vec![2]], "rows with the same samples share them");
        let text = serde_json::to_string(&report).expect("JSON");
        let mut again: Report = serde_json::from_str(&text).expect("our own JSON");
        assert!(again.step_timelines.is_empty() && again.kernels[0].sampled.is_none());
        timelines.put_into(&mut again).expect("those of this report");
        assert_eq!(again, report);
    }

    #[test]
    fn those_of_another_report_are_refused() {
        let mut other = report();
        other.kernels.pop();
        let refused = Timelines::of(&report()).put_into(&mut other).expect_err("other");
        assert!(refused.contains("another metrics.json"), "{refused}");
        let newer = Timelines { schema_version: TIMELINES_VERSION + 1, ..Timelines::of(&other) };
        assert!(newer.put_into(&mut other).is_err_and(|why| why.contains("up to version 1")));
        // Damaged: indexes that lead nowhere.
        let mut beyond = Timelines::of(&report());
        beyond.sampled_steps[0].sampled_stage = 9;
        beyond.sampled_kernels[0].kernel_rows = vec![usize::MAX];
        assert!(beyond.put_into(&mut report()).is_ok());
    }
}
