// Precision, recall and F1 of named entities, whose tokens carry tags in the schemes BIO or BIOES. An entity is correct
// if its type and both of its ends are. The rules for tags that do not follow the scheme are those of the CoNLL-2000
// script conlleval and of seqeval.
#pragma once
#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <heddle/base/checks.hpp>
#include <heddle/base/printable.hpp>
#include <heddle/train/match_counts.hpp>

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

/// The numbers of expected, of predicted and of correct entities.
using EntityCounts = MatchCounts;

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
    for (const auto& [type, counts] : types_) sum += counts;
    return sum;
  }
  /// Returns the mean of the types' F1, each with the same weight; 0 without types.
  double macro_f1() const {
    double sum = 0;
    for (const auto& [type, counts] : types_) sum += counts.f1();
    return types_.empty() ? 0 : sum / static_cast<double>(types_.size());
  }

  /// Returns the counts of these types as numbers. The types are distinct. Several processes with the same list add the
  /// numbers up and give the sums to add_sums() of new scores. @throws Error for a type that occurred and is not in the
  /// list.
  std::vector<double> sums(std::span<const std::string> types) const {
    for (const auto& [type, counts] : types_)
      require(std::find(types.begin(), types.end(), type) != types.end(), "EntityScores: the type ",
              io::quoted_name(type), " occurred, but is not in the list of types");
    std::vector<double> numbers;
    for (const std::string& type : types) {
      const auto found = types_.find(type);
      detail::append_numbers(found == types_.end() ? EntityCounts() : found->second, numbers);
    }
    return numbers;
  }
  /// Adds the counts of other sequences, as sums() returns them for the same list. A type whose counts are all 0 did
  /// not occur. @throws ShapeError for another number of sums, and Error for a number that is not a count.
  void add_sums(std::span<const std::string> types, std::span<const double> sums) {
    require<ShapeError>(sums.size() == detail::numbers_of_counts * types.size(), "EntityScores: ", sums.size(),
                        " sums, but ", types.size(), " types have ", detail::numbers_of_counts * types.size());
    std::map<std::string, EntityCounts> sum = types_;  // a copy, because a number may be refused
    for (std::size_t i = 0; i < types.size(); ++i) {
      const EntityCounts counts = detail::counts_from_numbers(sums, i);
      if (counts.expected + counts.predicted > 0) sum[types[i]] += counts;
    }
    types_ = std::move(sum);
  }

 private:
  std::map<std::string, EntityCounts> types_;
};

}  // namespace heddle::train
