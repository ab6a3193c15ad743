use serde_json::{Value, json};

use super::*;

fn evidence(value: Value) -> Evidence {
    serde_json::from_value(value).expect("evidence")
}

fn thread(tid: u32, more: &Value) -> Value {
    let mut thread =
        json!({"tid": tid, "name": "t", "letter": "S", "state": "lock", "same_stack": true});
    let more = more.as_object().expect("an object").clone();
    thread.as_object_mut().expect("an object").extend(more);
    thread
}

/// A process whose stream 7 stands in a kernel, with a main thread in a call.
fn stands(pid: u32, name: &str, since_ms: u64) -> Value {
    json!({
        "process": {"pid": pid, "rank": pid % 10, "phase": "on", "between_ms": 200},
        "work": {"forced": true, "unfinished": 11, "queues": [{
            "stream": 7, "collectives": 6, "unfinished": 11,
            "last_finished": {"name": "before", "ended_ms_ago": since_ms},
            "first_unfinished": {"name": name, "path": "decode/step", "graph": 2, "node": 3, "seen_ms_ago": 0},
        }]},
        "gpus": [{"own": true, "gpu_percent": 100, "memory_percent": 0}],
        "threads": [thread(pid, &json!({
            "native": ["poll libc.so.6", "cuStreamSynchronize libcuda.so.1", "cudaStreamSynchronize libcudart.so.13"],
            "python": ["synchronize /usr/lib/python3/site-packages/torch/cuda.py:9", "step /app/sampler.py:88"],
        }))],
    })
}

fn one(value: Value) -> Verdict {
    of(&[evidence(value)]).all
}

#[test]
fn a_kernel_that_stands_is_named_with_its_place_and_who_waits() {
    let verdict = one(stands(41, "spin", 41_000));
    assert_eq!(verdict.kind, Kind::Gpu);
    for part in [
        "kernel `spin` on stream 7 (node 3 of graph 2)",
        "for 41.0 s (launched in decode/step), 10 more wait behind it",
        "t (main) waits in cudaStreamSynchronize at sampler.py:88 (step)",
    ] {
        assert!(verdict.sentence.contains(part), "{} without {part}", verdict.sentence);
    }
}

#[test]
fn work_that_may_have_just_begun_does_not_stand() {
    let mut young = stands(41, "k", 40_000);
    young["gpus"][0]["gpu_percent"] = 3.into();
    let verdict = one(young.clone());
    assert_eq!(verdict.kind, Kind::Unknown);
    assert!(verdict.sentence.contains("may have just begun"), "{}", verdict.sentence);
    // Seen some time ago, on a GPU that does nothing: it has ended.
    young["work"]["queues"][0]["first_unfinished"]["seen_ms_ago"] = 60_000.into();
    assert_ne!(one(young).kind, Kind::Gpu);
}

#[test]
fn threads_that_wait_for_each_other_are_a_deadlock() {
    let holder = thread(1, &json!({"holds_gil": true, "python": ["a /app/a.py:1"]}));
    let waits = thread(2, &json!({"state": "gil", "gil_holder": 1, "python": ["b /app/b.py:2"]}));
    let process = json!({"pid": 1, "phase": "dormant", "between_ms": 200});
    let verdict = one(json!({"process": process, "threads": [holder, waits]}));
    assert_eq!(verdict.kind, Kind::Deadlock);
    let expected = "holds the GIL and waits for a lock at a.py:1 (a), and thread t (2) waits for the GIL at b.py:2";
    assert!(verdict.sentence.contains(expected), "{}", verdict.sentence);
}

#[test]
fn without_a_record_a_busy_gpu_without_traffic_is_a_kernel_without_a_name() {
    let mut dormant = stands(41, "spin", 1);
    dormant.as_object_mut().expect("an object").remove("work");
    let late = one(dormant.clone()).sentence;
    assert!(late.contains("the records had not come"), "{late}");
    dormant["process"]["phase"] = "dormant".into();
    let verdict = one(dormant.clone());
    assert_eq!(verdict.kind, Kind::Gpu);
    assert!(verdict.sentence.contains("because nothing was recorded"), "{}", verdict.sentence);
    dormant["gpus"][0]["memory_percent"] = 40.into();
    assert_eq!(one(dormant).kind, Kind::Unknown);
}

