//! Kernels laid over samples: which share of each call lies in which sample, and the sums of products that
//! follow for each stage.

use std::collections::VecDeque;

use crate::kinds::{BLOCKS, Design, Kernel, MIN_STEPS};
use crate::samples::Samples;

/// Samples that stay open behind the newest kernel: 6.5 s at 100 us.
const OPEN_SAMPLES: usize = 1 << 16;
/// Samples in a row that make one block where there are no steps.
const RUN_OF_SAMPLES: usize = 20;
/// Groups of counters that are missing from different samples.
pub(super) const MAX_PATTERNS: usize = 2;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum RowContents {
    #[default]
    Nothing,
    Stage(u32),
    Several,
    Foreign,
}

#[derive(Debug, Default)]
struct Row {
    holds: RowContents,
    block: u8,
    entries: Vec<Entry>,
}

/// A call and a sample that it lies in, at least in part; ns.
struct Call {
    start: u64,
    end: u64,
    within: (u64, u64),
}

impl Call {
    /// Which share of a piece of the call lies in the sample, and how it would grow for every ns that the
    /// call were later. `None` where the piece lies elsewhere.
    fn piece(&self, number: u64, pieces: u64) -> Option<(f64, f64)> {
        let (from, to) = self.within;
        let length = self.end - self.start;
        let at =
            |piece: u64| self.start + length / pieces * piece + length % pieces * piece / pieces;
        let (start, end) = (at(number), at(number + 1));
        if start == end {
            return (length == 0 || (from..to).contains(&start)).then_some((1.0, 0.0));
        }
        let overlap = end.min(to).checked_sub(start.max(from)).filter(|overlap| *overlap > 0)?;
        let duration = (end - start) as f64;
        // Later calls would leave a sample that they begin in, and come into one that they end in.
        let ends = f64::from(u8::from(end < to));
        let begins = f64::from(u8::from(start > from));
        Some((overlap as f64 / duration, (ends - begins) / duration))
    }
}

/// The samples with the kernels that were laid over them so far.
#[derive(Debug)]
pub(crate) struct Placing {
    pub(super) edges: Edges,
    patterns: Vec<Vec<usize>>,
    one_block: bool,
    first: usize,
    near: usize,
    budget: u64,
    open: VecDeque<Row>,
    spare: Vec<Row>,
    /// For each stage, one for each pattern; empty until a sample of the stage is closed.
    pub(super) moments: Vec<Vec<Moments>>,
    /// Of each counter, in samples within which nothing ran: seconds, and what it gained.
    pub(super) idle: Vec<(f64, f64)>,
}

impl Placing {
    pub(crate) fn new(
        samples: &Samples,
        design: &Design,
        patterns: &[Vec<usize>],
        edges: Edges,
        one_block: bool,
    ) -> Self {
        Self {
            edges,
            patterns: patterns.to_vec(),
            one_block,
            first: 0,
            near: 0,
            // So many streams at once do not exist: what needs more has damaged times.
            budget: 16 * samples.len() as u64,
            open: VecDeque::new(),
            spare: Vec::new(),
            moments: vec![Vec::new(); design.stages.len()],
            idle: vec![(0.0, 0.0); samples.counters()],
        }
    }

    /// Begin at a later sample than the first.
    pub(super) fn skip_to(&mut self, row: usize) {
        self.first = self.first.max(row);
    }

    pub(crate) fn kernel(&mut self, samples: &Samples, design: &Design, kernel: &Kernel) {
        let Some((start, end)) = self.edges.of(kernel) else { return };
        let begin = samples.first_after(start, self.near);
        if begin >= samples.len() || samples.start_ns(begin) >= end.max(start.saturating_add(1)) {
            return;
        }
        self.near = begin;
        self.close_before(samples, design, begin.saturating_sub(OPEN_SAMPLES));
        let place = kernel.stage.and_then(|stage| design.find(stage, kernel.kind));
        let holds = |row: &usize| *row == begin || samples.start_ns(*row) < end;
        let first = self.first;
        for row in (begin..samples.len()).take_while(holds).filter(|row| *row >= first) {
            // The first sample of each kernel is free, so that only long ones use the budget up.
            if row > begin {
                let Some(left) = self.budget.checked_sub(1) else { return };
                self.budget = left;
            }
            let within = (samples.start_ns(row), samples.end_ns(row));
            self.place(design, row, place, kernel.step, &Call { start, end, within });
        }
    }

