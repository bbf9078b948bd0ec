// Launch<Kernel>: makes one Operation of one kernel call. Its byte ranges are those of the views
// among the arguments, so a kernel cannot be launched without declaring what it touches.
//
// A kernel is a struct with a name and a Run that one block executes (exec/device/block.h):
//
//   struct Double {
//     static constexpr const char* kName = "double";
//     static constexpr int kThreads = Block::kWideThreads;  // of a block on a GPU; may be left out
//     template <typename Mode>
//     TIDELINE_HOST_DEVICE static void Run(const Block& block, In<float, Mode> x,
//                                          Out<float, Mode> y);
//   };
//   TL_RETURN_IF_ERROR(Launch<Double>(target, blocks, In<float>(x, n), Out<float>(y, n)));
//
// Arguments are views, numbers and Tables (exec/device/table.h): they are copied as bytes, at most
// kMaxArgumentBytes of them. What blocks give must not depend on their order. In an emulated build
// they run one after the other on a worker thread of the emulator; compiled by nvcc the same call
// launches them on the stream's GPU, whose threads then are the block's.
#ifndef TIDELINE_EXEC_DEVICE_LAUNCH_H_
#define TIDELINE_EXEC_DEVICE_LAUNCH_H_

#include <array>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/status.h"
#include "exec/device/block.h"
#include "exec/device/device.h"
#include "exec/device/operation.h"
#include "exec/device/views.h"
#ifdef __CUDACC__
#include "exec/device/launch_device.h"
#endif

namespace tideline {

// Bytes that the arguments of one launch may take together: what a GPU's parameter memory holds.
inline constexpr size_t kMaxArgumentBytes = 30000;

// What one checked kernel run touched of what it declared.
struct TouchReport {
  const char* kernel = "";
  uint64_t tag = 0;
  int64_t declared_bytes = 0;
  int64_t touched_bytes = 0;
};

// Receives reports from worker threads, possibly several at once.
class TouchObserver {
 public:
  virtual ~TouchObserver() = default;
  virtual void OnTouched(const TouchReport& report) = 0;
};

// Where and how a kernel is launched. `observer` may be null; it is called with check kKernels
// only, and must live until the stream is synchronized.
struct LaunchTarget {
  Stream stream = nullptr;
  uint64_t tag = 0;
  CheckLevel check = CheckLevel::kOrder;
  TouchObserver* observer = nullptr;
};

namespace internal {

template <typename Argument>
concept View = requires {
  Argument::kViewAccess;
};

template <View Argument>
constexpr int64_t ElementBytes() {
  return sizeof(*std::declval<Argument>().data());
}

template <typename Argument>
void AddRange(const Argument& argument, Operation& operation) {
  if constexpr (View<Argument>) {
    if (argument.count() == 0) return;
    operation.ranges.push_back(
        {argument.data(), argument.count() * ElementBytes<Argument>(), Argument::kViewAccess});
  }
}

template <typename Pointee, Access kAccess>
CheckedView<Pointee, kAccess> ToChecked(const PlainView<Pointee, kAccess>& view, AccessLog& log) {
  return {view, &log};
}
template <typename Argument>
const Argument& ToChecked(const Argument& argument, AccessLog&) {
  return argument;
}

template <typename Argument>
int64_t CountOf(const Argument& argument) {
  if constexpr (View<Argument>) {
    return argument.count();
  } else {
    return 0;
  }
}

template <typename Argument>
constexpr int64_t BytesOf() {
  if constexpr (View<Argument>) {
    return ElementBytes<Argument>();
  } else {
    return 0;
  }
}

// Text of a violation: kernel, operand, element, and what to change.
Status ViolationStatus(const char* kernel, int argument, const AccessLog& log);

template <typename Kernel, typename... Arguments, size_t... kIndex>
void RunChecked(const LaunchTarget& target, int64_t blocks,
                const std::tuple<Arguments...>& arguments, std::index_sequence<kIndex...>) {
  std::array<AccessLog, sizeof...(Arguments)> logs{
      AccessLog(CountOf(std::get<kIndex>(arguments)))...};
  for (int64_t index = 0; index < blocks; ++index) {
    Kernel::template Run<Checked>(Block(index, blocks),
                                  ToChecked(std::get<kIndex>(arguments), logs[kIndex])...);
  }
  constexpr int64_t kBytes[] = {BytesOf<Arguments>()...};
  TouchReport report{.kernel = Kernel::kName, .tag = target.tag};
  for (size_t i = 0; i < logs.size(); ++i) {
    report.declared_bytes += static_cast<int64_t>(logs[i].touched.size()) * kBytes[i];
    report.touched_bytes += logs[i].TouchedElements() * kBytes[i];
    if (logs[i].violation != AccessLog::Violation::kNone) {
      Fail(DeviceOf(target.stream), ViolationStatus(Kernel::kName, static_cast<int>(i), logs[i]));
    }
  }
  if (target.observer != nullptr) target.observer->OnTouched(report);
}

}  // namespace internal

// Enqueues Kernel::Run over `blocks` blocks. Errors: those of Enqueue; violations of a checked run
// come from the device (Fail).
template <typename Kernel, typename... Arguments>
Status Launch(const LaunchTarget& target, int64_t blocks, Arguments... arguments) {
  static_assert((std::is_trivially_copyable_v<Arguments> && ...),
                "a kernel's arguments are copied to the device as bytes: give a Table");
  static_assert((sizeof(Arguments) + ... + 0) <= kMaxArgumentBytes);
#ifdef __CUDACC__
  return internal::LaunchOnDevice<Kernel>(target.stream, target.tag, blocks, arguments...);
#else
  Operation operation{.name = Kernel::kName, .tag = target.tag, .ranges = {}, .run = {}};
  (internal::AddRange(arguments, operation), ...);
  std::tuple<Arguments...> packed(std::move(arguments)...);
  if (target.check == CheckLevel::kKernels) {
    operation.run = [target, blocks, packed = std::move(packed)] {
      internal::RunChecked<Kernel>(target, blocks, packed, std::index_sequence_for<Arguments...>{});
    };
  } else {
    operation.run = [blocks, packed = std::move(packed)] {
      std::apply(
          [blocks](const Arguments&... views) {
            for (int64_t index = 0; index < blocks; ++index) {
              Kernel::template Run<Plain>(Block(index, blocks), views...);
            }
          },
          packed);
    };
  }
  return Enqueue(target.stream, std::move(operation));
#endif
}

}  // namespace tideline

#endif  // TIDELINE_EXEC_DEVICE_LAUNCH_H_
