//! The first pass: which kernel kinds a stage ran, and which of them get their own columns.

use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::samples::Samples;

/// Kinds of one stage that get their own columns; the other kinds are pooled by class.
pub const OWN_COLUMNS: usize = 256;
/// Classes of one stage that get their own pools; the others share the last pool.
const POOLS: usize = 32;
/// The largest number of blocks that the bootstrap draws from.
pub(super) const BLOCKS: usize = 48;
/// Pairs of a stage and a kind that are told apart; kernels of others make their samples unusable.
const MAX_KINDS: usize = 1 << 20;
/// The largest number of stages. Kernels of further ones count as kernels of no stage.
const MAX_STAGES: usize = 4096;
/// Sums of products over all stages and blocks: 8 bytes each.
const MAX_CELLS: usize = 16 << 20;
/// Pieces of a call that have their own unknowns, at most.
const MOST_PIECES: u64 = 4;
/// A piece has at least this length, and at least this part of a sample.
const SHORTEST_PIECE_NS: u64 = 5_000;
const PIECES_OF_SAMPLE: u64 = 20;
/// Unknowns that pieces may add to a stage that has [`OWN_COLUMNS`] kinds already.
const SPARE_PIECES: usize = 32;
/// Samples that a stage has at least for each unknown that pieces add.
const SAMPLES_OF_UNKNOWN: u64 = 8;
/// Fewer steps than these are not a sample: runs of samples are drawn in their place.
pub(super) const MIN_STEPS: u32 = 10;

/// One kernel, copy or fill on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernel {
    /// When it began, in ns on the clock of the samples.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// The stage that it belongs to. `None`: of no stage; the samples that it touches are left out.
    pub stage: Option<u32>,
    /// What it is: a number that the caller gives to each name, grid and block.
    pub kind: u32,
    /// The class of the kind, by which rare kinds are pooled.
    pub class: u32,
    /// The number of the step within the stage, from 0, where there are steps.
    pub step: Option<u32>,
}

impl Kernel {
    /// Its duration in ns; `None` where it ends before it starts.
    pub(crate) fn duration_ns(&self) -> Option<u64> {
        self.end_ns.checked_sub(self.start_ns)
    }
}

/// What a column of the fit stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Column {
    /// One kernel kind.
    Kind(u32),
    /// All kinds of a class that have no columns of their own. Its amount is the mean over them.
    Pool(u32),
    /// What is left once there are more classes than [`POOLS`].
    Rest,
}

#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    calls: u64,
    busy_ns: u64,
    class: u32,
}

impl Tally {
    /// Into how many pieces a call is cut: a long kernel does not read evenly from its start to its end.
    fn pieces(&self, sample_ns: u64) -> usize {
        let mean = self.busy_ns / self.calls.max(1);
        let piece = SHORTEST_PIECE_NS.max(sample_ns / PIECES_OF_SAMPLE);
        (mean / piece).clamp(1, MOST_PIECES) as usize
    }
}

/// Counts the calls and the time of each kind in each stage: the first of the two passes.
#[derive(Debug, Clone, Default)]
pub struct Kinds {
    tallies: FxHashMap<(u32, u32), Tally>,
    steps: FxHashMap<u32, u32>,
}

impl Kinds {
    /// Count one kernel. Kernels of no stage, and those that end before they start, are not calls.
    pub fn add(&mut self, kernel: &Kernel) {
        let (Some(stage), Some(duration)) = (kernel.stage, kernel.duration_ns()) else {
            return;
        };
        let key = (stage, kernel.kind);
        if self.tallies.len() >= MAX_KINDS && !self.tallies.contains_key(&key) {
            return;
        }
        let tally = self.tallies.entry(key).or_default();
        tally.calls += 1;
        tally.busy_ns = tally.busy_ns.saturating_add(duration);
        tally.class = kernel.class;
        if let Some(step) = kernel.step {
            let steps = self.steps.entry(stage).or_default();
            *steps = (*steps).max(step.saturating_add(1));
        }
    }

