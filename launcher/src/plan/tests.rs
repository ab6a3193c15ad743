//! Plans as data: what is set, kept, replaced and appended.

use super::*;
use crate::config::{self, Config};
use stage2_model::Severity;

struct Case {
    config: Config,
    defaults: Config,
    explicit: BTreeSet<String>,
    inherited: Inherited,
    library: &'static str,
    simulator: Option<PathBuf>,
    command: Vec<OsString>,
}

fn case(overrides: &[&str]) -> Case {
    let compose = |overrides: &[&str]| {
        let overrides = overrides.iter().map(|w| (*w).to_owned()).collect();
        let request = config::Request { overrides, ..config::Request::default() };
        config::compose(&request).expect("configuration")
    };
    let resolve = |c: &config::Composed| c.resolved("/run".as_ref()).expect("resolved").1;
    let composed = compose(overrides);
    Case {
        config: resolve(&composed),
        defaults: resolve(&compose(&[])),
        explicit: composed.explicit_keys(),
        inherited: Inherited { pid: 7, ..Inherited::default() },
        library: "/lib/libstage2.so",
        simulator: None,
        command: vec!["python".into(), "x.py".into()],
    }
}

impl Case {
    fn plan(&self) -> Plan {
        self.plan_in("/run")
    }

    fn plan_in(&self, run_dir: &str) -> Plan {
        plan(&Request {
            loading: &crate::workload::Loading::default(),
            engine: None,
            command: &self.command,
            config: &self.config,
            defaults: &self.defaults,
            explicit: &self.explicit,
            run_dir: run_dir.into(),
            library: self.library.into(),
            inherited: &self.inherited,
            simulator: self.simulator.clone(),
            nsys_files: &[],
            dormant: false,
            keep_going: false,
        })
    }

