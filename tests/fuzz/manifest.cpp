// Manifests of checkpoints: the input itself, and the input with a correct checksum, because a wrong one is
// refused at once.
#include <heddle/io/checkpoint_manifest.hpp>

#include "fuzz.hpp"

namespace {

using namespace heddle;

void check_manifest(std::string_view text) {
  const auto read = fuzz::attempt<FileError>([&] { return io::read_manifest(text, "input"); });
  if (!read) return;
  const io::CheckpointManifest& manifest = *read;
  fuzz::claim(manifest.number >= 0, "a checkpoint's number is not negative");
  for (const auto& [name, sum] : manifest.files) {
    fuzz::claim(!name.empty() && name.find('/') == name.npos, "a file's name leads into no other folder");
    fuzz::claim(name != "." && name != "..", "a file's name is neither . nor ..");
  }
  const std::string written = io::write_manifest(manifest.number, manifest.files, manifest.state, "again");
  const io::CheckpointManifest again = io::read_manifest(written, "again");
  fuzz::claim(again.number == manifest.number && again.files == manifest.files && again.state == manifest.state,
              "a manifest reads back as it was written");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::Input input(data, size);
  check_manifest(input.text());
  check_manifest(input.string() + io::detail::seal(input.text()));
  return 0;
}
