//! A library that is no CUPTI is refused with everything that its user needs to know.

use cupti_sys::{Api, table};
use libloading::Library;

#[test]
fn a_library_without_cupti_s_symbols_is_refused() {
    // SAFETY: the C library is in the process already.
    let library = unsafe { Library::new("libc.so.6") }.expect("the C library");
    // SAFETY: no method is called: the load fails.
    let error = unsafe { Api::load(library) }.expect_err("libc is no CUPTI");
    assert_eq!(error.missing, table::REQUIRED);
    let shown = error.to_string();
    for part in ["libc.so.6", "cuptiSubscribe", "STAGE2_CUPTI", "pip install"] {
        assert!(shown.contains(part), "{shown}");
    }
}

#[test]
fn no_symbol_is_both_required_and_optional() {
    let mut all: Vec<_> = table::REQUIRED.iter().chain(table::OPTIONAL).collect();
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count);
    assert!(all.iter().all(|name| name.starts_with("cupti")));
}
