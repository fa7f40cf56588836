// Random calls of operations that select, move or pool elements and rows.
#include <heddle/heddle.hpp>

#include <numeric>

#include "../../instances.hpp"
#include "families.hpp"

namespace heddle::testing {

namespace {

Sequences draw_sequences(Draw& draw) {
  std::vector<int> lengths;
  for (Index b = draw.between(1, 5); b > 0; --b)
    lengths.push_back(draw.once_in(5) ? 0 : static_cast<int>(draw.extent(draw.once_in(5) ? 300 : 40)));
  const Index longest = *std::max_element(lengths.begin(), lengths.end());
  const Index padded_to = draw.once_in(2) ? longest + draw.between(1, 4) : 0;
  draw.tell("lengths", Catch::Detail::stringify(lengths), "padded", padded_to);
  return padded_to ? Sequences::padded(lengths, padded_to) : Sequences::packed(lengths);
}

template <class A>
Tensor<A> pooled(int which, const Tensor<A>& x, const Sequences& sequences) {
  switch (which) {
    case 0: return mean_rows(x, sequences);
    case 1: return sum_rows(x, sequences);
    case 2: return max_rows(x, sequences);
    case 3: return first_rows(x, sequences);
    case 4: return last_rows(x, sequences);
    default: return unpack(x, sequences);
  }
}
constexpr int pooling_count = 6;

std::vector<int> draw_permutation(Draw& draw, int rank) {
  std::vector<int> axes(static_cast<std::size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  for (int i = rank - 1; i > 0; --i)
    std::swap(axes[static_cast<std::size_t>(i)], axes[static_cast<std::size_t>(draw.between(0, i))]);
  return axes;
}

constexpr PlainErrors exact{.times = 0, .last_bits = 0, .roundings = 0};

template <class T>
void check_permute(Draw& draw) {
  const Shape shape = draw.shape(1, 6, 5000);
  const std::vector<int> axes = draw_permutation(draw, shape.rank());
  draw.tell("permute", shape, Catch::Detail::stringify(axes));
  expect_agrees<T>([=](const auto& in) { return permute(in[0], axes); }, {draw.numbers<T>(shape)}, exact);
}

template <class T>
void check_slice(Draw& draw) {
  const Shape shape = draw.shape(1, 4, 5000);
  const int axis = static_cast<int>(draw.between(0, shape.rank() - 1));
  const Index first = draw.between(0, shape[axis]), last = draw.between(first, shape[axis]);
  draw.tell("slice", shape, "axis", axis, "from", first, "to", last);
  expect_agrees<T>([=](const auto& in) { return slice(in[0], axis, first, last); }, {draw.numbers<T>(shape)}, exact);
}

template <class T>
void check_concat(Draw& draw) {
  const Shape shape = draw.shape(1, 4, 3000);
  const int axis = static_cast<int>(draw.between(0, shape.rank() - 1));
  const Index second = draw.extent(20);
  draw.tell("concat", shape, "axis", axis, "with", second);
  expect_agrees<T>([=](const auto& in) { return concat(in, axis); },
                   {draw.numbers<T>(shape), draw.numbers<T>(shape.with(axis, second)), draw.numbers<T>(shape)}, exact);
}

template <class T>
void check_tril(Draw& draw) {
  const Shape shape = draw.shape(2, 3, 5000);
  const Index diagonal = draw.between(-5, 5);
  draw.tell("tril", shape, "diagonal", diagonal);
  expect_agrees<T>([=](const auto& in) { return tril(in[0], diagonal); }, {draw.numbers<T>(shape)}, exact);
}

template <class T>
void check_expand(Draw& draw) {
  const Shape shape = draw.shape(1, 4, 5000);
  std::vector<Index> extents(shape.begin(), shape.end());
  for (Index& e : extents)
    if (draw.once_in(2)) e = 1;
  const Shape from{std::span<const Index>(extents)};
  draw.tell("expand", from, "to", shape);
  expect_agrees<T>([=](const auto& in) { return expand(in[0], shape); }, {draw.numbers<T>(from)},
                   {.last_bits = 2, .usual_size = size_of_sum(shape.size() / from.size())});
}

// Calls check(I()) with int or int64.
template <class F>
void with_id_type(Draw& draw, F&& check) {
  if (draw.once_in(2))
    check(std::int32_t());
  else
    check(std::int64_t());
}

}  // namespace

void check_pooling(Draw& draw) {
  draw.with_type([&]<class T>(T) {
    const int which = static_cast<int>(draw.between(0, pooling_count - 1));
    draw.tell("pooling", which);
    const Sequences sequences = draw_sequences(draw);
    const Index D = draw.extent(150);
    draw.tell("D", D);
    const PlainErrors accepted = which < 2 ? PlainErrors() : exact;
    expect_agrees<T>([&](const auto& in) { return pooled(which, in[0], sequences.to(in[0].device())); },
                     {draw.numbers<T>({sequences.rows(), D})}, accepted);
  });
}

void check_moves(Draw& draw) {
  draw.with_type([&]<class T>(T) {
    switch (draw.between(0, 4)) {
      case 0: return check_permute<T>(draw);
      case 1: return check_slice<T>(draw);
      case 2: return check_concat<T>(draw);
      case 3: return check_tril<T>(draw);
      default: return check_expand<T>(draw);
    }
  });
}

void check_choices(Draw& draw) {
  draw.with_type([&]<class T>(T) {
    const Shape shape = draw.shape(1, 4, 5000);
    const bool is_fill = draw.once_in(2);
    draw.tell(is_fill ? "masked_fill" : "where", shape);
    Tensor<bool> condition(shape);
    for (Index i = 0; i < shape.size(); ++i) condition.data()[i] = draw.once_in(2);
    expect_agrees<T>(
        [=](const auto& in) {
          const auto there = condition.to(in[0].device());
          return is_fill ? masked_fill(in[0], there, 0.5) : where(there, in[0], in[1]);
        },
        {draw.numbers<T>(shape), draw.numbers<T>(shape)}, exact);
  });
}

void check_embed(Draw& draw) {
  draw.with_type([&]<class T>(T) {
    with_id_type(draw, [&]<class I>(I) {
      const Index V = draw.extent(60), D = draw.extent(130), N = draw.extent(draw.once_in(4) ? 1500 : 100);
      const bool on_device = draw.once_in(2);
      draw.tell("table", Shape{V, D}, "ids", N, "of", sizeof(I), "bytes", on_device ? "on the device" : "on the host");
      const Tensor<I> ids = draw.ids<I>({N}, V);
      expect_agrees<T>([&](const auto& in) { return embed(on_device ? ids.to(in[0].device()) : ids, in[0]); },
                       {draw.numbers<T>({V, D})});
    });
  });
}

void check_gather(Draw& draw) {
  draw.with_type([&]<class T>(T) {
    with_id_type(draw, [&]<class I>(I) {
      const Shape shape = draw.shape(1, 3, 3000);
      const int axis = static_cast<int>(draw.between(0, shape.rank() - 1));
      const bool is_gather = draw.once_in(2);
      const Index taken = draw.extent(60);
      draw.tell(is_gather ? "gather" : "index_select", shape, "axis", axis, "ids", taken, "of", sizeof(I), "bytes");
      const Tensor<I> ids = draw.ids<I>(is_gather ? shape.with(axis, taken) : Shape{taken}, shape[axis]);
      expect_agrees<T>(
          [&](const auto& in) {
            const auto there = ids.to(in[0].device());
            return is_gather ? gather(in[0], axis, there) : index_select(in[0], axis, there);
          },
          {draw.numbers<T>(shape)});
    });
  });
}

void check_topk(Draw& draw) {
  draw.with_type([&]<class T>(T) {
    const Shape shape = draw.shape(1, 3, 5000);
    const int axis = static_cast<int>(draw.between(0, shape.rank() - 1));
    const Index k = draw.between(0, shape[axis]);
    const bool largest = draw.once_in(2);
    draw.tell(shape, "axis", axis, "k", k, "largest", largest);
    Tensor<double> numbers = draw.numbers<T>(shape);
    for (Index i = 0; i < numbers.size(); i += 3) numbers.data()[i] = std::round(numbers.data()[i]);
    const Tensor<T> x = converted<T>(numbers);
    const TopKOptions options{.axis = axis, .largest = largest};
    const auto here = topk(x, k, options), there = topk(x.to(Device::cuda), k, options);
    REQUIRE(there.indices.host() == here.indices.host());
    REQUIRE(same_numbers(there.values.host(), here.values.host()));
  });
}

}  // namespace heddle::testing
