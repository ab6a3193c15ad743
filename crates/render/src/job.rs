//! What summaries of all ranks say of a job -> job.md, job.html and job.json.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use stage2_contract::text::numbers::{count, counted, ms3, shown_time};
use stage2_contract::text::{code, code_in_text, listed, plain};
use stage2_read::files::write_whole;
use stage2_summary::job::{Cause, Files, Job, LateRank, Pattern, StageRow, seconds};

use crate::html::job_html;
use crate::page::Page;
use crate::table::{Table, paragraph};

/// Ranks that are told in sentences.
const TOLD: usize = 5;
/// Names and numbers in a sentence.
const LISTED: usize = 4;
/// Rows of the table of ranks by stage.
const ROWS: usize = 40;
/// Classes of kernels in a cell.
const CLASSES: usize = 3;

/// Writes the pages of a job into a folder; gives their paths.
///
/// # Errors
/// A file that cannot be written.
pub fn write_job(job: &Job, folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let page = page(job);
    let json = serde_json::to_string(job).context("the numbers of the job have no JSON")?;
    let files = [
        ("job.md", page.markdown()),
        ("job.html", job_html(job, &page)),
        ("job.json", json + "\n"),
    ];
    let mut paths = Vec::new();
    for (name, content) in files {
        let path = folder.join(name);
        write_whole(&path, &content)?;
        paths.push(path);
    }
    Ok(paths)
}

/// The lines that the command prints.
pub fn job_lines(job: &Job) -> Vec<String> {
    let mut lines: Vec<String> = told(job);
    lines.extend(losses(job));
    lines
}

fn page(job: &Job) -> Page {
    let head: String = told(job).iter().map(|line| format!("{line}\n\n")).collect();
    let sections = vec![
        ("Late ranks", late(job)),
        ("What the worst have in common", items(job.common.iter().map(|told| plain(told)))),
        ("Stages", stages(&job.stages)),
        ("Ranks by stage", by_rank(job)),
        ("Idle time, and calls that wait", amounts(&job.idle, "what", |ns| shown_time(ns as f64))),
        ("Versions", amounts(&job.versions, "version", count)),
        ("Clocks", items(clocks(job).into_iter())),
        ("What is missing", items(losses(job).into_iter()) + &amounts(&job.losses, "lost", count)),
    ];
    let title = format!("Job of {} on {}", counted(job.ranks, "rank"), counted(job.hosts, "host"));
    Page { title, head, sections }
}

fn items(lines: impl Iterator<Item = String>) -> String {
    let items: String = lines.map(|line| format!("- {line}\n")).collect();
    if items.is_empty() { items } else { items + "\n" }
}

/// What to know first.
fn told(job: &Job) -> Vec<String> {
    let minutes = job.last_minute.saturating_sub(job.first_minute).saturating_add(1);
    let compared = job.collectives.samples;
    let period =
        format!("Covers {}, starting at {}", counted(minutes, "minute"), time(job.first_minute));
    let mut lines = vec![match compared {
        0 => format!("{period}."),
        _ => format!(
            "{period}; {} sampled collectives compared: the last rank comes {} after the others in the median, {} at \
             most.",
            count(compared),
            shown_time(job.collectives.median_late_ns as f64),
            shown_time(job.collectives.most_late_ns as f64),
        ),
    }];
    lines.extend(job.late.iter().take(TOLD).map(sentence));
    if job.late.is_empty() {
        let why = match compared {
            0 => "No collective could be compared, so nothing is known of late ranks.",
            _ => "No rank is late beyond the error.",
        };
        lines.push(why.to_owned());
    }
    if job.passed_on > 0 {
        lines.push(format!(
            "{} came late as well because they had waited for another rank: they are not listed.",
            counted(job.passed_on, "process")
        ));
    }
    lines
}

