// Weights: initial values from a checkpoint of another program, and the trained parameters back
// into one.
//
// Loading replaces what an initialising kernel of the prologue would make: the same boxes say which
// elements of which parameter lie where, so any way of cutting a parameter gets its own part.
// Values are cast to fp32 (exactly, from F32, F16 and BF16). Saving writes F32 under the names of
// the map; each element is read from the first rank that holds it.
//
//   TL_ASSIGN_OR_RETURN(const WeightSource source, WeightSource::Open(path, map, program));
//   WeightReader reader(source);                       // one per thread
//   TL_RETURN_IF_ERROR(reader.Fill(attributes, coordinates, values));
#ifndef TIDELINE_EXEC_WEIGHTS_WEIGHTS_H_
#define TIDELINE_EXEC_WEIGHTS_WEIGHTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "models/import/hf_weights.h"
#include "models/import/safetensors.h"
#include "planner/program/program.h"

namespace tideline {

class WeightSource {
 public:
  // Errors (exit 5), naming file and tensor: those of TensorFiles::Open; a tensor of the map is not
  // there or has another shape; the file's own checksum does not fit its bytes; the Program has a
  // parameter that the map lacks, or of another shape.
  static StatusOr<WeightSource> Open(const std::string& path, const WeightMap& map,
                                     const Program& program);

  // "148 tensors from 'model.safetensors' (F16 cast to fp32)".
  std::string Summary() const;

 private:
  friend class WeightReader;
  Status CheckTensors() const;
  Status CheckProgram(const Program& program) const;

  std::string path_;
  TensorFiles files_;
  std::map<std::string, ParameterWeights, std::less<>> parameters_;
};

// Reads on behalf of one thread; keeps the bytes of the tensor it read last.
class WeightReader {
 public:
  explicit WeightReader(const WeightSource& source) : source_(source) {}

  // The fp32 elements that a kernel with these attributes would make for this rank; what no box
  // covers, and padding, is 0.
  Status Fill(const Attributes& attributes, const Coordinates& coordinates,
              std::span<float> values);

 private:
  Status Load(const std::string& tensor);

  const WeightSource& source_;
  const StoredTensor* loaded_ = nullptr;
  std::vector<char> bytes_;
};

// Writes all parameters to one file. `read` gives the bytes of a rank's persistent buffer.
// Errors: exit 1 naming the path; those of `read`.
using ReadBuffer =
    std::function<Status(int32_t rank, uint32_t buffer, int64_t offset, std::span<char> bytes)>;
Status SaveWeights(const std::string& path, const WeightMap& map, const Program& program,
                   const ReadBuffer& read);

}  // namespace tideline

#endif  // TIDELINE_EXEC_WEIGHTS_WEIGHTS_H_
