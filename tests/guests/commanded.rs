//! A guest that does what its standard input says, line by line, as a server does what is asked of it.

use std::collections::VecDeque;
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use crate::cuda::{self, Graph, Stream};
use crate::ends;
use crate::nvtx::{client, range};
use crate::process::{address_space, limit, limit_for_a_while};

static BUSY: AtomicBool = AtomicBool::new(false);

/// Answers each line with one that begins with `ok`; ends with its input.
pub fn obey() {
    let (mut stream, mut graph, mut threads) = (None, None, Vec::new());
    let mut domain = 0;
    let mut string = 0;
    let (mut others, mut started) = (Vec::new(), VecDeque::new());
    let mut stuck: Option<std::thread::JoinHandle<()>> = None;
    let mut crew: Vec<Arc<AtomicU64>> = Vec::new();
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("a line");
        let words: Vec<&str> = line.split(' ').collect();
        let number = || words.last().and_then(|word| word.parse().ok()).expect("a number");
        let mut said = String::new();
        match words[0] {
            "cuda" => {
                cuda::init();
                stream = Some(Stream::new());
            }
            "work" => work(stream.as_ref().expect("cuda"), words[1], number()),
            // So many ranges of that name without a pause, each with a launch.
            "burst" => {
                let stream = stream.as_ref().expect("cuda");
                for _ in 0..number() {
                    stream.launch_in(words[1].as_bytes(), 1);
                }
                stream.synchronize();
            }
            "launch" => stream.as_ref().expect("cuda").launch(number()),
            "push" => drop(client().push(words[1].as_bytes())),
            "start" => started.push_back(client().start(words[1])),
            // The oldest of them.
            "end" => client().end(started.pop_front().expect("started")),
            "pop" => drop(client().pop()),
            "register" => {
                domain = client().domain(words[1]);
                string = client().register(domain, words[2]);
            }
            "registered" => {
                client().push_registered(domain, string, 7);
                stream.as_ref().expect("cuda").launch(number());
                stream.as_ref().expect("cuda").synchronize();
                client().pop_in(domain);
            }
            "capture" => {
                let stream = stream.as_ref().expect("cuda");
                graph = Some(stream.capture(|| stream.launch(number())));
            }
            "replay" => replay(graph.as_ref(), stream.as_ref(), words[1]),
            "busy" => {
                BUSY.store(true, Ordering::SeqCst);
                threads.extend((0..number()).map(|_| std::thread::spawn(be_busy)));
            }
            "calm" => {
                BUSY.store(false, Ordering::SeqCst);
                let done = threads.drain(..).map(|thread| thread.join().expect("ends"));
                said = format!(" {}", done.sum::<u64>());
            }
            // So many ranges on each of four threads at once, of which this is one: more than anybody takes in.
            "flood" => flood(number()),
            // Threads that go on, each with a range of its own name, until the process ends.
            "crew" => crew.extend((0..number()).map(member)),
            // Each of them closes its range so often.
            "turns" => await_turns(&crew, number().into()),
            // A further thread, and what it does: `on 0 push decode`.
            "thread" => others.push(Other::new()),
            "on" => {
                others[words[1].parse::<usize>().expect("a number")].tell(&words[2..].join(" "))
            }
            // A thread that waits for a kernel that does not end: alone, in a graph, or in a full queue.
            "stuck" => stuck = Some(be_stuck(words[1].to_owned(), words[2].to_owned())),
            "release" => cuda::release(),
            // A thread that allocates on the GPU, in a range.
            "allocate" => stuck = Some(be_allocating()),
            // What was stuck goes on.
            "unstuck" => stuck.take().expect("stuck").join().expect("ends"),
            "fork" => said = format!(" {}", forked()),
            "room" => limit_files(number()),
            // No address space, and no threads, beyond what there is; and again as much as there may be.
            "no_memory" => limit_for_a_while(libc::RLIMIT_AS, address_space()),
            "no_threads" => limit_for_a_while(libc::RLIMIT_NPROC, 0),
            "enough" => {
                limit_for_a_while(libc::RLIMIT_AS, libc::RLIM_INFINITY);
                limit_for_a_while(libc::RLIMIT_NPROC, libc::RLIM_INFINITY);
            }
            // A thread stands for so many seconds while it holds the allocator, which the test has preloaded.
            "hold" => hold_the_allocator(number()),
            // Exit takes time: in a handler, and again behind all handlers.
            "linger" => ends::linger(),
            "main_ends" => {
                println!("ok");
                std::io::stdout().flush().expect("heard");
                ends::end_main();
            }
            other => panic!("no command {other:?}"),
        }
        println!("ok{said}");
        std::io::stdout().flush().expect("heard");
    }
    ends::register_what_lingers();
}

/// Neither this thread nor the caller allocates before it lets go.
fn hold_the_allocator(seconds: u32) {
    // SAFETY: the name is NUL-terminated.
    let hold = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"hold_allocator".as_ptr()) };
    assert!(!hold.is_null(), "the allocator that can be held is not preloaded");
    // SAFETY: the function has this type.
    let hold: extern "C" fn(u32) = unsafe { std::mem::transmute(hold) };
    std::thread::spawn(move || hold(seconds));
    std::thread::sleep(Duration::from_millis(200));
}

