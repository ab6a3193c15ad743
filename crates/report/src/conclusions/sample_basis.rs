//! A stage -> the instances that its GPU times are over: warm ones, recorded ones, or all; without
//! outliers.

use stage2_contract::stats::scaled;
use stage2_contract::text::numbers::{count, counted};
use stage2_model::{BusyParts, Origin, Report, StageRow, StepUnit, WarmRow};

/// Instances of a stage, and their GPU times together.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SampleBasis {
    pub(crate) instances: u64,
    pub(crate) window_ns: Option<u64>,
    pub(crate) busy_ns: Option<u64>,
    pub(crate) kernels: Option<u64>,
    pub(crate) busy_parts: Option<BusyParts>,
    pub(crate) short_gaps_ns: Option<u64>,
    /// What that is, in words.
    pub(crate) basis: String,
}

/// So many calls for each one that did not end hardly have a shorter mean because of it.
const FEWEST_PER_CUT: u64 = 10;

/// The times that work can be set against.
pub(crate) fn sample_basis(report: &Report, row: &StageRow) -> SampleBasis {
    let all = with_outliers(report, row);
    let Some(outliers) = row.outliers.as_ref().filter(|outliers| outliers.left_out) else {
        return all;
    };
    let (Some(window_ns), Some(busy_ns)) = (all.window_ns, all.busy_ns) else { return all };
    let rest = outliers.taken_from(WarmRow {
        instances: all.instances,
        gpu_window_ns: window_ns,
        gpu_busy_ns: busy_ns,
        gpu_short_gaps_ns: all.short_gaps_ns.unwrap_or(0),
        gpu_busy_parts: all.busy_parts,
        kernels: all.kernels.unwrap_or(0),
    });
    let without = match outliers.unit {
        StepUnit::Instance => format!("{} left out", counted(outliers.count, "outlier")),
        _ => format!(
            "{} of {} steps replaced by the others",
            counted(outliers.count, "outlier"),
            count(outliers.of)
        ),
    };
    SampleBasis {
        instances: rest.instances,
        window_ns: Some(rest.gpu_window_ns),
        busy_ns: Some(rest.gpu_busy_ns),
        kernels: all.kernels.map(|_| rest.kernels),
        busy_parts: rest.gpu_busy_parts,
        short_gaps_ns: all.short_gaps_ns.map(|_| rest.gpu_short_gaps_ns),
        basis: format!("{}; {without}", all.basis),
    }
}

fn with_outliers(report: &Report, row: &StageRow) -> SampleBasis {
    let all = row.instances.unwrap_or(0);
    let noun = report.noun_of(&row.stage);
    let of_row = |instances, basis| SampleBasis {
        instances,
        window_ns: row.gpu_window_ns,
        busy_ns: row.gpu_busy_ns,
        kernels: row.kernels,
        busy_parts: row.gpu_busy_parts,
        short_gaps_ns: row.gpu_short_gaps_ns,
        basis,
    };
    let unknown = |basis| SampleBasis { instances: all, basis, ..SampleBasis::default() };
    if report.is_sampled() {
        // Windows and busy times are those of the recorded instances; kernel counts are scaled to all
        // instances. If instances were recorded only in part (sampling chose among ranges within
        // them), or only in some processes, no time is over a known number of instances.
        let taken = row.recorded_instances.filter(|taken| (1..=all).contains(taken));
        let Some(taken) = taken.filter(|_| report.is_sampled_throughout()) else {
            let why =
                format!("none of the {} {noun}s is known to be recorded as a whole", count(all));
            return unknown(why);
        };
        return SampleBasis {
            kernels: row.kernels.and_then(|kernels| scaled(kernels, taken, all)),
            ..of_row(
                taken,
                format!("mean of the {} recorded of {}", count(taken), counted(all, noun)),
            )
        };
    }
    // Of some ranges, or in some processes, GPU work was not recorded: the numbers of the row,
    // unscaled, are over the instances that were recorded.
    match (left_out(report, row), &row.warm) {
        (Some(0), _) => {
            unknown(format!("GPU work of none of the {} {noun}s was recorded", count(all)))
        }
        (Some(taken), _) => of_row(
            taken,
            format!("mean of the {} recorded of {}", count(taken), counted(all, noun)),
        ),
        (None, Some(warm)) => SampleBasis {
            instances: warm.instances,
            window_ns: Some(warm.gpu_window_ns),
            busy_ns: Some(warm.gpu_busy_ns),
            kernels: Some(warm.kernels),
            busy_parts: warm.gpu_busy_parts,
            short_gaps_ns: Some(warm.gpu_short_gaps_ns),
            basis: format!(
                "mean of {}, the first, cold one left out",
                counted(warm.instances, &format!("warm {noun}"))
            ),
        },
        (None, None) => {
            let cut = row.unclosed.unwrap_or(0);
            if let Some(rest) = without_the_cut_ones(row, all, cut) {
                let basis = format!(
                    "mean of {}, the first, cold one included; the time of {} that did not end is taken off by its \
                     share of the kernels",
                    counted(rest.instances, noun),
                    count(cut)
                );
                return SampleBasis { basis, ..rest };
            }
            // A mean over calls of which a notable part is missing is too short, next to times of whole steps.
            if all > 1 && cut.saturating_mul(FEWEST_PER_CUT) > all {
                return unknown(format!(
                    "{} of {} did not end, and how much of their GPU work was recorded is not known",
                    count(cut),
                    counted(all, noun)
                ));
            }
            let basis = row.only_words().unwrap_or_else(|| match (all, cut) {
                (1, _) => format!("the only {noun}, which is cold"),
                (_, 1..) => format!(
                    "mean of all {all} {noun}s, also of the first, cold one, and of {} that did not end, up to its last \
                     GPU work",
                    count(cut)
                ),
                _ => format!(
                    "mean of all {all} {noun}s, the first, cold one included: it could not be \
                     distinguished from the others"
                ),
            });
            of_row(all, basis)
        }
    }
}

