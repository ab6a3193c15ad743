//! Turns NVIDIA's header folder into `bindings.rs` (CUPTI) and `nvtx_bindings.rs`.
//!
//! `cupti-sys-generate HEADERS OUT`: run by `cupti-sys/regenerate`, which fetches the headers and
//! libclang, and keeps of the output what sources name.

mod allow;

use bindgen::callbacks::{ItemInfo, ParseCallbacks};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Suffix of the C typedefs that carry a function's type into the bindings; cut off again there.
const FUNCTION_SUFFIX: &str = "_function_type";

/// The oldest compiler that the bindings are for, as the workspace's `rust-version` says.
const RUST_VERSION: &str = "1.95";

type Error = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [headers, out] = arguments.as_slice() else {
        eprintln!("usage: cupti-sys-generate HEADERS OUT");
        return ExitCode::from(2);
    };
    match generate(headers, out) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cupti-sys-generate: {error}");
            ExitCode::FAILURE
        }
    }
}

fn generate(headers: &Path, out: &Path) -> Result<(), Error> {
    cupti(headers)?.generate()?.write_to_file(out.join("bindings.rs"))?;
    nvtx(headers)?.generate()?.write_to_file(out.join("nvtx_bindings.rs"))?;
    Ok(())
}

fn cupti(headers: &Path) -> Result<bindgen::Builder, Error> {
    let mut source = String::from(
        "#include <cupti.h>\n\
        #include <cupti_pmsampling.h>\n\
        #include <cupti_profiler_host.h>\n\
        #include <cupti_profiler_target.h>\n\
        #include <cupti_target.h>\n",
    );
    for function in allow::FUNCTIONS {
        source += &format!("typedef __typeof__({function}) *{function}{FUNCTION_SUFFIX};\n");
    }
    let mut builder = common(headers)?
        .header_contents("cupti_wrapper.h", &source)
        .raw_line("//! CUPTI's C ABI, from the headers of CUPTI 13.5: types, constants and the types of the")
        .raw_line("//! functions (`Option` of a function pointer), without a single `extern` declaration.")
        .raw_line("//!")
        .raw_line("//! Written by `cupti-sys/regenerate`: do not edit.");
    // Sources name attributes of devices as well, but take them from elsewhere.
    builder = builder.allowlist_type("CUpti_.*|CUptiResult").blocklist_type("CUdevice_attribute.*");
    for function in allow::FUNCTIONS {
        builder = builder.allowlist_type(format!("{function}{FUNCTION_SUFFIX}"));
    }
    // Cache configuration bit fields: nobody reads them, and their accessors are long.
    Ok(builder
        .opaque_type("CUpti_ActivityKernel[0-9]+__bindgen_ty_1__bindgen_ty_1")
        .allowlist_var("CUPTI_API_VERSION"))
}

fn nvtx(headers: &Path) -> Result<bindgen::Builder, Error> {
    // The public headers would pull in NVTX's implementation, and with it POSIX headers.
    let mut source = String::from(
        "#define NVTX_NO_IMPL\n\
        #include <nvtx3/nvToolsExt.h>\n\
        #include <nvtx3/nvToolsExtPayload.h>\n\
        #define NVTX_EXT_TYPES_GUARD\n\
        #include <nvtx3/nvtxDetail/nvtxExtTypes.h>\n\
        static const int32_t NVTX_PAYLOAD_TYPE_EXTENDED = NVTX_PAYLOAD_TYPE_EXT;\n\
        static const int32_t NVTX_PUSH_POP_NOT_TRACKED = NVTX_NO_PUSH_POP_TRACKING;\n",
    );
    for function in allow::NVTX_FUNCTIONS {
        source += &format!("typedef __typeof__({function}) *{function}_impl_fntype;\n");
    }
    let mut builder = common(headers)?
        .header_contents("nvtx_wrapper.h", &source)
        .raw_line("//! The ABI between NVTX clients and a tool, from the NVTX headers of CUDA 13.0: event")
        .raw_line("//! attributes, export tables, callback ids and the types of the callbacks.")
        .raw_line("//!")
        .raw_line("//! Written by `cupti-sys/regenerate`: do not edit.");
    builder = builder.allowlist_type("[Nn]vtx.*").allowlist_var("NVTX.*");
    for function in allow::NVTX_FUNCTIONS {
        builder = builder.allowlist_type(format!("{function}_impl_fntype"));
    }
    Ok(builder)
}

fn common(headers: &Path) -> Result<bindgen::Builder, Error> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    Ok(bindgen::Builder::default()
        .clang_args(["-x", "c", "-std=c11", "-ffreestanding", "-nostdinc"])
        // The layouts are the same on aarch64; pinned so that the output is the same everywhere.
        .clang_arg("--target=x86_64-unknown-linux-gnu")
        .clang_args(["-isystem".as_ref(), own.as_os_str()].map(|arg| arg.to_string_lossy()))
        .clang_args(["-isystem".as_ref(), headers.as_os_str()].map(|arg| arg.to_string_lossy()))
        .rust_target(RUST_VERSION.parse()?)
        .rust_edition(bindgen::RustEdition::Edition2024)
        // NVIDIA's comments are not ours to copy.
        .generate_comments(false)
        .layout_tests(true)
        // Plain integers: a newer CUPTI may hand out values that these headers do not know.
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .derive_debug(false)
        .disable_header_comment()
        .formatter(bindgen::Formatter::None)
        .parse_callbacks(Box::new(FunctionNames)))
}

/// Gives the function types their functions' names.
#[derive(Debug)]
struct FunctionNames;

impl ParseCallbacks for FunctionNames {
    fn item_name(&self, item: ItemInfo<'_>) -> Option<String> {
        item.name.strip_suffix(FUNCTION_SUFFIX).map(String::from)
    }
}
