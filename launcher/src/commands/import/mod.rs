//! Captures that were taken elsewhere -> a bundle with reports of them.

mod environment;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::bundle::{
    Access, Bundle, COLLECTOR_DIR, Inputs, NCU_DIR, NSYS_DIR, PassRecord, RunFolder, RunRecord,
};
use crate::cli::{Captures, MergeArgs};
use crate::commands::ending::{list_files, take_signals, tell};
use crate::commands::open::open_report;
use crate::config;
use crate::copy_inputs::{self, InputCopies, Kind};
use crate::failure::Failure;
use crate::outcome::Outcome;
use crate::redaction;
use crate::run;
use crate::terminal::Terminal;
use crate::views;
use stage2_model::{Finding, PassStatus, Severity};

const EFFECTIVE: &[&str] = &[
    "report",
    "model",
    "hardware",
    "operators",
    "stage1",
    "pipeline.nsys",
    "pipeline.ncu",
    "run.group",
    "redact",
];

/// `stage2-launch merge`, which is also called `import`. What cannot be used of the captures is told;
/// the rest is merged.
pub(crate) fn import(args: MergeArgs, terminal: &Terminal) -> Result<u8, Failure> {
    let MergeArgs { captures, output, presets, acceptance, showing, overrides } = args;
    let composed = config::compose(&presets.request(overrides))?;
    check_inputs(&captures)?;
    let absolute = std::path::absolute(&output)
        .map_err(|e| Failure::Usage(format!("-o {}: {e}", output.display())))?;
    let (_, early) = composed.resolved(&absolute)?;
    let access = Access::of(early.run.group.as_deref())?;
    let folder = RunFolder::Given(absolute).create(&access)?;
    let dir = folder.path();
    let (tree, settings) = composed.resolved(&dir)?;
    redaction::set(settings.redact.redactor());
    let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let command: Vec<std::ffi::OsString> = std::env::args_os().collect();
    let inputs = Inputs::new(&command, &std::env::current_dir().unwrap_or_default(), None);
    let mut record = RunRecord::new(name, inputs.argv.clone());
    record.origins = config::origins(&tree);
    let mut bundle = Bundle::start(&folder, record, inputs, config::yaml_with_origins(&tree))?;
    let ends = format!("the merge ends here, and {} is incomplete", dir.display());
    let signals = take_signals(terminal, ends)?;
    let tools = run::Imports::new(&settings, terminal, &signals);
    bundle.record.findings.extend(without_effect(&composed.explicit_keys()));
    bundle.record.findings.extend(composed.notes);
    take_in(&captures, &tools, &mut bundle.record, &dir);
    bundle.record.findings.iter().for_each(|finding| terminal.finding(finding));
    bundle.share(access, terminal);
    let outcome = write_reports(&mut bundle, &dir);
    let described = outcome.as_ref().map_or(Ok(()), |outcome| {
        environment::note_tools(&mut bundle.record, outcome);
        environment::write(&dir, Some(outcome))
    });
    let closed = described.and_then(|()| bundle.finish(&outcome));
    list_files(&outcome, &dir, terminal);
    tell(&bundle.record, &outcome, &dir, terminal);
    if showing.open {
        open_report(&dir, terminal);
    }
    if let Err(error) = &closed {
        terminal.error(&format!("{error:#}"));
    }
    let merged = bundle.record.passes.iter().any(|pass| pass.status == PassStatus::Ok);
    if !merged {
        terminal.error("nothing could be read of any of the files: the reports are empty");
    }
    let result = outcome.as_ref().ok().filter(|_| merged && closed.is_ok());
    Ok(match tools.interrupted() {
        Some(signal) => u8::try_from(128 + signal as i32).unwrap_or(u8::MAX),
        None => acceptance.status(0, result, &bundle.record.passes, terminal),
    })
}

/// Writes the reports; once more, where passes turn out to have failed, because they say so.
fn write_reports(bundle: &mut Bundle, dir: &Path) -> anyhow::Result<Outcome> {
    // The reports read env.json, and what the captures say for it comes with the reports.
    environment::write(dir, None)?;
    bundle.passes_ended()?;
    let first = views::write_reports(dir)?;
    if !fail_unread(&mut bundle.record.passes, &first.read) {
        return Ok(first);
    }
    bundle.save()?;
    views::write_reports(dir)
}

