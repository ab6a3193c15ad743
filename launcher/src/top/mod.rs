//! What processes do now -> a page of text, and a screen that shows it.

mod page;

use std::ffi::OsStr;
use std::io::{self, ErrorKind, IsTerminal as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anstream::{AutoStream, ColorChoice};
pub(crate) use page::ProcessOrder;
use page::{
    State, UNCUT, View, chosen_row, goes_on, is_over, keep_stage, kernels, only, page,
    show_neighbour, stages,
};
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, poll, read};
use ratatui::widgets::Paragraph;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use signal_hook::consts::SIGTSTP;
use stage2_contract::text::{visible, visible_path};
use stage2_model::RunState;

use crate::bundle::{RUN_JSON, RunRecord};
use crate::cli::TopArgs;
use crate::failure::Failure;
use crate::live_source::{LiveSource, ProcessStatus, STEP, Stop, TICK, now_ns};
use crate::terminal::width;

/// Size of a page of plain text, unless the terminal or the variable COLUMNS has another width, or LINES another height.
/// Where there is neither, a program reads it, and no name is cut.
const COLUMNS: usize = 80;
const LINES: usize = 24;
/// More than a page has rows: as many kernels, stages and processes as are kept.
const ALL_LINES: usize = 16_384;
/// Processes that have a row in so many lines.
const FEW_PROCESSES: usize = 2;

/// What a failure of another command of this program begins with.
const ERROR: &str = "stage2-launch: error: ";
const HINT: &str = "\nstage2-launch: hint: ";

/// A message goes after this time, unless what it tells of still goes on.
const SAID_FOR: Duration = Duration::from_secs(10);

/// Runs `stage2-launch top`: one page, pages as plain text, or a screen that goes on.
pub(crate) fn top(args: TopArgs) -> Result<u8, Failure> {
    let mut watched = LiveSource::open(args.watching)?;
    let state = State { processes_by: args.order, ..State::default() };
    if args.once {
        watched.read_all();
        watched.require_traces()?;
        watched.require_answer()?;
        watched.require_tokens()?;
        return show(&watched, state, ALL_LINES).map(|_| 0);
    }
    let stop = Stop::on_signals()?;
    let dumb = std::env::var_os("TERM").is_none_or(|kind| kind == "dumb" || kind.is_empty());
    let is_screen = io::stdout().is_terminal() && io::stdin().is_terminal();
    if args.plain || dumb || !is_screen {
        watched.read_first(|| !stop.is_set());
        watched.require_traces()?;
        watched.require_answer()?;
        while !stop.is_set() {
            let began = Instant::now();
            watched.tick();
            // Nothing would change any more on the pages that follow.
            let ends = is_over(&look(&watched, State::default(), true));
            if ends {
                watched.read_while(|| !stop.is_set());
            }
            if !show(&watched, state.clone(), LINES)? || ends {
                break;
            }
            stop.await_tick(began);
        }
        return Ok(0);
    }
    watched.read_alone()?;
    watched.require_traces()?;
    run_screen(&mut watched, state, &stop).map_err(|error| {
        Failure::NoResult(format!("the terminal cannot be used: {error}; try --plain"))
    })?;
    if watched.is_busy() {
        let folder = watched.making().unwrap_or_default();
        let _ = writeln!(io::stderr(), "making the report in {folder} ... (Ctrl-C gives it up)");
        if let Some(said) = watched.await_background(&stop) {
            let _ = writeln!(io::stderr(), "{said}");
        }
        // Keys that were pressed meanwhile are not for the shell.
        let _ = nix::sys::termios::tcflush(io::stdin(), nix::sys::termios::FlushArg::TCIFLUSH);
    }
    Ok(0)
}

