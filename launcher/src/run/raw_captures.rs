//! What nsys knows of the machine beside its records -> taken out of a bundle, or told.

use std::path::Path;

use crate::copy_inputs::InputCopies;
use crate::tools::nsys::config::Nsys;
use crate::tools::nsys::scrub::scrub;
use stage2_analysis::files::{self, write_whole};
use stage2_model::Finding;

/// Says, on the terminal and beside the reports, what they hold. `shown` is the folder as seen from
/// that of the run.
pub(crate) fn environment_finding(folder: &Path, shown: &str) -> Vec<Finding> {
    let finding = Finding::warning(
        format!(
            "the files of {shown}/ hold the environment and the arguments of every process of the machine"
        ),
        "nsys records them, with all passwords and tokens that are among them",
        "do not share them; without pipeline.nsys.export.keep_raw=true a run leaves only what can be \
         shared",
    );
    let written = write_whole(&folder.join("SENSITIVE.txt"), &format!("{finding}\n"));
    let failed = written.err().map(|error| {
        let what = format!("{shown}/SENSITIVE.txt is missing");
        Finding::note(what, format!("{error:#}"), "")
    });
    std::iter::once(finding).chain(failed).collect()
}

/// Puts the scrubbed copy of an export in its place, and deletes the report of nsys, which nothing can scrub.
/// Where there is no such copy, both stay.
///
/// # Errors
/// What of it is still there, and why.
pub(super) fn leave_out_raw(sqlite: &Path, report: Option<&Path>) -> Result<Finding, Finding> {
    scrub(sqlite, sqlite)?;
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let Some(report) = report else {
        let what = format!("{} is a scrubbed copy", name(sqlite));
        return Ok(Finding::note(what, HELD, KEEP_RAW));
    };
    std::fs::remove_file(report).map_err(|error| {
        let what = format!("{} could not be deleted", report.display());
        Finding::warning(what, error.to_string(), "delete it before you share the bundle")
    })?;
    let what = format!("{} was left out, and {} is a scrubbed copy", name(report), name(sqlite));
    Ok(Finding::note(what, HELD, KEEP_RAW))
}

const HELD: &str = "nsys records the environment, the arguments and the output of programs";
const KEEP_RAW: &str = "pipeline.nsys.export.keep_raw=true keeps what nsys wrote, for nsys-ui";

/// Does the same with copies of captures that were taken elsewhere, once they were exported. Whether
/// nothing is left that holds the environment of a machine.
pub(crate) fn clean_copies(copies: &InputCopies, nsys: &Nsys, findings: &mut Vec<Finding>) -> bool {
    if !copies.holds_an_environment() {
        return true;
    }
    if nsys.export.keep_raw {
        return false;
    }
    let mut is_clean = true;
    for (copy, _) in &copies.copies {
        let (copy, ending) = (copy.as_path(), files::ending(copy));
        let export = copy.with_extension("sqlite");
        let done = match ending {
            "sqlite" if !copy.to_string_lossy().ends_with(".scrubbed.sqlite") => {
                let report =
                    Some(copy.with_extension("nsys-rep")).filter(|report| report.is_file());
                leave_out_raw(copy, report.as_deref()).map(Some)
            }
            // Its export is among the copies, or it was exported and deleted by now.
            "nsys-rep" if !copy.is_file() || copies.copies.iter().any(|(c, _)| *c == export) => {
                Ok(None)
            }
            "nsys-rep" | "qdrep" => {
                is_clean = false;
                Ok(None)
            }
            _ => Ok(None),
        };
        is_clean &= done.is_ok();
        findings.extend(done.unwrap_or_else(Some));
    }
    is_clean
}
