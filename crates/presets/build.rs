//! Builds the crate again when a file of conf/ is added: the compiler tracks only those that it read.

fn main() {
    println!("cargo::rerun-if-changed=../../conf");
}
