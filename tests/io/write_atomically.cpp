#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <heddle/io/write_atomically.hpp>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "io/files.hpp"
#include "io/watched_calls.hpp"

using namespace heddle;
using namespace heddle::testing;
using io::write_atomically;

namespace {

void write_two(const std::string& path) {
  write_atomically(path, [](auto& out) {
    out.write("new ");
    out.write("content");
  });
}

}  // namespace

TEST_CASE("write_atomically: creates and replaces, and leaves nothing else behind") {
  const TemporaryFolder folder;
  for (const std::string& content :
       {std::string("first"), std::string(), std::string(3 << 20, 'x'), std::string("a\0b", 3)}) {
    write_atomically(folder / "file", content);
    CHECK((get(folder / "file") == content));
  }
  CHECK(folder.names() == std::set<std::string>{"file"});
}

TEST_CASE("write_atomically: syncs the file before the rename, and the folder before it returns") {
  const TemporaryFolder folder;
  const WatchedCalls calls;
  write_two(folder / "file");
  CHECK(calls.names() == "open open write write fsync close rename fsync ");
  CHECK(get(folder / "file") == "new content");
}

TEST_CASE("write_atomically: whichever call fails, the old or new file is whole and the error names file and cause") {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  for (const int error : {ENOSPC, EIO, EDQUOT, EACCES}) {
    for (int call = 0; call < 8; ++call) {
      CAPTURE(call, error);
      put(path, "old");
      const std::string message = error_of<WriteError>([&] {
        const WatchedCalls calls({.failing = call, .error = error});
        write_two(path);
      });
      CHECK(message.starts_with(path + ": "));
      CHECK(message.ends_with(": " + std::generic_category().message(error)));
      const bool only_folder_sync_failed = call == 7;
      CHECK(get(path) == (only_folder_sync_failed ? "new content" : "old"));
      CHECK(folder.names() == std::set<std::string>{"file"});
    }
  }
}

TEST_CASE("write_atomically: continues after interruptions and short writes") {
  const TemporaryFolder folder;
  constexpr int rename = 9, calls_in_all = 11;
  for (int call = 0; call < calls_in_all; ++call) {
    CAPTURE(call);
    if (call == rename) continue;  // a rename is not interrupted
    {
      const WatchedCalls calls({.failing = call, .error = EINTR, .longest_write = 3});
      write_two(folder / "file");
    }
    CHECK(get(folder / "file") == "new content");
    std::filesystem::remove(folder / "file");
  }
  CHECK(folder.names().empty());
  const WatchedCalls calls({.longest_write = 3});
  write_two(folder / "file");
  CHECK(calls.names() == "open open write write write write write fsync close rename fsync ");
}

TEST_CASE("write_atomically: an exception of the writer passes through, and the file is unchanged") {
  const TemporaryFolder folder;
  put(folder / "file", "old");
  const auto call = [&] {
    write_atomically(folder / "file", [](auto& out) {
      out.write("half");
      throw std::out_of_range("stop");
    });
  };
  CHECK_THROWS_AS(call(), std::out_of_range);
  CHECK(get(folder / "file") == "old");
  CHECK(folder.names() == std::set<std::string>{"file"});
}

TEST_CASE("write_atomically: replaces files only") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "sub");
  const auto error = [](const std::string& path) { return error_of<WriteError>([&] { write_atomically(path, "x"); }); };
  CHECK(error(folder / "sub") == folder / "sub: is a folder, not a file");
  CHECK(error(folder / "sub/") == folder / "sub/: is a folder, not a file");
  CHECK(error(folder / "none/") == folder / "none/: is a folder, not a file");
  CHECK(error(folder / "none/file") == folder / "none/file: its folder cannot be opened: No such file or directory");
  CHECK(error("/dev/null") == "/dev/null: is not a regular file and cannot be replaced");
  CHECK(error("") == "a file name is empty; give a path");
  CHECK(error(std::string("a\0b", 3)) == "a\\x00b: the name of this file contains a NUL byte");
  put(folder / "file", "old");
  CHECK(error(folder / "file/below") == folder / "file/below: its folder cannot be opened: Not a directory");
  CHECK(error(folder / std::string(300, 'n')).ends_with(": no file can be created beside it: File name too long"));
  CHECK(error(folder / "none\n/file").find('\n') == std::string::npos);
  CHECK(folder.names() == std::set<std::string>{"file", "sub"});
}

