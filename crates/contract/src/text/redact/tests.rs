//! Secrets in every place where programs take them, and what only looks like one.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn words(line: &[&str]) -> Vec<String> {
    Redactor::default().words(line)
}

#[test]
fn arguments_lose_their_secrets_and_nothing_else() {
    let split = |words: &'static str| words.split('¦').collect::<Vec<_>>();
    for (given, expected) in [
        ("--password¦hunter2Xy9¦x", "--password¦[redacted]¦x"),
        ("--password=hunter2 Xy9 \"z", "--password=[redacted]"),
        ("-password¦hunter2Xy9", "-password¦[redacted]"),
        ("--api-key¦-hunter2Xy9", "--api-key¦[redacted]"),
        ("--api-key¦--verbose", "--api-key¦--verbose"),
        ("--token¦hunter2Xy9¦--token", "--token¦[redacted]¦--token"),
        ("--hfToken¦hunter2Xy9", "--hfToken¦[redacted]"),
        ("db.password=hunter2Xy9", "db.password=[redacted]"),
        ("++db/main.secret_key=hunter2Xy9", "++db/main.secret_key=[redacted]"),
        ("+a@b.passwd=hunter2Xy9", "+a@b.passwd=[redacted]"),
        ("--env-var=HF_TOKEN=hunter2 Xy9", "--env-var=HF_TOKEN=[redacted]"),
        ("-H¦Authorization: Basic hunter2Xy9", "-H¦Authorization:[redacted]"),
        ("AWS_SECRET_ACCESS_KEY=hunter2Xy9", "AWS_SECRET_ACCESS_KEY=[redacted]"),
        ("OPENAI_API_KEY=hunter2Xy9¦python", "OPENAI_API_KEY=[redacted]¦python"),
        ("-c¦curl --password hunter2Xy9 x", "-c¦curl --password [redacted] x"),
        ("-c¦export A_TOKEN='hunter2 Xy9' b", "-c¦export A_TOKEN=[redacted] b"),
        ("-c¦run --secret=hunter\"2 X\"y9 b", "-c¦run --secret=[redacted] b"),
        ("redis://:hunter2Xy9@h:1/2", "redis://:[redacted]@h:1/2"),
        ("--db=postgres://me:hunter2Xy9@h/d", "--db=postgres://me:[redacted]@h/d"),
        ("https://0123456789abcdef01@github.com/x", "https://[redacted]@github.com/x"),
        ("https://h/x?a=1&sig=hunter2Xy9&b=2", "https://h/x?a=1&sig=[redacted]&b=2"),
        ("{\"api_key\": \"hunter2 Xy9\", \"b\": 1}", "{\"api_key\": [redacted], \"b\": 1}"),
        ("{\\\"api_key\\\": \\\"hunter2 Xy9\\\"}", "{\\\"api_key\\\": [redacted]}"),
        ("e[\"A_TOKEN\"] = \"hunter2Xy9\"", "e[\"A_TOKEN\"] = [redacted]"),
        ("--note=Bearer hunter2Xy9", "--note=Bearer [redacted]"),
        ("--wandb-key¦hunter2Xy9", "--wandb-key¦[redacted]"),
        ("--key=hunter2Xy9", "--key=[redacted]"),
        ("x.wandb_key=hunter2Xy9", "x.wandb_key=[redacted]"),
        (
            "OTEL_EXPORTER_OTLP_HEADERS=x-honeycomb-team=hunter2Xy9,a=b",
            "OTEL_EXPORTER_OTLP_HEADERS=[redacted]",
        ),
        ("--extra-headers¦X-Team: hunter2Xy9", "--extra-headers¦[redacted]"),
        ("-H¦x-honeycomb-team: hunter2Xy9", "-H¦x-honeycomb-team:[redacted]"),
        ("-c¦export A_HEADERS=x-team=hunter2Xy9 b", "-c¦export A_HEADERS=[redacted] b"),
        ("-u¦me:hunter2Xy9", "-u¦me:[redacted]"),
        ("--user=me:hunter2Xy9", "--user=me:[redacted]"),
        ("-c¦curl -u 'me:hunter2Xy9' h", "-c¦curl -u 'me:[redacted] h"),
        // Joined names, and short ones.
        ("NGROK_AUTHTOKEN=Xy¦--authtoken¦Xy", "NGROK_AUTHTOKEN=[redacted]¦--authtoken¦[redacted]"),
        ("accesstoken=Xy¦x.hftoken=Xy", "accesstoken=[redacted]¦x.hftoken=[redacted]"),
        ("GITHUBTOKEN=Xy¦DBPWD=Xy", "GITHUBTOKEN=[redacted]¦DBPWD=[redacted]"),
        ("pass=Xy¦PASS=Xy", "pass=[redacted]¦PASS=[redacted]"),
        ("-c¦export PASS=Xy ./a", "-c¦export PASS=[redacted] ./a"),
        ("DB_PW=Xy¦--pw¦Xy", "DB_PW=[redacted]¦--pw¦[redacted]"),
        ("PASSCODE=Xy¦CREDS=Xy", "PASSCODE=[redacted]¦CREDS=[redacted]"),
        ("https://h/?a=password%3DXy&b", "https://h/?a=password%3D[redacted]&b"),
        // Numbers, where nothing is counted.
        ("api_key=7712345678¦AWS_ACCESS_KEY=77e12", "api_key=[redacted]¦AWS_ACCESS_KEY=[redacted]"),
        (
            "--access-token¦7712345678¦auth_token=77",
            "--access-token¦[redacted]¦auth_token=[redacted]",
        ),
        // Users that are tokens, or none.
        ("-u¦:Xy9¦--user=:Xy9", "-u¦:[redacted]¦--user=:[redacted]"),
        ("-c¦curl -u :Xy9 h", "-c¦curl -u :[redacted] h"),
        ("https://Xy:x-oauth-basic@h/a", "https://[redacted]@h/a"),
        ("https://0123456789abcdef01:@h", "https://[redacted]@h"),
        // Maps and lists.
        ("+x={b: 2, token: Xy9}", "+x={b: 2, token: [redacted]"),
        ("+x={token: 'Xy 9'}¦+x={pass: Xy9}", "+x={token: [redacted]}¦+x={pass: [redacted]"),
        ("+x={token: word, b: 1}", "+x={token: [redacted] b: 1}"),
        ("x y/token: Xy9¦x auth: Xy9", "x y/token: [redacted]¦x auth: [redacted]"),
        ("a: 1\ntoken: Xy9\nb: 2", "a: 1\ntoken: [redacted]\nb: 2"),
        ("a: 1\n  pass: word\nb: 2", "a: 1\n  pass: [redacted]\nb: 2"),
        ("{\"password\": [\"aa\", \"Xy 9\"], \"b\": 1}", "{\"password\": [redacted], \"b\": 1}"),
        ("a: 1\npassword: |\n  Xy\n  9\nb: 2", "a: 1\npassword: |\n  [redacted]\nb: 2"),
        ("- password:\n    Xy\n- b: 2", "- password:\n    [redacted]\n- b: 2"),
        ("a:\n  password:\n  user: me", "a:\n  password:\n  user: me"),
        (
            "[{\"name\":\"HF_TOKEN\",\"value\":\"Xy 9\"},{\"name\":\"A\",\"value\":\"1\"}]",
            "[{\"name\":\"HF_TOKEN\",\"value\":[redacted]},{\"name\":\"A\",\"value\":\"1\"}]",
        ),
        ("- name: HF_TOKEN\n  value: Xy9\n", "- name: HF_TOKEN\n  value: [redacted]\n"),
        // Headers of several words.
        ("-c¦curl -H \"Authorization: Key Xy9\" h", "-c¦curl -H \"Authorization: [redacted]\" h"),
        ("-c¦curl -H 'Cookie: a=1; session=Xy9' h", "-c¦curl -H 'Cookie: [redacted]' h"),
        ("a Authorization: Bot Xy9\nb", "a Authorization: [redacted]\nb"),
        (
            "-c¦x \"Authorization: Digest u=\\\"a\\\", r=\\\"Xy9\\\"\" h",
            "-c¦x \"Authorization: [redacted]\" h",
        ),
    ] {
        assert_eq!(words(&split(given)), split(expected), "{given}");
    }
}

