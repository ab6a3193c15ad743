//! Processes, runs, folders, files and ports -> their trace files, followed, and their control sockets, asked.
//!
//! Sockets are asked on their own thread: a process that is stopped would hold a screen up. What is
//! asked is `status`, which costs the guest nothing; nobody asks it to flush, which would hold up launches.

mod ports;
mod targets;
mod tokens;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use stage2_contract::control::{Answer, Start, Verb};
use stage2_contract::order::IntoOrdered as _;
use stage2_contract::text::numbers::counted;
use stage2_contract::text::{instead, visible};
use stage2_live::{FileState, Look, Options, Source, Watch, Watched, rank_in};
use stage2_model::TokenCounts;

use crate::bundle::{newest_below, refuse_dormant, window_bundles};
use crate::cli::WatchOptions;
use crate::control::{
    AskError, ControlSocket, DoneWindow, Target, ask, find, since_1970, together, variable_of,
};
use crate::failure::Failure;
use crate::threads;
pub(crate) use ports::PATH as LIVE_PATH;
use ports::{HOSTS, Port};
use targets::{ALL_PROCESSES, Found, meant, no_process, only_live_run, run_of};
use tokens::ReportedTokens;

/// Between two readings of the trace files.
pub(crate) const TICK: Duration = Duration::from_secs(1);
/// Trace files that are read for longer are told; where nothing of them moves, their folder is slow.
const SLOW: Duration = Duration::from_secs(5);
/// How long a signal may take to be noticed.
pub(crate) const STEP: Duration = Duration::from_millis(100);
/// Where a run has its trace files.
pub(crate) const COLLECTOR: &str = "collector";
/// How long processes may take to start or stop before the page shows what they do instead.
const SWITCHING: Duration = Duration::from_secs(10);
/// Between two questions to the sockets.
const ASK_EVERY: Duration = Duration::from_secs(2);

/// A process that has a socket, and what it said last.
#[derive(Clone, Debug)]
pub(crate) struct ProcessStatus {
    pub(crate) pid: u32,
    /// As `ctl status` gives it; empty where it does not answer.
    pub(crate) phase: String,
    /// Its folder or file of traces, as it is reached from here; and those of windows that are over.
    file: Option<PathBuf>,
    done: Vec<(u64, PathBuf)>,
    /// As its job launcher says; only of one that is not recorded.
    rank: Option<u64>,
    /// The folder of its run, as the process names it.
    pub(crate) run: Option<PathBuf>,
}

#[cfg(test)]
impl ProcessStatus {
    /// A process without files.
    pub(crate) fn of(pid: u32, phase: &str) -> ProcessStatus {
        let phase = phase.to_owned();
        ProcessStatus { pid, phase, file: None, done: Vec::new(), rank: None, run: None }
    }
}

/// What `s` does, and in which processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Switch {
    Start(BTreeSet<u32>),
    Stop(BTreeSet<u32>),
}

/// What has become of a process that was asked to start or stop.
#[derive(PartialEq, Eq)]
enum Outcome {
    Done,
    Ended,
    /// Why it is neither, with its number.
    Other(String),
}

/// Whether a process in this phase is to be seen though it may have no trace file.
fn waits(phase: &str) -> bool {
    matches!(phase, "dormant" | "starting")
}

/// Whether a process in this phase is one that `s` stops.
pub(crate) fn records(phase: &str) -> bool {
    matches!(phase, "on" | "starting")
}

/// What is to be done in which processes.
type Request = (Verb, BTreeSet<u32>);

/// What the thread that asks tells.
enum News {
    Standings(Vec<ProcessStatus>),
    Said(String),
    /// The outcome of what went on in the background, and the report that it made.
    Done(String, Option<PathBuf>),
}

/// After a signal, what goes on in the background has so long to take its files away.
const CLEANING_UP: Duration = Duration::from_secs(5);

