#include <heddle/heddle.hpp>

#define HEDDLE_TEMPLATE template
#define HEDDLE_ELEMENT double
#include <heddle/compiled/operations.inc>
