//! What the driver said of the GPUs, and the windows of stages -> energy and clocks of each stage.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::join::{Labels, Mapping};
use stage2_contract::order::Order as _;
use stage2_contract::trace::{CLOCK_LIMITS, DeviceState};
use stage2_model::Evidence;
use stage2_model::finding::Id;
use stage2_model::{
    Absent, ClockLimit, ClockUse, DeviceEnergy, Figure, Finding, ReadSpan, Report, StageEnergy,
    StageRow,
};
use stage2_read::trace::ProcessCapture;
use stage2_read::trace::ranges::WindowSet;

/// Key under which a collector states why nothing was read, with a dot and a number: of this device.
const META_NVML_OFF: &str = "nvml.off";
/// Clocks of so many readings can be compared.
const ENOUGH_READS: u64 = 5;
/// Clocks that differ by no more are alike.
const ALIKE: f64 = 0.03;

/// Energy and clocks by stage and device, both by their identifiers of the run.
#[derive(Debug, Default)]
pub(super) struct StageEnergies {
    by_stage: BTreeMap<u32, BTreeMap<u32, OnDevice>>,
    others: BTreeMap<u32, u32>,
    some_read: bool,
}

#[derive(Debug)]
struct OnDevice {
    window_ns: u64,
    energy: Result<Energy, Absent>,
    clocks: Clocks,
}

impl StageEnergies {
    pub(super) fn add_process(&mut self, process: &ProcessCapture, mapping: &Mapping) {
        let mut all: BTreeMap<u32, DeviceReadings> = BTreeMap::new();
        for (&path, stage) in &process.stages {
            let whole = process.whole.as_ref().filter(|whole| whole.path == path);
            let whole = whole.filter(|whole| whole.window_ns.is_some());
            let of_process = whole.and(process.gpu_extent.0).map(|(start, end)| {
                let mut all = WindowSet::default();
                all.add(start, end);
                all
            });
            let of_ranges = stage.times.as_ref().map(|times| &times.windows);
            let Some(windows) = of_process.as_ref().or(of_ranges) else { continue };
            for &index in stage.by_device.keys() {
                let id = process.devices.get(index as usize).and_then(|device| device.id);
                let Some(id) = id else { continue };
                let readings = all.entry(id).or_insert_with(|| DeviceReadings::of(process, id));
                let device = mapping.device(index);
                self.some_read |= !readings.states.is_empty();
                if let Some(most) = readings.other_processes {
                    let known = self.others.entry(device).or_default();
                    *known = most.max(*known);
                }
                let new = readings.within(windows);
                let of_stage = self.by_stage.entry(mapping.path(path)).or_default();
                of_stage.entry(device).and_modify(|known| known.add(&new)).or_insert(new);
            }
        }
    }

    /// The rows, in the order of the stages; none where no file has readings. The energy of `shared`
    /// devices cannot be told apart.
    pub(super) fn rows(
        self,
        labels: &Labels<'_>,
        stages: &[StageRow],
        shared: &BTreeSet<u32>,
    ) -> Vec<StageEnergy> {
        if !self.some_read {
            return Vec::new();
        }
        let mut rows: BTreeMap<&str, StageEnergy> = BTreeMap::new();
        for (&path, devices) in &self.by_stage {
            let mut clocks = Clocks::default();
            let mut of_devices = Vec::with_capacity(devices.len());
            for (&device, on) in devices {
                clocks.merge(&on.clocks);
                let is_shared = shared.contains(&device);
                let energy = if is_shared { Err(Absent::SharedGpu) } else { on.energy.clone() };
                let label = labels.device(device).to_owned();
                of_devices.push(row(label, on, energy, self.others.get(&device).copied()));
            }
            let stage = labels.path(path);
            rows.insert(stage, stage_row(stage, &clocks, of_devices));
        }
        stages.iter().filter_map(|stage| rows.remove(stage.stage.as_str())).collect()
    }
}

