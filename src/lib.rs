//! x
pub mod barrier; pub mod clock; pub mod counters; pub mod decode; pub mod diag; pub mod event; pub mod glob; pub mod intern; pub mod options; pub mod pool; pub mod ranges; pub mod thread; pub mod timeline;
