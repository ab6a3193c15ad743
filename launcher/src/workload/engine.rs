//! The command of a workload -> the inference engine that it runs, as far as the command shows it.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use stage2_contract::text::{visible, visible_path};
use stage2_model::Finding;
use stage2_model::finding::Id;
use stage2_read::files;
use stage2_report::operators::Annotation;

use super::python::{MAX_SOURCE_BYTES, imports, program, roots};

/// The signs in a command of an engine that can mark its own steps.
struct Signs {
    /// Names of its programs.
    programs: &'static [&'static str],
    /// Its Python package.
    package: &'static str,
    annotation: Annotation,
}

/// The engines. If a script imports several, the first one counts.
const ENGINES: &[Signs] = &[
    Signs { programs: &["vllm"], package: "vllm", annotation: Annotation::VllmSteps },
    Signs { programs: &["sglang"], package: "sglang", annotation: Annotation::SglangSteps },
    Signs {
        programs: &["trtllm-serve", "trtllm-bench", "trtllm-eval", "trtllm-llmapi-launch"],
        package: "tensorrt_llm",
        annotation: Annotation::TrtllmSteps,
    },
];

/// The program is among the first words of a command, behind wrappers such as `env` and `numactl`.
const PROGRAM_WORDS: usize = 4;

/// An engine that can mark its own steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Engine {
    /// What makes it mark them.
    pub(crate) annotation: Annotation,
    /// How the command shows it.
    why: String,
}

impl Engine {
    /// The engine that `command` runs in the folder `cwd`.
    pub(crate) fn of(
        command: &[OsString],
        cwd: &Path,
        python_path: Option<&OsStr>,
    ) -> Option<Self> {
        let of_words = || ENGINES.iter().find_map(|signs| signs.of_words(command));
        of_words().or_else(|| {
            let script = program(command, cwd, &roots(cwd, python_path))?;
            let source = files::read(&script, MAX_SOURCE_BYTES).ok()?;
            let source = String::from_utf8_lossy(&source);
            ENGINES.iter().find_map(|signs| signs.of_source(&source, &script))
        })
    }

    /// What to tell where it marks its steps without being asked to.
    pub(crate) fn finding(&self) -> Finding {
        let Self { annotation, why } = self;
        Id::RangesAnnotated.found(
            format!("the engine marks its steps in this run ({}): {why}", annotation.word()),
            "a range around each step, with its requests and tokens, costs a few microseconds per step",
            "set operators.engine_steps=false to leave the engine as it is",
        )
    }
}

impl Signs {
    /// The engine, if it is the program of a command or the module that Python runs.
    fn of_words(&self, command: &[OsString]) -> Option<Engine> {
        let named = |word: &OsString| {
            let name = Path::new(word).file_name()?.to_str()?;
            self.programs.iter().find(|program| **program == name)
        };
        // The words after a module or a piece of Python are its arguments.
        let words = command.iter().take_while(|word| *word != "-m" && *word != "-c");
        // Behind a wrapper with options of its own, such as `conda run -n x`, what it serves tells it.
        let serves = || command.windows(2).filter(|pair| pair[1] == "serve");
        let program = words.take(PROGRAM_WORDS).find_map(named);
        if let Some(program) = program.or_else(|| serves().find_map(|pair| named(&pair[0]))) {
            return Some(self.engine(format!("the program is {program}")));
        }
        let is_module = |name: &str| name.split('.').next() == Some(self.package);
        let modules = command.windows(2).filter(|pair| pair[0] == "-m" || pair[0] == "--module");
        let mut modules = modules.filter_map(|pair| pair[1].to_str());
        let module = modules.find(|name| is_module(name))?;
        Some(self.engine(format!("Python runs the module {}", visible(module.as_bytes()))))
    }

    /// The engine, if `script` imports it.
    fn of_source(&self, source: &str, script: &Path) -> Option<Engine> {
        let imports_it = source.lines().any(|line| imports(line, self.package));
        imports_it
            .then(|| self.engine(format!("{} imports {}", visible_path(script), self.package)))
    }

    fn engine(&self, why: String) -> Engine {
        Engine { annotation: self.annotation, why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_recognised_by_its_program_its_module_and_the_script_that_imports_it() {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in [
            ("mine.py", "import os\ndef main():\n    from vllm import LLM\n"),
            ("other.py", "# import vllm\nimport vllmish, os  # from vllm\n"),
            ("tool", "#!/usr/bin/env python3\nimport vllm.entrypoints\n"),
            ("package/__main__.py", "import vllm as engine\n"),
            ("sgl.py", "import sglang as sgl\n"),
            ("trt.py", "from tensorrt_llm import LLM\n"),
        ] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, text).expect("a script");
        }
        let of = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let engine = Engine::of(&words, folder.path(), None)?;
            Some(format!("{}: {}", engine.annotation.word(), engine.why))
        };
        for (words, shown) in [
            (&["vllm", "serve", "m"][..], "the program is vllm"),
            (&["env", "A=1", "/opt/bin/vllm", "serve"], "the program is vllm"),
            (&["conda", "run", "-n", "x", "vllm", "serve", "m"], "the program is vllm"),
            (&["numactl", "-N", "0", "-m", "0", "vllm", "serve", "m"], "the program is vllm"),
            (&["python3", "-u", "-m", "vllm.entrypoints.cli.main"], "vllm.entrypoints"),
            (&["python3.12", "-u", "-X", "dev", "mine.py", "--tp", "2"], "mine.py imports"),
            (&["torchrun", "--nproc-per-node", "2", "mine.py"], "mine.py imports"),
            (&["python3", "-m", "package"], "package/__main__.py imports"),
            (&["./tool"], "tool imports"),
            (
                &["python3", "-m", "sglang.launch_server", "--model-path", "m"],
                "sglang-steps: Python",
            ),
            (&["sglang", "serve", "m"], "sglang-steps: the program is sglang"),
            (&["python3", "sgl.py"], "sgl.py imports sglang"),
            (&["mpirun", "-n", "2", "trtllm-llmapi-launch"], "trtllm-steps: the program"),
            (&["trtllm-serve", "m", "--backend", "pytorch"], "the program is trtllm-serve"),
            (&["python3", "trt.py"], "trtllm-steps: "),
        ] {
            assert!(of(words).is_some_and(|why| why.contains(shown)), "{words:?}: {:?}", of(words));
        }
        for words in [
            &["python3", "other.py"][..],
            &["python3", "-c", "import vllm"],
            &["python3", "-m", "runner", "vllm"],
            &["python3", "no_such_script.py"],
            &["./vllm-like"],
            &["echo", "a", "b", "c", "vllm"],
            &["python3", "-m", "sglangish.launch_server"],
            &["trtllm-build", "m"],
            &[],
        ] {
            assert_eq!(of(words), None, "{words:?}");
        }
    }
}
