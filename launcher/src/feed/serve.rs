//! The text -> scrapers on this host, over HTTP. Every request and every answer has a bound in bytes and
//! in time, so that a scraper that never reads holds nobody up.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The longest request, bytes.
const REQUEST_BYTES: usize = 8 << 10;
/// The longest that a client is waited for, from its first byte to its last.
const PATIENCE: Duration = Duration::from_secs(5);
/// Clients at a time; more are turned away.
const CLIENTS: usize = 8;
/// Bytes that are written at a time.
const CHUNK: usize = 64 << 10;
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What is served: the text of the last tick.
#[derive(Clone, Debug, Default)]
pub(crate) struct Page(Arc<Mutex<Arc<str>>>);

impl Page {
    pub(crate) fn set(&self, text: &str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = text.into();
    }

    fn get(&self) -> Arc<str> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Serves the page on a thread of its own until the process ends.
pub(crate) fn serve(listener: TcpListener, page: Page) {
    std::thread::spawn(move || {
        let clients = Arc::new(AtomicUsize::new(0));
        loop {
            let Ok((client, _)) = listener.accept() else {
                // Too many files are open, for instance: not at once again.
                std::thread::sleep(Duration::from_millis(100));
                continue;
            };
            if clients.load(Ordering::Relaxed) >= CLIENTS {
                continue;
            }
            clients.fetch_add(1, Ordering::Relaxed);
            let (clients, page) = (clients.clone(), page.clone());
            std::thread::spawn(move || {
                // Whatever goes wrong with a client ends with it.
                let _ = answer(client, &page.get());
                clients.fetch_sub(1, Ordering::Relaxed);
            });
        }
    });
}

fn answer(mut client: TcpStream, text: &str) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    let (status, kind, body) = match request(&mut client, until)?.as_deref() {
        Some("GET /metrics") => ("200 OK", CONTENT_TYPE, text),
        Some("GET /") => ("200 OK", "text/plain", "metrics are at /metrics\n"),
        Some(line) if line.starts_with("GET ") => {
            ("404 Not Found", "text/plain", "there is /metrics only\n")
        }
        Some(_) => ("405 Method Not Allowed", "text/plain", "ask with GET /metrics\n"),
        None => ("400 Bad Request", "text/plain", "this is no request of at most 8 KiB\n"),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    for chunk in std::iter::once(head.as_bytes()).chain(body.as_bytes().chunks(CHUNK)) {
        let mut rest = chunk;
        while !rest.is_empty() {
            client.set_write_timeout(Some(left(until)?))?;
            let written = client.write(rest)?;
            rest = rest.get(written..).unwrap_or_default();
        }
    }
    client.flush()
}

/// Method and path of a request; nothing where it is none.
fn request(client: &mut TcpStream, until: Instant) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        client.set_read_timeout(Some(left(until)?))?;
        let read = client.read(&mut buffer)?;
        bytes.extend_from_slice(buffer.get(..read).unwrap_or_default());
        let whole = bytes.windows(4).any(|end| end == b"\r\n\r\n");
        if read == 0 || whole || bytes.len() > REQUEST_BYTES {
            let text = String::from_utf8_lossy(&bytes);
            let mut words = text.lines().next().unwrap_or_default().split(' ');
            let (method, target, version) = (words.next(), words.next(), words.next());
            let path = target.map(|target| target.split('?').next().unwrap_or_default());
            let is_http = version.is_some_and(|version| version.starts_with("HTTP/1."));
            return Ok((whole && is_http)
                .then(|| format!("{} {}", method.unwrap_or(""), path.unwrap_or(""))));
        }
    }
}

fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(text: &str) -> std::net::SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let page = Page::default();
        page.set(text);
        serve(listener, page);
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
        let answer = said(address, b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(
            answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nup 1\n# EOF\n"),
            "{answer}"
        );
        assert!(answer.contains("application/openmetrics-text; version=1.0.0"), "{answer}");
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
}
