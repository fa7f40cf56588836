// Decodes the body of a kernel. What it does not know ends the process with the instruction's text.
#include <algorithm>
#include <cctype>
#include <deque>

#include "async.hpp"

namespace heddle::ptx {

const char* const category_names[category_count] = {
    "mma",      "ldmatrix", "ld.global", "st.global", "ld.shared", "st.shared", "ld.param",  "ld/st other",
    "cp.async", "atom",     "bar",       "wgmma",     "bulk copy", "mbarrier",  "shfl/vote", "cvt",
    "mufu",     "div/sqrt", "fp",        "int",       "pred",      "mov",       "branch",    "other"};

namespace {

enum Type : u8 { U8, U16, U32, U64, S8, S16, S32, S64, F16t, BF16t, F32, F64, PRED, TF32t, BF16X2, F16X2, NONE };
Type type_of(const std::string& t) {
  static const std::map<std::string, Type> types = {
      {"u8", U8},   {"u16", U16}, {"u32", U32},   {"u64", U64},    {"s8", S8},         {"s16", S16},    {"s32", S32},
      {"s64", S64}, {"b8", U8},   {"b16", U16},   {"b32", U32},    {"b64", U64},       {"f16", F16t},   {"bf16", BF16t},
      {"f32", F32}, {"f64", F64}, {"pred", PRED}, {"tf32", TF32t}, {"bf16x2", BF16X2}, {"f16x2", F16X2}};
  const auto at = types.find(t);
  return at == types.end() ? NONE : at->second;
}
u32 bytes_of(Type t) {
  switch (t) {
    case U8:
    case S8: return 1;
    case U16:
    case S16:
    case F16t:
    case BF16t: return 2;
    case U64:
    case S64:
    case F64: return 8;
    case PRED: return 0;
    default: return 4;
  }
}
std::string trimmed(const std::string& s) {
  const auto a = s.find_first_not_of(" \t\r\n"), b = s.find_last_not_of(" \t\r\n");
  return a == std::string::npos ? "" : s.substr(a, b - a + 1);
}
std::vector<std::string> split(const std::string& s, char at) {  // outside of braces and brackets
  std::vector<std::string> out;
  std::string part;
  int depth = 0;
  for (const char c : s) {
    if (c == '{' || c == '[' || c == '(') ++depth;
    if (c == '}' || c == ']' || c == ')') --depth;
    if (c == at && depth == 0)
      out.push_back(trimmed(part)), part.clear();
    else
      part += c;
  }
  if (!trimmed(part).empty()) out.push_back(trimmed(part));
  return out;
}

struct Register {
  u32 offset;
  Type type;
};
struct Decoder {
  Kernel& k;
  std::vector<std::unordered_map<std::string, Register>> scopes{1};
  std::unordered_map<std::string, u32> labels, shared_at, local_at;  // labels: number of the scope, then the name
  struct Jump {
    u32 at;
    std::string label;
    std::vector<int> path;
  };
  std::vector<Jump> jumps;
  std::vector<int> path{0};  // of scopes
  int scope_count = 0;
  std::map<std::pair<u64, u32>, u32> constant_at;
  std::string text;  // of the current instruction
  u32 shared_bytes = 0;
  bool laid_out = false;  // the shared arrays

  [[noreturn]] void bad(const std::string& why) { unsupported(why + ": '" + text + "' in " + demangled(k.name)); }

  u32 allot(u32 bytes) {
    const u32 at = k.reg_bytes;
    k.reg_bytes += (bytes * 32 + 63) / 64 * 64;
    return at;
  }
  void declare(const std::string& name, Type t) {
    scopes.back()[name] = {t == PRED ? k.preds++ : allot(bytes_of(t)), t};
  }
  Operand constant(u64 value, u32 bytes) {
    const auto [at, fresh] = constant_at.try_emplace({value, bytes}, static_cast<u32>(k.constants.size()));
    if (fresh) {
      k.constants.resize(k.constants.size() + (32 * bytes + 63) / 64 * 64);
      for (u32 i = 0; i < 32; ++i) std::memcpy(k.constants.data() + at->second + i * bytes, &value, bytes);
    }
    Operand o;
    o.offset = at->second;
    o.constant = 1;
    o.size = static_cast<u8>(bytes);
    o.absent = false;
    return o;
  }
  Operand special(const std::string& name) {
    static const char* const known[] = {"%tid.x",
                                        "%tid.y",
                                        "%tid.z",
                                        "%ntid.x",
                                        "%ntid.y",
                                        "%ntid.z",
                                        "%ctaid.x",
                                        "%ctaid.y",
                                        "%ctaid.z",
                                        "%nctaid.x",
                                        "%nctaid.y",
                                        "%nctaid.z",
                                        "%laneid",
                                        "%warpid",
                                        "%nwarpid",
                                        "%smid",
                                        "%nsmid",
                                        "%lanemask_eq",
                                        "%lanemask_le",
                                        "%lanemask_lt",
                                        "%lanemask_ge",
                                        "%lanemask_gt",
                                        "%dynamic_smem_size",
                                        "%total_smem_size",
                                        "%clusterid.x",
                                        "%clusterid.y",
                                        "%clusterid.z",
                                        "%nclusterid.x",
                                        "%nclusterid.y",
                                        "%nclusterid.z",
                                        "%cluster_ctaid.x",
                                        "%cluster_ctaid.y",
                                        "%cluster_ctaid.z",
                                        "%cluster_nctaid.x",
                                        "%cluster_nctaid.y",
                                        "%cluster_nctaid.z",
                                        "%cluster_ctarank",
                                        "%cluster_nctarank"};
    bool found = false;
    for (const auto* n : known) found |= name == n;
    if (!found) bad("register " + name);
    Operand o;
    o.size = 4;
    o.absent = false;
    for (const auto& [n, at] : k.specials)
      if (n == name) {
        o.offset = at;
        return o;
      }
    o.offset = allot(4);
    k.specials.push_back({name, o.offset});
    return o;
  }
  const Register* find(const std::string& name) {
    for (auto s = scopes.rbegin(); s != scopes.rend(); ++s)
      if (const auto at = s->find(name); at != s->end()) return &at->second;
    return nullptr;
  }
  bool symbol(const std::string& name, u64& value, Space& space) {
    for (const auto& p : k.params)
      if (p.name == name) {
        value = p.offset;
        space = s_param;
        return true;
      }
    if (const auto at = local_at.find(name); at != local_at.end()) {
      value = at->second;
      space = s_local;
      return true;
    }
    if (const auto at = shared_at.find(name); at != shared_at.end()) {
      value = shared_base + at->second;
      space = s_shared;
      return true;
    }
    if (const auto at = k.module->shareds.find(name); at != k.module->shareds.end()) {
      if (at->second.external) bad("dynamic shared memory was not laid out");
      shared_bytes = (shared_bytes + at->second.align - 1) / at->second.align * at->second.align;
      shared_at[name] = shared_bytes;
      value = shared_base + shared_bytes;
      space = s_shared;
      shared_bytes += at->second.size;
      return true;
    }
    if (const auto at = k.module->globals.find(name); at != k.module->globals.end()) {
      value = at->second.address;
      space = s_global;
      return true;
    }
    return false;
  }
  // An operand of `bytes` bytes; 0: any register. Predicates have type PRED.
  Operand operand(std::string s, u32 bytes, bool predicate = false) {
    Operand o;
    if (s == "_") return o;
    if (s.empty()) bad("operand missing");
    if (s[0] == '!') o.negated = true, s = trimmed(s.substr(1));
    if (const Register* r = find(s)) {
      if (predicate != (r->type == PRED)) bad("operand " + s);
      if (bytes && !predicate && bytes_of(r->type) != bytes) bad("size of operand " + s);
      o.offset = r->offset;
      o.size = static_cast<u8>(bytes_of(r->type));
      o.absent = false;
      return o;
    }
    if (predicate) {
      if (!std::isdigit(static_cast<unsigned char>(s[0])) && s[0] != '-') bad("predicate " + s);
      o.constant = 1;
      o.offset = std::atoi(s.c_str()) ? ~0u : 0;
      o.absent = false;
      return o;
    }
    if (s[0] == '%') {
      Operand p = special(s);
      if (bytes && bytes != 4) bad("size of " + s);
      return p;
    }
    u64 value;
    if (s.starts_with("0f") || s.starts_with("0F") || s.starts_with("0d") || s.starts_with("0D")) {
      value = std::strtoull(s.c_str() + 2, nullptr, 16);
      if ((s[1] == 'f' || s[1] == 'F') && bytes == 8)
        value = std::bit_cast<u64>(static_cast<double>(std::bit_cast<float>(static_cast<u32>(value))));
    } else if (std::isdigit(static_cast<unsigned char>(s[0])) || s[0] == '-' || s[0] == '+') {
      char* end;
      value = s[0] == '-' ? static_cast<u64>(std::strtoll(s.c_str(), &end, 0)) : std::strtoull(s.c_str(), &end, 0);
      if (*end && *end != 'U') bad("number " + s);
    } else {
      std::string name = s;
      s64 offset = 0;
      if (const auto plus = s.find('+'); plus != std::string::npos)
        name = trimmed(s.substr(0, plus)), offset = std::strtoll(s.c_str() + plus + 1, nullptr, 0);
      Space space;
      if (!symbol(name, value, space)) bad("operand " + s);
      value += static_cast<u64>(offset);
      if (!bytes) bytes = 8;
    }
    if (!bytes) bytes = 4;
    return constant(value, bytes);
  }
  // [register + offset], [symbol + offset]
  Operand address(const std::string& s, s64& offset, Space* symbol_space = nullptr) {
    if (s.size() < 2 || s[0] != '[' || s.back() != ']') bad("address " + s);
    std::string base = trimmed(s.substr(1, s.size() - 2));
    offset = 0;
    if (const auto plus = base.find('+'); plus != std::string::npos) {
      offset = std::strtoll(trimmed(base.substr(plus + 1)).c_str(), nullptr, 0);
      base = trimmed(base.substr(0, plus));
    }
    if (find(base)) {
      Operand o = operand(base, 0);
      if (o.size != 4 && o.size != 8) bad("address " + s);
      return o;
    }
    u64 value;
    Space space = s_generic;
    if (symbol(base, value, space)) {
      if (symbol_space) *symbol_space = space;
      return constant(value, 8);
    }
    if (std::isdigit(static_cast<unsigned char>(base[0])) || base[0] == '-')
      return constant(static_cast<u64>(std::strtoll(base.c_str(), nullptr, 0)), 8);
    bad("address " + s);
  }
  std::vector<std::string> list(const std::string& s) {
    if (s.size() > 1 && s[0] == '{') return split(s.substr(1, s.size() - 2), ',');
    return {s};
  }

