// The normal forms of Unicode and lower case, as the normalizers NFC, NFD, NFKC, NFKD and Lowercase of the Rust
// tokenizers library make them. Each character of a result says how many characters it replaces.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <heddle/base/utf8.hpp>
#include <heddle/text/normal_form_tables.hpp>
#include <heddle/text/properties.hpp>

namespace heddle::text {

/// A normal form of Unicode: composed or decomposed, canonical or (k) with compatibility decompositions.
enum class NormalForm : std::uint8_t { nfc, nfd, nfkc, nfkd };

namespace detail {

inline bool composes(NormalForm form) { return form == NormalForm::nfc || form == NormalForm::nfkc; }
inline bool is_compatibility(NormalForm form) { return form == NormalForm::nfkc || form == NormalForm::nfkd; }

// The properties of a code point in normal forms. Hangul syllables have no decomposition here.
class NormalCharacter {
 public:
  explicit NormalCharacter(std::uint32_t bits) : bits_(bits) {}

  // The canonical combining class; 0 for a code point that decomposes, because it is never asked for.
  std::uint8_t combining_class() const { return static_cast<std::uint8_t>(bits_ & 0xFF); }
  // Whether a text that holds the code point may change. Without such a code point, only the order of marks may.
  bool may_change(NormalForm form) const { return bits_ >> (change_shift + static_cast<int>(form)) & 1; }
  // Whether the code point may be the second one of a composition.
  bool is_second() const { return bits_ & second_bit; }
  // The index of the decomposition; 0 for none.
  std::size_t decomposition() const { return bits_ >> decomposition_shift; }

 private:
  friend class NormalForms;
  static constexpr int change_shift = 8, decomposition_shift = 13;
  static constexpr std::uint32_t second_bit = 1u << 12;

  std::uint32_t bits_;
};

// The tables of normal forms.
class NormalForms {
 public:
  static const NormalForms& get() {
    static const NormalForms made;
    return made;
  }

  NormalCharacter operator[](char32_t c) const { return NormalCharacter(table_[c]); }

  // Returns the full decomposition of a character, which must have one.
  std::u32string_view decomposition(NormalCharacter c, bool is_compatibility) const {
    const Decomposition& found = decompositions_[c.decomposition()];
    const Part part = is_compatibility ? found.compatibility : found.canonical;
    return std::u32string_view(targets_).substr(part.begin, part.size);
  }

  // Returns what two code points compose to, or 0.
  char32_t compose(char32_t first, char32_t second) const {
    if (first >= Hangul::leads && first < Hangul::leads + Hangul::lead_count && second >= Hangul::vowels &&
        second < Hangul::vowels + Hangul::vowel_count)
      return Hangul::syllables +
             ((first - Hangul::leads) * Hangul::vowel_count + (second - Hangul::vowels)) * Hangul::trail_count;
    if (Hangul::is_syllable(first) && !Hangul::has_trail(first) && second > Hangul::trails &&
        second < Hangul::trails + Hangul::trail_count)
      return first + (second - Hangul::trails);
    const auto found = compositions_.find(key(first, second));
    return found == compositions_.end() ? 0 : found->second;
  }

 private:
  struct Part {
    std::uint16_t begin = 0, size = 0;
  };
  struct Decomposition {
    Part canonical, compatibility;
  };

  NormalForms() : decompositions_(1), table_(fill()) {}

  static std::uint64_t key(char32_t first, char32_t second) { return std::uint64_t{first} << 32 | second; }

  using Map = std::unordered_map<char32_t, std::u32string>;

  // The full decompositions of all code points that have one. Those of compatibility include the canonical ones.
  struct Sources {
    Map canonical, compatibility;
  };

