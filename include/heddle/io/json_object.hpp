// Reads members of JSON objects in files. The error for a member that is missing or of another type names the file and
// the member.
#pragma once
#include <nlohmann/json.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include <heddle/base/error.hpp>
#include <heddle/base/file.hpp>
#include <heddle/base/shape.hpp>

namespace heddle::io {

/// Parses a file's content. `file` is its printable name, for messages. @throws FileError for text that is not JSON,
/// and for a value that is inside more than 128 arrays and objects.
inline nlohmann::json parse_json(std::string_view text, const std::string& file) {
  constexpr int most_levels = 128;  // serde_json allows 127; copying, comparing and printing a value are recursive
  // nlohmann::json takes a NUL byte for the end of its input.
  require<FileError>(text.find('\0') == text.npos, file, ": is not JSON: it has a NUL byte");
  try {
    return nlohmann::json::parse(text, [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
      require<FileError>(depth <= most_levels, file, ": is nested more than ", most_levels, " levels deep");
      return true;
    });
  } catch (const nlohmann::json::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: …" or "[…406] number overflow parsing '1e999'"
    std::string what = error.what();
    const std::size_t place = what.find("at line "), name = what.find("] ");
    what.erase(0, place != what.npos ? place : name != what.npos ? name + 2 : 0);
    fail<FileError>(file, ": is not JSON: ", printable(what, 200));
  }
}

/// Returns whether a value is a whole number in [least, most]. The comparisons of nlohmann::json, which order values of
/// all types, take seconds to compile.
inline bool is_whole_number(const nlohmann::json& value, Index least, Index most = std::numeric_limits<Index>::max()) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned() && !std::in_range<Index>(value.get<std::uint64_t>())) return false;
  return value.get<Index>() >= least && value.get<Index>() <= most;
}

/// A reference to an object of a JSON file. The object must outlive the reference.
class JsonObject {
 public:
  /// Wraps an object; messages call it `what`, such as "the file". @throws FileError if the value is not an object.
  JsonObject(const nlohmann::json& object, std::string file, const std::string& what = "the content")
      : object_(object), file_(std::move(file)) {
    require<FileError>(object.is_object(), file_, ": ", what, " must be a JSON object");
  }

  /// Returns the name of the file, for messages.
  const std::string& file() const { return file_; }
  /// Returns the object itself.
  const nlohmann::json& json() const { return object_; }

  /// Returns a member, or nullptr if it is absent or null.
  const nlohmann::json* find(const std::string& key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  /// Returns whether a member exists and is not null.
  bool has(const std::string& key) const { return find(key) != nullptr; }

  /// Returns a member of any type. @throws FileError if it is absent. The functions from object() to count() also throw
  /// FileError for a member of another type, such as null, and for a number out of range.
  const nlohmann::json& at(const std::string& key) const {
    const auto found = object_.find(key);
    require<FileError>(found != object_.end(), file_, ": has no '", key, "'");
    return *found;
  }
  /// Returns a member that is an object.
  const nlohmann::json& object(const std::string& key) const { return of_type(key, at(key).is_object(), "an object"); }
  /// Returns a member that is an array.
  const nlohmann::json& array(const std::string& key) const { return of_type(key, at(key).is_array(), "an array"); }
  /// Returns a member that is a string.
  std::string text(const std::string& key) const {
    return of_type(key, at(key).is_string(), "a string").get<std::string>();
  }
  /// Returns a member that is true or false.
  bool boolean(const std::string& key) const { return of_type(key, at(key).is_boolean(), "true or false").get<bool>(); }
  /// Returns a member that is a number in [least, below).
  double number(const std::string& key, double least, double below) const {
    const nlohmann::json& value = at(key);
    const double x = value.is_number() ? value.get<double>() : least - 1;
    if (!(x >= least && x < below)) refuse(key, value, "a number in [", least, ", ", below, ')');
    return x;
  }
  /// Returns a member that is a whole number in [least, most].
  Index count(const std::string& key, Index least = 0, Index most = std::numeric_limits<Index>::max()) const {
    const nlohmann::json& value = at(key);
    const bool fits = is_whole_number(value, least, most);
    if (!fits && most == std::numeric_limits<Index>::max()) refuse(key, value, "a whole number of at least ", least);
    if (!fits) refuse(key, value, "a whole number from ", least, " to ", most);
    return value.get<Index>();
  }

  /// Returns a member that is true or false, or the value `absent` if there is no such member or it is null. So do the
  /// functions below for their types.
  bool boolean_or(const std::string& key, bool absent) const { return has(key) ? boolean(key) : absent; }
  /// Returns a string, or `absent`.
  std::string text_or(const std::string& key, const std::string& absent) const { return has(key) ? text(key) : absent; }
  /// Returns a number in [least, below), or `absent`.
  double number_or(const std::string& key, double absent, double least, double below) const {
    return has(key) ? number(key, least, below) : absent;
  }
  /// Returns a whole number in [least, most], or `absent`.
  Index count_or(const std::string& key, Index absent, Index least, Index most) const {
    return has(key) ? count(key, least, most) : absent;
  }

 private:
  const nlohmann::json& of_type(const std::string& key, bool is_right, const char* type) const {
    const nlohmann::json& value = at(key);
    if (!is_right) refuse(key, value, type);
    return value;
  }

  template <class... Parts>
  [[noreturn]] void refuse(const std::string& key, const nlohmann::json& value, const Parts&... expected) const {
    fail<FileError>(file_, ": '", key, "' is ", printable(value.dump(), 60), " but must be ", expected...);
  }

  const nlohmann::json& object_;
  std::string file_;
};

/// A JSON file that holds one object.
class JsonFile {
 public:
  /// Reads a file. @throws FileError if it cannot be read, or is not a JSON object.
  explicit JsonFile(const std::string& path) : JsonFile(read_file(path), path) {}
  /// Takes a file's content; messages name it `path`. @throws FileError if it is not a JSON object.
  JsonFile(std::string content, const std::string& path)
      : text_(std::move(content)), json_(parse_json(text_, printable(path))), path_(path) {
    object();
  }

  /// Returns the object, which refers to this file.
  JsonObject object() const { return {json_, printable(path_), "the file"}; }
  /// Returns the bytes of the file.
  const std::string& content() const { return text_; }

 private:
  std::string text_;
  nlohmann::json json_;
  std::string path_;
};

}  // namespace heddle::io
