// SVG files: text, numbers and shapes. They have no scripts and load nothing, and follow the reader's light
// or dark mode.
#pragma once
#include <charconv>
#include <string>
#include <string_view>

#include <heddle/base/color.hpp>
#include <heddle/base/utf8.hpp>

namespace heddle::pictures {

/// Returns the text as XML: markup is escaped, and U+FFFD replaces U+FFFE, U+FFFF and ASCII control characters except
/// tab and line feed.
inline std::string escape_xml(std::string_view text) {
  std::string escaped;
  for (const char *at = text.data(), *end = at + text.size(); at != end;) {
    char32_t c = text::decode_utf8(at, end);
    if ((c < 0x20 && c != '\t' && c != '\n') || c == 0x7F || c == 0xFFFE || c == 0xFFFF)
      c = text::replacement_character;
    if (c == '&')
      escaped += "&amp;";
    else if (c == '<')
      escaped += "&lt;";
    else if (c == '>')
      escaped += "&gt;";
    else if (c == '"')
      escaped += "&quot;";
    else {
      char bytes[text::max_utf8_bytes];
      escaped.append(bytes, static_cast<std::size_t>(text::encode_utf8(c, bytes)));
    }
  }
  return escaped;
}

/// Returns a text of at most `longest` code points: a longer one is cut and ends with an ellipsis.
inline std::string shorten(std::string_view text, int longest) {
  const char *at = text.data(), *const end = at + text.size(), *cut = at;
  for (int count = 0; at != end; ++count) {
    if (count == longest) return std::string(text.data(), cut) + "\xE2\x80\xA6";
    cut = at;
    text::decode_utf8(at, end);
  }
  return std::string(text);
}

/// Returns a number as text, with a decimal point in every locale.
inline std::string number(double value, std::chars_format format, int precision) {
  char digits[400];  // the largest number in fixed notation has 309 digits before its point
  return {digits, std::to_chars(std::begin(digits), std::end(digits), value, format, precision).ptr};
}

/// Returns a coordinate in pixels, rounded to hundredths.
inline std::string coordinate(double value) { return number(value, std::chars_format::fixed, 2); }

/// Returns a step of a path: 'M' moves to (x, y), 'L' draws a line to it.
inline std::string path_step(char command, double x, double y) {
  std::string step(1, command);
  step += coordinate(x);
  step += ' ';
  step += coordinate(y);
  return step;
}

/// An SVG file that is built element by element. Lengths are in pixels; `classes` are classes of the style sheet below.
class Svg {
 public:
  /// Begins a file with a background and a title.
  Svg(double width, double height, std::string_view title) : width_(width) {
    const std::string box = coordinate(width) + ' ' + coordinate(height);
    text_ = "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"heddle-chart\" role=\"img\" viewBox=\"0 0 " + box +
            "\" width=\"" + coordinate(width) + "\" height=\"" + coordinate(height) + "\">\n<title>" +
            escape_xml(title) + "</title>\n<style>" + style + "</style>\n";
    rectangle(0, 0, width, height, "paper");
    constexpr double glyph = 9;  // the mean width of a title's glyphs
    text(width / 2, 22, shorten(title, static_cast<int>(width / glyph)), "title middle");
  }

  /// Draws a rectangle whose upper left corner is (x, y).
  void rectangle(double x, double y, double width, double height, std::string_view classes,
                 std::string_view fill = {}) {
    text_ += "<rect x=\"" + coordinate(x) + "\" y=\"" + coordinate(y) + "\" width=\"" + coordinate(width) +
             "\" height=\"" + coordinate(height) + "\" class=\"" + std::string(classes) + '"';
    if (!fill.empty()) text_ += " fill=\"" + std::string(fill) + '"';
    text_ += "/>\n";
  }
  /// Draws a line from (x1, y1) to (x2, y2).
  void line(double x1, double y1, double x2, double y2, std::string_view classes) {
    path(path_step('M', x1, y1) + path_step('L', x2, y2), classes);
  }
  /// Draws a path of steps, which path_step() makes.
  void path(std::string_view steps, std::string_view classes) {
    text_ += "<path d=\"" + std::string(steps) + "\" class=\"" + std::string(classes) + "\"/>\n";
  }
  /// Draws a dot with its center at (x, y).
  void dot(double x, double y, std::string_view classes) {
    text_ += "<circle cx=\"" + coordinate(x) + "\" cy=\"" + coordinate(y) + "\" r=\"3\" class=\"" +
             std::string(classes) + "\"/>\n";
  }
  /// Writes a line of text with its baseline at y. It begins at x; with the class `middle` it is centered there, with
  /// `end` it ends there. `upwards` rotates it by 90 degrees around (x, y).
  void text(double x, double y, std::string_view text, std::string_view classes, bool upwards = false) {
    if (text.empty()) return;
    const std::string at = coordinate(x) + ' ' + coordinate(y);
    text_ += "<text x=\"" + coordinate(x) + "\" y=\"" + coordinate(y) + "\" class=\"" + std::string(classes) + '"';
    if (upwards) text_ += " transform=\"rotate(-90 " + at + ")\"";
    text_ += '>' + escape_xml(text) + "</text>\n";
  }

  /// Returns the width in pixels.
  double width() const { return width_; }
  /// Returns the whole file.
  std::string finish() const { return text_ + "</svg>\n"; }

 private:
  // The colors of lines are from Okabe and Ito (2008, "Color universal design"); the two light ones are darkened for
  // white backgrounds.
  static constexpr const char* style = R"(
.heddle-chart{--paper:#ffffff;--ink:#1f2328;--faint:#d0d7de;--orange:#b58900;--sky:#2f9bd6;font:12px system-ui,sans-serif}
@media (prefers-color-scheme:dark){.heddle-chart{--paper:#0d1117;--ink:#e6edf3;--faint:#373e47;--orange:#e69f00;--sky:#56b4e9}}
.heddle-chart text{fill:var(--ink)}
.heddle-chart .paper{fill:var(--paper)}
.heddle-chart .title{font-size:15px;font-weight:600}
.heddle-chart .middle{text-anchor:middle}
.heddle-chart .end{text-anchor:end}
.heddle-chart .grid{stroke:var(--faint);fill:none}
.heddle-chart .axis{stroke:var(--ink);fill:none}
.heddle-chart .bar{fill:#0072b2}
.heddle-chart .line{fill:none;stroke-width:1.8;stroke-linejoin:round}
.heddle-chart .dashed{stroke-dasharray:6 3}
.heddle-chart .dotted{stroke-dasharray:2 3}
.heddle-chart .s0{stroke:#0072b2}.heddle-chart .s1{stroke:#d55e00}.heddle-chart .s2{stroke:#009e73}
.heddle-chart .s3{stroke:#cc79a7}.heddle-chart .s4{stroke:var(--orange)}.heddle-chart .s5{stroke:var(--sky)}
.heddle-chart .f0{fill:#0072b2}.heddle-chart .f1{fill:#d55e00}.heddle-chart .f2{fill:#009e73}
.heddle-chart .f3{fill:#cc79a7}.heddle-chart .f4{fill:var(--orange)}.heddle-chart .f5{fill:var(--sky)}
.heddle-chart text.on-light{fill:#1f2328}
.heddle-chart text.on-dark{fill:#ffffff}
)";

  double width_;
  std::string text_;
};

}  // namespace heddle::pictures
