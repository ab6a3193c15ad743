//! NVTX's payload extension as NVIDIA's own headers call it. Needs a C compiler and the headers of
//! NVTX 3.1 or later, in `STAGE2_TEST_NVTX_INCLUDE` (the folder that has `nvtx3/`) or a CUDA toolkit;
//! says so where there are none.

use std::path::PathBuf;
use std::process::Command;

use crate::common::{collector, skipped, traces_in};
use stage2_contract::trace::{FieldValue, RANGE_OUTSIDE, Record};

fn include() -> Option<PathBuf> {
    let named = std::env::var_os("STAGE2_TEST_NVTX_INCLUDE").map(PathBuf::from);
    let usual = ["/usr/local/cuda/include", "/usr/include"].map(PathBuf::from);
    let has_it = |folder: &PathBuf| folder.join("nvtx3/nvToolsExtPayload.h").exists();
    named.into_iter().chain(usual).find(has_it)
}

#[test]
fn a_c_program_with_nvidias_headers_is_read_as_it_is_meant() {
    let Some(include) = include() else {
        return skipped("no nvtx3/nvToolsExtPayload.h; set STAGE2_TEST_NVTX_INCLUDE");
    };
    let folder = tempfile::tempdir().expect("folder");
    let program = folder.path().join("payload");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/guests/payload.c");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(compiler);
    command.arg("-I").arg(include).arg(source).arg("-o").arg(&program).arg("-ldl");
    match command.status() {
        Ok(status) => assert!(status.success(), "{source} does not compile"),
        Err(error) => return skipped(&format!("no C compiler ({error})")),
    }
    let output = Command::new(&program)
        .env_clear()
        .env("LD_PRELOAD", collector())
        .env("STAGE2_SUMMARY", "off")
        .env("STAGE2_OUT", folder.path())
        .output()
        .expect("the guest starts");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n", "the level of the pop");
    let traces = traces_in(folder.path());
    let paths = traces[0].range_paths();
    let count = |path: &str| paths.values().filter(|at| *at == path).count();
    let counts = ["ncclCommInitRank", "decode", "decode/ncclAllReduce"].map(count);
    assert_eq!((counts, paths.len()), ([1, 3, 3], 7));
    let outside = |record: &&Record| {
        matches!(record, Record::RangeOpen(open)
            if paths[&open.range] == "decode" && open.parent == RANGE_OUTSIDE)
    };
    assert_eq!(traces[0].records.iter().filter(outside).count(), 3);
    let sizes = traces[0].records.iter().filter_map(|record| match record {
        Record::RangeFields { fields, .. } => fields.get(1).map(|field| field.value),
        _ => None,
    });
    assert_eq!(sizes.collect::<Vec<_>>(), [FieldValue::U64(4096); 4]);
}
