// Message text from pieces: Message("operand ", 3, " of ", name). std::string_view is a piece here,
// which it is not for this Abseil's StrCat.
#ifndef TIDELINE_PLANNER_PROGRAM_MESSAGE_H_
#define TIDELINE_PLANNER_PROGRAM_MESSAGE_H_

#include <concepts>
#include <string>
#include <string_view>

namespace tideline {

template <typename... Pieces>
std::string Message(const Pieces&... pieces) {
  std::string text;
  const auto append = [&](const auto& piece) {
    if constexpr (std::integral<std::decay_t<decltype(piece)>>) {
      text += std::to_string(piece);
    } else {
      text += std::string_view(piece);
    }
  };
  (append(pieces), ...);
  return text;
}

}  // namespace tideline

#endif  // TIDELINE_PLANNER_PROGRAM_MESSAGE_H_
