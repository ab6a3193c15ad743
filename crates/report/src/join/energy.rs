//! What the driver said of the GPUs, and the windows of stages -> energy and clocks of each stage.

mod clocks;
mod integral;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::intern::Mapping;
use super::labels::Labels;
use clocks::Clocks;
use integral::{Energy, Reading, Track};
use stage2_contract::trace::DeviceState;
use stage2_model::{
    Absent, DeviceEnergy, Figure, Finding, ReadSpan, Report, StageEnergy, StageRow,
};
use stage2_read::trace::ProcessCapture;
use stage2_read::trace::ranges::WindowSet;

/// Key under which a collector says why nothing was read, with a dot and a number: of this device.
const META_NVML_OFF: &str = "nvml.off";
/// Clocks of so many readings can be compared.
const ENOUGH_READS: u64 = 5;
/// Clocks that differ by no more are alike.
const ALIKE: f64 = 0.03;

/// Energy and clocks by stage and device, both by their identifiers of the run.
#[derive(Debug, Default)]
pub(crate) struct Energies {
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

impl Energies {
    pub(crate) fn take(&mut self, process: &ProcessCapture, mapping: &Mapping) {
        let mut all: BTreeMap<u32, Said> = BTreeMap::new();
        for (&path, stage) in &process.stages {
            let whole = process.whole.as_ref().filter(|whole| whole.path == path);
            let whole = whole.filter(|whole| whole.window_ns.is_some());
            let of_process = whole.and(process.gpu_extent.0).map(|(start, end)| {
                let mut all = WindowSet::default();
                all.add(start, end);
                all
            });
            let Some(windows) =
                of_process.as_ref().or(stage.times.as_ref().map(|times| &times.windows))
            else {
                continue;
            };
            for &index in stage.by_device.keys() {
                let id = process.devices.get(index as usize).and_then(|device| device.id);
                let Some(id) = id else { continue };
                let said = all.entry(id).or_insert_with(|| Said::of(process, id));
                let device = mapping.device(index);
                self.some_read |= !said.states.is_empty();
                if let Some(most) = said.other_processes {
                    let known = self.others.entry(device).or_default();
                    *known = most.max(*known);
                }
                let new = said.within(windows);
                let of_stage = self.by_stage.entry(mapping.path(path)).or_default();
                match of_stage.get_mut(&device) {
                    Some(known) => known.add(&new),
                    None => drop(of_stage.insert(device, new)),
                }
            }
        }
    }

