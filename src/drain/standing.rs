//! The last finished and the first unfinished work of each stream, for whoever asks why nothing moves.
//!
//! While a kernel never ends, CUPTI hands out no record of its buffer, of the finished kernels neither. A forced
//! flush hands out all of them: what has not ended has no times, and never gets any
//! (docs/cupti-findings.md). So what it told stays known here until later work of the same stream ends.

use std::time::Duration;

use rustc_hash::FxHashMap;
use stage2_contract::trace::{GpuNs, MonoNs, Queue};

use crate::base::json::{List, Object};
use crate::drain::aggregate::Work;
use crate::drain::intern::Interner;
use crate::guest::activity::Execution;

/// Streams that are told of. Those with unfinished work come first.
const MAX_QUEUES: usize = 32;
/// Names of unfinished work of a stream that are told, and characters of each.
const MAX_NAMES: usize = 8;
const MAX_NAME: usize = 300;
/// Parts of the names of kernels that wait for other GPUs: those of NCCL, and those of engines' own collectives. They
/// are looked for in so many bytes.
const COLLECTIVES: [&str; 6] =
    ["nccl", "cross_device_reduce", "all_reduce", "allreduce", "all_gather", "reduce_scatter"];
const NAME_HEAD: usize = 128;
/// Kernels whose names were looked at.
const MAX_KNOWN: usize = 1 << 16;

/// A piece of work, as it is told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) work: Work,
    pub(super) path: u32,
    pub(super) range: u64,
    pub(super) node: u64,
    pub(super) correlation: u64,
}

#[derive(Debug)]
struct Unfinished {
    first: Piece,
    last_correlation: u64,
    count: u64,
    /// What is behind it, by name.
    names: Vec<(Work, u64)>,
    seen: MonoNs,
}

#[derive(Debug, Default)]
struct Standing {
    queue: Queue,
    last_end: GpuNs,
    last: Option<Piece>,
    finished: u64,
    unfinished: Option<Unfinished>,
    /// Kernels of collectives, finished or not.
    collectives: u64,
}

/// All streams that had work in this window.
#[derive(Default)]
pub(super) struct Queues {
    by_id: FxHashMap<u32, Standing>,
    /// Whether the kernel of a name belongs to a collective.
    collectives: FxHashMap<u32, bool>,
    /// Work that has no times is work that has not ended: what a forced flush handed out is being taken in.
    is_forced: bool,
    /// The current record came without times.
    pub(super) is_untimed: bool,
    /// When the last range closed; 0: none has.
    pub(super) last_close: MonoNs,
    /// When unfinished work was last seen for the first time.
    forced_at: MonoNs,
}

impl Queues {
    /// Takes in a piece of work.
    #[inline]
    pub(super) fn note(&mut self, id: u32, ran: &Execution, piece: Piece, names: &Interner) {
        let is_collective = match piece.work {
            Work::Kernel(name) => self.is_collective(name, names),
            _ => false,
        };
        let forced_at = self.forced_at;
        let queue = self.by_id.entry(id).or_default();
        queue.queue = ran.queue;
        queue.collectives += u64::from(is_collective);
        if !self.is_untimed {
            queue.finished += 1;
            if ran.end >= queue.last_end {
                (queue.last_end, queue.last) = (ran.end, Some(piece));
            }
            let is_over =
                |unfinished: &mut Unfinished| piece.correlation > unfinished.last_correlation;
            queue.unfinished.take_if(is_over);
        } else if self.is_forced {
            queue.add_unfinished(piece, forced_at);
        }
    }

    /// What a forced flush hands out is taken in from here on.
    pub(super) fn begin_forced(&mut self, now: MonoNs) {
        (self.is_forced, self.forced_at) = (true, now);
    }

    /// It was taken in.
    pub(super) fn end_forced(&mut self) {
        self.is_forced = false;
    }

    fn is_collective(&mut self, name: u32, names: &Interner) -> bool {
        if let Some(known) = self.collectives.get(&name) {
            return *known;
        }
        let text = names.text(name);
        let head = text.get(..text.len().min(NAME_HEAD)).unwrap_or_default();
        let holds = |part: &[u8]| head.windows(part.len()).any(|at| at.eq_ignore_ascii_case(part));
        let is_one = COLLECTIVES.iter().any(|part| holds(part.as_bytes()));
        if self.collectives.len() < MAX_KNOWN {
            self.collectives.insert(name, is_one);
        }
        is_one
    }

