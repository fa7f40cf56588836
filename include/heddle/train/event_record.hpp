// The records of TensorBoard's event files: protocol buffers (event.proto and summary.proto of TensorFlow), encoded by
// hand, in TensorFlow's record format.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <heddle/base/build.hpp>
#include <heddle/base/error.hpp>
#include <heddle/base/utf8.hpp>
#include <heddle/train/crc32c.hpp>

namespace heddle::train::detail {

// A protocol buffer message that is written field by field.
class Message {
 public:
  // These functions append one field each. integer() leaves out 0, as proto3 does; the other functions write
  // every value.
  Message& integer(int field, std::int64_t value) {
    if (value == 0) return *this;
    key(field, varint_type);
    varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  Message& float32(int field, float value) {
    key(field, fixed32_type);
    little_endian(std::bit_cast<std::uint32_t>(value), 4);
    return *this;
  }
  Message& float64(int field, double value) {
    key(field, fixed64_type);
    little_endian(std::bit_cast<std::uint64_t>(value), 8);
    return *this;
  }
  Message& bytes(int field, std::string_view value) {
    key(field, length_type);
    varint(value.size());
    encoded_ += value;
    return *this;
  }
  Message& message(int field, const Message& value) { return bytes(field, value.encoded_); }
  Message& float64s(int field, std::span<const double> values) {
    Message packed;
    for (const double value : values) packed.little_endian(std::bit_cast<std::uint64_t>(value), 8);
    return message(field, packed);
  }

  void little_endian(std::uint64_t value, int size) {
    for (int i = 0; i < size; ++i) encoded_ += static_cast<char>(value >> 8 * i & 0xFF);
  }
  const std::string& encoded() const { return encoded_; }

 private:
  enum WireType { varint_type = 0, fixed64_type = 1, length_type = 2, fixed32_type = 5 };

  void key(int field, WireType type) { varint(static_cast<std::uint64_t>(field << 3 | type)); }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) encoded_ += static_cast<char>(value | 0x80);
    encoded_ += static_cast<char>(value);
  }

  std::string encoded_;
};

// Returns the text with U+FFFD for invalid UTF-8: readers refuse an event with an invalid string.
inline std::string valid_utf8(std::string_view text) {
  std::string valid;
  for (const char *at = text.data(), *end = at + text.size(); at != end;) {
    std::array<char, text::max_utf8_bytes> bytes;
    const int size = text::encode_utf8(text::decode_utf8(at, end), bytes.data());
    valid.append(bytes.data(), static_cast<std::size_t>(size));
  }
  return valid;
}

// Returns an event as a record: length, checksum of the length, event, checksum of the event.
inline std::string to_record(const Message& event) {
  constexpr std::size_t longest_message = 0x7FFFFFFF;  // the limit of protocol buffers
  const std::string& payload = event.encoded();
  require(payload.size() <= longest_message, "an event for TensorBoard has ", payload.size(), " bytes; at most ",
          longest_message, " are possible");
  Message record;
  record.little_endian(payload.size(), 8);
  record.little_endian(masked_crc32c(record.encoded()), 4);
  Message check;
  check.little_endian(masked_crc32c(payload), 4);
  return record.encoded() + payload + check.encoded();
}

// Returns the first record of each file.
inline std::string version_record(double wall_time) {
  return to_record(Message().float64(1, wall_time).bytes(3, "brain.Event:2"));
}

// Returns the record that makes an open TensorBoard drop all events it has read whose step is `step` or later.
inline std::string restart_record(Index step, double wall_time) {
  constexpr int start = 1;
  const Message session_log = Message().integer(1, start);
  return to_record(Message().float64(1, wall_time).integer(2, step).message(7, session_log));
}

