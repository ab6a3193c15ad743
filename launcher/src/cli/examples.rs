//! What the help of each command ends with: command lines that a reader can type, and what they do. A
//! test reads and composes every one of them.

/// Of the program as a whole: one line for each thing that it does.
pub(super) const ALL: &str = "\
Examples:
  stage2-launch demo --open
      the built-in workload, on the GPU if there is one, else on a simulated one
  stage2-launch -- python infer.py --batch 4
      any program: every kernel of it, per NVTX range; then again under nsys and ncu
  stage2-launch --light -- python infer.py
      the same in a single run, without nsys and ncu
  stage2-launch report tmp/stage2/latest model/llm=llama_3_8b --open
      the reports of a run again, here with the model that it was not told of
  stage2-launch export tmp/stage2/latest --format perfetto --stage decode
      the kernels and ranges of decode, for ui.perfetto.dev
  stage2-launch diff before/ after/ --fail-if 'decode.step_ms>+5%+0.2ms'
      what changed between two runs, and status 1 if a decode step got slower by more than that
  stage2-launch doctor -- python infer.py
      whether driver, CUPTI, permissions and tools let a run of this program record

`stage2-launch SUBCOMMAND --help` has more. Options and settings may stand in any order before `--`;
`run` may be left out. The bundle is written to tmp/stage2/<time>-<pid>/, and tmp/stage2/latest
points to it.

Exit status: that of the workload; 124 after --timeout; 126 or 127 if the command cannot be run or
is not there; 2 for wrong usage or configuration; 70 if profiling failed or recorded no GPU work.";

pub(super) const RUN: &str = "\
Examples:
  stage2-launch run -- python infer.py --batch 4
      all passes: the collector, then nsys and ncu, where they are installed
  stage2-launch run --light --open -- python infer.py
      a single run under the collector, and the report in a browser
  stage2-launch run model/llm=llama_3_8b hardware=h200 -- python infer.py
      with MFU, and the floor of the hardware
  (cd examples && stage2-launch run workload=hydra -- python -m runner)
      a Hydra app, here the example of the repository: its outputs go into the bundle
  stage2-launch run 'profiling.collector.ranges=[prefill,decode*]' --timeout 5m -- ./server
      only kernels inside of these ranges, and an end after five minutes
  stage2-launch run --light -- torchrun --nproc-per-node 2 infer.py
      every rank: who waits for whom
  stage2-launch run --annotate prefill-decode -- python infer.py
      a Python program without NVTX ranges
  stage2-launch run --dry-run -- python infer.py
      what would be run, as a shell would write it

Exit status: the workload's own (128+N when signal N ended it); 124 after --timeout; 127 and 126 for
a command that is not there or cannot be run; 2 for wrong usage or configuration; 70 when profiling
failed or recorded no GPU work. A failing workload's status takes precedence over 70, and nsys and
ncu are skipped unless --keep-going is given; a workload that --timeout ended does not count as
failing.";

pub(super) const DEMO: &str = "\
Examples:
  stage2-launch demo --open
      every pass, and the report in a browser
  stage2-launch demo --light --run-dir my-demo
      the collector only, into a folder of your choice";

pub(super) const REPORT: &str = "\
Examples:
  stage2-launch report tmp/stage2/latest --open
      the reports of the last run again, and in a browser
  stage2-launch report tmp/stage2/latest model/llm=llama_3_8b hardware=h200
      with the model that the run was not told of
  stage2-launch report --json -q tmp/stage2/latest
      all numbers on standard output, for jq or a script";

pub(super) const EXPORT: &str = "\
Examples:
  stage2-launch export tmp/stage2/latest --format perfetto --stage decode
      the kernels and ranges of decode, for ui.perfetto.dev
  stage2-launch export tmp/stage2/latest -f chrome --window 1.5..2 -o traces
      half a second, as PyTorch's profiler writes it, one file per process";

pub(super) const BENCH: &str = "\
Examples:
  stage2-launch bench -- python infer.py
      what the collector, and nsys where it is installed, cost this program, with A/A noise
  stage2-launch bench --rounds 5 pipeline.nsys.enable=false -- python infer.py
      more rounds, and without nsys";

pub(super) const MERGE: &str = "\
Examples:
  stage2-launch merge --spool captures -o OUT model/llm=llama_3_8b
      trace files of collectors that ran without stage2-launch
  stage2-launch merge --nsys x.sqlite --ncu raw.csv --ncu details.csv -o OUT report.top_n=20
      captures of nsys and ncu, any subset of them";

pub(super) const CONFIG: &str = "\
Examples:
  stage2-launch config run.mode=light
      all settings of a run, and where each value comes from
  stage2-launch config workload=hydra hardware=h200
      the same with presets";

pub(super) const CTL: &str = "\
Examples:
  stage2-launch ctl 4711 start --for 10s
      ten seconds of a server that was started with STAGE2_START=off
  stage2-launch ctl 4711 stop --wait
      end the window, and wait until its file is whole
  stage2-launch ctl tmp/stage2/latest start --ranges 'decode*' --steps 20
      the same twenty steps in all ranks of a run
  stage2-launch ctl 4711 snapshot -o slow-hour --for 30s
      record half a minute, and write its reports, while the server runs on
  stage2-launch ctl --all status --json
      every process of this user, as JSON

Exit status: 0; 1 if a process refused or did not answer; 2 for wrong usage; 70 if there is none, or
if a snapshot holds no GPU work. docs/dormant.md has a recipe.";

pub(super) const TOP: &str = "\
Examples:
  stage2-launch top 4711
      a process, also of a server that was started with STAGE2_START=off: s starts and stops
  stage2-launch top tmp/stage2/latest
      all ranks of a run, while it runs or afterwards
  stage2-launch top --once --tokens decode traces
      one page of text of a folder of trace files; the payload of decode is a number of tokens

Keys: q end, s start or stop recording, j and k choose a stage, f freeze, w write a bundle, ? help.
Exit status: 0; 2 for wrong usage; 70 if there is no such process or file. docs/live.md has more.";

pub(super) const FEED: &str = "\
Examples:
  stage2-launch feed --all
      serve http://127.0.0.1:9464/metrics for the processes of this user
  stage2-launch feed tmp/stage2/latest --textfile /var/lib/node-exporter/stage2.prom --readable-by group
      a file for node-exporter, for all ranks of a run
  stage2-launch feed --once tmp/stage2/latest
      the metrics as they are now, on standard output

It goes on until a signal ends it (status 0), and takes the file away then. Status 2 for wrong usage; 70
if there is no such process or file, or the address cannot be had. docs/live.md lists the metrics.";
