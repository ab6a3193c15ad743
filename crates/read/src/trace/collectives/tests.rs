use stage2_contract::trace::MonoNs;

use super::*;

const NAMES: [&[u8]; 9] = [
    b"NCCL",
    b"ncclAllReduce",
    b"ncclGroupStart",
    b"ncclGroupEnd",
    b"ncclCommInitRank",
    b"Message size [bytes]",
    b"NCCL communicator ID",
    b"No. of ranks",
    b"Rank",
];
const ALL_REDUCE: u32 = 1;
const START: u32 = 2;
const END: u32 = 3;
const INIT: u32 = 4;
const BYTES: u32 = 5;
const HASH: u32 = 6;
const MEMBERS: u32 = 7;
const RANK: u32 = 8;
const SEND: u32 = 20;
const RECV: u32 = 21;
const PEER: u32 = 22;
const LOST: u32 = 23;

/// A file with paths of the same numbers as their names.
struct File(Gather);

/// An outermost range of the user.
fn node(path: u32) -> PathNode {
    PathNode { parent: None, top: path, name: None, domain: None, user: Some(path) }
}

impl File {
    fn new() -> Self {
        let mut gather = Gather::default();
        (0..).zip(NAMES).for_each(|(index, name)| gather.name(index, name));
        let more: [&[u8]; 4] = [b"ncclSend", b"ncclRecv", b"Peer rank", b"(lost)"];
        (20..).zip(more).for_each(|(index, name)| gather.name(index, name));
        for path in [ALL_REDUCE, START, END, INIT, 20, 21] {
            gather.path(path, Some(path), Some(0));
        }
        // The same name in a domain of the user's.
        gather.path(31, Some(ALL_REDUCE), None);
        gather.path(LOST, Some(LOST), None);
        Self(gather)
    }

    fn open(&mut self, range: u64, path: u32, parent: u64) -> &mut Self {
        self.open_on(1, range, path, parent)
    }

    fn open_on(&mut self, thread: u32, range: u64, path: u32, parent: u64) -> &mut Self {
        let open =
            RangeOpen { range, path, thread, parent, start: MonoNs(0), ..RangeOpen::default() };
        self.0.open(&open, path, node(path));
        self
    }

    fn fields(&mut self, range: u64, fields: &[(u32, u64)]) -> &mut Self {
        self.0.fields(range, fields.iter().copied());
        self
    }

    fn close(&mut self, range: u64) -> &mut Self {
        self.0.close(range);
        self
    }

    /// A call with its range, from its opening to its closing.
    fn call(&mut self, range: u64, path: u32, fields: &[(u32, u64)]) -> &mut Self {
        self.open(range, path, 0).fields(range, fields).close(range)
    }

    fn kernel(&mut self, range: u64, span: (u64, u64)) -> &mut Self {
        self.replayed(range, span, 0, 1)
    }

    fn kernel_on(&mut self, device: u32, range: u64, node: u64, correlation: u64) -> &mut Self {
        let kernel = CommunicationKernel { device, ..at(range, (10, 20), node, correlation) };
        self.0.kernel(kernel);
        self
    }

    fn replayed(&mut self, range: u64, span: (u64, u64), node: u64, correlation: u64) -> &mut Self {
        self.0.kernel(at(range, span, node, correlation));
        self
    }

    fn calls(&mut self) -> Vec<Call> {
        std::mem::take(&mut self.0.found.calls)
    }

    fn bytes(&mut self) -> Vec<Option<u64>> {
        self.calls().iter().map(|call| call.bytes).collect()
    }
}

fn at(range: u64, (start, end): (u64, u64), node: u64, correlation: u64) -> CommunicationKernel {
    CommunicationKernel {
        operation: Operation::Broadcast,
        span: Span { start, end },
        range,
        node,
        correlation,
        device: 0,
        path: 6,
        user: 6,
        stage: 5,
        instance: 2,
    }
}

