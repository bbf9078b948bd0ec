// Safetensors: files of named tensors, as the Hugging Face ecosystem keeps weights.
//
// A file is a little-endian uint64 N, N bytes of JSON (name -> dtype, shape, data_offsets; and
// "__metadata__", texts by name), then the tensors' bytes, which the offsets cover without hole or
// overlap. A model of several files has an index ("weight_map": tensor -> file) beside them.
// Source: the format's description in github.com/huggingface/safetensors.
//
// Opening reads the headers only; a tensor's bytes are read as far as they are asked for.
// Everything is checked before the first byte of data is used: lengths, names, types, shapes
// against offsets, holes and overlaps. Errors are input errors (exit 5) naming file and tensor.
// Threads may read one set of files together.
//
//   TL_ASSIGN_OR_RETURN(const TensorFiles files,
//   TensorFiles::Open("model.safetensors.index.json")); const StoredTensor* tensor =
//   files.Find("wte.weight"); TL_RETURN_IF_ERROR(files.Read(*tensor, 0, buffer));
#ifndef TIDELINE_MODELS_IMPORT_SAFETENSORS_H_
#define TIDELINE_MODELS_IMPORT_SAFETENSORS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tideline {

enum class StoredType : uint8_t {
  kF64,
  kF32,
  kF16,
  kBF16,
  kF8E4M3,
  kF8E5M2,
  kI64,
  kI32,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kBool,
};

// "F32", the spelling of the format; and bytes of one element.
const char* Name(StoredType type);
int64_t SizeOf(StoredType type);

struct StoredTensor {
  std::string name;
  StoredType type = StoredType::kF32;
  std::vector<int64_t> shape;
  int64_t bytes = 0;  // row-major
  // Where they lie: in which file (FileName), from which byte on.
  int32_t file = 0;
  int64_t begin = 0;
};

class TensorFiles {
 public:
  // A .safetensors file, an index (.json), or a folder with "model.safetensors" or
  // "model.safetensors.index.json" in it.
  static StatusOr<TensorFiles> Open(const std::string& path);

  // All tensors by name.
  const std::map<std::string, StoredTensor, std::less<>>& tensors() const { return tensors_; }
  // Null when there is none of that name.
  const StoredTensor* Find(std::string_view name) const;
  const std::string& FileName(const StoredTensor& tensor) const;
  const std::string& path() const { return path_; }  // that Open was given

  // Reads every file that carries a checksum (WriteTensorFile's do) and compares. Error (exit 5):
  // the bytes are not those that were written.
  Status CheckChecksums() const;

  // Bytes [offset, offset + into.size()) of a tensor. Precondition: they are its.
  Status Read(const StoredTensor& tensor, int64_t offset, std::span<char> into) const;

 private:
  struct File;
  Status Add(const std::string& path);
  Status AddIndex(const std::string& path);

  std::string path_;
  std::vector<std::shared_ptr<const File>> files_;
  std::map<std::string, StoredTensor, std::less<>> tensors_;
};

// The header of one file. Offsets are from the beginning of the file.
struct TensorHeader {
  struct Entry {
    std::string name;
    StoredType type = StoredType::kF32;
    std::vector<int64_t> shape = {};
    int64_t begin = 0, end = 0;
  };
  std::vector<Entry> entries;  // by offset
  int64_t data_begin = 0;
  std::map<std::string, std::string> metadata;
};

// Reads a header from a file's first bytes (`begin` holds at least the header, if the file does);
// `file_bytes` is the length of the whole file, `file` serves messages.
StatusOr<TensorHeader> ParseTensorHeader(std::string_view begin, int64_t file_bytes,
                                         const std::string& file);

// Metadata key of the SHA-256 of the tensors' bytes in file order, in hexadecimal.
inline constexpr const char* kTensorChecksumKey = "tideline.sha256";

// Writes one file atomically, its checksum in the metadata: `fill` is called for each entry in
// order with the pieces of its row-major bytes, from the first on, and then for all once more.
// Offsets of the entries are ignored. Errors: exit 1 naming the path; those of `fill`.
using FillTensor =
    std::function<Status(const TensorHeader::Entry& entry, int64_t offset, std::span<char> bytes)>;
Status WriteTensorFile(const std::string& path, const TensorHeader& header, const FillTensor& fill);

}  // namespace tideline

#endif  // TIDELINE_MODELS_IMPORT_SAFETENSORS_H_
