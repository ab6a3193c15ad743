//! The text -> scrapers on this host, over HTTP. Every request and every answer has a bound in bytes and
//! in time, and one thread serves all: a client that asks nothing or never reads holds nobody up.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::live_source::LIVE_PATH;

const REQUEST_BYTES: usize = 8 << 10;
/// The longest that a client is waited for, from its connection to its last byte.
const PATIENCE: Duration = Duration::from_secs(5);
const CLIENTS: usize = 32;
/// Between two looks at who took too long, and after an error that would come again at once.
const STEP: Duration = Duration::from_millis(100);
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What is served: the metrics of the last tick, and what `top` on another host shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Page(Arc<Mutex<(Arc<str>, Arc<str>)>>);

impl Page {
    pub(crate) fn set(&self, metrics: &str, live: &str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (metrics.into(), live.into());
    }

    fn get(&self) -> (Arc<str>, Arc<str>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The names under which clients may ask. A page of a browser can have its own name lead to this host,
/// and would read what is served under that.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    bound: IpAddr,
    /// Lower case, without a port.
    allowed: Vec<String>,
}

impl Names {
    /// Those of this host, of the address that is served, and those that the user allows.
    pub(crate) fn new(bound: SocketAddr, allowed: &[String]) -> Names {
        let allowed = allowed.iter().map(|name| name.to_ascii_lowercase()).collect();
        Names { bound: bound.ip(), allowed }
    }

    /// Whether a `Host` header may say this.
    fn serve(&self, host: &str) -> bool {
        let host = host.trim().to_ascii_lowercase();
        let (name, is_v6) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((address, _)) => (address, true),
            None => (host.split(':').next().unwrap_or_default(), false),
        };
        let address = match is_v6 {
            true => name.parse::<Ipv6Addr>().map(IpAddr::from).ok(),
            false => name.parse().ok(),
        };
        // A number is no name that somebody else could have lead here.
        address.is_some_and(|address| address.is_loopback() || address == self.bound)
            || name == "localhost"
            || self.allowed.iter().any(|allowed| allowed == name || *allowed == host)
    }
}

/// Serves the page on its own thread until the process ends.
pub(crate) fn serve(listener: TcpListener, page: Page, names: Names) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let server = Server { listener, page, names, clients: Vec::new() };
    std::thread::Builder::new().name("feed".to_owned()).spawn(move || server.run()).map(drop)
}

struct Server {
    listener: TcpListener,
    page: Page,
    names: Names,
    /// The oldest first.
    clients: Vec<Client>,
}

struct Client {
    stream: TcpStream,
    until: Instant,
    request: Vec<u8>,
    /// Once the request is whole: its head and its body, and how much of them is sent.
    answer: Option<(String, Arc<str>)>,
    sent: usize,
}

impl Server {
    fn run(mut self) {
        loop {
            let mut wanted = vec![PollFd::new(&self.listener, PollFlags::IN)];
            wanted.extend(self.clients.iter().map(|client| {
                let waits_for_room = client.answer.is_some();
                let flags = if waits_for_room { PollFlags::OUT } else { PollFlags::IN };
                PollFd::new(&client.stream, flags)
            }));
            let limit = Timespec::try_from(STEP).ok();
            let waited = poll(&mut wanted, limit.as_ref());
            let comes = wanted.first().is_some_and(|listener| !listener.revents().is_empty());
            if waited.is_err() || (comes && !self.accept()) {
                // Too many files are open, for instance: not at once again.
                std::thread::sleep(STEP);
            }
            let now = Instant::now();
            let Server { clients, page, names, .. } = &mut self;
            // Whatever goes wrong with a client ends with it.
            clients.retain_mut(|client| {
                now < client.until && client.go_on(page, names).is_ok_and(|ends| !ends)
            });
        }
    }

    /// Takes a client in. Where there are too many, the one goes that has asked for nothing for longest, or
    /// else this one. False: there is an error.
    fn accept(&mut self) -> bool {
        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            // It has left, or a signal came.
            Err(error) => {
                use ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
                return [ConnectionAborted, Interrupted, WouldBlock].contains(&error.kind());
            }
        };
        if stream.set_nonblocking(true).is_err() {
            return true;
        }
        let until = Instant::now() + PATIENCE;
        let client = Client { stream, until, request: Vec::new(), answer: None, sent: 0 };
        if self.clients.len() >= CLIENTS {
            match self.clients.iter().position(|other| other.answer.is_none()) {
                Some(idle) => self.clients.remove(idle).turn_away(),
                None => {
                    client.turn_away();
                    return true;
                }
            }
        }
        self.clients.push(client);
        true
    }
}

