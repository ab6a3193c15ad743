//! A request into what it does here, and its answer. Nothing waits for the drain thread but a flush, for a
//! moment.

use std::time::Duration;

use stage2_contract::control::{Answer, MOST_AHEAD, START_COST, SocketName, Start, Verb, escape};
use stage2_contract::trace::{GPU_OFF, MonoNs, WallNs};

use super::why::Asked;
use super::{Context, LATE_GRAPHS};
use crate::base::clock::Instant;
use crate::base::glob::RangeFilter;
use crate::base::options::{Attribution, Graph};
use crate::base::{clock, futex, last_thread, signal_mask};
use crate::guest::farewell::EndedBy;
use crate::guest::state::{self, Phase, Shared};
use crate::guest::window_filter::WindowFilter;
use crate::guest::windows::{Done, Moment, Refusal, Stage};

/// The longest that whoever is about to send a signal is held up.
const ENDING_PATIENCE: Duration = Duration::from_millis(190);
/// The longest that an answer waits for a flush: it has to come within 100 ms.
const FLUSH_PATIENCE: Duration = Duration::from_millis(70);
/// Between two looks for it.
const STEP: Duration = Duration::from_millis(2);
/// Pairs of a filter and a choice that starts may bring. Guest threads hold them for ever.
const WANTED: usize = 32;

pub(super) struct Verbs<'a> {
    context: &'a Context,
    known: Vec<&'static WindowFilter>,
    pub(super) why: Asked,
}

impl<'a> Verbs<'a> {
    pub(super) fn new(context: &'a Context) -> Self {
        Verbs { context, known: Vec::new(), why: Asked::default() }
    }

    pub(super) fn answer(&mut self, verb: Verb, own: &SocketName) -> Answer {
        let answer = match verb {
            Verb::Status => Ok(self.status()),
            Verb::Start(start) => self.start(&start),
            Verb::Stop => ask(|shared| shared.windows.ask_stop()),
            Verb::Flush => flush(),
            Verb::Why => Ok(self.why.answer(self.context)),
            Verb::Ending(signal) => ending(signal.into()),
            Verb::Mark(text) => ask(|shared| shared.windows.ask_mark(clock::mono(), text)),
        };
        // Whoever asks can compare it with the process that it means.
        answer
            .unwrap_or_else(Answer::error)
            .with("collector", env!("CARGO_PKG_VERSION"))
            .with("pid", std::process::id())
            .with("start_ticks", own.start)
    }

    fn start(&mut self, start: &Start) -> Result<Answer, String> {
        let options = &self.context.options;
        if options.out.is_none() {
            return Err("STAGE2_OUT is not set: a window would leave no trace file; start the process with \
                        STAGE2_OUT=FOLDER"
                .to_owned());
        }
        match state::phase() {
            Phase::On | Phase::Dormant => {}
            Phase::Idle => {
                return Err("the collector is starting; ask again in a moment".to_owned());
            }
            _ => return Err("the process is ending, or the collector has failed".to_owned()),
        }
        let has_gpu = state::shared().is_some_and(|shared| shared.gpu().is_some());
        if options.graph == Graph::Graph && !has_gpu {
            return Err(LATE_GRAPHS.to_owned());
        }
        if start.counters && !options.gpu {
            return Err(format!("{GPU_OFF}: without CUPTI there are no hardware counters"));
        }
        let at = start.at_unix_us.map(moment).transpose()?;
        let wanted = self.wanted(start)?;
        let shared = (self.context.share)(options)
            .map_err(|why| format!("nothing can be recorded: {why}"))?;
        let asked =
            shared.windows.ask_start(wanted, start.counters, start.host_hz, at, start.limits);
        let mut answer = accepted(shared, asked)?;
        if let Some(at) = start.at_unix_us {
            answer = answer.with("at_unix_us", at);
        }
        Ok(if options.gpu { answer.with("note", START_COST) } else { answer })
    }

