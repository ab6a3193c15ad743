//! Energy, clocks and temperature of the GPUs in use, read from NVML on its own thread.
//!
//! A read may take as long as the driver likes, so it must hold up neither the guest nor the thread that
//! takes in records. That thread passes orders and takes what is there; it waits once, at the end, and
//! for [`LAST_PATIENCE`] at most. Nothing outlives the recording: a forked child begins again.

mod nvml;

use std::ffi::{OsStr, OsString};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use stage2_contract::trace::DeviceState;

use crate::base::clock::Instant;
use crate::base::{barrier, diag};
use crate::guest::gpu::GpuNow;
use nvml::{Gpu, Nvml, Scope};

const LIBRARY: &str = "libnvidia-ml.so.1";
/// Readings that wait to be taken in. One that finds no room is left out: energy is a running total.
const WAITING: usize = 256;
/// How long the end of a recording waits for the last reading.
const LAST_PATIENCE: Duration = Duration::from_millis(50);

#[derive(Debug)]
enum Order {
    Watch {
        /// [`DeviceState::device`].
        device: u32,
        uuid: [u8; 16],
    },
    /// To read once more, and end.
    Stop,
}

#[derive(Debug)]
pub(super) enum Said {
    State(DeviceState),
    /// Why there is no reading, or no further one: of a GPU, or of any.
    Off {
        /// [`DeviceState::device`].
        device: Option<u32>,
        reason: String,
    },
}

pub(super) struct DeviceStates {
    orders: Sender<Order>,
    said: Receiver<Said>,
    ended: bool,
}

impl DeviceStates {
    /// Starts the thread. `library`: the NVML to load instead of the driver's.
    pub(super) fn start(library: Option<&OsString>) -> std::io::Result<Self> {
        let library = library.cloned().unwrap_or_else(|| LIBRARY.into());
        Self::spawn(move |orders, said| run(&library, orders, said))
    }

    /// Starts a thread that reads by `body`. A panic in it ends the readings, and nothing else.
    fn spawn(
        body: impl FnOnce(&Receiver<Order>, &SyncSender<Said>) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (orders, to_do) = channel();
        let (to_say, said): (SyncSender<Said>, _) = sync_channel(WAITING);
        let thread = move || {
            if let Err(panic) = barrier::own_thread(|| body(&to_do, &to_say)) {
                diag::warn(format_args!(
                    "energy and clocks of the GPUs are no longer read: {panic}; everything else continues; please \
                     report it"
                ));
                let _ = to_say.try_send(Said::Off { device: None, reason: panic.to_string() });
            }
        };
        barrier::thread("stage2-nvml").spawn(thread)?;
        Ok(DeviceStates { orders, said, ended: false })
    }

    pub(super) fn watch(&self, device: u32, uuid: [u8; 16]) {
        // A reader that has ended said why.
        let _ = self.orders.send(Order::Watch { device, uuid });
    }

    /// What was said since the last call. Does not wait.
    pub(super) fn take(&mut self) -> Vec<Said> {
        let mut all = Vec::new();
        loop {
            match self.said.try_recv() {
                Ok(said) => all.push(said),
                Err(none) => {
                    self.ended |= none == std::sync::mpsc::TryRecvError::Disconnected;
                    return all;
                }
            }
        }
    }

    /// Whether its thread still is one of the process.
    pub(super) fn is_alive(&self) -> bool {
        !self.ended
    }

    /// Asks for the last reading and waits for it.
    pub(super) fn finish(mut self) -> Vec<Said> {
        let _ = self.orders.send(Order::Stop);
        let deadline = Instant::now() + LAST_PATIENCE;
        let mut all = self.take();
        while self.is_alive()
            && let Ok(said) =
                self.said.recv_timeout(deadline.saturating_duration_since(Instant::now()))
        {
            all.push(said);
        }
        all
    }
}

