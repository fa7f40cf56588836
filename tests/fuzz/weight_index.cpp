// model.safetensors.index.json: the shards are names of files in the folder.
#include <heddle/io/weight_files.hpp>

#include "fuzz.hpp"

namespace {

using namespace heddle;

void check_index(const std::string& content) {
  const auto shard_of = fuzz::attempt<FileError>([&] { return io::detail::parse_weight_index(content, "input"); });
  if (!shard_of) return;
  fuzz::claim(!shard_of->empty(), "an index lists a tensor");
  for (const auto& [name, shard] : *shard_of)
    fuzz::claim(!shard.empty() && shard != "." && shard != ".." &&
                    shard.find_first_of(std::string_view("/\\\0", 3)) == shard.npos,
                "a shard's name leads into no other folder");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::Input input(data, size);
  check_index(input.string());
  check_index("{\"weight_map\":{" + input.string() + "}}");
  return 0;
}
