//! What processes do -> OpenMetrics text, with a bounded number of series.
//!
//! No kernel has a series: a stage has one for each class of kernels. Counters hold what was read since
//! `feed` began, over all files of a process. Sums over all processes come under names of their own, and of
//! many processes only the slowest have series.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use stage2_live::{BUCKETS_S, Look, MAX_STAGES, OTHER, StageNumbers, Watched, class_label};

/// What `feed` knows besides the trace files.
#[derive(Clone, Debug, Default)]
pub(crate) struct FeedStatus {
    pub(crate) now_ns: u64,
    /// CPU time of the collector's threads by process, seconds.
    pub(crate) cpu_seconds: Vec<(u32, f64)>,
}

/// The page, with series of `limit` processes.
pub(crate) fn text(look: Look, own: FeedStatus, limit: usize) -> String {
    let mut registry = Registry::with_prefix("stage2");
    let (job, shown) = (sums(&look), slowest(&look, limit));
    registry.register_collector(Box::new(Metrics { look, own, job, shown }));
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = encode(&mut text, &registry);
    text
}

/// All processes as one.
fn sums(look: &Look) -> Watched {
    let mut job = Watched::default();
    for process in &look.processes {
        for (stage, numbers) in &process.totals {
            let has_room = job.totals.len() < MAX_STAGES || job.totals.contains_key(stage);
            let stage = if has_room { stage } else { OTHER };
            match job.totals.get_mut(stage) {
                Some(sum) => sum.add(numbers),
                None => drop(job.totals.insert(stage.to_owned(), numbers.clone())),
            }
        }
        let (sums, more) = (&mut job.counts, &process.counts);
        for (sum, more) in [
            (&mut sums.attributed, more.attributed),
            (&mut sums.outside, more.outside),
            (&mut sums.unattributed, more.unattributed),
            (&mut sums.left_out, more.left_out),
            (&mut job.corrupt_frames, process.corrupt_frames),
        ] {
            *sum = sum.saturating_add(more);
        }
        if job.losses.is_empty() {
            job.losses.clone_from(&process.losses);
        } else {
            for ((_, sum), (_, more)) in job.losses.iter_mut().zip(&process.losses) {
                *sum = sum.saturating_add(*more);
            }
        }
    }
    job
}

/// The processes with series of their own, in their order: all, or those with the slowest steps recently, in the
/// stage that takes most of the time of all processes together.
fn slowest(look: &Look, limit: usize) -> Vec<usize> {
    let all = &look.processes;
    let mut shown: Vec<usize> = (0..all.len()).collect();
    if all.len() <= limit {
        return shown;
    }
    let mut times: BTreeMap<&str, u64> = BTreeMap::new();
    for (stage, numbers) in all.iter().flat_map(|process| &process.window.stages) {
        let sum = times.entry(stage).or_default();
        *sum = sum.saturating_add(numbers.steps_ns);
    }
    let longest = times.into_iter().max_by_key(|(_, ns)| *ns).map(|(stage, _)| stage);
    let step_ns = |at: &usize| {
        let stages = all.get(*at).map(|process| &process.window.stages);
        let numbers = stages.zip(longest).and_then(|(stages, stage)| stages.get(stage));
        Reverse(numbers.and_then(|numbers| numbers.steps_ns.checked_div(numbers.steps)))
    };
    shown.sort_by_key(step_ns);
    shown.truncate(limit);
    shown.sort_unstable();
    shown
}

/// Leaves only the processes that have their own series.
pub(crate) fn only_slowest(mut look: Look, limit: usize) -> Look {
    let shown = slowest(&look, limit);
    let left_out = (look.processes.len() - shown.len()) as u64;
    look.processes_left_out = look.processes_left_out.saturating_add(left_out);
    let mut at = 0;
    look.processes.retain(|_| {
        at += 1;
        shown.binary_search(&(at - 1)).is_ok()
    });
    look
}

