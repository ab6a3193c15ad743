//! A stage -> what it is to the model.

use crate::llm::vision::Part;
use stage2_model::{PathKind, Role, StageRow};

/// What a stage is to the model, by its name.
pub(crate) fn role(row: &StageRow) -> Role {
    match row.stage.split('@').next().unwrap_or_default() {
        _ if row.kind != PathKind::Range || row.apart.is_some() => Role::Other,
        "prefill" => Role::Prefill,
        "decode" => Role::Decode,
        _ if Part::of_range(&row.stage).is_some() => Role::VisionBefore,
        _ => Role::Other,
    }
}
