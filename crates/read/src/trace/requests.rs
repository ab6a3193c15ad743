//! Records of requests that ended -> their times, their tokens and the steps that worked on them.
//!
//! A record is a range called [`REQUEST_RANGE`](stage2_contract::text::REQUEST_RANGE) with the
//! fields below. An engine writes it when a request ends, so it writes nothing for each request in
//! each step.

use strum::EnumString;

use super::stats::{Series, Share};

/// Maximum number of requests that are kept one by one. Further requests are in the distributions
/// only.
const KEPT: usize = 1 << 17;
/// Maximum number of times of a distribution that are kept one by one.
const KEPT_TIMES: usize = 1 << 15;
/// Maximum number of records that are open at the same time. With more, the reader ignores the
/// oldest ones.
const MOST_OPEN: usize = 1 << 6;
/// Maximum number of tokens of a request, and of steps of an engine.
const MOST: u64 = 1 << 40;

/// Identifier of an engine of a run.
pub type EngineId = u64;

/// The engine of a step of the process of this index. A program that numbers its steps from 1 is its own
/// engine.
pub fn engine_of(process: usize, step: u64) -> EngineId {
    match step >> 32 {
        0 => u64::MAX - process as u64,
        id => id,
    }
}

/// A field of the record of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString)]
#[strum(serialize_all = "snake_case")]
enum RequestField {
    Request,
    ArrivedNs,
    QueueNs,
    FirstTokenNs,
    TotalNs,
    PromptTokens,
    CachedTokens,
    OutputTokens,
    FirstStep,
    PromptStep,
    LastStep,
    PromptSteps,
    Preemptions,
    Aborted,
    DraftTokens,
    AcceptedTokens,
}

/// A request that ended. A value that its record lacks is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Number of the request in the process that scheduled it.
    pub number: u64,
    /// Time of arrival, ns on the host's monotonic clock.
    pub arrived: Option<u64>,
    /// Time from its arrival to the scheduling of its first step, ns.
    pub queue_ns: Option<u64>,
    /// Time from its arrival to its first token, ns.
    pub first_token_ns: Option<u64>,
    /// Time from its arrival to its end, ns.
    pub total_ns: Option<u64>,
    /// Number of prompt tokens.
    pub prompt_tokens: u64,
    /// Number of cached prompt tokens, which no step read.
    pub cached_tokens: u64,
    /// Number of output tokens.
    pub output_tokens: u64,
    /// The steps that worked on it; `None`: no step did.
    pub steps: Option<RequestSteps>,
    /// Number of preemptions.
    pub preemptions: u64,
    /// Whether it was aborted.
    pub aborted: bool,
    /// Number of drafted tokens that steps verified.
    pub draft_tokens: u64,
    /// Number of drafted tokens that were accepted.
    pub accepted_tokens: u64,
}

/// The steps that worked on a request, by
/// [`NumberedStep::number`](super::engine_steps::NumberedStep::number).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestSteps {
    /// The first step.
    pub first: u64,
    /// The step that read the end of its prompt.
    pub prompt: u64,
    /// The last step.
    pub last: u64,
    /// Number of steps that read its prompt; at least 1.
    pub of_prompt: u64,
}

impl Request {
    /// Returns the request of a record with these fields; `None` if they contradict each other.
    fn of_fields<'f>(fields: impl Iterator<Item = (&'f [u8], u64)>) -> Option<Self> {
        let mut request = Self::default();
        let (mut first, mut prompt, mut last, mut of_prompt) = (None, None, None, 0);
        for (name, value) in fields {
            let name = std::str::from_utf8(name).ok().and_then(|name| name.parse().ok());
            let Some(field) = name else { continue };
            match field {
                RequestField::Request => request.number = value,
                RequestField::ArrivedNs => request.arrived = Some(value),
                RequestField::QueueNs => request.queue_ns = Some(value),
                RequestField::FirstTokenNs => request.first_token_ns = Some(value),
                RequestField::TotalNs => request.total_ns = Some(value),
                RequestField::PromptTokens => request.prompt_tokens = value,
                RequestField::CachedTokens => request.cached_tokens = value,
                RequestField::OutputTokens => request.output_tokens = value,
                RequestField::FirstStep => first = Some(value),
                RequestField::PromptStep => prompt = Some(value),
                RequestField::LastStep => last = Some(value),
                RequestField::PromptSteps => of_prompt = value,
                RequestField::Preemptions => request.preemptions = value,
                RequestField::Aborted => request.aborted = value != 0,
                RequestField::DraftTokens => request.draft_tokens = value,
                RequestField::AcceptedTokens => request.accepted_tokens = value,
            }
        }
        request.steps = first.zip(last).map(|(first, last)| RequestSteps {
            first,
            // Aborted while its prompt was read: all of its steps read the prompt.
            prompt: prompt.unwrap_or(last),
            last,
            of_prompt: of_prompt.max(1),
        });
        request.is_sound().then_some(request)
    }

    fn is_sound(&self) -> bool {
        let in_order = |a: Option<u64>, b: Option<u64>| a.zip(b).is_none_or(|(a, b)| a <= b);
        let steps = self.steps.is_none_or(|steps| {
            let RequestSteps { first, prompt, last, of_prompt } = steps;
            first <= prompt
                && prompt <= last
                && last - first < MOST
                && of_prompt - 1 <= prompt - first
        });
        in_order(self.queue_ns, self.first_token_ns)
            && in_order(self.first_token_ns, self.total_ns)
            && in_order(self.queue_ns, self.total_ns)
            && self.cached_tokens <= self.prompt_tokens
            && self.prompt_tokens < MOST
            && self.output_tokens < MOST
            && self.accepted_tokens <= self.draft_tokens
            && self.draft_tokens < MOST
            && steps
    }

    /// Mean time per output token after the first one, ns; `None` for a request with fewer than two
    /// output tokens, and for an aborted one.
    pub fn token_ns(&self) -> Option<u64> {
        let after_first = self.total_ns?.checked_sub(self.first_token_ns?)?;
        let tokens = self.output_tokens.checked_sub(1).filter(|&tokens| tokens > 0)?;
        (!self.aborted).then_some(after_first / tokens)
    }
}

