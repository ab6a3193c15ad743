//! Numbers of running processes -> OpenMetrics text, in a file or over HTTP on this host.

mod metrics;
mod serve;

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use metrics::{FeedStatus, only_slowest, text};
use serve::{Names, Page, serve};
use stage2_contract::text::visible_path;
use stage2_live::{Look, write_message};
use stage2_read::files;

use crate::cli::FeedArgs;
use crate::commands::ending::printed;
use crate::failure::Failure;
use crate::live_source::{LiveSource, Stop, now_ns};
use crate::terminal::Terminal;
use crate::threads;

/// Where it serves if nothing else is said: the port that OpenTelemetry registered for exporters.
const ADDRESS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9464);

pub(crate) fn feed(args: FeedArgs, terminal: &Terminal) -> Result<u8, Failure> {
    let serves = !args.once && (args.textfile.is_none() || args.listen.is_some());
    if !serves && !args.allow_host.is_empty() {
        let text = "--allow-host is for clients of /metrics, and --textfile alone serves none; give --listen, too";
        return Err(Failure::Usage(text.to_owned()));
    }
    if let Some(folder) = args.textfile.as_deref().map(folder_of).filter(|folder| !folder.is_dir())
    {
        let folder = visible_path(folder);
        return Err(Failure::Usage(format!(
            "--textfile: {folder} is not a folder; create it, or choose another file"
        )));
    }
    let listener = if !serves { None } else { Some(listen(args.listen.unwrap_or(ADDRESS))?) };
    let mut watched = LiveSource::open(args.watching.clone())?;
    let limit = usize::from(args.ranks_limit);
    if args.once {
        watched.read_all();
        watched.require_answer()?;
        watched.require_tokens()?;
        return printed(&metrics_of(watched.look(), limit));
    }
    let stop = Stop::on_signals()?;
    let page = Page::default();
    let nothing = text(Look::default(), FeedStatus::default(), limit);
    page.set(&nothing, &write_message(Look::default(), now_ns()));
    if let Some(listener) = listener {
        let no_server = |error| Failure::NoResult(format!("metrics cannot be served: {error}"));
        let address = listener.local_addr().map_err(no_server)?;
        let names = Names::new(address, &args.allow_host);
        serve(listener, page.clone(), names).map_err(|error| threads::refused(&error))?;
        terminal.milestone(&format!("metrics of {} are at http://{address}/metrics", watched.name));
    }
    let (mut next, mut fails, mut answering) = (Instant::now(), false, Answering::default());
    let mut is_told = false;
    while !stop.is_set() {
        let began = Instant::now();
        watched.tick();
        let look = watched.look();
        if let Some(said) = answering.said(&look) {
            terminal.caution(&said);
        }
        // A stage may begin later.
        if let Some(unknown) = watched.unknown_tokens(&look).filter(|_| !is_told) {
            is_told = true;
            terminal.caution(&unknown);
        }
        let text = metrics_of(look.clone(), limit);
        page.set(&text, &write_message(only_slowest(look, limit), now_ns()));
        if let Some(path) = args.textfile.as_ref().filter(|_| began >= next) {
            next = began + Duration::from_secs(args.interval);
            match write_textfile(path, &text, args.readable_by) {
                Ok(()) => fails = false,
                // Once for each failure: a full disk may stay full for long.
                Err(error) if !fails => {
                    fails = true;
                    let path = visible_path(path);
                    terminal.error(&format!(
                        "{path} cannot be written: {error}; it stays as it is, and feed tries again every {} s",
                        args.interval
                    ));
                }
                Err(_) => {}
            }
        }
        stop.await_tick(began);
    }
    if let Some(path) = &args.textfile {
        // Numbers that nobody brings up to date would be taken for those of now.
        let _ = std::fs::remove_file(path);
    }
    Ok(0)
}

/// How many other hosts answered last, and how many there are.
#[derive(Default)]
struct Answering(Option<(u64, u64)>);

impl Answering {
    /// That some do not answer, each time that their number changes.
    fn said(&mut self, look: &Look) -> Option<String> {
        let (answer, all) = look.hosts?;
        let is_new = self.0.replace((answer, all)) != Some((answer, all));
        (is_new && answer < all)
            .then(|| format!("{answer} of {all} hosts answer: {}", look.problems.join("; ")))
    }
}