impl OnDevice {
    /// Another process had its turn on the same device.
    fn add(&mut self, other: &Self) {
        self.window_ns = self.window_ns.saturating_add(other.window_ns);
        self.clocks.merge(&other.clocks);
        self.energy = match (&self.energy, &other.energy) {
            (Ok(a), Ok(b)) => Ok(Energy { joules: a.joules + b.joules, off: a.off + b.off }),
            (Err(why), _) | (_, Err(why)) => Err(why.clone()),
        };
    }
}

struct DeviceReadings {
    /// In the order of time, on the clock of the windows.
    states: Vec<(u64, DeviceState)>,
    track: Result<Track, Absent>,
    /// The most that were seen; nothing where no reading tells.
    other_processes: Option<u32>,
}

impl DeviceReadings {
    fn of(process: &ProcessCapture, id: u32) -> Self {
        let states = process.device_states.of(id);
        let timed = |state: &DeviceState| Some((process.clock.gpu(state.at)?.0, *state));
        let mut timed: Vec<(u64, DeviceState)> = states.iter().filter_map(timed).collect();
        timed.order_by_key(|(at, _)| *at);
        let totals = timed.iter().filter_map(|(at, state)| Some((*at, state.energy_mj?)));
        let totals: Vec<Reading> = totals.collect();
        let powers = states.iter().filter_map(|state| Some(f64::from(state.power_mw?) / 1e3));
        let meta = |key: &str| process.meta.get(key).map(String::as_str);
        let track = if totals.is_empty() {
            let told = meta(&format!("{META_NVML_OFF}.{id}")).or_else(|| meta(META_NVML_OFF));
            Err(no(told.unwrap_or(match states.is_empty() {
                true => "its trace file has no reading",
                false => "NVML does not support it on this GPU",
            })))
        } else {
            Track::new(totals, powers)
        };
        let other_processes = states.iter().filter_map(|state| state.other_processes).max();
        Self { states: timed, track, other_processes }
    }

    fn within(&self, windows: &WindowSet) -> OnDevice {
        let (first, last) = windows.extent();
        let begin = self.states.partition_point(|(at, _)| *at < first);
        let states = self.states.iter().skip(begin).take_while(|(at, _)| *at <= last);
        let mut clocks = Clocks::default();
        states.filter(|(at, _)| windows.holds(*at)).for_each(|(_, state)| clocks.add(state));
        let energy = self.track.as_ref().map_err(Absent::clone);
        let energy = energy.and_then(|track| track.energy(windows));
        OnDevice { window_ns: windows.filled(), energy, clocks }
    }
}

fn row(
    device: String,
    on: &OnDevice,
    energy: Result<Energy, Absent>,
    other_processes: Option<u32>,
) -> DeviceEnergy {
    let uncertainty_j = energy.as_ref().ok().map(|energy| energy.off);
    let energy_j = Figure::from(energy.map(|energy| energy.joules));
    let seconds = Figure::of(on.window_ns as f64 / 1e9);
    DeviceEnergy {
        device,
        window_ns: on.window_ns,
        mean_power_w: energy_j.over(&seconds, "the time of its windows"),
        energy_j,
        uncertainty_j,
        clocks: on.clocks.finish(),
        other_processes,
    }
}

fn stage_row(stage: &str, clocks: &Clocks, devices: Vec<DeviceEnergy>) -> StageEnergy {
    let sum = |of: fn(&DeviceEnergy) -> &Figure| {
        let sum = devices.iter().map(of).cloned().reduce(|sum, more| sum.plus(&more));
        sum.unwrap_or(Figure::Absent(no("it ran on no GPU")))
    };
    StageEnergy {
        stage: stage.to_owned(),
        energy_j: sum(|device| &device.energy_j),
        uncertainty_j: devices.iter().map(|device| device.uncertainty_j).sum(),
        mean_power_w: sum(|device| &device.mean_power_w),
        // `per_token` knows better.
        joules_per_token: Figure::Absent(Absent::NoModel),
        clocks: clocks.finish(),
        devices,
    }
}