fn sentence(late: &LateRank) -> String {
    let who =
        late.rank.map_or("A process without a rank".to_owned(), |rank| format!("Rank {rank}"));
    let how = match late.pattern {
        Pattern::Passing => "for a short time",
        Pattern::Lasting => "continuously",
        Pattern::Recurring => "again and again",
    };
    let why = match late.cause {
        Cause::Host => "its host is late, for its GPU has no more work than the others'".to_owned(),
        Cause::GpuWork => format!("its GPU works longer ({} % of the lateness)", late.work_percent),
        Cause::LowClock => {
            let mhz = late.low_clock_mhz.unwrap_or(0);
            let hot = late.hot_c.map(|c| format!(" and at {c} °C")).unwrap_or_default();
            format!("its GPU works longer, at a clock that falls to {mhz} MHz{hot}")
        }
    };
    let place = match late.hosts.as_slice() {
        [] => String::new(),
        [host] => format!(" on {}", code_in_text(host)),
        several => {
            let several: Vec<String> = several.iter().map(|host| code_in_text(host)).collect();
            format!(", first on {}: it moves with the rank", several.join(", then on "))
        }
    };
    let since = late.episodes.first().map_or(String::new(), |(first, _)| time(*first));
    format!(
        "{who}{place}: late {how} since {since}, in {}. It comes {} (within {}) after the others in about {} calls; \
         all together they waited about {} for it (estimated from {}). Cause: {why}.",
        counted(late.minutes, "minute"),
        shown_time(late.late_ns as f64),
        shown_time(late.error_ns as f64),
        count(late.calls),
        shown_time(late.waited_ns as f64),
        counted(late.samples, "sample"),
    )
}

fn late(job: &Job) -> String {
    let episodes = |row: &LateRank| {
        let each = |&(first, last): &(u64, u64)| match first == last {
            true => time(first),
            false => format!("{} to {}", time(first), clock(last)),
        };
        listed(&row.episodes.iter().map(each).collect::<Vec<_>>(), LISTED)
    };
    let names =
        |names: &[String]| listed(&names.iter().map(|name| code(name)).collect::<Vec<_>>(), LISTED);
    Table::new(&job.late)
        .id("rank", |row| row.rank.map(|rank| rank.to_string()))
        .left("host", |row| names(&row.hosts))
        .left("GPU", |row| names(&row.gpus))
        .left("when (UTC)", episodes)
        .right("late ms", |row| ms3(row.late_ns))
        .right("error ms", |row| ms3(row.error_ns))
        .right("calls", |row| count(row.calls))
        .right("others waited s", |row| seconds_of(row.waited_ns))
        .right("more work %", |row| row.work_percent.to_string())
        .right("low clock MHz", |row| row.low_clock_mhz.map(count))
        .right("hot °C", |row| row.hot_c.map(count))
        .markdown_with_rest_in("job.json")
}

fn stages(stages: &[StageRow]) -> String {
    let class = |(class, ns): &(String, u64)| format!("{class} {} s", seconds_of(*ns));
    let classes = |row: &StageRow| {
        let all: Vec<String> = row.classes.iter().take(CLASSES).map(class).collect();
        (!all.is_empty()).then(|| all.join(", "))
    };
    let known = |row: &StageRow, ns: u64| (row.steps > 0).then(|| ms3(ns));
    let [median, p99, most] = [0, 1, 2]
        .map(|at| move |row: &StageRow| known(row, row.step_ns.get(at).copied().unwrap_or(0)));
    Table::new(stages)
        .left("stage", |row| code(&row.stage))
        .right("steps", |row| (row.steps > 0).then(|| count(row.steps)))
        .right("median step ms", median)
        .right("p99 ms", p99)
        .right("longest ms", most)
        .right("median GPU busy ms", |row| known(row, row.busy_ns))
        .right("median in collectives ms", |row| known(row, row.collective_ns))
        .left("kernels", classes)
        .markdown_with_rest_in("job.json")
        + &noted(stages, "Medians and p99 are over the steps of all ranks, cold ones included.")
}

