//! What nsys knows of the machine beside its records -> taken out of a bundle, or told.

use std::path::Path;

use crate::copy_inputs::InputCopies;
use crate::tools::nsys::scrub::scrub;
use stage2_model::Finding;
use stage2_read::files::{self, write_whole};

/// Says, on the terminal and beside the reports, what the files of a folder hold. `shown` is that folder as
/// seen from the run's. Either the report of nsys is kept as usual (`kept`), or something could not be taken out.
pub(crate) fn environment_finding(folder: &Path, shown: &str, kept: bool) -> Vec<Finding> {
    const WHY: &str = "nsys records them, with all passwords and tokens that are among them";
    let finding = match kept {
        true => Finding::note(
            format!(
                "the report in {shown}/ holds the environment and the arguments of every process of the \
                 machine"
            ),
            WHY,
            "pipeline.nsys.export.keep_raw=false leaves it out of a bundle that is to be shared",
        ),
        false => Finding::warning(
            format!(
                "the files of {shown}/ hold the environment and the arguments of every process of the \
                 machine"
            ),
            WHY,
            "do not share them; the findings about each file say why it was kept",
        ),
    };
    let written = write_whole(&folder.join(SENSITIVE), &format!("{finding}\n"));
    let failed = written.err().map(|error| {
        let what = format!("{shown}/{SENSITIVE} is missing");
        Finding::note(what, format!("{error:#}"), "")
    });
    std::iter::once(finding).chain(failed).collect()
}

const SENSITIVE: &str = "SENSITIVE.txt";

/// Takes back what [`environment_finding`] wrote, and the folder where nothing else is in it.
pub(super) fn unmark(folder: &Path) {
    let _ = std::fs::remove_file(folder.join(SENSITIVE));
    let _ = std::fs::remove_dir(folder);
}

/// Puts the scrubbed copy of an export in its place, and deletes the report of nsys, which nothing can scrub.
/// Where there is no such copy, both stay.
///
/// # Errors
/// What of it is still there, and why.
pub(super) fn leave_out_raw(sqlite: &Path, report: Option<&Path>) -> Result<Finding, Finding> {
    scrub(sqlite, sqlite)?;
    let Some(report) = report else {
        let what = format!("{} is a scrubbed copy", name(sqlite));
        return Ok(Finding::note(what, HELD, ""));
    };
    std::fs::remove_file(report).map_err(|error| {
        let what = format!("{} could not be deleted", report.display());
        Finding::warning(what, error.to_string(), "delete it before you share the bundle")
    })?;
    let what = format!("{} was left out, and {} is a scrubbed copy", name(report), name(sqlite));
    Ok(Finding::note(what, HELD, ""))
}

const HELD: &str = "nsys records the environment, the arguments and the output of programs";

/// Does the same with copies of captures that were taken elsewhere, once they were exported. A copy that
/// cannot be scrubbed goes: the capture itself is where it was. Whether nothing is left that holds the
/// environment of a machine.
pub(crate) fn clean_copies(copies: &InputCopies, findings: &mut Vec<Finding>) -> bool {
    if !copies.holds_an_environment() {
        return true;
    }
    let mut is_clean = true;
    let mut leave_out = |copy: &Path, why: &Finding| {
        let (told, is_gone) = left_out(copy, why);
        is_clean &= is_gone;
        findings.push(told);
    };
    let mut notes = Vec::new();
    let ending = |copy: &Path, wanted: &[&str]| wanted.contains(&files::ending(copy));
    let paths = || copies.copies.iter().map(|(copy, _)| copy.as_path());
    let is_whole = |copy: &&Path| !copy.to_string_lossy().ends_with(".scrubbed.sqlite");
    for copy in paths().filter(|copy| ending(copy, &["sqlite"])).filter(is_whole) {
        let report = Some(copy.with_extension("nsys-rep")).filter(|report| report.is_file());
        match leave_out_raw(copy, report.as_deref()) {
            Ok(note) => notes.push(note),
            Err(why) => leave_out(copy, &why),
        }
    }
    // A report that was exported and scrubbed is gone by now.
    for report in paths().filter(|copy| ending(copy, &["nsys-rep", "qdrep"]) && copy.is_file()) {
        let what = format!("there is no scrubbed export of {}", name(report));
        let why = Finding::warning(what, "the other findings say why", "");
        leave_out(report, &why);
        let export = report.with_extension("sqlite");
        if export.is_file() && paths().all(|copy| copy != export) {
            leave_out(&export, &why);
        }
    }
    findings.extend(notes);
    is_clean
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Deletes a copy that cannot be scrubbed. What to tell, and whether it is gone.
fn left_out(copy: &Path, why: &Finding) -> (Finding, bool) {
    let reason = format!("{}: {}; {HELD}", why.what, why.why);
    match std::fs::remove_file(copy) {
        Ok(()) => {
            let what = format!("{} is not in the bundle, and not in its numbers", name(copy));
            (Finding::warning(what, reason, "export the report again, and merge that"), true)
        }
        Err(error) => {
            let what = format!("{} could not be deleted ({error})", copy.display());
            (Finding::warning(what, reason, "delete it before you share the bundle"), false)
        }
    }
}
