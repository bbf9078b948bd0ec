#include "exec/emulator/order_checker.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace tideline {
namespace {

uintptr_t AddressOf(const void* memory) { return reinterpret_cast<uintptr_t>(memory); }

}  // namespace

OrderChecker::OrderChecker(int device) : device_(device) { AddStream("host"); }

int OrderChecker::AddStream(std::string_view name) {
  names_.emplace_back(name);
  // A new stream starts after all that the host had waited for.
  clocks_.push_back(clocks_.empty() ? Clock() : clocks_[kHost]);
  return static_cast<int>(names_.size()) - 1;
}

void OrderChecker::AddReservation(const void* memory, int64_t bytes, std::string_view name) {
  const uintptr_t begin = AddressOf(memory);
  reservations_[begin] = {begin + static_cast<uintptr_t>(bytes), std::string(name)};
}

void OrderChecker::RemoveReservation(const void* memory) {
  const auto found = reservations_.find(AddressOf(memory));
  TL_CHECK(found != reservations_.end(), "only reservations are removed");
  const auto first = Cut(found->first);
  const auto last = Cut(found->second.end);
  pieces_.erase(first, last);
  reservations_.erase(found);
}

void OrderChecker::Join(int stream, const Clock& clock) {
  Clock& own = clocks_[stream];
  if (own.size() < clock.size()) own.resize(clock.size(), 0);
  for (size_t i = 0; i < clock.size(); ++i) own[i] = std::max(own[i], clock[i]);
}

void OrderChecker::JoinAll() {
  for (size_t stream = 1; stream < clocks_.size(); ++stream) Join(kHost, clocks_[stream]);
  for (size_t stream = 1; stream < clocks_.size(); ++stream) clocks_[stream] = clocks_[kHost];
}

bool OrderChecker::Before(const Visit& earlier, int stream) const {
  const Clock& clock = clocks_[stream];
  return static_cast<size_t>(earlier.stream) < clock.size() &&
         clock[earlier.stream] >= earlier.index;
}

OrderChecker::Pieces::iterator OrderChecker::Cut(uintptr_t at) {
  auto next = pieces_.lower_bound(at);
  if (next != pieces_.end() && next->first == at) return next;
  if (next == pieces_.begin()) return next;
  auto previous = std::prev(next);
  if (previous->second.end <= at) return next;
  Piece rest = previous->second;
  previous->second.end = at;
  return pieces_.emplace_hint(next, at, std::move(rest));
}

std::string OrderChecker::Place(uintptr_t begin, uintptr_t end) const {
  const auto next = reservations_.upper_bound(begin);
  if (next == reservations_.begin()) return absl::StrCat(end - begin, " bytes");
  const auto& [base, reservation] = *std::prev(next);
  return absl::StrCat("bytes [", begin - base, ", ", end - base, ") of '", reservation.name, "'");
}

std::string OrderChecker::Operation(const Visit& access) const {
  return absl::StrCat("'", access.name, "' (instruction ", access.tag,
                      describe_ ? " '" + describe_(access.tag) + "'" : "", ", stream ",
                      names_[access.stream], ")");
}

Status OrderChecker::Race(const Visit& earlier, const char* did, const Visit& later,
                          const char* does, uintptr_t begin, uintptr_t end) const {
  return RunError(absl::StrCat("race on device ", device_, ": ", Operation(later), " ", does, " ",
                               Place(begin, end), ", which ", Operation(earlier), " ", did,
                               ", and nothing orders the two; '", later.name, "' must wait for '",
                               earlier.name, "'"));
}

Status OrderChecker::Read(const Visit& access, uintptr_t begin, uintptr_t end) {
  auto piece = Cut(begin);
  Cut(end);
  uintptr_t at = begin;
  for (; at < end; ++piece) {
    const bool known = piece != pieces_.end() && piece->first < end;
    const uintptr_t start = known ? piece->first : end;
    if (start > at || !piece->second.defined) {
      const uintptr_t until = start > at ? start : piece->second.end;
      return RunError(absl::StrCat("device ", device_, ": ", Operation(access), " reads ",
                                   Place(at, until),
                                   ", which nothing has written; it must wait for the instruction "
                                   "that writes them, or read what is written"));
    }
    Piece& found = piece->second;
    if (!Before(found.writer, access.stream)) {
      return Race(found.writer, "writes", access, "reads", at, found.end);
    }
    const auto same = std::find_if(found.readers.begin(), found.readers.end(),
                                   [&](const Visit& r) { return r.stream == access.stream; });
    if (same == found.readers.end()) {
      found.readers.push_back(access);
    } else {
      *same = access;
    }
    at = found.end;
  }
  return absl::OkStatus();
}

Status OrderChecker::Write(const Visit& access, uintptr_t begin, uintptr_t end, bool forget) {
  const auto first = Cut(begin);
  const auto last = Cut(end);
  for (auto piece = first; piece != last; ++piece) {
    const Piece& found = piece->second;
    if (!Before(found.writer, access.stream)) {
      return Race(found.writer, "writes", access, "writes", piece->first, found.end);
    }
    for (const Visit& reader : found.readers) {
      if (!Before(reader, access.stream)) {
        return Race(reader, "reads", access, "writes", piece->first, found.end);
      }
    }
  }
  pieces_.erase(first, last);
  Piece written;
  written.end = end;
  written.defined = !forget;
  written.writer = access;
  pieces_.emplace(begin, std::move(written));
  return absl::OkStatus();
}

Status OrderChecker::Access(int stream, const char* name, uint64_t tag,
                            std::span<const Range> ranges, bool forget) {
  Clock& clock = clocks_[stream];
  if (clock.size() < names_.size()) clock.resize(names_.size(), 0);
  const Visit access = {stream, ++clock[stream], tag, name};
  for (const Range& range : ranges) {
    if (range.bytes == 0) continue;
    const uintptr_t begin = AddressOf(range.begin);
    const uintptr_t end = begin + static_cast<uintptr_t>(range.bytes);
    const auto next = reservations_.upper_bound(begin);
    if (range.bytes < 0 || next == reservations_.begin() || std::prev(next)->second.end < end) {
      return RunError(
          absl::StrCat("device ", device_, ": ", Operation(access), " touches ", range.bytes,
                       " bytes at an address outside the device's reservations",
                       next == reservations_.begin() ? "" : ", near " + Place(begin, end),
                       "; operands must lie inside memory that Reserve() gave"));
    }
  }
  // What the operation reads is looked at before what it writes, as an operation does.
  for (const Range& range : ranges) {
    if (range.bytes == 0 || range.access == tideline::Access::kWrite) continue;
    const uintptr_t begin = AddressOf(range.begin);
    TL_RETURN_IF_ERROR(Read(access, begin, begin + static_cast<uintptr_t>(range.bytes)));
  }
  for (const Range& range : ranges) {
    if (range.bytes == 0 || range.access == tideline::Access::kRead) continue;
    const uintptr_t begin = AddressOf(range.begin);
    TL_RETURN_IF_ERROR(Write(access, begin, begin + static_cast<uintptr_t>(range.bytes), forget));
  }
  return absl::OkStatus();
}

}  // namespace tideline