/// Prints one page; false where nothing reads on.
fn show(watched: &LiveSource, state: State, lines: usize) -> Result<bool, Failure> {
    let view = look(watched, state, true);
    // Each host that does not answer, and what is wrong, has lines of its own.
    // All processes have a row.
    let rows = view.look.processes.len().saturating_sub(FEW_PROCESSES);
    let wanted = std::env::var("LINES").ok().and_then(|lines| lines.parse().ok());
    let lines = wanted.filter(|lines| (1..=ALL_LINES).contains(lines)).unwrap_or(lines);
    let height = lines + rows + 2 * view.look.problems.len();
    let columns = if io::stdout().is_terminal() { COLUMNS } else { UNCUT };
    let mut lines: Vec<String> = page(&view, width(&io::stdout()).unwrap_or(columns), height)
        .iter()
        .map(|line| line.to_string().trim_end().to_owned())
        .collect();
    // The last line says which keys there are.
    lines.pop();
    lines.retain(|line| !line.is_empty());
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{}\n", lines.join("\n")).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::NoResult(format!("stdout cannot be written: {error}"))),
    }
}

/// Shows the page until the user or `stop` ends it. The terminal is as before then, also after a panic.
fn run_screen(watched: &mut LiveSource, state: State, stop: &Stop) -> io::Result<()> {
    let mut terminal = ratatui::try_init()?;
    let result: io::Result<()> = (|| {
        let mut view = look(watched, state, false);
        let (mut next, stdin) = (Instant::now(), io::stdin());
        let mut last = (None, Instant::now());
        while !stop.is_set() {
            if Instant::now() >= next {
                let is_new = watched.tick();
                let is_current = is_new && !view.look.is_reading && !view.look.catches_up;
                next = Instant::now() + if is_current { TICK / 2 } else { STEP };
                if view.state.frozen {
                    view.frozen_ns = now_ns().saturating_sub(view.now_ns);
                } else {
                    let row = chosen_row(&view);
                    let state = std::mem::take(&mut view.state);
                    view = look(watched, state, false);
                    // One that begins may have a row above.
                    keep_stage(&mut view, row);
                }
                if let Some(said) = watched.said.take() {
                    view.state.said = Some(said);
                }
            }
            if view.state.said != last.0 {
                last = (view.state.said.clone(), Instant::now());
            }
            let is_late = last.1.elapsed() >= SAID_FOR;
            let goes = |said: &String| !goes_on(said) && (is_late || watched.is_outdated(said));
            view.state.said.take_if(|said| goes(said));
            terminal.draw(|frame| {
                let area = frame.area();
                let lines = page(&view, area.width.into(), area.height.into());
                frame.render_widget(Paragraph::new(lines), area);
            })?;
            // Not by crossterm, whose reading never returns once the terminal is gone.
            let mut wanted = [PollFd::new(&stdin, PollFlags::IN)];
            let limit = Timespec::try_from(STEP).ok();
            // A signal ends it early; the loop looks at `stop`.
            let _ = rustix::event::poll(&mut wanted, limit.as_ref());
            let [stdin] = wanted;
            if stdin.revents().intersects(PollFlags::HUP | PollFlags::ERR) {
                break;
            }
            // One reading may hold several keys. A change of the size is taken at once: where a key comes with it, crossterm
            // forgets that there is one.
            while poll(Duration::ZERO)? {
                let Event::Key(key) = read()? else { continue };
                if is_control(key, 'z') {
                    ratatui::try_restore()?;
                    signal_hook::low_level::emulate_default_handler(SIGTSTP)?;
                    terminal = ratatui::try_init()?;
                } else if !obey(key, &mut view, watched) {
                    return Ok(());
                }
            }
        }
        Ok(())
    })();
    // The panic hook that `try_init` sets does the same. `restore`, and the end of `terminal`, say what fails
    // on stderr: where that is the terminal that is gone, to say it panics.
    let _ = terminal.show_cursor();
    let _ = ratatui::try_restore();
    std::mem::forget(terminal);
    match result {
        Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => Ok(()),
        result => result,
    }
}

