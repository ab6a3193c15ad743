//! Numbers of running processes -> OpenMetrics text, in a file or over HTTP on this host.

mod cost;
mod metrics;
mod serve;
mod textfile;

pub(crate) use cost::cpu_seconds;
pub(crate) use metrics::{Own, text};
pub(crate) use serve::{Names, Page, serve};
pub(crate) use textfile::{Readers, write};
