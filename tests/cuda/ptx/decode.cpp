// Decodes the body of a kernel: splits it into directives, labels and instructions, and resolves the targets of
// branches (PTX ISA, "Statements" and "Predicated Execution"). Instructions are decoded by decode_*.cpp. An unknown one
// ends the process with its text.
#include "decode.hpp"

#include <algorithm>
#include <utility>

namespace heddle::ptx {

const char* const category_names[category_count] = {
    "mma",      "ldmatrix", "ld.global", "st.global", "ld.shared", "st.shared", "ld.param",  "ld/st other",
    "cp.async", "atom",     "bar",       "wgmma",     "bulk copy", "mbarrier",  "shfl/vote", "cvt",
    "mufu",     "div/sqrt", "fp",        "int",       "pred",      "mov",       "branch",    "other"};

Statement::Statement(std::string text, Symbols& its_symbols) : symbols(its_symbols) {
  if (text[0] == '@') {
    const auto guard_end = text.find_first_of(" \t\n");
    if (guard_end == std::string::npos) refuse("instruction");
    guard = text.substr(1, guard_end - 1);
    text = trimmed(text.substr(guard_end));
  }
  const auto mnemonic_end = std::min(text.find_first_of(" \t\n"), text.size());
  mnemonic = text.substr(0, mnemonic_end);
  operands = split(std::string_view(text).substr(mnemonic_end), ',');
  qualifiers = split(mnemonic, '.');
  opcode = qualifiers.front();
  qualifiers.erase(qualifiers.begin());
  std::replace(qualifiers.begin(), qualifiers.end(), std::string("shared::cta"), std::string("shared"));
  type = qualifiers.empty() ? Type::none : type_of(qualifiers.back());
  bytes = bytes_of(type);
}

std::vector<std::string> elements_of(const std::string& text) {
  if (!text.starts_with('{')) return {text};
  return split(std::string_view(text).substr(1, text.size() - 2), ',');
}

bool Statement::has(std::string_view qualifier) const {
  return std::find(qualifiers.begin(), qualifiers.end(), qualifier) != qualifiers.end();
}

void Statement::allow(std::string_view known) const {
  for (const std::string& qualifier : qualifiers) {
    const bool is_type = &qualifier == &qualifiers.back() && type != Type::none;
    if (!is_type && !is_listed(qualifier, known)) refuse("qualifier ." + qualifier);
  }
}

void Statement::require(std::string_view qualifier) const {
  if (!has(qualifier)) refuse("qualifier missing: ." + std::string(qualifier));
}

void Statement::require_untyped() const {
  if (type != Type::none) refuse("type");
}

void Statement::require_operands(std::size_t count) const {
  if (operands.size() != count) refuse("number of operands");
}

const std::string& Statement::operand_text(std::size_t index) const {
  if (index >= operands.size()) refuse("number of operands");
  return operands[index];
}

void Statement::read_vector(std::size_t index, u32 element_bytes, std::span<Operand> to) const {
  const std::vector<std::string> from = elements(index);
  if (from.size() != to.size()) refuse("vector length");
  std::transform(from.begin(), from.end(), to.begin(),
                 [&](const std::string& element) { return symbols.operand(element, element_bytes); });
}

std::pair<std::string, std::string> Statement::pair(std::size_t index) const {
  const std::string& text = operand_text(index);
  const auto bar = text.find('|');
  if (bar == std::string::npos) return {text, ""};
  return {trimmed(text.substr(0, bar)), trimmed(text.substr(bar + 1))};
}

void Statement::read_operands(Instruction& instruction, std::span<const u32> sizes) const {
  require_operands(sizes.size());
  Operand* const to[] = {&instruction.d, &instruction.a, &instruction.b, &instruction.c, &instruction.e};
  for (std::size_t i = 0; i < sizes.size(); ++i) *to[i] = operand(i, sizes[i]);
}

void decode_predicate_op(const Statement& statement, Instruction& instruction, PredicateOp operation) {
  const bool is_unary = operation == pred_not || operation == pred_mov;
  statement.require_operands(is_unary ? 2 : 3);
  instruction.d = statement.predicate(0);
  instruction.a = statement.predicate(1);
  if (!is_unary) instruction.b = statement.predicate(2);
  instruction.modifier = operation;
  instruction.category = c_pred;
  instruction.execute = predicate_op;
}

namespace {

DecodeFunction find_decoder(const std::string& opcode) {
  for (const DecodeTable* table : {&arithmetic_instructions(), &data_instructions(), &synchronization_instructions(),
                                   &matrix_instructions(), &async_instructions()})
    if (const auto found = table->find(opcode); found != table->end()) return found->second;
  refuse("instruction");
}

// Returns whether the first operand of an instruction is its result.
bool writes_first_operand(const std::string& opcode) {
  return !is_listed(opcode, "st red bra bar barrier cp fence mbarrier stmatrix prefetch");
}

// Appends the numbers of the registers that an operand mentions. A register's name has no dot, but that of a special
// register may have one.
void append_registers(const std::string& operand, const Symbols& symbols, std::vector<u32>& numbers) {
  const auto is_part_of_name = [](char c) { return is_identifier(c) || c == '.'; };
  for (auto begin = operand.begin(); begin != operand.end();) {
    begin = std::find_if(begin, operand.end(), is_part_of_name);
    const auto end = std::find_if_not(begin, operand.end(), is_part_of_name);
    const Register* found = symbols.find_register(std::string(begin, end));
    if (found && found->type != Type::pred) numbers.push_back(found->offset / 64);
    begin = end;
  }
}

// Returns the registers that an instruction reads and writes. Those of a wgmma are left out: wgmma() tracks them
// itself.
Kernel::Registers registers_of(const Statement& statement) {
  Kernel::Registers registers;
  if (statement.opcode == "wgmma") return registers;
  for (std::size_t i = 0; i < statement.operands.size(); ++i) {
    const bool is_result = i == 0 && writes_first_operand(statement.opcode);
    append_registers(statement.operands[i], statement.symbols, is_result ? registers.to : registers.from);
  }
  const bool is_mov = statement.opcode == "mov";
  registers.move = is_mov && registers.to.size() == 1 && registers.from.size() == 1 && statement.guard.empty();
  registers.constant = is_mov && registers.from.empty();
  return registers;
}

class BodyDecoder {
 public:
  // Keeps the text that is being decoded in `statement`, for the message of a refusal.
  BodyDecoder(Kernel& kernel, std::string& statement) : kernel_(kernel), symbols_(kernel), statement_(statement) {}

