#include <heddle/train/image.hpp>
#include <limits>
#include <set>
#include <string>

#include "catch.hpp"
#include "io/files.hpp"

using namespace heddle;
using namespace heddle::testing;
using train::Color;
using train::Image;

namespace {

constexpr Color paper{255, 255, 255}, pen{10, 20, 30};

// Returns the image as text: '#' for each pixel that is not paper.
std::string drawn_on(const Image& image) {
  std::string text;
  for (Index y = 0; y < image.height(); ++y) {
    for (Index x = 0; x < image.width(); ++x) text += image.at(x, y) == paper ? '.' : '#';
    text += '\n';
  }
  return text;
}

Index drawn_pixels(const Image& image) {
  const std::string text = drawn_on(image);
  return std::count(text.begin(), text.end(), '#');
}

}  // namespace

TEST_CASE("Image: holds rows of RGB") {
  Image image(3, 2, {1, 2, 3});
  image.set(2, 1, {7, 8, 9});
  CHECK(image.width() == 3);
  CHECK(image.height() == 2);
  const std::vector<std::uint8_t> expected{1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 7, 8, 9};
  CHECK(std::vector<std::uint8_t>(image.pixels().begin(), image.pixels().end()) == expected);
  CHECK(image.at(2, 1) == Color{7, 8, 9});
}

TEST_CASE("Image: refuses invalid sizes and pixels outside the image") {
  for (const auto& [width, height] :
       {std::pair<Index, Index>{0, 1}, {1, 0}, {-1, 5}, {65'537, 1}, {1, 65'537}, {20'000, 20'000}})
    CHECK_THROWS_AS(Image(width, height, paper), Error);
  CHECK(error_of<Error>([] { Image(0, 7, paper); }) ==
        "image: a side has 1 to 65536 pixels, and an image at most 100000000; got 0 x 7");
  CHECK(Image(65'536, 1, paper).width() == 65'536);

  Image image(3, 2, paper);
  for (const auto& [x, y] : {std::pair<Index, Index>{3, 0}, {0, 2}, {-1, 0}, {0, -1}}) {
    CHECK_THROWS_AS(image.at(x, y), IndexError);
    CHECK_THROWS_AS(image.set(x, y, pen), IndexError);
  }
  CHECK(error_of<Error>([&] { image.at(3, 0); }) == "image: pixel (3, 0) is out of range for an image of 3 x 2");
}

TEST_CASE("Image: fills the part of a rectangle that is inside") {
  constexpr Index far = std::numeric_limits<Index>::max(), negative = std::numeric_limits<Index>::min();
  struct Case {
    Index x, y, width, height, pixels;
  };
  for (const auto& [x, y, width, height, pixels] : {Case{1, 1, 2, 2, 4},
                                                    {-1, -1, 2, 2, 1},
                                                    {4, 3, 9, 9, 1},
                                                    {0, 0, 0, 4, 0},
                                                    {0, 0, -3, 4, 0},
                                                    {5, 0, 1, 1, 0},
                                                    {0, 4, 1, 1, 0},
                                                    {-2, 0, 2, 1, 0},
                                                    {1, 1, far, far, 12},
                                                    {-far, -far, far, far, 0},
                                                    {-far, 0, far, 1, 0},
                                                    {negative, negative, far, far, 0},
                                                    {far, far, far, far, 0},
                                                    {negative + 1, 0, far, 4, 0},
                                                    {1 - far, 0, far, 1, 1}}) {
    Image image(5, 4, paper);
    image.fill(x, y, width, height, pen);
    CAPTURE(x, y, width, height);
    CHECK(drawn_pixels(image) == pixels);
  }
}

TEST_CASE("Image: draws text") {
  Image image(11, 8, paper);
  image.draw_text(0, 0, "Ag", pen);
  CHECK(drawn_on(image) ==
        ".###.......\n"
        "#...#......\n"
        "#...#..####\n"
        "#####.#...#\n"
        "#...#.#...#\n"
        "#...#..####\n"
        "#...#.....#\n"
        ".......###.\n");

  Image large(12, 16, paper);
  large.draw_text(2, 0, "A", pen, 2);
  CHECK(drawn_pixels(large) == 4 * 18);
  CHECK(large.at(4, 0) == pen);
  CHECK(large.at(2, 2) == pen);
  CHECK(large.at(3, 0) == paper);
}

TEST_CASE("Image: draws text upwards") {
  Image image(8, 11, paper);
  image.draw_text_upwards(0, 11, "Ag", pen);
  // The image of the test above, turned to the left by 90 degrees.
  Image flat(11, 8, paper);
  flat.draw_text(0, 0, "Ag", pen);
  for (Index along = 0; along < 11; ++along)
    for (Index down = 0; down < 8; ++down) CHECK(image.at(down, 10 - along) == flat.at(along, down));

  Image large(16, 22, paper), large_flat(22, 16, paper);
  large.draw_text_upwards(0, 22, "Ag", pen, 2);
  large_flat.draw_text(0, 0, "Ag", pen, 2);
  for (Index along = 0; along < 22; ++along)
    for (Index down = 0; down < 16; ++down) CHECK(large.at(down, 21 - along) == large_flat.at(along, down));
}

TEST_CASE("Image: clips text at its edges") {
  constexpr Index far = std::numeric_limits<Index>::max(), negative = std::numeric_limits<Index>::min();
  const std::string text(300, 'M');
  for (const Index x : {negative, Index{-100}, Index{-3}, Index{7}, Index{100}, far})
    for (const Index y : {negative, Index{-100}, Index{-3}, Index{7}, Index{100}, far}) {
      Image image(10, 10, paper);
      image.draw_text(x, y, text, pen, 3);
      image.draw_text_upwards(x, y, text, pen, 3);
    }
  Image image(10, 10, paper);
  CHECK_THROWS_AS(image.draw_text(0, 0, "x", pen, 0), Error);
  CHECK_THROWS_AS(image.draw_text_upwards(0, 0, "x", pen, 101), Error);
  CHECK(drawn_pixels(image) == 0);
}

TEST_CASE("Image: measures text in code points") {
  CHECK(Image::text_width("") == 0);
  CHECK(Image::text_width("a") == 5);
  CHECK(Image::text_width("ab", 2) == 22);
  CHECK(Image::text_width("\xC3\xA9\xE6\x97\xA5\xF0\x9F\x98\x80") == 17);  // three code points
  CHECK(Image::text_width("\xFF\xFF") == 11);
  CHECK(Image::text_height() == 8);
  CHECK(Image::text_height(3) == 24);
  CHECK_THROWS_AS(Image::text_width("a", 0), Error);
  CHECK_THROWS_AS(Image::text_height(-1), Error);
}

TEST_CASE("Image: has a glyph for each printable character of ASCII, and one for all others") {
  std::set<std::string> glyphs;
  for (char c = 0x20; c < 0x7F; ++c) {
    Image image(5, 8, paper);
    image.draw_text(0, 0, std::string(1, c), pen);
    glyphs.insert(drawn_on(image));
    CHECK((drawn_pixels(image) == 0) == (c == ' '));
  }
  CHECK(glyphs.size() == 95);
  for (const char* other : {"\n", "\x7F", "\xC3\xA9", "\xFF", "\xE6\x97\xA5"}) {
    Image image(5, 8, paper);
    image.draw_text(0, 0, other, pen);
    CHECK(drawn_on(image) == "#####\n#...#\n#...#\n#...#\n#...#\n#...#\n#####\n.....\n");
  }
}
