include(CMakePackageConfigHelpers)
set(destination ${CMAKE_INSTALL_LIBDIR}/cmake/heddle)
install(DIRECTORY include/heddle DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS heddle heddle_native EXPORT heddle-targets)
install(EXPORT heddle-targets NAMESPACE heddle:: DESTINATION ${destination})
configure_package_config_file(cmake/heddle-config.cmake.in heddle-config.cmake INSTALL_DESTINATION ${destination})
write_basic_package_version_file(heddle-config-version.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES ${PROJECT_BINARY_DIR}/heddle-config.cmake ${PROJECT_BINARY_DIR}/heddle-config-version.cmake
              cmake/FindOneDNN.cmake
        DESTINATION ${destination})
