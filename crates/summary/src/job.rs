//! The periods of all ranks, in the order of time -> what the job page states: who was late, when, by how much and why.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::late::{Call, Late};
use crate::period::{Cell, Member, PERIOD_NS, Period, Stage, entry};
use crate::tree::Inventory;
use stage2_contract::order::IntoOrdered as _;

/// Columns of the heat map. More minutes share a column.
const COLUMNS: usize = 120;
/// Ranks whose lateness is followed over the whole job.
const FOLLOWED: usize = 1 << 12;
/// Rows of the tables.
const ROWS: usize = 20;
/// The worst, of which causes are told and what they have in common.
const WORST: usize = 5;
/// Episodes of a rank that are listed.
const EPISODES: usize = 8;
/// A rank is late in a minute if at least this share of all waiting in it was for it, percent.
const SHARE_PERCENT: u64 = 5;
/// And if it came late by this together, ns: less is what ranks that are alike differ by.
const LEAST_NS: u64 = 12_000_000;
/// Minutes without lateness that end an episode.
const PAUSE: u64 = 2;
/// Clocks this much below the median of all are low, percent.
const LOW_CLOCK_PERCENT: u64 = 95;
/// A GPU is hot that is so much above the median of all readings, degrees Celsius.
const HOT_C: u64 = 10;
/// Clocks of hosts, and moves of wall clocks, that are listed, ms.
const CLOCK_APART_MS: u64 = 100;

/// Name of the format of `job.json`.
pub const SCHEMA: &str = "stage2.job";
/// Its version: it grows when a field changes its meaning or goes away.
pub const SCHEMA_VERSION: u32 = 1;

/// What summaries of all ranks say of a job, as `job.json` has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Job {
    /// [`SCHEMA`].
    pub schema: String,
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// What wrote it.
    pub generator: String,
    /// Ranks that were seen.
    pub ranks: u64,
    /// Ranks that the job should have, as their environment states.
    pub expected: Option<u64>,
    /// Some ranks that are missing.
    pub missing: Vec<u64>,
    /// Processes that said no rank.
    pub without_rank: u64,
    /// Ranks that started again, each with the number of its processes.
    pub restarted: Vec<(u64, u64)>,
    /// Hosts.
    pub hosts: u64,
    /// The first minute, since the Unix epoch, on the clock of the first host.
    pub first_minute: u64,
    /// The last one.
    pub last_minute: u64,
    /// Files.
    pub files: Files,
    /// Clocks of hosts.
    pub clocks: Clocks,
    /// Lateness in collectives.
    pub collectives: Collectives,
    /// Who was late, the most waited for first.
    pub late: Vec<LateRank>,
    /// Ranks that were late only because they waited for another one.
    pub passed_on: u64,
    /// What the worst have in common, and most others have not.
    pub common: Vec<String>,
    /// By stage.
    pub stages: Vec<StageRow>,
    /// Time without GPU work, by what it was, all ranks together, ns: the longest first.
    pub idle: Vec<(String, u64)>,
    /// What was not recorded.
    pub losses: Vec<(String, u64)>,
    /// Versions, by how many processes have them.
    pub versions: Vec<(String, u64)>,
    /// Median clock of the multiprocessors, MHz.
    pub clock_mhz: Option<u64>,
    /// Ranks against time.
    pub heat: Heat,
    /// Ranks against stages.
    pub rows: Vec<HeatRow>,
}

/// The files that were read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Files {
    /// Files of the job.
    pub read: u64,
    /// Files that hold ranks which another file has.
    pub doubled: u64,
    /// Files that end within a frame.
    pub torn: u64,
    /// Frames that were damaged.
    pub damaged_frames: u64,
    /// Frames of kinds that this version does not know.
    pub unknown_frames: u64,
    /// Files that cannot be read.
    pub unreadable: u64,
    /// Files without a minute.
    pub empty: u64,
    /// Files of other jobs.
    pub of_other_jobs: u64,
    /// These jobs.
    pub other_jobs: u64,
    /// Processes that recorded only parts of their run: their collectives are not compared.
    pub in_part: u64,
    /// Some files, each with what is wrong with it.
    pub named: Vec<(String, String)>,
}

