// Products, computed from their descriptions alone: by plain loops, with sums in double.
#pragma once
#include "objects.hpp"

namespace heddle::ptx {

struct Product {
  Problem problem;
  float alpha, beta;
  const void *a, *b, *c;
  void* d;
  bool is_rounded_twice = false;  // to the type of D: before C or the bias is added, and at the end
};

// Computes a product when its stream runs it. Reports a fault if a matrix is not inside one allocation.
void compute(const Product& product);

}  // namespace heddle::ptx
