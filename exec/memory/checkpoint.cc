#include "exec/memory/checkpoint.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/sha256.h"
#include "exec/wire/bytes.h"
#include "exec/wire/fields.h"

namespace tideline {
namespace {

constexpr std::string_view kMagic = "TLCKPT03";
constexpr int64_t kPrefixBytes = 16;  // magic and header length
constexpr int64_t kDigestBytes = 32;
constexpr int64_t kChunkBytes = int64_t{1} << 20;
constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kSuffix = ".checkpoint";
constexpr size_t kKept = 2;

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using FilePtr = std::unique_ptr<std::FILE, CloseFile>;

std::string NameOf(int64_t step) { return absl::StrFormat("step-%012d.checkpoint", step); }

bool IsCheckpoint(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix) ||
      name.size() != kPrefix.size() + 12 + kSuffix.size()) {
    return false;
  }
  const std::string_view step = name.substr(kPrefix.size(), 12);
  return std::all_of(step.begin(), step.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool IsHalfWritten(std::string_view name) {
  return name.starts_with(kPrefix) && name.find(".checkpoint.tmp-") != std::string_view::npos;
}

template <typename Wire, IsOrConst<CheckpointHeader> Header>
void Fields(Wire& wire, Header& header) {
  wire(header.step, header.graph_hash, header.plan_hash, header.seed, header.data_origin,
       header.data_hash, header.losses);
  wire.List(header.registers, 16, [](auto& each, auto& value) { each(value.name, value.value); });
  wire.List(header.ranks, 8, [](auto& ranks, auto& buffers) {
    ranks.List(buffers, 16, [](auto& each, auto& buffer) { each(buffer.name, buffer.bytes); });
  });
}

std::string Encode(const CheckpointHeader& header) {
  FieldWriter writer;
  Fields(writer, header);
  return writer.Take();
}

bool Decode(std::string_view bytes, CheckpointHeader* header) {
  FieldReader reader(bytes);
  Fields(reader, *header);
  for (const auto& buffers : header->ranks) {
    for (const auto& buffer : buffers) {
      if (buffer.bytes < 0) return false;
    }
  }
  return reader.Finish() && header->step >= 0 &&
         static_cast<int64_t>(header->losses.size()) == header->step;
}

// -1 when the sum overflows.
int64_t PayloadBytes(const CheckpointHeader& header) {
  int64_t sum = 0;
  for (const auto& buffers : header.ranks) {
    for (const auto& buffer : buffers) {
      if (__builtin_add_overflow(sum, buffer.bytes, &sum)) return -1;
    }
  }
  return sum;
}

std::string Reason() { return std::strerror(errno); }

// The names of a folder's entries.
StatusOr<std::vector<std::string>> Entries(const std::string& path) {
  DIR* folder = opendir(path.c_str());
  if (folder == nullptr) {
    return RunError(absl::StrCat("checkpoint folder '", path, "' cannot be read: ", Reason()));
  }
  std::vector<std::string> names;
  while (const dirent* entry = readdir(folder)) names.emplace_back(entry->d_name);
  closedir(folder);
  return names;
}

// The digest of the first `bytes` of a file; empty when it is shorter.
std::string DigestOf(std::FILE* file, int64_t bytes) {
  Sha256 hash;
  std::string chunk(kChunkBytes, '\0');
  std::rewind(file);
  for (int64_t left = bytes; left > 0;) {
    const size_t now = static_cast<size_t>(std::min(left, kChunkBytes));
    if (std::fread(chunk.data(), 1, now, file) != now) return {};
    hash.Update({chunk.data(), now});
    left -= static_cast<int64_t>(now);
  }
  const auto digest = hash.Digest();
  return std::string(reinterpret_cast<const char*>(digest.data()), digest.size());
}

}  // namespace

CheckpointFolder::CheckpointFolder(CheckpointFolder&& other) noexcept
    : path_(std::move(other.path_)), lock_(std::exchange(other.lock_, -1)) {}

CheckpointFolder& CheckpointFolder::operator=(CheckpointFolder&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(lock_, other.lock_);
  return *this;
}

CheckpointFolder::~CheckpointFolder() {
  if (lock_ >= 0) close(lock_);
}

StatusOr<CheckpointFolder> CheckpointFolder::Open(const std::string& path, double wait_s) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    return RunError(absl::StrCat("checkpoint folder '", path, "' cannot be made: ", error.message(),
                                 "; name a folder in a writable place"));
  }
  CheckpointFolder folder;
  folder.path_ = path;
  const std::string lock = path + "/lock";
  folder.lock_ = open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (folder.lock_ < 0) {
    return RunError(absl::StrCat("'", lock, "' cannot be opened: ", Reason()));
  }
  TL_RETURN_IF_ERROR(folder.Lock(wait_s));
  TL_ASSIGN_OR_RETURN(const std::vector<std::string> names, Entries(path));
  for (const std::string& name : names) {
    if (IsHalfWritten(name)) unlink(absl::StrCat(path, "/", name).c_str());
  }
  return folder;
}

