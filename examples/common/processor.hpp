// Ends a program with an error message if it was built for instructions that this processor lacks.
#pragma once

namespace heddle::examples {

// Bit i stands for the instruction set with number i in processor.cpp. A constant, not a function, because it is read before any other code
// runs.
extern const unsigned required_instructions;

// Returns true. A call to this function links the check into the program. The check runs before main().
bool processor_checked();

}  // namespace heddle::examples
