//! The first pass: which kernel kinds a stage ran, and which of them get columns of their own.

use rustc_hash::FxHashMap;

/// Kinds of one stage that get columns of their own; the other kinds are pooled by class.
pub const OWN_COLUMNS: usize = 256;
/// Classes of one stage that get pools of their own; the others share the last pool.
pub const POOLS: usize = 32;
/// The largest number of blocks that the bootstrap draws from.
pub const BLOCKS: usize = 48;
/// Pairs of a stage and a kind that are told apart; kernels of others make their samples unusable.
pub const MAX_KINDS: usize = 1 << 20;
/// The largest number of stages. Kernels of further ones count as kernels of no stage.
pub const MAX_STAGES: usize = 4096;
/// Sums of products over all stages and blocks: 8 bytes each.
const MAX_CELLS: usize = 16 << 20;
/// Fewer steps than these are no sample of anything: runs of samples are drawn in their place.
pub(crate) const MIN_STEPS: u32 = 10;

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
    /// The number of the step within the stage, from 0 on, where there are steps.
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

/// Counts the calls and the time of each kind in each stage: the first of the two passes.
#[derive(Debug, Clone, Default)]
pub struct Kinds {
    tallies: FxHashMap<(u32, u32), Tally>,
    steps: FxHashMap<u32, u32>,
    unusable: u64,
    over_limit: u64,
}

impl Kinds {
    /// No kernels yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Count one kernel. Kernels of no stage, and those that end before they start, are no call.
    pub fn add(&mut self, kernel: &Kernel) {
        let (Some(stage), Some(duration)) = (kernel.stage, kernel.duration_ns()) else {
            self.unusable += 1;
            return;
        };
        let full = self.tallies.len() >= MAX_KINDS;
        if full && !self.tallies.contains_key(&(stage, kernel.kind)) {
            self.over_limit += 1;
            return;
        }
        let tally = self.tallies.entry((stage, kernel.kind)).or_default();
        tally.calls += 1;
        tally.busy_ns = tally.busy_ns.saturating_add(duration);
        tally.class = kernel.class;
        if let Some(step) = kernel.step {
            let steps = self.steps.entry(stage).or_default();
            *steps = (*steps).max(step.saturating_add(1));
        }
    }

    /// Choose the columns: in each stage the kinds that ran longest, and a pool for each class.
    pub fn design(&self) -> Design {
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
            let columns = stages.iter().map(|(_, kinds)| kinds.len().min(own + pools) + 1);
            columns.map(|width| width * (width + 1) / 2 * BLOCKS).sum()
        };
        while own > 0 && cells(own, pools) > MAX_CELLS {
            (own, pools) = (own / 2, (pools / 2).max(1));
        }
        let mut design =
            Design { lookup: FxHashMap::default(), stages: Vec::new(), own_columns: own };
        for (stage, kinds) in stages {
            design.add_stage(stage, &kinds, pools, self.steps.get(&stage).copied().unwrap_or(0));
        }
        design
    }

    /// Kernels that belong to no stage or end before they start.
    pub fn unusable(&self) -> u64 {
        self.unusable
    }

    /// Kernels of kinds that came after the first [`MAX_KINDS`].
    pub fn over_limit(&self) -> u64 {
        self.over_limit
    }
}

#[derive(Debug, Clone)]
pub(crate) struct StageDesign {
    pub(crate) stage: u32,
    pub(crate) columns: Vec<Column>,
    pub(crate) calls: Vec<u64>,
    /// What the calls of each column last together.
    pub(crate) busy_ns: Vec<u64>,
    pub(crate) steps: u32,
}

/// Which column of which stage each kernel kind has.
#[derive(Debug, Clone)]
pub struct Design {
    lookup: FxHashMap<(u32, u32), (u32, u32)>,
    pub(crate) stages: Vec<StageDesign>,
    own_columns: usize,
}

impl Design {
    fn add_stage(&mut self, stage: u32, kinds: &[(u32, Tally)], pools: usize, steps: u32) {
        let index = self.stages.len() as u32;
        let mut of = StageDesign {
            stage,
            columns: Vec::new(),
            calls: Vec::new(),
            busy_ns: Vec::new(),
            steps,
        };
        let mut pooled: FxHashMap<u32, u32> = FxHashMap::default();
        let mut rest = None;
        for (position, &(kind, tally)) in kinds.iter().enumerate() {
            let mut open = |column| {
                of.columns.push(column);
                of.calls.push(0);
                of.busy_ns.push(0);
                of.columns.len() as u32 - 1
            };
            let column = if position < self.own_columns {
                open(Column::Kind(kind))
            } else if let Some(&column) = pooled.get(&tally.class) {
                column
            } else if pooled.len() + 1 < pools {
                let column = open(Column::Pool(tally.class));
                pooled.insert(tally.class, column);
                column
            } else {
                *rest.get_or_insert_with(|| open(Column::Rest))
            };
            of.calls[column as usize] += tally.calls;
            let busy = &mut of.busy_ns[column as usize];
            *busy = busy.saturating_add(tally.busy_ns);
            self.lookup.insert((stage, kind), (index, column));
        }
        self.stages.push(of);
    }

    /// The position of a kernel's stage and of its column; `None` where the first pass lacked it.
    pub(crate) fn find(&self, stage: u32, kind: u32) -> Option<(u32, u32)> {
        self.lookup.get(&(stage, kind)).copied()
    }

    /// The column that a kind has in a stage.
    pub fn column(&self, stage: u32, kind: u32) -> Option<Column> {
        let (stage, column) = self.find(stage, kind)?;
        Some(self.stages[stage as usize].columns[column as usize])
    }

    /// How many kinds of a stage have columns of their own: [`OWN_COLUMNS`], or fewer where there
    /// are so many stages that their sums would not fit into memory.
    pub fn own_columns(&self) -> usize {
        self.own_columns
    }
}
