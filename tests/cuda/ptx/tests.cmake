# Tests of the PTX interpreter, and tests of heddle on it. Those with the label `exhaustive` run with
# scripts/test --all only.
add_subdirectory(ptx/hopper)
heddle_program(cuda_ptx_self_test ptx/self_test.cu ptx/self_test_instructions.cu)
target_include_directories(cuda_ptx_self_test PRIVATE ${PROJECT_SOURCE_DIR}/cuda)
add_test(NAME cuda_ptx_self_test
         COMMAND ${CMAKE_CURRENT_LIST_DIR}/self_test.sh $<TARGET_FILE:cuda_ptx_self_test>)
set_tests_properties(cuda_ptx_self_test PROPERTIES LABELS cuda)

# The tests of the kernels, in each mode of the interpreter. Three runs cover the modes that scripts/test needs: `races`
# is `plain` with checks.
function(heddle_ptx_mode mode labels)
  string(REPLACE "," "_" name ${mode})
  add_test(NAME cuda_ptx_${name}
           COMMAND ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/modes.sh $<TARGET_FILE:cuda_tests> ${mode})
  set_tests_properties(cuda_ptx_${name} PROPERTIES LABELS "${labels}" COST 100)
endfunction()
foreach(mode races lazy,a100 rtx3060)
  heddle_ptx_mode(${mode} cuda)
endforeach()
foreach(mode plain lazy a100 rtx4090 rtx5090 reverse early_copies truncate approximate keep_nan zeros no_epilogue refused_epilogue refused_check)
  heddle_ptx_mode(${mode} "cuda;exhaustive")
endforeach()

# scripts/test compiles the kernels for sm_80 in another stage.
add_test(NAME cuda_ptx_spills COMMAND ${PROJECT_SOURCE_DIR}/tests/cuda/spills.sh ${PROJECT_BINARY_DIR}/spills sm_90a $<TARGET_FILE:heddle_cuda>)
set_tests_properties(cuda_ptx_spills PROPERTIES LABELS cuda COST 100)

add_test(NAME cuda_random_cases_3000 COMMAND cuda_random_cases 3000 2)
set_tests_properties(cuda_random_cases_3000 PROPERTIES LABELS "cuda;exhaustive")

# The trainers, whose replayed steps are compared with calls. scripts/test builds two of them, --all builds all.
foreach(program sst2 ag_news surnames bert_classifier)
  if(TARGET ${program})
    add_test(NAME cuda_replays_${program}
             COMMAND ${CMAKE_CURRENT_LIST_DIR}/replays.sh $<TARGET_FILE:${program}>
                     ${PROJECT_BINARY_DIR}/replays/${program} 50)
    set_tests_properties(cuda_replays_${program} PROPERTIES LABELS "cuda;exhaustive" COST 50)
  endif()
endforeach()

# The programs that the stage ptx of scripts/test builds.
add_custom_target(ptx_tests DEPENDS cuda_tests cuda_random_cases cuda_ptx_self_test cuda_ptx_hopper_test)
foreach(program sst2 bert_classifier)
  if(TARGET ${program})
    add_dependencies(ptx_tests ${program})
    foreach(steps 30 120)
      add_test(NAME cuda_losses_${program}_${steps}
               COMMAND ${PROJECT_SOURCE_DIR}/tests/cuda/losses.sh $<TARGET_FILE:${program}>
                       ${PROJECT_BINARY_DIR}/losses/${program}-${steps} ${steps})
      set_tests_properties(cuda_losses_${program}_${steps} PROPERTIES LABELS cuda COST 50)
    endforeach()
    set_tests_properties(cuda_losses_${program}_120 PROPERTIES LABELS "cuda;exhaustive")
    add_test(NAME cuda_step_counts_${program}
             COMMAND ${CMAKE_CURRENT_LIST_DIR}/step_counts.sh $<TARGET_FILE:${program}>
                     ${PROJECT_BINARY_DIR}/step_counts/${program})
    set_tests_properties(cuda_step_counts_${program} PROPERTIES LABELS cuda COST 30)
    if(TARGET heddle_ptx_nccl AND MPIEXEC_EXECUTABLE)
      add_dependencies(ptx_tests heddle_ptx_nccl)
      add_test(NAME cuda_processes_${program}
               COMMAND ${CMAKE_CURRENT_LIST_DIR}/processes.sh $<TARGET_FILE:${program}>
                       $<TARGET_FILE_DIR:heddle_ptx_nccl> ${PROJECT_BINARY_DIR}/gpu_processes/${program})
      set_tests_properties(cuda_processes_${program} PROPERTIES LABELS cuda COST 30)
    endif()
  endif()
endforeach()
