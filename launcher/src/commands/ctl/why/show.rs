//! Evidence and verdicts -> text for a terminal: the verdict first, then what it rests on.

use super::evidence::{Evidence, Gpu, Thread};
use super::verdict::{Verdicts, called, doing, kernel, native, seconds, thread_name};
use crate::terminal::printable;

/// Threads, streams and frames that are shown; `--json` has all.
const THREADS: usize = 12;
const QUEUES: usize = 6;
const FRAMES: usize = 8;
const RANGES: usize = 8;

pub(super) fn text(all: &[Evidence], verdicts: &Verdicts) -> String {
    let mut lines = vec![capital(&verdicts.all.sentence)];
    for (evidence, verdict) in all.iter().zip(&verdicts.processes) {
        lines.push(String::new());
        lines.push(match all.len() {
            1 => head(evidence),
            _ => format!("{}: {}", head(evidence), verdict.sentence),
        });
        put_process(evidence, &mut lines);
    }
    lines.push(String::new());
    // Names come from the program.
    lines.iter().map(|line| printable(line)).collect::<Vec<_>>().join("\n")
}

fn capital(sentence: &str) -> String {
    let mut chars = sentence.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    first + chars.as_str() + "."
}

fn head(evidence: &Evidence) -> String {
    let process = &evidence.process;
    let mut text = called(evidence);
    if !process.phase.is_empty() {
        let phase = if process.phase == "on" { "records" } else { &process.phase };
        text.push_str(&format!(" ({phase}, {} threads", process.threads));
        if let Some(kib) = process.rss_kib {
            text.push_str(&format!(", {} MiB of memory", kib >> 10));
        }
        text.push(')');
    }
    text
}

fn put_process(evidence: &Evidence, lines: &mut Vec<String>) {
    if let Some(watch) = &evidence.watch {
        lines.push(format!("  watch    {watch}"));
    }
    if let Some(work) = &evidence.work {
        for queue in work.queues.iter().take(QUEUES) {
            let mut text = format!("  stream   {}: ", queue.stream);
            match &queue.first_unfinished {
                Some(first) => {
                    let behind = queue.unfinished.saturating_sub(1);
                    text.push_str(&format!(
                        "`{}` has not ended, {behind} behind it",
                        kernel(&first.name)
                    ));
                }
                None => text.push_str("nothing is known to be unfinished"),
            }
            if let Some(last) = &queue.last_finished {
                let ago =
                    last.ended_ms_ago.map_or(String::new(), |ms| format!(" {} ago", seconds(ms)));
                let path =
                    if last.path.is_empty() { String::new() } else { format!(" in {}", last.path) };
                text.push_str(&format!(
                    "; the last that ended: `{}`{path}{ago}",
                    kernel(&last.name)
                ));
            }
            lines.push(text);
        }
        for range in work.open_ranges.iter().filter(|range| range.of_program).take(RANGES) {
            let of = range.tid.map_or(String::new(), |tid| format!(" on thread {tid}"));
            let longest = match range.overdue {
                true => format!(
                    ", {} earlier ones for {} at most",
                    range.earlier,
                    seconds(range.longest_ms)
                ),
                false => String::new(),
            };
            lines.push(format!(
                "  range    {} open for {}{longest}{of}",
                range.path,
                seconds(range.open_ms)
            ));
        }
        for note in work.gpu_off.iter().chain(&work.flush_error).chain(&work.not_forced) {
            lines.push(format!("  CUPTI    {note}"));
        }
        if work.forced && work.unfinished > 0 {
            let what = format!("the records of {} unfinished pieces of work", work.unfinished);
            lines.push(format!("  price    {what} stay without times in the trace file"));
        }
    }
    for gpu in &evidence.gpus {
        lines.push(gpu_text(gpu));
    }
    for xid in &evidence.xid {
        lines.push(format!("  error    {xid}"));
    }
    for thread in evidence.threads.iter().take(THREADS) {
        put_thread(thread, evidence, lines);
    }
    if evidence.threads.len() > THREADS {
        lines.push(format!("  threads  {} more: --json", evidence.threads.len() - THREADS));
    }
    for note in &evidence.missing {
        lines.push(format!("  missing  {note}"));
    }
}

fn gpu_text(gpu: &Gpu) -> String {
    let mut parts = Vec::new();
    let mut put = |value: Option<u32>, text: fn(u32) -> String| parts.extend(value.map(text));
    put(gpu.gpu_percent, |percent| format!("{percent} % busy"));
    put(gpu.memory_percent, |percent| format!("memory {percent} %"));
    put(gpu.power_mw, |mw| format!("{} W", mw / 1000));
    put(gpu.power_limit_mw, |mw| format!("of {} W", mw / 1000));
    put(gpu.sm_clock_mhz, |mhz| format!("{mhz} MHz"));
    put(gpu.temperature_c, |celsius| format!("{celsius} °C"));
    if let Some(bytes) = gpu.memory_used_bytes {
        parts.push(format!("{} MiB in use", bytes >> 20));
    }
    if let Some(errors) = gpu.uncorrected_errors.filter(|errors| *errors > 0) {
        parts.push(format!("{errors} uncorrected memory errors"));
    }
    let own = if gpu.own == Some(true) { " (this process's)" } else { "" };
    format!("  GPU      {}{own}: {}", gpu.index, parts.join(", "))
}

fn put_thread(thread: &Thread, evidence: &Evidence, lines: &mut Vec<String>) {
    let gil = if thread.holds_gil { ", holds the GIL" } else { "" };
    let moved = match thread.same_stack {
        Some(false) => ", moves",
        _ => "",
    };
    lines.push(format!(
        "  thread   {} [{}] {}{gil}{moved}",
        thread_name(thread, evidence),
        thread.letter,
        doing(thread, evidence)
    ));
    for frame in thread.python.iter().take(FRAMES) {
        lines.push(format!("             {frame}"));
    }
    for frame in thread.native.iter().take(FRAMES) {
        lines.push(format!("             [{}]", native(frame)));
    }
}
