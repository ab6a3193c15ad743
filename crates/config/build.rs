//! The presets of conf/ -> a compressed file, which the program contains.

fn main() -> std::io::Result<()> {
    stage2_packed::pack("conf.z", "../../conf", |path| path.ends_with(".yaml"))
}
