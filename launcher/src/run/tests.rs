//! Passes without processes: what a workload gets to see, and what is written down about it.

use super::*;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::mpsc::Sender;

use super::child::Process;
use crate::bundle::{Inputs, RunFolder, RunRecord};
use crate::plan::Limits;
use crate::terminal::Verbosity;

/// A process that obeys a script and notes what it was sent.
struct Actor {
    events: Sender<Event>,
    flushes: Cell<usize>,
    stage: Stage,
}

impl Process for Actor {
    fn flush_page(&self) -> Option<OsString> {
        Some("/proc/1/fd/3:7".into())
    }
    fn flush(&self) {
        self.flushes.set(self.flushes.get() + 1);
    }
    fn signal(&self, signal: Signal) -> io::Result<()> {
        let mut received = self.stage.received.borrow_mut();
        assert!(self.flushes.get() > received.len(), "each after a flush");
        received.push(signal);
        if self.stage.dies_of.contains(&signal) {
            let _ = self.events.send(Event::Exited);
        }
        Ok(())
    }
    fn in_our_group(&self) -> bool {
        self.stage.in_our_group
    }
    fn reap(self: Box<Self>) -> io::Result<(WorkloadExit, Vec<Finding>)> {
        let last = self.stage.received.borrow().last().copied();
        let exit = match last.filter(|signal| self.stage.dies_of.contains(signal)) {
            Some(signal) => WorkloadExit::Signal(signal as i32),
            None => self.stage.exit,
        };
        Ok((exit, Vec::new()))
    }
}

/// What happens on the stage.
#[derive(Clone)]
struct Stage {
    /// Events after the start, in order.
    script: Vec<Event>,
    dies_of: Vec<Signal>,
    in_our_group: bool,
    exit: WorkloadExit,
    refuses: bool,
    received: Rc<RefCell<Vec<Signal>>>,
}

impl Spawner for Stage {
    fn spawn(&self, _: &Pass, events: Sender<Event>) -> Result<Box<dyn Process>, NotRunnable> {
        if self.refuses {
            let why = "there is no such program";
            return Err(NotRunnable::new(127, "no-such: command not found", why, ""));
        }
        for event in &self.script {
            events.send(*event).expect("somebody listens");
        }
        Ok(Box::new(Actor { events, flushes: Cell::new(0), stage: self.clone() }))
    }
}

struct NoSignals;
impl SignalSource for NoSignals {
    fn deliver_to(&self, _: Option<Sender<Event>>) {}
}

fn stage(script: &[Event]) -> Stage {
    Stage {
        script: script.to_vec(),
        dies_of: vec![Signal::SIGKILL],
        in_our_group: true,
        exit: WorkloadExit::Code(0),
        refuses: false,
        received: Rc::default(),
    }
}

fn sent(signal: Signal, from_terminal: bool) -> Event {
    Event::Signal { signal, from_terminal }
}

struct Played {
    exit: u8,
    received: Vec<Signal>,
    record: RunRecord,
    stop: Option<String>,
}

fn play(stage: Stage, timeout_ms: Option<u64>) -> Played {
    play_before(stage, timeout_ms, Vec::new())
}

/// A collect pass, and the passes after it.
fn play_before(stage: Stage, timeout_ms: Option<u64>, after: Vec<Pass>) -> Played {
    let dir = tempfile::tempdir().expect("folder");
    let run_dir = dir.path().join("run");
    let pass = Pass {
        name: "collect",
        argv: vec![OsString::from("workload")],
        limits: Limits {
            timeout: timeout_ms.map(Duration::from_millis),
            grace: Duration::from_millis(20),
            bytes: None,
        },
        ..Pass::default()
    };
    let plan = Plan {
        run_dir: run_dir.clone(),
        passes: std::iter::once(pass).chain(after).collect(),
        hook: None,
        keep_going: false,
        names: Default::default(),
        findings: Vec::new(),
    };
    let folder = RunFolder::Given(run_dir.clone())
        .create(&crate::bundle::Access::default())
        .expect("run folder");
    let mut record = RunRecord::new("run".into(), vec!["workload".into()]);
    record.passes = plan.passes.iter().map(planned).collect();
    let inputs = Inputs::new(&plan.passes[0].argv, Path::new("/"), None);
    let mut bundle = Bundle::start(&folder, record, inputs, String::new()).expect("bundle");
    let terminal = Terminal::new(Verbosity::Quiet);
    let passed = run_passes(&plan, &mut bundle, &stage, &NoSignals, &terminal);
    let record = RunRecord::read(&run_dir).expect("run.json");
    let received = stage.received.borrow().clone();
    Played { exit: passed.exit, received, record, stop: passed.stop }
}

#[test]
fn the_exit_status_is_the_workloads() {
    for (exit, status) in [
        (WorkloadExit::Code(0), 0),
        (WorkloadExit::Code(3), 3),
        (WorkloadExit::Code(255), 255),
        (WorkloadExit::Signal(11), 139),
    ] {
        let played = play(Stage { exit, ..stage(&[Event::Exited]) }, None);
        assert_eq!(played.exit, status);
        assert_eq!(played.record.workload_exit, Some(exit));
        let expected = if status == 0 { PassStatus::Ok } else { PassStatus::WorkloadFailed };
        assert_eq!(played.record.passes[0].status, expected);
        let why = &played.record.passes[0].why;
        assert_eq!(status == 0, why.is_empty(), "{why}");
        assert!(played.record.passes[0].duration_ms.is_some() && played.record.findings.is_empty());
    }
}

