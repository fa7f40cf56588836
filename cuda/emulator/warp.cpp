// The operations of a warp. The last lane to arrive computes every lane's result. If the missing lanes return from the
// kernel instead, the last of them to return computes it.
#include <bit>

#include "sanitizers.hpp"
#include "tensor_core.hpp"
#include "thread.hpp"

namespace heddle::emulator {
namespace {

bool has(unsigned lanes, unsigned lane) { return (lanes >> lane & 1) != 0; }

void complete_shuffle(Warp& warp, unsigned lanes) {
  for (unsigned lane = 0; lane < warp_size; ++lane) {
    if (!has(lanes, lane)) continue;
    Thread& thread = warp.threads[lane];
    const unsigned source = thread.in.word[2];
    if (!has(lanes, source)) {
      const char* const why = has(thread.mask, source) ? "has returned or is not in the block" : "is not in the mask";
      fault(text("a shuffle with mask 0x%x: lane %u reads from lane %u, which %s", thread.mask, lane, source, why),
            thread.where);
    }
    const Registers& from = warp.threads[source].in;
    thread.out.word[0] = from.word[0];
    thread.out.word[1] = from.word[1];
  }
}

void complete_ballot(Warp& warp, unsigned lanes) {
  unsigned votes = 0;
  for (unsigned lane = 0; lane < warp_size; ++lane)
    if (has(lanes, lane) && warp.threads[lane].in.word[0]) votes |= 1u << lane;
  for (unsigned lane = 0; lane < warp_size; ++lane)
    if (has(lanes, lane)) warp.threads[lane].out.word[0] = votes;
}

void complete_tensor_op(Warp& warp, unsigned lanes, WarpOp op) {
  if (lanes != ~0u) fault(text("%s needs all lanes of a warp, but has only 0x%x", name_of(op), lanes), running->where);
  Fragments in, out;
  for (unsigned lane = 0; lane < warp_size; ++lane) in.lane[lane] = warp.threads[lane].in;
  if (op == WarpOp::mma_bf16) multiply_bf16(in, out);
  if (op == WarpOp::mma_tf32) multiply_tf32(in, out);
  if (op == WarpOp::load_rows) distribute_rows(in, out);
  if (op == WarpOp::load_columns) distribute_columns(in, out);
  for (unsigned lane = 0; lane < warp_size; ++lane) warp.threads[lane].out = out.lane[lane];
}

// Completes the operation for the lanes of `mask` that have arrived, and makes all of them but `self` ready.
void complete(Warp& warp, unsigned mask, WarpOp op, const Thread* self) {
  const unsigned lanes = mask & warp.waiting;
  if (op == WarpOp::shuffle) complete_shuffle(warp, lanes);
  if (op == WarpOp::ballot) complete_ballot(warp, lanes);
  if (op >= WarpOp::mma_bf16) complete_tensor_op(warp, lanes, op);
  warp.waiting &= ~lanes;
  for (unsigned lane = 0; lane < warp_size; ++lane)
    if (has(lanes, lane) && &warp.threads[lane] != self) make_ready(warp.threads[lane]);
}

bool have_all_arrived(const Warp& warp, unsigned mask) {
  return (mask & warp.present & ~warp.returned & ~warp.waiting) == 0;
}

// Reports a waiting lane with another mask or operation if either mask contains the other lane.
void require_same(const Warp& warp, const Thread& self) {
  for (unsigned left = warp.waiting; left != 0; left &= left - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(left));
    const Thread& other = warp.threads[lane];
    if ((other.mask == self.mask && other.op == self.op) || (!has(self.mask, lane) && !has(other.mask, self.lane)))
      continue;
    fault(text("%s with mask 0x%x, while lane %u of the same warp waits in %s with mask 0x%x at %s:%u",
               name_of(self.op), self.mask, lane, name_of(other.op), other.mask, other.where.file, other.where.line),
          self.where);
  }
}

// Joins an operation of the running thread's warp. Passes the thread's `in` and returns when its `out` is complete.
void join_operation(WarpOp op, unsigned mask, Where where) {
  Thread& self = *running;
  Warp& warp = warp_of(self);
  self.op = op;
  self.mask = mask;
  self.where = where;
  if (!has(mask, self.lane))
    fault(text("%s from lane %u, which is not in the mask (0x%x)", name_of(op), self.lane, mask), where);
  require_same(warp, self);
  warp.waiting |= 1u << self.lane;
  if (!have_all_arrived(warp, mask)) return wait(Wait::warp, where);
  complete(warp, mask, op, &self);
  if (!options().seed) return;
  make_ready(self);
  wait(Wait::nothing, where);
}

}  // namespace

const char* name_of(WarpOp op) {
  static const char* const names[] = {"__syncwarp", "a vote",   "a shuffle",     "mma",
                                      "mma (tf32)", "ldmatrix", "ldmatrix.trans"};
  return names[static_cast<int>(op)];
}

void leave_warp(Thread& thread) {
  Warp& warp = warp_of(thread);
  warp.returned |= 1u << thread.lane;
  for (unsigned lane = 0; lane < warp_size; ++lane) {
    const Thread& other = warp.threads[lane];
    if (has(warp.waiting, lane) && has(other.mask, thread.lane) && have_all_arrived(warp, other.mask))
      complete(warp, other.mask, other.op, nullptr);
  }
}

void sync_warp(unsigned mask, Where where) {
  Warp& warp = warp_of(*running);
  const auto first = static_cast<unsigned>(std::countr_zero(mask | 1u << (warp_size - 1)));
  std::uint64_t* const order = &block.order->warps[running->number / warp_size][first][warp.turn[first] % 2];
  release(order);
  const unsigned turn = warp.turn[first];
  join_operation(WarpOp::sync, mask, where);
  if (warp.turn[first] == turn) ++warp.turn[first];  // the first to continue
  acquire(order);
}

unsigned ballot(unsigned mask, bool vote, Where where) {
  running->in.word[0] = vote;
  join_operation(WarpOp::ballot, mask, where);
  return running->out.word[0];
}

std::uint64_t shuffle(unsigned mask, std::uint64_t value, unsigned source, Where where) {
  Registers& in = running->in;
  in.word[0] = static_cast<std::uint32_t>(value);
  in.word[1] = static_cast<std::uint32_t>(value >> 32);
  in.word[2] = source;
  join_operation(WarpOp::shuffle, mask, where);
  const Registers& out = running->out;
  return out.word[0] | std::uint64_t{out.word[1]} << 32;
}

Registers tensor_core(WarpOp op, const Registers& in, Where where) {
  running->in = in;
  join_operation(op, ~0u, where);
  return running->out;
}

}  // namespace heddle::emulator
