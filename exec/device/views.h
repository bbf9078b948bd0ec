// Views: what a kernel declares about the memory it touches.
//
// A kernel takes its operands as In<T> (read), Out<T> (written, reads only what it wrote itself)
// and InOut<T> (both). The declaration is used twice. Launch (exec/device/launch.h) reads the byte
// ranges from it, which is all that race detection and the memory witness know about a kernel. And
// with check=kernels the same source is compiled over Checked views: every access is held against
// the declared extent, reads of an Out element that was never written are found, and the touched
// bytes are counted against the declared ones. Plain views are a pointer and a count, and
// cost what a pointer costs.
//
//   template <typename Mode>
//   TIDELINE_HOST_DEVICE static void Run(const Block& block, In<float, Mode> x,
//                                        Out<float, Mode> y) {
//     block.MapTile(y.count(), [](int64_t, float& to, float from) { to = 2 * from; }, y, x);
//   }
//
// An element of a type with a `Value` (the 16-bit formats of exec/ops/formats.h) is read and
// written as that.
//
// Kernels that need pointers (intrinsics, strides) call Region, which checks and marks a box of
// elements and returns the address of its first. Threads: a view and its log belong to one kernel
// run.
#ifndef TIDELINE_EXEC_DEVICE_VIEWS_H_
#define TIDELINE_EXEC_DEVICE_VIEWS_H_

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "base/host_device.h"
#include "models/ops/op_table.h"

namespace tideline {

struct Plain {};
struct Checked {};

namespace internal {

// What an element is read and written as.
template <typename T>
struct ValueOf {
  using Type = T;
};
template <typename T>
requires requires { typename T::Value; }
struct ValueOf<T> {
  using Type = typename T::Value;
};

}  // namespace internal

// What a checked kernel run did to one operand.
struct AccessLog {
  explicit AccessLog(int64_t count) : touched(static_cast<size_t>(count), 0) {}

  enum class Violation : uint8_t { kNone, kOutOfBounds, kReadBeforeWrite };
  Violation violation = Violation::kNone;  // the first one
  int64_t violating_element = 0;
  std::vector<uint8_t> touched;  // per element

  // Whether the element may be accessed; marks it. `must_be_written`: a read of an Out view.
  bool Touch(int64_t index, bool must_be_written) {
    if (index < 0 || index >= static_cast<int64_t>(touched.size())) {
      Report(Violation::kOutOfBounds, index);
      return false;
    }
    if (must_be_written && touched[index] == 0) Report(Violation::kReadBeforeWrite, index);
    touched[index] = 1;
    return true;
  }

  void Report(Violation kind, int64_t index) {
    if (violation != Violation::kNone) return;
    violation = kind;
    violating_element = index;
  }

  int64_t TouchedElements() const { return std::count(touched.begin(), touched.end(), 1); }
};

// One element of a writable checked view.
template <typename T>
class Cell {
 public:
  using Value = typename internal::ValueOf<T>::Type;
  Cell(T* data, AccessLog* log, int64_t index, bool write_only)
      : data_(data), log_(log), index_(index), write_only_(write_only) {}
  operator Value() const {
    return log_->Touch(index_, write_only_) ? Value{data_[index_]} : Value{};
  }
  const Cell& operator=(Value value) const {
    if (log_->Touch(index_, false)) data_[index_] = value;
    return *this;
  }
  // A proxy: what is assigned is the element. NOLINTNEXTLINE(bugprone-unhandled-self-assignment)
  const Cell& operator=(const Cell& other) const { return *this = static_cast<Value>(other); }
  const Cell& operator+=(Value value) const { return *this = static_cast<Value>(*this) + value; }

