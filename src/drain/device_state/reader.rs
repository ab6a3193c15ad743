//! The body of the reader's thread: orders in, readings of the GPUs in use out.

use std::ffi::OsStr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::Instant;

use stage2_spool::DeviceState;

use super::nvml::{Gpu, Nvml, Scope};
use super::pace::{Pace, TooSlow};
use super::{Order, Said};
use crate::base::diag;

struct Reader<'a> {
    gpus: Vec<Gpu<'a>>,
    /// The first reading of each, taken before it is known which ones are used.
    first: Vec<DeviceState>,
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
            let first = gpus.iter().map(|gpu| gpu.read(Scope::Short)).collect();
            let (watched, pace) = (Vec::new(), Pace::default());
            let mut reader = Reader { gpus, first, watched, pace, said };
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
            let order = if self.watched.is_empty() {
                orders.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                orders.recv_timeout(next.saturating_duration_since(Instant::now()))
            };
            match order {
                Ok(Order::Watch { device, uuid }) => self.watch(device, uuid),
                Err(RecvTimeoutError::Timeout) => {
                    let began = Instant::now();
                    let scope = if self.pace.is_full() { Scope::Full } else { Scope::Short };
                    self.read(scope);
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

    /// A GPU is used: its first reading is worth keeping.
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
        if let Some(first) = self.first.get(index) {
            let _ = self.said.try_send(Said::State(DeviceState { device, ..*first }));
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