type Labels = Vec<(&'static str, String)>;

#[derive(Debug)]
struct Metrics {
    look: Look,
    own: FeedStatus,
    /// Sums over all processes.
    job: Watched,
    /// The processes with series of their own.
    shown: Vec<usize>,
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
struct MetricInfo(&'static str, Option<Unit>, &'static str, MetricType);

const SECONDS: Option<Unit> = Some(Unit::Seconds);
const BYTES: Option<Unit> = Some(Unit::Bytes);

fn counter(name: &'static str, unit: Option<Unit>, help: &'static str) -> MetricInfo {
    MetricInfo(name, unit, help, MetricType::Counter)
}

fn gauge(name: &'static str, unit: Option<Unit>, help: &'static str) -> MetricInfo {
    MetricInfo(name, unit, help, MetricType::Gauge)
}

impl Collector for Metrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut output = Output { metrics: self, encoder, is_job: false };
        for is_job in [false, true] {
            output.is_job = is_job;
            output.stages()?;
            output.classes()?;
            output.work()?;
        }
        output.is_job = false;
        output.processes()?;
        output.own()
    }
}

struct Output<'m, 'e> {
    metrics: &'m Metrics,
    encoder: DescriptorEncoder<'e>,
    /// What is written is of all processes together.
    is_job: bool,
}

