"""Protocol buffers through Debian's protoc: one macro that makes a C++ library of one .proto file."""

def tideline_proto_library(name, src):
    """A cc_library `name` with the messages of `src`.

    The header is included as "<package>/<stem>.pb.h". Generated code is not ours to lint, so its
    warnings are off here and, by a system_header pragma, in whoever includes the header. Keep that
    include in .cc files: it costs more than a second.

    Args:
      name: the library.
      src: a .proto file of this package that imports nothing but google/protobuf files.
    """
    stem = src[:-len(".proto")]
    native.genrule(
        name = name + "_generated",
        srcs = [src],
        outs = [
            stem + ".pb.h",
            stem + ".pb.cc",
        ],
        cmd = "protoc --proto_path=. --cpp_out=$(GENDIR) $(location {src})".format(src = src) +
              " && sed -i '1i #pragma GCC system_header' $(location {stem}.pb.h)".format(stem = stem),
    )
    native.cc_library(
        name = name,
        srcs = [stem + ".pb.cc"],
        hdrs = [stem + ".pb.h"],
        copts = ["-w"],
        deps = ["//third_party/libs:protobuf"],
    )
