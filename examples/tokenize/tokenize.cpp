// tokenize: lines of text to tokens, from standard input to standard output, and back. Lines are encoded as they
// arrive, so that the program can serve a pipe. Many lines at once are encoded on all threads and written in order.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <heddle/base/threads.hpp>
#include <heddle/data/token_file_writer.hpp>
#include <heddle/io/json_string.hpp>
#include <heddle/text/folder_tokenizer.hpp>

#include "../common/flags.hpp"
#include "../common/program.hpp"
#include "../common/text.hpp"
#include "../common/tokenizer_id.hpp"

namespace heddle::examples {
namespace {

constexpr std::int32_t most_classes = 1'000'000;

struct Flags {
  std::string vocab, tokenizer, format = "ids", to;
  text::WordPieceOptions options;
  bool pair = false, labels = false, decode = false;
};

std::size_t to_length(const std::string& text) {
  std::size_t length = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, length);
  require(error == std::errc{} && stop == end, "--max-length: ", text, " is not a number of tokens");
  return length;
}

// Returns false if the command line asked only for --help or --version, which is then answered.
bool parse(int argc, char** argv, Flags& flags) {
  CLI::App app("Cuts each line of standard input into tokens, as the Hugging Face tokenizers library does");
  std::string max_length;
  bool no_special = false;
  app.set_version_flag("--version", version_text());
  add_path(app, "--vocab", flags.vocab, "Vocabulary of a WordPiece tokenizer, one token a line");
  add_path(app, "--tokenizer", flags.tokenizer, "A tokenizer.json, or a folder with a tokenizer, instead of --vocab");
  app.add_flag("--uncased", flags.options.uncased, "Lower-case the text and strip its accents");
  app.add_flag("--no-special", no_special, "Do not add special tokens such as [CLS] and [SEP]");
  app.add_option("--max-length", max_length, "Truncate to N tokens, special tokens included")->type_name("N");
  app.add_flag("--pair", flags.pair, "Split each line at its first tab into two sequences");
  app.add_option("--format", flags.format, "Output for each line")
      ->check(one_of({"ids", "tokens", "json"}))
      ->type_name("NAME")
      ->capture_default_str();
  add_path(app, "--to", flags.to, "Write the ids of all lines to a token file instead; a killed call may be repeated");
  app.add_flag("--labels", flags.labels, "For --to: each line begins with the number of its class and a tab");
  app.add_flag("--decode", flags.decode, "Read lines of ids, separated by blanks, and write their text");
  if (!parse_command_line(app, argc, argv)) return false;
  require(flags.vocab.empty() != flags.tokenizer.empty(),
          flags.vocab.empty() ? "--vocab or --tokenizer is needed" : "--vocab and --tokenizer exclude each other");
  require(flags.tokenizer.empty() || !flags.options.uncased,
          "--uncased: the tokenizer in --tokenizer has its own casing");
  require(!flags.decode || (!flags.options.uncased && !no_special && app.count("--max-length") == 0 && !flags.pair &&
                            app.count("--format") == 0 && flags.to.empty()),
          "--decode excludes --uncased, --no-special, --max-length, --pair, --format and --to");
  require(!flags.labels || !flags.to.empty(), "--labels needs --to");
  require(flags.to.empty() || (!flags.pair && app.count("--format") == 0), "--to excludes --pair and --format");
  flags.options.special_tokens = !no_special && !flags.decode;
  flags.options.offsets = flags.format == "json";
  if (app.count("--max-length") > 0) flags.options.max_length = to_length(max_length);
  return true;
}

template <class Number>
void append_number(Number value, std::string& out) {
  std::array<char, 24> digits;
  out.append(digits.data(), std::to_chars(digits.begin(), digits.end(), value).ptr);
}

class LineEncoder {
 public:
  explicit LineEncoder(const Flags& flags) : flags_(flags), tokenizer_(unlimited_tokenizer(flags)) {
    const std::size_t specials =
        flags.options.special_tokens ? text::count_special_tokens(tokenizer_.form(flags.pair)) : 0;
    require(flags.options.max_length >= specials, "--max-length ", flags.options.max_length, " cannot hold the ",
            specials, " special tokens");
    text::TokenizerOptions limited = tokenizer_.options();
    limited.max_length = flags.options.max_length;
    tokenizer_ = tokenizer_.with(limited);
  }