    /// Choose the columns: in each stage the kinds that ran longest, and a pool for each class.
    /// How finely calls are cut depends on how long the samples are.
    pub fn design(&self, samples: &Samples) -> Design {
        let sample_ns = samples.mean_ns();
        let mut stages: FxHashMap<u32, Vec<(u32, Tally)>> = FxHashMap::default();
        for (&(stage, kind), &tally) in &self.tallies {
            stages.entry(stage).or_default().push((kind, tally));
        }
        let mut stages: Vec<_> = stages.into_iter().collect();
        stages.sort_by_key(|(stage, _)| *stage);
        stages.truncate(MAX_STAGES);
        for (_, kinds) in &mut stages {
            kinds.sort_by_key(|(kind, tally)| (std::cmp::Reverse(tally.busy_ns), *kind));
        }
        // With very many stages, each gets fewer columns of its own, so that the sums stay in bounds.
        let (mut own, mut pools) = (OWN_COLUMNS, POOLS);
        let cells = |own: usize, pools: usize| -> usize {
            let pieces = own.min(OWN_COLUMNS + SPARE_PIECES);
            let columns = stages.iter().map(|(_, kinds)| {
                let cut = (kinds.len() * (MOST_PIECES as usize - 1)).min(pieces);
                kinds.len().min(own + pools) + cut + 1
            });
            columns.map(|width| width * (width + 1) / 2 * BLOCKS).sum()
        };
        while own > 0 && cells(own, pools) > MAX_CELLS {
            (own, pools) = (own / 2, (pools / 2).max(1));
        }
        let mut lookup = FxHashMap::default();
        let mut design = Design { lookup: Arc::default(), stages: Vec::new(), own_columns: own };
        for (stage, kinds) in stages {
            let steps = self.steps.get(&stage).copied().unwrap_or(0);
            design.add_stage(&mut lookup, stage, &kinds, pools, steps, sample_ns);
        }
        design.lookup = Arc::new(lookup);
        design
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct StageDesign {
    pub(crate) stage: u32,
    pub(crate) columns: Vec<Column>,
    pub(crate) calls: Vec<u64>,
    /// What the calls of each column last together.
    pub(crate) busy_ns: Vec<u64>,
    /// The unknowns of each column: one for each piece of its calls, behind those of the column before.
    pub(super) unknowns: Vec<Range<usize>>,
    pub(crate) steps: u32,
}

impl StageDesign {
    /// The number of unknowns, with the constant, which is the last one.
    pub(crate) fn width(&self) -> usize {
        self.unknowns.last().map_or(0, |of| of.end) + 1
    }
}

/// Which column of which stage each kernel kind has.
#[derive(Debug, Clone)]
pub struct Design {
    lookup: Arc<FxHashMap<(u32, u32), (u32, u32)>>,
    pub(super) stages: Vec<StageDesign>,
    own_columns: usize,
}

impl Design {
    fn add_stage(
        &mut self,
        lookup: &mut FxHashMap<(u32, u32), (u32, u32)>,
        stage: u32,
        kinds: &[(u32, Tally)],
        pools: usize,
        steps: u32,
        sample_ns: u64,
    ) {
        let own = kinds.len().min(self.own_columns);
        let busy_ns: u64 = kinds.iter().fold(0, |sum, (_, of)| sum.saturating_add(of.busy_ns));
        let rows = busy_ns / sample_ns.max(1);
        let spare = match self.own_columns {
            OWN_COLUMNS => OWN_COLUMNS - own + SPARE_PIECES,
            fewer => fewer - own,
        };
        // Short stages have too few samples for more unknowns.
        let mut spare = spare.min((rows / SAMPLES_OF_UNKNOWN) as usize);

        let index = self.stages.len() as u32;
        let mut of = StageDesign { stage, steps, ..StageDesign::default() };
        let mut pooled: FxHashMap<u32, u32> = FxHashMap::default();
        let mut rest = None;
        for (position, &(kind, tally)) in kinds.iter().enumerate() {
            let mut open = |column, pieces: usize| {
                let first = of.width() - 1;
                of.columns.push(column);
                of.calls.push(0);
                of.busy_ns.push(0);
                of.unknowns.push(first..first + pieces);
                of.columns.len() as u32 - 1
            };
            let column = if position < self.own_columns {
                let pieces = tally.pieces(sample_ns).min(spare + 1);
                spare -= pieces - 1;
                open(Column::Kind(kind), pieces)
            } else if let Some(&column) = pooled.get(&tally.class) {
                column
            } else if pooled.len() + 1 < pools {
                let column = open(Column::Pool(tally.class), 1);
                pooled.insert(tally.class, column);
                column
            } else {
                *rest.get_or_insert_with(|| open(Column::Rest, 1))
            };
            of.calls[column as usize] += tally.calls;
            let busy = &mut of.busy_ns[column as usize];
            *busy = busy.saturating_add(tally.busy_ns);
            lookup.insert((stage, kind), (index, column));
        }
        self.stages.push(of);
    }

    /// The design with calls that are not cut into pieces: one unknown for each column.
    pub(crate) fn whole(&self) -> Self {
        let mut design = self.clone();
        for stage in &mut design.stages {
            stage.unknowns = (0..stage.columns.len()).map(|column| column..column + 1).collect();
        }
        design
    }

    /// The number of unknowns of all stages, with their constants.
    pub(super) fn unknowns(&self) -> usize {
        self.stages.iter().map(StageDesign::width).sum()
    }

    /// The position of a kernel's stage and of its column; `None` where the first pass lacked it.
    pub(crate) fn find(&self, stage: u32, kind: u32) -> Option<(u32, u32)> {
        self.lookup.get(&(stage, kind)).copied()
    }
}
