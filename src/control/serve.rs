//! The body of the thread: one client after the other, each within a bounded time, and sleep without a
//! period in between.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use stage2_contract::control::{Answer, MAX_REQUEST_BYTES, Verb};

use super::place::{Socket, Waited, remove};
use super::watch::Standstill;
use super::{Context, verbs};
use crate::base::clock::Instant;
use crate::base::last_thread::{Helpers, Watch};
use crate::base::{diag, futex, main_end, signal_mask, timed_write};
use crate::guest::state::{self, Phase, Shared};

/// The longest that a client may take over its request, and over our answer.
const CLIENT_PATIENCE: Duration = Duration::from_secs(1);
/// The longest that is read on after an answer to what is not a request, and how many pieces of it.
const REST_PATIENCE: Duration = Duration::from_millis(100);
const REST_PIECES: u32 = 64;
/// Clients that get an answer that another one has asked for.
const SAME: usize = 8;
/// Between two looks for the last thread, once the main thread has ended, or where its end is not told
/// (we were not preloaded, or another thread than the main one forked this process).
const LOOK: Duration = Duration::from_millis(250);
/// How often a socket is opened again that the program has closed.
const REOPENINGS: u32 = 3;
/// The longest that the end of a process without threads waits for the last window.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// Serves until the process ends. `true`: no thread of the guest is left.
pub(super) fn run(socket: Socket, context: &Context) -> bool {
    let none = Helpers::default();
    let mut verbs = verbs::Verbs::new(context);
    let mut watch = Watch::new(&none);
    let mut standstill = Standstill::new(context);
    let mut socket = Some(socket);
    let mut reopenings = 0;
    loop {
        let sleeps = main_end::is_watched() && !main_end::has_ended();
        let waited = match &socket {
            Some(socket) => {
                let longest = if sleeps { None } else { Some(LOOK) };
                let longest = longest.into_iter().chain(standstill.left()).min();
                socket.wait(longest.map_or(-1, |longest| longest.as_millis() as i32 + 1))
            }
            // The window that was on has seen the end of the last thread.
            None if matches!(state::phase(), Phase::Stopping | Phase::Ended) => return false,
            None => {
                futex::nap(LOOK);
                Waited::Nothing
            }
        };
        match (waited, &socket) {
            (Waited::Client, Some(socket)) => serve(socket, &mut verbs),
            (Waited::Lost, _) => {
                if matches!(state::phase(), Phase::Stopping | Phase::Ended) {
                    return false;
                }
                remove();
                socket = None;
                if !main_end::has_ended() {
                    reopenings += 1;
                    if reopenings > REOPENINGS {
                        diag::warn(format_args!(
                            "the control socket is closed: the process closes descriptors that are not its own"
                        ));
                        return false;
                    }
                    socket = Socket::open().ok();
                }
            }
            _ => {}
        }
        standstill.look(&mut verbs.why);
        if !sleeps && is_alone(&mut watch) {
            return true;
        }
    }
}

/// Whether no thread of the guest is left while nothing is recorded. A window looks itself.
fn is_alone(watch: &mut Watch<'_>) -> bool {
    if state::phase() != Phase::Dormant {
        return false;
    }
    let shared = state::shared();
    // The drain thread, which sleeps.
    let own = u64::from(shared.is_some_and(Shared::has_drain_thread));
    // A look at the threads that has not come back.
    let own = own + state::servers().saturating_sub(1);
    let helpers = shared.map_or(0, |shared| shared.helpers.alive());
    if !watch.is_alone(own + helpers) || !state::advance(Phase::Dormant, Phase::Stopping) {
        return false;
    }
    if let Some(shared) = shared {
        shared.stop.store(true, std::sync::atomic::Ordering::Release);
        shared.wake_drain();
        shared.done.wait(END_PATIENCE);
    }
    remove();
    true
}

/// No thread of the guest is left, and this one is about to end.
pub(crate) fn let_process_end() {
    signal_mask::unblock_termination_signals();
    // If this is the last thread, the C library ends the process when it returns. But the C library
    // counts CUPTI's threads as the guest's.
    if state::shared().is_some_and(|shared| shared.helpers.alive() > 0) {
        // SAFETY: what the C library does when the last thread of a process ends.
        unsafe { libc::exit(0) };
    }
}

fn serve(socket: &Socket, verbs: &mut verbs::Verbs<'_>) {
    let Ok(client) = socket.accept().map(File::from) else { return };
    let asked = request(&client);
    let is_why = asked == Ok(Verb::Why);
    let (is_read, answer) = (asked.is_ok(), answer(asked, socket, verbs));
    // Who asks the same meanwhile gets this answer: one look takes most of the time that both have.
    let mut others = Vec::new();
    while is_why && others.len() < SAME && socket.wait(0) == Waited::Client {
        let Ok(other) = socket.accept() else { break };
        others.push(File::from(other));
    }
    reply(&client, &answer, is_read);
    for other in others {
        match request(&other) {
            Ok(Verb::Why) => reply(&other, &answer, true),
            asked => {
                let is_read = asked.is_ok();
                reply(&other, &self::answer(asked, socket, verbs), is_read);
            }
        }
    }
}

