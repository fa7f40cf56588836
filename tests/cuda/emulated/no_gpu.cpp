// What only a GPU that is not there can show.
#include <heddle/cuda.hpp>

#include "../../catch.hpp"
#include "schedules.hpp"

using namespace heddle;

TEST_CASE("cuda runtime: why there is no GPU is a sentence") {
  emulator::device().count = 0;
  CHECK(cuda::unavailable() == "no GPU was found");
  emulator::device().count = 1;
  CHECK(cudaGetLastError() == cudaSuccess);
}
