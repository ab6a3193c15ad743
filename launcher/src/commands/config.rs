//! Presets and settings -> the composed configuration on stdout, each value with its origin.

use std::path::Path;

use super::ending::printed;
use crate::cli::RunSettings;
use crate::config;
use crate::failure::Failure;
use crate::redaction;

pub(crate) fn config(settings: RunSettings) -> Result<u8, Failure> {
    let composed = config::compose(&settings.request())?;
    let (_, settings) = composed.resolved(Path::new("RUN_DIR"))?;
    redaction::set(settings.redact.redactor());
    printed(&config::yaml_with_origins(&composed.tree))
}
