//! Captures of several ranks in, who waited for whom out.

mod hostile;
mod hosts;
mod job;
mod late;
mod matching;