    /// The rows, in the order of the stages; none where no file has readings. The energy of `shared`
    /// devices cannot be told apart.
    pub(crate) fn rows(
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
                let mut energy = on.energy.clone();
                if shared.contains(&device) {
                    energy = Err(Absent::SharedGpu);
                }
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

/// What the driver said of a device of a process.
struct Said {
    /// In the order of time, on the clock of the windows.
    states: Vec<(u64, DeviceState)>,
    track: Result<Track, Absent>,
    /// The most that were seen; nothing where no reading tells.
    other_processes: Option<u32>,
}

impl Said {
    fn of(process: &ProcessCapture, id: u32) -> Self {
        let states = process.device_states.of(id);
        let timed = |state: &DeviceState| Some((process.clock.gpu(state.at)?.0, *state));
        let mut timed: Vec<(u64, DeviceState)> = states.iter().filter_map(timed).collect();
        timed.sort_by_key(|(at, _)| *at);
        let readings = timed.iter().filter_map(|(at, state)| Some((*at, state.energy_mj?)));
        let readings: Vec<Reading> = readings.collect();
        let powers = states.iter().filter_map(|state| Some(f64::from(state.power_mw?) / 1e3));
        let meta = |key: &str| process.meta.get(key).cloned();
        let track = if readings.is_empty() {
            let told = meta(&format!("{META_NVML_OFF}.{id}")).or_else(|| meta(META_NVML_OFF));
            let silent = || match states.is_empty() {
                true => "its trace file has no reading".to_owned(),
                false => "NVML does not support it on this GPU".to_owned(),
            };
            Err(Absent::NoEnergy { why: told.unwrap_or_else(silent) })
        } else {
            Track::new(readings, powers)
        };
        let other_processes = states.iter().filter_map(|state| state.other_processes).max();
        Self { states: timed, track, other_processes }
    }

    fn within(&self, windows: &WindowSet) -> OnDevice {
        let (first, last) = windows.extent();
        let begin = self.states.partition_point(|(at, _)| *at < first);
        let states = self.states.get(begin..).unwrap_or_default();
        let mut clocks = Clocks::default();
        for (at, state) in states.iter().take_while(|(at, _)| *at <= last) {
            if windows.holds(*at) {
                clocks.add(state);
            }
        }
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
        sum.unwrap_or(Figure::Absent(Absent::NoEnergy { why: "it ran on no GPU".to_owned() }))
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

/// Fills in the energy per token, and says which stage ran at lower clocks than another. The report is
/// complete otherwise.
pub(crate) fn conclude(report: &mut Report) {
    // There may be very many stages.
    let answers = report.answer.stages.iter();
    let rates: HashMap<&str, &Figure> =
        answers.map(|answer| (answer.stage.as_str(), &answer.tokens_per_s)).collect();
    for row in &mut report.energy {
        let rate = rates.get(row.stage.as_str());
        let rate = rate.map_or(Figure::Absent(Absent::NotModelled), |rate| (*rate).clone());
        row.joules_per_token = match row.devices.len() {
            0 | 1 => row.mean_power_w.over(&rate, "the number of tokens per second"),
            _ => row
                .mean_power_w
                .value()
                .map_or_else(|| row.mean_power_w.clone(), |_| Figure::Absent(Absent::SeveralGpus)),
        };
    }
    report.findings.extend(slower_clocks(report));
}

/// The two stages whose clocks differ most, as a note.
fn slower_clocks(report: &Report) -> Option<Finding> {
    let apart = report.stages.iter().filter(|row| row.apart.is_some());
    let apart: HashSet<&str> = apart.map(|row| row.stage.as_str()).collect();
    let known = report.energy.iter().filter(|row| !apart.contains(row.stage.as_str()));
    let known = known.filter(|row| row.clocks.clock_reads >= ENOUGH_READS);
    let known: Vec<(&StageEnergy, ReadSpan)> =
        known.filter_map(|row| Some((row, row.clocks.sm_clock_mhz?))).collect();
    let by_mean = |a: &&(_, ReadSpan), b: &&(_, ReadSpan)| a.1.mean.total_cmp(&b.1.mean);
    let (slow, slow_clock) = known.iter().min_by(by_mean)?;
    let (fast, fast_clock) = known.iter().max_by(by_mean)?;
    if slow_clock.mean >= fast_clock.mean * (1.0 - ALIKE) {
        return None;
    }
    let lower = (1.0 - slow_clock.mean / fast_clock.mean) * 100.0;
    let reads = slow.clocks.reads;
    let limits = slow.clocks.limits.iter().flatten();
    let limits: Vec<String> = limits
        .map(|limit| format!("{} in {} of {reads} readings", limit.reason, limit.reads))
        .collect();
    let why = if limits.is_empty() {
        "the driver names no reason".to_owned()
    } else {
        format!("the driver names as the reason: {}", limits.join(", "))
    };
    Some(Finding::note(
        format!(
            "the GPU ran {} at {:.0} MHz on average and {} at {:.0} MHz",
            slow.stage, slow_clock.mean, fast.stage, fast_clock.mean
        ),
        format!("{why}; kernels bound by computation run up to {lower:.0} % slower there"),
        "keep the clocks in mind when you compare durations of the two stages, or of two runs",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_model::{Answer, ClockLimit, ClockUse, Floor, Role, StageAnswer};

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

    fn answer(stage: &str, tokens_per_s: Figure) -> StageAnswer {
        let none = || Figure::Absent(Absent::NoModel);
        StageAnswer {
            stage: stage.to_owned(),
            role: Role::Decode,
            basis: String::new(),
            step: None,
            slowdown: None,
            time_to_first_token_ns: none(),
            tokens_per_s,
            window: None,
            floor: Floor {
                memory_ns: none(),
                compute_ns: none(),
                floor_ns: none(),
                distance: none(),
                baseline_distance: None,
            },
            first: None,
        }
    }

    #[test]
    fn joules_per_token_are_watts_over_tokens_per_second_of_one_gpu() {
        let stages = vec![answer("decode", Figure::of(50.0)), answer("ranks", Figure::of(50.0))];
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
        let per_token: Vec<&Figure> =
            report.energy.iter().map(|row| &row.joules_per_token).collect();
        assert_eq!(per_token[0], &Figure::of(8.0));
        assert_eq!(per_token[1], &Figure::Absent(Absent::SeveralGpus));
        assert_eq!(per_token[2], &Figure::Absent(Absent::NotModelled));
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
}
