//! Records of requests, and numbered steps -> the latencies and the GPU time of requests.
//!
//! The time of a step is shared without a list of its requests. The code builds prefix sums over
//! the steps, of the time for each unit of share. The share of a request is the difference between
//! two of these sums.

use std::collections::{BTreeMap, BTreeSet};

use stage2_contract::order::{IntoOrdered as _, Order as _};
use stage2_model::{
    EngineRequests, Report, RequestCost, RequestRow, Spread, StageEnergy, StepCost, TokenCost,
};
use stage2_read::engine::StepKind;
use stage2_read::trace::ProcessCapture;
use stage2_read::trace::engine_steps::NumberedStep;
use stage2_read::trace::requests::{EngineId, Request, RequestSteps, Requests, engine_of};
use stage2_read::trace::stats::{EXACT_VALUES, Series};

/// Maximum number of requests that are shown one by one.
const MOST_ROWS: usize = 10;
/// A 90th percentile needs at least this many values.
const P90_VALUES: u64 = 10;
/// Relative difference above which prompt tokens do not match the known requests.
const ALIKE: f64 = 0.01;

/// The steps of one engine, as one of its ranks ran them.
#[derive(Default)]
struct Engine {
    /// Ascending by number.
    steps: Vec<NumberedStep>,
    /// Number of steps of that rank beyond the limit of the reader.
    other_steps: u64,
    /// Number of GPUs of all ranks.
    gpus: u64,
    /// Host of that rank: hosts have their own clocks.
    host: String,
}

/// GPUs that a process ran steps on.
fn gpus_of(process: &ProcessCapture) -> u64 {
    (process.device_busy.len() as u64).max(1)
}

fn engines(processes: &[ProcessCapture]) -> BTreeMap<EngineId, Engine> {
    let mut engines: BTreeMap<EngineId, Engine> = BTreeMap::new();
    for (index, process) in processes.iter().enumerate() {
        let mut ranks: BTreeMap<EngineId, Vec<NumberedStep>> = BTreeMap::new();
        for &step in &process.engine.numbered {
            ranks.entry(engine_of(index, step.number)).or_default().push(step);
        }
        for (id, steps) in ranks {
            let engine = engines.entry(id).or_default();
            engine.gpus += gpus_of(process);
            if steps.len() > engine.steps.len() {
                engine.host = host_of(process).unwrap_or_default();
                (engine.steps, engine.other_steps) = (steps, process.engine.more_numbered);
            }
        }
    }
    for engine in engines.values_mut() {
        engine.steps.order_by_key(|step| step.number);
        engine.steps.dedup_by_key(|step| step.number);
    }
    engines
}

fn host_of(process: &ProcessCapture) -> Option<String> {
    process.process.as_ref().map(|process| process.host.clone())
}

