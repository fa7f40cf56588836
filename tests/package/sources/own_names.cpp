// A program that contains `using namespace heddle` and defines names that heddle uses, or once used, internally.
#include <heddle/data/tsv.hpp>
#include <heddle/heddle.hpp>
#include <heddle/io/model.hpp>
#include <heddle/text/wordpiece.hpp>
using namespace heddle;
enum class Mode { fast, slow };
static Mode mode = Mode::fast;
struct Node {
  int id;
};
struct Pass {};
struct Words {};
static Tensor<float> copy(const Tensor<float>& x) { return x; }
template <class T>
Tensor<T> map(const Tensor<T>& x, int) {
  return x;
}
static const char* name(const Tensor<float>&) { return "x"; }
static const char* name(Device) { return "d"; }
template <class T>
Tensor<T> like(const Tensor<T>& x) {
  return x;
}
template <class T, class F>
auto on(const Tensor<T>& x, F f) {
  return f(x);
}
template <class T>
T select(T x) {
  return x;
}
int main() {
  const Tensor<float> x = ones<float>({2});
  mode = Mode::slow;
  return static_cast<int>(copy(x).size() + map(like(x), 1).size() + on(x, [](const auto& y) { return y.size(); }) +
                          *name(x) + *name(x.device()) + Node{1}.id + select(1)) +
         (mode == Mode::fast);
}
