// Reads the files of tests/golden, which hold values that PyTorch computed in float64; README.md beside them describes
// the format. The compile definition HEDDLE_GOLDEN_DIR is the folder. A misspelled operation, role or option is an
// error: a test that checks nothing would pass.
#pragma once
#include <charconv>
#include <fstream>
#include <heddle/base/shape.hpp>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::testing {

struct GoldenTensor {
  std::string dtype;  // f64, i64 or bool
  Shape shape;
  std::vector<double> values;

  template <class T>
  std::vector<T> as() const {
    std::vector<T> converted;
    for (const double value : values) converted.push_back(static_cast<T>(value));
    return converted;
  }
};

inline double golden_number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) throw Error("golden: '" + text + "' is not a number");
  return value;
}

struct Case {
  std::string name, label;  // the operation and the particulars of the case
  std::map<std::string, std::string> options;
  std::map<std::string, GoldenTensor> tensors;

  bool has(const std::string& role) const { return tensors.count(role) > 0 || options.count(role) > 0; }
  // Returns the tensor of a role, such as c["x"]. Throws Error if the case does not have it.
  const GoldenTensor& operator[](const std::string& role) const { return find(tensors, role); }
  double option(const std::string& key) const { return golden_number(find(options, key)); }
  double option(const std::string& key, double otherwise) const { return options.count(key) ? option(key) : otherwise; }
  // Returns an option that is a word.
  const std::string& word(const std::string& key) const { return find(options, key); }
  // Returns an option of several whole numbers: axes, shape.
  std::vector<Index> list(const std::string& key) const {
    std::istringstream text(find(options, key));
    std::vector<Index> values;
    for (std::string word; text >> word;) values.push_back(static_cast<Index>(golden_number(word)));
    return values;
  }

 private:
  template <class Map>
  const typename Map::mapped_type& find(const Map& map, const std::string& key) const {
    const auto found = map.find(key);
    if (found == map.end()) throw Error("golden: case " + name + ' ' + label + " has no '" + key + '\'');
    return found->second;
  }
};

inline GoldenTensor read_golden_tensor(std::istream& line) {
  GoldenTensor x;
  std::string shape, word;
  line >> x.dtype >> shape >> word;  // word is the colon
  std::vector<Index> extents;
  std::istringstream extent_text(shape == "scalar" ? "" : shape);
  while (std::getline(extent_text, word, 'x')) extents.push_back(static_cast<Index>(golden_number(word)));
  x.shape = Shape(std::span<const Index>(extents));
  while (line >> word) x.values.push_back(golden_number(word));
  if (static_cast<Index>(x.values.size()) != x.shape.size())
    throw Error("golden: " + x.shape.str() + " does not hold " + std::to_string(x.values.size()) + " values");
  return x;
}

using GoldenFile = std::map<std::string, std::vector<Case>>;  // the cases of each operation

inline GoldenFile read_golden(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Error("golden: cannot read " + path);
  GoldenFile by_name;
  Case* current = nullptr;
  for (std::string text; std::getline(file, text);) {
    std::istringstream line(text);
    std::string kind, key, value;
    line >> kind >> key;
    if (kind == "case") {
      current = &by_name[key].emplace_back();
      current->name = key;
      line >> current->label;
    } else if (kind == "option") {
      std::getline(line >> std::ws, value);
      current->options[key] = value;
    } else if (kind == "tensor") {
      current->tensors[key] = read_golden_tensor(line);
    }
  }
  return by_name;
}

// Returns a file of the folder, which is read once.
inline const GoldenFile& golden_file(std::string_view file) {
  static std::map<std::string, GoldenFile> files;
  const std::string name(file);
  const auto found = files.find(name);
  return found != files.end() ? found->second : files[name] = read_golden(HEDDLE_GOLDEN_DIR "/" + name);
}

// Returns every case of one operation: for (const auto& c : golden("layer_norm")). Throws Error if there is none.
inline const std::vector<Case>& golden(std::string_view name, std::string_view file = "ops.txt") {
  const GoldenFile& cases = golden_file(file);
  const auto found = cases.find(std::string(name));
  if (found == cases.end())
    throw Error("golden: " + std::string(file) + " has no case of op '" + std::string(name) + '\'');
  return found->second;
}

}  // namespace heddle::testing