/// The instances that ended, where `cut` of all did not: as each has the same kernels, theirs tell how far the others
/// came. With these as whole ones, a mean would be too short.
fn without_the_cut_ones(row: &StageRow, all: u64, cut: u64) -> Option<SampleBasis> {
    let ended = all.checked_sub(cut).filter(|&ended| ended > 1 && cut > 0)?;
    let each = row
        .kernels_per_instance_max
        .filter(|_| row.kernels_per_instance_median == row.kernels_per_instance_max)?;
    let (theirs, kernels) = (each.checked_mul(ended)?, row.kernels?);
    if !(theirs..=each.checked_mul(all)?).contains(&kernels) || theirs == 0 {
        return None;
    }
    // Of `kernels`, `theirs` are in instances that ended.
    let part = |value: Option<u64>| scaled(value?, theirs, kernels);
    let parts = |parts: BusyParts| {
        Some(BusyParts {
            compute_ns: part(Some(parts.compute_ns))?,
            communication_ns: part(Some(parts.communication_ns))?,
            copies_ns: part(Some(parts.copies_ns))?,
        })
    };
    Some(SampleBasis {
        instances: ended,
        window_ns: part(row.gpu_window_ns),
        busy_ns: part(row.gpu_busy_ns),
        kernels: Some(theirs),
        busy_parts: row.gpu_busy_parts.and_then(parts),
        short_gaps_ns: part(row.gpu_short_gaps_ns),
        basis: String::new(),
    })
}

/// The window of a stage in the whole run, ns, without outliers, and without its first, cold instance if that can be
/// separated: an engine may compile in it for longer than it serves afterwards.
pub(crate) fn usual_window_ns(report: &Report, row: &StageRow) -> Option<u64> {
    match row.ordinary().filter(|_| is_warm(report, row)) {
        Some(usual) => Some(usual.gpu_window_ns),
        None => whole_window_ns(report, row),
    }
}

/// The window of all instances but outliers, as it would be, had all been recorded.
fn whole_window_ns(report: &Report, row: &StageRow) -> Option<u64> {
    let Some(all) = row.instances.filter(|_| is_in_part(report, row)) else {
        let without = |ns| row.outliers.as_ref().map_or(ns, |outliers| outliers.without(ns));
        return row.gpu_window_ns.map(without);
    };
    let SampleBasis { instances, window_ns, .. } = sample_basis(report, row);
    scaled(window_ns?, all, instances)
}

/// Whether [`sample_basis`] takes the warm instances.
pub(crate) fn is_warm(report: &Report, row: &StageRow) -> bool {
    row.warm.is_some() && !is_in_part(report, row)
}

/// Whether GPU work of only some instances was recorded.
pub(crate) fn is_in_part(report: &Report, row: &StageRow) -> bool {
    report.is_sampled() || left_out(report, row).is_some()
}

