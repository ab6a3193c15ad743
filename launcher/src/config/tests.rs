//! Composition as the command line sees it: what is accepted, and what the errors say.

use super::*;
use std::path::Path;

use stage2_config::hydra::Value;

fn compose_words(words: &[&str]) -> Result<(Composed, Config), String> {
    let overrides = words.iter().map(|w| (*w).to_owned()).collect();
    let request = Request { overrides, ..Request::default() };
    let composed = compose(&request).map_err(|e| e.to_string())?;
    let (_, config) = composed.resolved(Path::new("/r")).map_err(|e| e.to_string())?;
    Ok((composed, config))
}

fn config_of(words: &[&str]) -> Config {
    compose_words(words).unwrap_or_else(|e| panic!("{words:?}: {e}")).1
}

fn origin(composed: &Composed, key: &str) -> String {
    composed.tree.get(key).map(|node| node.origin.to_string()).unwrap_or_default()
}

#[test]
fn the_built_in_defaults_compose() {
    let (composed, config) = compose_words(&[]).expect("defaults");
    assert_eq!(config.run.mode, Mode::Deep);
    assert_eq!(config.run.timeout_s, None);
    assert_eq!(config.profiling.collector.flush_ms, 1000);
    assert_eq!(config.artifacts.stage2_dir, Path::new("tmp/stage2"));
    assert!(config.workload.append.is_empty());
    assert_eq!(origin(&composed, "run.mode"), "conf/runner/stage2.yaml:4");
    assert_eq!(composed.run_dir().expect("run.dir"), None);
}

#[test]
fn overrides_change_values_and_carry_their_text() {
    let words =
        ["run.mode=light", "profiling.collector.ranges=[prefill,'de,code']", "run.timeout_s=5"];
    let (composed, config) = compose_words(&words).expect("overrides");
    assert_eq!(config.run.mode, Mode::Light);
    assert_eq!(config.run.timeout_s.map(u64::from), Some(5));
    assert_eq!(config.profiling.collector.ranges, ["prefill", "de,code"]);
    assert_eq!(origin(&composed, "run.mode"), "override run.mode=light");
    let one = config_of(&["profiling.collector.ranges=prefill"]);
    assert_eq!(one.profiling.collector.ranges, ["prefill"]);
    let last_wins = config_of(&["run.mode=light", "run.mode=deep"]);
    assert_eq!(last_wins.run.mode, Mode::Deep);
}

#[test]
fn groups_choose_presets() {
    let append = |words: &[&str]| config_of(words).workload.append;
    let hydra = append(&["workload=hydra"]);
    assert!(hydra.contains(&"hydra.run.dir=/r/stage1".to_owned()), "{hydra:?}");
    assert!(append(&["workload@workload=plain"]).is_empty());
    assert_eq!(append(&["workload=stage1"]).len(), 7);
    let (composed, _) = compose_words(&["workload=hydra"]).expect("hydra");
    assert_eq!(composed.run_dir().expect("no folder was asked for"), None);
    let (composed, _) = compose_words(&["run.dir=${artifacts.stage2_dir}/x"]).expect("reference");
    assert_eq!(composed.run_dir().expect("run.dir").as_deref(), Some(Path::new("tmp/stage2/x")));
    assert_eq!(append(&["workload=hydra", "workload.append=[x=1]"]), ["x=1"]);
    assert_eq!(config_of(&["runner=stage2", "profiling/collector=default"]), config_of(&[]));
}

#[test]
fn add_delete_and_synonyms() {
    let manifest = config_of(&["+inputs.manifest=m.yaml"]).inputs.manifest;
    assert_eq!(manifest.as_deref(), Some(Path::new("m.yaml")));
    assert!(config_of(&["++run.tee=true"]).run.tee);
    let (composed, config) = compose_words(&["+run.mode=light", "+run.timeout_s=5"]).expect("+");
    assert_eq!((config.run.mode, config.run.timeout_s.map(u64::from)), (Mode::Light, Some(5)));
    // Only the first key had a value, and so would be refused by Hydra.
    let [note] = composed.notes.as_slice() else { panic!("{:?}", composed.notes) };
    assert_eq!(note.what, "+run.mode=light was taken as run.mode=light");
    assert_eq!(config_of(&["~run.timeout_s"]).run.timeout_s, None);
    let (composed, config) = compose_words(&["hydra.run.dir=out/x"]).expect("synonym");
    assert_eq!(composed.run_dir().expect("run.dir").as_deref(), Some(Path::new("out/x")));
    assert_eq!(config.run.dir.as_deref(), Some(Path::new("/r")), "the folder as it was made");
}

