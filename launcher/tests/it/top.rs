//! `top` on a terminal: what its keys do, and what it leaves behind.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::guest::Guest;
use crate::common::simulated::compile;
use crate::common::{LAUNCH, Sandbox, at_once, json, lossy};

/// Runs `top` on a terminal in this folder; gives how it ended and what it wrote.
fn on_a_terminal(
    (rows, columns): (u16, u16),
    keys: &str,
    awaited: &str,
    guest: &mut Command,
) -> String {
    let mut command = Command::new("python3");
    command
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/common/on_a_terminal.py"))
        .args([&rows.to_string(), &columns.to_string(), keys, awaited])
        .arg(guest.get_program())
        .args(guest.get_args())
        .env("NO_COLOR", "1");
    if let Some(folder) = guest.get_current_dir() {
        command.current_dir(folder);
    }
    for (name, value) in guest.get_envs() {
        command.env(name, value.expect("a value"));
    }
    let output = command.output().expect("python3");
    lossy(&output.stdout)
}

fn bundles_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path());
    entries.filter(|path| path.to_string_lossy().contains("stage2-top-")).collect()
}

/// Hazard (Watching what runs): `top` ends by a key or by a signal.
/// Promise: The terminal is what it was.
#[test]
fn a_terminal_is_left_as_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a.s2t"), "").expect("a trace that begins");
    let runs =
        [((24, 80), "?xjkfq"), ((1, 1), "?xjkfq"), ((5, 20), "SIGTERM"), ((24, 80), "?xjkf\u{3}")];
    at_once(runs, |(size, end)| {
        let mut top = Command::new(LAUNCH);
        top.arg("top").arg(folder.path());
        let written = on_a_terminal(size, end, "", &mut top);
        assert!(written.starts_with("status 0 same True"), "{size:?} {end:?}: {written:?}");
        let (entered, left) = (written.rfind("\u{1b}[?1049h"), written.rfind("\u{1b}[?1049l"));
        assert!(entered.is_some() && entered < left, "{size:?} {end:?}: {written:?}");
        // Colours are 30 to 49 and 90 to 107; bold, reversed and their ends are not.
        let mut codes = written.split("\u{1b}[").filter_map(|part| part.split_once('m'));
        let colour = codes.find(|(code, _)| {
            code.split(';').any(|n| {
                n.parse().is_ok_and(|n: u32| (30..=38).contains(&n) || (40..=48).contains(&n))
            })
        });
        assert!(colour.is_none(), "{colour:?}");
    });
}

/// Hazard (Watching what runs): `top` writes a bundle while the process goes on.
/// Promise: It has reports of all that was read; nothing else is left, and the process is not
///  asked.
#[test]
fn a_bundle_is_written_of_what_was_read_while_the_process_goes_on() {
    let mut guest = Guest::new("on", &[("STAGE2_FLUSH_MS", "10")]);
    for turn in 1..=6 {
        guest.tell(&format!("work decode {turn}"));
    }
    let mut top = guest.launch(&["top", &guest.pid()]);
    let folder = top.get_current_dir().expect("a folder").to_owned();
    let written = on_a_terminal((24, 80), "w", "stage2-top-*/metrics.json", &mut top);
    assert!(written.starts_with("status 0 same True"), "{written:?}");
    let bundles = bundles_in(&folder);
    assert_eq!(bundles.len(), 1, "one bundle, and no copies beside it: {bundles:?}");
    let report = json(&bundles[0].join("metrics.json"));
    let decode = report["stages"].as_array().expect("stages").first().expect("a stage");
    assert_eq!((&decode["stage"], &decode["instances"]), (&"decode".into(), &6.into()));
    assert!(bundles[0].join("report.html").is_file());
    guest.tell("work decode 1");
    guest.finish();
}

