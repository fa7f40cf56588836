// Macros of headers that a program may include before heddle's, with the standard headers that those include first.
// Left out are macros after which the standard library, Eigen or nlohmann/json does not compile: Success, min, max,
// clear, erase, move and isnan.
#pragma once
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <any>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <concepts>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <exception>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <iomanip>
#include <iterator>
#include <limits>
#include <locale>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <optional>
#include <ostream>
#include <set>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

// Qt
#define slots
#define signals public
#define emit
#define foreach Q_FOREACH
#define forever for (;;)

// X11
#define None 0L
#define Bool int
#define Status int
#define True 1
#define False 0
#define Always 2
#define Above 0
#define Below 1
#define Complex 0
#define Convex 2
#define Nonconvex 1
#define Absolute 0
#define CursorShape 0
#define FocusIn 9
#define FocusOut 10
#define KeyPress 2
#define KeyRelease 3
#define GrayScale 1
#define Unsorted 0
#define NoValue 0

// termios
#define ECHO 0000010
#define B0 0000000
#define B50 0000001
#define B110 0000003
#define NL0 0000000
#define CR0 0000000
#define TAB0 0000000
#define BS0 0000000
#define FF0 0000000
#define VT0 0000000

// curses
#define refresh() wrefresh(stdscr)
#define timeout(delay) wtimeout(stdscr, (delay))
#define instr(text) winstr(stdscr, (text))
#define scroll(window) wscrl((window), 1)
#define box(window, v, h) wborder((window), (v), (v), (h), (h), 0, 0, 0, 0)
#define addch(c) waddch(stdscr, (c))
#define getch() wgetch(stdscr)
#define OK 0
#define ERR (-1)
#define TRUE 1
#define FALSE 0

// complex.h and math.h
#define I _Complex_I
#define complex _Complex
#define DOMAIN 1
#define SING 2
#define OVERFLOW 3
#define UNDERFLOW 4

// sys/sysmacros.h and the compiler
#define major(device) gnu_dev_major(device)
#define minor(device) gnu_dev_minor(device)
#define unix 1
#define linux 1

// Windows
#define ERROR 0
#define IN
#define OUT
#define near
#define far
#define small char
#define interface struct

// glog, googletest, Catch2
#define CHECK(condition) abort_unless(condition)
#define REQUIRE(condition) abort_unless(condition)
#define ASSERT(condition) abort_unless(condition)
#define EXPECT_EQ(a, b) abort_unless((a) == (b))
#define LOG(level) log_stream(level)
#define VLOG(level) log_stream(level)
#define INFO(text) log_text(text)
#define FAIL(text) log_text(text)
#define CAPTURE(value) log_text(value)
#define SECTION(name) if (section(name))
#define TEST(suite, name) void suite##_##name()
#define WARNING 1
#define FATAL 3
#define DEBUG 1

// the Linux kernel
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define PAGE_SIZE 4096
