#include <cstdlib>

#include <heddle/distributed/mpi.hpp>

#include "launch.hpp"

namespace heddle::examples {
namespace {

// The connection, and a second one for the exit codes: the first may be in use by processes that do not end.
struct Connection {
  std::shared_ptr<distributed::MpiTransport> transport = std::make_shared<distributed::MpiTransport>();
  MPI_Comm ends = MPI_COMM_NULL;

  Connection() { MPI_Comm_dup(MPI_COMM_WORLD, &ends); }
  Connection(const Connection&) = delete;
  ~Connection() { MPI_Comm_free(&ends); }
};
std::optional<Connection> connection;

}  // namespace

distributed::Communicator connect() {
  const int size = distributed::launched().size;
  if (size == 1) return {};
  const auto& transport = connection.emplace().transport;
  const int found = transport->size();
  if (found != size) {
    disconnect();
    fail("this program was started as ", size, " processes, of which MPI connects ", found,
         "; start it with the mpirun of the MPI that it was built with, or with srun and its --mpi");
  }
  return distributed::Communicator(transport);
}

void disconnect() { connection.reset(); }

int share_of_processors(const distributed::Communicator& communicator) {
  return distributed::share_of_processors(communicator);
}

std::optional<std::vector<int>> exit_codes(int own, double seconds) {
  if (!connection) return std::vector{own};
  std::vector<int> all(static_cast<std::size_t>(connection->transport->size()));
  MPI_Request request;
  MPI_Iallgather(&own, 1, MPI_INT, all.data(), 1, MPI_INT, connection->ends, &request);
  const double begin = MPI_Wtime();
  for (int done = 0;;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done) return all;
    if (seconds >= 0 && MPI_Wtime() - begin > seconds) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void end_all(int code) {
  if (connection) MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);
}

}  // namespace heddle::examples