/// Trace files and sockets of what is watched.
pub(crate) struct LiveSource {
    files: Files,
    /// What was named, for people, and in short: the name of the folder of a run.
    pub(crate) name: String,
    pub(crate) title: String,
    /// The folders that were named, if nothing else was.
    folders: Vec<PathBuf>,
    /// Of several targets, the folders in which no process ran when we came: how they are called, and where they are.
    unused: Vec<(String, PathBuf)>,
    pub(crate) standings: Vec<ProcessStatus>,
    /// What came of the last request.
    pub(crate) said: Option<String>,
    /// What came of the last switch, and the processes that had a socket then.
    switched: Option<(String, BTreeSet<u32>)>,
    /// The report that was made last of all that there is.
    pub(crate) made: Option<PathBuf>,
    /// The last reports that were asked for their tokens per second.
    tokens: RefCell<Vec<ReportedTokens>>,
    /// What the settings of the runs state of their tokens.
    tokens_set: RefCell<Vec<(PathBuf, TokenCounts)>>,
    /// Stages whose payload is said to be their tokens.
    token_stages: Vec<String>,
    /// Windows that were over when we came, by process: they are not followed.
    before: BTreeMap<u32, BTreeSet<u64>>,
    news: Receiver<News>,
    requests: Option<Sender<Request>>,
    own_news: Sender<News>,
    /// The folder of the report that is made in the background.
    making: Option<String>,
    /// `feed` on other hosts.
    ports: Vec<Port>,
    /// The name of this host, as processes write it.
    host: String,
}

impl LiveSource {
    /// Finds what is meant; of a process at least its socket has to be there.
    pub(crate) fn open(watching: WatchOptions) -> Result<LiveSource, Failure> {
        let all = match (watching.all, watching.targets.as_slice()) {
            (true, _) => vec![Found::sockets(Target::All, ALL_PROCESSES.to_owned())],
            (false, []) => vec![only_live_run()?],
            (false, words) => words.iter().map(|word| meant(word)).collect::<Result<_, _>>()?,
        };
        let name = match all.as_slice() {
            [only] => only.name.clone(),
            all => format!("{} targets", all.len()),
        };
        // In the order of their rows.
        let titles: BTreeSet<String> = all.iter().map(Found::title).into_set();
        let title = titles.into_iter().collect::<Vec<_>>().join(", ");
        let addresses: Vec<_> = all.iter().filter_map(|found| found.port.clone()).collect();
        if addresses.len() > HOSTS {
            let many = format!("{} ports are more than {HOSTS}; ", addresses.len());
            return Err(Failure::Usage(format!(
                "{many}have the hosts write into one folder, and name that"
            )));
        }
        let ports = addresses.into_iter().map(Port::ask).collect::<Result<Vec<Port>, Failure>>()?;
        let targets: Vec<Target> = all.iter().filter_map(|found| found.target.clone()).collect();
        let folders = all.iter().map(|found| match &found.target {
            Some(Target::Run(folder)) => Some(folder.clone()),
            _ => None,
        });
        let folders = folders.collect::<Option<Vec<_>>>().unwrap_or_default();
        let unused = |found: &Found| match &found.target {
            Some(target @ Target::Run(folder))
                if find(target).map_or(true, |all| all.is_empty()) =>
            {
                Some((found.title(), folder.clone()))
            }
            _ => None,
        };
        let unused =
            if all.len() > 1 { all.iter().filter_map(unused).collect() } else { Vec::new() };
        let sources = all.into_iter().flat_map(|found| found.sources).collect();
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let (own_news, news) = mpsc::channel();
        let token_stages = watching.tokens.clone();
        let mut watched = LiveSource {
            token_stages,
            files: Files::of(sources, Options { tokens_in_payload: watching.tokens }),
            name,
            title,
            host: visible(host.trim().as_bytes()),
            folders,
            unused,
            ports,
            standings: Vec::new(),
            said: None,
            switched: None,
            made: None,
            tokens: RefCell::default(),
            tokens_set: RefCell::default(),
            before: BTreeMap::new(),
            news,
            requests: None,
            own_news: own_news.clone(),
            making: None,
        };
        if !targets.is_empty() {
            let mut all = Vec::new();
            for target in &targets {
                // The folder of a run that is over has files and no socket.
                match (find(target), target) {
                    (Ok(found), _) => all.extend(found),
                    (Err(_), Target::Run(_)) => {}
                    (Err(error), _) => return Err(error.into()),
                }
            }
            watched.learn(standings(&all));
            let (requests, inbox) = mpsc::channel();
            watched.requests = Some(requests);
            std::thread::Builder::new()
                .spawn(move || answer_for(&targets, &inbox, &own_news))
                .map_err(|error| threads::refused(&error))?;
        }
        Ok(watched)
    }

