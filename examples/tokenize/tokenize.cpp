// tokenize: WordPiece on lines of text, from standard input to standard output. Lines are encoded as they arrive, so
// that the program can serve a pipe. Many lines at once are encoded on all threads and written in order.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <heddle/base/threads.hpp>
#include <heddle/io/json_string.hpp>
#include <heddle/text/wordpiece.hpp>

#include "../common/flags.hpp"
#include "../common/program.hpp"
#include "../common/text.hpp"

namespace heddle::examples {
namespace {

struct Flags {
  std::string vocab, format = "ids";
  text::WordPieceOptions options;
  bool pair = false;
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
  CLI::App app("Cuts each line of standard input into WordPiece tokens, as the Hugging Face tokenizers library does");
  std::string max_length;
  bool no_special = false;
  app.set_version_flag("--version", version_text());
  app.add_option("--vocab", flags.vocab, "Vocabulary, one token a line")->required()->type_name("FILE");
  app.add_flag("--uncased", flags.options.uncased, "Lower-case the text and strip its accents");
  app.add_flag("--no-special", no_special, "Do not add [CLS] and [SEP]");
  app.add_option("--max-length", max_length, "Truncate to N tokens, [CLS] and [SEP] included")->type_name("N");
  app.add_flag("--pair", flags.pair, "Split each line at its first tab into two sequences");
  app.add_option("--format", flags.format, "Output for each line")
      ->check(one_of({"ids", "tokens", "json"}))
      ->type_name("NAME")
      ->capture_default_str();
  if (!parse_command_line(app, argc, argv)) return false;
  flags.options.special_tokens = !no_special;
  if (app.count("--max-length") > 0) flags.options.max_length = to_length(max_length);
  const std::size_t least = no_special ? 0 : flags.pair ? 3 : 2;
  require(flags.options.max_length >= least, "--max-length ", max_length, " cannot hold the ", least,
          " special tokens");
  return true;
}

void append_number(std::int32_t value, std::string& out) {
  std::array<char, 12> digits;
  out.append(digits.data(), std::to_chars(digits.begin(), digits.end(), value).ptr);
}

class LineEncoder {
 public:
  explicit LineEncoder(const Flags& flags)
      : flags_(flags), tokenizer_(read_vocabulary(io::read_file(flags.vocab), flags.vocab), flags.options) {}

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
      out += "]}";
    }
    out += '\n';
  }

 private:
  template <class Append>
  static void append_list(const std::vector<std::int32_t>& items, char separator, std::string& out, Append append) {
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out += separator;
      append(items[i]);
    }
  }

  Flags flags_;
  text::WordPiece tokenizer_;
};

void write(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size()) flush_output(errno);
}

// Encodes whole lines, each ended by LF, and writes them in order.
void answer(std::string_view lines, const LineEncoder& encode) {
  constexpr Index grain = 1 << 14;  // bytes: about a hundred microseconds of work
  const kernel::Pieces pieces(static_cast<Index>(lines.size()), grain);
  // A line belongs to the piece in which it begins.
  const auto first_line = [&](Index offset) {
    const auto at = static_cast<std::size_t>(offset);
    return at == 0 ? 0 : std::min(lines.size(), lines.find('\n', at - 1) + 1);
  };
  std::vector<std::string> answers(static_cast<std::size_t>(pieces.count));
  kernel::parallel(pieces, [&](Index piece, Index first, Index last) {
    for (std::size_t begin = first_line(first), stop = first_line(last); begin < stop;) {
      const std::size_t end = lines.find('\n', begin);
      encode(lines.substr(begin, end - begin), answers[static_cast<std::size_t>(piece)]);
      begin = end + 1;
    }
  });
  for (const std::string& text : answers) write(text);
}

void run(int argc, char** argv) {
  Flags flags;
  if (!parse(argc, argv, flags)) return;
  const LineEncoder encode(flags);
  std::vector<char> block(std::size_t{1} << 22);  // large enough to keep all threads busy
  for (std::string pending;;) {
    const ssize_t n = ::read(STDIN_FILENO, block.data(), block.size());
    if (n < 0 && errno == EINTR) continue;
    require<FileError>(n >= 0, "standard input: cannot be read: ", std::strerror(errno));
    const std::string_view bytes(block.data(), static_cast<std::size_t>(n));
    const std::size_t whole = bytes.rfind('\n') + 1;  // 0 if no line ends in it
    pending += bytes.substr(0, whole);
    if (n == 0 && !pending.empty()) pending += '\n';
    if (whole > 0 || n == 0) {
      answer(pending, encode);
      flush_output();
    }
    if (n == 0) return;
    if (whole > 0) pending.clear();
    pending += bytes.substr(whole);
  }
}

}  // namespace
}  // namespace heddle::examples

int main(int argc, char** argv) {
  return heddle::examples::run_program("tokenize", [&] { heddle::examples::run(argc, argv); });
}
