// A stand-in for libnccl.so.2: processes of MPI move the memory of their GPUs on the PTX interpreter. It executes each
// call at once, and returns an error for one that NCCL would not allow. With NCCL_SUMMARY=1 each process prints at its
// end how many calls it has executed.
#include <cuda_runtime.h>
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace {

enum Result : int { success = 0, failure = 1 };
enum Type : int { bytes = 0, float32 = 7 };
struct Identifier {
  char text[128];
};
struct Communicator {
  MPI_Comm processes;
  int rank, size, gpu;
  long calls = 0;
};
struct Transfer {
  Communicator* communicator;
  const void* from;
  void* to;
  std::size_t count;
  int other;
  cudaStream_t stream;
};

std::string problem;
int depth = 0;
std::vector<Transfer> group;

Result refuse(const std::string& text) {
  problem = text;
  return failure;
}
std::size_t bytes_of(std::size_t count, int type) { return count * (type == float32 ? 4 : 1); }

// Waits for the work before a transfer, and checks that the memory is on this process's GPU.
Result begin(const Transfer& t) {
  int gpu = -1;
  cudaGetDevice(&gpu);
  if (gpu != t.communicator->gpu) return refuse("another GPU is current than when the communicator was made");
  if (t.count == 0) return refuse("a transfer moves nothing");
  if (t.other < 0 || t.other >= t.communicator->size) return refuse("there is no process " + std::to_string(t.other));
  for (const void* memory : {t.from, static_cast<const void*>(t.to)}) {
    cudaPointerAttributes attributes{};
    if (!memory) continue;
    if (cudaPointerGetAttributes(&attributes, memory) != cudaSuccess || attributes.type != cudaMemoryTypeDevice ||
        attributes.device != gpu)
      return refuse("memory is not on the current GPU");
  }
  ++t.communicator->calls;
  return cudaStreamSynchronize(t.stream) == cudaSuccess ? success : refuse("the stream has failed");
}
std::vector<char> read(const void* from, std::size_t count) {
  std::vector<char> here(count);
  cudaMemcpy(here.data(), from, count, cudaMemcpyDeviceToHost);
  return here;
}
void write(void* to, const std::vector<char>& here, cudaStream_t stream) {
  cudaMemcpyAsync(to, here.data(), here.size(), cudaMemcpyHostToDevice, stream);
  cudaStreamSynchronize(stream);
}

// Executes the transfers of a group, all of which are on their way at the same time.
Result flush() {
  const std::vector<Transfer> transfers = std::exchange(group, {});
  std::vector<std::vector<char>> memory;
  std::vector<MPI_Request> requests(transfers.size());
  for (const Transfer& t : transfers) {
    if (begin(t) != success) return failure;
    memory.push_back(t.from ? read(t.from, t.count) : std::vector<char>(t.count));
  }
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    const Transfer& t = transfers[i];
    const int count = static_cast<int>(t.count);
    if (t.from)
      MPI_Isend(memory[i].data(), count, MPI_BYTE, t.other, 0, t.communicator->processes, &requests[i]);
    else
      MPI_Irecv(memory[i].data(), count, MPI_BYTE, t.other, 0, t.communicator->processes, &requests[i]);
  }
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  for (std::size_t i = 0; i < transfers.size(); ++i)
    if (transfers[i].to) write(transfers[i].to, memory[i], transfers[i].stream);
  return success;
}
Result add(const Transfer& transfer) {
  group.push_back(transfer);
  return depth > 0 ? success : flush();
}

}  // namespace

extern "C" {

const char* ncclGetErrorString(Result) { return problem.c_str(); }
Result ncclGetUniqueId(Identifier* id) {
  *id = {"processes of MPI"};
  return success;
}
Result ncclCommInitRank(Communicator** made, int size, Identifier id, int rank) {
  if (std::string(id.text) != "processes of MPI") return refuse("the identifier did not arrive");
  Communicator c{};
  cudaGetDevice(&c.gpu);
  MPI_Comm_dup(MPI_COMM_WORLD, &c.processes);
  MPI_Comm_rank(c.processes, &c.rank);
  MPI_Comm_size(c.processes, &c.size);
  std::vector<int> gpus(static_cast<std::size_t>(c.size));
  MPI_Allgather(&c.gpu, 1, MPI_INT, gpus.data(), 1, MPI_INT, c.processes);
  if (c.rank != rank || c.size != size) return refuse("process " + std::to_string(rank) + " has another number");
  for (int other = 0; other < size; ++other)
    if (other != rank && gpus[static_cast<std::size_t>(other)] == c.gpu) return refuse("duplicate GPU");
  *made = new Communicator(c);
  return success;
}
Result ncclCommDestroy(Communicator* c) {
  if (std::getenv("NCCL_SUMMARY")) std::fprintf(stderr, "nccl: %ld calls on GPU %d\n", c->calls, c->gpu);
  MPI_Comm_free(&c->processes);
  delete c;
  return success;
}
Result ncclCommAbort(Communicator*) { return success; }
Result ncclGroupStart() {
  ++depth;
  return success;
}
Result ncclGroupEnd() { return --depth > 0 ? success : flush(); }
Result ncclSend(const void* from, std::size_t count, Type type, int other, Communicator* c, cudaStream_t stream) {
  return add({c, from, nullptr, bytes_of(count, type), other, stream});
}
Result ncclRecv(void* to, std::size_t count, Type type, int other, Communicator* c, cudaStream_t stream) {
  return add({c, nullptr, to, bytes_of(count, type), other, stream});
}
Result ncclBroadcast(const void* from, void* to, std::size_t count, Type type, int root, Communicator* c,
                     cudaStream_t stream) {
  if (begin({c, from, to, bytes_of(count, type), root, stream}) != success) return failure;
  std::vector<char> here = read(c->rank == root ? from : to, bytes_of(count, type));
  MPI_Bcast(here.data(), static_cast<int>(here.size()), MPI_BYTE, root, c->processes);
  write(to, here, stream);
  return success;
}
Result ncclAllReduce(const void* from, void* to, std::size_t count, Type type, int operation, Communicator* c,
                     cudaStream_t stream) {
  if (type != float32 || operation != 0) return refuse("only sums of floats are executed here");
  if (begin({c, from, to, bytes_of(count, type), c->rank, stream}) != success) return failure;
  std::vector<char> here = read(from, bytes_of(count, type));
  MPI_Allreduce(MPI_IN_PLACE, here.data(), static_cast<int>(count), MPI_FLOAT, MPI_SUM, c->processes);
  write(to, here, stream);
  return success;
}

}  // extern "C"
