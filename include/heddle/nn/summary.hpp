// summary(model): a model's structure as text.
#pragma once
#include <map>
#include <sstream>

#include <heddle/nn/module.hpp>

namespace heddle {

namespace detail {

// The path of a weight in the tree of modules. A combined parameter belongs to the innermost module that contains all
// of its blocks, and its name lists the names of all blocks.
struct ModulePath {
  std::vector<std::string> path;
  std::string name;

  explicit ModulePath(const Name& full) {
    std::size_t above = full.blocks[0].rfind('.') + 1;  // 0 where there is no dot
    while (above > 0 && !std::all_of(full.blocks.begin(), full.blocks.end(), [&](const std::string& block) {
             return block.compare(0, above, full.blocks[0], 0, above) == 0;
           }))
      above = above < 2 ? 0 : full.blocks[0].rfind('.', above - 2) + 1;
    std::istringstream parts(full.blocks[0].substr(0, above));
    for (std::string part; std::getline(parts, part, '.');) path.push_back(part);
    for (const std::string& block : full.blocks) name += (name.empty() ? "" : " | ") + block.substr(above);
  }
  // Returns the full name of the module that the first `depth` names of the path lead to.
  std::string above(std::size_t depth) const {
    std::string joined;
    for (std::size_t d = 0; d < depth; ++d) joined += (d ? "." : "") + path[d];
    return joined;
  }
};

}  // namespace detail

/// Returns the tree of a model's modules with the number of parameters in each and the shape of each tensor. A shared
/// weight counts once, under its first name. @throws Error for a name that the model visits twice.
template <class M>
std::string summary(const M& model) {
  std::map<std::string, Index> totals;
  walk_once(model, [&](const Name& name, const auto& x) {
    if (detail::is_buffer<std::remove_cvref_t<decltype(x)>>) return;
    const detail::ModulePath place(name);
    for (std::size_t depth = 0; depth <= place.path.size(); ++depth) totals[place.above(depth)] += x.shape().size();
  });
  std::string text;
  std::vector<std::string> open;  // the modules above the line being written
  const auto line = [&](std::size_t depth, const std::string& what, const std::string& right) {
    text += detail::left_aligned(std::string(2 * depth, ' ') + what, 43) + ' ' + right + '\n';
  };
  line(0, "model", std::to_string(totals[""]));
  walk(model, [&](const Name& name, const auto& x) {
    const detail::ModulePath place(name);
    std::size_t same = 0;
    while (same < std::min(open.size(), place.path.size()) && open[same] == place.path[same]) ++same;
    for (std::size_t d = same; d < place.path.size(); ++d)
      line(d + 1, place.path[d], std::to_string(totals[place.above(d + 1)]));
    open = place.path;
    const bool buffer = detail::is_buffer<std::remove_cvref_t<decltype(x)>>;
    line(place.path.size() + 1, place.name,
         x.shape().str() + (buffer                      ? " buffer"
                            : x.value().requires_grad() ? ""
                                                        : " frozen"));
  });
  return text;
}

}  // namespace heddle
