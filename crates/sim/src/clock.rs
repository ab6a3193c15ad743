//! The clock of the simulated GPU: nanoseconds of CLOCK_REALTIME, as CUPTI's.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Condvar, Mutex, RwLock};

/// The longest single sleep, so that a stepped clock cannot keep a caller asleep.
const MAX_SLEEP_NS: u64 = 100_000_000;

pub(crate) fn now_ns() -> u64 {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) fn sleep_until(until_ns: u64) {
    loop {
        let left = real(until_ns).saturating_sub(now_ns());
        if left == 0 {
            return;
        }
        if is_held(until_ns) {
            await_release(until_ns);
        } else {
            std::thread::sleep(Duration::from_nanos(left.min(MAX_SLEEP_NS)));
        }
    }
}

// Kernels that run until they are released. Until then their end, and all that depends on it, is a time in a far
// future; afterwards such a time stands for one as much later than the release.

/// The duration of a kernel that runs until it is released.
pub(crate) const FOREVER_NS: u64 = u64::MAX;
/// Times from here on are in the future of a release, in an epoch of 73 minutes for each.
const HELD_FROM_NS: u64 = 1 << 62;
const EPOCH_BITS: u32 = 42;

/// When kernels were released, ns.
static RELEASES: RwLock<Vec<u64>> = RwLock::new(Vec::new());
/// Whoever waits for a release sleeps here: its stack can be read at any time.
static RELEASED: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
/// Kernels that were launched to run until the next release.
static HELD: AtomicU64 = AtomicU64::new(0);

/// When the kernels that are released next end.
pub(crate) fn next_release_ns() -> u64 {
    HELD.fetch_add(1, Ordering::SeqCst);
    HELD_FROM_NS + ((RELEASES.read().len() as u64) << EPOCH_BITS)
}

/// Whether a kernel runs that waits for its release.
pub(crate) fn is_any_held() -> bool {
    HELD.load(Ordering::SeqCst) > 0
}

/// Ends the kernels that run until they are released.
pub(crate) fn release() {
    RELEASES.write().push(now_ns());
    HELD.store(0, Ordering::SeqCst);
    drop(RELEASED.0.lock());
    RELEASED.1.notify_all();
}

fn await_release(until_ns: u64) {
    let mut waits = RELEASED.0.lock();
    while is_held(until_ns) {
        RELEASED.1.wait(&mut waits);
    }
}

/// A time that may depend on a release, as it is by now.
pub(crate) fn real(ns: u64) -> u64 {
    let Some(behind) = ns.checked_sub(HELD_FROM_NS).filter(|_| ns < i64::MAX as u64) else {
        return ns;
    };
    let (epoch, behind) = (behind >> EPOCH_BITS, behind & ((1 << EPOCH_BITS) - 1));
    RELEASES.read().get(epoch as usize).map_or(ns, |released| released + behind)
}

/// Whether a time depends on a release that has not come.
pub(crate) fn is_held(ns: u64) -> bool {
    real(ns) >= HELD_FROM_NS && ns < i64::MAX as u64
}

/// Keeps the caller's core busy until `cost_ns` have passed since `begin`.
pub(crate) fn spin_since(begin: Instant, cost_ns: u64) {
    let cost = Duration::from_nanos(cost_ns);
    while begin.elapsed() < cost {
        std::hint::spin_loop();
    }
}

/// A duration changed by up to 2 % either way, the same for the same seed and occasion.
pub(crate) fn jitter(duration_ns: u64, seed: u64, occasion: u64) -> u64 {
    // SplitMix64: a well-mixed function of the two numbers.
    let mut mixed = seed.wrapping_add(occasion.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    let thousandths = 980 + mixed % 41;
    u64::try_from(u128::from(duration_ns) * u128::from(thousandths) / 1000).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_is_bounded_repeatable_and_without_bias() {
        let values: Vec<u64> = (0..10_000).map(|i| jitter(1_000_000, 1, i)).collect();
        assert!(values.iter().all(|v| (980_000..=1_020_000).contains(v)));
        let mean = values.iter().sum::<u64>() / 10_000;
        assert!((999_000..=1_001_000).contains(&mean), "{mean}");
        assert_eq!(values[5], jitter(1_000_000, 1, 5));
        assert_ne!(values, (0..10_000).map(|i| jitter(1_000_000, 2, i)).collect::<Vec<_>>());
    }

    #[test]
    fn sleeping_reaches_the_time() {
        let until = now_ns() + 3_000_000;
        sleep_until(until);
        assert!(now_ns() >= until);
    }
}
