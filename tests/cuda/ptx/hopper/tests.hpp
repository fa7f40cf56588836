// The parts of the test of Hopper's instructions. Each function throws for a wrong result. Those with a fault plant it,
// if it is not none.
#pragma once
#include "../self_test.hpp"

namespace heddle::testing::hopper {

// Returns a number from -8 to 8.
inline int small_number(int i, int seed) {
  const unsigned mixed = static_cast<unsigned>(i) * 2654435761u + static_cast<unsigned>(seed) * 40503u;
  return static_cast<int>(mixed >> 20) % 17 - 8;
}

// Every shape, layout and type of wgmma.
void check_products();
enum class ProductFault { none, no_proxy_fence, overwritten_a };
void check_product(ProductFault fault);

// Tiles of 1 to 5 dimensions, with every swizzle.
void check_tiles();
enum class CopyFault { none, no_proxy_fence, no_wait, odd_column, negative, ragged_end };
// Loads, stores and reductions, with and without a tensor map.
void check_copies(CopyFault fault);

void check_mbarriers();
void check_cp_async_arrival();
// A try_wait that must give up, and with `spins` a test_wait that never succeeds.
void check_failing_wait(bool spins);

// A matrix product and an attention. One warp loads tiles for two warpgroups.
enum class PipelineFault {
  none,
  no_wait,
  wrong_phase,
  few_bytes,
  many_bytes,
  no_wgmma_wait,
  wrong_swizzle,
  early_release,
  disagree,
  no_wgmma_fence,
  too_many_registers,
  no_init_sync,
  no_proxy_fence,
  no_store_wait,
  no_commit,
  three_warps
};
void check_gemm(PipelineFault fault);
void check_attention(PipelineFault fault, int keys);

}  // namespace heddle::testing::hopper
