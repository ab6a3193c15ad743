//! Hardware counters of the GPUs that the process uses, sampled on a thread of our own: CUPTI takes
//! half a second to set sampling up, for which no thread that takes in records can wait.

mod budget;
mod device;
mod metrics;
mod renewals;
mod sampling;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, RecvTimeoutError, bounded};
use cupti_sys::Api;
use stage2_settings::Counters as Wanted;
use stage2_spool::Record;

use crate::base::{barrier, diag, scheduling};
pub use device::Refusal;
use sampling::Sampling;

/// Records that wait for the drain thread, of 1,024 samples at most: 6 MB.
const WAITING: usize = 64;
/// How long the end waits for the thread, which may be in the middle of setting a GPU up.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// What the thread and the others share.
#[derive(Debug, Default)]
struct Common {
    /// GPUs that are used: bit n is CUDA's device n.
    devices: AtomicU64,
    /// The thread waits for a GPU to do something.
    idle: AtomicBool,
    stop: AtomicBool,
}

/// The sampling thread, as the others see it.
#[derive(Debug)]
pub struct Counters {
    common: Arc<Common>,
    records: Receiver<Record>,
    thread: Thread,
}

impl Counters {
    /// Starts the thread. The caller has all signals blocked, which the thread inherits.
    /// `come_first_at_exit` has us finish before every exit handler that was registered until then.
    ///
    /// # Errors
    /// Why counters cannot be sampled, and what to do.
    pub(crate) fn start(
        api: &'static Api,
        version: u32,
        wanted: &Wanted,
        come_first_at_exit: fn(),
    ) -> Result<Self, Refusal> {
        if !api.has_pm_sampling() {
            return Err(Refusal::new(format!(
                "CUPTI {version} does not sample counters, CUPTI of CUDA 12.6 and later does (pip install \
                 nvidia-cuda-cupti-cu12, or nvidia-cuda-cupti for CUDA 13; STAGE2_CUPTI names it)"
            )));
        }
        let common = Arc::new(Common::default());
        let (sender, records) = bounded(WAITING);
        let sampling =
            Sampling::new(api, wanted.clone(), Arc::clone(&common), sender, come_first_at_exit);
        let thread = std::thread::Builder::new().name("stage2-counters".to_owned()).spawn(move || {
            scheduling::be_ordinary();
            if let Err(panic) = barrier::own_thread(|| sampling.run()) {
                diag::warn(format_args!(
                    "hardware counters are not sampled any more: {panic}; the rest goes on; please \
                     report it"
                ));
            }
        });
        let thread =
            thread.map_err(|error| Refusal::new(format!("no thread can be started ({error})")))?;
        Ok(Counters { common, records, thread: thread.thread().clone() })
    }

    /// Notes that the process uses a GPU. Neither waits nor allocates.
    #[inline]
    pub fn use_device(&self, id: u32) {
        let bit = 1_u64.checked_shl(id).unwrap_or(0);
        if self.common.devices.load(Ordering::Relaxed) & bit != bit {
            self.common.devices.fetch_or(bit, Ordering::Relaxed);
            self.thread.unpark();
        }
    }

    /// Says that the guest does something: a GPU that did nothing is looked at again.
    #[inline]
    pub fn hint(&self) {
        if self.common.idle.load(Ordering::Relaxed) {
            self.common.idle.store(false, Ordering::Relaxed);
            self.thread.unpark();
        }
    }

    /// The next record that is ready.
    pub fn take(&self) -> Option<Record> {
        self.records.try_recv().ok()
    }

    /// Tells the thread to end. [`Counters::rest`] has what it still hands over.
    pub fn stop(&self) {
        self.common.stop.store(true, Ordering::Release);
        self.thread.unpark();
    }

    /// After [`Counters::stop`]: what the thread still hands over, to its end. Waits two seconds at most.
    pub fn rest(&self) -> impl Iterator<Item = Record> {
        let end = Instant::now() + END_PATIENCE;
        std::iter::from_fn(move || match self.records.recv_deadline(end) {
            Ok(record) => Some(record),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                diag::warn(format_args!(
                    "the thread that samples hardware counters does not end; its last samples are \
                     missing"
                ));
                None
            }
        })
    }
}
