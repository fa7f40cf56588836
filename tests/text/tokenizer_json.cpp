// A tokenizer.json whose members heddle does not know is refused by the member's name.
#include <heddle/text/folder_tokenizer.hpp>

#include <random>

#include "catch.hpp"
#include "io/files.hpp"

using namespace heddle;
using namespace heddle::testing;
using Json = nlohmann::json;

namespace {

const char* const small_bpe = R"({
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "<unk>": 3}, "merges": ["a b"]},
  "normalizer": {"type": "Lowercase"},
  "pre_tokenizer": {"type": "WhitespaceSplit"},
  "post_processor": {"type": "TemplateProcessing",
                     "single": [{"Sequence": {"id": "A", "type_id": 0}}],
                     "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                     "special_tokens": {}},
  "decoder": {"type": "Fuse"},
  "added_tokens": [{"id": 3, "content": "<unk>", "special": true}]})";

// Reads the file after a merge patch. Returns the error without the name of the file.
std::string error_with(const char* patch) {
  Json json = Json::parse(small_bpe);
  json.merge_patch(Json::parse(patch));
  try {
    text::TokenizerPipeline(text::parse_tokenizer(json.dump(), "t.json"));
  } catch (const FileError& error) {
    const std::string what = error.what();
    REQUIRE(what.starts_with("t.json: "));
    return what.substr(8);
  }
  return "no error";
}

}  // namespace

TEST_CASE("text::parse_tokenizer: unknown types are named") {
  CHECK(error_with("{}") == "no error");
  CHECK(error_with(R"({"model": {"type": "Other"}})") ==
        "'type' of 'model' is 'Other'; heddle reads WordPiece, BPE, Unigram and WordLevel");
  CHECK(error_with(R"({"normalizer": {"type": "Nmt"}})")
            .starts_with("'type' of 'normalizer' is 'Nmt'; heddle reads BertNormalizer, NFC,"));
  CHECK(error_with(R"({"normalizer": {"type": "Sequence", "normalizers": [{"type": "Nmt"}]}})")
            .starts_with("'type' of 'normalizer' is 'Nmt'"));
  CHECK(error_with(R"({"pre_tokenizer": {"type": "UnicodeScripts"}})")
            .starts_with("'type' of 'pre_tokenizer' is 'UnicodeScripts'; heddle reads BertPreTokenizer, ByteLevel,"));
  CHECK(error_with(R"({"post_processor": {"type": "Other"}})")
            .starts_with("'type' of 'post_processor' is 'Other'; heddle reads BertProcessing,"));
  CHECK(error_with(R"({"decoder": {"type": "CTC"}})").starts_with("'type' of 'decoder' is 'CTC'; heddle reads"));
  CHECK(error_with(R"({"truncation": {"direction": "Up"}})") == "'direction' is 'Up'; heddle reads Left or Right");
}

