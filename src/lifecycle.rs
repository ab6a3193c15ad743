//! Starts and stops the collector: the only place that moves the phase and wires the parts.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::barrier::Panic;
use crate::event::{Event, QUEUE_EVENTS};
use crate::job::JobFacts;
use crate::options::Options;
use crate::quiet::{Blocked, Uncancelled};
use crate::state::{self, Finishing, Off, Phase, Shared};
use crate::{barrier, cupti, diag, drain, forks};

/// The longest that a thread waits for another one that is starting us.
const START_PATIENCE: Duration = Duration::from_secs(2);
/// The longest that a start waits for the trace file: opened later, it may take a descriptor that
/// the guest closes and opens meanwhile. All of it where the guest uses NVTX in a constructor of a
/// library, because no thread gets going while the loader is at work.
const OPEN_PATIENCE: Duration = Duration::from_millis(100);
/// The longest that the end of the guest is held up.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// Between two looks at what is waited for.
const NAP: Duration = Duration::from_micros(100);

/// What a start needs: the queue of events, the stack of a thread, and tables that grow.
const ROOM_BYTES: usize = QUEUE_EVENTS * (size_of::<Event>() + 8) + (2 << 20) + (16 << 20);

/// NVTX before CUDA 12.9 may start us from several threads at once. No callback takes it, and who
/// finds it taken for long goes on without us.
static STARTING: Mutex<()> = Mutex::new(());

/// Starts recording, unless that was done. `None`: we are off, for good or because another
/// thread takes too long over it.
pub fn start() -> Option<&'static Shared> {
    if forks::in_silent_child() {
        state::forked();
    }
    match state::phase() {
        Phase::On => return state::shared(),
        Phase::Idle => {}
        Phase::Stopping | Phase::Ended | Phase::Forked => return None,
    }
    let _uncancelled = Uncancelled::new();
    let _starting = STARTING.try_lock_for(START_PATIENCE)?;
    if state::phase() == Phase::On {
        return state::shared();
    }
    let options = Options::from_env();
    diag::debug(format_args!("{options:?}"));
    if !has_room() {
        diag::warn(format_args!(
            "off: the process may not take {} MiB more of address space (ulimit -v, or no memory \
             left to promise); nothing is recorded",
            ROOM_BYTES >> 20
        ));
        state::advance(Phase::Idle, Phase::Ended);
        return None;
    }
    let shared = state::share(Shared::new(options))?;
    forks::mark();
    barrier::hush();
    barrier::prepare();
    if let Err(error) = spawn_drain(shared) {
        diag::warn(format_args!("off: no thread can be started ({error}); nothing is recorded"));
        return None;
    }
    wait_until(OPEN_PATIENCE, || {
        shared.ready.load(Ordering::Acquire) || shared.done.load(Ordering::Acquire)
    });
    stop_at_exit();
    state::advance(Phase::Idle, Phase::On).then_some(shared)
}

/// Whether what a start allocates can be had: a failure there would end the guest.
fn has_room() -> bool {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANON);
    // SAFETY: a new mapping, given back at once, that nobody knows of.
    unsafe {
        let room = libc::mmap(std::ptr::null_mut(), ROOM_BYTES, access, kind, -1, 0);
        room != libc::MAP_FAILED && libc::munmap(room, ROOM_BYTES) == 0
    }
}

/// Whether a thread is starting us.
pub fn is_starting() -> bool {
    STARTING.is_locked()
}

/// Starts the GPU half, unless that was done. Called in the driver's initialisation.
pub fn start_gpu() {
    let _uncancelled = Uncancelled::new();
    let Some(shared) = start() else {
        if state::phase() == Phase::Forked {
            diag::warn(format_args!(
                "GPU work of process {} is not recorded: it is a fork of one that had used NVTX or \
                 CUDA; start it by spawn or exec instead (Python: the start method \"spawn\")",
                std::process::id()
            ));
        }
        return;
    };
    let Some(_starting) = STARTING.try_lock_for(START_PATIENCE) else { return };
    if shared.gpu.get().is_some() {
        return;
    }
    let _ = shared.job_at_gpu_start.set(JobFacts::from_env());
    let gpu = if shared.options.gpu {
        cupti::start(shared)
    } else {
        Err(Off("STAGE2_GPU=off".to_owned()))
    };
    match &gpu {
        Err(off) if shared.options.gpu => {
            diag::warn(format_args!("GPU work is not recorded: {off}"));
        }
        Err(_) => {}
        // CUPTI and the driver have registered their own exit handlers by now, which run before
        // those registered earlier: ours has to come first.
        Ok(_) => stop_at_exit(),
    }
    // The lock makes us the only one to set it.
    let _ = shared.gpu.set(gpu);
    if let (Phase::Ended, Some(tracer)) = (state::phase(), shared.tracer()) {
        // The drain thread failed meanwhile, and found nothing to shut.
        tracer.shut();
        return;
    }
    if shared.gate.is_open() {
        // A wanted range was opened before CUPTI was there.
        shared.collect(true);
    }
    shared.wake_drain();
}

