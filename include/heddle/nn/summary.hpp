// summary(model): a model's structure as text.
#pragma once
#include <memory>
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
};

// The lines of a module in summary(): its tensors and modules, in the order of their first visits.
struct SummaryNode {
  Index total = 0;  // elements of the parameters in it
  struct Item {
    std::string name, right;              // of a tensor
    std::unique_ptr<SummaryNode> module;  // or a module
  };
  std::vector<Item> items;

  SummaryNode& module(const std::string& name) {
    for (const Item& item : items)
      if (item.module && item.name == name) return *item.module;
    items.push_back({name, "", std::make_unique<SummaryNode>()});
    return *items.back().module;
  }
  void write(const std::string& name, std::size_t depth, std::string& text) const {
    const auto line = [&](std::size_t at, const std::string& what, const std::string& right) {
      text += left_aligned(std::string(2 * at, ' ') + what, 43) + ' ' + right + '\n';
    };
    line(depth, name, std::to_string(total));
    for (const Item& item : items)
      if (item.module)
        item.module->write(item.name, depth + 1, text);
      else
        line(depth + 1, item.name, item.right);
  }
};

}  // namespace detail

/// Returns the tree of a model's modules with the number of parameters in each and the shape of each tensor. A shared
/// weight counts once, under its first name. @throws Error for a name that the model visits twice.
template <class M>
std::string summary(const M& model) {
  detail::SummaryNode tree;
  // Adds a number of elements to each module above a tensor, and returns the innermost one.
  const auto add = [&](const detail::ModulePath& place, Index size) -> detail::SummaryNode& {
    detail::SummaryNode* node = &tree;
    node->total += size;
    for (const std::string& name : place.path) (node = &node->module(name))->total += size;
    return *node;
  };
  walk(model, [&](const Name& name, const auto& x) {
    const detail::ModulePath place(name);
    const bool buffer = detail::is_buffer<std::remove_cvref_t<decltype(x)>>;
    const char* const kind = buffer ? " buffer" : x.value().requires_grad() ? "" : " frozen";
    add(place, 0).items.push_back({place.name, x.shape().str() + kind, nullptr});
  });
  walk_once(model, [&](const Name& name, const auto& x) {
    if (!detail::is_buffer<std::remove_cvref_t<decltype(x)>>) add(detail::ModulePath(name), x.shape().size());
  });
  std::string text;
  tree.write("model", 0, text);
  return text;
}

}  // namespace heddle
