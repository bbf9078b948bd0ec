// A picture of the memory tide: panels one below the other with the categories stacked, the
// capacity line, and the peak marked, as an SVG document (light theme). Pure text out of numbers:
// equal curves give equal bytes. Colours are Paul Tol's light scheme, told apart by colour-blind
// eyes.
#ifndef TIDELINE_TRACES_TIDE_TIDE_SVG_H_
#define TIDELINE_TRACES_TIDE_TIDE_SVG_H_

#include <span>
#include <string>
#include <vector>

#include "traces/tide/tide.h"

namespace tideline {

struct TideSvgOptions {
  std::string title = "Memory tide";
  std::string subtitle = {};  // "gpt2 · 4 stages · simulated"
  int width = 960;            // pixels
  int panel_height = 150;     // pixels, axes apart
  int points = 400;           // columns a curve is resampled to
};

// All panels share the time axis and, so that ranks can be compared, the height of the scale.
// No panels gives a picture that says so.
std::string DrawTideSvg(std::span<const TidePanel> panels,
                        const std::vector<std::string>& categories, const TideSvgOptions& options);

}  // namespace tideline

#endif  // TIDELINE_TRACES_TIDE_TIDE_SVG_H_
