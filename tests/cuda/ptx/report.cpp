#include "report.hpp"

#include <map>
#include <set>
#include <tuple>

namespace heddle::ptx {

void report(const Warp& warp, const Instruction& instruction, const std::string& kind, const std::string& details) {
  constexpr int most_instructions = 4;
  static std::set<std::tuple<const Kernel*, u32, std::string>> reported;
  static std::map<std::pair<const Kernel*, std::string>, int> instructions;
  const Block& block = *warp.block;
  const Kernel& kernel = *block.kernel;
  if (!reported.insert({&kernel, instruction.text, kind}).second) return;
  const int count = ++instructions[{&kernel, kind}];
  if (count > most_instructions) {
    if (count == most_instructions + 1)
      std::fprintf(stderr, "ptx: %s: also at other instructions of this kernel\n", kind.c_str());
    return;
  }
  std::fprintf(stderr, "ptx: %s%s\n  warp %d of block (%u, %u, %u)\n  %.300s\n  %s\n", kind.c_str(), details.c_str(),
               warp.id, block.id.x, block.id.y, block.id.z, kernel.texts[instruction.text].c_str(),
               demangled(kernel.name).c_str());
  std::fflush(stderr);
}

}  // namespace heddle::ptx