    /// All processes as they are now, with those that wait for a start and have no trace file.
    pub(crate) fn look_at_all(&self) -> Look {
        let mut look = self.look();
        // Until its first part is read, a trace file does not say whose it is.
        for of in &self.standings {
            let name = of.file.as_deref().and_then(Path::file_name);
            let is_its = |process: &&mut Watched| {
                process.pid == 0 && name.is_some() && Path::new(&process.file).file_name() == name
            };
            if let Some(process) = look.processes.iter_mut().find(is_its) {
                (process.host, process.pid) = (self.host.clone(), of.pid);
            }
        }
        let known: BTreeSet<u32> = look.processes.iter().map(|of| of.pid).into_set();
        // Before the files are open, each that records has a row as well: a key acts on it.
        let has_row = |of: &&ProcessStatus| {
            let is_unread = records(&of.phase) && !self.files.is_read;
            (waits(&of.phase) || is_unread) && !known.contains(&of.pid)
        };
        look.processes.extend(self.standings.iter().filter(has_row).map(|of| Watched {
            host: self.host.clone(),
            pid: of.pid,
            rank: of.rank,
            ..Watched::default()
        }));
        look.sort();
        look
    }

    /// All processes as they are now, on all hosts.
    pub(crate) fn look(&self) -> Look {
        let here = self.files.look();
        if self.ports.is_empty() {
            return here;
        }
        let asked: Vec<(bool, String, Look)> = self.ports.iter().map(Port::look).collect();
        let answer = asked.iter().filter(|(answers, ..)| *answers).count();
        let parts = asked.into_iter().map(|(_, name, look)| (name, look));
        let mut look = Look::of_all(parts.chain([(String::new(), here)]));
        look.hosts = Some((answer as u64, self.ports.len() as u64));
        look
    }

    /// From here on a thread reads the files: a shared folder that hangs would hold a screen up.
    pub(crate) fn read_alone(&mut self) -> Result<(), Failure> {
        let Some(mut watch) = self.files.watch.take() else { return Ok(()) };
        watch.newest_first();
        self.files.more.drain(..).for_each(|source| watch.add(source));
        let (more, sources) = mpsc::channel();
        let (tell, is_read) = mpsc::channel();
        let thread = std::thread::Builder::new().name("files".to_owned());
        thread
            .spawn(move || keep_reading(&mut watch, &sources, &tell))
            .map_err(|error| threads::refused(&error))?;
        // The first page shows what is there, unless that takes long.
        let first = is_read.recv_timeout(TICK).ok();
        self.files.reader = Some((more, is_read));
        self.files.take(first);
        Ok(())
    }

    /// Where nothing is a trace and nothing runs that could write one, there is nothing to watch.
    pub(crate) fn require_traces(&mut self) -> Result<(), Failure> {
        if !self.files.is_read {
            self.tick();
        }
        // A folder that hangs may have some.
        if !self.files.is_read || !self.ports.is_empty() || !self.standings.is_empty() {
            return Ok(());
        }
        let all = &self.files.look.processes;
        let unreadable = |process: &Watched| match &process.state {
            FileState::Unreadable(why) => Some(visible(why.as_bytes())),
            _ => None,
        };
        let why: Option<Vec<String>> = all.iter().map(unreadable).collect();
        match why.as_ref().map(|why| why.last()) {
            None => Ok(()),
            Some(Some(why)) => Err(Failure::Usage(why.clone())),
            Some(None) if self.name == ALL_PROCESSES => Err(no_process()),
            // Of a process that was named, nothing is known if its socket is silent.
            Some(None) if !Path::new(&self.name).exists() => Err(Failure::Usage(format!(
                "{} does not answer: it ends now, or is stopped; name the folder of its run or its trace file{}",
                self.name,
                newest_below(Path::new("."), &[])
            ))),
            Some(None) => refuse_dormant(Path::new(&self.name)).and(Err(Failure::Usage(format!(
                "no trace file (HOST-PID.s2t) is in {}, and no process writes there now; name a process, the folder of a run, or a trace file{}",
                self.name,
                newest_below(Path::new(&self.name), &[])
            )))),
        }
    }