/// The rows with the most GPU work in a step.
fn by_rank(job: &Job) -> String {
    struct Row<'r> {
        ranks: String,
        stage: &'r str,
        values: [u64; 4],
    }
    let width = job.heat.row_ranks;
    let ranks = |first: u64| match width {
        0 | 1 => first.to_string(),
        width => format!("{first} to {}", first.saturating_add(width - 1)),
    };
    let mut rows: Vec<Row<'_>> = Vec::new();
    for row in &job.rows {
        rows.extend(row.stages.iter().map(|(stage, values)| Row {
            ranks: ranks(row.first_rank),
            stage,
            values: *values,
        }));
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.values[3]));
    Table::first(ROWS, &rows)
        .right("ranks", |row| row.ranks.clone())
        .left("stage", |row| code(row.stage))
        .right("median step ms", |row| ms3(row.values[0]))
        .right("worst ms", |row| ms3(row.values[1]))
        .id("of rank", |row| row.values[2].to_string())
        .right("median GPU work ms", |row| ms3(row.values[3]))
        .markdown_with_rest_in("job.json")
        + &noted(
            &rows,
            "Each rank has a median step and a median GPU work (without collectives) in each minute. A row has the \
             median of these, and the longest median step with its rank.",
        )
}

/// What the numbers of a table are, if it has rows.
fn noted<T>(rows: &[T], note: &str) -> String {
    if rows.is_empty() { String::new() } else { paragraph(note) }
}

fn amounts(rows: &[(String, u64)], what: &str, show: fn(u64) -> String) -> String {
    if rows.is_empty() {
        return String::new();
    }
    Table::new(rows)
        .left(what, |(name, _)| code(name))
        .right("amount", |(_, value)| show(*value))
        .markdown_with_rest_in("job.json")
}

fn clocks(job: &Job) -> Vec<String> {
    let clocks = &job.clocks;
    let mut lines = Vec::new();
    lines.extend(clocks.error_ns.map(|ns| {
        format!(
            "Once the clocks of all files are tied by the ends of common collectives, these ends are {} apart in the \
             median. How late a rank is rests on durations, and on no common clock.",
            shown_time(ns as f64)
        )
    }));
    lines.extend(
        clocks.apart.iter().map(|(host, ms)| {
            format!("To the clock of {} {ms} ms were added.", code_in_text(host))
        }),
    );
    lines.extend(clocks.moved.map(|(ms, rank)| {
        format!("The wall clock of rank {rank} moved by {} ms meanwhile.", count(ms))
    }));
    lines.extend(job.clock_mhz.map(|mhz| format!("GPUs ran at {} MHz in the median.", count(mhz))));
    lines
}

/// What is not there.
fn losses(job: &Job) -> Vec<String> {
    let files = &job.files;
    let mut lines = Vec::new();
    if let Some(expected) = job.expected.filter(|&expected| expected > job.ranks) {
        let missing: Vec<String> = job.missing.iter().map(u64::to_string).collect();
        let missing = listed(&missing, 2 * LISTED);
        let (seen, expected) = (count(job.ranks), count(expected));
        lines.push(format!("Ranks: {seen} of {expected} were seen. Missing: {missing}."));
    }
    let Files { read, doubled, torn, damaged_frames, unreadable, empty, .. } = *files;
    let mut told = |number: u64, noun: &str, what: &str| {
        if number > 0 {
            lines.push(format!("{} {what}.", counted(number, noun)));
        }
    };
    told(job.without_rank, "process", "reported no rank");
    told(doubled, "file", "had the ranks of another file, and did not count");
    told(torn, "file", "ended within a frame: the rank was killed, or still runs");
    told(damaged_frames, "frame", "was damaged or made no sense, and did not count");
    told(files.unknown_frames, "frame", "was of a kind that this version does not know");
    told(unreadable, "file", "could not be read");
    told(empty, "file", "held no minute");
    told(
        files.in_part,
        "process",
        "recorded a part of the run only: its collectives are not compared",
    );
    told(
        job.collectives.incomplete,
        "sampled collective",
        "lacked members, and counted without them",
    );
    told(job.collectives.alone, "sampled collective", "was known of one member alone");
    told(job.collectives.dropped, "sampled collective", "found no room");
    if files.of_other_jobs > 0 {
        let (files, jobs) =
            (counted(files.of_other_jobs, "file"), counted(files.other_jobs, "other job"));
        lines.push(format!("{files} of {jobs} did not count: give each job a separate folder."));
    }
    for (rank, processes) in &job.restarted {
        lines.push(format!("Rank {rank} had {processes} processes, one after the other."));
    }
    if !lines.is_empty() || files.named.is_empty() {
        lines.push(format!("{} read.", counted(read, "file")));
    }
    lines.extend(
        files.named.iter().map(|(path, why)| format!("{} {}.", code_in_text(path), plain(why))),
    );
    lines
}

