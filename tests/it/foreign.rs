//! Programs that are built otherwise than CUDA programs are: musl, static, AddressSanitizer. Under the
//! collector they do what they do without it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::{collector, simulator, skipped, traces_in};
use tempfile::TempDir;

/// Starts a thread, throws a process away, and ends with a status of its own.
const PROGRAM: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static void *work(void *text) { puts(text); return NULL; }
int main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, work, "in a thread");
  pthread_join(thread, NULL);
  pid_t child = fork();
  if (child == 0) _exit(7);
  int status = 0;
  waitpid(child, &status, 0);
  printf("child %d\n", WEXITSTATUS(status));
  return 5;
}
"#;

/// Loads the tool of NVTX as NVTX does, and says what it answers; ends its process in order.
const NVTX: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
static const void *table(unsigned id) { (void)id; return NULL; }
int main(void) {
  void *tool = dlopen(getenv("NVTX_INJECTION64_PATH"), RTLD_NOW);
  if (!tool) { puts(dlerror()); return 1; }
  int (*start)(const void *(*)(unsigned)) = dlsym(tool, "InitializeInjectionNvtx2");
  printf("answer %d\n", start(table));
  return 5;
}
"#;

/// Loads the driver, which loads the tool of CUDA, and launches 9 kernels.
const CUDA: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void) {
  void *driver = dlopen(getenv("STAGE2_TEST_SIM"), RTLD_NOW);
  if (!driver) { puts(dlerror()); return 1; }
  int (*init)(unsigned) = dlsym(driver, "cuInit");
  int (*retain)(void **, int) = dlsym(driver, "cuDevicePrimaryCtxRetain");
  int (*current)(void *) = dlsym(driver, "cuCtxSetCurrent");
  int (*launch)(unsigned, unsigned, void *) = dlsym(driver, "stage2_sim_launch_recorded");
  int (*synchronize)(void *) = dlsym(driver, "cuStreamSynchronize");
  void *context = NULL;
  int failed = init(0) || retain(&context, 0) || current(context);
  for (unsigned i = 0; i < 9; i++) failed |= launch(1, i, NULL);
  failed |= synchronize(NULL);
  char *heap = malloc(100);
  memset(heap, 1, 100);
  printf("failed %d\n", failed);
  free(heap);
  return 5;
}
"#;

/// Builds a program with the words of a command; says that it skips where that fails.
fn build(folder: &TempDir, compiler: &[&str], source: &str) -> Option<PathBuf> {
    let (code, program) = (folder.path().join("program.c"), folder.path().join("program"));
    std::fs::write(&code, source).expect("the source");
    let built = Command::new(compiler[0])
        .args([code.as_os_str(), "-o".as_ref(), program.as_os_str()])
        .args(&compiler[1..])
        .output()
        .is_ok_and(|output| output.status.success());
    if !built {
        skipped(&format!("{} builds no program here", compiler.join(" ")));
    }
    built.then_some(program)
}

fn run(program: &Path, out: &Path, variables: &[(&str, &Path)]) -> Output {
    Command::new(program)
        .env_clear()
        .env("STAGE2_OUT", out)
        .env("STAGE2_SUMMARY", "off")
        .env("STAGE2_TEST_SIM", simulator())
        .env("STAGE2_CUPTI", simulator())
        .env("STAGE2_SIM_FAST", "1")
        .envs(variables.iter().copied())
        .output()
        .expect("starts")
}

/// With all three ways into a process named, as the launcher does it.
fn everywhere(library: &Path) -> [(&'static str, &Path); 3] {
    ["LD_PRELOAD", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"].map(|name| (name, library))
}

/// Hazard (Versions, libraries and rivals): musl and static programs in the process tree.
/// Promise: They run as without the collector.
#[test]
fn programs_of_musl_and_static_ones_run_as_they_do_without_us() {
    for compiler in [&["musl-gcc"][..], &["musl-gcc", "-static"], &["gcc", "-static", "-pthread"]] {
        let folder = tempfile::tempdir().expect("folder");
        let Some(program) = build(&folder, compiler, PROGRAM) else { continue };
        let library = collector();
        let alone = run(&program, folder.path(), &[]);
        let left = run(&program, folder.path(), &everywhere(&library));
        assert_eq!(alone.status.code(), Some(5), "{compiler:?}");
        assert_eq!(left, alone, "{compiler:?}");
        assert_eq!(traces_in(folder.path()).len(), 0);
    }
}

#[test]
fn the_nvtx_of_a_musl_program_is_told_that_there_is_no_tool() {
    let folder = tempfile::tempdir().expect("folder");
    let Some(program) = build(&folder, &["musl-gcc"], NVTX) else { return };
    let left = run(&program, folder.path(), &everywhere(&collector()));
    let stdout = String::from_utf8_lossy(&left.stdout);
    assert_eq!((stdout.as_ref(), left.status.code()), ("answer 0\n", Some(5)), "{left:?}");
    assert_eq!(traces_in(folder.path()).len(), 0);
}

/// Hazard (Versions, libraries and rivals): A program with AddressSanitizer.
/// Promise: It is recorded through the injection variables alone, and no leak of the collector is reported.
#[test]
fn a_program_with_address_sanitizer_is_recorded_by_the_injection_variables_alone() {
    for (source, expected) in [(CUDA, "failed 0\n"), (NVTX, "answer 0\n")] {
        let folder = tempfile::tempdir().expect("folder");
        // What is never freed stays with the tool, and is no fault of the program.
        let words = ["gcc", "-fsanitize=address", "-g", "-ldl"];
        let Some(program) = build(&folder, &words, source) else { return };
        let library = collector();
        let [_, cuda, nvtx] = everywhere(&library);
        let left = run(&program, folder.path(), &[cuda, nvtx]);
        let stdout = String::from_utf8_lossy(&left.stdout);
        assert_eq!((stdout.as_ref(), left.status.code()), (expected, Some(5)), "{left:?}");
        assert_eq!(String::from_utf8_lossy(&left.stderr), "");
        let traces = traces_in(folder.path());
        assert_eq!(traces.len(), 1);
        let kernels: usize = traces[0].kernels().values().sum();
        assert_eq!(kernels, if source == CUDA { 9 } else { 0 });
    }
}
