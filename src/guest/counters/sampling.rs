//! The body of the sampling thread: meets the GPUs that are used, samples them in bursts or without a pause,
//! and hands on what they bring.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::{SendTimeoutError, Sender, TrySendError};
use cupti_sys::Api;
use rustc_hash::FxHashMap;
use stage2_contract::settings::Counters as WindowFilter;
use stage2_contract::trace::{Record, counters as facts};

use super::Common;
use super::device::{Anew, Device, Lost, Refusal, Taken};
use crate::base::clock::{self, Instant};
use crate::base::diag;

/// How long a record that must not be left out may wait for room among these.
const ROOM_PATIENCE: Duration = Duration::from_millis(200);
/// How long the thread sleeps while there is nothing to sample.
const NAP: Duration = Duration::from_millis(50);
/// A GPU that did nothing for so long is looked at only now and then.
const IDLE: Duration = Duration::from_millis(100);
/// How often.
const IDLE_NAP: Duration = Duration::from_millis(300);
/// How long such a look takes.
const FIRST_LOOK: Duration = Duration::from_millis(5);
/// How long a GPU is sampled when it was set up.
const TRY_OUT: Duration = Duration::from_millis(2);

/// What the thread works on.
pub(super) struct Sampling {
    api: &'static Api,
    wanted: WindowFilter,
    common: Arc<Common>,
    stop: Arc<AtomicBool>,
    sender: Sender<Record>,
    devices: Vec<Device>,
    come_first_at_exit: fn(),
    /// Devices that were set up, or could not be.
    met: u64,
    renewals: Renewals,
    sets: u32,
    off: Vec<String>,
    notes: Vec<String>,
    setup: Duration,
}

/// CPU time and time since the first sample.
struct Meter {
    since: Instant,
    cpu: Duration,
}

impl Meter {
    fn start() -> Self {
        Meter { since: Instant::now(), cpu: clock::thread_cpu() }
    }

    fn read(&self) -> (Duration, Duration) {
        (self.since.elapsed(), clock::thread_cpu().saturating_sub(self.cpu))
    }
}

impl Sampling {
    pub(super) fn new(
        api: &'static Api,
        wanted: WindowFilter,
        (common, stop): (Arc<Common>, Arc<AtomicBool>),
        sender: Sender<Record>,
        come_first_at_exit: fn(),
    ) -> Self {
        Sampling {
            api,
            wanted,
            common,
            stop,
            sender,
            devices: Vec::new(),
            come_first_at_exit,
            met: 0,
            renewals: Renewals::default(),
            sets: 0,
            off: Vec::new(),
            notes: Vec::new(),
            setup: Duration::ZERO,
        }
    }

    /// Waits for a GPU, samples until the end, and states what that cost.
    pub(super) fn run(mut self) {
        while !self.is_over() && self.devices.is_empty() {
            self.meet_devices();
            if self.devices.is_empty() {
                self.common.bell.wait(NAP);
            }
        }
        let meter = Meter::start();
        self.sample(&meter);
        for device in std::mem::take(&mut self.devices) {
            self.finish(device);
        }
        let (passed, used) = meter.read();
        self.fact("counters.cpu_ms", used.as_millis().to_string());
        self.fact("counters.sampled_ms", passed.as_millis().to_string());
        self.fact("counters.setup_ms", self.setup.as_millis().to_string());
        if !self.notes.is_empty() {
            self.fact(facts::NOTE, self.notes.join("; "));
        }
    }

    /// Samples until the end, in bursts or without a pause.
    fn sample(&mut self, meter: &Meter) {
        let budget = Budget { unlimited: self.wanted.interval_us.is_some() };
        let mut paused = false;
        while !self.is_over() {
            self.meet_devices();
            let (passed, used) = meter.read();
            if !budget.allows_burst(passed, used) {
                if !std::mem::replace(&mut paused, true) {
                    self.notes.push(
                        "sampled in bursts, within 5 % of one core; STAGE2_COUNTERS=on@100 samples \
                         without a pause"
                            .to_owned(),
                    );
                }
                self.common.bell.wait(NAP);
                continue;
            }
            let was_active = self.burst(meter, &budget);
            if !was_active && !self.is_over() {
                self.common.idle.store(true, Ordering::Relaxed);
                self.common.bell.wait(IDLE_NAP);
                self.common.idle.store(false, Ordering::Relaxed);
            }
        }
    }