  static Sources read_tables() {
    Sources sources;
    const auto add_runs = [](const auto& runs, Map& map) {
      for (const unicode::Run& run : runs)
        for (char32_t i = 0; i < run.count; ++i)
          map[run.first + i * run.step] = std::u32string(1, run.target + i * run.target_step);
    };
    const auto add_list = [&](const auto& list, char32_t first) {
      for (char32_t i = 0; i < std::size(list); ++i)
        if (list[i] != first + i) sources.canonical[first + i] = std::u32string(1, list[i]);
    };
    add_runs(unicode::canonical_singles, sources.canonical);
    add_list(unicode::ideographs_f900, 0xF900);
    add_list(unicode::ideographs_2f800, 0x2F800);
    for (const auto& [source, targets] : unicode::canonical_sequences) sources.canonical[source] = targets;
    for (const auto& row : unicode::compositions) sources.canonical[row.composed] = {row.first, row.second};
    for (bool is_full = false; !is_full;) {
      is_full = true;
      for (const auto& row : unicode::compositions) {
        std::u32string& targets = sources.canonical[row.composed];
        is_full = !expand(targets, sources.canonical) && is_full;
      }
    }
    add_runs(unicode::compatibility_singles, sources.compatibility);
    for (const auto& [source, targets] : unicode::compatibility_sequences) sources.compatibility[source] = targets;
    Map inherited;
    for (const auto& [source, targets] : sources.canonical) expand(inherited[source] = targets, sources.compatibility);
    sources.compatibility.merge(inherited);
    return sources;
  }

  // Replaces each code point by its decomposition. Returns whether there was one.
  static bool expand(std::u32string& text, const Map& map) {
    std::u32string out;
    for (const char32_t c : text) {
      const auto found = map.find(c);
      out += found == map.end() ? std::u32string(1, c) : found->second;
    }
    text.swap(out);
    return text != out;
  }

  Part add(std::u32string_view targets) {
    const Part part{static_cast<std::uint16_t>(targets_.size()), static_cast<std::uint16_t>(targets.size())};
    targets_ += targets;
    return part;
  }

  std::vector<std::uint32_t> fill() {
    using enum NormalForm;
    std::vector<std::uint32_t> values(0x110000);
    const auto changes = [&](char32_t c, std::initializer_list<NormalForm> forms) {
      for (const NormalForm form : forms) values[c] |= 1u << (NormalCharacter::change_shift + static_cast<int>(form));
    };
    const auto is_second = [&](char32_t c) {
      values[c] |= NormalCharacter::second_bit;
      changes(c, {nfc, nfkc});
    };
    for (const auto& [first, last, combining_class] : unicode::combining_classes)
      for (char32_t c = first; c <= last; ++c) values[c] |= combining_class;
    for (const auto& row : unicode::compositions) {
      compositions_.emplace(key(row.first, row.second), row.composed);
      is_second(row.second);
    }
    for (char32_t i = 0; i < Hangul::vowel_count; ++i) is_second(Hangul::vowels + i);
    for (char32_t i = 1; i < Hangul::trail_count; ++i) is_second(Hangul::trails + i);
    for (char32_t i = 0; i < Hangul::syllable_count; ++i) changes(Hangul::syllables + i, {nfd, nfkd});
    const Sources sources = read_tables();
    for (const auto& [c, targets] : sources.compatibility) {
      const auto found = sources.canonical.find(c);
      const std::u32string canonical = found == sources.canonical.end() ? std::u32string(1, c) : found->second;
      const Part part = add(targets);
      values[c] |= static_cast<std::uint32_t>(decompositions_.size()) << NormalCharacter::decomposition_shift;
      decompositions_.push_back({canonical == targets ? part : add(canonical), part});
      changes(c, {nfkc, nfkd});
      if (found != sources.canonical.end()) changes(c, {nfc, nfd});
    }
    // A composed character stays in the composed forms.
    for (const auto& row : unicode::compositions) {
      const auto flag = [](NormalForm form) { return 1u << (NormalCharacter::change_shift + static_cast<int>(form)); };
      values[row.composed] &= ~flag(nfc);
      if (sources.canonical.at(row.composed) == sources.compatibility.at(row.composed))
        values[row.composed] &= ~flag(nfkc);
    }
    return values;
  }