    fn place(
        &mut self,
        design: &Design,
        row: usize,
        place: Option<(u32, u32)>,
        step: Option<u32>,
        call: &Call,
    ) {
        while self.first + self.open.len() <= row {
            self.open.push_back(self.spare.pop().unwrap_or_default());
        }
        let one_block = self.one_block;
        let open = &mut self.open[row - self.first];
        let Some((stage, column)) = place else {
            open.holds = RowContents::Foreign;
            open.entries.clear();
            return;
        };
        match open.holds {
            RowContents::Nothing => {
                open.holds = RowContents::Stage(stage);
                let by_step = step.filter(|_| design.stages[stage as usize].steps >= MIN_STEPS);
                let number = by_step.map_or(row / RUN_OF_SAMPLES, |step| step as usize);
                open.block = if one_block { 0 } else { (number % BLOCKS) as u8 };
            }
            RowContents::Stage(other) if other == stage => {}
            RowContents::Stage(_) => {
                open.holds = RowContents::Several;
                open.entries.clear();
                return;
            }
            RowContents::Several | RowContents::Foreign => return,
        }
        let unknowns = design.stages[stage as usize].unknowns[column as usize].clone();
        let pieces = unknowns.len() as u64;
        for (piece, unknown) in (0..).zip(unknowns) {
            let Some((share, growth)) = call.piece(piece, pieces) else {
                continue;
            };
            let unknown = unknown as u32;
            match open.entries.iter_mut().find(|of| of.unknown == unknown) {
                Some(of) => (of.share, of.growth) = (of.share + share, of.growth + growth),
                None => open.entries.push(Entry { unknown, share, growth }),
            }
        }
    }

    /// Close the samples before `limit`: no kernel is expected there any more.
    pub(super) fn close_before(&mut self, samples: &Samples, design: &Design, limit: usize) {
        while self.first < limit {
            let mut row = self.open.pop_front().unwrap_or_default();
            let number = self.first;
            self.first += 1;
            let (values, seconds) = (samples.values(number), samples.seconds(number));
            match row.holds {
                RowContents::Nothing => {
                    for ((idle, amount), value) in self.idle.iter_mut().zip(values) {
                        if !value.is_nan() {
                            *idle += seconds;
                            *amount += f64::from(*value);
                        }
                    }
                }
                RowContents::Several | RowContents::Foreign => {}
                RowContents::Stage(stage) => {
                    let width = design.stages[stage as usize].width();
                    row.entries.sort_unstable_by_key(|of| of.unknown);
                    let constant = width as u32 - 1;
                    row.entries.push(Entry { unknown: constant, share: seconds, growth: 0.0 });
                    let moments = &mut self.moments[stage as usize];
                    if moments.is_empty() {
                        let new = |counters: &Vec<usize>| Moments::new(width, counters);
                        moments.extend(self.patterns.iter().map(new));
                    }
                    for of in moments {
                        if of.counters.iter().all(|&counter| !values[counter].is_nan()) {
                            of.add(usize::from(row.block), &row.entries, values, seconds);
                        }
                    }
                }
            }
            row.entries.clear();
            row.holds = RowContents::Nothing;
            if self.spare.len() < OPEN_SAMPLES {
                self.spare.push(row);
            }
        }
    }
}

/// The least part of a call that is left between its moved edges.
const LEAST_LEFT: f64 = 0.2;

/// By how much the two edges of each call are moved, in ns; later is positive.
///
/// Counters are read a little after or before the instant that a sample's time states; and a kernel record
/// begins before the first load of the kernel reaches DRAM, and ends after its last store was made visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Edges {
    /// Added to the time at which a call begins.
    pub start_ns: i64,
    /// Added to the time at which it ends.
    pub end_ns: i64,
}

impl Edges {
    /// Start and end moved by the same time.
    pub fn both(ns: i64) -> Self {
        Self { start_ns: ns, end_ns: ns }
    }

