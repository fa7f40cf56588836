#include <heddle/heddle.hpp>

#define HEDDLE_TEMPLATE template
#define HEDDLE_ELEMENT float
#include <heddle/compiled/elementwise.inc>
#undef HEDDLE_ELEMENT
#define HEDDLE_ELEMENT bf16
#include <heddle/compiled/elementwise.inc>