    /// That a stage whose payload is said to be its tokens is not there, once stages are known.
    pub(crate) fn unknown_tokens(&self, look: &Look) -> Option<String> {
        let all = look.processes.iter().flat_map(|process| process.totals.keys());
        let known: BTreeSet<&str> =
            all.map(String::as_str).filter(|name| !name.starts_with('(')).collect();
        let known = Vec::from_iter(known);
        let is_unknown = |stage: &&String| !known.contains(&stage.as_str());
        let stage = self.token_stages.iter().find(is_unknown)?;
        let shown = visible(stage.as_bytes());
        let text = format!("--tokens: no stage is called `{shown}`{}", instead(stage, &known));
        (!known.is_empty() && !look.is_reading && !look.catches_up).then_some(text)
    }

    /// [`Self::unknown_tokens`] as an error.
    pub(crate) fn require_tokens(&self) -> Result<(), Failure> {
        self.unknown_tokens(&self.look()).map_or(Ok(()), |text| Err(Failure::Usage(text)))
    }

    /// Those of several targets that have no trace file, and in which no process runs.
    pub(crate) fn empty_targets(&self) -> Vec<&(String, PathBuf)> {
        let is_in = |folder: &Path, file: &Path| {
            file.starts_with(folder)
                || folder.canonicalize().is_ok_and(|real| file.starts_with(real))
        };
        let followed = self.files().iter().map(|(path, _)| path);
        let files: Vec<&PathBuf> =
            followed.chain(self.standings.iter().filter_map(|of| of.file.as_ref())).collect();
        let is_empty = |folder: &Path| !files.iter().any(|file| is_in(folder, file));
        let empty = self.unused.iter().filter(|(_, folder)| self.files.is_read && is_empty(folder));
        empty.collect()
    }

    /// The files that are followed, with how far each is read.
    pub(crate) fn files(&self) -> &[(PathBuf, u64)] {
        &self.files.read
    }

    /// Reads what is new in the files, and what the sockets have answered meanwhile. False: the files are being read,
    /// and what is known of them is that of before.
    pub(crate) fn tick(&mut self) -> bool {
        self.take_news();
        self.files.tick()
    }

    fn take_news(&mut self) {
        while let Ok(news) = self.news.try_recv() {
            match news {
                News::Standings(standings) => self.learn(standings),
                News::Said(text) => {
                    self.switched = Some((text.clone(), self.pids()));
                    self.said = Some(text);
                }
                News::Done(text, made) => {
                    self.said = Some(text);
                    self.made = made.or(self.made.take());
                    self.making = None;
                }
            }
        }
    }

    /// Reads all that is there now, until what waits is final. What takes long tells stderr how far it is.
    pub(crate) fn read_all(&mut self) {
        self.read_while(|| true);
    }

    /// [`Self::read_all`], as long as `goes_on`.
    pub(crate) fn read_while(&mut self, goes_on: impl Fn() -> bool) {
        self.await_ports();
        self.take_news();
        let Some(watch) = &mut self.files.watch else { return };
        self.files.more.drain(..).for_each(|source| watch.add(source));
        watch.read_what_is_there(reported(goes_on));
        let seen = seen(watch);
        self.files.take(Some(seen));
    }

    /// Reads what is there now before it is followed. What takes long tells stderr how far it is.
    pub(crate) fn read_first(&mut self, goes_on: impl Fn() -> bool) {
        if let Some(watch) = &mut self.files.watch {
            watch.read_first(reported(goes_on));
        }
        self.tick();
    }

    fn await_ports(&self) {
        let began = Instant::now();
        while began.elapsed() < ports::PATIENCE && !self.ports.iter().all(Port::was_asked) {
            std::thread::sleep(STEP);
        }
    }

