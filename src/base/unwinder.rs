//! A code address into the unwind table of its library, for the unwinder that is linked into us.
//!
//! GCC's unwinder asks `_dl_find_object` for it, which the loader has from glibc 2.35. If that name
//! were left open, no program of an older glibc, or of musl, would start while we are preloaded. So we
//! define it. The symbol is hidden: the guest's own unwinder does not see it.

use std::ffi::{c_int, c_void};

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".hidden _dl_find_object",
    ".globl _dl_find_object",
    "_dl_find_object: jmp {find}",
    find = sym find,
);
#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".hidden _dl_find_object",
    ".globl _dl_find_object",
    "_dl_find_object: b {find}",
    find = sym find,
);

/// glibc's `struct dl_find_object` on 64-bit machines.
#[repr(C)]
struct ObjectInfo {
    flags: u64,
    map_start: *const c_void,
    map_end: *const c_void,
    link_map: *const c_void,
    /// The header of the unwind table: all that the unwinder looks at.
    eh_frame: *const c_void,
    reserved: [u64; 7],
}

struct Search {
    address: usize,
    eh_frame: usize,
}

/// 0: found.
extern "C" fn find(address: *const c_void, found: *mut ObjectInfo) -> c_int {
    let mut search = Search { address: address as usize, eh_frame: 0 };
    // SAFETY: the callback gets the search, which outlives the call, and does not unwind.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    if search.eh_frame == 0 || found.is_null() {
        return -1;
    }
    // SAFETY: the unwinder passes a place for the struct.
    unsafe {
        found.write(ObjectInfo {
            flags: 0,
            map_start: std::ptr::null(),
            map_end: std::ptr::null(),
            link_map: std::ptr::null(),
            eh_frame: search.eh_frame as *const c_void,
            reserved: [0; 7],
        });
    }
    0
}

/// Looks at one library; not 0 ends the search.
unsafe extern "C" fn look(
    library: *mut libc::dl_phdr_info,
    _size: usize,
    search: *mut c_void,
) -> c_int {
    // SAFETY: the loader passes a valid entry with that many program headers; `search` is that of
    // `find`.
    let (library, search) = unsafe { (&*library, &mut *search.cast::<Search>()) };
    if library.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: as above.
    let headers =
        unsafe { std::slice::from_raw_parts(library.dlpi_phdr, library.dlpi_phnum.into()) };
    let start = |header: &libc::Elf64_Phdr| {
        (library.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize)
    };
    let holds = |header: &libc::Elf64_Phdr| {
        header.p_type == libc::PT_LOAD
            && search.address.wrapping_sub(start(header)) < header.p_memsz as usize
    };
    if !headers.iter().any(holds) {
        return 0;
    }
    let table = headers.iter().find(|header| header.p_type == libc::PT_GNU_EH_FRAME);
    search.eh_frame = table.map_or(0, start);
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_code_has_a_table_and_a_stack_has_none() {
        // SAFETY: all-zero is a valid value of this struct of numbers and pointers.
        let mut found: ObjectInfo = unsafe { std::mem::zeroed() };
        let own = own_code_has_a_table_and_a_stack_has_none as *const c_void;
        assert_eq!(find(own, &raw mut found), 0);
        // SAFETY: a table that was found is mapped. It begins with its version and with how the linker
        // encodes its pointers. The version byte (1) alone proves nothing: other sections may begin
        // with it too.
        let head = unsafe { found.eh_frame.cast::<[u8; 4]>().read() };
        assert_eq!(head, [1, 0x1b, 0x03, 0x3b]);
        let local = 0u8;
        assert_eq!(find((&raw const local).cast(), &raw mut found), -1);
    }
}
