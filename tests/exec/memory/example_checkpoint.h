// A small checkpoint of two tensors on three ranks, made without a Program: w [3, 5] cut by columns
// (2 and 3) between ranks 0 and 1, its momentum cut as a flat run between ranks 1 and 2.
#ifndef TIDELINE_TESTS_EXEC_MEMORY_EXAMPLE_CHECKPOINT_H_
#define TIDELINE_TESTS_EXEC_MEMORY_EXAMPLE_CHECKPOINT_H_

#include <cstdint>
#include <functional>

#include "base/status.h"
#include "exec/memory/checkpoint.h"
#include "exec/memory/shard.h"

namespace tideline {

// The places of the example, each piece at offset 0 of a buffer of its own.
ProgramState ExampleState();

// The value of an element of a tensor after a step.
float ExampleValue(int64_t step, uint32_t tensor, int64_t element);

// Without bytes and digests of the shards.
CheckpointManifest ExampleManifest(int64_t step);

// Begin, every shard, Commit. `before` is called before each piece of the shards is read.
Status SaveExample(const CheckpointFolder& folder, const std::string& path, int64_t step,
                   const std::function<Status(int32_t rank, uint32_t buffer)>& before = {});

}  // namespace tideline

#endif  // TIDELINE_TESTS_EXEC_MEMORY_EXAMPLE_CHECKPOINT_H_
