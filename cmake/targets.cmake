# Compiler options of the project's own libraries, programs, tests and benchmarks. Warnings do not reach the library's
# users. HEDDLE_NATIVE also applies to targets that link heddle::compiled, HEDDLE_SANITIZE to those that link
# heddle::compiled or heddle_cuda.

# Undefined behavior ends a program with a trap, and AddressSanitizer prints the stack (handle_sigill=1). Without traps
# the checks take as long to compile as the code itself. HEDDLE_SANITIZE=undefined alone does not trap and describes
# each error. AddressSanitizer detects most of what the excluded checks detect.
set(heddle_undefined_traps -fsanitize-trap=undefined -fno-sanitize=null,object-size,vptr)

# Warnings and sanitizers.
function(heddle_flags name)
  target_compile_options(${name} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wconversion -Wshadow $<$<BOOL:${HEDDLE_WERROR}>:-Werror>>
    $<$<COMPILE_LANGUAGE:CUDA>:$<$<BOOL:${HEDDLE_WERROR}>:-Werror=all-warnings>>)
  if(HEDDLE_CUDA MATCHES "^(ON|PTX)$")
    set_target_properties(${name} PROPERTIES CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON
                                             CUDA_ARCHITECTURES "${HEDDLE_CUDA_ARCHITECTURES}")
  endif()
  if(HEDDLE_SANITIZE)
    target_compile_options(${name} PUBLIC -fsanitize=${HEDDLE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(${name} PUBLIC -fsanitize=${HEDDLE_SANITIZE})
    if(CMAKE_CXX_COMPILER_ID MATCHES Clang AND HEDDLE_SANITIZE MATCHES "address.*undefined|undefined.*address")
      target_compile_options(${name} PUBLIC ${heddle_undefined_traps})
    endif()
  endif()
endfunction()

# Applies the settings of a target that uses the library.
function(heddle_settings name)
  heddle_flags(${name})
  target_link_libraries(${name} PUBLIC heddle::heddle)
  # g++ 12 misjudges the bounds of std::string's own copies once they are inlined.
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict;-Wno-stringop-overflow;-Wno-array-bounds>)
  endif()
  if(HEDDLE_NATIVE)
    target_link_libraries(${name} PUBLIC heddle::native)
  endif()
endfunction()

function(heddle_program name)
  add_executable(${name} ${ARGN})
  heddle_settings(${name})
endfunction()

# With -O0 or -O1 the example programs and the benchmarks build faster, for checks that do not measure time. All but
# tokenize lose little speed, because they spend most of their time in heddle::compiled or in CUDA kernels.
set(HEDDLE_PROGRAM_FLAGS "" CACHE STRING "Compiler options for the example programs and the benchmarks, such as -O1; added after the build type's options")
function(heddle_program_flags name)
  separate_arguments(flags UNIX_COMMAND "${HEDDLE_PROGRAM_FLAGS}")
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${flags}>)
endfunction()
function(heddle_measured_program name)
  heddle_program(${name} ${ARGN})
  heddle_program_flags(${name})
endfunction()

# Compiles the sources of a target as one file under HEDDLE_UNITY, so the names that they define must differ.
function(heddle_unity name)
  if(HEDDLE_UNITY)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
  endif()
endfunction()

# heddle_precompile(TARGET OWNER HEADER...): OWNER precompiles the headers, and the other targets use them. Call it for
# OWNER first.
function(heddle_precompile name owner)
  # g++ 12 forgets in a precompiled header which warnings cpu/eigen.hpp turns off.
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-uninitialized;-Wno-maybe-uninitialized>)
  endif()
  if("${name}" STREQUAL "${owner}")
    target_precompile_headers(${name} PRIVATE ${ARGN})
  else()
    target_precompile_headers(${name} REUSE_FROM ${owner})
  endif()
endfunction()
