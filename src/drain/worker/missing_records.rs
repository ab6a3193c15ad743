//! Kernels that are launched while CUPTI brings no records -> a word that another library of the process has
//! these, once.
//!
//! A library that registers its own activity callbacks later takes all further records, and CUPTI does
//! not report it. A program without GPU work looks the same from here: CUPTI asks for no buffer and hands
//! none back. So after a whole flush period of that we have kernel launches counted
//! ([`crate::guest::launch_watch`]), until CUPTI moves a buffer again. More launches than the buffers that
//! CUPTI holds have room for cannot go unnoticed: each must make a record.

use std::time::Duration;

use stage2_contract::trace::MonoNs;

use crate::base::{clock, diag, futex};
use crate::guest::pool::Pool;

use super::{Drain, Flush};

/// No record of a kernel takes fewer bytes, in any version and with any fields that we ask for.
const SMALLEST_RECORD: usize = 88;
/// Launches beyond the room for records that are not a sign yet.
const MARGIN: u64 = 100;
/// Launches after which the count ends without a result: each is called back twice. Five buffers of the
/// largest size have room for fewer.
const MOST: u64 = 1 << 16;
/// Flushes in a row after which records count as missing, or we as detached from CUPTI.
const FLUSHES: u32 = 2;
/// Flushes in a row after which we count as detached where the program does not show that it lives
/// on. In `exit` a handler that runs before ours may end the subscription and then take its time.
const FLUSHES_WITHOUT_LIFE: u32 = 10;
/// A thread has put its first record into a buffer so long after it was given it.
const GETTING_A_BUFFER: Duration = Duration::from_millis(5);

/// Buffers that CUPTI had at the end, after a forced flush: their records may have gone elsewhere.
const BUFFERS_KEPT: &str = "cupti.buffers_kept";

const TAKEN: &str = "CUPTI neither requested nor returned a buffer in that time: another library of this \
                     process (a profiler such as torch.profiler) takes the activity records, or has \
                     switched them off; run without it";
const DETACHED: &str = "CUPTI no longer calls the collector: another library of this process has \
                        ended its subscription (cuptiFinalize); run without it";
const GONE: &str = "CUPTI left the process before it handed over its last records: another library has \
                    ended it (cuptiFinalize), or an exit handler has that was registered after the first \
                    kernels; run without it";

pub(super) const UNFLUSHED: &str = "STAGE2_HWTRACE=on leaves flushes to the threads of the program, and none has made \
                         the last one (it ended by _exit or a signal, or the window ended first): open or \
                         close a range after the last kernels, or set STAGE2_HWTRACE=off";

#[derive(Default)]
pub(super) struct RecordWatch {
    /// [`Drain::moves`], as last seen.
    moves: u64,
    /// Flushes in a row that found too many launches, and those that found us detached.
    doubts: u32,
    detached: u32,
    /// When the first of the latter did, and whether a range was opened or closed later.
    detached_since: Option<MonoNs>,
    lives_on: bool,
    /// Launches are not counted until CUPTI moves a buffer: they cannot be, or enough were.
    tired: bool,
    /// It was said.
    pub(super) over: bool,
}

impl RecordWatch {
    /// Of an event of a guest thread: it is not an `exit` that has detached us.
    pub(super) fn note_event(&mut self, at: MonoNs) {
        self.lives_on |= self.detached_since.is_some_and(|since| at > since);
    }
}

impl Drain {
    /// Buffers that CUPTI asked for or handed back, and records that it dropped.
    pub(super) fn moves(&self) -> u64 {
        let dropped = self.shared.counters.cupti_dropped.get();
        dropped + self.shared.pool.get().map_or(0, Pool::moves)
    }

    /// Ends the watch where records come again. Whether they did since the last call.
    pub(super) fn check_moves(&mut self) -> bool {
        let moves = self.moves();
        if moves == self.records.moves {
            return false;
        }
        let over = self.records.over;
        self.records = RecordWatch { moves, over, ..RecordWatch::default() };
        self.count_launches(false);
        true
    }

    /// After a flush: whether records go elsewhere.
    pub(super) fn check_missing(&mut self, flushed: bool) {
        let Some((gpu, pool)) = self.shared.gpu().zip(self.shared.pool.get()) else { return };
        // In this order: a launch that is counted has moved its buffer before.
        let launches = self.shared.launch_watch.launches();
        let room = (pool.given_bytes() / SMALLEST_RECORD) as u64;
        if self.check_moves() || self.records.over || !flushed {
            return;
        }
        if !gpu.tracer.is_attached() {
            self.note_detached();
        } else if self.times_by_hardware {
            // CUPTI may ask for a buffer long after the launch whose record goes there. The count may have begun
            // before the GPU was known.
            self.count_launches(false);
        } else if !self.shared.launch_watch.is_on() {
            self.records.tired = self.records.tired || !self.count_launches(true);
        } else if launches > room + MARGIN {
            self.records.doubts += 1;
            if self.records.doubts == FLUSHES {
                self.say_missing(taken(launches));
            }
        } else if launches >= MOST {
            self.records.tired = true;
            self.count_launches(false);
        }
    }

