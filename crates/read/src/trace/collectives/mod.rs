//! Ranges of NCCL, their fields and communication kernels -> one [`Call`] for each collective that
//! a process took part in, in bounded memory.
//!
//! A kernel that was launched in the range of a collective carries that collective's fields. Calls
//! between `ncclGroupStart` and `ncclGroupEnd` launch their kernels at the end: those carry what the
//! group asked for together. Kernels of graph replays carry what was open at the capture of their
//! node. A communication kernel without such a range is its own call, known by its name alone.
//! Of more calls than are kept one by one, [`Thinning`] chooses some of all times.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use rustc_hash::FxHashMap;
use stage2_contract::order::IntoOrdered as _;
use stage2_contract::text::operation::{NcclField, field_of};
use stage2_contract::trace::{RANGE_OUTSIDE, RangeOpen};
use stage2_model::Operation;

use super::operation::{self, Asked, Group, NcclRange, kind_of};
use super::paths::{PathIndex, PathNode};
use super::stats::{Sampled, Share, Span};
use super::steps::mixed;

/// A call that was not numbered.
pub const NO_NUMBER: u32 = u32::MAX;

/// Calls that are numbered together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    communicator: Option<u64>,
    operation: Operation,
    /// Only where the communicator is not known.
    bytes: Option<u64>,
}

/// A collective (or send, receive, group of them) as one process took part in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// What the call does.
    pub operation: Operation,
    /// Hash of its communicator; nothing where no field says it.
    pub communicator: Option<u64>,
    /// Size of its messages, bytes; nothing where no field says it.
    pub bytes: Option<u64>,
    /// Operations that were asked for: more than one in a group.
    pub operations: u32,
    /// Its kernels; all of their times are known.
    pub kernels: u32,
    /// Index of the GPU.
    pub device: u32,
    /// Start of its first kernel, on the GPU clock, ns.
    pub start_ns: u64,
    /// End of its last kernel, on the GPU clock, ns.
    pub end_ns: u64,
    /// Sum of the GPU time of other work on its device since the previous call, ns.
    pub work_ns: u64,
    /// The stage that launched it.
    pub stage: PathIndex,
    /// Number of the instance of that stage.
    pub instance: u32,
    /// The innermost range of the user that it was launched in.
    pub path: PathIndex,
    /// The range right within the stage that it was launched in, and the number of its instance.
    pub step: Option<(PathIndex, u32)>,
    /// Its number among those of its kind on its device, or [`NO_NUMBER`] where that is not needed.
    pub number: u32,
    /// It came out of a CUDA graph.
    pub replayed: bool,
    /// It lies in an outlier of its stage.
    pub outlier: bool,
    /// Of how many instances of its path it was recorded, and how many there were.
    pub weight: Sampled,
}

impl Default for Call {
    fn default() -> Self {
        Self {
            operation: Operation::default(),
            communicator: None,
            bytes: None,
            operations: 0,
            kernels: 0,
            device: 0,
            start_ns: 0,
            end_ns: 0,
            work_ns: 0,
            stage: 0,
            instance: 0,
            path: 0,
            step: None,
            number: NO_NUMBER,
            replayed: false,
            outlier: false,
            weight: Sampled::default(),
        }
    }
}

impl Call {
    /// What it has in common with its counterparts in other ranks.
    pub fn kind(&self) -> Kind {
        let Self { communicator, operation, .. } = *self;
        Kind { communicator, operation, bytes: self.bytes.filter(|_| communicator.is_none()) }
    }
}

/// What of the calls of a process is kept.
///
/// A process that made more calls than are kept one by one halves the kind with the most of them, as
/// often as it takes. Which calls stay follows from a hash of their number alone, so that two processes
/// keep the same ones, and what the one halved more often is a part of what the other kept. A hash, and
/// not every second number: what happens in every eighth step would fall between.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thinning {
    /// How often each kind was halved.
    pub halvings: BTreeMap<Kind, u32>,
    /// Calls of each kind on each device, kept or not. Empty where all are kept.
    pub made: FxHashMap<(Kind, u32), u32>,
    /// They go by the number of their instance: of a sample, not every process has the same calls.
    pub by_instance: bool,
}

/// A communicator that the process is a member of, as its set-up says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Communicator {
    /// Hash of its identifier.
    pub hash: u64,
    /// Its members, where that is said.
    pub members: Option<u64>,
    /// Which of them this process is, where that is said.
    pub rank: Option<u64>,
    /// Members that this process is: more than one where it has a GPU for each.
    pub local: u32,
}