TEST_CASE("text::parse_tokenizer: wrong members are named") {
  CHECK(error_with(R"({"model": null})") == "has no 'model'");
  CHECK(error_with(R"({"model": {"vocab": null}})") == "has no 'vocab'");
  CHECK(error_with(R"({"model": {"vocab": {"c": 2.5}}})") ==
        "the id of token 'c' is 2.5 but must be a whole number from 0 to 16777215");
  CHECK(error_with(R"({"model": {"vocab": {"c": 99999999}}})") ==
        "the id of token 'c' is 99999999 but must be a whole number from 0 to 16777215");
  CHECK(error_with(R"({"model": {"merges": ["a"]}})") == "merge 1 is \"a\" but must be two tokens");
  CHECK(error_with(R"({"model": {"merges": [["a", "b"], ["a", 5]]}})") ==
        "merge 2 is [\"a\",5] but must be two tokens");
  CHECK(error_with(R"({"model": {"merges": ["b a"]}})") ==
        "BytePairEncoding: merge 1 of 'b' and 'a' needs the token 'ba', which is not in the vocabulary");
  CHECK(error_with(R"({"model": {"unk_token": "[UNK]"}})") ==
        "BytePairEncoding: the unknown token '[UNK]' is not in the vocabulary");
  CHECK(error_with(R"({"model": {"dropout": 0.1}})") == "'dropout' is '0.1'; heddle reads BPE without dropout");
  CHECK(error_with(R"({"model": {"type": "Unigram", "vocab": [["a"]]}})") ==
        "token 0 of 'vocab' is [\"a\"] but must be a text and its score");
  CHECK(error_with(R"({"model": {"type": "Unigram", "vocab": [["a", -1]], "unk_id": 1}})") ==
        "Unigram: the unknown token has the id 1; the vocabulary has 1 tokens");
  CHECK(error_with(R"({"model": {"type": "WordPiece"}})") ==
        "WordPieceModel: the unknown token '[UNK]' is not in the vocabulary");
  CHECK(error_with(R"({"model": {"type": "WordPiece", "unk_token": "<unk>"},
                       "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": true}})") ==
        "'pre_tokenizer' is ByteLevel, which heddle reads for BPE only, not for WordPiece");
  CHECK(error_with(R"({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [
                        {"type": "ByteLevel", "add_prefix_space": true}, {"type": "WhitespaceSplit"}]}})") ==
        "'pre_tokenizer' has steps after ByteLevel; heddle reads it as the last one");
  CHECK(error_with(R"({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a|b)*"}, "behavior": "Removed"}})") ==
        "SplitPattern: the regular expression '(a|b)*' is not one of those that heddle knows");
  CHECK(error_with(R"({"pre_tokenizer": {"type": "Split", "pattern": {"String": ""}, "behavior": "Removed"}})") ==
        "SplitPattern: the text to find is empty");
  CHECK(error_with(R"({"pre_tokenizer": {"type": "Split", "pattern": {"String": "a"}, "behavior": "Kept"}})") ==
        "'behavior' is 'Kept'; heddle reads Removed, Isolated, Contiguous, MergedWithPrevious and MergedWithNext");
  CHECK(error_with(R"({"pre_tokenizer": {"type": "Metaspace", "replacement": "ab"}})") ==
        "'replacement' is 'ab' but must be one character");
  CHECK(error_with(R"({"pre_tokenizer": {"type": "Metaspace", "replacement": "_", "add_prefix_space": false}})") ==
        "'add_prefix_space' is false, but 'prepend_scheme' is always");
  CHECK(error_with(R"({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "a"}})") ==
        "'precompiled_charsmap' is not base64");
  CHECK(error_with(R"({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}})") ==
        "PrecompiledMap: has 3 bytes; its trie's size takes 4");
  CHECK(error_with(R"({"post_processor": {"single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}]}})") ==
        "'single' has the special token '[CLS]', which 'special_tokens' does not have");
  CHECK(error_with(R"({"post_processor": {"single": [{"Sequence": {"id": "B", "type_id": 0}}]}})") ==
        "'single' has the sequence B, which a single text has not");
  CHECK(error_with(R"({"added_tokens": [{"id": 3}]})") == "has no 'content'");
  CHECK(error_with(R"({"added_tokens": [{"content": "x"}]})") == "has no 'id'");
}

TEST_CASE("text::Tokenizer: lengths that do not hold the special tokens are refused") {
  Json json = Json::parse(small_bpe);
  json["post_processor"] = {{"type", "BertProcessing"}, {"cls", {"a", 0}}, {"sep", {"b", 1}}};
  const auto parts = [&] { return text::parse_tokenizer(json.dump(), "t.json"); };
  CHECK_THROWS_WITH(text::TokenizerPipeline(parts(), {.max_length = 1}),
                    "Tokenizer: max_length 1 cannot hold the 2 special tokens");
  const text::TokenizerPipeline two(parts(), {.max_length = 2});
  CHECK(two.encode("ab").ids == std::vector<std::int32_t>{0, 1});
  CHECK_THROWS_WITH(two.encode_pair("a", "b"), "Tokenizer: max_length 2 cannot hold the 3 special tokens");
  CHECK_THROWS_WITH(two.token(4), "Tokenizer: id 4 is outside 0 to 3");
  CHECK_THROWS_WITH(two.decode(std::vector<std::int32_t>{-1}), "Tokenizer: id -1 is outside 0 to 3");
}

TEST_CASE("text::read_folder_tokenizer: the mask token, the side of truncation and token types are the folder's") {
  const TemporaryFolder folder;
  Json json = Json::parse(small_bpe);
  const auto read = [&](const char* settings) {
    put(folder / "tokenizer.json", json.dump());
    put(folder / "tokenizer_config.json", settings);
    return text::read_folder_tokenizer(folder.path());
  };
  CHECK(read("{}").mask_token.empty());
  CHECK(!read("{}").has_types);
  CHECK(read("{}").ids() == 4);
  CHECK(read(R"({"model_input_names": ["input_ids", "token_type_ids"], "model_max_length": 7})").has_types);
  CHECK(read(R"({"model_max_length": 7})").max_length == 7);
  CHECK(read(R"({"mask_token": {"content": "ab"}})").mask_token == "ab");
  put(folder / "special_tokens_map.json", R"({"mask_token": "b"})");
  CHECK(read("{}").mask_token == "b");
  std::filesystem::remove(folder / "special_tokens_map.json");
  json["added_tokens"].push_back({{"id", 4}, {"content", "<mask>"}, {"special", true}});
  CHECK(read("{}").mask_token == "<mask>");
  CHECK(read("{}").ids() == 5);
  CHECK(read(R"({"truncation_side": "left"})").tokenizer({.max_length = 1}).encode("ab b").ids == std::vector{1});
  CHECK(read("{}").tokenizer({.max_length = 1}).encode("ab b").ids == std::vector{2});
  CHECK(error_of([&] { read(R"({"truncation_side": "up"})"); }) ==
        folder / "tokenizer_config.json: 'truncation_side' is 'up' but must be left or right");
}

