//! The styles and the script of pages -> a compressed file, which the program contains.

fn main() -> std::io::Result<()> {
    stage2_packed::pack("pages.z", "src", |path| path.ends_with(".css") || path.ends_with(".js"))
}
