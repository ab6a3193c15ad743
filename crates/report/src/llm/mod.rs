//! A model's shape and a run's token counts -> FLOPs, bytes and utilisation, with their assumptions.
//!
//! [`shape`] says what the model is (from a preset, or from a Hugging Face `config.json` through
//! [`hugging_face`]), [`weights`], [`flops`] and [`vision`] what it has to read and compute, [`mfu`] how that
//! compares with the time that was measured and the peak rates of the GPU. [`legacy`] is the older
//! formula, for comparison with reports that used it.

pub mod flops;
pub mod hugging_face;
mod hugging_face_layers;
mod hugging_face_vision;
mod keys;
pub mod legacy;
pub mod mfu;
pub mod mfu_inputs;
mod mfu_work;
pub mod preset;
pub mod shape;
pub mod vision;
pub mod weights;

pub use keys::Problem;