/// Fills in the energy per token, and states which stage ran at lower clocks than another. The report is
/// complete otherwise.
pub(crate) fn conclude(report: &mut Report) {
    // There may be very many stages.
    let answers = report.answer.stages.iter();
    let rates: HashMap<&str, &Figure> =
        answers.map(|answer| (answer.stage.as_str(), &answer.tokens_per_s)).collect();
    for row in &mut report.energy {
        let rate = rates.get(row.stage.as_str());
        let rate = rate.map_or(Figure::Absent(Absent::NotModelled), |rate| (*rate).clone());
        row.joules_per_token = match (row.devices.len(), row.mean_power_w.value()) {
            (0 | 1, _) => row.mean_power_w.over(&rate, "the number of tokens per second"),
            (_, Some(_)) => Figure::Absent(Absent::SeveralGpus),
            (_, None) => row.mean_power_w.clone(),
        };
    }
    report.findings.extend(slower_clocks(report));
}

/// The two stages whose clocks differ most, as a note.
fn slower_clocks(report: &Report) -> Option<Finding> {
    let apart = report.stages.iter().filter(|row| row.apart.is_some());
    let apart: HashSet<&str> = apart.map(|row| row.stage.as_str()).collect();
    let known = report.energy.iter().enumerate();
    let known = known.filter(|(_, row)| !apart.contains(row.stage.as_str()));
    let known = known.filter(|(_, row)| row.clocks.clock_reads >= ENOUGH_READS);
    let known: Vec<(usize, &StageEnergy, ReadSpan)> =
        known.filter_map(|(at, row)| Some((at, row, row.clocks.sm_clock_mhz?))).collect();
    let by_mean = |a: &&(_, _, ReadSpan), b: &&(_, _, ReadSpan)| a.2.mean.total_cmp(&b.2.mean);
    let (slow_at, slow, slow_clock) = known.iter().min_by(by_mean)?;
    let (fast_at, fast, fast_clock) = known.iter().max_by(by_mean)?;
    let clock = |name, at, span: &ReadSpan| {
        let source = format!("/energy/{at}/clocks/sm_clock_mhz/mean");
        Evidence::number(name, span.mean, "MHz", source)
    };
    if slow_clock.mean >= fast_clock.mean * (1.0 - ALIKE) {
        return None;
    }
    let lower = (1.0 - slow_clock.mean / fast_clock.mean) * 100.0;
    let reads = slow.clocks.reads;
    let limits = slow.clocks.limits.iter().flatten();
    let limit = |of: &ClockLimit| format!("{} in {} of {reads} readings", of.reason, of.reads);
    let limits: Vec<String> = limits.map(limit).collect();
    let why = match limits.join(", ") {
        none if none.is_empty() => "the driver names no reason".to_owned(),
        limits => format!("the driver names as the reason: {limits}"),
    };
    let finding = Id::ClockSlower.about(&slow.stage).found(
        format!(
            "the GPU ran {} at {:.0} MHz on average and {} at {:.0} MHz",
            slow.stage, slow_clock.mean, fast.stage, fast_clock.mean
        ),
        format!("{why}; kernels bound by computation run up to {lower:.0} % slower there"),
        "keep the clocks in mind when you compare durations of the two stages, or of two runs",
    );
    Some(finding.on(clock("sm_clock_mhz", slow_at, slow_clock)).on(clock(
        "sm_clock_mhz_of_the_other",
        fast_at,
        fast_clock,
    )))
}

/// Stages of less are too short.
const SHORTEST_NS: u64 = 1_000_000_000;
/// The energy is left out where it may be off by more, as a part of it.
const MOST_OFF: f64 = 0.10;
/// A total stands still for about 100 ms and is read at any moment within: typically a quarter of that is
/// missed at each change of power.
const STALE_S: f64 = 0.025;

