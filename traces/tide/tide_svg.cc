#include "traces/tide/tide_svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"

namespace tideline {
namespace {

// Paul Tol's light scheme (2021) and greys, ordered so that neighbours in a stack contrast.
constexpr std::array<const char*, 10> kColours = {"#77AADD", "#EE8866", "#EEDD88", "#44BB99",
                                                  "#FFAABB", "#99DDFF", "#BBCC33", "#AAAA00",
                                                  "#DDDDDD", "#BBBBBB"};

constexpr int kLeft = 78;
constexpr int kRight = 150;
constexpr int kTop = 112;  // title, subtitle and legend
constexpr int kGap = 34;   // between panels: the name of the next one
constexpr int kBottom = 52;

std::string Number(double value) {
  std::array<char, 40> text;
  std::snprintf(text.data(), text.size(), "%.2f", value);
  std::string result = text.data();
  while (result.back() == '0') result.pop_back();
  if (result.back() == '.') result.pop_back();
  return result == "-0" ? "0" : result;
}

std::string Escaped(std::string_view text) {
  std::string result;
  for (const char character : text) {
    switch (character) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        // Control characters are not allowed in XML.
        result += static_cast<unsigned char>(character) < 0x20 ? ' ' : character;
    }
  }
  return result;
}

struct Unit {
  double size;
  const char* name;
};

Unit BytesUnit(double bytes) {
  constexpr std::array<Unit, 4> kUnits = {
      {{1099511627776.0, "TiB"}, {1073741824.0, "GiB"}, {1048576.0, "MiB"}, {1024.0, "KiB"}}};
  for (const Unit& unit : kUnits) {
    if (bytes >= unit.size) return unit;
  }
  return {1.0, "B"};
}

Unit TimeUnit(double ns) {
  constexpr std::array<Unit, 3> kUnits = {{{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}}};
  for (const Unit& unit : kUnits) {
    if (ns >= unit.size) return unit;
  }
  return {1.0, "ns"};
}

std::string Amount(double bytes) {
  const Unit unit = BytesUnit(bytes);
  std::array<char, 40> text;
  std::snprintf(text.data(), text.size(), "%.4g %s", bytes / unit.size, unit.name);
  return text.data();
}

// A round step (1, 2 or 5 times a power of ten) that divides `range` into at most `most` parts.
double Step(double range, int most) {
  const double rough = range / most;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) return factor * power;
  }
  return 10.0 * power;
}

class Picture {
 public:
  Picture(std::span<const TidePanel> panels, const std::vector<std::string>& categories,
          const TideSvgOptions& options)
      : panels_(panels), categories_(categories), options_(options) {
    plot_width_ = std::max(100, options.width - kLeft - kRight);
    double highest = 1;
    for (const TidePanel& panel : panels) {
      const TideCurve& curve = *panel.curve;
      peaks_.push_back(Peak(curve));
      highest = std::max(highest, static_cast<double>(peaks_.back().total_bytes));
      const std::vector<int64_t> maxima = CategoryMaxima(curve);
      used_.resize(std::max(used_.size(), maxima.size()));
      for (size_t i = 0; i < maxima.size(); ++i) used_[i] = used_[i] || maxima[i] > 0;
      begin_ns_ = static_cast<double>(curve.begin_ns);
      span_ns_ = std::max(1.0, static_cast<double>(curve.end_ns) - begin_ns_);
    }
    // The capacity belongs in the picture unless it would flatten the tide to a line.
    for (const TidePanel& panel : panels) {
      const auto capacity = static_cast<double>(panel.curve->capacity_bytes);
      if (capacity <= 4 * highest) top_bytes_ = std::max(top_bytes_, capacity);
    }
    top_bytes_ = std::max(top_bytes_, highest) * 1.06;
  }