/// What a process had to do with others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collectives {
    /// Calls, in the order of the file.
    pub calls: Vec<Call>,
    /// Which of those that were made these are.
    pub thinning: Thinning,
    /// Kernels of calls of more kinds than are told apart.
    pub beyond: u64,
    pub(crate) limit: u64,
    /// Communication kernels without valid times, in no call.
    pub untimed: u64,
    /// Communicators whose hash is known.
    pub communicators: Vec<Communicator>,
    /// Communicators that were made, as far as ranges tell; the set-ups of several members of one
    /// count once.
    pub communicators_made: u64,
}

/// Calls that are kept of a process, at most.
pub const MAX_CALLS: usize = 1 << 18;
/// Calls that are kept of all processes of a run: each file has an equal share.
pub const MAX_ALL_CALLS: usize = 1 << 21;
/// Calls that are kept of all processes of a run, where all of them are held at the same time.
const MAX_CALLS_SIDE_BY_SIDE: usize = 1 << 19;
/// Ranges of NCCL whose kernels may still come.
const MAX_RANGES: usize = 1 << 18;
/// Ranges that nodes of graphs were captured in, and those nodes.
const MAX_CAPTURES: usize = 1 << 17;
const MAX_COMMUNICATORS: usize = 1 << 12;
/// Threads with an open group.
const MAX_GROUPS: usize = 1 << 12;
const NCCL: &[u8] = b"NCCL";

/// A range of NCCL, or one within it.
#[derive(Clone, Copy, Debug)]
struct Known {
    kind: NcclRange,
    thread: u32,
    /// The range whose call its kernels belong to: itself, or one around it.
    owner: u64,
    asked: Asked,
    members: Option<u64>,
    rank: Option<u64>,
    call: Option<u32>,
    /// The group that is open around it, by its generation: within one, nothing launches.
    group: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct CommunicationKernel {
    pub(super) operation: Operation,
    pub(super) span: Span,
    pub(super) range: u64,
    pub(super) node: u64,
    pub(super) correlation: u64,
    pub(super) device: u32,
    /// The innermost range that it was launched in.
    pub(super) path: PathIndex,
    /// The innermost one of the user.
    pub(super) user: PathIndex,
    pub(super) stage: PathIndex,
    pub(super) instance: u32,
}

#[derive(Debug, Default)]
pub(super) struct Gather {
    kinds_by_name: HashMap<u32, NcclRange>,
    nccl: HashSet<u32>,
    field_names: HashMap<u32, NcclField>,
    /// Names of communication kernels, and shapes of these.
    communicate: HashMap<u32, Operation>,
    shapes: FxHashMap<u32, Operation>,
    kinds: HashMap<PathIndex, NcclRange>,
    known: FxHashMap<u64, Known>,
    /// Identifiers in `known`, oldest first.
    order: VecDeque<u64>,
    groups: HashMap<u32, Group>,
    generations: u64,
    captures: HashMap<u64, Asked>,
    nodes: HashMap<u64, u64>,
    /// (range, correlation of a replay, device) -> its call.
    by_range: FxHashMap<(u64, u64, u32), u32>,
    /// GPU time of other work on each device since its last call, ns.
    work: FxHashMap<u32, u64>,
    found: Collectives,
    paths: Vec<PathIndex>,
    steps: RangeSteps,
    limit: Option<usize>,
    share: Share,
}

impl Gather {
    pub(super) fn within(share: Share) -> Self {
        Self { limit: Some(share.of(MAX_CALLS_SIDE_BY_SIDE)), share, ..Self::default() }
    }

    pub(super) fn keep(&mut self, limit: usize) {
        self.limit = Some(limit.min(MAX_CALLS));
    }

    /// Only some instances of ranges are recorded.
    pub(super) fn gate(&mut self) {
        self.found.thinning.by_instance = true;
    }
    pub(super) fn name(&mut self, index: u32, bytes: &[u8]) {
        if let Some(kind) = kind_of(bytes) {
            self.kinds_by_name.insert(index, kind);
        }
        if bytes.eq_ignore_ascii_case(NCCL) {
            self.nccl.insert(index);
        }
        if let Some(field_names) = field_of(bytes) {
            self.field_names.insert(index, field_names);
        }
        if let Some(operation) = operation::of_kernel(bytes) {
            self.communicate.insert(index, operation);
        }
    }