/// When it was read, ns on the clock of the windows, and what it was, mJ.
type Reading = (u64, u64);

#[derive(Clone, Copy, Debug, PartialEq)]
struct Energy {
    /// J.
    joules: f64,
    /// How far it may be off, J.
    off: f64,
}

/// The energy that a GPU had taken over the time of a process.
struct Track {
    /// In the order of time, without gaps.
    spans: Vec<Span>,
    /// The highest power of the GPU in the run, W.
    highest: f64,
}

impl Track {
    /// Of readings in any order. `powers`: the power at some moments, W.
    fn new(mut readings: Vec<Reading>, powers: impl Iterator<Item = f64>) -> Result<Self, Absent> {
        readings.sort_unstable();
        readings.dedup_by_key(|reading| reading.0);
        if readings.len() < 2 {
            return Err(no("there are fewer than two reads of the energy"));
        }
        let pairs = readings.iter().zip(readings.iter().skip(1));
        let spans: Option<Vec<Span>> = pairs.map(|(from, to)| Span::new(*from, *to)).collect();
        let spans = spans.ok_or_else(|| {
            no("the counter of the energy went backwards: the driver was loaded again during the run")
        })?;
        // Over shorter times the mean power is that of a counter which stood still, or jumped.
        let long = spans.iter().filter(|span| span.seconds() >= 0.09);
        let highest =
            long.map(|span| span.joules / span.seconds()).chain(powers).fold(0.0, f64::max);
        Ok(Self { spans, highest })
    }

    /// What was taken within the windows.
    ///
    /// Between two reads the energy is spread evenly. If a window fills the part f of a span of s
    /// seconds, and the power within differs by d from that outside, this is wrong by f (1 - f) s d.
    /// For d the highest power of the run is taken: what is short next to a span has its power lost in
    /// the mean, so that the spans do not tell how far powers lie apart.
    fn energy(&self, windows: &WindowSet) -> Result<Energy, Absent> {
        let length = windows.filled();
        if length < SHORTEST_NS {
            return Err(Absent::TooShortForEnergy);
        }
        let (first, last) = windows.extent();
        let begin = self.spans.partition_point(|span| span.to <= first);
        let (mut joules, mut off, mut covered) = (0.0, 0.0, 0.0);
        for span in self.spans.iter().skip(begin).take_while(|span| span.from < last) {
            let within = windows.within(span.from, span.to);
            let part = (within / span.ns()).min(1.0);
            covered += within;
            joules += part * span.joules;
            if part > 0.0 && part < 1.0 {
                off += (part * (1.0 - part) * span.seconds() + STALE_S) * self.highest;
            }
        }
        if covered <= 0.0 {
            return Err(no("no read of the energy is near its windows"));
        }
        // What lies before the first read or behind the last one is taken to be like the rest.
        joules *= length as f64 / covered;
        off += (length as f64 - covered).max(0.0) / 1e9 * self.highest;
        let part_off = if joules > 0.0 { off / joules } else { f64::INFINITY };
        if part_off > MOST_OFF {
            let percent = (part_off * 100.0).round().clamp(0.0, 1e6) as u64;
            return Err(Absent::EnergyUncertain { percent, spacing_ms: self.spacing_ms() });
        }
        Ok(Energy { joules, off })
    }

    fn spacing_ms(&self) -> u64 {
        let all: u64 = self.spans.iter().map(|span| span.to - span.from).sum();
        all / 1_000_000 / self.spans.len().max(1) as u64
    }
}

fn no(why: &str) -> Absent {
    Absent::NoEnergy { why: why.to_owned() }
}

struct Span {
    from: u64,
    to: u64,
    joules: f64,
}

