//! A process -> the name of its control socket and the folders where that may be.

use std::path::PathBuf;

/// The longest path that a Unix socket can have, bytes without the NUL at its end.
pub const PATH_BYTES: usize = 107;
/// Bytes of a host name that go into the name of a socket.
const HOST_BYTES: usize = 32;
const ENDING: &str = ".sock";

/// The folders for the sockets of user `uid`, best first. `runtime`: its `XDG_RUNTIME_DIR`, which counts
/// where it is an absolute path.
pub fn folders(uid: u32, runtime: Option<PathBuf>) -> Vec<PathBuf> {
    let runtime = runtime.filter(|path| path.is_absolute()).map(|path| path.join("stage2"));
    runtime.into_iter().chain([PathBuf::from(format!("/tmp/stage2-{uid}"))]).collect()
}

/// What the name of a socket says: `HOST-PID-START.sock`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketName {
    /// The host, or the container, as it calls itself; other characters than ASCII letters, digits, `.`
    /// and `_` are `_`.
    pub host: String,
    /// The process, as it is numbered there.
    pub pid: u32,
    /// When it started, in clock ticks since the boot (field 22 of `/proc/PID/stat`): a number that comes
    /// round again is another process.
    pub start: u64,
}

impl SocketName {
    /// The name for a process of a host.
    pub fn new(host: &str, pid: u32, start: u64) -> Self {
        let harmless =
            |c: char| if c.is_ascii_alphanumeric() || c == '.' || c == '_' { c } else { '_' };
        let mut host: String = host.chars().take(HOST_BYTES).map(harmless).collect();
        if host.is_empty() || host.starts_with('.') {
            host.insert(0, '_');
            host.truncate(HOST_BYTES);
        }
        SocketName { host, pid, start }
    }

    /// The file name.
    pub fn to_file_name(&self) -> String {
        format!("{}-{}-{}{ENDING}", self.host, self.pid, self.start)
    }

    /// Reads a file name; `None` where it is not the name of a socket of ours.
    pub fn parse(name: &str) -> Option<Self> {
        let mut parts = name.strip_suffix(ENDING)?.splitn(3, '-');
        let (host, pid, start) = (parts.next()?, parts.next()?, parts.next()?);
        let read = SocketName {
            host: host.to_owned(),
            pid: pid.parse().ok()?,
            start: start.parse().ok()?,
        };
        (read.to_file_name() == name && SocketName::new(host, 0, 0).host == host).then_some(read)
    }
}

/// The process that the file name of a socket names. Allocates nothing.
pub fn pid_in(name: &str) -> Option<u32> {
    let (rest, start) = name.strip_suffix(ENDING)?.rsplit_once('-')?;
    let (_, pid) = rest.rsplit_once('-')?;
    start.parse::<u64>().ok().and(pid.parse().ok())
}

/// The start of a process, from the text of its `/proc/PID/stat`.
pub fn start_of(stat: &str) -> Option<u64> {
    // The name of the program stands in parentheses and may hold blanks and parentheses.
    stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_host_process_and_start_and_nothing_else_is_one() {
        for (host, pid, start) in
            [("node-07", 4321, 99), ("", 1, 0), ("../x", 2, u64::MAX), (".h", 3, 4)]
        {
            let name = SocketName::new(host, pid, start);
            let text = name.to_file_name();
            assert!(!text.contains('/') && !text.starts_with('.') && text.len() < 80, "{text}");
            assert_eq!(
                (pid_in(&text), SocketName::parse(&text)),
                (Some(pid), Some(name)),
                "{text}"
            );
        }
        let other = [
            "",
            ".sock",
            "a-1.sock",
            "a-1-2",
            "a-01-2.sock",
            "a-1-2-3.sock",
            "a b-1-2.sock",
            "-1-2.sock",
        ];
        for other in other {
            assert_eq!(SocketName::parse(other), None, "{other}");
        }
        assert_eq!([".sock", "a-1.sock", "a-1-2", "a-b-2.sock"].map(pid_in), [None; 4]);
    }

    #[test]
    fn a_start_is_read_whatever_the_program_is_called() {
        let fields: String = (4..=52).map(|field| format!(" {field}")).collect();
        for name in ["infer", "a) S 1 (b", "x y"] {
            assert_eq!(start_of(&format!("77 ({name}) S{fields}\n")), Some(22), "{name}");
        }
        assert_eq!(start_of(""), None);
        assert_eq!(start_of("1 (a) S 2"), None);
    }

    #[test]
    fn a_runtime_folder_comes_first_where_it_is_absolute() {
        assert_eq!(folders(7, None), [PathBuf::from("/tmp/stage2-7")]);
        assert_eq!(folders(7, Some("run".into())), [PathBuf::from("/tmp/stage2-7")]);
        let both = folders(7, Some("/run/user/7".into()));
        assert_eq!(both, [PathBuf::from("/run/user/7/stage2"), PathBuf::from("/tmp/stage2-7")]);
    }
}
