//! Starts the collector and wires its parts, in each process and each forked child again.

use std::time::Duration;

use stage2_contract::trace::GPU_OFF;

use crate::base::barrier::{self, Panic};
use crate::base::job::JobFacts;
use crate::base::options::{Graph, Options};
use crate::base::signal_mask::{CancellationBlock, SignalBlock};
use crate::base::{allocator, clock, diag, futex, generation, last_thread, pages, scheduling};
use crate::control::{self, Context};
use crate::drain::{self, EndReason, Hooks};
use crate::entry::{ends, options};
use crate::guest::event::Events;
use crate::guest::gpu::OffReason;
use crate::guest::state::{self, Phase, STARTING, Shared};
use crate::guest::{cupti, nvtx};
use crate::host::Interpreter;

/// The longest that a thread waits for another one that is starting us.
const START_PATIENCE: Duration = Duration::from_secs(2);
/// The longest that a start waits for the trace file: opened later, it may take a descriptor that
/// the guest closes and opens meanwhile. If the guest uses NVTX in a constructor of a library, the start
/// waits all of it, because no thread gets going while the loader is at work.
const OPEN_PATIENCE: Duration = Duration::from_millis(100);

/// Between two looks of a thread that has nothing more to do.
const REST: Duration = Duration::from_millis(200);

/// Starts recording, unless that was done. `None`: we are off for good, or another thread takes too
/// long over the start.
pub fn start() -> Option<&'static Shared> {
    if generation::in_silent_child() {
        state::forked();
    }
    if state::phase() != Phase::Idle {
        return state::active().map(|call| call.shared);
    }
    let (_uncancelled, _blocked) = (CancellationBlock::default(), SignalBlock::all());
    let _starting = STARTING.take(START_PATIENCE)?;
    // Another thread may have started us meanwhile, or failed to.
    if state::phase() != Phase::Idle {
        return state::active().map(|call| call.shared);
    }
    let options = options::from_env();
    diag::debug(format_args!("{options:?}"));
    if !options.start {
        be_dormant(options);
        return None;
    }
    match share(&options) {
        Ok(shared) => {
            shared.ready.wait(OPEN_PATIENCE);
            if options.control
                && let Err(why) = control::open(context(options))
            {
                diag::info(format_args!("no control socket: {why}"));
            }
            ends::watch();
            state::advance(Phase::Idle, Phase::On).then_some(shared)
        }
        Err(why) => {
            diag::warn(format_args!("off: {why}; nothing is recorded"));
            state::advance(Phase::Idle, Phase::Ended);
            None
        }
    }
}

/// What the thread of the control socket needs.
fn context(options: Options) -> Context {
    Context { options, share, gpus: drain::gpus_now, python: Interpreter::find() }
}

/// What threads share, with a drain thread: at the start, or at the first window of a dormant process.
fn share(options: &Options) -> Result<&'static Shared, String> {
    if let Some(shared) = state::shared() {
        return Ok(shared);
    }
    check_system().map_err(|lack| lack.to_string())?;
    allocator::set_last_resort(without_memory);
    let shared = state::share(Shared::new(options.clone())).ok_or("it was started meanwhile")?;
    generation::mark_process();
    barrier::prepare();
    spawn_drain(shared).map_err(|error| format!("no thread can be started ({error})"))?;
    Ok(shared)
}

/// Opens the doors and the control socket, and records nothing.
fn be_dormant(options: Options) {
    if let Err(lack) = check_system() {
        diag::warn(format_args!("off: {lack}; nothing is recorded"));
        state::advance(Phase::Idle, Phase::Ended);
        return;
    }
    allocator::set_last_resort(without_memory);
    generation::mark_process();
    barrier::prepare();
    // A forked child registers names before it starts, and so does this process before its first window.
    state::keep_filter(Box::leak(Box::new(options.ranges.clone())));
    let opened = match options.control {
        true => control::open(context(options)),
        false => Err("STAGE2_CONTROL=off".to_owned()),
    };
    if let Err(why) = opened {
        diag::warn(format_args!(
            "dormant (STAGE2_START=off), and it cannot be started: there is no control socket: {why}"
        ));
    }
    ends::watch();
    state::advance(Phase::Idle, Phase::Dormant);
}