  const text::Tokenizer& tokenizer() const { return tokenizer_; }

  // Appends the output for a line.
  void operator()(std::string_view line, std::string& out) const {
    const std::size_t tab = flags_.pair ? line.find('\t') : std::string_view::npos;
    const text::Encoding encoding = tab == std::string_view::npos
                                        ? tokenizer_.encode(line)
                                        : tokenizer_.encode_pair(line.substr(0, tab), line.substr(tab + 1));
    const auto token = [&](std::int32_t id) { return tokenizer_.token(id); };
    if (flags_.format == "ids") {
      append_list(encoding.ids, ' ', out, [&](std::int32_t id) { append_number(id, out); });
    } else if (flags_.format == "tokens") {
      append_list(encoding.ids, ' ', out, [&](std::int32_t id) { out += token(id); });
    } else {
      out += "{\"ids\":[";
      append_list(encoding.ids, ',', out, [&](std::int32_t id) { append_number(id, out); });
      out += "],\"type_ids\":[";
      append_list(encoding.type_ids, ',', out, [&](std::int32_t type) { append_number(type, out); });
      out += "],\"tokens\":[";
      append_list(encoding.ids, ',', out, [&](std::int32_t id) { out += io::json_string(token(id)); });
      out += "],\"offsets\":[";
      append_list(offsets_in_line(encoding, line, tab), ',', out, [&](const text::TextRange& range) {
        out += '[';
        append_number(range.begin, out);
        out += ',';
        append_number(range.end, out);
        out += ']';
      });
      out += "]}";
    }
    out += '\n';
  }

 private:
  // Returns the tokenizer of the flags, which does not truncate.
  static text::Tokenizer unlimited_tokenizer(const Flags& flags) {
    text::WordPieceOptions options = flags.options;
    options.max_length = text::WordPieceOptions().max_length;
    if (!flags.tokenizer.empty())
      return text::Tokenizer::load(flags.tokenizer,
                                   {.special_tokens = options.special_tokens, .offsets = options.offsets});
    return text::Tokenizer(text::WordPiece(read_vocabulary(io::read_file(flags.vocab), flags.vocab), options));
  }
  // Returns the offsets, those of a second text, which follows the tab, from the beginning of the line.
  std::vector<text::TextRange> offsets_in_line(const text::Encoding& encoding, std::string_view line,
                                               std::size_t tab) const {
    std::vector<text::TextRange> offsets = encoding.offsets;
    if (tab == line.npos) return offsets;
    auto [i, end] = tokenizer_.second_text(line.substr(0, tab), line.substr(tab + 1));
    for (; i < end; ++i) offsets[i] = {tab + 1 + offsets[i].begin, tab + 1 + offsets[i].end};
    return offsets;
  }
  template <class T, class Append>
  static void append_list(const std::vector<T>& items, char separator, std::string& out, Append append) {
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out += separator;
      append(items[i]);
    }
  }

  Flags flags_;
  text::Tokenizer tokenizer_;
};

void write(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size()) flush_output(errno);
}

// Calls each(line, result) for whole lines, each ended by LF, on several threads, and returns the results in order; a
// result serves many consecutive lines.
template <class Result, class Each>
std::vector<Result> for_each_line(std::string_view lines, Each each) {
  constexpr Index grain = 1 << 14;  // bytes: about a hundred microseconds of work
  const kernel::Pieces pieces(static_cast<Index>(lines.size()), grain);
  // A line belongs to the piece in which it begins.
  const auto first_line = [&](Index offset) {
    const auto at = static_cast<std::size_t>(offset);
    return at == 0 ? 0 : std::min(lines.size(), lines.find('\n', at - 1) + 1);
  };
  std::vector<Result> results(static_cast<std::size_t>(pieces.count));
  kernel::parallel(pieces, [&](Index piece, Index first, Index last) {
    for (std::size_t begin = first_line(first), stop = first_line(last); begin < stop;) {
      const std::size_t end = lines.find('\n', begin);
      each(lines.substr(begin, end - begin), results[static_cast<std::size_t>(piece)]);
      begin = end + 1;
    }
  });
  return results;
}