    /// What a window is to record; `None`: what the environment says.
    fn wanted(&mut self, start: &Start) -> Result<Option<&'static WindowFilter>, String> {
        if start.ranges.is_none() && start.sample.is_none() {
            return Ok(None);
        }
        let options = &self.context.options;
        let ranges = match start.ranges.as_deref() {
            None => options.ranges.clone(),
            Some("*") => RangeFilter::default(),
            Some(globs) => RangeFilter::parse(globs).ok_or(
                "ranges takes 1 to 30 comma-separated globs name[@domain], e.g. prefill,decode*@llm",
            )?,
        };
        let sample = start.sample.unwrap_or(options.sample);
        let known = |wanted: &&&WindowFilter| wanted.ranges == ranges && wanted.sample == sample;
        if let Some(wanted) = self.known.iter().find(known) {
            return Ok(Some(wanted));
        }
        if self.known.len() == WANTED {
            return Err(format!(
                "{WANTED} different pairs of ranges= and sample= were asked for in this process: use one of \
                 them again"
            ));
        }
        let wanted = Box::leak(Box::new(WindowFilter::new(ranges, sample, state::window_bits())));
        self.known.push(wanted);
        Ok(Some(wanted))
    }

    fn status(&self) -> Answer {
        let options = &self.context.options;
        let shared = state::shared();
        let standing = shared.map(|shared| shared.windows.standing()).unwrap_or_default();
        let phase = match (state::phase(), standing.stage) {
            (Phase::Stopping | Phase::Ended | Phase::Forked, _) => "ended",
            (Phase::Idle, _) | (_, Stage::Starting) => "starting",
            (_, Stage::On) => "on",
            (_, Stage::Stopping) => "stopping",
            (_, Stage::None) => "dormant",
        };
        let mut answer = Answer::ok()
            .with("phase", phase)
            .with("windows", standing.windows)
            .with("cupti", self.cupti(shared));
        if !standing.since.is_zero() {
            answer = answer.with("since_unix_ms", standing.since.as_millis());
        }
        let refused = || Some(shared?.gpu.get()?.as_ref().err()?.to_string());
        if let Some(off) = standing.gpu_off.or_else(refused) {
            answer = answer.with("cupti_off", off);
        }
        if matches!(phase, "on" | "starting" | "stopping") {
            answer = answer.with("window", standing.windows);
            let limits = &standing.limits;
            for (name, limit) in
                [("for_ms", limits.for_ms), ("steps", limits.steps), ("size", limits.size)]
            {
                answer = limit.into_iter().fold(answer, |answer, limit| answer.with(name, limit));
            }
            if let Some(late) = standing.late {
                answer = answer.with("late_us", late.as_micros());
            }
            answer = standing.file.iter().fold(answer, |answer, file| answer.with("file", file));
        }
        if let Some(step) = standing.first_step {
            answer = answer
                .with("first_step_unix_us", step.opened.0 / 1000)
                .with("first_step_us", step.ns / 1000);
        }
        // While a window is on, its own numbers stand in the counters.
        let (mut records, mut lost) = (standing.records, standing.lost);
        if let Some(shared) =
            shared.filter(|_| matches!(standing.stage, Stage::On | Stage::Stopping))
        {
            let counters = &shared.counters;
            let now = (counters.attributed.get() + counters.unattributed.get(), counters.lost());
            answer = answer.with("window_records", now.0).with("window_lost", now.1);
            (records, lost) = (records + now.0, lost + now.1);
        }
        answer = answer.with("records", records).with("lost", lost);
        answer =
            standing.done.iter().fold(answer, |answer, done| answer.with("done", words_of(done)));
        let out = options.out.as_ref().map(|out| out.display().to_string());
        let all = options.ranges.is_everything();
        let ranges = if all { "*".to_owned() } else { options.ranges.to_string() };
        answer
            .with("option.start", if options.start { "on" } else { "off" })
            .with("option.out", out.unwrap_or_default())
            .with("option.ranges", ranges)
            .with("option.sample", format!("1/{}", options.sample))
            .with("option.graph", if options.graph == Graph::Node { "node" } else { "graph" })
            .with(
                "option.attribution",
                match options.attribution {
                    Attribution::Auto => "auto",
                    Attribution::Fence => "fence",
                    Attribution::Callback => "callback",
                },
            )
            .with("option.counters", if options.counters.off { "off" } else { "on" })
            .with("option.flush_ms", options.flush.as_millis())
    }

    fn cupti(&self, shared: Option<&Shared>) -> &'static str {
        match shared.and_then(|shared| shared.gpu.get()) {
            Some(Ok(_)) => "on",
            Some(Err(_)) => "off",
            None if !self.context.options.gpu => "off",
            None => "not started",
        }
    }
}