TEST_CASE("write_atomically: respects permissions and keeps them") {
  const TemporaryFolder folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  std::filesystem::create_directory(folder / "locked");
  put(folder / "locked/file", "old");
  using std::filesystem::perms;
  std::filesystem::permissions(folder / "locked",
                               perms::all & ~(perms::owner_write | perms::group_write | perms::others_write));
  const Unprivileged nobody;

  CHECK(error_of([&] { write_atomically(folder / "locked/new", "x"); }) ==
        folder / "locked/new: no file can be created beside it: Permission denied");
  write_atomically(folder / "file", "private");
  std::filesystem::permissions(folder / "file", perms::owner_read | perms::owner_write);
  write_atomically(folder / "file", "still private");
  CHECK(std::filesystem::status(folder / "file").permissions() == (perms::owner_read | perms::owner_write));

  std::filesystem::permissions(folder / "file", perms::owner_read);
  CHECK(error_of([&] { write_atomically(folder / "file", "x"); }) ==
        folder / "file: cannot be replaced: Permission denied");
  CHECK(get(folder / "file") == "still private");
}

TEST_CASE("write_atomically: follows a symbolic link") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "elsewhere");
  put(folder / "elsewhere/real", "old");
  std::filesystem::create_symlink("elsewhere/real", folder / "link");
  write_atomically(folder / "link", "new");
  CHECK(std::filesystem::is_symlink(folder / "link"));
  CHECK(get(folder / "elsewhere/real") == "new");
}