#[test]
fn a_kernel_carries_the_fields_of_its_range_whenever_these_come() {
    let mut file = File::new();
    file.call(1, ALL_REDUCE, &[(BYTES, 4096), (HASH, 77)]).kernel(1, (10, 20));
    file.open(2, ALL_REDUCE, 0).kernel(2, (30, 40)).fields(2, &[(BYTES, 8192), (HASH, 77)]);
    file.close(2);
    let calls = file.calls();
    let call = Call {
        operation: Operation::AllReduce,
        communicator: Some(77),
        bytes: Some(4096),
        operations: 1,
        kernels: 1,
        start_ns: 10,
        end_ns: 20,
        stage: 5,
        instance: 2,
        path: 6,
        ..Call::default()
    };
    assert_eq!(calls, [call, Call { bytes: Some(8192), start_ns: 30, end_ns: 40, ..call }]);
}

#[test]
fn kernels_at_the_end_of_a_group_carry_what_the_group_asked_for() {
    let mut file = File::new();
    file.call(1, START, &[]);
    file.call(2, ALL_REDUCE, &[(BYTES, 100), (HASH, 7)]);
    // A group within a group ends nothing.
    file.call(3, START, &[]).call(4, ALL_REDUCE, &[(BYTES, 28), (HASH, 7)]).call(5, END, &[]);
    file.open(6, END, 0).kernel(6, (10, 20)).kernel(6, (21, 30)).close(6);
    // What comes later is in no group.
    file.call(7, ALL_REDUCE, &[(BYTES, 4), (HASH, 7)]).kernel(7, (40, 50));
    let calls = file.calls();
    assert_eq!(calls.len(), 2, "{calls:?}");
    let group = &calls[0];
    assert_eq!((group.operation, group.communicator), (Operation::AllReduce, Some(7)));
    assert_eq!((group.bytes, group.operations, group.kernels), (Some(128), 2, 2));
    assert_eq!((group.start_ns, group.end_ns), (10, 30));
    assert_eq!((calls[1].bytes, calls[1].operations), (Some(4), 1));
}

#[test]
fn sends_and_receives_with_everyone_are_an_all_to_all() {
    let mut file = File::new();
    file.call(1, INIT, &[(HASH, 7), (MEMBERS, 3), (RANK, 1)]);
    let known = Communicator { hash: 7, members: Some(3), rank: Some(1), local: 1 };
    // To all, to all others, to one, and twice to a neighbour as rings of attention do.
    let groups: [(u64, &[u64]); 4] = [(10, &[0, 1, 2]), (30, &[0, 2]), (50, &[0]), (70, &[2, 2])];
    for (first, peers) in groups {
        file.call(first, START, &[]);
        for (place, &peer) in (0..).zip(peers) {
            let fields = [(BYTES, 64), (HASH, 7), (PEER, peer)];
            file.call(first + 1 + 2 * place, SEND, &fields);
            file.call(first + 2 + 2 * place, RECV, &fields);
        }
        file.call(first + 19, END, &[]).kernel(first + 19, (first, first + 5));
    }
    // As many as there are others, but nothing says to whom.
    file.call(90, START, &[]);
    for range in [91, 93] {
        file.call(range, SEND, &[(BYTES, 64), (HASH, 7)]);
        file.call(range + 1, RECV, &[(BYTES, 64), (HASH, 7)]);
    }
    file.call(99, END, &[]).kernel(99, (90, 95));
    assert_eq!(file.0.found.communicators, [known]);
    let calls = file.calls();
    let told: Vec<_> = calls.iter().map(|call| (call.operation, call.bytes)).collect();
    assert_eq!(
        told,
        [
            (Operation::AllToAll, Some(64)),
            (Operation::AllToAll, Some(64)),
            (Operation::SendRecv, Some(128)),
            (Operation::SendRecv, Some(256)),
            (Operation::SendRecv, Some(256)),
        ],
        "64 bytes to each"
    );
}

#[test]
fn replays_carry_what_was_open_at_the_capture_of_their_node() {
    let mut file = File::new();
    file.call(1, ALL_REDUCE, &[(BYTES, 512), (HASH, 7)]);
    file.0.captured(900, 1);
    for replay in 1..=2 {
        file.replayed(60, (100 * replay, 100 * replay + 9), 900, replay);
    }
    // Captured before the start: nothing but the name of the kernel is known.
    file.replayed(60, (300, 310), 901, 3);
    let calls = file.calls();
    let told: Vec<_> = calls.iter().map(|c| (c.operation, c.bytes, c.replayed)).collect();
    let known = (Operation::AllReduce, Some(512), true);
    assert_eq!(told, [known, known, (Operation::Broadcast, None, true)]);
}

