//! `feed` on other hosts -> what their processes do. Each host is asked on its own thread, and every answer
//! has a bound in bytes and in time: one that is slow, gone or hostile holds up neither the page nor another host.

use std::io::{self, Read, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::Builder;
use std::time::{Duration, Instant};

use stage2_contract::text::{shorten, visible};
use stage2_live::{FileState, Look, read_message};

use super::{TICK, now_ns};
use crate::failure::Failure;
use crate::threads;

/// Hosts that are asked, and addresses of one that are tried.
pub(crate) const HOSTS: usize = 512;
const ADDRESSES: usize = 4;
/// The longest that an answer may take from the look-up of the name to its last byte, and a connection alone.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
const CONNECT: Duration = Duration::from_secs(2);
/// Between two questions to a host that gave no answer.
const PAUSE: Duration = Duration::from_secs(3);
const ANSWER_BYTES: u64 = 16 << 20;
/// What is read is shown as long as it may only be late.
const LATE: Duration = Duration::from_secs(15);
const WHY_CHARS: usize = 120;
/// Answers nest little: a small stack is enough for each of many threads.
const STACK_BYTES: usize = 512 << 10;

/// Where `feed` tells what processes do.
pub(crate) const PATH: &str = "/live.json";

/// The address in a word: `HOST:PORT`, or what `feed` prints.
pub(super) fn address(word: &str) -> Option<String> {
    let word = word.strip_prefix("http://").unwrap_or(word);
    let word = word.strip_suffix("/metrics").unwrap_or(word);
    let (host, port) = word.rsplit_once(':')?;
    let is_host = !host.is_empty() && !host.contains('/');
    (is_host && port.parse::<u16>().is_ok_and(|port| port > 0)).then(|| word.to_owned())
}

/// A host that is asked again and again.
pub(super) struct Port {
    address: String,
    heard: Arc<Mutex<Heard>>,
}

struct Heard {
    look: Option<Arc<Look>>,
    /// When that came, or we began to ask; and when the host wrote it, by its clock.
    at: Instant,
    written_ns: u64,
    /// Why the last question has no answer; nothing before the first one.
    outcome: Option<Result<(), String>>,
}

impl Port {
    /// Asks until this is dropped.
    pub(super) fn ask(address: String) -> Result<Port, Failure> {
        let heard = Arc::new(Mutex::new(Heard::nothing()));
        let (of, tell) = (address.clone(), Arc::downgrade(&heard));
        let thread = Builder::new().name("port".to_owned()).stack_size(STACK_BYTES);
        thread.spawn(move || keep_asking(&of, &tell)).map_err(|error| threads::refused(&error))?;
        Ok(Port { address, heard })
    }

    pub(super) fn was_asked(&self) -> bool {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).outcome.is_some()
    }

    /// Whether it answers, its name, and what it showed last. What is too old is not taken for what is now.
    pub(super) fn look(&self) -> (bool, String, Look) {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, ago) = (heard.look.clone(), heard.at.elapsed());
        let outcome = heard.outcome.clone();
        drop(heard);
        let mut look = last.as_deref().cloned().unwrap_or_default();
        let why = match outcome {
            Some(Ok(())) if ago < LATE => return (true, self.address.clone(), look),
            Some(Ok(())) => "it sends nothing new: its `feed` is held up".to_owned(),
            Some(Err(why)) => why,
            None => return (false, self.address.clone(), look),
        };
        let since =
            if last.is_some() { format!(" (for {} s)", ago.as_secs()) } else { String::new() };
        look.problems = vec![format!("{why}{since}")];
        if ago >= LATE {
            for process in look.processes.iter_mut().filter(|process| !process.state.is_over()) {
                process.state = FileState::Unreachable;
            }
        }
        (false, self.address.clone(), look)
    }
}

impl Heard {
    fn nothing() -> Heard {
        Heard { look: None, at: Instant::now(), written_ns: 0, outcome: None }
    }

    /// What was written already, by a `feed` that is held up, is nothing new.
    fn hear(&mut self, answer: Result<(Look, u64), String>) {
        self.outcome = Some(answer.map(|(look, written_ns)| {
            if self.look.is_none() || written_ns != self.written_ns {
                (self.look, self.at) = (Some(Arc::new(look)), Instant::now());
                self.written_ns = written_ns;
            }
        }));
    }
}

