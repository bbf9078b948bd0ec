"""tideline_kernel_library: compiles kernel sources (*.cu) for the host.

Bazel 4.2.3 takes no .cu as a C++ source, so each becomes a one-line .cc that includes it.
"""

# Kernels are vectorised for AVX2 with FMA. No flag here changes bits: there is no -ffast-math, and
# multiply-adds are fused only where the source says so.
KERNEL_COPTS = [
    "-O3",
    "-march=x86-64-v3",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
]

def tideline_kernel_library(name, srcs, deps = [], **kwargs):
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
        **kwargs
    )
