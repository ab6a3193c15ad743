//! Energy, clocks and temperature of the GPUs in use, read from NVML on a thread of its own.
//!
//! A read may take as long as the driver likes, so it must hold up neither the guest nor the thread that
//! takes in records. That thread passes orders and takes what is there; it waits once, at the end, and
//! for [`LAST_PATIENCE`] at most. Nothing outlives the recording: a forked child begins anew.

mod nvml;
mod pace;
mod reader;

use std::ffi::OsString;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use stage2_contract::trace::DeviceState;

use crate::base::clock::Instant;
use crate::base::{barrier, diag};

/// What NVIDIA's driver installs.
const LIBRARY: &str = "libnvidia-ml.so.1";
/// Readings that wait to be taken in. One that finds no room is left out: energy is a running total.
const WAITING: usize = 256;
/// How long the end of a recording waits for the last reading.
const LAST_PATIENCE: Duration = Duration::from_millis(50);

/// What our thread asks the reader for.
#[derive(Debug)]
enum Order {
    /// To read this GPU from now on.
    Watch {
        /// [`DeviceState::device`].
        device: u32,
        /// Its UUID.
        uuid: [u8; 16],
    },
    /// To read once more, and end.
    Stop,
}

/// What the reader has to say.
#[derive(Debug)]
pub(super) enum Said {
    /// A reading.
    State(DeviceState),
    /// Why there is no reading, or no further one: of a GPU, or of any.
    Off {
        /// [`DeviceState::device`].
        device: Option<u32>,
        /// The reason.
        reason: String,
    },
}

/// The way to the thread that reads.
pub(super) struct DeviceStates {
    orders: Sender<Order>,
    said: Receiver<Said>,
    ended: bool,
}

impl DeviceStates {
    /// Starts the thread. `library`: the NVML to load instead of the driver's.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub(super) fn start(library: Option<&OsString>) -> std::io::Result<Self> {
        let library = library.cloned().unwrap_or_else(|| LIBRARY.into());
        Self::spawn(move |orders, said| reader::run(&library, orders, said))
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
                    "energy and clocks of the GPUs are read no more: {panic}; the rest goes on; please \
                     report it"
                ));
                let _ = to_say.try_send(Said::Off { device: None, reason: panic.to_string() });
            }
        };
        std::thread::Builder::new().name("stage2-nvml".to_owned()).spawn(thread)?;
        Ok(DeviceStates { orders, said, ended: false })
    }

    /// Reads this GPU from now on.
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
        while self.is_alive() {
            match self.said.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(said) => all.push(said),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        all
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
}
