#include "exec/memory/checkpoint.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/text.h"
#include "exec/memory/shard.h"

namespace tideline {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kSuffix = ".checkpoint";
constexpr std::string_view kTemporary = ".tmp-";
constexpr const char* kManifest = "manifest";
constexpr int64_t kManifestLimitBytes = int64_t{1} << 30;
constexpr size_t kKept = 2;

std::string NameOf(int64_t step) { return absl::StrFormat("step-%012d.checkpoint", step); }

bool IsCheckpoint(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix) ||
      name.size() != kPrefix.size() + 12 + kSuffix.size()) {
    return false;
  }
  const std::string_view step = name.substr(kPrefix.size(), 12);
  return std::all_of(step.begin(), step.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Also what became of one that is being removed.
bool IsHalfWritten(std::string_view name) {
  const size_t suffix = name.find(kSuffix);
  return name.starts_with(kPrefix) && suffix != std::string_view::npos &&
         name.substr(suffix + kSuffix.size()).starts_with(kTemporary);
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

Status RemoveAll(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (!error) return absl::OkStatus();
  return RunError(absl::StrCat("'", path, "' cannot be removed: ", error.message()));
}

Status RemoveHalfWritten(const std::string& path) {
  TL_ASSIGN_OR_RETURN(const std::vector<std::string> names, Entries(path));
  for (const std::string& name : names) {
    if (IsHalfWritten(name)) TL_RETURN_IF_ERROR(RemoveAll(absl::StrCat(path, "/", name)));
  }
  return absl::OkStatus();
}

// What the error is when a checkpoint is no folder.
std::string TroubleOfFile(const std::string& path, const struct stat& info) {
  // Opening a pipe would wait for somebody to write.
  if (!S_ISREG(info.st_mode)) return "it is neither a folder nor a file";
  const StatusOr<ByteFile> file = ByteFile::Open(path);
  char magic[6] = {};
  if (!file.ok() || !file->Read(0, magic).ok() || std::string_view(magic, 6) != "TLCKPT") {
    return "it is no folder";
  }
  return "it is a single file, as earlier versions wrote, which this version does not read; with "
         "the version that wrote it, 'execute --resume --save-weights FILE' takes the weights out, "
         "which 'execute --weights FILE' begins from";
}

// Checks the files of all shards, several at once; the error of the first bad one.
Status CheckShardFiles(const std::string& folder, const CheckpointManifest& manifest) {
  const size_t count = manifest.shards.size();
  std::vector<Status> statuses(count);
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++) {
      statuses[i] =
          CheckShardFile(folder, manifest.step, static_cast<int32_t>(i), manifest.shards[i]);
    }
  };
  const size_t workers = std::min<size_t>(count, std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::thread> threads;
  for (size_t i = 1; i < workers; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : statuses) TL_RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

Status Damaged(const std::string& path, absl::string_view what) {
  return InputError(absl::StrCat("checkpoint '", path, "' is damaged: ", what));
}

StatusOr<CheckpointFolder::Found> ReadManifestOf(const std::string& folder,
                                                 const std::string& name) {
  const std::string path = absl::StrCat(folder, "/", name);
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return Damaged(path, Reason());
  if (!S_ISDIR(info.st_mode)) return Damaged(path, TroubleOfFile(path, info));
  const StatusOr<std::string> bytes =
      ReadFile(absl::StrCat(path, "/", kManifest), kManifestLimitBytes);
  if (!bytes.ok()) return Damaged(path, bytes.status().message());
  StatusOr<CheckpointManifest> manifest = DecodeManifest(*bytes);
  if (!manifest.ok()) return Damaged(path, manifest.status().message());
  if (name != NameOf(manifest->step)) {
    return Damaged(path, absl::StrCat("it holds step ", manifest->step, ", not that of its name"));
  }
  return CheckpointFolder::Found{path, *std::move(manifest)};
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
  TL_RETURN_IF_ERROR(RemoveHalfWritten(path));
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

StatusOr<CheckpointFolder::Found> CheckpointFolder::ReadManifest(const std::string& folder,
                                                                 int64_t step) {
  return ReadManifestOf(folder, NameOf(step));
}

StatusOr<CheckpointFolder::Found> CheckpointFolder::Read(const std::string& name) const {
  TL_ASSIGN_OR_RETURN(Found found, ReadManifestOf(path_, name));
  Status status = CheckShardFiles(found.path, found.manifest);
  if (status.ok()) status = CheckComplete(found.manifest);
  if (!status.ok()) return Damaged(found.path, status.message());
  return found;
}

StatusOr<std::optional<CheckpointFolder::Found>> CheckpointFolder::FindNewest(
    std::vector<std::string>* notes) const {
  TL_ASSIGN_OR_RETURN(const std::vector<std::string> names, List());
  std::string last;
  for (const std::string& name : names) {
    StatusOr<Found> found = Read(name);
    if (found.ok()) return std::optional<Found>(*std::move(found));
    last = std::string(found.status().message());
    if (notes != nullptr) notes->push_back(absl::StrCat(last, "; it is passed over"));
  }
  if (!names.empty()) {
    return InputError(absl::StrCat("no checkpoint in '", path_, "' is readable: ", last,
                                   "; start again in another folder"));
  }
  return std::optional<Found>();
}

std::string CheckpointFolder::ShardPath(const std::string& folder, int64_t step, int32_t rank) {
  return absl::StrCat(folder, "/", NameOf(step), std::string(kTemporary), "shards/",
                      ShardName(rank));
}

Status CheckpointFolder::Begin(int64_t step) const {
  // An attempt that failed may have left its shards.
  TL_RETURN_IF_ERROR(RemoveHalfWritten(path_));
  const std::string folder = FolderOf(ShardPath(path_, step, 0));
  if (mkdir(folder.c_str(), 0777) == 0) return absl::OkStatus();
  return RunError(absl::StrCat("'", folder, "' cannot be made: ", Reason()));
}

Status CheckpointFolder::Remove(const std::string& name) const {
  const std::string path = absl::StrCat(path_, "/", name);
  // Renamed first, so that what is half removed is no checkpoint.
  const std::string leaving = absl::StrCat(path, std::string(kTemporary), "old");
  if (rename(path.c_str(), leaving.c_str()) != 0) {
    return RunError(absl::StrCat("'", path, "' cannot be removed: ", Reason()));
  }
  return RemoveAll(leaving);
}

Status CheckpointFolder::Commit(CheckpointManifest manifest) const {
  const std::string name = NameOf(manifest.step);
  const std::string made = FolderOf(ShardPath(path_, manifest.step, 0));
  for (size_t rank = 0; rank < manifest.shards.size(); ++rank) {
    StatusOr<ShardRecord> record = RecordOfShard(made, manifest.step, static_cast<int32_t>(rank));
    if (!record.ok())
      return RunError(absl::StrCat("writing checkpoint '", path_, "/", name,
                                   "': ", std::string(record.status().message())));
    record->pieces = std::move(manifest.shards[rank].pieces);
    manifest.shards[rank] = *std::move(record);
  }
  TL_RETURN_IF_ERROR(
      WriteFileAtomically(absl::StrCat(made, "/", kManifest), EncodeManifest(manifest)));
  const std::string path = absl::StrCat(path_, "/", name);
  // There may be a damaged one of that step, or this step would not have been played again.
  struct stat info {};
  if (lstat(path.c_str(), &info) == 0) TL_RETURN_IF_ERROR(Remove(name));
  if (rename(made.c_str(), path.c_str()) != 0) {
    return RunError(absl::StrCat("'", path, "' cannot be made: ", Reason()));
  }
  TL_RETURN_IF_ERROR(SyncFolder(path_));
  // Those of later steps were passed over as damaged: they do not count, and are not ours to
  // delete.
  TL_ASSIGN_OR_RETURN(std::vector<std::string> names, List());
  std::erase_if(names, [&](const std::string& other) { return other > name; });
  for (size_t i = kKept; i < names.size(); ++i) TL_RETURN_IF_ERROR(Remove(names[i]));
  return absl::OkStatus();
}

namespace {

Status OtherSetting(const CheckpointManifest& stored, const char* option, const std::string& then,
                    const std::string& now, const std::string& same) {
  return InputError(absl::StrCat(option, ": the checkpoint of step ", stored.step,
                                 " was made with ", then, ", this run has ", now, "; ", same,
                                 " to go on, or name another --checkpoint folder to begin anew"));
}

std::string TextOf(const CheckpointManifest& manifest) {
  return absl::StrCat("'", manifest.data_origin, "' (SHA-256 ", manifest.data_hash.substr(0, 12),
                      ")");
}

std::string RanksOf(const CheckpointManifest& manifest) {
  return absl::StrCat(manifest.shards.size(), manifest.shards.size() == 1 ? " rank" : " ranks");
}

// The names of the optimizer's settings that differ.
std::vector<std::string> OtherSettings(const AdamSettings& a, const AdamSettings& b) {
  std::vector<std::string> names;
  const auto compare = [&](const char* name, const auto& then, const auto& now) {
    if (then != now) names.emplace_back(name);
  };
  compare("learning_rate", a.learning_rate, b.learning_rate);
  compare("beta1", a.beta1, b.beta1);
  compare("beta2", a.beta2, b.beta2);
  compare("epsilon", a.epsilon, b.epsilon);
  compare("decay", a.decay, b.decay);
  compare("schedule", a.schedule, b.schedule);
  compare("warmup_steps", a.warmup_steps, b.warmup_steps);
  compare("decay_steps", a.decay_steps, b.decay_steps);
  compare("least_learning_rate", a.least_learning_rate, b.least_learning_rate);
  return names;
}

}  // namespace

Status CheckSameRun(const CheckpointManifest& stored, const CheckpointManifest& expected) {
  if (stored.graph_hash != expected.graph_hash) {
    return InputError(absl::StrCat(
        "the checkpoint of step ", stored.step, " belongs to another model graph (",
        stored.graph_hash.substr(0, 12), "; this run: ", expected.graph_hash.substr(0, 12),
        "); resume with a plan of the same model, sequence length and type, or name another "
        "folder"));
  }
  if (stored.global_batch != expected.global_batch) {
    return OtherSetting(stored, "global batch", absl::StrCat(stored.global_batch, " samples"),
                        absl::StrCat(expected.global_batch),
                        "resume with a plan of the same batch");
  }
  if (stored.seed != expected.seed) {
    return OtherSetting(stored, "--seed", absl::StrCat(stored.seed), absl::StrCat(expected.seed),
                        absl::StrCat("give --seed ", stored.seed));
  }
  if (stored.data_hash != expected.data_hash) {
    return OtherSetting(stored, "--data", TextOf(stored), TextOf(expected), "give the same data");
  }
  return absl::OkStatus();
}

std::string NoteOfOtherPlan(const CheckpointManifest& stored, const CheckpointManifest& expected) {
  if (stored.plan_hash == expected.plan_hash) return "";
  std::string note = absl::StrCat(
      "the checkpoint was written under another plan (", stored.plan_hash.substr(0, 12), ", ",
      RanksOf(stored), "; this one: ", expected.plan_hash.substr(0, 12), ", ", RanksOf(expected),
      "); its state is the same here, bit for bit, but sums that this "
      "plan adds in another order may differ from now on");
  if (!stored.optimizer || !expected.optimizer) return note;
  const std::vector<std::string> names = OtherSettings(*stored.optimizer, *expected.optimizer);
  if (!names.empty()) {
    absl::StrAppend(&note, "; other settings of the optimizer: ", JoinNames(names));
  }
  return note;
}

}  // namespace tideline
