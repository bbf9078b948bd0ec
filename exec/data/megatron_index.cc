#include "exec/data/megatron_index.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace tideline {
namespace {

constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
constexpr uint64_t kVersion = 1;
constexpr int64_t kHeaderBytes = 9 + 8 + 1 + 8 + 8;
constexpr int64_t kEntriesAtOnce = 1 << 14;

template <typename Number>
Number At(const char* bytes) {
  Number number;
  std::memcpy(&number, bytes, sizeof number);
  return number;
}

std::optional<TokenType> TypeOf(uint8_t code) {
  switch (code) {
    case 1:
      return TokenType::kUint8;
    case 2:
      return TokenType::kInt8;
    case 3:
      return TokenType::kInt16;
    case 4:
      return TokenType::kInt32;
    case 5:
      return TokenType::kInt64;
    case 8:
      return TokenType::kUint16;
    default:
      return std::nullopt;
  }
}

class IndexReader {
 public:
  IndexReader(const ByteFile& index, const std::string& data_name, int64_t data_bytes)
      : index_(index), data_name_(data_name), data_bytes_(data_bytes) {}

  StatusOr<MegatronIndex> Read() {
    TL_RETURN_IF_ERROR(ReadHeader());
    TL_RETURN_IF_ERROR(ReadSequences());
    TL_RETURN_IF_ERROR(ReadDocuments());
    if (end_ != data_bytes_) {
      return Error("sequence_pointers", absl::StrCat("the sequences end at byte ", end_, ", but ",
                                                     data_name_, " has ", data_bytes_, " bytes"));
    }
    return std::move(result_);
  }

 private:
  Status Error(std::string_view field, const std::string& why) const {
    return InputError(absl::StrCat(index_.name(), ": ", std::string(field), ": ", why,
                                   "; give .bin and .idx of one dataset, whole, as Megatron-LM's "
                                   "preprocess_data.py writes them"));
  }

  Status ReadHeader() {
    char header[kHeaderBytes];
    if (index_.size() < kHeaderBytes) {
      return Error("header",
                   absl::StrCat("it has ", index_.size(), " bytes, a header has ", kHeaderBytes));
    }
    TL_RETURN_IF_ERROR(index_.Read(0, header));
    if (std::string_view(header, kMagic.size()) != kMagic) {
      return Error("magic", "it does not begin with MMIDIDX");
    }
    const uint64_t version = At<uint64_t>(header + 9);
    if (version != kVersion) {
      return Error("version", absl::StrCat(version, " is unknown, valid is ", kVersion));
    }
    const uint8_t code = At<uint8_t>(header + 17);
    const std::optional<TokenType> type = TypeOf(code);
    if (!type.has_value()) {
      const bool real = code == 6 || code == 7;
      return Error("dtype",
                   absl::StrCat(code, real ? " is a type of real numbers" : " is unknown",
                                "; tokens are 1 uint8, 2 int8, 3 int16, 4 int32, 5 int64 or "
                                "8 uint16"));
    }
    result_.type = *type;
    return CheckCounts(At<uint64_t>(header + 18), At<uint64_t>(header + 26));
  }

  Status CheckCounts(uint64_t sequences, uint64_t documents) {
    const auto rest = static_cast<uint64_t>(index_.size() - kHeaderBytes);
    if (sequences > rest / 12) {
      return Error("sequence_count", absl::StrCat(sequences,
                                                  " sequences need 12 bytes each, the "
                                                  "file has ",
                                                  rest, " behind its header"));
    }
    const uint64_t left = rest - sequences * 12;
    if (documents > left / 8 || documents * 8 != left) {
      return Error("document_count",
                   absl::StrCat(documents, " document indices need 8 bytes each, the file has ",
                                left, " for them"));
    }
    result_.sequences = static_cast<int64_t>(sequences);
    documents_ = static_cast<int64_t>(documents);
    return absl::OkStatus();
  }

  Status ReadSequences() {
    std::vector<char> lengths, pointers;
    for (int64_t begin = 0; begin < result_.sequences; begin += kEntriesAtOnce) {
      const int64_t count = std::min(kEntriesAtOnce, result_.sequences - begin);
      lengths.resize(static_cast<size_t>(count * 4));
      pointers.resize(static_cast<size_t>(count * 8));
      TL_RETURN_IF_ERROR(index_.Read(kHeaderBytes + begin * 4, lengths));
      TL_RETURN_IF_ERROR(index_.Read(kHeaderBytes + result_.sequences * 4 + begin * 8, pointers));
      for (int64_t i = 0; i < count; ++i) {
        TL_RETURN_IF_ERROR(AddSequence(begin + i, At<int32_t>(lengths.data() + i * 4),
                                       At<int64_t>(pointers.data() + i * 8)));
      }
    }
    return absl::OkStatus();
  }

  Status AddSequence(int64_t sequence, int32_t length, int64_t pointer) {
    const int64_t width = BytesOf(result_.type);
    if (length < 0) {
      return Error("sequence_lengths",
                   absl::StrCat("sequence ", sequence, " has ", length, " tokens"));
    }
    const int64_t bytes = length * width;
    if (pointer < 0 || pointer > data_bytes_ || bytes > data_bytes_ - pointer) {
      return Error("sequence_pointers",
                   absl::StrCat("sequence ", sequence, " of ", bytes, " bytes at byte ", pointer,
                                " lies outside ", data_name_, ", which has ", data_bytes_));
    }
    if (pointer % width != 0) {
      return Error("sequence_pointers", absl::StrCat("sequence ", sequence, " at byte ", pointer,
                                                     " begins inside a token of ", width));
    }
    end_ = std::max(end_, pointer + bytes);
    if (length == 0) return absl::OkStatus();
    const bool joined = !result_.runs.empty() && last_end_ == pointer;
    if (!joined) result_.runs.push_back({result_.tokens, pointer});
    last_end_ = pointer + bytes;
    if (__builtin_add_overflow(result_.tokens, int64_t{length}, &result_.tokens)) {
      return Error("sequence_lengths", "the tokens of all sequences cannot be counted");
    }
    return absl::OkStatus();
  }

  Status ReadDocuments() {
    const int64_t start = kHeaderBytes + result_.sequences * 12;
    std::vector<char> indices;
    int64_t last = 0;
    for (int64_t begin = 0; begin < documents_; begin += kEntriesAtOnce) {
      const int64_t count = std::min(kEntriesAtOnce, documents_ - begin);
      indices.resize(static_cast<size_t>(count * 8));
      TL_RETURN_IF_ERROR(index_.Read(start + begin * 8, indices));
      for (int64_t i = 0; i < count; ++i) {
        const int64_t document = At<int64_t>(indices.data() + i * 8);
        if (document < last || document > result_.sequences) {
          return Error("document_indices",
                       absl::StrCat("index ", begin + i, " is ", document, ", valid are ", last,
                                    " to ", result_.sequences));
        }
        last = document;
      }
    }
    return absl::OkStatus();
  }

  const ByteFile& index_;
  const std::string& data_name_;
  const int64_t data_bytes_;
  int64_t documents_ = 0;
  int64_t end_ = 0;       // of the last byte that a sequence covers
  int64_t last_end_ = 0;  // of the sequence before
  MegatronIndex result_;
};

}  // namespace

StatusOr<MegatronIndex> ReadMegatronIndex(const ByteFile& index, const std::string& data_name,
                                          int64_t data_bytes) {
  return IndexReader(index, data_name, data_bytes).Read();
}

}  // namespace tideline
