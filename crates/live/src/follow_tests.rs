use std::io::Write as _;

use super::*;

/// A trace file that is written step by step.
struct Trace {
    folder: tempfile::TempDir,
    bytes: Vec<u8>,
}

impl Trace {
    fn new() -> Self {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes).expect("a header");
        for id in 1..=9 {
            writer.write(&Record::Name { id, bytes: b"name".repeat(id as usize) });
            writer.flush().expect("memory");
        }
        writer.write(&Record::End { reason: "exit".into() });
        writer.flush().expect("memory");
        drop(writer);
        Self { folder: tempfile::tempdir().expect("a folder"), bytes }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("host-1.s2t")
    }

    fn write(&self, length: usize) {
        fs::write(self.path(), &self.bytes[..length]).expect("a file");
    }
}

fn read(follow: &mut Follow) -> usize {
    let mut records = 0;
    follow.read(0, |_| records += 1);
    records
}

/// Hazard (Watching what runs): A frame is half written when it is read.
/// Promise: It is read once, and whole.
#[test]
fn a_file_that_grows_by_any_bytes_is_read_once_and_whole() {
    let trace = Trace::new();
    for step in [1, 7, 20, 33, 1_000] {
        trace.write(0);
        let mut file = fs::OpenOptions::new().append(true).open(trace.path()).expect("a file");
        let mut follow = Follow::new(trace.path());
        let mut records = read(&mut follow);
        for chunk in trace.bytes.chunks(step) {
            assert!(!follow.state().is_over(), "{:?}", follow.state());
            file.write_all(chunk).expect("a disk");
            records += read(&mut follow);
        }
        assert_eq!((records, follow.state()), (10, &FileState::Ended), "steps of {step}");
        assert_eq!(follow.read_to(), trace.bytes.len() as u64);
    }
}

#[test]
fn more_than_the_budget_is_read_the_next_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.s2t");
    let mut writer = Writer::new(File::create(&path).expect("a file")).expect("a header");
    for id in 0..60u32 {
        writer.write(&Record::Name { id, bytes: vec![id as u8; 100_000] });
    }
    writer.flush().expect("a disk");
    let length = fs::metadata(&path).expect("a file").len();
    let mut follow = Follow::new(path);
    let mut seen = Vec::new();
    let first = follow.read(LEAST_BUDGET, |record| seen.push(record));
    assert!(
        first.bytes <= LEAST_BUDGET && first.behind == length - first.bytes && first.behind > 0
    );
    while follow.read(LEAST_BUDGET, |record| seen.push(record)).behind > 0 {}
    assert_eq!((seen.len(), follow.read_to()), (60, length));
}

/// Hazard (Watching what runs): A trace file is cut, taken away or replaced while it is read.
/// Promise: The change is reported once, and the frames read before it still count.
#[test]
fn a_file_that_is_cut_taken_away_or_replaced_says_so() {
    let trace = Trace::new();
    let begun = || {
        trace.write(trace.bytes.len() - 20);
        let mut follow = Follow::new(trace.path());
        assert!(read(&mut follow) > 0);
        follow
    };
    let mut follow = begun();
    trace.write(40);
    assert_eq!((read(&mut follow), follow.state()), (0, &FileState::Cut));
    let mut follow = begun();
    fs::remove_file(trace.path()).expect("a file");
    assert_eq!((read(&mut follow), follow.state()), (0, &FileState::Removed));
    let mut follow = begun();
    fs::rename(trace.path(), trace.folder.path().join("old")).expect("a file");
    trace.write(trace.bytes.len());
    assert_eq!((read(&mut follow), follow.state()), (0, &FileState::Replaced));
    let mut follow = Follow::new(trace.folder.path().join("absent"));
    assert_eq!((read(&mut follow), follow.state()), (0, &FileState::Removed));
}

/// Hazard (Watching what runs): A trace file is damaged anywhere.
/// Promise: The damaged frames are lost and reported, and the reader goes on.
#[test]
fn any_damaged_byte_costs_frames_and_never_more() {
    let trace = Trace::new();
    // Where lengths stand: that of the header, and that of each frame.
    let (mut lengths, mut frame): (Vec<usize>, usize) = ((12..16).collect(), 20);
    while let Some(length) = trace.bytes.get(frame + 4..).and_then(|rest| rest.first_chunk()) {
        lengths.extend(frame + 4..frame + 8);
        frame += 12 + u32::from_le_bytes(*length) as usize;
    }
    for at in 0..trace.bytes.len() {
        let mut bytes = trace.bytes.clone();
        bytes[at] ^= 0x55;
        fs::write(trace.path(), &bytes).expect("a file");
        let mut follow = Follow::new(trace.path());
        let (mut records, mut corrupt) = (0, 0);
        for _ in 0..=PATIENCE {
            corrupt += follow.read(0, |_| records += 1).corrupt_frames;
        }
        let damaged = matches!(follow.state(), FileState::Damaged(_) | FileState::Unreadable(_));
        // What seems longer than the file may still be written.
        let waits = lengths.contains(&at) && !follow.state().is_over();
        assert!(
            records < 10 && (damaged || waits || corrupt > 0),
            "byte {at}: {:?}",
            follow.state()
        );
    }
}

#[test]
fn a_pipe_and_a_folder_are_refused_without_a_wait() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut follow = Follow::new(folder.path().to_owned());
    read(&mut follow);
    assert!(matches!(follow.state(), FileState::Unreadable(why) if why.contains("ordinary file")));
}
