//! What the collector leaves is its user's alone: modes, links in shared folders, secrets among the
//! arguments, programs with more rights than their user.

use crate::common;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use crate::common::{Guest, built, collector, each, simulator, skipped, traces_in};
use stage2_contract::trace::Record;

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("a file").permissions().mode() & 0o7777
}

/// A guest of a shell that sets a umask.
fn under_umask(umask: &str, out: &Path) -> common::Left {
    let script = format!("umask {umask}; exec \"$0\" return");
    let guest = Guest::program("/bin/sh").argument("-c").argument(script).argument(built("guest"));
    guest.env("STAGE2_OUT", out).env("STAGE2_SUMMARY", out.join("table.txt")).run()
}

/// Hazard (Security): Another user reads trace files, tables and folders of the collector.
/// Promise: Files 0600 and new folders 0700, whatever the umask.
#[test]
fn files_and_folders_are_their_owners_whatever_the_umask() {
    each(["000", "022", "077", "377"], |umask| {
        let folder = tempfile::tempdir().expect("folder");
        let out = folder.path().join("new/out");
        under_umask(umask, &out).expect_said(0);
        assert_eq!((mode(&folder.path().join("new")), mode(&out)), (0o700, 0o700), "{umask}");
        let files: Vec<_> =
            fs::read_dir(&out).expect("folder").map(|e| e.expect("entry").path()).collect();
        assert_eq!(files.len(), 3, "trace file, kernels.md and table: {files:?}");
        for file in files {
            assert_eq!(mode(&file), 0o600, "umask {umask}: {}", file.display());
        }
    });
}

/// Hazard (Security): A link lies in wait under a name of the collector's.
/// Promise: It is not written through.
#[test]
fn links_that_lie_in_wait_are_not_written_through() {
    let folder = tempfile::tempdir().expect("folder");
    let precious = folder.path().join("precious");
    fs::write(&precious, "precious").expect("file");
    let shared = folder.path().join("shared");
    fs::create_dir(&shared).expect("folder");
    // The shell keeps its number over the exec, so it can plant what only the guest would write.
    let script = "cd \"$1\" && for name in kernels.md kernels-$$.md table.txt \
                  \"$(cat /proc/sys/kernel/hostname)-$$.s2t\"; do ln -s ../precious \"$name\"; done; \
                  exec \"$0\" return";
    let guest = Guest::program("/bin/sh").argument("-c").argument(script).argument(built("guest"));
    let guest = guest.argument(&shared).env("PATH", "/usr/bin:/bin");
    let left =
        guest.env("STAGE2_OUT", &shared).env("STAGE2_SUMMARY", shared.join("table.txt")).run();
    let said = left.expect_said(0);
    assert!(said.contains("the summary could not be written"), "{said}");
    assert_eq!(fs::read_to_string(&precious).expect("file"), "precious");
    let entries = || fs::read_dir(&shared).expect("folder").map(|e| e.expect("entry").path());
    let links: Vec<_> = entries().filter(|path| path.is_symlink()).collect();
    assert_eq!(links.len(), 4, "what somebody else left is still there");
    links.iter().for_each(|link| fs::remove_file(link).expect("a link"));
    assert_eq!(traces_in(&shared).len(), 1, "under the next name: {said}");
    let tables = entries().filter(|path| path.to_string_lossy().ends_with("-2.md"));
    assert_eq!(tables.count(), 1, "under the next name: {said}");
}

fn argv(left: &common::Left) -> Vec<String> {
    let found = left.trace().records.iter().find_map(|record| match record {
        Record::Process(process) => Some(process.argv.clone()),
        _ => None,
    });
    found.expect("a process")
}

/// Hazard (Security): Secrets among arguments, in trace files.
/// Promise: They are taken out before they are written.
#[test]
fn secrets_among_the_arguments_are_not_in_the_trace_file() {
    let words = [
        "--password",
        "hunter2",
        "db.token=hunter2",
        "https://me:hunter2@host/x",
        "acme_pin=hunter2",
    ];
    let run = |redact: &str| {
        let guest = words.iter().fold(Guest::new("return"), |guest, word| guest.argument(word));
        let left = guest.env("STAGE2_REDACT", redact).run();
        left.expect_quiet(0);
        argv(&left).split_off(2)
    };
    let known = ["--password", "[redacted]", "db.token=[redacted]", "https://me:[redacted]@host/x"];
    assert_eq!(run(""), [&known[..], &["acme_pin=hunter2"]].concat());
    assert_eq!(run("acme-pin"), [&known[..], &["acme_pin=[redacted]"]].concat());
    assert_eq!(run("off"), words);
}

/// Hazard (Security): A setting of redaction that cannot be read.
/// Promise: Redaction stays on.
#[test]
fn a_setting_of_redaction_that_cannot_be_read_leaves_it_on() {
    let guest = Guest::new("return").argument("--password=hunter2");
    let left = guest.env("STAGE2_REDACT", "no way").run();
    let said = left.expect_said(0);
    assert!(said.contains("STAGE2_REDACT") && said.contains("accepted: off, or"), "{said}");
    assert_eq!(argv(&left).last().map(String::as_str), Some("--password=[redacted]"));
}

/// Hazard (Security): A setuid or privileged program loads the collector.
/// Promise: One line; no variable is obeyed, and no file made.
#[test]
fn a_program_with_more_rights_than_its_user_records_nothing() {
    // SAFETY: asks who we are.
    if unsafe { libc::geteuid() } != 0 {
        return skipped("only root can make a setuid program of another user");
    }
    let folder = tempfile::tempdir().expect("folder");
    let at = |name: &str| folder.path().join(name);
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
    for (from, to, mode) in [
        (built("guest"), "guest", 0o4755),
        (collector(), "libstage2.so", 0o755),
        (simulator(), "libstage2_sim.so", 0o755),
    ] {
        fs::copy(from, at(to)).expect("a copy");
        fs::set_permissions(at(to), fs::Permissions::from_mode(mode)).expect("a mode");
    }
    let out = at("out");
    let run = |user: &str| {
        let mut setpriv = Command::new("setpriv");
        setpriv.args([&format!("--reuid={user}"), "--clear-groups"]).arg(at("guest")).arg("return");
        setpriv.env("STAGE2_TEST_SIM", at("libstage2_sim.so")).env("STAGE2_SIM_FAST", "1");
        setpriv.env("STAGE2_CUPTI", at("libstage2_sim.so")).env("STAGE2_OUT", &out);
        setpriv.env("CUDA_INJECTION64_PATH", at("libstage2.so"));
        setpriv.env("NVTX_INJECTION64_PATH", at("libstage2.so")).env("STAGE2_SUMMARY", "off");
        setpriv.output()
    };
    let Ok(output) = run("65534") else { return skipped("setpriv is not installed") };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "the program runs: {said}");
    assert_eq!(said.lines().count(), 1, "said once: {said}");
    assert!(said.contains("off: this program is setuid"), "{said}");
    assert!(!out.exists(), "nothing was written with the rights of the program");
    // The same program without the difference records.
    assert!(run("0").expect("setpriv").status.success());
    assert_eq!(traces_in(&out).len(), 1);
}
