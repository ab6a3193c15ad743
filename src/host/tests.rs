use super::*;

/// This program has no interpreter, and threads.
#[test]
fn threads_without_an_interpreter_are_sampled_and_the_end_is_prompt() {
    assert!(Interpreter::find().is_none());
    let calls = Box::leak(Box::default());
    let sampling = Sampling::start(200, None, calls).expect("a thread");
    let own = crate::base::generation::thread_id() as u32;
    sampling.watch(own);
    let end = Instant::now() + Duration::from_secs(20);
    let (mut samples, mut notes, mut met) = (Vec::new(), Vec::new(), false);
    while samples.len() < 50 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
        while let Some(said) = sampling.take() {
            match said {
                Said::Round(round) => {
                    met |= round.met.iter().any(|(tid, _)| *tid == own);
                    samples
                        .extend(round.samples.iter().filter(|sample| sample.tid == own).cloned());
                    sampling.give_back(round);
                }
                Said::Note(note) => notes.push(note),
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(met && samples.len() >= 50, "{} samples, {notes:?}", samples.len());
    assert!(notes.iter().any(|note| note.contains("no Python interpreter")), "{notes:?}");
    assert!(samples.iter().all(|sample| !sample.holds_gil));
    if notes.iter().all(|note| !note.contains("descriptors")) {
        let asleep = samples.iter().filter(|sample| sample.state == HostState::Sleep).count();
        assert!(asleep > samples.len() / 2, "{asleep} of {}", samples.len());
        // While it waits, its native frames are known.
        let with_frames = samples.iter().filter(|sample| !sample.frames.is_empty()).count();
        let has_native = cfg!(target_arch = "x86_64");
        assert!(!has_native || with_frames * 2 > asleep, "{with_frames} of {asleep}");
    }
    let before = Instant::now();
    sampling.stop();
    assert!(before.elapsed() < Duration::from_secs(5));
    assert!(!sampling.is_alive());
    while sampling.take().is_some() {}
}

#[test]
fn a_thread_that_launches_is_looked_at_however_many_there_are_and_none_that_is_not_there() {
    let own = crate::base::generation::thread_id() as u32;
    let (common, calls) = (Common::new(), CallStacks::default());
    let mut sampler = Sampler::new(Duration::from_millis(10), None, (&common, &calls));
    sampler.has_files = true;
    let mut round = Round::default();
    assert!(sampler.meet(u32::MAX, &mut round));
    assert_eq!((sampler.known.len(), round.met.len()), (0, 0), "no thread has that number");
    let others = (0..MAX_TASKS as u32).map(|at| Known { tid: u32::MAX - at, ..Known::default() });
    sampler.known.extend(others);
    assert!(!sampler.meet(own, &mut round), "no room");
    common.launching[0].store(own, Ordering::Relaxed);
    assert!(sampler.meet(own, &mut round));
    assert_eq!((sampler.known.len(), round.met.len()), (MAX_TASKS, 1));
}

#[test]
fn a_guest_with_a_name_like_ours_is_sampled_and_our_threads_are_not() {
    let (common, calls) = (Common::new(), CallStacks::default());
    let mut sampler = Sampler::new(Duration::from_millis(10), None, (&common, &calls));
    sampler.has_files = true;
    for (name, is_ours) in [("stage2-demo", false), ("stage2-drain", true)] {
        let (tell, told) = std::sync::mpsc::channel();
        let (end, may_end) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            tell.send(crate::base::generation::thread_id() as u32).expect("heard");
            let _ = may_end.recv();
        });
        sampler.meet(told.recv().expect("a number"), &mut Round::default());
        assert_eq!(sampler.known.last().map(|known| known.is_own), Some(is_ours), "{name}");
        drop(end);
        thread.expect("a thread").join().expect("it ends");
    }
}

#[test]
fn a_thread_that_a_list_lacks_is_kept_and_one_that_has_ended_is_not() {
    let own = crate::base::generation::thread_id() as u32;
    let ended = std::thread::spawn(|| {
        let tid = crate::base::generation::thread_id() as u32;
        (tid, Task::open(tid).expect("files"))
    });
    let (tid, task) = ended.join().expect("it ends");
    let (common, calls) = (Common::new(), CallStacks::default());
    let mut sampler = Sampler::new(Duration::from_millis(10), None, (&common, &calls));
    sampler.has_files = true;
    // The number of a thread that no list has, with the files of this one.
    let task_of_own = Task::open(own).expect("files");
    let lacking = Known { tid: u32::MAX, task: Some(task_of_own), ..Known::default() };
    sampler.known.extend([lacking, Known { tid, task: Some(task), ..Known::default() }]);
    let end = Instant::now() + Duration::from_secs(20);
    let mut round = Round::default();
    // The kernel needs a moment after a join.
    while !round.gone.contains(&tid) && Instant::now() < end {
        (sampler.next_listing, round) = (Instant::now(), Round::default());
        sampler.list(&mut round);
    }
    assert_eq!(round.gone, [tid]);
    assert!(sampler.known.iter().any(|known| known.tid == u32::MAX));
}
