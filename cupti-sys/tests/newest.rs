//! Which of several copies is taken where the user asks for the newest. In a program of its own: what is
//! loaded here stays in the process.

#[path = "fake/build.rs"]
mod build;

use build::build;
use cupti_sys::find::{self, How, places::NEWEST};
use std::path::{Path, PathBuf};

/// Compiles the fake CUPTI to a place in the packages of some Python, below `root`.
fn install(root: &Path, file: &str) -> PathBuf {
    let library = root.join("site-packages").join(file);
    std::fs::create_dir_all(library.parent().expect("a folder")).expect("folders");
    build(library, &[])
}

/// Says which version of the wheel is installed below `root`, and no other.
fn say_version(root: &Path, version: &str) {
    let packages = root.join("site-packages");
    for name in find::places::list(&packages) {
        if name.to_string_lossy().ends_with(".dist-info") {
            std::fs::remove_dir(packages.join(name)).expect("an empty folder");
        }
    }
    let info = format!("nvidia_cuda_cupti-{version}.dist-info");
    std::fs::create_dir(packages.join(info)).expect("a folder");
}

/// Hazard (Versions, libraries and rivals): An older copy of CUPTI is in the process.
/// Promise: A second copy is loaded only for the second activity API, or on request.
#[test]
fn a_newer_copy_is_taken_for_the_second_activity_api_or_where_it_is_asked_for() {
    let [torch, other] = [(); 2].map(|()| tempfile::tempdir().expect("a temporary folder"));
    let file = "nvidia/cu13/lib/libcupti.so.13";
    let (old, new) = (install(torch.path(), file), install(other.path(), file));
    // A library of that Python which is mapped makes its packages known.
    let known = install(other.path(), "pkg/lib/libother.so");
    // SAFETY: they are fakes of this folder, which do nothing when they are loaded.
    let _held =
        [&old, &known].map(|path| unsafe { libloading::Library::new(path) }.expect("a library"));
    say_version(torch.path(), "13.0.85");
    say_version(other.path(), "13.2.86");
    let newest = Some(Path::new(NEWEST));
    let found = |explicit, driver| {
        find::locate(explicit, Some(driver)).map(|found| (found.how, found.path))
    };

    let loaded = Ok((How::AlreadyLoaded, old.clone()));
    assert_eq!(found(None, 13), loaded, "the newer one has one API as well");
    say_version(other.path(), "13.999.1");
    let away = other.path().join("away");
    std::fs::rename(&new, &away).expect("moved");
    std::fs::write(&new, "no library").expect("a file");
    assert_eq!(
        [found(None, 13), found(newest, 13)],
        [loaded.clone(), loaded.clone()],
        "no library"
    );
    std::fs::rename(&away, &new).expect("moved back");
    say_version(other.path(), "13.0.85");
    assert_eq!(found(newest, 13), loaded, "they are equally new");
    say_version(other.path(), "13.999.1");
    let of_older_driver = found(newest, 12);
    assert!(
        !matches!(&of_older_driver, Ok((_, path)) if *path == new || *path == old),
        "{of_older_driver:?}"
    );
    for explicit in [None, newest] {
        assert_eq!(found(explicit, 13), Ok((How::PythonPackages, new.clone())), "{explicit:?}");
    }
    assert_eq!(
        found(Some(new.as_path()), 13),
        Ok((How::Explicit, new.clone())),
        "a path is that path"
    );
}
