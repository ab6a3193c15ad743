//! What `STAGE2_BUFFERS` asks for into how many buffers of which size, and where each lies.
//!
//! CUPTI keeps one buffer for each launching thread, so the sizes follow the number of threads: the
//! first ones get large buffers, which change hands rarely; when these are taken, smaller ones go
//! out. All lie in one mapping, largest first.

use stage2_contract::settings::Buffers;

/// A large buffer, bytes: 5,000 kernel records of CUPTI 13.
const LARGE_BYTES: usize = 1 << 20;
/// A buffer for the threads after the first, bytes.
const MEDIUM_BYTES: usize = 256 << 10;
/// The smallest buffer, bytes: 300 kernel records of CUPTI 13. No smaller one was tried with CUPTI.
pub(super) const SMALL_BYTES: usize = 64 << 10;
/// Small buffers beside those that were asked for by size and number.
pub(super) const BESIDE: usize = if cfg!(feature = "models") { 0 } else { 64 };
/// Of a bound in bytes, the shares of the large and of the medium buffers: 32 and 48 MiB of the
/// default's 256. The other 176 MiB are 2,816 small ones: 1,000 threads hold one each, and as many
/// again may wait to be read after a flush, which takes them from all threads at once.
const LARGE_SHARE: (usize, usize) = (2, 16);
const MEDIUM_SHARE: (usize, usize) = (3, 16);

/// Buffers of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class {
    /// Bytes of one.
    pub(super) bytes: usize,
    /// How many.
    pub(super) count: usize,
    /// Index of the first.
    pub(super) first: usize,
    /// Where the first lies, bytes from the start of the mapping.
    pub(super) offset: usize,
}

/// All sizes, largest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout(pub(super) Vec<Class>);

impl Layout {
    pub(super) fn new(asked: Buffers) -> Self {
        let sizes = match asked {
            Buffers::Sized { bytes, count } => vec![(bytes, count), (SMALL_BYTES, BESIDE)],
            Buffers::Within { bytes } => {
                let share = |(part, of): (usize, usize)| bytes / of * part;
                let large = share(LARGE_SHARE) / LARGE_BYTES;
                let medium = share(MEDIUM_SHARE) / MEDIUM_BYTES;
                let rest = bytes - large * LARGE_BYTES - medium * MEDIUM_BYTES;
                let small = (SMALL_BYTES, rest / SMALL_BYTES);
                vec![(LARGE_BYTES, large), (MEDIUM_BYTES, medium), small]
            }
        };
        let mut layout = Layout(Vec::with_capacity(sizes.len() + 1));
        for (bytes, count) in sizes {
            layout.add(bytes, count);
        }
        layout
    }

    /// Adds buffers behind all others.
    pub(super) fn add(&mut self, bytes: usize, count: usize) {
        let (first, offset) = (self.count(), self.bytes());
        self.0.push(Class { bytes, count, first, offset });
    }

    /// How many buffers there are.
    pub(super) fn count(&self) -> usize {
        self.0.last().map_or(0, |class| class.first + class.count)
    }

    /// Bytes of all.
    pub(super) fn bytes(&self) -> usize {
        self.0.last().map_or(0, |class| class.offset + class.bytes * class.count)
    }

    /// Where a buffer lies, bytes from the start of the mapping, and its class.
    pub(super) fn extent(&self, index: usize) -> Option<(usize, usize)> {
        let at = self.0.iter().rposition(|class| class.first <= index)?;
        let class = self.0.get(at)?;
        let within = index - class.first;
        (within < class.count).then_some((class.offset + within * class.bytes, at))
    }

    /// The buffer that starts so many bytes behind the start of the mapping.
    pub(super) fn index_of(&self, offset: usize) -> Option<usize> {
        let class = self.0.iter().rev().find(|class| class.count > 0 && class.offset <= offset)?;
        let within = offset - class.offset;
        let index = within / class.bytes;
        (within.is_multiple_of(class.bytes) && index < class.count).then_some(class.first + index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_kept_and_its_first_buffers_are_the_largest() {
        for mib in [1, 2, 5, 64, 128, 4096] {
            let layout = Layout::new(Buffers::Within { bytes: mib << 20 });
            assert_eq!(layout.bytes(), mib << 20);
            assert!(layout.0.is_sorted_by(|a, b| a.bytes > b.bytes), "{layout:?}");
        }
        let Layout(classes) = Layout::new(Buffers::Within { bytes: 256 << 20 });
        assert_eq!(classes.iter().map(|class| class.count).collect::<Vec<_>>(), [32, 192, 2816]);
        let Layout(least) = Layout::new(Buffers::Within { bytes: 1 << 20 });
        assert_eq!(least.iter().map(|class| class.count).collect::<Vec<_>>(), [0, 0, 16]);
    }

    #[test]
    fn every_buffer_has_a_place_of_its_own_and_is_found_by_its_start_only() {
        for asked in [
            Buffers::Within { bytes: 1 << 20 },
            Buffers::Within { bytes: 64 << 20 },
            Buffers::Sized { bytes: 68 << 10, count: 3 },
        ] {
            let mut layout = Layout::new(asked);
            layout.add(SMALL_BYTES, 5);
            let mut end = 0;
            for index in 0..layout.count() {
                let (offset, class) = layout.extent(index).expect("in the layout");
                assert_eq!((offset, layout.index_of(offset)), (end, Some(index)));
                assert_eq!(layout.index_of(offset + 8), None);
                end = offset + layout.0[class].bytes;
            }
            assert_eq!(end, layout.bytes());
            assert_eq!((layout.index_of(end), layout.extent(layout.count())), (None, None));
        }
    }
}
