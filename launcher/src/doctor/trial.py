# Runs in the workload's Python with the collector preloaded, imports nothing from the working
# directory, and prints one line of JSON. Arguments: `quick` or `torch`, and the collector's path.
import ctypes
import json
import os
import sys

sys.path[:] = [folder for folder in sys.path if folder]
what, collector = sys.argv[1:3]
said = {"version": sys.version.split()[0], "packages": {}, "bindings": {}, "cuda": None}


def why(error):
    return "%s: %s" % (type(error).__name__, error)


def try_binding(name, use):
    try:
        said["bindings"][name] = use()
    except Exception as error:
        said["bindings"][name] = why(error)


def packages():
    from importlib import metadata, util

    for name in ("torch", "nvtx", "hydra-core", "vllm", "jax", "cupy"):
        try:
            said["packages"][name] = metadata.version(name)
        except Exception:
            pass
    # Importing torch takes seconds; this line of it says which CUDA it was built for.
    spec = util.find_spec("torch")
    if spec and spec.submodule_search_locations:
        version = os.path.join(list(spec.submodule_search_locations)[0], "version.py")
        with open(version) as lines:
            for line in lines:
                if line.startswith("cuda") and "=" in line:
                    said["torch_cuda"] = line.split("=", 1)[1].strip().strip("'\"")


def bare():
    """An NVTX client as NVTX's own headers are one: it needs no package."""
    path = os.environ.get("NVTX_INJECTION64_PATH", "")
    if not path:
        return "the collector did not start: it sets NVTX_INJECTION64_PATH when it is loaded"
    if os.path.realpath(path) != os.path.realpath(collector):
        return "another tool owns NVTX_INJECTION64_PATH"
    pointer = ctypes.POINTER(ctypes.c_void_p)
    tables = {}
    for module in (1, 5):  # the functions of the default domain, and those of the others
        slots = (ctypes.c_void_p * 16)()
        places = (pointer * 16)()
        for index in range(1, 16):
            at = ctypes.addressof(slots) + index * ctypes.sizeof(ctypes.c_void_p)
            places[index] = ctypes.cast(at, pointer)
        tables[module] = slots, places

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, pointer, ctypes.POINTER(ctypes.c_uint32))
    def table_of(module, table, size):
        if module not in tables:
            return 0
        table[0] = ctypes.addressof(tables[module][1])
        size[0] = 16
        return 1

    class Callbacks(ctypes.Structure):
        _fields_ = [("size", ctypes.c_size_t), ("table_of", ctypes.c_void_p)]

    callbacks = Callbacks(ctypes.sizeof(Callbacks), ctypes.cast(table_of, ctypes.c_void_p).value)

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)
    def export(table):
        return ctypes.addressof(callbacks) if table == 1 else None

    if not ctypes.CDLL(path).InitializeInjectionNvtx2(export):
        return "the collector refused to start; STAGE2_LOG=debug says why"
    slots = tables[1][0]
    if not slots[9] or not slots[11]:
        return "the collector took no NVTX function"
    ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p)(slots[9])(b"stage2.doctor.bare")
    ctypes.CFUNCTYPE(ctypes.c_int)(slots[11])()
    return None


def nvtx_package():
    import nvtx

    with nvtx.annotate("stage2.doctor.nvtx"):
        pass


def torch_package():
    import torch

    torch.cuda.nvtx.range_push("stage2.doctor.torch")
    torch.cuda.nvtx.range_pop()


def start_cuda():
    try:
        said["cuda"] = ctypes.CDLL("libcuda.so.1").cuInit(0)
    except OSError as error:
        said["cuda_absent"] = why(error)


if what == "quick":
    try:
        packages()
    except Exception as error:
        said["packages_unknown"] = why(error)
    if "nvtx" in said["packages"]:
        try_binding("nvtx", nvtx_package)
    try_binding("bare", bare)
    start_cuda()
else:
    from importlib import util

    if util.find_spec("torch"):
        try_binding("torch", torch_package)
        start_cuda()
sys.stdout.write("\n" + json.dumps(said) + "\n")
