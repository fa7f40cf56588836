// identify: the tokenizer that made the ids of a token file, if it is not that of a BERT.
#pragma once
#include <string>

#include <heddle/io/crc64.hpp>
#include <heddle/text/tokenizer.hpp>

#include "text.hpp"

namespace heddle::examples {

// Identifies a tokenizer by its tokens and by the ids of sample texts: these depend on how it normalizes and cuts text,
// and on its special and added tokens.
inline TokenizerId identify(const text::Tokenizer& tokenizer) {
  if (const text::WordPiece* bert = tokenizer.word_piece()) return identify(*bert);
  constexpr const char* samples[] = {
      "",
      " ",
      " a  b ",
      "The quick brown fox jumps over the lazy dog.",
      "\u00e9t\u00e9 in \u00c5ngstr\u00f6m: cafe\u0301, na\u00efve, STRASSE, \u0130stanbul",
      "international understanding unbelievable tokenization 1234567890 3.14 10,000 a1b2c3 x_y-z",
      "don't can't we'll I'm (\"quoted\") [ab] {cd} <ef> a/b\\c @user #tag $5 100% e.g. ... !? \u201ca\u201d",
      "\ttabs\tand\nlines\r\n\u00a0\u3000blanks\u200bof\u2028kinds",
      "\u6771\u4eac\u306f \uff76\uff9e \uff21\uff22 \u0928\u092e\u0938\u094d",
      "\u043f\u0440\u0438\u0432\u0435\u0442 \u0633\u0644\u0627\u0645",
      "\U0001f600\U0001f44d\U0001f3fd \ufb01 \u00bd \u2122 \x01\x7f \xff"};
  text::TokenizerOptions whole = tokenizer.options();
  whole.max_length = text::TokenizerOptions().max_length;
  whole.offsets = false;
  const text::Tokenizer unlimited = tokenizer.with(whole);
  io::Crc64 crc;
  const auto add_ids = [&](const std::string& text) {
    for (const std::int32_t id : unlimited.encode(text).ids) crc.add(std::to_string(id) + ' ');
    crc.add("\n");
  };
  for (std::int32_t id = 0; id < tokenizer.size(); ++id) {
    crc.add(tokenizer.token(id));
    crc.add("\n");
  }
  for (const char* text : samples) add_ids(text);
  for (const text::AddedToken& token : tokenizer.added_tokens())
    add_ids("a " + token.content + " b" + token.content + "c");
  return {crc.value(), "--tokenizer and the folder of this model"};
}

}  // namespace heddle::examples
