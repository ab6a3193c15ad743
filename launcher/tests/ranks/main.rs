//! Captures of several ranks in, who waited for whom out.

#[allow(dead_code, unreachable_pub, reason = "the tests of reports use the rest")]
#[path = "../report/build.rs"]
mod build;
mod hostile;
mod hosts;
mod job;
mod late;
mod matching;