/// Starts a forked child, whose NVTX calls come to us from the first one on. A start that takes too
/// long is not tried again, because it would hold up each call.
pub fn start_child() -> Option<&'static Shared> {
    let started = start();
    if started.is_none() && state::advance(Phase::Idle, Phase::Ended) {
        diag::warn(format_args!(
            "off: the collector did not start within {} s in forked process {}; nothing is recorded \
             there; start it by an exec (in Python: multiprocessing's `spawn` start method), or report \
             this",
            START_PATIENCE.as_secs(),
            std::process::id()
        ));
    }
    started
}

/// Starts the GPU half, unless that was done. Called in the driver's initialisation.
pub fn start_gpu() {
    // CUPTI's threads inherit the mask: a signal to the process must not end in one of them.
    let (_uncancelled, _blocked) = (CancellationBlock::default(), SignalBlock::all());
    state::note_cuda();
    let Some(shared) = start() else {
        if state::phase() == Phase::Forked {
            diag::warn(format_args!(
                "GPU work of process {} is not recorded: it was made by `clone` or `_Fork` without \
                 the C library's `fork`; start it by fork, spawn or exec instead",
                std::process::id()
            ));
        }
        return;
    };
    if let Err(off) = start_gpu_half(shared) {
        diag::warn(format_args!("GPU work is not recorded: {off}"));
        // The lock makes us the only one to set it; nothing tries again.
        let _ = shared.gpu.set(Err(off));
        shared.wake_drain();
    }
}

/// Starts the GPU half while the program runs: for a window of a process that was dormant when it
/// initialised CUDA. A refusal holds for this window only.
fn start_gpu_late(shared: &'static Shared) -> Result<(), OffReason> {
    if shared.options.graph == Graph::Graph {
        return Err(OffReason(control::LATE_GRAPHS.to_owned()));
    }
    start_gpu_half(shared)
}

fn start_gpu_half(shared: &'static Shared) -> Result<(), OffReason> {
    let Some(_starting) = STARTING.take(START_PATIENCE) else {
        return Err(OffReason("another thread takes too long to start the collector".to_owned()));
    };
    if shared.gpu.get().is_some() {
        return Ok(());
    }
    let _ = shared.job_at_gpu_start.set(JobFacts::from_env());
    if !shared.options.gpu {
        return Err(OffReason(GPU_OFF.to_owned()));
    }
    let gpu = shared.helpers.note(|| cupti::start(shared, ends::watch))?;
    // CUPTI and the driver have registered their own exit handlers by now, which run before those
    // registered earlier: ours has to come first.
    ends::watch();
    // The lock makes us the only one to set it.
    let _ = shared.gpu.set(Ok(gpu));
    // The drain thread may fail meanwhile, and find nothing to shut.
    if !state::started(|| shut_gpu(shared)) {
        return Ok(());
    }
    if shared.collection.is_open() {
        // A wanted range was opened before CUPTI was there.
        shared.collect(true);
    }
    shared.wake_drain();
    Ok(())
}

/// The caller has all signals blocked, which the thread inherits.
fn spawn_drain(shared: &'static Shared) -> std::io::Result<()> {
    let python = Interpreter::find();
    let spawned = barrier::thread("stage2-drain").spawn(move || {
        shared.note_drain_thread();
        scheduling::be_ordinary();
        let hooks = Hooks {
            start_gpu: start_gpu_late,
            begin_anew: nvtx::renew,
            watch_exit: ends::watch,
            call_name: cupti::call_name,
            python,
        };
        let finished = barrier::own_thread(|| drain::run(shared, hooks));
        if let Err(panic) = &finished {
            give_up(shared, panic);
        }
        if let Ok(EndReason::OutOfMemory) = finished {
            say_without_memory("the system refused memory (ulimit -v or -d, or none is left)");
            barrier::catch((), || shut_gpu(shared));
        }
        // A start need not wait for what will not come; the end of the guest waits until here.
        shared.ready.set();
        shared.done.set();
        if let Ok(EndReason::Alone) = finished {
            control::close();
            control::let_process_end();
        }
    });
    // The handle is dropped, i.e. the thread is detached.
    spawned.map(drop)
}

