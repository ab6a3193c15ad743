//! Kernel names, counters and peak rates -> what each kernel is, what bounds it, and what to do.
//!
//! Everything here is a pure function of its arguments. What is not known is absent, with the
//! reason; nothing is guessed, and no absent number turns into zero.

pub mod bound;
pub mod hardware;
pub mod takeaways;