impl Client {
    /// Reads and writes as much as is possible without waiting. True: the client has its answer.
    fn go_on(&mut self, page: &Page, names: &Names) -> io::Result<bool> {
        if self.answer.is_none() && !without_wait(self.read())?.unwrap_or(false) {
            return Ok(false);
        }
        let answer = self.answer.get_or_insert_with(|| answer(&self.request, names, page));
        let (head, body) = (answer.0.as_bytes(), answer.1.as_bytes());
        loop {
            let rest = match head.get(self.sent..) {
                Some(rest) if !rest.is_empty() => rest,
                _ => body.get(self.sent - head.len()..).unwrap_or_default(),
            };
            if rest.is_empty() {
                return Ok(true);
            }
            match without_wait(self.stream.write(rest))? {
                Some(written) => self.sent += written,
                None => return Ok(false),
            }
        }
    }

    /// Whether the request is whole, or nothing more of it comes that could be used.
    fn read(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 1024];
        loop {
            let read = self.stream.read(&mut buffer)?;
            self.request.extend_from_slice(buffer.get(..read).unwrap_or_default());
            if read == 0 || is_whole(&self.request) || self.request.len() > REQUEST_BYTES {
                return Ok(true);
            }
        }
    }

    fn turn_away(mut self) {
        let (head, body) = said("503 Service Unavailable", "too many clients at a time\n");
        let _ = self.stream.write(format!("{head}{body}").as_bytes());
    }
}

/// Nothing where a call would have to wait.
fn without_wait<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Ok(None)
        }
        other => other.map(Some),
    }
}

fn is_whole(request: &[u8]) -> bool {
    request.windows(4).any(|end| end == b"\r\n\r\n")
}

/// Head and body of the answer to a request.
fn answer(request: &[u8], names: &Names, page: &Page) -> (String, Arc<str>) {
    let text = String::from_utf8_lossy(request);
    let mut lines = text.lines();
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    let is_http = version.is_some_and(|version| version.starts_with("HTTP/1."));
    if !is_whole(request) || !is_http {
        return said("400 Bad Request", "this is not an HTTP request of at most 8 KiB\n");
    }
    let headers = lines.take_while(|line| !line.is_empty()).filter_map(|line| line.split_once(':'));
    let mut hosts = headers.filter(|(name, _)| name.eq_ignore_ascii_case("host"));
    if hosts.any(|(_, host)| !names.serve(host)) {
        let why = "this name is not served: ask for localhost or the address, or allow the name with --allow-host\n";
        return said("421 Misdirected Request", why);
    }
    match (method, target.and_then(|target| target.split('?').next())) {
        (Some("GET"), Some("/metrics")) => {
            let body = page.get().0;
            (head("200 OK", CONTENT_TYPE, body.len()), body)
        }
        (Some("GET"), Some(LIVE_PATH)) => {
            let body = page.get().1;
            (head("200 OK", "application/json", body.len()), body)
        }
        (Some("GET"), Some("/")) => said(
            "200 OK",
            "metrics are at /metrics; `stage2-launch top HOST:PORT` shows these processes\n",
        ),
        (Some("GET"), _) => said("404 Not Found", "there are /metrics and /live.json only\n"),
        _ => said("405 Method Not Allowed", "ask with GET /metrics\n"),
    }
}

fn said(status: &str, text: &str) -> (String, Arc<str>) {
    (head(status, "text/plain; charset=utf-8", text.len()), text.into())
}

