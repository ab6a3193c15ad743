//! A Python stack -> the line that is responsible for it, and what it waits for.

use stage2_model::HostFrame;

/// Whose code a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The user's.
    User,
    /// An inference engine's.
    Engine,
    /// A framework's, or the standard library's.
    Framework,
}

/// Folders of inference engines.
const ENGINES: [&str; 8] = [
    "vllm/",
    "sglang/",
    "tensorrt_llm/",
    "lmdeploy/",
    "llama_cpp/",
    "text_generation_server/",
    "lightllm/",
    "mlc_llm/",
];
/// Folders of frameworks: a line of theirs is the answer only where nobody else's is around it.
const FRAMEWORKS: [&str; 14] = [
    "torch/",
    "triton/",
    "transformers/",
    "accelerate/",
    "flashinfer/",
    "xformers/",
    "numpy/",
    "tokenizers/",
    "safetensors/",
    "jax/",
    "deepspeed/",
    "uvloop/",
    "zmq/",
    "ray/",
];
/// Code that only hands on what it is given: of the standard library, of PyTorch, and of engines.
const PLUMBING: [&str; 21] = [
    "<frozen ",
    "threading.py",
    "runpy.py",
    "multiprocessing/",
    "asyncio/",
    "concurrent/",
    "contextlib.py",
    "functools.py",
    "selectors.py",
    "socket.py",
    "ssl.py",
    "queue.py",
    "logging/",
    "torch/",
    "triton/",
    "uvloop/",
    "zmq/",
    "vllm/utils",
    "vllm/v1/utils",
    "sglang/srt/utils",
    "vllm/sequence.py",
];
/// Files in which a thread waits for messages.
const MESSAGES: [&str; 8] = [
    "selectors.py",
    "asyncio/",
    "queue.py",
    "socket.py",
    "zmq/",
    "uvloop/",
    "multiprocessing/connection.py",
    "multiprocessing/queues.py",
];
/// Files in which a thread waits for other ranks.
const RANKS: [&str; 4] =
    ["torch/distributed/", "vllm/distributed/", "sglang/srt/distributed/", "mpi4py/"];
/// How many of the innermost frames say what a thread waits for: a loop of messages is around everything.
const WAITS_IN: usize = 4;

/// The frames of a stack, the innermost first.
pub(super) struct Calls<'f> {
    frames: Vec<&'f HostFrame>,
}

impl<'f> Calls<'f> {
    pub(super) fn of(frames: impl Iterator<Item = &'f HostFrame>) -> Self {
        Self { frames: frames.collect() }
    }

    /// Where the frame stands that names the row: the innermost that does not only hand on, else that of
    /// all.
    pub(super) fn row(&self) -> Option<usize> {
        let own = self.frames.iter().position(|frame| !is_of(&frame.file, &PLUMBING));
        own.or((!self.frames.is_empty()).then_some(0))
    }

    /// What that frame had called in a library.
    pub(super) fn called(&self, row: usize) -> Option<String> {
        let frame = self.frames.get(row.checked_sub(1)?)?;
        Some(frame.function.clone())
    }

    /// Whose the line of the row is; nothing without a stack.
    pub(super) fn origin(&self) -> Option<Origin> {
        let file = &self.frames.get(self.row()?)?.file;
        Some(match () {
            () if is_of(file, &ENGINES) => Origin::Engine,
            () if is_of(file, &FRAMEWORKS) || is_of(file, &PLUMBING) => Origin::Framework,
            () => Origin::User,
        })
    }

    /// The innermost frames lie where a thread waits for messages.
    pub(super) fn waits_for_messages(&self) -> bool {
        self.innermost().any(|frame| is_of(&frame.file, &MESSAGES))
    }

    /// The innermost frames lie where a thread waits for other ranks.
    pub(super) fn waits_for_ranks(&self) -> bool {
        let waits = ["wait", "barrier", "acquire_read", "recv", "dequeue", "broadcast", "all_"];
        self.innermost().any(|frame| {
            let function = frame.function.rsplit('.').next().unwrap_or_default();
            is_of(&frame.file, &RANKS) && waits.iter().any(|word| function.starts_with(word))
        })
    }

    /// The innermost frames lie where a thread waits for the GPU.
    pub(super) fn synchronises(&self) -> bool {
        self.innermost().any(|frame| {
            frame.file.starts_with("torch/cuda/") && frame.function.ends_with("synchronize")
        })
    }

    /// It writes a log.
    pub(super) fn logs(&self) -> bool {
        self.frames.iter().any(|frame| frame.file.starts_with("logging/"))
    }

    /// It turns text into tokens, or back.
    pub(super) fn tokenises(&self) -> bool {
        self.frames
            .iter()
            .any(|frame| ["tokeniz", "tokenis"].iter().any(|word| frame.file.contains(word)))
    }

    /// It empties the allocator's cache, or collects garbage, which frees memory of the GPU.
    pub(super) fn frees(&self) -> bool {
        let frees = ["empty_cache", "gc_collect", "ipc_collect"];
        self.innermost().any(|frame| frees.iter().any(|name| frame.function.ends_with(name)))
    }

    fn innermost(&self) -> impl Iterator<Item = &&'f HostFrame> {
        self.frames.iter().take(WAITS_IN)
    }
}

fn is_of(file: &str, folders: &[&str]) -> bool {
    folders.iter().any(|folder| file.starts_with(folder))
}
