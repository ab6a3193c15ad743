//! What is said, and what is not, of captures that no collector made; and whose ranges are stages.

use serde_json::Value;
use stage2_contract::trace::NONE;

use crate::report::build::Build;
use crate::sources::plain::{Bundle, Place};

/// Takeaways that are about the workload and not about the capture.
fn said(bundle: &Bundle) -> Vec<Value> {
    let metrics = bundle.json("metrics.json");
    let takeaways = metrics["takeaways"].as_array().expect("takeaways").clone();
    takeaways.into_iter().filter(|takeaway| takeaway["rule"] != "incomplete").collect()
}

fn numbers_without_advice(bundle: &Bundle, label: &str) {
    let said = said(bundle);
    assert!(!said.is_empty());
    for takeaway in &said {
        let text = takeaway["text"].as_str().expect("text");
        assert!(text.contains(label) && text.contains("no ground for advice"), "{text}");
        assert!(text.contains(|c: char| c.is_ascii_digit()), "{text}");
        assert_eq!(
            (&takeaway["recommendation"], &takeaway["concerns_percent"]),
            (&Value::Null, &Value::Null)
        );
    }
    for page in ["report.md", "stakeholder_summary.md"] {
        let text = bundle.text(page);
        for guess in ["something else", ".item()", "of the time of all stages |"] {
            assert!(!text.contains(guess), "{page}: {guess}");
        }
    }
}

#[test]
fn one_cold_instance_under_nsys_is_a_number_with_a_label() {
    let place = Place::new();
    place.put("nsys/decode.sqlite.xz", "decode.sqlite");
    let bundle = place.merged(&["--nsys", "decode.sqlite"]);
    let label = "one instance, a cold one, under nsys";
    numbers_without_advice(&bundle, label);
    let idle = said(&bundle).iter().any(|takeaway| takeaway["rule"] == "gpu_idle");
    assert!(idle, "its idle time is shown: {:?}", said(&bundle));
}

#[test]
fn tables_without_stages_get_numbers_of_the_whole_capture() {
    let place = Place::new();
    place.put("nsys/decode_cuda_gpu_kern_sum.csv", "decode_cuda_gpu_kern_sum.csv");
    let bundle = place.merged(&["--nsys", "decode_cuda_gpu_kern_sum.csv"]);
    numbers_without_advice(&bundle, "under nsys");
    let text = format!("{:?}", said(&bundle));
    assert!(text.contains("(whole capture): "), "{text}");
}

#[test]
fn what_is_a_library_can_be_said_when_the_reports_are_written() {
    let place = Place::new();
    let mut b = Build::process(1, "x");
    b.anchor(1).device(0, "GPU", 1).name(1, b"execute").name(2, b"vllm.worker").name(3, b"k");
    b.shape(1, 3, 1).path_in(1, NONE, 1, 2);
    b.open(1, 1, 0, 100).kernel(1, 1, 1, (200, 300)).close(1, 400).end();
    b.save(&place.path("run"), "a.s2t");
    let stages = |bundle: &Bundle| -> Vec<String> {
        let metrics = bundle.json("metrics.json");
        let rows = metrics["stages"].as_array().expect("stages");
        rows.iter().map(|row| row["stage"].as_str().expect("stage").to_owned()).collect()
    };
    let bundle =
        place.merged(&["--spool", "run/collector", "report.library_domains=[other,'VLLM.*']"]);
    assert_eq!(stages(&bundle), ["(whole process)"]);
    place.command(&["report", "out", "report.library_domains=[]"]).assert().success();
    assert_eq!(stages(&bundle), ["execute@vllm.worker"]);
    place.command(&["report", "out", "report.library_domains=vllm.worker"]).assert().success();
    assert_eq!(stages(&bundle), ["(whole process)"]);
}