  std::string Draw() {
    const int panels = std::max<int>(1, static_cast<int>(panels_.size()));
    const int height = kTop + panels * (options_.panel_height + kGap) - kGap + kBottom;
    absl::StrAppend(&svg_, R"(<svg xmlns="http://www.w3.org/2000/svg" width=")", options_.width,
                    R"(" height=")", height, R"(" viewBox="0 0 )", options_.width, " ", height,
                    R"(" font-family="Helvetica, Arial, 'DejaVu Sans', sans-serif">)", "\n");
    absl::StrAppend(&svg_, R"(<rect width="100%" height="100%" fill="#ffffff"/>)", "\n");
    Text(kLeft, 28, options_.title, 18, "#1a1a1a", "start", "font-weight=\"600\"");
    Text(kLeft, 47, options_.subtitle, 12.5, "#555555", "start");
    Legend();
    if (panels_.empty()) {
      Text(kLeft, kTop + 40, "The run has no memory samples.", 13, "#555555", "start");
    }
    for (size_t i = 0; i < panels_.size(); ++i) {
      Panel(panels_[i], peaks_[i], kTop + static_cast<int>(i) * (options_.panel_height + kGap));
    }
    if (!panels_.empty()) TimeAxis(height - kBottom);
    svg_ += "</svg>\n";
    return std::move(svg_);
  }

 private:
  double X(double ns) const { return kLeft + (ns - begin_ns_) / span_ns_ * plot_width_; }
  double Y(int top, double bytes) const {
    return top + options_.panel_height * (1.0 - bytes / top_bytes_);
  }

  void Text(double x, double y, std::string_view text, double size, const char* colour,
            const char* anchor, const char* more = "") {
    if (text.empty()) return;
    absl::StrAppend(&svg_, "<text x=\"", Number(x), "\" y=\"", Number(y), "\" font-size=\"",
                    Number(size), "\" fill=\"", colour, "\" text-anchor=\"", anchor, "\" ", more,
                    ">");
    svg_ += Escaped(text);
    svg_ += "</text>\n";
  }

  void Line(double x1, double y1, double x2, double y2, const char* style) {
    absl::StrAppend(&svg_, "<line x1=\"", Number(x1), "\" y1=\"", Number(y1), "\" x2=\"",
                    Number(x2), "\" y2=\"", Number(y2), "\" ", style, "/>\n");
  }

  void Legend() {
    double x = kLeft;
    for (size_t category = 0; category < used_.size(); ++category) {
      if (!used_[category]) continue;
      const std::string name = NameOrNumber(categories_, category, "category");
      absl::StrAppend(&svg_, "<rect x=\"", Number(x), "\" y=\"62\" width=\"11\" height=\"11\" ",
                      "rx=\"2\" fill=\"", kColours[category % kColours.size()], "\"/>\n");
      Text(x + 16, 72, name, 12, "#333333", "start");
      x += 16 + 7.2 * static_cast<double>(name.size()) + 16;
    }
  }

  void Grid(int top) {
    const Unit unit = BytesUnit(top_bytes_ / 2);
    const double step = std::exp2(std::ceil(std::log2(top_bytes_ / 5)));
    for (double bytes = 0; bytes < top_bytes_; bytes += step) {
      const double y = Y(top, bytes);
      Line(kLeft, y, kLeft + plot_width_, y, "stroke=\"#e6e6e6\"");
      Text(kLeft - 8, y + 4, absl::StrCat(Number(bytes / unit.size), " ", unit.name), 11, "#666666",
           "end");
    }
  }

  // Everything up to and including `category`, a step per column; bands above are drawn first, so
  // that no seam shows between them.
  void Band(const std::vector<TideSplit>& points, size_t category, int top) {
    const std::string floor = Number(Y(top, 0));
    const double width = static_cast<double>(plot_width_) / static_cast<double>(points.size());
    std::string path = absl::StrCat("M", kLeft, " ", floor);
    std::string before = floor;
    for (size_t i = 0; i < points.size(); ++i) {
      double bytes = 0;
      for (size_t below = 0; below <= category; ++below) {
        bytes += static_cast<double>(points[i].by_category[below]);
      }
      std::string y = Number(Y(top, bytes));
      if (y == before) continue;
      absl::StrAppend(&path, "H", Number(kLeft + width * static_cast<double>(i)), "V", y);
      before = std::move(y);
    }
    absl::StrAppend(&svg_, "<path d=\"", path, "H", kLeft + plot_width_, "V", floor, "Z\" fill=\"",
                    kColours[category % kColours.size()], "\"/>\n");
  }

  void Panel(const TidePanel& panel, const TideSplit& peak, int top) {
    const TideCurve& curve = *panel.curve;
    const double right = kLeft + plot_width_;
    Text(kLeft, top - 8, panel.name, 12.5, "#1a1a1a", "start", "font-weight=\"600\"");
    Grid(top);
    const std::vector<TideSplit> points = Resample(curve, std::max(1, options_.points));
    for (size_t category = points[0].by_category.size(); category-- > 0;) {
      if (used_[category]) Band(points, category, top);
    }
    Line(kLeft, Y(top, 0), right, Y(top, 0), "stroke=\"#999999\"");
    const auto peak_bytes = static_cast<double>(peak.total_bytes);
    const double x = X(static_cast<double>(peak.time_ns));
    const double y = Y(top, peak_bytes);
    Line(x, y, right, y, "stroke=\"#1a1a1a\" stroke-width=\"1\" stroke-dasharray=\"2 3\"");
    absl::StrAppend(&svg_, "<circle cx=\"", Number(x), "\" cy=\"", Number(y),
                    "\" r=\"3.5\" fill=\"#ffffff\" stroke=\"#1a1a1a\" stroke-width=\"1.5\"/>\n");
    double label = y + 4;
    const auto capacity = static_cast<double>(curve.capacity_bytes);
    if (capacity > 0 && capacity <= top_bytes_) {
      const double line = Y(top, capacity);
      Line(kLeft, line, right, line, "stroke=\"#C00000\" stroke-width=\"1.5\"");
      Text(right + 8, line + 4, absl::StrCat("capacity ", Amount(capacity)), 11.5, "#C00000",
           "start");
      label = std::max(label, line + 20);
    } else if (capacity > 0) {
      Text(right + 8, top + 4, absl::StrCat("\u2191 capacity ", Amount(capacity)), 11.5, "#C00000",
           "start");
      label = std::max(label, top + 20.0);
    }
    Text(right + 8, label, absl::StrCat("peak ", Amount(peak_bytes)), 11.5, "#1a1a1a", "start");
  }

  void TimeAxis(int y) {
    const Unit unit = TimeUnit(span_ns_ / 2);
    const double step = Step(span_ns_ / unit.size, 8) * unit.size;
    for (double ns = 0; ns <= span_ns_ * 1.0001; ns += step) {
      const double x = X(begin_ns_ + ns);
      Line(x, y, x, y + 5, "stroke=\"#999999\"");
      Text(x, y + 19, absl::StrCat(Number(ns / unit.size), " ", unit.name), 11, "#666666",
           "middle");
    }
    Text(kLeft + plot_width_ / 2.0, y + 38, "time since the start of the run", 11.5, "#555555",
         "middle");
  }

  std::span<const TidePanel> panels_;
  const std::vector<std::string>& categories_;
  const TideSvgOptions& options_;
  int plot_width_ = 0;
  double top_bytes_ = 0;
  double begin_ns_ = 0;
  double span_ns_ = 1;
  std::vector<TideSplit> peaks_;
  std::vector<bool> used_;
  std::string svg_;
};

}  // namespace

std::string DrawTideSvg(std::span<const TidePanel> panels,
                        const std::vector<std::string>& categories, const TideSvgOptions& options) {
  return Picture(panels, categories, options).Draw();
}

}  // namespace tideline
