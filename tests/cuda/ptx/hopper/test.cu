// The test of Hopper's asynchronous instructions on the interpreter: results against plain loops, and kernels with one
// fault each, which the interpreter must report.
#include "tests.hpp"

namespace {

using namespace heddle::testing::hopper;

constexpr int keys = 450;

struct Check {
  const char* what;
  void (*run)();
};
const Check checks[] = {
    {"wgmma of every shape, layout and type", check_products},
    {"tiles of 1 to 5 dimensions, inside and outside of their tensors", check_tiles},
    {"bulk loads, stores and reductions", [] { check_copies(CopyFault::none); }},
    {"mbarriers and named barriers", check_mbarriers},
    {"cp.async that arrives at an mbarrier", check_cp_async_arrival},
    {"a wait that gives up", [] { check_failing_wait(false); }},
    {"a matrix product", [] { check_gemm(PipelineFault::none); }},
    {"attention of 450 keys", [] { check_attention(PipelineFault::none, keys); }},
    {"attention of 1 key", [] { check_attention(PipelineFault::none, 1); }},
    {"attention of 64 keys", [] { check_attention(PipelineFault::none, 64); }},
    {"attention of 200 keys", [] { check_attention(PipelineFault::none, 200); }},
};

template <PipelineFault fault>
void gemm() {
  check_gemm(fault);
}
template <PipelineFault fault>
void attention() {
  check_attention(fault, keys);
}

struct Fault {
  const char* name;
  const char* message;  // a regular expression of the report
  void (*plant)();
};
const Fault faults[] = {
    {"no_wait", "RACE: a read is not ordered after a write: .* after a copy to mbarrier", gemm<PipelineFault::no_wait>},
    {"wrong_phase", "RACE: a read is not ordered after a write: .* after a copy to mbarrier",
     gemm<PipelineFault::wrong_phase>},
    {"few_bytes", "expect_tx announced fewer bytes", gemm<PipelineFault::few_bytes>},
    {"many_bytes",
     "waits for parity 0 of mbarrier 0x400: phase 0 \\(parity 0\\), 0 of 1 arrivals pending, 16 bytes pending",
     gemm<PipelineFault::many_bytes>},
    {"no_wgmma_wait", "WGMMA: an accumulator is read before wgmma.wait_group", gemm<PipelineFault::no_wgmma_wait>},
    {"wrong_swizzle", "^wrong: an element of the matrix product", gemm<PipelineFault::wrong_swizzle>},
    {"early_release", "RACE: a write is not ordered after a read: .* after wgmma of warpgroup",
     gemm<PipelineFault::early_release>},
    {"disagree", "the warps of a warpgroup disagree: product 0", gemm<PipelineFault::disagree>},
    {"three_warps", "products that not all warps of its warpgroup have issued", gemm<PipelineFault::three_warps>},
    {"no_wgmma_fence", "WGMMA: an accumulator is written before wgmma.wait_group", gemm<PipelineFault::no_wgmma_fence>},
    {"too_many_registers", "setmaxnreg.inc to 240; the warps have", gemm<PipelineFault::too_many_registers>},
    {"no_init_sync", "RACE: the use of an mbarrier is not ordered after its mbarrier.init",
     gemm<PipelineFault::no_init_sync>},
    {"no_commit", "^wrong: an element of the matrix product", gemm<PipelineFault::no_commit>},
    {"attention_early_release", "RACE: a write is not ordered after a read: .* after wgmma of warpgroup",
     attention<PipelineFault::early_release>},
    {"attention_no_wgmma_fence", "WGMMA: registers were written after the last wgmma.fence",
     attention<PipelineFault::no_wgmma_fence>},
    {"attention_no_proxy_fence",
     "PROXY: no fence.proxy.async between a generic write and an asynchronous read: .* a bulk store of warp",
     attention<PipelineFault::no_proxy_fence>},
    {"attention_no_store_wait", "EXIT: .*wait_group.read is missing", attention<PipelineFault::no_store_wait>},
    {"product_no_proxy_fence",
     "PROXY: no fence.proxy.async between a generic write and an asynchronous read: .* wgmma of warpgroup",
     [] { check_product(ProductFault::no_proxy_fence); }},
    {"product_overwritten_a", "WGMMA: a register of A is written before wgmma.wait_group",
     [] { check_product(ProductFault::overwritten_a); }},
    {"copy_no_proxy_fence", "PROXY: no fence.proxy.async between a generic write and an asynchronous read",
     [] { check_copies(CopyFault::no_proxy_fence); }},
    {"copy_no_wait", "RACE: a write is not ordered after a read: .* after a bulk store of warp",
     [] { check_copies(CopyFault::no_wait); }},
    {"copy_odd_column", "a tile that begins 24 bytes after the first column, not a multiple of 16",
     [] { check_copies(CopyFault::odd_column); }},
    {"copy_negative", "a store of a tile that begins at -3 in dimension 1", [] { check_copies(CopyFault::negative); }},
    {"copy_ragged_end", "a store of a tile across the end of rows of 72 bytes, not a multiple of 16",
     [] { check_copies(CopyFault::ragged_end); }},
    {"endless_wait", "lanes 0x1: waits for parity 0 of mbarrier", [] { check_failing_wait(true); }},
};

void run_checks() {
  for (const Check& check : checks) {
    check.run();
    std::printf("ok: %s\n", check.what);
  }
}

}  // namespace

int main(int count, char** arguments) {
  return heddle::testing::run_self_test(count, arguments, {"PTX_RACES"}, run_checks, faults,
                                        [](const Fault& fault) { fault.plant(); });
}
