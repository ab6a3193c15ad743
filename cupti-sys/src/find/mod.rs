//! Turns what is known about this process into an opened `libcupti`.
//!
//! In this order: the path that the user gave (which is used or fails, and nothing else is tried), the newest
//! file that the driver allows where that has the second activity API and no copy in the process has, a copy
//! that is in the process already, then files, of which one whose major version is that of the driver comes
//! first: the running Python's packages, the CUDA toolkit, the system. Or, where the user asked for
//! [`places::NEWEST`], the newest of them all that the driver allows. No function of CUPTI is called here,
//! only the presence of its symbols is looked at.

pub use crate::places;
pub use crate::places::{Attempt, How};
pub use crate::process;
use crate::table;
use libloading::Library;
use libloading::os::unix;
use places::{Candidate, Places, Surroundings};
use std::fmt;
use std::path::{Path, PathBuf};

/// Opens only what is in the process already.
const NOLOAD: libc::c_int = unix::RTLD_NOW | libc::RTLD_NOLOAD;

/// A `libcupti` that could be opened. Its symbols are not checked here if the user gave it or if it
/// was in the process: [`crate::Api::load`] does that, and there is no better one to fall back to.
#[derive(Debug)]
pub struct Found {
    /// The opened library.
    pub library: Library,
    /// The file, as the dynamic linker names it.
    pub path: PathBuf,
    /// Why this one.
    pub how: How,
}

/// No usable `libcupti`: every place that was looked at, and why it gave none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindError {
    /// In the order of the search.
    pub tried: Vec<Attempt>,
}

/// Finds and opens the `libcupti` for this process.
///
/// `explicit` is the user's choice: a path, or [`places::NEWEST`]. `driver_cuda_major` is the CUDA version that the driver
/// supports (`cuDriverGetVersion` / 1000).
///
/// # Errors
/// [`FindError`] with every place and its reason.
pub fn locate(explicit: Option<&Path>, driver_cuda_major: Option<u32>) -> Result<Found, FindError> {
    let mut tried = Vec::new();
    let mut open_first = |candidates: Vec<Candidate>| {
        candidates
            .into_iter()
            .find_map(|candidate| open(candidate).map_err(|attempt| tried.push(attempt)).ok())
    };
    let wants_newest = explicit == Some(Path::new(places::NEWEST));
    if let Some(path) = explicit.filter(|_| !wants_newest) {
        let given = Candidate::new(How::Explicit, path.to_path_buf());
        return open_first(vec![given]).ok_or(FindError { tried });
    }
    let mapped = process::mapped_files();
    let loaded = places::loaded(&mapped, driver_cuda_major);
    let Places { candidates, empty } =
        places::places(&Surroundings::of_this_process(mapped), driver_cuda_major, &places::list);
    let order = if wants_newest {
        places::newest_first([loaded, candidates].concat(), driver_cuda_major, version)
    } else {
        let better =
            places::worth_a_second_copy(&loaded, candidates.clone(), driver_cuda_major, version);
        better.into_iter().chain(loaded).chain(candidates).collect()
    };
    open_first(order).ok_or_else(|| {
        tried.extend(empty);
        FindError { tried }
    })
}

/// The version of a file, or of what it is a link to.
fn version(path: &Path) -> Option<places::Version> {
    places::version_of(path, &places::list)
        .or_else(|| places::version_of(&path.canonicalize().ok()?, &places::list))
}

fn open(Candidate { how, path, .. }: Candidate) -> Result<Found, Attempt> {
    let flags = if how == How::AlreadyLoaded { NOLOAD } else { unix::RTLD_NOW };
    let failed = |path: &Path, reason| Attempt { how, place: path.to_owned(), reason };
    let library = process::open(&path, flags).map_err(|error| failed(&path, error.to_string()))?;
    let (library, name) = process::with_path(library);
    let path = name.unwrap_or(path);
    let is_checked = !matches!(how, How::Explicit | How::AlreadyLoaded);
    let missing = if is_checked { table::missing(&library) } else { Vec::new() };
    if !missing.is_empty() {
        let missing = missing.join(", ");
        let reason = format!("not a CUPTI of CUDA 11.8 or newer: it lacks {missing}");
        return Err(failed(&path, reason));
    }
    Ok(Found { library, path, how })
}

/// The driver `libcuda.so.1` if it is in the process already; never loads it.
pub fn driver() -> Option<Library> {
    process::mapped_files()
        .into_iter()
        .filter(|path| places::file_name_starts(path, "libcuda.so"))
        .chain([PathBuf::from("libcuda.so.1")])
        .find_map(|path| process::open(&path, NOLOAD).ok())
}

impl fmt::Display for FindError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [Attempt { how: How::Explicit, place, reason }] = self.tried.as_slice() {
            return write!(
                out,
                "the given libcupti {} cannot be used: {reason}; correct STAGE2_CUPTI, or unset it \
                 to have one searched for",
                place.display()
            );
        }
        out.write_str("no libcupti found; tried ")?;
        for (index, Attempt { how, place, reason }) in self.tried.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            let space = if place.as_os_str().is_empty() { "" } else { " " };
            write!(out, "{separator}{how}{space}{}: {reason}", place.display())?;
        }
        out.write_str(
            ". Install CUPTI (pip install nvidia-cuda-cupti for CUDA 13, nvidia-cuda-cupti-cu12 \
             for CUDA 12, or the toolkit's package cuda-cupti), or set STAGE2_CUPTI to the path of \
             a libcupti.so",
        )
    }
}

impl std::error::Error for FindError {}

#[cfg(test)]
mod tests;
