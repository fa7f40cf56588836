// std::cout << tensor: element type, shape and device in one line, then the values. Long axes are abridged.
#pragma once
#include <cmath>

#include <heddle/core/tensor.hpp>

namespace heddle {

namespace detail {

template <class T>
constexpr const char* element_name = nullptr;
template <>
inline constexpr const char* element_name<float> = "float";
template <>
inline constexpr const char* element_name<double> = "double";
template <>
inline constexpr const char* element_name<bf16> = "bf16";
template <>
inline constexpr const char* element_name<std::int32_t> = "int";
template <>
inline constexpr const char* element_name<std::int64_t> = "int64_t";
template <>
inline constexpr const char* element_name<bool> = "bool";

template <class T>
std::string printed_value(T x) {
  if constexpr (std::is_same_v<T, bool>) return x ? "true" : "false";
  if constexpr (!std::is_integral_v<T>)
    if (std::isnan(static_cast<Acc<T>>(x))) return "nan";  // streams would print its sign
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text << static_cast<Acc<T>>(x);
  return text.str();
}

// The values of a tensor that are printed, and the text before each.
template <class T>
struct PrintedBody {
  struct Cell {
    std::string before, value;
  };
  const T* data;
  Shape shape;
  std::vector<Cell> cells = {};
  std::string after = {};  // text since the last value

  void walk(int axis = 0, Index at = 0) {
    if (axis == shape.rank()) {
      cells.push_back({std::exchange(after, {}), printed_value(data[at])});
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

}  // namespace detail

/// Prints "Tensor<float> [2, 3] cpu", then the values. A long axis is abridged to its first and last three positions
/// (one, for all but the last two axes). No newline at the end.
template <class T>
std::ostream& operator<<(std::ostream& out, const Tensor<T>& x) {
  const std::string type = std::string("Tensor<") + detail::element_name<T> + "> ";
  if (!x.has_data()) return out << type + "without data";
  const Tensor<T> here = x.to(Device::cpu);
  detail::PrintedBody<T> body{here.data(), x.shape()};
  body.walk();

  std::string text = type + x.shape().str() + ' ' + to_string(x.device()) + '\n';
  std::size_t width = 0;
  for (const auto& cell : body.cells) width = std::max(width, cell.value.size());
  for (const auto& [before, value] : body.cells) text += before + std::string(width - value.size(), ' ') + value;
  return out << text + body.after;
}

}  // namespace heddle