  std::u32string targets_;
  std::vector<Decomposition> decompositions_;  // the first is none
  std::unordered_map<std::uint64_t, char32_t> compositions_;
  CodePointTable<std::uint32_t> table_;
};

// A character of a result and its change (see normalize()).
struct ChangedCharacter {
  char32_t code_point;
  int change;
};

// Composes a text that is decomposed and in canonical order. A composed character has the sum of both changes less 1.
template <class Sink>
class Composer {
 public:
  Composer(const NormalForms& forms, Sink& sink) : forms_(forms), sink_(sink) {}

  void take(ChangedCharacter next, NormalCharacter properties) {
    const std::uint8_t combining_class = properties.combining_class();
    if (has_starter_ && properties.is_second() && (marks_.empty() || last_class_ < combining_class)) {
      if (const char32_t composed = forms_.compose(starter_.code_point, next.code_point)) {
        starter_ = {composed, starter_.change + next.change - 1};
        return;
      }
    }
    if (combining_class == 0) {
      finish();
      starter_ = next;
      has_starter_ = true;
    } else if (has_starter_) {
      marks_.push_back(next);
      last_class_ = combining_class;
    } else {
      sink_(next.code_point, next.change);
    }
  }
  // Emits the last starter and the marks that follow it.
  void finish() {
    if (!has_starter_) return;
    sink_(starter_.code_point, starter_.change);
    for (const auto& [code_point, change] : marks_) sink_(code_point, change);
    marks_.clear();
    has_starter_ = false;
  }

 private:
  const NormalForms& forms_;
  Sink& sink_;
  ChangedCharacter starter_{};
  bool has_starter_ = false;
  std::vector<ChangedCharacter> marks_;  // those behind the starter that do not compose with it
  std::uint8_t last_class_ = 0;          // the combining class of the last of them
};

// Decomposes a text. Calls take(ChangedCharacter, NormalCharacter) for each character, in canonical order.
template <class Take>
void decompose(const NormalForms& forms, bool is_compatibility, std::string_view text, Take&& take) {
  struct Mark {
    ChangedCharacter character;
    NormalCharacter properties;
  };
  std::vector<Mark> marks;
  const auto end_run = [&] {
    std::stable_sort(marks.begin(), marks.end(), [](const Mark& a, const Mark& b) {
      return a.properties.combining_class() < b.properties.combining_class();
    });
    for (const Mark& mark : marks) take(mark.character, mark.properties);
    marks.clear();
  };
  const auto add = [&](char32_t c, int change, NormalCharacter properties) {
    if (properties.combining_class() > 0) {
      marks.push_back({{c, change}, properties});
    } else {
      if (!marks.empty()) end_run();
      take(ChangedCharacter{c, change}, properties);
    }
  };
  const auto add_jamo = [&](char32_t c, int change) { add(c, change, forms[c]); };
  for (const char *at = text.data(), *const end = at + text.size(); at != end;) {
    const char32_t c = decode_utf8(at, end);
    const NormalCharacter properties = forms[c];
    if (!properties.may_change(NormalForm::nfkd)) {
      add(c, 0, properties);
    } else if (Hangul::is_syllable(c)) {
      const char32_t i = c - Hangul::syllables;
      add_jamo(Hangul::leads + i / (Hangul::vowel_count * Hangul::trail_count), 0);
      add_jamo(Hangul::vowels + i / Hangul::trail_count % Hangul::vowel_count, 1);
      if (Hangul::has_trail(c)) add_jamo(Hangul::trails + i % Hangul::trail_count, 1);
    } else {
      int change = 0;
      for (const char32_t target : forms.decomposition(properties, is_compatibility))
        add(target, std::exchange(change, 1), forms[target]);
    }
  }
  end_run();
}

// The lower-case letters: a code point, 0 for itself, or `long_letter` for two code points.
class LowerCase {
 public:
  static const LowerCase& get() {
    static const LowerCase made;
    return made;
  }