    /// A kernel with its launch configuration, and its name.
    pub(super) fn shape(&mut self, shape: u32, name: Option<u32>) {
        let operation = name.and_then(|name| self.communicate.get(&name));
        if let Some(&operation) = operation {
            self.shapes.insert(shape, operation);
        }
    }

    /// What a kernel of this shape does, if it talks to other GPUs.
    pub(super) fn operation(&self, shape: u32) -> Option<Operation> {
        if self.shapes.is_empty() { None } else { self.shapes.get(&shape).copied() }
    }

    /// A path whose innermost range has this name and domain.
    pub(super) fn path(&mut self, path: PathIndex, name: Option<u32>, domain: Option<u32>) {
        let of_nccl = domain.is_some_and(|domain| self.nccl.contains(&domain));
        let kind = name.and_then(|name| self.kinds_by_name.get(&name));
        let kind = kind.filter(|kind| of_nccl || **kind == NcclRange::Lost);
        if let Some(&kind) = kind {
            self.kinds.insert(path, kind);
        }
    }

    /// A range opened; `node` is its path.
    pub(super) fn open(&mut self, open: &RangeOpen, path: PathIndex, node: PathNode) {
        if !self.communicate.is_empty() {
            self.steps.open(open, path, node);
        }
        if self.kinds.is_empty() {
            return;
        }
        if open.continues != 0 {
            if let Some(&known) = self.known.get(&open.continues) {
                self.insert(open.range, known);
            }
            return;
        }
        let kind = self.kinds.get(&path).copied();
        if kind == Some(NcclRange::Lost) {
            self.groups.remove(&open.thread);
        }
        // Within a call, everything belongs to that call.
        let around = (open.parent != RANGE_OUTSIDE).then(|| self.known.get(&open.parent)).flatten();
        let around = around.filter(|known| known.kind != NcclRange::GroupStart);
        if let Some(&known) = around {
            self.insert(open.range, known);
            return;
        }
        let Some(kind) = kind else { return };
        let mut asked = Asked { operations: 1, ..Asked::default() };
        match kind {
            NcclRange::Operation(operation) => asked.operation = operation,
            NcclRange::GroupStart => self.start_group(open.thread),
            NcclRange::GroupEnd => asked = self.end_group(open.thread).unwrap_or_default(),
            NcclRange::SetUp => self.found.communicators_made += 1,
            NcclRange::Lost => return,
        }
        let (thread, owner) = (open.thread, open.range);
        let group = self.groups.get(&thread).map(|group| group.generation);
        let (members, rank, call) = (None, None, None);
        self.insert(open.range, Known { kind, thread, owner, asked, members, rank, call, group });
    }

    fn start_group(&mut self, thread: u32) {
        if self.groups.len() < MAX_GROUPS || self.groups.contains_key(&thread) {
            let group = self.groups.entry(thread).or_insert_with(|| {
                self.generations += 1;
                Group::new(self.generations)
            });
            group.start();
        }
    }

    /// What the group that ends here asked for; nothing where another is around it.
    fn end_group(&mut self, thread: u32) -> Option<Asked> {
        let group = self.groups.get_mut(&thread)?;
        if !group.end() {
            return None;
        }
        self.groups.remove(&thread)?.asked(|hash| self.members(hash))
    }

    fn members(&self, hash: u64) -> Option<u64> {
        self.found.communicators.iter().find(|known| known.hash == hash)?.members
    }

    fn insert(&mut self, range: u64, known: Known) {
        if self.order.len() >= self.share.of(MAX_RANGES)
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.order.push_back(range);
        self.known.insert(range, known);
    }

    /// Fields of a range: the index of a name, and the number.
    pub(super) fn fields(&mut self, range: u64, fields: impl Iterator<Item = (u32, u64)>) {
        let Some(known) = self.known.get_mut(&range).filter(|known| known.owner == range) else {
            return;
        };
        for (name, value) in fields {
            match self.field_names.get(&name) {
                Some(NcclField::Bytes) => known.asked.bytes = Some(value),
                // A hash of 0 means no communicator.
                Some(NcclField::Communicator) => {
                    known.asked.communicator = Some(value).filter(|&hash| hash != 0);
                }
                Some(NcclField::Members) => known.members = Some(value),
                Some(NcclField::Rank) => known.rank = Some(value),
                Some(NcclField::Peer) => known.asked.peer = Some(value),
                None => {}
            }
        }
        let Known { asked, call, .. } = *known;
        // Fields that came with the closing: a kernel may be there already.
        let call = call.and_then(|call| self.found.calls.get_mut(call as usize));
        if let Some(call) = call.filter(|call| call.operations <= 1) {
            (call.communicator, call.bytes) = (asked.communicator, asked.bytes);
        }
    }

