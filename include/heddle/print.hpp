// std::cout << tensor: element type, shape and device in a line, then the values, long axes abridged.
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

// The body of a tensor, in one walk to find the widest value and one to write.
template <class T>
struct Body {
  const T* data;
  Shape shape;
  std::size_t width = 0;
  std::string text;

  // Calls each(position) for what is shown of an axis, and skipped() where the rest is left out. Inner axes show more: eight
  // axes must not fill a screen.
  template <class Each, class Skipped>
  void along(int axis, Each each, Skipped skipped) {
    const Index ends = axis >= shape.rank() - 2 ? 3 : 1, n = shape[axis];
    for (Index i = 0; i < n; ++i) {
      if (i == ends && n > 2 * ends) {
        skipped();
        i = n - ends;
      }
      each(i);
    }
  }

  void measure(int axis, Index at) {
    if (axis == shape.rank()) {
      width = std::max(width, value(data[at]).size());
      return;
    }
    along(
        axis, [&](Index i) { measure(axis + 1, at * shape[axis] + i); }, [] {});
  }

  void write(int axis, Index at) {
    if (axis == shape.rank()) {
      const std::string v = value(data[at]);
      text.append(width - v.size(), ' ') += v;
      return;
    }
    const bool innermost = axis == shape.rank() - 1;
    const std::string line = innermost ? " " : '\n' + std::string(static_cast<std::size_t>(axis) + 1, ' ');
    text += '[';
    along(
        axis,
        [&](Index i) {
          if (i > 0) text += ',' + line;
          write(axis + 1, at * shape[axis] + i);
        },
        [&] { text += ',' + line + "..."; });
    text += ']';
  }
};

}  // namespace text_of

// As in "Tensor<float> [2, 3] cpu", then the rows; of a long axis the first and last three positions (one, for all but the last
// two axes). No newline at the end.
template <class T>
std::ostream& operator<<(std::ostream& out, const Tensor<T>& x) {
  std::string head = std::string("Tensor<") + text_of::element<T> + "> ";
  if (!x) return out << head + "without data";
  const Tensor<T> here = x.to(Device::cpu);
  text_of::Body<T> body{here.data(), x.shape()};
  if (x.size() == 0) {
    body.text = "[]";
  } else {
    body.measure(0, 0);
    body.write(0, 0);
  }
  return out << head + x.shape().str() + ' ' + name(x.device()) + '\n' + body.text;
}

}  // namespace heddle
