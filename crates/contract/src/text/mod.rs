//! Names and texts as people read them.
//!
//! The collector prints a table when its guest ends, and the launcher writes reports later. Both must
//! demangle, shorten and escape alike, so what does it lives here.

mod boilerplate;
mod kernel_name;
pub mod numbers;
mod range_names;
pub mod redact;
mod visible;

pub use kernel_name::{KernelName, comparable, function_name, kernel_name, shorten_kernel};
pub use range_names::{
    MODULE_RANGE, Pattern, REQUEST_RANGE, is_library_domain, is_record, pattern, pattern_of,
    without_instance, without_instance_str,
};
pub use visible::{
    code, code_in_text, csv_field, plain, shorten, uuid_text, visible, visible_path,
};

/// The first `most` of several texts, and how many more there are: `a, b and 3 more`.
pub fn listed(texts: &[impl AsRef<str>], most: usize) -> String {
    let shown: Vec<&str> = texts.iter().take(most).map(AsRef::as_ref).collect();
    let shown = shown.join(", ");
    match texts.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_texts_are_named_and_the_others_counted() {
        assert_eq!(listed(&["a", "b"], 2), "a, b");
        assert_eq!(listed(&["a", "b", "c"], 2), "a, b and 1 more");
        assert_eq!(listed(&[] as &[&str], 2), "");
    }
}
