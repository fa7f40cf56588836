// Reads PTX text: variables and kernels. Bodies are decoded at the first launch (decode.cpp).
#include <algorithm>
#include <cctype>
#include <sstream>

#include "interpreter.hpp"

namespace heddle::ptx {

void unsupported(const std::string& what) {
  std::fprintf(stderr, "ptx: NOT SUPPORTED: %s\n", what.c_str());
  std::fflush(stderr);
  std::_Exit(97);
}

namespace {

std::string without_comments(const std::string& s) {
  std::string out;
  out.reserve(s.size());
  for (std::size_t i = 0; i < s.size(); ++i) {
    if (s[i] == '/' && i + 1 < s.size() && s[i + 1] == '/') {
      while (i < s.size() && s[i] != '\n') ++i;
      out += '\n';
    } else if (s[i] == '/' && i + 1 < s.size() && s[i + 1] == '*') {
      i += 2;
      while (i + 1 < s.size() && !(s[i] == '*' && s[i + 1] == '/')) ++i;
      ++i;
    } else
      out += s[i];
  }
  return out;
}
std::vector<std::string> words(const std::string& s) {
  std::istringstream in(s);
  std::vector<std::string> out;
  for (std::string w; in >> w;) out.push_back(w);
  return out;
}
u32 type_bytes(const std::string& t) {
  const auto digits = t.find_first_of("0123456789");
  if (t == ".pred") return 1;
  if (digits == std::string::npos) unsupported("type " + t);
  return static_cast<u32>(std::atoi(t.c_str() + digits)) / 8;
}
struct Declared {
  std::string name;
  u32 size, align;
  bool unsized;
  std::string space;
};
// .param .align 8 .b8 NAME[48]   .shared .align 16 .b8 NAME[128]   .global .align 1 .b8 NAME[1] = {...}
Declared declared(const std::string& text) {
  Declared r{"", 0, 0, false, ""};
  u32 element = 0, count = 1;
  for (auto w : words(text)) {
    if (w == "=") break;
    if (w == ".visible" || w == ".extern" || w == ".weak" || w == ".common" || w == ".ptr") continue;
    if (w == ".global" || w == ".shared" || w == ".const" || w == ".param" || w == ".local") {
      if (r.space.empty()) r.space = w;
      continue;
    }
    if (w == ".align") {
      r.align = ~0u;
      continue;
    }
    if (r.align == ~0u) {
      r.align = static_cast<u32>(std::atoi(w.c_str()));
      continue;
    }
    if (w[0] == '.') {
      element = type_bytes(w);
      continue;
    }
    const auto at = w.find('[');
    r.name = w.substr(0, at);
    for (auto p = at; p != std::string::npos; p = w.find('[', p + 1)) {
      if (w[p + 1] == ']')
        r.unsized = true, count = 0;
      else
        count *= static_cast<u32>(std::atoi(w.c_str() + p + 1));
    }
  }
  r.size = element * count;
  if (!r.align) r.align = element;
  return r;
}

}  // namespace

std::unique_ptr<Module> parse(const std::string& original) {
  const std::string s = without_comments(original);
  auto m = std::make_unique<Module>();
  std::size_t i = 0;
  int order = 0;
  const auto skip = [&] {
    while (i < s.size() && std::isspace(static_cast<unsigned char>(s[i]))) ++i;
  };
  for (skip(); i < s.size(); skip()) {
    const auto line_end = s.find('\n', i);
    const std::string line = s.substr(i, line_end - i);
    if (line.starts_with(".version") || line.starts_with(".target") || line.starts_with(".address_size")) {
      if (line.starts_with(".target")) m->target = line.substr(8);
      i = line_end;
      continue;
    }
    const auto semicolon = s.find(';', i), brace = s.find('{', i), paren = s.find('(', i);
    std::string head = s.substr(i, std::min(semicolon, std::min(brace, paren)) - i);
    if (head.find(".entry") != std::string::npos) {
      auto k = std::make_unique<Kernel>();
      k->module = m.get();
      const auto w = words(head);
      for (std::size_t j = 0; j + 1 < w.size(); ++j)
        if (w[j] == ".entry") k->name = w[j + 1];
      const auto open = s.find('{', i);
      std::string directives;
      if (paren < open) {
        const auto close = s.find(')', paren);
        std::string list = s.substr(paren + 1, close - paren - 1), item;
        std::istringstream in(list);
        while (std::getline(in, item, ',')) {
          if (words(item).empty()) continue;
          const Declared p = declared(item);
          const u32 at = (k->param_bytes + p.align - 1) / p.align * p.align;
          k->params.push_back({p.name, at, p.size});
          k->param_bytes = at + p.size;
        }
        directives = s.substr(close + 1, open - close - 1);
      }
      if (const auto at = directives.find(".maxntid"); at != std::string::npos) {
        u32 product = 1;
        const char* p = directives.c_str() + at + 8;
        for (;;) {
          char* end;
          product *= static_cast<u32>(std::strtoul(p, &end, 10));
          p = end;
          while (*p == ' ') ++p;
          if (*p != ',') break;
          ++p;
        }
        k->max_threads = product;
        k->has_max_threads = true;
      }
      const auto number = [&](const char* name, u32& to) {
        if (const auto at = directives.find(name); at != std::string::npos)
          to = static_cast<u32>(std::atoi(directives.c_str() + at + std::strlen(name)));
      };
      number(".minnctapersm", k->min_blocks);
      number(".maxnreg", k->max_registers);
      int depth = 0;
      std::size_t j = open;
      for (;; ++j) {
        if (s[j] == '{') ++depth;
        if (s[j] == '}' && --depth == 0) break;
      }
      k->body = s.substr(open + 1, j - open - 1);
      i = j + 1;
      m->kernels[k->name] = std::move(k);
    } else if (head.find(".func") != std::string::npos) {
      if (semicolon < brace) {
        i = semicolon + 1;
        continue;
      }  // a declaration; calls are refused where they are decoded
      unsupported("a device function: " + head);
    } else {
      const std::string text = s.substr(i, semicolon - i);
      const Declared v = declared(text.substr(0, text.find('=')));
      if (v.space == ".shared")
        m->shareds[v.name] = {v.size, v.align, v.unsized, order++};
      else if (v.space == ".global" || v.space == ".const") {
        Variable var{v.name, v.size, v.align, {}};
        if (const auto eq = text.find('='); eq != std::string::npos) {
          // only numbers: {1, 2, 3}
          std::string list = text.substr(eq + 1);
          for (char& c : list)
            if (c == '{' || c == '}' || c == ',') c = ' ';
          const auto ws = words(text.substr(0, eq));
          u32 element = 1;
          for (std::size_t w = 0; w < ws.size(); ++w)
            if (ws[w].size() > 2 && ws[w][0] == '.' && std::isdigit(static_cast<unsigned char>(ws[w].back())) &&
                ws[w] != ".align")
              element = type_bytes(ws[w]);
          for (const auto& w : words(list)) {
            u64 value;
            if (w.starts_with("0f") || w.starts_with("0F") || w.starts_with("0d") || w.starts_with("0D"))
              value = std::strtoull(w.c_str() + 2, nullptr, 16);
            else if (std::isdigit(static_cast<unsigned char>(w[0])) || w[0] == '-')
              value = w[0] == '-' ? static_cast<u64>(std::strtoll(w.c_str(), nullptr, 0))
                                  : std::strtoull(w.c_str(), nullptr, 0);
            else
              unsupported("initializer " + w + " of " + v.name);
            const auto* p = reinterpret_cast<u8*>(&value);
            var.init.insert(var.init.end(), p, p + element);
          }
        }
        m->globals[v.name] = var;
      } else
        unsupported("PTX at module level: " + text.substr(0, 200));
      i = semicolon + 1;
    }
  }
  return m;
}

}  // namespace heddle::ptx
