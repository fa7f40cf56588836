// clone(model): a copy with weights of its own.
#pragma once
#include <map>

#include <heddle/nn/module.hpp>

namespace heddle {

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
    static_assert(
        std::is_constructible_v<M, const M&, Cloning&>,
        "heddle::clone: give the module a constructor M(const M& other, Cloning& c) that copies each member with c");
    return M(m, *this);
  }

 private:
  template <class X>
  typename X::Identity copied(const X& x) {
    auto& made = copies_[x.identity().get()];
    if (!made) made = std::make_shared<MasterTensor<typename X::Element>>(copy(x.value()));
    return std::static_pointer_cast<MasterTensor<typename X::Element>>(made);
  }

  std::map<const void*, std::shared_ptr<void>> copies_;
};

// A copy whose weights follow nobody; what was frozen is. M needs a constructor M(const M&, Cloning&).
template <class M>
M clone(const M& model) {
  Cloning copy;
  return copy(model);
}

}  // namespace heddle