    /// Where all that is watched is on other hosts, one of them has to answer.
    pub(crate) fn require_answer(&self) -> Result<(), Failure> {
        if self.ports.is_empty() || !self.files.read.is_empty() || !self.standings.is_empty() {
            return Ok(());
        }
        self.await_ports();
        let look = self.look();
        match look.hosts {
            Some((0, _)) if look.problems.is_empty() => {
                Err(Failure::NoResult(format!("{} does not answer", self.name)))
            }
            Some((0, _)) => Err(Failure::NoResult(look.problems.join(", and "))),
            _ => Ok(()),
        }
    }

    fn learn(&mut self, standings: Vec<ProcessStatus>) {
        for standing in &standings {
            let done = || standing.done.iter().map(|&(number, _)| number).collect();
            let before = self.before.entry(standing.pid).or_insert_with(done);
            let new = standing.done.iter().filter(|(number, _)| !before.contains(number));
            let files = new.map(|(_, path)| path).chain(&standing.file);
            self.files.more.extend(files.map(|path| Source::File(path.clone())));
        }
        self.standings = standings;
    }

    fn pids(&self) -> BTreeSet<u32> {
        self.standings.iter().map(|of| of.pid).collect()
    }

    /// Whether this is what came of a switch, and a process has ended or begun since.
    pub(crate) fn is_outdated(&self, said: &str) -> bool {
        self.switched.as_ref().is_some_and(|(text, pids)| text == said && *pids != self.pids())
    }

    /// What the user may want now, in one process or in all: to stop those that record, if any does. `None`: none of
    /// them can be asked.
    pub(crate) fn possible_switch(&mut self, only: Option<u32>) -> Option<Switch> {
        let wanted = self.standings.iter().filter(|of| only.is_none_or(|pid| pid == of.pid));
        let all: BTreeSet<u32> = wanted.clone().map(|of| of.pid).collect();
        let on: BTreeSet<u32> = wanted.filter(|of| records(&of.phase)).map(|of| of.pid).collect();
        if self.requests.is_none() || all.is_empty() {
            let is_it = |of: &&Watched| only.is_none_or(|pid| pid == of.pid);
            let mut meant = self.files.look.processes.iter().filter(is_it).peekable();
            let has_ended = meant.peek().is_some()
                && meant.all(|of| of.is_gone || of.state == FileState::Ended);
            let (who, what) = match only {
                Some(pid) if has_ended => {
                    self.said = Some(format!("process {pid} has ended"));
                    return None;
                }
                None if has_ended => {
                    self.said = Some("all processes have ended".to_owned());
                    return None;
                }
                Some(pid) => (format!("process {pid} does not answer"), "its recording"),
                None => ("no process answers".to_owned(), "recording"),
            };
            let cannot = format!("{what} cannot be started or stopped");
            self.said = Some(format!("{who} on this host, so {cannot}"));
            return None;
        }
        Some(if on.is_empty() { Switch::Start(all) } else { Switch::Stop(on) })
    }

    /// Starts or stops recording in these processes.
    pub(crate) fn switch(&mut self, to: Switch) {
        let Some(requests) = &self.requests else { return };
        let (verb, pids, doing) = match to {
            Switch::Stop(pids) => (Verb::Stop, pids, "stopping"),
            Switch::Start(pids) => (Verb::Start(Start::default()), pids, "starting"),
        };
        self.said = Some(match requests.send((together(verb, pids.len()), pids)) {
            Ok(()) => format!("{doing} the recording ..."),
            Err(_) => "no process answers".to_owned(),
        });
    }

    /// The folders of the runs of which all or a part is watched; none where a file is of no run.
    pub(crate) fn runs(&self) -> BTreeSet<&Path> {
        if !self.folders.is_empty() {
            let empty = self.empty_targets();
            // They have no report, and get none.
            let has_some = |folder: &&PathBuf| !empty.iter().any(|(_, path)| path == *folder);
            return self.folders.iter().filter(has_some).map(|folder| run_of(folder)).collect();
        }
        let folders = self.files().iter().map(|(path, _)| path.parent());
        let is_of_run = |folder: &&Path| folder.ends_with(COLLECTOR);
        let all = folders.map(|folder| folder.filter(is_of_run)?.parent());
        all.collect::<Option<_>>().unwrap_or_default()
    }

