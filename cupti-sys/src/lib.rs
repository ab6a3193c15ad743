//! CUPTI's and NVTX's C types, as bindgen made them from NVIDIA's headers.

#[allow(missing_docs, non_camel_case_types, non_snake_case, non_upper_case_globals)]
pub mod bindings;
#[allow(missing_docs, non_camel_case_types, non_snake_case, non_upper_case_globals)]
pub mod nvtx_bindings;
pub use nvtx_bindings as nvtx;
