//! What the guest holds for a domain or a registered string: number and glob bits in one word, so
//! that guest threads look nothing up.

/// A domain or a registered string; [`Handle::NULL`] is the default domain, and no string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(pub u64);

impl Handle {
    /// The default domain, and "no registered string".
    pub const NULL: Handle = Handle(0);
    /// Above the lowest bit, which is always set, and a number of 32 bits.
    const LIBRARY: u64 = 1 << 33;
    const GLOB_SHIFT: u32 = 34;

    /// A handle; never null. `globs`: the `STAGE2_RANGES` globs that match it. `library`: it is a
    /// domain of a library ([`stage2_contract::text::is_library_domain`]).
    pub fn new(number: u32, globs: u32, library: bool) -> Self {
        let library = if library { Self::LIBRARY } else { 0 };
        Handle(u64::from(globs) << Self::GLOB_SHIFT | library | u64::from(number) << 1 | 1)
    }

    /// The number in the table of registrations (`registry`); 0 for [`Handle::NULL`].
    pub fn number(self) -> u32 {
        (self.0 >> 1) as u32
    }

    /// The globs that match.
    pub fn globs(self) -> u32 {
        (self.0 >> Self::GLOB_SHIFT) as u32
    }

    /// Whether it is a domain of a library, whose ranges are never those of the program.
    pub fn is_library(self) -> bool {
        self.0 & Self::LIBRARY != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_carry_number_globs_and_library_and_are_never_null() {
        for number in [1, 77, u32::MAX] {
            for globs in [0, 1, (1 << crate::base::glob::MAX_GLOBS) - 1] {
                for library in [false, true] {
                    let handle = Handle::new(number, globs, library);
                    assert_ne!(handle, Handle::NULL);
                    assert_eq!((handle.number(), handle.globs()), (number, globs));
                    assert_eq!(handle.is_library(), library);
                }
            }
        }
        assert_eq!(Handle::NULL.number(), 0);
    }
}
