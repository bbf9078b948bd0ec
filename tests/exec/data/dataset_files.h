// The bytes of token files, written field by field, for tests of what reads them.
#ifndef TIDELINE_TESTS_EXEC_DATA_DATASET_FILES_H_
#define TIDELINE_TESTS_EXEC_DATA_DATASET_FILES_H_

#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace tideline {

// Appends a number, little-endian.
template <std::integral Number>
void AppendNumber(Number number, std::string* bytes) {
  using Unsigned = std::make_unsigned_t<Number>;
  for (size_t i = 0; i < sizeof number; ++i) {
    bytes->push_back(
        static_cast<char>(static_cast<uint64_t>(static_cast<Unsigned>(number)) >> (8 * i)));
  }
}

template <std::integral Number>
std::string TokenBytes(const std::vector<Number>& tokens) {
  std::string bytes;
  for (const Number token : tokens) AppendNumber(token, &bytes);
  return bytes;
}

// A Megatron-LM .idx file, right or wrong: every field is as given.
struct IndexFields {
  std::string magic = std::string("MMIDIDX\0\0", 9);
  uint64_t version = 1;
  uint8_t type = 8;
  uint64_t sequence_count = 0;
  uint64_t document_count = 0;
  std::vector<int32_t> lengths = {};
  std::vector<int64_t> pointers = {};
  std::vector<int64_t> documents = {};
};

inline std::string IndexBytes(const IndexFields& fields) {
  std::string bytes = fields.magic;
  AppendNumber(fields.version, &bytes);
  AppendNumber(fields.type, &bytes);
  AppendNumber(fields.sequence_count, &bytes);
  AppendNumber(fields.document_count, &bytes);
  return bytes + TokenBytes(fields.lengths) + TokenBytes(fields.pointers) +
         TokenBytes(fields.documents);
}

// The fields of sequences that lie one after the other, a document each.
inline IndexFields FieldsOf(uint8_t type, int64_t width, const std::vector<int32_t>& lengths) {
  IndexFields fields;
  fields.type = type;
  fields.sequence_count = lengths.size();
  fields.document_count = lengths.size() + 1;
  fields.lengths = lengths;
  fields.documents = {0};
  int64_t pointer = 0;
  for (const int32_t length : lengths) {
    fields.pointers.push_back(pointer);
    fields.documents.push_back(static_cast<int64_t>(fields.pointers.size()));
    pointer += length * width;
  }
  return fields;
}

}  // namespace tideline

#endif  // TIDELINE_TESTS_EXEC_DATA_DATASET_FILES_H_