    fn environment(&self) -> Vec<(String, String)> {
        let text = |(k, v): (&String, &OsString)| (k.clone(), v.to_string_lossy().into_owned());
        self.plan().passes[0].environment.iter().map(text).collect()
    }
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[test]
fn the_default_plan_sets_six_variables() {
    let expected = [
        pair("CUDA_INJECTION64_PATH", "/lib/libstage2.so"),
        pair("LD_PRELOAD", "/lib/libstage2.so"),
        pair("NVTX_INJECTION64_PATH", "/lib/libstage2.so"),
        pair("STAGE2_LAUNCHER", "1"),
        pair("STAGE2_OUT", "/run/collector"),
        pair("STAGE2_SUMMARY", "off"),
    ];
    let case = case(&[]);
    assert_eq!(case.environment(), expected);
    let plan = case.plan();
    assert_eq!(plan.passes[0].argv, case.command);
    assert!(plan.findings.is_empty() && plan.passes[0].link.is_none());
    assert_eq!(plan, case.plan(), "a plan is a function of its request");
}

#[test]
fn a_hydra_app_is_given_the_list_of_inputs_unless_it_has_one() {
    let words = |settings: &[&str], command: &[&str]| {
        let mut case = case(&[&["workload=hydra", "workload.append=[]"], settings].concat());
        case.command = command.iter().map(Into::into).collect();
        let argv = case.plan().passes[0].argv.clone();
        argv.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    let listed = |path: &str| format!("inputs.manifest={path}");
    assert_eq!(words(&[], &["app"]), ["app"]);
    assert_eq!(words(&[&listed("/m.yaml")], &["app"]), ["app", "++inputs.manifest=/m.yaml"]);
    let own = ["app", "+inputs.manifest=/other.yaml"];
    assert_eq!(words(&[&listed("/m.yaml")], &own), own, "the user's own wins");
    let other = words(&[&listed("/m.yaml"), "workload.manifest_key=data.list"], &["app"]);
    assert_eq!(other, ["app", "++data.list=/m.yaml"]);
    assert_eq!(words(&[&listed("/m.yaml"), "workload=plain"], &["app"]), ["app"]);
    // Hydra reads a quoted value as it was before, blanks, quotes and references included.
    let odd = words(&[&listed("\"/a b/it's,x\"")], &["app"]);
    assert_eq!(odd, ["app", r"++inputs.manifest='/a b/it\'s,x'"]);
}

#[test]
fn settings_become_variables_where_they_differ() {
    let rows = [
        ("ranges", "[prefill,'de*@d']", "STAGE2_RANGES", "prefill,de*@d"),
        ("sample", "1/4", "STAGE2_SAMPLE", "1/4"),
        ("graph", "graph", "STAGE2_GRAPH", "graph"),
        ("buffers", "4M*16", "STAGE2_BUFFERS", "4M*16"),
        ("rotate", "'size=256M,keep=8'", "STAGE2_ROTATE", "size=256M,keep=8"),
        ("watch", "60s", "STAGE2_WATCH", "60s"),
        ("detail", "full", "STAGE2_DETAIL", "full"),
        ("flush_ms", "250", "STAGE2_FLUSH_MS", "250"),
        ("cupti", "/c.so", "STAGE2_CUPTI", "/c.so"),
        ("cupti_api", "v2", "STAGE2_CUPTI_API", "v2"),
        ("hwtrace", "on", "STAGE2_HWTRACE", "on"),
        ("log", "warn", "STAGE2_LOG", "warn"),
        ("host", "off", "STAGE2_HOST", "off"),
    ];
    let settings = rows.map(|(key, setting, ..)| format!("profiling.collector.{key}={setting}"));
    let environment = case(&settings.each_ref().map(String::as_str)).environment();
    for (_, _, name, value) in rows {
        assert!(environment.contains(&pair(name, value)), "{name} in {environment:?}");
    }
}

#[test]
fn the_users_variables_are_kept_unless_the_command_line_says_otherwise() {
    let mut case = case(&["profiling.collector.graph=node"]);
    for name in ["STAGE2_LOG", "STAGE2_SUMMARY", "STAGE2_OUT", "STAGE2_GRAPH"] {
        case.inherited.collector.insert(name.into(), "x".into());
    }
    let plan = case.plan();
    let kept: Vec<_> = plan.passes[0].kept.keys().map(String::as_str).collect();
    assert_eq!(kept, ["STAGE2_SUMMARY"]);
    assert_eq!(
        case.environment(),
        [
            pair("CUDA_INJECTION64_PATH", "/lib/libstage2.so"),
            pair("LD_PRELOAD", "/lib/libstage2.so"),
            pair("NVTX_INJECTION64_PATH", "/lib/libstage2.so"),
            pair("STAGE2_GRAPH", "node"),
            pair("STAGE2_LAUNCHER", "1"),
            // The collector cannot read it, and would say so once more.
            pair("STAGE2_LOG", ""),
            pair("STAGE2_OUT", "/run/collector"),
        ]
    );
    let texts: Vec<_> = plan.findings.iter().map(ToString::to_string).collect();
    assert_eq!(texts.iter().filter(|t| t.contains("was replaced")).count(), 2, "{texts:?}");
    assert_eq!(
        texts.iter().filter(|t| t.contains("also obeys STAGE2_SUMMARY=x")).count(),
        1,
        "{texts:?}"
    );
    let unreadable = "STAGE2_LOG=x of the environment has no effect";
    assert!(texts.iter().any(|t| t.contains(unreadable)), "{texts:?}");
}

#[test]
fn a_folder_of_the_user_for_traces_is_told_to_go_unused_except_by_a_run_in_a_run() {
    let mut case = case(&[]);
    case.inherited.collector = [("STAGE2_OUT".to_owned(), "/mine".into())].into();
    let severities = [false, true].map(|is_nested| {
        case.inherited.is_nested = is_nested;
        let findings = case.plan().findings;
        findings.into_iter().find(|of| of.what.contains("STAGE2_OUT=/mine")).map(|of| of.severity)
    });
    assert_eq!(severities, [Some(Severity::Warning), Some(Severity::Note)]);
}

#[test]
fn a_variable_of_the_user_is_read_as_the_collector_reads_it() {
    let mut case = case(&[]);
    let all = [
        ("HOST", "250"),
        ("HOST", "true"),
        ("FLUSH_MS", "500"),
        ("FLUSH_MS", "soon"),
        ("RANGES", "a,b"),
    ];
    let told = all.map(|(name, value)| {
        case.inherited.collector = [(format!("STAGE2_{name}"), value.into())].into();
        case.plan().findings.iter().any(|finding| finding.to_string().contains("has no effect"))
    });
    assert_eq!(told, [false, true, false, true, false]);
    case.inherited.collector = [("STAGE2_GRAPH".to_owned(), "grph".into())].into();
    let texts = case.plan().findings.iter().map(ToString::to_string).collect::<String>();
    assert!(
        texts.contains("must be node or graph; did you mean `graph`? Otherwise correct"),
        "{texts}"
    );
}

#[test]
fn what_other_tools_have_set_goes_with_ours() {
    let mut case = case(&[]);
    case.inherited.ld_preload = Some("/a.so:/b.so".into());
    assert!(case.environment().contains(&pair("LD_PRELOAD", "/lib/libstage2.so:/a.so:/b.so")));
    case.inherited.ld_preload = Some("".into());
    case.inherited.doors = vec!["NVTX_INJECTION64_PATH"];
    let environment = case.environment();
    for ours in ["LD_PRELOAD", "CUDA_INJECTION64_PATH"] {
        assert!(environment.contains(&pair(ours, "/lib/libstage2.so")), "{environment:?}");
    }
    assert!(environment.iter().all(|(name, _)| name != "NVTX_INJECTION64_PATH"), "{environment:?}");
}

#[test]
fn a_path_that_the_loader_would_split_is_linked() {
    let mut case = case(&[]);
    for library in ["/my files/libstage2.so", "/a:b/libstage2.so", "/$LIB/libstage2.so"] {
        case.library = library;
        let link = case.plan().passes[0].link.clone().expect(library);
        assert_eq!(link.target, PathBuf::from(library));
        for variable in ["LD_PRELOAD", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"] {
            let expected = pair(variable, "/tmp/stage2-preload-7/libstage2.so");
            assert!(case.environment().contains(&expected), "{expected:?}");
        }
    }
}

#[test]
fn the_hydra_preset_appends_what_the_user_did_not_set() {
    let mut case = case(&["workload=hydra"]);
    case.command = ["python", "-m", "runner", "a=b", "pipeline.torch_profiler.enable=true"]
        .map(OsString::from)
        .to_vec();
    let plan = case.plan();
    let added = plan.passes[0].argv[5..].iter().map(|w| w.to_string_lossy());
    assert_eq!(plan.passes[0].argv[..5], case.command[..]);
    assert_eq!(
        added.collect::<Vec<_>>().join(" "),
        "hydra.run.dir=/run/stage1 hydra.job.chdir=false ++pipeline.static_analysis.enable=false"
    );
    let told = |plan: &Plan, part: &str| {
        plan.findings.iter().find(|f| f.what.contains(part)).map(|f| (f.severity, f.to_string()))
    };
    let (severity, _) = told(&plan, "torch_profiler").expect("told");
    assert_eq!(severity, Severity::Note);
    assert_eq!(told(&plan, "hydra.run.dir"), None);
    case.command = ["python", "x.py", "hydra.run.dir=/shared"].map(OsString::from).to_vec();
    let (severity, text) = told(&case.plan(), "hydra.run.dir").expect("told");
    assert_eq!(severity, Severity::Warning, "every pass writes over the one before");
    for part in ["every pass writes there", "of the last pass", "leave hydra.run.dir to the preset"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_simulator_takes_the_place_of_cupti() {
    let mut case = case(&["run.tee=true", "run.timeout_s=3"]);
    case.simulator = Some("/sim.so".into());
    assert!(case.environment().contains(&pair("STAGE2_CUPTI", "/sim.so")));
    let text = show(&case.plan(), |_| true);
    for part in [
        " LD_PRELOAD=/lib/libstage2.so",
        "STAGE2_CUPTI=/sim.so",
        " python x.py\n",
        "SIGTERM after 3 s",
        "stdout.log",
        "# set when the process starts: STAGE2_FLUSH_PAGE=/proc/PID/fd/N:NONCE\n",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn settings_of_tools_without_effect_are_told() {
    let told = |words: &[&str]| {
        let findings = case(words).plan().findings;
        assert!(findings.iter().all(|finding| finding.severity == Severity::Warning));
        findings.into_iter().map(|finding| finding.what).collect::<Vec<_>>()
    };
    let light = |tool: &str| {
        format!("run.mode=light runs neither tool; pipeline.{tool}.enable=true has no effect")
    };
    assert_eq!(told(&["run.mode=light", "pipeline.nsys.enable=true"]), [light("nsys")]);
    assert_eq!(told(&["run.mode=light", "pipeline.ncu.enable=true"]), [light("ncu")]);
    let capture = "pipeline.nsys.nvtx_capture=decode";
    assert_eq!(told(&[capture]), [format!("{capture} has no effect")]);
    for fine in [
        &["run.mode=light"][..],
        &["run.mode=light", "pipeline.nsys.enable=false"],
        &["pipeline.nsys.enable=true"],
        &["run.mode=light", capture],
        &["pipeline.nsys.enable=false", capture],
        &["pipeline.nsys.capture_range=nvtx", capture],
        &["profiling/nsys=nsys.gated"],
    ] {
        assert!(told(fine).is_empty(), "{fine:?}");
    }
}

#[test]
fn a_deep_run_on_a_gpu_samples_counters_in_a_pass_of_its_own() {
    let counters = |words: &[&str], has_gpu| {
        let mut case = case(words);
        case.inherited.has_gpu = has_gpu;
        let plan = case.plan();
        let value = |name: &str| {
            let pass = plan.passes.iter().find(|pass| pass.name == name)?;
            Some(pass.environment.get("STAGE2_COUNTERS").map(|v| v.to_string_lossy().into_owned()))
        };
        (value("collect").expect("a collect pass"), value("counters"))
    };
    let on = || Some("on".to_owned());
    assert_eq!(counters(&[], true), (None, Some(on())));
    assert_eq!(counters(&[], false), (None, None));
    assert_eq!(counters(&["run.mode=light"], true), (None, None));
    assert_eq!(counters(&["profiling.collector.counters=on"], true), (on(), None));
    assert_eq!(counters(&["profiling.collector.counters=auto"], true), (None, Some(on())));
    let off = Some("off".to_owned());
    assert_eq!(counters(&["profiling.collector.counters=off"], true), (off, None));
}

#[test]
fn hydra_reads_every_run_folder_as_one_path() {
    for (run_dir, stage1, under_nsys) in [
        ("/r", "/r/stage1", "/r/nsys/stage1"),
        ("/r,s/it's", r"'/r,s/it\'s/stage1'", r"'/r,s/it\'s/nsys/stage1'"),
        ("/a b=1", "'/a b=1/stage1'", "'/a b=1/nsys/stage1'"),
    ] {
        let mut case = case(&["workload=hydra"]);
        let append = |word: &str| word.replace("/run/", &format!("{run_dir}/"));
        for word in &mut case.config.workload.append {
            *word = append(word);
        }
        case.config.workload.append.push(format!("data.cache={run_dir}/cache"));
        let plan = case.plan_in(run_dir);
        let argv = |pass: usize| plan.passes[pass].argv[2..].to_vec();
        assert_eq!(argv(0)[0], *format!("hydra.run.dir={stage1}"));
        let cache = stage1.replace("stage1", "cache");
        assert_eq!(argv(0).last(), Some(&format!("data.cache={cache}").into()), "the run's own");
        let profiler = plan.passes.iter().find_map(|pass| pass.profiler.as_ref()).expect("nsys");
        assert_eq!(profiler.workload[2], *format!("hydra.run.dir={under_nsys}"));
        assert_eq!(profiler.workload.last(), argv(0).last());
    }
    // A preset may quote by itself.
    let own = ["workload=hydra", "workload.append=[\"hydra.run.dir='${run.dir}/stage1'\"]"];
    assert_eq!(case(&own).plan().passes[0].argv[2], *"hydra.run.dir='/run/stage1'");
}

#[test]
fn a_variable_that_nobody_reads_is_told_with_the_one_that_was_meant() {
    let near = |name| misspelt(name).map(|(_, near)| near);
    assert_eq!(near("STAGE2_SAMPEL"), Some("STAGE2_SAMPLE"));
    assert_eq!(near("STAGE2_RANGE"), Some("STAGE2_RANGES"));
    assert_eq!(near("STAGE2_FLUSH"), Some("STAGE2_FLUSH_MS"));
    let known = COLLECTOR_VARIABLES.iter().chain(OTHER_VARIABLES).copied();
    for name in known.chain(["STAGE2_SIM_SEED", "STAGE2_TEST_PYTHONS", "MY_SAMPEL", "STAGE2_"]) {
        assert_eq!(near(name), None, "{name}");
    }
    let mut case = case(&[]);
    case.inherited.misspelt = vec![("STAGE2_SAMPEL".to_owned(), "STAGE2_SAMPLE")];
    let findings = case.plan().findings;
    let said: Vec<String> = findings.iter().map(Finding::to_string).collect();
    let expected = "the variable STAGE2_SAMPEL of the environment has no effect: ";
    assert!(
        said.iter()
            .any(|text| text.starts_with(expected) && text.contains("did you mean STAGE2_SAMPLE?")),
        "{said:?}"
    );
}