    /// When the last work ended; 0: none has.
    pub(super) fn last_end(&self) -> GpuNs {
        self.by_id.values().map(|queue| queue.last_end).max().unwrap_or_default()
    }

    pub(super) fn unfinished(&self) -> u64 {
        let all = self.by_id.values().filter_map(|queue| queue.unfinished.as_ref());
        all.map(|unfinished| unfinished.count).sum()
    }

    /// The streams as JSON, those with unfinished work first, then those whose work ended last.
    pub(super) fn to_json(&self, gpu: Option<GpuNs>, now: MonoNs, names: &Interner) -> String {
        let mut queues: Vec<&Standing> = self.by_id.values().collect();
        queues.sort_by_key(|queue| {
            (queue.unfinished.is_none(), std::cmp::Reverse(queue.last_end), queue.queue.stream)
        });
        let mut list = List::new();
        for queue in queues.iter().take(MAX_QUEUES) {
            list.push(&queue.to_json(gpu, now, names));
        }
        list.end()
    }
}

impl Standing {
    fn add_unfinished(&mut self, piece: Piece, now: MonoNs) {
        let unfinished = self.unfinished.get_or_insert_with(|| Unfinished {
            first: piece,
            last_correlation: 0,
            count: 0,
            names: Vec::new(),
            seen: now,
        });
        unfinished.count += 1;
        unfinished.last_correlation = unfinished.last_correlation.max(piece.correlation);
        // Buffers of several threads come in any order.
        if piece.correlation < unfinished.first.correlation {
            unfinished.first = piece;
        }
        let known = unfinished.names.iter_mut().find(|(work, _)| *work == piece.work);
        if let Some((_, count)) = known {
            *count += 1;
        } else if unfinished.names.len() < MAX_NAMES {
            unfinished.names.push((piece.work, 1));
        }
    }

    fn to_json(&self, gpu: Option<GpuNs>, now: MonoNs, names: &Interner) -> String {
        let Queue { device, context, stream, .. } = self.queue;
        let mut object = Object::new()
            .value("device", device)
            .value("context", context)
            .value("stream", stream)
            .value("finished", self.finished)
            .value("collectives", self.collectives);
        if let Some(last) = &self.last {
            let ago = gpu.map(|gpu| gpu.0.saturating_sub(self.last_end.0) / 1_000_000);
            let piece = to_object(last, names).maybe("ended_ms_ago", ago).end();
            object = object.raw("last_finished", &piece);
        }
        if let Some(unfinished) = &self.unfinished {
            let seen = now.since(unfinished.seen) / 1_000_000;
            let first = to_object(&unfinished.first, names).value("seen_ms_ago", seen).end();
            let mut waiting = List::new();
            for (work, count) in &unfinished.names {
                let name = name_of(*work, names);
                waiting.push(&Object::new().text("name", &name).value("count", count).end());
            }
            object = object
                .raw("first_unfinished", &first)
                .value("unfinished", unfinished.count)
                .raw("unfinished_names", &waiting.end());
        }
        object.end()
    }
}

fn to_object(piece: &Piece, names: &Interner) -> Object {
    let mut object = Object::new().text("name", &name_of(piece.work, names));
    if piece.path != 0 {
        object = object.text("path", &shortened(&names.path_text(piece.path)));
    }
    object = object.value("range", piece.range);
    if piece.node != 0 {
        // CUPTI's numbers of nodes hold that of the graph in the upper half.
        object = object.value("graph", piece.node >> 32).value("node", piece.node as u32);
    }
    object
}

fn name_of(work: Work, names: &Interner) -> String {
    match work {
        Work::Kernel(name) => shortened(names.text(name)),
        Work::Copy(_) => "a copy".to_owned(),
        Work::Fill => "a fill".to_owned(),
        Work::Graph(graph) => format!("graph {graph}"),
        Work::Folded => String::new(),
    }
}

pub(super) fn shortened(text: &[u8]) -> String {
    String::from_utf8_lossy(text).chars().take(MAX_NAME).collect()
}

/// Work that ended so recently shows that kernels end: nothing is flushed by force then, which would cost the
/// times of what runs.
pub(super) const RECENT: Duration = Duration::from_secs(1);
