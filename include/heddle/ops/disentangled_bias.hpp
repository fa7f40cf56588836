// disentangled_bias(a, z, columns, sequences, scale): the parts of DeBERTa's attention scores that depend on the
// distance between query and key (He et al. 2021). They are gathered from products with the embeddings of distances.
#pragma once
#include <heddle/autograd/record.hpp>
#include <heddle/base/threads.hpp>
#include <heddle/core/create.hpp>
#include <heddle/core/sequences.hpp>

namespace heddle {

/// The columns of the distances i - j between row i of a sequence, a query, and its row j, a key. Columns do not
/// decrease as the distance grows.
struct DistanceColumns {
  Tensor<int> of_distance;  ///< [2 * T - 1] columns of the distances from 1 - T to T - 1
  Tensor<int> first;        ///< [R + 1] place in of_distance of each column's first distance; at the end 2 * T - 1
  Tensor<int> from_first;   ///< [T] columns of the distances 0 to 1 - T, those of query 0 and each key
  Index offset = 0;         ///< what column_of gave for column 0

  /// Computes the columns for sequences of up to T rows. column_of(distance) must not decrease; its number for the
  /// smallest distance becomes column 0. @throws ShapeError for a T below 1, and Error if column_of decreases.
  template <class ColumnOf>
  DistanceColumns(Index T, const ColumnOf& column_of, Device device = Device::cpu) {
    require<ShapeError>(T >= 1, "DistanceColumns: T must be at least 1, got ", T);
    offset = column_of(1 - T);
    std::vector<int> columns, starts;
    for (Index distance = 1 - T; distance < T; ++distance) {
      const Index column = column_of(distance) - offset;
      require(columns.empty() || column >= columns.back(), "DistanceColumns: the column of distance ", distance,
              " is smaller than that of ", distance - 1);
      while (static_cast<Index>(starts.size()) <= column) starts.push_back(static_cast<int>(columns.size()));
      columns.push_back(static_cast<int>(column));
    }
    starts.push_back(static_cast<int>(columns.size()));
    const auto on_device = [&](const std::vector<int>& values) {
      return Tensor<int>({static_cast<Index>(values.size())}, values).to(device);
    };
    of_distance = on_device(columns);
    columns.resize(static_cast<std::size_t>(T));
    from_first = on_device({columns.rbegin(), columns.rend()});
    first = on_device(starts);
  }