    /// Of each report, its folder and the tokens per second by stage.
    pub(crate) fn reported_tokens(&self, reports: &[PathBuf]) -> Vec<ReportedTokens> {
        tokens::reported(&self.tokens, reports)
    }

    /// Of each run, its folder and what its settings state of its tokens.
    pub(crate) fn tokens_set(&self) -> Vec<(PathBuf, TokenCounts)> {
        tokens::set(&self.tokens_set, self.runs().iter().copied())
    }

    /// The reports of these runs, if each of them has one, or one for each of its windows.
    pub(crate) fn reports(&self) -> Vec<PathBuf> {
        let is_there = |folder: PathBuf| Some(folder.join("report.html")).filter(|of| of.is_file());
        let of_run = |run: &Path| match is_there(run.to_owned()) {
            Some(report) => vec![report],
            None => window_bundles(run).into_iter().filter_map(is_there).collect(),
        };
        let all: Vec<Vec<PathBuf>> = self.runs().into_iter().map(of_run).collect();
        if all.iter().any(Vec::is_empty) { Vec::new() } else { all.concat() }
    }

    /// Makes a report in `folder` on a thread of its own, and tells its outcome as that of a request, and the report.
    pub(crate) fn in_background(
        &mut self,
        folder: &str,
        work: impl FnOnce() -> (String, Option<PathBuf>) + Send + 'static,
    ) {
        self.said = Some(format!("making the report in {folder} ..."));
        self.making = Some(folder.to_owned());
        let tell = self.own_news.clone();
        // Nobody listens where the page is gone.
        threads::begin_alone(move || {
            let (text, made) = work();
            drop(tell.send(News::Done(text, made)));
        });
    }

    /// Whether something goes on in the background.
    pub(crate) fn is_busy(&self) -> bool {
        self.making.is_some()
    }

    /// The folder of the report that is being made.
    pub(crate) fn making(&self) -> Option<&str> {
        self.making.as_deref()
    }

    /// Waits for what goes on in the background, once a signal came only for what cleans up after itself; its outcome.
    pub(crate) fn await_background(&mut self, stop: &Stop) -> Option<String> {
        let mut signalled: Option<Instant> = None;
        while self.is_busy() && signalled.is_none_or(|at| at.elapsed() < CLEANING_UP) {
            std::thread::sleep(STEP);
            self.take_news();
            if stop.is_set() {
                signalled.get_or_insert_with(Instant::now);
            }
        }
        self.said.take()
    }
}

/// Processes, and how far each of their files is read.
type Seen = (Look, Vec<(PathBuf, u64)>);

/// Trace files, and what was seen of them last.
struct Files {
    /// Nothing where a thread reads them.
    watch: Option<Watch>,
    /// That thread takes files, and tells what it has seen.
    reader: Option<(Sender<Source>, Receiver<Seen>)>,
    look: Look,
    read: Vec<(PathBuf, u64)>,
    /// When that was.
    at: Instant,
    /// What that thread has got through, and since when it is as much.
    progress: Arc<AtomicU64>,
    moved: (u64, Instant),
    is_read: bool,
    /// To be followed, too.
    more: Vec<Source>,
}

impl Files {
    fn of(sources: Vec<Source>, options: Options) -> Files {
        let watch = Watch::new(sources, options);
        Files {
            progress: watch.progress(),
            moved: (0, Instant::now()),
            watch: Some(watch),
            reader: None,
            look: Look::default(),
            read: Vec::new(),
            at: Instant::now(),
            is_read: false,
            more: Vec::new(),
        }
    }

    /// Whether something was read since the last time.
    fn tick(&mut self) -> bool {
        let progress = self.progress.load(Ordering::Relaxed);
        if progress != self.moved.0 {
            self.moved = (progress, Instant::now());
        }
        let more = std::mem::take(&mut self.more).into_iter();
        let seen = match (&mut self.watch, &self.reader) {
            (Some(watch), _) => {
                more.for_each(|source| watch.add(source));
                watch.tick();
                Some(seen(watch))
            }
            (None, Some((sources, seen))) => {
                // It ends with this one.
                more.for_each(|source| drop(sources.send(source)));
                seen.try_iter().last()
            }
            (None, None) => None,
        };
        self.take(seen)
    }