#[test]
fn a_plus_before_a_list_that_is_there_is_told() {
    let notes = |words: &[&str]| {
        let (composed, config) = compose_words(words).expect("composed");
        let told: Vec<String> = composed.notes.iter().map(ToString::to_string).collect();
        (told.join("; "), config.workload.append)
    };
    // As Hydra 1.3 does: it replaces the list, too.
    let (told, append) = notes(&["workload=hydra", "+workload.append=[x=1]"]);
    assert!(
        told.contains("+workload.append=[x=1] replaces the list") && told.contains("hydra.run.dir")
    );
    assert_eq!(append, ["x=1"]);
    for quiet in ["workload.append=[x=1]", "++workload.append=[x=1]"] {
        assert_eq!(notes(&["workload=hydra", quiet]), (String::new(), vec!["x=1".to_owned()]));
    }
    assert_eq!(notes(&["+workload.append=[x=1]"]).0, "", "it was empty");
}

#[test]
fn time_and_folder_stand_in_values_and_stay_the_same() {
    let words = ["hydra.run.dir=${hydra:runtime.cwd}/x/${now:%Y%m%d-%H%M%S-%f}"];
    let (composed, _) = compose_words(&words).expect("resolvers");
    let dir = composed.run_dir().expect("run.dir").expect("a folder");
    let cwd = std::env::current_dir().expect("cwd");
    let name = dir.strip_prefix(cwd.join("x")).expect("in the working directory");
    assert_eq!(name.to_string_lossy().len(), "20260304-050607-000089".len(), "{}", name.display());
    assert_eq!(composed.run_dir().expect("run.dir"), Some(dir), "one time for the whole run");
}

