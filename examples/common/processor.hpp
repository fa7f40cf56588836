// Ends a program with an error message if it was built for instructions that this processor lacks.
#pragma once

namespace heddle::examples {

// Bit i stands for the instruction set with number i in processor.cpp. A constant, not a function, because it is read before any other code
// runs.
extern const unsigned required_instructions;

// Returns true. A call links the check, which runs before main(), into the program.
bool processor_checked();

}  // namespace heddle::examples