/// Hazard (Watching what runs): The terminal of `top` is gone.
/// Promise: It ends, and takes no processor meanwhile.
#[test]
fn a_terminal_that_is_gone_ends_it() {
    const SCRIPT: &str = r#"
import os, pty, select, sys, time
pid, terminal = pty.fork()
if pid == 0:
    os.environ["TERM"] = "xterm"
    os.execv(sys.argv[1], sys.argv[1:])
written, end = b"", time.time() + 60
while b"\x1b[?1049h" not in written and time.time() < end:
    if select.select([terminal], [], [], 0.2)[0]:
        written += os.read(terminal, 65536)
time.sleep(1)
os.close(terminal)
closed = time.time()
while time.time() < closed + 20:
    ended, status = os.waitpid(pid, os.WNOHANG)
    if ended:
        sys.exit("late" if time.time() - closed > 5 else f"wait status {status}" if status else 0)
    time.sleep(0.05)
os.kill(pid, 9)
sys.exit("it goes on")
"#;
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a.s2t"), "").expect("a trace that begins");
    // Which of the two is seen first, the signal or the error, is left to chance.
    at_once(0..4, |_| {
        let mut python = Command::new("python3");
        python.args(["-c", SCRIPT, LAUNCH, "top"]).arg(folder.path());
        let output = python.output().expect("python3");
        assert!(output.status.success(), "{}", lossy(&output.stderr));
    });
}

/// Hazard (Watching what runs): A page that goes into a file is cut, and a stage that is not there is taken for one without
///  tokens.
/// Promise: One page has all rows, unless LINES says how many, and an unknown stage is refused with those that are there.
#[test]
fn one_page_has_all_rows_and_an_unknown_stage_is_refused() {
    let top = |words: &[&str], lines: Option<&str>| {
        let mut top = Command::new(LAUNCH);
        top.args(["top", "--once"]).args(words);
        top.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/sample/vllm_sorting"));
        top.env("COLUMNS", "80").envs(lines.map(|lines| ("LINES", lines)));
        top.output().expect("stage2-launch")
    };
    let all = lossy(&top(&[], None).stdout);
    assert!(all.contains(" _apply_write_kernel ") && !all.contains(" others "), "{all}");
    let few = lossy(&top(&[], Some("24")).stdout);
    assert!(few.lines().count() <= 24 && few.contains(" 24 others "), "{few}");
    let refused = top(&["--tokens", "decoed"], None);
    let said = lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("no stage is called `decoed`; "), "{said}");
    assert!(said.contains("did you mean `decode`? There are decode, mixed, prefill"), "{said}");
}

/// A session of tmux with a server of its own, which ends with it.
struct Tmux {
    folder: tempfile::TempDir,
}

impl Tmux {
    /// Runs the command in a window of this size; nothing where tmux is missing, which is said.
    fn run((columns, rows): (u16, u16), guest: &Command) -> Option<Tmux> {
        let tmux = Tmux { folder: tempfile::tempdir().expect("a folder") };
        if Command::new("tmux").arg("-V").output().is_err() {
            assert!(std::env::var_os("STAGE2_REQUIRE_TMUX").is_none(), "tmux is missing");
            eprintln!("SKIPPED: top in a terminal: tmux is missing");
            return None;
        }
        let mut command = tmux.command("new-session");
        command.args(["-d", "-x", &columns.to_string(), "-y", &rows.to_string()]);
        for (name, value) in guest.get_envs() {
            command.env(name, value.expect("a value"));
        }
        let words = std::iter::once(guest.get_program()).chain(guest.get_args());
        let words: Vec<_> = words.map(|word| word.to_str().expect("UTF-8")).collect();
        command.arg(shlex::try_join(words).expect("no NUL"));
        assert!(command.status().expect("tmux").success());
        Some(tmux)
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = Command::new("tmux");
        // UTF-8, no configuration of the user.
        command.args(["-u", "-f", "/dev/null", "-S"]).arg(self.folder.path().join("socket"));
        command.arg(verb).env_remove("TMUX").env("LC_ALL", "C.UTF-8");
        command
    }