  static constexpr char32_t long_letter = 0xFFFFFFFF;
  char32_t operator[](char32_t c) const { return table_[c]; }

 private:
  LowerCase() : table_(values()) {}

  static std::vector<char32_t> values() {
    std::vector<char32_t> values(0x110000);
    for (const unicode::Run& run : unicode::lower_case)
      for (char32_t i = 0; i < run.count; ++i) values[run.first + i * run.step] = run.target + i * run.target_step;
    for (std::size_t i = unicode::decomposed_sequences; i < std::size(unicode::sequences); ++i)
      values[unicode::sequences[i].source] = long_letter;
    return values;
  }

  CodePointTable<char32_t> table_;
};

}  // namespace detail

/// Returns the canonical combining class of a code point that does not decompose. The class of others is of no use to
/// normal forms, and 0 here. The code point must be at most U+110000.
inline int combining_class(char32_t code_point) { return detail::NormalForms::get()[code_point].combining_class(); }

/// Returns false if the normal form of a text, which is valid UTF-8, is certainly the text itself.
inline bool changes(NormalForm form, std::string_view text) {
  const char *at = text.data(), *const end = at + text.size();
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  at = std::find_if_not(at, end, is_ascii);
  if (at == end) return false;
  const detail::NormalForms& forms = detail::NormalForms::get();
  for (int last_class = 0; at != end;) {
    const detail::NormalCharacter properties = forms[decode_utf8(at, end)];
    const int combining_class = properties.combining_class();
    if (properties.may_change(form) || (combining_class > 0 && combining_class < last_class)) return true;
    last_class = combining_class;
  }
  return false;
}

/// Calls sink(char32_t code_point, int change) for each character of the normal form of a text. Invalid UTF-8 is read
/// as decode_utf8() reads it. The change is the one of Rust's unicode-normalization-alignments:
/// - 0: the character replaces the next one of the text.
/// - 1: the character is inserted; its source is that of the character before it.
/// - -n: the character replaces the next one of the text and removes the n characters behind that.
///
/// Marks are sorted together with their changes. Thus the characters that a change counts need not be those from which
/// the result was made.
template <class Sink>
void normalize(NormalForm form, std::string_view text, Sink&& sink) {
  using namespace detail;
  const NormalForms& forms = NormalForms::get();
  const bool is_compatible = is_compatibility(form);
  if (composes(form)) {
    Composer composer(forms, sink);
    decompose(forms, is_compatible, text,
              [&](ChangedCharacter next, NormalCharacter properties) { composer.take(next, properties); });
    composer.finish();
  } else {
    decompose(forms, is_compatible, text,
              [&](ChangedCharacter next, NormalCharacter) { sink(next.code_point, next.change); });
  }
}

/// Calls sink(char32_t code_point, int change) for each character of the lower case of a code point, as Rust's
/// char::to_lowercase yields it: change is 0 for the first and 1 for the others. The code point must be at most
/// U+110000.
template <class Sink>
void lower_case(char32_t code_point, Sink&& sink) {
  if (code_point < 0x80) {
    const bool is_upper = code_point >= 'A' && code_point <= 'Z';
    sink(is_upper ? code_point + ('a' - 'A') : code_point, 0);
    return;
  }
  const char32_t lower = detail::LowerCase::get()[code_point];
  if (lower != detail::LowerCase::long_letter) {
    sink(lower ? lower : code_point, 0);
    return;
  }
  int change = 0;
  for (std::size_t i = unicode::decomposed_sequences; i < std::size(unicode::sequences); ++i) {
    if (unicode::sequences[i].source != code_point) continue;
    for (const char32_t target : unicode::sequences[i].targets)
      if (target) sink(target, std::exchange(change, 1));
  }
}

}  // namespace heddle::text
