//! Lines of standard input -> messages; messages -> lines of standard output.
//!
//! The transport of the SDK drops lines that are too long or no JSON, and its client waits for ever. This
//! one states what is wrong with them. It reads no further while the client takes no answers, or while many
//! of its requests have none, so that no client makes it keep more than some megabytes.

use std::collections::HashSet;
use std::io::{self, BufRead, ErrorKind, Write as _};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ErrorCode, ErrorData, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::sync::{Notify, mpsc, oneshot};

/// Longest line of a client, bytes.
pub(crate) const LINE_LIMIT: usize = 1 << 20;
/// Requests without an answer, beyond which no line is read.
const OPEN_REQUESTS: usize = 48;
/// Answers that the client has not taken, beyond which no line is read.
const UNSENT: usize = 16;
/// How long the last answers may take to be written.
const LAST_ANSWERS: Duration = Duration::from_secs(3);

/// A line of a client.
#[derive(Debug, PartialEq)]
enum Line {
    Whole(Vec<u8>),
    TooLong,
}

/// Standard input and output as a transport of the SDK.
pub(crate) struct Stdio {
    lines: mpsc::Receiver<Line>,
    out: mpsc::Sender<Vec<u8>>,
    open: Arc<OpenRequests>,
    /// A request came: a session begins with one.
    has_begun: bool,
}

/// Requests that have no answer yet.
#[derive(Default)]
struct OpenRequests {
    ids: Mutex<HashSet<RequestId>>,
    fewer: Notify,
}

/// The thread that writes.
pub(crate) struct Writing(oneshot::Receiver<()>);

/// Starts to read standard input, and to write standard output.
pub(crate) fn open() -> (Stdio, Writing) {
    let (line, lines) = mpsc::channel(1);
    let (out, texts) = mpsc::channel(UNSENT);
    let (done, written) = oneshot::channel();
    // Threads, because a read of a terminal or a pipe cannot be given up. Neither outlives the program.
    std::thread::spawn(move || read_lines(io::stdin().lock(), &line));
    std::thread::spawn(move || {
        write_lines(texts);
        // Nobody may wait any more.
        let _ = done.send(());
    });
    (Stdio { lines, out, open: Arc::default(), has_begun: false }, Writing(written))
}

impl Writing {
    /// Waits until all answers are written, unless the client takes none.
    pub(crate) async fn end(self) {
        let _ = tokio::time::timeout(LAST_ANSWERS, self.0).await;
    }
}