StatusOr<std::optional<CheckpointFolder>> CheckpointFolder::OpenExisting(const std::string& path,
                                                                         double wait_s) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0 && errno == ENOENT) return std::optional<CheckpointFolder>();
  CheckpointFolder folder;
  folder.path_ = path;
  // A folder that no run has used yet has no lock to take.
  folder.lock_ = open((path + "/lock").c_str(), O_RDONLY | O_CLOEXEC);
  if (folder.lock_ < 0 && errno != ENOENT) {
    return RunError(absl::StrCat("'", path, "/lock' cannot be opened: ", Reason()));
  }
  if (folder.lock_ >= 0) TL_RETURN_IF_ERROR(folder.Lock(wait_s));
  return std::optional<CheckpointFolder>(std::move(folder));
}

Status CheckpointFolder::Lock(double wait_s) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(wait_s);
  while (flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    if (std::chrono::steady_clock::now() >= deadline) {
      return RunError(absl::StrCat("checkpoint folder '", path_,
                                   "' is in use by another run; wait for it to end, or name "
                                   "another folder"));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return absl::OkStatus();
}

StatusOr<std::vector<std::string>> CheckpointFolder::List() const {
  TL_ASSIGN_OR_RETURN(std::vector<std::string> names, Entries(path_));
  std::erase_if(names, [](const std::string& name) { return !IsCheckpoint(name); });
  std::sort(names.rbegin(), names.rend());  // the step has a fixed number of digits
  return names;
}

StatusOr<bool> CheckpointFolder::HasAny() const {
  TL_ASSIGN_OR_RETURN(const std::vector<std::string> names, List());
  return !names.empty();
}

StatusOr<CheckpointFolder::Found> CheckpointFolder::Read(const std::string& name) const {
  const std::string path = path_ + "/" + name;
  const auto damaged = [&](const std::string& what) {
    return InputError(absl::StrCat("checkpoint '", path, "' is damaged: ", what));
  };
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return damaged(Reason());
  // Opening a pipe would wait for somebody to write.
  if (!S_ISREG(info.st_mode)) return damaged("it is no regular file");
  const FilePtr file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) return damaged(Reason());
  if (fstat(fileno(file.get()), &info) != 0) return damaged(Reason());
  const int64_t size = info.st_size;
  if (size < kPrefixBytes + kDigestBytes) return damaged("it is too short");
  char prefix[kPrefixBytes];
  if (std::fread(prefix, 1, sizeof prefix, file.get()) != sizeof prefix) return damaged(Reason());
  if (std::string_view(prefix, kMagic.size()) != kMagic) {
    return damaged("it does not begin as the checkpoints of this version do");
  }
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, prefix + kMagic.size(), sizeof header_bytes);
  if (header_bytes > static_cast<uint64_t>(size - kPrefixBytes - kDigestBytes)) {
    return damaged("its header is cut off");
  }
  // The digest first: what it covers can then be trusted to be what was written.
  const std::string digest = DigestOf(file.get(), size - kDigestBytes);
  char stored[kDigestBytes];
  if (digest.empty() || std::fread(stored, 1, sizeof stored, file.get()) != sizeof stored ||
      digest != std::string_view(stored, sizeof stored)) {
    return damaged("its checksum is wrong");
  }
  Found found{path, {}, kPrefixBytes + static_cast<int64_t>(header_bytes)};
  std::string header(header_bytes, '\0');
  std::fseek(file.get(), kPrefixBytes, SEEK_SET);
  if (std::fread(header.data(), 1, header.size(), file.get()) != header.size() ||
      !Decode(header, &found.header)) {
    return damaged("its header cannot be read");
  }
  if (name != NameOf(found.header.step)) {
    return damaged(absl::StrCat("it holds step ", found.header.step, ", not that of its name"));
  }
  const int64_t payload = PayloadBytes(found.header);
  if (payload < 0 || payload != size - kDigestBytes - found.payload_begin) {
    return damaged("its length does not fit its header");
  }
  return found;
}

StatusOr<std::optional<CheckpointFolder::Found>> CheckpointFolder::FindNewest(
    std::vector<std::string>* notes) const {
  TL_ASSIGN_OR_RETURN(const std::vector<std::string> names, List());
  for (const std::string& name : names) {
    StatusOr<Found> found = Read(name);
    if (found.ok()) return std::optional<Found>(*std::move(found));
    notes->push_back(absl::StrCat(std::string(found.status().message()), "; it is passed over"));
  }
  if (!names.empty()) {
    return InputError(absl::StrCat("no checkpoint in '", path_, "' is readable: ", notes->back(),
                                   "; start again in another folder"));
  }
  return std::optional<Found>();
}

