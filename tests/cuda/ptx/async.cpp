// See async.hpp. Everything happens as late as it may: copies when somebody waits for their mbarrier or group, products at wgmma.wait_group.
// Races are found with clocks. A warp, the products of a warpgroup, the bulk stores of a warp and each mbarrier are agents; a warp knows of
// each agent up to which of its steps it has seen the effects (`seen`), and up to which a proxy fence lies in between (`fenced`).
#include "async.hpp"

#include <algorithm>
#include <map>
#include <random>

#include "cp_async.hpp"
#include "matrix.hpp"

namespace heddle::ptx {

namespace {

using Times = std::vector<u32>;
u32 time_of(const Times& t, u32 agent) { return agent < t.size() ? t[agent] : 0; }
void join(Times& to, const Times& from) {
  if (to.size() < from.size()) to.resize(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = std::max(to[i], from[i]);
}
void raise(Times& to, u32 agent, u32 time) {
  if (to.size() <= agent) to.resize(agent + 1);
  to[agent] = std::max(to[agent], time);
}
constexpr u32 wgmma_agent = 32, store_agent = 40, barrier_agent = 72;

struct Clock {
  Times seen, fenced;
};
struct Mbarrier {
  u32 index, expected, pending;
  s64 tx;
  u64 phase;
  Clock now, done;  // of the arrivals so far, of those of complete phases
  u32 init_warp, init_time;
};
struct Bulk {
  const Instruction* in;
  const BulkOperands* o;
  int warp, lane;
  u32 shared, bytes, barrier, group, time;
  u64 phase, global;
  TensorMap map;
  s32 at[5];
  bool read = false;  // a store has read its source
  std::vector<u8> data;
};
struct Arrival {
  int warp, lane;
  u32 barrier, serial;
  const Instruction* in;
};  // of cp.async.mbarrier.arrive: after the copies up to a number
struct Slot {
  float v[32];
  int ops;
  std::vector<u32> registers;
};
struct Flight {              // registers of a warp: which are in flight, and when they were written
  std::vector<int> slot_of;  // -1: none
  std::vector<u32> stamp;
  std::vector<u16> read_by;  // products in flight that have it as a part of A
  std::vector<Slot> slots;
  std::vector<int> unused;
  int flying = 0;
  u32 epoch = 1;
  bool fenced = false;
};
struct Product {
  const Instruction* in;
  u64 a, b;
  bool scale, done = false;
  u8 issued = 0, waited = 0;
  u32 group[4]{}, time;
  std::vector<int> slots[4];
};
struct Warpgroup {
  std::deque<Product> products;
  u64 first = 0;  // number of the first of them
  u64 issued[4]{};
  u32 committed[4]{};
  std::vector<const Instruction*> set_registers;
};
constexpr int readers = 6;  // that are kept; more are forgotten
struct Cell {
  u32 w_time, r_time[readers];
  u16 w_agent, w_async, r_agent[readers];
};  // w_time 0: not written; r_time 0: free

struct State {
  std::map<u32, Mbarrier> barriers;
  u32 barrier_count = 0;
  std::deque<Bulk> loads, stores;
  std::deque<Arrival> arrivals;
  std::vector<Clock> clocks;  // of warps
  Clock named[17];
  u32 store_time[32]{};
  u32 store_groups[32][32]{};
  std::vector<Flight> flights;
  std::vector<Warpgroup> groups;
  std::vector<Cell> cells;
  std::vector<u32> registers, set_count;  // of warps, per thread
  u32 entry_registers = 0;
  std::mt19937_64 random{1};
};
State st;

std::string hex(u64 x) {
  char t[24];
  std::snprintf(t, sizeof(t), "%#llx", static_cast<unsigned long long>(x));
  return t;
}
std::string agent_name(u32 a) {
  if (a < wgmma_agent) return "warp " + std::to_string(a);
  if (a < store_agent) return "wgmma of warpgroup " + std::to_string(a - wgmma_agent);
  if (a < barrier_agent) return "a bulk store of warp " + std::to_string(a - store_agent);
  for (const auto& [at, b] : st.barriers)
    if (b.index == a - barrier_agent) return "a copy to mbarrier " + hex(at);
  return "a copy";
}
void report(Warp& w, const Instruction& in, const std::string& what) {
  const Kernel* k = w.block->kernel;
  static std::map<std::pair<const Kernel*, std::pair<u32, std::string>>, int> seen;
  static std::map<std::pair<const Kernel*, std::string>, int> kinds;
  const std::string kind = what.substr(0, what.rfind(": byte"));
  if (seen[{k, {in.text, kind}}]++) return;
  if (++kinds[{k, kind}] > 4) {
    if (kinds[{k, kind}] == 5)
      std::fprintf(stderr, "ptx: %s: also at other instructions of this kernel\n", kind.c_str());
    return;
  }
  std::fprintf(stderr, "ptx: %s\n  warp %d of block (%u, %u, %u)\n  %.300s\n  %s\n", what.c_str(), w.id, w.block->id.x,
               w.block->id.y, w.block->id.z, k->texts[in.text].c_str(), demangled(k->name).c_str());
  std::fflush(stderr);
}

// --- clocks -----------------------------------------------------------------------------------------------------------------------------
Clock& clock_of(Warp& w) { return st.clocks[static_cast<u32>(w.id)]; }
void release_to(Warp& w, Clock& to) {
  if (!options.races) return;
  Clock& c = clock_of(w);
  join(to.seen, c.seen);
  join(to.fenced, c.fenced);
  ++c.seen[static_cast<u32>(w.id)];
}
void acquire_from(Warp& w, const Clock& from) {
  if (!options.races) return;
  Clock& c = clock_of(w);
  join(c.seen, from.seen);
  join(c.fenced, from.fenced);
}
// An access of `agent` at `time`, issued by w. `asynchronous`: through the async proxy.
void touch(Warp& w, const Instruction& in, u32 at, u32 bytes, bool write, bool asynchronous, u32 agent, u32 time) {
  if (st.cells.size() != w.block->shared.size()) st.cells.assign(w.block->shared.size(), Cell{});
  const Clock& c = clock_of(w);
  const u32 me = static_cast<u32>(w.id);
  const char* wrong = nullptr;
  u32 where = 0, other = 0;
  const auto found = [&](const char* what, u32 i, u32 agent) {
    if (!wrong) wrong = what, where = i, other = agent;
  };
  for (u32 i = at; i < at + bytes && i < st.cells.size(); ++i) {
    Cell& s = st.cells[i];
    if (s.w_time && !(s.w_agent == agent && s.w_async == asynchronous && agent != me && write)) {
      const bool own = s.w_agent == me && !s.w_async;
      if (!own && time_of(c.seen, s.w_agent) < s.w_time)
        found(write ? "RACE: written again, not ordered after the write" : "RACE: read, not ordered after the write", i,
              s.w_agent);
      else if (asynchronous && !s.w_async && time_of(c.fenced, s.w_agent) < s.w_time)
        found(write ? "PROXY: an asynchronous write after a generic write without fence.proxy.async"
                    : "PROXY: an asynchronous read of what was written by st (no fence.proxy.async in between)",
              i, s.w_agent);
    }
    if (write) {
      for (int k = 0; k < readers; ++k)
        if (s.r_time[k] && s.r_agent[k] != me && time_of(c.seen, s.r_agent[k]) < s.r_time[k])
          found("RACE: written, not ordered after the read", i, s.r_agent[k]);
      s.w_time = time;
      s.w_agent = static_cast<u16>(agent);
      s.w_async = asynchronous;
      std::memset(s.r_time, 0, sizeof(s.r_time));
    } else {
      int k = 0;
      while (k < readers - 1 && s.r_time[k] && s.r_agent[k] != agent && time_of(c.seen, s.r_agent[k]) < s.r_time[k])
        ++k;
      s.r_time[k] = time;
      s.r_agent[k] = static_cast<u16>(agent);
    }
  }
  if (wrong)
    report(w, in,
           std::string(wrong) + ": byte " + hex(shared_base + where) + " of shared memory, by " + agent_name(agent) +
               " and " + agent_name(other));
}

// --- mbarriers --------------------------------------------------------------------------------------------------------------------------
u64 token_of(u32 at) {
  return 0x6d62617272696572ull ^ u64 { at } << 32;
}
u32 shared_address(Warp& w, const Instruction& in, int lane, u64 a, u32 bytes, u32 align) {
  if (a >= shared_window && a < local_window) a -= shared_window;
  if (a % align)
    fault(w, in, lane, misaligned,
          "address " + hex(a) + " of shared memory is not a multiple of " + std::to_string(align));
  const u64 at = a - shared_base;
  if (at >= w.block->shared.size() || at + bytes > w.block->shared.size())
    fault(w, in, lane, illegal_address,
          std::to_string(bytes) + " bytes of shared memory at " + std::to_string(static_cast<s64>(at)) + " of " +
              std::to_string(w.block->shared.size()));
  return static_cast<u32>(a);
}
Mbarrier& barrier_at(Warp& w, const Instruction& in, int lane, u64 address) {
  const u32 at = shared_address(w, in, lane, address, 8, 8);
  const auto found = st.barriers.find(at);
  if (found == st.barriers.end()) fault(w, in, lane, illegal_instruction, "no mbarrier was initialized at " + hex(at));
  u64 token;
  std::memcpy(&token, w.block->shared.data() + at - shared_base, 8);
  if (token != token_of(at)) fault(w, in, lane, illegal_instruction, "the mbarrier at " + hex(at) + " was overwritten");
  Mbarrier& b = found->second;
  if (options.races && b.init_warp != static_cast<u32>(w.id) && time_of(clock_of(w).seen, b.init_warp) < b.init_time)
    report(w, in, "RACE: mbarrier used, not ordered after its mbarrier.init: " + hex(at));
  return b;
}
std::string describe(u32 at, const Mbarrier& b) {
  u64 queued = 0;
  int copies = 0;
  for (const Bulk& l : st.loads)
    if (l.barrier == at) queued += l.bytes, ++copies;
  int arrivals = 0;
  for (const Arrival& a : st.arrivals) arrivals += a.barrier == at;
  return "mbarrier " + hex(at) + ": phase " + std::to_string(b.phase) + " (parity " + std::to_string(b.phase & 1) +
         "), " + std::to_string(b.pending) + " of " + std::to_string(b.expected) + " arrivals pending, " +
         std::to_string(b.tx) + " bytes pending" +
         (copies ? ", " + std::to_string(copies) + " copies of " + std::to_string(queued) + " bytes in flight" : "") +
         (arrivals ? ", " + std::to_string(arrivals) + " arrivals of cp.async to come" : "");
}
void maybe_complete(Warp& w, const Instruction& in, int lane, u32 at, Mbarrier& b) {
  if (b.pending || b.tx) return;
  for (const Bulk& l : st.loads)
    if (l.barrier == at && l.phase <= b.phase)
      fault(w, in, lane, launch_failure,
            "a phase completes while copies for it are in flight: expect_tx announced fewer bytes than are copied; " +
                describe(at, b));
  ++b.phase;
  ++w.block->events;
  b.pending = b.expected;
  join(b.done.seen, b.now.seen);
  join(b.done.fenced, b.now.fenced);
}
void add_tx(Warp& w, const Instruction& in, int lane, u32 at, Mbarrier& b, s64 bytes) {
  b.tx += bytes;
  if (b.tx > 0xfffff || b.tx < -0xfffff)
    fault(w, in, lane, illegal_instruction, "tx-count out of range; " + describe(at, b));
}
void arrive(Warp& w, const Instruction& in, int lane, u32 at, Mbarrier& b, u32 n, bool drop) {
  if (n == 0 || n > b.pending)
    fault(w, in, lane, illegal_instruction,
          "an arrival of " + std::to_string(n) + " exceeds the pending count" +
              (b.pending ? "" : " (the phase waits for bytes; nobody has waited for them)") + "; " + describe(at, b));
  b.pending -= n;
  if (drop) b.expected -= n;
  ++w.block->events;
}

// --- copies -----------------------------------------------------------------------------------------------------------------------------
u32 swizzled(u32 a, u32 bits, u32 base = 0) { return a ^ (((a >> 7) - base) & ((1u << bits) - 1)) << 4; }
// Calls f(shared address, global address or 0, bytes) for pieces of at most 16 bytes of a tile.
template <class F>
void tile(const Bulk& c, F&& f) {
  if (!c.o->tensor) {
    for (u32 i = 0; i < c.bytes; i += 16) f(c.shared + i, c.global + i, 16u);
    return;
  }
  const TensorMap& m = c.map;
  const u32 row = u32{m.box[0]} * m.size;
  u64 rows = 1;
  for (int d = 1; d < m.rank; ++d) rows *= m.box[d];
  for (u64 r = 0; r < rows; ++r) {
    bool inside = true;
    u64 g = m.base;
    for (u64 d = 1, q = r; d < m.rank; ++d) {
      const s64 x = s64{c.at[d]} + static_cast<s64>(q % m.box[d]);
      q /= m.box[d];
      if (x < 0 || x > s64{m.last[d]}) inside = false;
      g += static_cast<u64>(x) * m.stride[d];
    }
    for (u32 i = 0; i < row; i += 16) {
      const u32 to = swizzled(c.shared + static_cast<u32>(r) * row + i, m.swizzle);
      const s64 x = s64{c.at[0]} + i / m.size, n = 16 / m.size, end = s64{m.last[0]} + 1;
      if (inside && x >= 0 && x + n <= end) {
        f(to, g + static_cast<u64>(x) * m.size, 16u);
        continue;
      }
      for (s64 e = 0; e < n; ++e)
        f(to + static_cast<u32>(e) * m.size,
          inside && x + e >= 0 && x + e < end ? g + static_cast<u64>(x + e) * m.size : 0, u32{m.size});
    }
  }
}
u8* global_bytes(Warp& w, const Bulk& c, u64 a, u32 bytes) {
  static Region last{1, 0, false};
  if (a < last.lo || a + bytes > last.hi || !region_of(a)) {
    const Region* r = region_of(a);
    if (!r || a + bytes > r->hi)
      fault(w, *c.in, c.lane, illegal_address,
            "a bulk copy of " + std::to_string(bytes) + " bytes at " + hex(a) + ": " +
                (r ? "runs past the end of its allocation" : "no allocation"));
    last = *r;
  }
  return reinterpret_cast<u8*>(a + (last.host ? 0 : delta));
}
u8* shared_bytes(Warp& w, const Bulk& c, u32 a, u32 bytes) {
  return w.block->shared.data() + (shared_address(w, *c.in, c.lane, a, bytes, 1) - shared_base);
}
void perform_load(Warp& w, const Bulk& c) {
  tile(c, [&](u32 s, u64 g, u32 n) {
    u8* to = shared_bytes(w, c, s, n);
    if (g)
      std::memcpy(to, global_bytes(w, c, g, n), n);
    else if (!c.map.nan)
      std::memset(to, 0, n);
    else {
      const u64 nan[2] = {n == 2 ? 0x7fff : n == 4 ? 0x7fffffff : 0x7fffffffffffffffull, 0};
      std::memcpy(to, nan, n);
    }
  });
  Mbarrier& b = barrier_at(w, *c.in, c.lane, c.barrier);
  add_tx(w, *c.in, c.lane, c.barrier, b, -s64{c.bytes});
}
void read_store(Warp& w, Bulk& c) {
  if (c.read) return;
  c.read = true;
  tile(c, [&](u32 s, u64, u32 n) {
    const u8* p = shared_bytes(w, c, s, n);
    c.data.insert(c.data.end(), p, p + n);
  });
}
template <class T, class F>
void reduce_piece(u8* to, const u8* from, u32 n, F&& f) {
  for (u32 i = 0; i < n; i += sizeof(T)) {
    T a, b;
    std::memcpy(&a, to + i, sizeof(T));
    std::memcpy(&b, from + i, sizeof(T));
    a = f(a, b);
    std::memcpy(to + i, &a, sizeof(T));
  }
}
void write_store(Warp& w, Bulk& c) {
  read_store(w, c);
  std::size_t at = 0;
  tile(c, [&](u32, u64 g, u32 n) {
    const u8* from = c.data.data() + at;
    at += n;
    if (!g) return;
    u8* to = global_bytes(w, c, g, n);
    if (c.o->what == BulkOperands::store) {
      std::memcpy(to, from, n);
      return;
    }
    const auto op = [&](auto x, auto y) {
      using T = decltype(x);
      return c.o->op == a_add ? static_cast<T>(x + y) : c.o->op == a_max ? std::max(x, y) : std::min(x, y);
    };
    static const u8 of_map[] = {255, 255, 0, 1, 2, 7, 4, 3, 6, 5, 3, 3};  // CUtensorMapDataType
    const u8 type = !c.o->tensor ? c.o->type : c.map.type < sizeof(of_map) ? of_map[c.map.type] : 255;
    if (type == 255) fault(w, *c.in, c.lane, illegal_instruction, "a reduction of this type");
    switch (type) {
      case 0: reduce_piece<u32>(to, from, n, op); break;
      case 1: reduce_piece<s32>(to, from, n, op); break;
      case 2: reduce_piece<u64>(to, from, n, op); break;
      case 3: reduce_piece<float>(to, from, n, op); break;
      case 6: reduce_piece<double>(to, from, n, op); break;
      case 7: reduce_piece<s64>(to, from, n, op); break;
      case 4: reduce_piece<u16>(to, from, n, [&](u16 x, u16 y) { return to_f16(op(from_f16(x), from_f16(y))); }); break;
      default: reduce_piece<u16>(to, from, n, [&](u16 x, u16 y) { return to_bf16(op(from_bf16(x), from_bf16(y))); });
    }
  });
}
// Performs the copies that a wait for the current phase needs.
void perform_loads(Warp& w, const Instruction& in, int lane, u32 at, Mbarrier& b) {
  const u64 phase = b.phase;
  u64 arrivals = 0;
  for (const Arrival& a : st.arrivals) arrivals += a.barrier == at;
  if (arrivals && b.pending <= arrivals)
    for (std::size_t i = 0; i < st.arrivals.size() && b.phase == phase;) {
      const Arrival a = st.arrivals[i];
      if (a.barrier != at) {
        ++i;
        continue;
      }
      st.arrivals.erase(st.arrivals.begin() + static_cast<std::ptrdiff_t>(i));
      Warp& from = w.block->warps[static_cast<u32>(a.warp)];
      auto& queue = from.copies[a.lane];
      while (!queue.empty() && static_cast<s32>(queue.front().serial - a.serial) <= 0) {
        perform_copy(from, *a.in, a.lane, queue.front());
        queue.erase(queue.begin());
      }
      arrive(from, *a.in, a.lane, at, b, 1, false);
      maybe_complete(w, in, lane, at, b);
    }
  while (b.phase == phase && !b.pending) {
    std::vector<std::size_t> mine;
    for (std::size_t i = 0; i < st.loads.size(); ++i)
      if (st.loads[i].barrier == at) mine.push_back(i);
    if (mine.empty()) return;
    const std::size_t i = mine[options.random ? st.random() % mine.size() : 0];
    const Bulk c = st.loads[i];
    st.loads.erase(st.loads.begin() + static_cast<std::ptrdiff_t>(i));
    perform_load(w, c);
    maybe_complete(w, in, lane, at, b);
  }
}

}  // namespace

void mbarrier(Warp& w, const Instruction& in, u32 m) {
  u64 at[32];
  addresses(w, in, in.a, in.imm, at);
  const u32* count = in.b.absent ? nullptr : register_lanes<u32>(w, in.b);
  Block& blk = *w.block;
  lanes(m, [&](int i) {
    const u32 n = count ? count[i] : 1;
    if (in.modifier == mb_pending) {
      register_lanes<u32>(w, in.d)[i] = static_cast<u32>(register_lanes<u64>(w, in.c)[i]);
      return;
    }
    const u32 a = shared_address(w, in, i, at[i], 8, 8);
    if (in.modifier == mb_init) {
      if (n < 1 || n > 0xfffff)
        fault(w, in, i, illegal_instruction, "mbarrier.init with a count of " + std::to_string(n));
      if (st.barriers.contains(a))
        fault(w, in, i, illegal_instruction, "mbarrier.init of an mbarrier that was not invalidated: " + hex(a));
      for (const auto& [other, b] : st.barriers)
        if (other < a + 8 && a < other + 8) fault(w, in, i, illegal_instruction, "mbarriers overlap");
      const u64 token = token_of(a);
      if (options.races)
        touch(w, in, a - shared_base, 8, true, false, static_cast<u32>(w.id), clock_of(w).seen[static_cast<u32>(w.id)]);
      std::memcpy(blk.shared.data() + a - shared_base, &token, 8);
      st.barriers[a] = {st.barrier_count++,
                        n,
                        n,
                        0,
                        0,
                        {},
                        {},
                        static_cast<u32>(w.id),
                        options.races ? clock_of(w).seen[static_cast<u32>(w.id)] : 0};
      return;
    }
    Mbarrier& b = barrier_at(w, in, i, a);
    if (in.modifier == mb_inval) {
      for (const Bulk& l : st.loads)
        if (l.barrier == a)
          fault(w, in, i, illegal_instruction, "mbarrier.inval with copies in flight; " + describe(a, b));
      st.barriers.erase(a);
      return;
    }
    if (in.modifier == mb_complete) {
      add_tx(w, in, i, a, b, -s64{n});
      maybe_complete(w, in, i, a, b);
      return;
    }
    if (in.modifier == mb_expect || in.modifier == mb_arrive_expect) add_tx(w, in, i, a, b, n);
    if (in.modifier == mb_expect) return;
    if (!in.d.absent) register_lanes<u64>(w, in.d)[i] = b.phase << 32 | b.pending;
    if (!in.modifier2) release_to(w, b.now);  // sub2: relaxed
    arrive(w, in, i, a, b, in.modifier == mb_arrive_expect ? 1 : n, in.modifier == mb_arrive_drop);
    maybe_complete(w, in, i, a, b);
  });
}

u32 mbarrier_wait(Warp& w, const Instruction& in, u32 m) {
  u64 at[32];
  addresses(w, in, in.a, in.imm, at);
  u32 done = 0;
  lanes(m, [&](int i) {
    Mbarrier& b = barrier_at(w, in, i, at[i]);
    const u32 a = shared_address(w, in, i, at[i], 8, 8);
    u64 wanted;  // the phase that must be complete
    if (in.modifier2) {
      const u32 parity = register_lanes<u32>(w, in.c)[i];
      if (parity > 1) fault(w, in, i, illegal_instruction, "a phase parity of " + std::to_string(parity));
      wanted = (b.phase & 1) == parity ? b.phase : b.phase - 1;
    } else {
      wanted = register_lanes<u64>(w, in.c)[i] >> 32;
      if (wanted > b.phase || wanted + 1 < b.phase)
        fault(w, in, i, illegal_instruction, "a wait for phase " + std::to_string(wanted) + "; " + describe(a, b));
    }
    if (wanted == b.phase) perform_loads(w, in, i, a, b);
    if (wanted == b.phase) return;
    done |= 1u << i;
    if (options.races && in.imm2 == 0) {
      acquire_from(w, b.done);
      raise(clock_of(w).seen, barrier_agent + b.index, static_cast<u32>(b.phase));
    }
  });
  if (in.modifier || done) write_predicate(w, in.d, m, done);
  return done;
}

void cp_async_arrive(Warp& w, const Instruction& in, u32 m) {
  u64 at[32];
  addresses(w, in, in.a, in.imm, at);
  lanes(m, [&](int i) {
    Mbarrier& b = barrier_at(w, in, i, at[i]);
    if (!in.modifier) ++b.pending;
    release_to(w, b.now);
    st.arrivals.push_back({w.id, i, shared_address(w, in, i, at[i], 8, 8), copy_serial, &in});
  });
}

void fence_proxy_async(Warp& w, const Instruction&, u32) {
  if (!options.races) return;
  Clock& c = clock_of(w);
  c.fenced = c.seen;
  ++c.seen[static_cast<u32>(w.id)];
}
void elect(Warp& w, const Instruction& in, u32 m) {
  const u32 leader = static_cast<u32>(__builtin_ctz(m));
  if (!in.d.absent) each(register_lanes<u32>(w, in.d), m, [&](int) { return leader; });
  write_predicate(w, in.d2, m, 1u << leader);
}

void bulk_copy(Warp& w, const Instruction& in, u32 m) {
  const BulkOperands& o = *reinterpret_cast<const BulkOperands*>(in.imm);
  Block& blk = *w.block;
  lanes(m, [&](int i) {
    const auto value = [&](const Operand& p, s64 offset) {
      return (p.size == 8 ? register_lanes<u64>(w, p)[i] : u64{register_lanes<u32>(w, p)[i]}) +
             static_cast<u64>(offset);
    };
    Bulk c{};
    c.in = &in;
    c.o = &o;
    c.warp = w.id;
    c.lane = i;
    c.global = value(o.global, o.global_offset);
    if (o.tensor) {
      if (c.global % 64) fault(w, in, i, misaligned, "a tensor map that is not aligned to 64 bytes");
      const u8* from;
      if (c.global >= param_window) {
        if (c.global - param_window + 128 > blk.params.size())
          fault(w, in, i, illegal_address, "a tensor map beyond the parameters");
        from = blk.params.data() + (c.global - param_window);
      } else {
        Bulk t = c;
        from = global_bytes(w, t, c.global, 128);
      }
      std::memcpy(&c.map, from, sizeof(TensorMap));
      if (c.map.magic != tensor_map_magic) fault(w, in, i, illegal_instruction, "no tensor map at " + hex(c.global));
      if (c.map.rank != o.rank)
        fault(w, in, i, illegal_instruction,
              "a tensor map of " + std::to_string(c.map.rank) + " dimensions in an instruction for " +
                  std::to_string(o.rank));
      c.bytes = c.map.size;
      for (int d = 0; d < o.rank; ++d) c.bytes *= c.map.box[d], c.at[d] = static_cast<s32>(value(o.coordinate[d], 0));
    } else {
      c.bytes = static_cast<u32>(value(o.bytes, 0));
      if (c.bytes % 16)
        fault(w, in, i, illegal_instruction,
              "a bulk copy of " + std::to_string(c.bytes) + " bytes; a multiple of 16 is needed");
      if (c.global % 16) fault(w, in, i, misaligned, "a bulk copy at " + hex(c.global) + ", not a multiple of 16");
      for (u32 k = 0; k < c.bytes; k += 16)
        if (c.bytes) global_bytes(w, c, c.global + k, 16);
    }
    if (o.what == BulkOperands::prefetch) return;
    c.shared = shared_address(w, in, i, value(o.shared, o.shared_offset), c.bytes, o.tensor ? 128 : 16);
    if (o.tensor)
      tile(c, [&](u32 s, u64 g, u32 n) {
        shared_address(w, in, i, s, n, 1);
        if (g) global_bytes(w, c, g, n);
      });
    ++blk.events;
    const auto watch = [&](bool write, u32 agent, u32 time) {
      // The tile as a whole: a swizzle permutes within it, if it is aligned as it should be.
      if (options.races) touch(w, in, c.shared - shared_base, c.bytes, write, true, agent, time);
    };
    if (o.what == BulkOperands::load) {
      c.barrier = shared_address(w, in, i, value(o.barrier, o.barrier_offset), 8, 8);
      Mbarrier& b = barrier_at(w, in, i, c.barrier);
      c.phase = b.phase;
      if (!b.pending && !b.tx)
        fault(w, in, i, illegal_instruction, "a copy to an mbarrier that expects nothing; " + describe(c.barrier, b));
      watch(true, barrier_agent + b.index, static_cast<u32>(b.phase) + 1);
      if (options.early_copies) {
        perform_load(w, c);
        maybe_complete(w, in, i, c.barrier, b);
      } else
        st.loads.push_back(c);
    } else {
      c.group = st.store_groups[w.id][i];
      c.time = ++st.store_time[w.id];
      watch(false, store_agent + static_cast<u32>(w.id), c.time);
      if (options.early_copies) read_store(w, c);
      st.stores.push_back(std::move(c));
    }
  });
}
void bulk_commit(Warp& w, const Instruction&, u32 m) {
  lanes(m, [&](int i) { ++st.store_groups[w.id][i]; });
}
void bulk_wait(Warp& w, const Instruction& in, u32 m) {
  lanes(m, [&](int i) {
    for (auto c = st.stores.begin(); c != st.stores.end();) {
      if (c->warp == w.id && c->lane == i && s64{c->group} < s64{st.store_groups[w.id][i]} - in.imm) {
        if (in.modifier)
          read_store(w, *c);
        else {
          write_store(w, *c);
          c = st.stores.erase(c);
          continue;
        }
      }
      ++c;
    }
  });
  if (!options.races) return;
  u32 least = st.store_time[w.id] + 1;  // of those whose source is still to be read
  for (const Bulk& c : st.stores)
    if (c.warp == w.id && !c.read) least = std::min(least, c.time);
  raise(clock_of(w).seen, store_agent + static_cast<u32>(w.id), least - 1);
}

// --- wgmma ------------------------------------------------------------------------------------------------------------------------------
namespace {

const WgmmaOperands& operands(const Instruction& in) { return *reinterpret_cast<const WgmmaOperands*>(in.imm); }
// The address of element (row, k) of an operand, from the canonical layouts of the matrix descriptor. CUTLASS writes them in
// mma_traits_sm90_gmma.hpp (make_gmma_desc), T being the elements of 16 bytes:
//   K-major    none: ((8,m),(T,2)):((1T,SBO),(1,LBO))      32, 64, 128 bytes, W = 2, 4, 8: ((8,m),(T,2)):((WT,SBO),(1,T))
//   MN-major   none: ((T,1,m),(8,k)):((1,T,SBO),(1T,LBO))  32, 64, 128 bytes: ((T,W,m),(8,k)):((1,T,LBO),(WT,SBO))
// and then the swizzle of the address: its bits 4.. change by exclusive or with bits 7...
struct Descriptor {
  u32 start, lbo, sbo, bits, base, width;
  explicit Descriptor(u64 d) {
    start = static_cast<u32>(d & 0x3fff) << 4;
    lbo = static_cast<u32>(d >> 16 & 0x3fff) << 4;
    sbo = static_cast<u32>(d >> 32 & 0x3fff) << 4;
    base = static_cast<u32>(d >> 49 & 7);
    const u32 mode = static_cast<u32>(d >> 62);
    bits = mode == 0 ? 0 : 4 - mode;  // 1: 128 bytes, 2: 64, 3: 32
    width = 1u << bits;
  }
  u32 at(u32 row, u32 k, u32 size, bool mn) const {
    const u32 t = 16 / size;
    u32 a = start;
    if (!mn)
      a += row % 8 * width * 16 + row / 8 * sbo + (bits ? k / t * 16 : k / t * lbo) + k % t * size;
    else if (!bits)
      a += row % t * size + row / t * sbo + k % 8 * 16 + k / 8 * lbo;
    else
      a += row % (t * width) * size + row / (t * width) * lbo + k % 8 * width * 16 + k / 8 * sbo;
    return swizzled(a, bits, base);
  }
};
// Calls f(address) for each piece of 16 bytes.
template <class F>
void pieces(const Descriptor& d, u32 first, u32 rows, u32 ks, u32 size, bool mn, F&& f) {
  const u32 t = 16 / size;
  if (!mn)
    for (u32 r = first; r < first + rows; ++r)
      for (u32 k = 0; k < ks; k += t) f(d.at(r, k, size, mn));
  else
    for (u32 k = 0; k < ks; ++k)
      for (u32 r = first; r < first + rows; r += t) f(d.at(r, k, size, mn));
}
float decoded(const u8* p, u8 type) {
  u16 h;
  u32 x;
  if (type < 2) {
    std::memcpy(&h, p, 2);
    return type == 1 ? from_f16(h) : from_bf16(h);
  }
  std::memcpy(&x, p, 4);
  return std::bit_cast<float>(x & 0xffffe000u);
}
void release_slot(Flight& f, Warp& w, int s, bool write) {
  Slot& slot = f.slots[static_cast<u32>(s)];
  for (const u32 r : slot.registers)
    if (f.slot_of[r] == s) {
      f.slot_of[r] = -1;
      if (write) std::memcpy(w.base[0] + u64{r} * 64, slot.v, sizeof(slot.v));
    }
  slot.registers.clear();
  f.unused.push_back(s);
  --f.flying;
}
void execute(Block& b, u32 group, Product& p) {
  const WgmmaOperands& o = operands(*p.in);
  const u32 size = o.type == 2 ? 4 : 2, n = static_cast<u32>(o.n), ks = static_cast<u32>(o.k);
  static float bm[16][256], am[64][16];
  const auto fetch = [&](u64 desc, u32 rows, bool mn, bool negate, auto&& put) {
    const Descriptor d(desc);
    for (u32 r = 0; r < rows; ++r)
      for (u32 k = 0; k < ks; ++k) {
        const float x = decoded(b.shared.data() + d.at(r, k, size, mn) - shared_base, o.type);
        put(r, k, negate ? -x : x);
      }
  };
  fetch(p.b, n, o.mn_b, o.negate_b, [&](u32 r, u32 k, float x) { bm[k][r] = x; });
  if (!o.a_registers) fetch(p.a, 64, o.mn_a, o.negate_a, [&](u32 r, u32 k, float x) { am[r][k] = x; });
  for (u32 q = 0; q < 4; ++q) {
    Warp& w = b.warps[group * 4 + q];
    Flight& f = st.flights[group * 4 + q];
    if (o.a_registers) {
      for (u32 r = 0; r < 4; ++r) {
        const u32* x = register_lanes<u32>(w, o.a[r]);
        for (u32 l = 0; l < 32; ++l)
          if (o.type == 2) {
            const float v = std::bit_cast<float>(x[l] & 0xffffe000u);
            am[16 * q + l / 4 + r % 2 * 8][l % 4 + r / 2 * 4] = o.negate_a ? -v : v;
          } else
            for (u32 h = 0; h < 2; ++h) {
              const u16 e = static_cast<u16>(x[l] >> 16 * h);
              const float v = o.type == 1 ? from_f16(e) : from_bf16(e);
              am[16 * q + l / 4 + r % 2 * 8][l % 4 * 2 + h + r / 2 * 8] = o.negate_a ? -v : v;
            }
      }
    }
    for (u32 j = 0; j < n / 8; ++j) {
      float block[16][8], c[16][8];
      for (u32 k = 0; k < ks; ++k) std::memcpy(block[k], &bm[k][j * 8], 32);
      float* v[4];
      for (u32 e = 0; e < 4; ++e) {
        v[e] = f.slots[static_cast<u32>(p.slots[q][j * 4 + e])].v;
        for (u32 l = 0; l < 32; ++l) c[l / 4 + e / 2 * 8][l % 4 * 2 + e % 2] = p.scale ? v[e][l] : 0.f;
      }
      for (u32 i = 0; i < 16; ++i) {
        if (ks == 16)
          dot_row<16>(am[16 * q + i], block, c[i]);
        else
          dot_row<8>(am[16 * q + i], block, c[i]);
      }
      for (u32 e = 0; e < 4; ++e)
        for (u32 l = 0; l < 32; ++l) v[e][l] = c[l / 4 + e / 2 * 8][l % 4 * 2 + e % 2];
    }
  }
  p.done = true;
  ++b.events;
}
Warpgroup& group_of(Warp& w, const Instruction& in, u32 m) {
  const u32 g = static_cast<u32>(w.id) / 4;
  if (m != all || g >= st.groups.size()) fault(w, in, 0, illegal_instruction, "by a part of a warpgroup");
  return st.groups[g];
}

}  // namespace

void wgmma(Warp& w, const Instruction& in, u32 m) {
  const WgmmaOperands& o = operands(in);
  Warpgroup& g = group_of(w, in, m);
  const u32 q = static_cast<u32>(w.id) % 4, index = static_cast<u32>(w.id) / 4;
  Flight& f = st.flights[static_cast<u32>(w.id)];
  const auto uniform = [&](const Operand& p) {
    const u64* x = register_lanes<u64>(w, p);
    for (int i = 1; i < 32; ++i)
      if (x[i] != x[0]) fault(w, in, i, illegal_instruction, "lanes with different descriptors");
    return x[0];
  };
  const u64 a = o.a_registers ? 0 : uniform(o.a_desc), b = uniform(o.b_desc);
  const u32 p = read_predicate(w, o.scale);
  if (p != 0 && p != all) fault(w, in, 0, illegal_instruction, "lanes with different scale-d");
  const u64 number = g.issued[q]++;
  if (number == g.first + g.products.size()) {
    Product fresh;
    fresh.in = &in;
    fresh.a = a;
    fresh.b = b;
    fresh.scale = p != 0;
    fresh.time = static_cast<u32>(number) + 1;
    g.products.push_back(std::move(fresh));
  }
  Product& x = g.products[number - g.first];
  if (x.in != &in || x.a != a || x.b != b || x.scale != (p != 0))
    fault(w, in, 0, illegal_instruction,
          "the warps of a warpgroup disagree: product " + std::to_string(number) + " of warpgroup " +
              std::to_string(index) + " is, in another warp, " + w.block->kernel->texts[x.in->text].substr(0, 60) +
              "... with descriptors " + hex(x.a) + ", " + hex(x.b) +
              (x.scale ? ", accumulating" : ", not accumulating") + "; here " + hex(a) + ", " + hex(b) +
              (p ? ", accumulating" : ", not accumulating"));
  x.issued |= static_cast<u8>(1u << q);
  x.group[q] = g.committed[q];
  ++w.block->events;
  // Memory.
  const u32 size = o.type == 2 ? 4 : 2;
  const auto check = [&](u64 desc, u32 first, u32 rows, bool mn, const char* name) {
    pieces(Descriptor(desc), first, rows, static_cast<u32>(o.k), size, mn, [&](u32 s) {
      if (s < shared_base || s + 16 - shared_base > w.block->shared.size())
        fault(w, in, 0, illegal_address, std::string("operand ") + name + " lies outside of shared memory: " + hex(s));
      if (options.races) touch(w, in, s - shared_base, 16, false, true, wgmma_agent + index, x.time);
    });
  };
  if (!o.a_registers) check(a, 16 * q, 16, o.mn_a, "A");  // a warp reads its rows of A, and all of B
  check(b, 0, static_cast<u32>(o.n), o.mn_b, "B");
  // Registers.
  if (!f.fenced) report(w, in, "WGMMA: no wgmma.fence before the first wgmma");
  const auto stale = [&](const Operand& r) { return f.stamp[r.offset / 64] == f.epoch; };
  bool late = false;
  for (int i = 0; i < o.n / 2; ++i) late |= f.slot_of[o.d[i].offset / 64] < 0 && stale(o.d[i]);
  if (o.a_registers)
    for (const Operand& r : o.a) {
      late |= stale(r);
      ++f.read_by[r.offset / 64];
      if (f.slot_of[r.offset / 64] >= 0) report(w, in, "WGMMA: A is an accumulator in flight");
    }
  if (late) report(w, in, "WGMMA: registers were written after the last wgmma.fence");
  for (int i = 0; i < o.n / 2; ++i) {
    const u32 r = o.d[i].offset / 64;
    int s = f.slot_of[r];
    if (s < 0) {
      if (f.unused.empty()) {
        s = static_cast<int>(f.slots.size());
        f.slots.emplace_back();
      } else {
        s = f.unused.back();
        f.unused.pop_back();
      }
      Slot& slot = f.slots[static_cast<u32>(s)];
      slot.ops = 0;
      std::memcpy(slot.v, w.base[0] + o.d[i].offset, sizeof(slot.v));
      ++f.flying;
    } else
      for (const u32 other : f.slots[static_cast<u32>(s)].registers)
        if (other != r && f.slot_of[other] == s) f.slot_of[other] = -1;  // a copy that stays behind holds nothing
    Slot& slot = f.slots[static_cast<u32>(s)];
    slot.registers.assign(1, r);
    f.slot_of[r] = s;
    ++slot.ops;
    u32* v = register_lanes<u32>(w, o.d[i]);
    for (int l = 0; l < 32; ++l) v[l] = 0x7fffdeadu;
    x.slots[q].push_back(s);
  }
}
void wgmma_fence(Warp& w, const Instruction& in, u32 m) {
  group_of(w, in, m);
  Flight& f = st.flights[static_cast<u32>(w.id)];
  ++f.epoch;
  f.fenced = true;
}
void wgmma_commit(Warp& w, const Instruction& in, u32 m) { ++group_of(w, in, m).committed[w.id % 4]; }
u32 wgmma_wait(Warp& w, const Instruction& in, u32 m) {
  Warpgroup& g = group_of(w, in, m);
  const u32 q = static_cast<u32>(w.id) % 4, index = static_cast<u32>(w.id) / 4;
  Flight& f = st.flights[static_cast<u32>(w.id)];
  u64 count = 0;
  for (const Product& p : g.products) {
    if (!(p.issued >> q & 1) || s64{p.group[q]} >= s64{g.committed[q]} - in.imm) break;
    if (p.issued != 15) return 0;  // the other warps have still to come
    ++count;
  }
  for (u64 i = 0; i < count; ++i) {
    Product& p = g.products[i];
    if (!p.done) execute(*w.block, index, p);
    if (options.races) raise(clock_of(w).seen, wgmma_agent + index, p.time);
    if (p.waited >> q & 1) continue;
    p.waited |= static_cast<u8>(1u << q);
    if (operands(*p.in).a_registers)
      for (const Operand& r : operands(*p.in).a) --f.read_by[r.offset / 64];
    for (const int s : p.slots[q])
      if (--f.slots[static_cast<u32>(s)].ops == 0) release_slot(f, w, s, true);
  }
  while (!g.products.empty() && g.products.front().waited == 15) {
    g.products.pop_front();
    ++g.first;
  }
  return m;
}
void track_registers(Warp& w, const Kernel& k, u32 pc) {
  const Kernel::Registers& t = k.registers_of[pc];
  if (t.from.empty() && t.to.empty()) return;
  Flight& f = st.flights[static_cast<u32>(w.id)];
  if (f.flying) {
    if (t.move && f.slot_of[t.from[0]] >= 0) {  // a copy of an accumulator in flight, which ptxas would not make
      const int s = f.slot_of[t.from[0]];
      f.slot_of[t.to[0]] = s;
      f.slots[static_cast<u32>(s)].registers.push_back(t.to[0]);
      f.stamp[t.to[0]] = f.stamp[t.from[0]];
      return;
    }
    for (const u32 r : t.from)
      if (f.slot_of[r] >= 0) report(w, k.code[pc], "WGMMA: an accumulator is read before wgmma.wait_group");
    for (const u32 r : t.to)
      if (f.read_by[r]) report(w, k.code[pc], "WGMMA: a register of A is written before wgmma.wait_group");
    for (const u32 r : t.to)
      if (f.slot_of[r] >= 0) {
        if (!t.move && !t.constant) report(w, k.code[pc], "WGMMA: an accumulator is written before wgmma.wait_group");
        f.slot_of[r] = -1;
      }
  }
  for (const u32 r : t.to) f.stamp[r] = t.move ? f.stamp[t.from[0]] : t.constant ? 0 : f.epoch;
}

// --- setmaxnreg -------------------------------------------------------------------------------------------------------------------------
u32 set_registers(Warp& w, const Instruction& in, u32 m) {  // imm: registers, sub: increase
  Warpgroup& g = group_of(w, in, m);
  Block& b = *w.block;
  const u32 id = static_cast<u32>(w.id), wanted = static_cast<u32>(in.imm);
  if (!st.entry_registers) {
    report(w, in, "REGISTERS: setmaxnreg is ignored without __launch_bounds__ or .maxnreg");
    return m;
  }
  if (st.set_count[id] == g.set_registers.size()) g.set_registers.push_back(&in);
  if (g.set_registers[st.set_count[id]] != &in)
    fault(w, in, 0, illegal_instruction, "the warps of a warpgroup execute different setmaxnreg");
  u32& mine = st.registers[id];
  const std::string now = "; the warp has " + std::to_string(mine) + " registers per thread";
  if (in.modifier ? wanted < mine : wanted > mine)
    fault(w, in, 0, illegal_instruction,
          std::string(in.modifier ? "setmaxnreg.inc to fewer registers" : "setmaxnreg.dec to more registers") + now);
  u64 used = 0;
  for (const u32 r : st.registers) used += r;
  if (in.modifier && used - mine + wanted > u64{st.entry_registers} * b.warps.size()) return 0;
  mine = wanted;
  ++st.set_count[id];
  ++b.events;
  return m;
}

// --- blocks -----------------------------------------------------------------------------------------------------------------------------
void bar_arrive(Warp& w, const Instruction& in, u32 m) {
  const int l = __builtin_ctz(m);
  const u32 id = register_lanes<u32>(w, in.a)[l], count = register_lanes<u32>(w, in.b)[l];
  Block& b = *w.block;
  if (id >= 16 || count == 0 || count % 32) fault(w, in, l, illegal_instruction, "barrier number or count");
  if (b.arrived[id] && b.arrived_count[id] != count)
    fault(w, in, l, illegal_instruction, "different counts at one barrier");
  ++b.arrived[id];
  b.arrived_count[id] = count;
  ++b.events;
  if (b.kernel->async) release_to(w, st.named[id]);
  release_barrier(b, id);
}
void clock_barrier(Block& b, const std::vector<Warp*>& warps, u32 id) {
  if (!options.races || !b.kernel->async) return;
  Clock met = st.named[id];
  for (Warp* w : warps) release_to(*w, met);
  for (Warp* w : warps) acquire_from(*w, met);
  st.named[id] = {};
}
void watch_async(Warp& w, const Instruction& in, int, u32 at, u32 bytes, bool write) {
  const u32 id = static_cast<u32>(w.id);
  // Atomic operations race with others, not with each other: they are taken as reads.
  touch(w, in, at, bytes, write && in.category != c_atom, false, id, clock_of(w).seen[id]);
}
void async_start(Block& b) {
  const u32 n = static_cast<u32>(b.warps.size());
  st.barriers.clear();
  st.barrier_count = 0;
  st.loads.clear();
  st.stores.clear();
  st.arrivals.clear();
  st.clocks.assign(n, {});
  for (u32 i = 0; i < n; ++i) raise(st.clocks[i].seen, i, 1);
  for (Clock& c : st.named) c = {};
  std::memset(st.store_time, 0, sizeof(st.store_time));
  std::memset(st.store_groups, 0, sizeof(st.store_groups));
  st.groups.assign(n / 4, {});
  if (b.kernel->has_wgmma) {
    st.flights.resize(n);
    for (Flight& f : st.flights) {
      f.slot_of.assign(b.kernel->reg_bytes / 64 + 1, -1);
      f.stamp.assign(b.kernel->reg_bytes / 64 + 1, 0);
      f.read_by.assign(b.kernel->reg_bytes / 64 + 1, 0);
      f.slots.clear();
      f.unused.clear();
      f.flying = 0;
      f.epoch = 1;
      f.fenced = false;
    }
  }
  if (!st.cells.empty()) std::fill(st.cells.begin(), st.cells.end(), Cell{});
  const Kernel& k = *b.kernel;
  st.entry_registers = k.max_registers ? k.max_registers
                       : k.has_max_threads
                           ? std::min(65536 / (k.max_threads * std::max(1u, k.min_blocks)), 256u) / 8 * 8
                           : 0;
  st.registers.assign(n, st.entry_registers);
  st.set_count.assign(n, 0);
}
void async_round(Block& b, u64 random) {
  st.random.seed(random);
  for (std::size_t i = 0; i < st.loads.size();) {
    if (st.random() % 4) {
      ++i;
      continue;
    }
    const Bulk c = st.loads[i];
    st.loads.erase(st.loads.begin() + static_cast<std::ptrdiff_t>(i));
    Warp& w = b.warps[static_cast<u32>(c.warp)];
    perform_load(w, c);
    maybe_complete(w, *c.in, c.lane, c.barrier, barrier_at(w, *c.in, c.lane, c.barrier));
  }
}
void async_exit(Warp& w, const Instruction&) {
  if (!options.races) return;
  for (const Bulk& c : st.stores)
    if (c.warp == w.id && !c.read)
      report(
          w, *c.in,
          "EXIT: the warp ends before a bulk store has read shared memory (cp.async.bulk.wait_group.read is missing)");
}
void async_end(Block& b) {
  for (Bulk& c : st.stores) write_store(b.warps[static_cast<u32>(c.warp)], c);
  st.stores.clear();
  for (const Bulk& c : st.loads)
    fault(b.warps[static_cast<u32>(c.warp)], *c.in, c.lane, launch_failure,
          "the block ends while a copy to its shared memory is in flight; " +
              describe(c.barrier, st.barriers.at(c.barrier)));
  for (u32 g = 0; g < st.groups.size(); ++g)
    for (const Product& p : st.groups[g].products)
      if (p.issued != 15)
        fault(b.warps[g * 4], *p.in, 0, illegal_instruction,
              "the warps of a warpgroup disagree: not all have executed this wgmma");
  for (u32 i = 0; i < b.warps.size(); ++i)
    if (i / 4 < st.groups.size() && st.set_count[i] != st.groups[i / 4].set_registers.size())
      fault(b.warps[i], *st.groups[i / 4].set_registers.back(), 0, illegal_instruction,
            "not all warps of the warpgroup have executed this setmaxnreg");
}
void deadlock(Block& b) {
  std::string s = "deadlock: all warps wait";
  Warp* first = nullptr;
  const Instruction* at = nullptr;
  int lane = 0;
  for (Warp& w : b.warps) {
    if (!w.live) continue;
    if (w.at_barrier) {
      const Instruction& in = b.kernel->code[w.barrier_pc];
      if (!first) first = &w, at = &in, lane = __builtin_ctz(w.live);
      s += "\n    warp " + std::to_string(w.id) + ": barrier " + std::to_string(w.barrier_id) +
           (w.barrier_count ? " of " + std::to_string(w.barrier_count) + " threads" : "") +
           (w.barrier_id < 16 && b.arrived[w.barrier_id]
                ? ", " + std::to_string(b.arrived[w.barrier_id]) + " warps arrived by bar.arrive"
                : "");
      continue;
    }
    const u32 stuck = w.stalled ? w.stalled : w.live;
    const int l = __builtin_ctz(stuck);
    u32 pc = w.pcs[l];
    if (pc && b.kernel->code[pc - 1].modifier3) --pc;  // a test that has failed
    const Instruction& in = b.kernel->code[pc];
    if (!first) first = &w, at = &in, lane = l;
    s += "\n    warp " + std::to_string(w.id) + ", lanes " + hex(stuck) + ": ";
    if (in.kind == poll && in.poll == mbarrier_wait) {
      u64 where[32];
      addresses(w, in, in.a, in.imm, where);
      const u32 a = shared_address(w, in, l, where[l], 8, 8);
      s += (in.modifier2 ? "waits for parity " + std::to_string(register_lanes<u32>(w, in.c)[l])
                         : "waits for phase " + std::to_string(register_lanes<u64>(w, in.c)[l] >> 32)) +
           " of " + describe(a, barrier_at(w, in, l, a));
    } else if (in.kind == poll && in.poll == wgmma_wait)
      s += "wgmma.wait_group, for products that not all warps of its warpgroup have issued";
    else if (in.kind == poll && in.poll == set_registers) {
      u64 used = 0;
      for (const u32 r : st.registers) used += r;
      s += "setmaxnreg.inc to " + std::to_string(in.imm) + "; the warps have " + std::to_string(used * 32) +
           " registers of " + std::to_string(u64{st.entry_registers} * b.warps.size() * 32);
    } else
      s += b.kernel->texts[in.text].substr(0, 120);
  }
  fault(*first, *at, lane, launch_failure, s);
}

}  // namespace heddle::ptx
