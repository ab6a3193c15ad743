//! Presets and settings -> the composed configuration on stdout, each value with its origin.

use super::ending::printed;
use crate::cli::RunSettings;
use crate::config;
use crate::failure::Failure;

pub(crate) fn config(settings: RunSettings) -> Result<u8, Failure> {
    let composed = config::compose(&settings.request())?;
    printed(&config::yaml_with_origins(&composed.tree))
}