#[test]
fn tokens_are_known_by_their_shape_wherever_they_stand() {
    for token in [
        "hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567",
        "ghp_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789",
        "github_pat_11ABCDEFG0abcdefghijklmnop_abcdefghij",
        "sk-proj-abc123def456ghi789jkl",
        "sk-ABCDEFGHIJKLMNOPQRSTUVWX",
        "AKIAIOSFODNN7EXAMPLE",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
        "xoxb-123456789012-abcdef",
        "nvapi-abcdefghijklmnop1234",
        "pypi-AgEIcHlwaS5vcmcCJDAwMDAwMDAw",
        "dop_v1_0123456789abcdef",
        "SG.abcDEF123.ghiJKL456-mno_pq",
        "wandb_v1_Ab3dEf_Gh1jKl",
        "xapp-1-A02BCDEF-123",
        "glsa_AbCd1234EfGh5678_01234567",
        "lsv2_pt_0123456789abcdef_0123",
        "hvs.CAESI0123456789",
        "dapi0123456789abcdef0123456789abcdef",
    ] {
        for (front, back) in
            [("", ""), ("x=", ""), ("say '", "'"), ("/a/", "/b"), ("https://h/", "?x")]
        {
            let text = format!("{front}{token}{back}");
            let expected = format!("{front}{REDACTED}{back}");
            assert_eq!(Redactor::default().text(&text), expected);
        }
    }
    let key = "a -----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc=\n-----END RSA PRIVATE KEY----- b";
    assert_eq!(Redactor::default().text(key), "a [redacted] b");
    assert_eq!(Redactor::default().text("-----BEGIN PRIVATE KEY-----\nMII"), REDACTED);
    let public = "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----";
    assert_eq!(Redactor::default().text(public), public);
}

