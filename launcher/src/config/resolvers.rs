//! `${now:FORMAT}` and `${hydra:runtime.cwd}` -> their text; any other resolver -> why it is refused.

use std::path::PathBuf;

use anyhow::{Context as _, anyhow, bail};
use stage2_config::hydra::Origin;

/// What the resolvers answer with. It is taken once, so that every value of a run agrees.
#[derive(Clone, Debug)]
pub(super) struct Moment {
    /// When the command line was read, local time.
    now: jiff::Zoned,
    /// The working directory; none: it is gone, or its name is no UTF-8.
    cwd: Option<PathBuf>,
}

/// The resolvers that there are, for messages.
const KNOWN: &str = "values may refer only to ${KEY} of this configuration, ${now:FORMAT} and \
                     ${hydra:runtime.cwd}";

impl Moment {
    pub(super) fn this() -> Moment {
        Moment { now: jiff::Zoned::now(), cwd: std::env::current_dir().ok() }
    }

    /// What `${resolver:argument}` stands for in a value from `origin`.
    pub(super) fn resolve(
        &self,
        resolver: &str,
        argument: &str,
        origin: &Origin,
    ) -> anyhow::Result<String> {
        match (resolver, argument) {
            ("now", format) => {
                // Python's %f is always six digits.
                let text = jiff::fmt::strtime::format(format.replace("%f", "%6f"), &self.now);
                text.map_err(|error| {
                    anyhow!("{format:?} is no pattern of strftime ({error}), e.g. %Y%m%d-%H%M%S")
                })
            }
            ("hydra", "runtime.cwd") => {
                let cwd = self.cwd.as_ref().and_then(|cwd| cwd.to_str()).map(str::to_owned);
                cwd.context("the working directory has no name in UTF-8; give the path itself")
            }
            ("hydra", _) => bail!("{KNOWN}; after `hydra:` nothing but runtime.cwd is known here"),
            ("oc.env" | "env", argument) => match origin {
                Origin::Override(_) | Origin::Flag(_) => bail!(
                    "{KNOWN}; to use a variable, let the shell fill it in: write \"KEY=${}\" in \
                     double quotes",
                    // Behind the name of the variable a default may stand.
                    argument.split(',').next().unwrap_or_default().trim()
                ),
                _ => bail!(
                    "{KNOWN}; to use a variable, set this key on the command line, where the shell \
                     fills it in"
                ),
            },
            _ => bail!("{KNOWN}"),
        }
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
            let resolved = moment.resolve(resolver, argument, &Origin::Chosen);
            assert_eq!(resolved.expect(argument), expected, "{resolver}:{argument}");
        }
        for (resolver, argument, part) in [
            ("now", "%!", "no pattern of strftime"),
            ("now", "%", "no pattern of strftime"),
            ("hydra", "job.name", "nothing but runtime.cwd"),
            ("oc.env", "HOME", "\"KEY=$HOME\""),
            ("oc.env", "HOME,/tmp", "\"KEY=$HOME\""),
            ("oc.select", "a", "only to ${KEY}"),
        ] {
            let word = Origin::Override("a=1".into());
            let error = moment.resolve(resolver, argument, &word).expect_err(argument).to_string();
            assert!(error.contains(part), "{error}");
        }
        let file = Origin::File { name: "f".into(), line: 1 };
        let error = moment.resolve("oc.env", "HOME", &file).expect_err("a variable").to_string();
        assert!(error.contains("set this key on the command line") && !error.contains("KEY="));
        let nowhere = Moment { cwd: None, ..moment };
        assert!(nowhere.resolve("hydra", "runtime.cwd", &Origin::Chosen).is_err());
    }
}
