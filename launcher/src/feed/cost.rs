//! A process of this host -> the CPU time of the collector's threads in it.

use std::fs;

/// How the collector's threads are called; the system cuts names to 15 bytes.
const THREADS: &str = "stage2-";
/// Threads of a process that are looked at.
const LOOKED_AT: usize = 4_096;

/// CPU time of the collector's threads, seconds; nothing where the process is not here, or another user's.
/// What CUPTI does on threads of its own is not in it.
pub(crate) fn cpu_seconds(pid: u32) -> Option<f64> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let mut found = None;
    for task in tasks.flatten().take(LOOKED_AT) {
        let read = |file: &str| fs::read_to_string(task.path().join(file)).ok();
        if !read("comm").is_some_and(|name| name.starts_with(THREADS)) {
            continue;
        }
        // The first number: nanoseconds on a CPU.
        let time = read("schedstat").and_then(|line| line.split(' ').next()?.parse::<u64>().ok());
        found = Some(found.unwrap_or(0.0) + time.unwrap_or(0) as f64 / 1e9);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_that_name_are_summed() {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let builder = std::thread::Builder::new().name("stage2-drain".to_owned());
        let thread = builder.spawn(move || {
            let began = std::time::Instant::now();
            while began.elapsed().as_millis() < 30 {}
            let _ = stopped.recv();
        });
        std::thread::sleep(std::time::Duration::from_millis(200));
        let seconds = cpu_seconds(std::process::id());
        drop(stop);
        thread.expect("a thread").join().expect("ends");
        assert!(seconds.is_some_and(|seconds| seconds > 0.001), "{seconds:?}");
        assert_eq!(cpu_seconds(u32::MAX), None);
    }
}
