//! Captures of several ranks in, who waited for whom out.

#[allow(dead_code, unreachable_pub, reason = "the tests of reports use the rest")]
#[path = "../report/build.rs"]
mod build;
#[path = "../common/mod.rs"]
mod common;
mod hostile;
mod hosts;
mod job;
mod late;
mod matching;
