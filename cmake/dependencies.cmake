# What is installed wins; the rest is fetched, pinned by its hash. Eigen is asked for without a version, because a range that
# takes 3.4 refuses 5, and is checked by hand.
include(FetchContent)

find_package(Eigen3 CONFIG QUIET)
if(Eigen3_FOUND)
  if(Eigen3_VERSION VERSION_LESS 3.4.0)
    message(FATAL_ERROR "heddle needs Eigen 3.4.0 or newer; found ${Eigen3_VERSION} in ${Eigen3_DIR}")
  endif()
else()
  FetchContent_Declare(Eigen3 URL https://gitlab.com/libeigen/eigen/-/archive/3.4.0/eigen-3.4.0.tar.gz
                       URL_HASH SHA256=8586084f71f9bde545ee7fa6d00288b264a2b7ac3607b974e54d13e7162c1c72)
  FetchContent_MakeAvailable(Eigen3)
endif()

find_package(nlohmann_json 3.10 CONFIG QUIET)
if(NOT nlohmann_json_FOUND)
  FetchContent_Declare(nlohmann_json URL https://github.com/nlohmann/json/releases/download/v3.11.3/json.tar.xz
                       URL_HASH SHA256=d6c65aca6b1ed68e7a182f4757257b107ae403032760ed6ef121c9d55e81757d)
  set(JSON_Install ON)
  FetchContent_MakeAvailable(nlohmann_json)
endif()

find_package(OpenMP COMPONENTS CXX QUIET)
if(NOT OpenMP_CXX_FOUND)
  message(STATUS "heddle: no OpenMP for ${CMAKE_CXX_COMPILER_ID}; everything runs on one thread")
endif()

if(HEDDLE_EXAMPLES OR HEDDLE_FUZZ)
  find_package(CLI11 CONFIG REQUIRED)
endif()
if(HEDDLE_TESTS)
  find_package(Catch2 3 CONFIG QUIET)
  if(NOT Catch2_FOUND)
    find_package(Catch2 2.13 CONFIG REQUIRED)
  endif()
endif()
if(HEDDLE_BENCH)
  find_package(benchmark CONFIG QUIET)
  if(NOT benchmark_FOUND)
    message(STATUS "heddle: Google Benchmark is not installed; no benchmarks")
  endif()
endif()
