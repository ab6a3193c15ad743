//! `${now:FORMAT}` and `${hydra:runtime.cwd}` -> their text; any other resolver -> why it is refused.

use std::path::PathBuf;

/// What the resolvers answer with. It is taken once, so that every value of a run agrees.
#[derive(Clone, Debug)]
pub(super) struct Moment {
    /// When the command line was read, local time.
    now: jiff::Zoned,
    /// The working directory; none: it is gone, or its name is no UTF-8.
    cwd: Option<PathBuf>,
}

/// The resolvers that there are, for messages.
const KNOWN: &str = "only keys of this configuration can be referred to, e.g. ${run.dir}, and \
                     ${now:%Y%m%d-%H%M%S} and ${hydra:runtime.cwd}";

impl Moment {
    /// This one.
    pub(super) fn this() -> Moment {
        Moment { now: jiff::Zoned::now(), cwd: std::env::current_dir().ok() }
    }

    /// What `${resolver:argument}` stands for.
    pub(super) fn resolve(&self, resolver: &str, argument: &str) -> Result<String, String> {
        match (resolver, argument) {
            ("now", format) => self.time(format),
            ("hydra", "runtime.cwd") => {
                let cwd = self.cwd.as_ref().and_then(|cwd| cwd.to_str());
                cwd.map(str::to_owned).ok_or_else(|| {
                    "the working directory has no name in UTF-8; give the path itself".to_owned()
                })
            }
            ("hydra", _) => {
                Err(format!("{KNOWN}; after `hydra:` nothing but runtime.cwd is known here"))
            }
            ("oc.env" | "env", name) => Err(format!(
                "{KNOWN}; variables are for the shell to put in: write \"KEY=${name}\" in double \
                 quotes"
            )),
            _ => Err(KNOWN.to_owned()),
        }
    }

    /// The time in a pattern of strftime, as Python reads it.
    fn time(&self, format: &str) -> Result<String, String> {
        // Python's %f is always six digits.
        let pattern = format.replace("%f", "%6f");
        let text = jiff::fmt::strtime::format(&pattern, &self.now);
        text.map_err(|e| format!("{format:?} is no pattern of strftime ({e}), e.g. %Y%m%d-%H%M%S"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_and_folder_are_filled_in_and_others_are_refused_with_the_reason() {
        let now: jiff::Zoned = "2026-03-04T05:06:07.000089[UTC]".parse().expect("a time");
        let moment = Moment { now, cwd: Some("/srv dir".into()) };
        for (resolver, argument, expected) in [
            ("now", "%Y%m%d-%H%M%S", "20260304-050607"),
            ("now", "%Y-%m-%d/%H-%M-%S-%f", "2026-03-04/05-06-07-000089"),
            ("now", "%b %%", "Mar %"),
            ("hydra", "runtime.cwd", "/srv dir"),
        ] {
            let resolved = moment.resolve(resolver, argument);
            assert_eq!(resolved.as_deref(), Ok(expected), "{resolver}:{argument}");
        }
        for (resolver, argument, part) in [
            ("now", "%!", "no pattern of strftime"),
            ("now", "%", "no pattern of strftime"),
            ("hydra", "job.name", "nothing but runtime.cwd"),
            ("oc.env", "HOME", "\"KEY=$HOME\""),
            ("oc.select", "a", "only keys"),
        ] {
            let error = moment.resolve(resolver, argument).expect_err(argument);
            assert!(error.contains(part), "{error}");
        }
        let nowhere = Moment { cwd: None, ..moment };
        assert!(nowhere.resolve("hydra", "runtime.cwd").is_err());
    }
}
