#include <heddle/heddle.hpp>
// The operations come from the other files.
#include <heddle/compiled/operations.hpp>

#define HEDDLE_TEMPLATE template
#include <heddle/compiled/training.inc>