/// Fails where no file can be used, before there is a folder. One that can be used is merged without
/// the others.
fn check_inputs(captures: &Captures) -> Result<(), Failure> {
    let Captures { spool, nsys, ncu } = captures;
    if spool.is_empty() && nsys.is_empty() && ncu.is_empty() {
        let text = "there is nothing to merge; give --spool DIR, --nsys FILE or --ncu FILE";
        return Err(Failure::Usage(text.into()));
    }
    let mut problems = Vec::new();
    for (kind, files) in [(Kind::Spool, spool), (Kind::Nsys, nsys), (Kind::Ncu, ncu)] {
        for file in files {
            match copy_inputs::check(kind, file) {
                Ok(()) => return Ok(()),
                Err(why) => problems.push(format!("{}: {why:#}", file.display())),
            }
        }
    }
    let text = format!(
        "no capture can be merged, so no bundle was made: {}; check the file names",
        problems.join("; ")
    );
    Err(Failure::Usage(text))
}

/// Brings everything into the folder of the bundle; a pass for each kind says what of it.
fn take_in(captures: &Captures, tools: &run::Imports<'_>, record: &mut RunRecord, dir: &Path) {
    let RunRecord { findings, passes, .. } = record;
    for (kind, pass, files, sub) in [
        (Kind::Spool, "collect", &captures.spool, COLLECTOR_DIR),
        (Kind::Nsys, "nsys", &captures.nsys, NSYS_DIR),
        (Kind::Ncu, "ncu", &captures.ncu, NCU_DIR),
    ] {
        if files.is_empty() {
            continue;
        }
        let folder = dir.join(sub);
        let mut inputs = InputCopies::new(kind, folder.clone());
        for file in files {
            inputs.add(file, findings);
        }
        let reports = inputs.for_tool();
        match kind {
            Kind::Nsys if !reports.is_empty() => tools.nsys(&folder, &reports, findings),
            Kind::Ncu if !reports.is_empty() => tools.ncu(&folder, &reports, findings),
            _ => {}
        }
        if !tools.clean(&inputs, findings) {
            findings.extend(run::environment_finding(&folder, sub));
        }
        passes.push(pass_of(pass, dir, &inputs.copies));
    }
    findings.extend(tools.interrupted().map(run::interruption));
}

fn pass_of(name: &str, dir: &Path, taken: &[(PathBuf, PathBuf)]) -> PassRecord {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let from: Vec<String> = taken.iter().map(|(_, from)| text(from)).collect();
    let (status, why) = match from.is_empty() {
        true => (PassStatus::Failed, "none of its files could be merged".to_owned()),
        false => (PassStatus::Ok, format!("merged from {}", from.join(", "))),
    };
    let inside = |path: &Path| text(path.strip_prefix(dir).unwrap_or(path));
    PassRecord {
        name: name.to_owned(),
        status,
        merged: taken.iter().map(|(copy, from)| (inside(copy), text(from))).collect(),
        why,
        ..PassRecord::default()
    }
}

/// A pass whose files were taken in, and of which nothing could be read, has failed. Whether there is one.
fn fail_unread(passes: &mut [PassRecord], read: &[&str]) -> bool {
    let mut found = false;
    for pass in passes {
        if pass.status == PassStatus::Ok && !read.contains(&pass.name.as_str()) {
            pass.status = PassStatus::Failed;
            pass.why.push_str("; nothing of it could be read");
            found = true;
        }
    }
    found
}

fn without_effect(explicit: &BTreeSet<String>) -> Option<Finding> {
    let counts = |key: &str| EFFECTIVE.iter().any(|part| config::within(key, part));
    let idle: Vec<&str> = explicit.iter().map(String::as_str).filter(|key| !counts(key)).collect();
    (!idle.is_empty()).then(|| {
        Finding::new(
            Severity::Note,
            format!("settings without effect on a merge: {}", idle.join(", ")),
            "nothing is run",
            format!("those that count are {}", EFFECTIVE.join(", ")),
        )
    })
}
