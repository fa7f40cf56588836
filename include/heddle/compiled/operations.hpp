// Declares the operations of heddle::compiled as extern templates, for float and bf16.
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
