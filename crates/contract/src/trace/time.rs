//! Clock readings as types: nanoseconds that say which clock they were read from.
//!
//! Only readings of one clock can be subtracted. Converting between clocks needs an
//! [`Anchor`](crate::trace::Anchor), a set of readings that were taken together.

macro_rules! nanos {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl $name {
            /// Nanoseconds from `earlier` to `self`; 0 where `earlier` is the later one.
            pub fn since(self, earlier: Self) -> u64 {
                self.0.saturating_sub(earlier.0)
            }
        }
    };
}

nanos!(
    /// CUPTI's normalised GPU clock (`cuptiGetTimestamp`), ns. Zero in a record of GPU work
    /// means that CUPTI could not collect the timestamp.
    GpuNs
);
nanos!(
    /// `CLOCK_MONOTONIC` of the machine that was traced, ns.
    MonoNs
);
nanos!(
    /// `CLOCK_REALTIME`, ns since the Unix epoch.
    WallNs
);