/// The metrics as they are now, with what the collectors on this host cost.
fn metrics_of(look: Look, limit: usize) -> String {
    let here = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let on_this_host = look.processes.iter().filter(|process| here.trim() == process.host);
    let cpu = on_this_host.filter_map(|process| Some((process.pid, cpu_seconds(process.pid)?)));
    let own = FeedStatus { now_ns: now_ns(), cpu_seconds: cpu.collect() };
    text(look, own, limit)
}

fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    if !address.ip().is_loopback() {
        return Err(Failure::Usage(format!(
            "{address} can be reached from other hosts, and feed has neither passwords nor encryption; serve on \
             127.0.0.1 and put a proxy in front, or use --textfile with node-exporter"
        )));
    }
    TcpListener::bind(address).map_err(|error| {
        Failure::NoResult(format!("{address} cannot be served: {error}; choose another --listen"))
    })
}

/// Who may read the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Readers {
    /// Its owner
    #[default]
    Owner,
    /// The group of the folder as well
    Group,
    /// Everybody on this host
    All,
}

impl Readers {
    fn mode(self) -> u32 {
        match self {
            Readers::Owner => 0o600,
            Readers::Group => 0o640,
            Readers::All => 0o644,
        }
    }
}

fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}

/// Puts the text in the place of the file. A reader sees the old one or the new one; where this fails, the old
/// one stays.
fn write_textfile(path: &Path, text: &str, readers: Readers) -> std::io::Result<()> {
    let mut file = files::new_in(folder_of(path))?;
    file.write_all(text.as_bytes())?;
    file.as_file().set_permissions(Permissions::from_mode(readers.mode()))?;
    // Dropped on the way, it takes itself away.
    files::put(file, path)
}

/// How the collector's threads are called; the system cuts names to 15 bytes.
const THREADS: &str = "stage2-";
/// Threads of a process that are looked at.
const LOOKED_AT: usize = 4_096;

/// CPU time of the collector's threads, seconds; nothing where the process is not here, or another user's.
/// What CUPTI does on threads of its own is not in it.
fn cpu_seconds(pid: u32) -> Option<f64> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let mut found = None;
    for task in tasks.flatten().take(LOOKED_AT) {
        let read = |file: &str| fs::read_to_string(task.path().join(file)).ok();
        if !read("comm").is_some_and(|name| name.starts_with(THREADS)) {
            continue;
        }
        // The first number: nanoseconds on a CPU.
        let time = read("schedstat").and_then(|line| line.split(' ').next()?.parse::<u64>().ok());
        found = Some(found.unwrap_or(0.0) + time.unwrap_or(0) as f64 / 1e9);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_replaced_whole_and_private_unless_that_is_asked_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("stage2.prom");
        for (text, readers, mode) in [
            ("a 1\n", Readers::Owner, 0o600),
            ("b 2\n", Readers::All, 0o644),
            ("c\n", Readers::Group, 0o640),
        ] {
            write_textfile(&path, text, readers).expect("written");
            assert_eq!(std::fs::read_to_string(&path).expect("a file"), text);
            assert_eq!(path.metadata().expect("a file").permissions().mode() & 0o777, mode);
        }
        let left = fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(left, 1, "nothing is left behind");
    }

    /// Hazard (Watching what runs): The disk is full when the text file is written.
    /// Promise: The old one stays complete, and no other file is left.
    #[test]
    fn a_full_disk_leaves_the_file_as_it_was() {
        // Nothing can be made there, as on a disk without room.
        let error = write_textfile(Path::new("/proc/stage2.prom"), "x", Readers::Owner);
        assert!(error.is_err());
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("stage2.prom");
        write_textfile(&path, "old", Readers::Owner).expect("written");
        std::fs::create_dir(folder.path().join("sub")).expect("a folder");
        let of_folder = write_textfile(&folder.path().join("sub"), "new", Readers::Owner);
        assert!(of_folder.is_err(), "a folder is no file");
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), "old");
        let left = fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(left, 2, "nothing is left behind");
    }

    #[test]
    fn threads_of_that_name_are_summed() {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let builder = std::thread::Builder::new().name("stage2-drain".to_owned());
        let thread = builder.spawn(move || {
            let began = std::time::Instant::now();
            while began.elapsed().as_millis() < 30 {}
            let _ = stopped.recv();
        });
        std::thread::sleep(std::time::Duration::from_millis(200));
        let seconds = cpu_seconds(std::process::id());
        drop(stop);
        thread.expect("a thread").join().expect("ends");
        assert!(seconds.is_some_and(|seconds| seconds > 0.001), "{seconds:?}");
        assert_eq!(cpu_seconds(u32::MAX), None);
    }
}
