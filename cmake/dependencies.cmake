# Installed packages are preferred; Eigen and nlohmann_json are fetched if missing, pinned by their hash. Eigen is
# requested without a version and checked below, because its package accepts only version ranges within one major
# version, and heddle supports Eigen 3.4 and 5.
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

find_package(Threads REQUIRED)

foreach(option ONEDNN ZLIB MPI)
  if(NOT HEDDLE_${option} MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "heddle: HEDDLE_${option} must be AUTO, ON or OFF, not ${HEDDLE_${option}}")
  endif()
endforeach()

# oneDNN brings the OpenMP runtime that it was built with, usually g++'s. A program that clang compiles with OpenMP
# would have two.
set(HEDDLE_USES_ONEDNN OFF)
if(NOT HEDDLE_ONEDNN STREQUAL OFF)
  list(APPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR})
  find_package(OneDNN QUIET)
  if(OneDNN_FOUND AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    set(HEDDLE_USES_ONEDNN ON)
  elseif(HEDDLE_ONEDNN STREQUAL ON)
    message(FATAL_ERROR "heddle: HEDDLE_ONEDNN=ON needs oneDNN (Debian: libdnnl-dev) and g++, because "
                        "oneDNN uses g++'s OpenMP; the compiler is ${CMAKE_CXX_COMPILER_ID}")
  else()
    message(STATUS "heddle: matrix products by Eigen; with g++ and oneDNN (Debian: libdnnl-dev) they are faster")
  endif()
endif()

set(HEDDLE_USES_ZLIB OFF)
if(NOT HEDDLE_ZLIB STREQUAL OFF)
  find_package(ZLIB QUIET)
  if(ZLIB_FOUND)
    set(HEDDLE_USES_ZLIB ON)
  elseif(HEDDLE_ZLIB STREQUAL ON)
    message(FATAL_ERROR "heddle: HEDDLE_ZLIB=ON needs zlib (Debian: zlib1g-dev)")
  else()
    message(STATUS "heddle: images are written without compression; with zlib (Debian: zlib1g-dev) they are smaller")
  endif()
endif()

set(HEDDLE_USES_MPI OFF)
if(NOT HEDDLE_MPI STREQUAL OFF)
  set(MPI_CXX_SKIP_MPICXX ON)  # heddle uses MPI's interface for C
  find_package(MPI QUIET COMPONENTS CXX)
  if(MPI_CXX_FOUND)
    set(HEDDLE_USES_MPI ON)
  elseif(HEDDLE_MPI STREQUAL ON)
    message(FATAL_ERROR "heddle: HEDDLE_MPI=ON needs MPI (Debian: libopenmpi-dev)")
  else()
    message(STATUS "heddle: the trainers run as one process each; with MPI (Debian: libopenmpi-dev) mpirun can start several")
  endif()
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
    message(STATUS "heddle: the CPU benchmarks are not built; they need Google Benchmark (Debian: libbenchmark-dev)")
  endif()
endif()
