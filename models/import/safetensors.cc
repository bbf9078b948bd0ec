#include "models/import/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/byte_file.h"
#include "base/file.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/text.h"

namespace tideline {
namespace {

constexpr int64_t kPrefixBytes = 8;
constexpr int64_t kMostHeaderBytes = 100'000'000;  // the format's own limit
constexpr int64_t kMostDimensions = 8;
constexpr int64_t kMostFiles = 4096;
constexpr int64_t kPieceBytes = int64_t{4} << 20;

struct TypeName {
  StoredType type;
  const char* name;
  int64_t bytes;
};

constexpr std::array<TypeName, 15> kTypes = {{
    {StoredType::kF64, "F64", 8},
    {StoredType::kF32, "F32", 4},
    {StoredType::kF16, "F16", 2},
    {StoredType::kBF16, "BF16", 2},
    {StoredType::kF8E4M3, "F8_E4M3", 1},
    {StoredType::kF8E5M2, "F8_E5M2", 1},
    {StoredType::kI64, "I64", 8},
    {StoredType::kI32, "I32", 4},
    {StoredType::kI16, "I16", 2},
    {StoredType::kI8, "I8", 1},
    {StoredType::kU64, "U64", 8},
    {StoredType::kU32, "U32", 4},
    {StoredType::kU16, "U16", 2},
    {StoredType::kU8, "U8", 1},
    {StoredType::kBool, "BOOL", 1},
}};

const TypeName& Describe(StoredType type) { return kTypes[static_cast<size_t>(type)]; }

StatusOr<StoredType> ParseType(const JsonValue& value) {
  TL_ASSIGN_OR_RETURN(const std::string name, value.AsString());
  std::vector<std::string> valid;
  for (const TypeName& type : kTypes) {
    if (name == type.name) return type.type;
    valid.emplace_back(type.name);
  }
  return value.Error(UnknownName("dtype", name, valid));
}

// Bytes of a tensor, or none beyond 64 bits.
std::optional<int64_t> BytesOf(StoredType type, const std::vector<int64_t>& shape) {
  int64_t bytes = SizeOf(type);
  // An extent of 0 makes it empty, whatever the others are.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  for (const int64_t extent : shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return std::nullopt;
  }
  return bytes;
}

StatusOr<TensorHeader::Entry> ParseEntry(const std::string& name, const JsonValue& value,
                                         int64_t data_begin, int64_t data_bytes) {
  TensorHeader::Entry entry;
  entry.name = name;
  TL_ASSIGN_OR_RETURN(JsonObject object, value.AsObject());
  TL_ASSIGN_OR_RETURN(const JsonValue type, object.Get("dtype"));
  TL_ASSIGN_OR_RETURN(entry.type, ParseType(type));
  TL_ASSIGN_OR_RETURN(const JsonValue shape, object.Get("shape"));
  TL_ASSIGN_OR_RETURN(const std::vector<JsonValue> extents, shape.AsArray());
  if (static_cast<int64_t>(extents.size()) > kMostDimensions) {
    return shape.Error(
        absl::StrCat(extents.size(), " dimensions; at most ", kMostDimensions, " are read"));
  }
  for (const JsonValue& extent : extents) {
    TL_ASSIGN_OR_RETURN(entry.shape.emplace_back(), extent.AsInteger(0));
  }
  TL_ASSIGN_OR_RETURN(const JsonValue offsets, object.Get("data_offsets"));
  TL_ASSIGN_OR_RETURN(const std::vector<JsonValue> ends, offsets.AsArray());
  if (ends.size() != 2) {
    return offsets.Error(absl::StrCat(ends.size(), " numbers; give [begin, end)"));
  }
  TL_ASSIGN_OR_RETURN(entry.begin, ends[0].AsInteger(0, data_bytes));
  TL_ASSIGN_OR_RETURN(entry.end, ends[1].AsInteger(entry.begin, data_bytes));
  const std::optional<int64_t> bytes = BytesOf(entry.type, entry.shape);
  if (!bytes || entry.end - entry.begin != *bytes) {
    return offsets.Error(absl::StrCat(entry.end - entry.begin, " bytes, but ", Name(entry.type),
                                      " of shape [", absl::StrJoin(entry.shape, ", "), "] has ",
                                      bytes ? absl::StrCat(*bytes) : "more than 2^63",
                                      "; the header and the data do not belong together"));
  }
  TL_RETURN_IF_ERROR(object.Finish());
  entry.begin += data_begin;
  entry.end += data_begin;
  return entry;
}

// No hole and no overlap from the header to the end of the file.
Status CheckCover(const TensorHeader& header, int64_t begin, int64_t end, const std::string& file) {
  int64_t done = begin;
  for (const TensorHeader::Entry& entry : header.entries) {
    if (entry.begin == done) {
      done = entry.end;
      continue;
    }
    return InputError(absl::StrCat(
        file, ": tensor ", Quoted(entry.name), " begins at byte ", entry.begin,
        entry.begin < done ? ", inside the tensor before it" : ", behind a hole", " (byte ", done,
        " is next); tensors must lie one after the other, so the file is damaged"));
  }
  if (done == end) return absl::OkStatus();
  return InputError(absl::StrCat(file, ": the tensors end at byte ", done, ", the file at byte ",
                                 end, "; it was cut off or has something behind them"));
}

StatusOr<std::map<std::string, std::string>> ParseMetadata(const JsonValue& value) {
  std::map<std::string, std::string> metadata;
  TL_ASSIGN_OR_RETURN(JsonObject object, value.AsObject());
  for (const auto& [key, text] : object.Members()) {
    TL_ASSIGN_OR_RETURN(metadata[key], text.AsString());
  }
  return metadata;
}

// A text whose type and offsets are filled in by the writer.
std::string HeaderText(const TensorHeader& header) {
  JsonWriter json;
  json.BeginObject();
  if (!header.metadata.empty()) {
    json.Key("__metadata__").BeginObject();
    for (const auto& [key, text] : header.metadata) json.Field(key, text);
    json.EndObject();
  }
  int64_t offset = 0;
  for (const TensorHeader::Entry& entry : header.entries) {
    json.Key(entry.name).BeginObject().Field("dtype", Name(entry.type)).Key("shape");
    json.BeginInlineArray();
    for (const int64_t extent : entry.shape) json.Value(extent);
    json.EndArray().Key("data_offsets").BeginInlineArray().Value(offset);
    offset += BytesOf(entry.type, entry.shape).value_or(0);
    json.Value(offset).EndArray().EndObject();
  }
  std::string text = json.EndObject().Take();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data begins aligned
  return text;
}

}  // namespace

