//! The collector's memory has a bound, however long the guest runs and whatever it comes up with.

use crate::common::Guest;

/// What the guest needed at its worst, KiB.
fn resident_kib(guest: Guest) -> u64 {
    let left = guest.run();
    assert_eq!(left.output.status.code(), Some(0), "{}", left.stderr());
    left.stdout().trim().parse().expect("KiB")
}

/// Hazard (Resources): Memory of the collector in the guest.
/// Promise: At most 56 MiB more than without it, with 16 MiB for records.
#[test]
fn at_most_56_mib_more_than_without_it() {
    // How many records wait depends on how busy the machine is; only the setting bounds them.
    let traced = |attribution| {
        let guest = Guest::new("hoard").env("STAGE2_ATTRIBUTION", attribution);
        guest.env("STAGE2_SUMMARY", "/dev/null").env("STAGE2_BUFFERS", "16M")
    };
    let guests = [Guest::new("hoard").without("LD_PRELOAD"), traced("fence"), traced("callback")];
    let [alone, fence, callback] = guests.map(|guest| resident_kib(guest.patience(120)));
    println!("alone {alone} KiB, fence {fence} KiB, callback {callback} KiB");
    assert!(fence.max(callback) < alone + 56 * 1024, "{fence} and {callback} against {alone} KiB");
}