fn look(watched: &LiveSource, state: State, is_text: bool) -> View {
    let phases = watched.standings.iter().map(|standing| (standing.pid, standing.phase.clone()));
    let mut view = View {
        name: watched.title.clone(),
        look: watched.look_at_all(),
        phases: phases.collect(),
        now_ns: now_ns(),
        state,
        has_colour: AutoStream::choice(&io::stdout()) != ColorChoice::Never,
        is_text,
        empty_targets: watched.empty_targets().into_iter().map(|(name, _)| name.clone()).collect(),
        ended: None,
        runs: watched.standings.iter().filter_map(named_run).collect(),
        ..View::default()
    };
    view.tokens_set = watched.tokens_set();
    // A stage may begin later.
    view.look.problems.extend(watched.unknown_tokens(&view.look));
    if is_over(&view) && !view.look.is_reading {
        view.ended = Some(what_next(watched, !is_text));
        view.has_report = !reports_of(watched).is_empty();
        // A report is of all windows.
        if !view.look.processes.iter().any(|process| process.window.is_last) {
            view.reported_tokens = watched.reported_tokens(&reports_of(watched));
        }
    }
    view
}

/// A process, and the name of its run.
fn named_run(of: &ProcessStatus) -> Option<(u32, String)> {
    Some((of.pid, visible(of.run.as_ref()?.file_name()?.as_bytes())))
}

/// The reports of runs that have ended: their own ones, or the one that `w` wrote.
fn reports_of(watched: &LiveSource) -> Vec<PathBuf> {
    let of_runs = watched.reports();
    if of_runs.is_empty() { watched.made.iter().cloned().collect() } else { of_runs }
}

/// What there is to do with a run that has ended.
fn what_next(watched: &LiveSource, has_keys: bool) -> String {
    let reports: Vec<String> = reports_of(watched).iter().map(|path| visible_path(path)).collect();
    let is_one = watched.runs().len() < 2;
    // A path comes last: people copy it.
    let next = match (reports.as_slice(), has_keys && !watched.files().is_empty()) {
        ([report], _) => format!("report: {report}"),
        ([one, two], _) => format!("reports: {one} {two}"),
        ([.., last], _) => format!("{} reports, the last one: {last}", reports.len()),
        ([], _) if let Some(next) = own_report(watched) => next,
        ([], true) if is_one => "press w to write its report".to_owned(),
        ([], true) => "w writes one report of all runs".to_owned(),
        ([], false) => "`stage2-launch merge` writes its report".to_owned(),
    };
    format!("Ended; {next}")
}

/// For so long after the end of a run its launcher may still write the report.
const REPORTING: Duration = Duration::from_mins(10);

/// Where a run that has ended gets its report, if it is the only one and was recorded by a launcher: another bundle of it
/// would be a second one.
fn own_report(watched: &LiveSource) -> Option<String> {
    let runs = watched.runs();
    let run = runs.first().filter(|_| runs.len() == 1)?;
    let record = RunRecord::read(run).ok().filter(|record| !record.dormant)?;
    let command = format!("`stage2-launch report {}`", visible_path(run));
    // A launcher that was killed leaves the same record.
    let files = watched.files().iter().map(|(path, _)| path.clone()).chain([run.join(RUN_JSON)]);
    let written = files.filter_map(|path| path.metadata().and_then(|of| of.modified()).ok()).max();
    let is_old = written.and_then(|at| at.elapsed().ok()).is_some_and(|age| age > REPORTING);
    let goes_on = record.state != RunState::Closed && !is_old;
    Some(match goes_on {
        true => {
            format!("its launcher writes the report. If the launcher was killed, run {command}")
        }
        false => format!("{command} writes the report"),
    })
}

/// Of the text that names are looked for.
const FILTER_CHARS: usize = 60;

/// Lines by which PgUp and PgDn scroll the help.
const HELP_LINES: usize = 10;

