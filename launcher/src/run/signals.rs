//! Signals that this program gets -> events of the pass that runs.

use std::io;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use nix::sys::signal::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::iterator::exfiltrator::origin::Origin;
use signal_hook::low_level::{emulate_default_handler, siginfo::Cause};

use super::SignalSource;
use super::child::Event;
use crate::terminal::Terminal;

/// Who gets the events.
type Target = Arc<Mutex<Option<Sender<Event>>>>;

/// The signal handlers of this program.
pub(crate) struct Signals {
    target: Target,
    interrupted: Arc<Mutex<String>>,
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
        let target = Target::default();
        let interrupted = Arc::new(Mutex::new(interrupted));
        let (shared, told) = (target.clone(), interrupted.clone());
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            for origin in &mut signals {
                deliver(&origin, &shared, &terminal, &told);
            }
        })?;
        Ok(Signals { target, interrupted })
    }

    /// Says something else from now on when a signal ends this program.
    pub(crate) fn say(&self, interrupted: String) {
        *self.interrupted.lock().unwrap_or_else(PoisonError::into_inner) = interrupted;
    }
}

impl SignalSource for Signals {
    fn deliver_to(&self, events: Option<Sender<Event>>) {
        *self.target.lock().unwrap_or_else(PoisonError::into_inner) = events;
    }
}

fn deliver(origin: &Origin, target: &Target, terminal: &Terminal, interrupted: &Mutex<String>) {
    let Ok(signal) = Signal::try_from(origin.signal) else { return };
    let target = target.lock().unwrap_or_else(PoisonError::into_inner);
    match target.as_ref() {
        // What the terminal sends comes from the kernel; what `kill` sends, from a process.
        Some(events) => {
            let from_terminal = matches!(origin.cause, Cause::Kernel);
            let _ = events.send(Event::Signal { signal, from_terminal });
        }
        None => {
            let interrupted = interrupted.lock().unwrap_or_else(PoisonError::into_inner);
            terminal.error(&format!("{signal}: {interrupted}"));
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
