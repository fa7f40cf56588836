// What the parts of the interpreter's self test share.
#pragma once
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "../device_array.hpp"

namespace heddle::testing {

// Throws unless a kernel's result is the expected one.
template <class T>
void expect_equal(const std::string& what, T actual, T expected) {
  if (actual == expected || (actual != actual && expected != expected)) return;
  throw std::runtime_error("wrong: " + what + " is " + std::to_string(actual) + " instead of " +
                           std::to_string(expected));
}

// Compares the results of instructions with plain C++. Throws for the first difference.
void check_instructions();

}  // namespace heddle::testing