    /// A range closed: its fields are whole.
    pub(super) fn close(&mut self, range: u64) {
        if self.known.is_empty() {
            return;
        }
        let Some(&known) = self.known.get(&range).filter(|known| known.owner == range) else {
            return;
        };
        match known.kind {
            NcclRange::Operation(operation) => {
                if let Some(group) = self.groups.get_mut(&known.thread) {
                    group.add(operation, known.asked);
                }
            }
            NcclRange::SetUp => self.set_up(known),
            NcclRange::GroupStart | NcclRange::GroupEnd | NcclRange::Lost => {}
        }
    }

    fn set_up(&mut self, known: Known) {
        let Some(hash) = known.asked.communicator else { return };
        let all = &mut self.found.communicators;
        let Known { members, rank, .. } = known;
        if let Some(before) = all.iter_mut().find(|known| known.hash == hash) {
            before.local = before.local.saturating_add(1);
            self.found.communicators_made = self.found.communicators_made.saturating_sub(1);
        } else if all.len() < MAX_COMMUNICATORS {
            all.push(Communicator { hash, members, rank, local: 1 });
        }
    }

    /// `node` of a graph was captured while `range` was open.
    pub(super) fn captured(&mut self, node: u64, range: u64) {
        if let Some(known) = self.known.get(&range)
            && self.nodes.len() < MAX_CAPTURES
            && matches!(known.kind, NcclRange::Operation(_) | NcclRange::GroupEnd)
        {
            let (owner, asked) = (known.owner, known.asked);
            self.captures.insert(owner, asked);
            self.nodes.insert(node, owner);
        }
    }

    /// Adds GPU work that is not communication. Records arrive roughly in execution order.
    pub(super) fn work(&mut self, device: u32, span: Span) {
        if !self.shapes.is_empty() && span.valid() {
            let sum = self.work.entry(device).or_default();
            *sum = sum.saturating_add(span.ns());
        }
    }

    pub(super) fn kernel(&mut self, kernel: CommunicationKernel) {
        let CommunicationKernel { span, node, device, .. } = kernel;
        if !span.valid() {
            self.found.untimed += 1;
            return;
        }
        let (owner, replay) = match node {
            0 => (self.known.get(&kernel.range).map(|known| known.owner), 0),
            node => (self.nodes.get(&node).copied(), kernel.correlation),
        };
        self.check_group(kernel);
        let key = owner.map(|owner| (owner, replay, device));
        let begun = key.and_then(|key| self.by_range.get(&key)).copied();
        if let Some(call) = begun.and_then(|call| self.found.calls.get_mut(call as usize)) {
            call.kernels = call.kernels.saturating_add(1);
            call.start_ns = call.start_ns.min(span.start);
            call.end_ns = call.end_ns.max(span.end);
            return;
        }
        let limit = self.limit.unwrap_or(MAX_CALLS);
        if self.found.calls.len() >= limit.max(1) {
            // The latest may be followed by some that started before them.
            self.thin(limit / UNSETTLED, false);
        }
        let at = self.found.calls.len() as u32;
        let asked = match node {
            0 => owner.and_then(|owner| self.known.get_mut(&owner)).map(|known| {
                known.call.get_or_insert(at);
                known.asked
            }),
            _ => owner.and_then(|owner| self.captures.get(&owner)).copied(),
        };
        if let Some(key) = key {
            self.by_range.insert(key, at);
        }
        let asked = asked.unwrap_or(Asked { operations: 1, ..Asked::default() });
        let named = asked.operation != Operation::Other;
        self.paths.push(kernel.path);
        self.found.calls.push(Call {
            outlier: false,
            operation: if named { asked.operation } else { kernel.operation },
            communicator: asked.communicator,
            bytes: asked.bytes,
            operations: asked.operations.max(1),
            kernels: 1,
            device,
            start_ns: span.start,
            end_ns: span.end,
            work_ns: self.work.insert(device, 0).unwrap_or(0),
            stage: kernel.stage,
            instance: kernel.instance,
            path: kernel.user,
            step: self.steps.of(kernel.range),
            number: NO_NUMBER,
            replayed: node != 0,
            weight: Sampled::default(),
        });
    }