impl Span {
    /// Nothing where time or energy goes backwards.
    fn new((from, before): Reading, (to, after): Reading) -> Option<Self> {
        let joules = after.checked_sub(before)? as f64 / 1e3;
        (to > from).then_some(Span { from, to, joules })
    }

    fn ns(&self) -> f64 {
        (self.to - self.from) as f64
    }

    fn seconds(&self) -> f64 {
        self.ns() / 1e9
    }
}

const IDLE: u64 = 1;

/// Readings in the making.
#[derive(Clone, Debug, Default)]
struct Clocks {
    reads: u64,
    sm: Spread,
    memory: Spread,
    temperature_max_c: Option<u32>,
    /// Readings that tell reasons, and those of each.
    told: u64,
    limits: [u64; CLOCK_LIMITS.len()],
    unnamed: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Spread {
    count: u64,
    sum: u64,
    min: u32,
    max: u32,
}

impl Spread {
    fn add(&mut self, value: u32) {
        self.merge(Self { count: 1, sum: value.into(), min: value, max: value });
    }

    fn merge(&mut self, other: Self) {
        if other.count > 0 {
            self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
            self.max = self.max.max(other.max);
            self.sum = self.sum.saturating_add(other.sum);
            self.count += other.count;
        }
    }

    fn span(self) -> Option<ReadSpan> {
        let Self { count, sum, min, max } = self;
        (count > 0).then(|| ReadSpan { min, mean: sum as f64 / count as f64, max })
    }
}

impl Clocks {
    fn add(&mut self, state: &DeviceState) {
        self.reads += 1;
        // An idle GPU has low clocks because nothing runs, not the other way round.
        if state.clock_reasons.is_none_or(|reasons| reasons & IDLE == 0) {
            state.sm_clock_mhz.into_iter().for_each(|clock| self.sm.add(clock));
            state.memory_clock_mhz.into_iter().for_each(|clock| self.memory.add(clock));
        }
        self.temperature_max_c = self.temperature_max_c.max(state.temperature_c);
        let Some(reasons) = state.clock_reasons else { return };
        self.told += 1;
        let mut named = IDLE;
        for (count, (bit, _)) in self.limits.iter_mut().zip(CLOCK_LIMITS) {
            *count += u64::from(reasons & bit != 0);
            named |= bit;
        }
        self.unnamed += u64::from(reasons & !named != 0);
    }

    fn merge(&mut self, other: &Self) {
        self.reads += other.reads;
        self.sm.merge(other.sm);
        self.memory.merge(other.memory);
        self.temperature_max_c = self.temperature_max_c.max(other.temperature_max_c);
        self.told += other.told;
        for (count, more) in self.limits.iter_mut().zip(other.limits) {
            *count += more;
        }
        self.unnamed += other.unnamed;
    }