    /// Samples until the budget is spent, no GPU does anything, or the end. Tells whether one did.
    fn burst(&mut self, meter: &Meter, budget: &Budget) -> bool {
        let devices = std::mem::take(&mut self.devices);
        let mut devices = self.each(devices, |sampling, device| {
            let stopped_at = device.last_end;
            device.start()?;
            // Without a pause, what lies between two sessions, or waits for that of another GPU, is lost.
            let since = sampling.renewals.take_lost_since(device.set.device);
            let since = since.unwrap_or(stopped_at);
            device.lost_since = Some(since).filter(|since| *since > 0 && budget.unlimited);
            Ok(None)
        });
        let patience = devices.iter().map(Device::patience).min().unwrap_or(NAP);
        let mut last_active = Instant::now();
        let (mut was_active, mut any) = (false, false);
        loop {
            self.common.bell.wait(if was_active { patience } else { FIRST_LOOK.min(patience) });
            devices = self.each(devices, |sampling, device| {
                let taken = sampling.take(device)?;
                any |= taken.any;
                if taken.active {
                    (was_active, last_active) = (true, Instant::now());
                }
                Ok(taken.anew)
            });
            let (passed, used) = meter.read();
            let is_idle = !budget.unlimited && any && (!was_active || last_active.elapsed() > IDLE);
            let has_news = self.common.devices.load(Ordering::Relaxed) & !self.met != 0;
            let is_enough = is_idle || has_news || budget.is_spent(passed, used);
            if is_enough || devices.is_empty() || self.is_over() {
                break;
            }
        }
        self.devices = self.each(devices, |sampling, device| {
            device.stop()?;
            was_active |= sampling.take(device)?.active;
            Ok(None)
        });
        was_active
    }

    /// Does something with every GPU. Those with which it fails are given up, those that fell behind
    /// begin again, and the others go on.
    fn each(
        &mut self,
        devices: Vec<Device>,
        mut what: impl FnMut(&mut Self, &mut Device) -> Result<Option<Anew>, Refusal>,
    ) -> Vec<Device> {
        let mut left = Vec::with_capacity(devices.len());
        for mut device in devices {
            match what(self, &mut device) {
                Ok(None) => left.push(device),
                Ok(Some(anew)) if !self.renewals.are_used_up(device.set.device) => {
                    self.renew(device, Some(anew), false);
                }
                Ok(Some(_)) => self.end(
                    device,
                    &Refusal(format!(
                        "the buffer of the hardware was full {MOST_RENEWALS} times; sample less often, \
                         or fewer metrics: STAGE2_COUNTERS=METRIC,...@INTERVAL_US"
                    )),
                ),
                Err(failure) => self.give_up(device, &failure),
            }
        }
        left
    }

    /// Ends sampling of a GPU that failed. The first time it begins again.
    fn give_up(&mut self, device: Device, failure: &Refusal) {
        let id = device.set.device;
        if self.renewals.has_failed(id) {
            self.end(device, failure);
        } else {
            diag::info(format_args!("sampling of hardware counters starts again: {failure}"));
            self.notes.push(format!("sampling started again after a failure: {failure}"));
            self.renew(device, None, true);
        }
    }

    /// Ends sampling of a GPU for good.
    fn end(&mut self, device: Device, why: &Refusal) {
        diag::warn(format_args!("hardware counters are no longer sampled: {why}"));
        self.notes.push(format!("sampling ended early: {why}"));
        self.finish(device);
    }

    /// Ends sampling of a GPU, which is met again with the next look.
    fn renew(&mut self, device: Device, anew: Option<Anew>, has_failed: bool) {
        let id = device.set.device;
        let ended = self.finish(device);
        self.renewals.note(id, anew, has_failed, ended);
        self.met &= !(1 << id);
    }

    /// Keeps what was sampled of a GPU until now, and gives its counters back. Returns what
    /// was lost, and where the last sample ended.
    fn finish(&mut self, mut device: Device) -> (Lost, u64) {
        // Failures were said, or there is nobody left to hear of them.
        let _ = device.stop();
        let _ = self.take(&mut device);
        device.hand_on();
        self.send_samples(&mut device);
        self.say_losses(&device);
        (device.lost, device.last_end.max(device.lost_since.unwrap_or(0)))
    }

    fn take(&mut self, device: &mut Device) -> Result<Taken, Refusal> {
        let taken = device.take();
        self.send_samples(device);
        taken
    }

