//! The report of a bundle -> the browser of whoever sits in front of this machine.

use std::ffi::OsString;
use std::path::Path;

use crate::plan::quote;
use crate::terminal::Terminal;
use stage2_model::Finding;

/// The page that is opened.
const PAGE: &str = "report.html";

/// Opens the report in `dir`, or says where it is and how it gets to a browser.
pub(super) fn open_report(dir: &Path, terminal: &Terminal) {
    let page = dir.join(PAGE);
    // Why there is none was told where it was to be written.
    let Ok(page) = page.canonicalize() else { return };
    match without_screen(&|name| std::env::var_os(name)) {
        Some(Without::Ssh) => terminal.result(&format!(
            "--open: this is an SSH session, so no browser was started. Copy the page, which needs no \
             other file, to your machine: scp {}:{} .",
            this_host(),
            quote(quote(&page))
        )),
        Some(Without::Display) => terminal.result(&format!(
            "--open: there is no display (DISPLAY and WAYLAND_DISPLAY are not set), so no browser was \
             started. Open {} in one; it needs no other file",
            quote(&page)
        )),
        None => match opener::open(&page) {
            Ok(()) => terminal.result(&format!("opening {}", quote(&page))),
            Err(error) => terminal.finding(&Finding::warning(
                format!("{} was not opened", quote(&page)),
                error.to_string(),
                "open it in a browser by hand",
            )),
        },
    }
}

fn this_host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "HOST".to_owned(),
        name => name.to_owned(),
    }
}

/// Why a browser that is started here is seen by nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Without {
    /// Who typed the command sits elsewhere, also where X11 is forwarded.
    Ssh,
    /// There is no screen.
    Display,
}

fn without_screen(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<Without> {
    let is_set = |name: &&str| variable(name).is_some_and(|value| !value.is_empty());
    if ["SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY"].iter().any(&is_set) {
        return Some(Without::Ssh);
    }
    // Windows has a screen, wherever its Linux runs.
    let screens = ["DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"];
    (!screens.iter().any(is_set)).then_some(Without::Display)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_is_started_only_where_somebody_sees_it() {
        for (set, expected) in [
            (&[][..], Some(Without::Display)),
            (&["DISPLAY"], None),
            (&["WAYLAND_DISPLAY"], None),
            (&["WSL_DISTRO_NAME"], None),
            (&["DISPLAY", "SSH_CONNECTION"], Some(Without::Ssh)),
            (&["SSH_TTY"], Some(Without::Ssh)),
        ] {
            let variable = |name: &str| set.contains(&name).then(|| OsString::from("x"));
            assert_eq!(without_screen(&variable), expected, "{set:?}");
        }
        assert_eq!(without_screen(&|_| Some(OsString::new())), Some(Without::Display));
    }
}