impl Output<'_, '_> {
    /// One series for each process and each row that it has.
    fn rows(
        &mut self,
        about: MetricInfo,
        rows: impl Fn(&Watched) -> Vec<(Labels, Value)>,
    ) -> fmt::Result {
        let Metrics { look, job, shown, .. } = self.metrics;
        let MetricInfo(name, unit, help, kind) = about;
        if self.is_job {
            let (name, help) =
                (format!("job_{name}"), format!("Of all processes together. {help}"));
            let mut metric = self.encoder.encode_descriptor(&name, &help, unit.as_ref(), kind)?;
            for (labels, value) in rows(job) {
                value.encode(&mut metric.encode_family(&labels)?)?;
            }
            return Ok(());
        }
        let mut metric = self.encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
        for process in shown.iter().filter_map(|at| look.processes.get(*at)) {
            for (more, value) in rows(process) {
                let rank = process.rank.map(|rank| rank.to_string()).unwrap_or_default();
                let (host, pid) = (process.host.clone(), process.pid.to_string());
                let mut labels: Labels = vec![("host", host), ("pid", pid), ("rank", rank)];
                labels.extend(more);
                value.encode(&mut metric.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    /// One series for each process that has a value.
    fn per_process(
        &mut self,
        about: MetricInfo,
        value: impl Fn(&Watched) -> Option<Value>,
    ) -> fmt::Result {
        self.rows(about, |process| {
            value(process).map(|value| (Vec::new(), value)).into_iter().collect()
        })
    }

    fn per_stage(
        &mut self,
        about: MetricInfo,
        value: impl Fn(&StageNumbers) -> Option<Value>,
    ) -> fmt::Result {
        self.rows(about, |process| {
            let stages = process.totals.iter();
            let row = |(stage, sum)| Some((vec![("stage", String::clone(stage))], value(sum)?));
            stages.filter_map(row).collect()
        })
    }

    /// One series for each process, stage and class of kernels that ran.
    fn per_class(
        &mut self,
        about: MetricInfo,
        value: impl Fn(&StageNumbers, usize) -> Value,
    ) -> fmt::Result {
        self.rows(about, |process| {
            let mut rows = Vec::new();
            for (stage, sum) in &process.totals {
                let launches = sum.class_launches.iter().enumerate();
                for (class, _) in launches.filter(|(_, count)| **count > 0) {
                    let label = class_label(class as u8).to_owned();
                    let labels = vec![("stage", stage.clone()), ("class", label)];
                    rows.push((labels, value(sum, class)));
                }
            }
            rows
        })
    }

    fn stages(&mut self) -> fmt::Result {
        let help = "How long an outermost range of the program was open.";
        let about = MetricInfo("stage_step", SECONDS, help, MetricType::Histogram);
        self.per_stage(about, |sum| (sum.steps > 0).then(|| step_times(sum)))?;
        let about = counter("stage_tokens", None, "Tokens of the steps that say so.");
        self.per_stage(about, |sum| {
            (sum.steps_with_tokens > 0).then_some(Value::Count(sum.tokens))
        })?;
        let help = "Time in which a recorded step was open, or its GPU work ran.";
        let about = counter("stage_window", SECONDS, help);
        self.per_stage(about, |sum| Some(Value::ns(sum.window_ns)))?;
        let about = counter("stage_busy", SECONDS, "Time in which any GPU work of the stage ran.");
        self.per_stage(about, |sum| Some(Value::ns(sum.busy_ns)))?;
        let help = "Gaps of 50 us at most between GPU work within steps.";
        let about = counter("stage_launch_gap", SECONDS, help);
        self.per_stage(about, |sum| Some(Value::ns(sum.gaps_ns)))
    }

    fn classes(&mut self) -> fmt::Result {
        let of = |numbers: &[u64], class: usize| numbers.get(class).copied().unwrap_or(0);
        let help = "Time of GPU work by class; work that overlaps counts twice.";
        let about = counter("stage_class", SECONDS, help);
        self.per_class(about, |sum, class| Value::ns(of(&sum.class_ns, class)))?;
        let about = counter("stage_class_launches", None, "Pieces of GPU work by class.");
        self.per_class(about, |sum, class| Value::Count(of(&sum.class_launches, class)))
    }

    /// Where work was launched, and what was lost.
    fn work(&mut self) -> fmt::Result {
        let help = "Pieces of GPU work by where their launch was placed: the coverage.";
        self.rows(counter("launches", None, help), |process| {
            let counts = &process.counts;
            let all = [
                ("range", counts.attributed),
                ("outside", counts.outside),
                ("unattributed", counts.unattributed),
            ];
            all.map(|(placed, count)| (vec![("placed", placed.to_owned())], Value::Count(count)))
                .into()
        })?;
        let help = "What was not kept, by kind; docs/feed.md lists the kinds.";
        self.rows(counter("losses", None, help), |process| {
            let own = [
                ("corrupt_frames", process.corrupt_frames),
                ("reader_limits", process.counts.left_out),
            ];
            let all = process.losses.iter().copied().chain(own);
            all.map(|(kind, count)| (vec![("kind", kind.to_owned())], Value::Count(count)))
                .collect()
        })
    }

    fn processes(&mut self) -> fmt::Result {
        let help = "Time in which a GPU, as the process numbers it, worked for the process.";
        self.rows(counter("device_busy", SECONDS, help), |process| {
            let devices = process.device_totals.iter();
            devices
                .map(|(device, &ns)| (vec![("device", device.to_string())], Value::ns(ns)))
                .collect()
        })?;
        let about = counter(
            "late",
            SECONDS,
            "GPU work, and samples and calls of the host, that came too late to count.",
        );
        self.per_process(about, |process| Some(Value::ns(process.late_ns)))?;
        let FeedStatus { now_ns, cpu_seconds } = &self.metrics.own;
        let about = counter("collector_cpu", SECONDS, "CPU time of the collector's own threads.");
        self.per_process(about, |process| {
            let known = cpu_seconds.iter().find(|(pid, _)| *pid == process.pid);
            known.map(|&(_, seconds)| Value::Seconds(seconds))
        })?;
        let about =
            counter("trace", BYTES, "Trace files of the process, as far as they were read.");
        self.per_process(about, |process| Some(Value::Count(process.bytes)))?;
        self.per_process(gauge("data_age", SECONDS, "How old the last event is."), |process| {
            let age_ns = now_ns.saturating_sub(process.last_wall_ns?);
            Some(Value::Gauge(age_ns as f64 / 1e9))
        })?;
        let help = "1 while the trace file of the process grows, 0 when it is over or cut.";
        self.per_process(gauge("recording", None, help), |process| {
            Some(Value::Gauge(f64::from(u8::from(process.is_growing()))))
        })
    }

    fn own(&mut self) -> fmt::Result {
        let look = &self.metrics.look;
        let beyond = (look.processes.len() - self.metrics.shown.len()) as u64;
        let beyond = beyond.saturating_add(look.processes_left_out);
        let number = |number: u64| Value::Gauge(number as f64);
        let how_many = |is: fn(&&Watched) -> bool| look.processes.iter().filter(is).count() as u64;
        let help = "Processes whose trace file grows.";
        let recording = how_many(|process| process.is_growing());
        let recording = (gauge("job_recording", None, help), number(recording));
        let help = "Of these, those whose data is older than the newest of all by more than 15 s.";
        let lagging = (gauge("job_lagging", None, help), number(how_many(|process| process.lags)));
        let growing = look.processes.iter().filter(|process| process.is_growing());
        let oldest = growing.filter_map(|process| process.last_wall_ns).min();
        let age_ns = oldest.map_or(0, |at| self.metrics.own.now_ns.saturating_sub(at));
        let help = "How old the last event of the process is that is furthest behind.";
        let age = (gauge("job_data_age", SECONDS, help), Value::Gauge(age_ns as f64 / 1e9));
        let help = "Bytes of trace files that are there and were not read yet.";
        let behind = (gauge("feed_behind", BYTES, help), number(look.behind_bytes));
        let help = "Bytes of trace files of which only definitions were read.";
        let skipped = (counter("feed_skipped", BYTES, help), Value::Count(look.skipped_bytes));
        let help = "Trace files beyond those that are followed.";
        let files = (gauge("feed_files_left_out", None, help), number(look.files_left_out));
        let help = "Processes beyond those with separate series.";
        let processes = (gauge("feed_processes_left_out", None, help), number(beyond));
        let help = "Trace files that were damaged, cut, replaced or taken away, of the last twenty, and hosts without an answer.";
        let problems = (gauge("feed_problems", None, help), number(look.problems.len() as u64));
        for (MetricInfo(name, unit, help, kind), value) in
            [recording, lagging, age, behind, skipped, files, processes, problems]
        {
            let mut metric = self.encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
            value.encode(&mut metric)?;
        }
        Ok(())
    }
}

fn step_times(sum: &StageNumbers) -> Value {
    let bounds = BUCKETS_S.into_iter().chain([f64::INFINITY]);
    // Their running sum has room, whatever another host told.
    let counts = sum.step_buckets.map(|count| count.min(u64::MAX >> 5));
    let buckets = bounds.zip(counts).collect();
    Value::Steps { sum: sum.steps_ns as f64 / 1e9, count: sum.steps, buckets }
}

#[cfg(test)]
mod tests {
    use stage2_live::{Counts, StageNumbers, Watched};

    use super::*;

    fn process() -> Watched {
        let mut decode = StageNumbers {
            steps: 3,
            steps_ns: 30_000_000,
            tokens: 24,
            steps_with_tokens: 3,
            window_ns: 30_000_000,
            busy_ns: 20_000_000,
            gaps_ns: 1_000_000,
            ..StageNumbers::default()
        };
        decode.step_buckets[6] = 2;
        decode.step_buckets[7] = 1;
        (decode.class_ns[1], decode.class_launches[1]) = (15_000_000, 30);
        Watched {
            host: "node-1".into(),
            pid: 4711,
            rank: Some(3),
            state: stage2_live::FileState::Growing,
            totals: [("decode".to_owned(), decode)].into(),
            device_totals: [(0, 21_000_000)].into(),
            counts: Counts { work: 31, attributed: 30, outside: 1, ..Counts::default() },
            losses: vec![("dropped_by_cupti", 2)],
            bytes: 1_000,
            last_wall_ns: Some(7_000_000_000),
            ..Watched::default()
        }
    }

    fn of(processes: Vec<Watched>) -> String {
        let own = FeedStatus { now_ns: 9_500_000_000, cpu_seconds: vec![(4711, 0.25)] };
        text(Look { processes, ..Look::default() }, own, 64)
    }

    #[test]
    fn the_text_is_this() {
        let text = of(vec![process()]);
        let who = "host=\"node-1\",pid=\"4711\",rank=\"3\"";
        for line in [
            "# TYPE stage2_stage_step_seconds histogram".to_owned(),
            "# UNIT stage2_stage_step_seconds seconds".to_owned(),
            format!("stage2_stage_step_seconds_sum{{{who},stage=\"decode\"}} 0.03"),
            format!("stage2_stage_step_seconds_count{{{who},stage=\"decode\"}} 3"),
            format!("stage2_stage_step_seconds_bucket{{le=\"0.005\",{who},stage=\"decode\"}} 0"),
            format!("stage2_stage_step_seconds_bucket{{le=\"0.01\",{who},stage=\"decode\"}} 2"),
            format!("stage2_stage_step_seconds_bucket{{le=\"+Inf\",{who},stage=\"decode\"}} 3"),
            format!("stage2_stage_tokens_total{{{who},stage=\"decode\"}} 24"),
            format!("stage2_stage_window_seconds_total{{{who},stage=\"decode\"}} 0.03"),
            format!("stage2_stage_busy_seconds_total{{{who},stage=\"decode\"}} 0.02"),
            format!("stage2_stage_launch_gap_seconds_total{{{who},stage=\"decode\"}} 0.001"),
            format!(
                "stage2_stage_class_seconds_total{{{who},stage=\"decode\",class=\"gemm\"}} 0.015"
            ),
            format!(
                "stage2_stage_class_launches_total{{{who},stage=\"decode\",class=\"gemm\"}} 30"
            ),
            format!("stage2_device_busy_seconds_total{{{who},device=\"0\"}} 0.021"),
            format!("stage2_launches_total{{{who},placed=\"range\"}} 30"),
            format!("stage2_losses_total{{{who},kind=\"dropped_by_cupti\"}} 2"),
            format!("stage2_collector_cpu_seconds_total{{{who}}} 0.25"),
            format!("stage2_trace_bytes_total{{{who}}} 1000"),
            format!("stage2_data_age_seconds{{{who}}} 2.5"),
            format!("stage2_recording{{{who}}} 1.0"),
            "stage2_feed_behind_bytes 0.0".to_owned(),
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\nis not in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    /// Hazard (Watching what runs): Names of stages hold what terminals or Prometheus obey.
    /// Promise: They stay text.
    #[test]
    fn names_from_anywhere_stay_within_their_label() {
        let mut hostile = process();
        let sum = hostile.totals.remove("decode").expect("a stage");
        hostile.totals.insert("a\"} 1\\x0astage2_up 1 \\".to_owned(), sum);
        let text = of(vec![hostile]);
        assert!(text.contains(r#"stage="a\"} 1\\x0astage2_up 1 \\"} 0.02"#), "{text}");
        assert!(text.lines().all(|line| line.starts_with("stage2_") || line.starts_with("# ")));
    }

    /// Hazard (Watching what runs): A job has hundreds of processes.
    /// Promise: The number of series is bounded.
    #[test]
    fn series_are_bounded_and_no_kernel_has_one() {
        let many = |pid| {
            let mut process = Watched { pid, ..process() };
            let sum = process.totals["decode"].clone();
            process.totals.extend((0..3).map(|at| (format!("stage {at}"), sum.clone())));
            process
        };
        let processes: Vec<Watched> = (0..1_000).map(many).collect();
        let text = of(processes);
        let lines = |of: &str| text.lines().filter(|line| line.starts_with(of)).count();
        assert_eq!(lines("stage2_recording{"), 64);
        assert!(text.contains("stage2_feed_processes_left_out 936.0"));
        assert!(
            text.contains("stage2_job_stage_step_seconds_count{stage=\"decode\"} 3000"),
            "{text:.2000}"
        );
        assert!(text.contains("stage2_job_losses_total{kind=\"dropped_by_cupti\"} 2000"));
        assert!(text.contains("stage2_job_recording 1000.0"));
        assert!(text.len() < 1 << 20, "{}", text.len());
    }

    /// Hazard (Watching what runs): The hundreds of processes are on many hosts, each of which reports them.
    /// Promise: The number of series is bounded in the same way, and the sums cover everything that the hosts report.
    #[test]
    fn series_of_many_hosts_are_bounded() {
        let host = |host: u32| {
            let ranks =
                (0..60).map(|pid| Watched { host: format!("node-{host}"), pid, ..process() });
            let look = Look { processes: ranks.collect(), ..Look::default() };
            let told = stage2_live::write_message(only_slowest(look, 50), 0);
            (format!("node-{host}:9464"), stage2_live::read_message(&told, 0).expect("a look").0)
        };
        let look = Look::of_all((0..20).map(host));
        let own = FeedStatus { now_ns: 9_500_000_000, ..FeedStatus::default() };
        let text = text(look.clone(), own, 64);
        let lines = |of: &str| text.lines().filter(|line| line.starts_with(of)).count();
        assert_eq!(lines("stage2_recording{"), 64);
        for sum in [
            "stage2_feed_processes_left_out 1136.0",
            "stage2_job_recording 1000.0",
            "stage2_job_stage_step_seconds_count{stage=\"decode\"} 3000",
        ] {
            assert!(text.contains(sum), "{sum}");
        }
        assert!(text.len() < 1 << 20, "{}", text.len());
        // Numbers that no process has do not stop it.
        let most = StageNumbers {
            steps: u64::MAX,
            steps_ns: u64::MAX,
            step_buckets: [u64::MAX; BUCKETS_S.len() + 1],
            ..StageNumbers::default()
        };
        let mut hostile = look;
        for process in &mut hostile.processes {
            process.totals.insert("decode".to_owned(), most.clone());
            process.window.stages.insert("decode".to_owned(), most.clone());
            process.counts.attributed = u64::MAX;
        }
        super::text(hostile, FeedStatus::default(), 64);
    }

    /// Hazard (Watching what runs): A job has more ranks than series.
    /// Promise: Those with the slowest steps have series, whatever their number is.
    #[test]
    fn of_many_processes_the_slowest_have_series() {
        let ranked = |rank: u64| {
            let mut process = Watched { pid: rank as u32, rank: Some(rank), ..process() };
            let steps_ns = if rank == 777 { 90_000_000 } else { 30_000_000 };
            let numbers = StageNumbers { steps: 3, steps_ns, ..StageNumbers::default() };
            process.window.stages.insert("decode".to_owned(), numbers);
            process
        };
        let look = Look { processes: (0..1_000).map(ranked).collect(), ..Look::default() };
        assert_eq!(slowest(&look, 1), [777]);
        assert_eq!(slowest(&look, 3), [0, 1, 777]);
        assert_eq!(slowest(&look, 0), [0; 0]);
    }

    #[test]
    fn the_dashboard_asks_for_metrics_that_there_are() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/recipes/grafana.json");
        let dashboard = std::fs::read_to_string(path).expect("a dashboard");
        let json: serde_json::Value = serde_json::from_str(&dashboard).expect("JSON");
        assert!(json["panels"].as_array().is_some_and(|panels| panels.len() >= 6));
        let text = of(vec![process()]);
        let series: Vec<&str> =
            text.lines().filter_map(|line| line.split(['{', ' ']).next()).collect();
        let words = dashboard.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let asked: Vec<&str> = words.filter(|word| word.starts_with("stage2_")).collect();
        assert!(asked.len() >= 6);
        for name in asked {
            let is_there = series.contains(&name);
            assert!(is_there, "the dashboard asks for {name}, which feed does not write");
        }
    }

    #[test]
    fn the_manual_lists_every_metric() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/feed.md");
        let manual = std::fs::read_to_string(path).expect("docs/feed.md");
        let text = of(vec![process()]);
        for name in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        {
            assert!(manual.contains(&format!("`{name}")), "{name}");
        }
    }
}
