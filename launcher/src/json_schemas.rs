//! The JSON Schemas in `schemas/` follow from the types that are written.

use std::path::Path;

use snapbox::data::{Data, DataFormat};
use stage2_model::schema::json_schema;
use stage2_summary::job;

use crate::bundle::{self, RunRecord};
use crate::commands::ctl::why;
use crate::doctor;

/// Fails where a schema is not that of the type. With `SNAPSHOTS=overwrite` it is written again.
#[track_caller]
fn check(name: &str, schema: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../schemas");
    let path = folder.join(format!("{name}.schema.json"));
    snapbox::assert_data_eq!(schema, Data::read_from(&path, Some(DataFormat::Text)).raw());
}

#[test]
fn json_schemas_are_those_of_the_types() {
    use stage2_model::{Report, SCHEMA_VERSION, TIMELINES_VERSION, Timelines};
    check("metrics", &json_schema::<Report>("metrics", SCHEMA_VERSION));
    check("timelines", &json_schema::<Timelines>("timelines", TIMELINES_VERSION));
    check("run", &json_schema::<RunRecord>("run", bundle::SCHEMA));
    check("diff", &json_schema::<stage2_diff::Diff>("diff", stage2_diff::SCHEMA_VERSION));
    check("why", &json_schema::<why::Why<'_>>("why", why::SCHEMA));
    check("job", &json_schema::<job::Job>("job", job::SCHEMA_VERSION));
    check("doctor", &json_schema::<doctor::Diagnosis>("doctor", doctor::SCHEMA));
    for (name, schema) in stage2_ask::json_schemas() {
        check(name, &schema);
    }
}
