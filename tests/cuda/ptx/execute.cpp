// Runs grids: blocks one after another, the warps of a block from barrier to barrier, the lanes of a warp that have the lowest address.
#include <cxxabi.h>

#include <algorithm>
#include <random>

#include "async.hpp"

namespace heddle::ptx {

Options options;

std::string demangled(const std::string& name) {
  int status = 0;
  char* s = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string r = status == 0 ? s : name;
  std::free(s);
  return r;
}

void fault(Warp& w, const Instruction& in, int lane, int code, const std::string& what) {
  const Block& b = *w.block;
  const u32 t = static_cast<u32>(w.id * 32 + lane);
  char where[200];
  std::snprintf(where, sizeof(where), "block (%u, %u, %u) of (%u, %u, %u), thread %u of %u", b.id.x, b.id.y, b.id.z,
                b.grid.x, b.grid.y, b.grid.z, t, b.dim.x * b.dim.y * b.dim.z);
  throw Fault{code, what + "\n  " + where + "\n  " + b.kernel->texts[in.text] + "\n  " + demangled(b.kernel->name)};
}

// Finds accesses of two threads to a byte, at least one a write, that no barrier separates: bar.sync for threads of different warps,
// bar.warp.sync for lanes of one warp. Other synchronizing instructions do not order memory.
void watch_shared(Warp& w, const Instruction& in, int lane, u32 at, u32 bytes, bool write) {
  Block& b = *w.block;
  if (b.kernel->async) return watch_async(w, in, lane, at, bytes, write);
  if (b.partial_barriers) return;
  if (b.shadow.size() != b.shared.size()) b.shadow.assign(b.shared.size(), {});
  const u16 me = static_cast<u16>(w.id * 32 + lane);
  const bool atomic = in.category == c_atom;
  const char* race = nullptr;
  u32 where = 0, other = 0;
  for (u32 i = at; i < at + bytes; ++i) {
    auto& s = b.shadow[i];
    if (s.written == b.epoch && s.writer != me && !(s.atomic && atomic) &&
        (s.writer / 32 != w.id || s.written_sync == w.syncs))
      race = write ? "two threads write" : "a thread reads what another one writes", where = i, other = s.writer;
    if (write && s.read == b.epoch) {
      const bool other_warp = s.many_warps || s.reader / 32 != w.id;
      const bool other_lane = !other_warp && s.read_sync == w.syncs && (s.many_lanes || s.reader != me);
      if (!(s.atomic && atomic) && (other_warp || other_lane))
        race = "a thread writes what another one reads", where = i, other = s.reader;
    }
    if (write) s.written = b.epoch, s.writer = me, s.written_sync = w.syncs, s.atomic = atomic;
    if (!write || atomic) {
      if (s.read != b.epoch)
        s.read = b.epoch, s.reader = me, s.read_sync = w.syncs, s.many_lanes = s.many_warps = false;
      else {
        if (s.reader / 32 != w.id)
          s.many_warps = true;
        else if (s.read_sync != w.syncs)
          s.read_sync = w.syncs, s.reader = me, s.many_lanes = false;
        else if (s.reader != me)
          s.many_lanes = true;
      }
      if (!write) s.atomic = false;
    }
  }
  if (!race) return;
  static std::map<std::pair<const Kernel*, u32>, int> seen;
  if (seen[{b.kernel, in.text}]++ == 0) {
    std::fprintf(stderr, "ptx: RACE: %s without a barrier between: shared byte %u, threads %u and %u\n  %s\n  %s\n",
                 race, where, me, other, b.kernel->texts[in.text].c_str(), demangled(b.kernel->name).c_str());
    std::fflush(stderr);
  }
}

// The same for device memory, also between blocks. Atomic and volatile accesses do not race with each other.
void watch_global(Warp& w, const Instruction& in, int lane, u64 at, u32 bytes, bool write) {
  if (at < device_base || at >= device_base + device_span) return;
  Block& b = *w.block;
  const u16 me = static_cast<u16>(w.id * 32 + lane), epoch = static_cast<u16>(b.epoch),
            sync = static_cast<u16>(w.syncs);
  const char* race = nullptr;
  u32 thread = 0, block = 0;
  u64 where = 0;
  for (u64 i = at; i < at + bytes; ++i) {
    Access& s = *reinterpret_cast<Access*>(shadow_base + (i - device_base) * sizeof(Access));
    const bool strong = s.strong && in.strong;
    if (s.launch_w == b.launch && !strong &&
        (s.block_w != b.number || (!b.partial_barriers && s.thread_w != me && s.epoch_w == epoch &&
                                   (s.thread_w / 32 != w.id || s.sync_w == sync))))
      race = write ? "two threads write" : "a thread reads what another one writes", where = i, thread = s.thread_w,
      block = s.block_w;
    if (write && s.launch_r == b.launch && !strong) {
      const bool other_block = s.many_blocks || s.block_r != b.number;
      const bool same_epoch = !other_block && !b.partial_barriers && s.epoch_r == epoch;
      const bool other_warp = same_epoch && (s.many_warps || s.thread_r / 32 != w.id);
      const bool other_lane = same_epoch && !other_warp && s.sync_r == sync && (s.many_lanes || s.thread_r != me);
      if (other_block || other_warp || other_lane)
        race = "a thread writes what another one reads", where = i, thread = s.thread_r, block = s.block_r;
    }
    if (write)
      s.launch_w = b.launch, s.block_w = b.number, s.thread_w = me, s.epoch_w = epoch, s.sync_w = sync,
      s.strong = in.strong;
    if (!write || in.category == c_atom) {
      if (s.launch_r != b.launch)
        s.launch_r = b.launch, s.block_r = b.number, s.thread_r = me, s.epoch_r = epoch, s.sync_r = sync,
        s.many_blocks = s.many_warps = s.many_lanes = false;
      else if (s.block_r != b.number)
        s.many_blocks = true;
      else if (s.epoch_r != epoch)
        s.thread_r = me, s.epoch_r = epoch, s.sync_r = sync, s.many_warps = s.many_lanes = false;
      else if (s.thread_r / 32 != w.id)
        s.many_warps = true;
      else if (s.sync_r != sync)
        s.thread_r = me, s.sync_r = sync, s.many_lanes = false;
      else if (s.thread_r != me)
        s.many_lanes = true;
      if (!write) s.strong = in.strong;
    }
  }
  if (!race) return;
  static std::map<std::pair<const Kernel*, u32>, int> seen;
  if (seen[{b.kernel, in.text}]++ == 0) {
    std::fprintf(
        stderr,
        "ptx: RACE in global memory: %s: address %#llx, thread %u of block %u and thread %u of block %u\n  %s\n  %s\n",
        race, static_cast<unsigned long long>(where), me, b.number, thread, block, b.kernel->texts[in.text].c_str(),
        demangled(b.kernel->name).c_str());
    std::fflush(stderr);
  }
}

// A wavefront serves 32 banks of 4 bytes: all lanes if they access up to 4 bytes, half of them for 8 bytes, a quarter for 16. Lanes that access
// the same word share it.
void count_shared(Warp& w, const u64 (&at)[32], u32 m, u32 bytes, bool write) {
  auto& t = w.block->kernel->traffic;
  const int group = bytes <= 4 ? 32 : bytes == 8 ? 16 : 8;
  for (int first = 0; first < 32; first += group) {
    u64 words[32][8];
    int count[32] = {};
    bool any = false;
    int most = 0;
    for (int i = first; i < first + group; ++i) {
      if (!(m >> i & 1)) continue;
      any = true;
      for (u64 word = at[i] / 4; word <= (at[i] + bytes - 1) / 4; ++word) {
        const u64 bank = word % 32;
        int k = 0;
        while (k < count[bank] && words[bank][k] != word) ++k;
        if (k == count[bank] && k < 8) words[bank][count[bank]++] = word;
        most = std::max(most, count[bank]);
      }
    }
    t.wavefronts[write] += static_cast<u64>(most);
    t.least_wavefronts[write] += any;
  }
}
void count_global(Warp& w, const u64 (&at)[32], u32 m, u32 bytes, bool write) {
  auto& t = w.block->kernel->traffic;
  u64 sectors[64];
  int count = 0;
  u64 distinct[32];
  int lanes_with = 0;
  lanes(m, [&](int i) {
    bool seen = false;
    for (int k = 0; k < lanes_with; ++k) seen |= distinct[k] == at[i];
    if (!seen) distinct[lanes_with++] = at[i];
    for (u64 s = at[i] / 32; s <= (at[i] + bytes - 1) / 32; ++s) {
      int k = 0;
      while (k < count && sectors[k] != s) ++k;
      if (k == count && count < 64) sectors[count++] = s;
    }
  });
  t.sectors[write] += static_cast<u64>(count);
  t.least_sectors[write] += (static_cast<u64>(lanes_with) * bytes + 31) / 32;
}

namespace {

u32 required_lanes(Warp& w, const Instruction& in, u32 m) {
  if (in.aligned) return w.live;
  const u32* masks = reg<u32>(w, in.e);
  const u32 mask = masks[__builtin_ctz(m)];
  lanes(m, [&](int i) {
    if (masks[i] != mask) fault(w, in, i, illegal_instruction, "lanes with different masks");
  });
  if (m & ~mask) fault(w, in, __builtin_ctz(m & ~mask), illegal_instruction, "a lane that is not in its own mask");
  return mask & w.live;
}
u32 waiting_at(const Warp& w, u32 pc) {
  u32 r = 0;
  lanes(w.waiting, [&](int i) {
    if (w.pcs[i] == pc) r |= 1u << i;
  });
  return r;
}

// Chooses the lanes to run next. All live lanes have their address in pcs. Returns whether there are some.
bool schedule(Warp& w) {
  const Kernel& k = *w.block->kernel;
  const u32 ready = w.live & ~w.waiting & ~w.stalled;
  w.limit = ~0u;
  if (ready) {
    u32 least = ~0u;
    lanes(ready, [&](int i) { least = std::min(least, w.pcs[i]); });
    w.active = 0;
    lanes(ready, [&](int i) {
      if (w.pcs[i] == least)
        w.active |= 1u << i;
      else
        w.limit = std::min(w.limit, w.pcs[i]);
    });
    w.pc = least;
    return true;
  }
  // Everyone waits: perhaps lanes have exited that a group was waiting for.
  u32 left = w.waiting, all_sync = 0;
  while (left) {
    const u32 pc = w.pcs[__builtin_ctz(left)], group = waiting_at(w, pc);
    left &= ~group;
    const u32 need = required_lanes(w, k.code[pc], group);
    if ((group & need) == need) {
      w.waiting &= ~group;
      w.active = group;
      w.pc = pc;
      return true;
    }
    if (k.code[pc].modifier2 == 1 && k.code[pc].kind == sync && k.code[pc].fn == nothing) all_sync |= group;
  }
  // bar.warp.sync at different places may meet.
  if (all_sync) {
    const u32 first = static_cast<u32>(__builtin_ctz(all_sync));
    const u32 need = required_lanes(w, k.code[w.pcs[first]], 1u << first);
    if ((all_sync & need) == need) {
      lanes(all_sync & need, [&](int i) { ++w.pcs[i]; });
      w.waiting &= ~need;
      return schedule(w);
    }
  }
  if (w.stalled) {
    w.active = 0;
    return false;
  }
  const u32 lane = static_cast<u32>(__builtin_ctz(w.waiting));
  std::string s = "lanes of a warp wait for each other:";
  lanes(w.waiting, [&](int i) { s += "\n    lane " + std::to_string(i) + ": " + k.texts[k.code[w.pcs[i]].text]; });
  fault(w, k.code[w.pcs[lane]], static_cast<int>(lane), launch_failure, s);
}

// Runs a warp to its next barrier, until all lanes wait, or to its end. Returns whether it has done something.
template <bool counts, bool tracks>
bool run_warp(Warp& w) {
  Kernel& k = *w.block->kernel;
  const Instruction* const code = k.code.data();
  const auto store_pcs = [&] { lanes(w.active, [&](int i) { w.pcs[i] = w.pc; }); };
  bool moved = false, spins = false;
  w.spins = false;
  if (w.stalled) {
    store_pcs();
    w.stalled = 0;
    schedule(w);
  }
  for (;;) {
    if (w.pc >= w.limit) [[unlikely]] {
      store_pcs();
      if (!schedule(w)) return moved;
    }
    const Instruction& in = code[w.pc];
    u32 m = w.active;
    if (in.guarded) {
      const u32 p = w.pred[in.guard];
      m &= in.guard_negated ? ~p : p;
    }
    if constexpr (counts) {
      ++k.executed[w.pc];
      k.lanes[w.pc] += static_cast<u64>(std::popcount(m));
    }
    switch (in.kind) {
      case normal:
        if constexpr (tracks)
          if (m) track_registers(w, k, w.pc);
        if (m) in.fn(w, in, m);
        ++w.pc;
        moved = true;
        break;
      case branch:
        moved = true;
        if (m == w.active)
          w.pc = in.target;
        else if (!m)
          ++w.pc;
        else {
          const u32 stay = w.active & ~m;
          lanes(m, [&](int i) { w.pcs[i] = in.target; });
          lanes(stay, [&](int i) { w.pcs[i] = w.pc + 1; });
          if (!schedule(w)) return moved;
        }
        break;
      case leave:
        moved = true;
        if (w.any_copies)
          lanes(m, [&](int i) {
            for (const Copy& c : w.copies[i]) perform(w, in, i, c);
            w.copies[i].clear();
          });
        w.live &= ~m;
        w.active &= ~m;
        if (m) ++w.block->events;
        if (!w.live) {
          if (k.async) async_exit(w, in);
          return true;
        }
        ++w.pc;
        if (!w.active && !schedule(w)) return moved;
        break;
      case poll: {
        if (!m) {
          ++w.pc;
          break;
        }
        if (in.aligned) {
          const u32 here = m | (w.waiting ? waiting_at(w, w.pc) : 0);
          if (here != w.live) {
            lanes(m, [&](int i) { w.pcs[i] = w.pc; });
            w.waiting |= m;
            w.active &= ~m;
            ++w.pc;
            if (!w.active && !schedule(w)) return moved;
            break;
          }
          w.waiting &= ~here;
          w.active |= here;
          m = here;
        }
        w.spins = false;
        if (const u32 done = in.poll(w, in, m);
            done || in.modifier3) {  // sub3: a test, which does not wait, but lets others run
          moved = true;
          if (done) {
            ++w.pc;
            break;
          }
          w.spins = true;
        } else if (w.expires && in.poll == mbarrier_wait) {
          w.expires = false;
          set_pred(w, in.d, m, 0);
          ++w.pc;
          moved = true;
          break;
        }
        lanes(m, [&](int i) { w.pcs[i] = w.pc + w.spins; });
        spins |= w.spins;
        w.stalled |= m;
        w.active &= ~m;
        ++w.pc;
        if (!w.active && !schedule(w)) {
          w.spins = spins;
          return moved;
        }
        break;
      }
      case sync:
      case barrier: {
        if (!m) {
          ++w.pc;
          break;
        }
        const u32 need = required_lanes(w, in, m), here = m | (w.waiting ? waiting_at(w, w.pc) : 0);
        if ((here & need) != need) {
          lanes(m, [&](int i) { w.pcs[i] = w.pc; });
          w.waiting |= m;
          w.active &= ~m;
          ++w.pc;
          if (!w.active && !schedule(w)) return moved;
          break;
        }
        moved = true;
        w.waiting &= ~here;
        w.active |= here;
        if constexpr (tracks) track_registers(w, k, w.pc);
        if (in.kind == sync) {
          in.fn(w, in, here);
          w.syncs += in.modifier2 == 1 && in.fn == nothing;
          ++w.pc;
          break;
        }
        w.at_barrier = true;
        w.barrier_id = reg<u32>(w, in.a)[__builtin_ctz(here)];
        w.barrier_count = in.b.absent ? 0 : reg<u32>(w, in.b)[__builtin_ctz(here)];
        w.barrier_pc = w.pc;
        w.barrier_votes = in.c.absent ? 0 : pred_of(w, in.c) & here;
        return true;
      }
    }
  }
}

void start_warp(Block& b, Warp& w) {
  const u32 threads = b.dim.x * b.dim.y * b.dim.z;
  const u32 first = static_cast<u32>(w.id) * 32, n = std::min(32u, threads - first);
  w.live = w.active = n == 32 ? all : (1u << n) - 1;
  w.waiting = w.stalled = 0;
  w.pc = 0;
  w.limit = ~0u;
  w.spins = w.expires = false;
  w.at_barrier = false;
  w.any_copies = false;
  w.syncs = 0;
  for (auto& c : w.copies) c.clear();
  std::fill(w.groups, w.groups + 32, 0u);
  for (const auto& [name, off] : b.kernel->specials) {
    u32* r = reinterpret_cast<u32*>(w.base[0] + off);
    for (u32 i = 0; i < 32; ++i) {
      const u32 t = first + i;
      u32 v = 0;
      if (name == "%tid.x")
        v = t % b.dim.x;
      else if (name == "%tid.y")
        v = t / b.dim.x % b.dim.y;
      else if (name == "%tid.z")
        v = t / b.dim.x / b.dim.y;
      else if (name == "%ntid.x")
        v = b.dim.x;
      else if (name == "%ntid.y")
        v = b.dim.y;
      else if (name == "%ntid.z")
        v = b.dim.z;
      else if (name == "%ctaid.x")
        v = b.id.x;
      else if (name == "%ctaid.y")
        v = b.id.y;
      else if (name == "%ctaid.z")
        v = b.id.z;
      else if (name == "%nctaid.x")
        v = b.grid.x;
      else if (name == "%nctaid.y")
        v = b.grid.y;
      else if (name == "%nctaid.z")
        v = b.grid.z;
      else if (name == "%laneid")
        v = i;
      else if (name == "%warpid")
        v = static_cast<u32>(w.id);
      else if (name == "%nwarpid")
        v = 64;
      else if (name == "%smid")
        v = b.id.x % 132;
      else if (name == "%nsmid")
        v = 132;
      else if (name == "%lanemask_eq")
        v = 1u << i;
      else if (name == "%lanemask_le")
        v = i == 31 ? all : (2u << i) - 1;
      else if (name == "%lanemask_lt")
        v = (1u << i) - 1;
      else if (name == "%lanemask_ge")
        v = ~((1u << i) - 1);
      else if (name == "%lanemask_gt")
        v = i == 31 ? 0 : ~((2u << i) - 1);
      else if (name == "%dynamic_smem_size")
        v = static_cast<u32>(b.shared.size()) - b.kernel->static_shared;
      else if (name == "%total_smem_size")
        v = static_cast<u32>(b.shared.size());
      else if (name == "%clusterid.x")
        v = b.id.x;
      else if (name == "%clusterid.y")
        v = b.id.y;
      else if (name == "%clusterid.z")
        v = b.id.z;  // clusters of one block
      else if (name == "%nclusterid.x")
        v = b.grid.x;
      else if (name == "%nclusterid.y")
        v = b.grid.y;
      else if (name == "%nclusterid.z")
        v = b.grid.z;
      else if (name.starts_with("%cluster_ctaid.") || name == "%cluster_ctarank")
        v = 0;
      else if (name.starts_with("%cluster_ncta"))
        v = 1;
      else
        unsupported("register " + name);
      r[i] = v;
    }
  }
}

}  // namespace

// Lets the warps at a barrier go on if it is complete.
bool release_barrier(Block& b, u32 id) {
  u32 arrived = b.arrived[id], wanted = b.arrived[id] ? b.arrived_count[id] : 0, votes = 0, threads = 0, live_warps = 0;
  std::vector<Warp*> warps;
  for (Warp& w : b.warps) {
    live_warps += w.live != 0;
    if (!w.live || !w.at_barrier || w.barrier_id != id) continue;
    if (b.kernel->async && wanted && w.barrier_count != wanted)
      fault(w, b.kernel->code[w.barrier_pc], 0, illegal_instruction, "different counts at one barrier");
    ++arrived;
    wanted = std::max(wanted, w.barrier_count);
    votes += static_cast<u32>(std::popcount(w.barrier_votes));
    threads += static_cast<u32>(std::popcount(w.live));
    warps.push_back(&w);
  }
  if (!arrived || arrived < (wanted ? (wanted + 31) / 32 : live_warps)) return false;
  if (wanted) b.partial_barriers = true;
  if (wanted && b.kernel->async && (wanted % 32 || arrived * 32 > wanted))
    fault(warps.empty() ? b.warps[0] : *warps[0], b.kernel->code[warps.empty() ? 0 : warps[0]->barrier_pc], 0,
          illegal_instruction,
          "barrier " + std::to_string(id) + " of " + std::to_string(wanted) +
              " threads: the count is no multiple of 32, or more arrive");
  clock_barrier(b, warps, id);
  for (Warp* w : warps) {
    const Instruction& in = b.kernel->code[w->barrier_pc];
    if (in.modifier2 == 1) set_pred(*w, in.d, w->live, votes == threads ? all : 0);
    if (in.modifier2 == 2) set_pred(*w, in.d, w->live, votes ? all : 0);
    if (in.modifier2 == 3) each(reg<u32>(*w, in.d), w->live, [&](int) { return votes; });
    w->at_barrier = false;
    w->pc = w->barrier_pc + 1;
  }
  b.arrived[id] = 0;
  ++b.epoch;
  ++b.events;
  return true;
}

namespace {

void run_block(Block& b, std::mt19937_64& random) {
  std::fill(b.shared.begin(), b.shared.end(), options.fill);
  if (!b.shadow.empty()) std::fill(b.shadow.begin(), b.shadow.end(), Block::Shadow{});
  b.epoch = 1;
  b.partial_barriers = false;
  if (!b.local.empty()) std::fill(b.local.begin(), b.local.end(), 0xff);
  std::memset(b.arrived, 0, sizeof(b.arrived));
  const bool async = b.kernel->async, tracks = b.kernel->has_wgmma;
  if (async) async_start(b);
  u64 idle = 0;
  for (Warp& w : b.warps) start_warp(b, w);
  std::vector<int> order(b.warps.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  if (options.reverse) std::reverse(order.begin(), order.end());
  for (;;) {
    if (options.random) std::shuffle(order.begin(), order.end(), random);
    bool ran = false, spun = false;
    const u64 events = b.events;
    if (async && options.random) async_round(b, random());
    for (const int i : order) {
      Warp& w = b.warps[static_cast<std::size_t>(i)];
      if (!w.live || w.at_barrier) continue;
      if (tracks)
        ran |= options.count ? run_warp<true, true>(w) : run_warp<false, true>(w);
      else
        ran |= options.count ? run_warp<true, false>(w) : run_warp<false, false>(w);
      spun |= w.spins;
      if (async && w.live && w.at_barrier && w.barrier_count && w.barrier_id < 16) release_barrier(b, w.barrier_id);
    }
    // Release the barriers that are complete.
    bool released = false, alive = false;
    for (const Warp& w : b.warps) alive |= w.live != 0;
    if (!alive) {
      if (async) async_end(b);
      return;
    }
    for (u32 id = 0; id < 17; ++id) released |= release_barrier(b, id);
    if (async && b.events == events) {
      ++idle;
      if (!ran && !spun && idle > 100) deadlock(b);
      if (spun && idle > 10000) deadlock(b);
      if (!ran)
        for (Warp& w : b.warps)
          w.expires = true;  // try_wait waits only for some time: the program may do something else then
    } else
      idle = 0;
    if (!async && !released && !ran) {
      for (Warp& w : b.warps)
        if (w.live && w.at_barrier)
          fault(w, b.kernel->code[w.barrier_pc], __builtin_ctz(w.live), launch_failure,
                "warps wait at a barrier for ever");
    }
    for (const Warp& w : b.warps)
      if (w.at_barrier && w.barrier_id >= 17)
        fault(b.warps[0], b.kernel->code[w.barrier_pc], 0, illegal_instruction, "barrier number");
  }
}

}  // namespace

void run(Kernel& k, Dim grid, Dim dim, u32 dynamic_shared, const std::vector<u8>& params) {
  decode(k);
  ++k.launches;
  for (const Instruction& in : k.code) in.lo = 1, in.hi = 0;
  static Block b;  // launches are serialized
  b.kernel = &k;
  b.grid = grid;
  b.dim = dim;
  b.params = params;
  ++b.launch;
  const u32 threads = dim.x * dim.y * dim.z, warps = (threads + 31) / 32;
  b.shared.resize(k.static_shared + dynamic_shared);
  b.shadow.clear();
  if (b.registers.size() < u64{warps} * k.reg_bytes + 64) b.registers.resize(u64{warps} * k.reg_bytes + 64);
  b.preds.assign(u64{warps} * (k.preds + 1), 0);
  b.local.resize(u64{warps} * 32 * k.local_bytes);
  b.warps.resize(warps);
  u8* const registers = reinterpret_cast<u8*>((reinterpret_cast<u64>(b.registers.data()) + 63) / 64 * 64);
  static std::vector<u8> aligned;
  aligned.resize(k.constants.size() + 64);
  u8* const constants = reinterpret_cast<u8*>((reinterpret_cast<u64>(aligned.data()) + 63) / 64 * 64);
  std::memcpy(constants, k.constants.data(), k.constants.size());
  for (u32 i = 0; i < warps; ++i) {
    Warp& w = b.warps[i];
    w.base[0] = registers + u64{i} * k.reg_bytes;
    w.base[1] = constants;
    w.pred = b.preds.data() + u64{i} * (k.preds + 1);
    w.block = &b;
    w.id = static_cast<int>(i);
  }
  static std::mt19937_64 random(options.seed);
  const u64 blocks = u64{grid.x} * grid.y * grid.z;
  std::vector<u64> order;
  if (options.random) {
    order.resize(blocks);
    for (u64 i = 0; i < blocks; ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
  }
  for (u64 n = 0; n < blocks; ++n) {
    const u64 i = options.random ? order[n] : options.reverse ? blocks - 1 - n : n;
    b.number = static_cast<u32>(i);
    b.id = {static_cast<u32>(i % grid.x), static_cast<u32>(i / grid.x % grid.y), static_cast<u32>(i / grid.x / grid.y)};
    run_block(b, random);
  }
}

}  // namespace heddle::ptx
