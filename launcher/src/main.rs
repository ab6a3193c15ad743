//! Command line of `stage2-launch` -> exit status.

fn main() -> std::process::ExitCode {
    std::process::ExitCode::from(stage2_launch::run(std::env::args_os()))
}