TEST_CASE("text::TokenizerPipeline: repeated tokens, hidden tokens and ids out of range") {
  Json json = Json::parse(small_bpe);
  json["model"] =
      Json::parse(R"({"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["a", -1], ["b", -1.5], ["a", -2]]})");
  json["added_tokens"] = Json::parse(R"([{"id": 9, "content": "<m>", "special": true, "normalized": false}])");
  json["decoder"] = nullptr;
  const text::TokenizerPipeline twice(text::parse_tokenizer(json.dump(), "t.json"));
  CHECK(twice.encode("a<m>b").ids == std::vector<std::int32_t>{3, 4, 2});
  CHECK(twice.decode(std::vector<std::int32_t>{1, 2}) == "a b");

  json["model"] = {{"type", "WordLevel"}, {"unk_token", "<unk>"}, {"vocab", {{"covid", 0}, {"<unk>", 1}}}};
  json["added_tokens"] = Json::parse(R"([{"id": 2, "content": "Covid", "normalized": true}])");
  const text::TokenizerPipeline hidden(text::parse_tokenizer(json.dump(), "t.json"));
  CHECK(hidden.find("covid") == 0);
  CHECK(hidden.find("Covid") == 2);
  CHECK(hidden.encode("COVID").ids == std::vector<std::int32_t>{2});
  CHECK(hidden.decode(std::vector<std::int32_t>{0, 2}) == "covid covid");

  const text::Tokenizer tokenizer(hidden);
  CHECK_THROWS_WITH(tokenizer.with({text::AddedToken{.content = "x", .id = -1}}),
                    "Tokenizer: the token 'x' has the id -1 but must have one from 0 to 16777215");
}

