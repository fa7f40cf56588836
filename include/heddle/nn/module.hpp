// A module is any struct with
//   static void visit(auto& self, auto&& f) { f("weight", self.weight); f("layers", self.layers); … }
// naming its parameters, buffers, submodules, and vectors or optionals of these, by the names that PyTorch gives them. Everything that
// walks a model is a loop over it.
#pragma once
#include <iomanip>
#include <map>
#include <optional>
#include <set>

#include <heddle/nn/parameter.hpp>

namespace heddle {

// The names of one parameter. One that packs several (q, k and v in one matrix) has a name for each of its equal blocks
// of rows: several tensors in a file, one for an optimizer.
struct Name {
  std::vector<std::string> blocks;

  Name(const char* name) : blocks{name} {}
  Name(std::string name) : blocks{std::move(name)} {}
  Name(std::vector<std::string> names) : blocks(std::move(names)) {}

  std::string str() const {
    std::string joined;
    for (const std::string& block : blocks) joined += (joined.empty() ? "" : "|") + block;
    return joined;
  }
  Name under(const std::string& prefix) const {
    Name name = *this;
    for (std::string& block : name.blocks) block = prefix.empty() ? block : prefix + '.' + block;
    return name;
  }
};

namespace module {

template <class X>
struct Kind {
  static constexpr bool leaf = false, optional = false;
};
template <class T>
struct Kind<Parameter<T>> {
  static constexpr bool leaf = true, optional = false;
};
template <class T>
struct Kind<Buffer<T>> : Kind<Parameter<T>> {};
template <class X>
struct Kind<std::optional<X>> {
  static constexpr bool leaf = false, optional = true;
};

template <class M>
concept Module = requires(M& m) { std::remove_const_t<M>::visit(m, [](const Name&, auto&) {}); };

template <class X>
inline constexpr bool is_buffer = false;
template <class T>
inline constexpr bool is_buffer<Buffer<T>> = true;

// Calls enter(name, x) for x if it is a leaf, else for each of its members.
template <class X, class F>
void each(const Name& name, X& x, F&& f) {
  using Plain = std::remove_const_t<X>;
  if constexpr (Kind<Plain>::leaf) {
    f(name, x);
  } else if constexpr (Kind<Plain>::optional) {
    if (x) each(name, *x, f);
  } else if constexpr (Module<X>) {
    Plain::visit(x, [&](const Name& member, auto& child) { each(member.under(name.str()), child, f); });
  } else {
    static_assert(requires { x.begin(); x.size(); },
                  "heddle: a module names parameters, buffers, modules (structs with a static visit) and vectors or optionals of these");
    std::size_t i = 0;
    for (auto& child : x) each(Name(std::to_string(i++)).under(name.str()), child, f);
  }
}

}  // namespace module

// Calls f(name, x) for every parameter and buffer of a model, in the order of the visits; a shared one each time it is met.
template <class M, class F>
void walk(M& model, F&& f) {
  module::each(Name(""), model, [&](const Name& name, auto& x) { f(name, x); });
}

// The same, but a shared one only once, under its first name.
template <class M, class F>
void walk_once(M& model, F&& f) {
  std::set<const void*> seen;
  walk(model, [&](const Name& name, auto& x) {
    if (seen.insert(x.identity().get()).second) f(name, x);
  });
}
// Only the parameters, each once.
template <class M, class F>
void each_parameter(M& model, F&& f) {
  walk_once(model, [&](const Name& name, auto& x) {
    if constexpr (!module::is_buffer<std::remove_cvref_t<decltype(x)>>) f(name, x);
  });
}

// How many numbers are trained, a shared or packed weight counted once.
template <class M>
Index parameter_count(const M& model) {
  Index count = 0;
  each_parameter(model, [&](const Name&, const auto& p) { count += p.shape().size(); });
  return count;
}

template <class M>
void zero_grad(const M& model) {
  each_parameter(model, [](const Name&, const auto& p) { if (!p.frozen()) p.value().set_grad({}); });
}

// Moves all weights in place: optimizers made before go on with them.
template <class M>
void to(M& model, Device device) {
  walk_once(model, [&](const Name&, auto& x) { x.identity()->move(device); });
}

// Copies a model, handed down through each module's constructor M(const M&, Cloning&), which copies every member with it, as
// in `weight(c(other.weight)), heads(other.heads)`. What is shared in the original is shared in the copy.
class Cloning {
 public:
  template <class T>
  Parameter<T> operator()(const Parameter<T>& p) {
    Parameter<T> copy(copied(p));
    copy.freeze(p.frozen());
    return copy;
  }
  template <class T>
  Buffer<T> operator()(const Buffer<T>& b) {
    return Buffer<T>(copied(b));
  }
  template <class X>
  std::vector<X> operator()(const std::vector<X>& xs) {
    std::vector<X> copies;
    for (const X& x : xs) copies.push_back((*this)(x));
    return copies;
  }
  template <class X>
  std::optional<X> operator()(const std::optional<X>& x) {
    if (!x) return std::nullopt;
    return (*this)(*x);
  }
  template <module::Module M>
  M operator()(const M& m) {
    static_assert(std::is_constructible_v<M, const M&, Cloning&>,
                  "heddle::clone: give the module a constructor M(const M& other, Cloning& c) that copies each member with c");
    return M(m, *this);
  }

 private:
  template <class X>
  typename X::Identity copied(const X& x) {
    auto& copy = copies_[x.identity().get()];
    if (!copy) copy = std::make_shared<MasterTensor<typename X::Element>>(Tensor<typename X::Element>(x.shape(), x.value().host()).to(x.value().device()));
    return std::static_pointer_cast<MasterTensor<typename X::Element>>(copy);
  }

  std::map<const void*, std::shared_ptr<void>> copies_;
};

template <class M>
M clone(const M& model) {
  Cloning copy;
  return copy(model);
}

// The tree of a model's modules with the number of parameters in each, and the shape of each tensor.
template <class M>
std::string summary(const M& model) {
  std::map<std::string, Index> totals;
  walk_once(model, [&](const Name& name, const auto& x) {
    if (module::is_buffer<std::remove_cvref_t<decltype(x)>>) return;
    for (std::string path = name.blocks[0]; !path.empty();) {
      const auto dot = path.rfind('.');
      totals[path = dot == std::string::npos ? "" : path.substr(0, dot)] += x.shape().size();
    }
  });
  std::ostringstream text;
  std::vector<std::string> open;  // the modules above the line being written
  const auto line = [&](std::size_t depth, const std::string& what, const std::string& right) {
    text << std::string(2 * depth, ' ') << std::left << std::setw(static_cast<int>(44 - 2 * depth)) << what << right << '\n';
  };
  line(0, "model", std::to_string(totals[""]));
  walk(model, [&](const Name& name, const auto& x) {
    std::vector<std::string> path;
    std::istringstream parts(name.blocks[0]);
    for (std::string part; std::getline(parts, part, '.');) path.push_back(part);
    const std::string last = path.back();
    path.pop_back();
    std::size_t same = 0;
    while (same < std::min(open.size(), path.size()) && open[same] == path[same]) ++same;
    std::string above;
    for (std::size_t d = 0; d < path.size(); ++d) {
      above += (d ? "." : "") + path[d];
      if (d >= same) line(d + 1, path[d], std::to_string(totals[above]));
    }
    open = path;
    const bool buffer = module::is_buffer<std::remove_cvref_t<decltype(x)>>;
    line(path.size() + 1, last, x.shape().str() + (buffer ? " buffer" : x.value().requires_grad() ? "" : " frozen"));
  });
  return text.str();
}

}  // namespace heddle
