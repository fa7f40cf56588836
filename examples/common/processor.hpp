// Ends a program with an error message if it was built for instructions that this processor lacks.
#pragma once

namespace heddle::examples {

// Bit i is the instruction set of that number in processor.cpp. Data, not code, because it is read before any other code runs.
extern const unsigned required_instructions;

// Returns true. A caller links the check, which runs before main.
bool processor_checked();

}  // namespace heddle::examples
