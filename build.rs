//! Linker settings of `libstage2.so` that cargo has no key for.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // NVTX closes a tool whose start it did not like, and a driver may close one at its end: our
    // thread and CUPTI's callbacks must never find their code gone.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libstage2.so");
    if let Some(folder) = substitutes() {
        println!("cargo:rustc-cdylib-link-arg=-L{}", folder.display());
    }
}

/// A folder of libraries that the linker finds before the system's. With them `libstage2.so` needs
/// `libc.so.6` and nothing else. A preloaded library that needs more ends every program whose loader
/// does not find it (a dynamic one of musl has neither), before a line of ours has run.
///
/// - `libgcc_s` becomes the static unwinder.
/// - `libc.so` becomes the system's without the part that names the loader: the one symbol that is
///   wanted from there, `__tls_get_addr`, is found without it, for every process has its loader.
///
/// `None` where another linker than the system's `cc` is used: zig brings an unwinder of its own.
fn substitutes() -> Option<PathBuf> {
    let variable = |name: &str| env::var(name).ok();
    println!("cargo:rerun-if-env-changed=RUSTC_LINKER");
    if variable("RUSTC_LINKER").is_some() || variable("TARGET")? != variable("HOST")? {
        return None;
    }
    let folder = Path::new(&variable("OUT_DIR")?).join("substitutes");
    match substitute_in(&folder) {
        Ok(()) => Some(folder),
        Err(problem) => {
            println!(
                "cargo:warning={problem}: libstage2.so will need more than libc.so.6, and dynamic \
                 musl programs will not start with it preloaded; install the C compiler gcc with \
                 its static libgcc_eh.a"
            );
            None
        }
    }
}

/// Makes the libraries in `folder`; says what failed.
fn substitute_in(folder: &Path) -> Result<(), String> {
    let cannot_write = |error| format!("{} cannot be written ({error})", folder.display());
    fs::create_dir_all(folder).map_err(cannot_write)?;
    let unwinder = library("libgcc_eh.a").ok_or("libgcc_eh.a not found")?;
    fs::copy(unwinder, folder.join("libgcc_s.a")).map_err(cannot_write)?;
    let libc = library("libc.so").ok_or("libc.so not found")?;
    // Where it is no script it names no loader.
    if let Ok(script) = fs::read_to_string(libc)
        && let Some((before, behind)) = script.split_once("AS_NEEDED")
        && let Some((_, after)) = behind.split_once(')')
    {
        fs::write(folder.join("libc.so"), format!("{before}{after}")).map_err(cannot_write)?;
    }
    Ok(())
}

/// The path of a library that the C compiler links with.
fn library(name: &str) -> Option<PathBuf> {
    let answer = Command::new("cc").arg(format!("-print-file-name={name}")).output().ok()?;
    let path = PathBuf::from(String::from_utf8(answer.stdout).ok()?.trim());
    // It answers with the bare name where it has none.
    path.is_absolute().then_some(path)
}
