//! The server as a client sees it, with a script in the place of the launcher.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// What stands for the launcher: it does what the question says, and else prints its words.
const LAUNCHER: &str = r#"#!/bin/sh
case "$*" in
*SLEEP*) exec sleep 30;;
*FLOOD*) exec yes;;
*MEMORY*) sleep 1; python3 -c 'b = bytearray(5 << 30)' >&2 || exit 9;;
*LIST*) echo "questions: summary"; exit 2;;
*EMPTY*) printf 'no work \033[31m' >&2; exit 70;;
*SLOW*) sleep 0.2; echo "$$";;
run*) for word; do last=$word; done; trap 'echo ended > "$last"; exit 0' TERM
      echo started > "$last"; while :; do sleep 0.05; done;;
*) printf '%s\n' "$@";;
esac
"#;
const LONG: Duration = Duration::from_secs(60);

/// A running server, and what it says.
struct Client {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    folder: tempfile::TempDir,
}

impl Client {
    fn new(options: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let launcher = folder.path().join("launcher");
        std::fs::write(&launcher, LAUNCHER).expect("script");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&launcher, mode).expect("mode");
        std::fs::create_dir_all(folder.path().join("root/a")).expect("run");
        std::fs::write(folder.path().join("root/a/metrics.json"), "{}").expect("report");
        let mut command = Command::new(env!("CARGO_BIN_EXE_stage2-mcp"));
        command.arg("--launcher").arg(&launcher).args(options).arg(folder.path().join("root"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("server");
        let (sender, lines) = channel();
        let output = BufReader::new(child.stdout.take().expect("output"));
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { input: child.stdin.take(), child, lines, folder }
    }

    /// One whose session has begun.
    fn ready(options: &[&str]) -> Self {
        let mut client = Self::new(options);
        client.begin();
        client
    }

    fn begin(&mut self) {
        let info = json!({"name": "test", "version": "1"});
        let params =
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info});
        self.request(json!("first"), "initialize", params);
        let answer = self.answer();
        assert_eq!(answer["result"]["serverInfo"]["name"], "stage2", "{answer}");
        self.line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.as_bytes());
    }

    fn line(&mut self, line: &[u8]) {
        let input = self.input.as_mut().expect("open");
        input.write_all(line).and_then(|()| input.write_all(b"\n")).expect("sent");
    }

    fn request(&mut self, id: Value, method: &str, params: Value) {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.line(request.to_string().as_bytes());
    }

    fn call(&mut self, id: u64, tool: &str, arguments: Value) {
        self.request(id.into(), "tools/call", json!({"name": tool, "arguments": arguments}));
    }

    fn ask(&mut self, id: u64, question: &str) {
        self.call(id, "ask", json!({"run": "a", "question": question}));
    }

    fn answer(&self) -> Value {
        serde_json::from_str(&self.lines.recv_timeout(LONG).expect("an answer")).expect("JSON")
    }

    fn text(&self) -> (bool, String) {
        let answer = self.answer();
        let text = answer["result"]["content"][0]["text"].as_str();
        let text = text.unwrap_or_else(|| panic!("{answer}")).to_owned();
        (answer["result"]["isError"] == true, text)
    }

    fn said(&self) -> String {
        self.answer()["error"]["message"].as_str().unwrap_or_default().to_owned()
    }

    fn memory_kib(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("status");
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("peak");
        peak.trim().trim_end_matches(" kB").parse().expect("a number")
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.input.take());
        let ends = Instant::now() + LONG;
        while self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            if Instant::now() > ends {
                let _ = self.child.kill();
                panic!("the server goes on without its client");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn tools_are_listed_and_pass_their_words_on() {
    let mut client = Client::ready(&[]);
    client.request(json!(1), "tools/list", json!({}));
    let answer = client.answer();
    let tools = answer["result"]["tools"].as_array().expect("tools");
    let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(names, ["list_runs", "ask", "query", "schema", "next", "diff"]);
    assert!(tools.iter().all(|tool| tool["annotations"]["readOnlyHint"] == true));
    // Each client pays for it in every conversation.
    assert!(answer.to_string().len() < 6_000, "{}", answer.to_string().len());
    let root = client.folder.path().canonicalize().expect("root").join("root/a");
    client.ask(2, "$(touch x); --json");
    let words = format!("ask\n--json\n--\n{}\n$(touch x); --json\n", root.display());
    assert_eq!(client.text(), (false, words));
    client.call(3, "list_runs", json!({}));
    assert!(client.text().1.contains("[[\"a\",\""));
}

#[test]
fn a_verb_that_fails_says_why() {
    let mut client = Client::ready(&[]);
    client.ask(1, "LIST");
    assert_eq!(client.text(), (true, "questions: summary\n".to_owned()));
    client.ask(2, "EMPTY");
    let (is_error, text) = client.text();
    assert!(is_error && text.contains("70 (there is no result)"), "{text}");
    assert!(text.contains("no work") && !text.contains('\u{1b}'), "{text}");
    client.ask(3, "FLOOD");
    assert!(client.text().1.contains("longer than 262144 bytes"));
    client.ask(4, "MEMORY");
    let (_, text) = client.text();
    assert!(text.contains("ask: 9"), "it had the memory: {text}");
    client.call(5, "ask", json!({"run": "../..", "question": "x"}));
    assert!(client.text().1.contains("is not a run below"));
}

#[test]
fn what_is_no_request_is_refused_and_the_session_goes_on() {
    let mut client = Client::ready(&[]);
    let mut deep = b"{\"a\":".repeat(100_000);
    deep.push(b'1');
    for (line, said) in [
        (&b"{\"jsonrpc\""[..], "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        (&deep, "not JSON"),
        (b"[{}]", "no batches"),
        (b"{\"id\":7}", "not a message"),
        (&vec![b'x'; 40 << 20], "longer than 1048576 bytes"),
        (&[b"{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"", &[b'm'; 1000][..], b"\"}"].concat(), "tools/call"),
        (b"{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"tools/call\",\"params\":{\"name\":7}}", "tools/call"),
        (b"{\"jsonrpc\":\"2.0\",\"id\":10,\"method\":\"tools/call\",\"params\":{\"name\":\"rm\"}}", "no tool `rm`"),
        (b"{\"jsonrpc\":\"2.0\",\"id\":11,\"method\":\"tools/call\",\"params\":{\"name\":\"run\"}}", "--allow run"),
        (b"{\"jsonrpc\":\"2.0\",\"id\":12,\"method\":\"resources/read\",\"params\":{\"uri\":\"file:///etc/passwd\"}}", "resources/read"),
    ] {
        client.line(line);
        let told = client.said();
        assert!(told.contains(said) && told.len() < 500, "{told}");
    }
    client.line(b"");
    client.line(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/none\"}");
    client.ask(13, "after");
    assert!(client.text().1.ends_with("after\n"));
    assert!(client.memory_kib() < 100 << 10, "{} KiB", client.memory_kib());
}

#[test]
fn calls_wait_for_each_other_and_too_many_are_refused() {
    let mut client = Client::ready(&[]);
    for id in 0..100 {
        client.ask(id, "SLOW");
    }
    let started = Instant::now();
    let texts: Vec<(bool, String)> = (0..100).map(|_| client.text()).collect();
    let refused = texts.iter().filter(|(_, text)| text.contains("call again")).count();
    let answered = texts.iter().filter(|(is_error, _)| !is_error).count();
    assert_eq!(refused + answered, 100, "{texts:?}");
    // Four at a time, of 0.2 s each.
    assert!(answered >= 36 && started.elapsed() > Duration::from_millis(1_600), "{answered}");
    let one_id = json!({"name": "ask", "arguments": {"run": "a", "question": "SLOW"}});
    client.request(json!(1), "tools/call", one_id.clone());
    client.request(json!(1), "tools/call", one_id);
    assert!(client.said().contains("another id"));
    assert!(!client.text().0);
}

#[test]
fn a_cancelled_call_ends_its_child() {
    let mut client = Client::ready(&[]);
    for id in 0..4 {
        client.ask(id, "SLEEP");
    }
    for id in 0..4 {
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
        client.line(cancel.to_string().as_bytes());
    }
    client.ask(9, "after");
    assert!(client.text().1.ends_with("after\n"));
}

#[test]
fn a_run_needs_consent_and_ends_with_its_client() {
    let mut client = Client::ready(&["--allow", "run,ctl"]);
    let file = client.folder.path().join("state");
    client.call(0, "run", json!({"command": ["x"], "directory": "/does/not/exist"}));
    assert!(client.text().1.contains("there is no folder /does/not/exist"));
    client.call(1, "run", json!({"command": ["x", file]}));
    wait_for(&file, "started");
    client.call(2, "run", json!({"command": ["x", "y"]}));
    assert!(client.text().1.contains("one at a time"));
    // What it hangs in can be asked meanwhile.
    client.call(3, "ctl", json!({"target": "a", "verb": "why"}));
    assert!(client.text().1.ends_with("root/a\nwhy\n"));
    drop(client.input.take());
    wait_for(&file, "ended");
}

#[test]
fn a_run_that_never_ends_is_ended_when_its_call_is_cancelled() {
    let mut client = Client::ready(&["--allow", "run"]);
    let file = client.folder.path().join("state");
    client.call(1, "run", json!({"command": ["x", file]}));
    wait_for(&file, "started");
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    client.line(cancel.to_string().as_bytes());
    wait_for(&file, "ended");
    client.ask(2, "after");
    assert!(client.text().1.ends_with("after\n"));
}

#[test]
fn a_signal_ends_the_run_before_the_server() {
    let mut client = Client::ready(&["--allow", "run"]);
    client.call(0, "ctl", json!({"target": "1", "verb": "stop"}));
    assert!(client.said().contains("--allow ctl"));
    let file = client.folder.path().join("state");
    client.call(1, "run", json!({"command": ["x", file]}));
    wait_for(&file, "started");
    let pid = client.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill").success());
    wait_for(&file, "ended");
    assert!(client.child.wait().expect("ended").success());
}

#[test]
fn a_client_that_never_begins_gets_an_end() {
    let initialized = b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}";
    for lines in [&[][..], &[&initialized[..]]] {
        let mut client = Client::new(&[]);
        lines.iter().for_each(|line| client.line(line));
        drop(client.input.take());
        assert!(client.child.wait().is_ok_and(|status| status.success()));
    }
}

#[test]
fn a_notification_before_the_session_does_not_end_it() {
    let mut client = Client::new(&[]);
    client.line(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    client.begin();
    client.request(json!(2), "tools/list", json!({}));
    assert!(client.answer()["result"]["tools"].is_array());
}

fn wait_for(file: &Path, state: &str) {
    let ends = Instant::now() + LONG;
    while std::fs::read_to_string(file).unwrap_or_default().trim() != state {
        assert!(Instant::now() < ends, "{} is not {state}", file.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}
