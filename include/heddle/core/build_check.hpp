// Ends a program whose object files were compiled for different backends or instruction sets, when it starts. Not every
// such program fails to link: the symbol of a function that takes no tensor and returns one does not name the build.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <heddle/base/build.hpp>

namespace heddle::detail {

// The settings of the first object file that was initialized. Hidden: libraries that are loaded into one process may
// differ.
[[gnu::visibility("hidden")]] inline const char* settings_of_image = nullptr;

[[gnu::visibility("hidden")]] inline bool record_build(const char* settings) {
  if (!settings_of_image) settings_of_image = settings;
  if (std::strcmp(settings_of_image, settings) == 0) return true;
  std::fprintf(stderr,
               "heddle: error: some object files of this program were compiled for %s, others for %s; compile all of "
               "them with the same "
               "HEDDLE_ONEDNN, HEDDLE_CUDA and -march\n",
               settings_of_image, settings);
  std::abort();
}

// Each object file has its own, so that it is initialized even if nothing of the file is inlined.
[[maybe_unused]] static const bool is_build_recorded = record_build(Build::settings);

}  // namespace heddle::detail