fn head(status: &str, kind: &str, length: usize) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(text: &str) -> std::net::SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let page = Page::default();
        page.set(text, "{}");
        serve(listener, page, Names::new(address, &["Proxy.example".to_owned()]))
            .expect("a thread");
        address
    }

    fn said(address: std::net::SocketAddr, request: &[u8]) -> String {
        let mut client = TcpStream::connect(address).expect("a server");
        let _ = client.write_all(request);
        let mut answer = Vec::new();
        let _ = client.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[test]
    fn the_text_is_at_its_path_and_nothing_else_is_anywhere() {
        let address = server("up 1\n# EOF\n");
        let answer = said(address, b"GET /metrics?x=1 HTTP/1.1\r\nHost: 127.0.0.1:9464\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.ends_with("\r\n\r\nup 1\n# EOF\n"), "{answer}");
        assert!(answer.contains("application/openmetrics-text; version=1.0.0"), "{answer}");
        assert!(answer.contains("\r\nX-Content-Type-Options: nosniff\r\n"), "{answer}");
        for (request, status) in [
            (&b"GET /etc/passwd HTTP/1.1\r\n\r\n"[..], "404"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
            (b"nonsense\r\n\r\n", "400"),
            (b"\xff\xfe\r\n\r\n", "400"),
        ] {
            let answer = said(address, request);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        }
        assert!(!said(address, &[b'x'; 3 * REQUEST_BYTES]).contains("200 OK"));
    }

    /// Hazard (Watching what runs): A scraper sends a request and never reads.
    /// Promise: Others are served, and it is let go after 5 s.
    #[test]
    fn a_scraper_that_never_reads_holds_nobody_up() {
        // More than the buffers of a connection take.
        let address = server(&"x".repeat(64 << 20));
        let mut idle = Vec::new();
        for _ in 0..CLIENTS - 1 {
            let mut client = TcpStream::connect(address).expect("a server");
            client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("sent");
            idle.push(client);
        }
        let began = Instant::now();
        let answer = said(address, b"GET / HTTP/1.1\r\n\r\n");
        assert!(answer.contains("metrics are at /metrics"), "{answer}");
        assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
        // And they are let go in time.
        std::thread::sleep(PATIENCE + Duration::from_secs(1));
        let answers = (0..CLIENTS).map(|_| said(address, b"GET / HTTP/1.1\r\n\r\n"));
        assert!(answers.into_iter().all(|answer| answer.contains("200 OK")));
    }

    /// Hazard (Watching what runs): A page in a browser has a name of its own lead to `feed`.
    /// Promise: Only names of this host and allowed ones are served.
    #[test]
    fn only_names_of_this_host_and_allowed_ones_are_served() {
        let address = server("up 1\n");
        let status = |hosts: &str| {
            let answer = said(address, format!("GET /metrics HTTP/1.1\r\n{hosts}\r\n").as_bytes());
            assert_eq!(answer.contains("up 1"), answer.starts_with("HTTP/1.1 200 "), "{answer}");
            answer.split(' ').nth(1).unwrap_or_default().to_owned()
        };
        let ours = "localhost LocalHost:9464 127.0.0.1 127.0.0.1:1 127.1.2.3 [::1]:9464 proxy.example \
                    PROXY.example:80";
        for host in ours.split(' ') {
            assert_eq!(status(&format!("Host: {host}\r\n")), "200", "{host}");
        }
        // A client without one is no browser.
        assert_eq!(status(""), "200");
        let others = "evil.example localhost.evil.example 127.0.0.1.evil.example 10.0.0.1 [::2] \
                      localhost@evil.example \u{e9}";
        for host in others.split(' ').chain([""]) {
            assert_eq!(status(&format!("host:{host}\r\n")), "421", "{host}");
        }
        assert_eq!(status("Host: localhost\r\nHost: evil.example\r\n"), "421");
    }

    /// Hazard (Watching what runs): Clients connect to `feed` and ask for nothing.
    /// Promise: They make room for those that ask.
    #[test]
    fn clients_that_ask_for_nothing_make_room_for_those_that_do() {
        let address = server("up 1\n");
        let mut idle = Vec::new();
        for _ in 0..2 * CLIENTS {
            let mut client = TcpStream::connect(address).expect("a server");
            client.write_all(b"GET /met").expect("sent");
            idle.push(client);
            let answer = said(address, b"GET /metrics HTTP/1.1\r\n\r\n");
            assert!(answer.ends_with("up 1\n"), "{answer:?}");
        }
        let mut told = String::new();
        let _ = idle[0].read_to_string(&mut told);
        assert!(told.starts_with("HTTP/1.1 503 "), "{told:?}");
        // Who asked for much and reads nothing has a place, for some time: the rest is turned away.
        let address = server(&"x".repeat(64 << 20));
        for _ in 0..CLIENTS {
            let mut client = TcpStream::connect(address).expect("a server");
            client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("sent");
            idle.push(client);
        }
        let mut answer = String::new();
        let until = Instant::now() + PATIENCE;
        while !answer.starts_with("HTTP/1.1 503 ") && Instant::now() < until {
            answer = said(address, b"GET / HTTP/1.1\r\n\r\n");
        }
        assert!(answer.contains("too many clients"), "{answer:?}");
    }
}