const char* Name(StoredType type) { return Describe(type).name; }
int64_t SizeOf(StoredType type) { return Describe(type).bytes; }

StatusOr<TensorHeader> ParseTensorHeader(std::string_view begin, int64_t file_bytes,
                                         const std::string& file) {
  if (file_bytes < kPrefixBytes || begin.size() < kPrefixBytes) {
    return InputError(absl::StrCat(file, ": ", file_bytes,
                                   " bytes are no safetensors file: it begins with 8 bytes that "
                                   "say how long its header is"));
  }
  uint64_t header_bytes = 0;
  for (int64_t i = kPrefixBytes - 1; i >= 0; --i) {
    header_bytes = header_bytes << 8 | static_cast<unsigned char>(begin[i]);
  }
  const int64_t room = std::min(kMostHeaderBytes, file_bytes - kPrefixBytes);
  if (header_bytes > static_cast<uint64_t>(room) ||
      begin.size() - kPrefixBytes < static_cast<size_t>(header_bytes)) {
    return InputError(
        absl::StrCat(file, ": its first 8 bytes promise a header of ", header_bytes, " bytes, but ",
                     room == kMostHeaderBytes ? "100 MB is the most there may be"
                                              : absl::StrCat("only ", room, " follow"),
                     "; it is no safetensors file, or it was cut off"));
  }
  const int64_t data_begin = kPrefixBytes + static_cast<int64_t>(header_bytes);
  TL_ASSIGN_OR_RETURN(
      const JsonDocument document,
      JsonDocument::Parse(begin.substr(kPrefixBytes, static_cast<size_t>(header_bytes)), file,
                          {.size_bytes = kMostHeaderBytes}));
  TL_ASSIGN_OR_RETURN(JsonObject root, document.root().AsObject());
  TensorHeader header;
  header.data_begin = data_begin;
  for (const auto& [name, value] : root.Members()) {
    if (name == "__metadata__") {
      TL_ASSIGN_OR_RETURN(header.metadata, ParseMetadata(value));
      continue;
    }
    TL_ASSIGN_OR_RETURN(header.entries.emplace_back(),
                        ParseEntry(name, value, data_begin, file_bytes - data_begin));
  }
  std::stable_sort(header.entries.begin(), header.entries.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  TL_RETURN_IF_ERROR(CheckCover(header, data_begin, file_bytes, file));
  return header;
}

struct TensorFiles::File {
  ByteFile bytes;
  int64_t data_begin = 0;
  std::string checksum = {};  // empty: it carries none
};

Status TensorFiles::Add(const std::string& path) {
  TL_ASSIGN_OR_RETURN(ByteFile opened, ByteFile::Open(path));
  auto file = std::make_shared<File>(File{.bytes = std::move(opened)});
  const int64_t size = file->bytes.size();
  std::string begin(static_cast<size_t>(std::min(size, kPrefixBytes)), '\0');
  TL_RETURN_IF_ERROR(file->bytes.Read(0, begin));
  if (size >= kPrefixBytes) {
    uint64_t length = 0;
    std::memcpy(&length, begin.data(), sizeof length);
    // A length that cannot be is left to the parser, which says why.
    if (length <= static_cast<uint64_t>(std::min(size - kPrefixBytes, kMostHeaderBytes))) {
      begin.resize(static_cast<size_t>(kPrefixBytes) + length);
      TL_RETURN_IF_ERROR(file->bytes.Read(0, begin));
    }
  }
  TL_ASSIGN_OR_RETURN(TensorHeader header, ParseTensorHeader(begin, size, path));
  const int32_t index = static_cast<int32_t>(files_.size());
  for (TensorHeader::Entry& entry : header.entries) {
    StoredTensor tensor{.name = entry.name,
                        .type = entry.type,
                        .shape = std::move(entry.shape),
                        .bytes = entry.end - entry.begin,
                        .file = index,
                        .begin = entry.begin};
    const auto [place, is_new] = tensors_.emplace(entry.name, std::move(tensor));
    if (!is_new) {
      return InputError(absl::StrCat(path, ": tensor ", Quoted(entry.name), " is also in '",
                                     FileName(place->second), "'; each may be there once"));
    }
  }
  file->data_begin = header.data_begin;
  if (const auto checksum = header.metadata.find(kTensorChecksumKey);
      checksum != header.metadata.end()) {
    file->checksum = checksum->second;
  }
  files_.push_back(std::move(file));
  return absl::OkStatus();
}

Status TensorFiles::AddIndex(const std::string& path) {
  TL_ASSIGN_OR_RETURN(const JsonDocument document,
                      JsonDocument::Load(path, {.size_bytes = kMostHeaderBytes}));
  TL_ASSIGN_OR_RETURN(JsonObject root, document.root().AsObject());
  TL_ASSIGN_OR_RETURN(const JsonValue map_value, root.Get("weight_map"));
  TL_ASSIGN_OR_RETURN(JsonObject map, map_value.AsObject());
  std::map<std::string, std::string> file_of;
  std::map<std::string, int32_t> index_of;
  for (const auto& [tensor, value] : map.Members()) {
    TL_ASSIGN_OR_RETURN(const std::string file, value.AsString());
    if (file.empty() || file.find('/') != std::string::npos || file == "." || file == "..") {
      return value.Error(absl::StrCat(Quoted(file), " is no name of a file beside the index"));
    }
    file_of[tensor] = file;
    index_of.emplace(file, 0);
  }
  if (static_cast<int64_t>(index_of.size()) > kMostFiles) {
    return map_value.Error(absl::StrCat(index_of.size(), " files; at most ", kMostFiles));
  }
  for (auto& [file, index] : index_of) {
    index = static_cast<int32_t>(files_.size());
    TL_RETURN_IF_ERROR(Add(absl::StrCat(FolderOf(path), "/", file)));
  }
  for (const auto& [tensor, file] : file_of) {
    const StoredTensor* found = Find(tensor);
    if (found != nullptr && found->file == index_of[file]) continue;
    return InputError(absl::StrCat(path, ": field `weight_map`: tensor ", Quoted(tensor),
                                   " is not in '", file, "'; the index is of other files"));
  }
  for (const auto& [name, tensor] : tensors_) {
    if (file_of.contains(name)) continue;
    return InputError(absl::StrCat(FileName(tensor), ": tensor ", Quoted(name),
                                   " is not in the index '", path,
                                   "'; the index is of other files"));
  }
  return absl::OkStatus();
}

StatusOr<TensorFiles> TensorFiles::Open(const std::string& path) {
  TensorFiles files;
  files.path_ = path;
  std::string name = path;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    name = absl::StrCat(path, "/model.safetensors");
    const std::string index = absl::StrCat(name, ".index.json");
    if (!std::filesystem::exists(name, ignored)) {
      if (!std::filesystem::exists(index, ignored)) {
        return InputError(absl::StrCat("folder '", path,
                                       "' holds neither model.safetensors nor "
                                       "model.safetensors.index.json; name the file"));
      }
      name = index;
    }
  }
  if (name.ends_with(".json")) {
    TL_RETURN_IF_ERROR(files.AddIndex(name));
  } else {
    TL_RETURN_IF_ERROR(files.Add(name));
  }
  return files;
}

