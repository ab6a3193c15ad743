//! Processes of a run that have ended while others go on: no socket answers for them, but their trace files, and
//! sockets that nobody took away, are still there.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use stage2_contract::text::visible_path;
use stage2_contract::trace::{Ending, Reader, Record, file_name};

use super::evidence::{Evidence, Silent, SilentState};
use crate::control::{ControlSocket, began};

/// Trace files of a folder that are looked at, and processes that are told of.
const FILES: usize = 4096;
const TOLD: usize = 64;
/// Records at the beginning of a trace file that may tell the rank.
const HEAD: usize = 4096;
/// The end of a larger trace file is not looked for: the answer has to come within 2 s.
const WHOLE_BYTES: u64 = 16 << 20;
/// A file system may write times that much too early.
const EARLY: Duration = Duration::from_secs(2);

/// Processes of this host that have written into the folder since the others began, and are gone.
pub(super) fn of_folder(folder: &Path, found: &[ControlSocket]) -> Vec<Evidence> {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let Some(began) = found.iter().filter_map(began).min() else {
        return Vec::new();
    };
    let mut ended: Vec<(u32, PathBuf, SystemTime)> = Vec::new();
    for (pid, path, written) in trace_files(folder, host.trim()) {
        let is_gone = !Path::new(&format!("/proc/{pid}")).exists();
        if !is_gone || written + EARLY < began {
            continue;
        }
        match ended.iter_mut().find(|(known, ..)| *known == pid) {
            Some(last) if last.2 < written => *last = (pid, path, written),
            Some(_) => {}
            None => ended.push((pid, path, written)),
        }
    }
    ended.sort_unstable_by_key(|(pid, ..)| *pid);
    ended.into_iter().take(TOLD).map(|(pid, path, written)| of_trace(pid, &path, written)).collect()
}

/// Trace files of processes of this host, by the number of each, with the time of the last write.
pub(super) fn trace_files(folder: &Path, host: &str) -> Vec<(u32, PathBuf, SystemTime)> {
    let both = [folder.to_owned(), folder.join("collector")];
    let entries = both.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let files = entries.take(FILES).filter_map(|entry| {
        let pid = pid_of(entry.file_name().to_str()?, host)?;
        Some((pid, entry.path(), entry.metadata().ok()?.modified().ok()?))
    });
    files.collect()
}

/// The process whose trace file is called so: `HOST-PID.s2t`, `HOST-PID-w2.s2t`, `HOST-PID-p000001.s2t`.
fn pid_of(name: &str, host: &str) -> Option<u32> {
    let begins = file_name(host, 0);
    let rest = name.strip_suffix(".s2t")?.strip_prefix(begins.strip_suffix("0.s2t")?)?;
    rest.split('-').next()?.parse().ok()
}

fn of_trace(pid: u32, path: &Path, written: SystemTime) -> Evidence {
    let (mut rank, mut reason, mut is_whole) = (None, None, false);
    let is_small = fs::metadata(path).is_ok_and(|file| file.len() <= WHOLE_BYTES);
    if let Ok(mut reader) = Reader::open(path) {
        let longest = if is_small { usize::MAX } else { HEAD };
        for record in reader.by_ref().take(longest).map_while(Result::ok) {
            match record {
                Record::Meta { key, value } if key == "env.RANK" => rank = value.parse().ok(),
                Record::End { reason: told } => reason = Some(told),
                _ => {}
            }
        }
        is_whole = is_small && reader.end() == Ending::Complete;
    }
    let ago = written.elapsed().unwrap_or_default().as_secs();
    let shown = visible_path(path);
    let why = match reason {
        Some(reason) if is_whole => format!("its trace file {shown} ended {ago} s ago: {reason}"),
        _ if is_small => format!(
            "its trace file {shown}, last written {ago} s ago, has no end: it was killed, or crashed"
        ),
        _ => format!("its trace file {shown} was last written {ago} s ago"),
    };
    let mut evidence = Evidence::default();
    (evidence.process.pid, evidence.process.rank) = (pid, rank);
    evidence.silent = Some(Silent { why, state: SilentState::Gone });
    evidence
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use stage2_contract::control::SocketName;
    use stage2_contract::trace::Writer;

    use super::*;

    #[test]
    fn names_of_trace_files_tell_the_process() {
        let host = "node-7.x";
        for (name, pid) in [
            ("node-7.x-41.s2t", Some(41)),
            ("node-7.x-41-w2.s2t", Some(41)),
            ("node-7.x-41-p000001.s2t", Some(41)),
            ("node-41.s2t", None),
            ("other-41.s2t", None),
            ("node-7.x-41.why.json", None),
            ("node-7.x-.s2t", None),
        ] {
            assert_eq!(pid_of(name, host), pid, "{name}");
        }
    }

    /// Hazard (Standstill): A rank was killed while the others wait in a collective; its folder holds traces of an
    ///  earlier run.
    /// Promise: It is reported as ended, with its rank; processes of the earlier run and live ones are not.
    #[test]
    fn a_process_whose_trace_file_is_left_has_ended() {
        let folder = tempfile::tempdir().expect("a folder");
        let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a host");
        let dead = 4_000_000_000;
        let write = |pid, end: Option<&str>| {
            let path = folder.path().join(file_name(host.trim(), pid));
            let mut writer = Writer::new(fs::File::create(&path).expect("a file")).expect("begins");
            writer.write(&Record::Meta { key: "env.RANK".into(), value: "3".into() });
            if let Some(reason) = end {
                writer.write(&Record::End { reason: reason.into() });
            }
            writer.flush().expect("written");
            path
        };
        let earlier = write(dead + 1, None);
        let long_ago = SystemTime::now() - Duration::from_secs(3600);
        fs::File::options().append(true).open(earlier).unwrap().set_modified(long_ago).unwrap();
        let path = folder.path().join("x-1-1.sock");
        let _socket = UnixListener::bind(&path).expect("a socket");
        let own = std::process::id();
        let name = SocketName::new(host.trim(), own, 1);
        let found = [ControlSocket { pid: own, path, name }];
        write(own, None);
        assert!(of_folder(folder.path(), &found).is_empty());
        write(dead, None);
        write(dead + 2, Some("exit"));
        let told = of_folder(folder.path(), &found);
        let of = |evidence: &Evidence| (evidence.process.pid, evidence.process.rank);
        assert_eq!(told.iter().map(of).collect::<Vec<_>>(), [(dead, Some(3)), (dead + 2, Some(3))]);
        let why = |at: usize| told[at].silent.as_ref().map(|silent| silent.why.clone()).unwrap();
        assert!(why(0).contains("it was killed") && why(1).ends_with("ago: exit"), "{}", why(1));
        assert!(of_folder(folder.path(), &[]).is_empty(), "nobody lives: the run is over");
    }
}