// Returns the record of a summary with one value. Adds the tag, which the message `value` does not have yet.
inline std::string summary_record(const std::string& tag, const Message& value, Index step, double wall_time) {
  require(!tag.empty(), "EventWriter: the tag is empty; give a name such as Loss/train");
  Message tagged;
  tagged.bytes(1, valid_utf8(tag));
  const std::string all = tagged.encoded() + value.encoded();
  const Message summary = Message().bytes(1, all);
  return to_record(Message().float64(1, wall_time).integer(2, step).message(5, summary));
}

inline std::string scalar_record(const std::string& tag, double value, Index step, double wall_time) {
  return summary_record(tag, Message().float32(2, static_cast<float>(value)), step, wall_time);
}

inline std::string image_record(const std::string& tag, Index width, Index height, std::string_view png, Index step,
                                double wall_time) {
  constexpr int rgb = 3;
  const Message image = Message().integer(1, height).integer(2, width).integer(3, rgb).bytes(4, png);
  return summary_record(tag, Message().message(4, image), step, wall_time);
}

// Returns the record of a text as PyTorch's SummaryWriter writes it: a tensor of one string for the text dashboard.
inline std::string text_record(const std::string& tag, std::string_view markdown, Index step, double wall_time) {
  constexpr int string_type = 7;
  const Message plugin = Message().bytes(1, "text");
  const Message metadata = Message().message(1, plugin);
  const Message shape = Message().message(2, Message().integer(1, 1));
  const Message tensor = Message().integer(1, string_type).message(2, shape).bytes(8, valid_utf8(markdown));
  require(!tag.empty(), "EventWriter: the tag is empty; give a name such as Loss/train");
  return summary_record(tag + "/text_summary", Message().message(8, tensor).message(9, metadata), step, wall_time);
}

// The distribution of values: sums, and counts in buckets of equal width. bucket_limit[i] is the right edge
// of bucket i.
struct Histogram {
  double min = 0, max = 0, count = 0, sum = 0, sum_squares = 0;
  std::vector<double> bucket_limit, bucket;
};

// Counts the finite values in 50 buckets from their minimum to their maximum. If all of them are equal, there is only
// one bucket.
template <class T>
Histogram count_values(std::span<const T> values) {
  constexpr int buckets = 50;
  Histogram histogram;
  for (const T element : values) {
    if (!std::isfinite(element)) continue;
    const auto value = static_cast<double>(element);
    histogram.min = histogram.count == 0 ? value : std::min(histogram.min, value);
    histogram.max = histogram.count == 0 ? value : std::max(histogram.max, value);
    histogram.sum += value;
    histogram.sum_squares += value * value;
    ++histogram.count;
  }
  // Computed with halves, because the difference of two doubles may be infinite.
  const double half_width = (histogram.max / 2 - histogram.min / 2) / buckets;
  if (!(half_width > 0)) {
    histogram.bucket_limit = {histogram.max};
    histogram.bucket = {histogram.count};
    return histogram;
  }
  for (int i = 1; i <= buckets; ++i)
    histogram.bucket_limit.push_back(i == buckets ? histogram.max : histogram.min + half_width * i + half_width * i);
  histogram.bucket.resize(buckets);
  for (const T element : values) {
    if (!std::isfinite(element)) continue;
    const double position = (static_cast<double>(element) / 2 - histogram.min / 2) / half_width;
    ++histogram.bucket[static_cast<std::size_t>(std::clamp(position, 0.0, buckets - 1.0))];
  }
  return histogram;
}

inline std::string histogram_record(const std::string& tag, const Histogram& histogram, Index step, double wall_time) {
  const Message proto = Message()
                            .float64(1, histogram.min)
                            .float64(2, histogram.max)
                            .float64(3, histogram.count)
                            .float64(4, histogram.sum)
                            .float64(5, histogram.sum_squares)
                            .float64s(6, histogram.bucket_limit)
                            .float64s(7, histogram.bucket);
  return summary_record(tag, Message().message(5, proto), step, wall_time);
}

}  // namespace heddle::train::detail