#[test]
fn errors_name_key_origin_and_neighbour() {
    for (words, parts) in [
        (vec!["run.mod=light"], vec!["`run.mod`", "override run.mod=light", "`run.mode`"]),
        (vec!["workloads=hydra"], vec!["`workloads`", "`workload`"]),
        (vec!["ls"], vec!["it is not KEY=VALUE; a program to run comes after `--`"]),
        (vec!["profiling.collector.sample=4"], vec!["must be 1/N with N from 1"]),
        (vec!["model.llm=llama_3_8b"], vec!["model/llm=PRESET selects the model"]),
        (vec!["workload=hydr"], vec!["`hydr`", "hydra, plain, stage1", "`hydra`"]),
        (vec!["profiling/colector=default"], vec!["`profiling/colector`", "`profiling/collector`"]),
        (vec!["+run.foo=1"], vec!["`run.foo`", "override +run.foo=1"]),
        (
            vec!["run.timeout_s=abc"],
            vec!["`run.timeout_s` (override run.timeout_s=abc)", "whole number"],
        ),
        (vec!["run.timeout_s=-1"], vec!["`run.timeout_s`", "whole number"]),
        (vec!["run.timeout_s=0"], vec!["`run.timeout_s`", "1 or more"]),
        (vec!["model.tokens.batch_size=-1"], vec!["must be a whole number from 1 to"]),
        (vec!["run.mode=depp"], vec!["`run.mode`", "must be deep or light"]),
        (vec!["run.tee=maybe"], vec!["`run.tee`", "true or false"]),
        (vec!["run.dir=12"], vec!["`run.dir`", "quote a number"]),
        (vec!["run.dir=[a]"], vec!["`run.dir`", "path"]),
        (vec!["run.dir=${oc.env:HOME}"], vec!["`run.dir`", "only to ${KEY}"]),
        (vec!["report.top_n=-1"], vec!["`report.top_n`", "whole number"]),
        (vec!["run=3"], vec!["`run`", "`run."]),
        (vec!["run=[deep]"], vec!["`run`", "keys"]),
        (vec!["profiling.collector.sample=2/3"], vec!["`profiling.collector.sample`", "1/16"]),
        (vec!["profiling.collector.sample=1/0"], vec!["1/N"]),
        (vec!["profiling.collector.buffers=many"], vec!["1M*24"]),
        (vec!["profiling.collector.cupti_api=v3"], vec!["cupti_api", "v3"]),
        (vec!["profiling.collector.hwtrace=yes"], vec!["hwtrace", "off or on"]),
        (vec!["profiling.collector.buffers=1G*64"], vec!["buffers", "4G in all"]),
        (vec!["profiling.collector.rotate='keep=8'"], vec!["rotate", "size=256M,every=10m,keep=8"]),
        (vec!["profiling.collector.watch=often"], vec!["watch", "1s to 24h"]),
        (vec!["profiling.collector.host=often"], vec!["host", "1 to 1000"]),
        (vec!["profiling.collector.host=0"], vec!["host", "1 to 1000"]),
        (vec!["STAGE2_HOST=1000"], vec!["its setting is `profiling.collector.host`"]),
        (vec!["STAGE2_OUT=x"], vec!["set it in front of the command"]),
        (vec!["profiling.collector.flush_ms=5"], vec!["flush_ms", "10 to 3600000"]),
        (vec!["profiling.collector.flush_ms=inf"], vec!["flush_ms", "whole number"]),
        (vec!["profiling.collector.ranges=[a,'']"], vec!["ranges", "empty glob"]),
        (vec!["workload.append=x=1"], vec!["`workload.append`", "list"]),
        (vec!["+infer.max_new_tokens=4"], vec!["`infer.max_new_tokens`", "after `--`"]),
        (vec!["model=llama_1b"], vec!["`model`", "model/llm=PRESET", "after `--`"]),
        (vec!["run.dir=${now:%!}"], vec!["`run.dir`", "strftime"]),
        (vec!["~run.mode"], vec!["`run.mode`", "~run.mode removed it"]),
        (
            vec!["~model/llm"],
            vec!["~model/llm removes settings that are needed", "`model/llm=none`"],
        ),
        (vec!["~run.mode=light"], vec!["\"deep\"", "not \"light\""]),
        (vec!["~run.nothing"], vec!["`run.nothing`"]),
        (vec!["~workload"], vec!["`workload`"]),
        (vec!["+workload=hydra"], vec!["leave the + out"]),
        (vec!["workload=[a,b]"], vec!["one preset"]),
        (vec!["workload=plain,hydra"], vec!["sweep"]),
        (vec!["workload@other=plain"], vec!["put a +"]),
        (vec!["+workload@other=plain"], vec!["`other"]),
        (vec!["workload.append=['${run.mod}']"], vec!["`workload.append`", "${run.mode}"]),
        (vec!["hydra.job.chdir=true"], vec!["`hydra.job.chdir`"]),
        (vec!["demo"], vec!["after `--`"]),
        (vec!["runner=stage1.no-static"], vec!["no such preset", "use workload=stage1, which"]),
        (vec!["runner@stage1_runner=stage1.no-static"], vec!["use workload=stage1, which"]),
        (vec!["+runner@stage1_runner=stage1.no-static"], vec!["use workload=stage1, which"]),
        (vec!["nsys.nvtx_capture=decode"], vec!["capture_range=nvtx pipeline.nsys.nvtx_capture="]),
    ] {
        let error = compose_words(&words).map(|_| ()).expect_err(&format!("{words:?}"));
        for part in parts {
            assert!(error.contains(part), "{words:?}: {error}");
        }
    }
}

