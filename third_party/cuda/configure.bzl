"""cuda_configure: finds the CUDA toolkit of this machine, or says that there is none.

The repository @local_cuda always exists. Its defs.bzl has
    CUDA_FOUND    whether nvcc, the runtime's headers and libcudart_static.a are there
    CUDA_MISSING  what was looked for and not found, for messages
    CUDA_HOME     the toolkit's folder
and, when found, the targets :headers (cuBLAS and NCCL among them) and :cudart (static). Looked for in $CUDA_HOME,
/usr/local/cuda, and beside an nvcc on $PATH.
"""

_NEEDED = [
    "bin/nvcc",
    "include/cuda_runtime_api.h",
    "include/cublasLt.h",
    "include/nccl.h",
    "lib64/libcudart_static.a",
]

_FOUND = """
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "headers",
    hdrs = glob([
        "include/*.h",
        "include/*.hpp",
        "include/crt/**",
    ]),
    includes = ["include"],
)

cc_library(
    name = "cudart",
    srcs = ["lib64/libcudart_static.a"],
    linkopts = ["-ldl", "-lrt", "-lpthread"],
    deps = [":headers"],
)
"""

def _candidates(context):
    folders = []
    home = context.os.environ.get("CUDA_HOME", "")
    if home:
        folders.append(home)
    folders.append("/usr/local/cuda")
    nvcc = context.which("nvcc")
    if nvcc:
        folders.append(str(nvcc.dirname.dirname))
    return folders

def _cuda_configure(context):
    missing = []
    for folder in _candidates(context):
        absent = [name for name in _NEEDED if not context.path(folder + "/" + name).exists]
        if not absent:
            context.symlink(folder + "/include", "include")
            context.symlink(folder + "/lib64", "lib64")
            context.file("BUILD", _FOUND)
            context.file("defs.bzl", "CUDA_FOUND = True\nCUDA_MISSING = \"\"\nCUDA_HOME = %r\n" % folder)
            return
        missing.append("%s has no %s" % (folder, ", ".join(absent)))
    context.file("BUILD", "")
    context.file("defs.bzl", "CUDA_FOUND = False\nCUDA_HOME = \"\"\nCUDA_MISSING = %r\n" % "; ".join(missing))

cuda_configure = repository_rule(
    implementation = _cuda_configure,
    environ = ["CUDA_HOME", "PATH"],
    local = True,
)
