"""The worker, built once per backend from the same sources."""

def tideline_worker(name, backend):
    """A worker program on the devices of `backend`, a library that defines the device facade."""
    native.cc_binary(
        name = name,
        srcs = ["main.cc"],
        deps = [
            ":worker",
            backend,
            "//base:status",
            "//exec/interpreter:position_board",
            "//planner/program",
        ],
    )