    /// Start and end of a call so moved; `None` where it ends before it starts. Of a call that is too
    /// short for the edges to move so far, a part is left, and they move in proportion.
    pub(crate) fn of(self, kernel: &Kernel) -> Option<(u64, u64)> {
        let duration = kernel.duration_ns()?;
        let (mut start_ns, mut end_ns) = (self.start_ns, self.end_ns);
        let most = duration as f64 * (1.0 - LEAST_LEFT);
        let shorter = start_ns.saturating_sub(end_ns) as f64;
        if shorter > most {
            let part = most / shorter;
            start_ns = (start_ns as f64 * part) as i64;
            end_ns = (end_ns as f64 * part) as i64;
        }
        let start = kernel.start_ns.saturating_add_signed(start_ns);
        Some((start, kernel.end_ns.saturating_add_signed(end_ns).max(start)))
    }

    pub(crate) fn moved(self, start_ns: i64, end_ns: i64) -> Self {
        Self { start_ns: self.start_ns + start_ns, end_ns: self.end_ns + end_ns }
    }
}

/// The sums over the samples of one block. `gram` holds the lower triangle, row by row.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sums {
    pub(crate) rows: f64,
    pub(crate) seconds: f64,
    gram: Vec<f64>,
    /// Column by column for the first counter, then for the next.
    pub(crate) product: Vec<f64>,
    pub(super) squares: Vec<f64>,
    pub(crate) totals: Vec<f64>,
}

impl Sums {
    pub(crate) fn zero(width: usize, counters: usize) -> Self {
        Self {
            rows: 0.0,
            seconds: 0.0,
            gram: vec![0.0; width * (width + 1) / 2],
            product: vec![0.0; width * counters],
            squares: vec![0.0; counters],
            totals: vec![0.0; counters],
        }
    }

    pub(crate) fn clear(&mut self) {
        (self.rows, self.seconds) = (0.0, 0.0);
        for list in [&mut self.gram, &mut self.product, &mut self.squares, &mut self.totals] {
            list.fill(0.0);
        }
    }

    pub(crate) fn add(&mut self, other: &Self, times: f64) {
        fn each(to: &mut [f64], from: &[f64], times: f64) {
            for (to, from) in to.iter_mut().zip(from) {
                *to += times * from;
            }
        }
        self.rows += times * other.rows;
        self.seconds += times * other.seconds;
        each(&mut self.gram, &other.gram, times);
        each(&mut self.product, &other.product, times);
        each(&mut self.squares, &other.squares, times);
        each(&mut self.totals, &other.totals, times);
    }

    pub(crate) fn cell(&self, row: usize, column: usize) -> f64 {
        let (low, high) = if row < column { (row, column) } else { (column, row) };
        self.gram[high * (high + 1) / 2 + low]
    }
}

/// A part of a sample: the share of an unknown's pieces of calls that lies within it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(crate) unknown: u32,
    pub(crate) share: f64,
    /// How the share would grow for every ns that the calls were later.
    growth: f64,
}

/// What an unknown has seen: in how many samples it is, and in how many blocks.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Occurrences {
    pub(crate) samples: u64,
    pub(crate) blocks: u64,
    /// The sum of its weights: calls within the samples, or seconds for the constant.
    pub(super) exposure: f64,
}

impl Occurrences {
    /// What a column has seen whose unknowns are the pieces of its calls.
    pub(super) fn of_pieces(pieces: &[Self]) -> Self {
        Self {
            samples: pieces.iter().map(|of| of.samples).max().unwrap_or(0),
            blocks: pieces.iter().fold(0, |blocks, of| blocks | of.blocks),
            exposure: pieces.iter().map(|of| of.exposure).sum::<f64>() / pieces.len().max(1) as f64,
        }
    }
}

/// The sums of one stage for counters that are missing from the same samples. The last unknown is the
/// constant: the sample's duration in seconds.
#[derive(Debug, Clone)]
pub(super) struct Moments {
    pub(crate) width: usize,
    pub(crate) counters: Vec<usize>,
    pub(crate) blocks: Vec<Option<Box<Sums>>>,
    pub(crate) seen: Vec<Occurrences>,
    /// Products of shares (row) and growths (column), over all blocks.
    pub(super) cross: Vec<f64>,
}

impl Moments {
    pub(crate) fn new(width: usize, counters: &[usize]) -> Self {
        Self {
            width,
            counters: counters.to_vec(),
            blocks: vec![None; BLOCKS],
            seen: vec![Occurrences::default(); width],
            cross: vec![0.0; width * width],
        }
    }

