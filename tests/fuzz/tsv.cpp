// Tables separated by tabs: writing the fields again gives the text that was read, except for its line ends.
#include <heddle/data/tsv.hpp>

#include "tables.hpp"

namespace {

using namespace heddle;

template <class Fields>
void append_line(const Fields& fields, std::string& text) {
  for (const std::string_view field : fields) (text += field) += '\t';
  text.back() = '\n';
}

std::string with_plain_line_ends(std::string_view text) {
  std::string plain;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    plain += line;
    plain += '\n';
    begin = end + 1;
  }
  return plain;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::Input input(data, size);
  const auto source = fuzz::read_text(input);
  if (!source) return 0;
  if (const auto table = fuzz::attempt<FileError>([&] { return data::parse_tsv(*source); })) {
    fuzz::check_table(*table, *source);
    std::string written;
    append_line(table->columns(), written);
    for (std::size_t row = 0; row < table->rows(); ++row) append_line((*table)[row], written);
    fuzz::claim(written == with_plain_line_ends(source->text), "a table holds all that its file does");
  }
  return 0;
}