    /// CUPTI called nobody back: another library has ended the subscription, or the process is in `exit`.
    fn note_detached(&mut self) {
        self.records.detached += 1;
        self.records.detached_since.get_or_insert_with(clock::mono);
        let enough = if self.records.lives_on { FLUSHES } else { FLUSHES_WITHOUT_LIFE };
        if self.records.detached >= enough {
            self.say_missing(DETACHED.to_owned());
        }
    }

    /// After the last flush: whether nothing came of what was launched, or buffers did not come. Only a forced
    /// one hands over every buffer that holds a record.
    pub(super) fn check_missing_at_end(&mut self, flushed: bool, forced: bool) {
        let watch = &self.shared.launch_watch;
        // The hardware's times may have begun after the count did.
        let counted = (watch.is_on() || self.records.tired) && !self.times_by_hardware;
        let launches = watch.launches();
        let (detached, detached_alive) = (self.records.detached > 0, self.records.lives_on);
        let moved = self.check_moves();
        // The process may go on, and nobody takes in the count any more.
        self.count_launches(false);
        if !flushed || self.records.over {
            return;
        }
        if !moved && detached_alive {
            return self.say_missing(DETACHED.to_owned());
        }
        if !forced {
            return;
        }
        if !moved && counted && launches > 0 {
            return self.say_missing(if detached { GONE.to_owned() } else { taken(launches) });
        }
        if self.shared.lacks_last_flush()
            && self.shared.pool.get().is_some_and(|pool| pool.given() > 0)
        {
            return self.say_missing(UNFLUSHED.to_owned());
        }
        // What a GPU does whose hardware takes the times, nobody has seen yet.
        let kept = if self.times_by_hardware { 0 } else { self.buffers_kept() };
        if kept > 0 {
            // CUPTI hands back empty ones, too: on an H200 all of them came in 181 processes of 182, and one
            // stayed in that whose records another library had taken.
            self.output.fact(BUFFERS_KEPT, kept.to_string());
            self.say_missing(if detached { GONE.to_owned() } else { kept_back(kept) });
        } else if detached && !self.drops_known {
            self.say_missing(GONE.to_owned());
        }
    }

    /// Buffers that CUPTI keeps although it was flushed.
    fn buffers_kept(&mut self) -> usize {
        let Some(pool) = self.shared.pool.get().filter(|pool| pool.given() > 0) else { return 0 };
        // A thread that was just getting its buffer has it by then, and CUPTI knows of it.
        futex::nap(GETTING_A_BUFFER);
        self.check_moves();
        let again = self.flush(Flush::Forced);
        // Who launches yet gets its buffers from us: they are not elsewhere.
        let moved = self.check_moves();
        if again.is_err() || moved { 0 } else { pool.given() }
    }

    /// Notes in the trace file why it is not known how much of the GPU work is missing.
    pub(super) fn say_incomplete(&mut self, reason: &str) {
        self.shared.counters.incomplete.increment();
        self.output.fact("gpu.incomplete", reason.to_owned());
    }

    fn say_missing(&mut self, reason: String) {
        self.records.over = true;
        self.count_launches(false);
        diag::warn(format_args!("GPU work is missing: {reason}"));
        self.say_incomplete(&reason);
    }

    /// Has launches counted, or no longer. Whether they are.
    fn count_launches(&self, on: bool) -> bool {
        let watch = &self.shared.launch_watch;
        let Some(gpu) = self.shared.gpu().filter(|_| watch.is_on() != on) else { return on };
        watch.set(on);
        let counts = gpu.tracer.watch_launches(on) && on;
        if on && !counts {
            watch.set(false);
        }
        counts
    }
}

fn kept_back(buffers: usize) -> String {
    let buffers =
        if buffers == 1 { "1 activity buffer" } else { &format!("{buffers} activity buffers") };
    format!(
        "CUPTI did not hand back {buffers} at the end: another library of this process (a profiler such as \
         torch.profiler) has registered for the records; run without it"
    )
}

fn taken(launches: u64) -> String {
    let kernels = if launches == 1 { "kernel was" } else { "kernels were" };
    format!("{launches} {kernels} launched, and {TAKEN}")
}