#[test]
fn ranges_of_the_user_and_kernels_without_times_make_no_call_of_nccls() {
    let mut file = File::new();
    file.call(1, 31, &[(BYTES, 512), (HASH, 7)]).kernel(1, (10, 20)).kernel(1, (0, 0));
    let calls = file.calls();
    assert_eq!((calls.len(), calls[0].operation, calls[0].bytes), (1, Operation::Broadcast, None));
    assert_eq!(file.0.found.untimed, 1);
}

#[test]
fn a_group_over_several_gpus_of_a_process_is_shared_among_them() {
    let mut file = File::new();
    file.call(1, START, &[]);
    for device in 0..2 {
        file.call(2 + device, ALL_REDUCE, &[(BYTES, 100), (HASH, 7)]);
    }
    file.call(5, END, &[]).kernel_on(0, 5, 0, 1).kernel_on(1, 5, 0, 1).kernel_on(1, 5, 0, 1);
    // Three calls for two GPUs, captured in a graph: who made which is not known.
    file.call(10, START, &[]);
    for call in 0..3 {
        file.call(11 + call, ALL_REDUCE, &[(BYTES, 100), (HASH, 7)]);
    }
    file.call(15, END, &[]).0.captured(900, 15);
    file.kernel_on(0, 60, 900, 3).kernel_on(1, 60, 900, 3);
    // The same graph once more, on one GPU.
    file.kernel_on(0, 60, 900, 4);
    let found = std::mem::take(&mut file.0).finish(|_| Sampled::default());
    let told: Vec<_> = found.calls.iter().map(|c| (c.device, c.bytes, c.operations)).collect();
    let one = |device| (device, Some(100), 1);
    assert_eq!(told, [one(0), one(1), (0, None, 3), (1, None, 3), (0, Some(300), 3)]);
}

#[test]
fn a_process_with_several_members_of_a_communicator_counts_them() {
    let mut file = File::new();
    for rank in 0..8 {
        file.call(1 + rank, INIT, &[(HASH, 7), (MEMBERS, 8), (RANK, rank)]);
    }
    file.call(20, INIT, &[(HASH, 8), (MEMBERS, 2), (RANK, 0)]);
    let told: Vec<_> = file.0.found.communicators.iter().map(|c| (c.hash, c.local)).collect();
    assert_eq!(told, [(7, 8), (8, 1)]);
    assert_eq!(file.0.found.communicators_made, 2);
}

#[test]
fn calls_weigh_as_many_instances_as_their_path_stands_for() {
    let mut file = File::new();
    file.call(1, ALL_REDUCE, &[]).kernel(1, (10, 20));
    let sampled = Sampled { instances: 16, recorded: 2 };
    let of = |path| if path == 6 { sampled } else { Sampled::default() };
    let found = std::mem::take(&mut file.0).finish(of);
    assert_eq!(found.calls[0].weight, sampled);
}

#[test]
fn a_group_whose_end_was_lost_spoils_no_later_one() {
    const ASKED: [(u32, u64); 2] = [(BYTES, 64), (HASH, 7)];
    let begin = |file: &mut File, first: u64| {
        file.call(first, START, &[]).call(first + 1, ALL_REDUCE, &ASKED);
    };
    let group = |file: &mut File, first: u64| {
        begin(file, first);
        file.call(first + 2, END, &[]).kernel(first + 2, (first, first + 5));
    };
    // The collector says where it lost track.
    let mut file = File::new();
    file.call(1, START, &[]).open(2, LOST, 0).close(2);
    group(&mut file, 10);
    let told: Vec<_> = file.calls().iter().map(|call| (call.communicator, call.bytes)).collect();
    assert_eq!(told, [(Some(7), Some(64))]);
    // Where it says nothing, a kernel that ran within the group does.
    let mut file = File::new();
    begin(&mut file, 1);
    file.kernel(2, (1, 2));
    group(&mut file, 10);
    group(&mut file, 20);
    assert_eq!(file.bytes(), [Some(64); 3]);
    // Kernels come later than their ranges: the second one finds the next, healthy group open.
    let mut file = File::new();
    begin(&mut file, 1);
    for first in [10, 20] {
        begin(&mut file, first);
        file.call(first + 2, END, &[]);
    }
    file.kernel(12, (12, 13));
    begin(&mut file, 30);
    file.kernel(22, (22, 23)).call(32, END, &[]).kernel(32, (32, 33));
    assert_eq!(file.bytes(), [None, None, Some(64)]);
}