/// The recorded instances, where the collector's rows are not of all.
fn left_out(report: &Report, row: &StageRow) -> Option<u64> {
    let ours = report.source == Origin::Collector.label();
    row.recorded_instances.filter(|&taken| ours && taken < row.instances.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_model::ProcessCoverage;

    fn report(samples: &[Option<&str>]) -> Report {
        let mut report =
            Report { source: Origin::Collector.label().to_owned(), ..Report::default() };
        let meta = |sample: &str| ("sample".to_owned(), sample.to_owned());
        for sample in samples {
            let meta = sample.map(meta).into_iter().collect();
            report.coverage.processes.push(ProcessCoverage { meta, ..ProcessCoverage::default() });
        }
        report
    }

    fn row(recorded_instances: Option<u64>) -> StageRow {
        StageRow {
            instances: Some(64),
            recorded_instances,
            gpu_window_ns: Some(4_000),
            gpu_busy_ns: Some(1_000),
            kernels: Some(640),
            ..StageRow::default()
        }
    }

    #[test]
    fn times_of_a_sample_are_over_its_recorded_instances() {
        let report = report(&[Some("1/16")]);
        let basis = sample_basis(&report, &row(Some(4)));
        assert_eq!((basis.instances, basis.window_ns), (4, Some(4_000)));
        assert_eq!(basis.busy_ns, Some(1_000));
        assert_eq!(basis.kernels, Some(40), "the row counts the kernels of all 64 instances");
        assert_eq!(whole_window_ns(&report, &row(Some(4))), Some(64_000));
    }

    #[test]
    fn times_over_an_unknown_number_of_instances_are_not_used() {
        for (samples, recorded) in [
            (&[Some("1/16")][..], None),
            (&[Some("1/16")], Some(0)),
            (&[Some("1/16")], Some(65)),
            (&[Some("1/16"), None], Some(4)),
        ] {
            let report = report(samples);
            let basis = sample_basis(&report, &row(recorded));
            assert_eq!((basis.window_ns, basis.busy_ns, basis.kernels), (None, None, None));
            assert_eq!(whole_window_ns(&report, &row(recorded)), None);
        }
    }

    #[test]
    fn what_a_filter_left_out_is_in_no_mean() {
        let report = report(&[None]);
        let some = sample_basis(&report, &row(Some(4)));
        assert_eq!((some.instances, some.window_ns, some.kernels), (4, Some(4_000), Some(640)));
        assert_eq!(whole_window_ns(&report, &row(Some(4))), Some(64_000));
        let none = sample_basis(&report, &row(Some(0)));
        assert_eq!((none.window_ns, none.busy_ns, none.kernels), (None, None, None));
        assert_eq!(none.basis, "GPU work of none of the 64 calls was recorded");
        assert_eq!(whole_window_ns(&report, &row(Some(0))), None);
        assert_eq!(sample_basis(&report, &row(Some(64))), sample_basis(&report, &row(None)));
        // The rows of another tool are of all instances.
        let report = Report { source: Origin::Nsys.label().to_owned(), ..report };
        assert_eq!(sample_basis(&report, &row(Some(0))), sample_basis(&report, &row(None)));
    }

    #[test]
    fn without_a_sample_all_instances_count() {
        let report = report(&[None]);
        assert_eq!(sample_basis(&report, &row(None)).instances, 64);
        assert_eq!(whole_window_ns(&report, &row(None)), Some(4_000));
    }

    #[test]
    fn an_instance_that_did_not_end_counts_as_far_as_its_kernels_tell() {
        let report = report(&[None]);
        let cut = |kernels| StageRow {
            instances: Some(11),
            unclosed: Some(1),
            kernels: Some(kernels),
            kernels_per_instance_median: Some(100),
            kernels_per_instance_max: Some(100),
            gpu_window_ns: Some(10_500),
            gpu_busy_ns: Some(2_100),
            ..row(None)
        };
        let half = sample_basis(&report, &cut(1_050));
        assert_eq!((half.instances, half.window_ns, half.busy_ns), (10, Some(10_000), Some(2_000)));
        assert_eq!(half.kernels, Some(1_000));
        assert!(
            half.basis.starts_with("mean of 10 calls, the first, cold one included; "),
            "{}",
            half.basis
        );
        // Where calls differ, their kernels do not tell how far one came.
        let unlike = StageRow { kernels_per_instance_max: Some(101), ..cut(1_050) };
        assert_eq!(
            (sample_basis(&report, &unlike).instances, sample_basis(&report, &cut(990)).instances),
            (11, 11)
        );
    }
}
