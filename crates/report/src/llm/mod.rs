//! A model's shape and a run's token counts -> FLOPs, bytes and utilisation, with their assumptions.
//!
//! [`shape`] states what the model is (from a preset, or from a Hugging Face `config.json` through
//! [`hugging_face`], or from a GGUF file through [`gguf`]), [`flops`] what it has to read and
//! compute, [`mfu`] how that compares with the time that was measured and the peak rates of the
//! GPU.

pub mod command_model;
pub(crate) mod engine_config;
pub(crate) mod flops;
pub(crate) mod gguf;
pub(crate) mod hugging_face;
pub(crate) mod mfu;
pub mod preset;
pub(crate) mod shape;
