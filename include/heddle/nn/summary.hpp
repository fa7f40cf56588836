// summary(model): what a model is made of, for people.
#pragma once
#include <iomanip>
#include <map>

#include <heddle/nn/module.hpp>

namespace heddle {

// The tree of a model's modules with the number of parameters in each, and the shape of each tensor.
template <class M>
std::string summary(const M& model) {
  std::map<std::string, Index> totals;
  walk_once(model, [&](const Name& name, const auto& x) {
    if (module::is_buffer<std::remove_cvref_t<decltype(x)>>) return;
    for (std::string path = name.blocks[0]; !path.empty();) {
      const auto dot = path.rfind('.');
      totals[path = dot == std::string::npos ? "" : path.substr(0, dot)] += x.shape().size();
    }
  });
  std::ostringstream text;
  std::vector<std::string> open;  // the modules above the line being written
  const auto line = [&](std::size_t depth, const std::string& what, const std::string& right) {
    text << std::string(2 * depth, ' ') << std::left << std::setw(static_cast<int>(44 - 2 * depth)) << what << right
         << '\n';
  };
  line(0, "model", std::to_string(totals[""]));
  walk(model, [&](const Name& name, const auto& x) {
    std::vector<std::string> path;
    std::istringstream parts(name.blocks[0]);
    for (std::string part; std::getline(parts, part, '.');) path.push_back(part);
    const std::string last = path.back();
    path.pop_back();
    std::size_t same = 0;
    while (same < std::min(open.size(), path.size()) && open[same] == path[same]) ++same;
    std::string above;
    for (std::size_t d = 0; d < path.size(); ++d) {
      above += (d ? "." : "") + path[d];
      if (d >= same) line(d + 1, path[d], std::to_string(totals[above]));
    }
    open = path;
    const bool buffer = module::is_buffer<std::remove_cvref_t<decltype(x)>>;
    line(path.size() + 1, last, x.shape().str() + (buffer ? " buffer" : x.value().requires_grad() ? "" : " frozen"));
  });
  return text.str();
}

}  // namespace heddle