fn is_control(key: KeyEvent, letter: char) -> bool {
    key.code == KeyCode::Char(letter) && key.modifiers.contains(KeyModifiers::CONTROL)
}

/// Does what a key says; false where it ends the program.
fn obey(key: KeyEvent, view: &mut View, watched: &mut LiveSource) -> bool {
    if key.kind == KeyEventKind::Release {
        return true;
    }
    if is_control(key, 'c') {
        return false;
    }
    let state = &mut view.state;
    if state.help {
        let beyond = view.help_beyond.get();
        let above = state.help_above.min(beyond);
        state.help_above = match key.code {
            KeyCode::Up | KeyCode::Char('k') => above.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => (above + 1).min(beyond),
            KeyCode::PageUp => above.saturating_sub(HELP_LINES),
            KeyCode::PageDown => (above + HELP_LINES).min(beyond),
            _ => {
                state.help = false;
                0
            }
        };
        // Where all of it fits, any key goes back.
        state.help &= beyond > 0;
        return true;
    }
    // What a key began is told until its outcome is.
    state.said.take_if(|said| !goes_on(said));
    if let Some(switch) = state.asked.take() {
        match key.code {
            KeyCode::Char('y') => watched.switch(switch),
            _ => watched.said = Some("nothing was changed".to_owned()),
        }
        state.said = watched.said.take();
        return true;
    }
    if state.types {
        match key.code {
            KeyCode::Enter => state.types = false,
            KeyCode::Esc => (state.types, state.filter) = (false, String::new()),
            KeyCode::Backspace => drop(state.filter.pop()),
            KeyCode::Char(letter) if state.filter.chars().count() < FILTER_CHARS => {
                state.filter.push(letter);
            }
            _ => {}
        }
        (state.chosen, state.above) = (0, 0);
        return true;
    }
    match key.code {
        KeyCode::Char('q') => return false,
        KeyCode::Char('/') => state.types = true,
        KeyCode::Esc => {
            state.filter.clear();
            (state.chosen, state.above) = (0, 0);
        }
        KeyCode::Char('?' | 'h') | KeyCode::F(1) => state.help = true,
        KeyCode::Char('o') => state.processes_by = state.processes_by.next(),
        KeyCode::Char('t') => state.kernels_by = state.kernels_by.next(),
        KeyCode::Char('f') => state.frozen = !state.frozen,
        KeyCode::Up | KeyCode::Char('k') => {
            (state.chosen, state.above) = (state.chosen.saturating_sub(1), 0);
        }
        KeyCode::Down | KeyCode::Char('j') => {
            (state.chosen, state.above) = (state.chosen.saturating_add(1), 0);
        }
        KeyCode::PageUp => {
            let above = view.kernels_above.get().min(state.above);
            state.above = above.saturating_sub(view.kernels_shown.get());
        }
        KeyCode::PageDown => {
            let above = state.above.saturating_add(view.kernels_shown.get());
            view.state.above = above.min(kernels(view).saturating_sub(1));
        }
        KeyCode::Left | KeyCode::Right => {
            show_neighbour(view, key.code == KeyCode::Right);
        }
        KeyCode::Char('s') => {
            let only = only(view).map(|of| of.pid);
            view.state.asked = watched.possible_switch(only);
        }
        KeyCode::Char('w') => write_bundle(watched, view.ended.is_some()),
        KeyCode::Char(_) if state.said.is_none() => state.said = Some("? for help".to_owned()),
        _ => {}
    }
    view.state.chosen = view.state.chosen.min(stages(view).saturating_sub(1));
    view.state.said = watched.said.take().or(view.state.said.take());
    true
}

const HAS_REPORT: &str = "no new report: the run already has one";

