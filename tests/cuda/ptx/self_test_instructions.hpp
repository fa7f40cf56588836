#pragma once

namespace heddle::testing {

// Compares the results of instructions with plain C++. Throws for the first difference.
void check_instructions();

}  // namespace heddle::testing
