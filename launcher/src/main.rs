//! Command line of `stage2-launch` -> exit status.

use std::io::Write as _;
use std::process::ExitCode;
use std::thread::Builder;

use rustix::process::{Resource, getrlimit};

/// The stack of the program where the limit (`ulimit -s`) leaves the first thread less.
const STACK_BYTES: usize = 8 << 20;

fn main() -> ExitCode {
    let run = || ExitCode::from(stage2_launch::run(std::env::args_os()));
    let has_less = |limit: u64| limit < STACK_BYTES as u64;
    if !getrlimit(Resource::Stack).current.is_some_and(has_less) {
        return run();
    }
    match Builder::new().name("main".to_owned()).stack_size(STACK_BYTES).spawn(run) {
        // A panic was told by then.
        Ok(thread) => thread.join().unwrap_or(ExitCode::from(101)),
        Err(error) => {
            // `eprintln!` panics where stderr cannot be written.
            let _ = writeln!(
                std::io::stderr(),
                "stage2-launch: error: the stack is limited (`ulimit -s`), and the system refuses a thread with \
                 another one ({error}); raise either limit"
            );
            ExitCode::from(70)
        }
    }
}
