// Compares operations with PyTorch on random shapes, axes and options: the cases of tests/golden/random.txt.
#include <heddle/heddle.hpp>

#include <set>

#include "harness/golden.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

// --- The options of a case, as heddle's functions take them ---

int axis_of(const Case& c) { return static_cast<int>(c.option("axis")); }
bool keepdim_of(const Case& c) { return c.option("keepdim", 0) != 0; }

// Returns the axis or the axes of a reduction; an empty list means all.
std::vector<int> axes_of(const Case& c) {
  const auto listed = c.list(c.has("axis") ? "axis" : "axes");
  return std::vector<int>(listed.begin(), listed.end());
}

Reduction reduction_of(const Case& c) {
  static const std::map<std::string, Reduction> reductions{{"mean", Reduction::mean},
                                                           {"sum", Reduction::sum},
                                                           {"none", Reduction::none},
                                                           {"batch_mean", Reduction::batch_mean}};
  return reductions.at(c.word("reduction"));
}

Sequences sequences_of(const Case& c, Device device) {
  const auto lengths = c["length"].as<int>();
  return (c.has("padded_to") ? Sequences::padded(lengths, static_cast<Index>(c.option("padded_to")))
                             : Sequences::packed(lengths))
      .to(device);
}

// Calls f with the ids of the case, which are int in every other case and std::int64_t in the rest.
template <class F>
auto with_ids(const Case& c, Device device, F f) {
  return static_cast<int>(golden_number(c.label)) % 2 ? f(golden_tensor<int>(c, "ids", device))
                                                      : f(golden_tensor<std::int64_t>(c, "ids", device));
}

template <class T>
TopK<T> topk_of(const Case& c, const Tensor<T>& x) {
  return topk(x, static_cast<Index>(c.option("k")), {.axis = axis_of(c), .largest = c.option("largest") != 0});
}

// --- Operations with floating-point results, one function per family. It returns an empty tensor for one of another fa

template <class T>
Tensor<T> random_elementwise(const Case& c, const std::vector<Tensor<T>>& x) {
  const std::string& op = c.name;
  if (op == "abs") return abs(x[0]);
  if (op == "log1p") return log1p(x[0]);
  if (op == "erf") return erf(x[0]);
  if (op == "softplus") return softplus(x[0]);
  if (op == "silu") return silu(x[0]);
  if (op == "minimum") return minimum(x[0], x[1]);
  if (op == "maximum") return maximum(x[0], x[1]);
  if (op == "clamp" && !c.has("max")) return clamp(x[0], {.min = c.option("min")});
  if (op == "clamp" && !c.has("min")) return clamp(x[0], {.max = c.option("max")});
  if (op == "clamp") return clamp(x[0], {.min = c.option("min"), .max = c.option("max")});
  if (op == "pow_number") return pow(x[0], c.option("exponent"));
  if (op == "number_pow") return pow(c.option("base"), x[0]);
  if (op == "pow") return pow(x[0], x[1]);
  return {};
}

template <class T>
Tensor<T> random_reduction(const Case& c, const std::vector<Tensor<T>>& x) {
  const std::string& op = c.name;
  const bool has_axes = c.has("axis") || c.has("axes"), keepdim = keepdim_of(c);
  if (op == "min") return has_axes ? min(x[0], axis_of(c), keepdim) : min(x[0]);
  if (op == "var" && !has_axes) return var(x[0]);
  if (op == "std" && !has_axes) return heddle::std(x[0]);
  if (op == "norm" && !has_axes) return norm(x[0]);
  if (!has_axes) return {};
  const std::vector<int> axes = axes_of(c);
  if (op == "sum") return sum(x[0], axes, keepdim);
  if (op == "mean") return mean(x[0], axes, keepdim);
  if (op == "max") return max(x[0], axes, keepdim);
  if (op == "logsumexp") return logsumexp(x[0], axes, keepdim);
  if (op == "var") return var(x[0], axes, {.correction = c.option("correction"), .keepdim = keepdim});
  if (op == "std") return heddle::std(x[0], axes, {.correction = c.option("correction"), .keepdim = keepdim});
  if (op == "norm") return norm(x[0], c.option("p"), axes, keepdim);
  return {};
}

template <class T>
Tensor<T> random_selection(const Case& c, const std::vector<Tensor<T>>& x) {
  const std::string& op = c.name;
  const Device device = x[0].device();
  if (op == "gather") return with_ids(c, device, [&](const auto& ids) { return gather(x[0], axis_of(c), ids); });
  if (op == "index_select")
    return with_ids(c, device, [&](const auto& ids) { return index_select(x[0], axis_of(c), ids); });
  if (op == "topk") return topk_of(c, x[0]).values;
  if (op == "max_rows") return max_rows(x[0], sequences_of(c, device));
  if (op == "last_rows") return last_rows(x[0], sequences_of(c, device));
  if (op == "sum_rows") return sum_rows(x[0], sequences_of(c, device));
  return {};
}

