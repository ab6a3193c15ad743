//! What threads share data through: the standard library's atomics, or loom's, which try every order.
//!
//! Modules whose `models.rs` proves them take their atomics from here. With the feature `models`, which
//! only tests may use, loom runs a model again and again, each time in another order of the threads'
//! steps and with other values that a load may still see.

#[cfg(all(feature = "models", not(test)))]
compile_error!("the feature `models` is for `cargo test -p stage2 --lib --features models` only");

#[cfg(not(feature = "models"))]
mod primitives {
    use std::time::Duration;

    use crate::base::clock::Instant;

    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };

    /// What is in one hand at a time. loom's version finds where it is in two.
    #[derive(Debug)]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
            read(self.0.get())
        }

        pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
            write(self.0.get())
        }
    }

    /// So long a thread that waits keeps its processor.
    const SPIN: Duration = Duration::from_micros(50);

    #[derive(Default)]
    pub(crate) struct Spinning(Option<Instant>);

    impl Spinning {
        /// Looks again: at once for a while, then after others that want the processor, because the thread
        /// that is waited for may be one of them. `false` once this took longer than `patience`.
        pub(crate) fn goes_on(&mut self, patience: Duration) -> bool {
            let waited = self.0.get_or_insert_with(Instant::now).elapsed();
            if waited < SPIN {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
            waited <= patience
        }
    }

    macro_rules! process_wide {
        ($(#[$meta:meta])* static $name:ident: $type:ty = $value:expr) => {
            $(#[$meta])* static $name: $type = $value;
        };
    }
    pub(crate) use process_wide;
}

#[cfg(feature = "models")]
mod primitives {
    use std::time::Duration;

    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::atomic::{
        AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };

    /// Gives up after a few looks: of two threads that wait, loom would let each look for the other's
    /// sake without end.
    #[derive(Default)]
    pub(crate) struct Spinning(usize);

    /// More than a thread needs that waits for one other one.
    const LOOKS: usize = 6;

    impl Spinning {
        pub(crate) fn goes_on(&mut self, _patience: Duration) -> bool {
            loom::thread::yield_now();
            self.0 += 1;
            self.0 < LOOKS
        }
    }

    /// loom makes no atomic before the program runs. No model uses such a static.
    macro_rules! process_wide {
        ($(#[$meta:meta])* static $name:ident: $type:ty = $value:expr) => {
            $(#[$meta])* static $name: std::sync::LazyLock<$type> =
                std::sync::LazyLock::new(|| $value);
        };
    }
    pub(crate) use process_wide;

    /// Runs `body` on another thread of a model, with what the threads share.
    pub(crate) fn beside<S: 'static, T: 'static>(
        shared: &loom::sync::Arc<S>,
        body: impl FnOnce(&S) -> T + 'static,
    ) -> loom::thread::JoinHandle<T> {
        let shared = shared.clone();
        loom::thread::spawn(move || body(&shared))
    }

    /// Runs `body` in every order of its threads' steps in which a thread is interrupted at most
    /// `preemptions` times where it need not wait, and states how many there are.
    pub(crate) fn try_every_order(
        name: &str,
        preemptions: usize,
        body: impl Fn() + Send + Sync + 'static,
    ) {
        use std::sync::atomic::AtomicU64;
        let orders = std::sync::Arc::new(AtomicU64::new(0));
        let counted = std::sync::Arc::clone(&orders);
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.max_branches = 10_000;
        let started = std::time::Instant::now();
        builder.check(move || {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            body();
        });
        let orders = orders.load(std::sync::atomic::Ordering::Relaxed);
        println!(
            "{name}: {orders} orders with at most {preemptions} preemptions, {:.1} s",
            started.elapsed().as_secs_f64()
        );
        assert!(orders > 1, "{name}: its threads share nothing");
    }
}

pub(crate) use primitives::*;