#[test]
fn a_thread_that_spins_until_the_gpu_is_done_waits_for_the_gpu() {
    let spins = thread(
        5,
        &json!({"state": "running", "cpu_us": 199_000,
        "python": ["synchronize /x/site-packages/torch/cuda/__init__.py:9", "step /app/s.py:3"]}),
    );
    let gpu = json!({"own": true, "gpu_percent": 100, "memory_percent": 0, "busy_ms": 15_000, "quiet_ms": 13_000});
    let process = json!({"pid": 5, "phase": "dormant", "between_ms": 200});
    let verdict = one(json!({"process": process, "threads": [spins], "gpus": [gpu]}));
    assert_eq!(verdict.kind, Kind::Gpu);
    for part in
        ["has been running for at least 13.0 s", "waits for the GPU (it spins", "at s.py:3 (step)"]
    {
        assert!(verdict.sentence.contains(part), "{} without {part}", verdict.sentence);
    }
}

#[test]
fn processes_of_an_engine_that_use_no_gpu_are_not_missing_in_a_collective() {
    let name = "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(vllm::RankData*)";
    let api = json!({"process": {"pid": 1}, "threads": [thread(1, &json!({"state": "poll"}))]});
    let title = "VLLM::Worker_TP1";
    let stopped =
        json!({"process": {"pid": 41, "title": title}, "silent": {"why": "-", "state": "stopped"}});
    let verdict = of(&[evidence(api), evidence(stands(40, name, 9_000)), evidence(stopped)]).all;
    let expected = "process 41 (VLLM::Worker_TP1) did not enter the collective";
    assert!(verdict.sentence.starts_with(expected), "{}", verdict.sentence);
}

/// Hazard (Standstill): A window is asked for while a kernel never ends in a dormant process.
/// Promise: It is refused: CUPTI's start would hang, and with it launches on other streams. A process that works
///  is not refused.
#[test]
fn cupti_is_not_to_be_started_while_a_kernel_stands() {
    let mut stuck = stands(41, "spin", 1);
    stuck.as_object_mut().expect("an object").remove("work");
    let told = |value: &Value| holds_up_cupti(&evidence(value.clone()));
    assert!(told(&stuck).is_some_and(|why| why.contains("a kernel has been running")));
    stuck["threads"][0]["native"] = json!([]);
    assert!(told(&stuck).is_some(), "it spins in torch's `synchronize`");
    stuck["threads"][0]["native"] = json!(["cuStreamSynchronize libcuda.so.1"]);
    for (of, field, other) in [
        ("gpus", "busy_ms", json!(300)),
        ("gpus", "gpu_percent", json!(80)),
        ("gpus", "memory_percent", json!(30)),
        ("threads", "same_stack", json!(false)),
        ("threads", "native", json!(["poll libc.so.6"])),
    ] {
        let mut works = stuck.clone();
        works["threads"][0]["python"] = json!(["step /app/sampler.py:88"]);
        works[of][0][field] = other;
        assert_eq!(told(&works), None, "{field}");
    }
    assert_eq!(told(&json!({"silent": {"why": "-", "state": "mute"}})), None);
}

/// Hazard (Standstill): A thread of the program hangs with the allocator's lock.
/// Promise: The answer comes from outside, and states what the collector waits for.
#[test]
fn a_collector_that_waits_for_a_lock_is_told() {
    let own = thread(9, &json!({"name": "stage2-control"}));
    let silent = json!({"why": "no answer", "state": "mute"});
    let verdict = one(json!({"process": {"pid": 8}, "silent": silent, "threads": [own]}));
    assert!(verdict.sentence.contains("the allocator's"), "{}", verdict.sentence);
}

