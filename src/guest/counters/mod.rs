//! Hardware counters of the GPUs that the process uses, sampled on our own thread: CUPTI takes
//! half a second to set sampling up, for which no thread that takes in records can wait.

mod device;
mod sampling;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, TryRecvError, bounded};
use cupti_sys::Api;
use parking_lot::Mutex;
use stage2_contract::settings::Counters as WindowFilter;
use stage2_contract::trace::Record;

use crate::base::clock::Instant;
use crate::base::futex::Bell;
use crate::base::{barrier, diag, scheduling};
pub use device::Refusal;
use sampling::Sampling;

/// Records that wait for the drain thread, of 1,024 samples at most: 6 MB.
const WAITING: usize = 64;
/// How long the end waits for the thread, which may be in the middle of setting a GPU up.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// What the sampling threads of a process and the others share.
#[derive(Debug, Default)]
struct Common {
    /// GPUs that are used: bit n is CUDA's device n.
    devices: AtomicU64,
    /// The thread waits for a GPU to do something.
    idle: AtomicBool,
    bell: Bell,
}

/// A sampling thread, as the others see it.
#[derive(Debug)]
struct Session {
    records: Receiver<Record>,
    stop: Arc<AtomicBool>,
}

impl Session {
    /// The thread has let go of everything.
    fn has_ended(&self) -> bool {
        self.records.try_recv() == Err(TryRecvError::Disconnected)
    }
}

/// Sampling of hardware counters: a thread for each window that asks for it.
pub struct Counters {
    api: &'static Api,
    version: u32,
    come_first_at_exit: fn(),
    common: Arc<Common>,
    /// Of this window, or the last one. Nobody but the drain thread and a start comes here.
    session: Mutex<Option<Session>>,
}

impl Counters {
    /// `come_first_at_exit` has us finish before every exit handler that was registered until then.
    pub(crate) fn new(api: &'static Api, version: u32, come_first_at_exit: fn()) -> Self {
        let (common, session) = (Arc::default(), Mutex::default());
        Counters { api, version, come_first_at_exit, common, session }
    }

    /// Starts the thread, if `wanted` is anything. The caller has all signals blocked, which the thread inherits.
    pub fn begin(&self, wanted: &WindowFilter, has_file: bool) -> Result<(), Refusal> {
        if wanted.off {
            return Ok(());
        }
        // Nothing but a trace file has room for samples.
        if !has_file {
            let why = "samples go into a trace file only: set STAGE2_OUT to a folder";
            return Err(Refusal(why.to_owned()));
        }
        let (api, version) = (self.api, self.version);
        if !api.has_pm_sampling() {
            return Err(Refusal(format!(
                "CUPTI {version} does not sample counters, CUPTI of CUDA 12.6 and later does (pip install \
                 nvidia-cuda-cupti-cu12, or nvidia-cuda-cupti for CUDA 13; STAGE2_CUPTI names it)"
            )));
        }
        let mut session = self.session.lock();
        if session.as_ref().is_some_and(|session| !session.has_ended()) {
            return Err(Refusal(
                "the thread that sampled the last window has not ended; begin another window later"
                    .to_owned(),
            ));
        }
        let (sender, records) = bounded(WAITING);
        let stop = Arc::new(AtomicBool::new(false));
        let sampling = Sampling::new(
            api,
            wanted.clone(),
            (Arc::clone(&self.common), Arc::clone(&stop)),
            sender,
            self.come_first_at_exit,
        );
        let thread = barrier::thread("stage2-counters").spawn(move || {
            scheduling::be_ordinary();
            if let Err(panic) = barrier::own_thread(|| sampling.run()) {
                diag::warn(format_args!(
                    "hardware counters are no longer sampled: {panic}; everything else continues; please \
                     report it"
                ));
            }
        });
        thread.map_err(|error| Refusal(format!("no thread can be started ({error})")))?;
        *session = Some(Session { records, stop });
        Ok(())
    }

    /// Notes that the process uses a GPU. Neither waits nor allocates.
    #[inline]
    pub fn use_device(&self, id: u32) {
        let bit = 1_u64.checked_shl(id).unwrap_or(0);
        if self.common.devices.load(Ordering::Relaxed) & bit != bit {
            self.common.devices.fetch_or(bit, Ordering::Relaxed);
            self.common.bell.ring();
        }
    }

    /// Says that the guest does something: a GPU that did nothing is looked at again.
    #[inline]
    pub fn hint(&self) {
        if self.common.idle.load(Ordering::Relaxed) {
            self.common.idle.store(false, Ordering::Relaxed);
            self.common.bell.ring();
        }
    }

    /// The next record that is ready.
    pub fn take(&self) -> Option<Record> {
        self.session.lock().as_ref()?.records.try_recv().ok()
    }

    /// Tells the thread to end. [`Counters::rest`] has what it still hands over.
    pub fn stop(&self) {
        if let Some(session) = &*self.session.lock() {
            session.stop.store(true, Ordering::Release);
            self.common.bell.ring();
        }
    }

    /// After [`Counters::stop`]: what the thread still hands over, to its end. Waits two seconds at most.
    pub fn rest(&self) -> impl Iterator<Item = Record> {
        let end = Instant::now() + END_PATIENCE;
        let records = self.session.lock().as_ref().map(|session| session.records.clone());
        std::iter::from_fn(move || {
            match records.as_ref()?.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(record) => Some(record),
                Err(RecvTimeoutError::Disconnected) => None,
                Err(RecvTimeoutError::Timeout) => {
                    diag::warn(format_args!(
                        "the thread that samples hardware counters does not end; its last samples are \
                     missing"
                    ));
                    None
                }
            }
        })
    }
}
