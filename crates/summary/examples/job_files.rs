//! Summaries of a job that never ran, for measuring: `job_files DIR RANKS MINUTES`. Rank 37 comes 4 ms late in every
//! third of five minutes from a third of the time on, and is on host 9999 from two thirds on. `job_files DIR merge` says
//! who is late, without a page.

#[path = "../tests/made/mod.rs"]
mod made;

use std::path::PathBuf;

use stage2_summary::job::Fold;
use stage2_summary::tree;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [folder, verb] = words.as_slice()
        && verb == "merge"
    {
        return merge(folder);
    }
    let [folder, ranks, minutes] = words.as_slice() else {
        return eprintln!("give DIR, RANKS and MINUTES, or DIR merge");
    };
    let (Ok(ranks), Ok(minutes)) = (ranks.parse(), minutes.parse::<u64>()) else {
        return eprintln!("RANKS and MINUTES are numbers");
    };
    let mut made = made::Made::new(ranks, minutes);
    made.late = Box::new(move |minute| {
        (minute >= minutes / 3 && minute / 5 % 3 == 0).then_some((37, 4_000_000, 0))
    });
    made.host = Box::new(
        move |rank, minute| {
            if rank == 37 && minute >= minutes * 2 / 3 { 9_999 } else { rank / 8 }
        },
    );
    println!("{} files", made.write(folder.as_ref()).len());
}

fn merge(folder: &str) {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    let begun = std::time::Instant::now();
    let mut inventory = tree::look(&paths);
    println!("looked at {} files in {:?}", paths.len(), begun.elapsed());
    let mut fold = Fold::default();
    let take = |period| {
        fold.add(period);
        Ok(())
    };
    tree::merge(&mut inventory, folder.as_ref(), take).expect("the folder takes files");
    let job = fold.finish(&inventory, |_| None);
    println!("{:?}: {} ranks, {:#?}", begun.elapsed(), job.ranks, job.late);
}