/// How clocks lie to each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Clocks {
    /// Ends of one collective are apart so far on the corrected clocks, in the middle, ns.
    pub error_ns: Option<u64>,
    /// Hosts whose clock differs most from the first one's, and what was added to it, ms.
    pub apart: Vec<(String, i64)>,
    /// The most that a wall clock moved while its trace was written, ms, and the rank.
    pub moved: Option<(u64, u64)>,
}

/// What the comparison of collectives rests on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Collectives {
    /// Sampled calls that were compared.
    pub samples: u64,
    /// Of these, calls of which some members are missing.
    pub incomplete: u64,
    /// Calls of which one member alone is known.
    pub alone: u64,
    /// Calls that found no room.
    pub dropped: u64,
    /// Calls whose last member came within the error.
    pub within_error: u64,
    /// The largest error of a comparison, ns.
    pub error_ns: u64,
    /// The median lateness of the last member, ns.
    pub median_late_ns: u64,
    /// The largest, ns.
    pub most_late_ns: u64,
}

/// Why a rank is late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Its GPU has no more work than the others': its host is late.
    #[default]
    Host,
    /// Its GPU works longer.
    GpuWork,
    /// Its GPU works longer, and its clock is low.
    LowClock,
}

/// How lateness recurs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// In one minute or two.
    #[default]
    Passing,
    /// Once, for longer.
    Lasting,
    /// Again and again.
    Recurring,
}

/// A rank that others waited for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LateRank {
    /// Its number; nothing for a process without one.
    pub rank: Option<u64>,
    /// The hosts that it was on while it was late, in the order of time.
    pub hosts: Vec<String>,
    /// The GPUs there.
    pub gpus: Vec<String>,
    /// How often.
    pub pattern: Pattern,
    /// From the first to the last minute, and other episodes.
    pub episodes: Vec<(u64, u64)>,
    /// Minutes in which it was late.
    pub minutes: u64,
    /// Why.
    pub cause: Cause,
    /// How late it came to a call in which it was the last, on average, ns.
    pub late_ns: u64,
    /// What that may be off by, ns.
    pub error_ns: u64,
    /// The part of that by more GPU work than the others had, percent.
    pub work_percent: u64,
    /// Calls in which it was the last, estimated from `samples`.
    pub calls: u64,
    /// Sampled calls in which it was the last.
    #[serde(default)]
    pub samples: u64,
    /// What all the others waited for it, ns, estimated from `samples`.
    pub waited_ns: u64,
    /// Its lowest clock, MHz, where it is below those of the others.
    pub low_clock_mhz: Option<u64>,
    /// Its highest temperature, degrees Celsius, where it is above those of the others.
    pub hot_c: Option<u64>,
}

/// A stage over all ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StageRow {
    /// Its name.
    pub stage: String,
    /// Steps of all ranks.
    pub steps: u64,
    /// Median and 99th percentile of a step, and the longest, ns.
    pub step_ns: [u64; 3],
    /// Median time in which the GPU worked on a step, ns.
    pub busy_ns: u64,
    /// Median time of a step in collectives, ns.
    pub collective_ns: u64,
    /// GPU time by class of kernel, ns: the longest first.
    pub classes: Vec<(String, u64)>,
}

/// Ranks against time: how long others waited for the latest rank of a row, ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Heat {
    /// Minutes of a column.
    pub column_minutes: u64,
    /// Ranks of a row.
    pub row_ranks: u64,
    /// (row, column, ns) where it is not 0.
    pub cells: Vec<(u64, u64, u64)>,
}

