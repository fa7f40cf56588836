// Special registers, which tell a thread its place in the grid (PTX ISA, "Special Registers").
#pragma once
#include <string_view>

#include "interpreter.hpp"

namespace heddle::ptx {

struct SpecialRegister {
  std::string_view name;
  u32 (*value)(const Block& block, u32 thread);  // `thread` counts the threads of the block
};

// Returns nullptr for an unknown name.
const SpecialRegister* find_special_register(std::string_view name);

}  // namespace heddle::ptx
