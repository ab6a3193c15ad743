//! What the guest registers with NVTX: there whether or not anything is recorded, and in a forked
//! child as well.

#[path = "guests/nvtx.rs"]
#[allow(dead_code, unreachable_pub, reason = "written for the guest, which calls all of it")]
mod nvtx;

use std::ffi::{c_int, c_void};

use stage2::guest::registry::Handle;
use stage2::guest::registry::{Kind, Lookup, registry};
use stage2::guest::state::{self, Phase};

unsafe extern "C" fn attach_only(get: Option<unsafe extern "C" fn(u32) -> *const c_void>) -> c_int {
    // SAFETY: the guest's client passes what NVTX passes.
    unsafe { stage2::guest::nvtx::attach(get) }.into()
}

fn text_of(handle: usize) -> Option<(Kind, Vec<u8>)> {
    match registry().get(Handle(handle as u64).number()) {
        Lookup::Entry(entry) => Some((entry.kind, entry.bytes)),
        _ => None,
    }
}

#[test]
fn registrations_are_kept_without_a_start_and_read_in_a_forked_child() {
    let client = nvtx::Nvtx::attached_to(attach_only);
    assert_eq!(state::phase(), Phase::Idle, "nothing was started");
    let domain = client.domain("llm");
    let string = client.register(domain, "decode");
    assert_eq!(text_of(domain), Some((Kind::Domain, b"llm".to_vec())));
    assert_eq!(text_of(string), Some((Kind::Text, b"decode".to_vec())));
    assert!(Handle(client.domain("NCCL") as u64).is_library());
    assert!(!Handle(domain as u64).is_library());
    // SAFETY: the child calls what registers and reads, and ends.
    let status = unsafe {
        let child = libc::fork();
        if child == 0 {
            let own = client.register(domain, "of the child");
            let known = text_of(domain).is_some() && text_of(string).is_some();
            let right = known && text_of(own) == Some((Kind::Text, b"of the child".to_vec()));
            libc::_exit(if right && own != string { 7 } else { 1 });
        }
        let mut status = 0;
        libc::waitpid(child, &raw mut status, 0);
        status
    };
    assert_eq!(libc::WEXITSTATUS(status), 7);
    // What the child registered is its own.
    assert_eq!(registry().get(registry().last() + 1), Lookup::Nothing);
}
