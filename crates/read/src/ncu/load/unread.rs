//! Cells of ncu's tables that give no value -> what is said of them.

use super::launch::DURATIONS;
use stage2_contract::text::shorten;
use stage2_model::{Finding, Severity};

/// Characters of a name that is shown.
const NAME_LIMIT: usize = 60;

/// What is wrong with cells, over all files of a report.
#[derive(Default)]
pub(super) struct Unread {
    /// Counters and durations that are no numbers.
    counters: Counted,
    durations: Counted,
    /// Numbers that may be either of two.
    open: Counted,
    /// Names in sections that are known.
    names: Counted,
}

/// How many there are, and the first of them.
#[derive(Default)]
struct Counted {
    count: usize,
    example: String,
}

impl Counted {
    fn add(&mut self, example: impl FnOnce() -> String) {
        if self.count == 0 {
            self.example = example();
        }
        self.count += 1;
    }
}

impl Unread {
    /// A cell that has no number.
    pub(super) fn cell(&mut self, name: &str, text: &str, kernel: &str) {
        let counted =
            if DURATIONS.contains(&name) { &mut self.durations } else { &mut self.counters };
        counted.add(|| {
            let [name, text, kernel] = [name, text, kernel].map(|text| shorten(text, NAME_LIMIT));
            format!("{name} = {text} of {kernel}")
        });
    }

    /// A cell with two of them.
    pub(super) fn open(&mut self, name: &str, point: f64, comma: f64) {
        self.open.add(|| format!("{} = {point} or {comma}", shorten(name, NAME_LIMIT)));
    }

    /// A metric of the details page that nobody knows.
    pub(super) fn name(&mut self, section: &str, name: &str) {
        self.names.add(|| format!("{section}: {}", shorten(name, NAME_LIMIT)));
    }

    /// What is said of them.
    pub(super) fn findings(self) -> impl Iterator<Item = Finding> {
        let say = |Counted { count, example }: Counted, what: &str, why: &str, remedy: &str| {
            let what = format!("ncu: {count} {what}, e.g. {example}");
            (count > 0).then(|| Finding::new(Severity::Warning, what, why, remedy))
        };
        let no_value = "ncu could not measure them (n/a), or divided by a counter that stayed zero \
                        (nan, inf); or the cell is damaged";
        [
            say(self.counters, "counters have no value", no_value, "they count as not measured"),
            say(
                self.durations,
                "durations have no value",
                no_value,
                "these launches count as not timed; profile them again",
            ),
            say(
                self.open,
                "numbers were left out, because they can be read in two ways",
                "nothing in the file says whether a point or a comma stands before the fraction: the \
                 one reading is a thousand times the other",
                "import the report again in the locale C: LC_ALL=C ncu --import REPORT --csv --page raw",
            ),
            say(
                self.names,
                "metrics of the details page have names that are not known",
                "another version of ncu may call a counter so, which is missing here then",
                "import the raw page beside it: its names stay the same",
            ),
        ]
        .into_iter()
        .flatten()
    }
}