#[test]
fn signals_of_others_are_handed_on_and_the_terminals_are_not_doubled() {
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGINT] {
        let played = play(Stage { dies_of: vec![signal], ..stage(&[sent(signal, false)]) }, None);
        assert_eq!(played.received, [signal]);
        assert_eq!(played.exit, 128 + signal as u8);
        assert!(played.record.passes[0].why.contains(signal.as_str()));
        assert_eq!(played.record.passes[0].status, PassStatus::Interrupted);
    }
    // A server that ends in order when it is asked to has not failed.
    let orderly = play(stage(&[sent(Signal::SIGTERM, false), Event::Exited]), None);
    assert_eq!((orderly.exit, orderly.record.passes[0].status), (0, PassStatus::Ok));
    let script = [sent(Signal::SIGINT, true), Event::Exited];
    assert_eq!(play(stage(&script), None).received, []);
    let elsewhere = Stage { in_our_group: false, ..stage(&script) };
    assert_eq!(play(elsewhere, None).received, [Signal::SIGINT], "the terminal does not reach it");
}

#[test]
fn a_second_interrupt_kills() {
    let played = play(stage(&[sent(Signal::SIGINT, true), sent(Signal::SIGINT, true)]), None);
    assert_eq!(played.received, [Signal::SIGKILL]);
    assert_eq!(played.exit, 137);
    let mixed = [sent(Signal::SIGTERM, false), sent(Signal::SIGINT, false)];
    assert_eq!(play(stage(&mixed), None).received, [Signal::SIGTERM, Signal::SIGKILL]);
    let other_way = [sent(Signal::SIGINT, false), sent(Signal::SIGTERM, false), Event::Exited];
    assert_eq!(play(stage(&other_way), None).received, [Signal::SIGINT, Signal::SIGTERM]);
}

#[test]
fn a_workload_that_got_a_sigint_from_elsewhere_was_interrupted() {
    let exit = WorkloadExit::Signal(2);
    let played = play(Stage { exit, ..stage(&[Event::Exited]) }, None);
    let pass = &played.record.passes[0];
    assert_eq!((played.exit, pass.status), (130, PassStatus::Interrupted));
    assert_eq!(pass.why, "interrupted (SIGINT)");
    assert!(!played.record.failed_by_itself());
}

#[test]
fn an_interrupted_run_stays_interrupted_when_its_time_runs_out() {
    let played = play(stage(&[sent(Signal::SIGINT, false)]), Some(10));
    assert_eq!(played.received, [Signal::SIGINT, Signal::SIGTERM, Signal::SIGKILL]);
    assert_eq!((played.exit, played.stop.as_deref()), (EXIT_TIMEOUT, Some(INTERRUPTED)));
    let why = &played.record.passes[0].why;
    assert!(why.contains("ended the workload") && why.contains("interrupted by SIGINT"), "{why}");
    assert_eq!(play(stage(&[]), Some(10)).stop, None);
}

#[test]
fn time_runs_out_in_two_steps() {
    let played = play(Stage { dies_of: vec![Signal::SIGTERM], ..stage(&[]) }, Some(10));
    assert_eq!((played.exit, played.received), (EXIT_TIMEOUT, vec![Signal::SIGTERM]));
    assert_eq!(played.record.workload_exit, Some(WorkloadExit::Signal(15)));
    assert_eq!(played.record.passes[0].status, PassStatus::TimedOut);
    assert!(played.record.findings[0].what.contains("ended the workload"));
    let stubborn = play(stage(&[]), Some(10));
    assert_eq!(stubborn.received, [Signal::SIGTERM, Signal::SIGKILL]);
    assert_eq!(stubborn.exit, EXIT_TIMEOUT);
}

#[test]
fn a_workload_that_does_not_end_stops_the_run_and_advises_nothing_that_cannot_help() {
    let nsys = Pass {
        name: "nsys",
        argv: vec![OsString::from("nsys")],
        profiler: Some(crate::plan::Profiler {
            kind: Kind::Nsys(Box::new(crate::tools::nsys::config::tests::default())),
            workload: vec![OsString::from("workload")],
            folder: "/nowhere".into(),
            around: Default::default(),
            notes: Vec::new(),
        }),
        ..Pass::default()
    };
    let played = play_before(Stage { dies_of: vec![], ..stage(&[]) }, Some(10), vec![nsys]);
    assert_eq!(played.received, [Signal::SIGTERM, Signal::SIGKILL]);
    assert_eq!(played.exit, EXIT_TIMEOUT);
    assert_eq!(played.stop.as_deref(), Some("the workload of the collect pass does not end"));
    let said: Vec<String> = played.record.findings.iter().map(ToString::to_string).collect();
    assert!(said[0].contains("not even by SIGKILL"), "{said:?}");
    assert!(!said.iter().any(|finding| finding.contains("--keep-going")), "{said:?}");
    assert_eq!(Some(&*played.record.passes[1].why), played.stop.as_deref());
}

#[test]
fn what_cannot_be_started_is_a_failed_pass() {
    let played = play(Stage { refuses: true, ..stage(&[]) }, None);
    assert_eq!(played.exit, 127);
    assert_eq!(played.record.passes[0].status, PassStatus::Failed);
    assert_eq!(played.record.workload_exit, None);
    assert!(played.record.findings[0].what.contains("no-such"));
}
