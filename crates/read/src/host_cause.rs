//! A Python stack and the state of its thread -> the responsible line, and what the thread does or waits for.
//!
//! Reports and exports use the same rules, so that a line has one name in all of them.

use stage2_contract::trace::{HostState, NONE};
use stage2_model::{HostCauseKind, HostFrame};

/// Where the code of a line comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// The user.
    User,
    /// An inference engine.
    Engine,
    /// A framework or the standard library.
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
/// Folders of frameworks. A line of a framework names a row only if the stack has no other code.
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
/// Code that only calls other code (event loops, wrappers): of the standard library, PyTorch and engines.
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
/// Native libraries that only do what they were asked for: of C, C++, CUDA and the driver, and our own.
const NATIVE_PLUMBING: [&str; 13] = [
    "ld-linux",
    "libc.so",
    "libc-",
    "libcuda",
    "libcupti",
    "libgcc",
    "libgomp",
    "libm.so",
    "libnvidia",
    "libnvToolsExt",
    "libpthread",
    "libstage2",
    "libstdc++",
];
/// Namespaces of standard libraries, which are linked into programs, and functions of C libraries and compilers.
const NATIVE_NAMES: [&str; 5] = ["std::", "core::", "alloc::", "__", "_start"];
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
/// How many of the innermost frames determine what a thread waits for: almost every stack has an event loop
/// further out.
pub const WAITS_IN: usize = 4;

/// Returns the innermost frames of a stack that tell what [`Calls`] says of it: those after the one that names
/// the row change nothing.
pub fn telling(frames: impl Iterator<Item = HostFrame>) -> Vec<HostFrame> {
    let mut found: Vec<HostFrame> = Vec::new();
    let mut has_row = false;
    for frame in frames {
        if has_row && found.len() >= WAITS_IN {
            break;
        }
        has_row |= !is_plumbing(&frame);
        found.push(frame);
    }
    found
}

/// The frames of a stack, the innermost first.
#[derive(Debug)]
pub struct Calls<'f> {
    frames: Vec<&'f HostFrame>,
}

impl<'f> Calls<'f> {
    /// The calls of these frames, the innermost first.
    pub fn of(frames: impl Iterator<Item = &'f HostFrame>) -> Self {
        Self { frames: frames.collect() }
    }

    /// Returns the index of the frame that names the row: the innermost one that is not plumbing, else the innermost
    /// of all.
    pub fn row(&self) -> Option<usize> {
        let own = self.frames.iter().position(|frame| !is_plumbing(frame));
        own.or((!self.frames.is_empty()).then_some(0))
    }

    /// Returns the line that names the row. That of a generator expression or a comprehension is one of the function
    /// that contains it.
    pub fn line(&self) -> Option<HostFrame> {
        let mut frame = HostFrame::clone(self.frames.get(self.row()?)?);
        let nameless = ["<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>"];
        while let Some((function, name)) = frame.function.rsplit_once(".<locals>.")
            && nameless.contains(&name)
        {
            frame.function = function.to_owned();
        }
        Some(frame)
    }

    /// Returns the library function that this frame called.
    pub fn called(&self, row: usize) -> Option<String> {
        let frame = self.frames.get(row.checked_sub(1)?)?;
        Some(frame.function.clone())
    }

    /// Returns the origin of the line that names the row; `None` without a stack.
    fn origin(&self) -> Option<Origin> {
        let frame = self.frames.get(self.row()?)?;
        Some(match () {
            () if is_of(&frame.file, &ENGINES) => Origin::Engine,
            () if is_of(&frame.file, &FRAMEWORKS) || is_plumbing(frame) => Origin::Framework,
            () => Origin::User,
        })
    }

    /// Whether the thread waits for messages, according to the innermost frames.
    pub fn waits_for_messages(&self) -> bool {
        self.innermost().any(|frame| is_of(&frame.file, &MESSAGES))
    }

    /// Whether the thread waits for other ranks, according to the innermost frames.
    pub fn waits_for_ranks(&self) -> bool {
        let waits = ["wait", "barrier", "acquire_read", "recv", "dequeue", "broadcast", "all_"];
        self.innermost().any(|frame| {
            let function = frame.function.rsplit('.').next().unwrap_or_default();
            is_of(&frame.file, &RANKS) && waits.iter().any(|word| function.starts_with(word))
        })
    }

    /// Whether the thread waits for the GPU, according to the innermost frames.
    pub fn synchronises(&self) -> bool {
        self.innermost().any(|frame| {
            frame.file.starts_with("torch/cuda/") && frame.function.ends_with("synchronize")
        })
    }

    /// Whether the thread writes a log.
    pub fn logs(&self) -> bool {
        self.frames.iter().any(|frame| frame.file.starts_with("logging/"))
    }

    /// Whether the thread tokenises or detokenises text.
    pub fn tokenises(&self) -> bool {
        self.frames
            .iter()
            .any(|frame| ["tokeniz", "tokenis"].iter().any(|word| frame.file.contains(word)))
    }

    /// Whether the thread empties the allocator's cache, or collects garbage, which frees GPU memory.
    pub fn frees(&self) -> bool {
        let frees = ["empty_cache", "gc_collect", "ipc_collect"];
        self.innermost().any(|frame| frees.iter().any(|name| frame.function.ends_with(name)))
    }

    fn innermost(&self) -> impl Iterator<Item = &&'f HostFrame> {
        self.frames.iter().take(WAITS_IN)
    }
}