/// Finishes: takes in what CUPTI still holds, ends the spool, shows the summary. Bounded.
fn stop() {
    let _uncancelled = Uncancelled::new();
    let Some(shared) = state::shared() else { return };
    if shared.pid != std::process::id() {
        // A child by `clone` or `_Fork`, which call no handler: nobody there would finish.
        state::forked();
    }
    if !state::advance(Phase::On, Phase::Stopping) {
        return;
    }
    shared.stop.store(true, Ordering::Release);
    shared.wake_drain();
    if wait_until(STOP_PATIENCE, || shared.done.load(Ordering::Acquire)) {
        state::advance(Phase::Stopping, Phase::Ended);
        return;
    }
    let (what, left) = match shared.finishing.load(Ordering::Relaxed) {
        step if step == Finishing::Records as u8 => (
            "CUPTI",
            "the last records and the summary are missing; the trace file holds everything up to \
             its last flush",
        ),
        step if step == Finishing::File as u8 => (
            "the trace file",
            "its end and the summary are missing; is the disk slow, or STAGE2_OUT far away?",
        ),
        _ => ("the summary", "the trace file is whole"),
    };
    let seconds = STOP_PATIENCE.as_secs();
    diag::warn(format_args!("{what} did not finish within {seconds} s: {left}"));
}

/// Whether a condition was met in time.
fn wait_until(patience: Duration, met: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    while !met() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(NAP);
    }
    true
}

fn spawn_drain(shared: &'static Shared) -> std::io::Result<()> {
    // Signals are the guest's business: they must not arrive on our thread.
    let blocked = Blocked::all();
    let spawned = std::thread::Builder::new().name("stage2-drain".to_owned()).spawn(move || {
        be_ordinary();
        if let Err(panic) = barrier::own_thread(|| drain::run(shared)) {
            give_up(shared, &panic);
        }
        // Until here the end of the guest waits, for a bounded time.
        shared.done.store(true, Ordering::Release);
    });
    drop(blocked);
    // Nobody else sets it; the handle is dropped, i.e. the thread is detached.
    let _ = shared.drain.set(spawned?.thread().clone());
    Ok(())
}

/// The thread that starts us may be pinned, or run before all others (`SCHED_FIFO`), for the sake of
/// its own work. Ours is scheduled like any other, on the processors of the guest's main thread:
/// `taskset` or `numactl` of the whole guest holds for us as well.
fn be_ordinary() {
    // SAFETY: the places are valid and of the sizes given; 0 is this thread. A failure leaves the
    // thread as it was.
    unsafe {
        let ordinary: libc::sched_param = std::mem::zeroed();
        libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const ordinary);
        let mut processors: libc::cpu_set_t = std::mem::zeroed();
        let size = size_of::<libc::cpu_set_t>();
        if libc::sched_getaffinity(libc::getpid(), size, &raw mut processors) == 0 {
            libc::sched_setaffinity(0, size, &raw const processors);
        }
    }
}

/// Nobody takes in records any more: the guest shall not pay for them. What CUPTI still hands back
/// is taken back, and stays unread.
fn give_up(shared: &Shared, panic: &Panic) {
    // It may fail before whoever started it says that we are on.
    let _ = state::advance(Phase::Idle, Phase::Ended) || state::advance(Phase::On, Phase::Ended);
    diag::warn(format_args!(
        "off: {panic}: nothing more is recorded, and the trace file ends at its last flush; please \
         report it"
    ));
    if let Some(tracer) = shared.tracer() {
        barrier::catch((), || tracer.shut());
    }
}

fn stop_at_exit() {
    // SAFETY: the handler may run at any time and more than once.
    unsafe { libc::atexit(at_exit) };
}

extern "C" fn at_exit() {
    barrier::catch((), stop);
}
