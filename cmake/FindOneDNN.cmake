# Defines OneDNN::OneDNN. Does not use oneDNN's own package file, because Debian's requires OpenCL's headers, which
# heddle does not need. oneDNN uses g++'s OpenMP; heddle limits each call to one thread.
find_path(OneDNN_INCLUDE_DIR dnnl.h)
find_library(OneDNN_LIBRARY dnnl)
mark_as_advanced(OneDNN_INCLUDE_DIR OneDNN_LIBRARY)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OneDNN REQUIRED_VARS OneDNN_LIBRARY OneDNN_INCLUDE_DIR)
if(OneDNN_FOUND AND NOT TARGET OneDNN::OneDNN)
  add_library(OneDNN::OneDNN UNKNOWN IMPORTED)
  set_target_properties(OneDNN::OneDNN PROPERTIES IMPORTED_LOCATION "${OneDNN_LIBRARY}"
                                                  INTERFACE_INCLUDE_DIRECTORIES "${OneDNN_INCLUDE_DIR}"
                                                  INTERFACE_LINK_LIBRARIES gomp)
endif()