#[test]
fn of_more_calls_than_are_kept_some_of_all_times_stay() {
    let calls = |count: u64, limit: usize| {
        let mut file = File::new();
        file.0.keep(limit);
        for at in 0..count {
            // Two threads, whose records come in turns: not in the order of their start.
            // A time of zero is none.
            let start = 1 + if at % 64 < 32 { at + 32 } else { at - 32 };
            let hash = if at % 64 == 40 { 8 } else { 7 };
            file.call(at + 1, ALL_REDUCE, &[(BYTES, 4), (HASH, hash)]);
            file.kernel(at + 1, (start, start + 1)).kernel(at + 1, (start, start + 1));
            assert!(file.0.found.calls.len() <= limit);
            assert!(file.0.by_range.len() <= limit && file.0.paths.len() <= limit);
        }
        std::mem::take(&mut file.0).finish(|_| Sampled::default())
    };
    let number = |call: &Call| (call.communicator, call.number);
    let (few, many) = (calls(64_000, 1_000), calls(64_000, 8_000));
    assert_eq!(few.beyond, 0);
    let made: u32 = few.thinning.made.values().sum();
    assert_eq!((made, few.limit), (64_000, 1_000));
    assert!((250..=1_000).contains(&few.calls.len()), "{}", few.calls.len());
    let kept: HashSet<_> = many.calls.iter().map(number).collect();
    assert!(few.calls.iter().map(number).all(|call| kept.contains(&call)), "the same calls");
    // The other communicator has so few calls that each of them stays.
    let rare =
        |found: &Collectives| found.calls.iter().filter(|c| c.communicator == Some(8)).count();
    assert_eq!(rare(&many), 1_000);
    for tenth in 0..10 {
        let of_tenth = |call: &&Call| call.start_ns / 6_400 == tenth;
        let count = few.calls.iter().filter(of_tenth).count();
        assert!(count * 30 >= few.calls.len(), "{count} in part {tenth}");
    }
    for call in &few.calls {
        assert_eq!(call.kernels, 2);
    }
    // Numbers go by the start.
    let mut of_one: Vec<&Call> = many.calls.iter().filter(|c| c.communicator == Some(7)).collect();
    of_one.sort_by_key(|call| call.start_ns);
    assert!(of_one.is_sorted_by_key(|call| call.number));
    let mut file = File::new();
    file.0.keep(usize::MAX);
    let found = std::mem::take(&mut file.0).finish(|_| Sampled::default());
    assert_eq!((found.limit, found.thinning.is_some()), (MAX_CALLS as u64, false));
}

#[test]
fn memory_is_bounded_whatever_comes() {
    let mut file = File::new();
    for range in 1..=(MAX_CALLS as u64 + 10) {
        file.call(range, ALL_REDUCE, &[(BYTES, 1)]).kernel(range, (range, range + 1));
        file.0.captured(range, range);
    }
    // Ends without a start, and starts without an end.
    for range in 1..1_000 {
        file.call(1 << 40 | range, if range < 500 { END } else { START }, &[]);
    }
    for thread in 0..MAX_GROUPS as u32 + 10 {
        file.open_on(thread, 1 << 41 | u64::from(thread), START, 0);
    }
    assert_eq!(file.0.groups.len(), MAX_GROUPS);
    assert!(file.0.found.calls.len() <= MAX_CALLS && file.0.found.beyond == 0);
    assert!(file.0.known.len() <= MAX_RANGES && file.0.order.len() <= MAX_RANGES);
    assert!(file.0.nodes.len() <= MAX_CAPTURES && file.0.captures.len() <= MAX_CAPTURES);
    for hash in 1..=MAX_COMMUNICATORS as u64 + 10 {
        file.call(1 << 41 | hash, INIT, &[(HASH, hash), (MEMBERS, 2), (RANK, 0)]);
    }
    assert_eq!(file.0.found.communicators.len(), MAX_COMMUNICATORS);
}