/// Launches on a stream of its own what does not end before it is released, in a range, and waits for it.
fn be_stuck(how: String, kernel: String) -> std::thread::JoinHandle<()> {
    let kernel = std::ffi::CString::new(kernel).expect("a name");
    std::thread::Builder::new()
        .name("stuck".to_owned())
        .spawn(move || {
            let stream = Stream::new();
            stream.work(b"before", 10);
            let graph = stream.capture(|| {
                stream.launch(3);
                stream.launch_named(&kernel);
                stream.launch(3);
            });
            client().push(b"decode");
            match how.as_str() {
                "graph" => graph.replay(&stream),
                _ => stream.launch_named(&kernel),
            }
            // A recorded step has fewer kernels than the queue of a stream has places.
            let (rounds, kernels) = if how == "queue" { (4, 500) } else { (1, 10) };
            (0..rounds).for_each(|_| stream.launch(kernels));
            stream.synchronize();
            client().pop();
            // Work that ends behind it tells that it has ended.
            stream.work(b"behind", 1);
        })
        .expect("a thread")
}

fn be_allocating() -> std::thread::JoinHandle<()> {
    let allocates = || {
        client().push(b"load");
        cuda::allocate(1 << 20);
        client().pop();
    };
    std::thread::Builder::new().name("allocates".to_owned()).spawn(allocates).expect("a thread")
}

/// A thread that does what it is told, with a stream of its own.
struct Other {
    orders: Sender<String>,
    done: Receiver<()>,
}

impl Other {
    fn new() -> Self {
        let (orders, heard) = channel::<String>();
        let (tell, done) = channel();
        std::thread::spawn(move || {
            let stream = Stream::new();
            tell.send(()).expect("heard");
            for order in heard {
                match order.split(' ').collect::<Vec<_>>()[..] {
                    ["push", name] => drop(client().push(name.as_bytes())),
                    ["pop"] => drop(client().pop()),
                    ["launch", count] => stream.launch(count.parse().expect("a number")),
                    ["work", name, count] => work(&stream, name, count.parse().expect("a number")),
                    _ => panic!("no order {order:?}"),
                }
                tell.send(()).expect("heard");
            }
        });
        // Streams are numbered in the order in which they are made.
        done.recv().expect("a stream");
        Self { orders, done }
    }

    fn tell(&self, order: &str) {
        self.orders.send(order.to_owned()).expect("heard");
        self.done.recv().expect("done");
    }
}

fn work(stream: &Stream, name: &str, kernels: u32) {
    stream.work(name.as_bytes(), kernels);
}

fn replay(graph: Option<&Graph>, stream: Option<&Stream>, name: &str) {
    let (graph, stream) = (graph.expect("captured"), stream.expect("cuda"));
    client().push(name.as_bytes());
    graph.replay(stream);
    stream.synchronize();
    client().pop();
}

/// Steps until it is told to stop. How many kernels it launched.
fn be_busy() -> u64 {
    let stream = Stream::new();
    let mut kernels = 0;
    while BUSY.load(Ordering::SeqCst) {
        client().push(b"step");
        client().push(b"layer");
        stream.launch(3);
        kernels += 3;
        client().pop();
        stream.synchronize();
        client().pop();
        std::thread::sleep(Duration::from_micros(200));
    }
    kernels
}

fn flood(ranges: u32) {
    let work = || {
        for _ in 0..ranges {
            range(b"flood");
        }
    };
    std::thread::scope(|scope| {
        (0..3).for_each(|_| drop(scope.spawn(work)));
        // This thread goes on afterwards.
        work();
    });
}

const TURN: u32 = 10;

/// A thread that opens its range, launches, waits for that and closes it, again and again. Counts the turns.
fn member(number: u32) -> Arc<AtomicU64> {
    let turns = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&turns);
    std::thread::spawn(move || {
        let stream = Stream::new();
        let name = format!("member {number}");
        loop {
            stream.work(name.as_bytes(), TURN);
            counted.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    turns
}

fn await_turns(crew: &[Arc<AtomicU64>], more: u64) {
    let until: Vec<u64> = crew.iter().map(|turns| turns.load(Ordering::SeqCst) + more).collect();
    for (turns, until) in crew.iter().zip(until) {
        while turns.load(Ordering::SeqCst) < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A child that uses NVTX and then waits to be killed, with this process. Its number.
fn forked() -> i32 {
    // SAFETY: the child does what it is to be tested with, and waits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: no preconditions. The child must not outlive its test.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        range(b"in the child");
        loop {
            // SAFETY: no preconditions.
            unsafe { libc::pause() };
        }
    }
    child
}

fn limit_files(bytes: u32) {
    limit(libc::RLIMIT_FSIZE, bytes.into(), libc::RLIM_INFINITY);
}