    fn press(&self, key: &str) {
        assert!(self.command("send-keys").arg(key).status().expect("tmux").success());
    }

    /// What the screen shows once all of these are on it.
    fn shows(&self, parts: &[&str]) -> Vec<String> {
        let began = Instant::now();
        loop {
            let output = self.command("capture-pane").arg("-p").output().expect("tmux");
            let screen = lossy(&output.stdout);
            if parts.iter().all(|part| screen.contains(part)) {
                return screen.lines().map(str::to_owned).collect();
            }
            assert!(began.elapsed() < Duration::from_secs(60), "{parts:?} is not in\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = self.command("kill-server").output();
    }
}

/// Hazard (Watching what runs): A terminal is small, or very wide.
/// Promise: The page fits, its help fits or scrolls, and `s` asks before anything stops.
#[test]
fn the_page_fits_a_small_and_a_wide_terminal() {
    at_once([(80, 24), (200, 50)], |size: (u16, u16)| {
        let mut guest = Guest::new("on", &[("STAGE2_FLUSH_MS", "10")]);
        // The charts have whole seconds.
        for turn in 1..=6 {
            guest.tell(&format!("work decode {turn}"));
            std::thread::sleep(Duration::from_millis(500));
        }
        let top = guest.launch(&["top", &guest.pid()]);
        let Some(tmux) = Tmux::run(size, &top) else { return };
        let page = tmux.shows(&["> decode", "CALL ms", "RANK", "q quit"]);
        let (columns, rows) = (usize::from(size.0), usize::from(size.1));
        assert!(page.len() <= rows, "{page:#?}");
        assert!(page[rows - 1].starts_with("q quit"), "the keys are the last line: {page:#?}");
        let is_whole = |line: &String| line.chars().count() <= columns;
        assert!(page.iter().all(is_whole), "{page:#?}");
        tmux.press("?");
        let help = tmux.shows(&["go back", "choose a stage"]);
        assert!(help.iter().all(is_whole), "{help:#?}");
        let title = if rows < 40 { "lines 1-23 of " } else { "stage2-launch top" };
        assert!(help[0].starts_with(title), "{help:#?}");
        tmux.press("x");
        tmux.press("t");
        tmux.shows(&["MEAN us▾"]);
        tmux.press("s");
        let asked = format!("stop recording process {}?", guest.pid());
        tmux.shows(&[&asked, "y: stop, any other key: no"]);
        tmux.press("n");
        tmux.shows(&["nothing was changed"]);
        tmux.press("Right");
        tmux.shows(&[&format!("STAGE of {}", guest.pid())]);
        tmux.press("q");
        guest.tell("work decode 1");
        guest.finish();
    });
}

/// Hazard (Watching what runs): A shared folder hangs while its trace files are read.
/// Promise: `top` reports it, and its keys work.
#[test]
fn a_folder_that_hangs_holds_up_neither_the_page_nor_the_keys() {
    const HANGS: &str = r#"
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>
DIR *opendir(const char *name) {
    if (strstr(name, "hangs")) sleep(300);
    return ((DIR *(*)(const char *))dlsym(RTLD_NEXT, "opendir"))(name);
}
"#;
    let sandbox = Sandbox::new();
    let shim = compile(&sandbox, HANGS, "hangs.so", &["-shared", "-fPIC"]);
    let folder = sandbox.path("hangs");
    std::fs::create_dir(&folder).expect("a folder");
    let mut top = Command::new(LAUNCH);
    top.arg("top").arg(&folder).env("LD_PRELOAD", &shim);
    let began = Instant::now();
    let written = on_a_terminal((24, 80), "q", "", &mut top);
    assert!(written.starts_with("status 0 same True"), "{written:?}");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let Some(tmux) = Tmux::run((80, 24), &top) else { return };
    tmux.shows(&["the folder of the trace files has not answered for", "q quit"]);
}
