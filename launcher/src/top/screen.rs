//! The page on a terminal, and keys.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, poll, read};
use ratatui::widgets::Paragraph;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::page::{State, View, page, stages};
use super::snapshot;
use crate::live_source::LiveSource;

/// Between two looks.
const TICK: Duration = Duration::from_secs(1);
/// How long a signal may take to be noticed.
const STEP: Duration = Duration::from_millis(100);

/// Shows the page until the user ends it, or `stop` is set. The terminal is what it was then, also after
/// a panic.
pub(crate) fn run(watched: &mut LiveSource, stop: &Arc<AtomicBool>) -> io::Result<()> {
    let mut terminal = ratatui::try_init()?;
    let result: io::Result<()> = (|| {
        let mut view = View { name: watched.name.clone(), ..View::default() };
        let (mut next, stdin) = (Instant::now(), io::stdin());
        while !stop.load(Ordering::Relaxed) {
            if Instant::now() >= next {
                next = Instant::now() + TICK;
                watched.tick();
                if !view.state.frozen {
                    let state = std::mem::take(&mut view.state);
                    view = look(watched, state);
                }
                if let Some(said) = watched.said.take() {
                    view.state.said = Some(said);
                }
            }
            terminal.draw(|frame| {
                let area = frame.area();
                let lines = page(&view, area.width.into(), area.height.into());
                frame.render_widget(Paragraph::new(lines), area);
            })?;
            // Not by crossterm: it reads a terminal that is gone for ever, and never returns.
            let mut wanted = [PollFd::new(&stdin, PollFlags::IN)];
            let limit = Timespec::try_from(STEP).ok();
            let _ = rustix::event::poll(&mut wanted, limit.as_ref());
            let [stdin] = wanted;
            if stdin.revents().intersects(PollFlags::HUP | PollFlags::ERR) {
                break;
            }
            // One reading may hold several keys.
            while !stdin.revents().is_empty() && poll(Duration::ZERO)? {
                if let Event::Key(key) = read()?
                    && !obey(key, &mut view, watched)
                {
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

/// What there is to show now.
pub(crate) fn look(watched: &LiveSource, state: State) -> View {
    let now = crate::clock::since_1970();
    let phases = watched.standings.iter().map(|standing| (standing.pid, standing.phase.clone()));
    View {
        name: watched.name.clone(),
        look: watched.watch.look(),
        phases: phases.collect(),
        now_ns: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX),
        state,
    }
}

/// Does what a key says; false where it ends the program.
fn obey(key: KeyEvent, view: &mut View, watched: &mut LiveSource) -> bool {
    if key.kind == KeyEventKind::Release {
        return true;
    }
    if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
        return false;
    }
    if view.state.help {
        view.state.help = false;
        return key.code != KeyCode::Char('q');
    }
    let state = &mut view.state;
    state.said = None;
    if std::mem::take(&mut state.stops) {
        match key.code {
            KeyCode::Char('y') => watched.switch(),
            _ => watched.said = Some("recording goes on".to_owned()),
        }
        state.said = watched.said.take();
        return true;
    }
    match key.code {
        KeyCode::Char('q') => return false,
        KeyCode::Char('?' | 'h') => state.help = true,
        KeyCode::Char('f') => state.frozen = !state.frozen,
        KeyCode::Up | KeyCode::Char('k') => state.chosen = state.chosen.saturating_sub(1),
        KeyCode::Down | KeyCode::Char('j') => state.chosen = state.chosen.saturating_add(1),
        KeyCode::Char('s') => match watched.recording() {
            0 => watched.switch(),
            some => {
                state.stops = true;
                let word = if some == 1 { "process" } else { "processes" };
                state.said =
                    Some(format!("stop recording of {some} {word}? y: stop, any other key: no"));
            }
        },
        KeyCode::Char('w') => write(watched),
        _ => {}
    }
    view.state.chosen = view.state.chosen.min(stages(view).saturating_sub(1));
    view.state.said = watched.said.take().or(view.state.said.take());
    true
}

/// Writes what was read so far as a bundle.
fn write(watched: &mut LiveSource) {
    let files: Vec<(PathBuf, u64)> = watched.watch.files().collect();
    let name = format!("stage2-top-{}", jiff::Zoned::now().strftime("%Y%m%d-%H%M%S"));
    let folder = PathBuf::from(name);
    if files.iter().all(|(_, bytes)| *bytes == 0) {
        watched.said = Some("there is nothing to write yet".to_owned());
        return;
    }
    watched.in_background("the report is being made", move || snapshot::save(&files, &folder));
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::cli::Watching;
    use crate::live_source::Standing;

    #[test]
    fn keys_do_what_the_page_says() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a.s2t");
        std::fs::write(&file, "").expect("a file");
        let target = file.to_str().map(str::to_owned);
        let wanted = Watching { all: false, tokens: Vec::new(), target };
        let mut watched = LiveSource::open(wanted).expect("a file");
        let mut view = View::default();
        let mut press =
            |code| obey(KeyEvent::new(code, KeyModifiers::NONE), &mut view, &mut watched);
        assert!(press(KeyCode::Char('?')) && press(KeyCode::Char('x')));
        assert!(press(KeyCode::Char('f')) && press(KeyCode::Down) && press(KeyCode::Up));
        assert!(press(KeyCode::Char('s')));
        assert!(!press(KeyCode::Char('q')));
        assert!(view.state.frozen && !view.state.help && view.state.chosen == 0);
        assert_eq!(view.state.said, None, "a key takes the last message away");
        obey(KeyEvent::new(KeyCode::Char('s'), KeyModifiers::NONE), &mut view, &mut watched);
        assert!(view.state.said.as_ref().is_some_and(|said| said.contains("no socket")));
        let end = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert!(!obey(end, &mut view, &mut watched));
    }

    /// Hazard (Watching what runs): A stray key would stop the recording of all processes.
    /// Promise: It asks first.
    #[test]
    fn recording_stops_only_where_a_second_key_says_so() {
        let folder = tempfile::tempdir().expect("a folder");
        let target = folder.path().to_str().map(str::to_owned);
        let wanted = Watching { all: false, tokens: Vec::new(), target };
        let mut watched = LiveSource::open(wanted).expect("a folder");
        watched.standings = vec![Standing::of(7, "on"), Standing::of(8, "dormant")];
        let mut view = View::default();
        let mut press = |code| {
            assert!(obey(
                KeyEvent::new(KeyCode::Char(code), KeyModifiers::NONE),
                &mut view,
                &mut watched
            ));
            view.state.said.clone().unwrap_or_default()
        };
        assert!(press('s').starts_with("stop recording of 1 process?"));
        assert_eq!(press('n'), "recording goes on");
        assert_eq!(press('y'), "", "no question is open");
        press('s');
        assert_eq!(press('y'), "stop was asked for");
    }
}
