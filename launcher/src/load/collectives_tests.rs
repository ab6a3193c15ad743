use stage2_spool::MonoNs;

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

/// A file with paths of the same numbers as their names.
struct File(Gather);

impl File {
    fn new() -> Self {
        let mut gather = Gather::default();
        (0..).zip(NAMES).for_each(|(index, name)| gather.name(index, name));
        for (index, name) in (20..).zip([b"ncclSend", b"ncclRecv"]) {
            gather.name(index, name);
        }
        for path in [ALL_REDUCE, START, END, INIT, 20, 21] {
            gather.path(path, Some(path), Some(0));
        }
        // The same name in a domain of the user's.
        gather.path(31, Some(ALL_REDUCE), None);
        Self(gather)
    }

    fn open(&mut self, range: u64, path: u32, parent: u64) -> &mut Self {
        let open = RangeOpen {
            range,
            path,
            thread: 1,
            parent,
            start: MonoNs(0),
            start_end: false,
            category: 0,
            payload: None,
            continues: 0,
        };
        self.0.open(&open, path);
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

    fn kernel(&mut self, range: u64, (start, end): (u64, u64)) -> &mut Self {
        self.replayed(range, (start, end), 0, 1)
    }

    fn replayed(
        &mut self,
        range: u64,
        (start, end): (u64, u64),
        node: u64,
        correlation: u64,
    ) -> &mut Self {
        self.0.kernel(CommunicationKernel {
            operation: Operation::Broadcast,
            span: Span { start, end },
            range,
            node,
            correlation,
            device: 0,
            stage: 5,
            instance: 2,
        });
        self
    }

    fn calls(&mut self) -> Vec<Call> {
        std::mem::take(&mut self.0.found.calls)
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
        device: 0,
        start_ns: 10,
        end_ns: 20,
        stage: 5,
        instance: 2,
        replayed: false,
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
    let known = Communicator { hash: 7, members: Some(3), rank: Some(1) };
    for (first, peers) in [(10, 3), (30, 1)] {
        file.call(first, START, &[]);
        for peer in 0..peers {
            file.call(first + 1 + 2 * peer, 20, &[(BYTES, 64), (HASH, 7)]);
            file.call(first + 2 + 2 * peer, 21, &[(BYTES, 64), (HASH, 7)]);
        }
        file.call(first + 19, END, &[]).kernel(first + 19, (first, first + 5));
    }
    assert_eq!(file.0.found.communicators, [known]);
    let calls = file.calls();
    let told: Vec<_> = calls.iter().map(|call| (call.operation, call.bytes)).collect();
    assert_eq!(
        told,
        [(Operation::AllToAll, Some(64)), (Operation::SendRecv, Some(128))],
        "to each of three 64 bytes; then only one pair"
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
    assert_eq!((file.0.found.calls.len(), file.0.found.beyond), (MAX_CALLS, 10));
    assert!(file.0.known.len() <= MAX_RANGES && file.0.order.len() <= MAX_RANGES);
    assert!(file.0.nodes.len() <= MAX_CAPTURES && file.0.captures.len() <= MAX_CAPTURES);
    for hash in 1..=MAX_COMMUNICATORS as u64 + 10 {
        file.call(1 << 41 | hash, INIT, &[(HASH, hash), (MEMBERS, 2), (RANK, 0)]);
    }
    assert_eq!(file.0.found.communicators.len(), MAX_COMMUNICATORS);
}
