// Reads event files: records with their checksums, and the fields of the messages in them.
#pragma once
#include <bit>
#include <cstring>
#include <heddle/train/crc32c.hpp>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "io/files.hpp"
#include "train/read_png.hpp"

namespace heddle::testing {

// The fields of a protocol buffer message in the order of the bytes: numbers as their bits, everything else as bytes.
class MessageReader {
 public:
  struct Field {
    int number;
    std::uint64_t bits;
    std::string bytes;
  };

  explicit MessageReader(std::string_view encoded) {
    ByteReader in(encoded);
    while (!in.is_empty()) {
      const std::uint64_t key = varint(in);
      Field field{static_cast<int>(key >> 3), 0, {}};
      switch (key & 7) {
        case 0: field.bits = varint(in); break;
        case 1: field.bits = in.little_endian(8); break;
        case 2: field.bytes = in.take(varint(in)); break;
        case 5: field.bits = in.little_endian(4); break;
        default: fail("tests: an unknown wire type");
      }
      fields_.push_back(field);
    }
  }

  bool has(int number) const {
    return std::any_of(fields_.begin(), fields_.end(), [&](const Field& field) { return field.number == number; });
  }
  // Returns 0, or no bytes, for a field that is missing.
  std::int64_t integer(int number) const { return static_cast<std::int64_t>(find(number).bits); }
  double float64(int number) const { return std::bit_cast<double>(find(number).bits); }
  float float32(int number) const { return std::bit_cast<float>(static_cast<std::uint32_t>(find(number).bits)); }
  std::string bytes(int number) const { return find(number).bytes; }
  MessageReader message(int number) const { return MessageReader(bytes(number)); }
  std::vector<double> float64s(int number) const {
    const std::string packed = bytes(number);
    std::vector<double> values(packed.size() / 8);
    std::memcpy(values.data(), packed.data(), packed.size());
    return values;
  }

 private:
  static std::uint64_t varint(ByteReader& in) {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const std::size_t byte = in.little_endian(1);
      value |= std::uint64_t{byte & 0x7F} << shift;
      if (byte < 0x80) return value;
    }
  }
  Field find(int number) const {
    for (const Field& field : fields_)
      if (field.number == number) return field;
    return {number, 0, {}};
  }

  std::vector<Field> fields_;
};

struct ReadEvent {
  double wall_time;
  Index step;
  std::string version;
  int session_status;
  std::string tag;
  MessageReader value;  // the summary's only value
};

// Returns the events of a file. Throws Error for a record that is cut or damaged.
inline std::vector<ReadEvent> read_events(std::string_view bytes) {
  std::vector<ReadEvent> events;
  ByteReader in(bytes);
  while (!in.is_empty()) {
    const std::string_view length = in.take(8);
    require(in.little_endian(4) == train::detail::masked_crc32c(length), "tests: the checksum of a length is wrong");
    const std::string_view payload = in.take(ByteReader(length).little_endian(8));
    require(in.little_endian(4) == train::detail::masked_crc32c(payload), "tests: the checksum of an event is wrong");
    const MessageReader event(payload), value = event.message(5).message(1);
    events.push_back({event.float64(1), event.integer(2), event.bytes(3), static_cast<int>(event.message(7).integer(1)),
                      value.bytes(1), value});
  }
  return events;
}

// Returns the events of a run, as TensorBoard reads it: the files in the order of their names.
inline std::vector<ReadEvent> read_run(const TemporaryFolder& folder) {
  std::vector<ReadEvent> all;
  for (const std::string& name : folder.names()) {
    const std::vector<ReadEvent> events = read_events(get(folder / name));
    require(!events.empty() && events[0].version == "brain.Event:2", "tests: no version in ", name);
    all.insert(all.end(), events.begin(), events.end());
  }
  return all;
}

// Returns the steps of a tag in the order of the files.
inline std::vector<Index> steps_of(const TemporaryFolder& folder, const std::string& tag) {
  std::vector<Index> steps;
  for (const ReadEvent& event : read_run(folder))
    if (event.tag == tag) steps.push_back(event.step);
  return steps;
}

}  // namespace heddle::testing
