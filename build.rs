//! Linker settings of `libstage2.so` that cargo has no key for.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // NVTX closes a tool whose start it did not like, and a driver may close one at its end: our
    // thread and CUPTI's callbacks must never find their code gone.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libstage2.so");
    println!("cargo:rustc-cdylib-link-arg=-static-libgcc");
}