    /// Add a sample; `row` is sorted by unknown and ends with the constant.
    pub(crate) fn add(&mut self, block: usize, row: &[Entry], values: &[f32], seconds: f64) {
        let (width, counters) = (self.width, self.counters.len());
        let sums = self.blocks[block].get_or_insert_with(|| Box::new(Sums::zero(width, counters)));
        sums.rows += 1.0;
        sums.seconds += seconds;
        for (position, &Entry { unknown, share: weight, growth }) in row.iter().enumerate() {
            let column = unknown as usize;
            if growth != 0.0 {
                for of in row {
                    self.cross[of.unknown as usize * width + column] += of.share * growth;
                }
            }
            let seen = &mut self.seen[column];
            seen.samples += 1;
            seen.blocks |= 1 << block;
            seen.exposure += weight;
            let line = &mut sums.gram[column * (column + 1) / 2..][..=column];
            for other in &row[..=position] {
                line[other.unknown as usize] += weight * other.share;
            }
            for (index, &counter) in self.counters.iter().enumerate() {
                sums.product[index * width + column] += weight * f64::from(values[counter]);
            }
        }
        for (index, &counter) in self.counters.iter().enumerate() {
            let value = f64::from(values[counter]);
            sums.squares[index] += value * value;
            sums.totals[index] += value;
        }
    }

    /// Take a known background, in units of each counter per second, out of every sample.
    pub(super) fn subtract(&mut self, rates: &[f64]) {
        let (width, constant) = (self.width, self.width - 1);
        for sums in self.blocks.iter_mut().flatten() {
            for (index, &counter) in self.counters.iter().enumerate() {
                let rate = rates[counter];
                let seconds = sums.product[index * width + constant];
                sums.squares[index] +=
                    rate * rate * sums.cell(constant, constant) - 2.0 * rate * seconds;
                for column in 0..width {
                    sums.product[index * width + column] -= rate * sums.cell(column, constant);
                }
                sums.totals[index] -= rate * sums.seconds;
            }
        }
    }