#[test]
fn web_hooks_keep_their_host_and_pages_about_them_their_path() {
    for (given, expected) in [
        ("https://hooks.slack.com/services/T0/B0/Xy9 x", "https://hooks.slack.com/[redacted] x"),
        (
            "'https://discord.com/api/webhooks/12/Ab'",
            "'https://discord.com/api/webhooks/[redacted]'",
        ),
        ("https://a.webhook.office.com/webhookb2/1f@2", "https://a.webhook.office.com/[redacted]"),
        (
            "https://open.feishu.cn/open-apis/bot/v2/hook/1f-2",
            "https://open.feishu.cn/open-apis/bot/v2/hook/[redacted]",
        ),
        ("https://api.telegram.org/bot12:Ab/x", "https://api.telegram.org/[redacted]"),
    ] {
        assert_eq!(Redactor::default().text(given), expected);
        assert_eq!(Redactor::default().text(expected), expected);
    }
}

#[test]
fn what_an_llm_is_configured_with_stays() {
    let kept = "--max-new-tokens=128¦--max_token=128¦token=4096¦tokenizer=gpt2¦--tokenizer¦\
        model.tokens.prompt_tokens=[1,2]¦eos_token=</s>¦pad_token_id=0¦--num-passes=3¦pass=2¦\
        use_auth=true¦--hf-token=null¦compass=north¦time per token: not known¦\
        decode 0.420 ms per token: 5.1x the floor¦share per token: 12%, of all¦maxtoken=few¦\
        eostoken=</s>¦compass=north-by¦in ./a/token: No such file¦\
        the file /x/secret: No such file or directory (os error 2)¦\
        nsys pass: /usr/bin/nsys cannot be run¦{\"name\": \"MODEL\", \"value\": \"gpt2\"}¦\
        name: token of a model¦there is no nsys pass: nsys cannot be run¦secretary.py¦\
        /home/me/password/infer.py¦https://huggingface.co/meta/llama¦ssh://git@github.com/x¦\
        key=value¦redact.secrets=false¦redact.secrets: conf/config.yaml:26¦\
        hf_quantizer_config_of_a_model_v2¦task-classification-of-long-names-2024¦\
        disk-abcdefghijklmnopqrstuv¦std::string::token¦bearer¦monkey=1¦data.prompt_key=messages¦\
        --sort-key=name¦workload.manifest_key=inputs¦--layer-key=3¦Accept-Headers=no¦\
        --headers=Content-Type: application/json,Accept: text/html¦--user=1000:1000¦\
        -v=/etc/passwd:/etc/passwd:ro¦/etc/passwd:/run/secrets/x:ro¦\
        /etc/passwd: its name has to end in .s2t¦\
        https://docs.github.com/en/webhooks/about-webhooks¦https://hooks.example.com/¦\
        SG.some.module.class¦github_pat_of_the_user¦ghp_something_long_of_words¦\
        re_ranking_with_a_cross_encoder_v2¦pypi-server-of-the-company-2024¦\
        co_occurrence_of_words_in_a_text_2¦größe=名前";
    for word in kept.split('¦') {
        assert_eq!(words(&[word, "after"]), [word, "after"]);
    }
}

