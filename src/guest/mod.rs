//! What runs on the guest's threads while it works: CUPTI's callbacks, the NVTX handlers, and what
//! they hand over to our own thread.
//!
//! Code that the guest's calls reach copies, counts and queues. It neither allocates, formats nor waits.
//! There are two exceptions: a range that switches collection on waits for that, for a bounded time
//! ([`collection_switch`]), and the first call in a forked child starts us there
//! ([`state::start_child`]). Constructors and [`cupti::start`] allocate, and only a start calls them.
//!
//! The other side of each queue and table is here as well: our thread takes what it consumes
//! ([`event`], [`pool`], [`registry`]) through methods that say so. Hardware counters
//! have their own thread ([`counters`]). Records leave this folder decoded,
//! with the texts that they point to ([`activity`]). [`gpu::Tracer`] is all that can be asked of CUPTI.

pub(crate) mod activity;
pub(crate) mod blob;
pub mod collection_switch;
pub mod counters;
pub mod cupti;
pub mod event;
pub mod farewell;
pub mod gpu;
pub mod launch_watch;
pub mod nvtx;
pub mod open_calls;
mod phase;
pub mod pool;
mod queue;
pub mod registry;
pub(crate) mod schema_encoding;
pub mod state;
mod thread;
pub mod window_filter;
pub mod windows;