/// Writes what is there so far as a bundle. After the end of a run that has a report, another one would be the same.
fn write_bundle(watched: &mut LiveSource, is_over: bool) {
    if is_over && !reports_of(watched).is_empty() {
        // The line below names it.
        watched.said = Some(HAS_REPORT.to_owned());
        return;
    }
    let with_data = watched.files().iter().filter(|(_, bytes)| *bytes > 0);
    let files: Vec<PathBuf> = with_data.map(|(path, _)| path.clone()).collect();
    let name = format!("stage2-top-{}", jiff::Zoned::now().strftime("%Y%m%d-%H%M%S"));
    if let Some(folder) = watched.making() {
        watched.said = Some(format!("the report in {folder} is still being made"));
        return;
    }
    if files.is_empty() {
        let why = match watched.look().hosts {
            Some(_) => "the trace files are on other hosts: nothing can be written here",
            None => "there is nothing to write yet",
        };
        watched.said = Some(why.to_owned());
        return;
    }
    // The page names the only run already.
    let of = match watched.runs().len() {
        0 | 1 => String::new(),
        _ => format!(", the report of {}", watched.title),
    };
    watched.in_background(&visible_path(Path::new(&name)), move || {
        let (said, report) = save(&files, Path::new(&name), &of);
        (said, report.filter(|_| is_over))
    });
}

/// Makes a bundle at `folder`, which must not be there yet, and says in one line what came of it, and where
/// the report is. Another process makes it: what it prints does not belong on the page, and keys are obeyed meanwhile.
fn save(files: &[PathBuf], folder: &Path, of: &str) -> (String, Option<PathBuf>) {
    let report = folder.join("report.html");
    match merge(files, folder) {
        Ok(()) => (format!("wrote {}{of}", visible_path(&report)), Some(report)),
        Err(why) => (format!("{} could not be written: {why}", folder.display()), None),
    }
}

fn merge(files: &[PathBuf], folder: &Path) -> anyhow::Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["merge", "-q", "--allow-empty", "--live"]);
    let spools = files.iter().flat_map(|file| [OsStr::new("--spool"), file.as_os_str()]);
    let merged = command.args(spools).arg("-o").arg(folder).stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&merged.stderr).replace(HINT, "; ");
    let last = said.lines().rfind(|line| !line.trim().is_empty());
    let last = last.map(|last| last.strip_prefix(ERROR).unwrap_or(last));
    let why = last.map_or_else(|| merged.status.to_string(), str::to_owned);
    anyhow::ensure!(merged.status.success(), why);
    Ok(())
}

#[cfg(test)]
mod tests {
    use stage2_live::Watched;

    use super::*;
    use crate::cli::WatchOptions;
    use crate::live_source::{COLLECTOR, Switch};

