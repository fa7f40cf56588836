// Whether ids are those of a table: an error at once on the CPU, on the GPU at the next call that waits for it.
#pragma once
#include <algorithm>

#include <heddle/dispatch.hpp>
#include <heddle/ops/id_check.hpp>

namespace heddle {

namespace kernel {
template <class I>
void check_ids(Cpu, const IdCheck& check, View<const I, 1> ids) {
  const I* const end = ids.data + ids.extent[0];
  const I* const wrong = std::find_if(ids.data, end, [&](I id) { return check.refuses(id); });
  if (wrong != end) check.fail(*wrong, wrong - ids.data);
}
}  // namespace kernel

// Throws IndexError.
template <class I>
void check_ids(const Tensor<I>& ids, const IdCheck& check) {
  on(ids, [&](auto device) { kernel::check_ids(device, check, view<1>(ids)); });
}

// Whether ids are the host's, for an operand that is not: they are checked at once, and then copied to where it is.
template <class I>
bool are_on_host_for(Device device, const Tensor<I>& ids) {
  return ids.device() == Device::cpu && device != Device::cpu;
}

}  // namespace heddle
