#include "publications.hpp"

#include <algorithm>

namespace heddle::ptx {

void BlockOrder::enter(const Block& block) {
  if (launch_ == block.launch && number_ == block.number && blocks_ > 0) return;
  if (launch_ != block.launch) {
    channels_.clear();
    blocks_ = 0;
  }
  launch_ = block.launch;
  number_ = block.number;
  ++blocks_;
  stamp_ = 0;
  acquired_.clear();
  threads_.clear();
}

bool BlockOrder::comes_before(u32 block, const Place& earlier, const Place& now) const {
  const auto publishes = [&](const Place& release) {
    return earlier.epoch < release.epoch || (earlier.thread == release.thread && earlier.stamp < release.stamp);
  };
  return std::any_of(acquired_.begin(), acquired_.end(), [&](const Acquired& acquired) {
    if (!acquired.reaches(now.thread, now.epoch)) return false;
    const auto found = acquired.channel->find(block);
    return found != acquired.channel->end() && std::any_of(found->second.begin(), found->second.end(), publishes);
  });
}

bool BlockOrder::follows_all_blocks(const Place& now) const {
  return std::any_of(acquired_.begin(), acquired_.end(), [&](const Acquired& acquired) {
    const std::size_t others = acquired.channel->size() - acquired.channel->count(number_);
    return acquired.reaches(now.thread, now.epoch) && others + 1 >= blocks_;
  });
}

void BlockOrder::acquire(const Observed& channel, u16 thread, u16 epoch) {
  const bool is_known = std::any_of(acquired_.begin(), acquired_.end(), [&](const Acquired& acquired) {
    return acquired.channel == channel && acquired.reaches(thread, epoch);
  });
  if (!is_known) acquired_.push_back({channel, thread, epoch});
}

// A release also publishes what its thread has acquired.
void BlockOrder::publish(Channel& channel, const Place& place) {
  channel[number_].push_back(place);
  for (const Acquired& acquired : acquired_) {
    if (acquired.channel.get() == &channel || !acquired.reaches(place.thread, place.epoch)) continue;
    for (const auto& [block, places] : *acquired.channel) {
      auto& all = channel[block];
      all.insert(all.end(), places.begin(), places.end());
    }
  }
}

void BlockOrder::fence(u16 thread, u16 epoch) {
  Thread& of_thread = threads_[thread];
  for (const Observed& channel : of_thread.observed) acquire(channel, thread, epoch);
  of_thread.observed.clear();
  of_thread.has_fenced = true;
  of_thread.fence = {thread, epoch, ++stamp_};
}

void BlockOrder::access(const Instruction& instruction, u64 address, bool write, u16 thread, u16 epoch) {
  const bool reads = !write || instruction.category == c_atom;
  const auto found = channels_.find(address);
  if (reads && found != channels_.end()) {
    if (instruction.acquires)
      acquire(found->second, thread, epoch);
    else
      threads_[thread].observed.push_back(found->second);
  }
  if (!write) return;
  std::shared_ptr<Channel>& channel = found == channels_.end() ? channels_[address] : found->second;
  if (!channel || !reads) channel = std::make_shared<Channel>();  // nobody can observe earlier releases behind a store
  if (instruction.releases) return publish(*channel, {thread, epoch, ++stamp_});
  if (const Thread& of_thread = threads_[thread]; of_thread.has_fenced) publish(*channel, of_thread.fence);
}

}  // namespace heddle::ptx