  void run() {
    const std::string& body = kernel_.body;
    for (std::size_t position = 0; position < body.size();) {
      const char c = body[position];
      if (is_space(c) || c == ';' || c == '{' || c == '}') {
        if (c == '{') symbols_.open_scope();
        if (c == '}') symbols_.close_scope();
        ++position;
      } else if (const auto colon = find_label_end(position); colon != std::string::npos) {
        symbols_.declare_label(body.substr(position, colon - position), next_address());
        position = colon + 1;
      } else {
        position = decode_statement(position);
      }
    }
    append_end();
    resolve_branches();
  }

 private:
  struct Branch {
    u32 address;
    std::string label;
    std::size_t scope;
  };

  u32 next_address() const { return static_cast<u32>(kernel_.code.size()); }

  // Returns the position of the colon of a label, or npos if the text at the position is no label.
  std::size_t find_label_end(std::size_t position) const {
    const std::string& body = kernel_.body;
    auto end = position;
    while (end < body.size() && is_identifier(body[end])) ++end;
    const bool is_label = end > position && end < body.size() && body[end] == ':' && body[end + 1] != ':';
    return is_label ? end : std::string::npos;
  }

  // Decodes the statement at a position. Returns the position after it.
  std::size_t decode_statement(std::size_t position) {
    const std::string& body = kernel_.body;
    const auto end = std::min(body.find(';', position), body.size());
    statement_ = trimmed(body.substr(position, end - position));
    if (end == body.size()) refuse("a statement without its end");
    if (statement_[0] == '.')
      symbols_.declare(statement_);
    else
      decode_instruction();
    return end + 1;
  }

  void decode_instruction() {
    const Statement statement(statement_, symbols_);
    Instruction instruction;
    if (!statement.guard.empty()) {
      const Operand guard = symbols_.predicate(statement.guard);
      if (guard.constant || guard.absent) refuse("guard");
      instruction.guarded = true;
      instruction.guard_negated = guard.negated;
      instruction.guard = guard.offset;
    }
    find_decoder(statement.opcode)(statement, instruction);
    if (instruction.kind == branch)
      branches_.push_back({next_address(), statement.operand_text(0), symbols_.scope()});
    else if (instruction.kind != leave && !instruction.execute && !instruction.poll)
      refuse("instruction");
    append(instruction);
    if (kernel_.has_wgmma) {
      kernel_.registers_of.resize(kernel_.code.size());
      kernel_.registers_of.back() = registers_of(statement);
    }
  }

  void append(const Instruction& instruction) {
    kernel_.code.push_back(instruction);
    kernel_.code.back().text = static_cast<u32>(kernel_.texts.size());
    kernel_.texts.push_back(statement_);
  }

  // Threads that run past the last instruction end.
  void append_end() {
    statement_ = "(end of the kernel)";
    Instruction end;
    end.kind = leave;
    end.category = c_branch;
    append(end);
    if (kernel_.has_wgmma) kernel_.registers_of.resize(kernel_.code.size());
  }

  void resolve_branches() {
    for (const auto& [address, label, scope] : branches_) {
      statement_ = kernel_.texts[address];
      const auto target = symbols_.find_label(label, scope);
      if (!target) refuse("unknown label");
      kernel_.code[address].target = *target;
    }
  }

  Kernel& kernel_;
  Symbols symbols_;
  std::vector<Branch> branches_;
  std::string& statement_;
};

}  // namespace

void decode(Kernel& kernel) {
  if (kernel.decoded) return;
  kernel.has_wgmma = kernel.body.find("wgmma.") != std::string::npos;
  std::string statement;
  try {
    BodyDecoder(kernel, statement).run();
  } catch (const Refusal& refusal) {
    unsupported(refusal.why + ": '" + statement + "' in " + demangled(kernel.name));
  }
  kernel.executed.assign(kernel.code.size(), 0);
  kernel.lanes.assign(kernel.code.size(), 0);
  kernel.decoded = true;
}

}  // namespace heddle::ptx
