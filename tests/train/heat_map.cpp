#include <heddle/train/heat_map.hpp>
#include <limits>
#include <set>

#include "catch.hpp"
#include "io/files.hpp"

using namespace heddle;
using namespace heddle::testing;
using train::Color;
using train::HeatMap;
using train::Image;

namespace {

Index pixels_of(const Image& image, Color color) {
  Index count = 0;
  for (Index y = 0; y < image.height(); ++y)
    for (Index x = 0; x < image.width(); ++x) count += image.at(x, y) == color;
  return count;
}

double linear(std::uint8_t channel) {
  const double c = channel / 255.0;
  return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
}

// Returns CIE L* of an sRGB color, for L* above 8.
double lightness(Color c) {
  const double y = 0.2126 * linear(c.red) + 0.7152 * linear(c.green) + 0.0722 * linear(c.blue);
  return 116 * std::cbrt(y) - 16;
}

}  // namespace

TEST_CASE("sequential_color: darkens evenly") {
  double before = 200;
  for (int i = 0; i <= 1000; ++i) {
    const double l = lightness(train::detail::sequential_color(i / 1000.0));
    CHECK(l < before + 0.35);  // channels are rounded
    CHECK(l == Approx(97 - 80 * i / 1000.0).margin(2.5));
    before = l;
  }
  using train::detail::sequential_color;
  CHECK(sequential_color(-1) == sequential_color(0));
  CHECK(sequential_color(1e300) == sequential_color(1));
  CHECK(sequential_color(std::numeric_limits<double>::quiet_NaN()) == sequential_color(0));
}

TEST_CASE("heat_map: draws one cell") {
  const float value = 0.25f;
  const Image image = train::heat_map({{&value, {1, 1, 1}}, {}, {}});
  CHECK(pixels_of(image, train::detail::sequential_color(1)) >= 16 * 16);
}

TEST_CASE("heat_map: draws a panel per head, each on its own scale") {
  constexpr Index heads = 12, length = 33;
  std::vector<float> values(heads * length * length);
  for (Index h = 0; h < heads; ++h)
    for (Index i = 0; i < length; ++i)
      values[static_cast<std::size_t>((h * length + i) * length + i)] = static_cast<float>(1 + h);
  const std::vector<std::string> tokens(length, "token");
  const Image image = train::heat_map({{values.data(), {heads, length, length}}, tokens, tokens});
  // The largest value of each row is the panel's maximum; cells have 10 x 10 pixels.
  const Index darkest = pixels_of(image, train::detail::sequential_color(1));
  CHECK(darkest >= heads * length * 100);
  CHECK(darkest < heads * (length * 100 + 100));  // the upper ends of the color bars are as dark
  CHECK(pixels_of(image, train::detail::ink) > 1000);
}

TEST_CASE("heat_map: draws values that are not finite in gray, and negative ones as 0") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values{nan, infinity, -infinity, -1, 0, 0.5f};
  const Image image = train::heat_map({{values.data(), {1, 2, 3}}, {}, {}});
  CHECK(pixels_of(image, train::detail::not_finite_gray) == 3 * 256);
  const Index lightest = pixels_of(image, train::detail::sequential_color(0));
  CHECK(lightest >= 2 * 256);
  CHECK(pixels_of(image, train::detail::sequential_color(1)) >= 256);

  const std::vector<float> nothing{nan, -2};
  CHECK(pixels_of(train::heat_map({{nothing.data(), {1, 1, 2}}, {}, {}}), train::detail::sequential_color(0)) >= 256);
}

TEST_CASE("heat_map: has smaller cells for longer texts") {
  for (const auto& [length, cell] : {std::pair<Index, Index>{32, 16}, {64, 10}, {128, 6}, {256, 3}, {600, 2}}) {
    const std::vector<float> values(static_cast<std::size_t>(length * length), 1.0f);
    const std::vector<std::string> labels(static_cast<std::size_t>(length), "a rather long label, more than 16 glyphs");
    const Image image = train::heat_map({{values.data(), {1, length, length}}, labels, labels});
    CHECK(pixels_of(image, train::detail::sequential_color(1)) >= length * length * cell * cell);
    CHECK(image.width() < length * cell + 200);
  }
}

TEST_CASE("heat_map: cuts labels at code points") {
  using train::detail::cut_label;
  CHECK(cut_label("") == "");
  CHECK(cut_label("sixteen glyphs 6") == "sixteen glyphs 6");
  CHECK(cut_label("seventeen glyphs7") == "seventeen glyp..");
  std::string umlauts;
  for (int i = 0; i < 17; ++i) umlauts += "\xC3\xA4";
  CHECK(cut_label(umlauts) == umlauts.substr(0, 28) + "..");
}

TEST_CASE("heat_map: refuses what does not fit") {
  const std::vector<float> values(4, 1.0f);
  CHECK(error_of<Error>([&] {
          train::heat_map({{values.data(), {0, 2, 2}}, {}, {}});
        }) == "heat_map: values of shape [0, 2, 2] have no cells");
  CHECK(error_of<Error>([&] {
          train::heat_map({{values.data(), {1, 2, 2}}, {"a"}, {}});
        }) == "heat_map: 1 row labels for 2 rows");
  CHECK(error_of<Error>([&] {
          train::heat_map({{values.data(), {1, 2, 2}}, {}, {"a", "b", "c"}});
        }) == "heat_map: 3 column labels for 2 columns");
  const std::vector<float> wide(200'000);
  CHECK_THROWS_AS(train::heat_map({{wide.data(), {1, 1, 200'000}}, {}, {}}), Error);
}
