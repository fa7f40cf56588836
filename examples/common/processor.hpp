// A program that was built for this processor's own instructions says so on another one, in a sentence.
#pragma once

namespace heddle::examples {

// Bit i stands for the instruction set of that number in processor.cpp. Data, not code: it is read before anything else runs.
extern const unsigned required_instructions;

// True. Whoever asks links the check, which runs before main.
bool processor_checked();

}  // namespace heddle::examples
