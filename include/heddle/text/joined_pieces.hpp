// JoinedPieces: the text of WordPiece tokens, joined as the WordPiece decoder of the Rust tokenizers library does.
#pragma once
#include <string>
#include <string_view>
#include <utility>

namespace heddle::text::detail {

// Replaces each occurrence of `from` from left to right.
inline void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// Removes the blanks that stand before tokens of punctuation and contractions. The rules and their order are the
// library's.
inline void clean_up(std::string& token) {
  static constexpr std::pair<std::string_view, std::string_view> rules[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : rules) replace_all(token, from, to);
}

// Removes the prefix of a token that continues a word, or puts a blank before any other token.
inline void separate_piece(std::string& token, std::string_view prefix) {
  if (token.starts_with(prefix))
    token.erase(0, prefix.size());
  else
    token.insert(0, 1, ' ');
}

class JoinedPieces {
 public:
  void append(std::string_view token) {
    token_ = token;
    if (!is_first_) separate_piece(token_, "##");
    is_first_ = false;
    clean_up(token_);
    text_ += token_;
  }
  std::string text() && { return std::move(text_); }

 private:
  std::string text_, token_;
  bool is_first_ = true;
};

}  // namespace heddle::text::detail
