//! `--dry-run`: what a run would do, and what it would fail at.

use crate::common::{Sandbox, expect_parts, lossy, names_in, stderr, stdout};

#[test]
fn a_dry_run_prints_what_a_shell_could_run() {
    let sandbox = Sandbox::new();
    let ranges = "profiling.collector.ranges=[prefill,'de code']";
    let options = ["--dry-run", "workload=hydra", ranges, "--run-dir", "out", "--"];
    let words = [&options[..], &["no-such-program", "two words", "it's", "", "$HOME"]].concat();
    let text = stdout(&sandbox.launch(&words).assert().success());
    let out = sandbox.path("out");
    let line = text.lines().find(|line| line.starts_with("env ")).expect("a command line");
    // The line is given to a real shell, with `printf` in the place of the program.
    let script = line.replace(
        "no-such-program",
        "sh -c 'printf \"%s\\n\" \"$STAGE2_RANGES\" \"$STAGE2_OUT\" \"$@\"' sh",
    );
    let script = script.replace("LD_PRELOAD=", "IGNORED=");
    let shell = std::process::Command::new("sh").arg("-c").arg(script).output().expect("sh");
    let expected = format!(
        "prefill,de code\n{0}/collector\ntwo words\nit's\n\n$HOME\nhydra.run.dir={0}/stage1\n\
         hydra.job.chdir=false\n++pipeline.torch_profiler.enable=false\n\
         ++pipeline.static_analysis.enable=false\n",
        out.display()
    );
    assert_eq!(lossy(&shell.stdout), expected, "{text}");
    assert!(!out.exists() && !sandbox.path("tmp").exists(), "nothing is made");
}

#[test]
fn a_dry_run_says_that_the_named_libcupti_samples_nothing() {
    let sandbox = Sandbox::new();
    sandbox.executable("there", "#!/bin/sh\n");
    let old = sandbox.write("libcupti.so.2024.1.1", "").display().to_string();
    let new = sandbox.write("libcupti.so.2025.3.1", "").display().to_string();
    let said = |counters: &str, named: &str, variable: Option<&str>| {
        let counters = format!("profiling.collector.counters={counters}");
        let words = ["--dry-run", "run.mode=light", &counters, named, "--", "./there"];
        let mut command = sandbox.launch(&words);
        let command = command.envs(variable.map(|path| ("STAGE2_CUPTI", path)));
        stderr(&command.assert().code(0))
    };
    let configured = |path: &str| format!("profiling.collector.cupti={path}");
    let expected = format!("{old} is of version 2024.1.1, older than CUDA 12.6");
    let none = "profiling.collector.cupti=null";
    for said in [
        said("on", &configured(&old), None),
        said("on", "run.tee=false", Some(&old)),
        said("on", &configured(&old), Some(&new)),
    ] {
        let parts = ["the collect pass would have no sampled counters", &expected];
        expect_parts(&said, "said", &parts);
    }
    for said in [
        said("on", &configured(&new), Some(&old)),
        said("off", &configured(&old), None),
        said("on", none, Some(&old)),
    ] {
        assert!(!said.contains(&expected), "{said}");
    }
}

#[test]
fn a_dry_run_says_what_would_fail() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("empty-path")).expect("folder");
    sandbox.write("full/old.txt", "x");
    let dry = |words: &[&str]| {
        let mut command = sandbox.launch(&[&["--dry-run"][..], words].concat());
        command.env("PATH", sandbox.path("empty-path"));
        stderr(&command.assert().code(0))
    };
    let said = dry(&["--run-dir", "full", "--", "no-such-program"]);
    let parts = [
        "a run would exit with status 127: `no-such-program`: command not found",
        "a run would exit with status 2: the run folder",
        "it is not empty",
        "the nsys pass would be skipped: `nsys` is not installed, or not on PATH",
        "the ncu pass would be skipped: `ncu` is not installed, or not on PATH",
        "pipeline.ncu.executable",
    ];
    expect_parts(&said, "said", &parts);
    sandbox.executable("there", "#!/bin/sh\n");
    sandbox.write("script", "x");
    let said = dry(&["pipeline.nsys.executable=./there", "--", "./script"]);
    let cannot = "exit with status 126: cannot run `./script`";
    expect_parts(&said, "said", &[cannot, "!the nsys pass would", "the ncu pass would"]);
    // What is not planned is not missed, and what would work is not mentioned.
    assert_eq!(dry(&["run.mode=light", "--", "./there"]), "");
    let has_gpu = std::path::Path::new("/dev/nvidiactl").exists();
    let strictly = sandbox.launch_strictly(&["--dry-run", "--light", "--", "./there"]).assert();
    let said = stderr(&strictly.code(0));
    assert!(has_gpu || said.contains("a run would exit with status 70: no GPU: "), "{said}");
    sandbox.write("libother.so", "no library");
    let library = "profiling.collector.library=libother.so";
    let said = dry(&["run.mode=light", library, "--", "./there"]);
    expect_parts(&said, "said", &["a run would fail", "libother.so is not a shared"]);
    assert!(!sandbox.path("tmp").exists(), "nothing is made");
    assert_eq!(names_in(&sandbox.path("full")), ["old.txt"]);
    // What cannot be planned has the status of a run.
    sandbox.launch(&["--dry-run", "run.mode=no", "--", "./there"]).assert().code(2);
}
