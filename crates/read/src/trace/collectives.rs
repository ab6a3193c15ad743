//! Ranges of NCCL, their fields and communication kernels -> one [`Call`] for each collective that
//! a process took part in, in bounded memory.
//!
//! A kernel that was launched in the range of a collective carries that collective's fields. Calls
//! between `ncclGroupStart` and `ncclGroupEnd` launch their kernels at the end: those carry what the
//! group asked for together. Kernels of graph replays carry what was open at the capture of their
//! node. A communication kernel without such a range is a call of its own, known by its name alone.
//! Of more calls than are kept one by one, [`thinning`](super::thinning) chooses some of all times.

use std::collections::{HashMap, HashSet, VecDeque};

use rustc_hash::FxHashMap;
use stage2_contract::trace::{RANGE_OUTSIDE, RangeOpen};

use super::call::NO_NUMBER;
pub use super::call::{Call, Collectives, Communicator};
use super::nccl::{Asked, Group, Kind, Says, kind_of, says_of};
use super::operation;
use super::paths::{PathIndex, PathNode};
use super::range_steps::RangeSteps;
use super::sampling::Sampled;
use super::share::Share;
use super::stats::Span;
use super::thinning::Thinning;
use stage2_model::Operation;

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
    kind: Kind,
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
    kinds_by_name: HashMap<u32, Kind>,
    nccl: HashSet<u32>,
    says: HashMap<u32, Says>,
    /// Names of communication kernels, and shapes of these.
    communicate: HashMap<u32, Operation>,
    shapes: FxHashMap<u32, Operation>,
    kinds: HashMap<PathIndex, Kind>,
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

    /// A string of the file, at `index`.
    pub(super) fn name(&mut self, index: u32, bytes: &[u8]) {
        if let Some(kind) = kind_of(bytes) {
            self.kinds_by_name.insert(index, kind);
        }
        if bytes.eq_ignore_ascii_case(NCCL) {
            self.nccl.insert(index);
        }
        if let Some(says) = says_of(bytes) {
            self.says.insert(index, says);
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
        let kind = kind.filter(|kind| of_nccl || **kind == Kind::Lost);
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
        if kind == Some(Kind::Lost) {
            self.groups.remove(&open.thread);
        }
        // Within a call, everything belongs to that call.
        let around = (open.parent != RANGE_OUTSIDE).then(|| self.known.get(&open.parent)).flatten();
        let around = around.filter(|known| known.kind != Kind::GroupStart);
        if let Some(&known) = around {
            self.insert(open.range, known);
            return;
        }
        let Some(kind) = kind else { return };
        let mut asked = Asked { operations: 1, ..Asked::default() };
        match kind {
            Kind::Operation(operation) => asked.operation = operation,
            Kind::GroupStart => self.start_group(open.thread),
            Kind::GroupEnd => asked = self.end_group(open.thread).unwrap_or_default(),
            Kind::SetUp => self.found.communicators_made += 1,
            Kind::Lost => return,
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
            match self.says.get(&name) {
                Some(Says::Bytes) => known.asked.bytes = Some(value),
                // A hash of 0 means no communicator.
                Some(Says::Communicator) => {
                    known.asked.communicator = Some(value).filter(|&hash| hash != 0);
                }
                Some(Says::Members) => known.members = Some(value),
                Some(Says::Rank) => known.rank = Some(value),
                Some(Says::Peer) => known.asked.peer = Some(value),
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
            Kind::Operation(operation) => {
                if let Some(group) = self.groups.get_mut(&known.thread) {
                    group.add(operation, known.asked);
                }
            }
            Kind::SetUp => self.set_up(known),
            Kind::GroupStart | Kind::GroupEnd | Kind::Lost => {}
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
            && matches!(known.kind, Kind::Operation(_) | Kind::GroupEnd)
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
            self.thin(Thinning::unsettled(limit), false);
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
    /// it the place of all that followed: the next group starts anew. Kernels come later than the
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

#[cfg(test)]
#[path = "collectives_tests.rs"]
mod tests;
