//! Room for what CUPTI tells of the records of a buffer, one place beside each buffer of the pool.
//!
//! A completion callback may run on a guest thread, which allocates nothing. So the places are address
//! space that is reserved once; a place takes memory (8 KiB) when its buffer first comes back.

use cupti_sys::fields::Layouts;

use crate::base::pages;

/// The places, by index of the buffer.
pub(super) struct LayoutSlots {
    start: *mut Layouts,
    count: usize,
}

impl LayoutSlots {
    /// So many places. `None` where the system has no address space left.
    pub(super) fn new(count: usize) -> Option<Self> {
        let bytes = count.checked_mul(size_of::<Layouts>())?;
        let start = pages::map(bytes, libc::MAP_PRIVATE | libc::MAP_NORESERVE)?;
        Some(LayoutSlots { start: start.cast(), count })
    }

    /// The place of a buffer: valid for the life of the process. Fresh places hold zeros, which is a
    /// table without layouts. Who may use it is who may use the buffer.
    pub(super) fn place(&self, index: u32) -> Option<*mut Layouts> {
        let index = index as usize;
        (index < self.count).then(|| self.start.wrapping_add(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_place_is_a_table_without_layouts_and_there_are_no_others() {
        let slots = LayoutSlots::new(3).unwrap();
        // SAFETY: nobody else knows the mapping, and a table is made of numbers of any value.
        assert!(unsafe { &*slots.place(2).unwrap() } == &Layouts::new());
        assert_eq!(slots.place(3), None);
        assert!(LayoutSlots::new(usize::MAX).is_none());
    }
}