template <class T>
Tensor<T> random_reshaping(const Case& c, const std::vector<Tensor<T>>& x) {
  const std::string& op = c.name;
  if (op == "stack") {
    std::vector<Tensor<T>> present;
    std::copy_if(x.begin(), x.end(), std::back_inserter(present), [](const Tensor<T>& xi) { return bool(xi); });
    return stack(present, axis_of(c));
  }
  if (op == "split") {
    std::vector<Tensor<T>> parts = c.has("sizes") ? split(x[0], c.list("sizes"), axis_of(c))
                                                  : split(x[0], static_cast<Index>(c.option("size")), axis_of(c));
    std::reverse(parts.begin(), parts.end());
    return concat(parts, axis_of(c));
  }
  if (op == "unsqueeze") return unsqueeze(x[0], axis_of(c));
  if (op == "squeeze") return c.has("axis") ? squeeze(x[0], axis_of(c)) : squeeze(x[0]);
  if (op == "expand") return expand(x[0], Shape(std::span<const Index>(c.list("shape"))));
  if (op == "tril") return tril(x[0], static_cast<Index>(c.option("diagonal")));
  return {};
}

template <class T>
Tensor<T> random_loss(const Case& c, const std::vector<Tensor<T>>& x) {
  const std::string& op = c.name;
  const auto constant = [&](const std::string& role) { return golden_tensor<T>(c, role, x[0].device()); };
  if (op == "cosine_similarity")
    return c.has("axis") ? cosine_similarity(x[0], x[1], axis_of(c), c.option("eps")) : cosine_similarity(x[0], x[1]);
  if (op == "normalize")
    return c.has("axis") ? normalize(x[0], {.p = c.option("p"), .axis = axis_of(c), .eps = c.option("eps")})
                         : normalize(x[0]);
  if (!c.has("reduction")) return {};
  const Reduction reduction = reduction_of(c);
  if (op == "mse_loss") return mse_loss(x[0], x[1], {.reduction = reduction});
  if (op == "l1_loss") return l1_loss(x[0], x[1], {.reduction = reduction});
  if (op == "bce_with_logits")
    return bce_with_logits(
        x[0], x[1], {.weight = constant("weight"), .pos_weight = constant("pos_weight"), .reduction = reduction});
  if (op == "kl_div") return kl_div(x[0], x[1], {.log_target = c.option("log_target") != 0, .reduction = reduction});
  if (op == "cross_entropy")
    return cross_entropy(x[0], golden_tensor<std::int64_t>(c, "labels", x[0].device()),
                         {.ignore_index = static_cast<std::int64_t>(c.option("ignore_index", -100)),
                          .class_weights = constant("class_weights"),
                          .label_smoothing = c.option("label_smoothing", 0),
                          .reduction = reduction});
  return {};
}

template <class T>
Tensor<T> random_floating(const Case& c, const std::vector<Tensor<T>>& x) {
  for (const auto family :
       {random_elementwise<T>, random_reduction<T>, random_selection<T>, random_reshaping<T>, random_loss<T>})
    if (const Tensor<T> y = family(c, x)) return y;
  throw Error("random_cases: there is no op '" + c.name + '\'');
}

// --- Ops whose results are bools or indices ---

template <class T>
Tensor<bool> random_bool(const Case& c, const std::vector<Tensor<T>>& x) {
  const std::string& op = c.name;
  if (op == "logical_and") return logical_and(x[0], x[1]);
  if (op == "logical_or") return logical_or(x[0], x[1]);
  if (op == "logical_not") return logical_not(x[0]);
  if (op == "any") return c.has("axis") ? any(x[0], axis_of(c), keepdim_of(c)) : any(x[0]);
  if (op == "all") return c.has("axis") ? all(x[0], axis_of(c), keepdim_of(c)) : all(x[0]);
  if (op == "isnan") return isnan(x[0]);
  if (op == "isfinite") return isfinite(x[0]);
  const auto compared = [&](const auto& a, const auto& b) {
    if (op == "eq") return a == b;
    if (op == "ne") return a != b;
    if (op == "lt") return a < b;
    if (op == "le") return a <= b;
    if (op == "gt") return a > b;
    if (op == "ge") return a >= b;
    throw Error("random_cases: there is no op '" + op + '\'');
  };
  if constexpr (!std::is_integral_v<T>) {
    if (c.has("left")) return compared(c.option("left"), x[2]);
    if (c.has("right")) return compared(x[2], c.option("right"));
  }
  return compared(x[0], x[1]);
}

template <class T>
Tensor<Index> random_index(const Case& c, const std::vector<Tensor<T>>& x) {
  const std::string& op = c.name;
  if (op == "argmin") return argmin(x[0], axis_of(c), keepdim_of(c));
  if (op == "topk") return topk_of(c, x[0]).indices;
  throw Error("random_cases: there is no op '" + op + '\'');
}

// --- The operations, and the roles of their inputs ---

struct RandomOp {
  const char* name;
  std::vector<std::string> roles;
  double roundings = 8;  // the tolerance of expect_golden
};

