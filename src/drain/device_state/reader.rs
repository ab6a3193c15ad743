//! The body of the reader's thread: orders in, readings of the GPUs in use out.

use std::ffi::OsStr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};

use stage2_contract::trace::DeviceState;

use super::nvml::{Gpu, Nvml, Scope};
use super::pace::{Pace, TooSlow};
use super::{Order, Said};
use crate::base::clock::Instant;
use crate::base::diag;

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
pub(super) fn run(library: &OsStr, orders: &Receiver<Order>, said: &SyncSender<Said>) {
    let nvml = match Nvml::load(library) {
        Ok(nvml) => nvml,
        Err(error) => return off(said, None, error.to_string()),
    };
    match nvml.gpus() {
        Ok(gpus) => {
            let (early, watched) = (vec![Vec::new(); gpus.len()], Vec::new());
            let mut reader = Reader { gpus, early, watched, pace: Pace::default(), said };
            if let Err(slow) = reader.serve(orders) {
                // It says what is missing from now on; nothing in the guest is wrong.
                diag::info(format_args!("energy and clocks of the GPUs are read no more: {slow}"));
                off(said, None, slow.to_string());
            }
        }
        Err(error) => off(said, None, error.to_string()),
    }
}

fn off(said: &SyncSender<Said>, device: Option<u32>, reason: String) {
    diag::debug(format_args!("energy and clocks of a GPU are not read: {reason}"));
    let _ = said.try_send(Said::Off { device, reason });
}

impl Reader<'_> {
    fn serve(&mut self, orders: &Receiver<Order>) -> Result<(), TooSlow> {
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
                          energy nobody measures, or the container hides it from NVML";
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
