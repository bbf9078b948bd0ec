// Draws the memory tide of a Run file: draw_tide RUN.tlr PICTURE.svg [RANK...]
//
// One panel for all ranks that look alike, or one for each rank that is named.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/file.h"
#include "traces/run/run_file_reader.h"
#include "traces/tide/tide.h"
#include "traces/tide/tide_panels.h"
#include "traces/tide/tide_svg.h"

namespace tideline {
namespace {

Status Draw(const std::string& run_path, const std::string& picture_path,
            const std::vector<int32_t>& ranks) {
  TL_ASSIGN_OR_RETURN(const auto run, RunFileReader::Open(run_path));
  TL_ASSIGN_OR_RETURN(const Tide tide, BuildTide(*run));
  std::vector<TideCurve> curves;
  for (const TideCurve& curve : tide.curves) {
    if (curve.space == 0) curves.push_back(curve);
  }
  const std::vector<TidePanel> panels = ranks.empty()
                                            ? DistinctPanels(curves, run->metadata(), {})
                                            : ChosenPanels(curves, run->metadata(), {}, ranks);
  const std::string& title = run->metadata().title;
  return WriteFileAtomically(
      picture_path, DrawTideSvg(panels, tide.categories,
                                {.title = title.empty() ? "Memory tide" : title,
                                 .subtitle = "live device memory, " + run->metadata().source}));
}

}  // namespace
}  // namespace tideline

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: draw_tide RUN.tlr PICTURE.svg [RANK...]\n");
    return 2;
  }
  std::vector<int32_t> ranks;
  for (int i = 3; i < argc; ++i) ranks.push_back(std::atoi(argv[i]));
  const tideline::Status status = tideline::Draw(argv[1], argv[2], ranks);
  if (!status.ok()) {
    std::fprintf(stderr, "draw_tide: %s\n", std::string(status.message()).c_str());
    return tideline::ExitCode(status);
  }
  return 0;
}
