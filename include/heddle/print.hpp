// std::cout << tensor: element type, shape and device in a line, then the values, long axes abridged. And statistics of memory.
#pragma once
#include <cmath>

#include <heddle/tensor.hpp>

namespace heddle {

namespace text_of {  // not `print`: users have functions of that name

template <class T>
constexpr const char* element = nullptr;
template <>
inline constexpr const char* element<float> = "float";
template <>
inline constexpr const char* element<double> = "double";
template <>
inline constexpr const char* element<bf16> = "bf16";
template <>
inline constexpr const char* element<std::int32_t> = "int";
template <>
inline constexpr const char* element<std::int64_t> = "int64_t";
template <>
inline constexpr const char* element<bool> = "bool";

template <class T>
std::string value(T x) {
  if constexpr (std::is_same_v<T, bool>) return x ? "true" : "false";
  if constexpr (!std::is_integral_v<T>)
    if (std::isnan(static_cast<Acc<T>>(x))) return "nan";  // streams print its sign
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text << static_cast<Acc<T>>(x);
  return text.str();
}

// Finds what is shown of a tensor: values, and the text before each.
template <class T>
struct Body {
  struct Cell {
    std::string before, value;
  };
  const T* data;
  Shape shape;
  std::vector<Cell> cells = {};
  std::string after = {};  // text since the last value

  void walk(int axis = 0, Index at = 0) {
    if (axis == shape.rank()) {
      cells.push_back({std::exchange(after, {}), value(data[at])});
      return;
    }
    const Index n = shape[axis], ends = axis >= shape.rank() - 2 ? 3 : 1;  // eight axes must not fill a screen
    const std::string next =
        axis == shape.rank() - 1 ? ", " : ",\n" + std::string(static_cast<std::size_t>(axis) + 1, ' ');
    after += '[';
    for (Index i = 0; i < n; ++i) {
      if (i > 0) after += next;
      if (i == ends && n > 2 * ends) {
        after += "..." + next;
        i = n - ends;
      }
      walk(axis + 1, at * n + i);
    }
    after += ']';
  }
};

}  // namespace text_of

// As in "Tensor<float> [2, 3] cpu", then the rows; of a long axis the first and last three positions (one, for all but
// the last two axes). No newline at the end.
template <class T>
std::ostream& operator<<(std::ostream& out, const Tensor<T>& x) {
  const std::string type = std::string("Tensor<") + text_of::element<T> + "> ";
  if (!x) return out << type + "without data";
  const Tensor<T> here = x.to(Device::cpu);
  text_of::Body<T> body{here.data(), x.shape()};
  body.walk();

  std::string text = type + x.shape().str() + ' ' + name(x.device()) + '\n';
  std::size_t width = 0;
  for (const auto& cell : body.cells) width = std::max(width, cell.value.size());
  for (const auto& [before, value] : body.cells) text += before + std::string(width - value.size(), ' ') + value;
  return out << text + body.after;
}

// As in "4096 bytes in use, 8192 at most, 1024 kept for later".
inline std::ostream& operator<<(std::ostream& out, const MemoryStats& of) {
  return out << std::to_string(of.in_use) + " bytes in use, " + std::to_string(of.peak) + " at most, " +
                    std::to_string(of.cached) + " kept for later";
}

}  // namespace heddle