TEST_CASE("write_atomically: a full disk leaves the old file") {
  const TemporaryFolder folder;
  put(folder / "file", "old");
  // A limit on the size of files stops write() in the middle, as a full disk does.
  struct rlimit before {};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit limit { 100'000, before.rlim_max };
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  const std::string message =
      error_of<WriteError>([&] { write_atomically(folder / "file", std::string(1 << 20, 'x')); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  CHECK(message == folder / "file: cannot be written: File too large");
  CHECK(get(folder / "file") == "old");
  CHECK(folder.names() == std::set<std::string>{"file"});
}

TEST_CASE("write_atomically: threads that write one file leave one of their contents") {
  const TemporaryFolder folder;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) write_atomically(folder / "file", std::string(10'000, static_cast<char>('a' + t)));
    });
  for (std::thread& thread : threads) thread.join();
  const std::string content = get(folder / "file");
  CHECK(content == std::string(10'000, content[0]));
  CHECK(folder.names() == std::set<std::string>{"file"});
}

TEST_CASE("write_atomically: returns the size and checksum of what was written, in parts too") {
  const TemporaryFolder folder;
  const std::string content(100'000, 'x');
  const WatchedCalls calls({.longest_write = 999});
  const io::FileSum sum = write_atomically(folder / "file", content);
  CHECK(sum == io::FileSum{content.size(), io::crc64(content)});
  CHECK(io::sum_of_file(folder / "file") == sum);
  CHECK(write_atomically(folder / "file", "") == io::FileSum{0, io::crc64("")});
}

TEST_CASE("copy_file: copies every byte and returns the sum") {
  const TemporaryFolder folder;
  for (const std::size_t size : std::vector<std::size_t>{0, 1, 1 << 18, (1 << 18) + 1, 600'000}) {
    const std::string content(size, 'x');
    put(folder / "from", content);
    CHECK((io::copy_file(folder / "from", folder / "to") == io::FileSum{size, io::crc64(content)}));
    CHECK((get(folder / "to") == content));
  }
  CHECK(error_of([&] { io::copy_file(folder / "none", folder / "to"); }) ==
        folder / "none: cannot be opened: No such file or directory");
  CHECK(folder.names() == std::set<std::string>{"from", "to"});
}

TEST_CASE("link_file: gives the file a second name, whose content a later write to the first does not change") {
  const TemporaryFolder folder;
  put(folder / "from", "weights");
  CHECK(io::link_file(folder / "from", folder / "new"));
  put(folder / "to", "old");
  CHECK(io::link_file(folder / "from", folder / "to"));
  CHECK(io::link_file(folder / "from", folder / "to"));  // a rename between two names of one file
  CHECK(std::filesystem::equivalent(folder / "from", folder / "to"));
  CHECK(std::filesystem::hard_link_count(folder / "from") == 3);
  write_atomically(folder / "from", "newer");
  CHECK(get(folder / "to") == "weights");
  std::filesystem::create_symlink("from", folder / "symbolic");
  CHECK(io::link_file(folder / "symbolic", folder / "to"));
  CHECK_FALSE(std::filesystem::is_symlink(folder / "to"));
  CHECK(get(folder / "to") == "newer");
  CHECK(folder.names() == std::set<std::string>{"from", "new", "symbolic", "to"});
}

TEST_CASE("link_file: changes nothing where no link can be made") {
  const TemporaryFolder folder;
  put(folder / "from", "weights");
  put(folder / "to", "old");
  CHECK_FALSE(io::link_file(folder / "none", folder / "to"));
  for (const int error : {EPERM, EMLINK, EXDEV, EOPNOTSUPP}) {
    const WatchedCalls calls({.failing = 1, .error = error});
    CHECK_FALSE(io::link_file(folder / "from", folder / "to"));
    CHECK(calls.names() == "open link ");
  }
  using std::filesystem::perms;
  std::filesystem::permissions(folder / "to", perms::owner_read | perms::owner_write);
  CHECK_FALSE(io::link_file(folder / "from", folder / "to"));
  CHECK(get(folder / "to") == "old");
  CHECK(folder.names() == std::set<std::string>{"from", "to"});
}

TEST_CASE("link_file: whichever call fails or ends the process, either the old or the new file remains") {
  constexpr int killed = 0;
  for (const int error : {EIO, killed})
    for (int call = 0; call < 4; ++call) {
      CAPTURE(call, error);
      const TemporaryFolder folder;
      put(folder / "from", "weights");
      put(folder / "to", "old");
      const auto link = [&] {
        const WatchedCalls calls({.failing = call, .error = error});
        const bool linked = io::link_file(folder / "from", folder / "to");
        CHECK(calls.names() == (call == 1 ? "open link " : "open link rename fsync "));
        return linked;
      };
      const bool is_in_place = call == 3;  // only the folder's sync fails
      if (error == killed) {
        const pid_t child = ::fork();
        if (child == 0) link(), ::_exit(1);
        int status = 1;
        REQUIRE((::waitpid(child, &status, 0) == child && status == 0));
      } else if (call == 1) {
        CHECK_FALSE(link());
      } else {
        CHECK(error_of<WriteError>([&] { link(); }).ends_with(": " + std::generic_category().message(error)));
      }
      CHECK(get(folder / "to") == (is_in_place ? "weights" : "old"));
      CHECK(get(folder / "from") == "weights");
      for (const std::string& name : folder.names())
        CHECK((name == "from" || name == "to" || (error == killed && io::is_leftover(name))));
    }
}

TEST_CASE("write_atomically: the file is complete if the process is killed at any time") {
  const TemporaryFolder folder;
  write_atomically(folder / "file", std::string(1 << 20, 'a'));
  for (int kill = 0; kill < 20; ++kill) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      for (char c = 'b';; c = c == 'z' ? 'a' : static_cast<char>(c + 1))
        write_atomically(folder / "file", std::string(1 << 20, c));
    }
    ::usleep(static_cast<useconds_t>(1000 + 700 * kill));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const std::string content = get(folder / "file");
    REQUIRE(content.size() == 1 << 20);
    REQUIRE(content.find_first_not_of(content[0]) == std::string::npos);
  }
}