/// A name in a sentence, which escapes it as a whole.
fn seconds_of(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1e9)
}

/// A minute, as date and time.
pub(crate) fn time(minute: u64) -> String {
    // Days to a date: eras of 400 years begin in March, so that leap days come last.
    let days = seconds(minute).div_euclid(86_400) + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let date = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year + era * 400 + i64::from(month < 3);
    format!("{year:04}-{month:02}-{date:02} {}", clock(minute))
}

/// A minute, as time of the day.
pub(crate) fn clock(minute: u64) -> String {
    let of_day = minute % 1_440;
    format!("{:02}:{:02}", of_day / 60, of_day % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_summary::job::{Heat, HeatRow};

    #[test]
    fn minutes_are_dates_in_utc() {
        for (minute, shown) in [
            (0, "1970-01-01 00:00"),
            (15_778_079, "1999-12-31 23:59"),
            (15_863_040, "2000-02-29 00:00"),
            (29_927_500, "2026-11-25 23:40"),
        ] {
            assert_eq!(time(minute), shown, "{minute}");
        }
        time(u64::MAX);
    }

    /// A job of so many ranks with every cell of its heat maps in use.
    fn large(ranks: u64) -> Job {
        let row_ranks = (ranks / 128).next_power_of_two();
        let rows = ranks.div_ceil(row_ranks);
        let cells = (0..rows).flat_map(|row| {
            (0..120).map(move |column| (row, column, (row * 7 + column * 13) % 97 * 1_000_000))
        });
        let stage = |name: &str, row: u64| {
            (name.to_owned(), [90_000_000, 95_000_000, row, 80_000_000 + row])
        };
        Job {
            ranks,
            hosts: ranks / 8,
            expected: Some(ranks + 5),
            missing: vec![1, 2, 3, 4, 5],
            late: (0..20)
                .map(|rank| LateRank {
                    rank: Some(rank),
                    hosts: vec!["<b>node</b>|`x`".into(); 9],
                    episodes: vec![(29_000_000, 29_000_004); 8],
                    minutes: 40,
                    waited_ns: 5_000_000_000_000,
                    ..LateRank::default()
                })
                .collect(),
            heat: Heat { column_minutes: 4, row_ranks, cells: cells.collect() },
            rows: (0..rows)
                .map(|row| HeatRow {
                    first_rank: row * row_ranks,
                    stages: vec![stage("prefill", row), stage("decode", row)],
                })
                .collect(),
            files: Files {
                named: vec![("a\u{202e}b.s2s".into(), "cannot be read".into()); 16],
                ..Files::default()
            },
            ..Job::default()
        }
    }

    /// Hazard (Jobs of many ranks): A job has ten thousand ranks, all of them late at times, and names that are markup.
    /// Promise: Pages below 1 MB without a line of more than some kilobytes, in which names are text.
    #[test]
    fn the_pages_of_a_large_job_stay_small_and_escape_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let paths = write_job(&large(10_000), folder.path()).expect("the folder takes files");
        for path in paths {
            let content = std::fs::read_to_string(&path).expect("it was written");
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            assert!(content.len() < 1_000_000, "{name}: {} bytes", content.len());
            let longest = content.lines().map(str::len).max().unwrap_or(0);
            assert!(longest < 8_192 || name.ends_with("json"), "{name}: a line of {longest} bytes");
            assert!(!content.contains("<b>node") || !name.ends_with("html"), "{name}");
            assert!(!name.ends_with("html") || content.contains("<svg"), "{name}");
        }
    }
}