    /// Sets up sampling on GPUs that are used since the last look.
    fn meet_devices(&mut self) {
        let new = self.common.devices.load(Ordering::Relaxed) & !self.met;
        for id in (0..u64::BITS).filter(|id| new & (1 << id) != 0) {
            // The end waits for two seconds, and a GPU takes half of one.
            if self.is_over() {
                return;
            }
            self.met |= 1 << id;
            let begin = Instant::now();
            let renewed = self.renewals.of(id);
            if let Err(refusal) = self.meet(id, renewed) {
                self.refuse(&refusal);
            }
            // CUPTI has loaded libraries, whose exit handlers take apart what sampling uses. Handlers run
            // in the reverse order, and ours has to stop sampling before: to call CUPTI after them ended
            // programs by SIGABRT (13.0, H200).
            (self.come_first_at_exit)();
            self.setup += begin.elapsed();
        }
    }

    /// Begins to sample a GPU, again where it is `renewed`.
    fn meet(&mut self, id: u32, renewed: Option<Renewed>) -> Result<(), Refusal> {
        let anew = renewed.and_then(|renewed| renewed.anew);
        let (mut device, left_out) = Device::open(self.api, id, &self.wanted, anew)?;
        if !left_out.is_empty() {
            self.notes.push(format!(
                "GPU {id} does not measure {} in one pass with the others",
                left_out.join(", ")
            ));
        }
        if let Some(renewed) = renewed {
            device.lost = renewed.lost;
        }
        self.define(&mut device);
        self.try_out(&mut device)?;
        self.devices.push(device);
        Ok(())
    }

    /// Samples for a moment, so that CUPTI has done everything once that it does later.
    fn try_out(&mut self, device: &mut Device) -> Result<(), Refusal> {
        device.start()?;
        std::thread::sleep(TRY_OUT);
        self.take(device)?;
        device.stop()?;
        self.take(device)?;
        device.forget();
        Ok(())
    }

    fn refuse(&mut self, refusal: &Refusal) {
        diag::warn(format_args!("hardware counters are not sampled: {refusal}"));
        self.off.push(refusal.to_string());
        self.fact(facts::OFF, self.off.join("; "));
    }

    /// Writes what the samples of a GPU are from here on.
    fn define(&mut self, device: &mut Device) {
        self.sets += 1;
        device.set.id = self.sets;
        self.send(Record::CounterSet(device.set.clone()));
    }

    fn say_losses(&mut self, device: &Device) {
        let (id, Lost { overflows, ns, samples }) = (device.set.device, device.lost);
        for (key, lost) in [
            (facts::OVERFLOWS, overflows.into()),
            (facts::LOST_NS, ns),
            (facts::SAMPLES_LOST, samples),
        ] {
            if lost > 0 {
                self.fact(&facts::of_device(key, id), lost.to_string());
            }
        }
    }

    /// Leaves samples out where the drain thread does not keep up.
    fn send_samples(&self, device: &mut Device) {
        for samples in std::mem::take(&mut device.ready) {
            let count = samples.spans.len() as u64;
            match self.sender.try_send(Record::CounterSamples(samples)) {
                Ok(()) => {}
                Err(TrySendError::Full(_)) => device.lost.samples += count,
                Err(TrySendError::Disconnected(_)) => self.stop.store(true, Ordering::Release),
            }
        }
    }

    fn fact(&mut self, key: &str, value: String) {
        self.send(Record::Meta { key: key.to_owned(), value });
    }

    fn send(&mut self, record: Record) {
        let mut waiting = record;
        while let Err(error) = self.sender.send_timeout(waiting, ROOM_PATIENCE) {
            match error {
                // Without it no reader knows what the next samples are.
                SendTimeoutError::Timeout(record) if !self.is_over() => waiting = record,
                SendTimeoutError::Timeout(_) => return,
                SendTimeoutError::Disconnected(_) => {
                    // The drain thread is no more.
                    return self.stop.store(true, Ordering::Release);
                }
            }
        }
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}

// CUPTI takes 40 to 60 us of CPU time to decode one sample with nine metrics of an H200, whatever its
// length: samples of 100 us without a pause take half of a core. Longer samples would cost less, but each
// would hold many kernels, which cannot be told apart then. So samples stay short and come in bursts.

/// CPU time that is there at the start, so that a short run is sampled as a whole.
const AT_START: Duration = Duration::from_secs(1);
/// What comes in: one part of so many of the time that passes.
const ONE_PART_OF: u32 = 20;
/// What has to be there for a burst: about 300 samples, i.e. some steps of a decode.
const BURST: Duration = Duration::from_millis(20);

/// CPU time as income and expense.
#[derive(Debug)]
struct Budget {
    /// Nothing is limited: the user named the interval.
    unlimited: bool,
}

impl Budget {
    /// Whether sampling that pauses may go on. `passed`: time since the first sample; `used`: CPU time
    /// since then.
    fn allows_burst(&self, passed: Duration, used: Duration) -> bool {
        self.unlimited || used + BURST <= income(passed)
    }

