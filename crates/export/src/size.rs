//! About how large an export will be, before it is written.

use std::path::Path;

use serde::{Deserialize, Serialize};
use stage2_contract::text::visible_path;
use stage2_read::files;
use stage2_read::trace::events::{Amount, Span};

use crate::output::{folder_of, is_packed};
use crate::{ExportError, Format, Run, Selection, Window};

/// Bytes of a format, by what it holds. Measured, and rather too much: what is free is compared with them.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Of a piece of GPU work, besides names.
    work: f64,
    /// Of a range, besides names.
    range: f64,
    /// Of a sample of the host.
    sample: f64,
    /// How often the names of a piece of work are written in it: mangled, demangled, and its path.
    names: [f64; 3],
    /// Bytes before compression for each one after it; 1: there is none.
    packed: f64,
    /// The names of each kind of work are written once, and it is not written call by call.
    is_sum: bool,
}

const PLAIN: Cost =
    Cost { work: 0.0, range: 0.0, sample: 0.0, names: [0.0; 3], packed: 1.0, is_sum: false };
const SUM: Cost = Cost { work: 64.0, names: [0.0, 1.0, 1.0], is_sum: true, ..PLAIN };

impl Cost {
    /// Of the tables of `stage2-parquet`, which compresses them.
    pub const PARQUET: Self = Self { work: 18.0, range: 18.0, sample: 20.0, ..PLAIN };

    fn of(format: Format, out: &Path) -> Self {
        let packed = |bytes| if is_packed(out) { bytes } else { 1.0 };
        let cost = match format {
            Format::Perfetto => {
                Self { work: 200.0, range: 310.0, sample: 48.0, packed: packed(5.5), ..PLAIN }
            }
            Format::Chrome => Self {
                work: 290.0,
                range: 220.0,
                sample: 40.0,
                names: [0.0, 1.0, 1.0],
                packed: packed(9.0),
                ..PLAIN
            },
            Format::Sqlite => Self { work: 125.0, range: 155.0, sample: 140.0, ..PLAIN },
            Format::Csv => {
                Self { work: 220.0, names: [1.0, 1.0, 1.1], packed: packed(11.0), ..PLAIN }
            }
            Format::Hatchet => Self { work: 420.0, ..SUM },
            Format::Pprof => Self { work: 20.0, names: [0.0; 3], packed: 2.0, ..SUM },
            Format::Folded => SUM,
            Format::FoldedHost | Format::Speedscope => Self { sample: 30.0, ..PLAIN },
        };
        Self { packed: cost.packed.max(1.0), ..cost }
    }

    fn bytes(&self, amount: &Amount) -> f64 {
        let count = if self.is_sum { 1.0 } else { amount.count as f64 };
        if amount.is_range {
            return if self.is_sum { 0.0 } else { count * self.range };
        }
        let lengths = [amount.mangled_bytes, amount.demangled_bytes, amount.path_bytes];
        let names: f64 = lengths.iter().zip(self.names).map(|(&n, times)| n as f64 * times).sum();
        count * (self.work + names)
    }

    /// About the bytes of an export of the selected part, by the counts that the first reading of the trace
    /// files gave. Of a window, as if everything were spread evenly over the run.
    pub fn estimate(&self, run: &Run, selection: &Selection) -> u64 {
        let is_in =
            |of: &&Amount| selection.stages.is_empty() || selection.stages.contains(&of.stage);
        let mut bytes = 4_096.0;
        for process in run.processes() {
            let amounts = process.file.amounts();
            bytes += amounts.iter().filter(is_in).map(|amount| self.bytes(amount)).sum::<f64>();
            bytes += process.file.sample_count() as f64 * self.sample;
        }
        let steps = match &selection.window {
            Some(Window::Calls { stage, .. }) => {
                let of_stage = run.conclusions.rank_stages.iter().filter(|of| of.stage == *stage);
                of_stage.map(|of| of.instances).max().unwrap_or(0)
            }
            _ => 0,
        };
        (bytes / self.packed * share(run.span(), steps, selection)) as u64
    }
}

/// The part of the run that its window is, as if its stage were all of it.
fn share(span: Option<Span>, steps: u64, selection: &Selection) -> f64 {
    let (part, whole) = match &selection.window {
        None => return 1.0,
        Some(Window::Time { from_ns, to_ns }) => {
            let whole = span.map_or(0, Span::ns);
            (to_ns.min(&whole).saturating_sub(*from_ns).max(0) as f64, whole as f64)
        }
        Some(Window::Calls { from, to, .. }) => {
            (to.min(&steps).saturating_sub(*from) as f64, steps as f64)
        }
    };
    // Where the whole is not known, it may be all of it.
    if whole > 0.0 { (part / whole).min(1.0) } else { 1.0 }
}

/// What an export needs, and what there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    /// About so many bytes will be written.
    pub needed: u64,
    /// Free on the file system; nothing where it does not tell.
    pub free: Option<u64>,
}

impl Space {
    /// Before an export to `out` that will take about so many bytes.
    pub fn before(out: &Path, needed: u64) -> Self {
        Self { needed, free: files::free_bytes(folder_of(out)).ok() }
    }

    /// Refuses what does not fit.
    ///
    /// # Errors
    /// When the file system has less than is needed.
    pub fn check(self, out: &Path) -> Result<(), ExportError> {
        match self.free {
            Some(free) if free < self.needed => {
                Err(ExportError::NoSpace { path: visible_path(out), needed: self.needed, free })
            }
            _ => Ok(()),
        }
    }
}

impl Format {
    /// About the bytes of an export to `out`.
    pub fn estimate(self, run: &Run, selection: &Selection, out: &Path) -> u64 {
        // A folder of Chrome traces has compressed files.
        let folder = self.is_folder(run).then(|| Path::new("x.gz"));
        Cost::of(self, folder.unwrap_or(out)).estimate(run, selection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_with_what_to_do() {
        let space = |free| Space { needed: 2_000_000_000, free };
        assert!(space(None).check(Path::new("x")).is_ok());
        assert!(space(Some(2_000_000_000)).check(Path::new("x")).is_ok());
        let refused = space(Some(617_000_000)).check(Path::new("x")).expect_err("too large");
        let text = refused.to_string();
        for part in ["about 2.0 GB", "617 MB free", "--window", "--force"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!refused.is_usage());
    }

    #[test]
    fn a_window_is_its_share_of_the_run() {
        let span = Some(Span { start_ns: 0, end_ns: 10_000_000_000 });
        let share = |window: &str| {
            let window = Some(window.parse().expect("window"));
            share(span, 40, &Selection { window, ..Selection::default() })
        };
        assert_eq!([share("0..1"), share("9..20"), share("..")], [0.1, 0.1, 1.0]);
        assert_eq!(
            [share("decode:0..4"), share("decode:36..60"), share("decode:..")],
            [0.1, 0.1, 1.0]
        );
        assert_eq!(super::share(span, 0, &Selection::default()), 1.0);
    }
}