/// Ranks next to each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HeatRow {
    /// The first of them.
    pub first_rank: u64,
    /// By stage: of the median steps of each rank in each minute the median and the longest, the rank of the latter, and
    /// the median of the median GPU work without collectives, ns.
    pub stages: Vec<(String, [u64; 4])>,
}

#[derive(Clone, Debug, Default)]
struct Series {
    late: Late,
    minutes: u64,
    episodes: Vec<(u64, u64)>,
}

impl Series {
    /// What others waited for it and not for one that it waited for.
    fn own_ns(late: &Late) -> u64 {
        let own = late.late_ns.saturating_sub(late.passed_on_ns);
        let share = u128::from(late.waited_ns) * u128::from(own);
        let own = share.checked_div(u128::from(late.late_ns)).unwrap_or(0);
        u64::try_from(own).unwrap_or(u64::MAX)
    }

    /// How late it came for reasons of its own, ns, without the sample in which it came latest: a sample stands for
    /// many calls, so that a single pause would count as often.
    fn without_the_latest(late: &Late) -> u64 {
        let weight = late.calls.checked_div(late.samples).unwrap_or(0);
        let own = late.late_ns.saturating_sub(late.passed_on_ns);
        own.saturating_sub(late.most_ns.saturating_mul(weight))
    }

    fn is_own(late: &Late) -> bool {
        late.passed_on_ns <= late.late_ns / 2
    }

    fn note(&mut self, minute: u64) {
        self.minutes += 1;
        let full = self.episodes.len() >= EPISODES;
        match self.episodes.last_mut() {
            // Of more episodes than are listed, the last one holds the rest.
            Some((_, last)) if full || minute <= last.saturating_add(PAUSE) => {
                *last = minute.max(*last);
            }
            _ => self.episodes.push((minute, minute)),
        }
    }

    fn pattern(&self) -> Pattern {
        match self.episodes.len() {
            2.. => Pattern::Recurring,
            _ if self.minutes > 2 => Pattern::Lasting,
            _ => Pattern::Passing,
        }
    }
}

/// Folds periods. Memory does not grow with their number.
#[derive(Debug, Default)]
pub struct Fold {
    span: Option<(u64, u64)>,
    all: Period,
    /// The latest, of which calls may still go on in the next one.
    held: Option<Period>,
    series: BTreeMap<u64, Series>,
    passed_on: BTreeSet<u64>,
    shift: u32,
    columns: Vec<BTreeMap<u64, u64>>,
    column_bits: u32,
    rows: BTreeMap<u64, Cell>,
}

impl Fold {
    /// Takes the period of all ranks that follows.
    pub fn add(&mut self, mut period: Period) {
        if let Some(mut before) = self.held.take() {
            // A call may have ended on the other side of the minute for some members.
            let both = |call: &Call| period.arrivals.contains_key(call);
            let both: Vec<Call> = before.arrivals.keys().copied().filter(both).collect();
            for call in both {
                let known = before.communicators.get(&call.communicator).copied();
                let members = period.communicators.entry(call.communicator).or_default();
                *members = known.max(Some(*members)).unwrap_or(0);
                if let Some(there) = before.arrivals.remove(&call)
                    && let Some(here) = period.arrivals.get_mut(&call)
                {
                    here.merge(there);
                }
            }
            before.settle(true);
            self.take(before);
        }
        period.settle(false);
        self.held = Some(period);
    }

