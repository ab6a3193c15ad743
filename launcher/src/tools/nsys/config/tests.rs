use super::*;

const DEFAULT: &str = include_str!("../../../../../conf/profiling/nsys/nsys.default.yaml");
const GATED: &str = include_str!("../../../../../conf/profiling/nsys/nsys.gated.yaml");

pub(crate) fn default() -> Nsys {
    serde_saphyr::from_str(DEFAULT).expect("nsys.default.yaml")
}

/// The keys of nsys.gated.yaml laid over the default.
pub(in crate::tools::nsys) fn gated() -> Nsys {
    let mut keys: serde_json::Value = serde_saphyr::from_str(DEFAULT).expect("default");
    let over: serde_json::Value = serde_saphyr::from_str(GATED).expect("gated");
    let over = over.as_object().expect("mapping").clone();
    for (key, value) in over.into_iter().filter(|(key, _)| key != "defaults") {
        assert!(keys.get(&key).is_some(), "{key} is a key of the default preset");
        keys[key] = value;
    }
    serde_json::from_value(keys).expect("nsys.gated.yaml")
}

#[test]
fn the_presets_are_complete_and_valid() {
    for preset in [default(), gated()] {
        assert_eq!(preset.validate(), Ok(()));
    }
    assert!(!default().gated() && gated().gated());
    assert!(GATED.contains("defaults: [nsys.default, _self_]"));
    for text in [DEFAULT, GATED] {
        assert!(text.starts_with("# @package pipeline.nsys\n"));
    }
}

#[test]
fn every_key_of_the_type_stands_in_the_preset_and_unknown_ones_are_refused() {
    let keys: serde_json::Value = serde_saphyr::from_str(DEFAULT).expect("default");
    let typed = serde_json::to_value(default()).expect("JSON");
    let names = |value: &serde_json::Value| -> Vec<String> {
        value.as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect()
    };
    assert_eq!(names(&keys), names(&typed));
    let wrong = DEFAULT.replace("sample:", "sampel:");
    let error = serde_saphyr::from_str::<Nsys>(&wrong).expect_err("unknown key").to_string();
    assert!(error.contains("sampel"), "{error}");
}

fn refused(change: impl FnOnce(&mut Nsys)) -> Invalid {
    let mut nsys = gated();
    change(&mut nsys);
    nsys.validate().expect_err("refused")
}

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn gating_by_a_range_without_a_name_is_an_error_that_names_the_key() {
    for empty in [None, Some(""), Some("  ")] {
        let error = refused(|n| n.nvtx_capture = empty.map(str::to_owned));
        assert_eq!(error.key, "nvtx_capture");
        let text = error.to_string();
        assert!(text.contains("pipeline.nsys.nvtx_capture") && text.contains("decode@*"), "{text}");
    }
    assert_eq!(refused(|n| n.nvtx_capture = Some("a@b@c".into())).key, "nvtx_capture");
    let ungated = Nsys { nvtx_capture: None, ..gated().without_gate() };
    assert_eq!(ungated.validate(), Ok(()), "without a gate nothing needs a name");
}

#[test]
fn settings_that_exclude_each_other_are_refused() {
    use CaptureRange::{CudaProfilerApi, Hotkey};
    let set = |name: &str, value: &str| [(name.to_owned(), value.to_owned())].into();
    for (nsys, key, part) in [
        (Nsys { trace: words(&["cuda"]), ..gated() }, "trace", "needs nvtx"),
        (Nsys { trace: vec![], ..gated() }, "trace", "empty"),
        (Nsys { trace: words(&["nvtx", "a b"]), ..gated() }, "trace", "not the name of an API"),
        (
            Nsys { capture_range: CudaProfilerApi, trace: words(&["nvtx"]), ..gated() },
            "trace",
            "needs cuda",
        ),
        (Nsys { capture_range: Hotkey, ..gated() }, "capture_range", "use nvtx"),
        (
            Nsys {
                nvtx_domain_include: words(&["a"]),
                nvtx_domain_exclude: words(&["b"]),
                ..gated()
            },
            "nvtx_domain_exclude",
            "either",
        ),
        (Nsys { executable: PathBuf::new(), ..gated() }, "executable", "empty"),
        // Extra words cannot undo a key.
        (Nsys { extra_args: words(&["-o"]), ..gated() }, "extra_args", "artifacts"),
        (
            Nsys { extra_args: words(&["--sample=process-tree"]), ..gated() },
            "extra_args",
            "`sample`",
        ),
        (Nsys { extra_args: words(&["-c"]), ..gated() }, "extra_args", "capture_range"),
        // Variables that nsys would split.
        (Nsys { env_var: set("A", "1,B=2"), ..gated() }, "env_var", "commas"),
        (Nsys { env_var: set("9A", "1"), ..gated() }, "env_var", "name of a variable"),
        (Nsys { env_var: set("", "1"), ..gated() }, "env_var", "name of a variable"),
    ] {
        let error = nsys.validate().expect_err(part);
        assert!(error.key == key && error.what.contains(part), "{part}: {error}");
    }
    let trace = words(&["cuda-sw", "nvtx"]);
    let extra_args = words(&["--cuda-memory-usage=true", "--wait=primary"]);
    let fine = Nsys { trace, extra_args, capture_range: CudaProfilerApi, ..gated() };
    assert_eq!(fine.validate(), Ok(()));
}

