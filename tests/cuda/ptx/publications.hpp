// The order between the blocks of a launch (PTX ISA, "Memory Consistency Model"). What a thread did before a release at
// an address comes before what another thread does after an acquire that observes it. Within a block, barriers extend
// this to the other threads: a release publishes what they did before the last barrier, and after the next barrier they
// are ordered as the acquiring thread is.
//
// Blocks run one after another here. A block can therefore observe every release of the blocks before it, unless the
// address has been overwritten since.
#pragma once
#include <memory>
#include <unordered_map>
#include <vector>

#include "interpreter.hpp"

namespace heddle::ptx {

// The place of an access in its block: its thread, the number of barriers so far, and the number of releases and fences
// so far.
struct Place {
  u16 thread, epoch, stamp;
};

// The publications that an acquire of one address observes: for each block, the places of its releases.
using Channel = std::unordered_map<u32, std::vector<Place>>;

// The releases, fences and acquires of the running block. Only accesses of scope .gpu and .sys count.
class BlockOrder {
 public:
  // Prepares for a block, if it is another one than at the last call.
  void enter(const Block& block);

  // Returns whether an access of another block comes before one of this block.
  bool comes_before(u32 block, const Place& earlier, const Place& now) const;
  // Returns whether something of every block that ran before comes before an access.
  bool follows_all_blocks(const Place& now) const;

  // Number of releases and fences of the block so far.
  u16 stamp() const { return stamp_; }

  void fence(u16 thread, u16 epoch);
  // A strong load, store or atomic operation.
  void access(const Instruction& instruction, u64 address, bool write, u16 thread, u16 epoch);
  // A store that is not strong: nobody can observe earlier releases at its address.
  void overwrite(u64 address) {
    if (!channels_.empty()) channels_.erase(address);
  }

 private:
  using Observed = std::shared_ptr<const Channel>;

  // A channel whose publications come before everything that the thread does later, and the block after its next
  // barrier.
  struct Acquired {
    Observed channel;
    u16 thread, epoch;

    bool reaches(u16 of_thread, u16 of_epoch) const { return of_thread == thread || of_epoch > epoch; }
  };
  // A thread's last fence, and the channels that it has observed by relaxed reads since: the next fence acquires them.
  struct Thread {
    bool has_fenced = false;
    Place fence{};
    std::vector<Observed> observed;
  };

  void acquire(const Observed& channel, u16 thread, u16 epoch);
  void publish(Channel& channel, const Place& place);

  u32 launch_ = 0, number_ = 0, blocks_ = 0;
  u16 stamp_ = 0;
  std::unordered_map<u64, std::shared_ptr<Channel>> channels_;  // by address
  std::vector<Acquired> acquired_;
  std::unordered_map<u16, Thread> threads_;
};

}  // namespace heddle::ptx