    fn take(&mut self, mut period: Period) {
        let index = period.index;
        let span = self.span.map_or((index, index), |(a, b)| (a.min(index), b.max(index)));
        self.span = Some(span);
        let late = std::mem::take(&mut period.late);
        let waited: u64 = late.values().map(Series::own_ns).fold(0, u64::saturating_add);
        for (who, late) in late {
            if !Series::is_own(&late) {
                if self.passed_on.len() < FOLLOWED {
                    self.passed_on.insert(who);
                }
                continue;
            }
            let own = Series::own_ns(&late);
            let is_late = Series::without_the_latest(&late) >= LEAST_NS
                && u128::from(own) * 100 >= u128::from(waited) * u128::from(SHARE_PERCENT);
            if !is_late {
                continue;
            }
            let series = self.series.entry(who).or_default();
            series.late.merge(late);
            series.note(index);
        }
        if self.series.len() > FOLLOWED {
            let mut order: Vec<(u64, u64)> =
                self.series.iter().map(|(&who, of)| (of.late.waited_ns, who)).collect();
            order.sort_unstable();
            for (_, who) in order.iter().take(FOLLOWED / 2) {
                self.series.remove(who);
            }
        }
        let rows = std::mem::take(&mut period.rows);
        self.heat(index, period.shift, rows);
        period.communicators.clear();
        period.index = 0;
        self.all.merge(period);
    }

    fn heat(&mut self, index: u64, shift: u32, rows: BTreeMap<u64, Cell>) {
        if shift > self.shift {
            let by = shift - self.shift;
            self.shift = shift;
            for column in &mut self.columns {
                for (row, ns) in std::mem::take(column) {
                    let known = column.entry(row >> by).or_default();
                    *known = ns.max(*known);
                }
            }
            for (row, cell) in std::mem::take(&mut self.rows) {
                self.rows.entry(row >> by).or_default().merge(cell);
            }
        }
        let first = self.span.map_or(index, |(first, _)| first);
        let mut at = index.saturating_sub(first) >> self.column_bits;
        while at >= COLUMNS as u64 {
            let pairs = std::mem::take(&mut self.columns);
            self.columns = pairs
                .chunks(2)
                .map(|pair| {
                    let mut both: BTreeMap<u64, u64> = BTreeMap::new();
                    for (&row, &ns) in pair.iter().flatten() {
                        let known = both.entry(row).or_default();
                        *known = ns.max(*known);
                    }
                    both
                })
                .collect();
            self.column_bits += 1;
            at = index.saturating_sub(first) >> self.column_bits;
        }
        let at = usize::try_from(at).unwrap_or(0);
        if self.columns.len() <= at {
            self.columns.resize(at + 1, BTreeMap::new());
        }
        let by = self.shift - shift;
        for (row, cell) in rows {
            if cell.late.value > 0
                && let Some(column) = self.columns.get_mut(at)
            {
                let known = column.entry(row >> by).or_default();
                *known = cell.late.value.max(*known);
            }
            self.rows.entry(row >> by).or_default().merge(cell);
        }
    }

