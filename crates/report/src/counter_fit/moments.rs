//! Sums of products over the samples of one stage, apart for each block that the bootstrap draws.

use crate::counter_fit::kinds::BLOCKS;

/// The sums over the samples of one block. `gram` holds the lower triangle, row by row.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sums {
    pub(crate) rows: f64,
    pub(crate) seconds: f64,
    pub(crate) gram: Vec<f64>,
    /// Column by column for the first counter, then for the next.
    pub(crate) product: Vec<f64>,
    pub(crate) squares: Vec<f64>,
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
pub(crate) struct Entry {
    pub(crate) unknown: u32,
    pub(crate) share: f64,
    /// How the share would grow for every ns that the calls were later.
    pub(crate) growth: f64,
}

/// What an unknown has seen: in how many samples it is, and in how many blocks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seen {
    pub(crate) samples: u64,
    pub(crate) blocks: u64,
    /// The sum of its weights: calls within the samples, or seconds for the constant.
    pub(crate) exposure: f64,
}

impl Seen {
    /// What a column has seen whose unknowns are the pieces of its calls.
    pub(crate) fn of_pieces(pieces: &[Self]) -> Self {
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
pub(crate) struct Moments {
    pub(crate) width: usize,
    pub(crate) counters: Vec<usize>,
    pub(crate) blocks: Vec<Option<Box<Sums>>>,
    pub(crate) seen: Vec<Seen>,
    pub(crate) seconds: f64,
    /// Products of shares (row) and growths (column), over all blocks.
    pub(crate) cross: Vec<f64>,
}

impl Moments {
    pub(crate) fn new(width: usize, counters: &[usize]) -> Self {
        Self {
            width,
            counters: counters.to_vec(),
            blocks: vec![None; BLOCKS],
            seen: vec![Seen::default(); width],
            seconds: 0.0,
            cross: vec![0.0; width * width],
        }
    }

    /// Add a sample; `row` is sorted by unknown and ends with the constant.
    pub(crate) fn add(&mut self, block: usize, row: &[Entry], values: &[f32], seconds: f64) {
        let (width, counters) = (self.width, self.counters.len());
        let sums = self.blocks[block].get_or_insert_with(|| Box::new(Sums::zero(width, counters)));
        sums.rows += 1.0;
        sums.seconds += seconds;
        self.seconds += seconds;
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
    pub(crate) fn subtract(&mut self, rates: &[f64]) {
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

    /// The sums over all blocks.
    pub(crate) fn total(&self) -> Sums {
        let mut total = Sums::zero(self.width, self.counters.len());
        for block in self.blocks.iter().flatten() {
            total.add(block, 1.0);
        }
        total
    }
}
