//! The clock of the simulated GPU: nanoseconds of CLOCK_REALTIME, as CUPTI's.

use std::time::{Duration, Instant, SystemTime};

/// The longest single sleep, so that a stepped clock cannot keep a caller asleep.
const MAX_SLEEP_NS: u64 = 100_000_000;

pub(crate) fn now_ns() -> u64 {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) fn sleep_until(until_ns: u64) {
    loop {
        let left = until_ns.saturating_sub(now_ns());
        if left == 0 {
            return;
        }
        std::thread::sleep(Duration::from_nanos(left.min(MAX_SLEEP_NS)));
    }
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
