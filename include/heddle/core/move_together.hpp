// move_together() moves the small tensors of a batch to the GPU in one copy.
#pragma once
#include <algorithm>
#include <initializer_list>
#include <utility>
#include <vector>

#include <heddle/core/tensor.hpp>

namespace heddle::detail {

// Moves tensors to a device; skips empty handles. Those that go from the host to the GPU become parts of one block
// there, because a copy takes some microseconds however small it is. Throws as Tensor::to() does.
inline void move_together(Device device, std::initializer_list<Tensor<int>*> tensors) {
  constexpr Index alignment = 256 / sizeof(int);      // elements; a block of its own begins at such an address
  std::vector<std::pair<Tensor<int>*, Index>> parts;  // with their first elements in the block
  Index size = 0;
  for (Tensor<int>* const x : tensors) {
    if (!*x) continue;
    if (!has_cuda || device == Device::cpu || x->device() == Device::cuda) {
      *x = x->to(device);
    } else {
      parts.emplace_back(x, size);
      size += (x->size() + alignment - 1) / alignment * alignment;
    }
  }
  if (parts.empty()) return;
  Tensor<int> block({size});
  std::fill_n(block.data(), size, 0);  // a run of cuda::Graph compares the bytes with those of the run before
  for (const auto& [x, first] : parts) std::copy_n(std::as_const(*x).data(), x->size(), block.data() + first);
  block = block.to(device);
  for (const auto& [x, first] : parts) *x = block.leading(first, first + x->size()).with_shape(x->shape());
}

}  // namespace heddle::detail