/// What NVML says of all GPUs now. It may wait for the loader and the driver.
///
/// # Errors
/// There is no NVML, or it refuses.
pub(crate) fn now(library: Option<&OsString>) -> Result<Vec<GpuNow>, String> {
    let library = library.map_or(OsStr::new(LIBRARY), OsString::as_os_str);
    let nvml = Nvml::load(library).map_err(|error| error.to_string())?;
    let gpus = nvml.gpus().map_err(|error| error.to_string())?;
    Ok(gpus.iter().zip(0..).map(|(gpu, index)| gpu.now(index)).collect())
}

/// Rounds of reading before it is known which GPUs are used: 3 s of one, and of eight a little more.
const EARLY_READS: usize = 30;

struct Reader<'a> {
    gpus: Vec<Gpu<'a>>,
    /// Readings of all of them, taken before it is known which ones are used: a trace names a GPU a
    /// second or two after its work began.
    early: Vec<Vec<DeviceState>>,
    /// Devices of the process, with the index of their GPU.
    watched: Vec<(u32, usize)>,
    pace: Pace,
    said: &'a SyncSender<Said>,
}

/// Loads NVML and reads until it is told to stop, nobody listens or reads are too slow.
fn run(library: &OsStr, orders: &Receiver<Order>, said: &SyncSender<Said>) {
    let nvml = match Nvml::load(library) {
        Ok(nvml) => nvml,
        Err(error) => return off(said, None, error.to_string()),
    };
    let gpus = match nvml.gpus() {
        Ok(gpus) => gpus,
        Err(error) => return off(said, None, error.to_string()),
    };
    let (early, watched) = (vec![Vec::new(); gpus.len()], Vec::new());
    let mut reader = Reader { gpus, early, watched, pace: Pace::default(), said };
    if let Err(slow) = reader.serve(orders) {
        // It says what is missing from now on; nothing in the guest is wrong.
        diag::info(format_args!("energy and clocks of the GPUs are no longer read: {slow}"));
        off(said, None, slow);
    }
}

fn off(said: &SyncSender<Said>, device: Option<u32>, reason: String) {
    diag::debug(format_args!("energy and clocks of a GPU are not read: {reason}"));
    let _ = said.try_send(Said::Off { device, reason });
}

