// Declares the content of heddle::compiled. In a program that links it (HEDDLE_COMPILED), heddle.hpp includes this
// file: the compiler then takes these functions from the library instead of compiling them. Other element types compile
// as usual.
#pragma once
#include <heddle/compiled/operations.hpp>
#include <heddle/heddle.hpp>

#define HEDDLE_TEMPLATE extern template
#include <heddle/compiled/training.inc>
#undef HEDDLE_TEMPLATE
