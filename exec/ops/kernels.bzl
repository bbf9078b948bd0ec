"""tideline_kernel_library: compiles kernel sources (*.cu) for the host, and by nvcc for the GPU where that is found.

Bazel 4.2.3 takes no .cu as a C++ source, so for the host each becomes a one-line .cc that includes it.
"""

load("//third_party/cuda:nvcc.bzl", "nvcc_library")

# Kernels are vectorised for AVX2 with FMA. No flag here changes bits: there is no -ffast-math, and
# multiply-adds are fused only where the source says so.
KERNEL_COPTS = [
    "-O3",
    "-march=x86-64-v3",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
]

def tideline_kernel_library(name, srcs, deps = [], cuda_deps = [], **kwargs):
    """Two libraries with the same launchers: `name` for emulated devices and `name`_cuda for GPUs."""
    wrappers = []
    for src in srcs:
        wrapper = src.replace(".cu", "_kernel.cc")
        native.genrule(
            name = wrapper + "_wrapper",
            srcs = [src],
            outs = [wrapper],
            cmd = "echo '#include \"$(location %s)\"' > $@" % src,
        )
        wrappers.append(wrapper)
    native.cc_library(
        name = name,
        srcs = wrappers,
        textual_hdrs = srcs,
        copts = KERNEL_COPTS,
        deps = deps,
        alwayslink = True,
        **kwargs
    )
    nvcc_library(
        name = name + "_cuda",
        srcs = srcs,
        deps = deps + cuda_deps,
    )
