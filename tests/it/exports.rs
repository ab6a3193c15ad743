//! The library exports exactly its doors, and needs nothing that is not on every Linux.

use crate::common;
use std::process::Command;

fn dynamic(arguments: &[&str]) -> Option<String> {
    let output = Command::new(arguments[0]).args(&arguments[1..]).arg(common::collector()).output();
    let Ok(output) = output else {
        common::skipped(&format!("{} is not installed", arguments[0]));
        return None;
    };
    assert!(output.status.success());
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Hazard (Versions, libraries and rivals): Symbols of the collector in the guest's name space.
/// Promise: Only the entry points are exported.
#[test]
fn only_the_doors_are_exported() {
    let Some(symbols) = dynamic(&["nm", "-D", "--defined-only"]) else { return };
    let mut names: Vec<&str> =
        symbols.lines().filter_map(|line| line.split_whitespace().last()).collect();
    names.sort_unstable();
    let doors = "\
        InitializeInjection InitializeInjectionNvtx2 InitializeInjectionNvtxExtension _Exit \
        _exit abort execl execle execlp execv execve execveat execvp execvpe fexecve kill \
        killpg pthread_kill raise sigqueue tgkill";
    assert_eq!(names, doors.split_whitespace().collect::<Vec<_>>());
}

/// Hazard (Versions, libraries and rivals): An older glibc.
/// Promise: The collector needs libc alone; the launcher compares versions before it preloads.
#[test]
fn only_libc_is_needed() {
    let Some(headers) = dynamic(&["objdump", "-p"]) else { return };
    let needed: Vec<&str> =
        headers.lines().filter_map(|line| line.trim().strip_prefix("NEEDED")).collect();
    let mut needed: Vec<_> = needed.iter().map(|name| name.trim()).collect();
    if std::env::var_os("STAGE2_TEST_COLLECTOR").is_some() {
        // Linked for glibc 2.17, which has these parts in files of their own; musl knows the names.
        needed.retain(|name| !["libpthread.so.0", "libdl.so.2"].contains(name));
    }
    assert_eq!(needed, ["libc.so.6"]);
}

/// Hazard (Versions, libraries and rivals): The guest closes the collector's library.
/// Promise: It stays loaded.
#[test]
fn closing_the_library_does_not_unload_it() {
    use libloading::os::unix::{Library, RTLD_NOW};
    const RTLD_NOLOAD: i32 = 4;
    let path = common::collector();
    // SAFETY: its constructor only sets two environment variables.
    unsafe {
        let library = Library::open(Some(&path), RTLD_NOW).expect("loads");
        library.close().expect("closes");
        Library::open(Some(&path), RTLD_NOW | RTLD_NOLOAD).expect("is still there");
    }
}