const std::vector<RandomOp> random_floating_ops{
    {"abs", {"x"}},
    {"log1p", {"x"}},
    {"erf", {"x"}},
    {"softplus", {"x"}},
    {"silu", {"x"}, 10},  // the derivative adds terms that cancel
    {"minimum", {"a", "b"}},
    {"maximum", {"a", "b"}},
    {"clamp", {"x"}},
    {"pow_number", {"x"}},
    {"number_pow", {"x"}},
    {"pow", {"a", "b"}},
    {"sum", {"x"}},
    {"mean", {"x"}},
    {"max", {"x"}},
    {"min", {"x"}},
    {"logsumexp", {"x"}},
    {"var", {"x"}},
    {"std", {"x"}},
    {"norm", {"x"}},
    {"gather", {"x"}},
    {"index_select", {"x"}},
    {"topk", {"x"}},
    {"max_rows", {"x"}},
    {"last_rows", {"x"}},
    {"sum_rows", {"x"}},
    {"stack", {"x0", "x1", "x2"}},
    {"split", {"x"}},
    {"unsqueeze", {"x"}},
    {"squeeze", {"x"}},
    {"expand", {"x"}},
    {"tril", {"x"}},
    {"mse_loss", {"x", "target"}},
    {"l1_loss", {"x", "target"}},
    {"bce_with_logits", {"x", "target"}},
    {"kl_div", {"input", "target"}},
    {"cross_entropy", {"logits"}},
    {"cosine_similarity", {"a", "b"}},
    {"normalize", {"x"}},
};

const std::vector<RandomOp> random_bool_ops{
    {"eq", {"a", "b", "x"}}, {"ne", {"a", "b", "x"}}, {"lt", {"a", "b", "x"}},     {"le", {"a", "b", "x"}},
    {"gt", {"a", "b", "x"}}, {"ge", {"a", "b", "x"}}, {"logical_and", {"a", "b"}}, {"logical_or", {"a", "b"}},
    {"logical_not", {"x"}},  {"isnan", {"x"}},        {"isfinite", {"x"}},         {"any", {"x"}},
    {"all", {"x"}},
};
// Ops of x that return indices, with the role of those indices in a case.
const std::map<std::string, std::string> random_index_ops{{"argmin", "y"}, {"topk", "indices"}};

template <class F>
void for_floating_types(F check) {
  check(double());
  check(float());
  check(bf16());
}
// Calls check(T()) for the element type of the case's inputs; floating inputs are checked in all three floating types.
template <class F>
void for_types_of(const Case& c, F check) {
  const std::string& dtype = c.tensors.begin()->second.dtype;  // the first tensor is an input
  if (dtype == "i64") return check(std::int64_t());
  if (dtype == "bool") return check(bool());
  for_floating_types(check);
}

}  // namespace

TEST_CASE("random cases: each operation has 30, and each is compared") {
  std::set<std::string> compared{"one_hot"}, written;
  for (const auto* ops : {&random_floating_ops, &random_bool_ops})
    for (const RandomOp& op : *ops) compared.insert(op.name);
  for (const auto& [op, result] : random_index_ops) compared.insert(op);
  for (const auto& [op, cases] : golden_file("random.txt")) {
    CAPTURE(op);
    CHECK(cases.size() == 30);
    written.insert(op);
  }
  CHECK(written == compared);
}

TEST_CASE("random cases: values and gradients are PyTorch's") {
  for (const RandomOp& op : random_floating_ops) DYNAMIC_SECTION(op.name) {
      expect_golden(
          golden(op.name, "random.txt"), op.roles, [](const Case& c, const auto& x) { return random_floating(c, x); },
          op.roundings);
    }
}

TEST_CASE("random cases: bools are PyTorch's") {
  for (const RandomOp& op : random_bool_ops) DYNAMIC_SECTION(op.name) {
      for (const Case& c : golden(op.name, "random.txt")) {
        INFO(c.name << ' ' << c.label);
        for_types_of(c, [&]<class T>(T) {
          expect_exact_case<T>(c, op.roles, "y", [&](const auto& x) { return random_bool(c, x); });
        });
      }
    }
}

TEST_CASE("random cases: indices are PyTorch's") {
  for (const auto& [op, result] : random_index_ops) DYNAMIC_SECTION(op) {
      for (const Case& c : golden(op, "random.txt")) {
        INFO(c.name << ' ' << c.label);
        for_floating_types([&, name = result]<class T>(T) {
          expect_exact_case<T>(c, {"x"}, name, [&](const auto& x) { return random_index(c, x); });
        });
      }
    }
  DYNAMIC_SECTION("one_hot") {
    for (const Case& c : golden("one_hot", "random.txt")) {
      INFO(c.name << ' ' << c.label);
      const auto check = [&]<class Id>(Id) {
        const auto classes = static_cast<Index>(c.option("classes"));
        expect_exact_case<Id>(c, {"ids"}, "y", [&](const auto& ids) { return one_hot(ids[0], classes); });
      };
      check(int());
      check(std::int64_t());
    }
  }
}
