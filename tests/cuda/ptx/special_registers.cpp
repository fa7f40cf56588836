#include "special_registers.hpp"

namespace heddle::ptx {

namespace {

constexpr u32 sm_count = 132;         // of an H100
constexpr u32 warp_slots_of_sm = 64;  // of every GPU with 2048 threads per SM

u32 lane_bit(u32 thread) { return 1u << thread % 32; }

// Every cluster is one block.
constexpr SpecialRegister special_registers[] = {
    {"%tid.x", [](const Block& block, u32 thread) { return thread % block.dim.x; }},
    {"%tid.y", [](const Block& block, u32 thread) { return thread / block.dim.x % block.dim.y; }},
    {"%tid.z", [](const Block& block, u32 thread) { return thread / block.dim.x / block.dim.y; }},
    {"%ntid.x", [](const Block& block, u32) { return block.dim.x; }},
    {"%ntid.y", [](const Block& block, u32) { return block.dim.y; }},
    {"%ntid.z", [](const Block& block, u32) { return block.dim.z; }},
    {"%ctaid.x", [](const Block& block, u32) { return block.id.x; }},
    {"%ctaid.y", [](const Block& block, u32) { return block.id.y; }},
    {"%ctaid.z", [](const Block& block, u32) { return block.id.z; }},
    {"%nctaid.x", [](const Block& block, u32) { return block.grid.x; }},
    {"%nctaid.y", [](const Block& block, u32) { return block.grid.y; }},
    {"%nctaid.z", [](const Block& block, u32) { return block.grid.z; }},
    {"%clusterid.x", [](const Block& block, u32) { return block.id.x; }},
    {"%clusterid.y", [](const Block& block, u32) { return block.id.y; }},
    {"%clusterid.z", [](const Block& block, u32) { return block.id.z; }},
    {"%nclusterid.x", [](const Block& block, u32) { return block.grid.x; }},
    {"%nclusterid.y", [](const Block& block, u32) { return block.grid.y; }},
    {"%nclusterid.z", [](const Block& block, u32) { return block.grid.z; }},
    {"%cluster_ctaid.x", [](const Block&, u32) { return 0u; }},
    {"%cluster_ctaid.y", [](const Block&, u32) { return 0u; }},
    {"%cluster_ctaid.z", [](const Block&, u32) { return 0u; }},
    {"%cluster_nctaid.x", [](const Block&, u32) { return 1u; }},
    {"%cluster_nctaid.y", [](const Block&, u32) { return 1u; }},
    {"%cluster_nctaid.z", [](const Block&, u32) { return 1u; }},
    {"%cluster_ctarank", [](const Block&, u32) { return 0u; }},
    {"%cluster_nctarank", [](const Block&, u32) { return 1u; }},
    {"%laneid", [](const Block&, u32 thread) { return thread % 32; }},
    {"%warpid", [](const Block&, u32 thread) { return thread / 32; }},
    {"%nwarpid", [](const Block&, u32) { return warp_slots_of_sm; }},
    {"%smid", [](const Block& block, u32) { return block.id.x % sm_count; }},
    {"%nsmid", [](const Block&, u32) { return sm_count; }},
    {"%lanemask_eq", [](const Block&, u32 thread) { return lane_bit(thread); }},
    {"%lanemask_lt", [](const Block&, u32 thread) { return lane_bit(thread) - 1; }},
    {"%lanemask_le", [](const Block&, u32 thread) { return lane_bit(thread) | (lane_bit(thread) - 1); }},
    {"%lanemask_ge", [](const Block&, u32 thread) { return ~(lane_bit(thread) - 1); }},
    {"%lanemask_gt", [](const Block&, u32 thread) { return ~(lane_bit(thread) | (lane_bit(thread) - 1)); }},
    {"%dynamic_smem_size",
     [](const Block& block, u32) { return static_cast<u32>(block.shared.size()) - block.kernel->static_shared; }},
    {"%total_smem_size", [](const Block& block, u32) { return static_cast<u32>(block.shared.size()); }},
};

}  // namespace

const SpecialRegister* find_special_register(std::string_view name) {
  for (const SpecialRegister& special : special_registers)
    if (special.name == name) return &special;
  return nullptr;
}

}  // namespace heddle::ptx
