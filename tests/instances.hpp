// The operations in double, compiled once in instances.cpp instead of in each test. heddle::compiled has those in float
// and bf16.
#pragma once
#include <heddle/heddle.hpp>

#define HEDDLE_TEMPLATE extern template
#define HEDDLE_ELEMENT double
#include <heddle/compiled/operations.inc>
#undef HEDDLE_ELEMENT
#undef HEDDLE_TEMPLATE