    /// Leaves out some of the calls, but of the `latest` none.
    fn thin(&mut self, latest: usize, is_last: bool) {
        let limit = self.limit.unwrap_or(MAX_CALLS);
        let Collectives { calls, thinning, beyond, .. } = &mut self.found;
        let no_kind = thinning.number(calls, latest);
        let mut places = thinning.thin(calls, limit, is_last);
        if !no_kind.is_empty() {
            for &at in &no_kind {
                *beyond += calls.get(at as usize).map_or(0, |call| u64::from(call.kernels));
                places.get_mut(at as usize).into_iter().for_each(|place| *place = None);
            }
            for (next, place) in (0u32..).zip(places.iter_mut().flatten()) {
                *place = next;
            }
        }
        let place = |at: u32| places.get(at as usize).copied().flatten();
        let mut stays = places.iter().map(Option::is_some);
        calls.retain(|_| stays.next().unwrap_or(false));
        let mut stays = places.iter().map(Option::is_some);
        self.paths.retain(|_| stays.next().unwrap_or(false));
        self.by_range.retain(|_, at| place(*at).map(|place| *at = place).is_some());
        for known in self.known.values_mut() {
            known.call = known.call.and_then(place);
        }
    }

    /// Nothing launches within a group. Where a kernel did, the end of the group was lost, and with
    /// it the place of all that followed: the next group starts again. Kernels come later than the
    /// ranges of their launch: another group may be open by now.
    fn check_group(&mut self, CommunicationKernel { node, range, .. }: CommunicationKernel) {
        let Some(known) = self.known.get_mut(&range).filter(|_| node == 0) else { return };
        let Some(generation) = known.group.take() else { return };
        if self.groups.get(&known.thread).is_some_and(|group| group.generation == generation) {
            self.groups.remove(&known.thread);
        }
    }

    /// All calls. `sampled` tells of how many instances of a path the work was recorded.
    pub(super) fn finish(mut self, sampled: impl Fn(PathIndex) -> Sampled) -> Collectives {
        if self.found.thinning.is_some() {
            self.thin(0, true);
        }
        self.share_among_devices();
        for (call, &path) in self.found.calls.iter_mut().zip(&self.paths) {
            call.weight = sampled(path);
        }
        self.found.limit = self.limit.unwrap_or(MAX_CALLS) as u64;
        self.found
    }

    /// A group of a process with several GPUs holds the calls of all of them, and each GPU makes
    /// its part.
    fn share_among_devices(&mut self) {
        let mut devices: FxHashMap<(u64, u64), u32> = FxHashMap::default();
        for &(owner, replay, _) in self.by_range.keys() {
            *devices.entry((owner, replay)).or_default() += 1;
        }
        for ((owner, replay, _), &call) in &self.by_range {
            let devices = devices.get(&(*owner, *replay)).copied().unwrap_or(1);
            let Some(call) = self.found.calls.get_mut(call as usize) else { continue };
            if devices < 2 {
                continue;
            }
            let even = call.operations.is_multiple_of(devices);
            let bytes = call.bytes.filter(|bytes| even && bytes.is_multiple_of(devices.into()));
            call.bytes = bytes.map(|bytes| bytes / u64::from(devices));
            call.operations = if even { call.operations / devices } else { call.operations };
        }
    }
}

/// Kinds of calls of a process.
const MAX_KINDS: usize = 1 << 12;
/// Calls are numbered once so many others (a part of the limit) started later: records come roughly in
/// the order of their start only.
const UNSETTLED: usize = 4;

/// Whether a call, or an instance, of this number stays after so many halvings.
fn stays(number: u32, halvings: u32) -> bool {
    halvings <= weight(number)
}

/// How many halvings it survives: half of all numbers one, a quarter two, and so on.
fn weight(number: u32) -> u32 {
    mixed(number).trailing_zeros()
}

impl Thinning {
    /// Whether any call was left out.
    pub fn is_some(&self) -> bool {
        !self.made.is_empty()
    }

    /// Whether `call`, which has a number, is one of those that are kept of its kind.
    pub fn keeps(&self, call: &Call, halvings: u32) -> bool {
        stays(if self.by_instance { call.instance } else { call.number }, halvings)
    }