Status CheckpointFolder::Load(const Found& found, const Put& put) const {
  const FilePtr file(std::fopen(found.path.c_str(), "rb"));
  if (file == nullptr || std::fseek(file.get(), found.payload_begin, SEEK_SET) != 0) {
    return RunError(absl::StrCat("checkpoint '", found.path, "' cannot be read: ", Reason()));
  }
  std::string chunk(kChunkBytes, '\0');
  for (size_t rank = 0; rank < found.header.ranks.size(); ++rank) {
    const auto& buffers = found.header.ranks[rank];
    for (size_t buffer = 0; buffer < buffers.size(); ++buffer) {
      for (int64_t offset = 0; offset < buffers[buffer].bytes;) {
        const size_t now =
            static_cast<size_t>(std::min(buffers[buffer].bytes - offset, kChunkBytes));
        if (std::fread(chunk.data(), 1, now, file.get()) != now) {
          return RunError(absl::StrCat("checkpoint '", found.path, "' ended while it was read"));
        }
        TL_RETURN_IF_ERROR(
            put(static_cast<int>(rank), static_cast<int>(buffer), offset, {chunk.data(), now}));
        offset += static_cast<int64_t>(now);
      }
    }
  }
  return absl::OkStatus();
}

Status CheckpointFolder::Save(const CheckpointHeader& header, const Get& get) const {
  TL_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path_ + "/" + NameOf(header.step)));
  Sha256 hash;
  const auto append = [&](std::string_view bytes) {
    hash.Update(bytes);
    return file.Append(bytes);
  };
  const std::string encoded = Encode(header);
  ByteWriter length;
  length.Put<uint64_t>(encoded.size());
  TL_RETURN_IF_ERROR(append(kMagic));
  TL_RETURN_IF_ERROR(append(length.bytes()));
  TL_RETURN_IF_ERROR(append(encoded));
  std::string chunk(kChunkBytes, '\0');
  for (size_t rank = 0; rank < header.ranks.size(); ++rank) {
    for (size_t buffer = 0; buffer < header.ranks[rank].size(); ++buffer) {
      const int64_t bytes = header.ranks[rank][buffer].bytes;
      for (int64_t offset = 0; offset < bytes;) {
        const size_t now = static_cast<size_t>(std::min(bytes - offset, kChunkBytes));
        TL_RETURN_IF_ERROR(
            get(static_cast<int>(rank), static_cast<int>(buffer), offset, {chunk.data(), now}));
        TL_RETURN_IF_ERROR(append({chunk.data(), now}));
        offset += static_cast<int64_t>(now);
      }
    }
  }
  const auto digest = hash.Digest();
  TL_RETURN_IF_ERROR(file.Append({reinterpret_cast<const char*>(digest.data()), digest.size()}));
  TL_RETURN_IF_ERROR(file.Commit());
  // Those of later steps were passed over as damaged, or this step would not have been played
  // again: they do not count, and are not ours to delete.
  TL_ASSIGN_OR_RETURN(std::vector<std::string> names, List());
  std::erase_if(names, [&](const std::string& name) { return name > NameOf(header.step); });
  for (size_t i = kKept; i < names.size(); ++i) unlink((path_ + "/" + names[i]).c_str());
  return absl::OkStatus();
}

namespace {

Status OtherSetting(const CheckpointHeader& stored, const char* option, const std::string& then,
                    const std::string& now, const std::string& same) {
  return InputError(absl::StrCat(option, ": the checkpoint of step ", stored.step,
                                 " was made with ", then, ", this run has ", now, "; ", same,
                                 " to go on, or name another --checkpoint folder to begin anew"));
}

std::string TextOf(const CheckpointHeader& header) {
  return absl::StrCat("'", header.data_origin, "' (SHA-256 ", header.data_hash.substr(0, 12), ")");
}

}  // namespace

Status CheckSameRun(const CheckpointHeader& stored, const CheckpointHeader& expected) {
  const char* differs = nullptr;
  if (stored.graph_hash != expected.graph_hash) {
    differs = "model graph";
  } else if (stored.plan_hash != expected.plan_hash) {
    differs = "plan";
  } else if (stored.ranks.size() != expected.ranks.size()) {
    differs = "number of ranks";
  } else if (stored.ranks != expected.ranks) {
    differs = "set of persistent buffers";
  }
  if (differs == nullptr && stored.seed != expected.seed) {
    return OtherSetting(stored, "--seed", absl::StrCat(stored.seed), absl::StrCat(expected.seed),
                        absl::StrCat("give --seed ", stored.seed));
  }
  if (differs == nullptr && stored.data_hash != expected.data_hash) {
    return OtherSetting(stored, "--data", TextOf(stored), TextOf(expected), "give the same data");
  }
  if (differs == nullptr) return absl::OkStatus();
  return InputError(absl::StrCat("the checkpoint of step ", stored.step, " belongs to another ",
                                 differs, " (", stored.graph_hash.substr(0, 12), ", plan ",
                                 stored.plan_hash.substr(0, 12), ", ", stored.ranks.size(),
                                 " ranks; this run: ", expected.graph_hash.substr(0, 12), ", plan ",
                                 expected.plan_hash.substr(0, 12), ", ", expected.ranks.size(),
                                 " ranks); resume with the plan that wrote it, or name another "
                                 "folder"));
}

}  // namespace tideline
