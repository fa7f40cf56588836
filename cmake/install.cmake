include(CMakePackageConfigHelpers)
set(destination ${CMAKE_INSTALL_LIBDIR}/cmake/heddle)
install(DIRECTORY include/heddle DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
set(targets heddle heddle_native)
if(TARGET heddle_cuda)
  list(APPEND targets heddle_cuda)
endif()
install(TARGETS ${targets} EXPORT heddle-targets)
# The headers can be installed without a build; then heddle::compiled is left out.
install(TARGETS heddle_compiled EXPORT heddle-compiled-targets ARCHIVE OPTIONAL)
install(EXPORT heddle-compiled-targets NAMESPACE heddle:: DESTINATION ${destination})
install(DIRECTORY cuda DESTINATION ${CMAKE_INSTALL_DATADIR}/heddle PATTERN emulator EXCLUDE PATTERN CMakeLists.txt EXCLUDE)
install(EXPORT heddle-targets NAMESPACE heddle:: DESTINATION ${destination})
configure_package_config_file(cmake/heddle-config.cmake.in heddle-config.cmake INSTALL_DESTINATION ${destination})
write_basic_package_version_file(heddle-config-version.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES ${PROJECT_BINARY_DIR}/heddle-config.cmake ${PROJECT_BINARY_DIR}/heddle-config-version.cmake
              cmake/FindOneDNN.cmake
        DESTINATION ${destination})
