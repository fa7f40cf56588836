// clone(model): a copy with its own weights.
#pragma once
#include <cstdlib>
#include <map>

#include <heddle/nn/module.hpp>

namespace heddle {

/// The state of a clone() call. Each module's constructor M(const M& other, Cloning& c) copies its members with c, as
/// in `weight(c(other.weight)), heads(other.heads)`. Weights that are shared in the original are shared in the copy.
class Cloning {
 public:
  /// Copies a parameter.
  template <class T>
  Parameter<T> operator()(const Parameter<T>& p) {
    Parameter<T> copy(copied(p));
    copy.freeze(p.frozen());
    return copy;
  }
  /// Copies a buffer.
  template <class T>
  Buffer<T> operator()(const Buffer<T>& b) {
    return Buffer<T>(copied(b));
  }
  /// Copies each module of a vector.
  template <class X>
  std::vector<X> operator()(const std::vector<X>& xs) {
    std::vector<X> copies;
    for (const X& x : xs) copies.push_back((*this)(x));
    return copies;
  }
  /// Copies an optional module.
  template <class X>
  std::optional<X> operator()(const std::optional<X>& x) {
    if (!x) return std::nullopt;
    return (*this)(*x);
  }
  /// Copies a module with its constructor M(const M&, Cloning&).
  template <detail::Module M>
  M operator()(const M& m) {
    static_assert(
        std::is_constructible_v<M, const M&, Cloning&>,
        "heddle::clone: give the module a constructor M(const M& other, Cloning& c) that copies each member with c");
    return M(m, *this);
  }
  /// Rejects any other type: numbers are copied without c, like `heads` above. Without this overload, the compiler
  /// would list all overloads above.
  template <class X>
  X operator()(const X&) {
    static_assert(!std::is_same_v<X, X>,
                  "heddle::clone: a module has parameters, buffers, modules, and vectors or optionals of these");
    std::abort();
  }

 private:
  template <class X>
  typename X::Identity copied(const X& x) {
    auto& made = copies_[x.identity().get()];
    if (!made) made = std::make_shared<detail::MasterTensor<typename X::Element>>(detail::deep_copy(x.value()));
    return std::static_pointer_cast<detail::MasterTensor<typename X::Element>>(made);
  }

  std::map<const void*, std::shared_ptr<void>> copies_;
};

/// Returns a copy of a model with its own weights. Frozen weights stay frozen. M needs a constructor M(const M&,
/// Cloning&).
template <class M>
M clone(const M& model) {
  Cloning copy;
  return copy(model);
}

}  // namespace heddle
