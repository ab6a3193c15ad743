//! What processes do now -> a page of text, and a screen that shows it.

mod cells;
mod page;
mod screen;
mod snapshot;

pub(crate) use page::{State, page};
pub(crate) use screen::{look, run};
