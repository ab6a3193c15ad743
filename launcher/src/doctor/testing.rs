//! A machine made of files, for the tests of the checks.

use std::path::PathBuf;

use super::check::System;

/// A folder that stands for `/`.
pub(super) struct Machine(tempfile::TempDir);

impl Machine {
    pub(super) fn new(files: &[(&str, &str)]) -> Machine {
        let machine = Machine(tempfile::tempdir().expect("folder"));
        files.iter().for_each(|(path, text)| machine.write(path, text));
        machine
    }

    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    pub(super) fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().expect("parent")).expect("folder");
        std::fs::write(path, text).expect("file");
    }

    pub(super) fn system(&self, variables: &[(&str, &str)]) -> System {
        let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        System { root: self.path(""), variables: variables.collect(), ..System::this() }
    }
}
