//! What processes do -> OpenMetrics text, with a bounded number of series.
//!
//! No kernel has a series: a stage has one for each class of kernels. Counters hold what was read since
//! `feed` began, over all files of a process.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use stage2_live::{BUCKETS_S, FileState, Look, StageNumbers, Watched, class_label};

/// Processes with series of their own; those beyond are counted.
const PROCESSES: usize = 64;

/// What `feed` knows besides the trace files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Own {
    /// Now, ns since the Unix epoch.
    pub(crate) now_ns: u64,
    /// CPU time of the collector's threads by process, seconds.
    pub(crate) cpu_seconds: Vec<(u32, f64)>,
}

/// The whole text.
pub(crate) fn text(look: Look, own: Own) -> String {
    let mut registry = Registry::with_prefix("stage2");
    registry.register_collector(Box::new(Metrics { look, own }));
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = encode(&mut text, &registry);
    text
}

type Labels = Vec<(&'static str, String)>;

#[derive(Debug)]
struct Metrics {
    look: Look,
    own: Own,
}

enum Value {
    Count(u64),
    Seconds(f64),
    Gauge(f64),
    Steps { sum: f64, count: u64, buckets: Vec<(f64, u64)> },
}

impl Value {
    fn ns(ns: u64) -> Value {
        Value::Seconds(ns as f64 / 1e9)
    }

    fn encode(&self, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        match self {
            Value::Count(count) => encoder.encode_counter::<NoLabelSet, u64, u64>(count, None),
            Value::Seconds(seconds) => {
                encoder.encode_counter::<NoLabelSet, f64, u64>(seconds, None)
            }
            Value::Gauge(gauge) => encoder.encode_gauge(gauge),
            Value::Steps { sum, count, buckets } => {
                encoder.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None)
            }
        }
    }
}

/// What a metric is called and says, and its unit.
struct About(&'static str, &'static str, Option<Unit>, MetricType);

impl Metrics {
    fn processes(&self) -> impl Iterator<Item = &Watched> {
        self.look.processes.iter().take(PROCESSES)
    }