#[test]
fn patterns_of_the_user_add_to_ours_and_off_is_off() {
    let own = Redactor::with(&["acme_pin", "ACME.*"]).expect("patterns");
    assert_eq!(
        own.words(["--Acme-Pin=1234", "see ACME.77", "--password=x1"]),
        ["--Acme-Pin=[redacted]", "see [redacted]", "--password=[redacted]",]
    );
    let again = Redactor::parse(&own.setting().expect("a setting")).expect("its own words");
    assert_eq!(again, own);
    assert_eq!(Redactor::default().setting(), None);
    let off = Redactor::parse("off").expect("off");
    assert_eq!(off.words(["--password=x1", "--token", "y"]), ["--password=x1", "--token", "y"]);
    assert_eq!((off.value("password", "x"), off.setting()), ("x".into(), Some("off".into())));
    for bad in ["", "*", "a b", "a=", "é", "-", &"x".repeat(200)] {
        assert!(Redactor::with(&[bad]).is_err_and(|why| why.to_string().contains("not a pattern")));
    }
    assert!(Redactor::with(&["a"; 65]).is_err(), "too many");
}

#[test]
fn values_are_judged_by_their_name_and_by_themselves() {
    let redactor = Redactor::default();
    assert_eq!(redactor.value("HF_TOKEN", "x y"), REDACTED);
    assert_eq!(redactor.value("MODEL", "AKIAIOSFODNN7EXAMPLE"), REDACTED);
    assert_eq!(redactor.value("OMP_NUM_THREADS", "3"), "3");
}

/// The processor time of this thread, which does not grow while other programs have the processors.
fn own_processor_time() -> Duration {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").expect("schedstat");
    Duration::from_nanos(times.split(' ').next().expect("a time").parse().expect("ns"))
}

#[test]
fn hostile_texts_take_linear_time() {
    let redactor = Redactor::with(&["x*"]).expect("pattern");
    for part in [
        "a=",
        "password=''",
        "token=1 ",
        "://",
        "a.",
        "-----BEGIN ",
        "bearer ",
        "authorization: ",
        "authorization:[redacted]",
        "token=[",
        "token:|\n",
        "/token: ",
        "name:token,",
        "--pass ",
        "\"",
        "x",
    ] {
        let text = part.repeat(100_000 / part.len());
        let before = own_processor_time();
        let _ = redactor.words([&text]);
        let took = own_processor_time() - before;
        // Seconds, because tests run unoptimised; quadratic work would take minutes.
        assert!(took < Duration::from_secs(5), "{part:?}: {took:?}");
    }
}

proptest! {
    #[test]
    fn any_text_is_taken_and_a_second_time_changes_nothing(text in "\\PC{0,60}|[-=:'\"\\\\ a-c./@]{0,40}") {
        let redactor = Redactor::default();
        let once = redactor.text(&text);
        prop_assert_eq!(redactor.text(&once), once.clone());
    }

    #[test]
    fn a_named_secret_never_stays(secret in "[!-~]{3,30}") {
        prop_assume!(!secret.starts_with("--") && secret.parse::<f64>().is_err());
        prop_assume!(!["true", "false", "null", "none"].contains(&&*secret.to_lowercase()));
        let redactor = Redactor::default();
        let argv = redactor.words(["--password", &secret, &format!("db.passwd={secret}")]);
        prop_assert_eq!(argv, ["--password", REDACTED, "db.passwd=[redacted]"]);
    }
}
