# Tests of the PTX interpreter, and tests that only the interpreter makes possible.
heddle_program(cuda_ptx_self_test ptx/self_test.cu ptx/self_test_instructions.cu)
add_test(NAME cuda_ptx_self_test
         COMMAND ${CMAKE_CURRENT_LIST_DIR}/self_test.sh $<TARGET_FILE:cuda_ptx_self_test>)
set_tests_properties(cuda_ptx_self_test PROPERTIES LABELS cuda)

# Random calls of operations, compared with double. Without optimization the comparisons take longer than the interpreter.
file(GLOB random_cases CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/random_cases/*.cpp)
heddle_test_program(cuda_random_cases ${random_cases})
target_compile_options(cuda_random_cases PRIVATE -O1)
target_link_libraries(cuda_random_cases PRIVATE heddle_test_instances)
target_include_directories(cuda_random_cases PRIVATE ${PROJECT_SOURCE_DIR}/cuda real)
set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/random_cases/main.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
add_test(NAME cuda_random_cases COMMAND cuda_random_cases)
set_tests_properties(cuda_random_cases PROPERTIES LABELS cuda)

# Takes minutes and gigabytes, so only scripts/test --all runs it.
heddle_program(cuda_large_tensors ${CMAKE_CURRENT_LIST_DIR}/large_tensors.cpp)
target_compile_options(cuda_large_tensors PRIVATE -O1)
target_link_libraries(cuda_large_tensors PRIVATE heddle::compiled)
add_test(NAME cuda_large_tensors COMMAND cuda_large_tensors)
set_tests_properties(cuda_large_tensors PROPERTIES LABELS "cuda;exhaustive" ENVIRONMENT PTX_MEMORY=32000
                                                   SKIP_RETURN_CODE 77)