fn keep_asking(address: &str, tell: &Weak<Mutex<Heard>>) {
    loop {
        let began = Instant::now();
        let answer = ask(address, began + PATIENCE)
            .map_err(|why| shorten(&visible(why.as_bytes()), WHY_CHARS));
        let Some(heard) = tell.upgrade() else { return };
        let pause = if answer.is_ok() { TICK } else { PAUSE };
        heard.lock().unwrap_or_else(PoisonError::into_inner).hear(answer);
        drop(heard);
        std::thread::sleep(pause.saturating_sub(began.elapsed()));
    }
}

/// One answer, or in a few words why there is none.
fn ask(address: &str, until: Instant) -> Result<(Look, u64), String> {
    let mut stream = connect(address, until)?;
    let request = format!("GET {PATH} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let sent =
        stream.set_write_timeout(Some(CONNECT)).and_then(|()| stream.write_all(request.as_bytes()));
    sent.map_err(|error| error.to_string())?;
    let mut answer = Vec::new();
    let got = Until { stream, until }.take(ANSWER_BYTES + 1).read_to_end(&mut answer);
    if answer.len() as u64 > ANSWER_BYTES {
        return Err(format!("it sends more than {} MB", ANSWER_BYTES >> 20));
    }
    match got {
        Err(error) if is_late(&error) => Err("it does not answer in time".to_owned()),
        Err(error) => Err(error.to_string()),
        Ok(_) => read_answer(&answer),
    }
}

fn read_answer(answer: &[u8]) -> Result<(Look, u64), String> {
    let text = std::str::from_utf8(answer).map_err(|_| "what it sends is not from `feed`")?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or("what it sends is not from `feed`")?;
    let status = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
    match status {
        Some("200") => read_message(body, now_ns()),
        Some("404") => {
            Err("it is not `feed`, or an older one that serves metrics alone".to_owned())
        }
        // It says itself what to do.
        Some("421" | "503") => Err(body.trim().to_owned()),
        Some(status) => Err(format!("it answers with status {status}")),
        None => Err("what it sends is not from `feed`".to_owned()),
    }
}

fn connect(address: &str, until: Instant) -> Result<TcpStream, String> {
    let found = address.to_socket_addrs().map_err(|error| error.to_string())?;
    let mut why = "its name has no address".to_owned();
    for address in found.take(ADDRESSES) {
        let patience = until.saturating_duration_since(Instant::now()).min(CONNECT);
        if patience.is_zero() {
            break;
        }
        match TcpStream::connect_timeout(&address, patience) {
            Ok(stream) => return Ok(stream),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                why = "nothing is listening there".to_owned();
            }
            Err(error) if is_late(&error) => why = "it does not answer in time".to_owned(),
            Err(error) => why = error.to_string(),
        }
    }
    Err(why)
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// A stream that is read until then, however slowly it comes.
struct Until {
    stream: TcpStream,
    until: Instant,
}

impl Read for Until {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use stage2_live::Watched;

    use super::*;

    /// Hazard (Watching what runs): `feed` on another host is held up, and serves the same page again and again.
    /// Promise: It is said, its processes are not taken for alive, and its clock is not taken for wrong.
    #[test]
    fn a_page_that_was_seen_already_is_nothing_new() {
        let look = || {
            let process = Watched { state: FileState::Growing, ..Watched::default() };
            Look { processes: vec![process], ..Look::default() }
        };
        let heard = Arc::new(Mutex::new(Heard::nothing()));
        let port = Port { address: "node-1:9464".to_owned(), heard: heard.clone() };
        heard.lock().expect("it").hear(Ok((look(), 5)));
        assert!(port.look().0);
        let long_ago = Instant::now() - LATE;
        heard.lock().expect("it").at = long_ago;
        heard.lock().expect("it").hear(Ok((look(), 5)));
        let (answers, _, old) = port.look();
        assert_eq!((answers, &old.processes[0].state), (false, &FileState::Unreachable));
        assert!(old.problems[0].starts_with("it sends nothing new"), "{:?}", old.problems);
        heard.lock().expect("it").hear(Ok((look(), 6)));
        assert!(port.look().0);
    }

    #[test]
    fn an_address_is_a_host_and_a_port() {
        for word in ["node-1:9464", "127.0.0.1:9464", "[::1]:9464"] {
            assert_eq!(address(word).as_deref(), Some(word));
            assert_eq!(address(&format!("http://{word}/metrics")).as_deref(), Some(word));
        }
        for word in ["4711", "node-1", "a/b:9464", ":9464", "node-1:0", "node-1:99999", "C:", ""] {
            assert_eq!(address(word), None, "{word}");
        }
    }
}