/// Latencies and costs of the requests of a run; `None` if no request is recorded.
pub(super) fn of_run(processes: &[ProcessCapture]) -> Option<EngineRequests> {
    let mut all = Requests::default();
    processes.iter().for_each(|process| all.add_sums(&process.requests));
    if all.count() == 0 && all.unsound == 0 {
        return None;
    }
    let engines = engines(processes);
    let mut by_engine: BTreeMap<EngineId, Vec<(usize, &Request)>> = BTreeMap::new();
    for (index, process) in processes.iter().enumerate() {
        for request in &process.requests.kept {
            let id = request.steps.map_or(0, |steps| engine_of(index, steps.first));
            by_engine.entry(id).or_default().push((index, request));
        }
    }
    // A program may make one engine after the other on the same GPUs.
    let with_steps = processes.iter().filter(|process| !process.engine.numbered.is_empty());
    let mut cost = RequestCost { gpus: with_steps.map(gpus_of).sum(), ..RequestCost::default() };
    for process in processes {
        let gpu_ns = process.engine.unnumbered_ns.saturating_mul(gpus_of(process));
        add(&mut cost.unnumbered_gpu_ns, gpu_ns);
    }
    let mut extents: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    let mut gpu_times = Series::default();
    let mut rows: Vec<(usize, &Request, Option<u64>)> = Vec::new();
    let mut kinds: BTreeMap<StepKind, StepCost> = BTreeMap::new();
    for (id, engine) in &engines {
        let of_engine = by_engine.remove(id).unwrap_or_default();
        let requests: Vec<&Request> = of_engine.iter().map(|(_, request)| *request).collect();
        let shares = Shares::new(&engine.steps, &requests);
        let gpus = engine.gpus;
        add(&mut cost.other_steps, engine.other_steps);
        let (first, last) = (engine.steps.first(), engine.steps.last());
        if let Some((first, last)) = first.zip(last) {
            let end = last.begin.saturating_add(last.ns);
            let extent = end.saturating_sub(first.begin);
            add(&mut cost.run_gpu_ns, extent.saturating_mul(gpus));
            let of_host = extents.entry(&engine.host).or_insert((first.begin, end));
            *of_host = (of_host.0.min(first.begin), of_host.1.max(end));
        }
        add(&mut cost.approximate_gpu_ns, whole_ns(shares.approximate_ns).saturating_mul(gpus));
        for (step, input_ns) in engine.steps.iter().zip(&shares.input_of_steps) {
            add(&mut cost.steps_gpu_ns, step.ns.saturating_mul(gpus));
            let kind = kinds.entry(step.kind).or_default();
            add(&mut kind.gpu_ns, step.ns.saturating_mul(gpus));
            add(&mut kind.input_gpu_ns, whole_ns(*input_ns).saturating_mul(gpus));
        }
        for ((process, request), share) in of_engine.into_iter().zip(&shares.of_requests) {
            let input_ns = whole_ns(share.input_ns).saturating_mul(gpus);
            let output_ns = whole_ns(share.output_ns).saturating_mul(gpus);
            let gpu_ns = input_ns.saturating_add(output_ns);
            rows.push((process, request, Some(gpu_ns).filter(|_| share.is_known)));
            if !share.is_known {
                continue;
            }
            gpu_times.push(gpu_ns);
            add(&mut cost.requests_gpu_ns, gpu_ns);
            // Of one that was given up before its first token, the part that was read is not known.
            if share.is_whole && (!request.aborted || request.output_tokens > 0) {
                cost.whole_requests += 1;
                add(&mut cost.input.tokens, request.prompt_tokens);
                add(&mut cost.input.gpu_ns, input_ns);
                add(&mut cost.output.tokens, request.output_tokens);
                add(&mut cost.output.gpu_ns, output_ns);
            }
        }
    }
    // No step of these requests is known.
    let without = by_engine.into_values().flatten();
    rows.extend(without.map(|(process, request)| (process, request, None)));
    gpu_times.fold(EXACT_VALUES);
    cost.gpu_time = spread(&gpu_times);
    cost.kinds = kinds
        .into_iter()
        .map(|(kind, cost)| StepCost { stage: kind.to_string(), ..cost })
        .collect();
    let longest = extents.values().map(|(begin, end)| end.saturating_sub(*begin)).max();
    let seconds = longest.unwrap_or(0) as f64 / 1e9;
    for of in [&mut cost.input, &mut cost.output] {
        of.tokens_per_s = (seconds > 0.0).then(|| of.tokens as f64 / seconds);
    }
    rows.order_by_key(|(_, request, _)| std::cmp::Reverse(request.first_token_ns));
    let row = |&(process, request, gpu_ns): &(usize, &Request, Option<u64>)| RequestRow {
        number: request.number,
        file: processes[process].file.clone(),
        prompt_tokens: request.prompt_tokens,
        cached_tokens: request.cached_tokens,
        output_tokens: request.output_tokens,
        queue_ns: request.queue_ns,
        first_token_ns: request.first_token_ns,
        token_ns: request.token_ns(),
        gpu_ns,
        preemptions: request.preemptions,
    };
    Some(EngineRequests {
        requests: all.count(),
        aborted: all.aborted,
        preempted: all.preempted,
        unsound_records: all.unsound,
        prompt_tokens: all.prompt_tokens,
        cached_tokens: all.cached_tokens,
        output_tokens: all.output_tokens,
        draft_tokens: all.draft_tokens,
        accepted_tokens: all.accepted_tokens,
        queue: spread(&all.queue),
        first_token: spread(&all.first_token),
        token: spread(&all.token),
        total: spread(&all.total),
        cost: (!engines.is_empty()).then_some(cost),
        slowest: rows.iter().take(MOST_ROWS).map(row).collect(),
    })
}

fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

/// Whole nanoseconds, so that the sum over requests never exceeds the total.
fn whole_ns(ns: f64) -> u64 {
    ns as u64
}

fn spread(series: &Series) -> Spread {
    let enough = series.count() >= P90_VALUES;
    Spread {
        count: series.count(),
        mean_ns: series.mean(),
        p50_ns: series.median(),
        p90_ns: enough.then(|| series.percentile(90)).flatten(),
        p99_ns: series.p99(),
        max_ns: series.max(),
    }
}

/// Share of a request in the time of the steps of one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct RequestShare {
    input_ns: f64,
    output_ns: f64,
    /// Whether at least one of its steps is known.
    is_known: bool,
    /// Whether all of its steps are known.
    is_whole: bool,
}

/// The shares of all requests of an engine.
struct Shares {
    of_requests: Vec<RequestShare>,
    /// For each step, the part of its time that belongs to prompt tokens, ns.
    input_of_steps: Vec<f64>,
    /// Time of the steps whose tokens do not match the requests, ns.
    approximate_ns: f64,
}

impl Shares {
    fn new(steps: &[NumberedStep], requests: &[&Request]) -> Self {
        let places: Vec<Place> = requests.iter().map(|request| Place::of(steps, request)).collect();
        // Change of each sum at a step.
        let mut weights = vec![0.0; steps.len() + 1];
        let mut decoding = vec![0i64; steps.len() + 1];
        for place in &places {
            weights[place.begin] += place.weight;
            weights[place.decode] -= place.weight;
            decoding[place.decode] += 1;
            decoding[place.end] -= 1;
        }
        let (mut weight, mut decodes) = (0.0, 0);
        let (mut input_sum, mut output_sum) = (0.0, 0.0);
        let mut input_sums = vec![0.0];
        let mut output_sums = vec![0.0];
        let mut input_of_steps = Vec::with_capacity(steps.len());
        let mut approximate_ns = 0.0;
        for (at, step) in steps.iter().enumerate() {
            weight += weights[at];
            decodes += decoding[at];
            let ns = step.ns as f64;
            let prompt_tokens = f64::from(step.prefill_tokens);
            let tokens = (prompt_tokens + f64::from(step.decode_tokens)).max(1.0);
            let input_ns = ns * prompt_tokens / tokens;
            input_of_steps.push(input_ns);
            let requests = f64::from(step.decode_requests);
            let known = decodes as f64;
            // Requests without a record have a share too; requests that a step skipped have none.
            input_sum += input_ns / prompt_tokens.max(weight).max(1.0);
            output_sum += (ns - input_ns) / requests.max(known).max(1.0);
            input_sums.push(input_sum);
            output_sums.push(output_sum);
            // The tolerance is for rounding in the sums of weights; a real difference is at least a
            // token.
            if known > requests || weight > prompt_tokens * (1.0 + ALIKE) + 0.5 {
                approximate_ns += ns;
            }
        }
        let share = |place: &Place| RequestShare {
            input_ns: place.weight * (input_sums[place.decode] - input_sums[place.begin]),
            output_ns: output_sums[place.end] - output_sums[place.decode],
            is_known: place.begin < place.end,
            is_whole: place.is_whole,
        };
        let of_requests = places.iter().map(share).collect();
        Self { of_requests, input_of_steps, approximate_ns }
    }
}