/// A time of the clock of the day as a moment of this machine.
fn moment(unix_us: u64) -> Result<Moment, String> {
    let (wall, mono) = (clock::wall(), clock::mono());
    let at = WallNs(unix_us.saturating_mul(1000));
    let ahead = at.0.saturating_sub(wall.0);
    if u128::from(ahead) > MOST_AHEAD.as_nanos() {
        return Err("at_unix_us is more than 24 hours ahead: ask again on the day".to_owned());
    }
    let past = wall.0.saturating_sub(at.0);
    let mono = MonoNs(mono.0.saturating_add(ahead).saturating_sub(past));
    Ok(Moment { wall: at, mono })
}

fn words_of(done: &Done) -> String {
    let mut words = format!(
        "number={} began_unix_ms={} ended_unix_ms={} records={} lost={} why={}",
        done.number,
        done.began.as_millis(),
        done.ended.as_millis(),
        done.records,
        done.lost,
        escape(&done.why)
    );
    if let Some(file) = &done.file {
        words.push_str(&format!(" file={}", escape(file)));
    }
    words
}

/// Asks the drain thread for something.
fn ask(ask: impl FnOnce(&Shared) -> Result<u64, Refusal>) -> Result<Answer, String> {
    let shared = shared()?;
    accepted(shared, ask(shared))
}

fn shared() -> Result<&'static Shared, String> {
    state::shared().ok_or_else(|| Refusal::NotOn.to_string())
}

/// Wakes the drain thread for what was asked of it, unless that was refused.
fn accepted(shared: &Shared, window: Result<u64, Refusal>) -> Result<Answer, String> {
    let window = window.map_err(|refusal| refusal.to_string())?;
    shared.wake_drain();
    Ok(Answer::ok().with("said", "accepted").with("window", window))
}

fn flush() -> Result<Answer, String> {
    let shared = shared()?;
    let number = shared.windows.ask_flush().map_err(|refusal| refusal.to_string())?;
    shared.wake_drain();
    let until = Instant::now() + FLUSH_PATIENCE;
    while shared.windows.flushes_done() < number {
        if Instant::now() >= until {
            return Ok(Answer::ok().with("said", "accepted"));
        }
        futex::nap(STEP);
    }
    Ok(Answer::ok().with("said", "done"))
}

/// Someone is about to send a signal.
fn ending(signal: i32) -> Result<Answer, String> {
    let shared = state::shared().filter(|_| state::phase() == Phase::On);
    // A program may wait for a signal that its main thread puts off.
    let put_off = || last_thread::blocks_in_main_thread(signal);
    match shared.filter(|_| signal_mask::ends_process(signal) && !put_off()) {
        Some(shared) => {
            let wake = || shared.wake_drain();
            let done = shared.farewell.announce(EndedBy::Signal(signal), ENDING_PATIENCE, wake);
            Ok(Answer::ok().with("said", if done { "done" } else { "accepted" }))
        }
        None => flush(),
    }
}