const StoredTensor* TensorFiles::Find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

const std::string& TensorFiles::FileName(const StoredTensor& tensor) const {
  return files_[static_cast<size_t>(tensor.file)]->bytes.name();
}

Status TensorFiles::Read(const StoredTensor& tensor, int64_t offset, std::span<char> into) const {
  const File& file = *files_[static_cast<size_t>(tensor.file)];
  return Annotate(file.bytes.Read(tensor.begin + offset, into),
                  absl::StrCat("tensor ", Quoted(tensor.name)));
}

Status TensorFiles::CheckChecksums() const {
  std::vector<char> piece;
  for (const std::shared_ptr<const File>& file : files_) {
    if (file->checksum.empty()) continue;
    Sha256 hash;
    for (int64_t offset = file->data_begin; offset < file->bytes.size(); offset += kPieceBytes) {
      piece.resize(static_cast<size_t>(std::min(kPieceBytes, file->bytes.size() - offset)));
      TL_RETURN_IF_ERROR(file->bytes.Read(offset, piece));
      hash.Update({piece.data(), piece.size()});
    }
    const std::string found = hash.HexDigest();
    if (found == file->checksum) continue;
    return InputError(absl::StrCat(file->bytes.name(), ": metadata `", kTensorChecksumKey,
                                   "`: it says ", Quoted(file->checksum, 64),
                                   ", the tensors' bytes give ", found,
                                   "; the file was changed after it was written"));
  }
  return absl::OkStatus();
}

