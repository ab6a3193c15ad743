//! `stage2-launch feed`: numbers of running processes for Prometheus.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use stage2_contract::text::visible_path;
use stage2_live::Look;

use crate::cli::FeedArgs;
use crate::clock::since_1970;
use crate::failure::Failure;
use crate::feed::{Names, Own, Page, cpu_seconds, serve, text, write};
use crate::live_source::LiveSource;
use crate::terminal::{Terminal, print};
use crate::threads;

/// Where it serves if nothing else is said: the port that OpenTelemetry registered for exporters.
const ADDRESS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9464);
/// How long a signal may take to be noticed.
const STEP: Duration = Duration::from_millis(100);
/// Between two readings of the trace files.
const TICK: Duration = Duration::from_secs(1);

/// `stage2-launch feed`.
pub(crate) fn feed(args: FeedArgs, terminal: &Terminal) -> Result<u8, Failure> {
    let serves = !args.once && (args.textfile.is_none() || args.listen.is_some());
    if !serves && !args.allow_host.is_empty() {
        let text = "--allow-host is for clients of /metrics, and --textfile alone serves none; give --listen, too";
        return Err(Failure::Usage(text.to_owned()));
    }
    let listener = if !serves { None } else { Some(listen(args.listen.unwrap_or(ADDRESS))?) };
    let mut watched = LiveSource::open(args.watching.clone())?;
    if args.once {
        read_all(&mut watched);
        let look = watched.watch.look();
        let own = own(&look);
        let shown = text(look, own);
        let printed = print(&shown);
        printed.map_err(|error| Failure::NoResult(format!("stdout cannot be written: {error}")))?;
        return Ok(0);
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, stop.clone())
            .map_err(|error| Failure::NoResult(format!("signals cannot be taken: {error}")))?;
    }
    let page = Page::default();
    page.set(&text(Look::default(), Own::default()));
    if let Some(listener) = listener {
        let no_server = |error| Failure::NoResult(format!("metrics cannot be served: {error}"));
        let address = listener.local_addr().map_err(no_server)?;
        let names = Names::new(address, &args.allow_host);
        serve(listener, page.clone(), names).map_err(|error| threads::refused(&error))?;
        terminal.milestone(&format!("metrics of {} are at http://{address}/metrics", watched.name));
    }
    let (mut next, mut fails) = (Instant::now(), false);
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        watched.tick();
        let look = watched.watch.look();
        let own = own(&look);
        let shown = text(look, own);
        page.set(&shown);
        if let Some(path) = args.textfile.as_ref().filter(|_| began >= next) {
            next = began + Duration::from_secs(args.interval);
            match write(path, &shown, args.readable_by) {
                Ok(()) => fails = false,
                // Once for each failure: a full disk may stay full for long.
                Err(error) if !fails => {
                    fails = true;
                    let path = visible_path(path);
                    terminal.error(&format!(
                        "{path} cannot be written: {error}; the old one stays, and is tried again every {} s",
                        args.interval
                    ));
                }
                Err(_) => {}
            }
        }
        while began.elapsed() < TICK && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(STEP);
        }
    }
    if let Some(path) = &args.textfile {
        // Numbers that nobody brings up to date would be taken for those of now.
        let _ = std::fs::remove_file(path);
    }
    Ok(0)
}

/// Reads until nothing more is there, and what waits is final.
fn read_all(watched: &mut LiveSource) {
    for _ in 0..1_000 {
        watched.tick();
        if watched.watch.look().behind_bytes == 0 {
            break;
        }
    }
    (0..5).for_each(|_| watched.tick());
}

fn own(look: &Look) -> Own {
    let now = since_1970();
    let here = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let on_this_host = look.processes.iter().filter(|process| here.trim() == process.host);
    let cpu = on_this_host.filter_map(|process| Some((process.pid, cpu_seconds(process.pid)?)));
    Own { now_ns: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX), cpu_seconds: cpu.collect() }
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
