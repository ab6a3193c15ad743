//! Requests for windows on their way from the control socket to the drain thread, and how things stand
//! on the way back. Only threads of ours come here: they may lock and allocate.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use stage2_contract::control::Limits;
use stage2_contract::trace::{MonoNs, WallNs};

use crate::guest::window_filter::WindowFilter;

/// Marks that wait for the drain thread.
const MARKS: usize = 64;
/// Windows that are over and still listed.
const LISTED: usize = 32;

/// A window that the drain thread is to begin.
#[derive(Clone, Copy)]
pub struct Window {
    /// From 1, in the process.
    pub number: u64,
    /// It begins while the program runs, and not with the first call of the program.
    pub late: bool,
    /// What it records; `None`: what the environment asks for.
    pub wanted: Option<&'static WindowFilter>,
    /// When it begins; `None`: at once.
    pub at: Option<Moment>,
    /// When it ends by itself.
    pub(crate) limits: Limits,
}

/// A moment that was set beforehand, as two clocks tell it. The one of the day is the same in every process;
/// the other one goes on where someone sets that one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// On the clock of the day.
    pub(crate) wall: WallNs,
    /// On the monotonic clock.
    pub(crate) mono: MonoNs,
}

/// The first step of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstStep {
    /// When it opened.
    pub opened: WallNs,
    /// How long it was open, ns.
    pub ns: u64,
}

/// Where the window is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// There is none.
    #[default]
    None,
    /// It was asked for, or the drain thread opens its file and switches CUPTI on.
    Starting,
    /// What happens is recorded.
    On,
    /// What was recorded is on its way to the file.
    Stopping,
}

/// A window that is over.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// From 1.
    pub number: u64,
    /// When it began, since 1970.
    pub(crate) began: Duration,
    /// When it was ended, since 1970.
    pub(crate) ended: Duration,
    /// Why it ended.
    pub why: String,
    /// Its trace file, if there is one.
    pub file: Option<String>,
    /// Records of GPU work in it.
    pub records: u64,
    /// Things that were lost, of any kind.
    pub lost: u64,
}

/// How things stand.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    /// Windows that were asked for, with the first one of a process that is not dormant.
    pub windows: u64,
    pub(crate) stage: Stage,
    /// Since when, since 1970.
    pub since: Duration,
    pub(crate) limits: Limits,
    /// How much later it began than the moment that was set; `None`: none was, or it is not on yet.
    pub late: Option<Duration>,
    /// Its first step, of the last window for which a moment was set.
    pub first_step: Option<FirstStep>,
    /// The file of the window that is on.
    pub file: Option<String>,
    /// Why GPU work is not recorded, if so.
    pub(crate) gpu_off: Option<String>,
    /// The windows that are over, the last ones.
    pub(crate) done: VecDeque<Done>,
    /// Records of all windows that are over.
    pub records: u64,
    /// Losses of all windows that are over.
    pub lost: u64,
}

/// Why a request cannot be met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Started twice.
    #[error(
        "window {0} is on already; stop it first (`ctl stop`), or wait until its limit ends it"
    )]
    AlreadyOn(u64),
    /// Started while the last window is being written.
    #[error("window {0} is still being written; ask again in a moment")]
    StillStopping(u64),
    /// Nothing to stop, to flush or to mark.
    #[error("no window is on: nothing is recorded; begin one with `ctl start`")]
    NotOn,
    /// Too many marks.
    #[error("{MARKS} marks wait to be written; ask again in a moment")]
    TooManyMarks,
}

#[derive(Default)]
struct Inner {
    asked: Option<Window>,
    standing: Standing,
    marks: Vec<(MonoNs, String)>,
    /// What the drain thread knew when it was last asked.
    why: Work,
}

/// What the drain thread knows of work that does not end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Work {
    /// All of it, as JSON.
    pub(crate) json: String,
    /// Pieces of work on the GPU that have not ended.
    pub(crate) unfinished: u64,
    /// The range that has been open for longest, of those that are overdue.
    pub(crate) overdue: Option<Overdue>,
}

/// A range of the program in which work was launched before, and that has been open for twice as long as ever.
#[derive(Clone, Debug)]
pub(crate) struct Overdue {
    pub(crate) path: String,
    pub(crate) open_ms: u64,
    /// Its instances that have closed, and the longest of them.
    pub(crate) earlier: u64,
    pub(crate) longest_ms: u64,
}

/// The requests, and how things stand.
#[derive(Default)]
pub struct Windows {
    inner: Mutex<Inner>,
    /// A request came in at some time: windows may end before the process.
    used: AtomicBool,
    /// The last start asked for hardware counters.
    counters: AtomicBool,
    /// How often the last start asked for samples of the host, Hz and one; 0: it did not say.
    host: AtomicU32,
    stop: AtomicBool,
    flushes_asked: AtomicU64,
    flushes_done: AtomicU64,
    whys_asked: AtomicU64,
    whys_told: AtomicU64,
}