 private:
  T* data_;
  AccessLog* log_;
  int64_t index_;
  bool write_only_;
};

namespace internal {

template <typename Pointee, Access kAccess>
class PlainView {
 public:
  using Element = std::remove_const_t<Pointee>;
  using Value = typename ValueOf<Element>::Type;
  static constexpr Access kViewAccess = kAccess;
  TIDELINE_HOST_DEVICE PlainView(Pointee* data, int64_t count) : data_(data), count_(count) {}
  TIDELINE_HOST_DEVICE Pointee& operator[](int64_t index) const { return data_[index]; }
  TIDELINE_HOST_DEVICE int64_t count() const { return count_; }
  TIDELINE_HOST_DEVICE Pointee* data() const { return data_; }
  TIDELINE_HOST_DEVICE PlainView From(int64_t first) const {
    return {data_ + first, count_ - first};
  }
  TIDELINE_HOST_DEVICE Pointee* Region(int64_t first, int64_t, int64_t, int64_t, int64_t) const {
    return data_ + first;
  }

 private:
  Pointee* data_;
  int64_t count_;
};

template <typename Pointee, Access kAccess>
class CheckedView {
 public:
  using Element = std::remove_const_t<Pointee>;
  using Value = typename ValueOf<Element>::Type;
  static constexpr Access kViewAccess = kAccess;
  CheckedView(const PlainView<Pointee, kAccess>& plain, AccessLog* log)
      : data_(plain.data()), count_(plain.count()), log_(log) {}
  // The view from element `first` on; what it touches is logged as the whole view's.
  CheckedView From(int64_t first) const {
    CheckedView part = *this;
    part.first_ += first;
    part.count_ -= first;
    return part;
  }
  auto operator[](int64_t offset) const {
    const int64_t index = first_ + offset;
    if constexpr (kAccess == Access::kRead) {
      return log_->Touch(index, false) ? Value{data_[index]} : Value{};
    } else {
      return Cell<Element>(data_, log_, index, kAccess == Access::kWrite);
    }
  }
  int64_t count() const { return count_; }

  // Address of element `offset` of the box [rows, columns] with these strides; the kernel accesses
  // the whole box. A box that leaves the view is reported, and replaced by null.
  Pointee* Region(int64_t offset, int64_t rows, int64_t row_stride, int64_t columns,
                  int64_t column_stride) const {
    const int64_t first = first_ + offset;
    bool inside = true;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column) {
        inside &= log_->Touch(first + row * row_stride + column * column_stride, false);
      }
    }
    return inside ? data_ + first : nullptr;
  }

 private:
  Pointee* data_;
  int64_t first_ = 0;
  int64_t count_;
  AccessLog* log_;
};

// What a function over elements sees of element `index`: its old value, or none where the view is
// only written.
template <typename AnyView>
TIDELINE_HOST_DEVICE typename AnyView::Value OldElement(const AnyView& view, int64_t index) {
  if constexpr (AnyView::kViewAccess == Access::kWrite) {
    return {};
  } else {
    return view[index];
  }
}

template <typename AnyView>
TIDELINE_HOST_DEVICE void StoreElement(const AnyView& view, int64_t index,
                                       typename AnyView::Value value) {
  if constexpr (AnyView::kViewAccess != Access::kRead) view[index] = value;
}

// function(index, elements...), with what the views' access says loaded before and stored after.
template <typename Function, typename... Views>
TIDELINE_HOST_DEVICE void ApplyAt(int64_t index, Function& function, const Views&... views) {
  const auto apply = [&](auto... elements) {
    function(index, elements...);
    (StoreElement(views, index, elements), ...);
  };
  apply(OldElement(views, index)...);
}

template <typename Pointee, Access kAccess, typename Mode>
struct SelectView {
  using Type = PlainView<Pointee, kAccess>;
};
template <typename Pointee, Access kAccess>
struct SelectView<Pointee, kAccess, Checked> {
  using Type = CheckedView<Pointee, kAccess>;
};

}  // namespace internal

template <typename T, typename Mode = Plain>
using In = typename internal::SelectView<const T, Access::kRead, Mode>::Type;
template <typename T, typename Mode = Plain>
using Out = typename internal::SelectView<T, Access::kWrite, Mode>::Type;
template <typename T, typename Mode = Plain>
using InOut = typename internal::SelectView<T, Access::kReadWrite, Mode>::Type;

}  // namespace tideline

#endif  // TIDELINE_EXEC_DEVICE_VIEWS_H_
