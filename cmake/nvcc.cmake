# Enables the CUDA language. nvcc's installer leaves nvcc outside PATH, so the installer's folders are searched, too.
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(CMAKE_CUDA_COMPILER nvcc PATHS ENV CUDA_PATH /usr/local/cuda /opt/cuda PATH_SUFFIXES bin)
  if(NOT CMAKE_CUDA_COMPILER)
    message(FATAL_ERROR "heddle: HEDDLE_CUDA=${HEDDLE_CUDA} needs nvcc, which was found neither in PATH nor in $CUDA_PATH/bin, "
                        "/usr/local/cuda/bin or /opt/cuda/bin; set it with -DCMAKE_CUDA_COMPILER=FILE")
  endif()
endif()
set(architectures "80-real;80-virtual;90a-real")
if(HEDDLE_CUDA STREQUAL PTX)
  set(architectures 90a-virtual)
  set(CMAKE_CUDA_RUNTIME_LIBRARY None)  # the interpreter takes its place
  string(APPEND CMAKE_CUDA_FLAGS " --no-compress")  # the interpreter reads the PTX as text
endif()
if(HEDDLE_CUDA_SHARED)
  set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)  # programs and kernels must use the same one
endif()
set(HEDDLE_CUDA_ARCHITECTURES "${architectures}" CACHE STRING
    "GPUs to compile the CUDA kernels for, in the format of CMAKE_CUDA_ARCHITECTURES")
if(NOT CMAKE_CUDA_ARCHITECTURES)
  # nvcc's default GPU may be older than heddle's kernels support.
  set(CMAKE_CUDA_ARCHITECTURES ${HEDDLE_CUDA_ARCHITECTURES})
endif()
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake before 3.25.2 does not know that nvcc has C++20
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
find_package(CUDAToolkit REQUIRED)
