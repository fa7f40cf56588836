// How the processes of a program are connected: by MPI (launch_mpi.cpp), or not at all (launch_alone.cpp).
#pragma once
#include <optional>
#include <vector>

#include <heddle/distributed/communicator.hpp>

namespace heddle::examples {

// Connects the processes that mpirun started. Throws Error if there are several and the program was built without MPI.
distributed::Communicator connect();
// Ends the connection. All processes call it.
void disconnect();
// Returns the number of threads for this process, if there are several. All of them call it.
int share_of_processors(const distributed::Communicator& communicator);
// Tells the other processes how this one ends, and returns how they do. Returns nothing if some have not told it after
// `seconds`; a negative number is no limit.
std::optional<std::vector<int>> exit_codes(int own, double seconds);
// Ends all processes at once.
[[noreturn]] void end_all(int code);

}  // namespace heddle::examples