namespace {

// `use` of every piece of every entry, filled.
Status EachPiece(const TensorHeader& header, const FillTensor& fill,
                 const std::function<Status(std::string_view piece)>& use) {
  std::vector<char> piece;
  for (const TensorHeader::Entry& entry : header.entries) {
    const int64_t bytes = BytesOf(entry.type, entry.shape).value_or(0);
    for (int64_t offset = 0; offset < bytes; offset += kPieceBytes) {
      piece.resize(static_cast<size_t>(std::min(kPieceBytes, bytes - offset)));
      TL_RETURN_IF_ERROR(fill(entry, offset, piece));
      TL_RETURN_IF_ERROR(use({piece.data(), piece.size()}));
    }
  }
  return absl::OkStatus();
}

}  // namespace

Status WriteTensorFile(const std::string& path, const TensorHeader& header,
                       const FillTensor& fill) {
  TL_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  Sha256 hash;
  TL_RETURN_IF_ERROR(EachPiece(header, fill, [&](std::string_view piece) {
    hash.Update(piece);
    return absl::OkStatus();
  }));
  TensorHeader described = header;
  described.metadata[kTensorChecksumKey] = hash.HexDigest();
  const std::string text = HeaderText(described);
  const uint64_t length = text.size();
  std::string prefix(sizeof length, '\0');
  for (size_t i = 0; i < sizeof length; ++i) prefix[i] = static_cast<char>(length >> (8 * i));
  TL_RETURN_IF_ERROR(file.Append(prefix));
  TL_RETURN_IF_ERROR(file.Append(text));
  TL_RETURN_IF_ERROR(
      EachPiece(header, fill, [&](std::string_view piece) { return file.Append(piece); }));
  return file.Commit();
}

}  // namespace tideline