  void directive(const std::string& s) {
    if (s.starts_with(".pragma") || s.starts_with(".loc ") || s.starts_with(".loc\t") || s.starts_with(".file")) return;
    if (s.starts_with(".reg")) {
      std::string rest = trimmed(s.substr(4));
      if (rest.starts_with(".align")) bad("directive");
      const auto space = rest.find_first_of(" \t");
      const Type t = type_of(rest.substr(1, space - 1));
      if (t == NONE) bad("type");
      for (const auto& name : split(rest.substr(space), ',')) {
        const auto open = name.find('<');
        if (open == std::string::npos)
          declare(name, t);
        else
          for (int i = 0, n = std::atoi(name.c_str() + open + 1); i < n; ++i)
            declare(name.substr(0, open) + std::to_string(i), t);
      }
      return;
    }
    if (s.starts_with(".shared") || s.starts_with(".local")) {
      if (s[1] == 's' && laid_out) return;
      u32 align = 1, element = 1, count = 1;
      std::string name;
      std::string w;
      std::vector<std::string> ws;
      for (const char c : s + " ") {
        if (std::isspace(static_cast<unsigned char>(c))) {
          if (!w.empty()) ws.push_back(w);
          w.clear();
        } else
          w += c;
      }
      for (std::size_t i = 1; i < ws.size(); ++i) {
        if (ws[i] == ".align")
          align = static_cast<u32>(std::atoi(ws[++i].c_str()));
        else if (ws[i][0] == '.')
          element = bytes_of(type_of(ws[i].substr(1)));
        else {
          name = ws[i].substr(0, ws[i].find('['));
          for (auto p = ws[i].find('['); p != std::string::npos; p = ws[i].find('[', p + 1))
            count *= static_cast<u32>(std::atoi(ws[i].c_str() + p + 1));
        }
      }
      align = std::max(align, element);
      u32& used = s[1] == 's' ? shared_bytes : k.local_bytes;
      used = (used + align - 1) / align * align;
      (s[1] == 's' ? shared_at : local_at)[name] = used;
      used += element * count;
      return;
    }
    bad("directive");
  }

  template <class F>
  static Execute integers(Type t, F&& f) {
    switch (t) {
      case U16: return f(u16{});
      case U32: return f(u32{});
      case U64: return f(u64{});
      case S16: return f(s16{});
      case S32: return f(s32{});
      case S64: return f(s64{});
      default: return nullptr;
    }
  }
  template <class F>
  static Execute floats(Type t, F&& f) {
    switch (t) {
      case F32: return f(float{});
      case F64: return f(double{});
      default: return nullptr;
    }
  }
  template <class F>
  static Execute numbers(Type t, F&& f) {
    Execute r = integers(t, f);
    return r ? r : floats(t, f);
  }
  template <class F>
  static Execute bits(Type t, F&& f) {
    switch (bytes_of(t)) {
      case 2: return f(u16{});
      case 4: return f(u32{});
      case 8: return f(u64{});
      default: return nullptr;
    }
  }
  template <class F>
  static Execute sizes(u32 bytes, F&& f) {
    switch (bytes) {
      case 2: return f(u16{});
      case 4: return f(u32{});
      case 8: return f(u64{});
      default: return nullptr;
    }
  }

  template <class M, int n, bool is_load>
  static Execute access_n(Space space, u32 register_bytes) {
    const auto with = [&](auto r) -> Execute {
      using R = decltype(r);
      if constexpr (sizeof(R) < sizeof(M))
        return nullptr;
      else
        switch (space) {
          case s_generic:
            if constexpr (is_load)
              return load<M, R, n, s_generic>;
            else
              return store<M, R, n, s_generic>;
          case s_global:
            if constexpr (is_load)
              return load<M, R, n, s_global>;
            else
              return store<M, R, n, s_global>;
          case s_shared:
            if constexpr (is_load)
              return load<M, R, n, s_shared>;
            else
              return store<M, R, n, s_shared>;
          case s_param:
            if constexpr (is_load)
              return load<M, R, n, s_param>;
            else
              return nullptr;
          case s_local:
            if constexpr (is_load)
              return load<M, R, n, s_local>;
            else
              return store<M, R, n, s_local>;
        }
      return nullptr;
    };
    // A signed value is extended to the register.
    if constexpr (std::is_signed_v<M>) switch (register_bytes) {
        case 2: return with(s16{});
        case 4: return with(s32{});
        case 8: return with(s64{});
      }
    else
      switch (register_bytes) {
        case 2: return with(u16{});
        case 4: return with(u32{});
        case 8: return with(u64{});
      }
    return nullptr;
  }
  template <class M, bool is_load>
  static Execute access_m(Space space, u32 register_bytes, std::size_t n) {
    switch (n) {
      case 1: return access_n<M, 1, is_load>(space, register_bytes);
      case 2: return access_n<M, 2, is_load>(space, register_bytes);
      case 4: return access_n<M, 4, is_load>(space, register_bytes);
      default: return nullptr;
    }
  }
  template <bool is_load>
  static Execute access(Type t, Space space, u32 register_bytes, std::size_t n) {
    switch (t) {
      case U8: return access_m<u8, is_load>(space, register_bytes, n);
      case S8: return access_m<s8, is_load>(space, register_bytes, n);
      case U16:
      case F16t:
      case BF16t: return access_m<u16, is_load>(space, register_bytes, n);
      case S16: return access_m<s16, is_load>(space, register_bytes, n);
      case U32:
      case F32:
      case BF16X2:
      case F16X2: return access_m<u32, is_load>(space, register_bytes, n);
      case S32: return access_m<s32, is_load>(space, register_bytes, n);
      case U64:
      case F64:
      case S64: return access_m<u64, is_load>(space, register_bytes, n);
      default: return nullptr;
    }
  }