/// The requests that ended in one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// The first requests that ended.
    pub kept: Vec<Request>,
    /// Number of requests beyond the limit for `kept`; the distributions include them.
    pub others: u64,
    /// Number of records that are not used: their numbers contradict each other, or the request had
    /// already ended.
    pub unsound: u64,
    /// Number of requests that were aborted.
    pub aborted: u64,
    /// Number of requests that were preempted.
    pub preempted: u64,
    /// Number of prompt tokens.
    pub prompt_tokens: u64,
    /// Number of cached prompt tokens.
    pub cached_tokens: u64,
    /// Number of output tokens.
    pub output_tokens: u64,
    /// Number of drafted tokens that were verified.
    pub draft_tokens: u64,
    /// Number of drafted tokens that were accepted.
    pub accepted_tokens: u64,
    /// [`Request::queue_ns`].
    pub queue: Series,
    /// [`Request::first_token_ns`].
    pub first_token: Series,
    /// [`Request::token_ns`].
    pub token: Series,
    /// [`Request::total_ns`] of the requests that were not aborted.
    pub total: Series,
}

impl Requests {
    /// Number of requests.
    pub fn count(&self) -> u64 {
        (self.kept.len() as u64).saturating_add(self.others)
    }

    /// Adds the sums and distributions of another process, without its single requests.
    pub fn add_sums(&mut self, other: &Self) {
        self.others = self.others.saturating_add(other.count());
        for (sum, more) in [
            (&mut self.unsound, other.unsound),
            (&mut self.aborted, other.aborted),
            (&mut self.preempted, other.preempted),
            (&mut self.prompt_tokens, other.prompt_tokens),
            (&mut self.cached_tokens, other.cached_tokens),
            (&mut self.output_tokens, other.output_tokens),
            (&mut self.draft_tokens, other.draft_tokens),
            (&mut self.accepted_tokens, other.accepted_tokens),
        ] {
            *sum = sum.saturating_add(more);
        }
        self.queue.merge(&other.queue);
        self.first_token.merge(&other.first_token);
        self.token.merge(&other.token);
        self.total.merge(&other.total);
    }

    fn add(&mut self, request: &Request) {
        self.aborted += u64::from(request.aborted);
        self.preempted += u64::from(request.preemptions > 0);
        for (sum, more) in [
            (&mut self.prompt_tokens, request.prompt_tokens),
            (&mut self.cached_tokens, request.cached_tokens),
            (&mut self.output_tokens, request.output_tokens),
            (&mut self.draft_tokens, request.draft_tokens),
            (&mut self.accepted_tokens, request.accepted_tokens),
        ] {
            *sum = sum.saturating_add(more);
        }
        for (series, value) in [
            (&mut self.queue, request.queue_ns),
            (&mut self.first_token, request.first_token_ns),
            (&mut self.token, request.token_ns()),
            (&mut self.total, request.total_ns.filter(|_| !request.aborted)),
        ] {
            if let Some(value) = value {
                series.push(value);
                series.fold(KEPT_TIMES);
            }
        }
    }
}

/// Collects the records of requests of a process.
#[derive(Debug, Default)]
pub(super) struct RequestRecords {
    found: Requests,
    /// Ranges that are records, until their fields are read.
    open: Vec<u64>,
    /// Numbers of the requests that are kept. The keys come from a file that is not trusted.
    numbers: foldhash::HashSet<u64>,
    share: Share,
}

impl RequestRecords {
    pub(super) fn within(share: Share) -> Self {
        Self { share, ..Self::default() }
    }

    /// Notes the begin of a range that is a record.
    pub(super) fn open(&mut self, range: u64) {
        if self.open.len() >= MOST_OPEN {
            self.open.remove(0);
        }
        self.open.push(range);
    }

