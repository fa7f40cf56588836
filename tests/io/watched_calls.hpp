// POSIX calls that fail on purpose. The test program is linked with --wrap for each of them (tests/CMakeLists.txt).
#pragma once
#include <cstddef>
#include <string>

namespace heddle::testing {

// The behavior of the calls while a WatchedCalls lives.
struct CallRules {
  int failing = -1;                     // the index of the call that fails, counted from 0; by default no call fails
  int error = 0;                        // its errno; with 0 the process ends instead
  std::size_t longest_write = 1 << 20;  // bytes; longer writes are short
  bool plain_renames = false;           // renameat2 with flags fails with EINVAL, as on file systems without it
};

// A counter of the calls that write files, which also applies the rules to them. Only one object may exist at a time. A
// close counts only for a file opened for writing, because the results of other closes are ignored.
class WatchedCalls {
 public:
  explicit WatchedCalls(const CallRules& rules = {});
  WatchedCalls(const WatchedCalls&) = delete;
  ~WatchedCalls();

  int count() const;
  const std::string& names() const;  // each followed by a blank
};

}  // namespace heddle::testing