    /// One series for each process and each row that it has.
    fn per_process(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        about: About,
        rows: impl Fn(&Watched) -> Vec<(Labels, Value)>,
    ) -> fmt::Result {
        let About(name, help, unit, kind) = about;
        let mut metric = encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
        for process in self.processes() {
            for (more, value) in rows(process) {
                let rank = process.rank.map(|rank| rank.to_string()).unwrap_or_default();
                let own = [
                    ("host", process.host.clone()),
                    ("pid", process.pid.to_string()),
                    ("rank", rank),
                ];
                let labels: Labels = own.into_iter().chain(more).collect();
                value.encode(&mut metric.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    /// One series for each process and stage.
    fn per_stage(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        about: About,
        value: impl Fn(&StageNumbers) -> Option<Value>,
    ) -> fmt::Result {
        self.per_process(encoder, about, |process| {
            let stages = process.totals.iter();
            let rows = stages
                .filter_map(|(stage, sum)| Some((vec![("stage", stage.clone())], value(sum)?)));
            rows.collect()
        })
    }

    fn stages(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let about = |name, help, unit, kind| About(name, help, unit, kind);
        let seconds = || Some(Unit::Seconds);
        self.per_stage(
            encoder,
            about(
                "stage_step",
                "How long an outermost range of the program was open.",
                seconds(),
                MetricType::Histogram,
            ),
            |sum| (sum.steps > 0).then(|| step_times(sum)),
        )?;
        self.per_stage(
            encoder,
            about("stage_tokens", "Tokens of the steps that say so.", None, MetricType::Counter),
            |sum| (sum.steps_with_tokens > 0).then_some(Value::Count(sum.tokens)),
        )?;
        self.per_stage(
            encoder,
            about(
                "stage_window",
                "Time in which a recorded step was open, or its GPU work ran.",
                seconds(),
                MetricType::Counter,
            ),
            |sum| Some(Value::ns(sum.window_ns)),
        )?;
        self.per_stage(
            encoder,
            about(
                "stage_busy",
                "Time in which any GPU work of the stage ran.",
                seconds(),
                MetricType::Counter,
            ),
            |sum| Some(Value::ns(sum.busy_ns)),
        )?;
        self.per_stage(
            encoder,
            about(
                "stage_launch_gap",
                "Gaps of 50 us at most between GPU work within steps.",
                seconds(),
                MetricType::Counter,
            ),
            |sum| Some(Value::ns(sum.gaps_ns)),
        )
    }

    fn classes(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let rows = |process: &Watched, value: &dyn Fn(&StageNumbers, usize) -> Value| {
            let mut rows = Vec::new();
            for (stage, sum) in &process.totals {
                for (class, _) in
                    sum.class_launches.iter().enumerate().filter(|(_, count)| **count > 0)
                {
                    let label = class_label(class as u8).to_owned();
                    rows.push((
                        vec![("stage", stage.clone()), ("class", label)],
                        value(sum, class),
                    ));
                }
            }
            rows
        };
        let of = |numbers: &[u64], class: usize| numbers.get(class).copied().unwrap_or(0);
        let help = "Time of GPU work by class; work that overlaps counts twice.";
        self.per_process(
            encoder,
            About("stage_class", help, Some(Unit::Seconds), MetricType::Counter),
            |process| rows(process, &|sum, class| Value::ns(of(&sum.class_ns, class))),
        )?;
        self.per_process(
            encoder,
            About(
                "stage_class_launches",
                "Pieces of GPU work by class.",
                None,
                MetricType::Counter,
            ),
            |process| rows(process, &|sum, class| Value::Count(of(&sum.class_launches, class))),
        )
    }

    fn whole_processes(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Time in which a GPU, as the process numbers it, worked for the process.";
        self.per_process(
            encoder,
            About("device_busy", help, Some(Unit::Seconds), MetricType::Counter),
            |process| {
                let devices = process.device_totals.iter();
                devices
                    .map(|(device, &ns)| (vec![("device", device.to_string())], Value::ns(ns)))
                    .collect()
            },
        )?;
        let help = "Pieces of GPU work by where their launch was placed: the coverage.";
        self.per_process(encoder, About("launches", help, None, MetricType::Counter), |process| {
            let counts = &process.counts;
            let all = [
                ("range", counts.attributed),
                ("outside", counts.outside),
                ("unattributed", counts.unattributed),
            ];
            all.map(|(placed, count)| (vec![("placed", placed.to_owned())], Value::Count(count)))
                .into()
        })?;
        let help = "What was not kept, by kind; docs/live.md lists the kinds.";
        self.per_process(encoder, About("losses", help, None, MetricType::Counter), |process| {
            let own = [
                ("corrupt_frames", process.corrupt_frames),
                ("reader_limits", process.counts.left_out),
            ];
            let all = process.losses.iter().copied().chain(own);
            all.map(|(kind, count)| (vec![("kind", kind.to_owned())], Value::Count(count)))
                .collect()
        })?;
        let help = "GPU work that came too late to count as busy time.";
        self.per_process(
            encoder,
            About("late", help, Some(Unit::Seconds), MetricType::Counter),
            |process| vec![(Vec::new(), Value::ns(process.late_ns))],
        )?;
        let help = "CPU time of the collector's own threads.";
        self.per_process(
            encoder,
            About("collector_cpu", help, Some(Unit::Seconds), MetricType::Counter),
            |process| {
                let known = self.own.cpu_seconds.iter().find(|(pid, _)| *pid == process.pid);
                known
                    .map(|&(_, seconds)| (Vec::new(), Value::Seconds(seconds)))
                    .into_iter()
                    .collect()
            },
        )?;
        let help = "Trace files of the process, as far as they were read.";
        self.per_process(
            encoder,
            About("trace", help, Some(Unit::Bytes), MetricType::Counter),
            |process| vec![(Vec::new(), Value::Count(process.bytes))],
        )?;
        let help = "How old the last event is.";
        self.per_process(
            encoder,
            About("data_age", help, Some(Unit::Seconds), MetricType::Gauge),
            |process| {
                let age = process
                    .last_wall_ns
                    .map(|last| self.own.now_ns.saturating_sub(last) as f64 / 1e9);
                age.map(|age| (Vec::new(), Value::Gauge(age))).into_iter().collect()
            },
        )?;
        let help = "1 while the trace file of the process grows, 0 when it is over.";
        self.per_process(encoder, About("recording", help, None, MetricType::Gauge), |process| {
            let on = process.state == FileState::Growing;
            vec![(Vec::new(), Value::Gauge(f64::from(u8::from(on))))]
        })
    }

    fn own(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let look = &self.look;
        let beyond = look.processes.len().saturating_sub(PROCESSES);
        let one = |encoder: &mut DescriptorEncoder<'_>, about: About, value: Value| {
            let About(name, help, unit, kind) = about;
            value.encode(&mut encoder.encode_descriptor(name, help, unit.as_ref(), kind)?)
        };
        let about = |name, help, unit| About(name, help, unit, MetricType::Gauge);
        let bytes = || Some(Unit::Bytes);
        let help = "Bytes of trace files that are there and were not read yet.";
        one(encoder, about("feed_behind", help, bytes()), Value::Gauge(look.behind_bytes as f64))?;
        let help = "Bytes of trace files of which only definitions were read.";
        let skipped = About("feed_skipped", help, bytes(), MetricType::Counter);
        one(encoder, skipped, Value::Count(look.skipped_bytes))?;
        let help = "Trace files beyond those that are followed.";
        one(
            encoder,
            about("feed_files_left_out", help, None),
            Value::Gauge(look.files_left_out as f64),
        )?;
        let help = "Processes beyond those with series of their own.";
        one(encoder, about("feed_processes_left_out", help, None), Value::Gauge(beyond as f64))?;
        let help =
            "Trace files that were damaged, cut, replaced or taken away, of the last twenty.";
        one(encoder, about("feed_problems", help, None), Value::Gauge(look.problems.len() as f64))
    }
}

fn step_times(sum: &StageNumbers) -> Value {
    let bounds = BUCKETS_S.into_iter().chain([f64::INFINITY]);
    let buckets = bounds.zip(sum.step_buckets).collect();
    Value::Steps { sum: sum.steps_ns as f64 / 1e9, count: sum.steps, buckets }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.stages(&mut encoder)?;
        self.classes(&mut encoder)?;
        self.whole_processes(&mut encoder)?;
        self.own(&mut encoder)
    }
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
