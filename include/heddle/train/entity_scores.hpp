// Precision, recall and F1 of named entities, whose tokens carry tags in the schemes BIO or BIOES. An entity is correct
// if its type and both of its ends are. The rules for tags that do not follow the scheme are those of the CoNLL-2000
// script conlleval and of seqeval.
#pragma once
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <heddle/base/checks.hpp>
#include <heddle/base/printable.hpp>

namespace heddle::train {

/// A named entity of a sequence: tokens [begin, end).
struct Entity {
  std::string type;  ///< its type, such as PER
  Index begin;       ///< first token
  Index end;         ///< the token after the last one

  /// Compares type and tokens.
  friend bool operator==(const Entity&, const Entity&) = default;
  /// Orders by position, then by type.
  friend bool operator<(const Entity& a, const Entity& b) {
    return std::tie(a.begin, a.end, a.type) < std::tie(b.begin, b.end, b.type);
  }
};

namespace detail {

// A tag: O, or a prefix and a type, as in B-PER.
struct EntityTag {
  char prefix = 'O';
  std::string_view type;

  // Returns whether an entity of the tag before ends before this one.
  bool ends(const EntityTag& before) const {
    if (before.prefix == 'O') return false;
    const bool is_last = before.prefix == 'E' || before.prefix == 'S';
    return is_last || prefix == 'B' || prefix == 'S' || prefix == 'O' || before.type != type;
  }
  // Returns whether an entity begins here.
  bool begins(const EntityTag& before) const {
    if (prefix == 'O') return false;
    const bool is_first = prefix == 'B' || prefix == 'S';
    return is_first || before.prefix == 'E' || before.prefix == 'S' || before.prefix == 'O' || before.type != type;
  }
};

// Throws Error for a tag that is neither O nor one of B, I, E and S, a hyphen and a type.
inline EntityTag entity_tag(std::string_view text, std::size_t position) {
  if (text == "O") return {};
  const bool is_tag = text.size() > 2 && text[1] == '-' && std::string_view("BIES").find(text[0]) != text.npos;
  require(is_tag, "entities: tag ", position, " is ", io::quoted_name(text),
          "; a tag is O, or B, I, E or S, a hyphen and a type");
  return {text[0], text.substr(2)};
}

}  // namespace detail

/// Returns the entities of a sequence of tags, such as O, B-PER, I-PER, E-PER or S-LOC, in their order. A tag that its
/// predecessor does not continue begins an entity: I-PER after O or I-LOC. @throws Error for a tag of another form.
inline std::vector<Entity> entities(std::span<const std::string> tags) {
  std::vector<Entity> found;
  detail::EntityTag before;
  Index begin = 0;
  for (std::size_t i = 0; i <= tags.size(); ++i) {
    const detail::EntityTag tag = i < tags.size() ? detail::entity_tag(tags[i], i) : detail::EntityTag();
    if (tag.ends(before)) found.push_back({std::string(before.type), begin, static_cast<Index>(i)});
    if (tag.begins(before)) begin = static_cast<Index>(i);
    before = tag;
  }
  return found;
}

/// The numbers of expected, of predicted and of correct entities, and the shares that follow from them. 0 / 0 is 0.
struct EntityCounts {
  Index expected = 0;   ///< entities of the expected tags
  Index predicted = 0;  ///< entities of the predicted tags
  Index correct = 0;    ///< entities of both

  /// Returns the share of the predicted entities that are correct.
  double precision() const { return ratio(correct, predicted); }
  /// Returns the share of the expected entities that were predicted.
  double recall() const { return ratio(correct, expected); }
  /// Returns the harmonic mean of precision and recall.
  double f1() const { return ratio(2 * correct, expected + predicted); }

 private:
  static double ratio(Index a, Index b) { return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b); }
};

/// Counts the entities of many sequences, by type.
class EntityScores {
 public:
  /// Counts one sequence. @throws ShapeError unless both have the same number of tags, and Error for a tag of another
  /// form than entities() reads.
  void add(std::span<const std::string> expected, std::span<const std::string> predicted) {
    require<ShapeError>(expected.size() == predicted.size(), "EntityScores: ", expected.size(), " expected tags, but ",
                        predicted.size(), " predicted tags");
    const std::vector<Entity> right = entities(expected), answer = entities(predicted);
    const std::set<Entity> known(right.begin(), right.end());
    for (const Entity& e : right) ++types_[e.type].expected;
    for (const Entity& e : answer) {
      EntityCounts& counts = types_[e.type];
      ++counts.predicted;
      counts.correct += static_cast<Index>(known.count(e));
    }
  }

  /// Returns the counts of each type that occurred.
  const std::map<std::string, EntityCounts>& types() const { return types_; }
  /// Returns the counts of all types together, for micro-averaged shares.
  EntityCounts all() const {
    EntityCounts sum;
    for (const auto& [type, counts] : types_) {
      sum.expected += counts.expected;
      sum.predicted += counts.predicted;
      sum.correct += counts.correct;
    }
    return sum;
  }
  /// Returns the mean of the types' F1, each with the same weight; 0 without types.
  double macro_f1() const {
    double sum = 0;
    for (const auto& [type, counts] : types_) sum += counts.f1();
    return types_.empty() ? 0 : sum / static_cast<double>(types_.size());
  }

 private:
  std::map<std::string, EntityCounts> types_;
};

}  // namespace heddle::train
