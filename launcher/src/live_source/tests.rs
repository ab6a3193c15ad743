use super::targets::{Runs, named, only_of};
use super::*;

#[test]
fn a_folder_a_file_a_number_and_a_port_are_told_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let word = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let of = |path: &Path| meant(&word(path)).expect("found").sources.len();
    assert_eq!(of(folder.path()), 1);
    std::fs::create_dir(folder.path().join("collector")).expect("a folder");
    assert_eq!(of(folder.path()), 2, "the folder of a run");
    std::fs::write(folder.path().join("a.s2t"), "").expect("a file");
    let file = meant(&word(&folder.path().join("a.s2t"))).expect("found");
    assert_eq!((file.sources.len(), file.target), (1, None));
    assert_eq!(meant("12").expect("found").target, Some(Target::Process(12)));
    assert_eq!(meant("node-1:9464").expect("found").port.as_deref(), Some("node-1:9464"));
    let error = meant(&word(&folder.path().join("absent"))).unwrap_err().to_string();
    assert!(error.contains("absent does not exist; "), "{error}");
}

/// Hazard (Watching what runs): No TARGET is given.
/// Promise: The only live run is meant; of several none is guessed, and the error names them.
#[test]
fn without_a_target_the_only_live_run_is_meant() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = Some(folder.path().to_owned());
    let one = Runs::from([(here.clone(), vec![4, 5])]);
    assert_eq!(only_of(&one).expect("found").target, Some(Target::Run(folder.path().to_owned())));
    let in_container = Runs::from([(Some(PathBuf::from("/no/such")), vec![7])]);
    assert_eq!(only_of(&in_container).expect("found").target, Some(Target::Process(7)));
    let two = Runs::from([(here, vec![4, 5]), (Some(PathBuf::from("/no/such")), vec![7])]);
    let error = only_of(&two).unwrap_err().to_string();
    assert!(
        error.starts_with("2 runs are live: process 7 (/no/such), processes 4, 5 ("),
        "{error}"
    );
    assert!(error.contains("name a TARGET"), "{error}");
    let error = only_of(&Runs::new()).unwrap_err().to_string();
    assert!(error.starts_with("no process of this user runs under the collector"), "{error}");
}

#[test]
fn a_run_has_the_name_of_its_folder_whatever_part_of_it_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run-7");
    std::fs::create_dir_all(run.join(COLLECTOR)).expect("folders");
    let trace = run.join(COLLECTOR).join("vm-1.s2t");
    std::fs::write(&trace, "").expect("a file");
    let latest = folder.path().join("latest");
    std::os::unix::fs::symlink("run-7", &latest).expect("a link");
    // The next run is another one.
    assert_eq!(named(&latest).expect("found").target, Some(Target::Run(run.clone())));
    let title = |path: &Path| named(path).expect("found").title();
    assert_eq!([&run, &latest, &run.join(COLLECTOR)].map(|path| title(path)), ["run-7"; 3]);
    assert_eq!(title(&trace), "run-7/vm-1.s2t");
    assert_eq!(meant("4711").expect("found").title(), "process 4711");
    assert_eq!(run_of(&trace), run);
}

#[test]
fn what_came_of_a_switch_counts_processes_and_goes_once_one_of_them_ends() {
    let of = |verb: &Verb, outcomes: Vec<Outcome>| {
        told(verb, &(8u32..).zip(outcomes).collect::<Vec<_>>())
    };
    let start = Verb::Start(Start::default());
    let silent = || Outcome::Other("8: starting".to_owned());
    for (verb, outcomes, expected) in [
        (&Verb::Stop, vec![Outcome::Done], "stopped recording process 8"),
        (&start, vec![Outcome::Ended], "process 8 has ended"),
        (&start, vec![silent()], "8: starting"),
        (&start, vec![Outcome::Done, Outcome::Done], "recording 2 processes"),
        (
            &Verb::Stop,
            vec![Outcome::Done, Outcome::Ended],
            "stopped recording 1 of 2 processes; 1 has ended",
        ),
        (&start, vec![silent(), Outcome::Done], "recording 1 of 2 processes; 8: starting"),
    ] {
        assert_eq!(of(verb, outcomes), expected);
    }
    let ended = switched(&[], &Verb::Stop, &[7, 8].into());
    assert_eq!(told(&Verb::Stop, &ended), "stopped recording 0 of 2 processes; 2 have ended");
    // Of a file, no socket is asked.
    let file = tempfile::Builder::new().suffix(".s2t").tempfile().expect("a file");
    let targets = file.path().to_str().map(str::to_owned).into_iter().collect();
    let wanted = WatchOptions { all: false, tokens: Vec::new(), targets };
    let mut watched = LiveSource::open(wanted).expect("a file");
    watched.learn(vec![ProcessStatus::of(7, "on"), ProcessStatus::of(8, "on")]);
    watched.own_news.send(News::Said("recording 2 processes".to_owned())).expect("it listens");
    watched.take_news();
    let said = watched.said.take().expect("a message");
    watched.learn(vec![ProcessStatus::of(8, "dormant"), ProcessStatus::of(7, "on")]);
    assert!(!watched.is_outdated(&said), "both go on");
    watched.learn(vec![ProcessStatus::of(8, "on")]);
    assert!(watched.is_outdated(&said) && !watched.is_outdated("nothing was changed"));
}

#[test]
fn windows_that_were_over_before_are_not_followed() {
    let status = |lines: &[&str]| {
        lines
            .iter()
            .fold(Answer::ok().with("phase", "on"), |answer, line| answer.with("done", line))
    };
    let first = "number=1 records=5 file=/tmp/a%20b.s2t";
    let standing = standing(7, &status(&[first, "number=2 file=none", "nonsense"]));
    assert_eq!(standing.done[0], (1, PathBuf::from("/tmp/a b.s2t")));
    assert_eq!((standing.done.len(), standing.file.is_none()), (2, true));
}

/// Hazard (Watching what runs): This host is so busy that the files are read slowly, and the page blames their folder.
/// Promise: The folder is named only where nothing of it comes.
#[test]
fn a_reader_that_is_behind_is_no_folder_that_hangs() {
    let mut files = Files::of(Vec::new(), Options::default());
    let ((sources, _more), (_tell, seen)) = (mpsc::channel(), mpsc::channel());
    (files.watch, files.reader) = (None, Some((sources, seen)));
    let before = Instant::now().checked_sub(SLOW + Duration::from_secs(1)).expect("a time");
    (files.at, files.moved) = (before, (0, before));
    files.tick();
    let said = |files: &Files| files.look().problems.concat();
    assert_eq!(said(&files), "the folder of the trace files has not answered for 6 s");
    files.progress.fetch_add(1, Ordering::Relaxed);
    files.tick();
    for is_read in [false, true] {
        files.is_read = is_read;
        assert_eq!(said(&files), "this host is busy, so the trace files are read slowly");
    }
}