    fn take(&mut self, seen: Option<Seen>) -> bool {
        let Some(seen) = seen else { return false };
        (self.look, self.read) = seen;
        (self.at, self.is_read) = (Instant::now(), true);
        true
    }

    fn look(&self) -> Look {
        let mut look = self.look.clone();
        look.is_reading |= !self.is_read;
        let ago = self.at.elapsed();
        if self.reader.is_some() && ago > SLOW {
            // The first line has the age of what is shown.
            look.problems.push(match self.moved.1.elapsed() > SLOW {
                true => {
                    let seconds = ago.as_secs();
                    format!("the folder of the trace files has not answered for {seconds} s")
                }
                false => "this host is busy, so the trace files are read slowly".to_owned(),
            });
        }
        look
    }
}

fn seen(watch: &Watch) -> Seen {
    (watch.look(), watch.files().collect())
}

/// Reads the files until nobody wants them any more: what is there already as fast as it can, then twice a
/// second.
fn keep_reading(watch: &mut Watch, sources: &Receiver<Source>, tell: &Sender<Seen>) {
    watch.catch_up();
    // Between two ticks, what came is read, too: the page is of what was written.
    let mut is_half = false;
    loop {
        let seen = seen(watch);
        let is_reading = seen.0.is_reading || seen.0.catches_up;
        if tell.send(seen).is_err() {
            return;
        }
        is_half = !is_half && !is_reading;
        if !is_reading {
            std::thread::sleep(TICK / 2);
        }
        sources.try_iter().for_each(|source| watch.add(source));
        match (is_reading, is_half) {
            (true, _) => watch.catch_up(),
            (false, true) => watch.read(),
            (false, false) => watch.tick(),
        }
    }
}

/// Tells stderr how far a reading is, if it takes long.
fn reported(goes_on: impl Fn() -> bool) -> impl FnMut(u64, u64) -> bool {
    let mut told = Instant::now();
    move |read, all| {
        if told.elapsed() >= SLOW {
            told = Instant::now();
            // It is only for people.
            let _ = writeln!(io::stderr(), "reading {} of {} MB ...", read >> 20, all >> 20);
        }
        goes_on()
    }
}

/// Whether a signal has asked this program to end.
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    pub(crate) fn on_signals() -> Result<Stop, Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, stop.clone())
                .map_err(|error| Failure::NoResult(format!("signals cannot be taken: {error}")))?;
        }
        Ok(Stop(stop))
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Waits until the tick that `began` then is over.
    pub(crate) fn await_tick(&self, began: Instant) {
        while began.elapsed() < TICK && !self.is_set() {
            std::thread::sleep(STEP);
        }
    }
}

/// Now, ns since the Unix epoch.
pub(crate) fn now_ns() -> u64 {
    u64::try_from(since_1970().as_nanos()).unwrap_or(u64::MAX)
}

/// Asks again and again, and hands requests on, until nobody listens any more.
fn answer_for(targets: &[Target], inbox: &Receiver<Request>, tell: &Sender<News>) -> Option<()> {
    loop {
        let request = match inbox.recv_timeout(ASK_EVERY) {
            Ok(request) => Some(request),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return None,
        };
        let found: Vec<ControlSocket> = targets.iter().flat_map(find).flatten().collect();
        let said = request.map(|(verb, pids)| {
            let outcomes = switched(&found, &verb, &pids);
            told(&verb, &outcomes)
        });
        // First, because what is said is outdated once they change.
        tell.send(News::Standings(standings(&found))).ok()?;
        if let Some(text) = said {
            tell.send(News::Said(text)).ok()?;
        }
    }
}

/// Asks these processes to start or stop, all before the first one is waited for.
fn switched(found: &[ControlSocket], verb: &Verb, pids: &BTreeSet<u32>) -> Vec<(u32, Outcome)> {
    let socket = |pid: u32| found.iter().find(|found| found.pid == pid);
    let ask_one = |&pid: &u32| (pid, socket(pid).map(|found| (found, ask(found, verb))));
    let asked: Vec<_> = pids.iter().map(ask_one).collect();
    let until = Instant::now() + SWITCHING;
    let outcomes = asked.into_iter().map(|(pid, asked)| match asked {
        Some((found, answer)) => (pid, outcome(found, answer, verb, until)),
        // Those that go on have their sockets.
        None => (pid, Outcome::Ended),
    });
    outcomes.collect()
}

