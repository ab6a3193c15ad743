//! What is known of the process, of its GPU half and, through NVML, of the GPUs in use into metadata of the
//! trace file.

use std::sync::atomic::Ordering;
use std::time::Duration;

use stage2_contract::text;
use stage2_contract::trace::{Device, Record};

use super::Drain;
use crate::base::ancestry::{self, Notice};
use crate::base::job::JobFacts;
use crate::base::{clock, diag};
use crate::drain::device_state::{DeviceStates, Said};
use crate::drain::intern::Sink;
use crate::guest::pool::FullBuffer;
use crate::guest::state;
use crate::host::Interpreter;

/// Names of ranges that one line shows, and characters of each.
const NAMES: usize = 3;
const NAME: usize = 60;

/// The compute capability (major) of the first GPUs that take times of kernels themselves: Blackwell.
const FIRST_WITH_HARDWARE_TRACE: u32 = 10;

impl Drain {
    /// Notes what was asked for, and from which process this one was forked.
    pub(super) fn meet_process(&mut self) {
        self.output.put(Record::Anchor(clock::anchor(|| None)));
        self.output.tell(self.wanted.restrictions());
        self.output.tell(self.shared.job.beyond(&JobFacts::default()));
        if let Some(parent) = ancestry::parent() {
            self.output.fact("fork.of", parent.to_string());
        }
        if ancestry::is_after_cuda() {
            let why = "its parent had initialised CUDA before the fork, and CUDA does not work in \
                       such a process";
            self.output.fact("fork.unrecorded", format!("GPU work: {why}"));
            if self.shared.options.gpu && ancestry::is_first_to_say(Notice::AfterCuda) {
                diag::warn(format_args!(
                    "GPU work of process {} is not recorded: {why}; start it with `spawn`, or fork it \
                     before the parent uses CUDA; this applies to every fork of that parent and is \
                     reported once",
                    self.shared.pid
                ));
            }
        }
    }

    /// Notes what the GPU half is, or why there is none, as soon as that is known.
    pub(super) fn meet_gpu(&mut self) {
        if self.gpu_known {
            return;
        }
        let Some(gpu) = self.shared.gpu.get() else { return };
        self.gpu_known = true;
        if let Some(job) = self.shared.job_at_gpu_start.get() {
            self.output.tell(job.beyond(&self.shared.job));
        }
        match gpu {
            Ok(gpu) => {
                self.output.tell(gpu.facts.iter().cloned());
                self.output.put(Record::Anchor(clock::anchor(|| gpu.tracer.now())));
                if gpu.reports_launches {
                    self.ranges.expect_launches();
                }
                self.watch_gpus();
            }
            Err(off) => self.output.fact("gpu.off", off.to_string()),
        }
    }

    /// Notes a GPU, and with the first one whether the hardware takes the times of kernels.
    pub(super) fn meet_device(&mut self, device: Device) {
        let (major, minor) = device.compute_capability;
        if self.shared.gpu().is_some_and(|gpu| gpu.asks_hardware) && !self.hardware_told {
            self.hardware_told = true;
            self.times_by_hardware = major >= FIRST_WITH_HARDWARE_TRACE;
            let why_not = || {
                format!(
                    "off: the GPU has compute capability {major}.{minor}, and hardware trace needs \
                     {FIRST_WITH_HARDWARE_TRACE}.0 or later"
                )
            };
            let told = if self.times_by_hardware { "on".to_owned() } else { why_not() };
            self.output.fact("cupti.hwtrace", told);
        }
        self.output.put(Record::Device(device));
    }

    /// Says once that CUPTI told layouts of its records that cannot be right. The records of such buffers
    /// count as unreadable.
    pub(super) fn check_layouts(&mut self, full: &FullBuffer) {
        let Some(Err(error)) = full.layouts() else { return };
        if !std::mem::replace(&mut self.layouts_doubted, true) {
            self.output.fact("cupti.false_layouts", error.to_string());
            diag::warn(format_args!(
                "GPU work is missing: {error}; its records are counted as unreadable; set \
                 STAGE2_CUPTI_API=v1 to use CUPTI's first activity API"
            ));
        }
    }

    /// Notes how many processes were forked that cannot use CUDA: at the first one, because this process
    /// may be killed, and at the end.
    pub(super) fn count_forks(&mut self, at_end: bool) {
        let forks = self.shared.forks_after_cuda.load(Ordering::Relaxed);
        let noted = self.forks_noted;
        if (noted == 0 || at_end) && forks != noted {
            self.forks_noted = forks;
            self.output.fact("forks.after_cuda", forks.to_string());
        }
    }