/// Place of a request in the sequence of steps: steps from `begin` to `decode` read its prompt, and
/// steps from there to `end` decode.
#[derive(Clone, Copy, Debug)]
struct Place {
    begin: usize,
    decode: usize,
    end: usize,
    /// Mean number of prompt tokens in a step that reads its prompt.
    weight: f64,
    is_whole: bool,
}

impl Place {
    fn of(steps: &[NumberedStep], request: &Request) -> Self {
        let Some(RequestSteps { first, prompt, last, of_prompt }) = request.steps else {
            return Self { begin: 0, decode: 0, end: 0, weight: 0.0, is_whole: false };
        };
        let begin = steps.partition_point(|step| step.number < first);
        let decode = steps.partition_point(|step| step.number <= prompt);
        let end = steps.partition_point(|step| step.number <= last);
        let read = request.prompt_tokens - request.cached_tokens.min(request.prompt_tokens);
        let is_known = |at: usize, number| steps.get(at).is_some_and(|step| step.number == number);
        Self {
            begin,
            decode: decode.max(begin),
            end: end.max(decode).max(begin),
            weight: read as f64 / of_prompt.max(1) as f64,
            is_whole: is_known(begin, first)
                && end.checked_sub(1).is_some_and(|at| is_known(at, last)),
        }
    }
}

/// The part of the pauses of `process` in which a request waited, ns; `None` if no arrival is
/// known, or not that of every request that ended. A request waits from its arrival until a step
/// starts it.
pub(super) fn waiting_ns(process: &ProcessCapture, processes: &[ProcessCapture]) -> Option<u64> {
    let found = &process.engine;
    let has_all = processes.iter().all(|process| process.requests.others == 0);
    if found.pauses != found.pause_spans.len() as u64 || !has_all {
        return None;
    }
    let index = processes.iter().position(|other| std::ptr::eq(other, process))?;
    let ids: BTreeSet<EngineId> =
        found.numbered.iter().map(|step| engine_of(index, step.number)).into_set();
    let host = host_of(process);
    let alike = processes.iter().enumerate().filter(|(_, other)| host_of(other) == host);
    let mut waits: Vec<(u64, u64)> = Vec::new();
    for (at, other) in alike {
        for request in &other.requests.kept {
            let of_engine =
                request.steps.is_some_and(|steps| ids.contains(&engine_of(at, steps.first)));
            let wait = request.arrived.zip(request.queue_ns).filter(|_| of_engine);
            waits.extend(wait.map(|(arrived, ns)| (arrived.saturating_add(ns), arrived)));
        }
    }
    if waits.is_empty() {
        return None;
    }
    waits.sort_unstable();
    // The earliest arrival among the requests that were scheduled this late or later.
    let mut earliest = u64::MAX;
    for (_, arrived) in waits.iter_mut().rev() {
        earliest = earliest.min(*arrived);
        *arrived = earliest;
    }
    let waiting = |&(begin, end): &(u64, u64)| {
        let first = waits.partition_point(|(scheduled, _)| *scheduled < begin);
        waits.get(first).map_or(0, |(_, arrived)| end.saturating_sub((*arrived).max(begin)))
    };
    Some(found.pause_spans.iter().map(waiting).fold(0, u64::saturating_add))
}

