//! Why a trace file cannot be read, said to the user.

use std::io;
use std::path::PathBuf;

use crate::trace::frame::FORMAT_VERSION;

/// Why a trace file cannot be read, or not further.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be opened.
    #[error("cannot open the spool {path:?}: {source}; check the path and its permissions")]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A folder, pipe or device.
    #[error("{0:?} is not a regular file; name a spool (HOST-PID.s2t) that a collector wrote")]
    NotAFile(PathBuf),
    /// Reading failed on the way.
    #[error(
        "cannot read the spool {path:?} beyond byte {at_byte}: {source}; the records before are \
         good; copy the file to a sound disk to read the rest"
    )]
    Io {
        /// The file.
        path: PathBuf,
        /// Start of the frame that could not be read.
        at_byte: u64,
        /// What the system says.
        source: io::Error,
    },
    /// Another kind of file.
    #[error(
        "{0:?} is not a spool: it does not begin as one; name a file HOST-PID.s2t that a \
         collector wrote"
    )]
    NotASpool(PathBuf),
    /// The file ends within its header.
    #[error(
        "the spool {path:?} ends within its header, after {length_bytes} bytes: the process ended \
         or the disk was full before anything was recorded; leave the file out, or run again"
    )]
    HeaderCut {
        /// The file.
        path: PathBuf,
        /// How much there is.
        length_bytes: u64,
    },
    /// The header does not match its checksum.
    #[error(
        "the header of the spool {0:?} is damaged (its checksum is wrong); copy the file again \
         from where it was written, or run again"
    )]
    HeaderDamaged(PathBuf),
    /// A later version wrote it.
    #[error(
        "the spool {path:?} has format version {found}, and this program reads versions up to {}; \
         read it with a release at least as new as the collector that wrote it",
        FORMAT_VERSION
    )]
    NewerVersion {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
}
