// Declares the operations of heddle::compiled as extern templates, for float and bf16. The lists are files of their
// own, because each is read twice: as declarations here, where HEDDLE_TEMPLATE is `extern template`, and as definitions
// in src, where it is `template`. With the library, README's program compiles in a quarter of the time.
#pragma once
#include <heddle/heddle.hpp>

#define HEDDLE_TEMPLATE extern template
#define HEDDLE_ELEMENT float
#include <heddle/compiled/operations.inc>
#undef HEDDLE_ELEMENT
#define HEDDLE_ELEMENT bf16
#include <heddle/compiled/operations.inc>
#undef HEDDLE_ELEMENT
#undef HEDDLE_TEMPLATE