impl Reader<'_> {
    fn serve(&mut self, orders: &Receiver<Order>) -> Result<(), String> {
        let mut next = Instant::now();
        loop {
            let is_early = self.watched.is_empty();
            let order = if is_early && self.early.iter().all(|of| of.len() >= EARLY_READS) {
                orders.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                orders.recv_timeout(next.saturating_duration_since(Instant::now()))
            };
            match order {
                Ok(Order::Watch { device, uuid }) => self.watch(device, uuid),
                Err(RecvTimeoutError::Timeout) => {
                    let began = Instant::now();
                    let scope = if self.pace.is_full() { Scope::Full } else { Scope::Short };
                    if is_early {
                        for (gpu, early) in self.gpus.iter().zip(&mut self.early) {
                            early.push(gpu.read(Scope::Short));
                        }
                    } else {
                        self.read(scope);
                    }
                    next = Instant::now() + self.pace.read(began.elapsed())?;
                }
                Ok(Order::Stop) => {
                    self.read(Scope::Short);
                    return Ok(());
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    /// A GPU is used: its first readings are worth keeping.
    fn watch(&mut self, device: u32, uuid: [u8; 16]) {
        if self.watched.iter().any(|(known, _)| *known == device) {
            return;
        }
        let Some(index) = self.gpus.iter().position(|gpu| gpu.uuid == uuid) else {
            let reason = "NVML knows no GPU with the UUID that CUDA gives: it is a MIG instance, whose \
                          energy is not measured, or the container hides it from NVML";
            return off(self.said, Some(device), reason.to_owned());
        };
        if self.gpus.get(index).is_some_and(Gpu::is_divided) {
            let reason = "MIG is on: NVML measures the energy and the clocks of the whole GPU only";
            return off(self.said, Some(device), reason.to_owned());
        }
        for early in self.early.get_mut(index).map(std::mem::take).unwrap_or_default() {
            let _ = self.said.try_send(Said::State(DeviceState { device, ..early }));
        }
        self.watched.push((device, index));
    }

    fn read(&self, scope: Scope) {
        for &(device, index) in &self.watched {
            if let Some(gpu) = self.gpus.get(index) {
                let _ = self.said.try_send(Said::State(DeviceState { device, ..gpu.read(scope) }));
            }
        }
    }
}

// How often NVML is read: as its reads take 5 % of a thread, and not for ever where they are slow.

/// The shortest pause. The total energy changes about every 100 ms.
const SHORTEST: Duration = Duration::from_millis(100);
/// So many times as long as a read took is the pause after it: 5 % of a thread. A read takes 4 ms on an
/// H200, where this is a read each 100 ms; with longer pauses a stage of a second has no energy.
const PAUSES: u32 = 19;
/// The longest pause, whatever a read took: the first read of a GPU under load can take 100 ms, and the
/// ends of stages must not lie in the dark for two seconds after it.
const LONGEST: Duration = Duration::from_millis(500);
const SLOW: Duration = Duration::from_millis(200);
/// After so many slow reads there is none any more.
const SLOW_READS: u32 = 3;
/// The time from one full read to the next, at least. Between them only what stages need most is read.
const FULL: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
struct Pace {
    slow: u32,
    since_full: Option<Duration>,
}

impl Pace {
    fn is_full(&self) -> bool {
        self.since_full.is_none_or(|since| since >= FULL)
    }

    /// A read took so long. Returns the pause until the next one, if there is to be one.
    fn read(&mut self, took: Duration) -> Result<Duration, String> {
        self.slow += u32::from(took > SLOW);
        if self.slow >= SLOW_READS {
            return Err(format!(
                "{SLOW_READS} reads took more than {} ms, the last one {} ms: reading stops",
                SLOW.as_millis(),
                took.as_millis()
            ));
        }
        let pause = took.saturating_mul(PAUSES).clamp(SHORTEST, LONGEST);
        let before = self.since_full.filter(|_| !self.is_full()).unwrap_or_default();
        self.since_full = Some(before.saturating_add(pause));
        Ok(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_reader_ends_its_readings_and_is_told() {
        let states = DeviceStates::spawn(|_, said| {
            let _ = said.try_send(Said::State(DeviceState::default()));
            panic!("in the reader")
        });
        // The end does not wait for long, and a new thread may.
        let mut states = states.expect("a thread");
        let end = Instant::now() + Duration::from_secs(10);
        let mut all = Vec::new();
        while states.is_alive() && Instant::now() < end {
            all.extend(states.take());
            std::thread::yield_now();
        }
        let [Said::State(_), Said::Off { device: None, reason }] = &all[..] else {
            panic!("{all:?}")
        };
        assert!(reason.contains("internal error (in the reader"), "{reason}");
        assert!(states.finish().is_empty());
    }

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn reads_take_five_percent_and_are_full_once_a_second() {
        let mut pace = Pace::default();
        assert!(pace.is_full(), "the first one");
        assert_eq!(pace.read(MS / 10), Ok(SHORTEST));
        let full = (0..20).filter(|_| {
            let full = pace.is_full();
            assert_eq!(pace.read(15 * MS), Ok(285 * MS));
            full
        });
        assert_eq!(full.count(), 4, "every fourth one after the first");
    }

    #[test]
    fn a_read_that_took_long_is_followed_by_another_soon_and_the_third_is_the_last() {
        assert_eq!(Pace::default().read(150 * MS), Ok(LONGEST));
        let mut pace = Pace::default();
        assert!(pace.read(200 * MS).is_ok() && pace.read(201 * MS).is_ok());
        assert!(pace.read(MS).is_ok() && pace.read(300 * MS).is_ok());
        let error = pace.read(250 * MS).unwrap_err();
        assert!(error.contains("3 reads took more than 200 ms, the last one 250 ms"), "{error}");
    }
}