// Reads the next bytes of standard input. Returns 0 at its end.
std::size_t read_input(std::span<char> block) {
  for (;;) {
    const ssize_t n = ::read(STDIN_FILENO, block.data(), block.size());
    if (n < 0 && errno == EINTR) continue;
    require<FileError>(n >= 0, "standard input: cannot be read: ", std::strerror(errno));
    return static_cast<std::size_t>(n);
  }
}

// Reads standard input and calls each(lines, is_end) for whole lines as they arrive, each ended by LF. At the end of
// the input, a last line without LF gets one.
template <class Each>
void read_lines(Each each) {
  std::vector<char> block(std::size_t{1} << 22);  // large enough to keep all threads busy
  for (std::string pending;;) {
    const std::size_t n = read_input(block);
    const std::string_view bytes(block.data(), n);
    const std::size_t whole = bytes.rfind('\n') + 1;  // 0 if no line ends in it
    pending += bytes.substr(0, whole);
    if (n == 0 && !pending.empty()) pending += '\n';
    if (whole > 0 || n == 0) each(std::string_view(pending), n == 0);
    if (n == 0) return;
    if (whole > 0) pending.clear();
    pending += bytes.substr(whole);
  }
}

// The part of standard input that a token file has.
struct InputSoFar {
  std::uint64_t bytes = 0;
  io::Crc64 crc = {};

  void add(std::string_view lines) {
    bytes += lines.size();
    crc.add(lines);
  }
  std::string text(std::size_t max_length) const {
    return std::to_string(bytes) + " bytes " + io::hex(crc.value()) + " --max-length " + std::to_string(max_length);
  }
};

// Skips the beginning of standard input that a token file has already, as `saved` says.
InputSoFar skip_input(const std::string& saved, const std::string& file, std::size_t max_length) {
  InputSoFar input;
  std::uint64_t left = 0;
  std::istringstream(saved) >> left;
  std::vector<char> block(std::size_t{1} << 20);
  while (left > 0) {
    const std::size_t n = read_input(std::span(block).first(std::min<std::uint64_t>(block.size(), left)));
    if (n == 0) break;
    input.add(std::string_view(block.data(), n));
    left -= n;
  }
  require<FileError>(input.text(max_length) == saved, "standard input or --max-length: is not what ",
                     io::printable(file + ".part"), " was begun with; remove ", io::printable(file + ".part.state"),
                     " to begin anew");
  return input;
}

// The ids of a line, and its label.
struct EncodedLine {
  std::vector<std::int32_t> ids;
  std::int32_t label = 0;  // -1 if the line does not begin with one
};

// Cuts the number of the class and the tab off the beginning of a line, and returns the number; -1 if there is none.
std::int32_t cut_label(std::string_view& line) {
  std::int32_t label = -1;
  const std::size_t tab = line.find('\t');
  if (tab == line.npos) return -1;
  const char* const end = line.data() + tab;
  const auto [stop, error] = std::from_chars(line.data(), end, label);
  line.remove_prefix(tab + 1);
  return error == std::errc{} && stop == end && label >= 0 && label < most_classes ? label : -1;
}

