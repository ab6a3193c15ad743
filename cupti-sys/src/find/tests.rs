use super::*;
use std::collections::BTreeMap;
use std::ffi::OsString;

/// Folders and the names in them, as the search would list them.
struct Tree(BTreeMap<PathBuf, Vec<OsString>>);

impl Tree {
    fn of(files: &[&str]) -> Self {
        let mut folders: BTreeMap<PathBuf, Vec<OsString>> = BTreeMap::new();
        for file in files {
            let mut path = PathBuf::from(file);
            while let (Some(name), Some(parent)) = (path.file_name(), path.parent()) {
                let names = folders.entry(parent.to_path_buf()).or_default();
                if !names.iter().any(|known| known == name) {
                    names.push(name.to_os_string());
                }
                path = parent.to_path_buf();
            }
        }
        Self(folders)
    }

    fn search(&self, surroundings: &Surroundings, driver_cuda_major: Option<u32>) -> Places {
        places::places(surroundings, driver_cuda_major, &|folder| {
            self.0.get(folder).cloned().unwrap_or_default()
        })
    }
}

/// What would be opened before the dynamic linker's own search.
fn files(places: &Places) -> Vec<&str> {
    let files = places.candidates.iter().filter(|candidate| candidate.how != How::System);
    files.filter_map(|candidate| candidate.path.to_str()).collect()
}

fn path(text: &str) -> Option<PathBuf> {
    Some(PathBuf::from(text))
}

#[test]
fn packages_are_found_around_what_is_mapped_and_what_runs() {
    const VENV: &str = "/venv/lib/python3.12/site-packages/nvidia/cuda_cupti/lib/libcupti.so.12";
    const BASE: &str = "/base/lib/python3.12/site-packages/nvidia/cuda_cupti/lib/libcupti.so.12";
    const NEXT: &str = "/env/site-packages/nvidia/cu13/lib/libcupti.so.13";
    // Packages that were copied out of site-packages, as some containers do.
    const COPY: &str = "/opt/nvidia/cuda_cupti/lib/libcupti.so.12";
    let tree = Tree::of(&[VENV, BASE, &BASE.replace("libcupti", "libnvperf_host"), NEXT, COPY]);
    let mapped = |files: &[&str]| Surroundings {
        mapped: files.iter().map(PathBuf::from).collect(),
        ..Surroundings::default()
    };
    let python = || Surroundings { executable: path("/usr/bin/python3.12"), ..mapped(&[]) };
    let cudart = "/venv/lib/python3.12/site-packages/nvidia/cuda_runtime/lib/libcudart.so.12";
    let both = mapped(&["/usr/lib/libc.so.6", cudart]);
    for (what, surroundings, expected) in [
        (
            "those of a mapped library come before those of the interpreter",
            Surroundings { executable: path("/base/bin/python3.12"), ..both },
            &[VENV, BASE][..],
        ),
        ("beside another package", mapped(&["/env/site-packages/torch/lib/libtorch.so"]), &[NEXT]),
        ("beside itself", mapped(&["/env/site-packages/nvidia/cu13/lib/x"]), &[NEXT]),
        ("a copy", mapped(&["/opt/nvidia/cuda_runtime/lib/libcudart.so.12"]), &[COPY]),
        ("a Python without packages", python(), &[]),
        ("by its link", Surroundings { called_as: path("/venv/bin/python"), ..python() }, &[VENV]),
        ("by its variable", Surroundings { virtual_env: path("/venv"), ..python() }, &[VENV]),
        ("no Python", Surroundings { executable: path("/venv/bin/server"), ..mapped(&[]) }, &[]),
    ] {
        // Whatever the driver's version, if it is known at all.
        for driver in [None, Some(12), Some(13)] {
            let found = tree.search(&surroundings, driver);
            assert_eq!(files(&found), expected, "{what}, {driver:?}");
            let said = found.empty.iter().any(|attempt| attempt.how == How::PythonPackages);
            assert_eq!(said, expected.is_empty(), "{what}, {driver:?}");
        }
    }
}

#[test]
fn toolkits_are_tried_in_order_and_in_all_their_folders() {
    let expected = [
        "/opt/cuda/extras/CUPTI/lib64/libcupti.so.12",
        "/opt/cuda/extras/CUPTI/lib64/libcupti.so",
        "/opt/cuda/extras/CUPTI/lib64/libcupti.so.2025.1.1",
        "/usr/local/cuda-12.10/lib64/libcupti.so.12",
        "/usr/local/cuda-12.9/targets/x86_64-linux/lib/libcupti.so.12",
    ];
    let mut in_folders = expected;
    in_folders.swap(3, 4);
    let tree = Tree::of(&[&["/usr/local/cuda/lib64/libcudart.so.12"], &in_folders[..]].concat());
    let surroundings = Surroundings { cuda_home: path("/opt/cuda"), ..Surroundings::default() };
    let found = tree.search(&surroundings, None);
    assert_eq!(files(&found), expected);
    let empty: Vec<_> = found.empty.iter().filter(|a| a.how == How::Toolkit).collect();
    assert_eq!(empty.len(), 1, "{empty:?}");
    assert_eq!(empty[0].place, Path::new("/usr/local/cuda"));
}