  /// Returns the greatest length T.
  Index longest() const { return of_distance.size() / 2 + 1; }
  /// Returns the number of columns R.
  Index count() const { return first.size() - 1; }
};

namespace kernel {

// bias(b, h, i, j) = scale (a(h, i, c) + z(h, j, c)), where rows i and j are those of sequence b and c is the column of
// i - j; 0 beyond the end of the sequence.
template <class T>
void disentangled_bias(Cpu, View<const T, 3> a, View<const T, 3> z, View<const int, 1> column, View<const int, 1> begin,
                       View<const int, 1> length, Acc<T> scale, View<T, 4> bias) {
  using A = Acc<T>;
  const Index H = bias.extent[1], longest = bias.extent[2];
  parallel(bias.extent[0] * H * longest, row_grain(longest), [&](Index from, Index to) {
    for (Index row = from; row < to; ++row) {
      const Index b = row / (H * longest), h = row / longest % H, i = row % longest, L = length(b);
      T* const out = &bias(b, h, i, 0);
      for (Index j = 0; j < longest; ++j) {
        if (i >= L || j >= L) {
          out[j] = static_cast<T>(A(0));
          continue;
        }
        const Index c = column(i - j + longest - 1);
        out[j] =
            static_cast<T>(scale * (static_cast<A>(a(h, begin(b) + i, c)) + static_cast<A>(z(h, begin(b) + j, c))));
      }
    }
  });
}

// da(h, i, c) is scale times the sum of dbias(b, h, i, j) over the keys j whose distance from i has column c, and
// dz(h, j, c) is the same over the queries i. Rows outside all sequences are left as they are.
template <class T>
void disentangled_bias_backward(Cpu, View<const T, 4> dbias, View<const int, 1> first, View<const int, 1> begin,
                                View<const int, 1> length, Acc<T> scale, View<T, 3> da, View<T, 3> dz) {
  using A = Acc<T>;
  const Index H = dbias.extent[1], longest = dbias.extent[2], R = da.extent[2];
  parallel(dbias.extent[0] * H * longest, row_grain(longest), [&](Index from, Index to) {
    for (Index row = from; row < to; ++row) {
      const Index b = row / (H * longest), h = row / longest % H, t = row % longest, L = length(b);
      if (t >= L) continue;
      for (Index c = 0; c < R; ++c) {
        A of_query = 0, of_key = 0;
        for (Index place = first(c); place < first(c + 1); ++place) {
          const Index distance = place - (longest - 1), j = t - distance, i = t + distance;
          if (j >= 0 && j < L) of_query += static_cast<A>(dbias(b, h, t, j));
          if (i >= 0 && i < L) of_key += static_cast<A>(dbias(b, h, i, t));
        }
        da(h, begin(b) + t, c) = static_cast<T>(scale * of_query);
        dz(h, begin(b) + t, c) = static_cast<T>(scale * of_key);
      }
    }
  });
}

}  // namespace kernel

/// Returns the bias that attention() adds to the scaled scores, [B, H, T, T]: for query i and key j of a sequence,
/// scale * (content_to_position[h, i, c] + position_to_content[h, j, c]), where c is the column of i - j. The first are
/// the products of the queries with the keys of R distances, and the second those of the keys with their queries. T is
/// columns.longest(); beyond the end of a sequence the bias is 0. @throws ShapeError unless both products are [H,
/// sequences.rows(), R] and T is sequences.extent(); Error for another device and for a scale that is not finite.
template <Floating T>
Tensor<T> disentangled_bias(const Tensor<T>& content_to_position, const Tensor<T>& position_to_content,  // [H, N, R]
                            const DistanceColumns& columns, const Sequences& sequences, double scale) {
  const Tensor<T>&a = content_to_position, &z = position_to_content;
  require_rank("disentangled_bias", {"content_to_position", a}, 3);
  require_same_device("disentangled_bias", {"content_to_position", a}, {"position_to_content", z});
  require<ShapeError>(a.shape() == z.shape(), "disentangled_bias: content_to_position ", a.shape(),
                      " and position_to_content ", z.shape(), " must have the same shape");
  require<ShapeError>(a.dim(1) == sequences.rows() && a.dim(2) == columns.count(),
                      "disentangled_bias: the products must be [H, ", sequences.rows(), ", ", columns.count(),
                      "] for these sequences and columns, got ", a.shape());
  const Index longest = sequences.extent();
  require<ShapeError>(longest == columns.longest(), "disentangled_bias: the columns are those of ", columns.longest(),
                      " rows; the sequences have ", longest);
  require(a.device() == sequences.device() && a.device() == columns.first.device(),
          "disentangled_bias: products, columns and sequences must be on one device");
  require(std::isfinite(scale), "disentangled_bias: the scale must be finite, got ", scale);
  const auto factor = static_cast<Acc<T>>(scale);
  Tensor<T> bias({sequences.count(), a.dim(0), longest, longest}, a.device());
  dispatch(a, [&](auto device) {
    kernel::disentangled_bias(device, view<3>(a), view<3>(z), view<1>(columns.of_distance), view<1>(sequences.begin()),
                              view<1>(sequences.length()), factor, view<4>(bias));
  });
  return record("disentangled_bias", bias, inputs(a, z), [=](const Tensor<T>& dbias) {
    const auto room = [&] { return sequences.fill_all_rows() ? empty_like(a) : zeros<T>(a.shape(), a.device()); };
    Tensor<T> da = room(), dz = room();
    dispatch(a, [&](auto device) {
      kernel::disentangled_bias_backward(device, view<4>(dbias), view<1>(columns.first), view<1>(sequences.begin()),
                                         view<1>(sequences.length()), factor, view<3>(da), view<3>(dz));
    });
    return std::tuple(da, dz);
  });
}

template <std::integral T, class... Others>
void disentangled_bias(const Tensor<T>&, const Others&...) = delete;  // needs cast<float>(x)

}  // namespace heddle