    fn finish(&self) -> ClockUse {
        let named =
            self.limits.iter().zip(CLOCK_LIMITS).map(|(&reads, (_, reason))| (reads, reason));
        let all = named.chain([(self.unnamed, "another reason of the driver's")]);
        let limits = all.filter(|(reads, _)| *reads > 0);
        let limits = limits.map(|(reads, reason)| ClockLimit { reason: reason.to_owned(), reads });
        ClockUse {
            reads: self.reads,
            clock_reads: self.sm.count,
            sm_clock_mhz: self.sm.span(),
            memory_clock_mhz: self.memory.span(),
            temperature_max_c: self.temperature_max_c,
            limits: (self.told > 0).then(|| limits.collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_model::{Answer, StageAnswer};

    fn energy(stage: &str, watts: f64, mhz: f64, devices: usize) -> StageEnergy {
        let clocks = ClockUse {
            reads: 10,
            clock_reads: 10,
            sm_clock_mhz: Some(ReadSpan { min: 1_000, mean: mhz, max: 1_980 }),
            limits: Some(vec![ClockLimit { reason: "power limit".to_owned(), reads: 9 }]),
            ..ClockUse::default()
        };
        let device = DeviceEnergy {
            device: "0 NVIDIA H200".to_owned(),
            window_ns: 1_000_000_000,
            energy_j: Figure::of(watts),
            uncertainty_j: Some(0.0),
            mean_power_w: Figure::of(watts),
            clocks: clocks.clone(),
            other_processes: None,
        };
        StageEnergy {
            stage: stage.to_owned(),
            energy_j: Figure::of(watts),
            uncertainty_j: Some(0.0),
            mean_power_w: Figure::of(watts),
            joules_per_token: Figure::Absent(Absent::NoModel),
            clocks,
            devices: vec![device; devices],
        }
    }

    #[test]
    fn joules_per_token_are_watts_over_tokens_per_second_of_one_gpu() {
        let answer = |stage| {
            let tokens_per_s = Figure::of(50.0);
            StageAnswer { tokens_per_s, ..crate::answer::tests::stage_answer(stage) }
        };
        let stages = ["decode", "ranks"].map(answer).to_vec();
        let mut report = Report {
            energy: vec![
                energy("decode", 400.0, 1_900.0, 1),
                energy("ranks", 400.0, 1_900.0, 2),
                energy("other", 400.0, 1_900.0, 1),
            ],
            answer: Answer { stages, ..Answer::default() },
            ..Report::default()
        };
        conclude(&mut report);
        let per_token = report.energy.into_iter().map(|row| row.joules_per_token);
        let absent = [Absent::SeveralGpus, Absent::NotModelled].map(Figure::Absent);
        assert!(per_token.eq([Figure::of(8.0)].into_iter().chain(absent)));
    }

    #[test]
    fn lower_clocks_are_a_finding_from_three_percent_on_and_with_enough_readings() {
        let finding = |slow_mhz: f64, clock_reads: u64| {
            let mut slow = energy("decode", 400.0, slow_mhz, 1);
            slow.clocks.clock_reads = clock_reads;
            let energy = vec![energy("prefill", 700.0, 1_900.0, 1), slow];
            slower_clocks(&Report { energy, ..Report::default() })
        };
        let found = finding(1_425.0, 5).expect("a finding");
        assert_eq!(found.what, "the GPU ran decode at 1425 MHz on average and prefill at 1900 MHz");
        assert!(found.why.contains("power limit in 9 of 10 readings"), "{}", found.why);
        assert!(found.why.contains("up to 25 % slower"), "{}", found.why);
        assert_eq!((finding(1_850.0, 5), finding(1_425.0, 4)), (None, None));
    }

    const S: u64 = 1_000_000_000;

    /// 100 W from 0 to 10 s, 600 W from there to 20 s; read every so many ms.
    fn steps(every_ms: u64) -> Vec<Reading> {
        let energy = |at: u64| at.min(10 * S) / 10_000 + at.saturating_sub(10 * S) * 6 / 10_000;
        let at = (0..=20_000 / every_ms).map(|n| n * every_ms * 1_000_000);
        at.map(|at| (at, energy(at))).collect()
    }

    fn windows(all: &[(u64, u64)]) -> WindowSet {
        let mut set = WindowSet::default();
        all.iter().for_each(|&(start, end)| set.add(start, end));
        set
    }

    fn of(readings: &[Reading], all: &[(u64, u64)]) -> Result<Energy, Absent> {
        Track::new(readings.to_vec(), std::iter::empty())?.energy(&windows(all))
    }

    #[test]
    fn the_bound_holds_wherever_power_changes_between_two_reads() {
        for every_ms in [100, 270, 900] {
            let readings = steps(every_ms);
            for start_ms in (9_000..11_000).step_by(70) {
                let start = start_ms * 1_000_000;
                let truth = (start + 5 * S - (10 * S).max(start)) as f64 * 6e-7
                    + (10 * S).saturating_sub(start) as f64 * 1e-7;
                match of(&readings, &[(start, start + 5 * S)]) {
                    Ok(Energy { joules, off }) => {
                        assert!((joules - truth).abs() <= off + 0.01, "{joules} {off} {truth}");
                    }
                    Err(error) => assert!(every_ms == 900, "{every_ms} {start_ms}: {error}"),
                }
            }
        }
    }

    #[test]
    fn whole_spans_are_exact_and_many_short_windows_are_refused() {
        let readings = steps(250);
        let Energy { joules, off } = of(&readings, &[(10 * S, 15 * S)]).unwrap();
        assert_eq!((joules, off), (3_000.0, 0.0));
        // Windows of 50 ms in turn with others: even spreading would give each the mean power.
        let short: Vec<_> = (0..100).map(|n| (n * S / 5, n * S / 5 + S / 20)).collect();
        let error = of(&readings, &short).unwrap_err();
        assert!(matches!(error, Absent::EnergyUncertain { spacing_ms: 250, .. }), "{error}");
    }

    #[test]
    fn stages_in_turn_that_are_short_beside_the_reads_have_no_energy_even_at_a_steady_mean() {
        let steady: Vec<Reading> = (0..=80).map(|n| (n * S / 4, n * 125_000)).collect();
        let of_step = |from: u64, to: u64| -> Vec<(u64, u64)> {
            (0..200).map(|n| n * S / 10).map(|at| (at + from, at + to)).collect()
        };
        for short in [of_step(0, S / 50), of_step(S / 50, S / 10)] {
            let error = of(&steady, &short).unwrap_err();
            assert!(matches!(error, Absent::EnergyUncertain { .. }), "{error}");
        }
        assert!(of(&steady, &[(S, 19 * S)]).is_ok());
    }

    #[test]
    fn what_cannot_be_known_has_its_reason() {
        let readings = steps(250);
        assert_eq!(of(&readings, &[(S, 2 * S - 1)]), Err(Absent::TooShortForEnergy));
        let why = |result: Result<Energy, Absent>| result.unwrap_err().to_string();
        assert!(why(of(&readings[..1], &[(S, 9 * S)])).contains("fewer than two reads"));
        assert!(why(of(&readings, &[(30 * S, 39 * S)])).contains("no read of the energy is near"));
        let backwards = [(0, 9_000), (S, 12_000), (2 * S, 500), (9 * S, 7_000)];
        assert!(why(of(&backwards, &[(S, 9 * S)])).contains("went backwards"));
        // Half of the windows lies behind the last read.
        assert!(why(of(&readings, &[(15 * S, 25 * S)])).contains("error can be 50 %"));
    }

    #[test]
    fn an_idle_gpu_has_no_clock_and_reasons_have_names() {
        let read = |clock, reasons| DeviceState {
            sm_clock_mhz: Some(clock),
            clock_reasons: reasons,
            ..DeviceState::default()
        };
        let mut clocks = Clocks::default();
        for state in [read(345, Some(1)), read(1500, Some(4)), read(1400, Some(4 | 64 | 1 << 40))] {
            clocks.add(&state);
        }
        let used = clocks.finish();
        assert_eq!((used.reads, used.clock_reads), (3, 2));
        assert_eq!(used.sm_clock_mhz, Some(ReadSpan { min: 1400, mean: 1450.0, max: 1500 }));
        assert_eq!((used.memory_clock_mhz, used.temperature_max_c), (None, None));
        let limits = used.limits.iter().flatten();
        let limits: Vec<_> = limits.map(|limit| (limit.reason.as_str(), limit.reads)).collect();
        let expected = [
            ("power limit", 2),
            ("temperature (hardware)", 1),
            ("another reason of the driver's", 1),
        ];
        assert_eq!(limits, expected);
        let mut unknown = Clocks::default();
        unknown.add(&DeviceState::default());
        assert_eq!(unknown.finish().limits, None, "not told is not none");
    }
}
