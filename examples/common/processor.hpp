// Ends a program with an error message if it was built for instructions that this processor lacks.
#pragma once

namespace heddle::examples {

// Bit i stands for the instruction set with number i in processor.cpp. A constant, because a function would be compiled
// for these instruction sets and might use them before they are checked.
extern const unsigned required_instructions;

// Returns true. A call to this function links the check into the program. The check runs before main().
bool processor_checked();

}  // namespace heddle::examples
