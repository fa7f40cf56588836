// Loads, stores, atomics, asynchronous copies, and the instructions of a whole warp.
#pragma once
#include "arithmetic.hpp"

namespace heddle::ptx {

[[noreturn]] void fault(Warp& w, const Instruction& in, int lane, int code, const std::string& what);
void watch_shared(Warp& w, const Instruction& in, int lane, u32 at, u32 bytes, bool write);
void watch_global(Warp& w, const Instruction& in, int lane, u64 at, u32 bytes, bool write);
enum : int {
  illegal_address = 700,
  misaligned = 716,
  illegal_instruction = 715,
  launch_failure = 719,
  assert_failed = 710
};
enum Space : u8 { s_generic, s_global, s_shared, s_param, s_local };

inline u8* global_pointer(Warp& w, const Instruction& in, int lane, u64 a, u32 bytes, bool write) {
  if (options.global_races) [[unlikely]]
    watch_global(w, in, lane, a, bytes, write);
  if (a >= in.lo && a + bytes <= in.hi) [[likely]]
    return reinterpret_cast<u8*>(a + in.shift);
  const Region* r = region_of(a);
  char text[200];
  if (!r || a + bytes > r->hi) {
    std::snprintf(text, sizeof(text), "%s of %u bytes at %#llx: %s", write ? "store" : "load", bytes,
                  static_cast<unsigned long long>(a), r ? "runs past the end of its allocation" : "no allocation");
    std::string s = text;
    if (!r)
      for (u64 back = 1; back <= 4096; back *= 2)
        if (const Region* near = region_of(a - back)) {
          std::snprintf(text, sizeof(text), " (%llu bytes after the end of an allocation of %llu bytes)",
                        static_cast<unsigned long long>(a - near->hi),
                        static_cast<unsigned long long>(near->hi - near->lo));
          s += text;
          break;
        }
    fault(w, in, lane, illegal_address, s);
  }
  in.lo = r->lo;
  in.hi = r->hi;
  in.shift = r->host ? 0 : delta;
  return reinterpret_cast<u8*>(a + in.shift);
}
inline u8* shared_pointer(Warp& w, const Instruction& in, int lane, u64 a, u32 bytes, bool write) {
  const u64 at = a - shared_base;
  if (at >= w.block->shared.size() || at + bytes > w.block->shared.size()) [[unlikely]] {
    char text[160];
    std::snprintf(text, sizeof(text), "%s of %u bytes of shared memory at %lld of %zu", write ? "store" : "load", bytes,
                  static_cast<long long>(at), w.block->shared.size());
    fault(w, in, lane, illegal_address, text);
  }
  if (options.races) [[unlikely]]
    watch_shared(w, in, lane, static_cast<u32>(at), bytes, write);
  return w.block->shared.data() + at;
}
template <Space space>
[[gnu::always_inline]] inline u8* pointer(Warp& w, const Instruction& in, int lane, u64 a, u32 bytes, bool write) {
  if (a & (bytes - 1)) [[unlikely]] {
    char text[100];
    std::snprintf(text, sizeof(text), "address %#llx is not a multiple of %u", static_cast<unsigned long long>(a),
                  bytes);
    fault(w, in, lane, misaligned, text);
  }
  if constexpr (space == s_global) return global_pointer(w, in, lane, a, bytes, write);
  if constexpr (space == s_shared) return shared_pointer(w, in, lane, a, bytes, write);
  if constexpr (space == s_param) {
    if (a + bytes > w.block->params.size()) fault(w, in, lane, illegal_address, "beyond the parameters");
    return w.block->params.data() + a;
  }
  if constexpr (space == s_local) {
    if (a + bytes > w.block->kernel->local_bytes) fault(w, in, lane, illegal_address, "beyond the local memory");
    return w.block->local.data() +
           (static_cast<u64>(w.id) * 32 + static_cast<u64>(lane)) * w.block->kernel->local_bytes + a;
  }
  if (a >= param_window) return pointer<s_param>(w, in, lane, a - param_window, bytes, write);
  if (a >= local_window) return pointer<s_local>(w, in, lane, a - local_window, bytes, write);
  if (a >= shared_window) return pointer<s_shared>(w, in, lane, a - shared_window, bytes, write);
  return pointer<s_global>(w, in, lane, a, bytes, write);
}
inline void addresses(Warp& w, const Instruction&, const Operand& o, s64 offset, u64 (&to)[32]) {
  if (o.size == 8) {
    const u64* a = reg<u64>(w, o);
    for (int i = 0; i < 32; ++i) to[i] = a[i] + static_cast<u64>(offset);
  } else {
    const u32* a = reg<u32>(w, o);
    for (int i = 0; i < 32; ++i) to[i] = a[i] + static_cast<u64>(offset);
  }
}

void count_shared(Warp& w, const u64 (&at)[32], u32 m, u32 bytes, bool write);
void count_global(Warp& w, const u64 (&at)[32], u32 m, u32 bytes, bool write);
template <Space space>
[[gnu::always_inline]] inline void count_access(Warp& w, const u64 (&at)[32], u32 m, u32 bytes, bool write) {
  if (!options.count_traffic) [[likely]]
    return;
  if constexpr (space == s_shared) count_shared(w, at, m, bytes, write);
  if constexpr (space == s_global) count_global(w, at, m, bytes, write);
}

template <class M, class R, int n, Space space>
void load(Warp& w, const Instruction& in, u32 m) {
  u64 at[32];
  addresses(w, in, in.a, in.imm, at);
  count_access<space>(w, at, m, sizeof(M) * n, false);
  R* d[n];
  for (int k = 0; k < n; ++k) d[k] = in.v[k].absent ? nullptr : reg<R>(w, in.v[k]);
  lanes(m, [&](int i) {
    const u8* p = pointer<space>(w, in, i, at[i], sizeof(M) * n, false);
    for (int k = 0; k < n; ++k) {
      M x;
      std::memcpy(&x, p + sizeof(M) * static_cast<u64>(k), sizeof(M));
      if (d[k]) d[k][i] = static_cast<R>(x);
    }
  });
}
template <class M, class R, int n, Space space>
void store(Warp& w, const Instruction& in, u32 m) {
  u64 at[32];
  addresses(w, in, in.a, in.imm, at);
  count_access<space>(w, at, m, sizeof(M) * n, true);
  const R* d[n];
  for (int k = 0; k < n; ++k) d[k] = reg<R>(w, in.v[k]);
  lanes(m, [&](int i) {
    u8* p = pointer<space>(w, in, i, at[i], sizeof(M) * n, true);
    for (int k = 0; k < n; ++k) {
      const M x = static_cast<M>(d[k][i]);
      std::memcpy(p + sizeof(M) * static_cast<u64>(k), &x, sizeof(M));
    }
  });
}

enum AtomOp : u8 { a_add, a_exch, a_max, a_min, a_and, a_or, a_xor, a_cas, a_inc, a_dec };
template <class T, Space space>
void atom(Warp& w, const Instruction& in, u32 m) {
  u64 at[32];
  addresses(w, in, in.a, in.imm, at);
  const T *b = reg<T>(w, in.b), *c = in.modifier == a_cas ? reg<T>(w, in.c) : b;
  T* d = in.d.absent ? nullptr : reg<T>(w, in.d);
  lanes(m, [&](int i) {
    u8* p = pointer<space>(w, in, i, at[i], sizeof(T), true);
    T old, now;
    std::memcpy(&old, p, sizeof(T));
    if constexpr (is_float<T>) {
      if (in.modifier == a_add)
        now = canon(old + b[i]);
      else if (in.modifier == a_exch)
        now = b[i];
      else
        fault(w, in, i, illegal_instruction, "atomic");
    } else
      switch (in.modifier) {
        case a_add: now = static_cast<T>(U<T>(old) + U<T>(b[i])); break;
        case a_exch: now = b[i]; break;
        case a_max: now = old > b[i] ? old : b[i]; break;
        case a_min: now = old < b[i] ? old : b[i]; break;
        case a_and: now = static_cast<T>(old & b[i]); break;
        case a_or: now = static_cast<T>(old | b[i]); break;
        case a_xor: now = static_cast<T>(old ^ b[i]); break;
        case a_cas: now = old == b[i] ? c[i] : old; break;
        case a_inc: now = static_cast<T>(old >= b[i] ? 0 : old + 1); break;
        case a_dec: now = static_cast<T>(old == 0 || old > b[i] ? b[i] : old - 1); break;
        default: fault(w, in, i, illegal_instruction, "atomic");
      }
    std::memcpy(p, &now, sizeof(T));
    if (d) d[i] = old;
  });
}

// --- cp.async -------------------------------------------------------------------------------------------------------------------------------
inline u32 copy_serial = 0;
inline void perform(Warp& w, const Instruction& in, int lane, const Copy& c) {
  // With mbarriers (async.hpp), others may wait for the copy: the write counts at its issue.
  u8* to = w.block->kernel->async ? w.block->shared.data() + (c.to - shared_base)
                                  : pointer<s_shared>(w, in, lane, c.to, c.bytes, true);
  std::memset(to, 0, c.bytes);
  if (c.valid) {
    // The source is checked at the issue; it may have been freed since, which is an error of the program.
    const Region* r = region_of(c.from);
    if (!r || c.from + c.valid > r->hi) fault(w, in, lane, illegal_address, "cp.async: its source is gone");
    std::memcpy(to, reinterpret_cast<const u8*>(c.from + (r->host ? 0 : delta)), c.valid);
  }
}
inline void cp_async(Warp& w, const Instruction& in,
                     u32 m) {  // d: shared address, a: global address, imm: bytes, b: valid bytes
  u64 to[32], from[32];
  addresses(w, in, in.d, in.imm2, to);
  addresses(w, in, in.a, in.imm3, from);
  const u32 bytes = static_cast<u32>(in.imm);
  if (options.count_traffic) count_shared(w, to, m, bytes, true), count_global(w, from, m, bytes, false);
  const u32* valid = in.b.absent ? nullptr : reg<u32>(w, in.b);
  lanes(m, [&](int i) {
    u32 n = valid ? valid[i] : bytes;
    if (n > bytes) fault(w, in, i, illegal_instruction, "cp.async: src-size exceeds cp-size");
    if (to[i] % bytes || from[i] % bytes) fault(w, in, i, misaligned, "cp.async: misaligned address");
    pointer<s_shared>(w, in, i, to[i], bytes, true);
    if (n) {
      const Region* r = region_of(from[i]);
      if (!r || from[i] + n > r->hi) {
        in.lo = 1, in.hi = 0;
        global_pointer(w, in, i, from[i], n, false);
      } else if (options.global_races)
        watch_global(w, in, i, from[i], n, false);
    }
    const Copy c{static_cast<u32>(to[i]), from[i], bytes, n, w.groups[i], ++copy_serial};
    if (options.early_copies)
      perform(w, in, i, c);
    else
      w.copies[i].push_back(c), w.any_copies = true;
  });
}
inline void cp_commit(Warp& w, const Instruction&, u32 m) {
  lanes(m, [&](int i) { ++w.groups[i]; });
}
inline void cp_wait(Warp& w, const Instruction& in, u32 m) {  // imm: groups that may remain; -1: all, committed or not
  if (!w.any_copies) return;
  lanes(m, [&](int i) {
    auto& queue = w.copies[i];
    std::size_t n = 0;
    while (n < queue.size() && (in.imm < 0 || s64{queue[n].group} < s64{w.groups[i]} - in.imm))
      perform(w, in, i, queue[n++]);
    queue.erase(queue.begin(), queue.begin() + static_cast<std::ptrdiff_t>(n));
  });
}

// --- warps ----------------------------------------------------------------------------------------------------------------------------------
inline void shfl(Warp& w, const Instruction& in, u32 m) {  // sub: 0 up, 1 down, 2 bfly, 3 idx
  u32 a[32];
  std::memcpy(a, reg<u32>(w, in.a), sizeof(a));
  const u32 *b = reg<u32>(w, in.b), *c = reg<u32>(w, in.c);
  u32* d = reg<u32>(w, in.d);
  u32 p = 0, out[32];
  for (int i = 0; i < 32; ++i) {
    const int bval = static_cast<int>(b[i] & 31), cval = static_cast<int>(c[i] & 31),
              seg = static_cast<int>(c[i] >> 8 & 31);
    const int most = (i & seg) | (cval & ~seg & 31), least = i & seg;
    int j;
    bool ok;
    switch (in.modifier) {
      case 0:
        j = i - bval;
        ok = j >= most;
        break;
      case 1:
        j = i + bval;
        ok = j <= most;
        break;
      case 2:
        j = i ^ bval;
        ok = j <= most;
        break;
      default: j = least | (bval & ~seg & 31); ok = j <= most;
    }
    if (!ok) j = i;
    out[i] = (m >> j & 1) ? a[j] : 0xffffffffu;  // the value of a lane that does not take part is undefined
    p |= u32{ok} << i;
  }
  each(d, m, [&](int i) { return out[i]; });
  set_pred(w, in.d2, m, p);
}
inline void vote_pred(Warp& w, const Instruction& in, u32 m) {
  const u32 p = pred_of(w, in.a) & m;
  const bool r = in.modifier == 0 ? p == m : in.modifier == 1 ? p != 0 : (p == 0 || p == m);
  set_pred(w, in.d, m, r ? all : 0);
}
inline void vote_ballot(Warp& w, const Instruction& in, u32 m) {
  const u32 p = pred_of(w, in.a) & m;
  each(reg<u32>(w, in.d), m, [&](int) { return p; });
}
template <class T>
void match_any(Warp& w, const Instruction& in, u32 m) {
  const T* a = reg<T>(w, in.a);
  u32 out[32];
  lanes(m, [&](int i) {
    u32 r = 0;
    lanes(m, [&](int j) {
      if (a[j] == a[i]) r |= 1u << j;
    });
    out[i] = r;
  });
  u32* d = reg<u32>(w, in.d);
  lanes(m, [&](int i) { d[i] = out[i]; });
}
template <class T>
void redux(Warp& w, const Instruction& in, u32 m) {
  const T* a = reg<T>(w, in.a);
  T r{};
  bool first = true;
  lanes(m, [&](int i) {
    if (first) {
      r = a[i], first = false;
      return;
    }
    switch (in.modifier) {
      case a_add: r = static_cast<T>(U<T>(r) + U<T>(a[i])); break;
      case a_max: r = std::max(r, a[i]); break;
      case a_min: r = std::min(r, a[i]); break;
      case a_and: r &= a[i]; break;
      case a_or: r |= a[i]; break;
      default: r ^= a[i];
    }
  });
  T* d = reg<T>(w, in.d);
  lanes(m, [&](int i) { d[i] = r; });
}
inline void active_mask(Warp& w, const Instruction& in, u32 m) {
  each(reg<u32>(w, in.d), m, [&](int) { return m; });
}
inline void nothing(Warp&, const Instruction&, u32) {}

// ldmatrix: lane 8 k + r passes the address of row r of matrix k. imm: offset, sub: matrices, sub2: transposed.
inline void ldmatrix(Warp& w, const Instruction& in, u32 m) {
  if (m != all) fault(w, in, 0, illegal_instruction, "ldmatrix by a part of a warp");
  u64 at[32];
  addresses(w, in, in.a, in.imm, at);
  if (options.count_traffic) count_shared(w, at, in.modifier == 4 ? all : (1u << 8 * in.modifier) - 1, 16, false);
  u16 rows[4][8][8];
  for (int k = 0; k < in.modifier; ++k)
    for (int r = 0; r < 8; ++r) {
      const int lane = 8 * k + r;
      std::memcpy(rows[k][r], pointer<s_shared>(w, in, lane, at[lane], 16, false), 16);
    }
  for (int k = 0; k < in.modifier; ++k) {
    u32* d = reg<u32>(w, in.v[k]);
    for (int l = 0; l < 32; ++l) {
      const int g = l / 4, t = l % 4;
      d[l] = in.modifier2 ? u32{rows[k][2 * t][g]} | u32{rows[k][2 * t + 1][g]} << 16
                          : u32{rows[k][g][2 * t]} | u32{rows[k][g][2 * t + 1]} << 16;
    }
  }
}

// stmatrix: the inverse, of the registers v.
inline void stmatrix(Warp& w, const Instruction& in, u32 m) {
  if (m != all) fault(w, in, 0, illegal_instruction, "stmatrix by a part of a warp");
  u64 at[32];
  addresses(w, in, in.a, in.imm, at);
  if (options.count_traffic) count_shared(w, at, in.modifier == 4 ? all : (1u << 8 * in.modifier) - 1, 16, true);
  for (int k = 0; k < in.modifier; ++k) {
    const u32* d = reg<u32>(w, in.v[k]);
    u16 rows[8][8];
    for (int l = 0; l < 32; ++l)
      for (int h = 0; h < 2; ++h)
        (in.modifier2 ? rows[l % 4 * 2 + h][l / 4] : rows[l / 4][l % 4 * 2 + h]) = static_cast<u16>(d[l] >> 16 * h);
    for (int r = 0; r < 8; ++r) std::memcpy(pointer<s_shared>(w, in, 8 * k + r, at[8 * k + r], 16, true), rows[r], 16);
  }
}

// One row of products. Exact up to one rounding, or like a tensor core: the products and the addend are aligned to the greatest exponent and
// cut off two bits below fp32's, and the result is cut off.
template <int K>
inline void dot_row(const float* a, const float (*b)[8], float* c) {
  if (!options.mma_hw) {
    double s[8];
    for (int n = 0; n < 8; ++n) s[n] = c[n];
    for (int k = 0; k < K; ++k) {
      const double x = a[k];
      for (int n = 0; n < 8; ++n) s[n] += x * static_cast<double>(b[k][n]);
    }
    for (int n = 0; n < 8; ++n) c[n] = canon(static_cast<float>(s[n]));
    return;
  }
  for (int n = 0; n < 8; ++n) {
    double p[K + 1];
    int top = -10000;
    bool finite = true;
    p[K] = c[n];
    for (int k = 0; k < K; ++k) p[k] = static_cast<double>(a[k]) * static_cast<double>(b[k][n]);
    for (const double x : p) {
      if (!std::isfinite(x))
        finite = false;
      else if (x != 0)
        top = std::max(top, std::ilogb(x));
    }
    if (!finite) {
      double s = 0;
      for (const double x : p) s += x;
      c[n] = canon(static_cast<float>(s));
      continue;
    }
    if (top == -10000) {
      c[n] = 0;
      continue;
    }
    const double unit = std::ldexp(1.0, top - 25);
    double s = 0;
    for (const double x : p) s += std::trunc(x / unit);
    s *= unit;
    float r = static_cast<float>(s);
    if (std::fabs(static_cast<double>(r)) > std::fabs(s)) r = std::nextafterf(r, 0);
    c[n] = r;
  }
}
// A: v[0..3] = registers d; the operands' registers are consecutive in `operands`.
struct MmaOperands {
  Operand d[4], a[4], b[2], c[4];
};
inline const MmaOperands& mma_operands(const Instruction& in) { return *reinterpret_cast<const MmaOperands*>(in.imm); }
inline void mma_store(Warp& w, const MmaOperands& o, const float (&c)[16][8]) {
  for (int e = 0; e < 4; ++e) {
    float* d = reg<float>(w, o.d[e]);
    for (int l = 0; l < 32; ++l) d[l] = c[l / 4 + e / 2 * 8][l % 4 * 2 + e % 2];
  }
}
inline void mma_load_c(Warp& w, const MmaOperands& o, float (&c)[16][8]) {
  for (int e = 0; e < 4; ++e) {
    const float* x = reg<float>(w, o.c[e]);
    for (int l = 0; l < 32; ++l) c[l / 4 + e / 2 * 8][l % 4 * 2 + e % 2] = x[l];
  }
}
template <bool half>
void mma_16(Warp& w, const Instruction& in, u32 m) {  // m16n8k16, bf16 or f16
  if (m != all) fault(w, in, 0, illegal_instruction, "mma by a part of a warp");
  const MmaOperands& o = mma_operands(in);
  float a[16][16], b[16][8], c[16][8];
  const auto f = [](u32 x) { return half ? from_f16(static_cast<u16>(x)) : from_bf16(static_cast<u16>(x)); };
  for (int r = 0; r < 4; ++r) {
    const u32* x = reg<u32>(w, o.a[r]);
    for (int l = 0; l < 32; ++l)
      for (int h = 0; h < 2; ++h) a[l / 4 + r % 2 * 8][l % 4 * 2 + h + r / 2 * 8] = f(x[l] >> 16 * h);
  }
  for (int r = 0; r < 2; ++r) {
    const u32* x = reg<u32>(w, o.b[r]);
    for (int l = 0; l < 32; ++l)
      for (int h = 0; h < 2; ++h) b[l % 4 * 2 + h + r * 8][l / 4] = f(x[l] >> 16 * h);
  }
  mma_load_c(w, o, c);
  for (int i = 0; i < 16; ++i) dot_row<16>(a[i], b, c[i]);
  mma_store(w, o, c);
}
inline void mma_tf32(Warp& w, const Instruction& in, u32 m) {  // m16n8k8
  if (m != all) fault(w, in, 0, illegal_instruction, "mma by a part of a warp");
  const MmaOperands& o = mma_operands(in);
  float a[16][8], b[8][8], c[16][8];
  const auto f = [](u32 x) { return std::bit_cast<float>(x & 0xffffe000u); };
  for (int r = 0; r < 4; ++r) {
    const u32* x = reg<u32>(w, o.a[r]);
    for (int l = 0; l < 32; ++l) a[l / 4 + r % 2 * 8][l % 4 + r / 2 * 4] = f(x[l]);
  }
  for (int r = 0; r < 2; ++r) {
    const u32* x = reg<u32>(w, o.b[r]);
    for (int l = 0; l < 32; ++l) b[l % 4 + r * 4][l / 4] = f(x[l]);
  }
  mma_load_c(w, o, c);
  for (int i = 0; i < 16; ++i) dot_row<8>(a[i], b, c[i]);
  mma_store(w, o, c);
}

}  // namespace heddle::ptx