impl Windows {
    /// The window that begins with the process.
    pub(crate) fn ask_first(&self) {
        let window =
            Window { number: 1, late: false, wanted: None, at: None, limits: Limits::default() };
        self.inner.lock().ask(window);
    }

    /// Asks for a window. Its number.
    pub fn ask_start(
        &self,
        wanted: Option<&'static WindowFilter>,
        counters: bool,
        host_hz: Option<u32>,
        at: Option<Moment>,
        limits: Limits,
    ) -> Result<u64, Refusal> {
        let mut inner = self.inner.lock();
        let standing = &inner.standing;
        match standing.stage {
            Stage::None => {}
            Stage::Starting | Stage::On => return Err(Refusal::AlreadyOn(standing.windows)),
            Stage::Stopping => return Err(Refusal::StillStopping(standing.windows)),
        }
        self.used.store(true, Ordering::SeqCst);
        self.stop.store(false, Ordering::SeqCst);
        self.counters.store(counters, Ordering::SeqCst);
        self.host.store(host_hz.map_or(0, |hz| hz + 1), Ordering::SeqCst);
        let number = standing.windows + 1;
        inner.ask(Window { number, late: true, wanted, at, limits });
        Ok(number)
    }

    /// Asks for the end of the window. Its number.
    pub(crate) fn ask_stop(&self) -> Result<u64, Refusal> {
        let inner = self.inner.lock();
        match inner.standing.stage {
            Stage::None => return Err(Refusal::NotOn),
            Stage::Stopping => {}
            Stage::Starting | Stage::On => {
                self.used.store(true, Ordering::SeqCst);
                self.stop.store(true, Ordering::SeqCst);
            }
        }
        Ok(inner.standing.windows)
    }

    /// Asks for a mark. The number of its window.
    pub(crate) fn ask_mark(&self, at: MonoNs, text: String) -> Result<u64, Refusal> {
        let mut inner = self.inner.lock();
        if inner.standing.stage != Stage::On {
            return Err(Refusal::NotOn);
        }
        if inner.marks.len() >= MARKS {
            return Err(Refusal::TooManyMarks);
        }
        inner.marks.push((at, text));
        Ok(inner.standing.windows)
    }

    /// Asks for a flush: its number, to be compared with [`Windows::flushes_done`].
    pub fn ask_flush(&self) -> Result<u64, Refusal> {
        if self.inner.lock().standing.stage != Stage::On {
            return Err(Refusal::NotOn);
        }
        Ok(self.flushes_asked.fetch_add(1, Ordering::SeqCst) + 1)
    }

    /// Asks what work on the GPU has not ended: its number, for [`Windows::why`].
    pub(crate) fn ask_why(&self) -> Result<u64, Refusal> {
        if self.inner.lock().standing.stage != Stage::On {
            return Err(Refusal::NotOn);
        }
        Ok(self.whys_asked.fetch_add(1, Ordering::SeqCst) + 1)
    }

    /// What the drain thread told to that question or to a later one.
    pub(crate) fn why(&self, number: u64) -> Option<Work> {
        let is_told = self.whys_told.load(Ordering::SeqCst) >= number;
        is_told.then(|| self.inner.lock().why.clone())
    }

    /// For the drain thread: the question that is not answered.
    pub(crate) fn asked_why(&self) -> Option<u64> {
        let asked = self.whys_asked.load(Ordering::SeqCst);
        (asked > self.whys_told.load(Ordering::SeqCst)).then_some(asked)
    }

    /// For the drain thread: the answer to that question and to those before it.
    pub(crate) fn tell_why(&self, number: u64, why: Work) {
        self.inner.lock().why = why;
        self.whys_told.store(number, Ordering::SeqCst);
    }

    pub(crate) fn flushes_done(&self) -> u64 {
        self.flushes_done.load(Ordering::SeqCst)
    }

    pub(crate) fn standing(&self) -> Standing {
        self.inner.lock().standing.clone()
    }

    /// Whether windows may end before the process. One load.
    pub fn is_used(&self) -> bool {
        self.used.load(Ordering::SeqCst)
    }

    /// Whether the last start asked for hardware counters.
    pub fn are_counters_asked(&self) -> bool {
        self.counters.load(Ordering::SeqCst)
    }

    /// How often the last start asked for samples of the host, Hz, 0: not at all; `None`: it did not say.
    pub fn host_hz_asked(&self) -> Option<u32> {
        self.host.load(Ordering::SeqCst).checked_sub(1)
    }

    /// For the drain thread: the window that was asked for.
    pub fn take(&self) -> Option<Window> {
        self.inner.lock().asked.take()
    }

    /// For the drain thread: what happens is recorded from now on, `late` after the moment that was set.
    pub fn begun(&self, file: Option<String>, late: Option<Duration>) {
        let mut inner = self.inner.lock();
        inner.standing.file = file;
        inner.standing.late = late;
        inner.enter(Stage::On);
    }

    /// For the drain thread: the window goes on in this file.
    pub fn turned(&self, file: String) {
        self.inner.lock().standing.file = Some(file);
    }