  void instruction(std::string s);
  bool hopper(Instruction& in, const std::vector<std::string>& q, const std::vector<std::string>& o);
  void registers(const Instruction& in, const std::string& name, const std::vector<std::string>& o);
  void body();
};

Execute set_fn(Type t, const std::string& cmp) {
  const auto with = [&](auto x) -> Execute {
    using T = decltype(x);
    if (cmp == "eq") return setp<T, Eq>;
    if (cmp == "ne") return setp<T, Ne>;
    if (cmp == "lt" || cmp == "lo") return setp<T, Lt>;
    if (cmp == "le" || cmp == "ls") return setp<T, Le>;
    if (cmp == "gt" || cmp == "hi") return setp<T, Gt>;
    if (cmp == "ge" || cmp == "hs") return setp<T, Ge>;
    if constexpr (std::is_floating_point_v<T>) {
      if (cmp == "equ") return setp<T, Equ>;
      if (cmp == "neu") return setp<T, Neu>;
      if (cmp == "ltu") return setp<T, Ltu>;
      if (cmp == "leu") return setp<T, Leu>;
      if (cmp == "gtu") return setp<T, Gtu>;
      if (cmp == "geu") return setp<T, Geu>;
      if (cmp == "num") return setp<T, Num>;
      if (cmp == "nan") return setp<T, Nan>;
    }
    return nullptr;
  };
  switch (t) {
    case U16: return with(u16{});
    case U32: return with(u32{});
    case U64: return with(u64{});
    case S16: return with(s16{});
    case S32: return with(s32{});
    case S64: return with(s64{});
    case F32: return with(float{});
    case F64: return with(double{});
    default: return nullptr;
  }
}

template <class D>
Execute to_int(Type source, int mode) {
  if (source == F32) switch (mode) {
      case 0: return change_slow<D, float, ToInt<D, 0>>;
      case 1: return change_slow<D, float, ToInt<D, 1>>;
      case 2: return change_slow<D, float, ToInt<D, 2>>;
      default: return change_slow<D, float, ToInt<D, 3>>;
    }
  if (source == F64) switch (mode) {
      case 0: return change_slow<D, double, ToInt<D, 0>>;
      case 1: return change_slow<D, double, ToInt<D, 1>>;
      case 2: return change_slow<D, double, ToInt<D, 2>>;
      default: return change_slow<D, double, ToInt<D, 3>>;
    }
  return nullptr;
}

Execute int_convert(Type dt, u32 dr, Type st, u32 sr) {
  Execute r = nullptr;
  const auto source_type = [&](auto d_reg, auto d_type, auto s_reg) -> Execute {
    using DR = decltype(d_reg);
    using DT = decltype(d_type);
    using SR = decltype(s_reg);
    switch (st) {
      case U8: return convert<DR, DT, SR, u8>;
      case S8: return convert<DR, DT, SR, s8>;
      case U16: return convert<DR, DT, SR, u16>;
      case S16: return convert<DR, DT, SR, s16>;
      case U32: return convert<DR, DT, SR, u32>;
      case S32: return convert<DR, DT, SR, s32>;
      case U64: return convert<DR, DT, SR, u64>;
      case S64: return convert<DR, DT, SR, s64>;
      default: return nullptr;
    }
  };
  const auto source_reg = [&](auto d_reg, auto d_type) -> Execute {
    switch (sr) {
      case 2: return source_type(d_reg, d_type, u16{});
      case 4: return source_type(d_reg, d_type, u32{});
      case 8: return source_type(d_reg, d_type, u64{});
      default: return nullptr;
    }
  };
  const auto dest_type = [&](auto d_reg) -> Execute {
    switch (dt) {
      case U8: return source_reg(d_reg, u8{});
      case S8: return source_reg(d_reg, s8{});
      case U16: return source_reg(d_reg, u16{});
      case S16: return source_reg(d_reg, s16{});
      case U32: return source_reg(d_reg, u32{});
      case S32: return source_reg(d_reg, s32{});
      case U64: return source_reg(d_reg, u64{});
      case S64: return source_reg(d_reg, s64{});
      default: return nullptr;
    }
  };
  switch (dr) {
    case 2: r = dest_type(u16{}); break;
    case 4: r = dest_type(u32{}); break;
    case 8: r = dest_type(u64{}); break;
  }
  return r;
}

void Decoder::instruction(std::string s) {
  text = s;
  Instruction in;
  in.text = static_cast<u32>(k.texts.size());
  if (s[0] == '@') {
    const auto space = s.find_first_of(" \t");
    std::string p = s.substr(1, space - 1);
    in.guarded = true;
    if (p[0] == '!') in.guard_negated = true, p = p.substr(1);
    in.guard = operand(p, 0, true).offset;
    s = trimmed(s.substr(space));
  }
  const auto space = s.find_first_of(" \t\n");
  const std::string op = s.substr(0, space);
  std::vector<std::string> q = split(op, '.');
  for (auto& x : q)
    if (x == "shared::cta") x = "shared";
  const std::vector<std::string> o =
      space == std::string::npos ? std::vector<std::string>{} : split(s.substr(space), ',');
  const std::string& name = q[0];
  const auto has = [&](const char* x) {
    for (std::size_t i = 1; i < q.size(); ++i)
      if (q[i] == x) return true;
    return false;
  };
  const Type t = type_of(q.back());
  const u32 size = bytes_of(t);
  const auto only = [&](std::initializer_list<const char*> known) {  // refuses other qualifiers
    for (std::size_t i = 1; i < q.size(); ++i) {
      bool ok = type_of(q[i]) != NONE && i + 1 == q.size();
      for (const char* x : known) ok |= q[i] == x;
      if (!ok) bad("qualifier ." + q[i]);
    }
  };
  const auto count = [&](std::size_t n) {
    if (o.size() != n) bad("number of operands");
  };
  const auto dab = [&](u32 bytes) {
    in.d = operand(o[0], bytes);
    in.a = operand(o[1], bytes);
    if (o.size() > 2) in.b = operand(o[2], bytes);
    if (o.size() > 3) in.c = operand(o[3], bytes);
  };
  const auto pair = [&](const std::string& x, bool first_is_predicate) {  // d|p
    const auto bar = x.find('|');
    in.d = operand(trimmed(x.substr(0, bar)), first_is_predicate ? 0 : 4, first_is_predicate);
    if (bar != std::string::npos) in.d2 = operand(trimmed(x.substr(bar + 1)), 0, true);
  };
  int rounding = 0;  // MXCSR: 0 nearest, 1 down, 2 up, 3 zero
  if (has("rm")) rounding = 1;
  if (has("rp")) rounding = 2;
  if (has("rz")) rounding = 3;
  in.modifier = 0;

  if (hopper(in, q, o)) {
  } else if (name == "ld" || name == "st" || name == "ldu") {
    only({"global",
          "shared",
          "param",
          "local",
          "const",
          "v2",
          "v4",
          "volatile",
          "nc",
          "relaxed",
          "acquire",
          "release",
          "gpu",
          "cta",
          "sys",
          "weak",
          "cta",
          "entry",
          "func",
          "ca",
          "cg",
          "cs",
          "lu",
          "cv",
          "wb",
          "wt",
          "L1::evict_last",
          "L1::evict_first",
          "L1::no_allocate",
          "L1::evict_normal",
          "L1::evict_unchanged",
          "L2::128B",
          "L2::64B",
          "L2::256B"});
    count(2);
    Space sp = has("global") || has("const") ? s_global
               : has("shared")               ? s_shared
               : has("param")                ? s_param
               : has("local")                ? s_local
                                             : s_generic;
    const bool is_load = name != "st";
    in.strong = has("volatile") || has("relaxed") || has("acquire") || has("release");
    Space symbol_space = sp;
    in.a = address(o[is_load ? 1 : 0], in.imm, &symbol_space);
    if (symbol_space != sp) bad("state space of the address");
    const auto parts = list(o[is_load ? 0 : 1]);
    if (parts.size() != (has("v4") ? 4u : has("v2") ? 2u : 1u)) bad("vector length");
    u32 reg_bytes = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      in.v[i] = operand(parts[i], find(parts[i]) ? 0 : size < 2 ? 2 : size);
      if (in.v[i].absent) continue;
      if (reg_bytes && reg_bytes != in.v[i].size) bad("registers of different sizes");
      reg_bytes = in.v[i].size;
    }
    if (t == NONE || t == PRED) bad("type");
    in.fn = is_load ? access<true>(t, sp, reg_bytes, parts.size()) : access<false>(t, sp, reg_bytes, parts.size());
    in.category = sp == s_global   ? (is_load ? c_ld_global : c_st_global)
                  : sp == s_shared ? (is_load ? c_ld_shared : c_st_shared)
                  : sp == s_param  ? c_ld_param
                                   : c_generic;
  } else if (name == "mov") {
    count(2);
    in.category = c_mov;
    if (t == PRED) {
      in.d = operand(o[0], 0, true);
      in.a = operand(o[1], 0, true);
      in.modifier = 4;
      in.fn = pred_op;
      in.category = c_pred;
    } else if (o[1][0] == '{') {
      const auto parts = list(o[1]);
      in.d = operand(o[0], size);
      for (std::size_t i = 0; i < parts.size(); ++i) in.v[i] = operand(parts[i], size / static_cast<u32>(parts.size()));
      if (size == 4 && parts.size() == 2) in.fn = pack<u16, u32, 2>;
      if (size == 8 && parts.size() == 2) in.fn = pack<u32, u64, 2>;
      if (size == 8 && parts.size() == 4) in.fn = pack<u16, u64, 4>;
    } else if (o[0][0] == '{') {
      const auto parts = list(o[0]);
      in.a = operand(o[1], size);
      for (std::size_t i = 0; i < parts.size(); ++i) in.v[i] = operand(parts[i], size / static_cast<u32>(parts.size()));
      if (size == 4 && parts.size() == 2) in.fn = unpack<u16, u32, 2>;
      if (size == 8 && parts.size() == 2) in.fn = unpack<u32, u64, 2>;
      if (size == 8 && parts.size() == 4) in.fn = unpack<u16, u64, 4>;
    } else {
      dab(size);
      in.fn = bits(t, [](auto x) -> Execute { return mov<decltype(x)>; });
    }
  } else if (name == "add" || name == "sub" || name == "mul" || name == "mad" || name == "fma") {
    const bool real = t == F32 || t == F64;
    in.category = real ? c_fp : c_int;
    if (real) {
      only({"rn", "rm", "rp", "rz"});
      count(name == "fma" || name == "mad" ? 4 : 3);
      dab(size);
      in.modifier = static_cast<u8>(rounding);
      if (rounding && t == F32)
        in.fn = name == "add"   ? rounded2<float, Add>
                : name == "sub" ? rounded2<float, Sub>
                : name == "mul" ? rounded2<float, MulLo>
                                : rounded3<float, Fma>;
      else if (rounding)
        in.fn = name == "add"   ? rounded2<double, Add>
                : name == "sub" ? rounded2<double, Sub>
                : name == "mul" ? rounded2<double, MulLo>
                                : rounded3<double, Fma>;
      else
        in.fn = floats(t, [&](auto x) -> Execute {
          using T = decltype(x);
          return name == "add"   ? binary<T, Add>
                 : name == "sub" ? binary<T, Sub>
                 : name == "mul" ? binary<T, MulLo>
                                 : ternary<T, Fma>;
        });
    } else if (has("wide")) {
      only({"wide"});
      in.d = operand(o[0], 2 * size);
      in.a = operand(o[1], size);
      in.b = operand(o[2], size);
      if (name == "mad") in.c = operand(o[3], 2 * size);
      switch (t) {
        case U16: in.fn = name == "mul" ? mul_wide<u16> : mad_wide<u16>; break;
        case S16: in.fn = name == "mul" ? mul_wide<s16> : mad_wide<s16>; break;
        case U32: in.fn = name == "mul" ? mul_wide<u32> : mad_wide<u32>; break;
        case S32: in.fn = name == "mul" ? mul_wide<s32> : mad_wide<s32>; break;
        default: break;
      }
    } else {
      only({"lo", "hi"});
      if ((name == "mul" || name == "mad") && !has("lo") && !has("hi")) bad("qualifier missing");
      count(name == "mad" ? 4 : 3);
      dab(size);
      const bool hi = has("hi");
      in.fn = integers(t, [&](auto x) -> Execute {
        using T = decltype(x);
        if (name == "add") return binary<T, Add>;
        if (name == "sub") return binary<T, Sub>;
        if (name == "mul") return hi ? binary<T, MulHi> : binary<T, MulLo>;
        if (name == "mad") return hi ? ternary<T, MadHi> : ternary<T, MadLo>;
        return nullptr;
      });
    }
  } else if (name == "div" || name == "rem") {
    if (t == F32 || t == F64) {
      only({"rn"});
      if (!has("rn")) bad("qualifier missing");
    } else
      only({});
    count(3);
    dab(size);
    in.category = c_div;
    in.fn = name == "div" ? (t == F32   ? binary<float, Div>
                             : t == F64 ? binary<double, Div>
                                        : integers(t, [](auto x) -> Execute { return binary_slow<decltype(x), Div>; }))
                          : integers(t, [](auto x) -> Execute { return binary_slow<decltype(x), Rem>; });
  } else if (name == "min" || name == "max") {
    only({"NaN"});
    count(3);
    dab(size);
    in.category = t == F32 || t == F64 ? c_fp : c_int;
    const bool nan = has("NaN");
    if (nan)
      in.fn = floats(t, [&](auto x) -> Execute {
        using T = decltype(x);
        return name == "min" ? binary<T, MinNan> : binary<T, MaxNan>;
      });
    else
      in.fn = numbers(t, [&](auto x) -> Execute {
        using T = decltype(x);
        return name == "min" ? binary<T, Min> : binary<T, Max>;
      });
  } else if (name == "and" || name == "or" || name == "xor" || name == "not") {
    only({});
    if (t == PRED) {
      in.d = operand(o[0], 0, true);
      in.a = operand(o[1], 0, true);
      if (name != "not") in.b = operand(o[2], 0, true);
      in.modifier = name == "and" ? 0 : name == "or" ? 1 : name == "xor" ? 2 : 3;
      in.fn = pred_op;
      in.category = c_pred;
    } else {
      count(name == "not" ? 2 : 3);
      dab(size);
      in.category = c_int;
      in.fn = bits(t, [&](auto x) -> Execute {
        using T = decltype(x);
        return name == "and"   ? binary<T, And>
               : name == "or"  ? binary<T, Or>
               : name == "xor" ? binary<T, Xor>
                               : unary<T, Not>;
      });
    }
  } else if (name == "neg" || name == "abs") {
    only({});
    count(2);
    dab(size);
    in.category = t == F32 || t == F64 ? c_fp : c_int;
    // The NaN that results is unspecified: FADD gives the canonical one, but ptxas often makes the sign a modifier of another instruction.
    if (options.keep_nan && in.category == c_fp)
      in.fn = floats(t, [&](auto x) -> Execute {
        using T = decltype(x);
        return name == "neg" ? unary<T, NegBits> : unary<T, AbsBits>;
      });
    else
      in.fn = numbers(t, [&](auto x) -> Execute {
        using T = decltype(x);
        return name == "neg" ? unary<T, Neg> : unary<T, Abs>;
      });
  } else if (name == "copysign") {
    only({});
    count(3);
    dab(size);
    in.category = c_fp;
    in.fn = floats(t, [](auto x) -> Execute { return binary<decltype(x), Copysign>; });
  } else if (name == "shl" || name == "shr") {
    only({});
    count(3);
    in.category = c_int;
    in.d = operand(o[0], size);
    in.a = operand(o[1], size);
    in.b = operand(o[2], 4);
    in.fn = integers(t, [&](auto x) -> Execute {
      using T = decltype(x);
      return name == "shl" ? shift<T, Shl> : shift<T, Shr>;
    });
  } else if (name == "popc" || name == "clz") {
    only({});
    count(2);
    in.category = c_int;
    in.d = operand(o[0], 4);
    in.a = operand(o[1], size);
    in.fn = size == 4   ? (name == "popc" ? count_bits<u32, Popc> : count_bits<u32, Clz>)
            : size == 8 ? (name == "popc" ? count_bits<u64, Popc> : count_bits<u64, Clz>)
                        : nullptr;
  } else if (name == "brev") {
    only({});
    dab(4);
    if (size == 4) in.fn = unary<u32, Brev>;
    in.category = c_int;
  } else if (name == "bmsk") {
    only({"clamp"});
    if (!has("clamp")) bad("mode");
    dab(4);
    in.fn = binary<u32, Bmsk>;
    in.category = c_int;
  } else if (name == "prmt") {
    only({});
    count(4);
    dab(4);
    in.fn = ternary<u32, Prmt>;
    in.category = c_int;
  } else if (name == "lop3") {
    only({});
    count(5);
    in.d = operand(o[0], 4);
    in.a = operand(o[1], 4);
    in.b = operand(o[2], 4);
    in.c = operand(o[3], 4);
    in.imm = std::strtoll(o[4].c_str(), nullptr, 0);
    in.fn = lop3;
    in.category = c_int;
  } else if (name == "shf") {
    only({"l", "r", "wrap", "clamp"});
    count(4);
    dab(4);
    in.category = c_int;
    in.fn = has("l") ? (has("wrap") ? ternary<u32, ShfL> : ternary<u32, ShfLClamp>)
                     : (has("wrap") ? ternary<u32, ShfR> : ternary<u32, ShfRClamp>);
  } else if (name == "bfe") {
    only({});
    count(4);
    in.category = c_int;
    in.d = operand(o[0], size);
    in.a = operand(o[1], size);
    in.b = operand(o[2], 4);
    in.c = operand(o[3], 4);
    in.fn = t == U32 ? bfe<u32> : t == S32 ? bfe<s32> : t == U64 ? bfe<u64> : t == S64 ? bfe<s64> : nullptr;
  } else if (name == "bfi") {
    only({});
    count(5);
    in.category = c_int;
    in.d = operand(o[0], size);
    in.a = operand(o[1], size);
    in.b = operand(o[2], size);
    in.c = operand(o[3], 4);
    in.e = operand(o[4], 4);
    in.fn = size == 4 ? bfi<u32> : size == 8 ? bfi<u64> : nullptr;
  } else if (name == "setp") {
    const std::size_t n = q.size();
    if (n == 4) {
      in.modifier = q[2] == "and" ? 1 : q[2] == "or" ? 2 : q[2] == "xor" ? 3 : 0;
      if (!in.modifier) bad("qualifier");
      count(4);
      in.c = operand(o[3], 0, true);
    } else {
      if (n != 3) bad("qualifier");
      count(3);
    }
    pair(o[0], true);
    in.a = operand(o[1], size);
    in.b = operand(o[2], size);
    in.fn = set_fn(t, q[1]);
    in.category = c_pred;
  } else if (name == "selp") {
    only({});
    count(4);
    in.d = operand(o[0], size);
    in.a = operand(o[1], size);
    in.b = operand(o[2], size);
    in.c = operand(o[3], 0, true);
    in.fn = bits(t, [](auto x) -> Execute { return selp<decltype(x)>; });
    in.category = c_mov;
  } else if (name == "cvta") {
    // Only shared and local windows have another generic address.
    in.category = c_int;
    const bool to = has("to");
    const u64 window = has("shared") ? shared_window : has("local") ? local_window : has("param") ? param_window : 0;
    in.d = operand(o[0], 8);
    in.a = operand(o[1], 8);
    if (window) {
      in.b = constant(to ? 0 - window : window, 8);
      in.fn = binary<u64, Add>;
    } else {
      in.fn = mov<u64>;
      in.category = c_mov;
    }
  } else if (name == "cvt") {
    in.category = c_cvt;
    if (t == NONE) bad("type");
    const Type dt = type_of(q[q.size() - 2]), st = t;
    if (has("ftz") || has("relu")) bad("qualifier");
    if (dt == BF16X2 || dt == F16X2) {
      count(3);
      if (!has("rn") || st != F32) bad("cvt");
      in.d = operand(o[0], 4);
      in.a = operand(o[1], 4);
      in.b = operand(o[2], 4);
      in.fn = dt == BF16X2 ? pack_bf16x2 : pack_f16x2;
    } else {
      count(2);
      in.d = operand(o[0], 0);
      in.a = operand(o[1], find(o[1]) ? 0 : bytes_of(st));
      const bool sat = has("sat");
      const int mode = has("rni") ? 0 : has("rmi") ? 1 : has("rpi") ? 2 : has("rzi") ? 3 : -1;
      const bool d_int = dt <= S64, s_int = st <= S64;
      if (!(d_int && s_int)) {
        if (!s_int && in.a.size != bytes_of(st)) bad("source register");
        if (!d_int && in.d.size != bytes_of(dt)) bad("destination register");
      }
      if (d_int && s_int) {
        if (sat) bad("cvt.sat");
        in.fn = int_convert(dt, in.d.size, st, in.a.size);
      } else if (dt == F32 && st == F32) {
        if (sat && mode < 0)
          in.fn = change<float, float, Sat>;
        else if (!sat && mode >= 0)
          in.fn = mode == 0   ? change<float, float, RoundTo<0>>
                  : mode == 1 ? change<float, float, RoundTo<1>>
                  : mode == 2 ? change<float, float, RoundTo<2>>
                              : change<float, float, RoundTo<3>>;
      } else if (sat)
        bad("cvt.sat");
      else if (dt == F64 && st == F64 && mode >= 0)
        in.fn = mode == 0   ? change<double, double, RoundTo<0>>
                : mode == 1 ? change<double, double, RoundTo<1>>
                : mode == 2 ? change<double, double, RoundTo<2>>
                            : change<double, double, RoundTo<3>>;
      else if (d_int && mode >= 0) {
        if (in.d.size != bytes_of(dt)) bad("destination register");
        switch (dt) {
          case S32: in.fn = to_int<s32>(st, mode); break;
          case U32: in.fn = to_int<u32>(st, mode); break;
          case S64: in.fn = to_int<s64>(st, mode); break;
          case U64: in.fn = to_int<u64>(st, mode); break;
          case S16: in.fn = to_int<s16>(st, mode); break;
          case U16: in.fn = to_int<u16>(st, mode); break;
          default: break;
        }
      } else if (s_int && has("rn")) {
        if (in.a.size != bytes_of(st)) bad("source register");
        if (dt == F32) switch (st) {
            case S16: in.fn = change<float, s16, As<float>>; break;
            case U16: in.fn = change<float, u16, As<float>>; break;
            case S32: in.fn = change<float, s32, As<float>>; break;
            case U32: in.fn = change<float, u32, As<float>>; break;
            case S64: in.fn = change<float, s64, As<float>>; break;
            case U64: in.fn = change<float, u64, As<float>>; break;
            default: break;
          }
        if (dt == F64) switch (st) {
            case S32: in.fn = change<double, s32, As<double>>; break;
            case U32: in.fn = change<double, u32, As<double>>; break;
            case S64: in.fn = change<double, s64, As<double>>; break;
            case U64: in.fn = change<double, u64, As<double>>; break;
            default: break;
          }
      } else if (dt == BF16t && st == F32 && has("rn"))
        in.fn = change<u16, float, Bf16>;
      else if (dt == F16t && st == F32 && has("rn"))
        in.fn = change_slow<u16, float, F16>;
      else if (dt == F32 && st == BF16t)
        in.fn = change<float, u16, OfBf16>;
      else if (dt == F32 && st == F16t)
        in.fn = change_slow<float, u16, OfF16>;
      else if (dt == TF32t && st == F32 && has("rna"))
        in.fn = change<u32, float, Tf32>;
      else if (dt == F64 && st == F32)
        in.fn = change<double, float, Widen>;
      else if (dt == F32 && st == F64 && has("rn"))
        in.fn = change<float, double, Narrow>;
    }
  } else if (name == "ex2" || name == "lg2" || name == "rcp" || name == "rsqrt" || name == "sqrt" || name == "sin" ||
             name == "cos" || name == "tanh") {
    only({"approx", "ftz", "rn"});
    count(2);
    dab(size);
    const bool ftz = has("ftz");
    in.category = has("approx") ? c_mufu : c_div;
    if (has("rn") && !ftz) {
      if (name == "rcp") in.fn = floats(t, [](auto x) -> Execute { return unary<decltype(x), Rcp>; });
      if (name == "sqrt") in.fn = floats(t, [](auto x) -> Execute { return unary<decltype(x), Sqrt>; });
    } else if (t == F32 && has("approx")) {
      if (name == "ex2") in.fn = ftz ? unary<float, Ex2Ftz> : unary<float, Ex2>;
      if (name == "rcp" && ftz) in.fn = unary<float, RcpFtz>;
      if (name == "rcp" && !ftz) in.fn = unary<float, Rcp>;
      if (name == "rsqrt" && !ftz) in.fn = unary<float, Rsqrt>;
      if (name == "lg2") in.fn = ftz ? unary_slow<float, Lg2Ftz> : unary_slow<float, Lg2>;
      if (name == "sin" && !ftz) in.fn = unary_slow<float, Sin>;
      if (name == "cos" && !ftz) in.fn = unary_slow<float, Cos>;
      if (name == "tanh") in.fn = unary_slow<float, Tanh>;
      if (name == "sqrt" && !ftz) in.fn = unary<float, Sqrt>;
      if (options.jitter && name == "ex2") in.fn = ftz ? unary<float, Jitter<Ex2Ftz, 1>> : unary<float, Jitter<Ex2, 1>>;
      if (options.jitter && name == "rcp") in.fn = ftz ? unary<float, Jitter<RcpFtz, 1>> : unary<float, Jitter<Rcp, 1>>;
      if (options.jitter && name == "rsqrt") in.fn = unary<float, Jitter<Rsqrt, 1>>;
    }
  } else if (name == "bra") {
    in.kind = branch;
    in.category = c_branch;
    jumps.push_back({static_cast<u32>(k.code.size()), o[0], path});
  } else if (name == "ret" || name == "exit") {
    in.kind = leave;
    in.category = c_branch;
  } else if (name == "bar" || name == "barrier") {
    in.category = c_bar;
    if (has("warp")) {
      in.kind = sync;
      in.fn = nothing;
      in.modifier2 = 1;
      in.e = operand(o[0], 4);
    } else {
      if (!has("sync") && !has("red") && !has("arrive")) bad("barrier");
      in.kind = barrier;
      in.aligned = true;
      in.fn = nothing;
      std::size_t i = 0;
      if (has("red")) {
        in.d = operand(o[0], has("popc") ? 4 : 0, !has("popc"));
        in.modifier2 = has("and") ? 1 : has("or") ? 2 : 3;
        i = 1;
      }
      in.a = operand(o[i++], 4);
      if (has("red")) {
        in.c = operand(o.back(), 0, true);
        if (o.size() == 4) in.b = operand(o[i], 4);
      } else if (o.size() == 2)
        in.b = operand(o[1], 4);
      if (has("arrive")) {
        count(2);
        in.kind = sync;
        in.fn = bar_arrive;
        k.async = true;
      }
    }
  } else if (name == "membar" || name == "fence") {
    in.fn = nothing;
    in.category = c_other;
  } else if (name == "shfl") {
    only({"sync", "up", "down", "bfly", "idx"});
    if (!has("sync")) bad("shfl without sync");
    count(5);
    in.kind = sync;
    in.category = c_shfl;
    in.fn = shfl;
    in.modifier = has("up") ? 0 : has("down") ? 1 : has("bfly") ? 2 : 3;
    pair(o[0], false);
    in.a = operand(o[1], 4);
    in.b = operand(o[2], 4);
    in.c = operand(o[3], 4);
    in.e = operand(o[4], 4);
  } else if (name == "vote") {
    if (!has("sync")) bad("vote without sync");
    count(3);
    in.kind = sync;
    in.category = c_shfl;
    if (has("ballot")) {
      in.d = operand(o[0], 4);
      in.fn = vote_ballot;
    } else {
      in.d = operand(o[0], 0, true);
      in.modifier = has("all") ? 0 : has("any") ? 1 : 2;
      in.fn = vote_pred;
    }
    in.a = operand(o[1], 0, true);
    in.e = operand(o[2], 4);
  } else if (name == "match") {
    only({"any", "sync"});
    count(3);
    in.kind = sync;
    in.category = c_shfl;
    in.d = operand(o[0], 4);
    in.a = operand(o[1], size);
    in.e = operand(o[2], 4);
    in.fn = size == 4 ? match_any<u32> : size == 8 ? match_any<u64> : nullptr;
  } else if (name == "redux") {
    count(3);
    in.kind = sync;
    in.category = c_shfl;
    in.d = operand(o[0], 4);
    in.a = operand(o[1], 4);
    in.e = operand(o[2], 4);
    in.modifier = has("add")   ? a_add
                  : has("max") ? a_max
                  : has("min") ? a_min
                  : has("and") ? a_and
                  : has("or")  ? a_or
                               : a_xor;
    in.fn = t == S32 ? redux<s32> : t == U32 ? redux<u32> : nullptr;
  } else if (name == "activemask") {
    in.d = operand(o[0], 4);
    in.fn = active_mask;
    in.category = c_shfl;
  } else if (name == "atom" || name == "red") {
    const bool is_atom = name == "atom";
    in.category = c_atom;
    in.strong = true;
    const Space sp = has("global") ? s_global : has("shared") ? s_shared : s_generic;
    std::size_t i = 0;
    if (is_atom) in.d = operand(o[i++], size);
    in.a = address(o[i++], in.imm);
    in.b = operand(o[i++], size);
    in.modifier = has("add")    ? a_add
                  : has("exch") ? a_exch
                  : has("max")  ? a_max
                  : has("min")  ? a_min
                  : has("and")  ? a_and
                  : has("or")   ? a_or
                  : has("xor")  ? a_xor
                  : has("cas")  ? a_cas
                  : has("inc")  ? a_inc
                  : has("dec")  ? a_dec
                                : 255;
    if (in.modifier == 255 || has("noftz")) bad("atomic");
    if (in.modifier == a_cas) in.c = operand(o[i++], size);
    const auto with = [&](auto x) -> Execute {
      using T = decltype(x);
      return sp == s_global ? atom<T, s_global> : sp == s_shared ? atom<T, s_shared> : atom<T, s_generic>;
    };
    switch (t) {
      case U32: in.fn = with(u32{}); break;
      case S32: in.fn = with(s32{}); break;
      case U64: in.fn = with(u64{}); break;
      case S64: in.fn = with(s64{}); break;
      case F32: in.fn = with(float{}); break;
      case F64: in.fn = with(double{}); break;
      default: break;
    }
  } else if (name == "cp") {
    if (!has("async")) bad("cp");
    in.category = c_cp_async;
    if (has("commit_group"))
      in.fn = cp_commit;
    else if (has("wait_group")) {
      in.imm = std::strtoll(o[0].c_str(), nullptr, 0);
      in.fn = cp_wait;
    } else if (has("wait_all")) {
      in.imm = -1;
      in.fn = cp_wait;
    } else {
      if (!(has("ca") || has("cg")) || !has("shared") || !has("global")) bad("cp.async");
      for (std::size_t i = 1; i < q.size(); ++i)
        if (q[i] != "async" && q[i] != "ca" && q[i] != "cg" && q[i] != "shared" && q[i] != "global" &&
            q[i] != "L2::128B" && q[i] != "L2::256B" && q[i] != "L2::64B")
          bad("qualifier");
      in.d = address(o[0], in.imm2);
      in.a = address(o[1], in.imm3);
      in.imm = std::strtoll(o[2].c_str(), nullptr, 0);
      if (in.imm != 4 && in.imm != 8 && in.imm != 16) bad("cp-size");
      if (has("cg") && in.imm != 16) bad("cp.async.cg needs 16 bytes");
      if (o.size() > 3) in.b = operand(o[3], 4);
      if (o.size() > 4) bad("operands");
      in.fn = cp_async;
    }
  } else if (name == "ldmatrix") {
    if (!has("sync") || !has("aligned") || !has("m8n8") || !has("b16")) bad("ldmatrix");
    in.kind = sync;
    in.aligned = true;
    in.category = c_ldmatrix;
    in.fn = ldmatrix;
    const auto parts = list(o[0]);
    in.modifier = has("x1") ? 1 : has("x2") ? 2 : has("x4") ? 4 : 0;
    if (!in.modifier || parts.size() != in.modifier) bad("ldmatrix");
    for (std::size_t i = 0; i < parts.size(); ++i) in.v[i] = operand(parts[i], 4);
    in.modifier2 = has("trans");
    in.a = address(o[1], in.imm);
    if (!has("shared")) bad("ldmatrix from generic addresses");
  } else if (name == "mma") {
    const bool bf = op == "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
               half = op == "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
               tf = op == "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32";
    if (!bf && !half && !tf) bad("mma");
    in.kind = sync;
    in.aligned = true;
    in.category = c_mma;
    in.fn = bf ? mma_16<false> : half ? mma_16<true> : mma_tf32;
    auto* m = new MmaOperands;  // kept for the life of the process
    const auto fill = [&](Operand* to, const std::string& from, std::size_t n) {
      const auto parts = list(from);
      if (parts.size() != n) bad("mma");
      for (std::size_t i = 0; i < n; ++i) to[i] = operand(parts[i], 4);
    };
    fill(m->d, o[0], 4);
    fill(m->a, o[1], 4);
    fill(m->b, o[2], 2);
    fill(m->c, o[3], 4);
    in.imm = reinterpret_cast<s64>(m);
  } else if (name == "trap" || name == "brkpt") {
    in.fn = [](Warp& w, const Instruction& i, u32) { fault(w, i, 0, launch_failure, "trap"); };
  } else if (name == "nanosleep")
    in.fn = nothing;
  else if (name == "griddepcontrol")
    in.fn = nothing;
  if (in.kind != branch && in.kind != leave && !in.fn && !in.poll) bad("instruction");
  k.code.push_back(in);
  k.texts.push_back(text);
  if (k.has_wgmma) registers(in, name, o);
}

// The instructions of async.hpp. Returns false for others.
bool Decoder::hopper(Instruction& in, const std::vector<std::string>& q, const std::vector<std::string>& o) {
  const std::string& name = q[0];
  const auto has = [&](const char* x) {
    for (std::size_t i = 1; i < q.size(); ++i)
      if (q[i] == x) return true;
    return false;
  };
  const auto only = [&](std::initializer_list<const char*> known) {
    for (std::size_t i = 1; i < q.size(); ++i) {
      bool ok = false;
      for (const char* x : known) ok |= q[i] == x;
      if (!ok) bad("qualifier ." + q[i]);
    }
  };
  const auto count = [&](std::size_t n) {
    if (o.size() != n) bad("number of operands");
  };
  if (name == "mbarrier") {
    k.async = true;
    in.category = c_mbarrier;
    only({"init", "inval", "arrive", "arrive_drop", "expect_tx", "complete_tx", "test_wait", "try_wait", "parity",
          "pending_count", "noComplete", "shared", "shared::cluster", "b64", "acquire", "release", "relaxed", "cta",
          "cluster"});
    if (has("noComplete")) bad("qualifier");
    if (has("pending_count")) {
      count(2);
      in.modifier = mb_pending;
      in.d = operand(o[0], 4);
      in.c = operand(o[1], 8);
      in.a = constant(0, 8);
      in.fn = mbarrier;
      return true;
    }
    if (has("test_wait") || has("try_wait")) {
      if (o.size() < 3) bad("number of operands");
      in.kind = poll;
      in.poll = mbarrier_wait;
      in.modifier = in.modifier3 = has("test_wait");
      in.modifier2 = has("parity");
      in.imm2 = has("relaxed");
      in.d = operand(o[0], 0, true);
      in.a = address(o[1], in.imm);
      in.c = operand(o[2], in.modifier2 ? 4 : 8);
      if (o.size() > 3) operand(o[3], 4);  // a time limit
      return true;
    }
    in.fn = mbarrier;
    in.modifier2 = has("relaxed");
    std::size_t i = 0;
    const bool arrives = has("arrive") || has("arrive_drop");
    if (arrives && o[0][0] != '[') in.d = operand(o[i++], 8);
    in.a = address(o[i++], in.imm);
    in.modifier = has("init")          ? mb_init
                  : has("inval")       ? mb_inval
                  : has("arrive_drop") ? mb_arrive_drop
                  : has("arrive")      ? (has("expect_tx") ? mb_arrive_expect : mb_arrive)
                  : has("expect_tx")   ? mb_expect
                                       : mb_complete;
    if (has("arrive_drop") && has("expect_tx")) bad("mbarrier");
    if (i < o.size())
      in.b = operand(o[i++], 4);
    else if (in.modifier != mb_arrive && in.modifier != mb_arrive_drop && in.modifier != mb_inval)
      bad("number of operands");
    count(i);
    return true;
  }
  if (name == "fence" && has("proxy")) {
    if (has("async")) {
      k.async = true;
      in.fn = fence_proxy_async;
      return true;
    }
    if (q.size() > 2 && q[2].starts_with("tensormap")) {
      in.fn = nothing;
      return true;
    }
    bad("fence");
  }
  if (name == "elect") {
    only({"sync"});
    count(2);
    in.kind = sync;
    in.category = c_shfl;
    in.fn = elect;
    const auto bar = o[0].find('|');
    if (bar == std::string::npos) bad("elect.sync without a predicate");
    in.d = operand(trimmed(o[0].substr(0, bar)), 4);
    in.d2 = operand(trimmed(o[0].substr(bar + 1)), 0, true);
    in.e = operand(o[1], 4);
    return true;
  }
  if (name == "setmaxnreg") {
    only({"inc", "dec", "sync", "aligned", "u32"});
    count(1);
    if (!has("sync") || !has("aligned")) bad("setmaxnreg");
    k.async = true;
    in.kind = poll;
    in.aligned = true;
    in.poll = set_registers;
    in.modifier = has("inc");
    in.imm = std::strtoll(o[0].c_str(), nullptr, 0);
    if (in.imm < 24 || in.imm > 256 || in.imm % 8) bad("setmaxnreg needs a multiple of 8 from 24 to 256");
    return true;
  }
  if (name == "prefetch") {
    if (!has("tensormap") && !has("global")) bad("prefetch");
    s64 offset;
    address(o[0], offset);
    in.fn = nothing;
    in.category = c_bulk;
    return true;
  }
  if (name == "barrier" && has("cluster")) {  // of one block
    in.category = c_bar;
    in.aligned = true;
    in.fn = nothing;
    if (has("arrive"))
      in.kind = sync;
    else if (has("wait")) {
      in.kind = barrier;
      in.a = constant(16, 4);
    } else
      bad("barrier.cluster");
    return true;
  }
  if (name == "mapa") {  // the address of another block's shared memory; here the block can only be this one
    count(3);
    if (!has("shared::cluster")) bad("mapa");
    const u32 bytes = q.back() == "u64" ? 8 : 4;
    in.d = operand(o[0], bytes);
    in.a = operand(o[1], bytes);
    in.b = operand(o[2], 4);
    in.fn = [](Warp& w, const Instruction& i, u32 m) {
      lanes(m, [&](int l) {
        if (reg<u32>(w, i.b)[l] != 0) fault(w, i, l, illegal_instruction, "mapa: clusters have one block here");
      });
      if (i.a.size == 8)
        mov<u64>(w, i, m);
      else
        mov<u32>(w, i, m);
    };
    return true;
  }
  if (name == "createpolicy") {
    in.d = operand(o[0], 8);
    in.a = constant(0, 8);
    in.fn = mov<u64>;
    return true;
  }
  if (name == "cp" && has("mbarrier") && has("arrive")) {
    only({"async", "mbarrier", "arrive", "noinc", "shared", "b64"});
    count(1);
    k.async = true;
    in.category = c_mbarrier;
    in.modifier = has("noinc");
    in.a = address(o[0], in.imm);
    in.fn = cp_async_arrive;
    return true;
  }
  if (name == "stmatrix") {
    only({"sync", "aligned", "m8n8", "x1", "x2", "x4", "trans", "shared", "b16"});
    count(2);
    if (!has("sync") || !has("aligned") || !has("m8n8") || !has("shared")) bad("stmatrix");
    in.kind = sync;
    in.aligned = true;
    in.category = c_st_shared;
    in.fn = stmatrix;
    const auto parts = list(o[1]);
    in.modifier = has("x1") ? 1 : has("x2") ? 2 : has("x4") ? 4 : 0;
    if (!in.modifier || parts.size() != in.modifier) bad("stmatrix");
    for (std::size_t i = 0; i < parts.size(); ++i) in.v[i] = operand(parts[i], 4);
    in.modifier2 = has("trans");
    in.a = address(o[0], in.imm);
    return true;
  }
  if ((name == "cp" && has("multicast::cluster"))) bad("clusters of several blocks");
  if (name == "cp" && has("bulk")) {
    k.async = true;
    in.category = c_bulk;
    if (has("commit_group")) {
      in.fn = bulk_commit;
      return true;
    }
    if (has("wait_group")) {
      count(1);
      in.imm = std::strtoll(o[0].c_str(), nullptr, 0);
      in.modifier = has("read");
      in.fn = bulk_wait;
      return true;
    }
    only({"reduce",
          "async",
          "bulk",
          "tensor",
          "prefetch",
          "L2",
          "1d",
          "2d",
          "3d",
          "4d",
          "5d",
          "tile",
          "shared::cluster",
          "shared",
          "global",
          "mbarrier::complete_tx::bytes",
          "bulk_group",
          "L2::cache_hint",
          "add",
          "min",
          "max",
          "noftz",
          "u32",
          "s32",
          "u64",
          "s64",
          "f16",
          "bf16",
          "f32",
          "f64"});
    auto* b = new BulkOperands;
    b->tensor = has("tensor");
    std::size_t i = 0;
    const auto where = [&](const std::string& name) {
      for (std::size_t n = 1; n < q.size(); ++n)
        if (q[n] == name) return n;
      return q.size();
    };
    const std::size_t shared = std::min(where("shared"), where("shared::cluster")), global = where("global");
    if (global == q.size() || (!has("prefetch") && shared == q.size())) bad("state spaces");
    b->what = has("prefetch")   ? BulkOperands::prefetch
              : shared < global ? BulkOperands::load
              : has("reduce")   ? BulkOperands::reduce
                                : BulkOperands::store;
    const auto global_side = [&] {
      const std::string& s = o[i++];
      if (!b->tensor) {
        b->global = address(s, b->global_offset);
        return;
      }
      const auto parts = split(s.substr(1, s.size() - 2), ',');
      if (parts.size() != 2) bad("tensor map and coordinates");
      b->global = address("[" + parts[0] + "]", b->global_offset);
      const auto at = list(parts[1]);
      for (u8 d = 1; d <= 5; ++d)
        if (has((std::to_string(d) + "d").c_str())) b->rank = d;
      if (at.size() != b->rank) bad("coordinates");
      for (std::size_t d = 0; d < at.size(); ++d) b->coordinate[d] = operand(at[d], 4);
    };
    if (b->what == BulkOperands::load) {
      if (!has("mbarrier::complete_tx::bytes")) bad("completion mechanism");
      b->shared = address(o[i++], b->shared_offset);
      global_side();
      if (!b->tensor) b->bytes = operand(o[i++], 4);
      b->barrier = address(o[i++], b->barrier_offset);
    } else {
      if (b->what != BulkOperands::prefetch && !has("bulk_group")) bad("completion mechanism");
      global_side();
      if (b->what != BulkOperands::prefetch) b->shared = address(o[i++], b->shared_offset);
      if (!b->tensor) b->bytes = operand(o[i++], 4);
      if (b->what == BulkOperands::reduce) {
        b->op = has("add") ? a_add : has("min") ? a_min : has("max") ? a_max : 255;
        if (b->op == 255) bad("reduction");
        b->type = 255;
        const char* const types[] = {"u32", "s32", "u64", "f32", "f16", "bf16", "f64", "s64"};
        for (u8 n = 0; n < 8; ++n)
          if (q.back() == types[n]) b->type = n;
        if (b->type == 255 && !b->tensor) bad("type");  // that of a tensor is in its map
      }
    }
    if (has("L2::cache_hint")) operand(o[i++], 8);
    count(i);
    in.imm = reinterpret_cast<s64>(b);
    in.fn = bulk_copy;
    return true;
  }
  if (name == "wgmma") {
    k.async = true;
    in.category = c_wgmma;
    if (!has("sync") || !has("aligned")) bad("wgmma");
    in.kind = sync;
    in.aligned = true;
    if (has("fence")) {
      in.fn = wgmma_fence;
      return true;
    }
    if (has("commit_group")) {
      in.fn = wgmma_commit;
      return true;
    }
    if (has("wait_group")) {
      count(1);
      in.kind = poll;
      in.poll = wgmma_wait;
      in.imm = std::strtoll(o[0].c_str(), nullptr, 0);
      return true;
    }
    if (q.size() != 8 || q[1] != "mma_async" || q[5] != "f32" || q[6] != q[7]) bad("wgmma");
    auto* m = new WgmmaOperands{};
    if (std::sscanf(q[4].c_str(), "m64n%dk%d", &m->n, &m->k) != 2 || m->n < 8 || m->n > 256 || m->n % 8) bad("shape");
    m->type = q[6] == "bf16" ? 0 : q[6] == "f16" ? 1 : q[6] == "tf32" ? 2 : 255;
    if (m->type == 255 || m->k != (m->type == 2 ? 8 : 16)) bad("type");
    m->a_registers = o.size() > 1 && o[1][0] == '{';
    const std::size_t transposes = m->type == 2 ? 0 : m->a_registers ? 1 : 2;
    count(6 + transposes);
    const auto d = list(o[0]);
    if (static_cast<int>(d.size()) != m->n / 2) bad("number of accumulators");
    for (std::size_t i = 0; i < d.size(); ++i) {
      m->d[i] = operand(d[i], 4);
      if (m->d[i].constant || m->d[i].absent) bad("accumulator");
      for (std::size_t j = 0; j < i; ++j)
        if (m->d[j].offset == m->d[i].offset) bad("an accumulator that is used twice");
    }
    if (m->a_registers) {
      const auto a = list(o[1]);
      if (a.size() != 4) bad("A");
      for (std::size_t i = 0; i < 4; ++i) {
        m->a[i] = operand(a[i], 4);
        if (m->a[i].constant) bad("A");
      }
    } else
      m->a_desc = operand(o[1], 8);
    m->b_desc = operand(o[2], 8);
    m->scale = operand(o[3], 0, true);
    const auto immediate = [&](const std::string& s, int a, int b) {
      const int v = std::atoi(s.c_str());
      if ((v != a && v != b) || s.empty() || s[0] == '%') bad("immediate " + s);
      return v == b;
    };
    m->negate_a = immediate(o[4], 1, -1);
    m->negate_b = immediate(o[5], 1, -1);
    if (transposes == 2) m->mn_a = immediate(o[6], 0, 1);
    if (transposes) m->mn_b = immediate(o.back(), 0, 1);
    in.imm = reinterpret_cast<s64>(m);
    in.fn = wgmma;
    return true;
  }
  return false;
}

// Notes which registers the instruction at the end of the code reads and writes.
void Decoder::registers(const Instruction& in, const std::string& name, const std::vector<std::string>& o) {
  Kernel::Registers r;
  if (name != "wgmma") {
    const bool writes = name != "st" && name != "red" && name != "bra" && name != "bar" && name != "barrier" &&
                        name != "cp" && name != "prefetch" && name != "fence" && name != "mbarrier" &&
                        name != "stmatrix";
    for (std::size_t i = 0; i < o.size(); ++i) {
      std::string word;
      for (const char c : o[i] + " ") {
        if (std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%' || c == '.') {
          word += c;
          continue;
        }
        if (const Register* x = word.empty() ? nullptr : find(word); x && x->type != PRED)
          (i == 0 && writes ? r.to : r.from).push_back(x->offset / 64);
        word.clear();
      }
    }
    r.move = name == "mov" && r.to.size() == 1 && r.from.size() == 1 && !in.guarded;
    r.constant = name == "mov" && r.from.empty();
  }
  k.registers_of.resize(k.code.size());
  k.registers_of.back() = std::move(r);
}

void Decoder::body() {
  const std::string& s = k.body;
  for (std::size_t i = 0; i < s.size();) {
    const char c = s[i];
    if (std::isspace(static_cast<unsigned char>(c)) || c == ';') {
      ++i;
      continue;
    }
    if (c == '{') {
      scopes.emplace_back();
      path.push_back(++scope_count);
      ++i;
      continue;
    }
    if (c == '}') {
      scopes.pop_back();
      path.pop_back();
      ++i;
      continue;
    }
    // a label?
    std::size_t j = i;
    while (j < s.size() &&
           (std::isalnum(static_cast<unsigned char>(s[j])) || s[j] == '_' || s[j] == '$' || s[j] == '%'))
      ++j;
    if (j > i && j < s.size() && s[j] == ':' && s[j + 1] != ':') {
      labels[std::to_string(path.back()) + ' ' + s.substr(i, j - i)] = static_cast<u32>(k.code.size());
      i = j + 1;
      continue;
    }
    const auto end = s.find(';', i);
    if (end == std::string::npos) {
      text = s.substr(i, 100);
      bad("the end of the body");
    }
    const std::string statement = trimmed(s.substr(i, end - i));
    text = statement;
    if (statement[0] == '.')
      directive(statement);
    else
      instruction(statement);
    i = end + 1;
  }
  Instruction last;
  last.kind = leave;
  last.category = c_branch;
  last.text = static_cast<u32>(k.texts.size());
  k.code.push_back(last);
  k.texts.push_back("(end of the kernel)");
  for (auto& [at, label, from] : jumps) {
    const auto key = [&] { return std::to_string(from.back()) + ' ' + label; };
    while (!from.empty() && !labels.contains(key())) from.pop_back();
    if (from.empty()) {
      text = k.texts[at];
      bad("label");
    }
    k.code[at].target = labels[key()];
  }
  if (k.has_wgmma) k.registers_of.resize(k.code.size());
}

}  // namespace