/// What a thread of ours does when not even the reserve has memory for it: it ends its work as it stands,
/// and only watches that it does not keep the process alive.
fn without_memory() {
    if let Some(shared) = state::shared().filter(|shared| shared.is_drain_thread()) {
        let _ = [Phase::On, Phase::Idle, Phase::Dormant]
            .into_iter()
            .any(|phase| state::advance(phase, Phase::Ended));
        // CUPTI is left as it is: it needs memory to be switched off, and has none either.
        say_without_memory("the process has no memory left at all");
        shared.ready.set();
        shared.done.set();
        let mut watch = last_thread::Watch::new(&shared.helpers);
        while !watch.is_alone(0) {
            futex::nap(REST);
        }
        // SAFETY: what the C library does when the last thread of a process ends.
        unsafe { libc::exit(0) };
    }
    // The drain thread waits for the others, and for a bounded time only.
    loop {
        futex::nap(REST);
    }
}

/// Why nothing more is recorded. Does not allocate.
fn say_without_memory(why: &str) {
    diag::warn(format_args!(
        "off: {why}: nothing more is recorded, and the trace file ends here; give the process more, or \
         record less of it (STAGE2_RANGES)"
    ));
}

/// Nobody takes in records any more, so the guest must not pay for them. What CUPTI still hands back
/// stays unread.
fn give_up(shared: &Shared, panic: &Panic) {
    state::fail(|| barrier::catch((), || shut_gpu(shared)));
    diag::warn(format_args!(
        "off: {panic}: nothing more is recorded, and the trace file ends at its last flush; please \
         report it"
    ));
}

fn shut_gpu(shared: &Shared) {
    if let Some(gpu) = shared.gpu() {
        gpu.tracer.shut();
    }
}

/// The queue of events, the stack of a thread, and tables that grow.
const ROOM_BYTES: usize = Events::BYTES + (2 << 20) + (16 << 20);
/// Thread-specific keys: one of ours, and two of std's.
const KEYS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Lack {
    #[error("the system refuses clock_gettime; allow it in the process's seccomp filter")]
    Clock,
    #[error(
        "the process has used up its thread-specific keys (pthread_key_create); use fewer libraries that \
         need them"
    )]
    Keys,
    #[error("the system refuses memory (ulimit -v or -d, or none is left)")]
    Memory,
    #[error(
        "the process may not take {} MiB more of address space (ulimit -v, or no memory left to \
         promise)",
        ROOM_BYTES >> 20
    )]
    Room,
}

/// Whether a start has what it needs; else the first thing that is not there.
fn check_system() -> Result<(), Lack> {
    if allocator::has_failed() {
        Err(Lack::Memory)
    } else if !clock::can_be_read() {
        Err(Lack::Clock)
    } else if !has_keys() {
        Err(Lack::Keys)
    } else if !has_room() {
        Err(Lack::Room)
    } else {
        Ok(())
    }
}

fn has_keys() -> bool {
    let mut keys: [libc::pthread_key_t; KEYS] = [0; KEYS];
    // SAFETY: the places are valid; what was created, for nobody yet, is deleted.
    unsafe {
        let create = |key: &mut libc::pthread_key_t| libc::pthread_key_create(key, None) == 0;
        let created = keys.iter_mut().map(create).take_while(|created| *created).count();
        keys.iter().take(created).for_each(|&key| {
            libc::pthread_key_delete(key);
        });
        created == KEYS
    }
}

fn has_room() -> bool {
    pages::map(ROOM_BYTES, libc::MAP_PRIVATE).is_some_and(|room| {
        // SAFETY: a new mapping, given back at once, that nobody knows of.
        unsafe { libc::munmap(room, ROOM_BYTES) == 0 }
    })
}