/// What has become of a process that was asked: its answer says only that it will.
fn outcome(
    found: &ControlSocket,
    answer: Result<Answer, AskError>,
    verb: &Verb,
    until: Instant,
) -> Outcome {
    let pid = found.pid;
    let wanted = if *verb == Verb::Stop { "dormant" } else { "on" };
    let other = |text: &str| Outcome::Other(visible(format!("{pid}: {text}").as_bytes()));
    let wait = |answer: Answer| -> Result<Outcome, AskError> {
        if let Some(error) = answer.get("error") {
            return Ok(other(error));
        }
        loop {
            let phase = standing(pid, &ask(found, &Verb::Status)?).phase;
            match phase == wanted {
                true => return Ok(Outcome::Done),
                false if Instant::now() >= until => return Ok(other(&phase)),
                false => std::thread::sleep(STEP),
            }
        }
    };
    match answer.and_then(wait) {
        Ok(outcome) => outcome,
        Err(AskError::Stale { .. }) => Outcome::Ended,
        Err(AskError::Io { error, .. }) if error.kind() == ErrorKind::NotFound => Outcome::Ended,
        Err(error) => Outcome::Other(visible(error.to_string().as_bytes())),
    }
}

/// That in words: how many, and why not the others.
fn told(verb: &Verb, outcomes: &[(u32, Outcome)]) -> String {
    let done = if *verb == Verb::Stop { "stopped recording" } else { "recording" };
    let with = |of: Outcome| outcomes.iter().filter(|(_, outcome)| *outcome == of).count();
    let all = counted(outcomes.len() as u64, "process");
    let mut parts = match (outcomes, with(Outcome::Done), with(Outcome::Ended)) {
        ([(pid, Outcome::Done)], ..) => vec![format!("{done} process {pid}")],
        ([(pid, Outcome::Ended)], ..) => vec![format!("process {pid} has ended")],
        ([_], ..) => Vec::new(),
        (_, some, _) if some == outcomes.len() => vec![format!("{done} {all}")],
        (_, some, 0) => vec![format!("{done} {some} of {all}")],
        (_, some, 1) => vec![format!("{done} {some} of {all}"), "1 has ended".to_owned()],
        (_, some, ended) => vec![format!("{done} {some} of {all}"), format!("{ended} have ended")],
    };
    parts.extend(outcomes.iter().filter_map(|(_, outcome)| match outcome {
        Outcome::Other(why) => Some(why.clone()),
        Outcome::Done | Outcome::Ended => None,
    }));
    parts.join("; ")
}

fn standings(found: &[ControlSocket]) -> Vec<ProcessStatus> {
    let asked = |found: &ControlSocket| Some(standing(found.pid, &ask(found, &Verb::Status).ok()?));
    found.iter().filter_map(asked).collect()
}

fn standing(pid: u32, answer: &Answer) -> ProcessStatus {
    let done = answer.all("done").map(DoneWindow::parse);
    let done = done.filter_map(|done| Some((done.number()?, reached(pid, done.get("file")?))));
    let phase = visible(answer.get("phase").unwrap_or_default().as_bytes());
    let variable = |name: &str| {
        let value = variable_of(Path::new(&format!("/proc/{pid}")), format!("{name}=").as_bytes())?;
        value.into_string().ok()
    };
    ProcessStatus {
        pid,
        rank: if waits(&phase) { rank_in(variable) } else { None },
        phase,
        file: answer.get("file").map(|file| reached(pid, file)),
        run: answer.get("option.out").map(|out| run_of(Path::new(out)).to_owned()),
        done: done.collect(),
    }
}

/// A path of a process as it is reached from here: it may be in a container.
fn reached(pid: u32, path: &str) -> PathBuf {
    let path = Path::new(path);
    let inside =
        path.strip_prefix("/").map(|rest| PathBuf::from(format!("/proc/{pid}/root")).join(rest));
    match inside {
        Ok(inside) if !path.exists() && inside.exists() => inside,
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests;