    /// Notes the end of a range that may be a record.
    pub(super) fn close(&mut self, range: u64) {
        self.open.retain(|&open| open != range);
    }

    /// Reads the fields of a range; returns whether the range is a record.
    pub(super) fn fields<'f>(
        &mut self,
        range: u64,
        fields: impl Iterator<Item = (&'f [u8], u64)>,
    ) -> bool {
        if !self.open.contains(&range) {
            return false;
        }
        self.close(range);
        let request = Request::of_fields(fields);
        match request.filter(|request| !self.numbers.contains(&request.number)) {
            None => self.found.unsound += 1,
            Some(request) => {
                self.found.add(&request);
                if self.found.kept.len() < self.share.of(KEPT) {
                    self.numbers.insert(request.number);
                    self.found.kept.push(request);
                } else {
                    self.found.others += 1;
                }
            }
        }
        true
    }

    pub(super) fn finish(self) -> Requests {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: [(&str, u64); 12] = [
        ("request", 1),
        ("arrived_ns", 1_000),
        ("queue_ns", 10),
        ("first_token_ns", 40),
        ("total_ns", 100),
        ("prompt_tokens", 64),
        ("cached_tokens", 16),
        ("output_tokens", 4),
        ("first_step", 7),
        ("prompt_step", 8),
        ("last_step", 11),
        ("prompt_steps", 2),
    ];

    /// Adds a record with `fields`. Of several fields of one name, the last one counts.
    fn take(records: &mut RequestRecords, fields: &[(&str, u64)]) {
        records.open(5);
        let fields = fields.iter().map(|(name, value)| (name.as_bytes(), *value));
        assert!(records.fields(5, fields));
    }

    fn with(changes: &[(&'static str, u64)]) -> Requests {
        let mut records = RequestRecords::default();
        take(&mut records, &[&SOUND[..], changes].concat());
        records.finish()
    }

    #[test]
    fn a_record_is_the_times_the_tokens_and_the_steps_of_a_request() {
        let found = with(&[]);
        let steps = RequestSteps { first: 7, prompt: 8, last: 11, of_prompt: 2 };
        assert_eq!(found.kept[0].steps, Some(steps));
        assert_eq!(
            (found.count(), found.first_token.median(), found.queue.max()),
            (1, Some(40), Some(10))
        );
        // Three tokens after the first one.
        assert_eq!(found.token.median(), Some(20));
        assert_eq!((found.prompt_tokens, found.cached_tokens, found.output_tokens), (64, 16, 4));
        let drafted = with(&[("draft_tokens", 9), ("accepted_tokens", 4)]);
        assert_eq!((drafted.draft_tokens, drafted.accepted_tokens), (9, 4));
        let aborted = with(&[("aborted", 1), ("output_tokens", 1)]);
        assert_eq!((aborted.aborted, aborted.token.count(), aborted.total.count()), (1, 0, 0));
    }

    #[test]
    fn a_record_that_contradicts_itself_is_counted_and_used_nowhere() {
        for change in [
            ("queue_ns", 41),
            ("first_token_ns", 101),
            ("cached_tokens", 65),
            ("first_step", 9),
            ("prompt_step", 12),
            ("last_step", u64::MAX),
            ("prompt_steps", 3),
            ("prompt_steps", u64::MAX),
            ("output_tokens", u64::MAX),
            ("accepted_tokens", 1),
            ("draft_tokens", u64::MAX),
        ] {
            let found = with(&[change]);
            let unsound = Requests { unsound: 1, ..Requests::default() };
            assert_eq!(found, unsound, "{change:?}");
        }
    }

    #[test]
    fn a_request_that_ends_twice_counts_once_and_other_ranges_are_no_records() {
        let mut records = RequestRecords::default();
        take(&mut records, &SOUND);
        take(&mut records, &SOUND);
        let fields = SOUND.iter().map(|(name, value)| (name.as_bytes(), *value));
        assert!(!records.fields(6, fields));
        let found = records.finish();
        assert_eq!((found.count(), found.unsound, found.output_tokens), (1, 1, 4));
    }

    #[test]
    fn a_million_requests_are_bounded_and_all_of_them_are_in_the_distributions() {
        let mut records = RequestRecords::default();
        for number in 0..1_000_000 {
            records.open(number);
            let fields = [("request", number), ("first_token_ns", number), ("output_tokens", 2)];
            records.fields(number, fields.iter().map(|(name, value)| (name.as_bytes(), *value)));
            // Some records never have fields.
            if number < 1_000 {
                records.open(u64::MAX - number);
            }
        }
        assert!(records.open.len() <= MOST_OPEN);
        let found = records.finish();
        assert_eq!((found.kept.len(), found.count()), (KEPT, 1_000_000));
        assert_eq!((found.first_token.count(), found.output_tokens), (1_000_000, 2_000_000));
        let median = found.first_token.median().expect("a median") as f64;
        assert!((median / 500_000.0 - 1.0).abs() < 0.02, "{median}");
    }
}
