//! The control socket: asks for windows of recording, and how things stand.
//!
//! One thread of ours serves it and sleeps without a period otherwise. It takes no part in recording: it
//! notes what was asked for in [`crate::guest::windows`], wakes the drain thread, and answers.

mod command;
mod place;
mod serve;
mod verbs;
mod watch;
mod why;

use std::sync::Arc;
use std::time::Duration;

use crate::base::futex::Flag;
use crate::base::options::Options;
use crate::base::{barrier, diag, main_end, scheduling};
use crate::guest::gpu::GpuNow;
use crate::guest::state::{self, Shared};
use crate::host::Interpreter;
use place::Socket;

pub(crate) use place::{close, remove, renew};
pub(crate) use serve::let_process_end;

/// Why graphs cannot be recorded as wholes by a late start.
pub const LATE_GRAPHS: &str = "STAGE2_GRAPH=graph cannot begin while the program runs: CUPTI ends a program \
     that launches a graph which it made before (docs/cupti-findings.md); set STAGE2_GRAPH=node, or start \
     the process with STAGE2_START=on";

/// The longest that a start waits for the thread: see `entry::lifecycle`.
const READY_PATIENCE: Duration = Duration::from_millis(100);
const STACK_BYTES: usize = 256 << 10;

/// What the thread needs of those above it.
pub struct Context {
    /// The options of the process.
    pub options: Options,
    /// Makes what threads share, with a drain thread, unless that was done.
    pub share: fn(&Options) -> Result<&'static Shared, String>,
    /// Asks NVML, which may wait for the driver.
    pub gpus: fn(&Options) -> Result<Vec<GpuNow>, String>,
    /// The interpreter of this process.
    pub python: Option<Interpreter>,
}

/// Opens the socket on the calling thread, and starts the thread that serves it. The caller has all signals
/// blocked, which the thread inherits.
pub fn open(context: Context) -> Result<(), String> {
    let socket = Socket::open()?;
    let ready = Arc::new(Flag::default());
    let is_ready = Arc::clone(&ready);
    let server = move || {
        scheduling::be_ordinary();
        is_ready.set();
        let served = barrier::own_thread(|| serve::run(socket, &context));
        if let Err(panic) = &served {
            diag::warn(format_args!("the control socket is closed: {panic}; please report it"));
            remove();
        }
        state::set_servers(0);
        if let Ok(true) = served {
            let_process_end();
        }
    };
    state::set_servers(1);
    let builder =
        std::thread::Builder::new().name("stage2-control".to_owned()).stack_size(STACK_BYTES);
    if let Err(error) = builder.spawn(server) {
        state::set_servers(0);
        remove();
        return Err(format!("no thread can be started ({error})"));
    }
    main_end::on_end(close);
    // Until then the thread opens files, under numbers that the guest may be closing and opening.
    ready.wait(READY_PATIENCE);
    Ok(())
}
