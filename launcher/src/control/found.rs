//! A control socket that was found, and whose it has to be.

use std::path::PathBuf;

use stage2_contract::control::SocketName;

/// A socket, and the process that it has to be of.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// As it is numbered here, where that is known; else as its socket is called.
    pub(crate) pid: u32,
    pub(crate) path: PathBuf,
    pub(crate) name: SocketName,
}
