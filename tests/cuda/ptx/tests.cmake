# Tests of the PTX interpreter, and tests that only the interpreter makes possible.
heddle_program(cuda_ptx_self_test ptx/self_test.cu ptx/self_test_instructions.cu)
add_test(NAME cuda_ptx_self_test
         COMMAND ${CMAKE_CURRENT_LIST_DIR}/self_test.sh $<TARGET_FILE:cuda_ptx_self_test>)
set_tests_properties(cuda_ptx_self_test PROPERTIES LABELS cuda)
