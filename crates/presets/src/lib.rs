//! Every file of `conf/`, embedded, so that the installed program needs none of them.
#![forbid(unsafe_code)]

macro_rules! built_in {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../../../conf/", $path)))),*]
    };
}

/// Path below conf/ and text of every file of it, sorted by path.
pub const FILES: &[(&str, &str)] = built_in![
    "config.yaml",
    "hardware/a10.yaml",
    "hardware/a100_40gb.yaml",
    "hardware/a100_pcie_80gb.yaml",
    "hardware/a100_sxm_80gb.yaml",
    "hardware/a10g.yaml",
    "hardware/a30.yaml",
    "hardware/a40.yaml",
    "hardware/auto.yaml",
    "hardware/b200.yaml",
    "hardware/gb200.yaml",
    "hardware/gh200.yaml",
    "hardware/gh200_144gb.yaml",
    "hardware/h100_nvl.yaml",
    "hardware/h100_pcie.yaml",
    "hardware/h100_sxm.yaml",
    "hardware/h200.yaml",
    "hardware/h200_nvl.yaml",
    "hardware/l4.yaml",
    "hardware/l40.yaml",
    "hardware/l40s.yaml",
    "hardware/rtx3090.yaml",
    "hardware/rtx4090.yaml",
    "hardware/rtx5090.yaml",
    "hardware/rtx6000_ada.yaml",
    "hardware/rtx_a6000.yaml",
    "hardware/t4.yaml",
    "hardware/v100_pcie.yaml",
    "hardware/v100_sxm2.yaml",
    "hardware/v100s.yaml",
    "model/llm/deepseek_ocr.yaml",
    "model/llm/deepseek_v3.yaml",
    "model/llm/llama_1b_random.yaml",
    "model/llm/llama_3_8b.yaml",
    "model/llm/mixtral_8x7b.yaml",
    "model/llm/mixtral_small_random.yaml",
    "model/llm/none.yaml",
    "model/llm/qwen_moe_small_random.yaml",
    "operators/default.yaml",
    "profiling/collector/default.yaml",
    "profiling/ncu/ncu.default.yaml",
    "profiling/ncu/ncu.high.yaml",
    "profiling/ncu/ncu.hopper.yaml",
    "profiling/ncu/ncu.rtx3090.compute.yaml",
    "profiling/ncu/ncu.rtx3090.memory.yaml",
    "profiling/ncu/ncu.rtx3090.yaml",
    "profiling/nsys/nsys.default.yaml",
    "profiling/nsys/nsys.gated.yaml",
    "runner/stage2.yaml",
    "workload/hydra.yaml",
    "workload/plain.yaml",
    "workload/stage1.yaml",
];

/// Names and texts of the presets of a group: `hardware`, `model/llm`.
pub fn group(name: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    FILES.iter().filter_map(move |(path, text)| {
        let (folder, file) = path.rsplit_once('/')?;
        (folder == name).then_some((file.strip_suffix(".yaml")?, *text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn list(folder: &Path, prefix: &str, found: &mut Vec<String>) {
        for entry in folder.read_dir().expect("a folder").map(|entry| entry.expect("an entry")) {
            let path = format!("{prefix}{}", entry.file_name().to_str().expect("UTF-8"));
            if entry.path().is_dir() {
                list(&entry.path(), &format!("{path}/"), found);
            } else if path.ends_with(".yaml") {
                found.push(path);
            }
        }
    }

    #[test]
    fn every_file_of_conf_is_built_in() {
        let mut paths = Vec::new();
        list(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conf"), "", &mut paths);
        paths.sort();
        let built_in: Vec<_> = FILES.iter().map(|(path, _)| (*path).to_owned()).collect();
        assert_eq!(paths, built_in, "FILES, sorted, against the folder");
    }
}
