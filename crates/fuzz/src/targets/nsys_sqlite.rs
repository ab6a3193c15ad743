//! SQLite files that claim to be exports of nsys.

use stage2_read::nsys::sqlite;
use stage2_read::trace::libraries::RangeNames;

use super::{check_findings, same_twice};
use crate::scratch;

pub(super) fn check(input: &[u8]) {
    let file = scratch::file("input.sqlite", input);
    let tables = same_twice("tables", || sqlite::load(&file.path, &RangeNames::default()));
    match tables {
        Ok(tables) => {
            check_findings(&tables.findings);
            assert!(
                tables.complete || !tables.findings.is_empty(),
                "a part is missing, and nothing says so"
            );
            super::check_nsys(&tables);
        }
        Err(finding) => {
            assert!(finding.what.contains("input.sqlite"), "the file is named: {finding}");
            assert!(!finding.why.is_empty() && !finding.remedy.is_empty(), "{finding}");
        }
    }
}