    pub(crate) fn total(&self) -> Sums {
        let mut total = Sums::zero(self.width, self.counters.len());
        for block in self.blocks.iter().flatten() {
            total.add(block, 1.0);
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fit, Fitted, Kinds};
    use fastrand::Rng;

    fn kernel(start_ns: u64, end_ns: u64, stage: Option<u32>, kind: u32) -> Kernel {
        Kernel { start_ns, end_ns, stage, kind, class: kind % 3, step: None }
    }

    fn even(rows: u64) -> Samples {
        let mut samples = Samples::new(1);
        (0..rows).for_each(|row| samples.push(row * 100, row * 100 + 100, &[1.0]));
        samples
    }

    fn design(samples: &Samples, kernels: &[Kernel]) -> Design {
        let mut kinds = Kinds::default();
        kernels.iter().for_each(|kernel| kinds.add(kernel));
        kinds.design(samples)
    }

    /// Kernels laid over samples of which none is closed.
    fn placed(samples: &Samples, kernels: &[Kernel]) -> Placing {
        let design = design(samples, kernels);
        let patterns = samples.patterns(MAX_PATTERNS);
        let mut placing = Placing::new(samples, &design, &patterns, Edges::default(), false);
        kernels.iter().for_each(|kernel| placing.kernel(samples, &design, kernel));
        placing
    }

    /// The fit with these edges; nothing looks for better ones.
    fn fitted(samples: &Samples, kernels: &[Kernel], edges: Edges) -> Fitted {
        let design = design(samples, kernels);
        let mut fit = Fit::new(samples, &design);
        fit.running = Some(Placing::new(samples, &design, &fit.patterns, edges, false));
        kernels.iter().for_each(|kernel| fit.kernel(kernel));
        fit.finish()
    }

    #[test]
    fn unusable_kernels_lie_in_no_sample_and_the_others_in_their_own() {
        use RowContents::{Foreign, Nothing, Several, Stage};
        let mut samples = even(100);
        samples.push(20_000, 20_100, &[1.0]);
        let kernels = [
            kernel(50, 40, Some(0), 1),
            kernel(150, 150, Some(0), 1),
            kernel(9_950, 10_050, Some(0), 1),
            kernel(12_000, 12_100, Some(0), 1),
            kernel(u64::MAX - 1, u64::MAX, Some(0), 1),
            kernel(320, 330, None, 1),
            kernel(410, 420, Some(0), 1),
            kernel(430, 440, Some(1), 1),
        ];
        let placing = placed(&samples, &kernels);
        let share = |row: &Row| row.entries.iter().map(|of| of.share).sum::<f64>();
        let held = placing.open.iter().enumerate().filter(|(_, row)| row.holds != Nothing);
        let held: Vec<_> = held.map(|(at, row)| (at, row.holds, share(row))).collect();
        // All of a kernel without a length counts, and of one at a gap what lies before it.
        let expected =
            [(1, Stage(0), 1.0), (3, Foreign, 0.0), (4, Several, 0.0), (99, Stage(0), 0.5)];
        assert_eq!(held, expected);
        assert_eq!(design(&samples, &kernels).find(2, 1), None, "the first pass lacked it");
    }

    #[test]
    fn what_counters_gain_while_nothing_runs_is_summed() {
        let samples = even(10);
        let design = design(&samples, &[]);
        let mut placing = placed(&samples, &[]);
        placing.close_before(&samples, &design, samples.len());
        let [(seconds, amount)] = placing.idle[..] else { panic!("one counter") };
        assert!((seconds - 1e-6).abs() < 1e-12 && amount == 10.0, "{amount} in {seconds} s");
    }

    #[test]
    fn kernels_that_all_last_all_the_time_are_laid_over_samples_in_part() {
        let (samples, kernels) = (even(20_000), vec![kernel(0, 2_000_000, Some(0), 1); 100_000]);
        assert_eq!(placed(&samples, &kernels).budget, 0);
    }

    #[test]
    fn edges_may_move_by_any_time() {
        let narrow = Edges { start_ns: i64::MAX, end_ns: i64::MIN };
        let far = [Edges::both(i64::MIN), Edges::both(i64::MAX), narrow];
        let mut random = Rng::with_seed(4);
        for (round, edges) in (0..).zip(far.iter().cycle().take(15)) {
            let mut samples = Samples::new(3);
            let wild = [0.0, f32::NAN, f32::INFINITY, -1.0, f32::MAX, f32::MIN_POSITIVE, 1.0];
            for row in 0..2_000_u64 {
                let start = if random.u8(..20) == 0 { random.u64(..) } else { row * 100 };
                let values = [(); 3].map(|()| wild[random.usize(..wild.len())]);
                samples.push(start, start.saturating_add(100), &values);
            }
            let any = |random: &mut Rng| {
                if random.bool() { random.u64(..) } else { random.u64(..200_000) }
            };
            let stages: u32 = 1 + round * 300;
            let kernels = (0..5_000).map(|_| Kernel {
                start_ns: any(&mut random),
                end_ns: any(&mut random),
                stage: Some(random.u32(..)).filter(|of| of % 5 > 0).map(|of| of % stages),
                kind: random.u32(..400),
                class: random.u32(..),
                step: Some(random.u32(..)),
            });
            let kernels: Vec<Kernel> = kernels.collect();
            let fitted = fitted(&samples, &kernels, *edges);
            assert!(fitted.stages.iter().all(|of| of.counters.len() == 3), "{edges:?}");
        }
    }

    #[test]
    fn the_order_of_kernels_does_not_matter() {
        let mut random = Rng::with_seed(5);
        let mut samples = Samples::new(1);
        let mut kernels = Vec::new();
        for row in 0..2_000 {
            let kind = random.u32(0..4);
            let start = row * 100 + random.u64(0..40);
            kernels.push(kernel(start, start + 50 + u64::from(kind), Some(0), kind));
            let value = f32::from(u8::try_from(kind).expect("a small number") + 1) * 1e3;
            samples.push(row * 100, row * 100 + 100, &[value]);
        }
        let amounts = |kernels: &[Kernel]| -> Vec<f64> {
            let fitted = fitted(&samples, kernels, Edges::default());
            let columns = fitted.stages[0].counters[0].columns.iter();
            columns.map(|of| of.amount.value().expect("known")).collect()
        };
        let sorted = amounts(&kernels);
        random.shuffle(&mut kernels);
        let shuffled = amounts(&kernels);
        assert_eq!((sorted.len(), shuffled.len()), (4, 4));
        for (a, b) in sorted.into_iter().zip(shuffled) {
            assert!((a / b - 1.0).abs() < 1e-6, "{a} is not {b}");
        }
    }
}
