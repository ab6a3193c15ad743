//! What the driver has told the kernel's log of errors of GPUs (Xid), in the last minutes.

use std::fs::OpenOptions;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::{Duration, Instant};

/// Older ones say nothing of what stands now.
const MINUTES: u64 = 15;
/// The longest that the log is read, and how many are told.
const PATIENCE: Duration = Duration::from_millis(200);
const TOLD: usize = 8;
/// The kernel gives one record at a time, and refuses a place that is too short for it.
const RECORD: usize = 8 << 10;
const TEXT: usize = 160;

/// An error that the driver has told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Xid {
    /// The process, where the driver names one.
    pub(super) pid: Option<u32>,
    pub(super) text: String,
}

/// The newest errors, or why they cannot be read.
pub(super) fn recent() -> Result<Vec<Xid>, String> {
    let refused = |error: std::io::Error| {
        format!(
            "Xid errors: /dev/kmsg cannot be read ({error}); `sudo dmesg | grep Xid` shows them"
        )
    };
    let uptime = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
    let now = uptime.split('.').next().and_then(|seconds| seconds.parse().ok()).unwrap_or(0);
    let mut log = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open("/dev/kmsg")
        .map_err(refused)?;
    let (mut found, begun) = (Vec::new(), Instant::now());
    let mut record = vec![0; RECORD];
    while begun.elapsed() < PATIENCE {
        match log.read(&mut record) {
            Ok(0) => break,
            Ok(length) => {
                let text = String::from_utf8_lossy(record.get(..length).unwrap_or_default());
                found.extend(read(&text, now));
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
            // Records were overwritten meanwhile: the next read goes on behind them.
            Err(error) if error.raw_os_error() == Some(nix::libc::EPIPE) => {}
            Err(error) => return Err(refused(error)),
        }
    }
    Ok(found.split_off(found.len().saturating_sub(TOLD)))
}

/// Reads a record `6,339,5140900,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=7, name=x, GPU has fallen off the bus`.
fn read(record: &str, now: u64) -> Option<Xid> {
    let (head, text) = record.split_once(';')?;
    let seconds = head.split(',').nth(2)?.parse::<u64>().ok()? / 1_000_000;
    let ago = now.saturating_sub(seconds);
    let text = text.lines().next()?.strip_prefix("NVRM: Xid ")?;
    if ago > 60 * MINUTES {
        return None;
    }
    let pid = text.split_once("pid=").and_then(|(_, rest)| {
        let digits = rest.trim_start_matches('\'');
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        digits.get(..end)?.parse().ok()
    });
    let text: String = text.chars().take(TEXT).collect();
    Some(Xid { pid, text: format!("Xid {ago} s ago: {text}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_a_gpu_is_read_with_its_process_and_others_are_not() {
        let of = |text: &str| read(&format!("6,339,5000000,-;{text}"), 65);
        let found =
            of("NVRM: Xid (PCI:0000:3b:00): 31, pid=71, name=python3, Ch 00000010\n SUBSYSTEM=pci");
        let expected = "Xid 60 s ago: (PCI:0000:3b:00): 31, pid=71, name=python3, Ch 00000010";
        assert_eq!(found, Some(Xid { pid: Some(71), text: expected.to_owned() }));
        let none =
            of("NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', GPU has fallen off the bus");
        assert_eq!(none.expect("read").pid, None);
        for other in ["usb 1-1: Xid", "NVRM: GPU at PCI", ""] {
            assert_eq!(of(other), None, "{other}");
        }
        let line = "6,339,5000000,-;NVRM: Xid (PCI:0): 79, x";
        assert_eq!(read(line, 5 + 60 * MINUTES + 1), None, "too old");
        for broken in ["", ";", "6,339;NVRM: Xid (PCI:0): 79", "6,1,x,-;NVRM: Xid (PCI:0): 1"] {
            assert_eq!(read(broken, 9), None, "{broken}");
        }
    }

    #[test]
    fn the_log_of_this_machine_is_read_or_the_answer_says_why_not() {
        if let Err(why) = recent() {
            assert!(why.contains("/dev/kmsg") && why.contains("dmesg"), "{why}");
        }
    }
}