    /// All that follows. `rack` tells where a host stands.
    pub fn finish(mut self, inventory: &Inventory, rack: impl Fn(&str) -> Option<String>) -> Job {
        if let Some(mut last) = self.held.take() {
            last.settle(true);
            self.take(last);
        }
        let members: BTreeMap<u64, &Member> = inventory
            .sources
            .iter()
            .flat_map(|source| &source.members)
            .map(|member| (member.id, member))
            .into_map();
        let mut job = who(&members);
        let faults = &inventory.faults;
        let settled = &self.all.settled;
        let (first_minute, last_minute) = self.span.unwrap_or_default();
        (job.first_minute, job.last_minute) = (first_minute, last_minute);
        (job.schema, job.schema_version) = (SCHEMA.to_owned(), SCHEMA_VERSION);
        job.generator = format!("stage2 {}", env!("CARGO_PKG_VERSION"));
        let name = |(path, why): &(std::path::PathBuf, String)| {
            (stage2_contract::text::visible_path(path), why.clone())
        };
        job.files = Files {
            read: inventory.sources.len() as u64,
            doubled: faults.doubled,
            torn: faults.torn,
            damaged_frames: faults.damaged,
            unknown_frames: faults.unknown,
            unreadable: faults.unreadable,
            empty: faults.empty,
            of_other_jobs: faults.other_jobs.0,
            other_jobs: faults.other_jobs.1,
            in_part: members.values().filter(|member| member.in_part).count() as u64,
            named: faults.named.iter().map(name).collect(),
        };
        job.clocks = clocks(inventory, &self.all);
        job.collectives = Collectives {
            samples: settled.samples,
            incomplete: settled.incomplete,
            alone: settled.alone,
            dropped: settled.dropped,
            within_error: settled.within_error,
            error_ns: settled.error_ns,
            median_late_ns: settled.lateness.median(),
            most_late_ns: settled.lateness.max(),
        };
        job.clock_mhz = Some(self.all.clocks.median()).filter(|mhz| *mhz > 0);
        let mut late = self.late_ranks(&members);
        let culprits: BTreeSet<u64> = self.series.keys().copied().into_set();
        job.passed_on = self.passed_on.difference(&culprits).count() as u64;
        job.common = common(&late, &members, rack);
        late.truncate(ROWS);
        job.late = late.into_iter().map(|(_, row)| row).collect();
        job.stages = std::mem::take(&mut self.all.stages).into_iter().map(stage_row).collect();
        job.stages
            .sort_by_key(|row| std::cmp::Reverse(row.classes.iter().map(|c| c.1).sum::<u64>()));
        job.idle = most(std::mem::take(&mut self.all.idle));
        job.losses = most(std::mem::take(&mut self.all.losses));
        job.heat = Heat {
            column_minutes: 1 << self.column_bits,
            row_ranks: 1 << self.shift,
            cells: self.cells(),
        };
        let shift = self.shift;
        job.rows = self
            .rows
            .into_iter()
            .map(|(row, cell)| HeatRow {
                first_rank: row << shift,
                stages: cell
                    .stages
                    .into_iter()
                    .map(|(name, of)| {
                        let values =
                            [of.step.median(), of.longest.value, of.longest.rank, of.work.median()];
                        (name, values)
                    })
                    .collect(),
            })
            .collect();
        job
    }

    fn cells(&self) -> Vec<(u64, u64, u64)> {
        let columns = self.columns.iter().zip(0..);
        columns
            .flat_map(|(column, at)| column.iter().map(move |(&row, &ns)| (row, at, ns)))
            .collect()
    }

    /// The processes of a rank together, the most waited for first.
    fn late_ranks(&self, members: &BTreeMap<u64, &Member>) -> Vec<(Vec<u64>, LateRank)> {
        let mut of_rank: BTreeMap<_, Vec<(u64, &Series)>> = BTreeMap::new();
        for (&who, series) in &self.series {
            let rank = members.get(&who).and_then(|member| member.rank);
            let key = (rank, if rank.is_some() { 0 } else { who });
            of_rank.entry(key).or_default().push((who, series));
        }
        let (clock, warm) = (self.all.clocks.median(), self.all.temperatures.median());
        let mut rows: Vec<(Vec<u64>, LateRank)> = Vec::new();
        for ((rank, _), mut series) in of_rank {
            series.sort_by_key(|(_, series)| series.episodes.first().copied());
            let mut all = Series::default();
            for (_, of) in &series {
                all.late.merge(of.late);
                all.minutes += of.minutes;
                all.episodes.extend(&of.episodes);
            }
            let known = || series.iter().filter_map(|(who, _)| members.get(who));
            let mut hosts: Vec<String> = known().map(|member| visible(&member.host)).collect();
            hosts.dedup();
            let gpus = known().flat_map(|member| &member.gpus);
            let mut gpus: Vec<String> = gpus.map(|(uuid, _)| visible(uuid)).collect();
            gpus.dedup();
            let row = rank.and_then(|rank| self.rows.get(&(rank >> self.shift)));
            let low = row.map(|cell| cell.clock).filter(|low| Some(low.rank) == rank);
            let low_clock_mhz = low.map(|low| low.value).filter(|&mhz| {
                mhz > 0 && mhz.saturating_mul(100) < clock.saturating_mul(LOW_CLOCK_PERCENT)
            });
            let hot = row.map(|cell| cell.temperature).filter(|hot| Some(hot.rank) == rank);
            let hot_c =
                hot.map(|hot| hot.value).filter(|&c| warm > 0 && c >= warm.saturating_add(HOT_C));
            let own = all.late.late_ns.saturating_sub(all.late.passed_on_ns);
            let work_percent = percent(all.late.work_ns, own);
            let cause = match work_percent {
                0..50 => Cause::Host,
                _ if low_clock_mhz.is_some() => Cause::LowClock,
                _ => Cause::GpuWork,
            };
            let pattern = all.pattern();
            all.episodes.truncate(EPISODES);
            let row = LateRank {
                rank,
                hosts,
                gpus,
                pattern,
                episodes: all.episodes,
                minutes: all.minutes,
                cause,
                late_ns: own.checked_div(all.late.calls).unwrap_or(0),
                error_ns: all.late.error_ns,
                work_percent,
                calls: all.late.calls,
                samples: all.late.samples,
                waited_ns: Series::own_ns(&all.late),
                low_clock_mhz,
                hot_c,
            };
            rows.push((series.iter().map(|(who, _)| *who).collect(), row));
        }
        rows.sort_by_key(|(_, row)| std::cmp::Reverse(row.waited_ns));
        rows
    }
}