// Writes the ids of the lines to a token file.
void write_tokens(const std::string& path, const LineEncoder& encode, bool has_labels) {
  constexpr std::uint64_t save_every = std::uint64_t{1} << 26;  // bytes of input
  const text::Tokenizer& tokenizer = encode.tokenizer();
  data::TokenFileWriter writer(path, tokenizer.size(), identify(tokenizer).checksum,
                               has_labels ? data::TextLabels::written : data::TextLabels::none);
  const std::size_t max_length = tokenizer.options().max_length;
  InputSoFar input;
  if (writer.resumed()) {
    input = skip_input(*writer.resumed(), path, max_length);
    note(io::printable(path) + ": continues after " + std::to_string(writer.texts()) + " texts");
  }
  std::uint64_t saved = input.bytes;
  read_lines([&](std::string_view lines, bool is_end) {
    using Encoded = std::vector<EncodedLine>;
    const auto encode_line = [&](std::string_view line, Encoded& encoded) {
      const std::int32_t label = has_labels ? cut_label(line) : 0;
      encoded.push_back({tokenizer.encode(line).ids, label});
    };
    for (const Encoded& texts : for_each_line<Encoded>(lines, encode_line))
      for (const EncodedLine& text : texts) {
        require<FileError>(text.label >= 0, "standard input:", writer.texts() + 1,
                           ": the line does not begin with the number of a class, from 0 to ", most_classes - 1,
                           ", and a tab");
        writer.add(text.ids, text.label);
      }
    input.add(lines);
    if (is_end || input.bytes - saved < save_every) return;
    writer.save(input.text(max_length));
    saved = input.bytes;
  });
  writer.finish();
  std::printf("%lld texts, %lld tokens\n", static_cast<long long>(writer.texts()),
              static_cast<long long>(writer.tokens()));
}

// The texts of consecutive lines of ids, up to the first line that is refused.
struct DecodedLines {
  std::string text;
  Index count = 0;
  std::string refused = {};  // what is not an id
};

// Returns the ids of a line, separated by blanks. Sets `refused` to the first word that is not an id below `size`.
std::vector<std::int32_t> parse_ids(std::string_view line, std::int32_t size, std::string& refused) {
  constexpr const char* blanks = " \t\r";
  std::vector<std::int32_t> ids;
  for (std::size_t begin = 0; (begin = line.find_first_not_of(blanks, begin)) != line.npos;) {
    const std::string_view word = line.substr(begin, line.find_first_of(blanks, begin) - begin);
    const char* const end = word.data() + word.size();
    std::int32_t id = -1;
    const auto [stop, error] = std::from_chars(word.data(), end, id);
    if (error != std::errc{} || stop != end || id < 0 || id >= size) {
      refused = word;
      return {};
    }
    ids.push_back(id);
    begin += word.size();
  }
  return ids;
}

// Writes the text of each line of ids.
void write_decoded(const text::Tokenizer& tokenizer) {
  const auto decode = [&](std::string_view line, DecodedLines& out) {
    if (!out.refused.empty()) return;
    const std::vector<std::int32_t> ids = parse_ids(line, tokenizer.size(), out.refused);
    if (!out.refused.empty()) return;
    out.text += tokenizer.decode(ids) + '\n';
    ++out.count;
  };
  Index number = 0;
  read_lines([&](std::string_view lines, bool) {
    for (const DecodedLines& decoded : for_each_line<DecodedLines>(lines, decode)) {
      write(decoded.text);
      number += decoded.count;
      require<FileError>(decoded.refused.empty(), "standard input:", number + 1, ": ", io::quoted_name(decoded.refused),
                         " is not an id from 0 to ", tokenizer.size() - 1);
    }
    flush_output();
  });
}

void run(int argc, char** argv) {
  Flags flags;
  if (!parse(argc, argv, flags)) return;
  const LineEncoder encode(flags);
  if (flags.decode) return write_decoded(encode.tokenizer());
  if (!flags.to.empty()) return write_tokens(flags.to, encode, flags.labels);
  read_lines([&](std::string_view lines, bool) {
    for (const std::string& text : for_each_line<std::string>(lines, encode)) write(text);
    flush_output();
  });
}

}  // namespace
}  // namespace heddle::examples

int main(int argc, char** argv) {
  return heddle::examples::run_program("tokenize", [&] { heddle::examples::run(argc, argv); });
}
