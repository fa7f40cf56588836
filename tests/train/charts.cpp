#include <clocale>
#include <heddle/train/charts.hpp>
#include <limits>

#include "catch.hpp"
#include "io/files.hpp"

using namespace heddle;
using namespace heddle::testing;
using train::LineChart;
using train::Series;

namespace {

std::size_t occurrences(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

// Throws Error unless a tag is a name and attributes in quotes: NAME A="..." B="..."/
void check_attributes(std::string_view tag) {
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-0123456789";
  if (tag.ends_with('/')) tag.remove_suffix(1);
  tag.remove_prefix(std::min(tag.size(), tag.find_first_not_of(letters)));
  while (!tag.empty()) {
    require(tag[0] == ' ', "tests: expected a blank and an attribute, found ", tag);
    const std::size_t equals = tag.find_first_not_of(letters, 1), end = tag.find('"', equals + 2);
    require(equals > 1 && tag.substr(equals, 2) == "=\"" && end != tag.npos, "tests: no attribute in quotes: ", tag);
    tag.remove_prefix(end + 1);
  }
}

// Throws Error unless tags are nested and closed, attributes are quoted and each & begins a known entity.
void check_xml(std::string_view xml) {
  std::vector<std::string> open;
  while (!xml.empty()) {
    const std::size_t next = xml.find_first_of("<&>");
    if (next == xml.npos) break;
    xml.remove_prefix(next);
    if (xml[0] == '&') {
      bool known = false;
      for (const char* entity : {"&amp;", "&lt;", "&gt;", "&quot;"}) known = known || xml.starts_with(entity);
      require(known, "tests: & begins no known entity");
      xml.remove_prefix(1);
      continue;
    }
    const std::size_t end = xml.find('>');
    require(xml[0] == '<' && end != xml.npos, "tests: a tag has no end");
    const std::string tag(xml.substr(1, end - 1));
    xml.remove_prefix(end + 1);
    if (tag[0] == '/') {
      require(!open.empty() && open.back() == tag.substr(1), "tests: ", tag, " closes another tag");
      open.pop_back();
      continue;
    }
    check_attributes(tag);
    if (tag.back() != '/') open.push_back(tag.substr(0, tag.find(' ')));
  }
  require(open.empty(), "tests: a tag is not closed");
}

// Checks an SVG file and returns what follows its style sheet.
std::string checked_svg(const std::string& svg) {
  check_xml(svg);
  const std::string drawn = svg.substr(svg.find("</style>"));
  CHECK(drawn.find("nan") == drawn.npos);
  CHECK(drawn.find("inf") == drawn.npos);
  CHECK(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  CHECK(svg.find("<script") == svg.npos);
  CHECK(svg.find("prefers-color-scheme:dark") != svg.npos);
  return drawn;
}

constexpr double chart_nan = std::numeric_limits<double>::quiet_NaN();
constexpr double chart_infinity = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("line_chart: draws a line per series, with a legend") {
  const std::string svg = checked_svg(train::line_chart(
      {"Loss", "step", "loss", {{"train", {0, 1, 2}, {3, 2, 1}}, {"valid", {0, 1, 2}, {3, 2.5, 2}}}}));
  CHECK(occurrences(svg, "class=\"line s0\"") == 2);
  CHECK(occurrences(svg, "class=\"line s1\"") == 2);
  for (const char* text : {">Loss<", ">step<", ">loss<", ">train<", ">valid<", ">1.5<", ">0<", ">2<"})
    CHECK_THAT(svg, ContainsSubstring(text));
  CHECK(svg.find(">0.5<") == svg.npos);  // steps are whole

  const std::string one = checked_svg(train::line_chart({"Loss", "step", "loss", {{"train", {0, 1, 2}, {3, 2, 1}}}}));
  CHECK(one.find(">train<") == one.npos);
}

TEST_CASE("line_chart: leaves gaps, and draws single points as dots") {
  const Series series{"a", {0, 1, 2, 3, 4, 5, 6}, {1, 2, chart_nan, 3, chart_infinity, 4, 5}};
  const std::string svg = checked_svg(train::line_chart({"", "", "", {series}}));
  CHECK(occurrences(svg, "class=\"line s0\"") == 2);
  CHECK(occurrences(svg, "<circle") == 1);
}

TEST_CASE("line_chart: draws any values") {
  CHECK_THAT(checked_svg(train::line_chart({"empty", "x", "y", {}})), ContainsSubstring("no data"));
  CHECK_THAT(checked_svg(train::line_chart({"", "x", "y", {{"a", {}, {}}, {"b", {1}, {chart_nan}}}})),
             ContainsSubstring("no data"));
  for (const std::vector<double>& y : {std::vector<double>{0.91},
                                       {0, 0},
                                       {5, 5, 5},
                                       {-1e308, 1e308},
                                       {-1e300, 1e300},
                                       {5e-324, 1e-323},
                                       {1e-320, 2},
                                       {1e15, 1e15 + 1},
                                       {-7},
                                       {1e9, 1e9 + 1e-3},
                                       {0.1, 0.1 + 1e-12}}) {
    std::vector<double> x(y.size());
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i);
    for (const LineChart& chart : {LineChart{"", "", "", {{"a", x, y}}}, {"", "", "", {{"a", y, x}}}}) {
      const std::string svg = checked_svg(train::line_chart(chart));
      CHECK(svg.size() < 10'000);
    }
  }
  CHECK_THROWS_AS(train::line_chart({"", "", "", {{"a", {1, 2}, {1}}}}), ShapeError);
}

TEST_CASE("line_chart: keeps the extremes of a long line, not all of its points") {
  Series series{"a", {}, {}};
  for (int i = 0; i < 200'000; ++i) {
    series.x.push_back(i);
    series.y.push_back(i == 123'456 ? 5 : i % 2);
  }
  const std::string svg = checked_svg(train::line_chart({"", "", "", {series}}));
  CHECK(svg.size() < 100'000);
  CHECK(svg.find(" 40.00L") != svg.npos);  // the top of the plot
}

TEST_CASE("charts: escape every text") {
  const std::string evil = "<script>alert('&\"')</script>\x01\xFF\xEF\xBF\xBE";
  const std::string escaped = "&lt;script&gt;alert('&amp;&quot;')&lt;/script&gt;\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD";
  CHECK(train::detail::escape_xml(evil) == escaped);
  CHECK_THAT(checked_svg(train::line_chart({evil, evil, evil, {{evil, {1}, {1}}, {evil, {1}, {1}}}})),
             ContainsSubstring(escaped));
  const std::vector<double> values{1, 2};
  CHECK_THAT(checked_svg(train::histogram_chart(evil, evil, values)), ContainsSubstring(escaped));
  const std::vector<Index> counts{1};
  CHECK_THAT(checked_svg(train::matrix_chart(evil, evil, evil, {evil}, counts)), ContainsSubstring(escaped));
}

TEST_CASE("charts: the distance between ticks is 1, 2 or 5 times a power of ten") {
  using train::detail::nice_step;
  CHECK(nice_step(1) == 1);
  CHECK(nice_step(1.1) == 2);
  CHECK(nice_step(3) == 5);
  CHECK(nice_step(7) == 10);
  CHECK(nice_step(0.03) == Approx(0.05));
  CHECK(nice_step(0) == 0);
  CHECK(nice_step(chart_nan) == 0);
  train::detail::Scale scale;
  scale.include(0.12);
  scale.include(0.47);
  scale.finish(5, true, false);
  std::string labels;
  for (const double tick : scale.ticks()) labels += scale.label(tick) + ' ';
  CHECK(labels == "0.1 0.2 0.3 0.4 0.5 ");
}

TEST_CASE("charts: have decimal points in every locale") {
  const char* const before = std::setlocale(LC_ALL, nullptr);
  const std::string restore = before ? before : "C";
  if (!std::setlocale(LC_ALL, "de_DE.UTF-8")) std::cerr << "skipped: charts in de_DE.UTF-8, which is not installed\n";
  const std::string svg = checked_svg(train::line_chart({"", "", "", {{"a", {0, 1}, {0.25, 0.5}}}}));
  std::setlocale(LC_ALL, restore.c_str());
  CHECK(svg.find(',') == svg.npos);
}

TEST_CASE("histogram_chart: counts every finite value") {
  std::vector<double> values;
  for (int i = 0; i < 100; ++i) values.push_back(i % 4);
  std::string svg = checked_svg(train::histogram_chart("lengths", "tokens", values));
  CHECK(occurrences(svg, "class=\"bar\"") == 4);  // one per number, of the same height
  CHECK(occurrences(svg, "height=\"306.00\" class=\"bar\"") == 4);
  values.push_back(chart_nan);
  values.push_back(chart_infinity);
  svg = checked_svg(train::histogram_chart("lengths", "tokens", values));
  CHECK_THAT(svg, ContainsSubstring("not finite: 2"));

  CHECK_THAT(checked_svg(train::histogram_chart("", "", {})), ContainsSubstring("no data"));
  for (const std::vector<double>& some :
       {std::vector<double>{7}, {0.5, 0.5}, {-1e300, 1e300}, {0, 1e-320}, {1e17, 1e17}, {0.1, 0.9}})
    CHECK(occurrences(checked_svg(train::histogram_chart("", "", some)), "class=\"bar\"") >= 1);
}

TEST_CASE("matrix_chart: colors a cell by its share of the row") {
  const std::vector<Index> counts{3, 1, 0, 0};
  const std::string svg =
      checked_svg(train::matrix_chart("Confusion", "true class", "predicted class", {"yes", "no"}, counts));
  const auto fill = [](double share) {
    return "fill=\"" + train::detail::to_hex(train::detail::sequential_color(share));
  };
  CHECK(occurrences(svg, fill(0.75)) == 1);
  CHECK(occurrences(svg, fill(0.25)) == 1);
  CHECK(occurrences(svg, "class=\"cell\"") == 2);
  CHECK(occurrences(svg, ">0</text>") == 2);
  CHECK(occurrences(svg, ">3</text>") == 1);
  CHECK(occurrences(svg, ">yes</text>") == 2);

  checked_svg(train::matrix_chart("", "", "", {}, {}));
  const std::vector<Index> many(100 * 100, 12);
  const std::string large = checked_svg(train::matrix_chart("", "", "", std::vector<std::string>(100, "label"), many));
  CHECK(occurrences(large, ">12</text>") == 0);
  CHECK(occurrences(large, "class=\"cell\"") == 10'000);
}

TEST_CASE("matrix_chart: refuses values that are not a matrix of counts") {
  const std::vector<Index> three(3), negative{1, -1, 0, 0};
  CHECK(error_of<ShapeError>([&] {
          train::matrix_chart("", "", "", {"a", "b"}, three);
        }) == "matrix_chart: 3 counts for 2 x 2 cells");
  CHECK(error_of<Error>([&] {
          train::matrix_chart("", "", "", {"a", "b"}, negative);
        }) == "matrix_chart: the count in row 0, column 1 is negative: -1");
}
