//! Running processes under the collector: where their control sockets are, and what they answer.

mod ask;
mod find;
mod found;
mod together;

pub(crate) use ask::{AskError, ask};
pub(crate) use find::{Target, find};
pub(crate) use found::Found;
pub(crate) use together::{begins_in, together};
