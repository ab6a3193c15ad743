//! `stage2-launch top`: what running processes do now.

use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::cli::TopArgs;
use crate::failure::Failure;
use crate::live_source::LiveSource;
use crate::top::{State, look, page, run};

/// Size of a page of plain text.
const COLUMNS: usize = 80;
const LINES: usize = 24;
const TICK: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(100);

/// `stage2-launch top`.
pub(crate) fn top(args: TopArgs) -> Result<u8, Failure> {
    let mut watched = LiveSource::open(args.watching)?;
    if args.once {
        // All that is there, and nothing of it is waited for any longer.
        for _ in 0..1_000 {
            watched.tick();
            if watched.watch.look().behind_bytes == 0 {
                break;
            }
        }
        (0..5).for_each(|_| watched.tick());
        return show(&watched).map(|_| 0);
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, stop.clone())
            .map_err(|error| Failure::NoResult(format!("signals cannot be taken: {error}")))?;
    }
    let dumb = std::env::var_os("TERM").is_none_or(|kind| kind == "dumb" || kind.is_empty());
    let is_screen = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    if args.plain || dumb || !is_screen {
        while !stop.load(Ordering::Relaxed) {
            let began = Instant::now();
            watched.tick();
            if !show(&watched)? {
                break;
            }
            while began.elapsed() < TICK && !stop.load(Ordering::Relaxed) {
                std::thread::sleep(STEP);
            }
        }
        return Ok(0);
    }
    run(&mut watched, &stop).map_err(|error| {
        Failure::NoResult(format!("the terminal cannot be used: {error}; try --plain"))
    })?;
    Ok(0)
}

/// Prints one page; false where nobody reads on.
fn show(watched: &LiveSource) -> Result<bool, Failure> {
    let view = look(watched, State::default());
    let mut lines: Vec<String> = page(&view, COLUMNS, LINES)
        .iter()
        .map(|line| line.to_string().trim_end().to_owned())
        .collect();
    // The last line says which keys there are.
    lines.pop();
    lines.retain(|line| !line.is_empty());
    let mut stdout = std::io::stdout().lock();
    let written = writeln!(stdout, "{}\n", lines.join("\n")).and_then(|()| stdout.flush());
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::NoResult(format!("stdout cannot be written: {error}"))),
    }
}
