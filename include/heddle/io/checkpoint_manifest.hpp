// The manifest of a checkpoint: one line of JSON that names the checkpoint's files with their sizes and checksums,
// carries the caller's own state, and ends with a checksum of itself.
#pragma once
#include <map>
#include <nlohmann/json.hpp>

#include <heddle/io/file_sum.hpp>
#include <heddle/io/json_object.hpp>
#include <heddle/io/json_string.hpp>

namespace heddle::io {

/// The sizes and checksums of a checkpoint's files by name; the names have no folder.
using FileSums = std::map<std::string, FileSum>;

/// The content of a manifest.
struct CheckpointManifest {
  std::int64_t number = 0;  ///< the number of the checkpoint
  FileSums files;           ///< the sizes and checksums of its files
  std::string state;        ///< the state that the writer stored with it, one JSON value
};

namespace detail {

// The maximum size of a manifest in bytes. A run's settings and sums take about 1,000 bytes, and each of its curves at
// most about 12,000. Copying JSON is recursive; the limit bounds the depth to about 32,700 levels.
inline constexpr std::size_t manifest_limit = 1 << 16;
inline constexpr std::string_view manifest_seal = ",\"crc64\":\"";

inline bool is_file_name(const std::string& name) {
  return !name.empty() && name[0] != '.' && name != "manifest.json" && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos && text::is_utf8(name);
}

// Returns the end of a manifest whose text so far is `body`.
inline std::string seal(std::string_view body) {
  Crc64 crc;
  crc.add(body);
  return std::string(manifest_seal) + hex(crc.value()) + "\"}\n";
}

template <class T>
T get(const nlohmann::json& object, const char* key, const std::string& file) {
  const auto found = object.find(key);
  bool right = found != object.end();
  if constexpr (std::is_same_v<T, std::string>)
    right = right && found->is_string();
  else
    right = right && is_whole_number(*found, 0);
  require<FileError>(right, file, ": '", key, "' is missing or not a ",
                     std::is_same_v<T, std::string> ? "string" : "whole number of at least 0");
  return found->template get<T>();
}

}  // namespace detail

/// Returns the text of a manifest. `state` is one JSON value; messages name the manifest `file`. The text is composed
/// by hand, because the destructor of nlohmann::json allocates, which ends the program if memory runs out. @throws
/// FileError for file names and a state that read_manifest() would refuse, and for a text of more than 65,536 bytes.
inline std::string write_manifest(std::int64_t number, const FileSums& files, const std::string& state,
                                  const std::string& file) {
  for (const auto& [name, sum] : files)
    require<FileError>(detail::is_file_name(name), file, ": ", quoted_name(name),
                       " cannot be the name of a checkpoint's file");
  require<FileError>(nlohmann::json::accept(state), file, ": the state is not one JSON value");
  std::string body = "{\"heddle_checkpoint\":1,\"number\":" + std::to_string(number) + ",\"files\":{";
  for (const auto& [name, sum] : files)
    body += (body.back() == '{' ? "" : ",") + json_string(name) + ":{\"bytes\":" + std::to_string(sum.bytes) +
            ",\"crc64\":\"" + hex(sum.crc64) + "\"}";
  body += "},\"state\":" + state;
  // A state that begins with a byte-order mark or ends with a NUL byte is valid on its own, but not inside the
  // manifest.
  require<FileError>(nlohmann::json::accept(body + '}'), file, ": the state is not one JSON value");
  body += detail::seal(body);
  require<FileError>(body.size() <= detail::manifest_limit, file, ": would have ", body.size(),
                     " bytes; a manifest has at most ", detail::manifest_limit);
  return body;
}

/// Parses the text of a manifest. Messages name the manifest `file`.
/// @throws FileError for a text that is not a manifest or has a wrong checksum, such as one with a changed bit.
inline CheckpointManifest read_manifest(std::string_view text, const std::string& file) {
  require<FileError>(text.size() <= detail::manifest_limit, file, ": has ", text.size(),
                     " bytes; a manifest has at most ", detail::manifest_limit);
  const std::size_t end = text.rfind(detail::manifest_seal);
  require<FileError>(end != std::string_view::npos, file, ": is cut off, or is not the manifest of a checkpoint");
  const std::string_view body = text.substr(0, end);
  require<FileError>(text.substr(end) == detail::seal(body), file, ": its checksum is wrong");
  auto json = nlohmann::json::parse(std::string(body) + '}', nullptr, false);
  require<FileError>(json.is_object(), file, ": is not a JSON object");
  const auto format = detail::get<std::int64_t>(json, "heddle_checkpoint", file);
  require<FileError>(format == 1, file, ": is of format ", format, "; this version of heddle reads 1");
  CheckpointManifest manifest;
  manifest.number = detail::get<std::int64_t>(json, "number", file);
  const auto files = json.find("files"), state = json.find("state");
  require<FileError>(files != json.end() && files->is_object(), file, ": 'files' is missing or not an object");
  require<FileError>(state != json.end(), file, ": has no 'state'");
  for (const auto& [name, entry] : files->items()) {
    require<FileError>(detail::is_file_name(name), file, ": ", quoted_name(name),
                       " cannot be the name of a checkpoint's file");
    require<FileError>(entry.is_object(), file, ": the entry of ", quoted_name(name), " is not an object");
    const auto digits = detail::get<std::string>(entry, "crc64", file);
    require<FileError>(digits.size() == 16 && digits.find_first_not_of("0123456789abcdef") == std::string::npos, file,
                       ": the checksum of ", quoted_name(name), " is not 16 hexadecimal digits");
    manifest.files[name] = {detail::get<std::uint64_t>(entry, "bytes", file), std::stoull(digits, nullptr, 16)};
  }
  manifest.state = state->dump();
  return manifest;
}

}  // namespace heddle::io
