// check_ids: reports an id outside a table, on the CPU at once, on the GPU by the next synchronizing call.
#pragma once
#include <algorithm>

#include <heddle/core/dispatch.hpp>
#include <heddle/kernel/id_check.hpp>

namespace heddle {

namespace kernel {
template <class Id>
void check_ids(Cpu, const IdCheck& check, View<const Id, 1> ids) {
  const Id* const end = ids.data + ids.extent[0];
  const Id* const wrong = std::find_if(ids.data, end, [&](Id id) { return check.is_invalid(id); });
  if (wrong != end) check.fail(*wrong, wrong - ids.data);
}
}  // namespace kernel

namespace detail {

// Checks ids on their device. Throws IndexError.
template <class Id>
void check_ids(const Tensor<Id>& ids, const kernel::IdCheck& check) {
  dispatch(ids, [&](auto device) { kernel::check_ids(device, check, view<1>(ids)); });
}

// Returns whether ids are on the host and the operand is not. Such ids are checked at once and then copied to its
// device.
template <class Id>
bool are_on_host_for(Device device, const Tensor<Id>& ids) {
  return ids.device() == Device::cpu && device != Device::cpu;
}

}  // namespace detail
}  // namespace heddle
