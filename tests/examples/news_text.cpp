#include "ag_news/text.hpp"

#include <algorithm>
#include <heddle/base/utf8.hpp>

#include "catch.hpp"
#include "io/files.hpp"

namespace {

using namespace heddle;
using namespace heddle::examples;
using namespace heddle::testing;

TEST_CASE("repair: a backslash becomes a blank, but is removed before a dollar sign") {
  CHECK(repair("") == "");
  CHECK(repair("plain text, 1 < 2") == "plain text, 1 < 2");
  CHECK(repair(R"(dwindling\band)") == "dwindling band");
  CHECK(repair(R"(near\nowhere\\end\)") == "near nowhere  end ");
  CHECK(repair(R"(a \$5 prize, \\$6)") == "a $5 prize,  $6");
}

TEST_CASE("repair: decodes entities after an ampersand, a blank and at the start") {
  CHECK(repair("it #39;s") == "it's");
  CHECK(repair("it&#39;s &#39;so&#39;") == "it's 'so'");
  CHECK(repair("#39;Tis quot;here quot;") == "'Tis\"here\"");
  CHECK(repair(" quot;Hello, quot; he said  quot;so quot;") == "\"Hello,\" he said \"so\"");
  CHECK(repair("AT amp;T  amp; more&amp;more") == "AT&T & more&more");
  CHECK(repair("up  #36;5  gt; 3 lt; 4") == "up $5 > 3< 4");
  CHECK(repair("a nbsp;b&nbsp;c #160;d") == "a b c d");
  CHECK(repair("more  hellip;. Google rsquo;s  mdash; so") == "more …. Google’s — so");
  CHECK(repair("a\\#39;b") == "a'b");  // the blank that the backslash becomes is removed
}

TEST_CASE("repair: leaves text that is not an entity unchanged") {
  for (const char* text : {"clk;9", "a#39;b", "x;quot;", " #39", " quot", " ;", "&;", " #;", " #x27;", " #3 9;",
                           " copy;", " QUOT;", "&"}) {
    CAPTURE(text);
    CHECK(repair(text) == text);
  }
  CHECK(repair("&amp;lt;b&amp;gt;") == "&lt;b&gt;");  // decoded once
}

TEST_CASE("repair: reads numbers as code points, and those of C1 controls as Windows-1252") {
  CHECK(repair("Ch #225;vez #8217; #0151; #038;") == "Chávez’—&");
  CHECK(repair("&#128;&#133;&#146;&#147;&#148;&#151;&#159;") == "€…’“”—Ÿ");
  CHECK(repair("&#127;&#161;") == "\x7F¡");
  CHECK(repair("&#55295;&#57344;&#1114111;") == "\uD7FF\uE000\U0010FFFF");
  for (const char* number : {"0", "000", "129", "141", "143", "144", "157", "55296", "57343", "1114112", "4294967335",
                             "99999999999999999999999"}) {
    const std::string text = std::string("a #") + number + ";b";
    CAPTURE(text);
    CHECK(repair(text) == text);
  }
}

TEST_CASE("repair: removes tags, and keeps other angle brackets") {
  CHECK(repair("&lt;A HREF=\"http://x.com/?q=A.O\"&gt;A.O&lt;/A&gt; rose") == "A.O rose");
  CHECK(repair("the &lt;b&gt;...&lt;/b&gt; end&lt;br /&gt;") == "the ... end");
  CHECK(repair("<p>one</p>\\<p>two") == "one two");
  CHECK(repair("Corp. &lt;MSFT.O&gt; said") == "Corp.  said");
  for (const char* text :
       {"a < b > c", "<7269.T>", "<>", "</>", "</ b>", "<", "</", "<a", "</a", "<a < b", "<!-- a -->"}) {
    CAPTURE(text);
    CHECK(repair(text) == text);
  }
  CHECK(repair("<a <b>c") == "<a c");
  CHECK(repair("<<b>>") == "<>");
}

TEST_CASE("clean: leaves lower-case words without digits and punctuation") {
  CHECK(clean("") == "");
  CHECK(clean(" \t\n\v\f\r ") == "");
  CHECK(clean("Oil, at $46 a barrel: it's 'up'!") == "oil at a barrel its up");
  CHECK(clean("U.S.-led 3rd-quarter  A330-200 -- 12%") == "usled rdquarter a");
  CHECK(clean("a!\"#$%&'()*+,-./0123456789:;<=>?@[\\]^_`{|}~z") == "az");
  CHECK(clean("\tOne\nTwo\r\nThree ") == "one two three");
  CHECK(clean("Chávez ÉTÉ — “Hi”…") == "chávez ÉtÉ — “hi”…");
  CHECK(clean("a\u00A0b") == "a\u00A0b");
}

TEST_CASE("clean: removes stop words as they are given, then looks up lemmas") {
  const CleanOptions options{{"the", "don't", "s", "The"}, {{"stocks", "stock"}, {"stock", "share"}, {"the", "a"}}};
  CHECK(clean("The stocks don't fall. THE stock's", options) == "stock dont fall stock");
}

TEST_CASE("read_news: joins title and description, and counts classes from 0") {
  const TemporaryFolder folder;
  const std::string file = folder / "test.csv";
  put(file, "\"3\",\"A, \"\"b\"\"\",\"c\\d #39;s \"\n4,E,\n\"1\",\"\",\"f\"\n\"2\",\"g\",\"h\"\n");
  const NewsRows all = read_news(file);
  CHECK(all.texts == std::vector<std::string>{"A, \"b\" c\\d #39;s ", "E ", " f", "g h"});
  CHECK(all.labels == std::vector<int>{2, 3, 0, 1});
  CHECK(all.sentences.empty());
  CHECK(read_news(file, 2).labels == std::vector<int>{2, 3});
  CHECK(read_news(file, 9).labels == all.labels);
  put(file, "1,a,b\r\n2,c,d");
  CHECK(read_news(file).texts == std::vector<std::string>{"a b", "c d"});
  CHECK(read_news(file).sentences.size() == 2);
}

TEST_CASE("read_news: a header is skipped and noted") {
  const TemporaryFolder folder;
  const std::string file = folder / "train.csv";
  put(file, "Class Index,Title,Description\n3,a,b\n4,c,d\n");
  const NewsRows rows = read_news(file);
  CHECK(rows.texts == std::vector<std::string>{"a b", "c d"});
  CHECK(rows.lines == std::vector<std::size_t>{2, 3});
  CHECK(rows.sentences == std::vector<std::string>{"the first line is a header"});
  CHECK(read_news(file, 1).labels == std::vector<int>{2});
  put(file, "1,Title,Description\n");
  CHECK(read_news(file).texts == std::vector<std::string>{"Title Description"});
  put(file, "Class Index,Title,Description\n");
  CHECK_THAT(error_of([&] { read_news(file); }), ContainsSubstring("train.csv: has a header, but no rows"));
  put(file, "class,headline,text\n1,a,b\n");
  CHECK_THAT(error_of([&] { read_news(file); }),
             ContainsSubstring("train.csv:1: the class is 'class' but must be 1, 2, 3 or 4"));
}

TEST_CASE("read_news: names file, line and value of what is wrong") {
  const TemporaryFolder folder;
  const std::string file = folder / "train.csv";
  const auto error = [&](const char* text, Index limit = 0) {
    put(file, text);
    return error_of([&] { read_news(file, limit); });
  };
  CHECK(error("") == file + ": has no rows");
  CHECK(error("1,a\n") == file + ":1: 2 fields; AG News has 3: class, title and description");
  CHECK(error("\n") == file + ":1: 1 field; AG News has 3: class, title and description");
  CHECK(error("1,a,b\n2,c,d,e\n") == file + ":2: 4 columns, the first row has 3");
  CHECK(error("1,a,\"b\n\"\n5,c,d\n") == file + ":3: the class is '5' but must be 1, 2, 3 or 4");
  for (const char* c : {"", "0", " 1", "12", "-1", "World"})
    CHECK(error((std::string(c) + ",a,b\n").c_str()) == file + ":1: the class is '" + c + "' but must be 1, 2, 3 or 4");
  CHECK(error("1,a,b\n0,c,d\n", 1) == "no error");
  CHECK(error("1,a,b\n2,c,\xC3\n") == file + ":2: holds bytes that are not UTF-8");
  CHECK_THAT(error_of([&] { read_news(folder / "none"); }), ContainsSubstring(folder / "none"));
}

TEST_CASE("read_stop_words: one word a line") {
  const TemporaryFolder folder;
  const std::string file = folder / "stop.txt";
  put(file, "the\n\ndon't\r\nthe\n");
  CHECK(read_stop_words(data::read_text(file)) == std::set<std::string, std::less<>>{"the", "don't"});
  put(file, "");
  CHECK(read_stop_words(data::read_text(file)).empty());
  put(file, "a\nb c\n");
  CHECK(error_of([&] { read_stop_words(data::read_text(file)); }) ==
        file + ":2: 'b c' holds whitespace; a line of stop words must be one word");
  put(file, "a\nb\xFF\n");
  CHECK(error_of([&] { read_stop_words(data::read_text(file)); }) == file + ":2: holds bytes that are not UTF-8");
}

TEST_CASE("read_lemmas: a word, a tab and a lemma a line") {
  const TemporaryFolder folder;
  const std::string file = folder / "lemmas.tsv";
  put(file, "stocks\tstock\nwent\tgo\r\nstocks\tstock\n");
  CHECK(read_lemmas(data::read_text(file)) ==
        std::map<std::string, std::string, std::less<>>{{"stocks", "stock"}, {"went", "go"}});
  put(file, "a\tb\na\tc\n");
  CHECK(error_of([&] { read_lemmas(data::read_text(file)); }) ==
        file + ":2: the word 'a' has the lemma 'c' here and 'b' before");
  for (const std::string line : {"ab", "a\tb\tc", "\tb", "a\t", "\t", ""}) {
    put(file, "x\ty\n" + line + "\n");
    CHECK_THAT(
        error_of([&] { read_lemmas(data::read_text(file)); }),
        ContainsSubstring(file + ":2: the line is '") && ContainsSubstring("' but must be a word, a tab and a lemma"));
  }
}

TEST_CASE("AG News: nothing is left to repair") {
  const std::string folder = data_folder("the text of AG News");
  if (folder.empty()) return;
  const CleanOptions options{read_stop_words(data::read_text(folder + "/stopwords/english.txt")), {}};
  CHECK(options.stop_words.size() == 179);
  struct Counts {
    std::size_t changed = 0, backslashes = 0, apostrophes = 0, words = 0;  // numbers of rows, except `words`
    std::vector<std::size_t> per_class = std::vector<std::size_t>(4);
  };
  const auto counts_of = [&](const std::string& file) {
    Counts counts;
    const NewsRows news = read_news(folder + "/ag_news/" + file);
    CHECK(news.sentences.empty());
    for (std::size_t row = 0; row < news.texts.size(); ++row) {
      CAPTURE(file, news.texts[row]);
      const std::string repaired = repair(news.texts[row]), cleaned = clean(repaired, options);
      for (const char* leftover : {"\\", "#39;", "#36;", " quot;", " amp;", "nbsp;", "&lt;", "&gt;", "</"})
        if (repaired.find(leftover) != repaired.npos) FAIL_CHECK(leftover);
      const auto is_clean = [](char c) { return c == ' ' || (c >= 'a' && c <= 'z') || (c & 0x80); };
      if (cleaned.empty() || !std::all_of(cleaned.begin(), cleaned.end(), is_clean)) FAIL_CHECK(cleaned);
      if (!text::is_utf8(repaired)) FAIL_CHECK(repaired);
      ++counts.per_class[static_cast<std::size_t>(news.labels[row])];
      counts.backslashes += news.texts[row].find('\\') != std::string::npos;
      counts.apostrophes += news.texts[row].find(" #39;") != std::string::npos;
      counts.changed += repaired != news.texts[row];
      counts.words += 1 + static_cast<std::size_t>(std::count(cleaned.begin(), cleaned.end(), ' '));
    }
    return counts;
  };
  const Counts train = counts_of("train_subset.csv"), test = counts_of("test.csv");
  CHECK(train.per_class == std::vector<std::size_t>{2908, 2770, 2854, 3104});
  CHECK(test.per_class == std::vector<std::size_t>(4, 1900));
  CHECK(train.backslashes == 1382);
  CHECK(test.backslashes == 808);
  CHECK(train.apostrophes == 2465);
  CHECK(test.apostrophes == 1900);
  // The numbers are from a separate implementation in Python.
  CHECK(train.changed == 4326);
  CHECK(test.changed == 3024);
  CHECK(train.words == 292'262);
  CHECK(test.words == 187'163);
}

}  // namespace