/// Computes the energy and the price of a token. The rest of the report is complete.
pub(crate) fn conclude(report: &mut Report, gpu_hour_dollars: Option<f64>) {
    // Of each GPU: the steps of a stage are more than the warm ones that its energy is of.
    let watts = |row: &StageEnergy| {
        Some((row.stage.clone(), row.mean_power_w.value()? / row.devices.len().max(1) as f64))
    };
    let watts: BTreeMap<String, f64> = report.energy.iter().filter_map(watts).into_map();
    let cost = report.engine.as_mut().and_then(|run| run.requests.as_mut()?.cost.as_mut());
    let Some(cost) = cost else { return };
    // Energy, J, and GPU time, ns, of prompt tokens and of the others.
    let mut input = Some((0.0, 0.0));
    let mut output = Some((0.0, 0.0));
    for kind in cost.kinds.iter().filter(|kind| kind.gpu_ns > 0) {
        let watts = watts.get(kind.stage.as_str()).copied();
        let (all, of_input) = (kind.gpu_ns as f64, kind.input_gpu_ns as f64);
        for (sums, part) in [(&mut input, of_input), (&mut output, all - of_input)] {
            if part > 0.0 {
                *sums =
                    sums.zip(watts).map(|((sum, ns), watts)| (sum + watts * part / 1e9, ns + part));
            }
        }
    }
    for (of, sums) in [(&mut cost.input, input), (&mut cost.output, output)] {
        let TokenCost { tokens, gpu_ns, .. } = *of;
        if tokens == 0 {
            continue;
        }
        let (tokens, gpu_ns) = (tokens as f64, gpu_ns as f64);
        let known = sums.filter(|(_, ns)| *ns > 0.0);
        of.joules = known.map(|(joules, ns)| joules * gpu_ns / ns / tokens);
        of.dollars_per_million =
            gpu_hour_dollars.map(|dollars| dollars * gpu_ns / 3.6e12 / tokens * 1e6);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_contract::trace::Process;
    use stage2_model::{Absent, ClockUse, EngineRun, Figure};

    /// The part of a step's number that identifies its engine.
    const ENGINE: u64 = 7 << 32;

    /// A step `number` of the engine that reads prompt tokens and decodes for requests.
    fn step(number: u64, ns: u64, prefill_tokens: u32, decode_requests: u32) -> NumberedStep {
        let kind = match (prefill_tokens > 0, decode_requests > 0) {
            (true, true) => StepKind::Mixed,
            (true, false) => StepKind::Prefill,
            (false, _) => StepKind::Decode,
        };
        let (number, begin) = (ENGINE + number, number * 1_000);
        let decode_tokens = decode_requests;
        NumberedStep { number, begin, ns, kind, prefill_tokens, decode_requests, decode_tokens }
    }

    fn request(number: u64, prompt_tokens: u64, steps: [u64; 3]) -> Request {
        let [first, prompt, last] = steps.map(|step| ENGINE + step);
        Request {
            number,
            prompt_tokens,
            output_tokens: last - prompt + 1,
            steps: Some(RequestSteps { first, prompt, last, of_prompt: prompt - first + 1 }),
            ..Request::default()
        }
    }

    /// A process that ran `steps`, and scheduled `requests`.
    fn process(steps: &[NumberedStep], requests: &[Request]) -> ProcessCapture {
        let mut process = ProcessCapture { file: "a.s2t".into(), ..ProcessCapture::default() };
        process.engine.numbered = steps.to_vec();
        process.requests.kept = requests.to_vec();
        process
    }

    fn cost(processes: &[ProcessCapture]) -> RequestCost {
        of_run(processes).and_then(|found| found.cost).expect("a cost")
    }

    /// The share of each request, in the order of their numbers.
    fn taken(processes: &[ProcessCapture]) -> Vec<Option<u64>> {
        let mut rows = of_run(processes).expect("requests").slowest;
        rows.sort_by_key(|row| row.number);
        rows.iter().map(|row| row.gpu_ns).collect()
    }

    /// The first request reads its prompt alone, then decodes while the second reads its own. In
    /// the last step, a request without a record decodes.
    fn example() -> ([NumberedStep; 4], [Request; 2]) {
        let steps = [step(1, 100, 10, 0), step(2, 120, 5, 1), step(3, 60, 0, 2), step(4, 40, 0, 2)];
        (steps, [request(1, 10, [1, 1, 3]), request(2, 5, [2, 2, 4])])
    }

    #[test]
    fn a_request_takes_its_tokens_part_of_each_step() {
        let (steps, requests) = example();
        let processes = [process(&steps, &requests)];
        // The first: 100, a sixth of 120 and half of 60. The second: five sixths of 120, half of 60
        // and half of 40.
        assert_eq!(taken(&processes), [Some(150), Some(150)]);
        let cost = cost(&processes);
        assert_eq!((cost.steps_gpu_ns, cost.requests_gpu_ns), (320, 300), "20 are nobody's");
        assert_eq!((cost.approximate_gpu_ns, cost.whole_requests), (0, 2));
        assert_eq!((cost.input.tokens, cost.input.gpu_ns), (15, 200));
        assert_eq!((cost.output.tokens, cost.output.gpu_ns), (6, 100));
        assert_eq!(cost.run_gpu_ns, 3_040);
        let mixed = cost.kinds.iter().find(|kind| kind.stage == "mixed").expect("mixed steps");
        assert_eq!((mixed.gpu_ns, mixed.input_gpu_ns), (120, 100));
    }

    #[test]
    fn engines_one_after_the_other_share_the_time_and_the_gpus_of_their_process() {
        let (steps, requests) = example();
        let engine = 1u64 << 32;
        let later = |step: &NumberedStep| NumberedStep {
            number: step.number + engine,
            begin: step.begin + 10_000,
            ..*step
        };
        let again = requests.map(|request| Request {
            number: request.number + 2,
            steps: request.steps.map(|steps| RequestSteps {
                first: steps.first + engine,
                prompt: steps.prompt + engine,
                last: steps.last + engine,
                ..steps
            }),
            ..request
        });
        let steps = [steps, steps.each_ref().map(later)].concat();
        let processes = [process(&steps, &[requests, again].concat())];
        assert_eq!(taken(&processes), [Some(150); 4]);
        let cost = cost(&processes);
        assert_eq!((cost.gpus, cost.run_gpu_ns, cost.output.tokens), (1, 2 * 3_040, 12));
        // From 1,000 to 14,040 ns.
        let rate = cost.output.tokens_per_s.expect("a rate");
        assert!((rate - 12.0 / 13_040e-9).abs() < 1.0, "{rate}");
    }

    #[test]
    fn ranks_share_the_steps_of_a_scheduler_in_another_process() {
        let (steps, requests) = example();
        let other = NumberedStep { number: 3, ..step(3, 5, 0, 1) };
        let processes = [
            process(&[], &requests),
            process(&steps, &[]),
            process(&steps, &[]),
            // The engine of another program.
            process(&[other], &[]),
        ];
        assert_eq!(taken(&processes), [Some(300), Some(300)]);
        let cost = cost(&processes);
        assert_eq!((cost.gpus, cost.steps_gpu_ns, cost.requests_gpu_ns), (3, 645, 600));
    }

    #[test]
    fn a_request_that_began_before_the_capture_or_lost_its_place_takes_what_is_left_of_it() {
        let (steps, [first, second]) = example();
        let given_up = Request { aborted: true, output_tokens: 0, ..request(4, 1_000, [1, 1, 1]) };
        let all = cost(&[process(&steps, &[first, second, given_up])]);
        assert_eq!(
            (all.whole_requests, all.input.tokens),
            (2, 15),
            "who knows what was read of it"
        );
        let early = request(1, 10, [0, 1, 3]);
        // No step decodes for more requests than its fields say.
        let skipped = request(3, 1, [1, 1, 4]);
        let processes = [process(&steps[1..], &[early, second, skipped])];
        let cost = cost(&processes);
        assert_eq!((cost.whole_requests, cost.approximate_gpu_ns), (1, 180));
        assert!(cost.requests_gpu_ns <= 220 && cost.requests_gpu_ns >= 214, "{cost:?}");
        // A step that is not recorded, and a request without steps.
        let nowhere = Request { steps: None, ..request(2, 1, [1, 1, 1]) };
        let processes = [process(&steps, &[request(1, 1, [50, 50, 60]), nowhere])];
        assert_eq!(taken(&processes), [None, None]);
    }

    /// Hazard (Records that make no sense): The shares of requests come from sums over many steps.
    /// Promise: They equal the shares of a loop over all requests of each step, and add up to its time.
    #[test]
    fn shares_are_those_of_a_loop_over_the_requests_of_each_step() {
        let mut seed = 3u64;
        let mut chance = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        let requests: Vec<Request> = (0..400)
            .map(|number| {
                let first = 1 + chance(1_000);
                let prompt = first + chance(3);
                request(number, 1 + chance(4_000), [first, prompt, prompt + chance(60)])
            })
            .collect();
        let weight = |request: &Request| {
            request.prompt_tokens as f64 / request.steps.map_or(1, |steps| steps.of_prompt) as f64
        };
        let reads = |request: &&Request, number: u64| {
            request.steps.is_some_and(|s| (s.first..=s.prompt).contains(&(ENGINE + number)))
        };
        let decodes = |request: &&Request, number: u64| {
            let number = ENGINE + number;
            request.steps.is_some_and(|s| s.prompt < number && number <= s.last)
        };
        let mut steps = Vec::new();
        let mut expected = vec![0.0; requests.len()];
        for number in 1..=1_100 {
            let prompt: f64 = requests.iter().filter(|r| reads(r, number)).map(weight).sum();
            let decoding = requests.iter().filter(|r| decodes(r, number)).count() as f64;
            let (ns, prompt_tokens) = (1_000_000 + chance(9_000_000), prompt.ceil());
            let tokens = (prompt_tokens + decoding).max(1.0);
            for (request, sum) in requests.iter().zip(&mut expected) {
                let part = match () {
                    () if reads(&request, number) => {
                        weight(request) / prompt_tokens * (prompt_tokens / tokens)
                    }
                    () if decodes(&request, number) => 1.0 / tokens,
                    () => 0.0,
                };
                *sum += ns as f64 * part;
            }
            steps.push(step(number, ns, prompt_tokens as u32, decoding as u32));
        }
        let all: Vec<&Request> = requests.iter().collect();
        let shares = Shares::new(&steps, &all);
        for (share, expected) in shares.of_requests.iter().zip(&expected) {
            let found = share.input_ns + share.output_ns;
            assert!((found - expected).abs() < 0.01, "{found} {expected}");
        }
        let cost = cost(&[process(&steps, &requests)]);
        assert_eq!((cost.whole_requests, cost.approximate_gpu_ns), (400, 0));
        // Steps without a request, and prompt tokens that were rounded up above, belong to no
        // request.
        let sum: f64 = expected.iter().sum();
        let lost = sum - cost.requests_gpu_ns as f64;
        assert!((0.0..=2.0 * 400.0).contains(&lost), "{lost}");
        assert!(cost.requests_gpu_ns <= cost.steps_gpu_ns);
    }

    #[test]
    fn numbers_beyond_all_bounds_do_no_harm() {
        let most = NumberedStep {
            ns: u64::MAX,
            begin: u64::MAX,
            prefill_tokens: u32::MAX,
            decode_tokens: u32::MAX,
            ..step(1, 0, 1, 1)
        };
        let again = NumberedStep { ns: 5, ..most };
        let request = Request {
            prompt_tokens: u64::MAX,
            output_tokens: u64::MAX,
            ..request(1, 1, [1, 1, 1])
        };
        let found = cost(&[process(&[most, again, step(2, u64::MAX, 0, 0)], &[request; 3])]);
        assert!(found.requests_gpu_ns <= found.steps_gpu_ns, "{found:?}");
        assert_eq!(of_run(&[ProcessCapture::default()]), None);
    }

    #[test]
    fn a_pause_is_split_where_the_first_request_of_the_next_step_arrived() {
        let host = |host: &str| Some(Process { host: host.into(), ..Process::default() });
        let at = |number, arrived, queue_ns| Request {
            arrived: Some(arrived),
            queue_ns: Some(queue_ns),
            ..request(number, 1, [1, 1, 1])
        };
        let mut worker = process(&[step(1, 1, 1, 0)], &[]);
        worker.engine.pause_spans = vec![(100, 200), (300, 400), (500, 600)];
        (worker.engine.pauses, worker.process) = (3, host("a"));
        // One request for each pause: it arrives during, before and after the pause.
        let requests = [at(1, 180, 15), at(2, 250, 145), at(3, 599, 1), at(4, 700, 1)];
        let mut scheduler = process(&[], &requests);
        scheduler.process = host("a");
        let mut elsewhere = process(&[], &[at(5, 0, 1_000)]);
        elsewhere.process = host("b");
        let mut processes = [worker, scheduler, elsewhere];
        assert_eq!(waiting_ns(&processes[0], &processes), Some(20 + 100 + 1));
        processes[1].requests.others = 1;
        let one_is_not_kept = waiting_ns(&processes[0], &processes);
        assert_eq!(one_is_not_kept, None, "it may have waited");
        let [mut worker, ..] = processes;
        assert_eq!(waiting_ns(&worker, &[]), None);
        worker.engine.pauses = 9;
        assert_eq!(waiting_ns(&worker, std::slice::from_ref(&worker)), None);
    }

    #[test]
    fn tokens_have_the_energy_and_the_price_of_their_part_of_the_steps() {
        let (steps, requests) = example();
        let requests = of_run(&[process(&steps, &requests)]);
        let energy = |stage: &str, joules: f64, ns: f64| StageEnergy {
            stage: stage.into(),
            energy_j: Figure::Absent(Absent::NoModel),
            uncertainty_j: None,
            mean_power_w: Figure::of(joules / ns * 1e9),
            joules_per_token: Figure::Absent(Absent::NoModel),
            clocks: ClockUse::default(),
            devices: Vec::new(),
        };
        let run = EngineRun { requests, ..EngineRun::default() };
        let mut report = Report {
            engine: Some(run),
            energy: vec![energy("prefill", 30.0, 100.0), energy("mixed", 12.0, 120.0)],
            ..Report::default()
        };
        let concluded = |report: &mut Report, price| {
            conclude(report, price);
            let cost = report.engine.as_ref()?.requests.as_ref()?.cost.clone()?;
            Some((cost.input, cost.output))
        };
        // The 200 ns of the prompts used 30 J and five sixths of 12 J; the energy of decode steps
        // is not known.
        let (input, output) = concluded(&mut report, None).expect("a cost");
        assert_eq!((input.joules, output.joules), (Some(40.0 / 15.0), None));
        assert_eq!(input.dollars_per_million, None);
        report.energy.push(energy("decode", 8.0, 100.0));
        let (input, output) = concluded(&mut report, Some(3.6)).expect("a cost");
        // 10 J for 120 ns, of which the fully recorded requests used 100 ns.
        let joules = output.joules.expect("known");
        assert!((joules - 10.0 * 100.0 / 120.0 / 6.0).abs() < 1e-9, "{joules}");
        // 3.6 US dollars per hour are 1e-12 US dollars per ns.
        let close = |dollars: Option<f64>, to: f64| dollars.is_some_and(|d| (d - to).abs() < 1e-15);
        assert!(close(input.dollars_per_million, 1e-12 * 200.0 / 15.0 * 1e6), "{input:?}");
        assert!(close(output.dollars_per_million, 1e-12 * 100.0 / 6.0 * 1e6), "{output:?}");
    }
}
