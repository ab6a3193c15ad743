//! A file without a table of ncu -> what it is instead, and what to do about it.

use stage2_model::{Finding, Severity};

/// What a file without a table is, as far as its lines tell.
#[derive(Debug, Default)]
pub(super) struct Clues {
    /// What is known of it, and what to do instead.
    form: Option<(&'static str, &'static str)>,
    /// The first error or warning of ncu, or else its last message.
    message: Option<String>,
}

impl Clues {
    /// Looks at a line.
    pub(super) fn see(&mut self, line: &str) {
        const AS_CSV: &str = "write it with --csv: ncu --import REPORT --csv --page raw";
        const OTHER_PAGE: &str = "write the raw page: ncu --import REPORT --csv --page raw";
        if line.starts_with("==") {
            if self.message.as_ref().is_none_or(|known| known.starts_with("==PROF==")) {
                self.message = Some(stage2_contract::text::visible(line.trim_end().as_bytes()));
            }
            return;
        }
        let start = line.trim_start().trim_start_matches('"');
        let is_text = start.starts_with("Section: ")
            || (line.contains(", Context ") && line.contains("Stream "))
            || (start.starts_with("Metric Name ") && line.contains(" Metric Value"));
        let form = if is_text {
            ("it is the text output of ncu", AS_CSV)
        } else if start.starts_with('#')
            && line.contains("Source")
            && line.contains(['"', ',', ';', '\t'])
        {
            ("it is the source page of ncu, which has lines of code and no launches", OTHER_PAGE)
        } else if start.starts_with("Launch Settings") || start.starts_with("Device Attributes") {
            ("it is the session page of ncu, which has the machine and no launches", OTHER_PAGE)
        } else if line.contains("Total Time (") && line.contains("Instances") {
            ("it is a table of nsys", "give it with --nsys")
        } else {
            return;
        };
        self.form.get_or_insert(form);
    }

    /// What is said of the file, called `name`.
    pub(super) fn no_table(&self, name: &str) -> Finding {
        const REMEDY: &str =
            "it has to be what `ncu --import REPORT --csv --page raw` (or details) prints";
        let (why, remedy) = match (self.form, &self.message) {
            (Some((why, remedy)), _) => (why.to_owned(), remedy),
            (None, Some(message)) => (format!("it says {message}"), REMEDY),
            (None, None) => ("it has no line of column names".to_owned(), REMEDY),
        };
        Finding::new(Severity::Error, format!("{name} holds no table of ncu"), why, remedy)
    }
}
