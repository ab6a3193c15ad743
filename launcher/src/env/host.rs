//! Files of /proc and /etc -> the machine.

use serde::{Deserialize, Serialize};

/// The machine. Empty or none: not known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Host {
    pub(crate) name: Option<String>,
    /// Distribution, as `/etc/os-release` names it.
    pub(crate) os: Option<String>,
    pub(crate) kernel: Option<String>,
    pub(crate) cpu: Option<String>,
    /// Logical processors that this process may use.
    pub(crate) cpus: Option<usize>,
    pub(crate) memory_bytes: Option<u64>,
}

impl Host {
    /// Reads what there is.
    pub(crate) fn read() -> Host {
        let file = |path: &str| std::fs::read_to_string(path).ok();
        let line = |path: &str| file(path).map(|t| t.trim().to_owned()).filter(|t| !t.is_empty());
        Host {
            name: line("/proc/sys/kernel/hostname"),
            os: file("/etc/os-release").and_then(|t| os_name(&t)),
            kernel: line("/proc/sys/kernel/osrelease"),
            cpu: file("/proc/cpuinfo").and_then(|t| value_of(&t, "model name")),
            cpus: std::thread::available_parallelism().ok().map(usize::from),
            memory_bytes: file("/proc/meminfo").and_then(|t| memory_bytes(&t)),
        }
    }
}

fn os_name(text: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim().trim_matches(['"', '\'']).to_owned())
}

fn value_of(text: &str, key: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim().to_owned())
    })
}

fn memory_bytes(meminfo: &str) -> Option<u64> {
    let value = value_of(meminfo, "MemTotal")?;
    value.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_as_they_are() {
        assert_eq!(os_name("ID=x\nPRETTY_NAME=\"Debian 13\"\n").as_deref(), Some("Debian 13"));
        assert_eq!(memory_bytes("MemTotal:       32 kB\nMemFree: 1 kB\n"), Some(32 * 1024));
        assert_eq!(memory_bytes("MemTotal: 99999999999999999999 kB"), None);
        assert_eq!(memory_bytes(""), None);
        assert_eq!(value_of("a\t: 1\nmodel name\t: X: Y\n", "model name").as_deref(), Some("X: Y"));
        assert!(Host::read().kernel.is_some());
    }
}