/// Returns what a thread does: from its state first, then from its stack.
pub fn doing(state: HostState, calls: &Calls<'_>) -> HostCauseKind {
    let waits = !matches!(state, HostState::Running);
    match state {
        HostState::Unknown => HostCauseKind::Unknown,
        HostState::Runnable => HostCauseKind::NotScheduled,
        HostState::GilWait => HostCauseKind::Gil,
        _ if calls.waits_for_ranks() => HostCauseKind::OtherRank,
        HostState::Driver => HostCauseKind::CudaCall,
        _ if calls.synchronises() => HostCauseKind::CudaCall,
        _ if waits && calls.waits_for_messages() => HostCauseKind::Requests,
        HostState::Lock => HostCauseKind::Lock,
        HostState::Sleep => HostCauseKind::Sleep,
        HostState::Poll | HostState::Blocked => HostCauseKind::System,
        HostState::Running => match calls.origin() {
            None => HostCauseKind::NativeCode,
            Some(Origin::User) => HostCauseKind::UserCode,
            Some(Origin::Engine) => HostCauseKind::EngineCode,
            Some(Origin::Framework) => HostCauseKind::FrameworkCode,
        },
    }
}

/// Returns the thread that a thread waits for, of which the line is responsible then. `holder` is the thread that
/// holds the GIL, or [`NONE`].
pub fn waits_for(state: HostState, holder: u32) -> Option<u32> {
    let waits = matches!(state, HostState::GilWait | HostState::Lock);
    (waits && holder != NONE).then_some(holder)
}

/// Returns the thread that a cause names: the one that is waited for, or the launching one if there is no line.
pub fn named_thread<T>(kind: HostCauseKind, launching: T, waits_for: Option<T>) -> Option<T> {
    match kind {
        HostCauseKind::NativeCode => Some(launching),
        _ => waits_for.filter(|_| kind.has_line()),
    }
}

/// Whether the code of a frame only calls other code, or was only called to do something: no row has its name while
/// another frame is in the stack.
fn is_plumbing(frame: &HostFrame) -> bool {
    let is_cuda = ["cuda", "cu"].iter().any(|prefix| {
        let rest = frame.function.strip_prefix(prefix);
        rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_uppercase()))
    });
    let has_no_name =
        frame.function.strip_prefix(&*frame.file).is_some_and(|at| at.starts_with("+0x"));
    // What torch.compile generates has a hash for a name, and only launches kernels.
    let is_generated =
        ["/inductor_cache/", "/torchinductor_"].iter().any(|of| frame.file.contains(of));
    match frame.line {
        _ if is_generated => true,
        // Native code has no lines. A runtime may be linked into the program.
        0 if is_cuda || has_no_name || is_of(&frame.function, &NATIVE_NAMES) => true,
        0 => is_of(&frame.file, &NATIVE_PLUMBING) || is_of(&frame.file, &PLUMBING),
        _ => is_of(&frame.file, &PLUMBING),
    }
}

fn is_of(file: &str, folders: &[&str]) -> bool {
    folders.iter().any(|folder| file.starts_with(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(frames: &[(&str, &str, u32)]) -> Option<usize> {
        let frame = |(function, file, line): &(&str, &str, u32)| HostFrame {
            function: (*function).to_owned(),
            file: (*file).to_owned(),
            line: *line,
        };
        let frames: Vec<HostFrame> = frames.iter().map(frame).collect();
        Calls::of(frames.iter()).row()
    }

    #[test]
    fn native_code_that_only_calls_or_is_called_names_no_row() {
        let waits = ("pthread_cond_clockwait", "libc.so.6", 0);
        let of_library = ("std::condition_variable::wait", "server", 0);
        let own = ("Queue::await_batch", "server", 0);
        let stripped = ("server+0x12f0", "server", 0);
        let starts = ("_start", "server", 0);
        assert_eq!(row(&[waits, of_library, own, starts]), Some(2));
        assert_eq!(row(&[waits, stripped, own]), Some(2));
        let runtime = ("cudaStreamSynchronize", "libggml-cuda.so", 0);
        let driver = ("cuStreamSynchronize", "libcuda.so.1", 0);
        let backend = ("ggml_backend_cuda_synchronize", "libggml-cuda.so", 0);
        assert_eq!(row(&[driver, runtime, backend]), Some(2));
        assert_eq!(row(&[("cublasCreate_v2", "libcublas.so.13", 0), own]), Some(0));
        // Of Python, a name says nothing of the kind.
        assert_eq!(row(&[("cuBatch", "server.py", 4), ("main", "server.py", 9)]), Some(0));
        assert_eq!((row(&[waits, stripped]), row(&[])), (Some(0), None));
        let generated = ("Runner.call", "/tmp/torchinductor_me/tl/ctlx6av.py", 948);
        let caller = ("LlamaModel.forward", "vllm/model_executor/models/llama.py", 7);
        assert_eq!(row(&[generated, ("fn", "torch/_inductor/utils.py", 3), caller]), Some(2));
    }

    #[test]
    fn a_generator_expression_belongs_to_its_function() {
        let line = |function: &str| {
            let frame = HostFrame { function: function.to_owned(), ..HostFrame::default() };
            Calls::of(std::iter::once(&frame)).line().map(|frame| frame.function)
        };
        let own = Some("Scheduler.key".to_owned());
        assert_eq!(line("Scheduler.key.<locals>.<genexpr>"), own);
        assert_eq!(line("Scheduler.key.<locals>.<listcomp>.<locals>.<genexpr>"), own);
        // A function that is defined there may run anywhere.
        let lambda = "Scheduler.key.<locals>.<lambda>";
        assert_eq!(line(lambda).as_deref(), Some(lambda));
        assert_eq!(line("<genexpr>").as_deref(), Some("<genexpr>"));
    }
}