    /// For the drain thread: the first step of the window has closed.
    pub fn note_first_step(&self, step: FirstStep) {
        self.inner.lock().standing.first_step = Some(step);
    }

    /// For the drain thread: GPU work is not recorded, or is from now on.
    pub fn note_gpu(&self, off: Option<String>) {
        self.inner.lock().standing.gpu_off = off;
    }

    /// For the drain thread: whether the window is to end. One load.
    pub fn is_stop_asked(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// For the drain thread: nothing more is recorded.
    pub fn stopping(&self) {
        self.inner.lock().enter(Stage::Stopping);
    }

    /// For the drain thread: the window is over, for this reason, with so many records and losses.
    pub fn over(&self, why: String, records: u64, lost: u64) {
        let mut inner = self.inner.lock();
        inner.marks.clear();
        let standing = &mut inner.standing;
        let done = Done {
            number: standing.windows,
            // When it was on is what its file says.
            began: standing.since,
            ended: since_1970(),
            why,
            file: standing.file.take(),
            records,
            lost,
        };
        standing.records += records;
        standing.lost += lost;
        if standing.done.len() == LISTED {
            standing.done.pop_front();
        }
        standing.done.push_back(done);
        inner.enter(Stage::None);
    }

    /// For the drain thread: the marks that were asked for.
    pub fn take_marks(&self) -> Vec<(MonoNs, String)> {
        std::mem::take(&mut self.inner.lock().marks)
    }

    /// For the drain thread: the flush that was asked for and is not done.
    pub fn asked_flush(&self) -> Option<u64> {
        let asked = self.flushes_asked.load(Ordering::SeqCst);
        (asked > self.flushes_done()).then_some(asked)
    }

    /// For the drain thread: that flush, and those before it, are done.
    pub fn flushed(&self, number: u64) {
        self.flushes_done.store(number, Ordering::SeqCst);
    }
}

impl Inner {
    fn ask(&mut self, window: Window) {
        self.standing.windows = window.number;
        self.standing.limits = window.limits;
        (self.standing.file, self.standing.late, self.standing.first_step) = (None, None, None);
        self.asked = Some(window);
        self.enter(Stage::Starting);
    }

    fn enter(&mut self, stage: Stage) {
        // A window that stops keeps the time at which it began.
        if stage != Stage::Stopping {
            self.standing.since = since_1970();
        }
        self.standing.stage = stage;
    }
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(windows: &Windows) -> Result<u64, Refusal> {
        windows.ask_start(None, false, None, None, Limits::default())
    }

    #[test]
    fn a_window_is_asked_for_begun_and_ended_in_order() {
        let windows = Windows::default();
        assert_eq!(windows.ask_stop(), Err(Refusal::NotOn));
        assert_eq!([start(&windows), start(&windows)], [Ok(1), Err(Refusal::AlreadyOn(1))]);
        assert_eq!(windows.take().map(|window| (window.number, window.late)), Some((1, true)));
        assert!(windows.take().is_none());
        windows.begun(Some("a".to_owned()), None);
        assert_eq!(windows.ask_stop(), Ok(1));
        assert!(windows.is_stop_asked());
        windows.stopping();
        assert_eq!(start(&windows), Err(Refusal::StillStopping(1)));
        windows.over("stop".to_owned(), 5, 1);
        assert_eq!(start(&windows), Ok(2));
        assert!(!windows.is_stop_asked(), "that was for the window before");
        let standing = windows.standing();
        assert_eq!((standing.records, standing.lost, standing.done.len()), (5, 1, 1));
        assert_eq!(standing.done[0].file.as_deref(), Some("a"));
    }

    #[test]
    fn what_is_kept_has_a_bound() {
        let windows = Windows::default();
        windows.ask_first();
        assert_eq!(windows.ask_mark(MonoNs(1), "early".to_owned()), Err(Refusal::NotOn));
        windows.begun(None, None);
        for _ in 0..MARKS {
            assert_eq!(windows.ask_mark(MonoNs(1), "x".to_owned()), Ok(1));
        }
        assert_eq!(windows.ask_mark(MonoNs(1), "x".to_owned()), Err(Refusal::TooManyMarks));
        assert_eq!(windows.take_marks().len(), MARKS);
        windows.over("stop".to_owned(), 0, 0);
        for _ in 0..2 * LISTED {
            start(&windows).unwrap();
            windows.over("stop".to_owned(), 0, 0);
        }
        assert_eq!(windows.standing().done.len(), LISTED);
    }

    #[test]
    fn flushes_are_numbered() {
        let windows = Windows::default();
        windows.ask_first();
        windows.begun(None, None);
        assert_eq!((windows.asked_flush(), windows.ask_flush()), (None, Ok(1)));
        assert_eq!(windows.ask_flush(), Ok(2));
        windows.flushed(windows.asked_flush().unwrap());
        assert_eq!((windows.asked_flush(), windows.flushes_done()), (None, 2));
    }
}