    /// Halves the largest kinds of `calls` until half of `limit` are left, apart from the latest ones.
    /// With `is_last`, no further ones are halved. Gives the new place of each call that stays.
    pub fn thin(&mut self, calls: &[Call], limit: usize, is_last: bool) -> Vec<Option<u32>> {
        let mut settled: BTreeMap<Kind, [u32; 33]> = BTreeMap::new();
        for call in calls.iter().filter(|call| call.number != NO_NUMBER) {
            let number = if self.by_instance { call.instance } else { call.number };
            let of_weight = settled.entry(call.kind()).or_insert([0; 33]);
            if let Some(count) = of_weight.get_mut(weight(number).min(32) as usize) {
                *count += 1;
            }
        }
        let left = |counts: &[u32; 33], halvings: u32| -> usize {
            counts.iter().skip(halvings as usize).map(|&count| count as usize).sum()
        };
        fn halved(of: &BTreeMap<Kind, u32>, kind: &Kind) -> u32 {
            of.get(kind).copied().unwrap_or(0)
        }
        let mut sizes: BTreeMap<Kind, usize> = settled
            .iter()
            .map(|(kind, counts)| (*kind, left(counts, halved(&self.halvings, kind))))
            .into_map();
        let mut all: usize = sizes.values().sum();
        while all > limit / 2 && !is_last {
            let Some((kind, size)) = sizes.iter_mut().max_by_key(|(_, size)| **size) else { break };
            let halvings = self.halvings.entry(*kind).or_default();
            *halvings += 1;
            let then = settled.get(kind).map_or(0, |counts| left(counts, *halvings));
            all -= *size - then;
            *size = then;
        }
        let mut place = 0;
        let kept = calls.iter().map(|call| {
            let halvings = halved(&self.halvings, &call.kind());
            let stays = call.number == NO_NUMBER || self.keeps(call, halvings);
            place += u32::from(stays);
            stays.then(|| place - 1)
        });
        kept.collect()
    }

    /// Gives calls their numbers, in the order of their start: all of them, or all but the `latest`.
    /// Those of more kinds than are told apart get none, and are returned.
    fn number(&mut self, calls: &mut [Call], latest: usize) -> Vec<u32> {
        let mut open: Vec<(u64, u64, u32)> = (0..)
            .zip(calls.iter())
            .filter(|(_, call)| call.number == NO_NUMBER)
            .map(|(at, call)| (call.start_ns, call.end_ns, at))
            .collect();
        open.sort_unstable();
        let settled = open.len().saturating_sub(latest);
        let mut beyond = Vec::new();
        for &(.., at) in open.iter().take(settled) {
            let Some(call) = calls.get_mut(at as usize) else { continue };
            let key = (call.kind(), call.device);
            if self.made.len() >= MAX_KINDS && !self.made.contains_key(&key) {
                beyond.push(at);
                continue;
            }
            let made = self.made.entry(key).or_default();
            call.number = *made;
            *made = made.saturating_add(1).min(NO_NUMBER - 1);
        }
        beyond
    }

    /// Gives all of `calls` their numbers.
    pub fn number_all(&mut self, calls: &mut [Call]) {
        self.number(calls, 0);
    }
}

/// Ranges that are remembered; GPU work comes into the file soon after the range of its launch.
const RECENT_RANGES: usize = 1 << 17;
/// Paths whose instances are counted.
const COUNTED_PATHS: usize = 1 << 14;

type StepOf = (PathIndex, u32);

#[derive(Debug, Default)]
struct RangeSteps {
    /// By the end of their identifier: a newer one takes the place of an older one.
    recent: Vec<(u64, Option<StepOf>)>,
    opened: FxHashMap<PathIndex, u32>,
}

impl RangeSteps {
    fn open(&mut self, open: &RangeOpen, path: PathIndex, node: PathNode) {
        let is_step = node.user == Some(path) && node.parent.is_some_and(|p| p == node.top);
        let step = match open.continues {
            0 if is_step => self.count(path).map(|number| (path, number)),
            0 => self.of(open.parent),
            before => self.of(before),
        };
        if self.recent.is_empty() {
            self.recent.resize(RECENT_RANGES, (0, None));
        }
        if let Some(place) = self.recent.get_mut(open.range as usize % RECENT_RANGES) {
            *place = (open.range, step);
        }
    }

    fn count(&mut self, path: PathIndex) -> Option<u32> {
        if self.opened.len() >= COUNTED_PATHS && !self.opened.contains_key(&path) {
            return None;
        }
        let opened = self.opened.entry(path).or_default();
        *opened = opened.saturating_add(1);
        Some(*opened - 1)
    }

    /// The step that `range` is or lies in.
    fn of(&self, range: u64) -> Option<StepOf> {
        let (known, step) = self.recent.get(range as usize % RECENT_RANGES)?;
        step.filter(|_| *known == range)
    }
}

#[cfg(test)]
mod tests;
