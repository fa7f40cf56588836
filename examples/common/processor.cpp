// This file is compiled for the architecture's baseline, whatever the flags of the programs are.
#include "processor.hpp"

#include <unistd.h>
#include <cerrno>
#include <cstring>

namespace heddle::examples {
namespace {

#ifdef __x86_64__

// Returns the first required instruction set that this processor lacks, or nullptr.
const char* lacking() {
  __builtin_cpu_init();
  const unsigned required = required_instructions;
  const auto lacks = [&](int bit, bool there) { return (required >> bit & 1) != 0 && !there; };
  if (lacks(0, __builtin_cpu_supports("avx") != 0)) return "AVX";
  if (lacks(1, __builtin_cpu_supports("avx2") != 0)) return "AVX2";
  if (lacks(2, __builtin_cpu_supports("fma") != 0)) return "FMA";
  if (lacks(3, __builtin_cpu_supports("avx512f") != 0)) return "AVX-512 F";
  if (lacks(4, __builtin_cpu_supports("avx512bw") != 0)) return "AVX-512 BW";
  if (lacks(5, __builtin_cpu_supports("avx512vl") != 0)) return "AVX-512 VL";
  if (lacks(6, __builtin_cpu_supports("avx512vnni") != 0)) return "AVX-512 VNNI";
  if (lacks(7, __builtin_cpu_supports("avx512bf16") != 0)) return "AVX-512 BF16";
  return nullptr;
}

void say(const char* text) {
  if (::write(STDERR_FILENO, text, std::strlen(text)) < 0) _exit(1);
}

// Runs before the constructors of the program's own objects, which may use those instructions.
[[gnu::constructor(101)]] void check_processor() {
  const char* const what = lacking();
  if (!what) return;
  say(program_invocation_short_name);
  say(": error: this program was built for a processor with ");
  say(what);
  say(", which this one lacks; build it on this machine, or with -DHEDDLE_NATIVE=OFF for any processor\n");
  _exit(1);
}

#endif

}  // namespace

bool processor_checked() { return true; }

}  // namespace heddle::examples
