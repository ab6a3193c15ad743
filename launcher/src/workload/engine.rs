//! The command of a workload -> the inference engine that it runs, so far as the command shows it.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;
use stage2_contract::text::visible_path;
use stage2_read::files;
use stage2_report::operators::Annotation;

use crate::env::is_python;

/// Larger scripts are not read.
const SCRIPT_BYTES: u64 = 1 << 20;
/// The program stands among so many words, behind wrappers such as `env` and `numactl`.
const PROGRAM_WORDS: usize = 4;

static IMPORT: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?m)^[ \t]*(?:import|from)[ \t]+vllm\b").ok());

/// What has the engine of `command` mark its steps, and by what the engine was recognised.
pub(crate) fn annotation(command: &[OsString]) -> Option<(Annotation, String)> {
    vllm(command).map(|why| (Annotation::VllmSteps, why))
}

fn vllm(command: &[OsString]) -> Option<String> {
    let is_program = |word: &OsString| Path::new(word).file_name() == Some(OsStr::new("vllm"));
    let at =
        command.iter().take(PROGRAM_WORDS).position(|word| is_program(word) || is_python(word))?;
    if is_program(&command[at]) {
        return Some("the program is vllm".to_owned());
    }
    let mut arguments = command.get(at + 1..)?.iter();
    while let Some(argument) = arguments.next() {
        let text = argument.to_str()?;
        match text {
            "-m" => {
                let module = arguments.next()?.to_str()?;
                let is_vllm = module == "vllm" || module.starts_with("vllm.");
                return is_vllm.then(|| format!("Python runs the module {module}"));
            }
            "-W" | "-X" => drop(arguments.next()),
            _ if text.starts_with('-') => {}
            _ => {
                let script = Path::new(argument);
                let source = files::read_text(script, SCRIPT_BYTES).ok()?;
                let imports = IMPORT.as_ref()?.is_match(&source);
                return imports.then(|| format!("{} imports vllm", visible_path(script)));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Option<String> {
        annotation(&words.iter().map(OsString::from).collect::<Vec<_>>()).map(|(_, why)| why)
    }

    #[test]
    fn vllm_is_recognised_by_its_program_its_module_and_the_script_that_imports_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let script = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("a script");
            path.to_str().expect("UTF-8").to_owned()
        };
        let imports = script("mine.py", "import os\ndef main():\n    from vllm import LLM\n");
        let other = script("other.py", "# import vllm\nimport vllmish, os  # from vllm\n");
        assert!(of(&["vllm", "serve", "m"]).is_some());
        assert!(of(&["env", "A=1", "/opt/bin/vllm", "serve"]).is_some());
        let module =
            of(&["python3", "-u", "-X", "dev", "-m", "vllm.entrypoints.cli.main", "serve"]);
        assert!(module.is_some_and(|why| why.contains("vllm.entrypoints")));
        assert!(
            of(&["python3.12", "-u", &imports, "--tp", "2"])
                .is_some_and(|why| why.contains("mine.py"))
        );
        for words in [
            &["python3", &other][..],
            &["python3", "-c", "import vllm"],
            &["python3", "-m", "runner", "vllm"],
            &["python3", "/no/such/script.py"],
            &["./vllm-like"],
            &["echo", "a", "b", "c", "vllm"],
            &[],
        ] {
            assert_eq!(of(words), None, "{words:?}");
        }
    }
}
