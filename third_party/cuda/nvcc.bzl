"""nvcc_library: CUDA sources (*.cu) compiled by nvcc, as a library to link.

One object per source, with code for sm_80 and sm_90 and PTX for later GPUs. The flags keep the numbers of the host
build: no multiply-add is fused unless the source says so.
"""

load("@local_cuda//:defs.bzl", "CUDA_FOUND", "CUDA_HOME")

NVCC_FLAGS = [
    "-std=c++20",
    "-O3",
    "-fmad=false",
    "--expt-relaxed-constexpr",
    # A host function called by a kernel is a warning of nvcc's, and code that does nothing.
    "-Werror=cross-execution-space-call",
    "-gencode=arch=compute_80,code=sm_80",
    "-gencode=arch=compute_90,code=sm_90",
    "-gencode=arch=compute_90,code=compute_90",
    "-Xcompiler=-fPIC,-ffp-contract=off",
]

def _nvcc_object(context):
    compilation = cc_common.merge_cc_infos(
        cc_infos = [dep[CcInfo] for dep in context.attr.deps],
    ).compilation_context
    objects = []
    for source in context.files.srcs:
        output = context.actions.declare_file("%s/%s.pic.o" % (context.label.name, source.basename[:-len(".cu")]))
        arguments = context.actions.args()
        arguments.add_all(NVCC_FLAGS)
        arguments.add_all(["-I.", "-I" + context.bin_dir.path])
        arguments.add_all(["-c", source.path, "-o", output.path])
        context.actions.run(
            executable = CUDA_HOME + "/bin/nvcc",
            arguments = [arguments],
            inputs = depset([source], transitive = [compilation.headers]),
            outputs = [output],
            mnemonic = "Nvcc",
            progress_message = "Compiling %s for the GPU" % source.short_path,
            use_default_shell_env = True,
        )
        objects.append(output)
    return [DefaultInfo(files = depset(objects))]

_nvcc_object_rule = rule(
    implementation = _nvcc_object,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu"]),
        "deps": attr.label_list(providers = [CcInfo]),
    },
)

def nvcc_library(name, srcs, deps):
    """Does nothing where no CUDA toolkit was found."""
    if not CUDA_FOUND:
        return
    _nvcc_object_rule(
        name = name + "_objects",
        srcs = srcs,
        deps = deps,
    )
    native.cc_library(
        name = name,
        srcs = [":" + name + "_objects"],
        deps = deps + ["@local_cuda//:cudart"],
        alwayslink = True,
    )