fn request(client: &File) -> Result<Verb, String> {
    may_ask(client.as_fd())
        .and_then(|()| read_line(client))
        .and_then(|line| Verb::parse(&line).map_err(|error| error.to_string()))
}

fn answer(asked: Result<Verb, String>, socket: &Socket, verbs: &mut verbs::Verbs<'_>) -> Answer {
    asked.map_or_else(Answer::error, |verb| verbs.answer(verb, &socket.name))
}

fn reply(client: &File, answer: &Answer, is_read: bool) {
    // A client that is gone, or reads nothing, has no answer.
    let _ = timed_write::write(client.as_fd(), answer.to_text().as_bytes(), CLIENT_PATIENCE);
    if !is_read {
        read_rest(client);
    }
}

/// Reads on for a moment: a socket that is closed with bytes unread takes the answer away from the client.
fn read_rest(mut client: &File) {
    // SAFETY: the descriptor is open.
    unsafe { libc::shutdown(client.as_raw_fd(), libc::SHUT_WR) };
    let until = Instant::now() + REST_PATIENCE;
    let mut piece = [0u8; 4096];
    for _ in 0..REST_PIECES {
        let left = until.saturating_duration_since(Instant::now());
        if !has_something(client, left) || !client.read(&mut piece).is_ok_and(|taken| taken > 0) {
            return;
        }
    }
}

/// Waits for `left` at most until there is something to read.
fn has_something(client: &File, left: Duration) -> bool {
    let mut asked = libc::pollfd { fd: client.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid entry.
    unsafe { libc::poll(&raw mut asked, 1, left.as_millis() as i32) > 0 }
}

/// Whether the client is this user or root.
fn may_ask(client: BorrowedFd<'_>) -> Result<(), String> {
    let peer = peer(client)
        .map_err(|error| format!("the system does not identify the client ({error})"))?;
    // SAFETY: no preconditions.
    let own = unsafe { libc::geteuid() };
    let overflow = std::fs::read_to_string("/proc/sys/kernel/overflowuid");
    let overflow = overflow.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(65534);
    if is_allowed(peer, own, overflow) {
        return Ok(());
    }
    Err(format!(
        "user {peer} may not control a process of user {own}: ask as that user or as root, in its user \
         namespace"
    ))
}

/// Users that a user namespace does not know all have the overflow number: it identifies none.
fn is_allowed(peer: u32, own: u32, overflow: u32) -> bool {
    peer != overflow && (peer == own || peer == 0)
}

fn peer(client: BorrowedFd<'_>) -> io::Result<u32> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the places are valid and of the sizes that the call is told.
    let result = unsafe {
        let (level, name) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
        libc::getsockopt(client.as_raw_fd(), level, name, (&raw mut peer).cast(), &raw mut length)
    };
    if result == 0 { Ok(peer.uid) } else { Err(io::Error::last_os_error()) }
}

/// The request: a line, up to its end or to the end of what the client sends.
fn read_line(mut client: &File) -> Result<String, String> {
    let until = Instant::now() + CLIENT_PATIENCE;
    let mut line = Vec::new();
    let mut piece = [0u8; 1024];
    while !line.contains(&b'\n') {
        if line.len() >= MAX_REQUEST_BYTES {
            return Err(format!("the request is longer than {MAX_REQUEST_BYTES} bytes"));
        }
        let left = until.saturating_duration_since(Instant::now());
        if !has_something(client, left) {
            if left.is_zero() {
                return Err(format!("no request came within {} s", CLIENT_PATIENCE.as_secs()));
            }
            continue;
        }
        match client.read(&mut piece) {
            Ok(0) => break,
            Ok(taken) => line.extend_from_slice(piece.get(..taken).unwrap_or_default()),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => {}
                _ => return Err(format!("the request cannot be read: {error}")),
            },
        }
    }
    if let Some(end) = line.iter().position(|&byte| byte == b'\n') {
        line.truncate(end);
    }
    String::from_utf8(line).map_err(|_| "the request is not UTF-8 text".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hazard (Dormant processes and windows): Another user asks.
    /// Promise: No answer, nor to a user whom the user namespace does not know.
    #[test]
    fn only_this_user_and_root_may_ask_and_nobody_as_whom_nobody_knows() {
        assert!(
            is_allowed(1000, 1000, 65534) && is_allowed(0, 1000, 65534) && is_allowed(0, 0, 65534)
        );
        assert!(!is_allowed(1001, 1000, 65534));
        assert!(!is_allowed(65534, 65534, 65534), "any user of another namespace looks like that");
        assert!(!is_allowed(1000, 0, 65534));
    }
}