    /// Whether sampling that runs has to pause.
    fn is_spent(&self, passed: Duration, used: Duration) -> bool {
        !self.unlimited && used >= income(passed)
    }
}

fn income(passed: Duration) -> Duration {
    AT_START + passed / ONE_PART_OF
}

/// How often sampling of a GPU begins again: each time takes a fifth of a second of CPU time.
const MOST_RENEWALS: u32 = 16;

/// A GPU whose sampling begins again.
#[derive(Clone, Copy, Default)]
struct Renewed {
    /// What it begins with.
    anew: Option<Anew>,
    /// Until now.
    lost: Lost,
    /// Where the last sample ended, ns, until sampling goes on.
    lost_since: Option<u64>,
    /// It failed, and did not only fall behind.
    has_failed: bool,
    /// How often it began again.
    times: u32,
}

/// All of them, by the number of the GPU.
#[derive(Default)]
struct Renewals(FxHashMap<u32, Renewed>);

impl Renewals {
    fn of(&self, device: u32) -> Option<Renewed> {
        self.0.get(&device).copied()
    }

    /// Whether sampling of a GPU has fallen behind, or failed, as often as it may begin again.
    fn are_used_up(&self, device: u32) -> bool {
        self.of(device).is_some_and(|renewed| renewed.times >= MOST_RENEWALS)
    }

    fn has_failed(&self, device: u32) -> bool {
        self.of(device).is_some_and(|renewed| renewed.has_failed)
    }

    /// Notes that sampling of a GPU begins again, by what its last session lost and where that ended.
    fn note(
        &mut self,
        device: u32,
        anew: Option<Anew>,
        has_failed: bool,
        (lost, ended): (Lost, u64),
    ) {
        let before = self.of(device).unwrap_or_default();
        let (has_failed, times) = (has_failed || before.has_failed, before.times + 1);
        let lost_since = Some(ended);
        self.0.insert(device, Renewed { anew, lost, lost_since, has_failed, times });
    }

    /// Where the last sample of a GPU ended before it began again, ns; once.
    fn take_lost_since(&mut self, device: u32) -> Option<u64> {
        self.0.get_mut(&device)?.lost_since.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_first_second_of_cpu_time_is_free_and_then_one_part_of_twenty() {
        let [named, budget] = [true, false].map(|unlimited| Budget { unlimited });
        assert!(named.allows_burst(Duration::ZERO, 99 * SECOND), "a named interval has no limit");
        assert!(!named.is_spent(Duration::ZERO, 99 * SECOND));
        assert!(budget.allows_burst(Duration::ZERO, Duration::ZERO));
        assert!(!budget.is_spent(2 * SECOND, SECOND));
        assert!(budget.is_spent(Duration::ZERO, SECOND));
        assert!(budget.is_spent(100 * SECOND, 6 * SECOND));
        assert!(!budget.is_spent(101 * SECOND, 6 * SECOND));
        // A pause ends when there is enough for a burst.
        assert!(!budget.allows_burst(20 * SECOND, 2 * SECOND));
        assert!(budget.allows_burst(20 * SECOND + 20 * BURST, 2 * SECOND));
    }

    #[test]
    fn a_gpu_begins_anew_so_often_and_a_failure_is_remembered() {
        let mut renewals = Renewals::default();
        for _ in 1..MOST_RENEWALS {
            renewals.note(3, None, false, (Lost::default(), 5));
        }
        assert!(!renewals.are_used_up(3) && !renewals.has_failed(3));
        renewals.note(3, None, true, (Lost::default(), 7));
        renewals.note(4, None, false, (Lost::default(), 9));
        assert!(renewals.are_used_up(3) && renewals.has_failed(3));
        assert!(!renewals.are_used_up(4) && !renewals.has_failed(4));
        assert_eq!((renewals.take_lost_since(3), renewals.take_lost_since(3)), (Some(7), None));
    }
}
