// Random calls of operations along rows: norms, softmax, losses, and products with a weight.
#include <heddle/heddle.hpp>

#include "../../instances.hpp"
#include "../norms.hpp"
#include "families.hpp"

namespace heddle::testing {

namespace {

// Draws the number of rows and their width, at most about `size` elements.
Shape draw_rows(Draw& draw, Index size) {
  const Index D = draw.extent(draw.once_in(8) ? 9000 : 1100), N = draw.extent(std::max<Index>(size / D, 1));
  draw.tell(Shape{N, D});
  return {N, D};
}

// Draws whether an operand of this shape begins at an address that is aligned to its elements only, and returns its
// numbers. `aligned` then returns the operand itself.
template <class T>
struct Operand {
  Shape shape;
  bool is_shifted;
  Tensor<double> numbers;

  Operand(Draw& draw, const Shape& of)
      : shape(of), is_shifted(draw.once_in(4)), numbers(draw.numbers<T>(is_shifted ? Shape{of.size() + 1} : of)) {
    if (is_shifted) draw.tell("shifted");
  }
  template <class A>
  Tensor<A> in(const Tensor<A>& x) const {
    return is_shifted ? but_first(x, shape) : x;
  }
};

// Returns multiples of 1/8 up to 4. The sum of two of them is exact in bf16.
Tensor<double> draw_eighths(Draw& draw, const Shape& shape) {
  Tensor<double> x = draw.numbers<float>(shape);
  for (Index i = 0; i < x.size(); ++i) x.data()[i] = std::clamp(std::round(x.data()[i] * 8), -32.0, 32.0) / 8;
  return x;
}

// The gradients of gamma and beta are sums over the rows. If there are few, all of them may happen to be near zero.
PlainErrors norm_errors(const Shape& shape) {
  constexpr Index few = 8;
  PlainErrors accepted = gpu_function_errors;
  if (shape[1] < few) accepted.usual_size = size_of_sum(shape[0]);
  return accepted;
}

}  // namespace

void check_layer_norm(Draw& draw) {
  draw.with_type([&]<class T>(T) {
    const Shape shape = draw_rows(draw, 20'000);
    const Operand<T> x(draw, shape);
    expect_agrees<T>([&](const auto& in) { return layer_norm(x.in(in[0]), in[1], in[2]); },
                     {x.numbers, draw.numbers<T>({shape[1]}), draw.numbers<T>({shape[1]})}, norm_errors(shape));
  });
}

// In bf16 the dropout scale 1 / (1 - p) must be a power of two, so that only y is rounded.
void check_residual_layer_norm(Draw& draw) {
  draw.with_type([&]<class T>(T) {
    const Shape shape = draw_rows(draw, 20'000);
    const double p = std::is_same_v<T, bf16> ? draw.one_of({0.0, 0.5}) : draw.one_of({0.0, 0.1, 0.3, 0.9});
    const std::uint64_t seed = draw.seed();
    draw.tell("dropout", p);
    expect_agrees<T>(
        [=](const auto& in) {
          Random random(seed, 1);
          return residual_layer_norm(in[0], in[1], in[2], in[3], 1e-5, p, &random);
        },
        {draw_eighths(draw, shape), draw_eighths(draw, shape), draw.numbers<T>({shape[1]}),
         draw.numbers<T>({shape[1]})},
        norm_errors(shape));
  });
}

void check_rms_norm(Draw& draw) {
  draw.with_type([&]<class T>(T) {
    const Shape shape = draw_rows(draw, 20'000);
    const Operand<T> x(draw, shape);
    expect_agrees<T>([&](const auto& in) { return rms_norm(x.in(in[0]), in[1]); },
                     {x.numbers, draw.numbers<T>({shape[1]})}, norm_errors(shape));
  });
}

// In bf16 the gradient follows from a rounded y.
void check_softmax(Draw& draw) {
  draw.with_type([&]<class T>(T) {
    const bool is_log = draw.once_in(2);
    const Operand<T> x(draw, draw.shape(1, 3, draw.once_in(6) ? 40'000 : 5000));
    const int axis = static_cast<int>(draw.between(0, x.shape.rank() - 1));
    draw.tell(is_log ? "log_softmax" : "softmax", x.shape, "axis", axis);
    const auto f = [&](const auto& in) { return is_log ? log_softmax(x.in(in[0]), axis) : softmax(x.in(in[0]), axis); };
    if constexpr (std::is_same_v<T, bf16>)
      expect_agrees_with_cpu<T>(f, {x.numbers}, roundings_behind_y);
    else
      expect_agrees<T>(f, {x.numbers}, gpu_function_errors);
  });
}

void check_cross_entropy(Draw& draw) {
  draw.with_type([&]<class T>(T) {
    const Shape shape = draw_rows(draw, 20'000);
    Tensor<std::int64_t> labels = draw.ids<std::int64_t>({shape[0]}, shape[1]);
    const std::int64_t ignored = draw.one_of<std::int64_t>({-100, 0});
    for (Index n = 1; n < shape[0]; ++n)
      if (draw.once_in(5)) labels.data()[n] = ignored;
    const double smoothing = draw.one_of({0.0, 0.1, 1.0});
    const Reduction reduction = draw.one_of({Reduction::mean, Reduction::sum, Reduction::none});
    Inputs inputs{draw.numbers<T>(shape)};
    if (draw.once_in(2)) inputs.push_back(rounded<T>(abs(draw.factors<T>({shape[1]}))));
    draw.tell("ignored", ignored, "smoothing", smoothing, "reduction", static_cast<int>(reduction), "weights",
              inputs.size() > 1);
    PlainErrors accepted = gpu_function_errors;
    if (reduction == Reduction::sum) accepted.roundings = 2;  // the losses of the rows are rounded, too
    expect_agrees<T>(
        [&](const auto& in) {
          return cross_entropy(in[0], labels.to(in[0].device()),
                               {.ignore_index = ignored,
                                .class_weights = in.size() > 1 ? in[1] : std::decay_t<decltype(in[0])>(),
                                .label_smoothing = smoothing,
                                .reduction = reduction});
        },
        inputs, accepted);
  });
}

void check_losses(Draw& draw) {
  const Shape shape = draw.shape(1, 3, 5000);
  const Reduction reduction = draw.one_of({Reduction::mean, Reduction::sum, Reduction::none});
  const int which = static_cast<int>(draw.between(0, 2));
  draw.tell("float", shape, "loss", which, "reduction", static_cast<int>(reduction));
  expect_agrees<float>(
      [=](const auto& in) {
        if (which == 0) return mse_loss(in[0], in[1], {.reduction = reduction});
        if (which == 1) return l1_loss(in[0], in[1], {.reduction = reduction});
        return bce_with_logits(in[0], in[1], {.reduction = reduction});
      },
      {draw.numbers<float>(shape), draw.numbers<float>(shape)}, gpu_function_errors);
}

void check_linear(Draw& draw) {
  draw.with_type([&]<class T>(T) {
    const Index N = draw.extent(200), in_width = draw.extent(100), out_width = draw.extent(100);
    const bool has_bias = draw.once_in(2), has_gelu = draw.once_in(2);
    draw.tell(has_gelu ? "linear_gelu" : "linear", Shape{N, in_width}, "to", out_width, "bias", has_bias);
    Inputs inputs{draw.numbers<T>({N, in_width}), draw.numbers<T>({out_width, in_width})};
    if (has_bias) inputs.push_back(draw.numbers<T>({out_width}));
    const auto f = [=](const auto& in) {
      const auto bias = has_bias ? in[2] : std::decay_t<decltype(in[0])>();
      return has_gelu ? linear_gelu(in[0], in[1], bias) : linear(in[0], in[1], bias);
    };
    PlainErrors accepted = gpu_function_errors;
    accepted.usual_size = size_of_sum(std::max({N, in_width, out_width}));
    if (has_gelu && std::is_same_v<T, bf16>)
      expect_as_exact_as_cpu<T>(f, inputs);
    else
      expect_agrees<T>(f, inputs, accepted);
  });
}

void check_matmul(Draw& draw) {
  draw.with_type([&]<class T>(T) {
    const MatmulOptions options{.transpose_a = draw.once_in(2), .transpose_b = draw.once_in(2)};
    const Index M = draw.extent(70), N = draw.extent(70), K = draw.extent(70), B = draw.between(1, 3),
                H = draw.between(1, 3);
    const Shape a{B, H, options.transpose_a ? K : M, options.transpose_a ? M : K};
    const Shape b{B, H, options.transpose_b ? N : K, options.transpose_b ? K : N};
    draw.tell(a, "times", b, "transposed", options.transpose_a, options.transpose_b);
    expect_agrees<T>([=](const auto& in) { return matmul(in[0], in[1], options); },
                     {draw.numbers<T>(a), draw.numbers<T>(b)}, {.usual_size = size_of_sum(std::max({M, N, K}))});
  });
}

}  // namespace heddle::testing
