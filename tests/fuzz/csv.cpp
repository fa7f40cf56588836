// Tables separated by commas, with and without a header. A table that is written again with every field in quotes must
// read the same.
#include <heddle/data/csv.hpp>

#include "tables.hpp"

namespace {

using namespace heddle;

template <class Fields>
void append_record(const Fields& fields, std::string& text) {
  for (const std::string_view field : fields) {
    text += '"';
    for (const char c : field) text += c == '"' ? std::string(2, c) : std::string(1, c);
    text += "\",";
  }
  text.back() = '\n';
}

std::string written(const data::Table& table) {
  std::string text;
  if (!table.columns().empty()) append_record(table.columns(), text);
  for (std::size_t row = 0; row < table.rows(); ++row) append_record(table[row], text);
  return text;
}

void check_csv(const data::TextFile& source, data::CsvOptions options) {
  const auto table = fuzz::attempt<FileError>([&] { return data::parse_csv(source, options); });
  if (!table) return;
  fuzz::check_table(*table, source);
  fuzz::claim(table->columns().empty() != options.header, "a header is read where one is wanted");
  const data::Table again = data::parse_csv(data::parse_text(written(*table), "again"), options);
  fuzz::claim(again.columns() == table->columns() && again.rows() == table->rows(),
              "the header and the number of rows read the same");
  for (std::size_t row = 0; row < table->rows(); ++row)
    fuzz::claim(std::ranges::equal(again[row], (*table)[row]), "fields read back as they were written");
  fuzz::claim(again.notes.sentences().empty(), "a written table reads back without notes");
}

// Checks that any text can be a quoted field. The fields are the parts of the text between its tabs.
void check_fields(const std::string& text) {
  std::vector<std::string> fields;
  for (std::size_t begin = 0; begin <= text.size(); begin += fields.back().size() + 1)
    fields.push_back(text.substr(begin, text.find('\t', begin) - begin));
  if (fields.size() > data::Table::most_columns) return;
  std::string record;
  append_record(fields, record);
  const data::Table table = data::parse_csv(data::parse_text(record, "fields"), {.header = false});
  fuzz::claim(table.rows() == 1 && std::ranges::equal(table[0], fields), "any field can be written in quotes");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::Input input(data, size);
  const auto source = fuzz::read_text(input);
  if (!source) return 0;
  for (const bool header : {true, false}) check_csv(*source, {.header = header});
  check_fields(source->text);
  return 0;
}
