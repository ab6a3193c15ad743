//! The amount of each hardware counter per call of each kernel kind, from samples of a whole device.
//!
//! A GPU can sample its counters every 100 us while a program runs at full speed, but a sample says
//! only what the whole device did: dozens of kernels may lie within it. The records of the kernels
//! say exactly when each of them ran. Together they say what each kernel kind did, without replay.
//!
//! # The model
//! A kernel kind is a name with its grid and block. Each call of a kind adds the same amount to a
//! counter, spread evenly over the call's duration, or over each of up to four pieces of it. A sample's
//! value is the sum, over the calls that it overlaps, of the share of the call (or piece) that lies within
//! it, times the kind's amount per call (or piece), plus a background for each second. Streams that overlap need no rule for sharing. The amounts are those
//! that explain the samples of a stage best (least squares), none of them below zero.
//!
//! Only additive counters fit: bytes, sectors, instructions, cycles in which a unit was active. A
//! percentage does not; multiply it by the sample's duration first.
//!
//! # The two passes
//! ```
//! use stage2_report::counter_fit::{Amount, Fit, Kernel, Kinds, Samples};
//!
//! // 1,000 samples of 100 us of one counter; every 70 us a kernel of 30 us that reads 2 MB.
//! let mut samples = Samples::new(1)?;
//! let kernels: Vec<Kernel> = (0..1_420)
//!     .map(|call| call * 70_000)
//!     .map(|start_ns| Kernel { start_ns, end_ns: start_ns + 30_000, stage: Some(0), kind: 1, class: 0, step: None })
//!     .collect();
//! for row in 0..1_000_u64 {
//!     let (start, end) = (row * 100_000, (row + 1) * 100_000);
//!     let within = |k: &Kernel| k.end_ns.min(end).saturating_sub(k.start_ns.max(start)) as f32 / 30_000.0;
//!     samples.push(start, end, &[kernels.iter().map(within).sum::<f32>() * 2e6])?;
//! }
//!
//! let mut kinds = Kinds::new();
//! kernels.iter().for_each(|kernel| kinds.add(kernel));
//! let design = kinds.design(&samples);
//! let mut fit = Fit::new(&samples, &design, None);
//! kernels.iter().for_each(|kernel| fit.kernel(kernel));
//! let fitted = fit.finish();
//!
//! let amount = fitted.stages[0].counters[0].columns[0].amount;
//! assert!(matches!(amount, Amount::Value { amount, .. } if (amount / 2e6 - 1.0).abs() < 0.01));
//! # Ok::<(), stage2_report::counter_fit::FitError>(())
//! ```
//! [`Kinds`] sees every kernel once and chooses the columns: the [`OWN_COLUMNS`] kinds of a stage that
//! ran longest have columns of their own, the others are pooled by class. [`Fit`] sees them again. It
//! keeps sums of products instead of kernels, so that memory does not grow with their number.
//!
//! # What a value means
//! * [`Amount::Value`] is the mean amount per call in the unit of the counter, as the program ran:
//!   with the caches as the kernels before left them. A profiler that replays a kernel with cold
//!   caches says more. The interval holds the truth in at least 90 % of all cases, and is usually too
//!   wide rather than too narrow. It has two parts: a bootstrap over steps (or over runs of 20 samples
//!   where there are fewer than ten steps), and what the amount is off by if each kind moves its bytes
//!   a little earlier or later within its calls than an even spread says. `tests/it/counter_fit/truth.rs` prints how
//!   often the intervals hold the truth of simulated runs.
//! * [`Amount::AtMost`] is the upper end of that interval, for what is at most 1 % of its stage
//!   and for what the fit puts at zero.
//! * [`Amount::Unknown`] says why nothing is known. Kinds that always run together can have a known
//!   total ([`GroupFit`]) where their own amounts are unknown. A kind that the others explain to 95 %
//!   joins them if its own amount is uncertain, and if they explain it to 99.99 % in any case.
//! * The background is that of the stage. Where work runs all the time, nothing tells it from the
//!   kernels ([`Reason::NeverIdle`]): the fit then takes what the device does while it is idle.
//!
//! Samples that hold work of several stages, or of none, are in no fit. All that was left out is
//! counted in [`Counts`], and by [`Samples::counts`].
//!
//! # When within a call
//! A kernel record begins before the kernel's first load reaches DRAM, and ends after its last store was
//! made visible. On an H200 kernels read from 0.75 us after the start of their records to 2.5 us before
//! the end. The fit looks for both numbers in the samples and reports them ([`Shift`]): on a recorded
//! decode they and the pieces take 97 % of the residual variance away.
//!
//! Long kernels do not read evenly either: attention reads most at its start. Calls of 10 us and longer
//! (or a tenth of a sample) are cut into pieces with unknowns of their own, where the samples show that it
//! explains them better; an amount is the sum over the pieces. Without this the kernel that follows a
//! long one gets what that one did not read towards its end: 15 % too little for a product behind the
//! attention of a batch of 32.
//!
//! # Limits
//! * Kinds that move their amount unevenly within 10 us break the model. In simulated runs where half of
//!   a call's time moves 65 % of its amount, intervals hold 92 % of the truth.
//! * Writes reach DRAM when L2 evicts them. They may be charged to a kernel that runs later, and their
//!   R2 says so: 0.91 on the recording, where that of reads is 0.998.
//! * The samples are of the whole device. What other processes do lies in the background, or, where
//!   it keeps step with our kernels, in their amounts. [`Fitted::idle`] shows traffic without work.
//! * Values must be kept finely. Replays of a graph repeat the same samples, and with these what rounding
//!   them adds, which then looks like the work of kernels. Of the recorded graph, steps of 4.4 % take
//!   amounts up to 13 % off and intervals do not show it; steps of 0.3 % change next to nothing.
//! * A kind whose calls differ (another size behind the same grid) has a mean.

mod amount;
mod collinear;
mod edges;
mod error;
mod fit;
mod kinds;
mod moments;
mod nnls;
mod placing;
mod samples;
mod shift;
mod spread;
mod timing;

pub use amount::{Amount, ColumnFit, CounterFit, Fitted, GroupFit, IdleTraffic, Reason, StageFit};
pub use edges::Edges;
pub use error::FitError;
pub use fit::Fit;
pub use kinds::{BLOCKS, Column, Design, Kernel, Kinds, MAX_KINDS, MAX_STAGES, OWN_COLUMNS, POOLS};
pub use placing::Counts;
pub use samples::{MAX_COUNTERS, MAX_SAMPLES, SampleCounts, Samples};
pub use shift::Shift;