fn visible(text: &str) -> String {
    stage2_contract::text::visible(text.as_bytes())
}

fn percent(part: u64, whole: u64) -> u64 {
    let share = (u128::from(part) * 100).checked_div(u128::from(whole)).unwrap_or(0);
    u64::try_from(share).unwrap_or(100).min(100)
}

fn most(map: BTreeMap<String, u64>) -> Vec<(String, u64)> {
    let mut rows: Vec<(String, u64)> = map.into_iter().filter(|(_, value)| *value > 0).collect();
    rows.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    rows
}

fn stage_row((stage, of): (String, Stage)) -> StageRow {
    let classes = of.classes.into_iter().map(|(class, sum)| (class, sum.total_ns)).collect();
    StageRow {
        stage,
        steps: of.steps.count(),
        step_ns: [of.steps.median(), of.steps.percentile(99), of.steps.max()],
        busy_ns: of.busy.median(),
        collective_ns: of.collective.median(),
        classes: most(classes),
    }
}

fn who(members: &BTreeMap<u64, &Member>) -> Job {
    let mut processes: BTreeMap<u64, u64> = BTreeMap::new();
    let mut job = Job::default();
    let mut versions: BTreeMap<String, u64> = BTreeMap::new();
    for member in members.values() {
        match member.rank {
            Some(rank) => *processes.entry(rank).or_default() += 1,
            None => job.without_rank += 1,
        }
        job.expected = job.expected.max(member.world);
        for (what, version) in &member.versions {
            *entry(&mut versions, &visible(&format!("{what} {version}"))) += 1;
        }
        let gpus: BTreeSet<&str> = member.gpus.iter().map(|(_, name)| name.as_str()).into_set();
        for name in gpus {
            *entry(&mut versions, &visible(name)) += 1;
        }
    }
    let hosts: BTreeSet<&str> = members.values().map(|member| member.host.as_str()).into_set();
    job.hosts = hosts.len() as u64;
    job.ranks = processes.len() as u64;
    let expected = job.expected.unwrap_or(0).min(1 << 24);
    let missing = (0..expected).filter(|rank| !processes.contains_key(rank));
    job.missing = missing.take(ROWS).collect();
    let anew = processes.into_iter().filter(|(_, count)| *count > 1);
    job.restarted = anew.take(ROWS).collect();
    job.versions = most(versions);
    job
}

