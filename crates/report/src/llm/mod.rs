//! A model's shape and a run's token counts -> FLOPs, bytes and utilisation, with their assumptions.
//!
//! [`shape`] says what the model is (from a preset, or from a Hugging Face `config.json` through
//! [`hugging_face`]), [`flops`] what it has to read and compute, [`mfu`] how that compares with the time that
//! was measured and the peak rates of the GPU.

pub mod flops;
pub mod hugging_face;
pub mod mfu;
pub mod preset;
pub mod shape;