#[test]
fn a_step_that_does_not_end_is_told_with_its_thread() {
    let range = |path: &str, open_ms: u64, overdue: bool| json!({"path": path, "tid": 6, "open_ms": open_ms, "earlier": 512, "longest_ms": 80, "overdue": overdue});
    let ranges = [
        range("serve", 90_000, false),
        range("serve/step", 61_000, true),
        range("serve/step/sample", 60_500, true),
    ];
    let work = json!({"forced": true, "open_ranges": ranges});
    let stands = thread(6, &json!({"python": ["get /app/s.py:3"]}));
    let process = json!({"pid": 5, "phase": "on", "between_ms": 200});
    let main = thread(5, &json!({"state": "poll"}));
    let told = one(json!({"process": process, "work": work, "threads": [main, stands]}));
    assert_eq!(told.kind, Kind::Step);
    for part in [
        "range serve/step/sample has been open for 60.5 s, the 512 before it for 80 ms at most",
        "thread t (6) waits for a lock at s.py:3 (get)",
    ] {
        assert!(told.sentence.contains(part), "{} without {part}", told.sentence);
    }
    let young = json!({"work": {"forced": true, "open_ranges": [range("step", 900, true)]}});
    assert_ne!(one(young).kind, Kind::Step);
}

#[test]
fn kernels_that_end_and_a_process_that_waits_are_nothing() {
    let mut runs = stands(41, "spin", 12);
    runs["work"] = json!({"queues": [{"last_finished": {"name": "k", "ended_ms_ago": 12}}]});
    let verdict = one(runs);
    assert_eq!(verdict.kind, Kind::Runs);
    assert!(verdict.sentence.contains("kernels end"), "{}", verdict.sentence);
    let main = thread(5, &json!({"state": "poll", "python": ["serve /app/s.py:3"]}));
    let idle = json!({"process": {"pid": 5}, "threads": [main], "gpus": [{"gpu_percent": 0}]});
    let verdict = one(idle);
    assert_eq!(verdict.kind, Kind::Waits);
    assert!(verdict.sentence.contains("nothing to do"), "{}", verdict.sentence);
    assert_eq!(one(json!({})).kind, Kind::Unknown);
}

#[test]
fn the_rank_that_did_not_enter_is_named_and_where_it_is() {
    let name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
    let waits = || evidence(stands(40, name, 9_000));
    let sleeps = thread(41, &json!({"state": "sleep", "python": ["nap /app/r.py:7"]}));
    let away = json!({"process": {"pid": 41, "rank": 1}, "threads": [sleeps]});
    let verdict = of(&[waits(), evidence(away)]).all;
    assert_eq!(verdict.kind, Kind::Collective);
    for part in [
        "rank 1 (process 41) did not enter",
        "AllReduce",
        "rank 0 (process 40) waits in",
        "sleeps at r.py:7",
    ] {
        assert!(verdict.sentence.contains(part), "{} without {part}", verdict.sentence);
    }
    let stopped = json!({"process": {"pid": 41}, "silent": {"why": "-", "state": "stopped"}});
    let sentence = of(&[waits(), evidence(stopped)]).all.sentence;
    assert!(
        sentence.contains("process 41 did not enter") && sentence.contains("SIGSTOP"),
        "{sentence}"
    );
    let dead =
        json!({"process": {"pid": 41, "rank": 1}, "silent": {"why": "killed", "state": "gone"}});
    let mut queued = stands(40, name, 9_000);
    // Of six, three are behind the one that stands.
    queued["work"]["queues"][0]["unfinished_names"] = json!([{"name": name, "count": 4}]);
    let sentence = of(&[evidence(queued), evidence(dead)]).all.sentence;
    let expected = "rank 1 (process 41) has ended; rank 0 (process 40) waits in the collective";
    assert!(sentence.starts_with(expected), "{sentence}");
    assert!(sentence.contains(", number 3 of its stream") && sentence.ends_with(": killed"));
    // Both wait, one of them in an earlier collective.
    let mut behind = stands(41, name, 9_000);
    behind["work"]["queues"][0]["collectives"] = 5.into();
    let sentence = of(&[waits(), evidence(behind)]).all.sentence;
    assert!(sentence.contains("rank 1 (process 41) waits in its number 5"), "{sentence}");
    let sentence = of(&[waits(), waits()]).all.sentence;
    assert!(sentence.contains("not a rank here"), "{sentence}");
}