// Returns whether a text has a name as a whole word.
bool names(const std::string& text, const std::string& name) {
  const auto part = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%';
  };
  for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1))
    if ((at == 0 || !part(text[at - 1])) && !part(text[at + name.size()])) return true;
  return false;
}

void decode(Kernel& k) {
  if (k.decoded) return;
  k.has_wgmma = k.body.find("wgmma.") != std::string::npos;
  Decoder d{k};
  // Static arrays that the body names, in the order of their declaration, then the dynamic ones at the same place.
  std::vector<std::pair<int, std::string>> used;
  for (const auto& [name, v] : k.module->shareds)
    if (names(k.body, name)) used.push_back({v.order, name});
  std::sort(used.begin(), used.end());
  std::vector<std::string> dynamic;
  for (const auto& [order, name] : used) {
    const auto& v = k.module->shareds.at(name);
    if (v.external) {
      dynamic.push_back(name);
      continue;
    }
    d.shared_bytes = (d.shared_bytes + v.align - 1) / v.align * v.align;
    d.shared_at[name] = d.shared_bytes;
    d.shared_bytes += v.size;
  }
  // Arrays declared inside the body come before the dynamic ones, too.
  for (std::size_t at = k.body.find(".shared "); at != std::string::npos; at = k.body.find(".shared ", at + 1))
    if (at == 0 || std::isspace(static_cast<unsigned char>(k.body[at - 1])))
      d.directive(trimmed(k.body.substr(at, k.body.find(';', at) - at)));
  u32 start = d.shared_bytes;
  for (const auto& name : dynamic) {
    const u32 align = std::max(16u, k.module->shareds.at(name).align);
    start = std::max(start, (d.shared_bytes + align - 1) / align * align);
  }
  if (!dynamic.empty()) d.shared_bytes = start;
  for (const auto& name : dynamic) d.shared_at[name] = start;
  d.laid_out = true;
  d.body();
  k.static_shared = d.shared_bytes;
  k.executed.assign(k.code.size(), 0);
  k.lanes.assign(k.code.size(), 0);
  k.decoded = true;
}

}  // namespace heddle::ptx
