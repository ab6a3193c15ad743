//! Signals that this program gets -> events of the pass that runs.

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::signal::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::iterator::exfiltrator::origin::Origin;
use signal_hook::low_level::emulate_default_handler;
use signal_hook::low_level::siginfo::Cause;

use super::SignalSource;
use super::child::Event;
use crate::terminal::Terminal;

/// How often the deletion of a folder is tried.
const DELETIONS: usize = 8;

pub(crate) struct Signals {
    target: Arc<Mutex<Target>>,
}

struct Target {
    /// Who gets it; none: it ends this program.
    events: Option<Sender<Event>>,
    interrupted: String,
    /// A folder that goes with this program then.
    unfinished: Option<PathBuf>,
}

impl Signals {
    /// Takes SIGINT, SIGTERM, SIGHUP and SIGQUIT over. `interrupted` is said when one of them ends
    /// this program because no workload runs that it could be handed to.
    pub(crate) fn install(terminal: Terminal, interrupted: String) -> io::Result<Signals> {
        let ignored = ignored_signals();
        // A signal that is ignored (nohup) stays so, here and in the workload.
        let wanted = [SIGINT, SIGTERM, SIGHUP, SIGQUIT]
            .into_iter()
            .filter(|signal| ignored & (1 << (signal - 1)) == 0);
        let mut signals = SignalsInfo::<WithOrigin>::new(wanted)?;
        let target = Arc::new(Mutex::new(Target { events: None, interrupted, unfinished: None }));
        let shared = target.clone();
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            for origin in &mut signals {
                deliver(&origin, &lock(&shared), &terminal);
            }
        })?;
        Ok(Signals { target })
    }

    /// Says something else from now on when a signal ends this program.
    pub(crate) fn say(&self, interrupted: String) {
        lock(&self.target).interrupted = interrupted;
    }

    /// A signal that ends this program from now on deletes this folder: what is in it must not stay as it is.
    pub(crate) fn take_along(&self, folder: Option<PathBuf>) {
        lock(&self.target).unfinished = folder;
    }
}

impl SignalSource for Signals {
    fn deliver_to(&self, events: Option<Sender<Event>>) {
        lock(&self.target).events = events;
    }
}

/// A write beyond the limit on the size of files (`ulimit -f`) fails from now on, and no longer ends this program. By
/// a handler: where the signal is ignored, so it is in programs that are started from here.
pub(crate) fn outlive_full_files() {
    if ignored_signals() & (1 << (SIGXFSZ - 1)) == 0 {
        // Without a handler the signal ends the program, as it did before.
        let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
    }
}

fn lock(target: &Mutex<Target>) -> MutexGuard<'_, Target> {
    target.lock().unwrap_or_else(PoisonError::into_inner)
}

fn deliver(origin: &Origin, target: &Target, terminal: &Terminal) {
    let Ok(signal) = Signal::try_from(origin.signal) else { return };
    match &target.events {
        // What the terminal sends comes from the kernel; what `kill` sends, from a process.
        Some(events) => {
            let from_terminal = matches!(origin.cause, Cause::Kernel);
            let _ = events.send(Event::Signal { signal, from_terminal });
        }
        None => {
            terminal.error(&format!("{signal}: {}", target.interrupted));
            if let Some(folder) = &target.unfinished {
                // The other thread may put a file there meanwhile.
                let _ = (0..DELETIONS).any(|_| std::fs::remove_dir_all(folder).is_ok());
            }
            // Ends the process; should it not, the signal was worth a line.
            let _ = emulate_default_handler(origin.signal);
        }
    }
}

/// The set of ignored signals of this process, bit `signal - 1`.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