    /// Says in one line which ranges of the program are open when it ends in order. Returns how many.
    pub(super) fn say_open(&self) -> u64 {
        let (mut count, mut names) = (0, Vec::new());
        let lost = |thread| self.shared.events.lost(thread);
        let open = self.ranges.open_ranges(&self.names, lost);
        for open in open.filter(|open| open.is_of_program && open.is_sure) {
            let name = self.names.text(open.name);
            count += 1;
            if names.len() <= NAMES && !names.contains(&name) {
                names.push(name);
            }
        }
        if count > 0 {
            let shown = names.iter().take(NAMES);
            let shown: Vec<String> =
                shown.map(|name| text::shorten(&text::visible(name), NAME)).collect();
            diag::warn(format_args!(
                "{count} {} still open when the process ended ({}{}): work is counted in {} up to the \
                 end; close every range",
                if count == 1 { "range was" } else { "ranges were" },
                shown.join(", "),
                if names.len() > NAMES { ", ..." } else { "" },
                if count == 1 { "it" } else { "them" },
            ));
        }
        count
    }
}

// Samples of the host.
impl Drain {
    /// Starts sampling only after CUPTI has started: if a limit allows one more thread, CUPTI needs it more.
    pub(super) fn sample_host(&mut self, python: Option<Interpreter>) {
        const WITHOUT_CUDA: Duration = Duration::from_secs(1);
        const START: Duration = Duration::from_secs(5);
        let patience = if state::cuda_seen() { START } else { WITHOUT_CUDA };
        let awaits_gpu = self.shared.gpu.get().is_none() && self.host.age() < patience;
        if awaits_gpu || self.host.has_begun() {
            return;
        }
        let has_file = self.output.path().is_some();
        let asked = self.shared.windows.host_hz_asked().map(|hz| Some(hz).filter(|&hz| hz > 0));
        let hz = asked.unwrap_or(self.shared.options.host_hz);
        self.host.begin((self.shared, hz, python), has_file, &mut self.output);
    }

    pub(super) fn take_host(&mut self) {
        self.repair();
        self.host.take(&mut self.names, &mut self.output);
    }

    /// Writes what waits for a record.
    pub(super) fn write_host(&mut self) {
        self.repair();
        self.host.write(&mut self.names, &mut self.output);
    }

    /// Ends the sampling, before the interpreter goes.
    pub(super) fn end_host(&mut self) {
        self.repair();
        self.host.finish(&mut self.names, &mut self.output);
    }
}

/// Why energy and clocks are missing. With a dot and the number of a GPU: of this one.
const NVML_OFF: &str = "nvml.off";

impl Drain {
    /// Begins to read NVML, where that was not switched off and there is a GPU. A simulated GPU has only the NVML that was named for it.
    pub(super) fn watch_gpus(&mut self) {
        let options = &self.shared.options;
        if !options.device_state {
            return self.output.fact(NVML_OFF, "STAGE2_DEVICE_STATE=off".to_owned());
        }
        if options.out.is_none() || (self.output.is_simulated() && options.nvml.is_none()) {
            return;
        }
        match DeviceStates::start(options.nvml.as_ref()) {
            Ok(states) => self.device_states = Some(states),
            Err(error) => self.output.fact(NVML_OFF, format!("no thread can be started ({error})")),
        }
    }

    /// Takes in what was read, and has the GPUs read that work was found on since.
    pub(super) fn take_states(&mut self) {
        let Some(states) = &mut self.device_states else { return };
        for (device, uuid) in self.output.take_used() {
            states.watch(device, uuid);
        }
        let said = states.take();
        self.write_states(said);
    }

    /// Has all GPUs read once more, those as well whose first work came with the last records.
    pub(super) fn take_last_states(&mut self) {
        self.take_states();
        let said = self.device_states.take().map(DeviceStates::finish);
        self.write_states(said.unwrap_or_default());
    }

    /// Threads of ours that read.
    pub(super) fn reader_threads(&self) -> u64 {
        self.device_states.as_ref().map_or(0, |states| states.is_alive().into())
    }

    fn write_states(&mut self, said: Vec<Said>) {
        for said in said {
            match said {
                Said::State(state) => self.output.put(Record::DeviceState(state)),
                Said::Off { device: None, reason } => self.output.fact(NVML_OFF, reason),
                Said::Off { device: Some(device), reason } => {
                    self.output.fact(&format!("{NVML_OFF}.{device}"), reason);
                }
            }
        }
    }
}
