//! Tables of Nsight Compute: counters of launches, and totals of regions.

pub mod load;
pub mod nvtx;
pub mod regions;

/// Recorded tables of ncu.
#[cfg(test)]
mod testing {
    pub(super) fn fixture(name: &str) -> Vec<u8> {
        let folder =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/ncu");
        if name.ends_with(".txt") && folder.join(name).exists() {
            return std::fs::read(folder.join(name)).expect(name);
        }
        let packed = std::fs::read(folder.join(format!("{name}.xz"))).expect(name);
        let mut bytes = Vec::new();
        lzma_rs::xz_decompress(&mut packed.as_slice(), &mut bytes).expect(name);
        bytes
    }

    pub(super) fn text(name: &str) -> String {
        String::from_utf8(fixture(name)).expect("UTF-8")
    }
}
