// Reads the text of a PTX module: its variables, and the names, parameters and limits of its kernels (PTX ISA,
// "Syntax", "Variables" and "Directives"). decode.cpp decodes the bodies of the kernels.
#include <algorithm>
#include <utility>

#include "syntax.hpp"

namespace heddle::ptx {

void unsupported(const std::string& what) {
  std::fprintf(stderr, "ptx: NOT SUPPORTED: %s\n", what.c_str());
  std::fflush(stderr);
  std::_Exit(97);
}

namespace {

std::string without_comments(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    if (text.starts_with("//")) {
      text.remove_prefix(std::min(text.find('\n'), text.size()));
    } else if (text.starts_with("/*")) {
      text.remove_prefix(std::min(text.find("*/", 2), text.size() - 2) + 2);
    } else {
      const auto code = std::min(text.find('/', 1), text.size());
      out += text.substr(0, code);
      text.remove_prefix(code);
    }
  }
  return out;
}

// Returns the word behind another one.
std::string word_after(std::string_view text, std::string_view word) {
  const std::vector<std::string> all = words(text);
  const auto found = std::find(all.begin(), all.end(), word);
  if (all.end() - found < 2) refuse("PTX at module level: " + std::string(text.substr(0, 200)));
  return found[1];
}

// Returns the numbers behind a directive, such as {256, 1, 1} for `.maxntid 256, 1, 1`. Returns none if the directive
// is absent.
std::vector<u32> directive_values(const std::string& directives, const char* name) {
  std::vector<u32> values;
  const auto at = directives.find(name);
  if (at == std::string::npos) return values;
  for (const char* p = directives.c_str() + at + std::strlen(name);; ++p) {
    char* end = nullptr;
    values.push_back(static_cast<u32>(std::strtoul(p, &end, 10)));
    p = end;
    while (is_space(*p)) ++p;
    if (*p != ',') return values;
  }
}

// Returns the bytes of an initializer, which may contain numbers, but no addresses.
std::vector<u8> parse_initializer(std::string list, const Declaration& variable) {
  std::replace_if(
      list.begin(), list.end(), [](char c) { return c == '{' || c == '}' || c == ','; }, ' ');
  std::vector<u8> bytes;
  for (const std::string& word : words(list)) {
    if (!is_number(word)) refuse("initializer " + word + " of " + variable.name);
    const u64 value = parse_number(word, variable.element_bytes);
    const auto* first = reinterpret_cast<const u8*>(&value);
    bytes.insert(bytes.end(), first, first + variable.element_bytes);
  }
  return bytes;
}

class Parser {
 public:
  explicit Parser(const std::string& text) : text_(without_comments(text)) {}

  std::unique_ptr<Module> parse() {
    for (skip_space(); position_ < text_.size(); skip_space()) {
      const std::string_view rest = std::string_view(text_).substr(position_);
      const std::string_view head = rest.substr(0, rest.find_first_of(";{("));
      if (rest.starts_with(".version") || rest.starts_with(".target") || rest.starts_with(".address_size"))
        parse_header();
      else if (head.find(".entry") != std::string_view::npos)
        parse_kernel();
      else if (head.find(".func") != std::string_view::npos)
        skip_function_declaration();
      else
        parse_variable();
    }
    return std::move(module_);
  }

 private:
  void skip_space() {
    while (position_ < text_.size() && is_space(text_[position_])) ++position_;
  }

  // Returns the text up to `end` and moves past it.
  std::string take_until(char end) {
    const auto at = text_.find(end, position_);
    if (at == std::string::npos) refuse("PTX at module level without its end: " + text_.substr(position_, 200));
    const std::string taken = text_.substr(position_, at - position_);
    position_ = at + 1;
    return taken;
  }

  // Returns the text up to the brace that closes the body at the position, and moves past it.
  std::string take_body() {
    const auto begin = position_;
    for (int depth = 1; position_ < text_.size(); ++position_) {
      if (text_[position_] == '{') ++depth;
      if (text_[position_] == '}' && --depth == 0) return text_.substr(begin, position_++ - begin);
    }
    refuse("a kernel without its end");
  }

  void parse_header() {
    const std::vector<std::string> line = words(take_until('\n'));
    if (line[0] == ".target" && line.size() > 1) module_->target = line[1];
  }

  void parse_kernel() {
    auto kernel = std::make_unique<Kernel>();
    kernel->module = module_.get();
    const std::string head = take_until('{');
    const auto open = head.find('(');
    const auto close = open == std::string::npos ? open : head.find(')', open);
    kernel->name = word_after(std::string_view(head).substr(0, open), ".entry");
    if (close != std::string::npos) parse_parameters(head.substr(open + 1, close - open - 1), *kernel);
    parse_limits(close == std::string::npos ? head : head.substr(close), *kernel);
    kernel->body = take_body();
    module_->kernels[kernel->name] = std::move(kernel);
  }

  static void parse_parameters(const std::string& list, Kernel& kernel) {
    for (const std::string& item : split(list, ',')) {
      const Declaration parameter = parse_declaration(item);
      const u32 offset = round_up(kernel.param_bytes, parameter.alignment);
      kernel.params.push_back({parameter.name, offset, parameter.bytes});
      kernel.param_bytes = offset + parameter.bytes;
    }
  }

  // Reads the performance-tuning directives.
  static void parse_limits(const std::string& directives, Kernel& kernel) {
    if (const auto extents = directive_values(directives, ".maxntid"); !extents.empty()) {
      kernel.has_max_threads = true;
      kernel.max_threads = 1;
      for (const u32 extent : extents) kernel.max_threads *= extent;
    }
    if (const auto blocks = directive_values(directives, ".minnctapersm"); !blocks.empty())
      kernel.min_blocks = blocks[0];
    if (const auto count = directive_values(directives, ".maxnreg"); !count.empty()) kernel.max_registers = count[0];
  }

  // Skips the declaration of a device function. decode() refuses its calls.
  void skip_function_declaration() {
    const auto brace = text_.find('{', position_);
    const std::string declaration = take_until(';');
    if (brace < position_) refuse("a device function: " + declaration.substr(0, declaration.find('(')));
  }

  void parse_variable() {
    const std::string text = take_until(';');
    const auto equals = text.find('=');
    const Declaration declaration = parse_declaration(std::string_view(text).substr(0, equals));
    if (declaration.space == ".shared") {
      module_->shareds[declaration.name] = {declaration.bytes, declaration.alignment, declaration.is_unsized,
                                            shared_count_++};
    } else if (declaration.space == ".global" || declaration.space == ".const") {
      Variable variable;
      variable.name = declaration.name;
      variable.size = declaration.bytes;
      variable.align = declaration.alignment;
      if (equals != std::string::npos) variable.init = parse_initializer(text.substr(equals + 1), declaration);
      module_->globals[variable.name] = std::move(variable);
    } else {
      refuse("PTX at module level: " + text.substr(0, 200));
    }
  }

  std::string text_;
  std::size_t position_ = 0;
  std::unique_ptr<Module> module_ = std::make_unique<Module>();
  int shared_count_ = 0;
};

}  // namespace

std::unique_ptr<Module> parse(const std::string& text) {
  try {
    return Parser(text).parse();
  } catch (const Refusal& refusal) {
    unsupported(refusal.why);
  }
}

}  // namespace heddle::ptx