fn clocks(inventory: &Inventory, all: &Period) -> Clocks {
    let mut apart: BTreeMap<&str, i64> = BTreeMap::new();
    for source in &inventory.sources {
        let ms = source.add_ns / 1_000_000;
        if let Some(member) = source.members.first()
            && ms.unsigned_abs() >= CLOCK_APART_MS
        {
            let known = apart.entry(&member.host).or_default();
            if ms.unsigned_abs() > known.unsigned_abs() {
                *known = ms;
            }
        }
    }
    let mut apart: Vec<(String, i64)> =
        apart.into_iter().map(|(host, ms)| (visible(host), ms)).collect();
    apart.sort_by_key(|(_, ms)| std::cmp::Reverse(ms.unsigned_abs()));
    apart.truncate(ROWS);
    let moved = all.clock_moved_ms;
    Clocks {
        error_ns: inventory.clock_error_ns,
        apart,
        moved: (moved.value >= CLOCK_APART_MS).then_some((moved.value, moved.rank)),
    }
}

/// What at least two of the worst have in common, and at most half of all.
fn common(
    late: &[(Vec<u64>, LateRank)],
    members: &BTreeMap<u64, &Member>,
    rack: impl Fn(&str) -> Option<String>,
) -> Vec<String> {
    let traits = |member: &Member| {
        let mut all = vec![format!("host {}", member.host)];
        all.extend(rack(&member.host).map(|rack| format!("rack {rack}")));
        all.extend(member.gpus.iter().map(|(_, name)| format!("GPU {name}")));
        all.extend(member.versions.iter().map(|(what, which)| format!("{what} {which}")));
        all
    };
    let mut of_worst: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    let worst = late.iter().take(WORST).filter(|(_, row)| row.rank.is_some());
    for (at, (who, _)) in worst.enumerate() {
        for member in who.iter().filter_map(|who| members.get(who)) {
            for name in traits(member) {
                of_worst.entry(name).or_default().insert(at);
            }
        }
    }
    of_worst.retain(|_, ranks| ranks.len() > 1);
    let mut of_all: BTreeMap<&str, u64> = of_worst.keys().map(|name| (name.as_str(), 0)).into_map();
    for member in members.values() {
        for name in traits(member) {
            of_all.get_mut(name.as_str()).into_iter().for_each(|count| *count += 1);
        }
    }
    let rare = |name: &str| {
        let count = of_all.get(name).copied().unwrap_or(0);
        count * 2 <= members.len() as u64
    };
    let worst = late.len().min(WORST);
    let mut found: Vec<(usize, String)> = of_worst
        .iter()
        .filter(|(name, _)| rare(name))
        .map(|(name, ranks)| {
            let count = of_all.get(name.as_str()).copied().unwrap_or(0);
            let (ranks, all) = (ranks.len(), members.len());
            let name = visible(name);
            (ranks, format!("{ranks} of the {worst} worst: {name} ({count} of {all} processes)"))
        })
        .collect();
    found.extend(shared_state(late, worst, "a clock below that of the others", |row| {
        row.low_clock_mhz
    }));
    found.extend(shared_state(late, worst, "a GPU hotter than the others'", |row| row.hot_c));
    found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    found.into_iter().map(|(_, text)| text).take(WORST).collect()
}

/// What the GPUs of at least two of the worst were measured to be, and how many they are.
fn shared_state(
    late: &[(Vec<u64>, LateRank)],
    worst: usize,
    what: &str,
    value: impl Fn(&LateRank) -> Option<u64>,
) -> Option<(usize, String)> {
    let ranks = late.iter().take(worst).filter(|(_, row)| value(row).is_some()).count();
    (ranks > 1).then(|| (ranks, format!("{ranks} of the {worst} worst: {what}")))
}

/// Seconds since the Unix epoch of a minute.
pub fn seconds(minute: u64) -> i64 {
    i64::try_from(minute.saturating_mul(PERIOD_NS / 1_000_000_000)).unwrap_or(i64::MAX)
}