fn read_lines(mut input: impl BufRead, lines: &mpsc::Sender<Line>) {
    let (mut line, mut is_too_long) = (Vec::new(), false);
    loop {
        let chunk = match input.fill_buf() {
            Ok(chunk) => chunk,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        let (is_end, end) = (chunk.is_empty(), chunk.iter().position(|byte| *byte == b'\n'));
        let text = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or_default();
        is_too_long |= line.len() + text.len() > LINE_LIMIT;
        match is_too_long {
            true => line = Vec::new(),
            false => line.extend_from_slice(text),
        }
        let used = text.len() + usize::from(end.is_some());
        input.consume(used);
        if end.is_some() || is_end {
            let read = match mem::take(&mut is_too_long) {
                true => Line::TooLong,
                false => Line::Whole(mem::take(&mut line)),
            };
            if lines.blocking_send(read).is_err() || is_end {
                return;
            }
        }
    }
}

fn write_lines(mut texts: mpsc::Receiver<Vec<u8>>) {
    let mut out = io::stdout().lock();
    while let Some(text) = texts.blocking_recv() {
        // The client is gone: with this end of the channel, the session ends.
        if out.write_all(&text).and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}

impl Transport<RoleServer> for Stdio {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let (out, open) = (self.out.clone(), Arc::clone(&self.open));
        let text = text_of(&message);
        async move {
            let sent = out.send(text).await;
            open.close(answered(&message));
            sent.map_err(|_| ErrorKind::BrokenPipe.into())
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            // The SDK drops this future when something else happens: each wait can be repeated.
            self.open.room().await;
            let answer = self.out.reserve().await.ok()?;
            match self.lines.recv().await? {
                Line::TooLong => answer.send(too_long().text()),
                Line::Whole(line) => {
                    match message_of(&line).and_then(|message| self.open.admit(message)) {
                        Ok(Some(message)) => {
                            self.has_begun |= matches!(message, JsonRpcMessage::Request(_));
                            // The SDK would end the session at anything else in front.
                            if self.has_begun {
                                return Some(message);
                            }
                        }
                        Ok(None) => {}
                        Err(refusal) => answer.send(refusal.text()),
                    }
                }
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl OpenRequests {
    fn ids(&self) -> MutexGuard<'_, HashSet<RequestId>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until another request may come.
    async fn room(&self) {
        while self.ids().len() >= OPEN_REQUESTS {
            self.fewer.notified().await;
        }
    }

    /// Counts a request; refuses one whose answer could not be told from that of another.
    fn admit(
        &self,
        message: Option<ClientJsonRpcMessage>,
    ) -> Result<Option<ClientJsonRpcMessage>, Refusal> {
        match &message {
            Some(JsonRpcMessage::Request(request)) if !self.ids().insert(request.id.clone()) => {
                let why = "a request with this id has no answer yet: give each another id";
                // Without the id: the client would take it for the answer to the other request.
                return Err(refusal(ErrorCode::INVALID_REQUEST, why, None));
            }
            Some(JsonRpcMessage::Notification(notification)) => {
                // What is cancelled gets no answer.
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                {
                    self.close(cancelled.params.request_id.as_ref());
                }
            }
            _ => {}
        }
        Ok(message)
    }

    fn close(&self, id: Option<&RequestId>) {
        if id.is_some_and(|id| self.ids().remove(id)) {
            self.fewer.notify_one();
        }
    }
}

fn answered(message: &ServerJsonRpcMessage) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Response(response) => Some(&response.id),
        JsonRpcMessage::Error(error) => error.id.as_ref(),
        _ => None,
    }
}

/// The message of a line; none: the line needs no answer.
fn message_of(line: &[u8]) -> Result<Option<ClientJsonRpcMessage>, Refusal> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Ok(None);
    }
    let value: Value = serde_json::from_slice(line).map_err(|error| {
        let why = format!("not JSON ({error}): send one JSON-RPC 2.0 object per line");
        refusal(ErrorCode::PARSE_ERROR, why, None)
    })?;
    if !value.is_object() {
        let why = "not an object: send one JSON-RPC 2.0 object per line, no batches";
        return Err(refusal(ErrorCode::INVALID_REQUEST, why, None));
    }
    let id = value.get("id").and_then(|id| match id {
        Value::Number(number) => number.as_i64().map(RequestId::Number),
        Value::String(text) => Some(RequestId::String(text.as_str().into())),
        _ => None,
    });
    // A notification gets no answer, not even one that nobody knows.
    let is_notification = value.get("id").is_none() && value.get("method").is_some();
    match serde_json::from_value(value) {
        Ok(message) => Ok(Some(message)),
        Err(_) if is_notification => Ok(None),
        Err(_) => {
            let why = "not a message of the Model Context Protocol: it has \"jsonrpc\": \"2.0\", an id \
                       (a text or a whole number), a method and params";
            Err(refusal(ErrorCode::INVALID_REQUEST, why, id))
        }
    }
}

fn too_long() -> Refusal {
    let why =
        format!("a line is longer than {LINE_LIMIT} bytes, and was not read: send less at once");
    refusal(ErrorCode::INVALID_REQUEST, why, None)
}

/// Why a line is not passed on.
#[derive(Debug)]
struct Refusal {
    error: ErrorData,
    id: Option<RequestId>,
}

fn refusal(code: ErrorCode, why: impl Into<String>, id: Option<RequestId>) -> Refusal {
    Refusal { error: ErrorData::new(code, why.into(), None), id }
}

impl Refusal {
    fn text(self) -> Vec<u8> {
        text_of(&JsonRpcMessage::error(self.error, self.id))
    }
}

fn text_of(message: &ServerJsonRpcMessage) -> Vec<u8> {
    // Texts and numbers: none of them fails.
    let mut text = serde_json::to_vec(message).unwrap_or_default();
    text.push(b'\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(input: &[u8]) -> Vec<Line> {
        let (sender, mut lines) = mpsc::channel(100);
        // Small pieces, as a pipe may give them.
        read_lines(io::BufReader::with_capacity(7, input), &sender);
        drop(sender);
        std::iter::from_fn(|| lines.blocking_recv()).collect()
    }

    #[test]
    fn a_line_that_is_too_long_costs_itself_only() {
        let whole = |text: &[u8]| Line::Whole(text.to_vec());
        let mut input = vec![b'x'; LINE_LIMIT + 1];
        input.extend_from_slice(b"\nafter\n");
        assert_eq!(lines_of(&input), [Line::TooLong, whole(b"after"), whole(b"")]);
        let longest = vec![b'y'; LINE_LIMIT];
        assert_eq!(lines_of(&longest), [whole(&longest)]);
    }

    #[test]
    fn what_is_no_message_is_refused_with_the_reason() {
        for (line, said) in [
            (&b"{"[..], "not JSON"),
            (b"\xff\xfe", "not JSON"),
            (b"[]", "no batches"),
            (b"7", "no batches"),
            (b"{\"id\": 3}", "not a message"),
            (b"{\"jsonrpc\": \"1.0\", \"id\": 3, \"method\": \"ping\"}", "not a message"),
        ] {
            let refused = message_of(line).expect_err("refused");
            assert!(String::from_utf8(refused.text()).expect("text").contains(said), "{line:?}");
        }
        let deep = [b"{\"a\":".repeat(10_000), b"1".to_vec(), b"}".repeat(10_000)].concat();
        assert!(message_of(&deep).is_err());
        assert!(message_of(b" \r").is_ok_and(|message| message.is_none()));
        assert!(message_of(b"{\"jsonrpc\":\"2.0\",\"method\":\"$/x\"}").is_ok());
    }

    #[test]
    fn an_id_counts_until_it_is_answered_or_cancelled() {
        let open = OpenRequests::default();
        let message = |text: &str| message_of(text.as_bytes()).expect("a message");
        let ping = r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#;
        assert!(open.admit(message(ping)).is_ok());
        assert!(open.admit(message(ping)).is_err());
        let cancel =
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}"#;
        assert!(open.admit(message(cancel)).is_ok());
        assert!(open.admit(message(ping)).is_ok());
        open.close(Some(&RequestId::String("a".into())));
        assert_eq!(open.ids().len(), 0);
    }
}
