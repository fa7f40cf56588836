# heddle_target(name sources... LIBRARY|PROGRAM): one of the project's own programs, tests or benchmarks, with its warnings.
# Nothing here reaches those who use the library.
function(heddle_settings name)
  target_link_libraries(${name} PUBLIC heddle::heddle)
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wconversion -Wshadow $<$<BOOL:${HEDDLE_WERROR}>:-Werror>)
  # g++ 12 misjudges the bounds of std::string's own copies once they are inlined.
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${name} PRIVATE -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds)
  endif()
  if(HEDDLE_NATIVE)
    target_link_libraries(${name} PUBLIC heddle::native)
    # g++ 12 reports its own AVX-512 intrinsics as uninitialised, thousands of lines from inside Eigen.
    if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
      target_compile_options(${name} PRIVATE -Wno-uninitialized -Wno-maybe-uninitialized)
    endif()
  endif()
  if(HEDDLE_SANITIZE)
    target_compile_options(${name} PUBLIC -fsanitize=${HEDDLE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(${name} PUBLIC -fsanitize=${HEDDLE_SANITIZE})
  endif()
endfunction()

function(heddle_program name)
  add_executable(${name} ${ARGN})
  heddle_settings(${name})
endfunction()
