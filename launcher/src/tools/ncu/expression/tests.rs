//! The forms were tried on NVIDIA's own matcher (`ncu_report`, 2025.3 and 2026.3), which is that of
//! `--nvtx-include`; tests/gpu/ncu_ranges.sh tries them on a GPU.

use super::*;

fn push_pop(entry: &str) -> Vec<String> {
    of_setting(entry, false).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_literal_name_gets_its_slash_and_stays_as_it_is() {
    for (given, expected) in [
        ("decode", "decode/"),
        ("decode/", "decode/"),
        ("LLM@decode", "LLM@decode/"),
        ("outer/*/inner", "outer/*/inner/"),
        ("outer/+/inner/", "outer/+/inner/"),
        ("decode/attn", "decode/attn/"),
        ("[decode", "[decode/"),
        ("inner]", "inner]"),
        ("[outer/*/inner]", "[outer/*/inner]"),
        ("[decode]", "[decode]"),
        ("decode/*", "decode/*/"),
        (r"a\/b", r"a\/b/"),
        ("A::A1", "A::A1/"),
        ("a.b[c]d", r"a.b\[c\]d/"),
        ("layer[10]/", r"layer\[10\]/"),
        (r"layer\[10\]", r"layer\[10\]/"),
        ("a+b", r"a\+b/"),
    ] {
        assert_eq!(push_pop(given), [expected], "{given}");
    }
}

#[test]
fn globs_become_anchored_regular_expressions() {
    for (given, expected) in [
        ("decode*", "regex:^decode.*$/"),
        ("decode*/", "regex:^decode.*$/"),
        ("layer.?", r"regex:^layer\x2e.$/"),
        ("*attn", "regex:^.*attn$/"),
        ("LLM@decode*/", "regex:^LLM$@^decode.*$/"),
        ("*@decode", "regex:^.*$@^decode$/"),
        ("dec*/*/attn", "regex:^dec.*$/*/^attn$/"),
        ("[pre*/attn]", "regex:[^pre.*$/^attn$]"),
        (r"a\*b*", r"regex:^a\x2ab.*$/"),
        ("f(x)[0]*/", r"regex:^f\x28x\x29\x5b0\x5d.*$/"),
        ("été*", "regex:^été.*$/"),
    ] {
        assert_eq!(push_pop(given), [expected], "{given}");
    }
}

#[test]
fn a_list_is_a_flag_for_each_and_semicolons_separate_too() {
    assert_eq!(push_pop("prefill/;decode/"), ["prefill/", "decode/"]);
    assert_eq!(push_pop("A;B;A::A1"), ["A/", "B/", "A::A1/"]);
    assert_eq!(push_pop("prefill;dec*;"), ["prefill/", "regex:^dec.*$/"]);
    assert_eq!(push_pop(r"a\;b"), [r"regex:^a\x3bb$/"]);
}

#[test]
fn regular_expressions_of_the_user_are_handed_on() {
    for (given, expected) in [
        ("regex:dec.*", "regex:dec.*/"),
        ("regex:^decode/", "regex:^decode/"),
        ("regex:D[A-Z]@R[0-9]/", "regex:D[A-Z]@R[0-9]/"),
        (r"regex:a\/b", r"regex:a\/b/"),
        ("regex:[^outer$/^inner$]", "regex:[^outer$/^inner$]"),
        ("regex:^(a|b)$]", "regex:^(a|b)$]"),
        ("regex:a;b/", "regex:a;b/"),
        // A bracket that is escaped, or that a class ends with, is of the name.
        (r"regex:a\]", r"regex:a\]/"),
        ("regex:layer[0-9]/", "regex:layer[0-9]/"),
        ("regex:^x[[:digit:]]$", "regex:^x[[:digit:]]$/"),
        ("regex:x[0-9]]", "regex:x[0-9]]"),
        ("regex:[x[0-9]y/", "regex:[x[0-9]y/"),
    ] {
        assert_eq!(push_pop(given), [expected]);
    }
    assert_eq!(of_setting("regex:dec.*", true), Ok(vec!["regex:dec.*".to_owned()]));
}

#[test]
fn start_end_ranges_have_no_slash() {
    for (given, expected) in [
        ("decode", "decode"),
        ("LLM@A,B", "LLM@A,B"),
        ("dec*,B", "regex:^dec.*$,^B$"),
        (r"a\/b", r"a\/b"),
    ] {
        assert_eq!(of_setting(given, true), Ok(vec![expected.to_owned()]), "{given}");
    }
}

#[test]
fn what_ncu_refuses_or_never_matches_is_refused_with_the_right_form() {
    for (given, start_end, right) in [
        ("*/attn/", false, "write attn/,"),
        ("*/*/decode/attn", false, "write decode/attn/,"),
        ("+/attn/", false, "write attn/,"),
        ("a,b*", false, r"write [a/, b*/] for several push/pop ranges, or a\,b*/ for"),
        ("a@b@c/", false, r"e.g. a@b\@c/"),
        ("decode/attn@LLM", false, "write LLM@decode/attn/"),
        ("decode@", false, "write DOMAIN@RANGE/"),
        ("@decode/", false, "write DOMAIN@RANGE/"),
        ("a//b", false, "write a/b/"),
        ("/a", false, "write a/"),
        ("layer[10]", false, r"write layer\[10\]/ for"),
        ("run/layer[10]", false, r"write run/layer\[10\]/ for"),
        ("*", false, "leave it out"),
        ("/", false, "decode/"),
        (";", false, "decode/"),
        ("", false, "decode/"),
        ("a;*/b", false, "write b/,"),
        ("regex:", false, "regex:^decode/"),
        ("regex:/", false, "regex:^decode/"),
        ("regex:a/;regex:b/", false, "write [regex:a/, regex:b/]"),
        ("regex:[ab].*/", false, "write regex:^[ab].*/"),
        ("regex:LLM@[ab].*/", false, "write regex:LLM@^[ab].*/"),
        ("regex:layer[0-9]", false, "write regex:layer[0-9]/"),
        ("regex:run/layer[[:digit:]]", false, "write regex:run/layer[[:digit:]]/"),
        ("decode/", true, r"write decode\/ for"),
        ("layer[1]", true, r"write layer\[1\] for"),
        ("a,,b", true, "write A,B"),
    ] {
        let error = of_setting(given, start_end).expect_err(given).to_string();
        assert!(error.contains(right), "{given}: {error}");
        assert!(error.starts_with(&format!("{given:?}: ")), "{error}");
    }
}

#[test]
fn a_range_that_was_seen_is_asked_for_exactly() {
    let label = |name: &str| Label::of_stage(name);
    let stack = |names: &[&str]| names.iter().map(|name| label(name)).collect::<Vec<_>>();
    let exact = |names: &[&str], start_end| exact(&stack(names), Around::Anything, start_end);
    for (names, start_end, expected) in [
        (&["decode"] as &[&str], false, "decode/"),
        (&["decode@LLM"], false, "LLM@decode/"),
        (&["decode@LLM"], true, "LLM@decode"),
        (&["decode", "attn"], false, "decode/attn/"),
        (&["decode", "attn"], true, "attn"),
        (&["a/b [0]"], false, r"a\/b \[0\]/"),
        (&["x@"], false, r"x\@/"),
        (&["what?*"], false, r"what?\*/"),
        // No literal form of a backslash matches, and this prefix would turn a name into a pattern.
        (&[r"C:\run"], false, r"regex:^C:\x5crun$/"),
        (&[r"a\b", "c/d"], false, r"regex:^a\x5cb$/^c\x2fd$/"),
        (&["regex:abc"], false, "regex:^regex:abc$/"),
        (&["two\nlines"], false, r"regex:^two\x0alines$/"),
    ] {
        assert_eq!(exact(names, start_end).as_deref(), Some(expected), "{names:?}");
    }
    for (names, start_end, expected) in [
        (&["attn"] as &[&str], false, "[attn/"),
        (&["decode@LLM", "attn@LLM"], false, "LLM@[decode/attn/"),
        (&[r"a\b", "c"], false, r"regex:[^a\x5cb$/^c$/"),
        (&["decode", "attn"], true, "attn"),
    ] {
        let alone = super::exact(&stack(names), Around::Nothing, start_end);
        assert_eq!(alone.as_deref(), Some(expected), "{names:?}");
    }
    assert_eq!(exact(&[], false), None);
    assert_eq!(exact(&["decode", ""], false), None, "ncu has no form for a range without a name");
}

#[test]
fn what_is_suggested_is_accepted() {
    for given in ["*/attn/", "a@b@c/", "decode/attn@LLM", "a//b", "layer[10]", "regex:[ab].*/"] {
        let error = of_setting(given, false).expect_err(given).to_string();
        let form = error.rsplit_once("write ").map_or(error.as_str(), |(_, form)| form);
        let form = form.rsplit_once("e.g. ").map_or(form, |(_, form)| form);
        let form = form.split([' ', ',']).next().unwrap_or_default();
        assert!(of_setting(form, false).is_ok(), "{given}: {form}");
    }
}

#[test]
fn with_one_regular_expression_all_are_since_ncu_loses_some_of_a_mixture() {
    let strings = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let mut include = strings(&[r"ll\[0\]\/x/", "regex:dec.*/", "LLM@a/*/b]", "[what?/"]);
    let mut exclude = strings(&["warm/"]);
    alike([&mut include, &mut exclude], false);
    assert_eq!(
        include,
        [
            r"regex:^ll\x5b0\x5d\x2fx$/",
            "regex:dec.*/",
            r"regex:[^what\x3f$/",
            "regex:^LLM$@^a$/*/^b$]",
        ],
        "the nested one last"
    );
    assert_eq!(exclude, ["regex:^warm$/"]);
    let mut plain = strings(&["a/", "b/"]);
    alike([&mut plain, &mut Vec::new()], false);
    assert_eq!(plain, ["a/", "b/"], "without one they stay as they are");
    let mut start_end = strings(&["a,b", "regex:^c$"]);
    alike([&mut start_end, &mut Vec::new()], true);
    assert_eq!(start_end, ["regex:^a$,^b$", "regex:^c$"]);
}

#[test]
fn several_nested_ones_go_with_literal_names_only() {
    let list = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
    let lost = |include: &[&str], exclude: &[&str]| super::lost([&list(include), &list(exclude)]);
    assert_eq!(lost(&["a/b/", "c/*/d/", r"e\/f/", "[g/"], &[]), [""; 0]);
    assert_eq!(lost(&["a/b/", "regex:^c.*$/", r"e\/f/", "[g/"], &[]), [""; 0], "one nested");
    assert_eq!(lost(&["a/b/", "regex:^c.*$/", "d/e/"], &[]), ["d/e/"]);
    assert_eq!(lost(&["regex:^a$/^b$/", "regex:^c$/*/^d$/"], &[]), ["regex:^c$/*/^d$/"]);
    // A regular expression in one list changes the other, too.
    assert_eq!(lost(&["regex:^dec.*$/"], &["a/b/", "c/d/"]), ["c/d/"]);
    assert_eq!(lost(&["regex:^dec.*$/", "a/b/"], &["c/d/"]), [""; 0], "one nested in each");
    assert_eq!(lost(&["dec/"], &["a/b/", "c/d/"]), [""; 0]);
}

#[test]
fn what_ncu_gets_is_read_into_its_parts() {
    let names = |text: &str, start_end| {
        let read = read(text, start_end)?;
        let frame = |frame: &Frame<regex::Regex>| match frame {
            Frame::Name(name) => name.to_string(),
            Frame::Between(c) => c.to_string(),
        };
        let mut parts: Vec<String> = read.frames.iter().map(frame).collect();
        parts.extend(read.domain.as_ref().map(|domain| format!("in {domain}")));
        parts.extend(read.bottom.then(|| "bottom".to_owned()));
        parts.extend(read.top.then(|| "top".to_owned()));
        Some(parts.join(" "))
    };
    for (text, start_end, parts) in [
        (r"LLM@[a\/b/*/c]", false, Some(r"^a\x2fb$ * ^c$ in ^LLM$ bottom top")),
        ("A,B", true, Some("^A$ ^B$")),
        ("a@b@c/", false, None),
        ("regex:layer[0-9]/", false, Some("layer[0-9]")),
        ("regex:^d$@[^a$/+/^b$]", false, Some("^a$ + ^b$ in ^d$ bottom top")),
        (r"regex:a\/b\]/", false, Some(r"a\/b\]")),
        ("regex:^a$,^b$", true, Some("^a$ ^b$")),
    ] {
        assert_eq!(names(text, start_end).as_deref(), parts, "{text}");
    }
}