#[test]
fn lists_may_be_written_as_one_text() {
    let text = DEFAULT.replace("[cuda, nvtx]", "cuda,nvtx,osrt");
    let nsys: Nsys = serde_saphyr::from_str(&text).expect("text with commas");
    assert_eq!(nsys.trace, ["cuda", "nvtx", "osrt"]);
}

#[test]
fn words_of_other_tools_are_refused_with_the_choices() {
    for end in ["none", "stop", "stop-shutdown", "repeat", "repeat:3", "repeat-shutdown:2"] {
        let nsys = Nsys { capture_range_end: Some(end.into()), ..gated() };
        assert_eq!(nsys.validate(), Ok(()), "{end}");
    }
    for end in ["", "Stop", "repeat:0", "repeat:-1", "repeat-shutdown", "repeat:x", "stop:1"] {
        let error = refused(|n| n.capture_range_end = Some(end.into()));
        assert!(error.key == "capture_range_end" && error.what.contains("repeat-shutdown:N"));
    }
    for (kill, good) in [
        ("none", true),
        ("sigterm", true),
        ("9", true),
        ("0", false),
        ("65", false),
        ("hup", false),
    ] {
        assert_eq!(Nsys { kill: Some(kill.into()), ..gated() }.validate().is_ok(), good, "{kill}");
    }
}

fn parse(text: &str) -> Result<CaptureExpression, NoExpression> {
    text.parse()
}

#[test]
fn the_three_forms() {
    for (text, range, domain) in [
        ("decode", "decode", DomainChoice::Default),
        ("decode@vllm", "decode", DomainChoice::Named("vllm".into())),
        ("decode step@*", "decode step", DomainChoice::Any),
        (r"me\@home@my\@domain", "me@home", DomainChoice::Named("my@domain".into())),
        (r"back\slash", r"back\slash", DomainChoice::Default),
    ] {
        let expression = parse(text).expect(text);
        assert_eq!((&*expression.range, &expression.domain), (range, &domain), "{text}");
        assert_eq!(expression.text, text, "handed on as it was given");
    }
}

#[test]
fn a_range_is_taken_by_its_whole_name_and_its_domain() {
    for (text, domain, expected) in [
        ("decode", None, true),
        ("decode", Some("vllm"), false),
        ("decode@vllm", Some("vllm"), true),
        ("decode@vllm", None, false),
        ("decode@*", Some("vllm"), true),
        ("decode@*", None, true),
    ] {
        assert_eq!(parse(text).expect(text).takes("decode", domain), expected, "{text}");
    }
    assert!(!parse("decode@*").expect("name").takes("decode_all", None));
}

#[test]
fn what_names_nothing_is_refused_with_the_forms() {
    for text in ["", " ", "@", "@*", "@domain", "decode@", "decode@ ", "a@b@c", "a\nb", "a\0"] {
        let error = parse(text).expect_err(text).to_string();
        assert!(error.contains("RANGE@*"), "{text:?}: {error}");
    }
}

#[test]
fn a_range_has_an_expression_that_takes_it() {
    for (range, domain, text) in [
        ("decode", None, "decode"),
        ("decode", Some("LLM"), "decode@LLM"),
        ("LLM@decode", None, r"LLM\@decode@*"),
        ("a@b", Some("c@d"), r"a\@b@c\@d"),
    ] {
        let expression = CaptureExpression::of(range, domain);
        assert_eq!(expression.text, text);
        assert_eq!(parse(text).expect(text), expression);
        assert!(expression.takes(range, domain));
    }
}

#[test]
fn likely_mistakes_are_noticed() {
    assert!(parse("decode*@*").expect("name").doubt().is_some_and(|d| d.contains("wildcard")));
    assert!(parse("decode/@*").expect("name").doubt().is_some_and(|d| d.contains("ncu")));
    assert!(parse("decode").expect("name").doubt().is_some_and(|d| d.contains("default")));
    assert_eq!(parse("decode@*").expect("name").doubt(), None);
}