    #[test]
    fn keys_do_what_the_page_says() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a.s2t");
        std::fs::write(&file, "").expect("a file");
        let targets = file.to_str().map(str::to_owned).into_iter().collect();
        let wanted = WatchOptions { all: false, tokens: Vec::new(), targets };
        let mut watched = LiveSource::open(wanted).expect("a file");
        let mut view = View::default();
        let mut press =
            |code| obey(KeyEvent::new(code, KeyModifiers::NONE), &mut view, &mut watched);
        assert!(press(KeyCode::Char('?')) && press(KeyCode::Char('q')), "the help goes, no more");
        assert!(press(KeyCode::Char('f')) && press(KeyCode::Down) && press(KeyCode::Up));
        assert!(press(KeyCode::Char('s')));
        assert!(!press(KeyCode::Char('q')));
        assert!(view.state.frozen && !view.state.help && view.state.chosen == 0);
        assert_eq!(view.state.said, None, "a key takes the last message away");
        obey(KeyEvent::new(KeyCode::Char('s'), KeyModifiers::NONE), &mut view, &mut watched);
        assert!(view.state.said.as_ref().is_some_and(|said| said.contains("answers on this host")));
        let end = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert!(!obey(end, &mut view, &mut watched));
    }

    #[test]
    fn letters_go_to_the_filter_until_it_is_done() {
        let folder = tempfile::tempdir().expect("a folder");
        let targets = folder.path().to_str().map(str::to_owned).into_iter().collect();
        let wanted = WatchOptions { all: false, tokens: Vec::new(), targets };
        let mut watched = LiveSource::open(wanted).expect("a folder");
        let mut view = View::default();
        let mut press = |code| {
            assert!(obey(KeyEvent::new(code, KeyModifiers::NONE), &mut view, &mut watched));
            (view.state.types, view.state.filter.clone())
        };
        "/qz".chars().for_each(|letter| drop(press(KeyCode::Char(letter))));
        assert_eq!(press(KeyCode::Backspace), (true, "q".to_owned()));
        assert_eq!(press(KeyCode::Enter), (false, "q".to_owned()));
        assert_eq!(press(KeyCode::Esc), (false, String::new()));
        press(KeyCode::Char('/'));
        press(KeyCode::Char('f'));
        assert_eq!(press(KeyCode::Esc), (false, String::new()));
        assert!(!view.state.frozen);
    }

    #[test]
    fn the_arrow_keys_scroll_a_help_that_does_not_fit() {
        let folder = tempfile::tempdir().expect("a folder");
        let targets = folder.path().to_str().map(str::to_owned).into_iter().collect();
        let wanted = WatchOptions { all: false, tokens: Vec::new(), targets };
        let mut watched = LiveSource::open(wanted).expect("a folder");
        let mut view = View { state: State { help: true, ..State::default() }, ..View::default() };
        page(&view, 60, 20);
        let mut press = |code| {
            assert!(obey(KeyEvent::new(code, KeyModifiers::NONE), &mut view, &mut watched));
            (view.state.help, view.state.help_above)
        };
        assert_eq!([KeyCode::Down, KeyCode::Char('j')].map(&mut press), [(true, 1), (true, 2)]);
        assert_eq!(press(KeyCode::Up), (true, 1));
        for _ in 0..9 {
            press(KeyCode::PageDown);
        }
        let (_, last) = press(KeyCode::Down);
        assert!(last > 10 && press(KeyCode::Down) == (true, last));
        assert_eq!(press(KeyCode::Char('q')), (false, 0));
    }

    #[test]
    fn a_run_that_has_ended_and_has_a_report_gets_no_second_one() {
        let run = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(run.path().join(COLLECTOR)).expect("a folder");
        std::fs::write(run.path().join("collector/a.s2t"), "").expect("a file");
        let targets = run.path().to_str().map(str::to_owned).into_iter().collect();
        let wanted = WatchOptions { all: false, tokens: Vec::new(), targets };
        let mut watched = LiveSource::open(wanted).expect("a run");
        let mut said = |is_over: bool| {
            write_bundle(&mut watched, is_over);
            watched.said.take().unwrap_or_default()
        };
        assert_eq!(said(true), "there is nothing to write yet");
        std::fs::write(run.path().join("report.html"), "").expect("a file");
        assert_eq!(said(true), HAS_REPORT);
        assert_eq!(said(false), "there is nothing to write yet", "it goes on");
        // One report at a time.
        watched.in_background("there", || ("wrote there".to_owned(), None));
        assert_eq!(watched.said.take().as_deref(), Some("making the report in there ..."));
        write_bundle(&mut watched, false);
        let still = "the report in there is still being made";
        assert_eq!(
            (watched.said.take().as_deref(), watched.making()),
            (Some(still), Some("there"))
        );
    }

    /// Hazard (Watching what runs): A run has just ended, and the advice leads to a second bundle of it.
    /// Promise: As long as its launcher may write the report, the page says so; later it names the command that writes it
    ///  into the same folder.
    #[test]
    fn a_run_whose_launcher_writes_the_report_gets_no_other_advice() {
        let run = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(run.path().join(COLLECTOR)).expect("a folder");
        let file = run.path().join("collector/a.s2t");
        std::fs::write(&file, "").expect("a file");
        let targets = run.path().to_str().map(str::to_owned).into_iter().collect();
        let wanted = WatchOptions { all: false, tokens: Vec::new(), targets };
        let mut watched = LiveSource::open(wanted).expect("a run");
        watched.read_all();
        assert_eq!(what_next(&watched, false), "Ended; `stage2-launch merge` writes its report");
        let write = |state: RunState| {
            let record = RunRecord { state, ..RunRecord::new("a".into(), vec!["b".into()]) };
            record.write(run.path()).expect("a record");
        };
        let command = format!("`stage2-launch report {}`", visible_path(run.path()));
        for state in [RunState::Running, RunState::Reporting] {
            write(state);
            let next = format!(
                "Ended; its launcher writes the report. If the launcher was killed, run {command}"
            );
            assert_eq!([true, false].map(|keys| what_next(&watched, keys)), [next.clone(), next]);
        }
        let later = format!("Ended; {command} writes the report");
        let long_ago = std::time::SystemTime::now() - 2 * REPORTING;
        for path in [file, run.path().join(RUN_JSON)] {
            let file = std::fs::File::options().append(true).open(path).expect("a file");
            file.set_modified(long_ago).expect("a time");
        }
        assert_eq!(what_next(&watched, true), later);
        write(RunState::Closed);
        assert_eq!(what_next(&watched, true), later);
    }

    /// Hazard (Watching what runs): One of several targets has failed, and the page shows only the others.
    /// Promise: It names the one of which there is nothing.
    #[test]
    fn a_target_without_processes_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/sample/vllm_sorting");
        let open = |all: &[&Path]| {
            let targets = all.iter().filter_map(|path| path.to_str()).map(str::to_owned).collect();
            let wanted = WatchOptions { all: false, tokens: Vec::new(), targets };
            let mut watched = LiveSource::open(wanted).expect("folders");
            watched.read_all();
            let view = look(&watched, State::default(), false);
            page(&view, 80, 24).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        };
        let none = ": no process runs there, and there is no trace file";
        let shown = open(&[&sample, folder.path()]);
        let name = folder.path().file_name().expect("a name").to_string_lossy();
        assert!(shown.contains(&format!("{name}{none}")), "{shown}");
        // The other one has a report.
        assert!(shown.contains("Ended; report: "), "{shown}");
        assert!(!open(&[&sample]).contains(none));
        std::fs::copy(sample.join("run.json"), folder.path().join("run.json")).expect("a file");
        std::fs::write(folder.path().join("a.s2t"), "").expect("a file");
        assert!(!open(&[&sample, folder.path()]).contains(none));
    }

    /// Hazard (Watching what runs): A stray key would stop the recording of all processes, or attach CUPTI to them.
    /// Promise: It asks first.
    #[test]
    fn recording_starts_and_stops_only_where_a_second_key_says_so() {
        let folder = tempfile::tempdir().expect("a folder");
        let targets = folder.path().to_str().map(str::to_owned).into_iter().collect();
        let wanted = WatchOptions { all: false, tokens: Vec::new(), targets };
        let mut watched = LiveSource::open(wanted).expect("a folder");
        for (phases, asked, doing) in [
            (["on", "dormant"], Switch::Stop([7].into()), "stopping the recording ..."),
            (["dormant", "dormant"], Switch::Start([7, 8].into()), "starting the recording ..."),
        ] {
            watched.standings =
                vec![ProcessStatus::of(7, phases[0]), ProcessStatus::of(8, phases[1])];
            let mut view = View::default();
            let mut press = |code| {
                let key = KeyEvent::new(KeyCode::Char(code), KeyModifiers::NONE);
                assert!(obey(key, &mut view, &mut watched));
                (view.state.asked.clone(), view.state.said.clone().unwrap_or_default())
            };
            assert_eq!(press('s'), (Some(asked), String::new()));
            assert_eq!(press('n'), (None, "nothing was changed".to_owned()));
            assert_eq!(press('y'), (None, "? for help".to_owned()), "no question is open");
            press('s');
            assert_eq!(press('y'), (None, doing.to_owned()));
        }
        // One that is shown alone is meant alone.
        watched.standings = [7, 8].map(|pid| ProcessStatus::of(pid, "on")).to_vec();
        let mut view = View::default();
        view.look.processes = [7, 8, 9].map(|pid| Watched { pid, ..Watched::default() }).to_vec();
        let mut asked = |only: Option<u32>| {
            view.state.only = only.map(|pid| (String::new(), pid));
            let key = KeyEvent::new(KeyCode::Char('s'), KeyModifiers::NONE);
            obey(key, &mut view, &mut watched);
            (view.state.asked.take(), view.state.said.take().unwrap_or_default())
        };
        assert_eq!(asked(None).0, Some(Switch::Stop([7, 8].into())));
        assert_eq!(asked(Some(8)).0, Some(Switch::Stop([8].into())));
        let none =
            "process 9 does not answer on this host, so its recording cannot be started or stopped";
        assert_eq!(asked(Some(9)), (None, none.to_owned()));
        // Whether it has ended is known from its trace file.
        let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/sample/vllm_sorting");
        let targets = sample.to_str().map(str::to_owned).into_iter().collect();
        let wanted = WatchOptions { all: false, tokens: Vec::new(), targets };
        let mut ended = LiveSource::open(wanted).expect("a run");
        ended.read_all();
        let pid = ended.look().processes[0].pid;
        for (only, said) in [
            (Some(pid), format!("process {pid} has ended")),
            (None, "all processes have ended".to_owned()),
        ] {
            assert_eq!((ended.possible_switch(only), ended.said.take()), (None, Some(said)));
        }
    }

    /// Hazard (Watching what runs): One of several dormant processes is to be recorded.
    /// Promise: It has a row, can be chosen, and is started alone.
    #[test]
    fn one_dormant_process_of_several_can_be_started() {
        let folder = tempfile::tempdir().expect("a folder");
        let targets = folder.path().to_str().map(str::to_owned).into_iter().collect();
        let wanted = WatchOptions { all: false, tokens: Vec::new(), targets };
        let mut watched = LiveSource::open(wanted).expect("a folder");
        watched.read_all();
        watched.standings = [7, 8].map(|pid| ProcessStatus::of(pid, "dormant")).to_vec();
        let mut view = look(&watched, State::default(), false);
        let shown: Vec<String> = page(&view, 80, 24).iter().map(ToString::to_string).collect();
        assert!(shown[0].contains("  2 processes, 2 dormant  no data yet"), "{shown:#?}");
        let rows = shown.iter().filter(|line| line.contains(" dormant   ")).count();
        assert_eq!(rows, 2, "{shown:#?}");
        assert!(!shown.iter().any(|line| line.contains("NO WORK")), "{shown:#?}");
        for key in [KeyCode::Right, KeyCode::Right, KeyCode::Char('s')] {
            obey(KeyEvent::new(key, KeyModifiers::NONE), &mut view, &mut watched);
        }
        assert_eq!(view.state.asked, Some(Switch::Start([8].into())));
        assert!(watched.look().processes.is_empty(), "`feed` tells of what is recorded");
        // One that is recorded has a row before its file is open, as `s` would stop it.
        let targets = folder.path().to_str().map(str::to_owned).into_iter().collect();
        let wanted = WatchOptions { all: false, tokens: Vec::new(), targets };
        let mut watched = LiveSource::open(wanted).expect("a folder");
        watched.standings = vec![ProcessStatus::of(9, "on")];
        let view = look(&watched, State::default(), false);
        let shown: Vec<String> = page(&view, 80, 24).iter().map(ToString::to_string).collect();
        assert!(shown[0].contains("1 process  "), "{shown:#?}");
        assert!(shown.iter().any(|line| line.contains("  9 ") && line.contains(" recording ")));
    }
}