#[test]
fn the_driver_s_major_version_decides_before_the_place() {
    let tree = Tree::of(&[
        "/p/lib/python3.11/site-packages/nvidia/cuda_cupti/lib/libcupti.so.12",
        "/p/lib/python3.11/site-packages/nvidia/cu13/lib/libcupti.so.13",
        "/usr/local/cuda/lib64/libcupti.so.11.8",
        "/usr/local/cuda/lib64/libcupti.so.12",
        "/usr/local/cuda/lib64/libcupti.so",
    ]);
    let surroundings = Surroundings { called_as: path("/p/bin/python"), ..Surroundings::default() };
    let shown = |found: &Candidate| {
        let how = match found.how {
            How::PythonPackages => 'P',
            How::Toolkit => 'T',
            How::System => 'S',
            _ => '?',
        };
        found.cuda_major.map_or(format!("{how}-"), |major| format!("{how}{major}"))
    };
    let order = |driver| {
        let places = tree.search(&surroundings, driver);
        places.candidates.iter().map(shown).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(order(None), "P13 P12 T12 T11 T- S13 S12 S11 S-");
    assert_eq!(order(Some(12)), "P12 T12 S12 T- S- T11 S11 P13 S13");
    assert!(order(Some(14)).starts_with("S14 "));
}

#[test]
fn of_older_ones_the_newest_comes_first_wherever_it_is() {
    let tree = Tree::of(&[
        "/p/lib/python3.11/site-packages/nvidia/cuda_cupti/lib/libcupti.so.11.8",
        "/usr/local/cuda/lib64/libcupti.so.12",
    ]);
    let surroundings = Surroundings { called_as: path("/p/bin/python"), ..Surroundings::default() };
    let found = tree.search(&surroundings, Some(13)).candidates;
    let files = found.iter().filter(|found| found.how != How::System && found.cuda_major.is_some());
    assert_eq!(files.map(|found| found.cuda_major).collect::<Vec<_>>(), [Some(12), Some(11)]);
}

#[test]
fn of_several_loaded_copies_the_driver_s_version_wins() {
    let mapped =
        ["/a/libcupti.so.12", "/b/libcupti.so.13", "/c/libcuptiutil.so", "/d/libcuda.so.1"];
    let mapped = mapped.map(PathBuf::from);
    let first = |driver| places::loaded(&mapped, driver).first().map(|found| found.path.clone());
    assert_eq!(places::loaded(&mapped, None).len(), 2);
    assert_eq!(first(None), path("/a/libcupti.so.12"));
    assert_eq!(first(Some(13)), path("/b/libcupti.so.13"));
    let hashed = [PathBuf::from("/e/torch/lib/libcupti-1a2b3c4d.so.11.8")];
    assert_eq!(places::loaded(&hashed, None).first().and_then(|found| found.cuda_major), Some(11));
}

#[test]
fn a_given_path_that_cannot_be_opened_is_the_only_thing_tried() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = folder.path().join("libcupti.so.13");
    std::fs::write(&text, "not a library").expect("a writable folder");
    let absent = folder.path().join("absent");
    for (given, why) in
        [(absent.as_path(), "No such file"), (text.as_path(), ""), (folder.path(), "")]
    {
        let error = locate(Some(given), Some(13)).map(|found| found.path).unwrap_err();
        assert_eq!(error.tried.len(), 1);
        let shown = error.to_string();
        for part in [given.to_str().expect("UTF-8"), why, "STAGE2_CUPTI"] {
            assert!(shown.contains(part), "{shown}");
        }
    }
}

#[test]
fn the_error_names_every_place_and_the_remedy() {
    let attempt = |how, place: &str, reason: &str| Attempt {
        how,
        place: place.into(),
        reason: reason.into(),
    };
    let tried = vec![
        attempt(How::PythonPackages, "", "no Python packages known to this process"),
        attempt(How::Toolkit, "/usr/local/cuda", "no libcupti.so in it"),
        attempt(How::System, "libcupti.so.13", "cannot open shared object file"),
    ];
    let shown = FindError { tried }.to_string();
    for part in [
        "Python packages: no Python packages known to this process; ",
        "CUDA toolkit /usr/local/cuda: no libcupti.so in it; ",
        "system libcupti.so.13: cannot open shared object file. ",
        "pip install nvidia-cuda-cupti",
        "STAGE2_CUPTI",
    ] {
        assert!(shown.contains(part), "{shown}");
    }
    assert!(!shown.contains('\n'));
}

#[test]
fn the_process_is_seen_as_it_is() {
    let mapped = process::mapped_files();
    let libc = mapped.iter().find(|path| places::file_name_starts(path, "libc.so"));
    let libc = libc.expect("a C library is in every process here");
    let library = process::open(libc, NOLOAD).expect("it is loaded");
    assert_eq!(process::with_path(library).1.as_ref(), Some(libc));
    let absent = process::open(Path::new("libcupti.so.0"), NOLOAD);
    assert!(absent.is_err());
}

#[test]
fn a_file_with_the_right_name_and_the_wrong_symbols_is_passed_over() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let libc = process::mapped_files();
    let libc = libc.iter().find(|path| places::file_name_starts(path, "libc.so"));
    let link = folder.path().join("libcupti.so.13");
    std::os::unix::fs::symlink(libc.expect("a C library"), &link).expect("a link");
    let candidate = Candidate::new(How::Toolkit, link);
    let attempt = open(candidate).unwrap_err();
    assert!(attempt.reason.contains("cuptiActivityEnable"), "{attempt:?}");
}