#[test]
fn a_folder_of_presets_extends_and_shadows() {
    let dir = tempfile::tempdir().expect("folder");
    let write = |path: &str, text: &str| {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().expect("parent")).expect("folders");
        std::fs::write(path, text).expect("preset");
    };
    let quick = "# @package _global_\ndefaults: [stage2, _self_]\nrun:\n  mode: light\n";
    write("runner/quick.yaml", quick);
    write("workload/mine.yaml", "append:\n  - a=${run.dir}\n");
    let bad = "# @package _global_\ndefaults: [stage2]\nrun:\n  mode: light\n  timeout: 3\n";
    write("runner/bad.yaml", bad);
    write("runner/partial.yaml", "# @package _global_\nrun: {mode: light}\n");
    write("profiling/ncu/mine.yaml", "defaults: [ncu.default, _self_]\ntop_n: 3\n");
    write("runner/two.yaml", "run: {}\n---\nrun: {}\n");
    write("runner/headless.yaml", "run: {mode: deep}\n");
    write("model/llm/counted.yaml", "defaults: [llama_3_8b, _self_]\nparams: 8000000000\n");
    write("runner/circle.yaml", "defaults: [circle]\n");
    write("runner/broken.yaml", "run: [\n");
    write("runner/list.yaml", "- a\n");
    write("runner/alien.yaml", "defaults: [{workload: plain}]\n");
    write("runner/binary.yaml", "\u{0}\u{1}");
    write("runner/deep.yaml", &"[".repeat(100_000));
    let with = |words: &[&str]| {
        let overrides = words.iter().map(|w| (*w).to_owned()).collect();
        let request =
            Request { overrides, config_dir: Some(dir.path().into()), ..Request::default() };
        compose(&request).map_err(|e| e.to_string())
    };
    let composed = with(&["runner=quick", "workload=mine"]).expect("presets of the folder");
    let (_, config) = composed.resolved(Path::new("/r")).expect("resolved");
    assert_eq!((config.run.mode, config.run.kill_grace_s), (Mode::Light, 10));
    assert_eq!(config.workload.append, ["a=/r"]);
    assert!(origin(&composed, "run.mode").ends_with("runner/quick.yaml:4"));
    // A preset without a head goes where the one that it starts from says.
    for words in [["profiling/ncu=mine"], ["profiling/ncu@pipeline.ncu=mine"]] {
        let (_, config) =
            with(&words).expect("preset").resolved(Path::new("/r")).expect("resolved");
        let ncu = config.pipeline.ncu;
        assert_eq!((ncu.top_n.map(u64::from), ncu.enable), (Some(3), true));
    }
    for (option, parts) in [
        ("bad", ["`run.timeout`", "runner/bad.yaml:5"]),
        ("partial", ["kill_grace_s", "defaults:"]),
        ("headless", ["`runner.run.mode`", "put `# @package _global_` on the first line of"]),
        ("circle", ["runner/circle.yaml", "circles"]),
        ("broken", ["runner/broken.yaml", "line"]),
        ("list", ["runner/list.yaml", "mapping"]),
        ("alien", ["runner/alien.yaml", "same group"]),
        ("two", ["runner/two.yaml", "several YAML documents"]),
        ("binary", ["runner/binary.yaml", ""]),
        ("deep", ["runner/deep.yaml", ""]),
    ] {
        let error = with(&[&format!("runner={option}")]).map(|_| ()).expect_err(option);
        assert!(parts.iter().all(|part| error.contains(part)), "{option}: {error}");
        assert!(error.lines().count() == 1 && error.len() < 1000, "{option}: {error}");
    }
    let error = with(&["model/llm=counted"]).map(|_| ()).expect_err("derived");
    let leave_out = "`model.llm.params`";
    assert!(error.contains(leave_out) && error.contains("leave params out"), "{error}");
    let nowhere = Request { config_dir: Some(dir.path().join("no")), ..Request::default() };
    assert!(compose(&nowhere).expect_err("no folder").to_string().contains("--config-dir"));
}

#[test]
fn names_of_folders_are_taken_as_they_are() {
    use std::os::unix::ffi::OsStrExt;
    let text = "x${run.mode}${y}";
    let flags = vec![("run.dir", format!("--run-dir {text}"), Value::Literal(text.into()))];
    let request = Request { flags, ..Request::default() };
    let composed = compose(&request).expect("an option refers to nothing");
    assert_eq!(composed.run_dir().expect("run.dir").as_deref(), Some(Path::new(text)));
    let words = ["workload.append=['a=${run.dir}']"];
    let (composed, _) = compose_words(&words).expect("composed");
    let (_, config) = composed.resolved(Path::new("/a${b}c/r")).expect("a folder of that name");
    assert_eq!(config.workload.append, ["a=/a${b}c/r"]);
    let no_text = Path::new(std::ffi::OsStr::from_bytes(b"/bin\xffary"));
    let error = composed.resolved(no_text).expect_err("no text").to_string();
    assert!(error.contains("`workload.append`") && error.contains("/bin\\xffary"), "{error}");
    let (composed, _) = compose_words(&[]).expect("composed");
    assert!(composed.resolved(no_text).is_ok(), "nothing refers to it");
}

#[test]
fn options_win_over_overrides() {
    let flags = vec![("run.timeout_s", "--timeout 9".to_owned(), Value::Int(9))];
    let request =
        Request { overrides: vec!["run.timeout_s=5".into()], flags, ..Request::default() };
    let composed = compose(&request).expect("composed");
    assert_eq!(origin(&composed, "run.timeout_s"), "option --timeout 9");
    let yaml = yaml_with_origins(&composed.tree);
    assert!(
        yaml.lines().any(|l| l.contains("timeout_s: 9") && l.ends_with("# option --timeout 9"))
    );
}