TEST_CASE("text::TokenizerPipeline: offsets at the end of an edited text") {
  Json json = Json::parse(small_bpe);
  json["pre_tokenizer"] = nullptr;
  json["normalizer"] = {{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", "b"}};
  const text::TokenizerPipeline replaced(text::parse_tokenizer(json.dump(), "t.json"), {.offsets = true});
  const text::Encoding e = replaced.encode("a   ");
  CHECK(e.ids == std::vector<std::int32_t>{2});
  CHECK(e.offsets == std::vector<text::TextRange>{{0, 4}});
  json["normalizer"] = {{"type", "Prepend"}, {"prepend", "a"}};
  const text::TokenizerPipeline prepended(text::parse_tokenizer(json.dump(), "t.json"), {.offsets = true});
  CHECK(prepended.encode("b").offsets == std::vector<text::TextRange>{{0, 1}});
  CHECK(prepended.encode("").ids.empty());
}

TEST_CASE("text::BytePairEncoding: a text that is cut at its blanks has the tokens of the whole text") {
  using Tokens = std::vector<std::tuple<std::int32_t, std::size_t, std::size_t>>;
  const std::string blank = "\xE2\x96\x81";
  std::vector<std::pair<std::string, std::int32_t>> tokens;
  const auto add = [&](const std::string& token) {
    tokens.emplace_back(token, static_cast<std::int32_t>(tokens.size()));
  };
  std::vector<text::BytePairEncoding::Merge> merges{{blank, blank}, {"a", "b"}, {blank, "a"}, {blank + blank, "a"},
                                                    {blank, "ab"},  {"b", "a"}, {"ab", "ab"}, {"b", "c"}};
  for (const std::string& letter :
       {std::string("<unk>"), blank, std::string("a"), std::string("b"), std::string("c"), std::string("z")})
    add(letter);
  for (const auto& [left, right] : merges) add(left + right);
  add("z" + blank);
  // A rule that no text below meets keeps the second encoding from cutting.
  std::vector<text::BytePairEncoding::Merge> more = merges;
  more.emplace_back("z", blank);
  for (const bool fuses : {false, true}) {
    const text::BpeOptions options{.unknown = "<unk>", .fuses_unknown = fuses};
    const text::BytePairEncoding cut(tokens, merges, options), whole(tokens, more, options);
    std::mt19937 random(1);
    for (int n = 0; n < 2000; ++n) {
      std::string word;
      for (auto left = random() % 60; left > 0; --left) {
        const auto letter = random() % 8;
        word += letter < 3 ? blank : letter == 7 ? "?" : std::string(1, static_cast<char>('a' + letter % 3));
      }
      const auto encoded = [&](const text::BytePairEncoding& model) {
        Tokens found;
        model(word, [&](std::int32_t id, std::size_t begin, std::size_t end) { found.emplace_back(id, begin, end); });
        return found;
      };
      INFO(word);
      REQUIRE(encoded(cut) == encoded(whole));
    }
  }
}

TEST_CASE("text::read_folder_tokenizer: older files are read for the classes that they belong to") {
  const TemporaryFolder folder;
  for (const char* file : {"vocab.json", "merges.txt"})
    put(folder / file, io::read_file(HEDDLE_GOLDEN_DIR "/tokenizers/roberta_folder/" + std::string(file)));
  const auto with = [&](const char* settings) {
    put(folder / "tokenizer_config.json", settings);
    return error_of([&] { text::read_folder_tokenizer(folder.path()); });
  };
  CHECK(with("{}") == "no error");
  CHECK(with(R"({"tokenizer_class": "GPT2Tokenizer"})") ==
        folder /
            "tokenizer_config.json: 'tokenizer_class' is 'GPT2Tokenizer'; without a tokenizer.json, heddle does not "
            "read its vocabulary");
  put(folder / "config.json", R"({"model_type": "bert"})");
  CHECK(with("{}").starts_with(folder / "config.json: 'model_type' is 'bert'; without"));
  std::filesystem::remove(folder / "config.json");

  const auto ids = [&](const char* settings, const std::string& text) {
    put(folder / "tokenizer_config.json", settings);
    return text::read_folder_tokenizer(folder.path()).tokenizer().encode(text).ids;
  };
  const auto plain = ids("{}", "a <mask>");
  for (const char* settings : {R"({"mask_token": {"content": "<mask>", "lstrip": true}})",
                               R"({"added_tokens_decoder": {"904": {"content": "<mask>", "lstrip": true}}})"}) {
    const auto stripped = ids(settings, "a <mask>");
    CHECK(stripped.size() + 1 == plain.size());
    CHECK(stripped == ids(settings, "a<mask>"));
  }
  put(folder / "added_tokens.json", R"({"<new>": 905})");
  CHECK(ids("{}", "<new>") == std::vector<std::int32_t>{0, 905, 2});
  put(folder / "added_tokens.json", R"({"<new>": 907})");
  CHECK(with("{}") == folder / "added_tokens.json: the added token '<new>' has the id 907; its place is 905");
}

TEST_CASE("text::read_folder_tokenizer: models of SentencePiece are read for the classes that they belong to") {
  const TemporaryFolder folder;
  const auto take = [&](const std::string& from, const std::string& file) {
    put(folder / file, io::read_file(HEDDLE_GOLDEN_DIR "/tokenizers/" + from + '/' + file));
  };
  const auto with = [&](const std::string& settings) {
    put(folder / "tokenizer_config.json", settings);
    return error_of([&] { text::read_folder_tokenizer(folder.path()); });
  };
  const auto first_ids = [&](const std::string& settings) {
    put(folder / "tokenizer_config.json", settings);
    std::vector<std::string> tokens;
    const text::Tokenizer tokenizer = text::read_folder_tokenizer(folder.path()).tokenizer();
    for (std::int32_t id = 0; id < 3; ++id) tokens.emplace_back(tokenizer.token(id));
    return tokens;
  };
  // XLM-R and CamemBERT have the same file.
  take("camembert_folder", "sentencepiece.bpe.model");
  const std::vector<std::string> of_xlm_roberta{"<s>", "<pad>", "</s>"},
      of_camembert{"<s>NOTUSED", "<pad>", "</s>NOTUSED"};
  CHECK(first_ids("{}") == of_xlm_roberta);
  CHECK(first_ids(R"({"tokenizer_class": "XLMRobertaTokenizerFast"})") == of_xlm_roberta);
  CHECK(first_ids(R"({"tokenizer_class": "CamembertTokenizer"})") == of_camembert);
  put(folder / "config.json", R"({"model_type": "camembert"})");
  CHECK(first_ids("{}") == of_camembert);
  CHECK(with(R"({"tokenizer_class": "DebertaV2Tokenizer"})").find("'DebertaV2Tokenizer'; without a tokenizer.json") !=
        std::string::npos);
  std::filesystem::remove(folder / "sentencepiece.bpe.model");

  take("deberta_folder", "spm.model");
  CHECK(with("{}").find("'model_type' is 'camembert'; without a tokenizer.json") != std::string::npos);
  put(folder / "config.json", R"({"model_type": "deberta-v2"})");
  CHECK(first_ids("{}") == std::vector<std::string>{"[PAD]", "[CLS]", "[SEP]"});
  const text::FolderTokenizer deberta = text::read_folder_tokenizer(folder.path());
  CHECK(deberta.mask_token == "[MASK]");
  CHECK(deberta.files.contains("spm.model"));
  CHECK(with(R"({"mask_token": {"content": "[M]"}, "tokenizer_class": "T5Tokenizer"})").find("'T5Tokenizer'") !=
        std::string::npos);
  const auto ids = [&](const std::string& settings, const std::string& text) {
    put(folder / "tokenizer_config.json", settings);
    return text::read_folder_tokenizer(folder.path()).tokenizer().encode(text).ids;
  };
  CHECK(ids(R"({"mask_token": "[M]"})", "a [M]") == ids("{}", "a [MASK]"));

  std::string pieces;
  for (int i = 0; i < 4; ++i) pieces += std::string("\x0A\x03\x0A\x01") + static_cast<char>('a' + i);
  put(folder / "spm.model", pieces);
  CHECK(with("{}") == folder / "spm.model: has no piece for unknown text");
  put(folder / "spm.model", pieces.substr(0, 15));
  CHECK(with("{}") == folder / "spm.model: must be a Unigram model of more than three pieces");
  const std::string unknown = std::string("\x0A\x05\x0A\x01") + "u\x18\x02";
  put(folder / "spm.model", unknown + pieces + "\x1A\x07\x12\x05\xFF\xFF\xFF\xFF" + "1");
  CHECK(with("{}") ==
        folder / "spm.model: PrecompiledMap: its trie has 4294967295 bytes; they must be a multiple of 4 from 4 to 1");
}

TEST_CASE("text::SplitPattern: sequences and alternatives of characters") {
  const auto found = [](const char* expression, const std::string& text) {
    const text::SplitPattern pattern = text::SplitPattern::regex(expression);
    std::string all;
    for (auto match = pattern.find(text, 0); match; match = pattern.find(text, match->end))
      all += '[' + text.substr(match->begin, match->end - match->begin) + ']';
    return all;
  };
  CHECK(found(" {2,}", "a  b c   ") == "[  ][   ]");
  CHECK(found("a?b", "ab b aab") == "[ab][b][ab]");
  CHECK(found("ab?|c+", "aab cc") == "[a][ab][cc]");
  CHECK(found("[a-c]{2}", "abcabd") == "[ab][ca]");
  CHECK(found("[^a\\s]+", "ba  \tcd") == "[b][cd]");
  CHECK(found("\\p{N}{1,3}", "12345") == "[123][45]");
  for (const char* unknown :
       {"", "a**", "(a)", "a*", "[", "[]", "a+b", "\\q", "[b-a]", "a{0}", "a{2,1}", "\\p{Xx}", "^a", "a??b?c?d?e?f?g"})
    CHECK_THROWS_AS(text::SplitPattern::regex(unknown), Error);
}

TEST_CASE("text::SentencePieceModel: bytes of another form are refused") {
  CHECK_THROWS_WITH(text::SentencePieceModel::parse("", "m"), "m: has no pieces");
  CHECK_THROWS_WITH(text::SentencePieceModel::parse("\x0A\x05"
                                                    "ab",
                                                    "m"),
                    "m: is not a model of SentencePiece");
  CHECK_THROWS_WITH(text::SentencePieceModel::parse("\x0F", "m"), "m: is not a model of SentencePiece");
  CHECK_THROWS_WITH(text::SentencePieceModel::parse("\x0A\x03\x0A\x01\xFF", "m"), "m: piece 0 is not valid UTF-8");
  const auto model = text::SentencePieceModel::parse("\x0A\x03\x0A\x01x", "m");
  REQUIRE(model.pieces.size() == 1);
  CHECK(model.pieces[0].text == "x");
}

TEST_CASE("text::from_base64: padding and other characters") {
  CHECK(text::from_base64("") == "");
  CHECK(text::from_base64("YQ==") == "a");
  CHECK(text::from_base64("YWI=") == "ab");
  CHECK(text::from_base64("YWJj") == "abc");
  for (const char* wrong : {"YQ=", "Y===", "YQ==YQ==", "Y*==", "===="}) CHECK(!text::from_base64(wrong));
}
